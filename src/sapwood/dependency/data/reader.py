"""CoNLL-U in and out, and sentences of running text as CoNLL-U with the offsets of their words.

Sentences are written exactly as they were read.

A sentence is comments (`#`), then rows of ten columns between tabs, then a blank line. Rows are
words (`3`), multiword tokens (`3-4`) or empty nodes (`3.1`). Rows are split at tabs here, three
times as fast as by the library conllu, which checks neither line numbers nor trees.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from sapwood.core.errors import CorpusError, SapwoodTypeError, count, describe
from sapwood.core.outputs import open_output
from sapwood.corpora.files import (
    FEWER_SENTENCES,
    MAX_CHARACTERS,
    PACKED_ARC_BYTES,
    Reading,
    Source,
    expand,
    open_lines,
)
from sapwood.dependency.data.bank import (
    EMPTY,
    HEAD,
    ID,
    MISC,
    N_CONLLU_COLUMNS,
    RELATION,
    UNPARSED,
    ArcBank,
    Arcs,
    cells_of,
    heads_problem,
)

if TYPE_CHECKING:
    from sapwood.corpora.running_text import TextSentence

T = TypeVar("T")
CONLLU_SUFFIXES = (".conllu", ".conll", ".conllx")


class ConlluSentence(NamedTuple):
    """The columns of a sentence, and its lines."""

    words: list[str]
    upos: list[str]
    xpos: list[str]
    heads: list[int]
    relations: list[str]
    text: str
    lines: list[int]  # numbers of the lines of its words, in its file

    def arcs(self) -> Arcs:
        """The sentence with its tree."""
        comments, rows = cells_of(self.text)
        return Arcs(
            tuple(self.words), tuple(self.heads), tuple(self.relations), tuple(self.upos),
            tuple(self.xpos), comments, rows,
        )  # fmt: skip


def read_arcs(
    sources: Source | Iterable[Source],
    *,
    has_heads: bool = True,
    may_be_empty: bool = False,
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
        Whether heads and relations are read. If not, they may be missing or wrong, and every head
        is -1.
    may_be_empty
        Whether empty files have no sentence, instead of being an error.
    encoding
        The encoding of the files.
    skipped
        Receives the errors of broken sentences, which are skipped; None raises them.
    left_out
        Receives the names of files of folders that were not read.

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
    memory = PACKED_ARC_BYTES, FEWER_SENTENCES, "dependency trees"
    files = expand(sources, CONLLU_SUFFIXES, left_out=left_out, memory=memory)
    read = _read_files(files, encoding, skipped, has_heads=has_heads, may_be_empty=may_be_empty)
    return ArcBank.pack(sentence[:-1] for sentence, _ in read)


def stream_arcs(
    sources: Source | Iterable[Source],
    *,
    has_heads: bool = True,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[Arcs]:
    """Stream sentences with one in memory at a time; an empty file yields none.

    Parameters
    ----------
    sources, has_heads, encoding, skipped, left_out
        As `read_arcs` takes them.
    """
    files = expand(sources, CONLLU_SUFFIXES, left_out=left_out)
    read = _read_files(files, encoding, skipped, has_heads=has_heads, may_be_empty=True)
    for sentence, _ in read:
        yield sentence.arcs()


def stream_partial_arcs(
    source: Source,
    checked: Callable[[Arcs, list[str], list[str], list[int]], T],
    *,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[T]:
    """Stream sentences whose heads and relations may be missing; an empty file yields none.

    Parameters
    ----------
    source
        As `read_arcs` takes it.
    checked
        Called with a sentence without heads, the cells of its heads, the cells of its relations,
        and the line numbers of its words; its result is yielded. Where it raises a `CorpusError`,
        the sentence counts as one that cannot be read, and the error gets the name of the file.
    encoding, skipped, left_out
        As `read_arcs` takes them.
    """
    files = expand(source, CONLLU_SUFFIXES, left_out=left_out)
    read = _read_files(files, encoding, skipped, has_heads=False, may_be_empty=True)
    for sentence, reading in read:
        arcs = sentence.arcs()
        cells = [row for row in arcs.rows if row[ID].isdecimal()]
        heads, relations = ([row[k] for row in cells] for k in (HEAD, RELATION))
        try:
            found = checked(arcs, heads, relations, sentence.lines)
        except CorpusError as error:
            reading.note(error)
        else:
            yield found


def _read_files(
    files: Iterable[Source],
    encoding: str,
    skipped: list[CorpusError] | None,
    *,
    has_heads: bool,
    may_be_empty: bool = False,
) -> Iterator[tuple[ConlluSentence, Reading]]:
    """The sentences of files, each with the reading of its file; an error if there is none.

    Empty files may have none where that is allowed; files whose sentences are all broken may not.
    """
    is_empty = True
    for source in files:
        with open_lines(source, encoding) as (name, lines):
            reading = Reading(name, skipped)
            for sentence in read_conllu(lines, reading, has_heads=has_heads):
                is_empty = False
                yield sentence, reading
    if is_empty and (skipped or not may_be_empty):
        hint = "is the file empty, or are all its sentences broken?"
        raise CorpusError("no sentence found", hint=hint)


def read_conllu(
    lines: Iterable[str], reading: Reading, *, has_heads: bool = True
) -> Iterator[ConlluSentence]:
    """Stream the sentences of the lines of a file."""
    block: list[str] = []
    first = 1
    n_characters = 0
    for number, line in enumerate(chain(lines, [""]), 1):
        if line.strip():
            first = first if block else number
            n_characters += len(line)
            if n_characters > MAX_CHARACTERS:
                size = f"{MAX_CHARACTERS:,} characters"
                msg = f"a sentence of more than {size}, the most that is read"
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


def read_block(block: list[str], first: int, *, has_heads: bool = True) -> ConlluSentence | None:
    """The sentence of some lines without line ends; None for comments alone.

    `first` is the number of the first line, for messages.
    """
    rows: list[list[str]] = []
    numbers: list[int] = []  # of the lines of words
    check = _RowNumbers()
    for number, line in enumerate(block, first):
        if line[0] == "#":
            if check.n_rows:
                msg = f"a comment among the rows of a sentence: {line[:40]!r}"
                raise CorpusError(msg, line=number, hint="comments stand before the first word")
            continue
        cells = line.split("\t")
        if len(cells) != N_CONLLU_COLUMNS:
            raise _wrong_columns(line, cells, number)
        if check.add(cells, number):
            rows.append(cells)
            numbers.append(number)
    if not check.n_rows:
        return None
    check.finish()
    _, words, _, upos, xpos, _, heads, relations, _, _ = map(list, zip(*rows, strict=True))
    text = "\n".join(block)
    if has_heads:
        places = _read_heads(heads, numbers)
        return ConlluSentence(words, upos, xpos, places, relations, text, numbers)
    n = len(rows)
    return ConlluSentence(words, upos, xpos, [UNPARSED] * n, [EMPTY] * n, text, numbers)


def _wrong_columns(line: str, cells: list[str], number: int) -> CorpusError:
    msg = f"expected {N_CONLLU_COLUMNS} columns between tabs, found {len(cells)}: {line[:40]!r}"
    hint = "rows of CoNLL-U are ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
    if "\0" in line:
        hint = "name a CoNLL-U file; .gz, .xz and .bz2 may stay compressed"
    elif line.lstrip().startswith("("):
        hint = "these look like phrase-structure trees: `sapwood depend convert` makes arcs of them"
    elif len(line.split()) == N_CONLLU_COLUMNS and line.split(maxsplit=1)[0].isdigit():
        hint = "put tabs, not blanks, between the columns"
    elif len(cells) == 1:
        hint = "this looks like plain sentences: `sapwood depend parse --text` takes them"
    return CorpusError(msg, line=number, hint=hint)


class _RowNumbers:
    """Checks the numbers of the rows of one sentence."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.word = 0  # number of the last word
        self.empty = 0  # number of the last empty node behind it
        self.range_end, self.range_line = 0, 0  # last word and line of the last multiword token

    def add(self, cells: list[str], line: int) -> bool:
        """Check the next row; whether it is a word."""
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
        """Refuse a sentence without words, or whose last multiword token is incomplete."""
        if not self.word:
            msg = "a sentence without a word"
            raise CorpusError(msg, line=self.range_line or None, hint="remove it")
        if self.range_end > self.word:
            n_words = count(self.word, "word")
            msg = f"a multiword token up to word {self.range_end}, but only {n_words}"
            raise CorpusError(msg, line=self.range_line, hint="are rows missing behind it?")


