"""Inputs of commands: models by name, lines of text, trees, and words of sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from sys import intern
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli.console import echo
from sapwood.cli.reports import name_some
from sapwood.core.errors import CorpusError, ModelFormatError, count, join_words
from sapwood.core.model_names import BUNDLED, WRITERS, find_model
from sapwood.core.outputs import Input, check_output

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Transform
    from sapwood.constituency.data.treebank import StoredTreebank, Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.corpora.tree import Tree
    from sapwood.dependency.data.bank import ArcBank, Arcs
    from sapwood.dependency.data.lists import CandidateLists
    from sapwood.dependency.parse.constraints import PartialArcs
    from sapwood.networks.pretrained.source import WordSource

STDIN = "-"
# The commands that write models, as hints name them.
TRAIN, DEPEND_TRAIN, HANKEL_LEARN, LM_TRAIN = WRITERS


def as_grammar(model: Any, name: str) -> Model:
    """A model that parses into phrases; any other is refused."""
    from sapwood.constituency.grammar.ensemble import Model

    hint = f"name a file of {TRAIN}"
    grammar: Model = as_kind(model, Model, name, "a grammar or an ensemble", hint)
    return grammar


# What a model of another kind is for, by its room.
_COMMANDS = {
    "constituency": "`sapwood parse`, `score`, `inspect` and others take such models",
    "dependency": "`sapwood depend parse`, `score` and `rerank` take such models",
    "hankel": "`sapwood hankel score` and `parse` take such models",
    "lm": "`sapwood lm evaluate`, `next`, `classes` and others take such models",
}


def as_kind(model: Any, kind: Any, name: str, expected: str, hint: str, room: str = "") -> Any:
    """A model of some kind; any other is refused, and the commands that take it are named.

    Parameters
    ----------
    kind
        One class or several, as `isinstance` takes them.
    name
        Of its file.
    room
        Whose models the hint is for.
    """
    if isinstance(model, kind):
        return model
    from sapwood.core.model_card import PURPOSES

    found = type(model).__module__.split(".")[1]
    msg = f"{name}: holds {PURPOSES[type(model).__name__].what}, expected {expected}"
    raise ModelFormatError(msg, hint=hint if found == room else _COMMANDS.get(found, hint))


def load_any(name: str, *writers: str) -> Any:
    """The model of any kind that a user names: a file, or a model that comes with Sapwood.

    Parameters
    ----------
    writers
        The commands that write such models, for the hint where there is none; all that do, where
        none is given.
    """
    file = find_model(name, writers or WRITERS)  # before NumPy is imported
    from sapwood.core.model_files import load_found

    return load_found(file, BUNDLED if file is None else str(file))


def load_kind(
    name: str, kind: Any, expected: str, *, room: str, writer: str, hint: str | None = None
) -> Any:
    """The model of some kind that a user names; any other is refused as by `as_kind`.

    Parameters
    ----------
    writer
        The command that writes such models.
    hint
        The hint for other models of the room; None to name a file of the writer.
    """
    hint = f"name a file of {writer}" if hint is None else hint
    return as_kind(load_any(name, writer), kind, name, expected, hint, room)


def open_given(
    encoder: Path | None, vectors: Path | None, include: str | None
) -> WordSource | None:
    """The source of the vectors that networks read besides their own, by options of training."""
    if encoder is None and vectors is None:
        if include is not None:
            msg = "there is nothing to include: add --encoder FOLDER or --vectors FILE"
            raise typer.BadParameter(msg, param_hint="--include-encoder")
        return None
    if encoder is not None and vectors is not None:
        msg = "networks read one kind of vectors: leave out one of --encoder and --vectors"
        raise typer.BadParameter(msg, param_hint="--vectors")
    from sapwood.networks.pretrained.source import PretrainedEncoder, open_source

    path = encoder if encoder is not None else vectors
    assert path is not None
    bits = 32 if include is None else int(include)
    path = path.expanduser()
    if encoder is not None:
        return PretrainedEncoder.of_folder(path, bits=bits)
    if not path.is_file():
        raise CorpusError(f"{path}: no such file", hint="--vectors names a file of word vectors")
    return open_source(path, bits=bits)


def know_encoder(path: Path) -> None:
    """Give models the encoder or the word vectors that they need."""
    from sapwood.networks.pretrained.source import use_encoder

    use_encoder(path.expanduser())


def stream_lines(
    source: str, encoding: str | None = None, newline: str | None = None
) -> Generator[str, None, None]:
    """The lines of a file, compressed or not, or of stdin, as they come.

    Without an encoding, as in commands that have no `--encoding`, lines are UTF-8; `newline` is
    that of `open_text`.
    """
    from sapwood.corpora.files import EncodingError, open_lines

    if source == STDIN and sys.stdin.isatty():
        echo("reading from the terminal, one line each; Ctrl-D ends")
    # A generator, so that only failures of reading, not of writing, pass through open_lines.
    try:
        with open_lines(source, encoding or "utf-8", newline) as (_, lines):
            for line in lines:  # noqa: UP028 - `yield from` would close the file, and stdin with it
                yield line
    except EncodingError as error:
        if encoding is None:
            name = error.likely[0] if error.likely else "ENCODING"
            error.hint = f"if it is text, convert it: iconv -f {name} -t utf-8"
        raise


def read_words(source: str) -> Iterator[list[str]]:
    """The words of each line of a text, which is refused where it does not fit into memory."""
    from sapwood.corpora.files import FEWER_SENTENCES, WORD_BYTES, require_reading_memory
    from sapwood.corpora.sentences import split_words

    require_reading_memory([source], WORD_BYTES, FEWER_SENTENCES, "text")
    for line in stream_lines(source):
        # Equal words are one object, so that memory holds each of them once.
        yield [*map(intern, split_words(line))]


def count_lines(source: str, *, blank: bool = False) -> int | None:
    """The number of lines, or of blank lines, of a plain file; None for other sources.

    Examples
    --------
    >>> count_lines("-")
    """
    from sapwood.corpora.files import COMPRESSED

    path = Path(source).expanduser()
    if source == STDIN or path.suffix.lower() in COMPRESSED or not path.is_file():
        return None
    n, is_start = 0, True
    with path.open("rb") as file:
        while piece := file.readline(1 << 20):  # a line may be as long as the file
            n += is_start and (not blank or not piece.strip())
            is_start = piece.endswith(b"\n")
    return n


def input_files(*sources: str, suffixes: tuple[str, ...] | None = None) -> Iterator[Input]:
    """The files that arguments name: plain paths, globs, folders, and the file behind stdin.

    Outputs must not be among them. Files that are missing are left to the reader. In folders, files
    with the `suffixes` count; None for files of treebanks.
    """
    from sapwood.corpora.files import expand
    from sapwood.corpora.formats import treebank_files

    for source in sources:
        if source == STDIN:
            yield 0  # which the shell may have opened from a file
            continue
        with suppress(CorpusError):
            files = (
                treebank_files(source, also=(".conllu",))
                if suffixes is None
                else expand(source, suffixes)
            )
            yield from (Path(str(file)) for file in files)


def check_files(
    *sources: str | None,
    out: Path | None = None,
    suffixes: tuple[str, ...] | None = None,
    **how: Any,
) -> None:
    """Refuse to read stdin twice, and an output that is an input or could not be written.

    Parameters
    ----------
    sources
        The inputs of a command; None for those that were left out.
    suffixes
        As in `input_files`.
    how
        What `check_output` takes.
    """
    given = [source for source in sources if source is not None]
    if given.count(STDIN) > 1:
        raise typer.BadParameter("stdin (-) can be read only once; name a file for the other input")
    if out is not None:
        # only a file that is there can be an input
        inputs = [*input_files(*given, suffixes=suffixes)] if out.exists() else ()
        check_output(out, inputs=inputs, **how)


N_NAMED = 5  # files left out that are listed


@dataclass(frozen=True)
class TreeReading:
    """Reads trees, and collects the broken trees and the files that were skipped.

    Attributes
    ----------
    skipped, left_out
        The errors of broken trees, and the files of folders that are no treebanks, so far.
    """

    format: str | None = None
    encoding: str = "utf-8"
    keep_functions: bool = False
    skip_bad: bool = False
    skipped: list[CorpusError] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `read_trees` and `read_treebank`."""
        return {
            "format": self.format,
            "encoding": self.encoding,
            "keep_functions": self.keep_functions,
            "skipped": self.skipped if self.skip_bad else None,
            "left_out": self.left_out,
        }

    def bank(self, sources: list[str], transform: Transform | None = None) -> Treebank:
        """A treebank; an error that names the files where they hold no good tree."""
        from sapwood.constituency.data.treebank import read_treebank

        with self.explain(sources):
            return read_treebank(sources, transform, **self.options())

    def stored_bank(
        self, sources: list[str], folder: Path, transform: Transform | None = None
    ) -> StoredTreebank:
        """A treebank that is kept in files of a folder."""
        from sapwood.constituency.data.treebank import StoredTreebank

        with self.explain(sources):
            return StoredTreebank.read(sources, folder, transform, **self.options())

    @contextmanager
    def explain(self, sources: list[str]) -> Iterator[None]:
        """Add the files, and why the first tree was skipped, to an error about all of them."""
        try:
            yield
        except CorpusError as error:
            if error.file is None:
                from sapwood.corpora.files import source_name

                error.file = ", ".join(map(source_name, sources))
                error.hint = self._why(error.hint)
            raise

    def trees(self, source: str) -> list[Tree]:
        """The trees of a file as they are written; an error for a file without trees."""
        return self._some(self._read(source), source)

    def trees_of(self, lines: Iterable[str], source: str) -> Iterator[Tree]:
        """The trees of lines that are read already from a source."""
        from sapwood.corpora.files import source_name
        from sapwood.corpora.formats import read_lines

        skipped = self.skipped if self.skip_bad else None
        return read_lines(
            lines, source_name(source), self.format, skipped=skipped,
            keep_functions=self.keep_functions,
        )  # fmt: skip

    def clean_trees(self, source: str) -> list[Tree]:
        """The cleaned trees of a file; an error when there is none."""
        from sapwood.corpora.tree import clean_all

        trees = clean_all(self._read(source), keep_functions=self.keep_functions)
        return self._some(trees, source)

    def _read(self, source: str) -> Iterator[Tree]:
        """The trees of a file, all of which are to be in memory at once."""
        from sapwood.corpora.files import FEWER_TREES, TREE_BYTES
        from sapwood.corpora.formats import read_trees

        return read_trees(source, memory=(TREE_BYTES, FEWER_TREES), **self.options())

    def _some(self, trees: Iterable[Tree], source: str) -> list[Tree]:
        found = list(trees)
        self.check(len(found), source)
        return found

    def check(self, n_trees: int, source: str) -> None:
        """Refuse a source without any tree."""
        if not n_trees:
            from sapwood.corpora.files import source_name

            hint = self._why("is the file empty?")
            raise CorpusError("no tree found", file=source_name(source), hint=hint)

    def _why(self, hint: str | None) -> str | None:
        if not self.skipped:
            return hint
        return f"{count(len(self.skipped), 'tree')} skipped; the first: {self.skipped[0]}"

    def echo_skipped(self) -> None:
        """Write how many trees and files were skipped."""
        if self.skipped:
            n_trees = count(len(self.skipped), "broken tree")
            echo(f"skipped {n_trees}; the first: {self.skipped[0]}")
        if self.left_out:
            names = name_some((PurePath(path).name for path in self.left_out), N_NAMED)
            echo(f"{count(len(self.left_out), 'file')} skipped: {names}")


