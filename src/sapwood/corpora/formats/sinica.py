"""The notation of the Sinica Treebank: one clause a line, roles before categories, bars between.

    #1:1.[0] S(agent:NP(Head:Nh:我)|Head:VC:看|goal:NP(Head:Na:書))#。(PERIODCATEGORY)

The number before the clause goes; the marks behind it become its sisters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from sapwood.core.errors import CorpusError
from sapwood.corpora.files import Reading
from sapwood.corpora.formats.graph import category, spell
from sapwood.corpora.tree import Tree

_NUMBER = re.compile(r"\s*(#\d[^\s()]*\s+)?")
_TOKEN = re.compile(r"[()|]|[^()|]+")
# Only where one can begin, and nothing is given back: a long line is not read from everywhere.
_MARK = re.compile(r"(?<=[\s#)])([^\s#()]++|[()])\((\w++)\)")
HINT = "a clause is LABEL(role:TAG:word|role:LABEL(...))"


def read(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
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
    """One line, and the phrases that are open while it is read."""

    def __init__(self, text: str, keep_functions: bool) -> None:
        self.text = text
        self.keep_functions = keep_functions
        self.stack: list[tuple[str, list[Tree]]] = []

    def tree(self) -> Tree:
        start = _NUMBER.match(self.text)
        assert start is not None  # the pattern matches anything
        waiting = ""  # a text of which the next character tells what it is
        at = start.end()
        for token in _TOKEN.finditer(self.text, start.end()):
            if token[0] == "(":
                self._open(waiting.strip(), at)
            elif token[0] in {"|", ")"}:
                self._leaf(waiting, at)
                if token[0] == ")":
                    done = self._close(token.start())
                    if done is not None:
                        marks = _MARK.findall(self.text, token.end())
                        beside = [Tree._trusted(tag, (spell(mark),)) for mark, tag in marks]
                        return Tree._trusted("", (done, *beside)) if beside else done
            is_text = token[0] not in {"(", ")", "|"}
            waiting, at = (token[0], token.start()) if is_text else ("", token.end())
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
        raise CorpusError(message, column=at + 1, hint=HINT)
