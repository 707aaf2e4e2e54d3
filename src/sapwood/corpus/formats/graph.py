"""Trees that are listed as nodes with their parents: put together, or refused as discontinuous.

Punctuation that such treebanks hang on the root, in the middle of the sentence, goes into the
lowest phrase around it; it says nothing about the sentence and would break nearly every phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sapwood.corpus.clean import ROOT_LABELS
from sapwood.corpus.tree import Tree, escape
from sapwood.errors import CorpusError

NO_FUNCTION = frozenset({"", "-", "--"})
ROOT = "VROOT"
_UNBROKEN = re.compile(r"[^ \t\r\n\f\v]+")  # other blanks belong to their words, as in brackets
_DASHES = str.maketrans("-=", "__")


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
    """Put a sentence together.

    Parameters
    ----------
    words
        From left to right.
    phrases
        By name, in any order.
    keep_functions
        Whether labels carry their functions.
    line
        Where the sentence starts, for errors.

    Raises
    ------
    CorpusError
        For a parent that is missing, a cycle, a phrase without words, and a
        phrase of which the words do not stand together.

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
        self._check(extents)
        done: dict[str, Tree] = {}
        for name in reversed(order):
            phrase = self.phrases[name]
            label = category(phrase.label, phrase.function if keep_functions else "")
            done[name] = Tree._trusted(label, self._children(name, extents, done, keep_functions))
        kids = self._children(None, extents, done, keep_functions)
        return kids[0] if len(kids) == 1 else Tree._trusted(ROOT, kids)

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

    def _check(self, extents: dict[str, _Extent]) -> None:
        for name, (first, last, n_words) in extents.items():
            if last - first + 1 != n_words:
                label = self.phrases[name].label
                ends = f"{self.words[first].word!r} to {self.words[last].word!r}"
                msg = f"not supported: discontinuous ({label} {name} has a gap, {ends})"
                raise CorpusError(msg, hint="--skip-bad leaves such trees out")

    def _children(
        self,
        name: str | None,
        extents: dict[str, _Extent],
        done: dict[str, Tree],
        keep_functions: bool,
    ) -> tuple[Tree, ...]:
        kids = [(extents[kid].first, done[kid]) for kid in self.phrases_of[name]]
        kids += [(place, _leaf(self.words[place], keep_functions)) for place in self.words_of[name]]
        return tuple(tree for _, tree in sorted(kids, key=lambda kid: kid[0]))


def _leaf(word: Word, keep_functions: bool) -> Tree:
    tag = spell(word.tag)
    has_function = keep_functions and word.function not in NO_FUNCTION
    return Tree._trusted(
        f"{tag}-{spell(word.function)}" if has_function else tag, (spell(word.word),)
    )
