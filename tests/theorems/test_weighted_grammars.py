"""Lemmas 1 to 4 of WCFG: Hankel blocks that satisfy the constraints give the function exactly."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from benchmarks.papers.targets import dyck, random_pcfg
from tests.reference.weighted_grammars import inside_vector, outside_vector
from tests.toys import change_basis, strings_grammar

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.hankel.learn.consistency import composed_contexts, problem_of
from sapwood.hankel.learn.em_wcfg import LongStrings, string_shards
from sapwood.hankel.learn.moments import EMPTY_CONTEXT, Basis
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

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
    contexts = [EMPTY_CONTEXT, *((x, ()) for x in strings), *(((), x) for x in strings)]
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
    turned = change_basis(grammar, matrix)
    every = strings_up_to(("a", "b"), 6)
    np.testing.assert_allclose(turned.values(every), grammar.values(every), rtol=1e-9)
    np.testing.assert_allclose(turned.inside(["a", "b"]), matrix @ grammar.inside(["a", "b"]))
    wrong = WeightedGrammar(("a", "b"), grammar.initial @ matrix, turned.terminals, turned.binary)
    with pytest.raises(AssertionError):  # the inverse on the wrong side is another function
        np.testing.assert_allclose(wrong.values(every), grammar.values(every), rtol=1e-9)


def lemma_grammar(
    which: int, whole: np.ndarray, pairs: np.ndarray, basis: Basis
) -> WeightedGrammar:
    """G of Lemma 3, or G' of Lemma 4, of section A.3; its states are contexts, or insides."""
    inverse = np.linalg.pinv(whole, rcond=1e-10)
    s = len(basis.insides)
    symbols = whole[:, basis.symbol_columns].T
    if which == 3:
        cube = pairs.reshape(-1, s, s)
        binary = np.einsum("oyz,yb,zc->obc", cube, inverse, inverse)
        return WeightedGrammar(basis.symbols, whole[0] @ inverse, symbols.copy(), binary)
    binary = (inverse @ pairs).reshape(s, s, s)
    return WeightedGrammar(basis.symbols, whole[0].copy(), symbols @ inverse.T, binary)


def lemma_case() -> tuple[Basis, np.ndarray, np.ndarray]:
    """A signed function of rank 3, on a basis with more rows and columns than that."""
    grammar = strings_grammar(3, 2, seed=6)
    signed = change_basis(grammar, np.random.default_rng(5).normal(size=(3, 3)))
    signed = WeightedGrammar(
        signed.symbols, signed.initial * [1, -1, 1], signed.terminals, signed.binary
    )
    basis = full_basis(("a", "b"), 2)
    return basis, *blocks(signed, basis)


def values_of(grammar: WeightedGrammar, basis: Basis) -> np.ndarray:
    """g(o, i) for all contexts and insides, by equations (8) to (12)."""
    return blocks(grammar, basis)[0]


@pytest.mark.parametrize("which", [3, 4])
def test_lemma_2_constraints_and_equal_ranks_give_a_grammar(which: int) -> None:
    """Lemma 2: if H satisfies (25) to (27) and rank(H) = rank(H_eps), some WCFG generates H_eps.

    Both grammars of the proof do; neither does where a constraint or the ranks do not hold.
    """
    basis, whole, pairs = lemma_case()
    assert np.linalg.matrix_rank(whole, tol=1e-9) == 3
    assert np.linalg.matrix_rank(np.hstack([whole, pairs]), tol=1e-9) == 3
    found = values_of(lemma_grammar(which, whole, pairs, basis), basis)
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-9)
    bent = 1.1 * pairs  # (26) no longer holds
    wrong = values_of(lemma_grammar(which, whole, bent, basis), basis)
    assert np.abs(wrong - whole).max() > 1e-3
    # p(aa) = 1 in the basis of section 5.1: constraints hold, and rank(H) = 2 > rank(H_eps) = 1
    small = full_basis(("a",), 1)
    whole, pairs = np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [0.0], [0.0]])
    problem = problem_of(small, {("a", "a"): 1.0, ("a",): 0.0}, only_observed=False)
    entries = np.hstack([whole, pairs]).ravel()
    np.testing.assert_allclose(problem.project(entries), entries, rtol=0, atol=EXACT)
    wrong = values_of(lemma_grammar(which, whole, pairs, small), small)
    assert np.abs(wrong - whole).max() > 0.1


def test_lemma_3_inside_vectors_are_columns() -> None:
    """beta_G(x) = h_(x) and beta_G(x1, x2) = h_(x1, x2) for the G of section A.3.

    The proof says H_eps+ h_(x) = e_(x), which needs linearly independent columns; without, it is
    the projection of e_(x) on the rows of H_eps, and the lemma holds all the same.
    """
    basis, whole, pairs = lemma_case()
    grammar = lemma_grammar(3, whole, pairs, basis)
    arrays, s = (grammar.terminals, grammar.binary), len(basis.insides)
    vectors = [inside_vector([grammar.number[x] for x in y], *arrays) for y in basis.insides]
    np.testing.assert_allclose(np.array(vectors).T, whole, rtol=0, atol=1e-9)
    composed = np.einsum("obc,yb,zc->oyz", grammar.binary, vectors, vectors).reshape(-1, s * s)
    np.testing.assert_allclose(composed, pairs, rtol=0, atol=1e-9)
    swapped = np.einsum("obc,yc,zb->oyz", grammar.binary, vectors, vectors).reshape(-1, s * s)
    assert np.abs(swapped - pairs).max() > 1e-3  # the order of the two parts matters
    units = np.linalg.pinv(whole, rcond=1e-10) @ whole
    assert np.abs(units - np.eye(s)).max() > 0.1


