"""EM for grammars of strings: starts, weights of trees, and the maximum of the likelihood."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.hankel.learn.em_wcfg import maximise
from sapwood.hankel.learn.string_counts import GrammarCounts, LongStrings, expect, string_shards
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

SHORT = strings_up_to(("a", "b"), 4)


@pytest.fixture(scope="module")
def exact() -> dict[tuple[str, ...], float]:
    """Probabilities of all strings of up to four symbols."""
    return dict(zip(SHORT, strings_grammar(2, 2, seed=3).values(SHORT).tolist(), strict=True))


def counts_of(model: WeightedGrammar, exact: dict[tuple[str, ...], float]) -> GrammarCounts:
    """Expected counts under a model of strings with these probabilities."""
    shards = string_shards(exact, {"a": 0, "b": 1})
    longer = LongStrings(1 - sum(exact.values()), 4)
    return reduce(add, [expect(shard, model) for shard in [*shards, longer]])


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
        again = counts_of(learner.model_, exact).log_likelihood
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
    after = maximise(found.model_, counts_of(found.model_, exact))
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
