"""Parts of a treebank: nothing lost, nothing twice, always the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.data.split import part_size, split_trees


@given(
    st.lists(st.integers(0, 6), min_size=3, max_size=60),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from(["tree", "file", "order"]),
    st.integers(0, 5),
)
def test_every_tree_has_one_part(files, n_dev: int, n_test: int, by: str, seed: int) -> None:
    files = sorted(files)
    n_parts = 1 + (n_dev > 0) + (n_test > 0)
    if n_dev + n_test >= len(files) or (by == "file" and len(set(files)) < n_parts):
        with pytest.raises(sw.SapwoodError):
            split_trees(files, n_dev, n_test, by=by, seed=seed)
        return
    parts = split_trees(files, n_dev, n_test, by=by, seed=seed)
    assert parts == split_trees(files, n_dev, n_test, by=by, seed=seed)
    assert len(parts) == len(files)
    sizes = Counter(parts)
    assert sizes[0] > 0
    if by == "file":
        assert all(
            len({p for p, f in zip(parts, files, strict=True) if f == file}) == 1 for file in files
        )
        assert bool(sizes[1]) == bool(n_dev)
        assert bool(sizes[2]) == bool(n_test)
    else:
        assert (sizes[1], sizes[2]) == (n_dev, n_test)
    if by == "order":
        assert parts == sorted(parts)


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert split_trees([0] * 10, 2, 2, seed=3) == [2, 0, 0, 0, 0, 1, 1, 0, 0, 2]


def test_seeds_differ() -> None:
    assert len({tuple(split_trees([0] * 50, 5, 5, seed=seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("text", ["", "%", "x", "-1", "-5%", "100%", "1.5", "1/0", "nan", "1e400%"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(sw.SapwoodError, match="no size of a part"):
        part_size(text, 100)


def test_too_large_parts() -> None:
    with pytest.raises(sw.SapwoodError, match=r"dev \(5\) and test \(5\) leave none of 10"):
        split_trees([0] * 10, 5, 5)
