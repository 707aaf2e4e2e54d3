"""Calibration against hand-worked numbers, simulations with known answers, and mutants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.evaluate import calibration, graded

Ece = Callable[[np.ndarray, np.ndarray], float]


def test_hand_worked() -> None:
    """Bin 0.2: mean 0.25, half right. Bin 0.9: mean 0.95, all right."""
    found = calibration([0.2, 0.3 - 1e-9, 0.9, 1.0], [True, False, True, True])
    assert [b.count for b in found.bins] == [0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    assert found.bins[2].correct == 0.5
    assert found.bins[9].probability == pytest.approx(0.95, abs=1e-12)
    assert found.bins[0].probability is found.bins[0].correct is None
    assert found.ece == pytest.approx((2 * 0.25 + 2 * 0.05) / 4, abs=1e-8)
    assert found.brier == pytest.approx((0.8**2 + 0.3**2 + 0.1**2 + 0) / 4, abs=1e-8)
    assert (found.count, found.correct) == (4, 0.75)


def test_certainty() -> None:
    found = calibration([0.0, 1.0], [False, True])
    assert (found.ece, found.brier, found.chance) == (0, 0, 0)
    assert (found.bins[0].count, found.bins[-1].count) == (1, 1)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1), st.integers(1, 20))
def test_bounds(pairs: list[tuple[float, bool]], n_bins: int) -> None:
    p, y = zip(*pairs, strict=True)
    found = calibration(p, y, n_bins=n_bins)
    assert sum(b.count for b in found.bins) == len(p)
    # Triangle inequality: the bins cannot disagree less than all together do.
    assert abs(found.probability - found.correct) - 1e-12 <= found.ece <= 1 + 1e-12
    # Jensen: the mean of squares is at least the square of the mean absolute difference.
    assert found.ece**2 <= found.brier + 1e-12
    for b in found.bins:
        if b.probability is not None:
            assert b.low - 1e-12 <= b.probability <= b.high + 1e-12


def test_brier_score_splits_as_murphy_says() -> None:
    """Murphy (1973): with one probability a bin, Brier = reliability - resolution + uncertainty."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.05, 0.35, 0.55, 0.95], 500)
    y = rng.random(500) < 0.2 + 0.5 * p
    found = calibration(p, y)
    full = [(b.count, b.probability, b.correct) for b in found.bins if b.count]
    reliability = sum(n * (q - o) ** 2 for n, q, o in full) / 500
    resolution = sum(n * (o - found.correct) ** 2 for n, _, o in full) / 500
    uncertainty = found.correct * (1 - found.correct)
    assert found.brier == pytest.approx(reliability - resolution + uncertainty, abs=1e-12)


# -- simulations with known answers ---------------------------------------------------------------


