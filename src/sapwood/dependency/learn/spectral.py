"""`SpectralDependency` and `SpectralHMM`: latent trees and chains from counts, without iterations.

DEP, algorithm 1, with the formulas of `linalg/dependency_operators.py`: two passes over the
corpus, and singular value decompositions of matrices as small as the number of states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Domain, maybe, one_of, parameter
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.dependency.data.bank import ArcBank, ArcBankLike
from sapwood.dependency.learn.moments import (
    ArcCounts,
    ArcParameters,
    ChainParameters,
    ChainSums,
    SpectralParameters,
    TripleSums,
    require_latent_memory,
)
from sapwood.dependency.model.dependency import HiddenMarkovModel, Seen
from sapwood.dependency.model.latent import LatentArcs
from sapwood.linalg.dependency_operators import (
    LatentTreeOperators,
    chain_operators,
    diagonal_form,
    moment_inverse,
    path_operators,
    regular_inverse,
    sibling_operators,
    symbol_vectors,
)
from sapwood.linalg.svd import cca

SYMBOLS_FROM = ("arcs", "triples", "range")
RANK_RATIO = 1e-12  # of the largest singular value: smaller ones are rounding errors
UNIFORM_FRACTION = 0.05  # of uninformative columns in tables that start EM


class SpectralDependency(SpectralParameters, ArcParameters):
    """Latent dependency trees from moments of (left child, head, right child).

    The result is a `DependencyModel` in the basis of the projections, whose weights are no
    probabilities. With exact moments of a model of as many states its weights of all trees are
    exact, whatever their shapes.

    Attributes
    ----------
    model_
        What was learnt.
    projection_ : [n_symbols, n_states]
        U.
    correlations_
        Singular values behind the projection, falling.
    """

    symbols_from: str = parameter(
        "arcs",
        one_of(SYMBOLS_FROM),
        "Where vectors of symbols come from: all `arcs`; `triples`, the word operators of words "
        "that have children on both sides; or the `range` of the emissions, which CCA of the arcs "
        "gives: the paper's formula, made exact for any projection.",
    )

    embeddings: Eigenwords | None = parameter(
        None,
        maybe(Domain("Eigenwords", lambda value: isinstance(value, Eigenwords))),
        "Word vectors from other text in place of the projection, as in the paper; for words only.",
    )

    def fit(self, trees: ArcBankLike) -> Self:
        """Learn from an `ArcBank`, a list of `Arcs`, or a path."""
        bank, seen = self._see(trees)
        arcs, record = self.learn_tables(bank, seen)
        self.model_ = self._model(seen, arcs, bank, record)
        return self

    def learn_tables(self, bank: ArcBank, seen: Seen) -> tuple[LatentArcs, dict[str, Any]]:
        """The tables of the symbols that occur, and the training record."""
        n = seen.n_symbols
        require_latent_memory(bank, self._engine(), n, self.n_states)
        engine, placed, counts = self._place(seen.of(bank), n)
        basis = self._project(counts, seen)
        by_symbol = n if self.symbols_from == "triples" else 0
        sums = engine.total(TripleSums.of, placed, basis.U, by_symbol)
        paths = [engine.total(ChainSums.of_paths, placed, basis.U, side) for side in (0, 1)]
        solved = solve_arcs(counts, sums, basis, self.ridge, self.symbols_from, paths)
        record = {
            "method": "spectral", "states": self.n_states, "seed": self.seed,
            "triples": int(sums.n), "paths": [int(each.n) for each in paths],
            "correlations": basis.correlations.tolist(),
        }  # fmt: skip
        self.projection_, self.correlations_ = basis
        return shrink_symbols(solved, counts.symbols, seen, self.shrinkage), record

    def _project(self, counts: ArcCounts, seen: Seen) -> SymbolProjection:
        if self.embeddings is None:
            return project_symbols(
                counts, self.n_states, self.projection, power=self.power,
                n_columns=len(seen.column_start) - 1,
            )  # fmt: skip
        if seen.kind != "words" or seen.valence:
            msg = "embeddings are vectors of words, which are not all that is seen"
            raise SapwoodError(msg, hint="give seen='words', and no valence")
        rows = [seen.symbol(x) for x in range(seen.n_symbols)]
        return given_projection(self.embeddings, rows, counts.symbols, self.n_states)


class SpectralHMM(SpectralParameters, ChainParameters):
    """A hidden Markov model from moments of three words in a row.

    The reduced-dimension model of Foster, Rodu and Ungar (2012), which is the chain among latent
    trees. Moments are pooled over all places; the start is that of first words, so that no state
    need be stationary.

    Attributes
    ----------
    model_
        A `HiddenMarkovModel` in the basis of the projections.
    projection_ : [n_symbols, n_states]
    correlations_
        Singular values behind the projection, falling.
    """

    def fit(self, sentences: Iterable[Sequence[str]]) -> Self:
        """Learn from lists of words."""
        _, seen, trees, sizes = self._read(sentences)
        engine, placed, counts = self._place(trees, seen.n_symbols)
        basis = project_symbols(counts, self.n_states, self.projection, power=self.power)
        sums = engine.total(ChainSums.of, placed, basis.U)
        solved = solve_chain(counts, sums, basis, self.ridge)
        arcs = shrink_symbols(solved, counts.symbols, seen, self.shrinkage)
        record = sizes | {
            "method": "spectral", "states": self.n_states, "seed": self.seed,
            "triples": int(sums.n), "correlations": basis.correlations.tolist(),
        }  # fmt: skip
        self.projection_, self.correlations_ = basis
        self.model_ = HiddenMarkovModel(seen, arcs, record)
        return self


class SymbolProjection(NamedTuple):
    """Vectors of symbols, and singular values.

    Attributes
    ----------
    U : [n, k]
        The first column is constant: the vector of a word begins with 1.
    correlations : [k]
        Singular values, falling.
    """

    U: FloatArray
    correlations: FloatArray


class Solved(NamedTuple):
    """A latent tree in the basis of its projection."""

    root: FloatArray
    symbols: FloatArray
    operators: LatentTreeOperators


def project_symbols(
    counts: ArcCounts, k: int, how: str, *, power: float = 1.0, n_columns: int = 1
) -> SymbolProjection:
    """U from the counts of the symbols at the two ends of an arc, in all four roles.

    A symbol's row counts its heads and its children, on the left and on the right apart. All roles
    have their emissions in common, so that for exact counts the left singular vectors span the
    range of the emissions; those of CCA, times the row sums, where the first one is constant. Any
    other directions will do as well that keep the states apart.

    Parameters
    ----------
    power
        Counts are taken to this power before they are decomposed: below 1, common pairs and
        cliques of rare symbols outweigh others less.
    """
    pairs, weight, other = neighbour_frequencies(counts)
    pairs.data **= power
    if how == "cca":
        found = cca(pairs, weight**power, other**power, k)
    else:
        found = cca(pairs, np.ones(len(weight)), np.ones(pairs.shape[1]), k)
    kept = int((found.correlations > RANK_RATIO * found.correlations.max(initial=0.0)).sum())
    if kept < k:
        msg = f"{k} states, but the arcs of {len(weight)} symbols have rank {kept}"
        raise SapwoodError(msg, hint=f"ask for at most {kept} states, or see more of the words")
    constant = np.full((len(weight), 1), 1.0 / n_columns)
    return SymbolProjection(np.hstack([constant, _others(found.left, weight)]), found.correlations)


def neighbour_frequencies(counts: ArcCounts) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
    """Relative frequencies of each symbol with each neighbour in all four roles.

    Returns
    -------
    [n, 4 n], [n], [4 n]
        Relative frequencies of all pairs, which sum to 1, and their sums of rows and columns.
    """
    pairs = sparse.hstack([counts.left, counts.right, counts.left.T, counts.right.T], format="csr")
    pairs = pairs / max(float(pairs.sum()), 1.0)
    rows, columns = (np.asarray(pairs.sum(axis=axis)).ravel() for axis in (1, 0))
    return pairs, rows, columns


def given_projection(
    embeddings: Eigenwords, words: Sequence[str], count: FloatArray, k: int
) -> SymbolProjection:
    """U of vectors from elsewhere: the constant, and their first k - 1 directions."""
    if embeddings.dimension < k:
        msg = f"{k} states, but embeddings of dimension {embeddings.dimension}"
        raise SapwoodError(msg, hint=f"ask for at most {embeddings.dimension} states")
    known = embeddings.vocabulary
    rows = [known.row(word, is_first=False) for word in words]
    # the component that all vectors share is put first, and replaced by the constant
    vectors = np.hstack([np.ones((len(rows), 1)), embeddings.vectors[rows, : k - 1]])
    weight = np.maximum(count, 0.5) / np.maximum(count, 0.5).sum()
    others = _others(vectors.astype(float), weight)
    constant = np.ones((len(rows), 1))
    return SymbolProjection(
        np.hstack([constant, others]), np.asarray(embeddings.strengths[:k], float)
    )


def _others(U: FloatArray, weight: FloatArray) -> FloatArray:
    """Directions of U with mean 0 and variance 1; those of CCA, without the first, already have.

    A constant beside them keeps the states apart if U does: no mean of theirs can be 1.
    """
    mean = weight @ U
    # a reflection that takes the mean to the first axis leaves all others without
    flipped = mean - np.eye(len(mean))[0] * np.copysign(np.linalg.norm(mean), -mean[0])
    reflection = np.eye(len(mean)) - 2 * np.outer(flipped, flipped) / (flipped @ flipped)
    others = (U @ reflection)[:, 1:]
    return np.asarray(others / np.sqrt(np.maximum(weight @ others**2, np.finfo(float).tiny)))


def solve_arcs(
    counts: ArcCounts,
    sums: TripleSums,
    basis: SymbolProjection,
    ridge: float,
    symbols_from: str,
    paths: Sequence[ChainSums] = (),
) -> Solved:
    """DEP, section 3.3: operators from triples, and the vectors of symbols.

    Where no word has children on both sides there are no triples; paths that end with a left child,
    and with a right child, replace them.
    """
    if sums.n or not any(each.n for each in paths):
        operators = sibling_operators(sums.moments(), ridge)
    else:
        sides = [(each.n, each.moments() if each.n else None) for each in paths]
        operators = path_operators(sides, ridge)
    if symbols_from == "triples":
        moments = sums.moments()
        # w_x' = e' D_x,  D_x = E_L^-1 K_x S_R^-1, with K_x the triples whose head is x
        row = moments.head_right[0] @ moment_inverse(moments.left_right, ridge)
        inverse = moment_inverse(moments.head_right, ridge)
        symbols = np.einsum("a,xab,bc->xc", row, sums.by_symbol / sums.n, inverse, optimize=True)
    elif symbols_from == "range":
        symbols = range_symbols(basis.U, emission_range(counts, basis.U.shape[1]))
    else:
        symbols = _arc_symbols(counts, basis.U, ridge)
    return Solved(_mean_root(counts, basis.U), np.asarray(symbols), operators)


def emission_range(counts: ArcCounts, k: int) -> FloatArray:
    """A basis B of the range of the emissions, [n, k], by CCA of symbols and their neighbours.

    The rows of `neighbour_frequencies` are the emissions times a matrix of the states, so that for
    exact counts its left singular vectors span the range of the emissions. CCA scales the rows by
    D^-1/2, with D the frequencies of the symbols, before it takes them: B = D C, C its directions.
    """
    pairs, frequency, other = neighbour_frequencies(counts)
    return frequency[:, None] * cca(pairs, frequency, other, k).left


def range_symbols(U: FloatArray, B: FloatArray) -> FloatArray:
    """Vectors of symbols, w_x = (B'U)^-1 B' delta_x, all x at once, [n, k].

    Exact for every U when the columns of B span the range of the emissions: with O = B M,
    G = U'O = U'B M, and w_x = G^-T O' delta_x. The paper prints the case B = U, which needs a U
    with the range of the emissions; a U of CCA with B = D U is another.
    """
    return np.asarray(B @ regular_inverse(B.T @ U, 0.0).T)


def solve_chain(
    counts: ArcCounts, sums: ChainSums, basis: SymbolProjection, ridge: float
) -> Solved:
    """The same for chains, in which all arcs go to the right."""
    operators = chain_operators(sums.moments(), ridge)
    return Solved(_mean_root(counts, basis.U), _arc_symbols(counts, basis.U, ridge), operators)


def _arc_symbols(counts: ArcCounts, U: FloatArray, ridge: float) -> FloatArray:
    """Symbols as children of heads with known vectors, and as heads of children with them."""
    n_words = counts.symbols @ U[:, 0]
    views = [
        (neighbours @ U / n_words, neighbours / n_words)
        for pairs in (counts.left, counts.right)
        for neighbours in (np.asarray(pairs.T @ U).T, np.asarray(pairs @ U).T)
    ]
    return symbol_vectors(views, counts.symbols @ U / n_words, counts.symbols / n_words, ridge)


def _mean_root(counts: ArcCounts, U: FloatArray) -> FloatArray:
    """G pi: the mean vector of roots, columns of symbols added up."""
    return np.asarray(counts.roots @ U / max(counts.n_trees, 1.0))


def shrink_symbols(solved: Solved, count: FloatArray, seen: Seen, shrinkage: float) -> LatentArcs:
    """Tables in which the vectors of rare symbols are pulled towards telling nothing of the state.

        w_x <- lam_x w_x + (1 - lam_x) p(x) e + lam_x p(x) / P * gap,    lam_x = n / (n + C)
        P = sum of lam_x p(x),   gap = e - sum of lam_x w_x + (1 - lam_x) p(x) e

    The mass taken from the vectors of rare symbols goes to common ones, in proportion to their
    trusted probability, so that the vectors of a column still sum to e: the weights of everything
    that the words of a tree can show sum to 1.
    """
    end = np.eye(len(solved.root))[0]  # the vector that begins with 1 and has nothing else
    symbols = np.empty_like(solved.symbols)
    for first, last in pairwise(seen.column_start.tolist()):
        n = count[first:last, None]
        # a class of unknown words that was never needed is as rare as half a word
        p = np.maximum(n, 0.5) / np.maximum(n, 0.5).sum()
        trust = n / (n + shrinkage) if shrinkage else np.ones_like(n)
        pulled = trust * solved.symbols[first:last] + (1 - trust) * p * end
        trusted = trust * p / (trust * p).sum()
        symbols[first:last] = pulled + trusted * (end - pulled.sum(axis=0))
    root, steps = (np.ascontiguousarray(x) for x in (solved.root, solved.operators.steps))
    return LatentArcs(root, steps, symbols, seen.column_start, end, solved.operators.product)


def make_probabilities(arcs: LatentArcs, count: FloatArray, seed: int) -> LatentArcs:
    """A spectral model in the basis of its states, clipped and normalised: a start for EM.

    Tables are mixed with the uniform distribution, since EM never leaves a probability of 0.
    """
    assert arcs.product is not None  # spectral models have a basis
    operators = LatentTreeOperators(arcs.steps, arcs.product)
    form = diagonal_form(arcs.root, arcs.symbols, operators, np.random.default_rng(seed))
    k = arcs.n_states
    symbols = np.empty_like(form.symbols)
    for first, last in pairwise(arcs.column_start.tolist()):
        some = np.maximum(count[first:last], 0.5)
        symbols[first:last] = _distributions(form.symbols[first:last], some[:, None])
    steps = np.stack([_distributions(step, np.full((k, 1), 1.0)) for step in form.steps])
    root = _distributions(form.root[:, None], np.full((k, 1), 1.0))[:, 0]
    return LatentArcs(root, steps, symbols, arcs.column_start)


def _distributions(table: FloatArray, plain: FloatArray) -> FloatArray:
    clipped = np.maximum(table, 0.0)
    total = clipped.sum(axis=0)
    plain = np.broadcast_to(plain / plain.sum(), table.shape)
    # a column without any positive entry says nothing
    proper = np.where(total > 0, clipped / np.where(total > 0, total, 1.0), plain)
    return np.asarray((1 - UNIFORM_FRACTION) * proper + UNIFORM_FRACTION * plain)
