"""The models that come with Sapwood: files, cards, notices, and trees."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import pytest

import sapwood as sw
from sapwood.core.model_names import ENGLISH, ENGLISH_UD, list_models, model_file, model_notice

CARDS = {card["name"]: card for card in list_models()}
MOST = 8_000_000  # bytes


@cache
def english() -> sw.Parser:
    return sw.Parser(sw.load(ENGLISH))


def test_there_are_phrases_and_dependencies() -> None:
    assert {ENGLISH, ENGLISH_UD} <= set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_tells_of_its_file_and_of_all_sources(name: str) -> None:
    card, file = CARDS[name], model_file(name)
    assert file is not None
    data = file.read_bytes()
    assert card["bytes"] == len(data) <= MOST
    assert card["sha256"] == hashlib.sha256(data).hexdigest()
    assert card["licence"] == "CC BY-SA 4.0"
    for text in ("title", "language", "task", "version", "command"):
        assert card[text]
    for corpus in card["training_data"]:
        assert corpus["commit"] in model_notice()
        assert corpus["trees"] > 1000
        assert all(corpus[key] for key in ("source", "commit", "licence", "attribution", "words"))
    for score in card["scores"]:
        assert score["sentences"] > 100
        assert 50 < score["value"] < 100
        assert score["corpus"]
        assert score["part"] != "train"


CLEAR = {
    "She moved to London with her family.": "(PP (IN to) (NP (NNP London))) (PP (IN with)",
    "The museum closes at six.": "(VP (VBZ closes) (PP (IN at) (NP (CD six))))",
    "We know that they left early.": "(SBAR (IN that)",
    "The results were published in 2019.": "(PP (IN in) (NP (CD 2019)))",
}


@pytest.mark.parametrize("sentence", CLEAR)
def test_plain_sentences_are_parsed_as_one_would(sentence: str) -> None:
    parse = english().parse_text(sentence)
    assert CLEAR[sentence] in str(parse.tree)
    assert not parse.is_fallback


def test_who_has_the_telescope_is_not_sure() -> None:
    parse = english().parse_text("The girl saw the boy with the telescope.")
    (of_the_man,) = [c for c in parse.marginals if (c.label, c.start, c.end) == ("NP", 3, 8)]
    assert 0.001 < of_the_man.probability < 0.999


def test_english_has_probabilities() -> None:
    model = sw.load(ENGLISH)
    assert model.can.sample
    likely, odd = (model.log_prob(text.split()) for text in ("She left .", "Left . she"))
    assert likely > odd
    found = sw.surprisal(model, ["The", "dog", "that", "saw", "the", "man", "sleeps", "."])
    assert len(found.words) == 9
    assert (found.surprisal > 0).all()


def test_arcs_of_a_plain_sentence() -> None:
    parser: Any = sw.ArcParser(sw.load(ENGLISH_UD))
    arcs = parser.parse(["She", "gave", "him", "a", "book", "."]).arcs
    assert arcs.heads == (2, 0, 2, 5, 2, 2)
    assert arcs.relations[:3] == ("nsubj", "root", "iobj")
    assert arcs.upos[:2] == ("PRON", "VERB")
