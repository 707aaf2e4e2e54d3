"""Hankel blocks: counted by hand, additive, the same for any engine."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.execute import Threads
from sapwood.hankel.data import Bracketed
from sapwood.hankel.learn import moments as hankel
from sapwood.hankel.learn.consistency import problem_of, refuse_long_list, refuse_oversize
from sapwood.hankel.learn.moments import Basis, CutCounts, HankelCounts, commonest
from sapwood.hankel.learn.spectral import PrefixBlocks

TWO = [Bracketed(("a", "b", "a"), ((1, 2, 3), (0, 1, 3))), Bracketed(("a", "b"), ((0, 1, 2),))]


def test_counts_are_those_of_all_brackets() -> None:
    basis = Basis.by_frequency(CutCounts.of_brackets(TWO), 1.0)
    found = HankelCounts.of_brackets(TWO, basis)
    row, column, s = basis.row, basis.column, len(basis.insides)
    assert found.whole.sum() == 5 + 3  # nodes
    assert found.pairs.sum() == 2 + 1  # with two children
    assert found.whole[row[("a",), ()], column["b", "a"]] == 1
    assert found.whole[row[("a",), ()], column["b",]] == 1
    assert found.pairs[0, column["a",] * s + column["b",]] == 1
    assert found.pairs[row[("a",), ()], column["b",] * s + column["a",]] == 1


def test_shards_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = strings_grammar(2, 2, seed=9).sample_brackets(300)
    basis = Basis.by_frequency(CutCounts.of_brackets(drawn), 0.1)
    whole = HankelCounts.of_brackets(drawn, basis)
    monkeypatch.setattr(hankel, "SHARD_SYMBOLS", 50)
    for jobs in (1, 3):
        with Threads(jobs) as engine:
            parts = hankel.count_hankel(drawn, basis, engine)
            cuts = hankel.count_brackets(drawn, engine)
            plain = hankel.count_cuts(Counter(x.words for x in drawn), engine)
        assert (parts.whole != whole.whole).nnz == 0
        assert (parts.pairs != whole.pairs).nnz == 0
        assert parts.n == whole.n
        assert cuts == CutCounts.of_brackets(drawn)
        assert plain == CutCounts.of_strings(Counter(x.words for x in drawn))


def test_a_basis_is_the_commonest_share_and_all_symbols() -> None:
    cuts = CutCounts.of_brackets(TWO)
    small = Basis.by_frequency(cuts, 1e-9)
    assert small.insides == (("a",), ("b",))
    assert small.contexts[0] == ((), ())
    assert Basis.by_frequency(cuts, 1.0).shape == (len(cuts.contexts), len(cuts.insides))


def test_yields_that_were_not_seen_are_free() -> None:
    basis = Basis.smallest(("a", "b"))
    problem = problem_of(basis, {("a",): 0.5, ("a", "b"): 0.5}, only_observed=False)
    entries = problem.project(np.ones(len(problem.rows)))
    matrix = problem.matrix(entries)
    column = basis.column
    assert matrix[0, column["a",]] == 0.5
    assert matrix[0, column["b",]] == 1.0  # as it was: nobody saw it, nothing ties it
    assert matrix[basis.row[("a",), ()], column["b",]] == 0.5  # the only tree of a b


def test_a_basis_larger_than_memory_is_refused_with_one_that_fits(limit_memory) -> None:
    limit_memory(10_000_000)
    refuse_oversize(17, 8)
    limit_memory(10_000)
    with pytest.raises(SapwoodError, match=r"17 contexts x 8 inside strings.* 0.0 GB") as caught:
        refuse_oversize(17, 8)
    assert "4 x 4 would fit" in str(caught.value.hint)


def test_a_list_larger_than_memory_is_refused_with_one_that_fits(limit_memory) -> None:
    basis, observed = Basis.smallest(("a", "b")), {("a",): 0.5, ("a", "b"): 0.5}
    limit_memory(10_000)
    refuse_long_list(basis, observed)
    limit_memory(3_000)
    with pytest.raises(SapwoodError, match=r"5 x 2 with 4 entries of strings") as caught:
        refuse_long_list(basis, observed)
    assert "about 3 entries would fit" in str(caught.value.hint)


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
