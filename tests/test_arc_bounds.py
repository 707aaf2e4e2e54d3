"""Theorem 3.1 of DEP as numbers."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from benchmarks.papers.arc_bounds import triples_needed

from sapwood.core.errors import SapwoodError
from sapwood.linalg.dependency_operators import TripleMoments

TREE = {"n_words": 3, "n_levels": 2, "epsilon": 0.1, "delta": 0.05}


def moments(k: int, low: float = 1.0) -> TripleMoments:
    """Squares with singular values `low` and above, and no entry below it."""
    square = np.full((k, k), low) + np.eye(k) * low
    return TripleMoments(
        np.full(k, 1.0), np.full(k, 1.0), square, square, square, np.ones((k, k, k))
    )


def test_the_formula_by_hand() -> None:
    """k = 1: every matrix is the number 2 * 0.25, whose inverse is 2."""
    s, eps = 12 * 3 + 2 * 2, 0.1
    correction = (eps / s / ((1 + eps) ** (1 / s) - 1)) ** 2
    by_hand = 128 * s**2 / (eps**2 * 0.5**2 * 0.5**4) * log(2 / 0.05) * correction
    assert triples_needed(moments(1, 0.25), **TREE) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(
    "change", [{"n_words": 6}, {"n_levels": 3}, {"epsilon": 0.05}, {"delta": 0.01}]
)
def test_more_is_asked_for_more(change: dict[str, float]) -> None:
    assert triples_needed(moments(2), **(TREE | change)) > triples_needed(moments(2), **TREE)


def test_worse_conditions_ask_for_more() -> None:
    assert triples_needed(moments(2, 0.1), **TREE) > 100 * triples_needed(moments(2), **TREE)


def test_nothing_is_promised_without_all_states_or_with_a_zero() -> None:
    flat = moments(2)._replace(left_right=np.ones((2, 2)))
    assert triples_needed(flat, **TREE) == inf
    hole = moments(2)
    hole.third[0, 1, 1] = 0.0
    assert triples_needed(hole, **TREE) == inf


@pytest.mark.parametrize("wrong", [{"delta": 0}, {"delta": 1}, {"epsilon": 0}, {"n_levels": 4},
                                   {"n_levels": 0}])  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SapwoodError):
        triples_needed(moments(2), **(TREE | wrong))
