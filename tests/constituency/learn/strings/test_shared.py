"""What learners from strings share: strings held out, risks, records and warnings."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

import sapwood as sw
from sapwood.core.errors import SapwoodError, SapwoodTypeError, SapwoodWarning
from sapwood.corpora.tree import Tree
from sapwood.hankel.learn.shared import (
    best_rank,
    choose_rank,
    judge_conditioning,
    read_brackets,
    read_strings,
    risk,
    split_counts,
    string_info,
    string_record,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.linalg.hankel import Conditioning


def one_state(stop: float) -> WeightedGrammar:
    """p("a") = stop, p("aa") = (1 - stop) stop^2, and so on."""
    return WeightedGrammar(("a",), np.ones(1), np.array([[stop]]), np.array([[[1 - stop]]]))


def test_one_string_in_ten_is_held_out() -> None:
    """Of frequent strings a tenth of their count; of rare ones every tenth string."""
    common = {("z", str(k)): times for k, times in enumerate((10, 29, 100))}
    rare = {("a", f"{k:02}"): 1 + k % 9 for k in range(21)}
    rest, held = split_counts(rare | common)
    assert {x: t for x, t in held.items() if x in common} == {
        ("z", "0"): 1, ("z", "1"): 2, ("z", "2"): 10
    }  # fmt: skip
    assert {x for x in held if x in rare} == {("a", "00"), ("a", "10"), ("a", "20")}
    assert rest + held == Counter(rare | common)
    assert not any(rest[x] for x in held if x in rare)
    assert min(held.values()) > 0


def test_risk_is_a_squared_distance_less_a_constant() -> None:
    model = one_state(0.5)
    held, seen = {("a",): 3.0, ("a", "a"): 1.0, ("b",): 4.0}, {("a", "a", "a"): 2.0}
    p = [0.5, 0.125, 0.0625]  # two trees of three symbols
    expected = sum(x * x for x in p) - 2 * (3 * p[0] + p[1]) / 8
    assert risk(model, held, seen) == pytest.approx(expected)


def test_risks_of_all_numbers_of_states_that_can_be_learnt() -> None:
    def learn(n: int) -> WeightedGrammar:
        if n == 4:
            msg = "rank"
            raise SapwoodError(msg)
        return one_state(0.1 * n)

    found = best_rank(learn, lambda model: float(model.terminals[0, 0]), 9)
    assert found == {1: pytest.approx(0.1), 2: pytest.approx(0.2), 3: pytest.approx(0.3)}
    assert best_rank(learn, lambda model: np.nan, 2) == {1: np.inf, 2: np.inf}
    assert list(best_rank(lambda n: one_state(0.5), lambda model: 0.0, 99)) == list(range(1, 13))


def test_the_least_number_of_states_that_is_as_good() -> None:
    assert choose_rank({1: -0.9, 2: -0.995, 3: -1.0}) == 2
    assert choose_rank({1: -0.9, 2: -0.994, 3: -1.0}) == 3
    assert choose_rank({1: 1.004, 2: 1.0}) == 1
    assert choose_rank({2: 5.0, 1: np.inf}) == 2


def test_strings_are_counted() -> None:
    assert read_strings([["a"], ["a"], ["b", "a"]]) == {("a",): 2, ("b", "a"): 1}
    assert read_strings({("a",): 2.5, ("b",): 1}) == {("a",): 2.5, ("b",): 1}
    for nothing in ([], {}, {("a",): 0}):
        with pytest.raises(SapwoodError, match="no strings"):
            read_strings(nothing)


def test_trees_are_read_and_wide_nodes_counted() -> None:
    wide = Tree.parse("(S (A a) (B b) (C c))")
    trees, n_wide = read_brackets([wide, Tree.parse("(S (A a) (B b))")])
    assert ([x.words for x in trees], n_wide) == ([("a", "b", "c"), ("a", "b")], 1)
    with pytest.raises(SapwoodTypeError, match="not a mapping"):
        read_brackets({wide: 1})
    with pytest.raises(SapwoodError, match="no trees"):
        read_brackets([])


def test_noise_as_large_as_what_is_kept_is_a_warning() -> None:
    info = string_info(n_strings=1234.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_conditioning(info, Conditioning(0.5, 0.1, 0.5, 1.0))
    assert not info.warnings
    with pytest.warns(SapwoodWarning, match=r"kept, 0.5, .*1,234 strings, about 0.6"):
        judge_conditioning(info, Conditioning(0.5, 0.1, 0.6, 1.2))
    assert info.conditioning == (0.5, 0.1, 0.6, 1.2)
    assert len(info.warnings) == 1


def test_records_of_model_files() -> None:
    assert string_record(string_info(n_strings=np.inf), "x", 2) == {"method": "x", "states": 2}
    assert string_record(string_info(n_strings=2.0), "x", 2)["strings"] == 2
    assert isinstance(string_record(string_info(n_strings=2.0), "x", 2)["strings"], int)
    assert string_record(string_info(n_strings=2.5), "x", 2)["strings"] == 2.5
    values = np.arange(40) / 3
    told = string_record(string_info(basis=(4, 5), singular_values=values), "x", 2)
    assert told["basis"] == [4, 5]
    assert len(told["singular_values"]) == 32
    assert told["singular_values"][4] == 1.333
    told = string_record(string_info(iterations=7, log_likelihood=-3.0), "em", 2)
    assert (told["iterations"], told["log_likelihood"]) == (7, -3.0)


@pytest.mark.parametrize(
    "learner",
    [sw.SpectralWFA(0), sw.SpectralWCFG(basis=0.0), sw.UnsupervisedWCFG(solver="x"), sw.EMWCFG(0)],
    ids=lambda learner: type(learner).__name__,
)
def test_wrong_settings_are_refused_before_anything_is_read(learner: object) -> None:
    with pytest.raises(SapwoodError, match=r"n_states|basis|solver"):
        learner.fit([])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "learner",
    [sw.SpectralWFA(1), sw.UnsupervisedWCFG(1, solver="direct"), sw.EMWCFG(1), sw.SpectralWCFG(1)],
    ids=lambda learner: type(learner).__name__,
)
def test_wrong_numbers_of_jobs_are_refused(learner: object) -> None:
    data = [Tree.parse("(S (A a) (B b))")] if isinstance(learner, sw.SpectralWCFG) else [["a"]]
    learner.n_jobs = -3  # type: ignore[attr-defined]
    with pytest.raises(SapwoodError, match="job"):
        learner.fit(data)  # type: ignore[attr-defined]
