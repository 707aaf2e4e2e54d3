"""Running text, to its sentences and words, each with its place in the text.

Text is cut three times. Empty lines and line ends separate **paragraphs**, but the lines of a
hard-wrapped paragraph are joined. A paragraph is split into **sentences** by sentencex, which knows
the abbreviations of English; quotation marks, and brackets without a partner, are hidden from it,
because no sentence would end between two that are far apart. A tokenizer cuts a sentence into
**words**. Offsets count the characters of the whole text from 0 and are half-open.
"""

# ruff: noqa: RUF001 - quotes that look alike are what this file is about

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.tokenize import Token, Tokenizer

Place = tuple[int, int]


class Splitter(Protocol):
    """Any function from the text of one paragraph to its sentences, in order."""

    def __call__(self, text: str, /) -> Iterable[str]:
        """The sentences of one paragraph."""


class TextSentence(NamedTuple):
    """A sentence of running text: its words, and the offsets of their characters.

    Attributes
    ----------
    words
        As the model's treebank writes them.
    offsets
        Start and end of each word in the whole text; the text between them is the word as the
        user wrote it.
    text
        The sentence as the user wrote it.
    start
        Offset of the first character of the sentence in the whole text.
    """

    words: list[str]
    offsets: list[Place]
    text: str
    start: int

    def place(self, start: int, end: int) -> Place:
        """The offsets of the phrase of the words from `start` to before `end`."""
        if start >= end:  # a phrase without words
            at = self.offsets[start][0] if start < len(self.offsets) else self.start
            return at, at
        return self.offsets[start][0], self.offsets[end - 1][1]

    def words_text(self, start: int, end: int) -> str:
        """The text of a phrase as the user wrote it."""
        first, last = self.place(start, end)
        return self.text[first - self.start : last - self.start]


# -- paragraphs -----------------------------------------------------------------------------------

_SHORTEST, _WIDEST = 40, 120  # characters of the lines of hard-wrapped text
_MOST_LINES = 300  # of a paragraph that are held in memory
_ENDED = re.compile(r"[.!?…:][\"'”’»)\]]*\s*$")


class Paragraph(NamedTuple):
    """A paragraph, and the offset of its first character in the text."""

    start: int
    text: str


def paragraphs(lines: Iterable[str]) -> Iterator[Paragraph]:
    r"""Cut lines into paragraphs: each line is one, unless it was wrapped by hand or by a program.

    The lines between two empty ones are one paragraph where each of them has 40 to 120 characters
    (the last may be shorter), none had room for the first word of the next, and one without a mark
    at its end goes on in lower case. Other lines pass as soon as that is clear.

    Examples
    --------
    >>> [one.text for one in paragraphs(["A heading\n", "\n", "Two sentences. Here.\n", "More."])]
    ['A heading\n', 'Two sentences. Here.\n', 'More.']
    >>> wrapped = ["It was late when they came to the house by\n", "the river, and nobody spoke.\n"]
    >>> len(list(paragraphs(wrapped)))
    1
    """
    block: list[Paragraph] = []  # the lines since the last empty one, while they may be wrapped
    at, is_open = 0, True
    for line in lines:
        here = Paragraph(at, line)
        at += len(line)
        if not line.strip():
            yield from _unwrap(block)
            block, is_open = [], True
        elif is_open:
            block.append(here)
            if not _may_be_wrapped(block):
                yield from block
                block, is_open = [], False
        else:
            yield here
    yield from _unwrap(block)


def _may_be_wrapped(block: list[Paragraph]) -> bool:
    """Whether no line is too long or, before the last, too short, or had room for one more word."""
    texts = [one.text.strip() for one in block]
    width = max(map(len, texts))
    return (
        len(texts[0]) >= _SHORTEST
        and width <= _WIDEST
        and len(block) <= _MOST_LINES
        and all(
            len(one) >= _SHORTEST and len(one) + 1 + len(two.split(None, 1)[0]) > width
            for one, two in pairwise(texts)
        )
    )


def _unwrap(block: list[Paragraph]) -> list[Paragraph]:
    """Join a block to one paragraph if a line continues in lower case; else keep its lines."""
    if any(
        two.text.lstrip()[0].islower() and not _ENDED.search(one.text)
        for one, two in pairwise(block)
    ):
        return [Paragraph(block[0].start, "".join(one.text for one in block))]
    return block


# -- sentences ------------------------------------------------------------------------------------

