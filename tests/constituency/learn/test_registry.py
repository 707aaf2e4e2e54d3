"""The one list of methods, and who reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sapwood as sw
from sapwood.constituency.learn.ensemble import estimator_of
from sapwood.constituency.learn.ensemble_budget import PLAN, Candidate
from sapwood.constituency.learn.registry import METHODS, Settings
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Method

CLASSES = {
    "best": sw.EnsembleLPCFG, "pcfg": sw.PCFG, "spectral": sw.SpectralLPCFG, "em": sw.EMLPCFG,
    "cluster": sw.ClusterLPCFG, "pivot": sw.PivotLPCFG, "pivot-em": sw.PivotLPCFG,
    "crf": sw.SpanCRF, "encoder": sw.SpanEncoder,
}  # fmt: skip


def learner_of(name: str, lexicon: LexiconSettings | None = None, **parameters: Any) -> Any:
    method = METHODS[name]
    return method.make(**Settings(parameters, lexicon).values_for(method))


@pytest.mark.parametrize("name", METHODS)
def test_a_name_stands_for_a_class_and_what_it_decides(name: str) -> None:
    method = METHODS[name]
    assert method.estimator is CLASSES[name]
    assert method.task == "trees"
    assert {**method.usual, **method.fixed}.keys() <= method.estimator.parameters().keys()
    method.make()._check_parameters()
    learner_of(name)._check_parameters()


@pytest.mark.parametrize("name", METHODS)
def test_what_is_fixed_cannot_be_set(name: str) -> None:
    method = METHODS[name]
    for parameter, value in method.fixed.items():
        assert not method.has(parameter)
        assert parameter not in method.pick({parameter: 7})
        assert getattr(method.make(**{parameter: 7}), parameter) == value


def test_iterations_of_each_method() -> None:
    told = {name: learner_of(name, iterations=3, passes=3) for name in METHODS}
    assert {name: getattr(x, "iterations", None) for name, x in told.items()} == {
        "best": None, "pcfg": None, "spectral": None, "em": 3, "cluster": 3, "pivot": 0,
        "pivot-em": 3, "crf": None, "encoder": None,
    }  # fmt: skip
    assert told["crf"].passes == 3
    assert learner_of("em").iterations == sw.EMLPCFG().iterations
    assert learner_of("pivot-em").iterations == 10
    assert learner_of("crf").passes == sw.SpanCRF().passes


def test_settings_reach_the_estimators() -> None:
    path = Path("em.check")
    lexicon = LexiconSettings(rare_count=2, style="generic")
    given: dict[str, Any] = {
        "lexicon": lexicon, "seed": 4, "n_jobs": 3, "n_states": 5, "patience": 6,
        "checkpoint": path, "budget": 8.0, "spent": 1.0,
    }  # fmt: skip
    for name in METHODS:
        learner = learner_of(name, **given)
        assert learner.n_jobs == 3
        plain = learner if name == "pcfg" else learner.plain
        assert (plain.lexicon, plain.n_jobs) == (lexicon, 3)
    em, best = learner_of("em", **given), learner_of("best", **given)
    assert (em.n_states, em.seed, em.patience, em.checkpoint) == (5, 4, 6, path)
    assert (best.n_states, best.seed, best.budget, best.spent) == (5, 4, 8.0, 1.0)
    assert learner_of("best", budget=None).budget is None


def test_settings_are_those_of_the_estimators_unless_told() -> None:
    assert learner_of("em").n_states == sw.EMLPCFG().n_states
    assert learner_of("best").n_states == sw.EnsembleLPCFG().n_states
    assert (learner_of("best").budget, learner_of("em").seed, learner_of("em").n_jobs) == (
        "auto",
        0,
        0,
    )
    assert LexiconSettings() == learner_of("pcfg").lexicon


class Witness:
    """Tells what it was fitted with."""

    def fit(self, *given: Any) -> tuple[Any, ...]:
        return given


@pytest.mark.parametrize("name", METHODS)
def test_dev_trees_go_where_they_can_choose(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Method, "make", lambda *_, **__: Witness())
    chooses = name in ("best", "em", "cluster", "pivot-em")
    bank: Any = object()
    assert METHODS[name].fit(Settings(), bank, ["dev"]) == ((bank, ["dev"]) if chooses else (bank,))
    assert METHODS[name].fit(Settings(), bank) == (bank,)


# -- candidates -----------------------------------------------------------------------------------


def test_candidates_are_the_methods_on_top_of_a_plain_grammar() -> None:
    kinds = [name for name in METHODS if name not in ("best", "pcfg")]
    assert {c.method for c in PLAN} <= set(kinds)
    for name in kinds:
        learner = estimator_of(Candidate(name, 6, "right", 0, 2), seed=1, n_jobs=3)
        assert type(learner) is CLASSES[name]
        assert getattr(learner, "n_states", 6) == 6
        assert (learner.seed, learner.n_jobs) == (3, 3)
        assert (learner.plain.binarise, learner.plain.horizontal) == ("right", 0)
    with pytest.raises(
        SapwoodError, match=f"'best' is not a kind of candidate: {', '.join(kinds)}$"
    ):
        estimator_of(Candidate("best"))


def test_the_name_of_a_candidate() -> None:
    assert [str(Candidate(name, 8)) for name in ("em", "crf", "magic")] == [
        "em 8",
        "crf",
        "magic 8",
    ]
