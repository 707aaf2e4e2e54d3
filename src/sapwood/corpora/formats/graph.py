"""Notations other than brackets: NEGRA export, TIGER-XML, and Sinica's clauses.

The export format of NEGRA, TIGER and TueBa has a line for each word and each phrase:

    #BOS 1
    Dogs    NN    --  SB  500
    bark    VVFIN --  HD  500
    #500    S     --  --  0
    #EOS 1

The columns are word, tag, morphology, function and parent; version 4 has the lemma after the word.
TIGER-XML has sentences `<s>` with `<t>` for words, `<nt>` for phrases, `<edge>` between them.
Secondary edges are left out. A discontinuous tree is refused. Punctuation that such treebanks
attach to the root, in the middle of the sentence, goes into the lowest phrase around it; it would
break nearly every phrase.

The Sinica Treebank has one clause per line, roles before categories, bars between:

    #1:1.[0] S(agent:NP(Head:Nh:我)|Head:VC:看|goal:NP(Head:Na:書))#。(PERIODCATEGORY)

The number before the clause goes; the marks behind it become its sisters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from sapwood.core.errors import CorpusError
from sapwood.corpora.files import MAX_CHARACTERS, Reading
from sapwood.corpora.tree import ROOT_LABELS, Tree, escape

NO_FUNCTION = frozenset({"", "-", "--"})
VIRTUAL_ROOT = "VROOT"
_UNBROKEN = re.compile(r"[^ \t\r\n\f\v]+")  # other blanks belong to their words, as in brackets
_DASHES = str.maketrans("-=", "__")
_PHRASE = re.compile(r"#\d{3,}")
N_EXPORT_COLUMNS = 5  # of version 3
_NUMBER = re.compile(r"\s*(#\d[^\s()]*\s+)?")
_TOKEN = re.compile(r"[()|]|[^()|]+")
# Possessive, and only where a mark can begin: no backtracking over a long line.
_MARK = re.compile(r"(?<=[\s#)])([^\s#()]++|[()])\((\w++)\)")
SINICA_HINT = "a clause is LABEL(role:TAG:word|role:LABEL(...))"
EXPORT_HINT = "columns are word, lemma (version 4), tag, morphology, function, parent"


class Word(NamedTuple):
    """A word; `parent` names its phrase, None the root."""

    word: str
    tag: str
    function: str = ""
    parent: str | None = None


class Phrase(NamedTuple):
    """A phrase; `parent` names the phrase above it, None the root."""

    label: str
    function: str = ""
    parent: str | None = None


class _Extent(NamedTuple):
    """The words below a phrase: the first, the last, and how many."""

    first: int
    last: int
    n_words: int


def spell(text: str) -> str:
    """A label or a word as brackets can write it.

    Examples
    --------
    >>> spell("$("), spell("10 000")
    ('$-LRB-', '10_000')
    """
    return "_".join(_UNBROKEN.findall(escape(text)))


def category(label: str, function: str = "") -> str:
    """A phrase label; its own dashes become `_`, for a dash starts a function in Penn labels.

    Examples
    --------
    >>> category("NP"), category("R-SIMPX"), category("NP", "SB")
    ('NP', 'R_SIMPX', 'NP-SB')
    """
    label = spell(label).translate(_DASHES)
    return label if function in NO_FUNCTION else f"{label}-{spell(function)}"


def tree_of(
    words: list[Word], phrases: dict[str, Phrase], keep_functions: bool, line: int | None = None
) -> Tree:
    """Build the tree of a sentence; a graph that is no tree is a CorpusError with the reason.

    Examples
    --------
    >>> words = [Word("Dogs", "NN", "SB", "1"), Word("bark", "VV", "HD", "1"), Word("!", "$.")]
    >>> print(tree_of(words, {"1": Phrase("S")}, False))
    (VROOT (S (NN Dogs) (VV bark)) ($. !))
    """
    try:
        return _Graph(words, phrases).tree(keep_functions)
    except CorpusError as error:
        error.line = line
        raise


class _Graph:
    """One sentence: for each phrase its words and the phrases below it."""

    def __init__(self, words: list[Word], phrases: dict[str, Phrase]) -> None:
        if not words:
            msg = "expected a sentence with words, found none"
            raise CorpusError(msg, hint="remove the empty sentence")
        self.words, self.phrases = words, phrases
        self.roots = {
            name
            for name, phrase in phrases.items()
            if phrase.parent is None and phrase.label in ROOT_LABELS
        }
        self.words_of: dict[str | None, list[int]] = {name: [] for name in (None, *phrases)}
        self.phrases_of: dict[str | None, list[str]] = {name: [] for name in (None, *phrases)}
        for place, word in enumerate(words):
            self.words_of[self._parent(word.parent, word.word)].append(place)
        for name, phrase in phrases.items():
            if name not in self.roots:
                self.phrases_of[self._parent(phrase.parent, phrase.label)].append(name)

    def _parent(self, name: str | None, child: str) -> str | None:
        if name is not None and name not in self.phrases:
            msg = f"expected a phrase {name}, the parent of {child!r}, found none of that name"
            raise CorpusError(msg, hint="is the sentence complete?")
        return None if name in self.roots else name

    def tree(self, keep_functions: bool) -> Tree:
        order = self._top_down()
        self._lower_punctuation(self._extents(order))
        extents = self._extents(order)
        for name, (first, last, n_words) in extents.items():
            if last - first + 1 != n_words:
                label = self.phrases[name].label
                ends = f"{self.words[first].word!r} to {self.words[last].word!r}"
                msg = f"not supported: discontinuous ({label} {name} has a gap, {ends})"
                raise CorpusError(msg, hint="--skip-bad leaves such trees out")
        done: dict[str, Tree] = {}
        for name in reversed(order):
            phrase = self.phrases[name]
            label = category(phrase.label, phrase.function if keep_functions else "")
            done[name] = Tree._trusted(label, self._children(name, extents, done, keep_functions))
        kids = self._children(None, extents, done, keep_functions)
        return kids[0] if len(kids) == 1 else Tree._trusted(VIRTUAL_ROOT, kids)

    def _top_down(self) -> list[str]:
        order: list[str] = []
        ahead = list(self.phrases_of[None])
        while ahead:
            order.append(ahead.pop())
            ahead.extend(self.phrases_of[order[-1]])
        if len(order) + len(self.roots) < len(self.phrases):
            lost = next(n for n in self.phrases if n not in self.roots and n not in set(order))
            msg = f"expected a tree, but phrase {lost} ({self.phrases[lost].label}) is below itself"
            raise CorpusError(msg, hint="each phrase has one parent, up to the root")
        return order

    def _extents(self, order: Iterable[str]) -> dict[str, _Extent]:
        extents: dict[str, _Extent] = {}
        for name in reversed(list(order)):
            parts = [extents[kid] for kid in self.phrases_of[name]]
            parts += [_Extent(place, place, 1) for place in self.words_of[name]]
            if not parts:
                msg = f"expected words below phrase {name} ({self.phrases[name].label}), found none"
                raise CorpusError(msg, hint="remove the empty phrase")
            extents[name] = _Extent(
                min(part.first for part in parts),
                max(part.last for part in parts),
                sum(part.n_words for part in parts),
            )
        return extents

    def _lower_punctuation(self, extents: dict[str, _Extent]) -> None:
        stay: list[int] = []
        for place in self.words_of[None]:
            home = (
                None
                if any(map(str.isalnum, self.words[place].word))
                else self._around(place, extents)
            )
            (stay if home is None else self.words_of[home]).append(place)
        self.words_of[None] = stay

    def _around(self, place: int, extents: dict[str, _Extent]) -> str | None:
        """The lowest phrase with words on both sides of a place."""
        home: str | None = None
        while True:
            kids = self.phrases_of[home]
            inner = (kid for kid in kids if extents[kid].first < place < extents[kid].last)
            lower = next(inner, None)
            if lower is None:
                return home
            home = lower

    def _children(
        self,
        name: str | None,
        extents: dict[str, _Extent],
        done: dict[str, Tree],
        keep_functions: bool,
    ) -> tuple[Tree, ...]:
        kids = [(extents[kid].first, done[kid]) for kid in self.phrases_of[name]]
        for place in self.words_of[name]:
            word, tag = self.words[place], spell(self.words[place].tag)
            if keep_functions and word.function not in NO_FUNCTION:
                tag += f"-{spell(word.function)}"
            kids.append((place, Tree._trusted(tag, (spell(word.word),))))
        return tuple(tree for _, tree in sorted(kids, key=lambda kid: kid[0]))


def read_export(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream the trees of lines in the export format."""
    reader = _ExportReader(reading.keep_functions)
    for number, line in enumerate(lines, 1):
        try:
            yield from reader.take(number, line)
        except CorpusError as error:
            reading.note(error, number)
    if reader.start:
        msg = "expected #EOS to end the sentence that starts here: the text ended first"
        reading.note(CorpusError(msg, line=reader.start, hint="add #EOS"))


