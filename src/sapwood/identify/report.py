"""Reports of identifiability and of unmixed models: plain dictionaries for commands and pages.

Figure 2 of IDENT is computed again: which family can be learnt from which moments. A cell of the
figure is one family and one kind of moments; it holds the deficit of every size:

    d      words, from 2 on         k     states, from 2 to d         L     length, from 2 on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted
from sapwood.identify.check import Report, check, family_map, remedy
from sapwood.identify.model.families import FAMILIES, NAMED, Observation, observations

if TYPE_CHECKING:
    from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
    from sapwood.identify.model.uniform_trees import UniformTreeModel

# The least length from which on the paper says yes; None where it says no for every length. Borders
# of the merged columns are lost in the text that we have; this is how the section around it reads.
_CONSTITUENTS = {"12": None, "pairs": 4, "123e1": 3, "123": 3, "triples-e1": 3, "triples": 3}
_FROM_THREE = dict.fromkeys(_CONSTITUENTS, 3)
PAPER: dict[str, dict[str, int | None]] = {
    "pcfg": dict.fromkeys((*_CONSTITUENTS, "all")),
    "pcfg-i": dict(_CONSTITUENTS),
    "pcfg-ie": dict(_CONSTITUENTS),
    "dep-i": _FROM_THREE | {"12": None},
    "dep-ie": dict(_FROM_THREE),
    "dep-ies": dict(_FROM_THREE),
}


class Size(NamedTuple):
    """The sizes of one cell's question; states is None for families without any."""

    words: int
    states: int | None
    length: int


@dataclass(frozen=True)
class Cell:
    """The deficit of one family under one kind of moments, for every size.

    None where the moments do not exist, as for position 3 of two words.
    """

    family: str
    moments: str
    deficits: dict[Size, int | None]

    def is_identifiable(self, size: Size) -> bool:
        """Whether the family can be learnt at this size."""
        return self.deficits[size] == 0

    @property
    def lengths(self) -> list[int]:
        """All lengths that were tried."""
        return sorted({size.length for size in self.deficits})

    @property
    def answer(self) -> str:
        """The cell in words: no, yes, or from which length on.

        Examples
        --------
        >>> Cell("dep-i", "pairs", {Size(2, None, 2): 2, Size(2, None, 3): 0}).answer
        'yes iff L >= 3'
        """
        tried = {n: {size for size in self.deficits if size.length == n} for n in self.lengths}
        yes = {n: set(filter(self.is_identifiable, tried[n])) for n in self.lengths}
        whole = [n for n in self.lengths if yes[n] == tried[n]]
        if not any(yes.values()):
            return "no"
        first = self.lengths[0]
        steady = [n for n in self.lengths if all(m in whole for m in self.lengths if m >= n)]
        if steady[:1] == [first]:
            return "yes"
        before = [n for n in self.lengths if yes[n] and n not in steady]
        parts = [f"at L = {n} with {_common(yes[n], tried[n])}" for n in before]
        if not steady:
            return f"yes {', '.join(parts)}"
        return ", ".join([f"yes {'for' if parts else 'iff'} L >= {steady[0]}", *parts])

    def differences(self) -> list[Size]:
        """Sizes for which the paper's answer differs; none where the paper has no answer."""
        claims = PAPER[self.family]
        if self.moments not in claims:
            return []
        least = claims[self.moments]
        return [
            size
            for size in self.deficits
            if self.is_identifiable(size) != (least is not None and size.length >= least)
        ]


def _common(yes: set[Size], tried: set[Size]) -> str:
    """A property that the identifiable sizes of one length have in common, in words."""
    if yes == tried:
        return "all sizes"
    for noun in ("states", "words"):
        values = {getattr(size, noun) for size in yes}
        if yes == {size for size in tried if getattr(size, noun) in values}:
            return f"{' or '.join(map(str, sorted(values)))} {noun}"
    return f"{len(yes)} of {len(tried)} sizes"


def paper_answer(family: str, moments: str) -> str:
    """The answer of the paper's figure for a cell; empty where the figure has no such cell."""
    claims = PAPER[family]
    if moments not in claims:
        return ""
    return "no" if claims[moments] is None else f"yes iff L >= {claims[moments]}"


def figure(max_words: int, max_states: int, max_length: int, *, seed: int = 0) -> list[Cell]:
    """All cells for words up to max_words, states up to words and max_states, L up to max_length.

    Cost: about 20 seconds for 5, 4 and 6 on one core; most of it for the longest sentences.
    """
    for name, value in (("words", max_words), ("states", max_states), ("length", max_length)):
        if value < 2:
            msg = f"the figure starts at 2 {name}, found {value}"
            raise SapwoodError(msg, hint=f"give --max-{name} of 2 or more")
    # a figure that would not fit into memory is refused before any of it is computed
    for family, facts in FAMILIES.items():
        states = min(max_words, max_states) if facts.has_states else None
        for moments in ("triples", "all"):
            family_map(family, words=max_words, states=states, length=max_length, moments=moments)
    cells = []
    for family, facts in counted(FAMILIES.items(), "ranks", unit="family"):
        deficits: dict[tuple[Size, frozenset[Observation]], int] = {}
        most_states = max_states if facts.has_states else None
        for moments in counted(NAMED, unit="set of moments"):
            cell: dict[Size, int | None] = {}
            for size in sizes(max_words, most_states, max_length):
                seen = _seen(moments, size.length)
                # Short sentences make several names the same: 12 is all there is of two words.
                if seen and (size, seen) not in deficits:
                    found = check(family, **size._asdict(), moments=moments, n_points=0, seed=seed)
                    deficits[size, seen] = found.deficit
                cell[size] = deficits[size, seen] if seen else None
            cells.append(Cell(family, moments, cell))
    return cells


