"""Fitting values to frequencies: cells, their slopes, and where the steps end."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from tests.toys import strings_grammar

from sapwood.hankel.learn import unsupervised_wcfg as module
from sapwood.hankel.learn.unsupervised_wcfg import _Cells, fit_values
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

# of 64 strings: two symbols are all there are of one symbol; five times is enough for a cell
OBSERVED = {
    ("a",): 32 / 64, ("b",): 5 / 64, ("a", "b"): 3 / 64, ("b", "b"): 4 / 64,
    ("a", "a", "a"): 8 / 64,
}  # fmt: skip


def weights(grammar: WeightedGrammar) -> np.ndarray:
    """All numbers of a grammar in one row."""
    parts = (grammar.initial, grammar.terminals, grammar.binary)
    return np.concatenate([part.ravel() for part in parts])


def rebuild(x: np.ndarray, n: int, d: int) -> WeightedGrammar:
    """The inverse of `weights`."""
    first, last = n, n + n * d
    return WeightedGrammar(
        ("a", "b", "c")[:d], x[:first], x[first:last].reshape(d, n), x[last:].reshape(n, n, n)
    )


@pytest.fixture
def grammar() -> WeightedGrammar:
    return strings_grammar(2, 2, seed=3)


def test_cells_are_common_strings_and_the_rest_of_each_length(grammar: WeightedGrammar) -> None:
    cells = _Cells(grammar, OBSERVED, 64.0)
    assert [x.tolist() for x in cells.strings] == [[0], [1], [0, 0, 0]]
    assert cells.lengths == [2, 3]  # all strings of one symbol are cells of their own
    np.testing.assert_allclose(cells.p, np.array([32, 5, 8, 7, 0]) / 64)
    np.testing.assert_allclose(cells.root, np.array([32, 5, 8, 7, 1]) ** -0.5 * 8)
    assert cells.length_of.tolist() == [-1, -1, 1]


def test_probabilities_without_noise_have_no_cells_of_lengths(grammar: WeightedGrammar) -> None:
    cells = _Cells(grammar, OBSERVED, np.inf)
    assert len(cells.strings) == 5
    assert cells.lengths == []
    np.testing.assert_allclose(cells.root, np.array(list(OBSERVED.values())) ** -0.5)


def test_very_long_strings_share_no_cell(grammar: WeightedGrammar) -> None:
    cells = _Cells(grammar, {("a",) * 40: 0.01, ("a",): 0.99}, 100.0)
    assert cells.lengths == list(range(1, 31))
    assert _Cells(grammar, {("a",) * 4: 0.01, ("a",): 0.99}, 100.0).lengths == [1, 2, 3, 4]


def test_distances_are_those_of_sums_over_strings(grammar: WeightedGrammar) -> None:
    """By enumeration: a cell of a length is the sum over its strings that are no cells."""
    cells = _Cells(grammar, OBSERVED, 64.0)
    every = strings_up_to(("a", "b"), 3)
    value = dict(zip(every, grammar.values(every).tolist(), strict=True))
    rest = [sum(value[x] for x in every if len(x) == size and x != ("a",) * 3) for size in (2, 3)]
    sums = [value["a",], value["b",], value["a", "a", "a"], *rest]
    np.testing.assert_allclose(cells.away(grammar), cells.root * (sums - cells.p), atol=1e-12)


@pytest.mark.parametrize("n", [64.0, np.inf])
def test_slopes_are_differences(grammar: WeightedGrammar, n: float) -> None:
    cells, x = _Cells(grammar, OBSERVED, n), weights(grammar)
    slopes = cells.slopes(grammar)
    assert slopes.shape == (5, len(x))
    for place in range(len(x)):
        step = np.zeros(len(x))
        step[place] = 1e-6
        up, down = (cells.away(rebuild(x + sign * step, 2, 2)) for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, place], (up - down) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("n", [64.0, 5000.0])
def test_steps_end_where_all_slopes_vanish(grammar: WeightedGrammar, n: float) -> None:
    """sum of (g - p)^2 / p + |(w - w0) / (0.3 size)|^2 / n: no slope is left at the end."""
    observed = OBSERVED | {("b", "a"): 9 / 64}
    cells, start = _Cells(grammar, observed, n), weights(grammar)
    kinds = (grammar.initial, grammar.terminals, grammar.binary)
    size = np.concatenate([np.full(k.size, np.sqrt((k**2).mean())) for k in kinds])
    hold = 1 / (n * (0.3 * size) ** 2)

    def cost(made: WeightedGrammar) -> float:
        away = cells.away(made)
        return float(away @ away + hold @ (weights(made) - start) ** 2)

    track = [cost(fit_values(grammar, observed, n=n, max_steps=k)) for k in (0, 1, 2, 30)]
    assert track == sorted(track, reverse=True)
    assert track[-1] < 0.9 * track[0]
    found = fit_values(grammar, observed, n=n, max_steps=200)
    before = cells.slopes(grammar).T @ cells.away(grammar)
    slopes = cells.slopes(found).T @ cells.away(found) + hold * (weights(found) - start)
    assert np.abs(slopes).max() < 0.02 * np.abs(before).max()
    assert found.symbols == grammar.symbols


def test_no_step_leaves_the_grammar_as_it_is(grammar: WeightedGrammar) -> None:
    assert fit_values(grammar, OBSERVED, n=64.0, max_steps=0) is grammar
    exact = dict(zip(OBSERVED, grammar.values(list(OBSERVED)).tolist(), strict=True))
    np.testing.assert_allclose(weights(fit_values(grammar, exact)), weights(grammar), atol=1e-9)


def test_values_that_overflow_are_left_alone(grammar: WeightedGrammar) -> None:
    huge = WeightedGrammar(("a", "b"), grammar.initial, grammar.terminals * 1e29, grammar.binary)
    with np.errstate(all="ignore"):
        assert fit_values(huge, {("a",) * 12: 1.0}) is huge


def test_kinds_of_weights_that_are_all_zero_have_size_one(grammar: WeightedGrammar) -> None:
    flat = WeightedGrammar(("a", "b"), grammar.initial, grammar.terminals, 0 * grammar.binary)
    sizes = module._sizes(flat)
    np.testing.assert_allclose(sizes[:2], np.sqrt((grammar.initial**2).mean()))
    np.testing.assert_allclose(sizes[2:6], np.sqrt((grammar.terminals**2).mean()))
    assert (sizes[6:] == 1).all()
