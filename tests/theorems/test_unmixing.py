"""Section 5 of IDENT: exact moments of sentences give the parameters of models with hidden trees.

Lemma 1 (DECOMPOSE), Proposition 1 (UNMIX), and their use for PCFG-IE and DEP-IES.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.exact_moments import moment

from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.core.topologies import sample_words
from sapwood.identify.learn import uniform, unmix
from sapwood.identify.learn.uniform import UNIFORM_FAMILIES, em, fit_moments
from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
from sapwood.identify.mixing import (
    MixingMatrix,
    PairPaths,
    TriplePaths,
    pair_mixing,
    triple_mixing,
)
from sapwood.identify.model.families import family_of, stationary
from sapwood.identify.model.jacobian import draw_reals
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformCounts, UniformTreeModel
from sapwood.linalg import diagonalise

Array = np.ndarray
Tables = dict[str, Array]
PCFG_IE, DEP_IES = family_of("pcfg-ie"), family_of("dep-ies")
EXACT = 1e-10  # well-conditioned models: measured 1e-13 and better
SEEDS = range(12)


def pcfg_ie(rng: np.random.Generator, d: int, k: int) -> Tables:
    """Dirichlet(1): every column uniform on its simplex."""
    return draw_reals(PCFG_IE.tables(d, k), rng)


def clear_pcfg_ie(rng: np.random.Generator, d: int, k: int) -> Tables:
    """States that mostly stay, are all likely, and have words of their own."""
    words = rng.dirichlet(np.ones(d), k).T
    words[np.arange(k), np.arange(k)] += 1.0
    return {
        "root": rng.dirichlet(np.full(k, 20.0)),
        "child": 0.5 * np.eye(k) + 0.5 * rng.dirichlet(np.ones(k), k).T,
        "words": words / words.sum(axis=0),
    }


def dep_ies(rng: np.random.Generator, d: int) -> Tables:
    argument = draw_reals(DEP_IES.tables(d, 1), rng)["argument"]
    return {"root": np.asarray(stationary(argument)), "argument": argument}


def error(found: UniformTreeModel, true: Tables) -> float:
    """Largest error of any parameter, with states in the order that suits the words best."""
    tables = aligned(found.tables, true) if found.family == "pcfg-ie" else found.tables
    return max(float(np.abs(tables[name] - true[name]).max()) for name in true)


def aligned(found: Tables, true: Tables) -> Tables:
    cost = np.abs(found["words"][:, :, None] - true["words"][:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(cost)
    order = rows[np.argsort(columns)]
    return {
        "root": found["root"][order],
        "child": found["child"][np.ix_(order, order)],
        "words": found["words"][:, order],
    }


def exact_triples(true: Tables) -> Array:
    return moment(PCFG_IE, true, 3, (1, 2, 3))


def exact_pairs(true: Tables) -> tuple[Array, Array, Array]:
    one, two = (moment(DEP_IES, true, 3, pair) for pair in ((1, 2), (1, 3)))
    return one, two, moment(DEP_IES, true, 2, (1, 2))


def sampled(family: str, true: Tables, n: int, lengths: tuple[int, ...], seed: int):
    rng = np.random.default_rng(seed)
    d = len(true["words" if family == "pcfg-ie" else "argument"])
    parts = (
        SentenceCounts.of_rows(sample_words(family, true, n, length, rng), d) for length in lengths
    )
    return sum(parts, start=SentenceCounts(d))


def random_start(
    family: str, vocabulary: tuple[str, ...], n_states: int, rng: np.random.Generator
) -> UniformTreeModel:
    """Every column uniform on its simplex."""
    drawn = draw_reals(family_of(family).tables(len(vocabulary), n_states), rng)
    return UNIFORM_FAMILIES[family].model(vocabulary, drawn)


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """Estimates from few sentences warn; here only their errors count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        yield


# -- equation 4: mu = M Psi -----------------------------------------------------------------------


def mixing_error(mixing: MixingMatrix, true: Tables, step: int = 1) -> float:
    """Largest distance of each `step`-th moment from what M makes of the compound parameters."""
    family = PCFG_IE if isinstance(mixing.columns[0], TriplePaths) else DEP_IES
    paths = np.array(mixing.columns)
    mixed = UNIFORM_FAMILIES[family.name].moments(mixing.matrix[::step], paths, true)
    rows = mixing.rows[::step]
    exact = [moment(family, true, row.length, tuple(row[1:])).ravel() for row in rows]
    return float(np.abs(mixed - np.stack(exact)).max())


