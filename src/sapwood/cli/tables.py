"""How reports are printed: JSON for machines; facts, tables and lists for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from sapwood.core.errors import count
from sapwood.report import to_json

T = TypeVar("T")
_FORM = re.compile(r"( *)([<>]\d+)(.*)")  # blanks before a cell, its room, how numbers are written


def show(report: T, lines: Callable[[T], Iterable[str]], *, as_json: bool) -> None:
    """Write a report on stdout, for machines or for people."""
    print(to_json(report, indent=2) if as_json else "\n".join(lines(report)))


def fact_lines(facts: Mapping[str, object], room: int, indent: str = "") -> Iterator[str]:
    """Names in a column of so many characters, and what is known of each.

    Examples
    --------
    >>> list(fact_lines({"trees": 3, "words": 21}, 8))
    ['trees   3', 'words   21']
    """
    return (f"{indent}{name:<{room}}{value}" for name, value in facts.items())


def table_lines(columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    r"""A table with titles, and a format for each column; cells that are texts are only padded.

    Examples
    --------
    >>> columns = {"label": "<8", "count": ">7,", "share": ">8.1%"}
    >>> print(*table_lines(columns, [("NP", 1200, 0.25), ("QP", 3, "-")]), sep="\n")
    label     count   share
    NP        1,200   25.0%
    QP            3       -
    """
    forms = [found.groups() for form in columns.values() if (found := _FORM.fullmatch(form))]
    for row in (tuple(columns), *rows):
        yield "".join(
            gap + format(cell, room if isinstance(cell, str) else room + number)
            for cell, (gap, room, number) in zip(row, forms, strict=True)
        ).rstrip()


def more_line(n: int, top: int, what: str = "", *, indent: str = "", see: str = "") -> list[str]:
    """What stands below the first `top` of n rows, if there are more.

    Examples
    --------
    >>> more_line(12, 10), more_line(10, 10), more_line(11, 10, "rarer label", see="--json")
    (['... and 2 more (--top, --json)'], [], ['... and 1 rarer label (--json)'])
    """
    if n <= top:
        return []
    left = count(n - top, what) if what else f"{n - top:,} more"
    return [f"{indent}... and {left} ({see or '--top, --json'})"]


def name_some(names: Iterable[str], top: int, separator: str = ", ") -> str:
    """The first names, and whether there are more.

    Examples
    --------
    >>> name_some("abc", 5), name_some("abcdef", 3)
    ('a, b, c', 'a, b, c, ...')
    """
    first = list(islice(names, top + 1))
    return separator.join([*first[:top], "..."] if len(first) > top else first)


def number_text(value: object) -> str:
    """A number with commas; anything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