_FARTHEST = 100  # characters between the two brackets of a pair inside a sentence
_QUOTES = frozenset('"“”„«»')
_APOSTROPHES = frozenset("'’‘")
_CLOSING = frozenset("\"'”’»)]}")
_HALF = re.compile("[\ud800-\udfff]")
_ALONE = re.compile(r"(?<=[^\s.!?]\s)[.!?]+(?=\s+[^\s.!?\"'”’»)\]`])")
_LANGUAGE = "en"


def split_english(text: str) -> list[str]:
    """The sentences of a paragraph of English, by sentencex with quotation marks hidden from it.

    In text that is tokenised already, a mark between blanks ends a sentence too.

    Examples
    --------
    >>> split_english('Mr. Lee said: "Go away." He left! See http://a.b for more.')
    ['Mr. Lee said: "Go away."', ' He left!', ' See http://a.b for more.']
    """
    from sentencex import get_sentence_boundaries

    kept = _visible(text)
    # sentencex 1.0.32 fails at a blank of several bytes behind an initial, and at half a surrogate
    visible = _HALF.sub("~", re.sub(r"\s", " ", "".join([text[i] for i in kept])))
    places = {match.end() for match in _ALONE.finditer(text)}
    for boundary in get_sentence_boundaries(_LANGUAGE, visible)[:-1]:
        n_before = len(visible[: boundary["end_index"]].rstrip())
        last = end = kept[n_before - 1] + 1 if n_before else 0
        while end < len(text) and text[end] in _CLOSING:
            end += 1
        # "Why?" he asked: in lower case, the sentence continues after the quotation
        goes_on = end > last and text[end : end + 40].lstrip()[:1].islower()
        if end and not goes_on:
            places.add(end)
    cuts = [0, *sorted(places - {len(text)}), len(text)]
    return [text[i:j] for i, j in pairwise(cuts)]


def _visible(text: str) -> list[int]:
    """Numbers of the characters that the search for ends sees."""
    hidden, opened = set(), []
    for i, character in enumerate(text):
        if character in _QUOTES:
            hidden.add(i)
        elif character in _APOSTROPHES:
            if not (text[max(i - 1, 0) : i].isalnum() and text[i + 1 : i + 2].isalnum()):
                hidden.add(i)
        elif character in "([{":
            opened.append(i)
        elif character in ")]}":
            first = opened.pop() if opened else i
            if first == i or i - first > _FARTHEST:
                hidden |= {first, i}
    hidden.update(opened)
    return [i for i in range(len(text)) if i not in hidden]


def sentence_places(text: str, split: Splitter | None = None) -> list[Place]:
    """Start and end of the sentences of a paragraph, without the blanks around them.

    Parameters
    ----------
    split
        A function from the paragraph to its sentences, in order and spelt as there; by
        default `split_english`.

    Examples
    --------
    >>> sentence_places("It rains. We stay.")
    [(0, 9), (10, 18)]
    """
    places, at = [], 0
    for one in (split or split_english)(text):
        if not isinstance(one, str) or (start := text.find(one.strip(), at)) < 0:
            msg = f"the splitter returned {one!r:.80}, which is no part of the text in its place"
            raise SapwoodError(
                msg, hint="a splitter takes a paragraph and returns its sentences unchanged"
            )
        at = start + len(one.strip())
        if at > start:
            places.append((start, at))
    return places


# -- words ----------------------------------------------------------------------------------------

# Characters of a text that the words of treebanks may represent.
_WRITTEN = {
    "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}",
    "``": '"“„«', "''": '"”»', '"': '"“”„«»', "`": "'‘", "'": "'’", "...": "…", "--": "—–",
}  # fmt: skip


def locate_words(text: str, words: Sequence[str]) -> list[Token]:
    """Locate the words of any tokenizer in its input text.

    Words are found as they are, or with the marks that treebanks respell, in any case. A word that
    is not found gets all the text between its neighbours.

    Examples
    --------
    >>> [tuple(token) for token in locate_words("The (old", ["the", "-LRB-", "old"])]
    [('the', 0, 3), ('-LRB-', 4, 5), ('old', 5, 8)]
    >>> locate_words("2 dogs", ["two", "dogs"])[0]
    Token(word='two', start=0, end=1)
    """
    places: list[Place | None] = []
    at = 0
    for word in words:
        place = _find(text, word, at)
        places.append(place)
        at = at if place is None else place[1]
    found: list[Token] = []
    for number, (word, place) in enumerate(zip(words, places, strict=True)):
        if place is None:
            start = next((p[1] for p in reversed(places[:number]) if p is not None), 0)
            end = next((p[0] for p in places[number:] if p is not None), len(text))
            gap = text[start:end]
            start += len(gap) - len(gap.lstrip())
            place = (start, start + len(gap.strip()))  # noqa: PLW2901
        found.append(Token(word, *place))
    return found


