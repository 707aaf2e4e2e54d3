"""What is in vectors of words, and in latent trees and chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.models.arcs.dependency import DependencyModel, HiddenMarkovModel
    from sapwood.models.eigenwords import Eigenwords

N_COMMON = 3  # words that are shown where nobody asks for any


def inspect_words(
    model: Eigenwords, name: str | None = None, words: Sequence[str] = (), *, top: int = 10
) -> dict[str, Any]:
    """Tell what is in vectors of words.

    Returns
    -------
    dict
        `model` (the name), `words`, `classes`, `dimension`, `strengths`, `record`, and
        `neighbours`: rows of `word`, `known` and `nearest`, each `word` and `cosine`.
    """
    known = model.vocabulary.words
    # words stand in the order of the alphabet: some from all over it
    chosen = list(words) or list(known[:: max(len(known) // N_COMMON, 1)][:N_COMMON])
    rows = [
        {
            "word": word,
            "known": model.knows(word),
            "nearest": [near._asdict() for near in model.nearest(word, top)],
        }
        for word in chosen
    ]
    return {
        "model": name, "words": len(known), "classes": len(model.vocabulary.classes),
        "dimension": model.dimension, "strengths": model.strengths.tolist(),
        "record": model.record, "neighbours": rows,
    }  # fmt: skip


def inspect_latent(
    model: DependencyModel | HiddenMarkovModel, name: str | None = None, *, top: int = 10
) -> dict[str, Any]:
    """Tell what is in a model of latent trees or chains.

    Returns
    -------
    dict
        `model` (the name), `kind`, `seen`, `states`, `symbols`, `probabilistic`, `record`, and
        `symbols_by_state`: for models of probabilities, rows of `state`, `root` and the likeliest
        `symbols`; empty for spectral ones, whose directions are no states.
    """
    arcs = model.arcs
    rows = []
    for state in range(arcs.n_states if model.is_probabilistic else 0):
        column = arcs.symbols[:, state]
        best = (-column).argsort(kind="stable")[:top]
        symbols = [{"symbol": model.seen.symbol(x), "probability": float(column[x])}
                   for x in best.tolist()]  # fmt: skip
        rows.append({"state": state, "root": float(arcs.root[state]), "symbols": symbols})
    return {
        "model": name, "kind": type(model).__name__, "seen": model.seen.kind,
        "states": arcs.n_states, "symbols": len(arcs.symbols),
        "probabilistic": model.is_probabilistic, "record": model.record,
        "symbols_by_state": rows,
    }  # fmt: skip