class _ExportReader:
    """One pass over the lines; after an error, reading continues with the next sentence."""

    def __init__(self, keep_functions: bool) -> None:
        self.keep_functions = keep_functions
        self.has_lemma: bool | None = None  # until a header or the first word says so
        self.start = 0  # the line of the #BOS of the sentence that is open
        self.is_lost = self.is_table = False
        self.n_characters = 0  # of the sentence that is open
        self.words: list[Word] = []
        self.phrases: dict[str, Phrase] = {}

    def take(self, number: int, line: str) -> Iterator[Tree]:
        fields = _UNBROKEN.findall(line.partition("%%")[0])
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
        if len(fields) < N_EXPORT_COLUMNS + self.has_lemma:
            msg = f"expected {N_EXPORT_COLUMNS + self.has_lemma} columns, found {len(fields)}"
            raise CorpusError(msg, hint=EXPORT_HINT)
        word, *rest = fields
        tag, _, function, parent = rest[self.has_lemma : self.has_lemma + 4]
        if not parent.isdecimal():
            at = line.index(parent, line.index(function)) + 1
            msg = f"expected the number of a parent, found {parent!r}"
            raise CorpusError(msg, column=at, hint=EXPORT_HINT)
        above = parent if parent.strip("0") else None
        if not _PHRASE.fullmatch(word):
            self.words.append(Word(word, tag, function, above))
        elif word[1:] not in self.phrases:
            self.phrases[word[1:]] = Phrase(tag, function, above)
        else:
            msg = f"expected one phrase {word} in a sentence, found another"
            raise CorpusError(msg, column=1, hint="number phrases from 500 on")


