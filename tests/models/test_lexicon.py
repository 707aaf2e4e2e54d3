"""Which row of a lexicon a word belongs to, and that scores ask for the right one."""

from __future__ import annotations

import pytest

import sapwood as sw
from sapwood.corpus.tree import Tree
from sapwood.models.latent_grammar import LatentGrammar


@pytest.fixture(scope="module")
def model() -> LatentGrammar:
    return sw.PCFG().fit(sw.bundled_treebank("dev")).model_


def test_a_capital_at_the_start_is_that_of_the_sentence(model: LatentGrammar) -> None:
    lexicon = model.lexicon
    the = lexicon.words.index("the")
    assert "The" not in lexicon.words
    assert lexicon.row("the", is_first=True) == lexicon.row("the", is_first=False) == the
    assert lexicon.row("The", is_first=True) == the
    assert lexicon.row("The", is_first=False) >= len(lexicon.words)
    assert lexicon.rows(["The", "The"]).tolist() == [the, lexicon.row("The", is_first=False)]


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
