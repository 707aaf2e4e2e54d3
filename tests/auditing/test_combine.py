"""The combiner of signals, and small pieces of the expected precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.auditing.combine import (
    cross_fit,
    estimate_error_rate,
    expected_precision,
    falling,
    fit_combiner,
)


def test_the_combiner_finds_the_weights_of_a_logistic_model() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2)) * [1.0, 10.0]
    s = 1.5 * x[:, 0] - 0.1 * x[:, 1] - 1.0
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-s))).astype(float)
    combiner = fit_combiner(x, y)
    # standard errors of the weights are about 0.03
    assert combiner.weight / combiner.scale == pytest.approx([1.5, -0.1], abs=0.1)
    assert np.corrcoef(combiner.score(x), s)[0, 1] > 0.999


def test_no_row_is_scored_by_a_combiner_that_has_seen_its_document() -> None:
    rng = np.random.default_rng(1)
    x, document = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    y = (rng.random(400) < 0.3).astype(float)
    _, scores = cross_fit(x, y, document)
    flipped = y.copy()
    mine = document % 2 == 0
    flipped[mine] = 1 - flipped[mine]
    _, others = cross_fit(x, flipped, document)
    assert np.array_equal(scores[mine], others[mine])
    assert not np.allclose(scores[~mine], others[~mine])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_pooling_never_rises_and_keeps_the_mean(values: list[float]) -> None:
    found = falling(np.array(values), np.ones(len(values)))
    assert (np.diff(found) <= 1e-12).all()
    assert found.mean() == pytest.approx(np.mean(values))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.floats(0.0, 0.3))
def test_expected_precisions_are_probabilities_that_fall(scores: list[float], rate: float) -> None:
    planted, weights = np.array([-1.0, 0.0, 2.0, -np.inf]), np.array([1.0, 0.2, 0.5, 1.0])
    found = expected_precision(np.array(scores), planted, weights, 1000, rate)
    order = np.argsort(-np.array(scores), kind="stable")
    assert ((found >= 0) & (found < 1)).all()
    assert (np.diff(found[order]) <= 1e-12).all()


def test_without_planted_errors_no_precision_is_expected() -> None:
    assert np.isnan(expected_precision(np.zeros(3), np.empty(0), np.empty(0), 10, 0.01)).all()
    assert not len(expected_precision(np.empty(0), np.zeros(3), np.ones(3), 10, 0.01))


def test_the_error_rate_is_one_percent_without_repetitions_and_half_of_what_differs_with_many() -> (
    None
):
    assert estimate_error_rate(0, 0) == pytest.approx(0.01)
    assert estimate_error_rate(1_000_000, 50_000) == pytest.approx(0.025, rel=1e-3)
