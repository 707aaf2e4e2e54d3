"""Constraints on a tree as a line of text: given tags, and some of the brackets.

    tagged line   :=  ( word '/' tag? )*
    partial line  :=  ( word | bracket )*
    bracket       :=  '(' label? ( word | bracket )+ ')'

In a partial line, the token that is glued to an opening bracket is a label if the model knows it.
One that looks like a label, in capitals, but is unknown is refused; any other is a word. A bracket
followed by a blank has no label: `( a dog)` is some phrase.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sapwood.constituency.grammar.constraints import KnownLabels, PartialSentence, check_label
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.tree import ROOT_LABELS, Tree, clean_label, clean_tag, cut_index, is_empty

_BLANK = r" \t\r\n\f\v"  # only ASCII blanks separate words, as in treebanks
_WORD = re.compile(rf"[^{_BLANK}]+")
_TOKEN = re.compile(rf"\(([^{_BLANK}()]*)|(\))|([^{_BLANK}()]+)")
_ONE_WORD = re.compile(rf"[{_BLANK}]+([^{_BLANK}()]+)[{_BLANK}]*\)")
_NOTHING = re.compile(rf"[{_BLANK}]*\)")
_LABEL_LIKE = re.compile(r"-?[A-Z][A-Z0-9$|&+=-]*")


class LinePlace(NamedTuple):
    """The file and the line of a sentence, which errors name."""

    file: str | None = None
    line: int | None = None

    def error(self, message: str, at: int, hint: str) -> CorpusError:
        """An error at a character of the line, counted from 0."""
        return CorpusError(message, file=self.file, line=self.line, column=at + 1, hint=hint)

    def check(self, label: str, labels: frozenset[str], what: str, at: int, more: str = "") -> None:
        """Refuse a label that is not among some; the hint lists the nearest of them."""
        try:
            check_label(label, labels, what)
        except SapwoodError as error:
            raise self.error(error.message, at, f"{error.hint}{more}") from None


def read_tagged(
    text: str,
    known: KnownLabels,
    place: LinePlace = LinePlace(),  # noqa: B008 - it is immutable
) -> PartialSentence:
    """Read a line of `word/TAG`: the last slash separates, and `word/` leaves a word free.

    Parameters
    ----------
    known
        The labels of the model; any other tag is refused.

    Examples
    --------
    >>> known = KnownLabels(frozenset(), frozenset({"DT", "NN", "CD"}))
    >>> read_tagged("the/DT 1/2/CD dogs/", known)[:2]
    (['the', '1/2', 'dogs'], ['DT', 'CD', None])
    """
    words: list[str] = []
    tags: list[str | None] = []
    for match in _WORD.finditer(text):
        word, slash, tag = match[0].rpartition("/")
        if not slash or not word:
            hint = "the last slash separates word and tag; word/ leaves a word free"
            raise place.error(f"expected word/TAG, found {match[0]!r}", match.start(), hint)
        found = _known_tag(tag, known)
        if tag and found is None:
            what = f"the tag of {word!r}"
            place.check(tag, known.tags, what, match.start() + len(word) + 1)
        words.append(word)
        tags.append(found)
    return PartialSentence(words, tags)


def tags_of_tree(
    tree: Tree, known: KnownLabels, file: str | None = None, number: int = 1
) -> PartialSentence:
    """The words of a cleaned tree with its own tags; `number` is the tree's in its file.

    Examples
    --------
    >>> known = KnownLabels(frozenset(), frozenset({"DT", "NN"}))
    >>> tags_of_tree(Tree.parse("(NP (DT a) (NN dog))"), known)[:2]
    (['a', 'dog'], ['DT', 'NN'])
    """
    words, tags = tree.words(), tree.tags()
    found = [_known_tag(tag, known) for tag in tags]
    for word, tag, one in zip(words, tags, found, strict=True):
        if one is None:
            try:
                check_label(tag, known.tags, f"tree {number}: the tag of {word!r}")
            except SapwoodError as error:
                raise CorpusError(error.message, file=file, hint=error.hint) from None
    return PartialSentence(words, found)


def read_bracketing(
    text: str,
    known: KnownLabels,
    place: LinePlace = LinePlace(),  # noqa: B008 - it is immutable
) -> PartialSentence:
    """Read a bracketing in which any bracket, label or tag may be missing.

    `(NP the girl)` asks for an NP, `(a dog)` for some phrase, `(NN dog)` for a tag; other words are
    free. Function tags of labels, empty elements and `X` over `X` go, as in cleaning. A bracket
    around everything without a label, or with that of a root, says nothing.

    Parameters
    ----------
    known
        The labels of the model.

    Raises
    ------
    CorpusError
        With file, line and column, where a bracket or a word is missing or a label is unknown.

    Examples
    --------
    >>> known = KnownLabels(frozenset({"NP", "VP"}), frozenset({"DT", "NN"}))
    >>> found = read_bracketing("( (NP the girl) saw (a (NN dog)) )", known)
    >>> print(*found.words), found.tags, found.spans
    the girl saw a dog
    (None, [None, None, None, None, 'NN'], [(0, 2, 'NP'), (3, 5, None)])
    """
    return _Line(text, known, place).read()


@dataclass
class _Bracket:
    """A bracket that is still open: where it began, and its label."""

    column: int
    start: int  # number of words before it
    label: str | None
    is_root: bool  # whether it may be the bracket around everything that says nothing
    number: int  # among all brackets of the line, by where they open
    is_filled: bool = False  # whether a word, a bracket or an empty element was in it


class _Line:
    """One partial line, read from left to right with a stack of open brackets."""

    def __init__(self, text: str, known: KnownLabels, place: LinePlace) -> None:
        self.text, self.known, self.place = text, known, place
        self.words: list[str] = []
        self.tags: list[str | None] = []
        self.stack: list[_Bracket] = []
        self.closed: list[tuple[_Bracket, int]] = []  # with the number of words before its end

    def read(self) -> PartialSentence:
        at = 0
        while (match := _TOKEN.search(self.text, at)) is not None:
            at = match.end()
            if match[2]:
                self._close(match.start())
            elif match[3]:
                self._add(match[3])
            else:
                at = self._open(match[1], match.start(), at)
        if self.stack:
            count = len(self.stack)
            hint = "add the missing bracket; every sentence is one line"
            raise self.place.error(
                f"expected {count} more ')' to close the bracket that opens here",
                self.stack[0].column, hint,
            )  # fmt: skip
        tags = self.tags if any(self.tags) else None
        return PartialSentence(self.words, tags, list(self._spans()))

    def _spans(self) -> Iterator[tuple[int, int, str | None]]:
        """The requested phrases, outermost first; a label right above itself counts once."""
        last: dict[tuple[int, int], str | None] = {}
        for bracket, end in sorted(self.closed, key=lambda pair: pair[0].number):
            span = (bracket.start, end)
            is_whole = span == (0, len(self.words))
            if bracket.start == end or (bracket.is_root and is_whole):
                continue
            if span not in last or bracket.label not in {None, last[span]}:
                yield *span, bracket.label
                last[span] = bracket.label or last.get(span)

    def _add(self, word: str, tag: str | None = None) -> None:
        self.words.append(word)
        self.tags.append(tag)
        if self.stack:
            self.stack[-1].is_filled = True

    def _open(self, token: str, column: int, at: int) -> int:
        """Open a bracket, or read a whole `(TAG word)`; where reading continues."""
        one_word = _ONE_WORD.match(self.text, at)
        is_alone = _NOTHING.match(self.text, at) is not None
        is_outer = all(bracket.is_root for bracket in self.stack)
        # the label that the model knows a phrase by, with or without function tags
        phrase = _first_known(token, self.known.phrases, clean_label)
        tag = _known_tag(token, self.known)
        is_root = is_outer and token in ROOT_LABELS and bool(token or not self.stack)
        if one_word and token and not is_root:
            is_label = bool(phrase or tag or _LABEL_LIKE.fullmatch(token))
            if is_label and is_empty(token, one_word[1]):
                if self.stack:
                    self.stack[-1].is_filled = True
                return one_word.end()
            if tag is not None:
                self._add(one_word[1], tag)
                return one_word.end()
        if is_alone and token and tag and not any(map(str.isalnum, token)):
            self._add(token, tag)  # `(,)`, a mark that is its own tag
            return self.text.index(")", at) + 1
        is_word = bool(token) and not is_root and self._is_word(token, phrase, tag, column)
        label = None if is_root or is_word else phrase
        is_silent = is_root or (label is None and not self.stack)
        number = len(self.stack) + len(self.closed)
        self.stack.append(_Bracket(column, len(self.words), label, is_silent, number))
        if is_word:
            self._add(token)
        return at

    def _is_word(self, token: str, phrase: str | None, tag: str | None, column: int) -> bool:
        """Whether the token after a bracket is a word, not the label of a phrase."""
        blank = f"; before a word, put a blank behind the bracket: `( {token}`"
        if phrase is not None:
            return False
        if tag is not None and any(map(str.isalnum, token)):
            hint = f"a tag stands over one word, ({tag} word){blank}"
            raise self.place.error(f"{token} is a tag, found over no single word", column, hint)
        if tag is None and _LABEL_LIKE.fullmatch(token):
            one_word = _ONE_WORD.match(self.text, column + 1 + len(token))
            labels = self.known.phrases | (self.known.tags if one_word else frozenset())
            self.place.check(token, labels, "the label", column + 1, blank)
        return True

    def _close(self, column: int) -> None:
        if not self.stack:
            raise self.place.error("expected no more ')'", column, "one ')' too many?")
        bracket = self.stack.pop()
        if not bracket.is_filled:
            found = "expected a word or a bracket before ')'"
            raise self.place.error(found, column, "remove the empty brackets")
        if self.stack:
            self.stack[-1].is_filled = True
        self.closed.append((bracket, len(self.words)))


def _known_tag(label: str, known: KnownLabels) -> str | None:
    return _first_known(label, known.tags, clean_tag)


def _first_known(label: str, known: frozenset[str], cut: Callable[[str], str]) -> str | None:
    if label in known:
        return label
    if not _LABEL_LIKE.fullmatch(label):  # `S-shaped` is no `S`
        return None
    return next((x for x in (cut_index(label), cut(label)) if x in known), None)
