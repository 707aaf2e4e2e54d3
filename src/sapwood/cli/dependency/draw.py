"""`sapwood depend draw`: pictures of dependency trees."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import is_colourful
from sapwood.cli.dependency.reading import ArcReading, Encoding, Files, Out, SkipBad
from sapwood.cli.inputs import claim_stdin, input_files
from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import check_output, open_output

if TYPE_CHECKING:
    from sapwood.dependency.data.bank import Arcs

EPILOG = """\b
Examples:
  sapwood depend draw predicted.conllu | less -R
  sapwood depend draw dev.conllu --sentence 3 --as svg -o tree.svg
  sapwood depend draw dev.conllu --sentence 3 --as latex
"""


def draw(
    files: Files,
    *,
    sentence: int | None = typer.Option(
        None, min=1, metavar="N", help="Draw only sentence N, counted from 1.", show_default="all"
    ),
    kind: Literal["text", "svg", "latex"] = typer.Option(
        "text",
        "--as",
        help="Text with one word a line; an SVG document, of one sentence; or an environment of "
        "the LaTeX package tikz-dependency.",
    ),
    out: Out = None,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    force: opt.Force = False,
) -> None:
    """Draw sentences with their arcs."""
    claim_stdin(*files)
    if out is not None:
        check_output(out, inputs=input_files(*files), force=force, may_stream=True)
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    bank = reading.arcs(files)
    if sentence is not None:
        if sentence > len(bank):
            msg = f"there is no sentence {sentence}: {count(len(bank), 'sentence')} were read"
            raise SapwoodError(msg, hint=f"--sentence takes 1 to {len(bank)}")
        bank = bank[sentence - 1 : sentence]
    elif kind == "svg" and len(bank) > 1:
        msg = "an SVG document is of one sentence; choose it with --sentence N"
        raise typer.BadParameter(msg, param_hint="--as")
    colour = out is None and is_colourful(sys.stdout)
    with open_output(out, force=force) as file:
        for number, arcs in enumerate(bank):
            file.write(("\n" if number else "") + _picture(arcs, kind, colour=colour) + "\n")
    reading.tell()


def _picture(arcs: Arcs, kind: str, *, colour: bool) -> str:
    if kind == "text":
        return arcs.draw(colour=colour)
    return arcs.to_svg() if kind == "svg" else arcs.to_latex()
