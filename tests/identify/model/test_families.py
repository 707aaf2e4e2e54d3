"""Names of moments; moments by dynamic programs against an enumeration of all trees."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.exact_moments import moment
from tests.reference import topologies

from sapwood.core.errors import SapwoodError
from sapwood.core.topologies import n_binary_trees, n_dependency_trees, n_sides
from sapwood.identify.model import families
from sapwood.identify.model.dual import PRIME, Dual, Residues
from sapwood.identify.model.families import (
    FAMILIES,
    NAMED,
    Observation,
    Table,
    family_of,
    moments,
    observations,
    stationary,
)
from sapwood.identify.model.jacobian import draw_reals, draw_residues

FIELD = Residues()
ROUNDING = 1e-13  # sums of at most some thousand products of probabilities


def distribution(name: str, tables: dict[str, Any], length: int) -> dict[tuple[int, ...], Any]:
    """Of all sentences, tree by tree."""
    if name == "dep-ies":
        tables = {"root": stationary(tables["argument"]), **tables}
    if name.startswith("dep"):
        left = tables.get("left", tables.get("argument"))
        right = tables.get("right", tables.get("argument"))
        return topologies.dependency_distribution(length, tables["root"], left, right)

    def rules(a: int, b: int, c: int) -> Any:
        if "rules" in tables:
            return tables["rules"][b][c][a]
        left, right = tables.get("left"), tables.get("right")
        return (tables["child"] if left is None else left)[b][a] * (
            tables["child"] if right is None else right
        )[c][a]

    return topologies.constituency_distribution(length, tables["root"], rules, tables["words"])


def disagreement(name: str, n_words: int, length: int, seed: int) -> float:
    """Largest difference between the two over all sets of positions, in all orders."""
    family = family_of(name)
    tables = draw_reals(family.tables(n_words, 2), np.random.default_rng(seed))
    whole = distribution(name, tables, length)
    worst = 0.0
    for size in range(1, length + 1):
        for positions in permutations(range(1, length + 1), size):
            found = moment(family, tables, length, positions)
            expected = topologies.marginal(whole, positions)
            worst = max(worst, *(abs(found[key] - value) for key, value in expected.items()))
    return worst


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("n_words", "length"), [(3, 1), (3, 2), (3, 3), (2, 4), (2, 5)])
def test_moments_are_those_of_the_enumeration(name: str, n_words: int, length: int) -> None:
    assert disagreement(name, n_words, length, seed=length) < ROUNDING


@pytest.mark.parametrize("name", ["pcfg", "pcfg-i", "pcfg-ie", "dep-i", "dep-ie"])
def test_moments_are_exact_modulo_a_prime(name: str) -> None:
    family, length = family_of(name), 4
    point = draw_residues(family.tables(2, 2), FIELD, np.random.default_rng(0))
    exact = {key: np.vectorize(lambda x: Fraction(int(x)))(table) for key, table in point.items()}
    whole = distribution(name, exact, length)
    lifted = {
        key: Dual(table, np.zeros((0, *table.shape), np.int64), FIELD)
        for key, table in point.items()
    }
    for positions in ((1, 3), (2, 4, 1), (1, 2, 3, 4)):
        found = moment(family, lifted, length, positions).value
        for key, value in topologies.marginal(whole, positions).items():
            assert found[key] == value.numerator * pow(value.denominator, -1, PRIME) % PRIME


@pytest.mark.parametrize(
    ("name", "target", "mutant"),
    [
        ("pcfg", "n_binary_trees", lambda n: n_binary_trees(n) + (n == 3)),
        ("pcfg-ie", "n_binary_trees", lambda n: n_binary_trees(n) + (n == 3)),
        ("dep-i", "n_sides", lambda n: n_sides(n) + (n == 2)),
        ("dep-ie", "n_dependency_trees", lambda n: n_dependency_trees(n) + (n == 2)),
    ],
)
def test_a_wrong_count_of_unseen_trees_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, target: str, mutant: Any
) -> None:
    monkeypatch.setattr(families, target, mutant)
    assert disagreement(name, 2, 4, seed=0) > 1e-3


def test_swapped_sides_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        FAMILIES,
        "dep-i",
        families.Family(
            "dep-i", False, FAMILIES["dep-i"].tables,
            lambda given: families.Dependents(given["root"], given["right"], given["left"]),
        ),
    )  # fmt: skip
    assert disagreement("dep-i", 2, 3, seed=0) > 1e-3


def test_a_dropped_split_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = families.Constituents._split

    def without_last(self: Any, seen: tuple[bool, ...]) -> Any:
        last = len(seen) - 1
        if last == 1 or not (any(seen[:last]) and any(seen[last:])):
            return whole(self, seen)
        pair = self.children.pair(self._span(seen[:last]), self._span(seen[last:]))
        return whole(self, seen) - pair.reshape(pair.shape[0], -1)

    monkeypatch.setattr(families.Constituents, "_split", without_last)
    assert disagreement("pcfg-i", 2, 3, seed=0) > 1e-3


def test_crossing_and_circular_heads_are_no_projective_trees() -> None:
    assert topologies.is_projective((-1, 0, 1))
    assert not topologies.is_projective((2, 3, -1, 2))  # 3 -> 1 crosses 2 -> 0
    assert not topologies.is_projective((1, 0, -1))  # 0 and 1 are each other's heads
    assert not topologies.is_projective((1, -1, 0))  # 0 -> 2 passes over the root 1


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 8), st.data())
def test_a_margin_of_a_moment_is_a_moment(name: str, length: int, data: st.DataObject) -> None:
    family = family_of(name)
    tables = draw_reals(family.tables(3, 2), np.random.default_rng(length))
    places = data.draw(
        st.lists(st.integers(1, length), min_size=1, max_size=min(3, length), unique=True)
    )
    joint = moment(family, tables, length, tuple(places))
    assert joint.shape == (3,) * len(places)
    assert joint.sum() == pytest.approx(1.0, abs=1e-12)
    assert (joint >= 0).all()
    if len(places) > 1:
        margin = moment(family, tables, length, tuple(places[:-1]))
        np.testing.assert_allclose(joint.sum(axis=-1), margin, atol=ROUNDING)


@pytest.mark.parametrize("name", ["pcfg-ie", "dep-ie", "dep-ies"])
def test_equal_sides_make_the_mirror_image_as_likely(name: str) -> None:
    family = family_of(name)
    tables = draw_reals(family.tables(3, 2), np.random.default_rng(5))
    left = moment(family, tables, 6, (1, 2, 4))
    np.testing.assert_allclose(left, moment(family, tables, 6, (6, 5, 3)), atol=ROUNDING)


def test_a_stationary_root_is_the_margin_everywhere() -> None:
    family = family_of("dep-ies")
    tables = draw_reals(family.tables(4, 1), np.random.default_rng(6))
    root = stationary(tables["argument"])
    np.testing.assert_allclose(tables["argument"] @ root, root, atol=ROUNDING)
    for place in range(1, 8):
        np.testing.assert_allclose(moment(family, tables, 7, (place,)), root, atol=ROUNDING)


def test_moments_share_spans_and_agree_with_single_ones() -> None:
    family = family_of("pcfg")
    tables = draw_reals(family.tables(3, 2), np.random.default_rng(7))
    positions = list(combinations(range(1, 6), 2))
    for found, places in zip(moments(family, tables, 5, positions), positions, strict=True):
        np.testing.assert_allclose(found, moment(family, tables, 5, places), atol=ROUNDING)


@pytest.mark.parametrize("positions", [(), (1, 1), (0,), (4,)])
def test_positions_that_do_not_exist(positions: tuple[int, ...]) -> None:
    family = family_of("dep-i")
    tables = draw_reals(family.tables(2, 1), np.random.default_rng(0))
    with pytest.raises(SapwoodError, match="position"):
        moment(family, tables, 3, positions)


def test_tables_count_their_free_parameters() -> None:
    assert [Table((3,)).n_free, Table((3, 2)).n_free, Table((2, 2, 2), 2).n_free] == [2, 4, 6]
    assert Table((3, 2), 0).n_free == 6
    assert Table((2, 3), 0).draw(np.random.default_rng(0)).shape == (2, 3)


# -- names of moments


@pytest.mark.parametrize(
    ("name", "length", "positions"),
    [
        ("12", 5, [(1, 2)]),
        ("pairs", 3, [(1, 2), (1, 3), (2, 3)]),
        ("123", 4, [(1, 2, 3)]),
        ("triples", 4, [(1, 2, 3), (1, 2, 4), (1, 3, 4), (2, 3, 4)]),
        ("all", 4, [(1, 2, 3, 4)]),
        ("13", 3, [(1, 3)]),
        ("31", 3, [(3, 1)]),
        ("1,10", 10, [(1, 10)]),
        ("2,4,10", 10, [(2, 4, 10)]),
        ("12+13", 3, [(1, 2), (1, 3)]),
        ("12 + pairs", 3, [(1, 2), (1, 3), (2, 3)]),
        # short sentences are seen whole
        ("triples", 2, [(1, 2)]),
        ("pairs", 2, [(1, 2)]),
        ("pairs", 1, [(1,)]),
    ],
)
def test_names_of_moments(name: str, length: int, positions: list[tuple[int, ...]]) -> None:
    assert [each.positions for each in observations(name, length)] == positions


def test_slices_pick_a_word_at_the_last_position() -> None:
    assert observations("123e1", 3) == [Observation((1, 2, 3), 1)]
    assert observations("132e4", 3) == [Observation((1, 3, 2), 4)]
    assert observations("1,10e2", 10) == [Observation((1, 10), 2)]
    assert observations("triples-e1", 2) == [Observation((1, 2), 1), Observation((2, 1), 1)]
    three = [Observation(places, 1) for places in ((1, 2, 3), (1, 3, 2), (2, 3, 1))]
    assert observations("triples-e1", 3) == three
    sizes = [len(observations(name, 10)) for name in ("pairs", "triples", "triples-e1")]
    assert sizes == [45, 120, 360]
    assert (Observation((1, 2, 3)).size(5), Observation((1, 2, 3), 1).size(5)) == (125, 25)


@pytest.mark.parametrize("name", ["foo", "", "pairs+", "12-13", "e1", "1;2", "12e", "-1", "1,,2"])
def test_unknown_names_list_the_known(name: str) -> None:
    with pytest.raises(SapwoodError, match="unknown moments") as error:
        observations(name, 4)
    assert all(known in (error.value.hint or "") for known in NAMED)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, f"position {place} of sentences of 2 words")
          for name, place in [("14", 4), ("10", 0), ("1,12", 12), ("123", 3)]),
        ("112", "twice"),
    ],
)  # fmt: skip
def test_positions_that_a_sentence_does_not_have(name: str, message: str) -> None:
    with pytest.raises(SapwoodError, match=message):
        observations(name, 2)
