"""Texts of commands: tokenised sentences, one per line, words of trees, and running text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli.console import warn
from sapwood.cli.inputs import stream_lines
from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.corpora.running_text import TextSentence

# What to do about lines that are not what they were taken for, in commands with these options.
_HINTS = {
    "trees": "--trees takes the words of the trees; --sentences takes the lines as they are",
    "tokens": "--raw tokenises; --sentences takes the lines as they are, without this warning",
}


@dataclass(frozen=True)
class RawText:
    """Reads sentences of running text for all commands.

    Attributes
    ----------
    tokenizer, splitter
        Names of functions of the user's own; None for those of Sapwood.
    one_per_line
        Whether each line is a sentence.
    tokens
        The convention of tokens; None for that of the model.
    """

    tokenizer: str | None = None
    splitter: str | None = None
    one_per_line: bool = False
    tokens: str | None = None

    def check(self, *, raw: bool) -> None:
        """Refuse options that do not go together."""
        named = {"--splitter": self.splitter, "--one-per-line": self.one_per_line,
                 "--tokens": self.tokens}  # fmt: skip
        lone = next((option for option, value in named.items() if value), None)
        if lone is not None and not (raw or self.tokenizer):
            raise typer.BadParameter("says how --raw reads text: add --raw", param_hint=lone)
        if self.splitter and self.one_per_line:
            msg = "not with --splitter, which finds the sentences of a line"
            raise typer.BadParameter(msg, param_hint="--one-per-line")
        if self.tokens and self.tokenizer:
            msg = "not with --tokenizer, which has its own words"
            raise typer.BadParameter(msg, param_hint="--tokens")

    def sentences(
        self, lines: Iterable[str], name: str, convention: str, vocabulary: Sequence[str]
    ) -> Iterator[TextSentence]:
        """The sentences of lines that are passed with their line ends.

        Parameters
        ----------
        name
            Where the lines come from, for errors.
        convention, vocabulary
            Of the model.
        """
        from sapwood.corpora.conventions import make_tokenizer
        from sapwood.corpora.running_text import text_sentences

        tokenise = (
            load_function(self.tokenizer, "--tokenizer")
            if self.tokenizer
            else make_tokenizer(self.tokens or convention, vocabulary)
        )
        split = load_function(self.splitter, "--splitter") if self.splitter else None
        return text_sentences(lines, tokenise, split, one_per_line=self.one_per_line, name=name)


@dataclass(frozen=True)
class Text:
    """Reads sentences for all commands."""

    # whether the words are those of trees; None for lines, after a look at the first
    trees: bool | None = None
    raw: bool = False  # whether sentences and words have to be found
    how: RawText = field(default_factory=RawText)

    def __post_init__(self) -> None:
        if self.trees and self.is_raw:
            msg = "the words of trees are tokenised already; leave --raw and --tokenizer out"
            raise typer.BadParameter(msg, param_hint="--trees")
        self.how.check(raw=self.raw)

    @property
    def is_raw(self) -> bool:
        """Whether the text is as people write it."""
        return self.raw or self.how.tokenizer is not None

    @property
    def has_lines(self) -> bool:
        """Whether each line is one sentence."""
        return not (self.trees or (self.is_raw and not self.how.one_per_line))

    def sentences(self, file: str, model: Model) -> Iterator[list[str] | TextSentence]:
        """The words of each sentence; none for an empty line, or for a tree without words.

        Sentences of running text come with their places in it.
        """
        if self.trees:
            from sapwood.corpora.formats import read_trees
            from sapwood.corpora.tree import clean

            for tree in read_trees(file):
                kept = clean(tree)
                yield kept.words() if kept is not None else []
            return
        newline = "" if self.is_raw else None  # offsets count the characters of line ends
        with closing(stream_lines(file, newline=newline)) as lines:  # at once, also when refused
            yield from (self.running if self.is_raw else self.words_of)(lines, file, model)

    def running(
        self, lines: Iterator[str], file: str, model: Model, hints: Mapping[str, str] = _HINTS
    ) -> Iterator[TextSentence]:
        """The sentences of running text; parameters are those of `words_of`."""
        from sapwood.corpora.conventions import PENN, convention_of
        from sapwood.corpora.files import source_name
        from sapwood.corpora.sentences import refuse_other_kinds

        if self.trees is None:
            lines = refuse_other_kinds(lines, file, hints)
        known = model.grammars[0].lexicon.words
        return self.how.sentences(lines, source_name(file), convention_of(model, PENN), known)

    def words_of(
        self,
        lines: Iterator[str],
        file: str,
        model: Model,
        hints: Mapping[str, str] = _HINTS,
    ) -> Iterator[list[str]]:
        """The words of each line.

        Parameters
        ----------
        file
            Where the lines come from.
        hints
            What to do where lines are `trees`, or hold words that are not `tokens`, by the options
            of the command.
        """
        from sapwood.corpora.sentences import (
            doubt_sentences,
            doubt_tokenising,
            refuse_other_kinds,
            split_words,
        )

        if self.is_raw:
            yield from (one.words for one in self.running(lines, file, model, hints))
            return
        # the members of an ensemble share a vocabulary
        known = model.grammars[0].lexicon.words
        if self.trees is None:
            lines = refuse_other_kinds(lines, file, hints)
        tell = lambda *doubt: warn([doubt])  # noqa: E731
        sentences = map(split_words, lines)
        if self.trees is False:
            yield from sentences
            return
        yield from doubt_tokenising(doubt_sentences(sentences, tell), known, tell, hints["tokens"])


def load_function(name: str, option: str) -> Any:
    """The function that a user names as MODULE:FUNCTION in an option."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise typer.BadParameter(f"{name!r} is not MODULE:FUNCTION", param_hint=option)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        msg = f"{option} {name}: {error}"
        hint = "MODULE is a file MODULE.py in this folder, or an installed package"
        raise SapwoodError(msg, hint=hint) from error
    if not callable(found):
        msg = f"{option} {name}: not a function, but {type(found).__name__}"
        what = "the text of a sentence to its words"
        if option == "--splitter":
            what = "the text of a paragraph to its sentences"
        raise SapwoodError(msg, hint=f"name a function from {what}")
    return found
