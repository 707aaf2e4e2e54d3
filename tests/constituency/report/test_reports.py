"""Reports on treebanks, parses, states and trainings: plain dictionaries."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest
from tests.theorems.test_twin_states import cloned_grammars

import sapwood as sw
from sapwood import report as room
from sapwood.constituency.data.statistics import TreeCounts
from sapwood.constituency.evaluate.reliability import Predicted
from sapwood.constituency.report.inspect import member_of
from sapwood.constituency.report.states import StateAtlas

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


@pytest.fixture(scope="module")
def atlas() -> StateAtlas:
    return StateAtlas(sw.bundled_grammar())


def overlap(atlas: StateAtlas, one: tuple[str, int], other: tuple[str, int]) -> float:
    """By the lists of the vectors, thing by thing."""

    def shares(symbol: str, state: int, kind: str) -> dict[str, float]:
        a = atlas.view.find(symbol)[0]
        name = f"[{atlas.view.names[a]}]"
        items = getattr(atlas.vectors, kind)(a)
        found = {item.name.replace(name, "[ ]"): float(item.vector[state]) for item in items}
        total = sum(found.values())
        return {key: value / total for key, value in found.items()}

    sums = []
    for kind in ("below", "contexts"):
        p, q = shares(*one, kind), shares(*other, kind)
        sums.append(sum(sqrt(p[key] * q.get(key, 0.0)) for key in p))
    return sum(sums) / 2


@pytest.mark.parametrize(("symbol", "state"), [("NN", 0), ("NP", 3), ("VBD", 2)])
def test_overlaps_are_those_of_the_lists(atlas: StateAtlas, symbol: str, state: int) -> None:
    near = atlas.nearest(symbol, state)
    assert near
    assert [row["overlap"] for row in near] == sorted(
        (row["overlap"] for row in near), reverse=True
    )
    for row in near:
        expected = overlap(atlas, (symbol, state), (row["symbol"], row["state"]))
        assert row["overlap"] == pytest.approx(expected, abs=1e-3)  # sweeps stop there


def test_twin_states_are_one_row_with_the_means_of_their_numbers() -> None:
    """A grammar whose states were cloned has the cards of the one without clones."""
    for plain, cloned, origin in cloned_grammars():
        for a, symbol in enumerate(map(str, plain.symbols)):
            ((_, *once), (_, *twice)) = (
                StateAtlas(grammar).cards(symbol)[0]["rows"] for grammar in (plain, cloned)
            )
            if not once:  # a single state, cloned or not
                assert len(twice) == (len(origin[a]) > 1)
                continue
            for one, two in zip(once, twice, strict=True):
                states = [two["state"], *two.get("twins", [])]
                assert states == (origin[a] == one["state"]).nonzero()[0].tolist()
                assert probabilities(two) == pytest.approx(probabilities(one), abs=1e-4)


def test_twin_states_with_pivots_are_listed_one_by_one() -> None:
    _, grammar, origin = next(cloned_grammars())
    symbols = list(map(str, grammar.symbols))
    pivots = {name: ["word: w0"] * len(of) for name, of in zip(symbols, origin, strict=True)}
    grammar = replace(grammar, record={"pivots": pivots})
    for name, of in zip(symbols, origin, strict=True):
        rows = StateAtlas(grammar).cards(name)[0]["rows"]
        assert len(rows) == 1 + (len(of) if len(of) > 1 else 0)


def probabilities(row: dict[str, Any]) -> dict[str, float]:
    """All probabilities of a state's row; expected visits come from a series that is cut."""
    kinds = {"rules": "rule", "words": "word", "contexts": "context"}
    listed = {
        one[kind]: one["probability"] for key, kind in kinds.items() for one in row.get(key, ())
    }
    return listed | {key: row[key] for key in ("root", "share")}


def test_phrases_are_compared_with_phrases(atlas: StateAtlas) -> None:
    tags = {str(symbol) for symbol in atlas.model.tags}
    assert all(row["symbol"] in tags for row in atlas.nearest("NN", 1))
    assert not any(row["symbol"] in tags for row in atlas.nearest("NP", 1))


def test_examples_are_constituents_of_the_label(atlas: StateAtlas) -> None:
    trees = list(sw.bundled_treebank("dev")[:60])
    found = atlas.examples("PP", trees)
    spans = {(tuple(tree.words()), i, j) for tree in trees for a, i, j in tree.spans() if a == "PP"}
    total = 0.0
    for row in found["symbols"][0]["rows"]:
        total += row["count"]
        for example in row["examples"]:
            assert (tuple(example["words"]), example["start"], example["end"]) in spans
    assert total == pytest.approx(found["nodes"], rel=0.05)  # shares below 5 % are not counted
