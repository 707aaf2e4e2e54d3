"""Counts of a small treebank by hand, and over shards."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.tree_counts import TreeCounts
from sapwood.corpora.tree import Tree
from sapwood.execute import Threads

TREES = """
(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT the) (NN cat))))
(NP (DT the) (NN dog))
(S (NP (NN dog) (NN dog)) (VB sees))
"""


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return Treebank.from_trees([Tree.parse(line) for line in TREES.strip().splitlines()])


def named(counts: TreeCounts, bank: Treebank) -> dict[tuple[str, str, bool], float]:
    """Lexical counts by tag, word and whether it comes first."""
    tags, words = bank.inventory.tags, bank.inventory.words
    pair, is_first = np.divmod(counts.lexical, 2)
    return {
        (str(tags[code // len(words)]), words[code % len(words)], bool(first)): float(n)
        for code, first, n in zip(pair, is_first, counts.lexical_count, strict=True)
    }


def test_by_hand(bank: Treebank) -> None:
    counts, symbols = TreeCounts.of(bank), [str(symbol) for symbol in bank.inventory.symbols]
    assert dict(zip(symbols, counts.symbols.tolist(), strict=True)) == {
        "S": 2, "NP": 4, "VP": 1, "DT": 3, "NN": 5, "VB": 2
    }  # fmt: skip
    roots = {name: n for name, n in zip(symbols, counts.roots.tolist(), strict=True) if n}
    assert roots == {"S": 2, "NP": 1}
    rules = {
        " ".join(symbols[x] for x in rule): n
        for rule, n in zip(bank.inventory.rules, counts.rules.tolist(), strict=True)
    }
    assert rules == {"NP DT NN": 3, "VP VB NP": 1, "S NP VP": 1, "NP NN NN": 1, "S NP VB": 1}
    assert named(counts, bank) == {
        ("DT", "the", True): 2, ("DT", "the", False): 1, ("NN", "dog", False): 3,
        ("NN", "dog", True): 1, ("NN", "cat", False): 1, ("VB", "sees", False): 2,
    }  # fmt: skip


def test_words_and_their_pairs_with_tags(bank: Treebank) -> None:
    counts, words = TreeCounts.of(bank), bank.inventory.words
    n = PCFG().prepare(bank, Threads()).classes.seen
    assert dict(zip(words, n.tolist(), strict=True)) == {"the": 3, "dog": 4, "sees": 2, "cat": 1}
    tag, word = np.divmod(counts.pairs, len(words))
    pairs = [(str(bank.inventory.tags[a]), words[x]) for a, x in zip(tag, word, strict=True)]
    assert sorted(pairs) == [("DT", "the"), ("NN", "cat"), ("NN", "dog"), ("VB", "sees")]
    assert (np.diff(counts.pairs) > 0).all()


def test_a_part_counts_no_word_of_the_rest(bank: Treebank) -> None:
    n = PCFG().prepare(bank[1:2], Threads()).classes.seen
    assert dict(zip(bank.inventory.words, n.tolist(), strict=True)) == {
        "the": 1, "dog": 1, "sees": 0, "cat": 0
    }  # fmt: skip


def test_shards_add_up(bank: Treebank) -> None:
    whole = TreeCounts.of(bank)
    total = TreeCounts.zero(bank.inventory)
    for tree in range(bank.n_trees):
        total = total + TreeCounts.of(bank[tree : tree + 1])
    for name in ("rules", "symbols", "roots"):
        np.testing.assert_array_equal(getattr(total, name), getattr(whole, name))
    assert named(total, bank) == named(whole, bank)