def test_lemma_4_outside_vectors_are_rows() -> None:
    """alpha_G'(<x; z>) = h'_<x; z>, and so for <x, x'; z> and <x; z', z>, for G' of section A.3."""
    basis, whole, pairs = lemma_case()
    grammar = lemma_grammar(4, whole, pairs, basis)
    number, s = grammar.number, len(basis.insides)
    arrays = (grammar.terminals, grammar.binary)
    vectors = [
        outside_vector([number[s] for s in x], [number[s] for s in z], grammar.initial, *arrays)
        for x, z in basis.contexts
    ]
    np.testing.assert_allclose(np.array(vectors), whole, rtol=0, atol=1e-9)
    cube = pairs.reshape(-1, s, s)  # by (25), rows of composed contexts are columns of pairs
    for x, beside, z, is_right in composed_contexts(basis):
        side = inside_vector([number[s] for s in beside], *arrays)
        above = vectors[basis.row[x, z]]
        vector = np.einsum("a,abc,b->c" if is_right else "a,abc,c->b", above, grammar.binary, side)
        pair = cube[basis.row[x, z]]
        at = basis.column[beside]
        expected, mirrored = (pair[at], pair[:, at]) if is_right else (pair[:, at], pair[at])
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-9)
        if (x, beside, z) == ((), ("a",), ()):
            assert np.abs(vector - mirrored).max() > 1e-3  # the other side is another row


def test_the_norm_of_a_hankel_matrix_may_exceed_one() -> None:
    """Section 4.2 says that ||H||_2 <= 1 for any distribution: p(aa) = 1 gives sqrt(2)."""
    grammar = WeightedGrammar(
        ("a",), np.array([1.0, 0.0]), np.array([[0.0, 1.0]]), np.zeros((2, 2, 2))
    )
    grammar.binary[0, 1, 1] = 1.0  # S -> A A, A -> a
    matrix = np.hstack(blocks(grammar, full_basis(("a",), 1)))
    assert grammar.value(["a", "a"]) == 1.0
    assert np.linalg.norm(matrix, 2) == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize(
    "counts", [{"a": 10, "aa": 90}, {"a": 20, "aa": 80, "aaa": 20}, {"aa": 100}], ids=str
)
def test_data_whose_hankel_matrix_exceeds_norm_one_are_learnt(counts: dict[str, int]) -> None:
    """The cap ||H||_2 <= 1 contradicts these strings; without it their probabilities come back."""
    strings = {tuple(x): n for x, n in counts.items()}
    learner = sw.UnsupervisedWCFG(2, basis=1.0).fit(strings)
    frequencies = np.array(list(counts.values())) / sum(counts.values())
    found = learner.model_.values(list(strings))
    np.testing.assert_allclose(found, frequencies, rtol=0, atol=1e-5)  # the gap closes to 1e-7
    assert learner.info_.singular_values[0] > 1
    assert 0 <= learner.info_.solver["gap"] + 1e-9 < 1e-6
    assert learner.info_.solver["feasibility"] < 1e-6


def test_a_basis_that_is_not_complete_is_a_warning() -> None:
    """One state is all that the default basis of so few strings has; Lemma 2 does not apply."""
    with pytest.warns(sw.errors.SapwoodWarning, match=r"holds 68% of.* 3 x 1.* larger basis"):
        sw.UnsupervisedWCFG().fit({("a", "a"): 90, ("a",): 10})


def test_a_solver_that_does_not_converge_is_a_warning() -> None:
    with pytest.warns(sw.errors.SapwoodWarning, match="did not converge in 1 steps"):
        sw.UnsupervisedWCFG(2, basis=1.0, max_steps=1).fit({("a", "a"): 90, ("a",): 10})


def test_a_closed_basis_keeps_to_section_4_1() -> None:
    basis = Basis(
        ("a", "b", "c"),
        (EMPTY_CONTEXT, (("a", "b"), ("c", "a"))),
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
    listed = [shard.expect(grammar) for shard in string_shards(longer, number)]
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
    """Supervised, Dyck: L1 up to length 7, medians over three samples."""
    every = strings_up_to(("a", "b"), 7)
    truth = dyck().values(every)
    errors = []
    for n in (500, 8000):
        found = [
            sw.SpectralWCFG(4, basis=0.05).fit(dyck().sample_brackets(n, seed=s)).model_
            for s in range(3)
        ]
        errors.append(np.median([np.abs(m.values(every) - truth).sum() for m in found]))
    assert 2 < errors[0] / errors[1] < 8  # 4 is the root of 16