def _find(text: str, word: str, at: int) -> Place | None:
    start = at + len(text[at:]) - len(text[at:].lstrip())
    plain = word.replace("\\/", "/")
    for one in (word, plain):
        if text[start : start + len(one)].lower() == one.lower():
            return start, start + len(one)
    if start < len(text) and text[start] in _WRITTEN.get(word, ""):
        return start, start + 1
    first = text.find(plain, start)
    return None if first < 0 else (first, first + len(plain))


def text_sentences(
    lines: Iterable[str],
    tokenize: Tokenizer,
    split: Splitter | None = None,
    *,
    one_per_line: bool = False,
    name: str | None = None,
) -> Iterator[TextSentence]:
    r"""The sentences of running text with their words and the offsets of these.

    Parameters
    ----------
    lines
        With their line ends, as they are in the text.
    tokenize
        A function from the text of a sentence to its words; one with a method `tokens` gives
        their places itself.
    split
        A function from a paragraph to its sentences; by default `split_english`.
    one_per_line
        Whether each line is a sentence; an empty line is then one without words.
    name
        The file, for errors.

    Examples
    --------
    >>> from sapwood.corpora.tokenize import PennTokenizer
    >>> for sentence in text_sentences(["It's late. Go (home)!\n"], PennTokenizer()):
    ...     print(sentence.words, sentence.offsets)
    ['It', "'s", 'late', '.'] [(0, 2), (2, 4), (5, 9), (9, 10)]
    ['Go', '-LRB-', 'home', '-RRB-', '!'] [(11, 13), (14, 15), (15, 19), (19, 20), (20, 21)]
    """
    cut = _cutter(tokenize, name)
    for at, text in _counted_lines(lines) if one_per_line else paragraphs(lines):
        places = [_stripped(text)] if one_per_line else sentence_places(text, split)
        for start, end in places:
            sentence = text[start:end]
            tokens = cut(sentence)
            offsets = [(at + start + t.start, at + start + t.end) for t in tokens]
            if tokens or one_per_line:
                yield TextSentence([t.word for t in tokens], offsets, sentence, at + start)


def one_sentence(text: str, tokenize: Tokenizer) -> TextSentence:
    """A text that is one sentence, with its words and their offsets."""
    tokens = _cutter(tokenize, None)(text)
    return TextSentence([t.word for t in tokens], [(t.start, t.end) for t in tokens], text, 0)


def document_places(text: str) -> list[Place]:
    r"""Start and end of the sentences of a text, which may have several paragraphs.

    >>> document_places("It rains. We stay.\n\nStill.")
    [(0, 9), (10, 18), (20, 26)]
    """
    return [
        (at + start, at + end)
        for at, paragraph in paragraphs(io.StringIO(text, newline=""))
        for start, end in sentence_places(paragraph)
    ]


def sentences_of(
    text: str, tokenize: Tokenizer, split: Splitter | None = None
) -> Iterator[TextSentence]:
    """The sentences of a text that is a string, as `text_sentences` gives them."""
    return text_sentences(io.StringIO(text, newline=""), tokenize, split)


def _counted_lines(lines: Iterable[str]) -> Iterator[Paragraph]:
    at = 0
    for line in lines:
        yield Paragraph(at, line)
        at += len(line)


def _stripped(text: str) -> Place:
    start = len(text) - len(text.lstrip())
    return start, start + len(text.strip())


_BLANK = re.compile(r"[ \t\r\n\f\v]")


def _cutter(tokenize: Tokenizer, name: str | None) -> Callable[[str], list[Token]]:
    """A function from a sentence to its tokens, which checks the words of a user's tokenizer."""
    own: Callable[[str], list[Token]] | None = getattr(tokenize, "tokens", None)
    if own is not None:
        return own

    def cut(text: str) -> list[Token]:
        words = tokenize(text)
        if isinstance(words, str) or not all(
            isinstance(word, str) and word and not _BLANK.search(word) for word in words
        ):
            msg = f"the tokenizer returned {words!r}, expected a list of words without blanks"
            hint = "a tokenizer takes the text of one sentence and returns its words"
            raise CorpusError(msg, file=name, hint=hint)
        return locate_words(text, list(words))

    return cut
