"""Which row of a lexicon each token of a treebank is an instance of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Inventory, Treebank
from sapwood.models.latent_grammar import Lexicon

FloatArray = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
RARE = 2  # words seen at most so often also stand for the unknown words of their class


class WordClasses(NamedTuple):
    """Rows of the lexicon for tokens.

    Attributes
    ----------
    row_of_word : [n_words]
        For features: the row of a word, or of its class when it was seen once.
    own_row : [n_words]
        The row of each word itself, -1 for words that the lexicon does not list.
    class_of_word : [2, n_words]
        The row of its class, in the middle of a sentence and at its start; -1 for words that are
        not rare.
    """

    row_of_word: Rows
    own_row: Rows
    class_of_word: Rows

    @classmethod
    def of(cls, count: FloatArray, inventory: Inventory, lexicon: Lexicon) -> WordClasses:
        """Look up every word, which occurs so often, once."""
        words = inventory.words
        number = {word: row for row, word in enumerate(lexicon.words)}
        own = np.array([number.get(word, -1) for word in words])
        classes = np.full((2, len(words)), -1)
        for word in np.flatnonzero((count > 0) & (count <= RARE)).tolist():
            for is_first in (0, 1):
                row = lexicon.vocabulary.class_row(words[word], is_first=bool(is_first))
                classes[is_first, word] = row
        once = (count <= 1) & (classes[0] >= 0)
        return cls(np.where(once, classes[0], own), own, classes)

    def entries(self, shard: Treebank, lexicon: Lexicon) -> Rows:
        """Entries that each leaf of a shard is an instance of: its word's and its class's, or -1.

        Returns
        -------
        array of [2, n_leaves]
        """
        leaf = np.flatnonzero(shard.word >= 0)
        word, is_first = shard.word[leaf], (shard.start[leaf] == 0).astype(np.int64)
        tag = shard.label[leaf].astype(np.int64) - len(shard.inventory.phrases)
        rows = (self.own_row[word], self.class_of_word[is_first, word])
        return np.stack([lexicon.find_entries(row, tag) for row in rows])
