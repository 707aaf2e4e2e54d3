"""Where the words of sentences come from: lines, text that is not tokenised, or trees."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from sapwood.cli.console import echo
from sapwood.cli.inputs import STDIN, read_lines, split_words
from sapwood.errors import CorpusError, SapwoodError

if TYPE_CHECKING:
    from sapwood.corpus.tokenize import Tokenizer
    from sapwood.models.ensemble import Model

N_LOOKED_AT = 20  # lines with words; what a text holds shows in its first ones


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
            yield from tree_words(file)
            return
        with closing(read_lines(file)) as lines:  # at once, also where a line is refused
            yield from self.words_of(lines, file, model)

    def words_of(self, lines: Iterator[str], file: str, model: Model) -> Iterator[list[str]]:
        """The words of each line; `file` is where they come from."""
        if self.trees is None:
            lines = refuse_other_kinds(lines, file)
        if self.tokenizer or self.raw:
            return _tokenised(lines, self._function(model), file)
        sentences = (split_words(line) for line in lines)
        return sentences if self.trees is False else _watched(sentences, model)

    def _function(self, model: Model) -> Tokenizer:
        from sapwood.corpus.tokenize import PennTokenizer

        return load_tokenizer(self.tokenizer) if self.tokenizer else PennTokenizer(_words(model))


def _words(model: Model) -> tuple[str, ...]:
    """The vocabulary of a model; the members of an ensemble share one."""
    from sapwood.models.ensemble import Ensemble

    return (model.first if isinstance(model, Ensemble) else model).lexicon.words


def tree_words(file: str) -> Iterator[list[str]]:
    """The words of each tree, without empty elements; one list for each tree of the file."""
    from sapwood.corpus.clean import clean
    from sapwood.corpus.penn import read_trees

    for tree in read_trees(file):
        kept = clean(tree)
        yield kept.words() if kept is not None else []


# -- what was given by mistake --------------------------------------------------------------------


def refuse_other_kinds(lines: Iterator[str], file: str) -> Iterator[str]:
    """Pass sentences on as they come; raise an error at trees, CoNLL-U and JSON."""
    from sapwood.corpus.recognise import SENTENCES, kind_of

    held: list[str] = []  # lines that do not tell what they are
    n_seen = 0
    for number, line in enumerate(lines, 1):
        if n_seen == N_LOOKED_AT:
            yield line
            continue
        held.append(line)
        kind = kind_of(held)
        if kind is None and line.strip() and len(held) < N_LOOKED_AT:
            continue
        if kind not in {None, SENTENCES}:
            raise _other_kind(str(kind), file, number)
        n_seen += kind is not None
        yield from held
        held.clear()
    yield from held


def _other_kind(kind: str, file: str, line: int) -> CorpusError:
    from sapwood.corpus.files import source_name

    found, hint = {
        "trees": (
            "bracketed trees",
            "--trees parses the words of the trees; --sentences takes the lines as they are",
        ),
        "conllu": (
            "CoNLL-U",
            f"`sapwood words {'-' if file == STDIN else file}` writes its words as sentences",
        ),
        "json": (
            "JSON",
            "give the sentences themselves; `sapwood evaluate` reads the output of `parse --json`",
        ),
    }[kind]
    msg = f"expected one sentence a line, found {found}"
    return CorpusError(msg, file=source_name(file), line=line, hint=hint)


def _watched(sentences: Iterator[list[str]], model: Model) -> Iterator[list[str]]:
    """Pass sentences on; warn, once, where most of the first ones seem not to be tokenised."""
    from sapwood.corpus.recognise import untokenised
    from sapwood.corpus.tokenize import PennTokenizer

    tokenizer = PennTokenizer(_words(model))
    found: list[tuple[str, str]] = []
    n_seen = n_untokenised = 0
    for words in sentences:
        if words and n_seen < N_LOOKED_AT:
            here = untokenised(words, tokenizer)
            n_seen += 1
            n_untokenised += bool(here)
            found += here
            if n_seen == N_LOOKED_AT:
                _warn(n_untokenised, n_seen, found)
        yield words
    if n_seen < N_LOOKED_AT:
        _warn(n_untokenised, n_seen, found)


def _warn(n_untokenised: int, n_seen: int, found: Sequence[tuple[str, str]]) -> None:
    if 2 * n_untokenised > n_seen:
        word, inside = found[0]
        echo(
            f"warning: the text seems not to be tokenised: {word!r} is one word here, while the "
            f"model's treebank has {inside!r} as a word of its own"
        )
        echo("hint: --raw tokenises; --sentences takes the lines as they are, without this warning")


# -- tokenising -----------------------------------------------------------------------------------


def _tokenised(lines: Iterator[str], tokenize: Tokenizer, file: str) -> Iterator[list[str]]:
    from sapwood.corpus.files import source_name

    for number, line in enumerate(lines, 1):
        words = tokenize(line.strip())
        if isinstance(words, str) or not all(
            isinstance(word, str) and split_words(word) == [word] for word in words
        ):
            msg = f"the tokenizer returned {words!r}, expected a list of words without blanks"
            hint = "a tokenizer takes the text of one sentence and returns its words"
            raise CorpusError(msg, file=source_name(file), line=number, hint=hint)
        yield list(words)


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