def read_tigerxml(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream the trees of lines; nothing after broken XML can be read."""
    reader = _TigerReader()
    try:
        for line in lines:
            reader.parser.Parse(line, False)
            yield from reader.finish(reading)
        reader.parser.Parse("", True)
    except expat.ExpatError as error:
        msg = f"expected XML, found {expat.ErrorString(error.code)}"
        hint = "nothing after this line can be read: correct the file here"
        reading.note(CorpusError(msg, line=error.lineno, column=error.offset + 1, hint=hint))
    yield from reader.finish(reading)
    if not reader.n_sentences:
        msg = "expected sentences <s> with <terminals>, found none"
        reading.note(CorpusError(msg, hint="of XML formats, only TIGER-XML is read"))


class _Sentence:
    """The content between `<s>` and `</s>`, and its first error."""

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


class _TigerReader:
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
        """The trees of all complete sentences; errors of a sentence are noted."""
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


def read_sinica(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream the clauses of lines; lines `#` without a clause are comments."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip()
        if not text or (text.startswith("#") and "(" not in text):
            continue
        try:
            yield _Clause(text, reading.keep_functions).tree()
        except CorpusError as error:
            reading.note(error, number)


class _Clause:
    """Reads one clause, with a stack of open phrases."""

    def __init__(self, text: str, keep_functions: bool) -> None:
        self.text = text
        self.keep_functions = keep_functions
        self.stack: list[tuple[str, list[Tree]]] = []

    def tree(self) -> Tree:
        start = _NUMBER.match(self.text)
        assert start is not None  # the pattern matches anything
        pending = ""  # a text whose kind depends on the next character
        at = start.end()
        for token in _TOKEN.finditer(self.text, start.end()):
            if token[0] == "(":
                self._open(pending.strip(), at)
            elif token[0] in {"|", ")"}:
                self._leaf(pending, at)
                if token[0] == ")":
                    done = self._close(token.start())
                    if done is not None:
                        marks = _MARK.findall(self.text, token.end())
                        beside = [Tree._trusted(tag, (spell(mark),)) for mark, tag in marks]
                        return Tree._trusted("", (done, *beside)) if beside else done
            is_text = token[0] not in {"(", ")", "|"}
            pending, at = (token[0], token.start()) if is_text else ("", token.end())
        if not self.stack:
            self._fail(f"expected a clause LABEL(...), found {self.text[:40]!r}", start.end())
        self._fail(f"expected {len(self.stack)} more ')'", len(self.text))

    def _open(self, text: str, at: int) -> None:
        role, _, label = text.rpartition(":")
        if not label or ":" in role:
            self._fail(f"expected a label or role:label before '(', found {text[:40]!r}", at)
        self.stack.append((category(label, role if self.keep_functions else ""), []))

    def _leaf(self, text: str, at: int) -> None:
        if not text.strip():
            return  # behind a phrase
        *role, tag, word = ["", *text.strip().split(":", 2)][-3:]
        if not tag or not word or not self.stack:
            self._fail(f"expected role:tag:word, found {text[:40]!r}", at)
        function = f"-{spell(role[0])}" if self.keep_functions and role[0] else ""
        self.stack[-1][1].append(Tree._trusted(spell(tag) + function, (spell(word),)))

    def _close(self, at: int) -> Tree | None:
        """End a phrase; the whole tree when it was the outermost."""
        if not self.stack:
            self._fail("expected LABEL( before ')'", at)
        label, kids = self.stack.pop()
        if not kids:
            self._fail(f"expected a word in {label}(), found none", at)
        tree = Tree._trusted(label, tuple(kids))
        if not self.stack:
            return tree
        self.stack[-1][1].append(tree)
        return None

    def _fail(self, message: str, at: int) -> NoReturn:
        raise CorpusError(message, column=at + 1, hint=SINICA_HINT)
