"""Lemma 1 of WCFG: exact Hankel blocks give the exact function; and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.errors import SapwoodError
from sapwood.evaluate.strings import strings_up_to
from sapwood.models.strings.targets import dyck, random_pcfg
from sapwood.models.strings.weighted_grammar import WeightedGrammar
from sapwood.moments.consistency import composed_contexts, problem_of
from sapwood.moments.hankel import WHOLE, Basis
from sapwood.moments.string_counts import LongStrings, expect, string_shards
from sapwood.reference.weighted_grammars import inside_vector, outside_vector

EXACT = 1e-12  # values are at most 1


def blocks(grammar: WeightedGrammar, basis: Basis) -> tuple[np.ndarray, np.ndarray]:
    """H and H_A by equations (8) to (12), not by charts."""
    number = grammar.number
    arrays = (grammar.terminals, grammar.binary)
    inside = [inside_vector([number[x] for x in y], *arrays) for y in basis.insides]
    outside = [
        outside_vector([number[s] for s in x], [number[s] for s in z], grammar.initial, *arrays)
        for x, z in basis.contexts
    ]
    rows, columns = np.array(outside), np.array(inside)
    pairs = np.einsum("oa,abc,yb,zc->oyz", rows, grammar.binary, columns, columns)
    return rows @ columns.T, pairs.reshape(len(rows), -1)


def full_basis(symbols: tuple[str, ...], size: int) -> Basis:
    """All inside strings and contexts of so many symbols at most."""
    strings = strings_up_to(symbols, size)
    contexts = [WHOLE, *((x, ()) for x in strings), *(((), x) for x in strings)]
    return Basis(symbols, tuple(contexts), tuple(strings)).close()


TARGETS = {
    "2 states, 2 symbols": (random_pcfg(2, 2, np.random.default_rng(1))[0], 2, 1),
    "3 states, 6 symbols": (random_pcfg(3, 6, np.random.default_rng(2))[0], 3, 1),
    "Dyck": (dyck(), 4, 3),
}


@pytest.mark.parametrize("name", TARGETS)
def test_lemma_1_exact_hankel_blocks_give_the_exact_function(name: str) -> None:
    """Lemma 1: if B is complete, the grammar of equations (21) to (23) computes f."""
    target, rank, size = TARGETS[name]
    basis = full_basis(target.symbols, size)
    whole, pairs = blocks(target, basis)
    found = sw.SpectralWCFG(rank).fit_moments(basis, whole, pairs)
    assert found.info_.singular_values[rank:] == pytest.approx(0, abs=EXACT)
    every = strings_up_to(target.symbols, 4 if len(target.symbols) > 2 else 8)
    np.testing.assert_allclose(found.model_.values(every), target.values(every), rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", TARGETS)
def test_the_gap_tells_the_rank(name: str) -> None:
    target, rank, size = TARGETS[name]
    basis = full_basis(target.symbols, size)
    assert sw.SpectralWCFG().fit_moments(basis, *blocks(target, basis)).model_.n_states == rank


def test_more_states_than_the_rank_are_refused_with_the_rank() -> None:
    basis = full_basis(("a", "b"), 3)
    with pytest.raises(SapwoodError, match="has rank 4") as caught:
        sw.SpectralWCFG(5).fit_moments(basis, *blocks(dyck(), basis))
    assert "at most 4" in str(caught.value.hint)


def test_a_basis_that_is_not_complete_does_not_do() -> None:
    """A wrong version: three states for the four of the Dyck language."""
    basis = full_basis(("a", "b"), 3)
    found = sw.SpectralWCFG(3).fit_moments(basis, *blocks(dyck(), basis)).model_
    every = strings_up_to(("a", "b"), 8)
    assert np.abs(found.values(every) - dyck().values(every)).sum() > 0.01


def test_a_change_of_basis_changes_no_value() -> None:
    """Section A.2: operators under an invertible M compute the same function."""
    grammar = strings_grammar(3, 2, seed=4)
    matrix = np.random.default_rng(0).normal(size=(3, 3))
    turned = grammar.change_basis(matrix)
    every = strings_up_to(("a", "b"), 6)
    np.testing.assert_allclose(turned.values(every), grammar.values(every), rtol=1e-9)
    np.testing.assert_allclose(turned.inside(["a", "b"]), matrix @ grammar.inside(["a", "b"]))
    wrong = WeightedGrammar(("a", "b"), grammar.initial @ matrix, turned.terminals, turned.binary)
    with pytest.raises(AssertionError):  # the inverse on the wrong side is another function
        np.testing.assert_allclose(wrong.values(every), grammar.values(every), rtol=1e-9)


def test_a_closed_basis_keeps_to_section_4_1() -> None:
    basis = Basis(
        ("a", "b", "c"),
        (WHOLE, (("a", "b"), ("c", "a"))),
        (("a",), ("b",), ("c",), ("a", "b", "c")),
    ).close()
    insides, contexts = set(basis.insides), set(basis.contexts)
    for y in insides:
        for k in range(1, len(y)):
            assert y[:k] in insides
            assert y[k:] in insides
    for x, z in contexts:
        for k in range(len(x)):
            assert x[k:] in insides
            assert (x[:k], z) in contexts
        for k in range(1, len(z) + 1):
            assert z[:k] in insides
            assert (x, z[k:]) in contexts
    assert basis.close() == basis


@pytest.mark.parametrize("only_observed", [True, False])
def test_exact_hankel_matrices_keep_to_all_constraints(only_observed: bool) -> None:
    """Constraints (24) to (27) hold of the Hankel matrix of any weighted grammar."""
    grammar = strings_grammar(3, 2, seed=6)
    basis = full_basis(("a", "b"), 2)
    every = strings_up_to(("a", "b"), 6)
    observed = dict(zip(every, grammar.values(every).tolist(), strict=True))
    problem = problem_of(basis, observed, only_observed=only_observed)
    entries = np.hstack(blocks(grammar, basis))[problem.rows, problem.columns]
    np.testing.assert_allclose(problem.project(entries), entries, rtol=0, atol=EXACT)
    bent = entries.copy()
    bent[0] += 0.1
    assert np.abs(problem.project(bent) - bent).max() > 1e-3


def test_composed_contexts_keep_to_all_constraints_too() -> None:
    """Constraints (25) to (27) with rows <x, x'; z> and <x; z', z>, of any weighted grammar."""
    grammar = strings_grammar(3, 2, seed=6)
    basis = full_basis(("a", "b"), 2)
    every = strings_up_to(("a", "b"), 6)
    observed = dict(zip(every, grammar.values(every).tolist(), strict=True))
    problem = problem_of(basis, observed, only_observed=False, composed=True)
    whole, pairs = blocks(grammar, basis)
    vectors = []
    for x, beside, z, is_right in composed_contexts(basis):
        above, side = grammar.outside(x, z), grammar.inside(beside)
        vectors.append(
            np.einsum("a,abc,b->c" if is_right else "a,abc,c->b", above, grammar.binary, side)
        )
    inside = np.array([grammar.inside(y) for y in basis.insides])
    rows = np.array(vectors)
    below = np.einsum("oa,abc,yb,zc->oyz", rows, grammar.binary, inside, inside)
    more = np.hstack([rows @ inside.T, below.reshape(len(rows), -1)])
    entries = np.vstack([np.hstack([whole, pairs]), more]).ravel()
    np.testing.assert_allclose(problem.project(entries), entries, rtol=0, atol=EXACT)
    bent = entries.copy()
    bent[-1] += 0.1  # a pair in a composed context
    assert np.abs(problem.project(bent) - bent).max() > 1e-3


def test_composed_contexts_say_nothing_about_the_other_rows() -> None:
    """What is free without them stays free: they only weigh in the norm."""
    basis = full_basis(("a", "b"), 1)
    observed = {x: 0.01 for x in strings_up_to(("a", "b"), 3)}
    small, large = (
        problem_of(basis, observed, only_observed=False, composed=more) for more in (False, True)
    )
    rng = np.random.default_rng(0)
    n = len(small.rows)
    for _ in range(5):
        entries = small.project(rng.normal(size=n))
        padded = np.append(entries, rng.normal(size=len(large.rows) - n))
        for _ in range(400):  # onto one set and the other in turn, to a point of both
            padded = large.project(np.append(entries, padded[n:]))
        np.testing.assert_allclose(padded[:n], entries, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["2 states, 2 symbols", "3 states, 6 symbols"])
def test_strings_up_to_three_symbols_are_enough(name: str) -> None:
    """Section 5.1: the simplified problem is a linear system, and determines the grammar."""
    target, rank, _ = TARGETS[name]
    short = strings_up_to(target.symbols, 3)
    values = target.values(short)
    observed = dict(zip(short, values.tolist(), strict=True))
    learner = sw.UnsupervisedWCFG(rank, solver="direct")
    found = learner.fit(observed, n=1.0).model_
    every = strings_up_to(target.symbols, 5 if len(target.symbols) > 2 else 8)
    np.testing.assert_allclose(found.values(every), target.values(every), rtol=0, atol=1e-9)


def test_em_never_lowers_the_likelihood() -> None:
    grammar = strings_grammar(2, 2, seed=7)
    drawn = grammar.sample_brackets(300, seed=1)
    for data in ([list(x.words) for x in drawn], drawn):
        track = sw.EMWCFG(3, iterations=25, starts=1, tolerance=0.0).fit(data).log_likelihoods_
        assert len(track) > 10
        assert (np.diff(track) >= -1e-9 * abs(track[0])).all()


def test_strings_known_to_be_longer_are_counted_as_if_they_were_there() -> None:
    """The E-step of strings of which only a length is known: a sum over all of them."""
    grammar, longest = strings_grammar(2, 2, seed=7), 3
    deep = strings_up_to(("a", "b"), 11)
    longer = {x: p for x, p in zip(deep, grammar.values(deep).tolist(), strict=True) if len(x) > 3}
    number = {"a": 0, "b": 1}
    listed = [expect(shard, grammar) for shard in string_shards(longer, number)]
    masses = 1 - np.cumsum(grammar.length_masses(11))
    more, most = (
        LongStrings(masses[size - 1], size).expect(grammar) for size in (longest, 11)
    )  # of more than 3 symbols, and of more than were listed
    for name in ("initial", "terminals", "binary"):
        counts = sum(getattr(part, name) for part in listed)
        np.testing.assert_allclose(getattr(more, name) - getattr(most, name), counts, rtol=1e-6)
    assert more.log_likelihood == pytest.approx(masses[2] * np.log(masses[2]))
    track = sw.EMWCFG(3, iterations=15, starts=1, tolerance=0.0).fit(
        {x: 1000 * p for x, p in zip(deep[:14], grammar.values(deep[:14]), strict=True)}, n=1000
    )
    assert (np.diff(track.log_likelihoods_) >= -1e-9).all()


def test_the_error_falls_as_one_over_the_root_of_n() -> None:
    """Supervised, Dyck: L1 up to length 7, medians over five samples."""
    every = strings_up_to(("a", "b"), 7)
    truth = dyck().values(every)
    errors = []
    for n in (1000, 16_000):
        found = [
            sw.SpectralWCFG(4, basis=0.05).fit(dyck().sample_brackets(n, seed=s)).model_
            for s in range(5)
        ]
        errors.append(np.median([np.abs(m.values(every) - truth).sum() for m in found]))
    assert 2 < errors[0] / errors[1] < 8  # 4 is the root of 16
