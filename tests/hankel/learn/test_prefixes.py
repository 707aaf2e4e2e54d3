"""Hankel blocks of prefixes and suffixes, against a slow count in dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.hankel.learn.moments import commonest
from sapwood.hankel.learn.prefixes import PrefixBlocks

STRINGS = st.dictionaries(
    st.lists(st.sampled_from("abc"), max_size=6).map(tuple),
    st.integers(1, 4).map(float),
    min_size=1,
    max_size=8,
)


@given(STRINGS, st.sampled_from([1e-9, 0.1, 0.5, 1.0]))
def test_blocks_are_those_of_dictionaries(observed, factor: float) -> None:
    symbols = ("a", "b", "c")
    prefixes, suffixes = Counter(), Counter()
    for x, times in observed.items():
        for k in range(len(x) + 1):
            prefixes[x[:k]] += times
            suffixes[x[k:]] += times
    rows, columns = (
        {item: i for i, item in enumerate(dict.fromkeys([(), *commonest(found, factor)]))}
        for found in (prefixes, suffixes)
    )
    matrix = np.zeros((len(rows), len(columns)))
    steps = np.zeros((3, *matrix.shape))
    for x, times in observed.items():
        for k in range(len(x) + 1):
            if x[:k] in rows and x[k:] in columns:
                matrix[rows[x[:k]], columns[x[k:]]] += times
            if k < len(x) and x[:k] in rows and x[k + 1 :] in columns:
                steps[symbols.index(x[k]), rows[x[:k]], columns[x[k + 1 :]]] += times
    found = PrefixBlocks.of(observed, symbols, factor)
    np.testing.assert_array_equal(found.matrix.toarray(), matrix)
    dense = np.zeros_like(steps)
    entries = found.steps
    np.add.at(dense, (entries.symbol, entries.row, entries.column), entries.value)
    np.testing.assert_array_equal(dense, steps)


def test_an_automaton_of_many_symbols_needs_memory_for_the_entries_alone() -> None:
    """The dense blocks of all symbols would take 200 GB."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 24, 4000)
    strings = [[f"w{x}" for x in rng.zipf(1.3, size) % 2000] for size in sizes]
    with pytest.warns(SapwoodWarning, match="ill-conditioned"):
        learner = sw.SpectralWFA(4).fit(strings)
    n_symbols = len(learner.model_.symbols)
    rows, columns = learner.info_.basis
    assert 8 * rows * columns * n_symbols > 200e9
    assert learner.model_.steps.shape == (n_symbols, 4, 4)


def test_prefixes_and_suffixes_that_never_meet_are_told_of() -> None:
    """All strings are long, so that a common prefix and a common suffix never make one of them."""
    rng = np.random.default_rng(1)
    strings = [[f"w{x}" for x in rng.zipf(1.3, 12) % 2000] for _ in range(4000)]
    with pytest.raises(SapwoodError, match="has rank 0"):
        sw.SpectralWFA(4).fit(strings)


def test_strings_larger_than_memory_are_refused(limit_memory) -> None:
    limit_memory(400)
    with pytest.raises(SapwoodError, match="an automaton of 2 symbols and 1 state"):
        sw.SpectralWFA(1).fit([["a", "b"], ["b"]])
    with pytest.raises(SapwoodError, match="every cut of 2 strings"):
        sw.UnsupervisedWCFG(1, solver="factored").fit([["a", "b"], ["b"]])
    with pytest.raises(SapwoodError, match="5 contexts x 2 inside strings"):
        sw.UnsupervisedWCFG(1).fit([["a", "b"], ["b"]])
    with pytest.raises(SapwoodError, match="brackets of 1 strings"):
        sw.SpectralWCFG(1).fit([sw.Tree.parse("(S (A a) (B b))")])
    with pytest.raises(SapwoodError, match="a string of 40 symbols with 4 states"):
        sw.EMWCFG(4).fit([["a"] * 40])
