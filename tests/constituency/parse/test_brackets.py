"""Brackets: what the items of a forest say about the treebank's own labels."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.parse.kernels.forest import Forest
from sapwood.constituency.parse.posteriors import (
    BracketPosteriors,
    average_brackets,
    item_labels,
    label_table,
    sharpen,
    split_codes,
    sum_by_bracket,
)

SYMBOLS = (
    Symbol(("S",)),
    Symbol(("S", "VP")),
    Symbol(("VP",), (), (">PP",)),  # intermediate: no bracket
    Symbol(("NP",), ("S",)),  # remembers its parent
    Symbol(("NP", "NN")),  # tags from here on
    Symbol(("NP",)),  # a tag named like a phrase
    Symbol(("S", "VP", "VB")),
)
N_PHRASES = 4
NUMBERS = {name: k for k, name in enumerate(("VB", "NN", "NP", "VP", "S"))}


def forest_of(items: list[tuple[int, int, int]]) -> Forest:
    symbol, start, end = (np.array(column, np.uint32) for column in zip(*items, strict=True))
    none = np.empty(0, np.uint32)
    return Forest(symbol, start, end, none, none, none, none)


def posteriors_by_name(
    items: list[tuple[int, int, int]], p: list[float], *, mutant: bool = False
) -> dict[Any, float]:
    """The slow twin, one label at a time; the mutant counts intermediate symbols."""
    out: dict[Any, float] = defaultdict(float)
    for (a, i, j), weight in zip(items, p, strict=True):
        symbol = SYMBOLS[a]
        if symbol.is_intermediate and not mutant:
            continue
        for place, label in enumerate(symbol.chain):
            is_tag = a >= N_PHRASES and place == len(symbol.chain) - 1
            out[label, i, j, is_tag] += weight
    return dict(out)


def by_name(brackets: BracketPosteriors, n: int) -> dict[Any, float]:
    names = {k: name for name, k in NUMBERS.items()}
    columns = [column.tolist() for column in (*split_codes(brackets.code, n), brackets.p)]
    rows = zip(*columns, strict=True)
    return {(names[label], i, j, is_tag): p for label, i, j, is_tag, p in rows}


@st.composite
def charts(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]], list[float]]:
    n = draw(st.integers(1, 5))
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    tags = [(a, i, i + 1) for a in range(N_PHRASES, len(SYMBOLS)) for i in range(n)]
    phrases = [(a, i, j) for a in range(N_PHRASES) for i, j in spans]
    items = draw(st.lists(st.sampled_from(tags + phrases), min_size=1, max_size=25, unique=True))
    p = draw(st.lists(st.floats(0, 1), min_size=len(items), max_size=len(items)))
    return n, items, p


@given(chart=charts())
def test_posteriors_of_items_become_those_of_brackets(chart: Any) -> None:
    n, items, p = chart
    rows = item_labels(forest_of(items), n, label_table(SYMBOLS, N_PHRASES, NUMBERS))
    brackets = sum_by_bracket(rows, np.array(p))
    assert by_name(brackets, n) == pytest.approx(posteriors_by_name(items, p), abs=1e-12)
    assert (np.diff(brackets.code) > 0).all()
    # Every row finds its own bracket again.
    found = brackets.of(rows.code)
    names = {k: name for name, k in NUMBERS.items()}
    expected = posteriors_by_name(items, p)
    for k, (label, i, j, is_tag) in enumerate(
        zip(*(column.tolist() for column in split_codes(rows.code, n)), strict=True)
    ):
        assert found[k] == pytest.approx(expected[names[label], i, j, is_tag], abs=1e-12)
        assert rows.is_tag[k] == is_tag


def test_intermediate_symbols_are_no_brackets() -> None:
    items, p = [(2, 0, 2), (4, 0, 1)], [0.7, 0.2]
    rows = item_labels(forest_of(items), 2, label_table(SYMBOLS, N_PHRASES, NUMBERS))
    found = by_name(sum_by_bracket(rows, np.array(p)), 2)
    assert found == {("NP", 0, 1, False): 0.2, ("NN", 0, 1, True): 0.2}
    assert found == posteriors_by_name(items, p)
    assert found != posteriors_by_name(items, p, mutant=True)


def test_a_tag_named_like_a_phrase_is_another_bracket() -> None:
    rows = item_labels(
        forest_of([(5, 0, 1), (4, 0, 1)]), 1, label_table(SYMBOLS, N_PHRASES, NUMBERS)
    )
    found = by_name(sum_by_bracket(rows, np.array([0.25, 0.5])), 1)
    assert found["NP", 0, 1, True] == 0.25
    assert found["NP", 0, 1, False] == 0.5


@given(
    parts=st.lists(
        st.dictionaries(st.integers(0, 12), st.floats(0, 1), max_size=8), min_size=1, max_size=4
    ),
    raw=st.lists(st.integers(1, 9), min_size=4, max_size=4),
)
def test_the_mean_takes_what_is_missing_as_0(parts: list[dict[int, float]], raw: list[int]) -> None:
    weights = [w / sum(raw[: len(parts)]) for w in raw[: len(parts)]]
    made = [
        BracketPosteriors(np.array(codes, np.int64), np.array([part[c] for c in codes], float))
        for part in parts
        for codes in [sorted(part)]
    ]
    joint = average_brackets(made, weights)
    for code in range(13):
        expected = sum(w * part.get(code, 0.0) for w, part in zip(weights, parts, strict=True))
        assert joint.of(np.array([code]))[0] == pytest.approx(expected, abs=1e-12)
    assert set(joint.code.tolist()) == set().union(*parts)


def test_no_brackets_at_all() -> None:
    nothing = BracketPosteriors(np.empty(0, np.int64), np.empty(0))
    assert nothing.of(np.array([3, 5])).tolist() == [0.0, 0.0]


@given(p=st.floats(0, 1), a=st.floats(0.5, 3))
def test_sharpening_scales_log_odds(p: float, a: float) -> None:
    sharp = float(sharpen(np.array([p]), a)[0])
    assert 0.0 <= sharp <= 1.0
    if 1e-3 < p < 1 - 1e-3:  # beyond, 1 - sharp has few digits left
        odds = np.log(p / (1 - p))
        assert np.log(sharp / (1 - sharp)) == pytest.approx(a * odds, rel=1e-6, abs=1e-9)
        assert float(sharpen(np.array([1 - p]), a)[0]) == pytest.approx(1 - sharp, abs=1e-9)


def test_sharpness_1_changes_nothing() -> None:
    p = np.array([-0.1, 0.3, 1.2])  # not even what no probability can be
    assert sharpen(p, 1.0) is p
