"""Which parsing models can be learnt: the claims of IDENT, sections 3 and 4, by exact ranks.

Theorem 1: a family is locally identifiable from its moments if and only if their Jacobian has full
rank at a random point. Ranks are exact modulo a prime; no tolerance is used anywhere here.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from tests.exact_moments import moment

from sapwood.identify import MomentMap, Table, check, check_map, einsum
from sapwood.identify.check import family_map
from sapwood.identify.model.dual import Reals, Residues, null_space, rank
from sapwood.identify.model.families import FAMILIES, family_of
from sapwood.identify.model.jacobian import (
    SYMMETRIES,
    Symmetry,
    basis_changes,
    direction_of,
    draw_reals,
    draw_residues,
    jacobian,
    symmetry_directions,
)

FIELD = Residues()
SIZES = [(2, 2), (3, 2), (3, 3), (4, 3), (4, 4)]  # words d and states k
WORDS = (2, 3, 4)


def deficit(family: str, d: int, k: int | None, length: int, moments: str) -> int:
    report = check(family, words=d, states=k, length=length, moments=moments, n_points=0)
    return report.deficit


# -- section 3: what there is to learn --------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [*SIZES, (7, 5)])
def test_parameters_without_the_redundant_ones(d: int, k: int) -> None:
    expected = {
        "pcfg": (k - 1) + k * (k**2 - 1) + k * (d - 1),
        "pcfg-i": (k - 1) + 2 * k * (k - 1) + k * (d - 1),
        "pcfg-ie": k**2 - 1 + k * (d - 1),
        "dep-i": (d - 1) + 2 * d * (d - 1),
        "dep-ie": d**2 - 1,
        "dep-ies": d * (d - 1),
    }
    for name, family in FAMILIES.items():
        found = sum(table.n_free for table in family.tables(d, k).values())
        assert found == expected[name], name


# -- section 4.4: the PCFG is never identifiable ----------------------------------------------


@pytest.mark.parametrize(("d", "k"), SIZES)
@pytest.mark.parametrize("length", [3, 4, 5])
def test_a_pcfg_lacks_exactly_its_changes_of_basis(d: int, k: int, length: int) -> None:
    """All triples leave k (k - 1) directions, and those are the changes of basis."""
    report = check("pcfg", words=d, states=k, length=length, moments="triples", n_points=0)
    assert report.deficit == k * (k - 1)
    assert report.explanation == (f"all {k * (k - 1)} are changes of basis of the hidden states",)


@pytest.mark.parametrize(("d", "k", "length"), [(2, 2, 5), (3, 3, 4), (3, 2, 5)])
def test_nor_do_whole_sentences_identify_a_pcfg(d: int, k: int, length: int) -> None:
    assert deficit("pcfg", d, k, length, "all") == k * (k - 1)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6])
def test_a_change_of_basis_changes_no_moment(length: int) -> None:
    """Not only to first order: for any invertible G whose columns sum to 1."""
    rng = np.random.default_rng(length)
    family = family_of("pcfg")
    old = draw_reals(family.tables(4, 3), rng)
    g = np.eye(3) + 0.3 * rng.standard_normal((3, 3))
    g /= g.sum(axis=0)
    new = moved_basis(old, g)
    places = tuple(range(1, min(length, 4) + 1))
    before, after = (moment(family, tables, length, places) for tables in (old, new))
    np.testing.assert_allclose(after, before, atol=1e-12)  # G has a condition below 100
    assert np.abs(new["words"] - old["words"]).max() > 1e-2


def test_a_basis_whose_columns_do_not_sum_to_one_is_noticed() -> None:
    """The mutant: without 1'G = 1' words that are not seen no longer drop out."""
    rng = np.random.default_rng(0)
    family = family_of("pcfg")
    old = draw_reals(family.tables(4, 3), rng)
    new = moved_basis(old, np.eye(3) + 0.3 * rng.standard_normal((3, 3)))
    before, after = (moment(family, tables, 4, (1, 2)) for tables in (old, new))
    assert np.abs(after - before).max() > 1e-3


def moved_basis(old: dict[str, Any], g: np.ndarray) -> dict[str, Any]:
    inverse = np.linalg.inv(g)
    return {
        "root": g @ old["root"],
        "rules": np.einsum("db,ec,bca,af->def", g, g, old["rules"], inverse),
        "words": old["words"] @ inverse,
    }


def without_last_term(point: Any) -> Any:
    """Mutant: the parent's state keeps its old basis."""
    k = point["root"].shape[0]
    inner = einsum("bce,ea->bca", point["rules"], np.eye(k, dtype=np.int64))
    for change in basis_changes(point):
        yield change | {"rules": change["rules"] + inner}


