"""Settings that are chosen on the treebank itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.data.treebank import StoredTreebank, Treebank
from sapwood.constituency.learn import settings_search as room
from sapwood.constituency.learn.registry import METHODS, Settings
from sapwood.constituency.learn.settings_search import (
    SETTINGS,
    ChosenSettings,
    choose_settings,
    standard_error,
)
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.execute import Threads


def flat_trees(n: int) -> list[sw.Tree]:
    """Trees of phrases that take turns: who forgets the last one cannot tell the next."""
    one, two = "(X (D w) (D w))", "(Y (D w) (D w))"
    return [sw.Tree.parse(f"(S (H h) {' '.join([one, two] * (2 + k % 3))})") for k in range(n)]


@cache
def bank() -> Treebank:
    return sw.Treebank.from_trees(flat_trees(120))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice on few trees, by judges that take no time."""
    monkeypatch.setattr(room, "LIMITS", room.LIMITS._replace(least_trees=100))
    quick = {
        name: replace(method, judge=method.judge and ("pcfg", {}))
        for name, method in METHODS.items()
    }
    monkeypatch.setattr(room, "METHODS", quick)


# -- what is chosen -------------------------------------------------------------------------------


def test_settings_that_parse_held_trees_better_are_chosen(few: None) -> None:
    read = bank().retransform(sw.Transform(horizontal=0))
    found = choose_settings(read, "pcfg")
    f1 = {tuple(tried.values()): grade for tried, grade in found.grades}
    assert found.settings["horizontal"] != 0
    assert f1[tuple(found.settings.values())] == max(f1.values()) > found.grades[0].f1
    assert found.grades[0].settings == {"horizontal": 0, "binarise": "head", "vertical": 1}
    assert (found.judge, found.trees, found.held) == ("pcfg", 96, 24)


def test_what_is_no_better_beyond_noise_stays_as_it_was(
    few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "standard_error", lambda *_: 100.0)
    read = bank().retransform(sw.Transform(horizontal=0))
    found = choose_settings(read, "pcfg")
    assert found.settings == {"horizontal": 0, "binarise": "head", "vertical": 1}
    assert len(found.grades) == 6
    assert "usual settings" not in str(found)


def test_only_what_is_open_is_chosen(few: None) -> None:
    found = choose_settings(bank(), "em", names=["binarise"])
    assert [tried for tried, _ in found.grades] == [
        {"binarise": "head"}, {"binarise": "right"}, {"binarise": "left"},
    ]  # fmt: skip
    assert set(choose_settings(bank(), "em").settings) == {"horizontal", "binarise"}


@pytest.mark.parametrize(
    ("method", "names", "reason"),
    [
        ("em", SETTINGS, "120 trees are too few to choose by, 1,000 are needed"),
        ("encoder", SETTINGS, "encoder does not depend on them"),
        ("em", (), "all were given"),
        ("em", ["vertical"], "all were given"),
    ],
)
def test_why_nothing_is_tried(method: str, names: Any, reason: str) -> None:
    found = choose_settings(bank(), method, names=names)
    assert (found.settings, found.grades, found.reason) == ({}, (), reason)
    assert str(found) == f"the usual settings: {reason}"


def test_every_judge_is_a_method_with_these_parameters() -> None:
    judges = [method.judge for method in METHODS.values() if method.judge is not None]
    assert len(judges) == 7
    for name, values in judges:
        METHODS[name].make(**values)


# -- where it is done -----------------------------------------------------------------------------


def test_threads_and_places_of_trees_change_nothing(few: None, tmp_path: Path) -> None:
    whole = choose_settings(bank(), "spectral").as_record()
    stored = StoredTreebank.write(bank().trees(), tmp_path)
    assert choose_settings(bank(), "spectral", engine=Threads(2)).as_record() == whole
    assert choose_settings(stored, "spectral").as_record() == whole
    assert choose_settings(flat_trees(120), "spectral").as_record() == whole


def test_a_large_treebank_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapwood.constituency.data import treebank

    monkeypatch.setattr(room, "LIMITS", room.LIMITS._replace(most_trees=40))
    monkeypatch.setattr(treebank, "SHARD_NODES", 200)
    assert len(bank().shards()) > 5
    every_third = [bank()[k] for k in range(0, 120, 3)]
    assert list(room._sample(bank())) == every_third
    few_words = room.LIMITS._replace(most_words=bank().n_tokens // 10)
    monkeypatch.setattr(room, "LIMITS", few_words)
    assert len(list(room._sample(bank()))) == 12


def test_words_are_generalised_as_asked(few: None) -> None:
    seen = []

    class Spy(sw.PCFG):
        def prepare(self, *given: Any) -> Any:
            seen.append(self.lexicon)
            return super().prepare(*given)

    lexicon = LexiconSettings(rare_count=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "PCFG", Spy)
        choose_settings(bank(), "spectral", lexicon=lexicon)
    assert set(seen) == {lexicon}


# -- noise ----------------------------------------------------------------------------------------


def test_the_standard_error_is_that_of_resampled_sentences() -> None:
    rng = np.random.default_rng(1)
    n = 400
    gold = rng.integers(5, 30, n)
    one = np.stack([rng.binomial(gold, 0.8), 2 * gold], axis=1).astype(float)
    # most of what one has right the other has too
    other = np.stack([rng.binomial(one[:, 0].astype(int), 0.95), 2 * gold], axis=1).astype(float)
    picked = rng.integers(n, size=(2000, n))
    f1 = [200.0 * rows[picked, 0].sum(1) / rows[picked, 1].sum(1) for rows in (one, other)]
    assert standard_error(one, other) == pytest.approx(np.std(f1[0] - f1[1]), rel=0.1)


# -- settings of a training -----------------------------------------------------------------------


def test_a_training_takes_what_was_chosen_and_tells(few: None) -> None:
    read = bank().retransform(sw.Transform(horizontal=0))
    settings = Settings({"n_states": 2, "spent": 1.0}).choose("spectral", read)
    assert settings.choice is not None
    assert settings["spent"] == 1.0 + settings.choice.seconds
    assert settings.choice.settings["horizontal"] == 1
    model: Any = METHODS["spectral"].fit(settings, read).model_
    assert model.transform.horizontal == 1
    assert model.record["choice"] == settings.choice.as_record()
    plain: Any = METHODS["pcfg"].fit(Settings().choose("pcfg", read), read).model_
    assert plain.transform.horizontal != 0
    fixed = Settings({"n_states": 2}, open=()).choose("spectral", read)
    model = METHODS["spectral"].fit(fixed, read).model_
    assert (model.transform.horizontal, "choice" in model.record) == (0, False)


def test_a_short_budget_is_not_spent_on_choosing(few: None) -> None:
    short = Settings({"budget": 39.0}).choose("best", bank()).choice
    assert short is not None
    assert (short.reason, short.grades) == ("the budget is below 40 s", ())
    # the usual one, none, and one of a method that has none
    for budget, method in (("auto", "best"), (None, "best"), (1.0, "em")):
        found = Settings({"budget": budget}).choose(method, bank()).choice
        assert found is not None
        assert found.grades


def test_a_choice_makes_the_plain_grammar_of_any_learner() -> None:
    lexicon = LexiconSettings(rare_count=1)
    plain = ChosenSettings({"binarise": "left", "horizontal": 0}).plain(lexicon)
    assert (plain.binarise, plain.horizontal, plain.lexicon) == ("left", 0, lexicon)
