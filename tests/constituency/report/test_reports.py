"""Reports are plain data, equal to what commands print, and say nothing themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import sapwood as sw
from sapwood import report as room
from sapwood.constituency.data.statistics import TreeCounts
from sapwood.constituency.evaluate.reliability import Predicted
from sapwood.constituency.report.inspect import member_of

TREES = [sw.Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))"), sw.Tree.parse("(S (NN (X a)))")]


@pytest.fixture(scope="module")
def spectral(small_bank: sw.Treebank) -> sw.SpectralLPCFG:
    return sw.SpectralLPCFG(3).fit(small_bank)


def is_plain(item: object) -> bool:
    """Whether an item consists of the types of JSON and nothing else, not even their heirs."""
    if type(item) is dict:
        return all(type(key) is str and is_plain(value) for key, value in item.items())
    if type(item) is list:
        return all(map(is_plain, item))
    return item is None or type(item) in {str, int, float, bool}


def test_what_is_plain() -> None:
    assert is_plain({"a": [1, 2.0, None, True, "x"]})
    assert not is_plain({"a": (1,)})
    assert not is_plain({1: "a"})
    assert not is_plain([sw.bundled_grammar().root[0]])


MAKERS: dict[str, Callable[[sw.SpectralLPCFG, sw.Treebank], Any]] = {
    "model": lambda learner, small_bank: room.inspect_model(learner.model_, "m"),
    "label": lambda learner, small_bank: room.inspect_model(learner.model_, label="NP"),
    "truth": lambda learner, small_bank: room.inspect_model(sw.bundled_grammar(), label="NN"),
    "card": lambda learner, small_bank: room.model_card(learner.model_, "m"),
    "spectrum": lambda learner, small_bank: room.inspect_spectrum(learner.model_, "m"),
    "ensemble": lambda learner, small_bank: room.inspect_model(
        sw.Ensemble.of([learner.model_, sw.bundled_grammar()])
    ),
    "parse": lambda learner, small_bank: room.parse_report(
        sw.Parser(learner.model_).parse(small_bank[0].words()), k_best=2
    ),
    "training": lambda learner, small_bank: room.training_report(
        learner, small_bank, method="spectral"
    ),
    "scores": lambda learner, small_bank: room.score_on(learner.model_, list(small_bank)[:5]),
    "row": lambda learner, small_bank: room.comparison_row(
        "spectral", small_bank, list(small_bank)[:5], states=2
    ),
    "evaluation": lambda learner, small_bank: room.evaluate_trees(
        TREES, [Predicted(tree) for tree in TREES], errors=True
    ).as_dict(per_sentence=True),
    "treebank": lambda learner, small_bank: room.treebank_report(
        TreeCounts.of(small_bank), TreeCounts.of(TREES)
    ),
    "split": lambda learner, small_bank: room.split_report({"train": TREES, "dev": TREES[:1]}),
    "family": lambda learner, small_bank: room.identify_family(
        "dep-ies", words=3, length=3
    ).to_dict(with_directions=True),
    "table": lambda learner, small_bank: room.identify_table(2, 2, 2),
    "bounds": lambda learner, small_bank: room.identify_bounds(sw.bundled_grammar()),
    "unmix": lambda learner, small_bank: room.unmix_report(
        sw.UnmixDEPIES().fit([["a", "b", "c"], ["b", "a"], ["c", "b", "a"], ["a", "c"]] * 50)
    ),
    "checkup": lambda learner, small_bank: room.checkup(),
}


@pytest.mark.filterwarnings("ignore::sapwood.core.errors.SapwoodWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_reports_are_plain_and_silent(
    name: str,
    spectral: sw.SpectralLPCFG,
    small_bank: sw.Treebank,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = MAKERS[name](spectral, small_bank)
    assert is_plain(found)
    assert json.loads(room.to_json(found)) is not None
    assert capsys.readouterr() == ("", "")


def test_every_name_of_the_room_is_documented() -> None:
    assert len(room.__all__) > 15
    for name in room.__all__:
        assert getattr(room, name).__doc__, name


def test_members_are_counted_from_one() -> None:
    pair = sw.Ensemble.of([sw.bundled_grammar(), sw.bundled_grammar()])
    assert member_of(pair, 2) is pair.members[1]
    assert member_of(pair, None) is None
    for number in (0, 3):
        with pytest.raises(sw.SapwoodError, match=f"no member {number}"):
            member_of(pair, number)


def test_an_ensemble_without_singular_values_says_so() -> None:
    pair = sw.Ensemble.of([sw.bundled_grammar(), sw.bundled_grammar()])
    with pytest.raises(sw.SapwoodError, match="no singular values"):
        room.inspect_spectrum(pair)


def test_reliability_without_probabilities_is_none() -> None:
    found = room.evaluate_trees(TREES, [Predicted(tree, []) for tree in TREES], reliability=True)
    assert found.reliability is None
    assert "reliability" not in found.as_dict()


def test_a_card_says_what_follows_from_how_a_model_was_made(spectral: sw.SpectralLPCFG) -> None:
    origin = {"treebanks": ["mine.mrg"], "dev_f1": 91.5, "dev_trees": 20, "trees": 300}
    model = replace(spectral.model_, record=dict(spectral.model_.record) | origin)
    card = room.model_card(model)
    said = " ".join(card["limits"])
    assert "no probabilities" in said
    assert "flatters" in said
    assert "300 sentences only" in said
    assert "No score" not in said
    assert card["training"]["treebanks"] == ["mine.mrg"]
    assert 91.5 in card["scores"].values()
    assert "spectrum" not in card["training"]
    bare = " ".join(room.model_card(replace(model, record={}))["limits"])
    assert "does not say what" in bare
    assert "No score" in bare


def test_a_card_of_an_ensemble_lists_its_members() -> None:
    pair = sw.Ensemble.of([sw.bundled_grammar(), sw.bundled_grammar()])
    rows = room.model_card(pair)["members"]
    assert [row["method"] for row in rows] == ["hand-written"] * 2
    assert sum(row["weight"] for row in rows) == pytest.approx(1)
