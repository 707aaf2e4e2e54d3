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
    """What a model makes of a text.

    Attributes
    ----------
    tokens
        Words that were predicted; sentence ends are counted apart.
    unknown
        Words of the text that the model does not know.
    log2_prob
        Of the tokens, base 2.
    ends, ends_log2_prob
        Sentence ends, and the same of them.
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
        """The same of tokens and sentence ends; None where a text has no ends."""
        if not self.ends:
            return None
        total = self.log2_prob + self.ends_log2_prob
        return float(2.0 ** (-total / (self.tokens + self.ends)))


def perplexity(
    model: LanguageModel, rows: Rows, counts: IntArray, *, count_unknown: bool = False
) -> Perplexity:
    """Score n-grams that are each seen so often.

    Parameters
    ----------
    rows : [n, order]
        In the model's words, the last first; of its order or longer.
    count_unknown
        Whether the unknown word is predicted like any other, instead of left out.
    """
    is_end, is_unknown = rows[:, 0] == END, rows[:, 0] == UNKNOWN
    logs = np.empty(len(rows))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        logs[start : start + ROWS_AT_ONCE] = model.log_probs(rows[start : start + ROWS_AT_ONCE])
    is_told = ~is_end if count_unknown else ~is_end & ~is_unknown
    tokens = int(counts[is_told].sum())
    if not tokens:
        msg = "the text has no word that the model knows"
        raise SapwoodError(msg, hint="is it of the same language, and tokenised the same way?")
    bits = logs * counts / np.log(2.0)
    return Perplexity(
        tokens, int(counts[is_unknown].sum()), float(bits[is_told].sum()),
        int(counts[is_end].sum()), float(bits[is_end].sum()),
    )  # fmt: skip
