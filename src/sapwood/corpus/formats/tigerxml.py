"""TIGER-XML: sentences `<s>` with `<t>` for words, `<nt>` for phrases, `<edge>` between them.

Secondary edges are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.parsers import expat

from sapwood.corpus.files import Reading
from sapwood.corpus.formats.graph import Phrase, Word, tree_of
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError

_CORPUS = re.compile(r"<(corpus|subcorpus)[\s>]|<s\s+id=")


def is_like(head: str) -> bool:
    """Whether a text is XML that starts a corpus or a sentence of the format."""
    return head.lstrip().startswith("<") and _CORPUS.search(head) is not None


def read(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream the trees of lines; behind a place where the XML is broken nothing can be read."""
    reader = _Reader()
    try:
        for line in lines:
            reader.parser.Parse(line, False)
            yield from reader.finish(reading)
        reader.parser.Parse("", True)
    except expat.ExpatError as error:
        msg = f"expected XML, found {expat.ErrorString(error.code)}"
        hint = "what stands behind cannot be read: mend it here"
        reading.note(CorpusError(msg, line=error.lineno, column=error.offset + 1, hint=hint))
    yield from reader.finish(reading)
    if not reader.n_sentences:
        msg = "expected sentences <s> with <terminals>, found none"
        reading.note(CorpusError(msg, hint="of XML formats, only TIGER-XML is read"))


class _Sentence:
    """What stands between `<s>` and `</s>`, and the first thing wrong with it."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.words: dict[str, tuple[str, str]] = {}
        self.phrases: dict[str, str] = {}
        self.above: dict[str, tuple[str, str]] = {}  # child: its parent and its function
        self.error: CorpusError | None = None

    def fail(self, message: str, line: int, column: int) -> None:
        hint = "expected are <t id word pos>, <nt id cat> and <edge idref label>"
        self.error = self.error or CorpusError(message, line=line, column=column, hint=hint)

    def tree(self, keep_functions: bool) -> Tree:
        known = self.words.keys() | self.phrases.keys()
        lost = [name for name in self.above if name not in known]
        if lost:  # only known here: an edge may point to what comes later
            self.fail(f"expected {lost[0]}, to which an edge points, found none", self.line, 1)
        if self.error is not None:
            raise self.error
        words = [Word(word, tag, *self._edge(name)) for name, (word, tag) in self.words.items()]
        phrases = {name: Phrase(cat, *self._edge(name)) for name, cat in self.phrases.items()}
        return tree_of(words, phrases, keep_functions, self.line)

    def _edge(self, name: str) -> tuple[str, str | None]:
        parent, function = self.above.get(name, (None, ""))
        return function, parent


class _Reader:
    """Takes text, and collects the sentences that have ended."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.done: list[_Sentence] = []
        self.sentence: _Sentence | None = None
        self.phrase = ""
        self.n_sentences = 0

    def finish(self, reading: Reading) -> Iterator[Tree]:
        """The trees of all sentences that have ended; what is wrong with one is noted."""
        done, self.done = self.done, []
        for sentence in done:
            self.n_sentences += 1
            try:
                tree = sentence.tree(reading.keep_functions)
            except CorpusError as error:
                reading.note(error)
            else:
                yield tree

    def _start(self, element: str, facts: dict[str, str]) -> None:
        if element == "s":
            self.sentence = _Sentence(self.parser.CurrentLineNumber)
        elif self.sentence is None:
            return
        elif element == "t":
            if self._has(element, facts, "id", "word", "pos"):
                self.sentence.words[facts["id"]] = facts["word"], facts["pos"]
        elif element == "nt":
            if self._has(element, facts, "id", "cat"):
                self.phrase = facts["id"]
                self.sentence.phrases[self.phrase] = facts["cat"]
        elif element == "edge" and self._has(element, facts, "idref"):
            child = facts["idref"]
            if child in self.sentence.above:
                self._fail(f"expected one parent for {child}, found another")
            self.sentence.above[child] = self.phrase, facts.get("label", "")

    def _has(self, element: str, facts: dict[str, str], *names: str) -> bool:
        missing = [name for name in names if not facts.get(name, "").strip()]
        if missing:
            self._fail(
                f"expected {missing[0]} in <{element}>, found {', '.join(facts) or 'nothing'}"
            )
        return not missing

    def _fail(self, message: str) -> None:
        assert self.sentence is not None
        parser = self.parser
        self.sentence.fail(message, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def _end(self, element: str) -> None:
        if element == "s" and self.sentence is not None:
            self.done.append(self.sentence)
            self.sentence = None
