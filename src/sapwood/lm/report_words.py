"""What is in vectors of words, and in latent trees and chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.corpora.eigenwords import Eigenwords

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
