"""The models that a server starts with: those of files, or the bundled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from sapwood.web.models import ARCS, TEXT, TREES, LoadedModel, describe_loaded, model_kind

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.corpora.tree import Tree

_READING = RLock()


def models_from_files(
    names: Sequence[str],
    load: Callable[[str], Any],
    trees: Callable[[], Sequence[Tree]] | None,
) -> Iterator[LoadedModel]:
    """Models from files, loaded at once so that a wrong file is reported when the server starts."""
    taken: set[str] = set()
    for name in names:
        model, is_bundled = load(name), name == "bundled"
        stem = Path(name).name.removesuffix(".sapwood") or name
        short = stem if stem not in taken else f"{stem}-{len(taken) + 1}"
        taken.add(short)
        kind = model_kind(model)
        yield LoadedModel(
            short, partial(_same, model), kind=kind, about=describe_loaded(model),
            trees=None if kind != TREES else bundled_trees if is_bundled else trees,
        )  # fmt: skip


def _same(model: Any) -> Any:
    return model


def bundled_models() -> Iterator[LoadedModel]:
    """The hand-written grammar, and models that are learnt from the bundled trees at first use."""

    def trees_model(name: str, make: Callable[[], Any], about: str, *traits: Any) -> LoadedModel:
        names = ("method", "n_members", "can_sample")
        known = dict(zip(names, traits, strict=True)) if traits else None
        return LoadedModel(name, make, kind=TREES, trees=bundled_trees, traits=known, about=about)

    yield trees_model(
        "bundled", _grammar, "The hand-written grammar that the bundled trees were drawn from",
        "hand-written", 0, True,
    )  # fmt: skip
    yield trees_model(
        "bundled-cluster", _cluster,
        "Eight states a label, learnt as clusters of the nodes of the bundled trees",
    )  # fmt: skip
    yield trees_model(
        "bundled-spectral", _spectral,
        "Learnt from the bundled trees by the spectral method, eight states a label",
        "spectral", 0, False,
    )  # fmt: skip
    yield trees_model(
        "bundled-mix", _mix,
        "A mix of three grammars learnt from the bundled trees: pcfg, spectral, cluster",
        "mix", 3, True,
    )  # fmt: skip
    yield LoadedModel(
        "bundled-arcs", _arcs, kind=ARCS,
        traits={"method": "first", "n_members": 0, "can_sample": False},
        about="A dependency parser learnt from the heads of the bundled trees",
    )  # fmt: skip
    yield LoadedModel(
        "bundled-text", _text, kind=TEXT,
        traits={"method": "em", "n_members": 0, "can_sample": False},
        about="A language model learnt from the bundled sentences by EM, eight states",
    )  # fmt: skip


@cache
def _bank_and_trees() -> tuple[Treebank, list[Tree]]:
    from sapwood.constituency.data.treebank import bundled_treebank

    bank = bundled_treebank("train")
    return bank, list(bank)


def bundled_bank() -> Treebank:
    """The bundled training trees, read once by one thread while the others wait."""
    with _READING:
        return _bank_and_trees()[0]


def bundled_trees() -> Sequence[Tree]:
    """The bundled training trees as objects."""
    with _READING:
        return _bank_and_trees()[1]


def _grammar() -> Model:
    from sapwood.constituency.grammar.from_text import bundled_grammar

    return bundled_grammar()


def _spectral() -> LatentGrammar:
    from sapwood.constituency.learn.spectral import SpectralLPCFG

    return SpectralLPCFG(8).fit(bundled_bank()).model_


def _cluster() -> LatentGrammar:
    from sapwood.constituency.learn.cluster import ClusterLPCFG

    return ClusterLPCFG(8).fit(bundled_bank()).model_


def _mix() -> Model:
    from sapwood.constituency.grammar.ensemble import Ensemble
    from sapwood.constituency.learn.pcfg import PCFG

    plain = PCFG().fit(bundled_bank()).model_
    return Ensemble.of([plain, _spectral(), _cluster()], [1, 2, 2])


def _arcs() -> Any:
    from sapwood.corpora.heads import HEAD_RULES
    from sapwood.dependency.data.transform import tree_arcs
    from sapwood.dependency.learn.crf import ArcCRF

    rule = HEAD_RULES["penn"]
    arcs = [tree_arcs(tree, rule) for tree in bundled_trees()[:1000]]
    return ArcCRF(passes=2, folds=2, order=1).fit(arcs).model_


def _text() -> Any:
    from sapwood.lm.data.counting import count_sentence_ngrams
    from sapwood.lm.learn.latent import EMBigram

    counts = count_sentence_ngrams([tree.words() for tree in bundled_trees()], order=3)
    return EMBigram(8, iterations=30).fit(counts).model_
