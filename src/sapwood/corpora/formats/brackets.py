"""Brackets in all dialects: Penn's own, lemmas, bare punctuation, codes, numbered words.

    tree   := '(' label? ( word | tree+ ) ')'

A tree may run over many lines; the reader says where it stopped. Outside trees, blank lines and
lines that start with `#`, `%`, `;`, `//` or `*x*` (the banner of old Penn files) are comments. A
bracket with nothing but punctuation, `(,)`, is a word that is its own tag.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sapwood.core.errors import CorpusError, SapwoodTypeError, describe
from sapwood.corpora.files import MAX_CHARACTERS, Reading
from sapwood.corpora.tree import Tree, rebuild

MAX_LINES = 2000  # lines after which an open tree is taken to have lost a bracket
# Lines after a broken tree are read again, on average at most this many times, since even a file of
# nothing but opening brackets must be read in linear time.
MAX_REREADS = 5
FREE_REREADS = 100_000

# One match is a whole `(tag word)`, an opening bracket with its label, a closing one, or a word.
# Only ASCII blanks separate: a no-break space belongs to its word.
_BLANK = r" \t\r\n\f\v"
_TOKEN = re.compile(
    rf"\(([^{_BLANK}()]+)[{_BLANK}]+([^{_BLANK}()]+)[{_BLANK}]*\)"
    rf"|\([{_BLANK}]*([^{_BLANK}()]*)|(\))|([^{_BLANK}()]+)"
)
COMMENT = re.compile(r"\s*(#|%|;|//|\*x\*|$)")

# Tag and word of a node without subtrees, from its label and the tokens after it; None: an error.
Leaf = Callable[[str, Sequence[str]], tuple[str, str] | None]
# `(()` and `())` are words that are brackets. Each is marked by a character of the same length
# that no text uses, so that columns stay right.
BRACKET_LEAF = re.compile(r"\(([()])\)")
MARKS = {"(": "(\ue000)", ")": "(\ue001)"}
FLORESTA = re.compile(r"(?P<function>[^\s()a-z+]+)\+(?P<form>[^\s()+]+)")
MEANT = {"\ue000": ("-LRB-", "-LRB-"), "\ue001": ("-RRB-", "-RRB-")}
CODES = frozenset({"CODE", "ID", "META", "METADATA"})
_EMPTY = re.compile(r"0|\*([^*]*\*)?(-.*)?")


def one_word(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
    """A leaf `(tag word)`, or `(,)` for punctuation.

    Examples
    --------
    >>> one_word("NN", ["dog"]), one_word("...", []), one_word("NN", [])
    (('NN', 'dog'), ('...', '...'), None)
    """
    if not label:
        return None
    if len(parts) == 1:
        return label, parts[0]
    is_mark = not parts and not any(map(str.isalnum, label))
    return (label, label) if is_mark else None


def is_comment(line: str) -> bool:
    """Whether a line outside trees says nothing about them; blank lines do not either."""
    return COMMENT.match(line) is not None


def read_penn(lines: Iterable[str], reading: Reading, leaf: Leaf = one_word) -> Iterator[Tree]:
    """Stream the trees of lines; labels stay as they are written."""
    yield from _Reader(lines, reading, leaf).trees()


def parse_brackets(text: object) -> Tree:
    """Read exactly one tree from a string."""
    if not isinstance(text, str):
        msg = f"expected brackets in a string, not {describe(text)}"
        raise SapwoodTypeError(msg, hint="files are read by sapwood.read_trees(path)")
    # not splitlines(), which also splits at characters that may stand inside a word
    trees = list(read_penn(io.StringIO(text), Reading("<text>")))
    if len(trees) != 1:
        raise CorpusError(f"expected one tree, found {len(trees)}", file="<text>")
    return trees[0]


class _Reader:
    """One pass over the lines of one file, with a stack of open nodes instead of recursion."""

    def __init__(self, lines: Iterable[str], reading: Reading, leaf: Leaf) -> None:
        self.lines = enumerate(lines, 1)
        self.again: list[tuple[int, str]] = []  # lines to read again after a bad tree, last first
        self.n_read = self.n_again = 0
        self.reading = reading
        self.leaf = leaf

    def trees(self) -> Iterator[Tree]:
        self._start_tree()
        while (item := self._next_line()) is not None or self.stack:
            try:
                if item is None:
                    raise self._bracket_error("the text ended first")
                yield from self._read_item(*item)
            except CorpusError as error:
                self._recover(error)

    def _read_item(self, number: int, line: str) -> Iterator[Tree]:
        if not self.stack:
            if is_comment(line):
                return
            self.seen.clear()
            self.n_characters = 0
        self.seen.append((number, line))
        yield from self._read_line(number, line)
        if not self.stack:
            return
        # Give up on a tree that will not end: it must not fill the memory.
        self.n_characters += len(line)
        if len(self.seen) > MAX_LINES:
            raise self._bracket_error(f"still open after {MAX_LINES:,} lines")
        if self.n_characters > MAX_CHARACTERS:
            raise self._bracket_error(f"still open after {MAX_CHARACTERS:,} characters")

    def _next_line(self) -> tuple[int, str] | None:
        if self.again:
            return self.again.pop()
        self.n_read += 1
        return next(self.lines, None)

    def _start_tree(self) -> None:
        self.stack: list[tuple[str, list[Tree | str], int, int]] = []
        self.seen: list[tuple[int, str]] = []
        self.n_characters = 0  # of the lines that hold the open tree

    def _read_line(self, number: int, line: str) -> Iterator[Tree]:
        stack, kids = self.stack, tuple[Any, ...]()
        for match in _TOKEN.finditer(line):
            kind = match.lastindex
            if kind == 2:
                label, kids = match[1], (match[2],)
            elif kind == 3:
                stack.append((match.group(3), [], number, match.start() + 1))
                continue
            elif kind == 4:
                label, kids = self._close(number, match.start())
            else:
                self._word(match.group(5), number, match.start())
                continue
            node = Tree._trusted(label, kids)
            if stack:
                stack[-1][1].append(node)
            else:
                if self.reading.started is not None:
                    self.reading.started[:] = [self.seen[0][0]]
                yield node
                self.seen = [(number, line)]  # the next tree may start on this line
                self.n_characters = 0

    def _word(self, word: str, number: int, at: int) -> None:
        if not self.stack:
            msg = f"expected '(' to start a tree, found {word!r}"
            hint = "one bracketed tree is (LABEL ...); `#` starts a comment"
            raise self._error(msg, number, at, hint)
        self.stack[-1][1].append(word)

    def _close(self, number: int, at: int) -> tuple[str, tuple[Any, ...]]:
        """Label and children of the innermost open node, or tag and word."""
        if not self.stack:
            msg = "expected '(' to start a tree, found ')'"
            raise self._error(msg, number, at, "one ')' too many?")
        label, kids, line, column = self.stack.pop()
        words = [kid for kid in kids if isinstance(kid, str)]
        if not words and kids:
            return label, tuple(kids)
        read = self.leaf(label, words) if len(words) == len(kids) else None
        if read is not None:
            return read[0], read[1:]
        if not kids:
            msg = f"expected a word or a tree after '({label}', found ')'"
            raise self._error(msg, number, at, "remove the empty brackets")
        found = f"{words[0]!r} among {len(kids)} parts"
        msg = f"expected one word or only trees under {label!r}, found {found}"
        raise self._error(msg, line, column - 1, "give each word a tag of its own, (TAG word)")

    def _error(self, message: str, line: int, at: int, hint: str) -> CorpusError:
        return CorpusError(message, file=self.reading.name, line=line, column=at + 1, hint=hint)

    def _bracket_error(self, how: str) -> CorpusError:
        _, _, line, column = self.stack[0]
        n_open = len(self.stack)
        msg = f"expected {n_open} more ')' to close the tree that starts here: {how}"
        return self._error(msg, line, column - 1, "add the missing bracket")

    def _recover(self, error: CorpusError) -> None:
        """Record a bad tree and continue at the next line with '(' first, or raise its error."""
        if self.reading.skipped is None:
            raise error
        behind = self.seen[1:] if self.stack else []
        self.reading.skipped.append(self._first_cause(error, behind))
        self._start_tree()
        if self.n_again > MAX_REREADS * self.n_read + FREE_REREADS:
            behind = behind[-1:]
        self.n_again += len(behind)
        self.again.extend(reversed(behind))
        while (item := self._next_line()) is not None:
            if item[1].startswith("("):
                self.again.append(item)
                return

    def _first_cause(self, error: CorpusError, behind: list[tuple[int, str]]) -> CorpusError:
        """The error to report: a lost bracket, if the lines of the error will be read again."""
        other = next((number for number, line in behind if line.startswith("(")), None)
        if other is None or error.line is None or error.line < other:
            return error
        return self._bracket_error(f"line {other} seems to start another")


def read_joined(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream plain brackets whose words may hold blanks: `(CD 1 000)` is the word `1_000`."""
    return read_penn(lines, reading, _join_words)


