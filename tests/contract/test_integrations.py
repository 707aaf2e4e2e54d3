"""Every model that parses into phrases gives other libraries the trees of its parser."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tests.contract.subjects import OF_TREES, fitted

import sapwood as sw

WORDS = ["the", "dog", "sleeps", "."]
TEXT = "The dog sleeps. They sleep."
every_model = pytest.mark.parametrize("name", OF_TREES)


@every_model
def test_nltk_gets_the_trees_of_the_parser(name: str) -> None:
    pytest.importorskip("nltk", reason="the extra nltk is not installed")
    parser = sw.Parser(fitted(name).model_)
    tree = sw.nltk_parser(parser).parse_one(WORDS)
    assert sw.Tree.from_nltk(tree) == parser.parse(WORDS).tree


@every_model
def test_spacy_gets_the_trees_of_the_parser(name: str, tmp_path: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that spaCy imports
        spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    path = tmp_path / "model.sapwood"
    fitted(name).model_.save(path)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood", config={"model": str(path)})
    sentences = list(nlp(TEXT).sents)
    parser = sw.Parser(fitted(name).model_)
    for sentence, words in zip(
        sentences, (["The", *WORDS[1:]], ["They", "sleep", "."]), strict=True
    ):
        tree = parser.parse(words).tree
        (below,) = tree
        assert sentence._.parse_string == str(below)


@every_model
def test_tables_have_the_phrases_of_the_parser(name: str) -> None:
    parser = sw.Parser(fitted(name).model_)
    found = sw.parse_columns(parser, TEXT)
    for number, parse in enumerate(parser.parse_document(TEXT), 1):
        nodes = list(zip(parse.tree.nodes(), parse.tree.spans(), strict=True))[1:]
        expected = [span for node, span in nodes if not node.is_preterminal]
        rows = zip(found["sentence"], found["label"], found["start"], found["end"], strict=True)
        assert [row[1:] for row in rows if row[0] == number] == expected