def test_a_wrong_symmetry_is_not_believed() -> None:
    model = family_map("pcfg", words=3, states=2, length=3, moments="triples")
    right = check_map(model, symmetries=SYMMETRIES["pcfg"], n_points=0)
    wrong = check_map(model, symmetries=[Symmetry("nonsense", without_last_term)], n_points=0)
    assert right.explanation
    assert wrong.explanation == ()


def test_too_few_directions_do_not_explain_a_deficit() -> None:
    """Mutant: only some changes of basis; they are unseen, but not all that is."""

    def some(point: Any) -> Any:
        yield next(iter(basis_changes(point)))

    model = family_map("pcfg", words=3, states=3, length=3, moments="triples")
    report = check_map(model, symmetries=[Symmetry("one change", some)], n_points=0)
    assert report.explanation == ("1 of 6 are one change",)


@pytest.mark.parametrize(("family", "length"), [("pcfg-i", 3), ("pcfg-ie", 3), ("pcfg", 3)])
def test_pairs_leave_words_in_the_space_of_the_states(family: str, length: int) -> None:
    """Pairs are O M O': they determine the space of O's columns, not the columns."""
    report = check(family, words=5, states=3, length=length, moments="pairs", n_points=0)
    text = f"words move only by changes of basis of the hidden states, in {report.movable['words']}"
    assert report.explanation[-1] == f"{text} dimensions"


def test_words_that_leave_the_space_are_noticed() -> None:
    """One slice of two words sees too little of the space, and with d = k there is no other."""
    for d, moments in ((5, "triples-e1"), (3, "pairs")):
        report = check("pcfg-ie", words=d, states=3, length=2, moments=moments, n_points=0)
        assert report.movable["words"] > 0
        assert report.explanation == ()


# -- section 4.4: the restricted families -----------------------------------------------------


@pytest.mark.parametrize("family", ["pcfg-i", "pcfg-ie"])
@pytest.mark.parametrize(("d", "k"), SIZES)
def test_independent_children_from_pairs_iff_four_words(family: str, d: int, k: int) -> None:
    found = [deficit(family, d, k, length, "pairs") == 0 for length in (2, 3, 4, 5)]
    assert found == [False, False, True, True]


@pytest.mark.parametrize("family", ["pcfg-i", "pcfg-ie"])
@pytest.mark.parametrize(("d", "k"), SIZES)
def test_independent_children_from_triples_iff_three_words(family: str, d: int, k: int) -> None:
    found = [deficit(family, d, k, length, "triples") == 0 for length in (2, 3, 4, 5)]
    assert found == [False, True, True, True]


@pytest.mark.parametrize("d", WORDS)
def test_dependencies_from_pairs_iff_three_words(d: int) -> None:
    for family in ("dep-i", "dep-ie"):
        found = [deficit(family, d, None, length, "pairs") == 0 for length in (2, 3, 4, 5)]
        assert found == [False, True, True, True]
    # A stationary model of two words is reversible, so that its pairs tell all: the one exception.
    found = [deficit("dep-ies", d, None, length, "pairs") == 0 for length in (2, 3, 4, 5)]
    assert found == [d == 2, True, True, True]


@pytest.mark.parametrize(
    ("family", "k"), [("pcfg-i", 2), ("pcfg-ie", 2), ("dep-i", None), ("dep-ies", None)]
)
@pytest.mark.parametrize("moments", ["pairs", "triples"])
def test_ten_words(family: str, k: int | None, moments: str) -> None:
    assert deficit(family, 3, k, 10, moments) == 0


def test_a_pcfg_of_ten_words() -> None:
    assert deficit("pcfg", 2, 2, 10, "triples") == 2


# -- section 4: two words ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_head_and_argument_cannot_be_told_apart_in_two_words(d: int) -> None:
    """The paper's example: pairs are a symmetric matrix, and d (d - 1) / 2 directions are lost."""
    report = check("dep-ie", words=d, length=2, moments="all", n_points=0)
    assert report.deficit == comb(d, 2)
    assert report.explanation == (
        f"all {comb(d, 2)} are exchanges of head and argument in a pair of words",
    )


@pytest.mark.parametrize("d", [3, 4, 5])
def test_other_losses_of_two_words(d: int) -> None:
    sides = check("dep-i", words=d, length=2, moments="all", n_points=0)
    assert sides.deficit == d * (d - 1)
    assert sides.explanation[0].startswith(f"all {d * (d - 1)} are trades")
    cycles = check("dep-ies", words=d, length=2, moments="all", n_points=0)
    assert cycles.deficit == comb(d - 1, 2)
    assert cycles.explanation[0].startswith(f"all {comb(d - 1, 2)} are circulations")


@pytest.mark.parametrize(("family", "length"), [("dep-ie", 3), ("dep-i", 3), ("dep-ies", 3)])
def test_three_words_see_what_two_do_not(family: str, length: int) -> None:
    """The same directions are seen as soon as there are three words: the check can say no."""
    model = family_map(family, words=4, length=length, moments="pairs")
    point = draw_residues(model.tables, FIELD, np.random.default_rng(0))
    known = symmetry_directions(SYMMETRIES[family][0], point, FIELD)
    basis = np.stack([direction_of(model.tables, change) for change in known], axis=1)
    assert rank(FIELD.matmul(jacobian(model, point, FIELD), basis), FIELD) == len(known)


