"""CoNLL-U in and out: everything that is written comes out as it went in.

A sentence is comments (`#`), then rows of ten columns between tabs, then a blank line. Rows are
words (`3`), multiword tokens (`3-4`) or empty nodes (`3.1`). Here they are cut at tabs, three times
as fast as by the library conllu, which knows neither lines nor trees; `Arcs.to_tokens` has its
objects for whoever wants features as dictionaries.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from sapwood.core.arguments import describe
from sapwood.core.errors import CorpusError, SapwoodTypeError, count
from sapwood.core.outputs import open_output
from sapwood.corpora.file_memory import FEWER_SENTENCES, PACKED_ARCS, require_reading_memory
from sapwood.corpora.files import (
    MAX_CHARACTERS,
    Reading,
    Source,
    expand,
    lines_of,
    open_text,
    source_name,
)
from sapwood.dependency.data.bank import (
    HEAD,
    ID,
    N_COLUMNS,
    NOTHING,
    UNPARSED,
    ArcBank,
    ArcPacker,
    Arcs,
    heads_problem,
)

SUFFIXES = (".conllu", ".conll", ".conllx")


class Sentence(NamedTuple):
    """A sentence that was read: its columns, and the lines that it was read from."""

    words: list[str]
    upos: list[str]
    xpos: list[str]
    heads: list[int]
    relations: list[str]
    text: str


def read_arcs(
    sources: Source | Iterable[Source],
    *,
    has_heads: bool = True,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> ArcBank:
    r"""Read and pack dependency trees in CoNLL-U.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    has_heads
        Whether heads and relations are read. Without, they may be missing or wrong, and every head
        is -1.
    encoding
        The encoding of the files.
    skipped
        When given, broken sentences are skipped and their errors appended; when None, raised.
    left_out
        When given, the files of folders that were passed over are appended.

    Raises
    ------
    CorpusError
        With file, line and what was expected.

    Examples
    --------
    >>> rows = "1\tdogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n"
    >>> bank = read_arcs(io.StringIO(rows))
    >>> bank[0].heads
    (2, 0)
    """
    packer = ArcPacker()
    files = expand(sources, SUFFIXES, left_out=left_out)
    require_reading_memory(files, PACKED_ARCS, FEWER_SENTENCES, "dependency trees")
    for sentence in _read_files(files, encoding, skipped, has_heads=has_heads):
        packer.add(*sentence)
    return packer.bank()


def stream_arcs(
    sources: Source | Iterable[Source],
    *,
    has_heads: bool = True,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[Arcs]:
    """Read sentences one by one, so that only one of them is in memory.

    Parameters
    ----------
    sources, has_heads, encoding, skipped, left_out
        As `read_arcs` takes them.
    """
    files = expand(sources, SUFFIXES, left_out=left_out)
    for sentence in _read_files(files, encoding, skipped, has_heads=has_heads):
        words, upos, xpos, heads, relations, text = sentence
        comments, rows = cells_of(text)
        yield Arcs(
            words=tuple(words), heads=tuple(heads), relations=tuple(relations), upos=tuple(upos),
            xpos=tuple(xpos), comments=comments, rows=rows,
        )  # fmt: skip


def _read_files(
    files: Iterable[Source], encoding: str, skipped: list[CorpusError] | None, *, has_heads: bool
) -> Iterator[Sentence]:
    """The sentences of files; an error where there is none."""
    is_empty = True
    for source in files:
        with open_text(source, encoding) as file:
            reading = Reading(source_name(source), skipped)
            lines = lines_of(file, reading.name)
            for sentence in read_sentences(lines, reading, has_heads=has_heads):
                is_empty = False
                yield sentence
    if is_empty:
        msg = "no sentence found"
        raise CorpusError(msg, hint="is the file empty, or are all its sentences broken?")


def read_sentences(
    lines: Iterable[str], reading: Reading, *, has_heads: bool = True
) -> Iterator[Sentence]:
    """Stream the sentences of lines that somebody else has opened."""
    block: list[str] = []
    first = 1
    n_characters = 0
    for number, line in enumerate(_end(lines), 1):
        if line.strip():
            first = first if block else number
            n_characters += len(line)
            if n_characters > MAX_CHARACTERS:
                msg = (
                    f"a sentence of more than {MAX_CHARACTERS:,} characters, the most that is read"
                )
                hint = "a blank line ends a sentence: is the file what it claims?"
                raise CorpusError(msg, file=reading.name, line=first, hint=hint)
            block.append(line.rstrip("\r\n"))
            continue
        if block:
            try:
                sentence = read_block(block, first, has_heads=has_heads)
            except CorpusError as error:
                reading.note(error)
            else:
                if sentence is not None:
                    yield sentence
        block, n_characters = [], 0


def _end(lines: Iterable[str]) -> Iterator[str]:
    """All lines, and a blank one that ends the last sentence."""
    yield from lines
    yield ""


def read_block(block: list[str], first: int, *, has_heads: bool = True) -> Sentence | None:
    """The sentence of some lines; None for comments alone.

    Parameters
    ----------
    block
        Lines without their ends.
    first
        The number of the first, for messages.
    has_heads
        Whether heads and relations are read.
    """
    rows: list[list[str]] = []
    places: list[int] = []  # lines of the words
    check = _Order()
    for number, line in enumerate(block, first):
        if line[0] == "#":
            if check.n_rows:
                msg = f"a comment among the rows of a sentence: {line[:40]!r}"
                raise CorpusError(msg, line=number, hint="comments stand before the first word")
            continue
        cells = line.split("\t")
        if len(cells) != N_COLUMNS:
            raise _wrong_columns(line, cells, number)
        if check.add(cells, number):
            rows.append(cells)
            places.append(number)
    if not check.n_rows:
        return None
    check.finish()
    _, words, _, upos, xpos, _, heads, relations, _, _ = map(list, zip(*rows, strict=True))
    if has_heads:
        numbers = _read_heads(heads, places)
    else:
        numbers, relations = [UNPARSED] * len(rows), [NOTHING] * len(rows)
    return Sentence(words, upos, xpos, numbers, relations, "\n".join(block))


def _wrong_columns(line: str, cells: list[str], number: int) -> CorpusError:
    msg = f"expected {N_COLUMNS} columns between tabs, found {len(cells)}: {line[:40]!r}"
    hint = "rows of CoNLL-U are ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
    if "\0" in line:
        hint = "name a CoNLL-U file; .gz, .xz and .bz2 may stay compressed"
    elif line.lstrip().startswith("("):
        hint = "these look like phrase-structure trees: `sapwood depend convert` makes arcs of them"
    elif len(line.split()) == N_COLUMNS and line.split(maxsplit=1)[0].isdigit():
        hint = "put tabs, not blanks, between the columns"
    elif len(cells) == 1:
        hint = "this looks like plain sentences: `sapwood depend parse --text` takes them"
    return CorpusError(msg, line=number, hint=hint)


class _Order:
    """Follows the numbers of the rows of one sentence, and refuses those that are out of order."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.word = 0  # of the last word
        self.empty = 0  # of the last empty node behind it
        self.range_end, self.range_line = 0, 0  # of the last multiword token

    def add(self, cells: list[str], line: int) -> bool:
        """Take the next row; whether it is a word."""
        self.n_rows += 1
        if not all(cells):
            column = cells.index("") + 1
            msg = f"column {column} is empty"
            raise CorpusError(msg, line=line, hint="an empty column is written _")
        name = cells[ID]
        if name == str(self.word + 1):
            self.word += 1
            self.empty = 0
            return True
        if "." in name and name == f"{self.word}.{self.empty + 1}":
            self.empty += 1
            return False
        start, dash, end = name.partition("-")
        if (
            dash and start == str(self.word + 1) and end.isdecimal() and end.isascii()
            and len(end) < 9 and int(end) >= int(start) > self.range_end
        ):  # fmt: skip
            self.range_end, self.range_line = int(end), line
            return False
        expected = f"{self.word + 1}, {self.word + 1}-N or {self.word}.{self.empty + 1}"
        msg = f"expected a row numbered {expected}, found {name!r}"
        raise CorpusError(
            msg, line=line, hint="words are numbered from 1 on; a blank line ends one"
        )

    def finish(self) -> None:
        """Refuse a sentence that is over too early."""
        if not self.word:
            msg = "a sentence without a word"
            raise CorpusError(msg, line=self.range_line or None, hint="remove it")
        if self.range_end > self.word:
            n_words = count(self.word, "word")
            msg = f"a multiword token up to word {self.range_end}, but only {n_words}"
            raise CorpusError(msg, line=self.range_line, hint="are rows missing behind it?")