def _join_words(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
    return one_word(label, ["_".join(parts)] if parts else parts)


def read_cess(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream trees with leaves `(tag word lemma)` or `(,)`, without the lemmas."""

    def leaf(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
        return MEANT.get(label) or one_word(label, parts[:1] if len(parts) == 2 else parts)

    return read_penn(_mark_brackets(lines), reading, leaf)


def read_floresta(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream trees with labels `FUNCTION+form`, as `form` or, with functions, `form-FUNCTION`."""

    def rename(label: str) -> str:
        match = FLORESTA.fullmatch(label)
        if match is None:
            return label
        return f"{match['form']}-{match['function']}" if reading.keep_functions else match["form"]

    def leaf(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
        return MEANT.get(label) or _join_words(label, parts)

    def node(label: str, kids: tuple[Any, ...]) -> Tree:
        return Tree._trusted(rename(label), kids)

    for tree in read_penn(_mark_brackets(lines), reading, leaf):
        yield rebuild(tree, lambda tag: node(tag.label, tag.children), node) or tree


def _mark_brackets(lines: Iterable[str]) -> Iterator[str]:
    return (BRACKET_LEAF.sub(lambda leaf: MARKS[leaf[1]], line) for line in lines)


def read_historical(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream Penn-historical trees without wrappers, codes and comment blocks."""

    def leaf(node: Tree) -> Tree | None:
        return None if node.label in CODES or not node.label else node

    def phrase(label: str, kids: tuple[Tree, ...]) -> Tree | None:
        return None if label in CODES else Tree._trusted(label, kids)

    for tree in read_penn(_without_blocks(lines), reading, _join_words):
        kept = rebuild(tree, leaf, phrase)
        if kept is not None:
            is_wrapper = kept.label == "" and len(kept) == 1
            yield kept[0] if is_wrapper else kept


def read_historical_with_lemmas(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream Penn-historical trees with words `form-lemma` cut to their forms."""
    for tree in read_historical(lines, reading):
        yield _change_words(tree, psd_form)


def _without_blocks(lines: Iterable[str]) -> Iterator[str]:
    """Blank out blocks `/* ... */` and `/~* ... *~/`; lines and columns do not move."""
    end = None
    for line in lines:
        start = re.match(r"[ \t]*/(~?)\*", line) if end is None else None
        if start:
            end = f"*{start[1]}/"
        if end is None:
            yield line
            continue
        _, found, behind = line[start.end() if start else 0 :].partition(end)
        end = None if found else end
        yield " " * (len(line) - len(behind)) + behind if found else "\n"


def _change_words(tree: Tree, change: Callable[[str], str]) -> Tree:
    def leaf(node: Tree) -> Tree:
        return Tree._trusted(node.label, (change(node.word),))

    return rebuild(tree, leaf, Tree._trusted) or tree


def psd_form(leaf: str) -> str:
    """Cut a leaf `form-lemma` to its form.

    The last hyphen separates, except where form and lemma are the same and hold hyphens themselves
    (`---` is a hyphen with its lemma). Empty categories have no lemma.

    Examples
    --------
    >>> [psd_form(leaf) for leaf in ("$nar-hinn", ",-,", "---", "*T*-1", "0", "a-b-a-b")]
    ['$nar', ',', '-', '*T*-1', '0', 'a-b']
    """
    half = _half(leaf)
    if half:
        return half
    if _EMPTY.fullmatch(leaf) or not leaf.strip("-"):
        return leaf
    form = leaf.rpartition("-")[0] or leaf
    # A few quotation marks carry their lemma twice ("-"-").
    return form if any(map(str.isalnum, form)) else _half(form) or form


def _half(text: str) -> str | None:
    """The word of which `text` is `word-word`."""
    middle = len(text) // 2
    same = text[:middle] == text[middle + 1 :] and text[middle : middle + 1] == "-"
    return text[:middle] if same and middle else None


def read_numbered(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Stream trees with leaves `(tag n=word)`, which must be in the order of their numbers."""
    n_read = 0

    def counted() -> Iterator[str]:
        nonlocal n_read
        for n_read, line in enumerate(lines, 1):  # noqa: B007
            yield line

    for tree in read_penn(counted(), reading):
        numbered = [word.partition("=") for word in tree.words()]
        if [number for number, *_ in numbered] == [str(n) for n in range(len(numbered))]:
            yield _change_words(tree, lambda word: word.partition("=")[2])
        else:
            reading.note(_number_error(numbered), n_read)


def _number_error(numbered: list[tuple[str, str, str]]) -> CorpusError:
    wrong = next(i for i, (number, *_) in enumerate(numbered) if number != str(i))
    number, _, word = numbered[wrong]
    if not number.isdecimal():
        msg = f"expected a leaf (tag {wrong}=word), found {number!r}"
        return CorpusError(msg, hint="number all words from 0 on")
    msg = f"not supported: discontinuous (word {number}, {word!r}, stands at place {wrong})"
    return CorpusError(msg, hint="--skip-bad leaves such trees out")
