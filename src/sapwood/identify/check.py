"""Can a family of models be learnt from some moments? The check of IDENT, with exact ranks.

Notation (IDENT, section 4.2)
-----------------------------
    J      Jacobian of the moments at a random point                                    [m, n]
    N      basis of its null space: directions that change no moment                    [n, deficit]

A family is locally identifiable from its moments if and only if J has rank n at a random point
(Theorem 1). The rank is computed modulo a prime, without rounding. Floating point is used only to
report how large the singular values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError, count
from sapwood.identify.model.dual import (
    AnyArray,
    Array,
    NullSpace,
    Reals,
    Residues,
    null_space,
    rank,
)
from sapwood.identify.model.families import (
    Family,
    Observation,
    Parameters,
    Table,
    family_of,
    observations,
)
from sapwood.identify.model.families import moments as moments_at
from sapwood.identify.model.jacobian import (
    N_DIRECTIONS,
    SYMMETRIES,
    MomentMap,
    Symmetry,
    changes,
    direction_of,
    draw_reals,
    draw_residues,
    jacobian,
    symmetry_directions,
)

LONGEST_CHECKED = 60  # words; longer sentences would nest deeper than Python's stack
MAX_BYTES = 4 * 2**30
COPIES = 4  # of the Jacobian: its chunks, the whole, and two half-words while multiplying
LONGEST_HINT = 6  # words of a sentence that a hint may ask for
HINT_BYTES = 2**28  # larger questions take too long for a hint
RICHER = ("pairs", "triples", "all")


@dataclass(frozen=True)
class JacobianConditioning:
    """Singular values of the Jacobian in floating point, medians over random points."""

    condition: float  # largest over smallest singular value above zero
    # relative to the largest: the last singular value within the exact rank, and the first beyond
    # it, which is rounding error; None where the rank is full
    smallest_kept: float
    largest_dropped: float | None
    float_rank: int  # the largest rank over the points by NumPy's tolerance
    n_points: int


@dataclass(frozen=True)
class Report:
    """Whether a family of models can be learnt from some moments, and if not, which parts cannot.

    Attributes
    ----------
    family, words, states, length, moments
        The question; sizes are None where they do not apply.
    parameters
        Number of non-redundant parameters.
    numbers
        Number of observed moments, redundant ones included.
    rank
        Rank of the Jacobian at a random point, exact modulo `prime`.
    movable
        For each table, in how many dimensions it can move with all moments unchanged.
    explanation
        The directions that cannot be learnt, in words; each was verified against the Jacobian.
    conditioning
        Floating-point singular values; None where they were not asked for.
    point, directions
        A random point, and there an orthonormal basis of the directions that cannot be learnt, as
        changes of the tables.
    hint
        What would make the model identifiable, as far as was searched.
    """

    family: str
    parameters: int
    rank: int
    numbers: int
    prime: int
    words: int | None = None
    states: int | None = None
    length: int | None = None
    moments: str | None = None
    movable: Mapping[str, int] = field(default_factory=dict)
    explanation: tuple[str, ...] = ()
    conditioning: JacobianConditioning | None = None
    point: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    directions: tuple[Mapping[str, FloatArray], ...] = field(default=(), repr=False)
    hint: str | None = None

    @property
    def deficit(self) -> int:
        """Dimensions in which the parameters can move with all moments unchanged."""
        return self.parameters - self.rank

    @property
    def identifiable(self) -> bool:
        """Whether almost every parameter shares its moments with finitely many parameters only."""
        return self.deficit == 0

    def to_dict(self, *, with_directions: bool = False) -> dict[str, Any]:
        """The report as a flat dictionary for JSON."""
        keys = ("family", "words", "states", "length", "moments", "parameters", "rank", "deficit")
        out: dict[str, Any] = {key: getattr(self, key) for key in keys}
        out |= {
            "identifiable": self.identifiable, "numbers": self.numbers, "prime": self.prime,
            "movable": dict(self.movable), "explanation": list(self.explanation),
            "hint": self.hint,
        }  # fmt: skip
        if self.conditioning is not None:
            out |= vars(self.conditioning)
        if with_directions:
            out["point"] = _lists(self.point)
            out["directions"] = [_lists(each) for each in self.directions]
        return out

    def _repr_html_(self) -> str:
        """The report as an HTML table, for notebooks."""
        from sapwood.corpora.draw import table_html

        first, *rest = (line.strip().partition("  ") for line in self.lines())
        rows: dict[str, str] = {}
        for name, _, text in rest:
            rows[name] = f"{rows[name]}; {text.strip()}" if name in rows else text.strip()
        return table_html("".join(first), rows)

    def lines(self) -> Iterator[str]:
        """The lines of the report, for people."""
        answer = "identifiable" if self.identifiable else "not identifiable"
        yield f"{answer}: {' '.join(self._question())}"
        yield f"  parameters   {self.parameters}"
        yield f"  rank         {self.rank} of {self.numbers:,} moments, exact modulo {self.prime}"
        yield f"  deficit      {self.deficit}"
        if self.movable and self.deficit:
            moving = [f"{name} in {n}" for name, n in self.movable.items() if n]
            fixed = [name for name, n in self.movable.items() if not n]
            plural = "s" if max(self.movable.values()) > 1 else ""
            text = f"{', '.join(moving)} dimension{plural}"
            text += f"; determined: {', '.join(fixed)}" if fixed else ""
            yield f"  movable      {text}"
        for text in self.explanation:
            yield f"  unseen       {text}"
        if (found := self.conditioning) is not None and self.parameters:
            yield f"  condition    {found.condition:.2g}, median of {found.n_points} random points"
            dropped = found.largest_dropped
            gap = f"{found.smallest_kept:.1g} of the largest kept"
            gap += f", {dropped:.1g} dropped" if dropped is not None else ", none dropped"
            yield f"  values       {gap}; in floating point the rank would be {found.float_rank}"
        if self.hint:
            yield f"  hint         {self.hint}"

    def _question(self) -> Iterator[str]:
        yield self.family
        if self.words is not None:
            yield f"with {count(self.words, 'word')}"
        if self.states is not None:
            yield f"and {count(self.states, 'state')}"
        if self.moments == "all":
            yield "from whole sentences"
        elif self.moments is not None:
            yield f"from {self.moments} of sentences"
        if self.length is not None:
            yield f"of length {self.length}"


def _lists(tables: Mapping[str, FloatArray]) -> dict[str, Any]:
    return {name: table.tolist() for name, table in tables.items()}


def check(
    family: str,
    *,
    words: int,
    length: int,
    moments: str,
    states: int | None = None,
    n_points: int = 3,
    seed: int = 0,
) -> Report:
    """Whether a family of parsing models can be learnt from moments of sentences of one length.

    Parameters
    ----------
    family
        One of pcfg, pcfg-i, pcfg-ie, dep-i, dep-ie, dep-ies.
    words, states
        Word types, and hidden states (pcfg families only).
    moments
        A name of `observations`: 12, pairs, 123e1, 123, triples-e1, triples, all, or positions.
    n_points
        Random points for the conditioning in floating point; 0 leaves it and the directions out.

    Examples
    --------
    >>> check("pcfg-ie", words=4, states=2, length=4, moments="pairs").identifiable
    True
    >>> check("pcfg", words=3, states=3, length=3, moments="triples").explanation
    ('all 6 are changes of basis of the hidden states',)
    """
    model = family_map(family, words=words, states=states, length=length, moments=moments)
    found = check_map(model, symmetries=SYMMETRIES[family], n_points=n_points, seed=seed)
    return replace(found, words=words, states=states, length=length, moments=moments)


def check_map(
    model: MomentMap, *, symmetries: Sequence[Symmetry] = (), n_points: int = 3, seed: int = 0
) -> Report:
    """Whether a family given by its moments can be learnt from them."""
    rng = np.random.default_rng(seed)
    field = Residues()
    point = draw_residues(model.tables, field, rng)
    matrix = jacobian(model, point, field)
    unseen = null_space(matrix, field, rng)
    report = Report(
        family=model.name,
        parameters=model.n_parameters,
        rank=unseen.rank,
        numbers=len(matrix),
        prime=field.prime,
        movable={
            name: rank(unseen.basis[_rows(model.tables, name)], field) for name in model.tables
        },
        explanation=_explanation(model, symmetries, point, matrix, unseen),
    )
    del matrix
    return _with_floats(report, model, n_points, rng) if n_points else report


def family_map(
    family: str, *, words: int, length: int, moments: str, states: int | None = None
) -> MomentMap:
    """The moment map of one of the six families, after a check of all names and sizes."""
    found = family_of(family)
    k = _check_sizes(found, words, states, length)
    seen = observations(moments, length)
    for each in seen:
        if each.picked is not None and not 1 <= each.picked <= words:
            msg = f"moments pick word {each.picked} of {words}"
            raise SapwoodError(msg, hint=f"pick a word from e1 to e{words}")
    needed = memory_bytes(found.tables(words, k), seen, (words, k, length))
    if needed > MAX_BYTES:
        size = f"about {needed >> 30:,}" if needed < 10**6 << 30 else "over a million"
        msg = f"this check would take {size} GB of memory, more than {MAX_BYTES >> 30}"
        raise SapwoodError(msg, hint="use fewer words or states, shorter sentences, or pairs")

    def moment_map(parameters: Parameters) -> list[Array]:
        arrays = moments_at(found, parameters, length, [each.positions for each in seen])
        return [
            array if each.picked is None else array[..., each.picked - 1]
            for array, each in zip(arrays, seen, strict=True)
        ]

    return MomentMap(family, found.tables(words, k), moment_map)


def _explanation(
    model: MomentMap,
    symmetries: Sequence[Symmetry],
    point: Mapping[str, AnyArray],
    matrix: AnyArray,
    unseen: NullSpace,
) -> tuple[str, ...]:
    """Descriptions of the unseen directions, up to the first symmetry that explains them all."""
    found: list[str] = []
    for symmetry in symmetries:
        known = symmetry_directions(symmetry, point, Residues())
        if not known or not unseen.basis.shape[1]:
            continue
        if symmetry.within:
            text = _text_within(symmetry, known, model.tables, unseen)
        else:
            text = _text_of_all(symmetry, known, model.tables, matrix, unseen)
        if text:
            found.append(text)
        if text.startswith("all "):
            break
    return tuple(found)


def _text_of_all(
    symmetry: Symmetry,
    known: list[dict[str, AnyArray]],
    tables: Mapping[str, Table],
    matrix: AnyArray,
    unseen: NullSpace,
) -> str:
    """Description of a symmetry whose directions are all unseen; empty for any other."""
    field = Residues()
    basis = np.stack([direction_of(tables, change) for change in known], axis=1)
    if field.matmul(matrix, basis).any():
        return ""
    n_known, deficit = rank(basis, field), unseen.basis.shape[1]
    many = "all" if n_known == deficit else f"{n_known} of"
    return f"{many} {deficit} are {symmetry.text}"


def _text_within(
    symmetry: Symmetry,
    known: list[dict[str, AnyArray]],
    tables: Mapping[str, Table],
    unseen: NullSpace,
) -> str:
    """Description of a symmetry within a table that all unseen changes obey; empty for others."""
    field = Residues()
    name = symmetry.within
    assert name is not None
    rows = unseen.basis[_rows(tables, name)]
    basis = np.stack([direction_of({name: tables[name]}, change) for change in known], axis=1)
    n_known, n_moves = rank(basis, field), rank(rows, field)
    is_inside = rank(np.concatenate([basis, rows], axis=1), field) == n_known
    if not n_moves or not is_inside or n_known == tables[name].n_free:
        return ""
    plural = "" if n_moves == 1 else "s"
    return f"{name} move only by {symmetry.text}, in {n_moves} dimension{plural}"


def _rows(tables: Mapping[str, Table], name: str) -> slice:
    """Where the parameters of a table stand."""
    start = 0
    for other, table in tables.items():
        if other == name:
            break
        start += table.n_free
    return slice(start, start + tables[name].n_free)


def _with_floats(
    report: Report, model: MomentMap, n_points: int, rng: np.random.Generator
) -> Report:
    """The report with singular values at random points, and directions at the last of them."""
    if not report.rank:  # nothing to compare singular values with
        return report
    spectra = []
    for _ in range(n_points):
        point = draw_reals(model.tables, rng)
        triangle = np.linalg.qr(jacobian(model, point, Reals()), mode="r")
        _, values, right = np.linalg.svd(triangle)
        spectra.append(np.pad(values, (0, report.parameters - len(values))))
    directions = tuple(changes(model.tables, row) for row in right[report.rank :])
    relative = np.array(spectra) / np.array(spectra)[:, :1]
    tolerance = max(report.numbers, report.parameters) * np.finfo(float).eps  # as NumPy's rank
    middle = np.median(relative, axis=0)
    kept = float(middle[report.rank - 1])
    found = JacobianConditioning(
        condition=1 / kept if kept else float("inf"),
        smallest_kept=kept,
        largest_dropped=float(middle[report.rank]) if report.deficit else None,
        float_rank=int((relative > tolerance).sum(axis=1).max()),
        n_points=len(spectra),
    )
    return replace(report, conditioning=found, point=point, directions=directions)


def remedy(report: Report) -> str | None:
    """The nearest question with the answer yes: richer moments first, then longer sentences."""
    if report.identifiable or report.words is None or report.length is None:
        return None
    if report.family == "pcfg":
        return (
            "no moments identify a pcfg, since its states have no fixed basis; "
            "use pcfg-i or pcfg-ie, whose children are independent"
        )
    for length in range(report.length, max(report.length, LONGEST_HINT) + 1):
        for name in RICHER:
            if _is_identifiable(report, length, name):
                change = f"--moments {name}" + (
                    f" --length {length}" if length > report.length else ""
                )
                return f"{report.family} of this size is identifiable with {change}"
    return f"no moments of sentences of up to {LONGEST_HINT} words were found to be enough"


def _is_identifiable(report: Report, length: int, name: str) -> bool:
    assert report.words is not None
    tables = family_of(report.family).tables(report.words, report.states or 1)
    sizes = (report.words, report.states or 1, length)
    if memory_bytes(tables, observations(name, length), sizes) > HINT_BYTES:
        return False
    found = check(
        report.family, words=report.words, states=report.states, length=length, moments=name,
        n_points=0,
    )  # fmt: skip
    return found.identifiable


def _check_sizes(family: Family, words: int, states: int | None, length: int) -> int:
    for name, size in (("words", words), ("length", length), ("states", states)):
        if size is not None and size < 1:
            msg = f"{name} {size}: expected at least 1"
            raise SapwoodError(msg, hint=f"give a larger --{name}")
    if length > LONGEST_CHECKED:
        msg = f"length {length}: sentences of at most {LONGEST_CHECKED} words can be checked"
        raise SapwoodError(msg, hint=f"give a --length of at most {LONGEST_CHECKED}")
    if family.has_states and states is None:
        msg = f"{family.name} has hidden states, and their number is missing"
        raise SapwoodError(msg, hint="say how many: --states 2")
    if not family.has_states and states is not None:
        msg = f"{family.name} has no hidden states, found states {states}"
        raise SapwoodError(msg, hint="leave --states out: dependencies connect words directly")
    return states or 1


def memory_bytes(
    tables: Mapping[str, Table], seen: list[Observation], sizes: tuple[int, int, int]
) -> int:
    """About how much memory a check takes, from above: the Jacobian and all spans.

    Spans with q positions seen are at most those of all choices of q, or those of each observation.
    """
    words, states, length = sizes
    n = sum(table.n_free for table in tables.values())
    rows = sum(each.size(words) for each in seen)
    most = max(len(each.positions) for each in seen)
    width = max(states, words)
    n_spans = min(
        len(seen) * length * (length + 1) // 2,
        sum(comb(length + 1, q + 1) for q in range(most + 1)),
    )
    spans = n_spans * words**most * width * (min(N_DIRECTIONS, n) + 1)
    return int(8 * (COPIES * rows * n + spans))