# -- Figure 2: where the paper is corrected ---------------------------------------------------


@pytest.mark.parametrize("length", [3, 4, 5, 6])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_one_slice_is_never_enough(k: int, length: int) -> None:
    """phi_123e1 has d^2 numbers.

    At d = k that is fewer than the k^2 - 1 + k (d - 1) parameters of PCFG-IE, so no computation is
    needed to see that the paper's "yes" cannot hold there.
    """
    assert deficit("pcfg-ie", k, k, length, "123e1") == k * (k - 1) - 1
    assert deficit("pcfg-i", k, k, length, "123e1") == 2 * k * (k - 1) - 1
    assert deficit("pcfg-ie", k + 1, k, length, "123e1") == k * (k - 1) - 1
    assert deficit("dep-i", k, None, length, "123e1") == k * (k - 1) - 1
    assert k**2 < k**2 - 1 + k * (k - 1)


@pytest.mark.parametrize("family", ["pcfg-i", "pcfg-ie"])
@pytest.mark.parametrize(("d", "k"), [*SIZES, (5, 3)])
def test_slices_of_all_triples_need_four_words_from_three_states_on(
    family: str, d: int, k: int
) -> None:
    found = [deficit(family, d, k, length, "triples-e1") == 0 for length in (2, 3, 4, 5)]
    assert found == [False, k == 2, True, True]


def test_mirrored_positions_of_equal_sides_lose_the_order() -> None:
    """Positions i and L + 1 - i of DEP-IE: mirror images are equally likely, so mu = mu'."""
    for length in (3, 4, 5):
        ends = deficit("dep-ie", 3, None, length, f"1{length}")
        assert ends == comb(3, 2)
        assert deficit("dep-ie", 3, None, length, "12") == 0


# -- why ranks are exact ----------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [1e-8, 1e-10, 1e-12])
def test_a_fixed_tolerance_misjudges_ranks(tolerance: float) -> None:
    """PCFG-IE with 3 words and 3 states is identifiable from triples; floats doubt it at times."""
    question = {"words": 3, "states": 3, "length": 3, "moments": "triples"}
    assert check("pcfg-ie", **question, n_points=0).identifiable
    model = family_map("pcfg-ie", **question)
    ranks = []
    for seed in range(60):
        point = draw_reals(model.tables, np.random.default_rng(seed))
        values = np.linalg.svd(jacobian(model, point, Reals()), compute_uv=False)
        ranks.append(int((values > tolerance * values[0]).sum()))
    assert max(ranks) == model.n_parameters
    assert min(ranks) < model.n_parameters


def test_residues_can_be_unlucky_only_downwards() -> None:
    """At special points ranks fall: a PCFG-IE whose states all emit alike."""
    model = family_map("pcfg-ie", words=3, states=2, length=4, moments="pairs")
    rng = np.random.default_rng(0)
    point = draw_residues(model.tables, FIELD, rng)
    generic = null_space(jacobian(model, point, FIELD), FIELD, rng).rank
    point["words"][:, 1] = point["words"][:, 0]
    special = null_space(jacobian(model, point, FIELD), FIELD, rng).rank
    assert special < generic == model.n_parameters


# -- known results of others ------------------------------------------------------------------


def hidden_markov_model(d: int, k: int, length: int) -> MomentMap:
    tables = {"start": Table((k,)), "step": Table((k, k)), "word": Table((d, k))}

    def moments(given: Any) -> Any:
        alpha = einsum("h,xh->xh", given["start"], given["word"])
        for _ in range(length - 1):
            joint = einsum("xh,gh,yg->xyg", alpha, given["step"], given["word"])
            alpha = joint.reshape(-1, k)
        return alpha.sum(1)

    return MomentMap("hmm", tables, moments)


@pytest.mark.parametrize(("d", "k"), [(2, 2), (3, 2), (3, 3)])
def test_hidden_markov_models_need_three_words(d: int, k: int) -> None:
    """Three words identify an HMM with d >= k (Allman, Matias, Rhodes 2009); two never do."""
    assert not check_map(hidden_markov_model(d, k, 2), n_points=0).identifiable
    assert check_map(hidden_markov_model(d, k, 3), n_points=0).identifiable


def test_redundant_parameters_would_spoil_the_count() -> None:
    """Mutant: columns that need not sum to 1 add directions that rescaling hides."""
    right = hidden_markov_model(3, 2, 3)
    free = {name: Table(table.shape, 0) for name, table in right.tables.items()}
    report = check_map(MomentMap("free", free, right.moments), n_points=0)
    assert report.deficit > 0
