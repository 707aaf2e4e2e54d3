"""Which row of a lexicon each token of a treebank stands for."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood as sw
from sapwood.corpus.treebank import Treebank
from sapwood.corpus.words import signatures
from sapwood.estimators.pcfg import PCFG
from sapwood.models.lexicon import Lexicon
from sapwood.moments.word_classes import WordClasses


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return sw.bundled_treebank("dev")


@pytest.fixture(scope="module")
def lexicon(bank: Treebank) -> Lexicon:
    return PCFG().fit(bank).model_.lexicon


def test_words_seen_once_stand_for_their_class_in_features(
    bank: Treebank, lexicon: Lexicon
) -> None:
    classes, words = WordClasses.of(bank, lexicon), bank.inventory.words
    count = np.bincount(bank.word[bank.word >= 0])
    assert {1, 2, 3} <= set(count.tolist())
    for word, name in enumerate(words):
        chains = [
            lexicon.class_row(signatures(name, is_first=first, style=lexicon.style))
            for first in (False, True)
        ]
        assert classes.own_row[word] == lexicon.words.index(name)
        expected = chains[0] if count[word] == 1 else classes.own_row[word]
        assert classes.row_of_word[word] == expected
        rare = count[word] <= 2
        assert classes.class_of_word[:, word].tolist() == (chains if rare else [-1, -1])


def test_tokens_have_the_class_of_their_place(bank: Treebank, lexicon: Lexicon) -> None:
    classes = WordClasses.of(bank, lexicon)
    leaf = np.flatnonzero(bank.word >= 0)
    found, is_first = classes.class_row(leaf), bank.start[leaf] == 0
    for first in (False, True):
        mine = is_first == first
        np.testing.assert_array_equal(
            found[mine], classes.class_of_word[int(first), bank.word[leaf[mine]]]
        )
    np.testing.assert_array_equal(classes.word_row(leaf), classes.own_row[bank.word[leaf]])
    assert (classes.class_of_word[0] != classes.class_of_word[1]).any()
