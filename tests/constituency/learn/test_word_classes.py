"""Which row of a lexicon each token of a treebank stands for."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.projected import WordClasses
from sapwood.constituency.learn.tree_counts import TreeCounts


@pytest.fixture(scope="module")
def lexicon(bank: Treebank) -> Lexicon:
    return PCFG().fit(bank).model_.lexicon


def test_words_seen_once_stand_for_their_class_in_features(
    bank: Treebank, lexicon: Lexicon
) -> None:
    count = np.bincount(bank.word[bank.word >= 0])
    classes, words = (
        WordClasses.of(TreeCounts.of(bank), bank.inventory, lexicon),
        bank.inventory.words,
    )
    assert {1, 2, 3} <= set(count.tolist())
    for word, name in enumerate(words):
        chains = [lexicon.vocabulary.class_row(name, is_first=first) for first in (False, True)]
        assert classes.own_row[word] == lexicon.words.index(name)
        expected = chains[0] if count[word] == 1 else classes.own_row[word]
        assert classes.row_of_word[word] == expected
        rare = count[word] <= 2
        assert classes.class_of_word[:, word].tolist() == (chains if rare else [-1, -1])


def test_leaves_are_instances_of_their_word_and_of_the_class_of_their_place(
    bank: Treebank, lexicon: Lexicon
) -> None:
    """Leaf by leaf; frequent words have no class, and a tag may be unknown to a row."""
    classes = WordClasses.of(TreeCounts.of(bank), bank.inventory, lexicon)
    found = classes.entries(bank, lexicon)
    leaves = np.flatnonzero(bank.word >= 0).tolist()
    assert found.shape == (2, len(leaves))
    for leaf, (own, of_class) in zip(leaves, found.T.tolist(), strict=True):
        word, is_first = int(bank.word[leaf]), int(bank.start[leaf] == 0)
        tag = int(bank.label[leaf]) - len(bank.inventory.phrases)
        for row, entry in (
            (int(classes.own_row[word]), own),
            (int(classes.class_of_word[is_first, word]), of_class),
        ):
            tags = lexicon.entry_tag[lexicon.entries(row)].tolist() if row >= 0 else []
            expected = lexicon.entries(row).start + tags.index(tag) if tag in tags else -1
            assert entry == expected
    assert (found[0] >= 0).all()  # these trees are those that the lexicon was made of
    assert 0 < (found[1] >= 0).mean() < 0.5
    assert (classes.class_of_word[0] != classes.class_of_word[1]).any()


@pytest.mark.parametrize("n", [2, 5])
def test_entries_of_shards_are_those_of_the_whole(n: int, bank: Treebank, lexicon: Lexicon) -> None:
    classes = WordClasses.of(TreeCounts.of(bank), bank.inventory, lexicon)
    parts = [classes.entries(shard, lexicon) for shard in bank.shards(n)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), classes.entries(bank, lexicon))
