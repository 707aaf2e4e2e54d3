"""Brackets in their dialects: lemmas, bare punctuation, codes, numbered words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sapwood.corpus.files import Reading
from sapwood.corpus.penn import is_comment, one_word, read_bracket_lines
from sapwood.corpus.tree import Tree, rebuild
from sapwood.errors import CorpusError

_LEAF = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)(\s+[^\s()]+)?\s*\)")
N_LEAVES = 5  # that must have a lemma before lemmas are believed in
MOST = 0.8  # of the leaves that must look alike


# -- recognising ----------------------------------------------------------------------------------


def is_penn(head: str) -> bool:
    """Whether the first line that is no comment starts a bracket."""
    lines = head.split("\n")
    return next((line for line in lines if not is_comment(line)), "").lstrip().startswith("(")


def is_numbered(head: str) -> bool:
    """Whether the words carry their places, `0=The`, as discontinuous brackets write them."""
    return is_penn(head) and _most_words(head, r"\d+=.+")


def is_historical(head: str) -> bool:
    """Whether there are `(ID text,number)` by trees, `(CODE <x>)` in them, or comment blocks."""
    return _HISTORICAL.search(head) is not None


def is_historical_with_lemmas(head: str) -> bool:
    """Whether, besides, the words carry their lemmas, `dogs-dog`."""
    return is_historical(head) and _most_words(_CODE.sub("", head), r".+-.+|\*.*|0")


def is_floresta(head: str) -> bool:
    """Whether labels are `FUNCTION+form`."""
    labels = re.findall(r"\(([^\s()]*\w[^\s()]*)", head) if is_penn(head) else []
    n_joint = sum(_FLORESTA.fullmatch(label) is not None for label in labels)
    return n_joint > 0 and n_joint >= MOST * len(labels)


def is_cess(head: str) -> bool:
    """Whether the leaves are `(tag word lemma)`; a few alone may as well be mistakes."""
    lemmas = [bool(leaf[3]) for leaf in _LEAF.finditer(head)] if is_penn(head) else []
    return sum(lemmas) >= max(N_LEAVES, MOST * len(lemmas))


def _most_words(head: str, pattern: str) -> bool:
    words = [leaf[2] for leaf in _LEAF.finditer(head)]
    n_like = sum(re.fullmatch(pattern, word) is not None for word in words)
    return n_like > 0 and n_like >= MOST * len(words)


# -- Penn -----------------------------------------------------------------------------------------


def read_penn(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Plain brackets; labels stay as they are written."""
    return read_bracket_lines(lines, reading)


def read_joined(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Plain brackets in which a word may hold blanks: `(CD 1 000)` is the word `1_000`."""
    return read_bracket_lines(lines, reading, _join_words)


def _join_words(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
    return one_word(label, ["_".join(parts)] if parts else parts)


# -- CESS and Floresta ----------------------------------------------------------------------------

# `(()` and `())` are words that are brackets. Each is marked by a character of the same length
# that no text uses, so that columns stay right.
_BRACKET_LEAF = re.compile(r"\(([()])\)")
_MARKS = {"(": "(\ue000)", ")": "(\ue001)"}
_MEANT = {"\ue000": ("-LRB-", "-LRB-"), "\ue001": ("-RRB-", "-RRB-")}
_FLORESTA = re.compile(r"(?P<function>[^\s()a-z+]+)\+(?P<form>[^\s()+]+)")


def read_cess(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Leaves `(tag word lemma)` or, for punctuation, `(,)`; the lemma goes."""

    def leaf(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
        return _MEANT.get(label) or one_word(label, parts[:1] if len(parts) == 2 else parts)

    return read_bracket_lines(_mark_brackets(lines), reading, leaf)


def read_floresta(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Labels `FUNCTION+form`, of which the form stays, or `form-FUNCTION`; punctuation `(,)`."""

    def rename(label: str) -> str:
        match = _FLORESTA.fullmatch(label)
        if match is None:
            return label
        return f"{match['form']}-{match['function']}" if reading.keep_functions else match["form"]

    def leaf(label: str, parts: Sequence[str]) -> tuple[str, str] | None:
        return _MEANT.get(label) or _join_words(label, parts)

    def node(label: str, kids: tuple[Any, ...]) -> Tree:
        return Tree._trusted(rename(label), kids)

    for tree in read_bracket_lines(_mark_brackets(lines), reading, leaf):
        yield rebuild(tree, lambda tag: node(tag.label, tag.children), node) or tree


def _mark_brackets(lines: Iterable[str]) -> Iterator[str]:
    return (_BRACKET_LEAF.sub(lambda leaf: _MARKS[leaf[1]], line) for line in lines)


# -- Penn-historical ------------------------------------------------------------------------------

_HISTORICAL = re.compile(r"\(ID\s+[^\s(),]+,[^\s()]+\s*\)|\(CODE\s+[<{]|^[ \t]*/~?\*", re.MULTILINE)
_CODE = re.compile(r"\((ID|CODE)\s+[^()]*\)")
_CODES = frozenset({"CODE", "ID", "META", "METADATA"})
_EMPTY = re.compile(r"0|\*([^*]*\*)?(-.*)?")


def read_historical(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Wrappers, codes and comment blocks go; words stay as they are."""

    def leaf(node: Tree) -> Tree | None:
        return None if node.label in _CODES or not node.label else node

    def phrase(label: str, kids: tuple[Tree, ...]) -> Tree | None:
        return None if label in _CODES else Tree._trusted(label, kids)

    for tree in read_bracket_lines(_without_blocks(lines), reading, _join_words):
        kept = rebuild(tree, leaf, phrase)
        if kept is not None:
            is_wrapper = kept.label == "" and len(kept) == 1
            yield kept[0] if is_wrapper else kept


def read_historical_with_lemmas(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Penn-historical brackets of which the words are also cut to their forms."""
    for tree in read_historical(lines, reading):
        yield _change_words(tree, psd_form)


def _without_blocks(lines: Iterable[str]) -> Iterator[str]:
    """Blank out blocks `/* ... */` and `/~* ... *~/`; lines and columns stay what they were."""
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


# -- numbered words -------------------------------------------------------------------------------


def read_numbered(lines: Iterable[str], reading: Reading) -> Iterator[Tree]:
    """Brackets with leaves `(tag n=word)`, which must stand in the order of their numbers."""
    places = _Places(lines)
    for tree in read_bracket_lines(places, reading):
        numbered = [word.partition("=") for word in tree.words()]
        if [number for number, *_ in numbered] == [str(n) for n in range(len(numbered))]:
            yield _change_words(tree, lambda word: word.partition("=")[2])
        else:
            reading.note(_number_error(numbered), places.number)


class _Places:
    """Lines, with the number of the last one that was read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        for self.number, line in enumerate(self.lines, 1):  # noqa: B020
            yield line


def _number_error(numbered: list[tuple[str, str, str]]) -> CorpusError:
    wrong = next(i for i, (number, *_) in enumerate(numbered) if number != str(i))
    number, _, word = numbered[wrong]
    if not number.isdecimal():
        msg = f"expected a leaf (tag {wrong}=word), found {number!r}"
        return CorpusError(msg, hint="number all words from 0 on")
    msg = f"not supported: discontinuous (word {number}, {word!r}, stands at place {wrong})"
    return CorpusError(msg, hint="--skip-bad leaves such trees out")
