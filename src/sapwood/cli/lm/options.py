"""Arguments and options that the commands of `sapwood lm` share, and how they read text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sapwood.cli.inputs import as_kind, input_files, load_any
from sapwood.core.outputs import Input

if TYPE_CHECKING:
    from sapwood.lm.model.language_model import LanguageModel

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
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


def check_size(text: str | None) -> str | None:
    """A number of bytes, or a usage error."""
    if text is not None:
        bytes_of(text)
    return text


def bytes_of(text: str) -> int:
    """Bytes of a text such as 512M.

    Examples
    --------
    >>> bytes_of("2G"), bytes_of("512MB")
    (2147483648, 536870912)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * UNITS[found[2].upper()]) if found else 0
    if size < LEAST_MEMORY:
        msg = f"{text!r} is no size of at least 16M: give a number with M or G, such as 2G"
        raise typer.BadParameter(msg)
    return size


Memory = Annotated[
    str,
    typer.Option(
        callback=check_size,
        metavar="SIZE",
        help="Memory to count in, from 512M; what is more lies on disk. With little, fewer cores "
        "are used. Millions of words take more besides. Counts do not depend on it.",
    ),
]


def load_language_model(name: str) -> LanguageModel:
    """The language model that a user names."""
    from sapwood.lm.model.language_model import LanguageModel

    hint = "name a file of `sapwood lm train`"
    model: LanguageModel = as_kind(
        load_any(name), LanguageModel, name, "a language model", hint, "lm"
    )
    return model


def text_files(*sources: str) -> Iterator[Input]:
    """The files that arguments stand for, as `input_files`, for plain text."""
    from sapwood.corpora.files import expand
    from sapwood.lm.data.plain_text import TEXT_SUFFIXES

    return input_files(*sources, find=lambda source: expand(source, TEXT_SUFFIXES))