@dataclass(frozen=True)
class ArcReading(TreeReading):
    """Reads dependency trees, and collects the sentences and files that were skipped."""

    def _arc_options(self) -> dict[str, Any]:
        """Options of all readers of CoNLL-U."""
        skipped = self.skipped if self.skip_bad else None
        return {"encoding": self.encoding, "skipped": skipped, "left_out": self.left_out}

    def arcs(self, sources: list[str], *, may_be_empty: bool = False) -> ArcBank:
        """The sentences of CoNLL-U files; an error without sentences unless that is allowed."""
        from sapwood.dependency.data.reader import read_arcs

        with self.explain(sources):
            return read_arcs(sources, may_be_empty=may_be_empty, **self._arc_options())

    def stream(self, source: str) -> Iterator[Arcs]:
        """The sentences of CoNLL-U one by one, without their heads."""
        from sapwood.dependency.data.reader import stream_arcs

        with self.explain([source]):
            yield from stream_arcs(source, has_heads=False, **self._arc_options())

    def partial(
        self, source: str, constrain: Callable[[PartialArcs], object], *, tags: bool, tree: bool
    ) -> Generator[PartialArcs, None, None]:
        """The sentences of CoNLL-U one by one, with the cells that are filled in.

        Parameters
        ----------
        constrain
            Raises an `ArcConstraintError` where the parser cannot keep what is given.
        tags, tree
            What is kept: tags; heads and relations.
        """
        from sapwood.dependency.data.bank import EMPTY
        from sapwood.dependency.data.reader import stream_partial_arcs
        from sapwood.dependency.parse.constraints import ArcConstraintError, PartialArcs

        def checked(
            arcs: Arcs, heads: list[str], relations: list[str], lines: list[int]
        ) -> PartialArcs:
            asked = PartialArcs(
                arcs,
                list(zip(arcs.upos, arcs.xpos, strict=True)) if tags else None,
                _partial_heads(heads, lines) if tree else None,
                [None if name == EMPTY else name for name in relations] if tree else None,
            )
            try:
                constrain(asked)
            except ArcConstraintError as error:
                *others, word = sorted(error.words) or [1]
                numbers = join_words(str(lines[other - 1]) for other in others) if others else ""
                where = f" (see line{'s' * (len(others) > 1)} {numbers})" if numbers else ""
                raise CorpusError(
                    f"{error.message}{where}", line=lines[word - 1], hint=error.hint
                ) from error
            return asked

        with self.explain([source]):
            yield from stream_partial_arcs(source, checked, **self._arc_options())

    def lists(self, sources: list[str]) -> CandidateLists:
        """CoNLL-U with a list of candidate trees for each sentence; an empty file has none."""
        from sapwood.dependency.data.lists import read_lists

        with self.explain(sources):
            return read_lists(sources, may_be_empty=True, **self._arc_options())

    def as_arcs(self, sources: list[str], heads: str) -> ArcBank:
        """The sentences of CoNLL-U files, or of phrase-structure trees turned into arcs."""
        from sapwood.dependency.data.transform import read_as_arcs

        with self.explain(sources):
            return read_as_arcs(sources, heads=heads, format=self.format, **self._arc_options())


def _partial_heads(cells: list[str], lines: list[int]) -> list[int | None]:
    """The heads of a column whose cells may be empty."""
    from sapwood.dependency.data.bank import EMPTY

    heads: list[int | None] = []
    for word, (cell, line) in enumerate(zip(cells, lines, strict=True), 1):
        if cell != EMPTY and not (cell.isdecimal() and cell.isascii() and len(cell) < 9):
            msg = f"word {word} has the head {cell!r}, expected a number, or _ where it is free"
            raise CorpusError(
                msg, line=line, hint="column 7 is the position of the head, 0 the root"
            )
        heads.append(None if cell == EMPTY else int(cell))
    return heads