def test_triples_up_to_ten_words_are_mixed_from_their_compound_parameters() -> None:
    """990 x 2376 at L_max = 10, as the paper says; the rank is 974."""
    mixing = triple_mixing(10)
    assert mixing.matrix.shape == (990, 2376)
    assert mixing.rank == 974
    s = mixing.singular_values
    assert s[973] > 1e-5
    assert s[974] < 1e-13
    assert mixing_error(mixing, pcfg_ie(np.random.default_rng(0), 3, 2), step=7) < 1e-14


def test_pairs_up_to_ten_words_are_mixed_from_their_compound_parameters() -> None:
    assert mixing_error(pair_mixing(10), dep_ies(np.random.default_rng(0), 4), step=4) < 1e-14


@pytest.mark.parametrize(
    "mutant",
    [
        lambda column: column._replace(root=column.root + 1),
        lambda column: column._replace(out=column.inner, inner=column.out),
        lambda column: column._replace(first=column.second, second=column.first),
        lambda column: column._replace(outgroup=(column.outgroup + 1) % 3),
    ],
    ids=["one step more", "paths swapped", "ends swapped", "wrong outgroup"],
)
def test_a_mixing_matrix_with_wrong_columns_is_rejected(mutant) -> None:
    mixing = triple_mixing(5)
    wrong = MixingMatrix(mixing.rows, tuple(map(mutant, mixing.columns)), mixing.matrix)
    true = pcfg_ie(np.random.default_rng(1), 3, 2)
    assert mixing_error(mixing, true) < 1e-14
    assert mixing_error(wrong, true) > 1e-4


def test_which_compound_parameters_of_pcfg_ie_can_be_read_off() -> None:
    """Psi_2 belongs to three-word sentences only: longer ones add nothing linear to it."""
    psi_2 = TriplePaths(0, 0, 1, 1, 1, 1)
    for longest in (3, 4, 6):
        mixing = triple_mixing(longest)
        assert mixing.is_recoverable[mixing.columns.index(psi_2)]
        weights = mixing.weights(psi_2)
        used = {mixing.rows[at].length for at in np.flatnonzero(np.abs(weights) > 1e-12)}
        assert used == {3}
    assert triple_mixing(4).is_recoverable.sum() == 3
    assert triple_mixing(5).is_recoverable.sum() == 6
    with pytest.raises(SapwoodError, match="do not determine"):
        triple_mixing(4).weights(TriplePaths(0, 1, 1, 1, 1, 1))


def test_five_words_make_dep_ies_linear() -> None:
    """Up to four words A D itself is out of reach; with five, every compound parameter is not."""
    down = PairPaths(1, 0)
    for longest in (2, 3, 4):
        mixing = pair_mixing(longest)
        assert not mixing.is_recoverable[mixing.columns.index(down)]
    mixing = pair_mixing(5)
    assert mixing.is_recoverable.all()
    true = dep_ies(np.random.default_rng(2), 4)
    weights = mixing.weights(down)
    moments = [moment(DEP_IES, true, row.length, tuple(row[1:])) for row in mixing.rows]
    found = np.einsum("r,rab->ab", weights, np.stack(moments)) / true["root"]
    np.testing.assert_allclose(found, true["argument"], rtol=0, atol=EXACT)


