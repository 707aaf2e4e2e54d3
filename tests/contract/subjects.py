"""What the contract is asked of: every estimator, and a model of every kind that has files.

Estimators come from `sapwood.__all__` and from the registry of methods, kinds of models from the
registry of kinds, so that a new one joins by being registered. It may need a line here: in `OWN`
for parameters that make it fast, in `DATA` when it learns from something new.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.papers.targets import dyck
from tests import arc_toys

import sapwood as sw
from sapwood.constituency.learn.pcfg import TreebankEstimator
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.learner import Estimator, HiddenTreeParameters
from sapwood.core.model_files import HOMES, SavedModel
from sapwood.dependency.learn import ARC_METHODS
from sapwood.dependency.learn.crf import ArcEstimator
from sapwood.dependency.learn.moments import ArcParameters, ChainParameters
from sapwood.hankel.learn import BRACKET_METHODS, STRING_METHODS
from sapwood.identify.model.uniform_trees import UniformTreeModel
from sapwood.lm.learn import EMBEDDING_METHODS, LM_METHODS
from sapwood.lm.learn.eigenwords import WordEmbedding
from sapwood.lm.learn.latent import LanguageEstimator

N_TREES = 60
SMALL = {"n_states": 2, "iterations": 1, "passes": 1}  # for those that have such parameters
OWN: dict[str, dict[str, Any]] = {
    "ArcEnsemble": {"members": 2, "folds": 2, "encoder_passes": 1},
    "LatentArcCRF": {"folds": 2},
    "ArcReranker": {"folds": 2, "list_folds": 2, "n_best": 4, "list_passes": 1},
    "EnsembleLPCFG": {"plan": [sw.Candidate("spectral", 2), sw.Candidate("em", 2, "right")]},
    "EMWCFG": {"iterations": 3, "starts": 1},
    "KneserNey": {"order": 2},
    "LatentKneserNey": {"order": 2},
    "PivotBigram": {"n_states": 2},
    "PivotLPCFG": {"iterations": 0},
    "WordEmbedding": {"dimension": 3},
    "SpanEncoder": {"width": 6, "hidden": 5},
    "SpectralWCFG": {"basis": 0.05},
    "SpectralWFA": {"basis": 0.5},
    "UnmixDEPIES": {"iterations": 20, "refine": "em", "max_length": 4},
    "UnmixPCFGIE": {"iterations": 500, "refine": "em", "max_length": 3},
    "UnsupervisedWCFG": {"solver": "direct"},
}


@cache
def bank() -> sw.Treebank:
    """A small treebank."""
    few = sw.bundled_treebank("dev")[:N_TREES]
    return sw.Treebank.from_trees(list(few))  # with its own words and labels only


@cache
def sentences() -> list[list[str]]:
    """Sentences whose hidden trees are uniform, of a grammar that can be told from them."""
    swap = {"root": np.array([0.25, 0.75]), "argument": np.array([[0.7, 0.1], [0.3, 0.9]])}
    model = UniformTreeModel("dep-ies", ("a", "b"), swap)
    return model.sample([2] * 4000 + [3] * 4000 + [4] * 100, seed=1)


@cache
def arcs() -> list[Any]:
    """Dependency trees whose tags depend on each other."""
    rng = np.random.default_rng(2)
    shapes = ([2, 0, 2], [2, 0, 4, 2], [0, 1], [3, 3, 0, 3, 4])
    out = []
    for number in range(N_TREES):
        heads = shapes[number % len(shapes)]
        tags = ["NVD"[(head + (rng.random() < 0.2)) % 3] for head in heads]
        words = [f"{tag.lower()}{rng.integers(3)}" for tag in tags]
        out.append(sw.Arcs(words, heads, upos=tags))
    return out


@cache
def strings() -> list[list[str]]:
    """Balanced brackets."""
    return [tree.words() for tree in brackets()]


@cache
def brackets() -> list[sw.Tree]:
    """The same with their brackets."""
    return [tree for tree in dyck().sample(400) if len(tree.words()) < 13]


# base class: what its estimators learn from
DATA: dict[type[Estimator], Callable[[], Any]] = {
    TreebankEstimator: bank,
    HiddenTreeParameters: sentences,
    ArcParameters: arcs,
    ChainParameters: lambda: sentences()[4000:8100:10],
    WordEmbedding: lambda: [tree.words() for tree in bank()],
    sw.SpectralWCFG: brackets,
    sw.SpectralWFA: strings,
    sw.UnsupervisedWCFG: strings,
    sw.EMWCFG: strings,
    ArcEstimator: lambda: arc_toys.bank(40),
    LanguageEstimator: sentences,
}


def _public(name: str) -> type[Estimator] | None:
    found = getattr(sw, name)
    return found if isinstance(found, type) and issubclass(found, Estimator) else None


def all_estimators() -> dict[str, type[Estimator]]:
    """Classes of estimators: all public ones, and those of all methods."""
    registries = (
        METHODS, ARC_METHODS, LM_METHODS, EMBEDDING_METHODS, STRING_METHODS, BRACKET_METHODS,
    )  # fmt: skip
    methods = [method for registry in registries for method in registry.values()]
    public = filter(None, map(_public, sw.__all__))
    return {found.__name__: found for found in (*public, *(x.estimator for x in methods))}


ESTIMATORS = all_estimators()
OF_TREES = [name for name, kind in ESTIMATORS.items() if issubclass(kind, TreebankEstimator)]
OF_ARCS = [name for name, kind in ESTIMATORS.items() if issubclass(kind, ArcEstimator)]
OF_STRINGS = ["SpectralWCFG", "UnsupervisedWCFG", "EMWCFG"]  # grammars, not automata


def subclasses(kind: type) -> set[type]:
    """All classes below a class."""
    below = kind.__subclasses__()
    return set(below).union(*map(subclasses, below))


def make(name: str, **given: Any) -> Any:
    """A small estimator."""
    kind = ESTIMATORS[name]
    small = {key: value for key, value in SMALL.items() if key in kind.parameters()}
    return kind(**{**small, **OWN.get(name, {}), **given})


def data_for(name: str) -> Any:
    """What an estimator learns from."""
    bases = [base for base in DATA if issubclass(ESTIMATORS[name], base)]
    assert len(bases) == 1, f"tests/contract/subjects.py has no DATA for {name}"
    return DATA[bases[0]]()


@cache
def fitted(name: str) -> Any:
    """A small estimator that has learnt; shared, so nobody may change it."""
    return make(name).fit(data_for(name))


@cache
def model(kind: str) -> SavedModel:
    """A model of a kind: that of the first estimator that learns such ones."""
    for name in ESTIMATORS:
        found: SavedModel = fitted(name).model_
        if type(found).__name__ == kind:
            return found
    raise AssertionError(f"no estimator learns a {kind}: give tests/contract/subjects.py one")


KINDS = list(HOMES)


def contents(learnt: SavedModel, folder: Path) -> bytes:
    """The file of a model."""
    path = folder / "contents.sapwood"
    learnt.save(path)
    return path.read_bytes()