def sizes(max_words: int, max_states: int | None, max_length: int) -> Iterator[Size]:
    """All sizes of a family; without states where max_states is None."""
    for length in range(2, max_length + 1):
        for words in range(2, max_words + 1):
            if max_states is None:
                yield Size(words, None, length)
            else:
                for states in range(2, min(words, max_states) + 1):
                    yield Size(words, states, length)


def _seen(moments: str, length: int) -> frozenset[Observation]:
    try:
        return frozenset(observations(moments, length))
    except SapwoodError:  # a position beyond the end
        return frozenset()


def as_row(cell: Cell) -> dict[str, Any]:
    """A cell as JSON data."""
    return {
        "family": cell.family,
        "moments": cell.moments,
        "answer": cell.answer,
        "paper": paper_answer(cell.family, cell.moments) or None,
        "agrees": not cell.differences(),
        "deficits": [
            size._asdict() | {"deficit": deficit} for size, deficit in cell.deficits.items()
        ],
    }


def identify_table(
    max_words: int, max_states: int, max_length: int, *, seed: int = 0
) -> list[dict[str, Any]]:
    """All cells of the figure as dictionaries for JSON, a row each."""
    return [as_row(cell) for cell in figure(max_words, max_states, max_length, seed=seed)]


def identify_family(
    family: str,
    *,
    words: int,
    length: int,
    states: int | None = None,
    moments: str = "pairs",
    seed: int = 0,
) -> Report:
    """Whether a family of models can be learnt from moments, and what would help if not.

    `Report.to_dict` gives plain data. Parameters are those of `sapwood.identify.check`.

    Examples
    --------
    >>> found = identify_family("pcfg-ie", words=3, states=2, length=3, moments="12").to_dict()
    >>> found["identifiable"], found["deficit"]
    (False, 2)
    """
    report = check(family, words=words, states=states, length=length, moments=moments, seed=seed)
    return replace(report, hint=remedy(report))


def identify_size(words: int, states: int, length: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Whether each family can be learnt from each kind of moments at one size, a row each.

    A row has `family`, `moments`, `parameters`, `rank`, `deficit` and `identifiable`; where
    sentences of this length have no such moments the last four are None and `reason` says why.

    Examples
    --------
    >>> rows = identify_size(2, 2, 3)
    >>> [row["deficit"] for row in rows if row["family"] == "dep-ies"]
    [0, 0, 0, 0, 0, 0, 0]
    """
    names = ("parameters", "rank", "deficit", "identifiable")
    rows = []
    for family, facts in FAMILIES.items():
        for moments in NAMED:
            row: dict[str, Any] = {"family": family, "moments": moments, "reason": None}
            try:
                found = check(
                    family, words=words, states=states if facts.has_states else None,
                    length=length, moments=moments, n_points=0, seed=seed,
                ).to_dict()  # fmt: skip
                rows.append(row | {name: found[name] for name in names})
            except SapwoodError as error:
                rows.append(row | dict.fromkeys(names) | {"reason": error.message})
    return rows


def describe_unmixed(model: UniformTreeModel) -> dict[str, Any]:
    """The family, sizes, words and tables of a model whose trees are hidden."""
    return {
        "family": model.family,
        "states": model.n_states if model.family == "pcfg-ie" else None,
        "words": len(model.vocabulary),
        "vocabulary": list(model.vocabulary),
        "parameters": {name: table.tolist() for name, table in model.tables.items()},
    }


def unmix_report(estimator: UnmixPCFGIE | UnmixDEPIES) -> dict[str, Any]:
    """The tables of a fitted estimator as nested lists, and how far they can be trusted.

    `family`, `states`, `vocabulary`, `parameters` by table; `sentences` read, also by length;
    `moment_error` of the counted pairs beside the `moment_noise` of sampling; `eigengap`,
    `noise_gain` and `clipped` of the closed form; `refine`, `iterations`, `log_likelihood`;
    `warnings`.
    """
    model, info = estimator.model_, estimator.info_
    found = info.extra
    return describe_unmixed(model) | {
        "sentences": int(sum(found["n_sentences"].values())),
        "sentences_by_length": {str(n): int(k) for n, k in found["n_sentences"].items()},
        "moment_error": found["moment_error"],
        "moment_noise": found["moment_noise"],
        "eigengap": found["gap"],
        "noise_gain": found["noise_gain"],
        "clipped": found["clipped"],
        "refine": found["refined"],
        "iterations": found["iterations"],
        "log_likelihood": found["log_likelihood"],
        "warnings": info.warnings,
    }