# -- Lemma 1 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_decompose_finds_the_columns(seed: int) -> None:
    """X = M1 M2' and Y = M1 D M2' give M1 up to order and scale."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(4, 9)), int(rng.integers(1, 5))
    M1, M2 = rng.dirichlet(np.full(d, 0.5), k).T, rng.dirichlet(np.full(d, 0.5), k).T  # noqa: N806
    found = diagonalise.decompose(
        M1 @ M2.T, lambda tau: (M1 * (M1.T @ tau)) @ M2.T, k, rng, n_draws=20
    )
    columns = found.M1 / found.M1.sum(axis=0)
    cost = np.abs(columns[:, :, None] - M1[:, None, :]).max(axis=0)
    assert cost[linear_sum_assignment(cost)].max() < 1e-8
    assert found.is_real


def test_more_directions_find_a_wider_gap() -> None:
    rng = np.random.default_rng(3)
    M1 = rng.dirichlet(np.ones(6), 4).T  # noqa: N806

    def gap(n_draws: int, seed: int) -> float:
        draws = np.random.default_rng(seed)
        args = (M1 @ M1.T, lambda tau: (M1 * (M1.T @ tau)) @ M1.T, 4, draws)
        return diagonalise.decompose(*args, n_draws=n_draws).gap

    pairs = [(gap(20, seed), gap(1, seed)) for seed in range(20)]
    assert all(many >= one for many, one in pairs)
    assert max(many / one for many, one in pairs) > 3


# -- PCFG-IE from exact moments -------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(2, 2), (4, 2), (5, 3), (6, 2), (8, 3), (8, 4), (4, 1)])
def test_exact_triples_give_a_clear_pcfg_ie(d: int, k: int) -> None:
    for seed in SEEDS:
        true = clear_pcfg_ie(np.random.default_rng(seed), d, k)
        found = UnmixPCFGIE(k).fit_moments(exact_triples(true))
        assert error(found.model_, true) < EXACT, seed


@pytest.mark.parametrize(("d", "k"), [(4, 2), (6, 3), (8, 4)])
def test_exact_triples_give_most_random_pcfg_ies(d: int, k: int) -> None:
    """Dirichlet(1) models may be as badly conditioned as they like: the median counts."""
    trues = [pcfg_ie(np.random.default_rng(seed), d, k) for seed in range(25)]
    errors = [error(UnmixPCFGIE(k).fit_moments(exact_triples(t)).model_, t) for t in trues]
    assert np.median(errors) < 1e-7


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, 1), (-1, 1, 1), (1, 0, 0)])
def test_unmixing_with_wrong_signs_is_rejected(monkeypatch, signs: tuple[int, ...]) -> None:
    """Only mu_123 + mu_132 - mu_231 is a compound parameter."""
    true = clear_pcfg_ie(np.random.default_rng(0), 5, 2)

    def wrong(*moments: Array) -> Array:
        return sum(sign * part for sign, part in zip(signs, moments, strict=True))

    monkeypatch.setattr(unmix, "_mean_psi", wrong)
    try:
        found = UnmixPCFGIE(2).fit_moments(exact_triples(true)).model_
    except (SapwoodError, SapwoodWarning):
        return
    assert error(found, true) > 1e-2


def test_both_estimates_of_psi_are_the_same_from_exact_moments() -> None:
    true = clear_pcfg_ie(np.random.default_rng(1), 5, 3)
    eta = np.random.default_rng(2).standard_normal(5)
    A = true["words"] @ true["child"]  # noqa: N806
    psi = (A * true["root"]) @ true["child"].T @ np.diag(A.T @ eta) @ A.T
    found = unmix.psi_of_tensor(exact_triples(true), eta)
    np.testing.assert_allclose(found, psi, rtol=0, atol=1e-15)


# -- DEP-IES from exact moments -------------------------------------------------------------------


def other_roots(true: Tables) -> int:
    """Eigenvalues of A that are not the principal root of lam^2 + lam."""
    lam = np.linalg.eigvals(true["argument"]).astype(complex)
    principal = -0.5 + np.sqrt(lam**2 + lam + 0.25)
    return int((np.abs(principal - lam) > 1e-6).sum())


@pytest.mark.parametrize("d", [2, 3, 4, 6, 8])
def test_fifty_random_dep_ies_have_the_right_roots(d: int) -> None:
    trues = [dep_ies(np.random.default_rng(seed), d) for seed in range(50)]
    errors = [error(UnmixDEPIES().fit_moments(*exact_pairs(true)).model_, true) for true in trues]
    assert max(errors) < 1e-7  # no wrong root, whatever the conditioning
    assert np.median(errors) < EXACT


def test_the_moments_of_the_right_root_are_those_given(monkeypatch) -> None:
    """Roots are chosen by their distance from the moments, which is 0 for the right one only."""
    true = dep_ies(np.random.default_rng(0), 4)
    told = []
    real = unmix.stochastic_root
    monkeypatch.setattr(
        unmix, "stochastic_root", lambda table, how: told.append(how) or real(table, how)
    )
    UnmixDEPIES().fit_moments(*exact_pairs(true))
    (mismatch,) = told
    assert mismatch(true["argument"]) < 1e-14
    assert mismatch(true["argument"].T) > 0.1
    assert mismatch(np.full((4, 4), 0.25)) > 0.01


def test_principal_roots_only_are_rejected(monkeypatch) -> None:
    """The principal root is wrong for 5 to 13 % of random models."""
    trues = [dep_ies(np.random.default_rng(seed), 3) for seed in range(50)]
    monkeypatch.setattr(diagonalise, "_may_be_other", lambda lam: False)
    monkeypatch.setattr(unmix, "_with_pairs", lambda root, pairs, pi: root)
    errors = np.array(
        [error(UnmixDEPIES().fit_moments(*exact_pairs(true)).model_, true) for true in trues]
    )
    is_other = np.array([other_roots(true) > 0 for true in trues])
    assert 2 <= is_other.sum() <= 8
    assert (errors[is_other] > 1e-2).all()
    assert (errors[~is_other] < EXACT).all()


@pytest.mark.parametrize("factor", [6, 8])
def test_a_wrong_number_of_trees_is_rejected(monkeypatch, factor: int) -> None:
    true = dep_ies(np.random.default_rng(0), 4)
    mu_12, mu_13, two = exact_pairs(true)
    wrong = mu_12 + (factor / 7 - 1) * (mu_12 - mu_13)
    assert error(UnmixDEPIES().fit_moments(mu_12, mu_13, two).model_, true) < EXACT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        assert error(UnmixDEPIES().fit_moments(wrong, mu_13, two).model_, true) > 1e-3


# -- from samples ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_the_error_falls_with_more_sentences(family: str) -> None:
    """Like one over the square root, in the median over models: 5 times less for 25 times more."""
    medians = []
    for n in (4_000, 100_000):
        errors = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            true = clear_pcfg_ie(rng, 4, 2) if family == "pcfg-ie" else dep_ies(rng, 3)
            counts = sampled(family, true, n, (2, 3), seed)
            learner = UnmixPCFGIE(2) if family == "pcfg-ie" else UnmixDEPIES()
            errors.append(error(learner.fit_counts(counts).model_, true))
        medians.append(float(np.median(errors)))
    assert 2 < medians[0] / medians[1] < 13


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("d", [2, 4, 8])
def test_the_root_is_counted(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stationary vector of a noisy A has five times the error; A gains by its margins."""

    def fitted(seed: int) -> tuple[Tables, Tables]:
        true = dep_ies(np.random.default_rng(seed), d)
        counts = sampled("dep-ies", true, 10_000, (2, 3), seed)
        return true, UnmixDEPIES().fit_counts(counts).model_.tables

    def medians() -> tuple[float, float]:
        pairs = [fitted(seed) for seed in range(10)]
        roots = [
            np.abs(stationary(found["argument"]) - true["root"]).sum() for true, found in pairs
        ]
        tables = [np.abs(found["argument"] - true["argument"]).sum() for true, found in pairs]
        return float(np.median(roots)), float(np.median(tables))

    for _, found in (fitted(0), fitted(1)):
        np.testing.assert_allclose(found["argument"] @ found["root"], found["root"], atol=1e-11)
    root, table = medians()
    monkeypatch.setattr(unmix, "_balance", lambda down, pi: down)
    old_root, old_table = medians()
    assert root < old_root / 2
    assert table < 1.02 * old_table


