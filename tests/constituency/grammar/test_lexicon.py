"""Entries of a lexicon, and that scores ask for the right row of a word."""

from __future__ import annotations

import numpy as np
import pytest
from tests.toys import Toy

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.charts import tag_weights
from sapwood.constituency.parse.prepared import prepare
from sapwood.corpora.tree import Tree


@pytest.fixture(scope="module")
def model(plain: LatentGrammar) -> LatentGrammar:
    return plain


def test_tree_scores_know_which_word_comes_first(model: LatentGrammar) -> None:
    """The same tree over `The` and `the`, at the start of the sentence and inside it."""
    tree = "(TOP (S (NP (DT {}) (NN dog)) (VP (VBZ sees) (NP (DT {}) (NN cat))) (. .)))"

    def score(first: str, inner: str) -> float:
        return model.log_prob(Tree.parse(tree.format(first, inner)))

    assert score("The", "the") == score("the", "the")  # the capital is the sentence's
    assert score("the", "The") < score("the", "the") - 1  # this one is a word never seen
    words = ["The", "dog", "sees", "The", "cat", "."]
    parsed = sw.Parser(model, threshold=0.0, beam=0.0).parse(words)
    assert parsed.sentence_log_prob == pytest.approx(model.log_prob(words), rel=1e-12)
    assert score("The", "The") < model.log_prob(words)


def test_one_word_sentences_start_with_their_word() -> None:
    trees = [Tree.parse(text) for text in ("(INTJ (UH oh))", "(INTJ (UH ah))", "(X (Y z))")]
    model = sw.PCFG().fit(Treebank.from_trees(trees)).model_
    assert model.log_prob(["Oh"]) == model.log_prob(["oh"])
    assert model.log_prob(["OH"]) != model.log_prob(["oh"])
    upper, lower = (model.log_prob(Tree.parse(f"(INTJ (UH {word}))")) for word in ("Oh", "oh"))
    assert upper == lower


def test_entries_are_found_by_row_and_tag(model: LatentGrammar) -> None:
    """Numbers beyond the rows or the tags are nowhere, whatever their sum would hit."""
    lexicon, n_tags = model.lexicon, len(model.tags)
    rows, tags = np.divmod(np.arange(lexicon.n_rows * n_tags), n_tags)
    found = lexicon.find_entries(rows, tags)
    for row, tag, entry in zip(rows.tolist(), tags.tolist(), found.tolist(), strict=True):
        own = lexicon.entries(row)
        listed = [e for e in range(own.start, own.stop) if lexicon.entry_tag[e] == tag]
        assert listed == ([entry] if entry >= 0 else [])
    hit = np.flatnonzero((found >= 0) & (rows > 0))
    assert (lexicon.find_entries(rows[hit] - 1, tags[hit] + n_tags) == -1).all()
    assert (lexicon.find_entries(rows[hit] + 1, tags[hit] - n_tags) == -1).all()
    assert (lexicon.find_entries(np.full(3, -1), np.array([0, 1, n_tags])) == -1).all()


# -- tags of a sentence -----------------------------------------------------------------------


def test_rare_tags_are_left_out_unless_they_are_right() -> None:
    rules = dict.fromkeys([(0, 1, 1), (0, 1, 2), (0, 2, 1)], np.ones((1, 1, 1)))
    words = {"w0": {1: np.array([0.5]), 2: np.array([1e-6])}, "w1": {2: np.array([0.25])}}
    grammar = Toy(1, [1, 1, 1], {0: np.ones(1)}, rules, words).grammar()
    sentence = ["w0", "w1", "w0"]
    some = tag_weights(prepare(grammar), sentence, 1e-3)
    assert (some.start.tolist(), some.tag.tolist()) == ([0, 1, 2, 3], [0, 1, 0])
    right = tag_weights(prepare(grammar), sentence, 1e-3, np.array([1, 1, 0]))
    assert (right.start.tolist(), right.tag.tolist()) == ([0, 2, 3, 4], [0, 1, 1, 0])
    every = tag_weights(prepare(grammar), sentence)
    assert (every.start.tolist(), every.tag.tolist()) == ([0, 2, 3, 5], [0, 1, 1, 0, 1])
    np.testing.assert_allclose(
        every.weight * 2.0 ** every.scale[[0, 0, 1, 2, 2]], [0.5, 1e-6, 0.25, 0.5, 1e-6]
    )
