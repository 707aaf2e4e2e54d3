"""How well a language model predicts a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sapwood.core.errors import SapwoodError
from sapwood.lm.data.ngrams import END, UNKNOWN, Rows

if TYPE_CHECKING:
    from sapwood.core.arrays import IntArray
    from sapwood.lm.model.language_model import LanguageModel

ROWS_AT_ONCE = 1 << 17  # rows that are scored at a time


@dataclass(frozen=True)
class Perplexity:
    """The log-probability of a text under a model, words and sentence ends apart.

    Attributes
    ----------
    tokens
        Number of words that were predicted, without sentence ends.
    unknown
        Number of words of the text that are not in the model's vocabulary.
    log2_prob
        Log-probability of the tokens, base 2.
    ends, ends_log2_prob
        Number of sentence ends, and their log-probability, base 2.
    """

    tokens: int
    unknown: int
    log2_prob: float
    ends: int
    ends_log2_prob: float

    @property
    def perplexity(self) -> float:
        """2 to the mean of -log2 p of the tokens."""
        return float(2.0 ** (-self.log2_prob / self.tokens))

    @property
    def perplexity_with_ends(self) -> float | None:
        """2 to the mean of -log2 p of tokens and sentence ends; None for a text without ends."""
        if not self.ends:
            return None
        total = self.log2_prob + self.ends_log2_prob
        return float(2.0 ** (-total / (self.tokens + self.ends)))


def perplexity(
    model: LanguageModel, rows: Rows, counts: IntArray, *, count_unknown: bool = False
) -> Perplexity:
    """The perplexity of a text that is given as n-grams with their counts.

    Parameters
    ----------
    rows : [n, order]
        Words of each n-gram by their numbers in the model, the last word first; the order is at
        least that of the model.
    count_unknown
        Whether the unknown word is predicted like any other, instead of left out.
    """
    is_end, is_unknown = rows[:, 0] == END, rows[:, 0] == UNKNOWN
    logs = np.empty(len(rows))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        logs[start : start + ROWS_AT_ONCE] = model.log_probs(rows[start : start + ROWS_AT_ONCE])
    is_scored = ~is_end if count_unknown else ~is_end & ~is_unknown
    tokens = int(counts[is_scored].sum())
    if not tokens:
        msg = "the text has no word that the model knows"
        raise SapwoodError(msg, hint="is it of the same language, and tokenised the same way?")
    bits = logs * counts / np.log(2.0)
    return Perplexity(
        tokens, int(counts[is_unknown].sum()), float(bits[is_scored].sum()),
        int(counts[is_end].sum()), float(bits[is_end].sum()),
    )  # fmt: skip
