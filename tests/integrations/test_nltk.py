"""A parser of NLTK that parses with our models."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

import sapwood as sw

nltk = pytest.importorskip("nltk", reason="the extra nltk is not installed")
SENTENCE = ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]


@pytest.fixture(scope="module")
def parser() -> sw.Parser:
    return sw.Parser(sw.bundled_grammar())


def test_it_is_a_parser_of_nltk(parser: sw.Parser) -> None:
    found = sw.nltk_parser(parser)
    assert isinstance(found, nltk.parse.ParserI)
    ours = parser.parse(SENTENCE)
    (tree,) = found.parse(SENTENCE)
    assert isinstance(tree, nltk.tree.ProbabilisticTree)
    assert sw.Tree.from_nltk(tree) == ours.tree
    assert math.isclose(tree.logprob() * math.log(2), ours.log_prob)
    assert math.isclose(tree.prob(), math.exp(ours.log_prob))
    assert found.parse_one(SENTENCE) == tree
    assert found.parse_all(SENTENCE) == [tree]
    assert next(found.parse(tuple(SENTENCE))) == tree


def test_nodes_below_have_posteriors(parser: sw.Parser) -> None:
    posterior = {c[:3]: c.probability for c in parser.parse(SENTENCE).marginals}
    tree = sw.nltk_parser(parser).parse_one(SENTENCE)
    subtrees = list(tree.subtrees())
    spans = parser.parse(SENTENCE).tree.spans()
    assert [t.label() for t in subtrees] == [span[0] for span in spans]
    for subtree, span in list(zip(subtrees, spans, strict=True))[1:]:
        assert subtree.prob() == pytest.approx(posterior[span], rel=1e-12)


def test_the_k_best_come_in_order(parser: sw.Parser) -> None:
    trees = list(sw.nltk_parser(parser, k=3).parse(SENTENCE))
    best = parser.parse(SENTENCE).k_best(3)
    assert [sw.Tree.from_nltk(tree) for tree in trees] == [one.tree for one in best]
    for tree, one in zip(trees, best, strict=True):
        if one.log_prob == -math.inf:
            assert tree.logprob() is None
        else:
            assert math.isclose(tree.logprob() * math.log(2), one.log_prob)
    assert trees[0].logprob() is not None


def test_many_sentences_are_those_of_each(parser: sw.Parser) -> None:
    found = sw.nltk_parser(parser)
    sentences = [SENTENCE, ["they", "sleep", "."], SENTENCE]
    together = [list(trees) for trees in found.parse_sents(sentences)]
    assert together == [found.parse_all(words) for words in sentences]


def test_words_stay_as_they_were_given(parser: sw.Parser) -> None:
    words = ["the", "dog", "(", "sleeps", ")", "."]
    tree = sw.nltk_parser(parser).parse_one(words)
    assert tree.leaves() == words


def test_a_joined_tree_has_no_probability(parser: sw.Parser) -> None:
    tree = sw.nltk_parser(parser).parse_one(["the", "the", "the"])
    assert tree.prob() is None
    assert all(subtree.prob() is None for subtree in tree.subtrees())


def test_models_may_be_named_by_their_file(parser: sw.Parser, tmp_path: Path) -> None:
    sw.bundled_grammar().save(tmp_path / "m.sapwood")
    found = sw.nltk_parser(str(tmp_path / "m.sapwood")).parse_one(SENTENCE)
    assert found == sw.nltk_parser("bundled").parse_one(SENTENCE)


def test_mistakes_are_explained(parser: sw.Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sw.SapwoodError, match="not a string"):
        next(sw.nltk_parser(parser).parse("the dog"))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "nltk.parse.api", None)
    monkeypatch.delitem(sys.modules, "sapwood.integrations.nltk_parsing")
    with pytest.raises(sw.SapwoodError, match="needs NLTK") as caught:
        sw.nltk_parser(parser)
    assert "sapwood[nltk]" in str(caught.value.hint)
