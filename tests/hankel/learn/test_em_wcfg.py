"""EM for grammars of strings: starts, steps, its end, and the maximum of the likelihood."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.corpora.tree import Tree
from sapwood.hankel.learn import em_wcfg
from sapwood.hankel.learn.em_wcfg import (
    ExpectedRules,
    LongStrings,
    maximise_grammar_counts,
    maximise_likelihood,
    random_grammar,
    string_shards,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

STRINGS = Counter(tuple(x) for x in ("a", "a", "a", "ab", "ab", "abb", "bab", "bba", "b", "aabb"))


def counts_of(model: WeightedGrammar) -> ExpectedRules:
    """Expected counts of the strings above."""
    return reduce(add, [x.expect(model) for x in string_shards(STRINGS, {"a": 0, "b": 1})])


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
    made = maximise_grammar_counts(model, counts)
    total = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
    np.testing.assert_allclose(made.terminals, counts.terminals / total)
    np.testing.assert_allclose(made.binary, counts.binary / total[:, None, None])
    np.testing.assert_allclose(made.initial, counts.initial / counts.initial.sum())


def test_a_state_that_is_never_used_stays() -> None:
    model = strings_grammar(2, 2, seed=1)
    zero = counts_of(model)
    zero.initial[:], zero.terminals[:, 1], zero.binary[1] = 0.0, 0.0, 0.0
    made = maximise_grammar_counts(model, zero)
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
        model = maximise_grammar_counts(model, counts_of(model))
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

    def expected(model: WeightedGrammar) -> ExpectedRules:
        n_steps.append(1)
        return counts_of(model)

    found, track = maximise_likelihood(start, expected, 1e-9)
    assert track == sorted(track)
    assert 1 <= len(track) <= 4
    assert track[-1] == pytest.approx(counts_of(found).log_likelihood, rel=1e-12)
    after = maximise_grammar_counts(found, counts_of(found))
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


SHORT = strings_up_to(("a", "b"), 4)


@pytest.fixture(scope="module")
def exact() -> dict[tuple[str, ...], float]:
    """Probabilities of all strings of up to four symbols."""
    return dict(zip(SHORT, strings_grammar(2, 2, seed=3).values(SHORT).tolist(), strict=True))


def counts_of_short(model: WeightedGrammar, exact: dict[tuple[str, ...], float]) -> ExpectedRules:
    """Expected counts under a model of strings with these probabilities."""
    shards = string_shards(exact, {"a": 0, "b": 1})
    longer = LongStrings(1 - sum(exact.values()), 4)
    return reduce(add, [shard.expect(model) for shard in [*shards, longer]])


def test_the_likeliest_of_several_starts_is_kept(exact: dict[tuple[str, ...], float]) -> None:
    """One after the other, starts end at other likelihoods; together, at the best of these."""
    settings = {"iterations": 15, "tolerance": 0.0}
    found = sw.EMWCFG(3, starts=4, **settings).fit(exact, n=1.0)
    tracks = []
    for n in (1, 2, 3, 4):  # the best of the first n never falls
        learner = sw.EMWCFG(3, starts=n, **settings).fit(exact, n=1.0)
        tracks.append(learner.info_.log_likelihood)
        assert learner.log_likelihoods_[-1] == learner.info_.log_likelihood
        # what is kept is the model of that likelihood, not of the last start
        again = counts_of_short(learner.model_, exact).log_likelihood
        assert again == pytest.approx(learner.info_.log_likelihood, abs=1e-12)
    assert tracks == sorted(tracks)
    assert tracks[0] < tracks[-1] == found.info_.log_likelihood
    other = sw.EMWCFG(3, starts=1, seed=1, **settings).fit(exact, n=1.0)
    assert other.info_.log_likelihood != tracks[0]


def test_quasi_newton_ends_at_a_maximum(exact: dict[tuple[str, ...], float]) -> None:
    """EM stays at a maximum of the likelihood; 200 of its iterations are far from there."""
    short = sw.EMWCFG(2, starts=1, iterations=200, tolerance=0.0).fit(exact, n=1.0)
    found = sw.EMWCFG(2, starts=1, iterations=20, tolerance=1e-12, quasi_newton=True).fit(
        exact, n=1.0
    )
    assert found.info_.log_likelihood > short.info_.log_likelihood
    assert (np.diff(found.log_likelihoods_) >= 0).all()
    after = maximise_grammar_counts(found.model_, counts_of_short(found.model_, exact))
    np.testing.assert_allclose(after.binary, found.model_.binary, rtol=0, atol=1e-5)
    assert found.model_.is_probabilistic
    error = [
        np.abs(learner.model_.values(SHORT) - list(exact.values())).sum()
        for learner in (found, short)
    ]
    assert error[0] < 0.2 * error[1]


def test_trees_count_as_often_as_they_are_given() -> None:
    trees = strings_grammar(2, 2, seed=3).sample_brackets(200, seed=1)
    settings = {"iterations": 5, "starts": 1, "tolerance": 0.0}
    one_by_one = sw.EMWCFG(2, **settings).fit(trees)
    counted = sw.EMWCFG(2, **settings).fit(Counter(trees))
    doubled = sw.EMWCFG(2, **settings).fit({tree: 2.0 * n for tree, n in Counter(trees).items()})
    np.testing.assert_allclose(counted.model_.binary, one_by_one.model_.binary, rtol=1e-9)
    np.testing.assert_allclose(doubled.model_.binary, one_by_one.model_.binary, rtol=1e-9)
    assert doubled.info_.log_likelihood == pytest.approx(2 * one_by_one.info_.log_likelihood)
    weighted = sw.EMWCFG(2, **settings).fit(
        {tree: 1.0 if len(tree.words) > 1 else 50.0 for tree in trees}
    )
    assert np.abs(weighted.model_.binary - one_by_one.model_.binary).max() > 0.01


def test_trees_known_to_be_longer_count_too() -> None:
    """Of 1,000 trees those of one and two symbols are given: the grammar is right about both."""
    target = strings_grammar(1, 1, seed=3)
    p = target.length_masses(2)
    trees = [tree for tree in Counter(target.sample_brackets(50, seed=1)) if len(tree.words) <= 2]
    counts = {tree: 1000 * p[len(tree.words) - 1] for tree in trees}
    found = sw.EMWCFG(1, iterations=300, starts=1, tolerance=0.0).fit(counts, n=1000.0)
    np.testing.assert_allclose(found.model_.length_masses(6), target.length_masses(6), atol=1e-6)