def _read_heads(heads: list[str], lines: list[int]) -> list[int]:
    # int() reads " 1", "1_0" and the digits of other scripts too, and refuses them by the thousand
    is_number = [head.isdecimal() and head.isascii() and len(head) < 9 for head in heads]
    if not all(is_number):
        at = is_number.index(False)
        found = "no head" if heads[at] == EMPTY else f"the head {heads[at]!r}"
        msg = f"word {at + 1} has {found}, expected a number"
        hint = "column 7 is the position of the head; `depend parse` takes sentences without heads"
        raise CorpusError(msg, line=lines[at], hint=hint)
    numbers = list(map(int, heads))
    if (problem := heads_problem(numbers)) is not None:
        raise CorpusError(problem.message, line=lines[problem.place - 1], hint=problem.hint)
    return numbers


def parse_conllu(text: object) -> Arcs:
    """Read exactly one sentence from a string, with heads or without any."""
    if not isinstance(text, str):
        msg = f"expected CoNLL-U in a string, not {describe(text)}"
        raise SapwoodTypeError(msg, hint="files are read by sapwood.read_arcs(path)")
    lines, reading = io.StringIO(text), Reading("<text>")
    sentences = list(read_conllu(lines, reading, has_heads=not is_headless(text)))
    if len(sentences) != 1:
        msg = f"expected one sentence, found {len(sentences)}"
        raise CorpusError(msg, file="<text>", hint="read several with sapwood.read_arcs")
    return sentences[0].arcs()


