"""The export format of NEGRA, TIGER and TueBa: a line for each word and each phrase.

    #BOS 1
    Dogs    NN    --  SB  500
    bark    VVFIN --  HD  500
    #500    S     --  --  0
    #EOS 1

The columns are word, tag, morphology, function and parent; version 4 has the lemma behind the word.
Pairs of columns behind the parent are secondary edges, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sapwood.corpus.files import MAX_CHARACTERS, Reading
from sapwood.corpus.formats.graph import Phrase, Word, tree_of
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError

_FIELD = re.compile(r"[^ \t\r\n\f\v]+")
_PHRASE = re.compile(r"#\d{3,}")
_START = re.compile(r"#(FORMAT\s+\d|BOS\s+\d|BOT\s+\w)")
N_COLUMNS = 5  # of version 3
HINT = "columns are word, lemma (version 4), tag, morphology, function, parent"


def is_like(head: str) -> bool:
    """Whether a text starts with a header or a sentence of the format."""
    rows = (line for line in head.split("\n") if line.partition("%%")[0].strip())
    return _START.match(next(rows, "")) is not None


def read(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream the trees of lines."""
    reader = _Reader(reading.keep_functions)
    for number, line in enumerate(lines, 1):
        try:
            yield from reader.take(number, line)
        except CorpusError as error:
            reading.note(error, number)
    if reader.start:
        msg = "expected #EOS to end the sentence that starts here: the text ended first"
        reading.note(CorpusError(msg, line=reader.start, hint="add #EOS"))


class _Reader:
    """One pass over the lines; behind an error, the next sentence is waited for."""

    def __init__(self, keep_functions: bool) -> None:
        self.keep_functions = keep_functions
        self.has_lemma: bool | None = None  # until a header or the first word says so
        self.start = 0  # the line of the #BOS of the sentence that is open
        self.is_lost = self.is_table = False
        self.n_characters = 0  # of the sentence that is open
        self.words: list[Word] = []
        self.phrases: dict[str, Phrase] = {}

    def take(self, number: int, line: str) -> Iterator[Tree]:
        fields = _FIELD.findall(line.partition("%%")[0])
        if not fields:
            return
        command = fields[0]
        if command in {"#BOT", "#EOT"}:
            self.is_table = command == "#BOT"
        elif self.is_table:
            return
        elif command == "#FORMAT" and not self.start:
            self.has_lemma = fields[1:2] == ["4"]
        elif command == "#BOS":
            self._open(number)
        elif command == "#EOS" and self.start:
            start, self.start = self.start, 0
            yield tree_of(self.words, self.phrases, self.keep_functions, start)
        elif not self.is_lost:
            try:
                self._add(line, fields)
            except CorpusError:
                self.start, self.is_lost = 0, True
                raise

    def _open(self, number: int) -> None:
        unclosed, self.start = self.start, number
        self.is_lost = False
        self.n_characters = 0
        self.words, self.phrases = [], {}
        if unclosed:
            msg = f"expected #EOS to end the sentence that starts here, found #BOS in line {number}"
            raise CorpusError(msg, line=unclosed, hint="add #EOS")

    def _add(self, line: str, fields: list[str]) -> None:
        if not self.start:
            msg = f"expected #BOS to start a sentence, found {fields[0]!r}"
            raise CorpusError(msg, column=line.index(fields[0]) + 1, hint="each starts with #BOS n")
        self.n_characters += len(line)
        if self.n_characters > MAX_CHARACTERS:  # it must not fill the memory
            msg = f"expected #EOS, found none in {MAX_CHARACTERS:,} characters"
            raise CorpusError(msg, line=self.start, hint="add #EOS")
        if self.has_lemma is None:
            self.has_lemma = len(fields) % 2 == 0  # secondary edges come in pairs of columns
        if len(fields) < N_COLUMNS + self.has_lemma:
            msg = f"expected {N_COLUMNS + self.has_lemma} columns, found {len(fields)}"
            raise CorpusError(msg, hint=HINT)
        word, *rest = fields
        tag, _, function, parent = rest[self.has_lemma : self.has_lemma + 4]
        if not parent.isdecimal():
            at = line.index(parent, line.index(function)) + 1
            msg = f"expected the number of a parent, found {parent!r}"
            raise CorpusError(msg, column=at, hint=HINT)
        above = parent if parent.strip("0") else None
        if not _PHRASE.fullmatch(word):
            self.words.append(Word(word, tag, function, above))
        elif word[1:] not in self.phrases:
            self.phrases[word[1:]] = Phrase(tag, function, above)
        else:
            msg = f"expected one phrase {word} in a sentence, found another"
            raise CorpusError(msg, column=1, hint="number phrases from 500 on")
