"""Arguments and options that the commands of `sapwood lm` share, and how they read text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sapwood.cli.inputs import LM_TRAIN, as_kind, load_any

if TYPE_CHECKING:
    from sapwood.lm.model.language_model import LanguageModel

SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LEAST_MEMORY = 1 << 24

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A file that `sapwood lm train` wrote."),
]
Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT",
        help="Tokens apart by blanks, a sentence a line: files (also .gz, .xz, .bz2, .zst), quoted "
        "globs, folders, or - for stdin.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="The text is one stream of tokens: lines do not end sentences. Not for text with a "
        "sentence a line whose ends should be learnt.",
    ),
]


def parse_size(text: str) -> int:
    """The number of bytes that a text such as 512M stands for.

    Examples
    --------
    >>> parse_size("2G"), parse_size("512MB")
    (2147483648, 536870912)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * SIZE_UNITS[found[2].upper()]) if found else 0
    if size < LEAST_MEMORY:
        msg = f"{text!r} is no size of at least 16M: give a number with M or G, such as 2G"
        raise typer.BadParameter(msg, param_hint="--memory")
    return size


Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Memory to count in, from 512M; what is more lies on disk. With little, fewer cores "
        "are used. Millions of words take more besides. Counts do not depend on it.",
    ),
]


def load_language_model(name: str) -> LanguageModel:
    """The language model that a user names."""
    from sapwood.lm.model.language_model import LanguageModel

    hint = f"name a file of {LM_TRAIN}"
    found = as_kind(load_any(name, LM_TRAIN), LanguageModel, name, "a language model", hint, "lm")
    return cast("LanguageModel", found)