def simulated(
    n: int, seed: int, truth: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, uniform, and answers that come true with probability truth(p)."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, rng.random(n) < truth(p)


def ours(p: np.ndarray, y: np.ndarray) -> float:
    return calibration(p, y).ece


def check_calibrated(ece: Ece) -> None:
    """Calibrated probabilities: `ece` is `chance` on the average, and falls like 1/sqrt(N)."""
    means = []
    for n in (400, 1_600, 6_400):
        draws = [simulated(n, seed, lambda p: p) for seed in range(100)]
        chance = np.mean([calibration(p, y).chance for p, y in draws])
        means.append(np.mean([ece(p, y) for p, y in draws]))
        # The mean of 100 draws, each of 10 bins whose |error| varies by 75 percent: 2.4 percent.
        assert means[-1] == pytest.approx(chance, rel=0.1)
    for small, large in pairwise(means):
        assert small / large == pytest.approx(2, rel=0.15)


def check_miscalibrated(ece: Ece) -> None:
    """Truths p^2 and its mirror image: `ece` tends to the mean distance from p, 1/6 and 1/12."""
    p, y = simulated(200_000, 0, lambda p: p**2)
    assert ece(p, y) == pytest.approx(1 / 6, abs=0.005)
    # Too low below one half, too high above: E|p - q| = 1/12 with q = 2p^2 and its reflection.
    p, y = simulated(200_000, 1, lambda p: np.where(p < 0.5, 2 * p**2, 1 - 2 * (1 - p) ** 2))
    assert ece(p, y) == pytest.approx(1 / 12, abs=0.005)
    # Bins weigh what they hold: here nearly all is in one that is right.
    rng = np.random.default_rng(2)
    p = np.concatenate([np.full(99_000, 0.95), np.full(1_000, 0.05)])
    assert ece(p, rng.random(100_000) < 0.95) == pytest.approx(0.01 * 0.9, abs=0.002)


def test_calibrated_probabilities_have_only_the_error_of_chance() -> None:
    check_calibrated(ours)


def test_miscalibrated_probabilities_have_the_error_they_should() -> None:
    check_miscalibrated(ours)


def _sums(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    k = np.minimum((p * 10).astype(int), 9)
    return (*(np.bincount(k, w, 10) for w in (p, y)), np.bincount(k, minlength=10))  # type: ignore[return-value]


def signed(p: np.ndarray, y: np.ndarray) -> float:
    """Mutant: without the absolute value, errors of different bins cancel."""
    a, b, _ = _sums(p, y)
    return float(abs((a - b).sum()) / len(p))


def unweighted(p: np.ndarray, y: np.ndarray) -> float:
    """Mutant: every bin counts the same."""
    a, b, n = _sums(p, y)
    return float(np.mean(np.abs(a - b)[n > 0] / n[n > 0]))


def squared(p: np.ndarray, y: np.ndarray) -> float:
    """Mutant: squares in place of absolute values."""
    a, b, n = _sums(p, y)
    return float(((a - b)[n > 0] ** 2 / n[n > 0]).sum() / len(p))


def unbinned(p: np.ndarray, y: np.ndarray) -> float:
    """Mutant: the mean distance of single answers, which is no error of calibration."""
    return float(np.abs(p - y).mean())


@pytest.mark.parametrize("mutant", [signed, squared, unbinned])
def test_mutants_fail_on_calibrated_probabilities(mutant: Ece) -> None:
    with pytest.raises(AssertionError):
        check_calibrated(mutant)


@pytest.mark.parametrize("mutant", [signed, unweighted, squared, unbinned])
def test_mutants_fail_on_miscalibrated_probabilities(mutant: Ece) -> None:
    with pytest.raises(AssertionError):
        check_miscalibrated(mutant)


# -- grading --------------------------------------------------------------------------------------

GOLD = Tree.parse("( (S (NP-SBJ (DT a) (NN cat)) (VP (VBD sat) (NP (-NONE- *))) (. .)) )")


def test_phrases_are_graded_by_label_and_exact_span() -> None:
    phrases = [
        ("S", 0, 4, 1.0),
        ("NP", 0, 2, 0.9),
        ("VP", 2, 4, 0.4),  # with the full stop: EVALB would let it pass
        ("VP", 2, 3, 0.5),
        ("QP", 0, 2, 0.1),
        ("NN", 1, 2, 0.8),  # a tag is no phrase
        ("TOP", 0, 4, 1.0),  # nor is the root
    ]
    expected = [True, True, False, True, False, False, False]
    assert graded(GOLD, phrases) == list(zip([p for *_, p in phrases], expected, strict=True))


def test_raw_keeps_the_labels_of_the_treebank() -> None:
    assert graded(GOLD, [("NP", 0, 2, 0.9)], raw=True) == [(0.9, False)]
    assert graded(Tree.parse("(S (NP (NN a)))"), [("S", 0, 1, 0.9)], raw=True) == [(0.9, True)]


def test_a_repeated_bracket_counts_once() -> None:
    assert len(graded(GOLD, [("NP", 0, 2, 0.9), ("NP", 0, 2, 0.9)])) == 1


def test_nothing_left_has_no_grades() -> None:
    assert graded(Tree.parse("(TOP (NP (-NONE- *)))"), [("NP", 0, 1, 0.5)]) == []


@pytest.mark.parametrize(
    ("p", "y", "n_bins", "message"),
    [
        ([], [], 10, "0 for 0"),
        ([0.5], [True, False], 10, "2 for 1"),
        ([0.5, 1.5], [True, False], 10, "found 1.5"),
        ([0.5, float("nan")], [True, False], 10, "found nan"),
        ([-2.0], [True], 10, "found -2"),
        ([0.5], [True], 0, "one bin, found 0"),
    ],
)
def test_what_goes_wrong(p: list[float], y: list[bool], n_bins: int, message: str) -> None:
    with pytest.raises(SapwoodError, match=message) as error:
        calibration(p, y, n_bins=n_bins)
    assert error.value.hint
