"""`sapwood identify`: whether a family of models can be learnt from some moments at all."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sapwood.cli.console import echo, print_json, progress_line, transient, wipe
from sapwood.cli.inputs import JsonOption

if TYPE_CHECKING:
    from sapwood.identify.figure import Cell

TABLE = "table"
MAX_WORDS, MAX_STATES, MAX_LENGTH = 5, 4, 6  # of the table: about half a minute

EPILOG = """\b
Families: pcfg, pcfg-i, pcfg-ie (hidden states); dep-i, dep-ie, dep-ies (words only).
Moments: 12, pairs, 123e1, 123, triples-e1, triples, all; or positions, such as 13, 1,10, 12+13.

\b
Examples:
  sapwood identify pcfg-ie --words 5 --states 3 --length 4 --moments pairs
  sapwood identify dep-i --words 4 --length 3 --moments 12+13 --json
  sapwood identify table --max-words 4 --max-states 3 --max-length 5
"""


def identify(  # noqa: PLR0913 - every option of the command is an argument
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help="A family of models, or the word `table` for all of them side by side.",
            show_default=False,
        ),
    ],
    *,
    words: Annotated[
        int | None, typer.Option(min=1, metavar="D", help="Word types.", show_default=False)
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="K", help="Hidden states; only for pcfg families.", show_default=False
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=1, metavar="L", help="Words of a sentence.", show_default=False),
    ] = None,
    moments: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What is seen of the sentences.", show_default="pairs"),
    ] = None,
    directions: Annotated[
        bool,
        typer.Option(
            "--directions",
            help="With --json: also a random point and the directions there that cannot be learnt.",
        ),
    ] = False,
    max_words: Annotated[
        int | None, typer.Option(min=2, metavar="D", help="Of the table.", show_default="5")
    ] = None,
    max_states: Annotated[
        int | None, typer.Option(min=2, metavar="K", help="Of the table.", show_default="4")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=2, metavar="L", help="Of the table.", show_default="6")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="For the random points.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Tell whether the parameters of a family of parsing models can be learnt from moments.

    The rank of the moments' Jacobian is computed exactly. A model is identifiable if it equals the
    number of non-redundant parameters; else the report says what cannot be learnt, and what would
    help. Both answers end with status 0.
    """
    family = family.lower()  # papers write them in capitals
    question = {"--words": words, "--states": states, "--length": length, "--moments": moments}
    limits = {"--max-words": max_words, "--max-states": max_states, "--max-length": max_length}
    if family == TABLE:
        _refuse(
            question | {"--directions": directions or None},
            "the table takes --max-words, --max-states and --max-length instead",
        )
        sizes = (max_words or MAX_WORDS, max_states or MAX_STATES, max_length or MAX_LENGTH)
        _table(sizes, seed, as_json=as_json)
        return
    _refuse(limits, "it is for `sapwood identify table`")
    if directions and not as_json:
        msg = "numbers for machines: add --json"
        raise typer.BadParameter(msg, param_hint="--directions")
    named = "pairs" if moments is None else moments
    _one(family, words, states, length, named, seed, with_directions=directions, as_json=as_json)


def _refuse(options: Mapping[str, object], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(why, param_hint=name)


def _one(  # noqa: PLR0913
    family: str,
    words: int | None,
    states: int | None,
    length: int | None,
    moments: str,
    seed: int,
    *,
    with_directions: bool,
    as_json: bool,
) -> None:
    """Answer one question."""
    from sapwood.identify import check, remedy
    from sapwood.identify.families import family_of

    family_of(family)  # an unknown name is worth more than a missing size
    for name, value in (("--words", words), ("--length", length)):
        if value is None:
            msg = "missing; say how many"
            raise typer.BadParameter(msg, param_hint=name)
    assert words is not None
    assert length is not None
    with transient("computing ranks ..."):
        report = check(
            family, words=words, states=states, length=length, moments=moments, seed=seed
        )
        report = replace(report, hint=remedy(report))
    if as_json:
        print_json(report.to_dict(with_directions=with_directions))
    else:
        print("\n".join(report.lines()))
    if states is not None and states > words:
        echo("note: more states than words, which is outside the range of the table")


# -- the table ------------------------------------------------------------------------------------


def _table(sizes: tuple[int, int, int], seed: int, *, as_json: bool) -> None:
    from sapwood.identify.figure import as_row, figure

    show = progress_line("sizes checked", is_shown=sys.stderr.isatty())
    cells = figure(*sizes, seed=seed, progress=show)
    if sys.stderr.isatty():
        wipe()
    if as_json:
        print_json([as_row(cell) for cell in cells])
    else:
        print("\n".join(_text(cells, sizes)))


def _text(cells: list[Cell], sizes: tuple[int, int, int]) -> Iterator[str]:
    from sapwood.identify.figure import paper_answer

    words, states, length = sizes
    yield f"{'family':<9}{'moments':<12}{'identifiable':<42}in the paper"
    for cell in cells:
        paper = paper_answer(cell.family, cell.moments)
        mark = "  differs" if cell.differences() else ""
        yield f"{cell.family:<9}{cell.moments:<12}{cell.answer:<42}{paper}{mark}".rstrip()
    yield ""
    yield f"Exact ranks for words 2 to {words}, states 2 to {min(words, states)} (at most as many"
    yield f"as words), and every length L from 2 to {length}. Paper: Hsu, Kakade and Liang (2012),"
    yield "Figure 2, as far as the columns of our copy can be told apart."
