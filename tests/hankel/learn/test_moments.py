"""Hankel blocks: counted by hand, additive, the same for any engine."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.toys import strings_grammar

from sapwood.core.errors import SapwoodError
from sapwood.execute import Threads
from sapwood.hankel.data.bracketed import Bracketed
from sapwood.hankel.learn import moments as hankel
from sapwood.hankel.learn.consistency import problem_of, refuse_long_list, refuse_oversize
from sapwood.hankel.learn.moments import Basis, CutCounts, HankelCounts

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
    monkeypatch.setattr(hankel, "SHARD_WORDS", 50)
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
