"""Learners from strings: what they recover, refuse and tell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from benchmarks.papers.hankel_corpora import left_branching
from benchmarks.papers.string_distances import (
    compare_on_draws,
    compare_strings,
    perplexity,
    strings_up_to,
    unlabelled,
)
from benchmarks.papers.targets import dyck
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.hankel.data.bracketed import right_branching
from sapwood.hankel.learn.fit_values import fit_values


@pytest.fixture(scope="module")
def target() -> sw.WeightedGrammar:
    return strings_grammar(2, 2, seed=3)


@pytest.fixture(scope="module")
def exact(target: sw.WeightedGrammar) -> dict[tuple[str, ...], float]:
    every = strings_up_to(("a", "b"), 6)
    return dict(zip(every, target.values(every).tolist(), strict=True))


@pytest.mark.parametrize(
    ("solver", "limit"), [("admm", 1e-6), ("direct", 1e-12), ("factored", 1e-2)]
)
def test_exact_probabilities_of_strings_give_the_grammar(target, exact, solver, limit) -> None:
    learner = sw.UnsupervisedWCFG(2, solver=solver, basis=0.01).fit(exact, n=1.0)
    assert compare_strings(target, learner.model_, 6).kl < limit
    assert learner.info_.solver["feasibility"] < 1e-4


def test_the_iteration_of_the_paper_stops_short(target, exact) -> None:
    """Where the nuclear norm to its end recovers the grammar, fifty printed steps do not."""
    fista, admm = (
        sw.UnsupervisedWCFG(2, solver=x, basis=0.03).fit(exact, n=1.0) for x in ("fista", "admm")
    )
    errors = [compare_strings(target, x.model_, 6).l1 for x in (fista, admm)]
    assert errors[0] > 10 * errors[1]


def test_values_are_fitted_from_a_rough_start(target, exact) -> None:
    rng = np.random.default_rng(0)
    rough = sw.WeightedGrammar(
        ("a", "b"), target.initial, target.terminals * rng.uniform(0.95, 1.05, (2, 2)),
        target.binary * rng.uniform(0.9, 1.1, (2, 2, 2)),
    )  # fmt: skip
    fitted = fit_values(rough, exact)
    assert compare_strings(target, fitted, 6).l1 < 1e-6 < compare_strings(target, rough, 6).l1


def test_the_number_of_states_by_strings_held_out() -> None:
    drawn = [x for x in dyck().sample_brackets(2000, seed=2) if len(x.words) < 13]
    learner = sw.SpectralWCFG(choose="held-out", basis=0.2).fit(drawn)
    assert learner.model_.n_states == 4
    assert learner.info_.risks[4] < learner.info_.risks[2]


def test_an_automaton_of_a_regular_language() -> None:
    strings = {
        ("a",) * i + ("b",) * j: 2.0 ** (20 - i - j) for i in range(1, 9) for j in range(1, 9)
    }
    model = sw.SpectralWFA(3, basis=1.0).fit(strings).model_
    assert model.value(["a", "a", "b"]) == pytest.approx(2.0**-3, rel=0.02)
    assert model.value(["b", "a"]) == pytest.approx(0, abs=1e-3)


def test_em_finds_a_likelier_grammar_than_the_truth(target) -> None:
    drawn = Counter(x.words for x in target.sample_brackets(400, seed=1))
    found = sw.EMWCFG(2, iterations=60).fit(drawn)
    truth = sum(t * target.log_prob(x) for x, t in drawn.items())
    assert found.info_.log_likelihood > truth - 5
    assert found.model_.is_probabilistic


def test_noise_above_what_is_kept_is_told() -> None:
    with pytest.warns(SapwoodWarning, match="ill-conditioned"):
        sw.SpectralWCFG(4, basis=0.3).fit(dyck().sample_brackets(60, seed=1))


def test_more_states_than_the_basis_supports() -> None:
    strings = {("a",): 3, ("a", "b"): 2}
    with pytest.raises(SapwoodError, match="rank"):
        sw.UnsupervisedWCFG(9, solver="direct").fit(strings)
    with pytest.raises(SapwoodError, match="has rank 2") as caught:
        sw.UnsupervisedWCFG(9, solver="factored", basis=1e-9).fit(strings)
    assert "at most 2 states" in str(caught.value.hint)


def test_factors_choose_their_number_of_states(target, exact) -> None:
    learner = sw.UnsupervisedWCFG(solver="factored", basis=1e-9).fit(exact, n=1.0)
    assert learner.model_.n_states == 2
    assert learner.info_.conditioning.smallest > 0


def test_composed_contexts_are_rows(target, exact) -> None:
    plain, more = (
        sw.UnsupervisedWCFG(2, basis=1e-9, composed=x).fit(exact, n=1.0) for x in (False, True)
    )
    assert more.info_.solver["listed"] > plain.info_.solver["listed"]
    assert compare_strings(target, more.model_, 6).kl < 1e-6


@pytest.mark.filterwarnings("ignore:ill-conditioned")
def test_values_from_few_strings_stay_where_nothing_is_known(target) -> None:
    """Where 300 strings say nothing, weights that move freely end anywhere."""
    drawn = Counter(x.words for x in target.sample_brackets(300, seed=7) if len(x.words) < 7)
    start, fitted = (
        sw.UnsupervisedWCFG(2, basis=1e-9, refine=x).fit(drawn, n=300).model_
        for x in ("none", "values")
    )
    before, after = (compare_strings(target, x, 6).l1 for x in (start, fitted))
    assert after < 1.2 * before
    np.testing.assert_allclose(fitted.length_masses(6), target.length_masses(6), atol=0.08)


# -- distances ------------------------------------------------------------------------------------


def test_kl_on_draws_agrees_with_kl_over_all_strings(target) -> None:
    near = sw.WeightedGrammar(("a", "b"), target.initial, target.terminals * 1.02, target.binary)
    draws = [x.words for x in target.sample_brackets(6000, seed=4) if len(x.words) <= 8]
    whole, drawn = compare_strings(target, near, 8), compare_on_draws(target, near, 8, draws)
    assert drawn.kl == pytest.approx(whole.kl, rel=0.15)
    assert drawn.l1 == pytest.approx(whole.l1, rel=0.15)
    assert drawn.mass == pytest.approx(whole.mass, rel=1e-9)


def test_perplexity_leaves_out_what_has_no_probability(target) -> None:
    one = sw.WeightedGrammar(("a",), np.ones(1), np.full((1, 1), 0.5), np.full((1, 1, 1), 0.5))
    found, without = perplexity(one, [["a"]])
    assert (found, without) == (pytest.approx(2**0.5), 0)


def test_unlabelled_brackets() -> None:
    words = list("abcd")
    right, left = right_branching(words), left_branching(words)
    assert unlabelled([right], [right]).f1 == 100
    assert unlabelled([right], [left]).f1 == 0
    flat = sw.Tree.parse("(S (A a) (B (X b) (Y c)) (C d))")
    found = unlabelled([flat], [right])
    assert (found.precision, found.recall) == (0, 0)