def is_headless(text: str) -> bool:
    """Whether no word of a CoNLL-U text has a head."""
    rows = (line.split("\t") for line in text.split("\n") if line and line[0] != "#")
    words = [cells for cells in rows if len(cells) == N_CONLLU_COLUMNS and cells[ID].isdecimal()]
    return bool(words) and all(cells[HEAD] == EMPTY for cells in words)


def write_arcs(
    arcs: ArcBank | Iterable[Arcs], file: str | Path | IO[str], *, force: bool = False
) -> int:
    """Write sentences as CoNLL-U and return their number; a path is written whole or not at all.

    Parameters
    ----------
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


TEXT_COMMENT = "# text = "
_RANGE = re.compile(r"(?:^|\|)TokenRange=(\d+):(\d+)(?:\||$)")


def arcs_of_text(sentence: TextSentence) -> Arcs:
    """A sentence of running text before parsing: its text, and the offsets of its words.

    Examples
    --------
    >>> from sapwood.corpora.running_text import TextSentence
    >>> found = arcs_of_text(TextSentence(["It", "'s"], [(3, 5), (5, 7)], "It's", 3))
    >>> found.comments, [row[-1] for row in found.rows]
    (("# text = It's",), ['SpaceAfter=No|TokenRange=3:5', 'SpaceAfter=No|TokenRange=5:7'])
    """
    rows = []
    behind = sentence.start + len(sentence.text)
    following = [*(start for start, _ in sentence.offsets[1:]), behind]
    for (start, end), next_start in zip(sentence.offsets, following, strict=True):
        row = [EMPTY] * N_CONLLU_COLUMNS
        joined = "SpaceAfter=No|" if next_start <= end else ""
        row[MISC] = f"{joined}TokenRange={start}:{end}"
        rows.append(tuple(row))
    unparsed = (UNPARSED,) * len(sentence.words)
    comment = TEXT_COMMENT + " ".join(sentence.text.split())
    return Arcs(tuple(sentence.words), unparsed, comments=(comment,), rows=tuple(rows))


def text_fields(arcs: Arcs) -> dict[str, Any]:
    """`text`, `char_start` and `char_end` of each word; empty where the last column has no offsets.

    Examples
    --------
    >>> from sapwood.corpora.running_text import TextSentence
    >>> text_fields(arcs_of_text(TextSentence(["Go", "!"], [(0, 2), (2, 3)], "Go!", 0)))
    {'text': 'Go!', 'char_start': [0, 2], 'char_end': [2, 3]}
    """
    words = [row for row in arcs.rows if row[0].isdecimal() or row[0] == EMPTY]
    found = [match for row in words if (match := _RANGE.search(row[MISC]))]
    if not found or len(found) < len(arcs):
        return {}
    texts = (one for one in arcs.comments if one.startswith(TEXT_COMMENT))
    return {
        "text": next(texts, TEXT_COMMENT).removeprefix(TEXT_COMMENT),
        "char_start": [int(match[1]) for match in found],
        "char_end": [int(match[2]) for match in found],
    }
