"""Which row of a lexicon each token of a treebank is an instance of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank
from sapwood.corpus.words import signatures
from sapwood.models.lexicon import Lexicon

Rows = npt.NDArray[np.int64]
RARE = 2  # words seen at most so often also stand for the unknown words of their class


@dataclass(frozen=True, eq=False)
class WordClasses:
    """Rows of the lexicon for tokens.

    Attributes
    ----------
    row_of_word : [n_words]
        For features: the row of a word, or of its class when it was seen once.
    own_row : [n_words]
        The row of each word itself, -1 for words that the lexicon does not list.
    """

    bank: Treebank
    row_of_word: Rows
    own_row: Rows
    class_of_word: Rows  # [2, n_words]: in the middle of a sentence, and at its start; -1: frequent

    @classmethod
    def of(cls, bank: Treebank, lexicon: Lexicon) -> WordClasses:
        """Look every word of a treebank up once."""
        words = bank.inventory.words
        count = np.bincount(bank.word[bank.word >= 0], minlength=len(words))
        number = {word: row for row, word in enumerate(lexicon.words)}
        own = np.array([number.get(word, -1) for word in words])
        classes = np.full((2, len(words)), -1)
        for word in np.flatnonzero((count > 0) & (count <= RARE)).tolist():
            for is_first in (0, 1):
                chain = signatures(words[word], is_first=bool(is_first), style=lexicon.style)
                classes[is_first, word] = lexicon.class_row(chain)
        once = (count <= 1) & (classes[0] >= 0)
        return cls(bank, np.where(once, classes[0], own), own, classes)

    def word_row(self, leaf: Rows) -> Rows:
        """Row of the word of each leaf."""
        return np.asarray(self.own_row[self.bank.word[leaf]])

    def class_row(self, leaf: Rows) -> Rows:
        """Row of the class of each leaf's word; -1 for words that are not rare."""
        is_first = (self.bank.start[leaf] == 0).astype(np.int64)
        return np.asarray(self.class_of_word[is_first, self.bank.word[leaf]])
