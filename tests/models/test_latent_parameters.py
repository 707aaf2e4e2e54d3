"""`LatentParameters`: copying and joining states, against twins that loop over dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.models import latent_parameters
from sapwood.models.latent_parameters import LatentParameters

Array = np.ndarray
PARTS = ("root", "rules", "words")
SEEDS = st.integers(0, 10_000)
CLOSE = 1e-13  # sums of some dozen products of numbers below 1


def drawn(seed: int, most: int = 4) -> LatentParameters:
    """Three phrases and three tags with 1 to `most` states each; the last phrase has no rule."""
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, most + 1, 6)
    triples = [(a, b, c) for a in range(2) for b in range(6) for c in range(6)]
    chosen = rng.choice(len(triples), rng.integers(0, 8), replace=False)
    rules = np.array([triples[place] for place in chosen], np.int64).reshape(-1, 3)
    tags = np.sort(rng.integers(3, 6, rng.integers(1, 9)))
    sizes = n_states.sum(), n_states[rules].prod(axis=1).sum(), n_states[tags].sum()
    parts = [rng.gamma(0.7, size=int(size)) for size in sizes]
    return LatentParameters(n_states, rules, tags, *parts).normalised()


class Joining(NamedTuple):
    """States to be joined: the new number of each, and how frequent each is."""

    joined: list[Array]
    weight: Array


def joining(parameters: LatentParameters, seed: int) -> Joining:
    """Any states of a symbol may be joined, not only those side by side."""
    rng = np.random.default_rng(seed)
    groups = [rng.integers(0, m, m) for m in parameters.n_states.tolist()]
    numbered = [np.unique(group, return_inverse=True)[1] for group in groups]
    return Joining(numbered, rng.gamma(0.7, size=int(parameters.n_states.sum())))


# -- slow twins -------------------------------------------------------------------------------


def as_numbers(parameters: LatentParameters) -> dict[Any, float]:
    """Every probability by its name: part, index, states."""
    numbers: dict[Any, float] = {}
    root, rules, words = (iter(getattr(parameters, name).tolist()) for name in PARTS)
    m = parameters.n_states.tolist()
    for a, n in enumerate(m):
        for h in range(n):
            numbers["root", a, h] = next(root)
    for r, (a, b, c) in enumerate(parameters.symbols_of.tolist()):
        for states in np.ndindex(m[a], m[b], m[c]):
            numbers["rule", r, *states] = next(rules)
    for pair, a in enumerate(parameters.symbol_of_pair.tolist()):
        for h in range(m[a]):
            numbers["word", pair, h] = next(words)
    return numbers


def merged_slowly(parameters: LatentParameters, at: Joining) -> dict[Any, float]:
    """Parents by the weighted mean, children and roots by the sum."""
    weight = [part.tolist() for part in np.split(at.weight, np.cumsum(parameters.n_states)[:-1])]
    new = [states.tolist() for states in at.joined]
    total: dict[Any, float] = defaultdict(float)
    for a, states in enumerate(new):
        for h, joined in enumerate(states):
            total[a, joined] += weight[a][h]
    out: dict[Any, float] = defaultdict(float)
    for (part, index, *states), value in as_numbers(parameters).items():
        h = states[0]
        if part == "root":
            out["root", index, new[index][h]] += value
            continue
        if part == "word":
            a, others = int(parameters.symbol_of_pair[index]), []
        else:
            a, *children = parameters.symbols_of[index].tolist()
            others = [new[b][p] for b, p in zip(children, states[1:], strict=True)]
        out[part, index, new[a][h], *others] += value * weight[a][h] / total[a, new[a][h]]
    return dict(out)


def gap(one: dict[Any, float], other: dict[Any, float]) -> float:
    """Largest difference; infinite when they name other things."""
    if one.keys() != other.keys():
        return float("inf")
    return max(abs(one[name] - other[name]) for name in one)


def distance(one: LatentParameters, other: LatentParameters) -> float:
    return gap(as_numbers(one), as_numbers(other))


# -- joining ----------------------------------------------------------------------------------


@given(SEEDS)
def test_joined_states_are_weighted_means_and_sums(seed: int) -> None:
    parameters = drawn(seed)
    at = joining(parameters, seed)
    found = parameters.merged(*at)
    assert found.n_states.tolist() == [int(states.max()) + 1 for states in at.joined]
    assert gap(as_numbers(found), merged_slowly(parameters, at)) < CLOSE


@given(SEEDS)
def test_joined_probabilities_still_sum_to_one(seed: int) -> None:
    parameters = drawn(seed)
    found = parameters.merged(*joining(parameters, seed))
    used = np.unique(np.concatenate([parameters.symbols_of[:, 0], parameters.symbol_of_pair]))
    total = np.split(found.state_totals(), found.state_start[1:-1])
    for a, sums in enumerate(total):
        np.testing.assert_allclose(sums, 1.0 if a in used else 0.0, rtol=0, atol=CLOSE)
    assert found.root.sum() == pytest.approx(1.0, abs=CLOSE)


@given(SEEDS)
def test_copies_without_noise_are_undone(seed: int) -> None:
    """Whatever weights the copies have: they are all the same."""
    parameters, rng = drawn(seed), np.random.default_rng(seed)
    old = [
        np.sort(np.concatenate([np.arange(m), rng.integers(0, m, rng.integers(0, 4))]))
        for m in parameters.n_states.tolist()
    ]
    copied = parameters.restated(old, None)
    weight = rng.gamma(1.0, size=int(copied.n_states.sum()))
    assert distance(copied.merged(old, weight), parameters) < CLOSE
    noisy = parameters.restated(old, rng)
    assert distance(noisy.merged(old, weight), parameters) > 1e-6  # noise is not undone


@given(SEEDS)
def test_joining_nothing_changes_nothing(seed: int) -> None:
    parameters = drawn(seed)
    apart = [np.arange(m) for m in parameters.n_states.tolist()]
    weight = joining(parameters, seed).weight
    assert distance(parameters.merged(apart, weight), parameters) < CLOSE


@given(SEEDS)
def test_joining_in_two_steps_is_joining_at_once(seed: int) -> None:
    """A joined state is as frequent as its parts together."""
    parameters = drawn(seed)
    first = joining(parameters, seed)
    between = parameters.merged(*first)
    parts = zip(first.joined, np.split(first.weight, parameters.state_start[1:-1]), strict=True)
    weight = np.concatenate([np.bincount(states, part) for states, part in parts])
    second = joining(between, seed + 1)
    at_once = [then[states] for states, then in zip(first.joined, second.joined, strict=True)]
    found = between.merged(second.joined, weight)
    assert distance(found, parameters.merged(at_once, first.weight)) < CLOSE


def test_states_that_nobody_uses_have_a_mean() -> None:
    parameters = drawn(1)
    joined = [np.zeros(m, np.int64) for m in parameters.n_states.tolist()]
    found = parameters.merged(joined, np.zeros(int(parameters.n_states.sum())))
    alike = Joining(joined, np.ones(int(parameters.n_states.sum())))
    assert gap(as_numbers(found), merged_slowly(parameters, alike)) < CLOSE


# -- mutants ----------------------------------------------------------------------------------

Twin = Callable[[list[Array], list[Array]], tuple[list[Array], list[Array]]]
RIGHT: Twin = latent_parameters._joining


def unweighted(joined: list[Array], weight: list[Array]) -> tuple[list[Array], list[Array]]:
    return RIGHT(joined, [np.ones_like(part) for part in weight])


def other_weights(joined: list[Array], weight: list[Array]) -> tuple[list[Array], list[Array]]:
    """The wrong share: that of the state behind."""
    return RIGHT(joined, [np.roll(part, 1) for part in weight])


def children_by_the_mean(
    joined: list[Array], weight: list[Array]
) -> tuple[list[Array], list[Array]]:
    _, share = RIGHT(joined, weight)
    return share, share


def parents_by_the_sum(joined: list[Array], weight: list[Array]) -> tuple[list[Array], list[Array]]:
    new, _ = RIGHT(joined, weight)
    return new, new


@pytest.mark.parametrize(
    "mutant", [unweighted, other_weights, children_by_the_mean, parents_by_the_sum]
)
def test_a_mutant_is_noticed(mutant: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_parameters, "_joining", mutant)
    gaps = []
    for seed in range(10):
        parameters = drawn(seed)
        at = joining(parameters, seed)
        gaps.append(gap(as_numbers(parameters.merged(*at)), merged_slowly(parameters, at)))
    assert max(gaps) > 0.1
    assert np.median(gaps) > 1e-3


# -- totals -----------------------------------------------------------------------------------


@given(SEEDS)
def test_totals_are_sums_over_all_that_a_state_becomes(seed: int) -> None:
    rng, parameters = np.random.default_rng(seed), drawn(seed)
    counts = replace(
        parameters,
        rules=rng.gamma(1.0, size=len(parameters.rules)),
        words=rng.gamma(1.0, size=len(parameters.words)),
    )
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for (part, index, h, *_), value in as_numbers(counts).items():
        if part != "root":
            symbols = parameters.symbols_of[:, 0] if part == "rule" else parameters.symbol_of_pair
            expected[int(symbols[index]), h] += value
    states = [(a, h) for a, m in enumerate(parameters.n_states.tolist()) for h in range(m)]
    assert counts.state_totals() == pytest.approx([expected[at] for at in states], rel=1e-12)
