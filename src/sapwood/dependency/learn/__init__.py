"""The methods of learning dependency parsers and latent models of trees, and their driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sapwood.core.learner import Method

if TYPE_CHECKING:
    from sapwood.core.learner import Estimator
    from sapwood.dependency.data.bank import ArcBank

ARC_TASK = "arcs"
ARC_METHODS: Mapping[str, Method] = {
    "best": Method(
        "several parsers that are averaged, within --budget",
        ("dependency.learn.crf", "ArcEnsemble"),
        task=ARC_TASK,
    ),
    "second": Method(
        "features of arcs, of siblings, and of heads with their heads",
        ("dependency.learn.crf", "ArcCRF"),
        task=ARC_TASK,
        fixed={"order": 2},
    ),
    "first": Method(
        "features of single arcs",
        ("dependency.learn.crf", "ArcCRF"),
        task=ARC_TASK,
        fixed={"order": 1},
    ),
    "latent": Method(
        "hidden states of words, summed over all trees on the arcs that first leaves",
        ("dependency.learn.crf", "LatentArcCRF"),
        task=ARC_TASK,
    ),
    "rerank": Method(
        "second, and a choice among its best trees by tags and latent models",
        ("dependency.learn.reranker", "ArcReranker"),
        task=ARC_TASK,
    ),
    "spectral": Method(
        "no parser: hidden states of words from moments, for `depend score`",
        ("dependency.learn.spectral", "SpectralDependency"),
        task=ARC_TASK,
    ),
    "em": Method(
        "no parser: hidden states of words by EM, for `depend score`",
        ("dependency.learn.em", "EMDependency"),
        task=ARC_TASK,
    ),
}


def train_arc_method(
    name: str, values: Mapping[str, Any], bank: ArcBank
) -> tuple[Estimator, dict[str, Any]]:
    """Train a method on dependency trees by its name, and report, for the command and for Python.

    Parameters
    ----------
    values
        Values of parameters; those that the method does not have are left out.

    Returns
    -------
    learner, report
        The report has `method`, `sentences`, `tokens`, `seed` and `iterations`; of a parser also
        `members`, `tags`, `relations` and `phases`, the seconds of the steps; of a model with
        nothing but hidden states `states` and `symbols`.

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.ArcBank.of([sw.Arcs(["dogs", "bark"], [2, 0], upos=["NOUN", "VERB"])])
    >>> learner, report = train_arc_method("em", {"n_states": 2, "passes": 9}, bank)
    >>> learner.model_.arcs.n_states, report["states"], report["symbols"]
    (2, 2, 3)
    """
    from sapwood.dependency.model.dependency import DependencyModel

    learner = ARC_METHODS[name].train(values, bank)
    model = learner.model_
    report = {
        "method": name, "sentences": bank.n_sentences, "tokens": bank.n_tokens,
        "seed": values.get("seed", 0),
    }  # fmt: skip
    if isinstance(model, DependencyModel):
        report |= {"states": model.arcs.n_states, "symbols": len(model.arcs.symbols)}
        return learner, report | {
            "iterations": int(model.record.get("iterations", 0)), "phases": {},
        }  # fmt: skip
    parser = getattr(model, "parser", model)  # of a reranker: whose trees it ranks
    return learner, report | {
        "members": parser.n_members, "iterations": int(parser.record.get("iterations", 0)),
        "tags": len(parser.tags), "relations": len(parser.relations),
        "phases": dict(learner.info_.seconds),
    }  # fmt: skip
