"""Penn brackets: a streaming reader that says where it stopped, and a writer.

    tree   := '(' label? ( word | tree+ ) ')'

A tree may run over many lines. Outside trees, blank lines and lines that start with `#`, `%`, `;`,
`//` or `*x*` (the banner of old Penn files) are comments. A bracket with nothing but punctuation,
`(,)`, is a word that is its own tag. `sapwood.corpus.formats` has the other notations.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from sapwood.arguments import as_items, describe
from sapwood.corpus.files import MAX_CHARACTERS, Reading, Source, lines_of, open_text, source_name
from sapwood.corpus.tree import Tree, as_tree
from sapwood.errors import CorpusError, SapwoodTypeError
from sapwood.outputs import open_output

MAX_LINES = 2000  # a tree still open after so many lines has lost a bracket
# Lines are read again behind a broken tree, but on average not more often than this: a file of
# nothing but opening brackets must end in linear time.
MAX_REREADS = 5
FREE_REREADS = 100_000

# One match is a whole `(tag word)`, an opening bracket with its label, a closing one, or a word.
# Only ASCII blanks separate: a no-break space belongs to its word.
_BLANK = r" \t\r\n\f\v"
_TOKEN = re.compile(
    rf"\(([^{_BLANK}()]+)[{_BLANK}]+([^{_BLANK}()]+)[{_BLANK}]*\)"
    rf"|\([{_BLANK}]*([^{_BLANK}()]*)|(\))|([^{_BLANK}()]+)"
)
_COMMENT = re.compile(r"\s*(#|%|;|//|\*x\*|$)")

# Tag and word of a node without subtrees, from its label and what stands behind it; None: an error.
Leaf = Callable[[str, Sequence[str]], tuple[str, str] | None]


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
    return _COMMENT.match(line) is not None


def read_trees(
    sources: Source | Iterable[Source],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    keep_functions: bool = False,
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[Tree]:
    """Stream the trees of files, folders, globs or open files, in order, as they are written.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    format
        How the trees are written, a name of `sapwood.corpus.formats`; None recognises it, for each
        file, from its beginning.
    encoding
        The encoding of the files, unless an XML file names its own.
    keep_functions
        Whether labels of formats that keep functions apart carry them, as in `NP-SBJ`.
    skipped
        When given, a broken tree is skipped and its error appended here; when None, it is raised.
    left_out
        When given, the files of folders that were passed over are appended.

    Raises
    ------
    CorpusError
        With file, line, column and what was expected.

    Examples
    --------
    >>> import io
    >>> [tree.label for tree in read_trees(io.StringIO("(S (X a)) (NP (X b) (Y c))"))]
    ['S', 'NP']
    """
    from sapwood.corpus.formats import read_lines, treebank_files  # which build on this module

    for source in treebank_files(sources, encoding, left_out):
        with open_text(source, encoding) as file:
            name = source_name(source)
            lines = lines_of(file, name)
            yield from read_lines(
                lines, name, format, skipped=skipped, keep_functions=keep_functions
            )


def read_bracket_lines(
    lines: Iterable[str], reading: Reading, leaf: Leaf = one_word
) -> Iterator[Tree]:
    """Stream the bracketed trees of lines that somebody else has opened.

    Parameters
    ----------
    lines
        Of a file or anything else.
    leaf
        What a node without subtrees is.
    """
    return _Reader(lines, reading, leaf).trees()


def as_trees(source: object) -> Iterable[Any]:
    """Several trees, given as such or as the path where they lie."""
    if isinstance(source, (str, Path)):
        return read_trees(source)
    return as_items(source, "trees, or the path of a file of them")


def parse_one(text: object) -> Tree:
    """Read exactly one tree from a string."""
    if not isinstance(text, str):
        msg = f"expected brackets in a string, not {describe(text)}"
        raise SapwoodTypeError(msg, hint="files are read by sapwood.read_trees(path)")
    # not splitlines(), which also splits at characters that may stand inside a word
    trees = list(read_bracket_lines(io.StringIO(text), Reading("<text>")))
    if len(trees) != 1:
        msg = f"expected one tree, found {len(trees)}"
        raise CorpusError(msg, file="<text>")
    return trees[0]


def write_trees(trees: Iterable[Tree], file: str | Path | IO[str], *, force: bool = False) -> int:
    """Write one tree a line and return how many; a path is written whole or not at all.

    Parameters
    ----------
    force
        Whether a file may be replaced that Sapwood did not write.
    """
    if isinstance(file, (str, Path)):
        with open_output(file, force=force) as out:
            return write_trees(trees, out)
    n_trees = 0
    for n_trees, tree in enumerate(as_items(trees, "trees"), 1):  # noqa: B007
        file.write(f"{as_tree(tree)}\n")
    return n_trees


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
                    how = "the text ended first"
                    raise self._bracket_error(how)
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
            how = f"still open after {MAX_LINES:,} lines"
            raise self._bracket_error(how)
        if self.n_characters > MAX_CHARACTERS:
            how = f"still open after {MAX_CHARACTERS:,} characters"
            raise self._bracket_error(how)

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
        stack = self.stack
        for match in _TOKEN.finditer(line):
            kind = match.lastindex
            if kind == 2:  # (tag word)
                label, word = match.group(1, 2)
                node = Tree._trusted(label, (word,))
            elif kind == 3:
                stack.append((match.group(3), [], number, match.start() + 1))
                continue
            elif kind == 4:
                node = self._close(number, match.start())
            else:
                self._word(match.group(5), number, match.start())
                continue
            if stack:
                stack[-1][1].append(node)
            else:
                yield node
                self.seen = [(number, line)]  # the next tree may start on this line
                self.n_characters = 0

    def _word(self, word: str, number: int, at: int) -> None:
        if not self.stack:
            msg = f"expected '(' to start a tree, found {word!r}"
            hint = "one bracketed tree is (LABEL ...); `#` starts a comment"
            raise self._error(msg, number, at, hint)
        self.stack[-1][1].append(word)

    def _close(self, number: int, at: int) -> Tree:
        if not self.stack:
            msg = "expected '(' to start a tree, found ')'"
            raise self._error(msg, number, at, "one ')' too many?")
        label, kids, line, column = self.stack.pop()
        words = [kid for kid in kids if isinstance(kid, str)]
        if not words and kids:
            return Tree._trusted(label, tuple(kids))
        read = self.leaf(label, words) if len(words) == len(kids) else None
        if read is not None:
            return Tree._trusted(read[0], (read[1],))
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
        """Note a bad tree and go on at the next line that starts with '(', or give up."""
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
        """The lost bracket, where an error stands in lines that will be read again."""
        other = next((number for number, line in behind if line.startswith("(")), None)
        if other is None or error.line is None or error.line < other:
            return error
        return self._bracket_error(f"line {other} seems to start another")
