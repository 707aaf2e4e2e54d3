"""EM for grammars of strings step by step: starts, M-steps, its end, the climb to a maximum."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add

import numpy as np
import pytest
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.corpora.tree import Tree
from sapwood.hankel.learn import em_wcfg
from sapwood.hankel.learn.em_wcfg import maximise, maximise_likelihood, random_grammar
from sapwood.hankel.learn.string_counts import GrammarCounts, expect, string_shards
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

STRINGS = Counter(tuple(x) for x in ("a", "a", "a", "ab", "ab", "abb", "bab", "bba", "b", "aabb"))


def counts_of(model: WeightedGrammar) -> GrammarCounts:
    """Expected counts of the strings above."""
    return reduce(add, [expect(x, model) for x in string_shards(STRINGS, {"a": 0, "b": 1})])


def numbers(model: WeightedGrammar) -> np.ndarray:
    """All probabilities of a grammar, those of a state side by side."""
    rules = np.hstack([model.terminals.T, model.binary.reshape(model.n_states, -1)])
    return np.append(model.initial, rules.ravel())


def test_starts_have_probabilities_and_about_the_right_length() -> None:
    """A string of n symbols has n leaves among 2 n - 1 nodes."""
    for mean in (1.0, 1.2, 4.0, 50.0):
        found = random_grammar(("a", "b", "c"), 4, mean, np.random.default_rng(1))
        assert found.is_probabilistic
        stop = found.terminals.sum(axis=0)
        np.testing.assert_allclose(stop + found.binary.sum(axis=(1, 2)), 1)
        assert found.initial.sum() == pytest.approx(1)
        leaves = mean / (2 * mean - 1)
        assert (np.abs(stop - np.minimum(leaves, 1.0)) <= 0.1 + 1e-12).all()
        assert np.ptp(stop) > 0.01
    assert found.terminals.shape == (3, 4)
    assert (np.ptp(found.binary, axis=(1, 2)) > 0.01).all()


def test_m_steps_are_relative_frequencies() -> None:
    model = strings_grammar(2, 2, seed=1)
    counts = counts_of(model)
    made = maximise(model, counts)
    total = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
    np.testing.assert_allclose(made.terminals, counts.terminals / total)
    np.testing.assert_allclose(made.binary, counts.binary / total[:, None, None])
    np.testing.assert_allclose(made.initial, counts.initial / counts.initial.sum())


def test_a_state_that_is_never_used_stays() -> None:
    model = strings_grammar(2, 2, seed=1)
    zero = counts_of(model)
    zero.initial[:], zero.terminals[:, 1], zero.binary[1] = 0.0, 0.0, 0.0
    made = maximise(model, zero)
    np.testing.assert_array_equal(made.initial, model.initial)
    np.testing.assert_array_equal(made.terminals[:, 1], model.terminals[:, 1])
    np.testing.assert_array_equal(made.binary[1], model.binary[1])
    assert np.abs(made.terminals[:, 0] - model.terminals[:, 0]).max() > 1e-3


def test_em_is_e_steps_and_m_steps_in_turn() -> None:
    learner = sw.EMWCFG(2, iterations=4, starts=1, tolerance=0.0, seed=3).fit(STRINGS)
    mean = sum(len(x) * n for x, n in STRINGS.items()) / STRINGS.total()
    model = random_grammar(("a", "b"), 2, mean, np.random.default_rng(3))
    track = [counts_of(model).log_likelihood]
    for _ in range(4):
        model = maximise(model, counts_of(model))
        track.append(counts_of(model).log_likelihood)
    np.testing.assert_allclose(learner.log_likelihoods_, track, rtol=1e-12)
    np.testing.assert_allclose(numbers(learner.model_), numbers(model), rtol=1e-9)
    assert (learner.info_.iterations, learner.info_.log_likelihood) == (4, track[-1])
    record = learner.model_.record
    assert (record["method"], record["states"], record["seed"]) == ("em", 2, 3)
    assert record["strings"] == STRINGS.total()
    assert learner.model_.symbols == ("a", "b")


def test_em_ends_when_a_string_gains_little() -> None:
    """The first gain below the tolerance times the number of strings is the last one."""
    learner = sw.EMWCFG(2, iterations=200, starts=1, tolerance=1e-3).fit(STRINGS)
    gains = np.diff(learner.log_likelihoods_) / STRINGS.total()
    assert len(gains) < 200
    assert (gains[:-1] >= 1e-3).all()
    assert gains[-1] < 1e-3
    none = sw.EMWCFG(2, iterations=0, starts=1).fit(STRINGS)
    assert (none.info_.iterations, len(none.log_likelihoods_)) == (0, 1)


def test_the_maximum_is_near_and_the_track_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    start = random_grammar(("a", "b"), 2, 2.0, np.random.default_rng(0))
    n_steps = []

    def expected(model: WeightedGrammar) -> GrammarCounts:
        n_steps.append(1)
        return counts_of(model)

    found, track = maximise_likelihood(start, expected, 1e-9)
    assert track == sorted(track)
    assert 1 <= len(track) <= 4
    assert track[-1] == pytest.approx(counts_of(found).log_likelihood, rel=1e-12)
    after = maximise(found, counts_of(found))
    np.testing.assert_allclose(numbers(after), numbers(found), atol=1e-5)
    assert track[-1] > counts_of(start).log_likelihood + 1
    assert found.is_probabilistic
    assert len(n_steps) < 2500
    monkeypatch.setattr(em_wcfg, "ROUNDS", 2)
    assert len(maximise_likelihood(start, counts_of, -1.0)[1]) == 2
    assert len(maximise_likelihood(start, counts_of, 1e9)[1]) == 1


def test_slopes_of_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """c - p sum(c) for the logits of each state, against differences of the log-likelihood."""
    import scipy.optimize

    seen = {}

    def fake(loss, x, **options):
        seen.update(loss=loss, x=x)
        return scipy.optimize.OptimizeResult(x=x)

    monkeypatch.setattr(scipy.optimize, "minimize", fake)
    start = strings_grammar(2, 2, seed=1)
    maximise_likelihood(start, counts_of, 1e9)
    np.testing.assert_allclose(seen["x"], np.log(numbers(start)), rtol=1e-12)
    x = seen["x"] + np.random.default_rng(0).normal(size=len(seen["x"]))
    value, slopes = seen["loss"](x)
    assert seen["loss"](seen["x"])[0] == pytest.approx(1.0)  # relative to the start
    for place in range(len(x)):
        step = np.zeros(len(x))
        step[place] = 1e-5
        up, down = (seen["loss"](x + sign * step)[0] for sign in (1, -1))
        assert slopes[place] == pytest.approx((up - down) / 2e-5, abs=1e-8)
    far = seen["loss"](
        np.where(np.isin(np.arange(len(x)), (2, 8)), 900.0, 0.0)
    )  # all strings but "a" vanish
    assert far[0] == em_wcfg.TOO_FAR
    assert not far[1].any()
    assert value < 100


def test_a_climb_that_ends_lower_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    def away(loss, x, **options):
        return scipy.optimize.OptimizeResult(x=np.random.default_rng(0).normal(size=len(x)))

    monkeypatch.setattr(scipy.optimize, "minimize", away)
    monkeypatch.setattr(em_wcfg, "BETWEEN", 0)
    best = sw.EMWCFG(2, iterations=300, starts=1).fit(STRINGS).model_
    found, track = maximise_likelihood(best, counts_of, -np.inf)
    assert found is best
    np.testing.assert_allclose(track, counts_of(best).log_likelihood, rtol=1e-12)


def test_trees_that_are_too_wide_are_counted() -> None:
    trees = [Tree.parse("(S (A a) (B b) (C c))"), Tree.parse("(S (A a) (B b))")]
    learner = sw.EMWCFG(1, iterations=2).fit(trees)
    assert learner.info_.n_wide == 1
    assert learner.info_.n_strings == 2
    assert learner.model_.symbols == ("a", "b", "c")
    np.testing.assert_allclose(learner.model_.terminals[:, 0] * 8, [2, 2, 1])  # 5 leaves, 3 rules
    assert sw.EMWCFG(1, iterations=2).fit(iter(trees)).info_.n_strings == 2