def test_margins_that_zeros_are_in_the_way_of() -> None:
    """No table with this zero has these margins: what comes is near, and no error."""
    pi = np.array([0.7, 0.3])
    found = unmix._balance(np.array([[0.0, 0.3], [0.7, 0.0]]), pi)
    np.testing.assert_allclose(found.sum(axis=0), pi, atol=1e-9)
    assert (found >= 0).all()
    exact = np.array([[0.5, 0.2], [0.2, 0.1]])
    np.testing.assert_allclose(unmix._balance(exact, exact.sum(axis=0)), exact, atol=1e-12)
    np.testing.assert_allclose(unmix._balance(np.diag(pi), pi), np.diag(pi), atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("no_warnings")
def test_sampled_pcfg_ie_is_as_good_as_reported() -> None:
    """Median L1 error of T, d = 6, k = 2: .22/.050/.015 at 1e4/1e5/1e6, within a factor of 2.

    Well-conditioned models: exact moments have a noise gain below 200.
    """
    for n, reported in ((10**4, 0.22), (10**5, 0.050), (10**6, 0.015)):
        errors = []
        for seed in range(15):
            true = well_conditioned(np.random.default_rng(seed), 6, 2)
            found = UnmixPCFGIE(2).fit_counts(sampled("pcfg-ie", true, n, (3,), seed)).model_
            errors.append(np.abs(aligned(found.tables, true)["child"] - true["child"]).sum())
        assert np.median(errors) < 2 * reported


def well_conditioned(rng: np.random.Generator, d: int, k: int) -> Tables:
    while True:
        true = pcfg_ie(rng, d, k)
        if UnmixPCFGIE(k).fit_moments(exact_triples(true)).info_.noise_gain < 200:
            return true


@pytest.mark.slow
@pytest.mark.usefixtures("no_warnings")
def test_sampled_dep_ies_is_as_good_as_reported() -> None:
    """Median L1 error of A, d = 4: .25/.094/.030 at 1e4/1e5/1e6, within a factor of 2."""
    for n, reported in ((10**4, 0.25), (10**5, 0.094), (10**6, 0.030)):
        errors = []
        for seed in range(15):
            true = dep_ies(np.random.default_rng(seed), 4)
            found = UnmixDEPIES().fit_counts(sampled("dep-ies", true, n, (2, 3), seed)).model_
            errors.append(np.abs(found.tables["argument"] - true["argument"]).sum())
        assert np.median(errors) < 2 * reported


# -- refinement -----------------------------------------------------------------------------------


def exact_counts(family: str, true: Tables, lengths: tuple[int, ...]) -> SentenceCounts:
    """All sentences of some lengths with their exact probabilities, as if a million were read."""
    d = len(true["words" if family == "pcfg-ie" else "argument"])
    total = SentenceCounts(d)
    for length in lengths:
        joint = moment(family_of(family), true, length, tuple(range(1, length + 1)))
        rows = np.indices((d,) * length).reshape(length, -1).T
        total = total + SentenceCounts.of_rows(rows, d, 1e6 * joint.ravel())
    return total


def nearby(family: str, true: Tables, seed: int) -> UniformTreeModel:
    rng = np.random.default_rng(seed)
    d = len(true["words" if family == "pcfg-ie" else "argument"])
    names = tuple(map(str, range(d)))
    other = random_start(family, names, len(true["root"]), rng).tables
    tables = {name: 0.9 * true[name] + 0.1 * other[name] for name in other}
    if family == "dep-ies":
        tables["root"] = np.asarray(stationary(tables["argument"]))
    return UniformTreeModel(family, names, tables)


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_a_fit_of_exact_moments_ends_at_the_truth(family: str) -> None:
    rng = np.random.default_rng(4)
    true = clear_pcfg_ie(rng, 3, 2) if family == "pcfg-ie" else dep_ies(rng, 3)
    fit = fit_moments(nearby(family, true, 5), exact_counts(family, true, (2, 3, 4, 5)), 10)
    assert fit.max_length == 5
    assert error(fit.model, true) < 1e-6


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_em_never_lowers_the_likelihood(family: str, accelerate: bool) -> None:
    rng = np.random.default_rng(6)
    true = clear_pcfg_ie(rng, 4, 2) if family == "pcfg-ie" else dep_ies(rng, 4)
    counts = sampled(family, true, 2_000, (1, 2, 3, 5), 7)
    names = tuple(map(str, range(4)))
    for seed in range(4):
        start = random_start(family, names, 2, np.random.default_rng(seed))
        run = em(start, counts, iterations=30, tolerance=-1.0, accelerate=accelerate)
        steps = np.diff(run.values)
        assert run.n_expectations in (30, 31)
        assert steps.min() > -1e-6
        assert steps[0] > 1


def test_a_jump_that_leads_downhill_is_not_taken(monkeypatch) -> None:
    true = clear_pcfg_ie(np.random.default_rng(6), 4, 2)
    counts = sampled("pcfg-ie", true, 2_000, (1, 2, 3, 5), 7)
    start = random_start("pcfg-ie", tuple("abcd"), 2, np.random.default_rng(0))
    plain = em(start, counts, iterations=12, tolerance=-1.0, accelerate=False)
    monkeypatch.setattr(uniform, "extrapolate", lambda *_: start)
    run = em(start, counts, iterations=12, tolerance=-1.0, accelerate=True)
    # every third E-step is wasted on the way back to the start; the others go on as they would
    assert np.diff(run.values).min() > -1e-6
    np.testing.assert_allclose(run.values, plain.values[:9], rtol=1e-12)
    assert UniformCounts.of(counts, run.parameters).log_likelihood == run.values[-1]


def test_a_wrong_m_step_lowers_the_likelihood(monkeypatch) -> None:
    """Counts of parents given their children, instead of children given their parents."""
    real = uniform.maximise_uniform

    def wrong(model: UniformTreeModel, counts: UniformCounts) -> UniformTreeModel:
        tables = dict(counts.tables) | {"child": counts.tables["child"].T}
        return real(model, UniformCounts(tables, 0.0, 0.0))

    monkeypatch.setattr(uniform, "maximise_uniform", wrong)
    true = clear_pcfg_ie(np.random.default_rng(6), 4, 2)
    true["child"] = np.array([[0.7, 0.9], [0.3, 0.1]])
    counts = sampled("pcfg-ie", true, 2_000, (1, 2, 3, 5), 7)
    start = UniformTreeModel("pcfg-ie", tuple("abcd"), true)
    run = em(start, counts, iterations=10, tolerance=-np.inf, accelerate=False)
    assert np.diff(run.values).min() < -1


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_the_truth_is_a_fixed_point_of_em(family: str) -> None:
    rng = np.random.default_rng(8)
    true = clear_pcfg_ie(rng, 3, 2) if family == "pcfg-ie" else dep_ies(rng, 3)
    counts = exact_counts(family, true, (2, 3, 4))
    start = UniformTreeModel(family, ("a", "b", "c"), true)
    run = em(start, counts, iterations=4, tolerance=-1.0, floor=0.0)
    assert error(run.parameters, true) < 1e-6


@pytest.mark.usefixtures("no_warnings")
def test_unmixing_is_a_better_start_than_chance() -> None:
    """From the unmixed estimate EM gets as far as from the truth; from chance, often not."""
    true = clear_pcfg_ie(np.random.default_rng(3), 5, 3)
    counts = sampled("pcfg-ie", true, 20_000, (3, 4), 9)
    names = tuple(map(str, range(5)))
    settings = {"iterations": 300, "tolerance": 1e-7}
    unmixed = UnmixPCFGIE(3).fit_counts(counts).model_
    ours, best = (
        em(start, counts, **settings).values[-1]
        for start in (unmixed, UniformTreeModel("pcfg-ie", names, true))
    )
    rng = np.random.default_rng(10)
    others = [
        em(random_start("pcfg-ie", names, 3, rng), counts, **settings).values[-1] for _ in range(6)
    ]
    assert ours > best - 10
    assert min(others) < best - 10


@pytest.mark.usefixtures("no_warnings")
def test_longer_sentences_help_the_refinement() -> None:
    errors = {"none": [], "moments": [], "em": []}
    for seed in range(6):
        true = clear_pcfg_ie(np.random.default_rng(seed), 4, 2)
        counts = sampled("pcfg-ie", true, 5_000, (3, 4, 5), seed)
        for refine, found in errors.items():
            learner = UnmixPCFGIE(2, refine=refine, iterations=200).fit_counts(counts)
            found.append(error(learner.model_, true))
    medians = {refine: np.median(found) for refine, found in errors.items()}
    assert medians["moments"] < 0.8 * medians["none"]
    assert medians["em"] < 0.8 * medians["none"]


def test_every_pair_of_positions_is_a_row() -> None:
    rows = pair_mixing(4).rows
    assert [tuple(row) for row in rows if row.length == 4] == [
        (4, i, j) for i, j in combinations(range(1, 5), 2)
    ]
