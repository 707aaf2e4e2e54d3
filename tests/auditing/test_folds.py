"""Folds of whole documents."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.auditing.folds import assign_folds, document_starts
from sapwood.core.errors import SapwoodError


@given(st.lists(st.integers(1, 50), min_size=6, max_size=60), st.integers(2, 5), st.data())
def test_folds_hold_whole_documents_and_are_balanced(
    sizes: list[int], n_folds: int, data: st.DataObject
) -> None:
    n = len(sizes)
    inner = data.draw(st.sets(st.integers(1, n - 1), min_size=n_folds - 1))
    starts = np.array([0, *sorted(inner)])
    folds = assign_folds(starts, sizes, n_folds)
    assert folds.shape == starts.shape
    assert set(folds.tolist()) == set(range(n_folds))
    bounds = [*starts.tolist(), n]
    documents = [sum(sizes[a:b]) for a, b in pairwise(bounds)]
    words = np.bincount(folds, documents)
    # the largest document first, each to the emptiest fold
    assert words.max() - words.min() <= max(documents)


def test_files_come_before_groups_and_groups_before_runs() -> None:
    files, groups = [0, 20, 40, 60], [0, 10, 20, 30, 40, 50, 60, 70]
    assert document_starts([files, groups], 80, 2)[0].tolist() == files
    assert document_starts([[0], groups], 80, 4)[0].tolist() == groups
    starts, what = document_starts([[0], [0]], 80, 4)
    assert starts.tolist() == list(range(0, 80, 5))
    assert what == "runs of 5 sentences"


def test_an_empty_line_after_every_tree_marks_no_documents() -> None:
    starts, what = document_starts([[0], list(range(100))], 100, 2)
    assert what != "documents"
    assert len(starts) < 100


def test_too_few_documents_are_refused() -> None:
    with pytest.raises(SapwoodError, match="5 folds need as many"):
        assign_folds(np.array([0, 1]), [3, 3], 5)
    with pytest.raises(SapwoodError, match="at least 2 folds"):
        assign_folds(np.array([0, 1]), [3, 3], 1)
