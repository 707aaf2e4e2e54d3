"""How many trees would surely be enough to learn a grammar back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sapwood.constituency.report.inspect import member_of
from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model


def identify_bounds(
    model: Model,
    name: str | None = None,
    *,
    member: int | None = None,
    length: int = 20,
    epsilon: float = 0.1,
    delta: float = 0.05,
    depth: int = 1,
) -> dict[str, Any]:
    """How many trees of a grammar would surely be enough to learn it back by the spectral method.

    The grammar is taken as the truth that made the data (SPECTRAL, Theorem 8). The bounds are
    enough, and far from necessary.

    Parameters
    ----------
    model
        A grammar of probabilities: of the methods pcfg, em, cluster, pivot or pivot-em.
    name, member
        As `inspect_model` takes them.
    length
        Words of the sentences whose trees are bounded.
    epsilon, delta
        The sum of errors allowed over all trees of that length, and the probability of more.
    depth
        How many rules below a node its features tell; see
        `sapwood.constituency.evaluate.sample_bounds`.

    Returns
    -------
    dict
        `model`; what the theorem depends on (`states`, `phrases`, `tags`, `words`, `length`,
        `depth`, `epsilon`, `delta`, `sigma`, `xi`, `gamma`); samples that it asks for
        (`phrase_nodes`, `tag_nodes`, `phrase_nodes_svd`, `tag_nodes_svd`, `roots`, `trees`),
        infinite where it promises nothing; `labels` with their own `xi` and `sigma`, the weakest
        first; `impossible`, steps that some state never takes; `trained_on`, the trees that the
        model was learnt from, if it says so; and the assumed `constants`.

    Raises
    ------
    SapwoodError
        For a model without probabilities, which has neither xi nor gamma.
    """
    from sapwood.constituency.evaluate.sample_bounds import (
        BoundInputs,
        hidden_constants,
        sample_bounds,
    )

    place = f"{name}: " if name else ""
    chosen = member_of(model, member, name)
    if chosen is None:
        msg = f"{place}an ensemble: the theorem is about the states of one grammar"
        raise SapwoodError(msg, hint="--member K takes one of them; `sapwood inspect` lists them")
    if not chosen.can.sample:
        method = chosen.record.get("method") or "unknown"
        msg = f"{place}holds weights, not probabilities of hidden states (method {method})"
        hint = "give a grammar of method pcfg, em, cluster, pivot or pivot-em, or `bundled`"
        raise SapwoodError(msg, hint=hint)
    grammar = chosen.chart_grammar
    hidden = hidden_constants(grammar, depth=depth)
    inputs = BoundInputs(
        n_states=int(grammar.n_states.max()),
        n_phrases=grammar.n_phrases,
        n_tags=len(grammar.tags),
        n_words=len(grammar.lexicon.words),
        n_binary=max(1, length - 1),
        epsilon=epsilon,
        delta=delta,
        sigma=hidden.sigma,
        xi=hidden.xi,
        gamma=hidden.gamma,
    )
    bounds = sample_bounds(inputs)
    needed = ("phrase_nodes", "tag_nodes", "phrase_nodes_svd", "tag_nodes_svd", "roots", "trees")
    found = asdict(inputs)
    labels = [
        {"label": label, "xi": xi, "sigma": hidden.sigma_by_label[label]}
        for label, xi in hidden.by_label.items()
    ]
    return (
        {"model": name}
        | {size: found[f"n_{size}"] for size in ("states", "phrases", "tags", "words")}
        | {"length": length, "depth": depth}
        | {symbol: found[symbol] for symbol in ("epsilon", "delta", "sigma", "xi", "gamma")}
        | {size: getattr(bounds, size) for size in needed}
        | {
            "labels": sorted(labels, key=lambda row: (row["xi"], row["sigma"])),
            "impossible": hidden.n_impossible,
            "trained_on": grammar.record.get("trees"),
            "constants": list(bounds.constants),
        }
    )
