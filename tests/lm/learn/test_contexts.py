"""Counts of words and neighbours against a loop."""

from __future__ import annotations

import numpy as np

from sapwood.corpora.vocabulary import Vocabulary
from sapwood.lm.learn.contexts import ContextCounts, WordCounts

KNOWN = Vocabulary(("a", "b", "c"), ("<unk-lower>", "<unk>"), "generic")
TEXT = [["a", "b", "c", "a"], ["A", "zz"], ["c"], ["b", "?", "b", "b", "a"]]


def test_pairs_are_those_of_a_loop() -> None:
    counts = ContextCounts.of(TEXT, KNOWN, 3)
    rows = [KNOWN.rows(words) for words in TEXT]
    for distance, pairs in enumerate(counts.pairs, 1):
        truth = np.zeros((len(KNOWN), len(KNOWN)))
        for row in rows:
            for x, y in zip(row[:-distance], row[distance:], strict=True):
                truth[x, y] += 1
        np.testing.assert_array_equal(pairs.toarray(), truth)
    np.testing.assert_array_equal(counts.words, np.bincount(np.concatenate(rows), minlength=5))
    assert counts.n_sentences == 4


def test_shards_add_up() -> None:
    whole = ContextCounts.of(TEXT, KNOWN, 2)
    parts = ContextCounts.of(TEXT[:1], KNOWN, 2) + ContextCounts.of(TEXT[1:], KNOWN, 2)
    for a, b in zip(whole.pairs, (parts + ContextCounts.zero(5, 2)).pairs, strict=True):
        np.testing.assert_array_equal(a.toarray(), b.toarray())
    assert (WordCounts.of(TEXT[:2]) + WordCounts.of(TEXT[2:])).counts == WordCounts.of(TEXT).counts


def test_first_words_are_counted_apart() -> None:
    counts = WordCounts.of(TEXT).counts
    assert counts["b", True] == 1
    assert counts["b", False] == 3
