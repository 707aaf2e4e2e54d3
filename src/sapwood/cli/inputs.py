"""What commands take: models by name, and text by line."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli.console import echo
from sapwood.errors import CorpusError, ModelFormatError
from sapwood.outputs import Input

if TYPE_CHECKING:
    from sapwood.models.ensemble import Model
    from sapwood.models.strings.string_model import StringModel

BUNDLED = "bundled"
STDIN = "-"


def load_model(name: str) -> Model:
    """The grammar or ensemble that a user names."""
    return as_grammar(load_any(name), name)


def as_grammar(model: Any, name: str) -> Model:
    """A model that parses into phrases; any other is refused."""
    from sapwood.models.ensemble import Model

    if not isinstance(model, Model):
        msg = f"{name}: holds a {type(model).__name__}, expected a grammar or an ensemble"
        raise ModelFormatError(msg, hint="name a file that `sapwood train` wrote")
    return model


def load_any(name: str) -> Any:
    """The model of any kind that a user names."""
    if name == BUNDLED:
        from sapwood.models.from_text import bundled_grammar

        return bundled_grammar()
    if Path(name).is_dir():
        msg = f"{name}: a folder, expected a model file"
        raise ModelFormatError(msg, hint="name the file in it that `sapwood train` wrote")
    from sapwood.models.kinds import load

    return load(Path(name).expanduser())


def load_strings_model(name: str) -> StringModel:
    """The model of strings that a user names."""
    from sapwood.models.strings.string_model import StringModel

    model = load_any(name)
    if not isinstance(model, StringModel):
        msg = f"{name}: holds a {type(model).__name__}, expected a weighted grammar or automaton"
        raise ModelFormatError(msg, hint="name a file that `sapwood hankel learn` wrote")
    return model


def read_lines(source: str, encoding: str = "utf-8") -> Generator[str, None, None]:
    """The lines of a file, compressed or not, or of stdin, as they come."""
    from sapwood.corpus.files import lines_of, open_text, source_name

    if source == STDIN and sys.stdin.isatty():
        echo("reading from the terminal, one line each; Ctrl-D ends")
    # A generator, so that only failures of reading, not of writing, pass through open_text.
    with open_text(source, encoding) as file:
        for line in lines_of(file, source_name(source)):  # noqa: UP028 - `yield from` would close the file, and stdin with it
            yield line


def input_files(*sources: str) -> Iterator[Input]:
    """The files that arguments stand for: themselves, those of globs and folders, that of stdin.

    For outputs, which must not be among them; what is missing is left to whoever reads it.
    """
    from sapwood.corpus.formats import treebank_files

    for source in sources:
        if source == STDIN:
            yield 0  # which the shell may have opened from a file
            continue
        with suppress(CorpusError):
            for file in treebank_files(source, also=(".conllu",)):
                yield Path(str(file))


def claim_stdin(*sources: str) -> None:
    """Refuse to read stdin twice."""
    if sources.count(STDIN) > 1:
        msg = "stdin (-) can be read only once; name a file for the other input"
        raise typer.BadParameter(msg)
