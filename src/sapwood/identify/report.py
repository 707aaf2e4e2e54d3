"""What an identifiability check has found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import count


@dataclass(frozen=True)
class Conditioning:
    """Singular values of the Jacobian in floating point, medians over random points."""

    # largest over smallest of the singular values that are not zero: by how much errors in the
    # moments may grow in the parameters
    condition: float
    # the last singular value that counts for the exact rank and the first that does not, relative
    # to the largest. The second is rounding; None where nothing is dropped
    smallest_kept: float
    largest_dropped: float | None
    # the largest rank, over the points, that the usual floating-point tolerance would have given
    float_rank: int
    n_points: int


@dataclass(frozen=True)
class Report:
    """Whether a family of models can be learnt from some moments, and if not, what cannot.

    Attributes
    ----------
    family, words, states, length, moments
        The question; sizes are None where they do not apply.
    parameters
        Non-redundant ones.
    numbers
        Moments observed, redundant ones included.
    rank
        Of the Jacobian at a random point, exact modulo `prime`.
    movable
        For each table, in how many dimensions it can move with all moments unchanged.
    explanation
        The directions that cannot be learnt, in words; each was verified against the Jacobian.
    conditioning
        Floating-point singular values; None where they were not asked for.
    point
        A random point, and
    directions
        at that point a basis of what cannot be learnt: changes of the tables, orthonormal together
        in the non-redundant parameters.
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
    conditioning: Conditioning | None = None
    point: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    directions: tuple[Mapping[str, FloatArray], ...] = field(default=(), repr=False)
    hint: str | None = None

    @property
    def deficit(self) -> int:
        """Dimensions in which the parameters can move with all moments unchanged."""
        return self.parameters - self.rank

    @property
    def identifiable(self) -> bool:
        """Whether, at almost every point, only finitely many others have the same moments."""
        return self.deficit == 0

    def to_dict(self, *, with_directions: bool = False) -> dict[str, Any]:
        """The report as flat JSON data."""
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
        """What a notebook shows."""
        from sapwood.corpora.markup import table_html

        first, *rest = (line.strip().partition("  ") for line in self.lines())
        rows: dict[str, str] = {}
        for name, _, text in rest:
            rows[name] = f"{rows[name]}; {text.strip()}" if name in rows else text.strip()
        return table_html("".join(first), rows)

    def lines(self) -> Iterator[str]:
        """The report for people."""
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
