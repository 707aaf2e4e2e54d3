"""Jacobians, reports, and families that users define by their moments."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np
import pytest

from sapwood.core.errors import SapwoodError
from sapwood.identify import MomentMap, Report, Table, check, check_map, einsum, remedy
from sapwood.identify.check import LONGEST_CHECKED, family_map, memory_bytes
from sapwood.identify.model.dual import PRIME, Dual, Reals, Residues
from sapwood.identify.model.families import FAMILIES, observations
from sapwood.identify.model.jacobian import (
    changes,
    direction_of,
    draw_reals,
    draw_residues,
    jacobian,
)

FIELD = Residues()
QUESTIONS = [
    ("pcfg", 3, 2, 4, "triples"),
    ("pcfg-i", 3, 2, 4, "pairs"),
    ("pcfg-ie", 3, 3, 3, "123e1"),
    ("dep-i", 3, None, 4, "pairs"),
    ("dep-ie", 3, None, 3, "all"),
    ("dep-ies", 3, None, 4, "triples-e1"),
]


def model_of(family: str, words: int, states: int | None, length: int, moments: str) -> MomentMap:
    return family_map(family, words=words, states=states, length=length, moments=moments)


def floats(model: MomentMap, tables: dict[str, Any]) -> np.ndarray:
    """The moments as one vector, through the same function but without derivatives."""
    return np.concatenate([np.asarray(each).ravel() for each in model.moments(tables)])


def moved(model: MomentMap, point: dict[str, Any], direction: np.ndarray, step: float) -> Any:
    change = changes(model.tables, direction)
    return {name: table + step * change[name] for name, table in point.items()}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question[0])
def test_float_jacobian_is_that_of_finite_differences(question: tuple) -> None:
    model = model_of(*question)
    point = draw_reals(model.tables, np.random.default_rng(0))
    found = jacobian(model, point, Reals(), chunk=5)
    h = 1e-5  # central differences: errors of order h^2 and of rounding / h
    for column in range(model.n_parameters):
        direction = np.eye(model.n_parameters)[column]
        up, down = (floats(model, moved(model, point, direction, step)) for step in (h, -h))
        np.testing.assert_allclose(found[:, column], (up - down) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("question", QUESTIONS[:5], ids=lambda question: question[0])
def test_exact_jacobian_is_the_derivative_of_the_polynomial(question: tuple) -> None:
    """Along a random line moments are a polynomial of degree below 3 L: interpolate it."""
    model = model_of(*question)
    rng = np.random.default_rng(0)
    point = draw_residues(model.tables, FIELD, rng)
    direction = rng.integers(0, PRIME, model.n_parameters)
    change = changes(model.tables, direction)
    n = 3 * question[3]
    values = []
    for t in range(n):
        at = {name: (table + t * change[name]) % PRIME for name, table in point.items()}
        values.append(_values(model, at))
    found = FIELD.matmul(jacobian(model, point, FIELD), direction[:, None])[:, 0]
    assert found.tolist() == _derivative_at_zero(values)


def _values(model: MomentMap, point: dict[str, Any]) -> list[int]:
    lifted = {k: Dual(v, np.zeros((0, *v.shape), np.int64), FIELD) for k, v in point.items()}
    return [int(x) for each in model.moments(lifted) for x in each.value.ravel()]


def _derivative_at_zero(values: list[list[int]]) -> list[int]:
    """Lagrange's formula with Python's integers, modulo the prime."""
    total = [0] * len(values[0])
    for i, row in enumerate(values):
        others = [j for j in range(len(values)) if j != i]
        weight = sum(prod(-j for j in others if j != k) for k in others)
        weight *= pow(prod(i - j for j in others), -1, PRIME)
        total = [(t + weight * v) % PRIME for t, v in zip(total, row, strict=True)]
    return total


def test_chunks_of_directions_make_one_jacobian() -> None:
    model = model_of("pcfg-i", 3, 2, 3, "all")
    point = draw_residues(model.tables, FIELD, np.random.default_rng(0))
    whole = jacobian(model, point, FIELD)
    assert whole.tolist() == jacobian(model, point, FIELD, chunk=3).tolist()


def test_a_direction_survives_the_way_to_tables_and_back() -> None:
    tables = {"a": Table((3, 2)), "b": Table((2, 2, 2), 2), "c": Table((2, 2), 0)}
    direction = np.arange(1.0, 15.0)
    change = changes(tables, direction)
    assert direction_of(tables, change).tolist() == direction.tolist()
    np.testing.assert_allclose(change["a"].sum(axis=0), 0)
    np.testing.assert_allclose(change["b"].sum(axis=(0, 1)), 0)


# -- reports ----------------------------------------------------------------------------------


def test_report_has_the_flat_keys() -> None:
    report = check("pcfg-i", words=3, states=2, length=3, moments="pairs")
    data = json.loads(json.dumps(report.to_dict()))
    assert {key: data[key] for key in list(data)[:9]} == {
        "family": "pcfg-i", "words": 3, "states": 2, "length": 3, "moments": "pairs",
        "parameters": 9, "rank": 8, "deficit": 1, "identifiable": False,
    }  # fmt: skip
    assert data["numbers"] == 27
    assert data["float_rank"] == 8
    assert 0 < data["smallest_kept"] < 1
    assert data["largest_dropped"] < 1e-14
    assert data["condition"] == pytest.approx(1 / data["smallest_kept"])
    assert "directions" not in data


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question[0])
def test_directions_leave_the_moments_unchanged(question: tuple) -> None:
    family, words, states, length, moments = question
    report = check(family, words=words, states=states, length=length, moments=moments)
    assert len(report.directions) == report.deficit
    model = model_of(*question)
    derivatives = jacobian(model, dict(report.point), Reals())
    for change in report.directions:
        direction = direction_of(model.tables, change)
        assert np.linalg.norm(direction) == pytest.approx(1.0)
        assert np.abs(derivatives @ direction).max() < 1e-13
    data = report.to_dict(with_directions=True)
    assert len(json.loads(json.dumps(data))["directions"]) == report.deficit


def test_movable_tables() -> None:
    """Of one word only the root is seen."""
    report = check("dep-i", words=3, length=1, moments="all")
    assert dict(report.movable) == {"root": 0, "left": 6, "right": 6}
    assert "determined: root" in "\n".join(report.lines())


def test_nothing_to_learn_is_identifiable() -> None:
    report = check("pcfg-ie", words=1, states=1, length=3, moments="all")
    assert (report.parameters, report.rank, report.identifiable) == (0, 0, True)
    assert report.conditioning is None
    blind = check("pcfg-ie", words=1, states=2, length=3, moments="all")
    assert (blind.rank, blind.deficit) == (0, 3)
    assert list(blind.lines())


def test_the_seed_changes_the_point_and_not_the_rank() -> None:
    reports = [
        check("pcfg-ie", words=4, states=3, length=4, moments="pairs", seed=n) for n in range(3)
    ]
    assert {report.rank for report in reports} == {17}
    assert len({report.conditioning.condition for report in reports}) == 3


def test_lines_read_well() -> None:
    report = check("pcfg", words=3, states=2, length=3, moments="triples")
    text = "\n".join(report.lines())
    assert text.startswith("not identifiable: pcfg with 3 words and 2 states from triples")
    assert "all 2 are changes of basis of the hidden states" in text
    assert "deficit      2" in text


# -- remedies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (("pcfg-ie", 3, 2, 3, "pairs"), "--moments triples"),
        (("pcfg-ie", 3, 2, 4, "12"), "--moments pairs"),
        (("dep-i", 3, None, 2, "all"), "--moments pairs --length 3"),
        (("pcfg-ie", 2, 3, 4, "pairs"), "--moments triples --length 5"),
        (("pcfg", 3, 2, 4, "all"), "use pcfg-i or pcfg-ie"),
        (("pcfg-ie", 1, 2, 4, "all"), "no moments of sentences of up to 6 words"),
    ],
)
def test_remedies(question: tuple, expected: str) -> None:
    family, words, states, length, moments = question
    report = check(family, words=words, states=states, length=length, moments=moments, n_points=0)
    assert expected in (remedy(report) or "")


def test_what_is_identifiable_needs_no_remedy() -> None:
    assert remedy(check("dep-i", words=3, length=3, moments="pairs", n_points=0)) is None


# -- what cannot be asked ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"family": "cfg"}, "unknown model family 'cfg'", "pcfg, pcfg-i, pcfg-ie, dep-i"),
        ({"moments": "quads"}, "unknown moments 'quads'", "triples-e1"),
        ({"states": None}, "number is missing", "--states"),
        ({"family": "dep-i"}, "no hidden states", "leave --states out"),
        ({"moments": "15"}, "position 5", "1 to 3"),
        ({"moments": "12e9"}, "word 9 of 4", "e4"),
        ({"words": 0}, "words 0", "--words"),
        ({"states": 0}, "states 0", "--states"),
        ({"length": LONGEST_CHECKED + 1}, f"at most {LONGEST_CHECKED}", "--length"),
        ({"words": 100, "moments": "triples"}, "GB", "fewer words"),
        ({"states": 500}, "GB", "fewer words or states"),
        ({"words": 50, "length": 50, "moments": "all"}, "over a million GB", "fewer"),
    ],
)
def test_bad_questions(options: dict[str, Any], message: str, hint: str) -> None:
    question = {"family": "pcfg", "words": 4, "states": 2, "length": 3, "moments": "pairs"}
    with pytest.raises(SapwoodError, match=message) as error:
        check(**(question | options))
    assert hint in (error.value.hint or "")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_memory_is_estimated_from_above(family: str) -> None:
    """The Jacobian alone must not take more than was announced for everything."""
    states = 3 if FAMILIES[family].has_states else None
    model = model_of(family, 4, states, 5, "triples")
    point = draw_reals(model.tables, np.random.default_rng(0))
    announced = memory_bytes(model.tables, observations("triples", 5), (4, states or 1, 5))
    assert jacobian(model, point, Reals()).nbytes < announced < 2**30


def test_the_longest_sentence_does_not_break_the_stack() -> None:
    report = check("dep-ie", words=2, length=LONGEST_CHECKED, moments="12", n_points=0)
    assert report.identifiable


# -- own families -----------------------------------------------------------------------------


def mixture(n_views: int) -> MomentMap:
    """A hidden class of 2, and views of 3 outcomes each that are independent given it."""
    tables = {"weight": Table((2,))} | {f"view{i}": Table((3, 2)) for i in range(n_views)}

    def moments(given: Any) -> Any:
        letters = "abcd"[:n_views]
        spec = ",".join(["h", *(f"{x}h" for x in letters)]) + "->" + letters
        return einsum(spec, given["weight"], *(given[f"view{i}"] for i in range(n_views)))

    return MomentMap("mixture", tables, moments)


def test_a_mixture_needs_three_views() -> None:
    """Two views are a matrix of rank 2, which has 2 (2 - 1) = 2 dimensions of factorisations."""
    two, three = check_map(mixture(2)), check_map(mixture(3))
    assert (two.parameters, two.rank, two.deficit) == (9, 7, 2)
    assert three.identifiable
    assert (two.words, two.states, two.length) == (None, None, None)
    assert next(two.lines()) == "not identifiable: mixture"


def test_free_numbers_and_the_sum_of_two() -> None:
    model = MomentMap("sum", {"x": Table((2,), 0)}, lambda given: given["x"][:1] + given["x"][1:])
    report = check_map(model)
    assert (report.parameters, report.rank) == (2, 1)
    change = report.directions[0]["x"]
    assert change[0] == pytest.approx(-change[1])


def test_moments_may_hold_constants_and_thirds() -> None:
    def moments(given: Any) -> Any:
        return [np.array([1, 2]), given["p"] / 3 + np.array([1, 1, 1])]

    report = check_map(MomentMap("thirds", {"p": Table((3,))}, moments))
    assert isinstance(report, Report)
    assert report.identifiable
    assert report.numbers == 5


def test_operations_that_cannot_be_differentiated() -> None:
    model = MomentMap("log", {"p": Table((3,))}, lambda given: np.log(given["p"]))
    with pytest.raises(SapwoodError, match="cannot be differentiated") as error:
        check_map(model)
    assert "einsum" in (error.value.hint or "")
    half = MomentMap("half", {"p": Table((3,))}, lambda given: given["p"] * 0.5)
    with pytest.raises(SapwoodError, match="float64"):
        check_map(half)
