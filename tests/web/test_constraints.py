"""Constraints on trees and surprisal through the JSON API: bounds, answers, refusals in words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.web.servers import Client, ask, guarded

import sapwood as sw
from sapwood.constituency.report.parses import parse_answer
from sapwood.web.guard import PHRASES_A_WORD, Limits, Refusal
from sapwood.web.models import ModelStore

WORDS = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
HIGH = {"spans": [(3, 8, "NP")]}


# -- constraints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        HIGH,
        {"spans": [(3, 8, None), (5, 8, "PP")]},
        {"forbidden": [(3, 8, "NP"), (0, 1, None)]},
        {"tags": ["DT", None, {"VBZ": 0.9, "NNS": 0.1}, None, None, None, None, "NN", None]},
    ],
)
def test_a_parse_obeys_as_in_python(client: Client, asked: dict[str, Any]) -> None:
    found = ask(client, "parse", words=WORDS, k=2, **asked)
    parse = sw.Parser(sw.bundled_grammar()).parse(WORDS, **asked)
    expected = parse_answer(parse, 2)
    assert found["tree"] == expected["tree"]
    assert found["k_best"][0]["log_prob"] == pytest.approx(expected["k_best"][0]["log_prob"])
    assert found["constraint_probability"] == pytest.approx(expected["constraint_probability"])
    assert 0.0 <= found["constraint_probability"] < 1.0


def test_without_constraints_their_probability_is_1(client: Client) -> None:
    assert ask(client, "parse", words=WORDS)["constraint_probability"] == 1.0
    empty = ask(client, "parse", words=WORDS, tags=[None] * len(WORDS), spans=[], forbidden=[])
    assert empty == ask(client, "parse", words=WORDS)


def test_every_answer_about_a_sentence_is_given_the_constraints(client: Client) -> None:
    words = [*WORDS[:-1], "in", "the", "garden", "."]  # several trees are left
    drawn = ask(client, "draw", words=words, k=3, **HIGH)
    assert ("NP", 3, 8) in {(n["label"], n["start"], n["end"]) for n in drawn["nodes"]}
    for row in ask(client, "k-best", words=words, k=3, **HIGH)["k_best"]:
        assert ("NP", 3, 8) in sw.Tree.parse(row["tree"]).spans()
    rows = ask(client, "posteriors", words=words, **HIGH)["posteriors"]
    one = next(r for r in rows if (r["label"], r["start"], r["end"]) == ("NP", 3, 8))
    assert one["probability"] == pytest.approx(1.0, abs=1e-6)
    second = ask(client, "tree", tree=drawn["k_best"][1]["tree"], **HIGH)
    node = next(n for n in second["nodes"] if (n["start"], n["end"]) == (3, 8))
    assert node["posterior"] == pytest.approx(1.0, abs=1e-6)


def test_a_given_tree_that_breaks_a_constraint_has_posterior_0(client: Client) -> None:
    best = ask(client, "parse", words=WORDS, **HIGH)["tree"]
    assert ask(client, "tree", tree=best, **HIGH)["posterior"] > 0.01
    broken = ask(client, "tree", tree=best, forbidden=[(3, 8, "NP")])
    assert broken["posterior"] == 0.0


def test_members_of_a_mix_obey(client: Client) -> None:
    asked = {"forbidden": [(0, 2, "NP")]}
    tree = ask(client, "parse", model="mix", words=WORDS, **asked)["tree"]
    for row in ask(client, "members", model="mix", tree=tree, **asked)["members"]:
        assert ("NP", 0, 2) not in sw.Tree.parse(row["tree"]).spans()


@pytest.mark.parametrize(
    ("asked", "error", "hint"),
    [
        ({"spans": [(0, 2, "NPP")]}, "NPP, which the model does not have", "NP"),
        ({"spans": [(0, 3, None), (2, 5, "NP")]}, "cross", "leave one of them out"),
        ({"spans": [(3, 8, "NP")], "forbidden": [(3, 8, None)]}, "forbidden", "leave one"),
        ({"spans": [(3, 10, None)]}, "no span of a sentence of 9 words", "counted from 0"),
        ({"spans": [(3, 3, None)]}, "no span", "first word"),
        ({"tags": ["DT"]}, "1 tags for a sentence of 9 words", "None"),
        ({"tags": ["DTT"] + [None] * 8}, "the tag of word 1 is DTT", "DT"),
        ({"tags": [{}] + [None] * 8}, "word 1 has no tag", "free"),
        ({"tags": [{"DT": -1}] + [None] * 8}, '"tags.0.DT" is -1', "/docs"),
        ({"tags": [3] + [None] * 8}, '"tags.0" is 3, expected a text', "/docs"),
        ({"tags": "DT"}, "expected a list", "/docs"),
        ({"spans": [(1, 2)]}, '"spans.0.2" is missing: the third field of a phrase is its label',
         "/docs"),
        ({"forbidden": [(1,)]}, '"forbidden.0.1" is missing: the second field', "/docs"),
        ({"spans": [(1, 2, "NP", 4)]}, "spans.0", "/docs"),
        ({"spans": [(1, 2.5, "NP")]}, '"spans.0.1" is 2.5, expected a whole number', "/docs"),
        ({"spans": [(-1, 2, "NP")]}, '"spans.0.0" is -1', "/docs"),
        ({"spans": [[[1], 2, "NP"]]}, '"spans" has lists inside of its items', "/docs"),
        ({"spans": [(0, 1, None)] * 37}, "37 phrases for a sentence of 9 words", "leave some"),
    ],
)  # fmt: skip
def test_refusals_in_words(client: Client, asked: dict[str, Any], error: str, hint: str) -> None:
    found = ask(client, "parse", 422, words=WORDS, **asked)
    assert error in found["error"]
    assert hint in found["hint"]


def test_the_most_phrases_that_are_taken() -> None:
    assert PHRASES_A_WORD == 4
    Limits().check_phrases([0] * 36, 9)
    with pytest.raises(Refusal):
        Limits().check_phrases([0] * 37, 9)


def test_what_no_tree_has_is_a_fallback_that_still_obeys(client: Client) -> None:
    words = ["they", "sleep", "."]
    found = ask(client, "draw", words=words, spans=[(1, 3, "PP")])
    assert found["kind"] == "joined"
    whole = ask(client, "parse", words=words, spans=[(1, 3, "PP")])
    assert (whole["is_fallback"], whole["constraint_probability"]) == (True, 0.0)
    assert ("PP", 1, 3) in {(n["label"], n["start"], n["end"]) for n in found["nodes"]}


def test_labels_that_constraints_may_name(client: Client) -> None:
    found = ask(client, "labels", model="mix")
    assert {"NP", "VP", "S"} <= set(found["phrases"])
    assert {"DT", "NN", "."} <= set(found["tags"])
    assert not any("@" in label or "|" in label for label in found["phrases"] + found["tags"])


# -- dependencies ---------------------------------------------------------------------------------

FIVE = ["they", "see", "the", "dog", "."]


def test_dependencies_keep_what_is_given(client: Client, store: ModelStore) -> None:
    free = ask(client, "depend", words=FIVE)
    assert free["constraint_probability"] == 1.0
    heads = [node["head"] for node in free["nodes"]]
    other = 4 if heads[0] != 4 else 2
    asked = {"heads": [other] + [None] * 4, "relations": [None, None, "DT", None, None]}
    found = ask(client, "depend", words=FIVE, k=2, **asked)
    parse = store.models["arcs"].arc_parser.parse(FIVE, **asked)
    assert [node["head"] for node in found["nodes"]] == list(parse.arcs.heads)
    assert found["nodes"][0]["head"] == other
    assert found["constraint_probability"] == pytest.approx(math.exp(parse.constraint_log_prob))
    assert all(row["heads"][0] == other for row in found["k_best"])


def test_dependencies_keep_tags(client: Client) -> None:
    xpos = ask(client, "depend", words=FIVE)["nodes"][3]["xpos"]
    upos = ask(client, "depend", words=FIVE)["nodes"][3]["upos"]
    for tag in (xpos if xpos != "_" else upos, [upos, "_"], {upos: 0.9}):
        found = ask(client, "depend", words=FIVE, tags=[None] * 3 + [tag, None])
        assert found["nodes"][3]["upos"] == upos


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"heads": [1] + [None] * 4}, "word 1"),
        ({"heads": [9] + [None] * 4}, "9"),
        ({"heads": [2]}, "5"),
        ({"heads": [2, 1] + [None] * 3}, "1"),
        ({"relations": ["nonsense"] + [None] * 4}, "nonsense"),
        ({"tags": ["QQQ"] + [None] * 4}, "QQQ"),
        ({"heads": ["x"] + [None] * 4}, "\"heads.0\" is 'x', expected a whole number"),
        ({"heads": [-1] + [None] * 4}, '"heads.0" is -1'),
        ({"relations": [3] + [None] * 4}, '"relations.0" is 3'),
        ({"spans": [[0, 1, None]]}, '"spans" is not a field'),
    ],
)
def test_refusals_of_dependencies(client: Client, asked: dict[str, Any], error: str) -> None:
    found = ask(client, "depend", 422, words=FIVE, **asked)
    assert error in found["error"]
    assert found["hint"]


# -- surprisal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["bits", "nats"])
@pytest.mark.parametrize("model", ["bundled", "mix", "text"])
def test_surprisal_is_that_of_python(
    client: Client, store: ModelStore, model: str, unit: str
) -> None:
    found = ask(client, "surprisal", model=model, words=WORDS, unit=unit)
    expected = sw.surprisal(store.models[model].model, WORDS, unit=unit)
    assert (found["unit"], found["impossible"]) == (unit, None)
    assert found["total"] == pytest.approx(expected.total)
    for row, other in zip(found["words"], expected.rows(), strict=True):
        assert row == pytest.approx(other)


def test_surprisal_of_text(client: Client) -> None:
    found = ask(client, "surprisal", sentence="The dog sleeps.")
    assert [row["word"] for row in found["words"]] == ["The", "dog", "sleeps", ".", "</s>"]


def test_a_word_that_cannot_be_there(client: Client) -> None:
    words = ["the", "the", "dog"]
    found = ask(client, "surprisal", words=words)
    assert (found["impossible"], found["total"]) == (2, None)
    assert [row["surprisal"] is None for row in found["words"]] == [False, True, True, True]
    found = ask(client, "surprisal", words=words, restart=1e-4)
    assert found["impossible"] is None
    assert math.isfinite(found["total"])


@pytest.mark.parametrize(
    ("asked", "status", "error"),
    [
        ({"words": WORDS, "model": "spectral"}, 422, "no surprisal by spectral"),
        ({"words": WORDS, "model": "arcs"}, 422, "one of trees or text was expected"),
        ({"words": WORDS, "model": "?"}, 404, "no model"),
        ({"words": WORDS, "unit": "bytes"}, 422, "'bits', 'nats'"),
        ({"words": WORDS, "restart": 0.6}, 422, '"restart" is 0.6'),
        ({"words": WORDS, "restart": -0.1}, 422, '"restart" is -0.1'),
        ({"words": ["a"] * 151}, 422, "at most 150"),
        ({"words": ["the", "</s>", "."]}, 422, "word 2 of the sentence is '</s>', a symbol"),
        ({"words": WORDS, "model": "text", "restart": 0.1}, 422, "a language model has no"),
        ({"words": []}, 422, "no words"),
        ({}, 422, 'either "sentence" or "words"'),
    ],
)
def test_refusals_of_surprisal(
    client: Client, asked: dict[str, Any], status: int, error: str
) -> None:
    assert error in ask(client, "surprisal", status, **asked)["error"]


def test_surprisal_is_given_up_when_time_is_up(store: ModelStore) -> None:
    client = Client(guarded(store, Limits(seconds=1e-9)))
    assert "longer than" in ask(client, "surprisal", 408, words=WORDS)["error"]