def _read_heads(heads: list[str], places: list[int]) -> list[int]:
    # int() reads " 1", "1_0" and the digits of other scripts too, and refuses them by the thousand
    is_number = [head.isdecimal() and head.isascii() and len(head) < 9 for head in heads]
    if not all(is_number):
        at = is_number.index(False)
        found = "no head" if heads[at] == NOTHING else f"the head {heads[at]!r}"
        msg = f"word {at + 1} has {found}, expected a number"
        hint = "column 7 is the place of the head; sentences without are for `depend parse`"
        raise CorpusError(msg, line=places[at], hint=hint)
    numbers = list(map(int, heads))
    if (problem := heads_problem(numbers)) is not None:
        raise CorpusError(problem.message, line=places[problem.place - 1], hint=problem.hint)
    return numbers


def cells_of(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The comments and the cells of a sentence that was read before."""
    lines = text.split("\n") if text else []
    comments = tuple(line for line in lines if line.startswith("#"))
    return comments, tuple(tuple(line.split("\t")) for line in lines[len(comments) :])


def parse_one(text: object) -> Arcs:
    """Read exactly one sentence from a string, with heads or without any."""
    if not isinstance(text, str):
        msg = f"expected CoNLL-U in a string, not {describe(text)}"
        raise SapwoodTypeError(msg, hint="files are read by sapwood.read_arcs(path)")
    lines = io.StringIO(text)
    found = list(read_sentences(lines, Reading("<text>"), has_heads=not _is_headless(text)))
    if len(found) != 1:
        msg = f"expected one sentence, found {len(found)}"
        raise CorpusError(msg, file="<text>", hint="read several with sapwood.read_arcs")
    sentence = found[0]
    comments, rows = cells_of(sentence.text)
    return Arcs(
        words=tuple(sentence.words),
        heads=tuple(sentence.heads),
        relations=tuple(sentence.relations),
        upos=tuple(sentence.upos),
        xpos=tuple(sentence.xpos),
        comments=comments,
        rows=rows,
    )


def _is_headless(text: str) -> bool:
    rows = (line.split("\t") for line in text.split("\n") if line and line[0] != "#")
    words = [cells for cells in rows if len(cells) == N_COLUMNS and cells[ID].isdecimal()]
    return bool(words) and all(cells[HEAD] == NOTHING for cells in words)


def write_arcs(
    arcs: ArcBank | Iterable[Arcs], file: str | Path | IO[str], *, force: bool = False
) -> int:
    """Write sentences as CoNLL-U and return how many; a path is written whole or not at all.

    Parameters
    ----------
    arcs
        A bank, or sentences.
    force
        Whether a file may be replaced that Sapwood did not write.
    """
    if isinstance(file, (str, Path)):
        with open_output(file, force=force) as out:
            return write_arcs(arcs, out)
    n_sentences = 0
    for n_sentences, one in enumerate(arcs, 1):  # noqa: B007
        file.write(f"{one}\n\n")
    return n_sentences
