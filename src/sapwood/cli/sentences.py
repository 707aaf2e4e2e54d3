"""Where the words of sentences come from: lines, text that is not tokenised, or trees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from sapwood.cli.console import warn
from sapwood.cli.inputs import read_lines
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.corpus.tokenize import Tokenizer
    from sapwood.models.ensemble import Model


@dataclass(frozen=True)
class Text:
    """How sentences are read; the same for all commands that take some.

    Attributes
    ----------
    trees
        Whether the words are those of trees; None for lines, after a look at the first.
    raw
        Whether lines have to be tokenised.
    tokenizer
        The name of a function that does it; None for Penn conventions.
    """

    trees: bool | None = None
    raw: bool = False
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if self.trees and (self.raw or self.tokenizer):
            msg = "the words of trees are tokenised already; leave --raw and --tokenizer out"
            raise typer.BadParameter(msg, param_hint="--trees")

    def sentences(self, file: str, model: Model) -> Iterator[list[str]]:
        """The words of each sentence; none for an empty line, or for a tree without words."""
        if self.trees:
            from sapwood.corpus.formats import read_trees
            from sapwood.corpus.tree import clean

            for tree in read_trees(file):
                kept = clean(tree)
                yield kept.words() if kept is not None else []
            return
        with closing(read_lines(file)) as lines:  # at once, also where a line is refused
            yield from self.words_of(lines, file, model)

    def words_of(self, lines: Iterator[str], file: str, model: Model) -> Iterator[list[str]]:
        """The words of each line; `file` is where they come from."""
        from sapwood.corpus.files import source_name
        from sapwood.corpus.sentences import (
            doubt_tokenising,
            refuse_other_kinds,
            split_words,
            tokenise_lines,
        )
        from sapwood.corpus.tokenize import PennTokenizer
        from sapwood.models.ensemble import grammars_of

        # the members of an ensemble share a vocabulary
        known = grammars_of(model)[0].lexicon.words
        if self.trees is None:
            lines = refuse_other_kinds(lines, file, source_name(file))
        if self.tokenizer:
            return tokenise_lines(lines, load_tokenizer(self.tokenizer), source_name(file))
        if self.raw:
            return tokenise_lines(lines, PennTokenizer(known), source_name(file))
        sentences = map(split_words, lines)
        if self.trees is False:
            return sentences
        return doubt_tokenising(sentences, known, lambda *doubt: warn([doubt]))


def load_tokenizer(name: str) -> Tokenizer:
    """The function that a user names as MODULE:FUNCTION."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        msg = f"{name!r} is not MODULE:FUNCTION"
        raise typer.BadParameter(msg, param_hint="--tokenizer")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        msg = f"--tokenizer {name}: {error}"
        hint = "MODULE is a file MODULE.py in this folder, or an installed package"
        raise SapwoodError(msg, hint=hint) from error
    if not callable(found):
        msg = f"--tokenizer {name}: not a function, but {type(found).__name__}"
        raise SapwoodError(msg, hint="name a function from the text of a sentence to its words")
    return cast("Tokenizer", found)
