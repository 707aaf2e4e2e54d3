"""Engines: shards stay where they are put, and sums have one shape."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.execute import Stored, Threads, as_engine, tree_sum


def pairwise_sum(parts: list[str]) -> str:
    """The slow twin: level by level, an odd one at the end goes up as it is."""
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [f"({a}{b})" for a, b in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]


class Term(str):
    def __add__(self, other: str) -> "Term":
        return Term(f"({self!s}{other!s})")


@given(st.integers(1, 70))
def test_the_shape_of_a_sum_is_pairs_of_pairs(n: int) -> None:
    names = [chr(97 + k) for k in range(n)]
    assert tree_sum(map(Term, names)) == pairwise_sum(names)


def test_no_shards() -> None:
    with pytest.raises(SapwoodError, match="no shards"):
        Threads().total(len, Threads().place([]))


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_sums_are_the_same_bits_for_any_number_of_threads(jobs: int) -> None:
    rng = np.random.default_rng(0)
    shards = [rng.standard_normal(50) * 10.0 ** rng.integers(-8, 8) for _ in range(37)]
    engine = Threads(jobs)
    total = engine.total(np.multiply, engine.place(shards), 3.0)
    assert total.tobytes() == tree_sum([3.0 * s for s in shards]).tobytes()
    assert np.allclose(total, reduce(add, shards) * 3.0)


@pytest.mark.parametrize("spills", [False, True])
def test_results_stay_until_they_are_summed(tmp_path, spills) -> None:
    with Threads(2, spill=tmp_path if spills else None) as engine:
        squares = engine.map(np.multiply, engine.place([1, 2, 3]), 2)
        assert len(squares) == 3
        assert all(isinstance(item, Stored) == spills for item in squares.items)
        assert list(engine.gather(squares)) == [2, 4, 6]
        assert engine.total(np.add, squares, 1) == 15
        assert engine.total(np.add, engine.map(np.negative, squares), 0) == -12
    assert list(tmp_path.iterdir()) == []


def test_stored_shards_are_loaded_where_they_are_needed() -> None:
    class OnDisk:
        def load(self) -> str:
            return "abc"

    engine = Threads()
    assert engine.total(len, engine.place([OnDisk(), "de"])) == 5


def test_streams_are_in_order() -> None:
    assert list(Threads(3).stream(pow, range(50), 2)) == [k * k for k in range(50)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_reported(jobs) -> None:
    engine, seen = Threads(jobs), []
    engine.report = lambda *counts: seen.append(counts)
    engine.total(len, engine.map(str, engine.place([1, 2, 3])))
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2


def test_an_engine_or_a_number_of_threads() -> None:
    engine = Threads(2)
    assert as_engine(engine) is engine
    assert as_engine(3).jobs == 3
