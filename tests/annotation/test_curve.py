"""Learning curves: the fit, the intervals, and wrong versions of them that the checks reject."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.annotation.curve import (
    EXPONENTS,
    CrossFitted,
    PowerLaw,
    curve_sizes,
    fit_power_law,
    learning_curve,
)
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError

SIZES = np.array([12, 25, 50, 100, 200, 300])
N_TREES, MORE = 400, 100


@given(
    a=st.floats(0, 40), b=st.floats(1, 200), place=st.integers(0, len(EXPONENTS) - 1)
)  # fmt: skip
def test_a_curve_without_noise_is_found_exactly(a: float, b: float, place: int) -> None:
    law = PowerLaw(a, b, EXPONENTS[place])
    found = fit_power_law(SIZES, law.score(SIZES))
    assert found.score(SIZES) == pytest.approx(law.score(SIZES), abs=1e-6)
    assert found.score(800) == pytest.approx(law.score(800), abs=1e-3)


@given(scores=st.lists(st.floats(0, 100), min_size=6, max_size=6))
def test_laws_never_fall_and_no_law_of_the_grid_fits_better(scores: list[float]) -> None:
    found = fit_power_law(SIZES, np.array(scores))
    assert found.a >= 0
    assert found.b >= 0
    weight = SIZES / SIZES.max()

    def loss(law: PowerLaw) -> float:
        return float((weight * (law.score(SIZES) - scores) ** 2).sum())

    rng = np.random.default_rng(0)
    best = loss(found)
    for c in EXPONENTS:
        for _ in range(3):
            a, b = found.a + rng.normal(), found.b + rng.normal()
            assert loss(PowerLaw(max(a, 0.0), max(b, 0.0), c)) >= best - 1e-6 * (1 + best)


def test_several_curves_are_fitted_as_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    curves = 100 - 20 - 90 * SIZES**-0.5 + rng.normal(0, 1, (5, len(SIZES)))
    together = fit_power_law(SIZES, curves)
    for k, curve in enumerate(curves):
        alone = fit_power_law(SIZES, curve)
        assert [part[k] for part in together] == pytest.approx(list(alone))


def simulate(
    law: PowerLaw, seed: int, *, draw_noise: float = 0.4, n_documents: int = 40
) -> CrossFitted:
    """Counts of held-out sentences, whose documents differ, under models that differ by chance."""
    rng = np.random.default_rng(seed)
    total = rng.integers(30, 120, n_documents).astype(float)
    rate = law.score(SIZES) / 100 + rng.normal(0, draw_noise / 100, len(SIZES))
    of_document = rng.normal(0, 0.08, n_documents)[:, None]
    matched = rng.binomial(total[:, None].astype(int), np.clip(rate + of_document, 0, 1))
    return CrossFitted(
        SIZES, 20 * SIZES, np.arange(n_documents), matched.astype(float),
        np.repeat(total[:, None], len(SIZES), axis=1),
    )  # fmt: skip


LAWS = [PowerLaw(10, 100, 0.35), PowerLaw(5, 120, 0.3), PowerLaw(20, 150, 0.6)]


def coverage(laws: list[PowerLaw], n: int, narrow: float = 1.0, shift: float = 0.0) -> float:
    """How often the interval of the gain has the true gain in it, made narrower or shifted."""
    hits = []
    for seed in range(n):
        law = laws[seed % len(laws)]
        found = learning_curve(simulate(law, seed), N_TREES, MORE, seed=seed)
        assert found.gain is not None
        assert found.low is not None
        assert found.high is not None
        truth = law.score(N_TREES + MORE) - law.score(N_TREES)
        low = found.gain + shift - narrow * (found.gain - found.low)
        high = found.gain + shift + narrow * (found.high - found.gain)
        hits.append(low <= truth <= high)
    return float(np.mean(hits))


def test_intervals_of_the_gain_cover_it_on_simulated_curves() -> None:
    """Of 90 % intervals, at least 83 % of 90 cover: 0.9 less two standard errors of that many."""
    assert coverage(LAWS, 90) >= 0.83


def test_intervals_that_are_too_narrow_or_beside_are_rejected() -> None:
    assert coverage(LAWS, 45, narrow=0.2) < 0.83
    assert coverage(LAWS, 45, shift=3.0) < 0.83


def test_points_have_intervals_that_hold_them() -> None:
    curve = learning_curve(simulate(LAWS[0], 5), N_TREES)
    assert [point.trees for point in curve.points] == SIZES.tolist()
    for point in curve.points:
        assert point.low <= point.score <= point.high
    assert curve.message.startswith("100 more trees are expected to raise F1 by ")
    assert curve.as_dict()["expected"]["gain"] == curve.gain
    assert curve == learning_curve(simulate(LAWS[0], 5), N_TREES)


def test_few_sizes_have_no_law() -> None:
    counts = simulate(LAWS[0], 1)
    few = counts._replace(
        trees=counts.trees[:2], words=counts.words[:2], matched=counts.matched[:, :2],
        total=counts.total[:, :2],
    )  # fmt: skip
    curve = learning_curve(few, 30)
    assert (curve.gain, curve.as_dict()["expected"], len(curve.points)) == (None, None, 2)
    none: FloatArray = np.empty((0, 2))
    with pytest.raises(SapwoodError, match="needs held-out sentences"):
        learning_curve(CrossFitted(SIZES[:2], SIZES[:2], np.empty(0, int), none, none), 30)


@pytest.mark.parametrize("largest", [1, 2, 12, 150, 1500])
def test_sizes_rise_to_the_largest(largest: int) -> None:
    sizes = curve_sizes(largest)
    assert sizes == sorted(set(sizes))
    assert (sizes[-1], len(sizes)) == (largest, min(len(sizes), 6))
