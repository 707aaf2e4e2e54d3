"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Written out, because the table itself takes longer to import than --help may take.
FORMAT_NAMES = (
    "penn", "joined", "psd", "psd-lemmas", "cess", "floresta", "sinica", "export", "tigerxml",
    "discbracket",
)  # fmt: skip
FIGURES = (".png", ".svg", ".pdf")
FIGURE_NAMES = ", ".join(FIGURES)


def check_format(name: str | None) -> str | None:
    """The name of a format, or None; a usage error when there is none of that name."""
    if name is not None and name not in FORMAT_NAMES:
        msg = f"{name!r} is not one of {', '.join(FORMAT_NAMES)}"
        raise typer.BadParameter(msg)
    return name


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A file written by `sapwood train`, or `bundled` for the hand-written grammar that "
        "comes with Sapwood (write ./bundled for a file of that name).",
    ),
]
Treebanks = Annotated[
    list[str],
    typer.Argument(
        metavar="TREEBANK",
        help="Trees in Penn brackets or another --format: files (also .gz, .xz, .bz2), quoted "
        "globs, folders, or - for stdin.",
    ),
]

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        callback=check_format,
        metavar="NAME",
        help=f"How the trees are written: {', '.join(FORMAT_NAMES)}. Not needed for most: it is "
        "recognised, for each file, from its beginning.",
        show_default="recognised",
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Of the trees' files, such as latin-1 or gb18030. Not needed for XML that names it.",
    ),
]
KeepFunctions = Annotated[
    bool,
    typer.Option(
        "--keep-functions",
        help="Keep function tags: NP-SBJ stays apart from NP. Not for small treebanks, which then "
        "have too few trees for each label.",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Count and skip trees that cannot be read, instead of stopping at the first. Not "
        "before you have looked at one.",
    ),
]

Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Lines are text as people write it, one sentence each: tokenise by Penn conventions, "
        "with quotes, brackets and contractions as the model's treebank has them. Not for text "
        "that is tokenised in another way.",
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Tokenise with your own Python function, from a line to a list of words; MODULE is "
        "looked for in this folder too. It is run: name only what you trust.",
    ),
]

Json = Annotated[
    bool, typer.Option("--json", help="Write the report as JSON; not for reading by eye.")
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        metavar="N",
        help="Threads, or processes to start (see --engine); 0 means all cores. Results do not "
        "depend on it.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a file that Sapwood did not write. Not before you have looked at it.",
    ),
]
Member = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Look into grammar K of an ensemble, counted from 1, with all other options. Only for "
        "ensembles.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"Also draw a figure ({FIGURE_NAMES}). Not without Matplotlib: pip install "
        "matplotlib.",
    ),
]
