r"""Text as people write it, to the words that a treebank has.

`PennTokenizer` follows the conventions of Penn treebanks and asks the vocabulary of a model where
treebanks differ:

- **What the vocabulary knows stays whole**: `Mr.`, `AT&T`, `Yahoo!`.
- **Punctuation and brackets** are words of their own: `(` is `-LRB-`, and `[` and `{` are `-LSB-`
  and `-LCB-` unless the vocabulary has them as they are.
- **Quotes** become ` `` ` and `''`, or `"`, whichever the vocabulary has; dashes and
  ellipses also follow the vocabulary.
- **Contractions** of English: `do n't`, `dog 's`, `can not`. Where the vocabulary has words that
  end in an apostrophe, as French does, those come off at the front: `l' eau`.
- **Periods** stay with abbreviations and initials (`Mr.`, `J. P.`, `U.S.`). At the end of the text
  the period is the sentence's: `Inc.` is `Inc .`, but `U.S.` is `U.S. .`, as in Penn's own files.
- **Numbers, dates, times, addresses** stay whole: `1,000.50`, `12:30`, `http://a.b/c`. Signs of
  currency and per cent come off: `$ 5`, `US$ 5`, `5 %`.
- **Slashes** are written `\/` where the vocabulary does so. They are words where it has `/`, as are
  signs such as `=`. **Hyphens** stay inside words, unless the vocabulary splits at them.

One text is one sentence: `sapwood.corpora.sentence_ends` looks for the ends of sentences.

Tokenised text comes back unchanged, so that it does no harm to tokenise twice.
"""

# ruff: noqa: RUF001 - quotes and dashes that look alike are what this file is about

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, Protocol


class Token(NamedTuple):
    """A word, and the start and end of its characters in the text."""

    word: str
    start: int
    end: int


class Tokenizer(Protocol):
    """Any function from the text of one sentence to its words."""

    def __call__(self, text: str, /) -> Sequence[str]:
        """The words of one sentence."""


# Names, titles and places that end in a period inside a sentence; a model's own come on top.
_PERIODS = (
    "Mr. Mrs. Ms. Dr. Prof. Rev. Gen. Col. Maj. Capt. Lt. Sgt. Gov. Sen. Rep. Pres. Hon. St. Mt. "
    "Jr. Sr. Inc. Ltd. Co. Corp. Cos. Bros. Dept. Univ. Assn. Ave. Blvd. Rd. No. Nos. Fig. Figs. "
    "Vol. pp. vs. etc. cf. al. ca. approx. est. eds. Jan. Feb. Mar. Apr. Aug. Sept. Oct. Nov. Dec. "
    "Mon. Tues. Wed. Thurs. Fri. Sat. Sun. Ala. Ariz. Ark. Calif. Colo. Conn. Del. Fla. Ga. Ill. "
    "Ind. Kan. Ky. La. Mass. Md. Mich. Minn. Miss. Mo. Mont. Neb. Nev. Okla. Ore. Pa. Tenn. Tex. "
    "Va. Vt. Wash. Wis. Wyo."
)
ABBREVIATIONS = frozenset(_PERIODS.split())
_CHUNK = re.compile(r"\S+")
_INITIAL = re.compile(r"[^\W\d_]\.")
_ACRONYM = re.compile(r"(?:[\w-]+-)?(?:[^\W\d_]{1,2}\.){2,}")  # U.S., p.m., Ph.D., non-U.S.

# English contractions: those with an apostrophe, and where the second word of others starts.
_CLITIC = re.compile(r"(?i)(.+?)(n['’]t|['’](?:s|re|ve|ll|d|m))")
_FUSED = {
    "cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "gimme": 3, "lemme": 3, "'tis": 2, "'twas": 2,
}  # fmt: skip
_APOSTROPHE_FIRST = r"['’](?:\d\ds?|(?i:s|re|ve|ll|d|m|em|til|cause|n'?|tis|twas|t))(?!\w)"

# What a mark may be written as: the first that the vocabulary has, else the last, which is Penn's.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "(": ("-LRB-",),
    ")": ("-RRB-",),
    "[": ("[", "-LSB-"),
    "]": ("]", "-RSB-"),
    "{": ("{", "-LCB-"),
    "}": ("}", "-RCB-"),
    "``": ("``", '"', "“", "«", "``"),
    "''": ("''", '"', "”", "»", "''"),
    "“": ("“", "``", '"', "``"),
    "”": ("”", "''", '"', "''"),
    "„": ("„", "``", '"', "``"),
    "«": ("«", "``", '"', "“", "``"),
    "»": ("»", "''", '"', "”", "''"),
    "`": ("`", "‘", "'", "`"),
    "‘": ("‘", "`", "'", "`"),
    "--": ("--", "—", "–", "-", "--"),
    "—": ("—", "--", "–", "-", "--"),
    "–": ("–", "--", "—", "-", "--"),
    "...": ("...", "…", "..."),
    "…": ("…", "..."),
}
_SIGNS = "=<>±×÷~°+*^|→≤≥∼−·/–"  # words of their own where the vocabulary has them as words
_MIN_FOR_HYPHENS = 2000  # fewest words of a vocabulary that show how it treats hyphens
_FEW_HYPHENS = 0.03  # largest fraction of words with a hyphen in treebanks that split there

_OPENERS = "([{“„«‘¿¡`-—–/=\"'"  # a straight quote behind one of these opens
_CLOSERS = "\"'”’»)]}"
_MARKS = '!?;"()[]{}“”„«»‹›‘¿¡…—。、！？，；：《》「」'
_MONEY = "$£€¥₹₩"


class PennTokenizer:
    r"""Splits the text of one sentence into words, as the treebank behind a vocabulary does.

    Parameters
    ----------
    vocabulary
        The words of a model (`model.lexicon.words`); without any, English is taken for granted, as
        the Penn Treebank writes it.

    Examples
    --------
    >>> tokenize = PennTokenizer()
    >>> " ".join(tokenize('Mr. Lee (of "A&B Inc.") didn\'t pay $1,000.'))
    "Mr. Lee -LRB- of `` A&B Inc. '' -RRB- did n't pay $ 1,000 ."
    >>> PennTokenizer(["l'", "d'", "eau"])("L'eau d'ici, non?")
    ["L'", 'eau', "d'", 'ici', ',', 'non', '?']
    """

    def __init__(self, vocabulary: Collection[str] = ()) -> None:
        known = self.vocabulary = frozenset(vocabulary)
        self._is_english = not known or {"the", "of"} <= known
        self._spelling = {
            mark: next((form for form in forms if form in known), forms[-1])
            for mark, forms in _SPELLINGS.items()
        }
        if '"' in known and "''" not in known:  # "``" alone is a mistake of the treebank
            self._spelling |= {"``": '"', "''": '"'}
        self._has_curly = any(re.match(r"’\w|\w+’", word) for word in known)
        self._elisions = frozenset(
            word.lower()
            for word in known
            if not self._is_english and re.fullmatch(r"\w+['’]", word)
        )
        signs = "".join(sign for sign in _SIGNS if sign in known)
        self._piece = _pieces(signs)
        self._escapes_slash = not known or any(r"\/" in word for word in known)
        self._splits_hyphens, self._affixes = _hyphens(known)

    def __call__(self, text: str) -> list[str]:
        """The words of one sentence."""
        return [token.word for token in self.tokens(text)]

    def tokens(self, text: str) -> list[Token]:
        """The words of one sentence with their offsets in the text.

        Words may be spelt as the vocabulary has them; `text[start:end]` is what the user wrote. The
        period behind an abbreviation at the end of a sentence is part of two words: `U.S.` and `.`.

        >>> [tuple(token) for token in PennTokenizer().tokens('"U.S.')]
        [('``', 0, 1), ('U.S.', 1, 5), ('.', 4, 5)]
        """
        return list(chain.from_iterable(self._chunks(text)))

    def by_chunk(self, text: str) -> list[list[str]]:
        """The words of each run of characters without blanks, in the order of the text.

        >>> PennTokenizer().by_chunk("Dogs can't read.")
        [['Dogs'], ['ca', "n't"], ['read', '.']]
        """
        return [[token.word for token in tokens] for tokens in self._chunks(text)]

    def _chunks(self, text: str) -> Iterator[list[Token]]:
        """The tokens of each run of characters without blanks."""
        if not self._has_curly:
            text = text.replace("’", "'")
        n_open = 0  # quotes
        for match, following in pairwise([*_CHUNK.finditer(text), None]):
            assert match is not None  # only the last of the list is None
            found: list[Token] = []
            for piece, start, end in self._cut(match[0], following[0] if following else ""):
                mark = piece
                if piece == '"':  # nothing around it says which
                    mark = "''" if n_open else "``"
                n_open = max(0, n_open + (mark == "``") - (mark == "''"))
                at = match.start()
                found.append(Token(self.spell(mark), at + start, at + end))
            yield found

    def respell(self, words: Iterable[str]) -> list[str]:
        r"""The words of another tokenizer, with marks as the vocabulary spells them.

        >>> PennTokenizer().respell(["(", '"', "Yes", '"', ")", "and/or"])
        ['-LRB-', '``', 'Yes', "''", '-RRB-', 'and\\/or']
        """
        found: list[str] = []
        n_open = 0  # quotes
        for word in words:
            mark = word if self._has_curly else word.replace("’", "'")
            if word in self.vocabulary:
                mark = word
            elif mark == '"':
                mark = "''" if n_open else "``"
            elif self._escapes_slash:
                mark = re.sub(r"(?<!\\)/", r"\\/", mark)
            n_open = max(0, n_open + (mark == "``") - (mark == "''"))
            found.append(self.spell(mark))
        return found

    def spell(self, piece: str) -> str:
        """The spelling of a mark in the vocabulary; any other piece unchanged."""
        return self._spelling.get(piece, piece)

    def pieces(self, chunk: str, following: str = "") -> list[str]:
        """The pieces of a run of characters without blanks, before marks get their spelling."""
        return [token.word for token in self._cut(chunk, following)]

    def _cut(self, chunk: str, following: str) -> Iterator[Token]:
        """The pieces of a run of characters, with their places in the run."""
        if self._stays_whole(chunk) and (following or not chunk.endswith(".")):
            return iter([Token(chunk, 0, len(chunk))])
        return self._scan(chunk, following)

    def _stays_whole(self, word: str) -> bool:
        """Whether the vocabulary has a word whole, and not also split as a contraction.

        A few words of every treebank were left whole by mistake.
        """
        if word not in self.vocabulary:
            return False
        match = _CLITIC.fullmatch(word) if self._is_english else None
        return match is None or match[2] not in self.vocabulary

    def _scan(self, chunk: str, following: str) -> Iterator[Token]:
        at = 0
        while at < len(chunk):
            match = self._piece.match(chunk, at)
            assert match is not None  # the last alternative takes any character
            kind, piece, end = match.lastgroup, match[0], match.end()
            if kind == "word":
                end += chunk.startswith(".", end) and not chunk.startswith("..", end)
                yield from self._word(chunk[at:end], at, chunk[end:], following)
            elif kind == "clitic":
                yield from self._parts(piece, at)
            elif kind == "dash":
                yield Token("--", at, end)
            elif piece in {'"', "'"}:
                yield Token(_quote(piece, chunk[:at], chunk[end:]), at, end)
            else:
                yield Token(piece, at, end)
            at = end

    def _word(self, word: str, at: int, rest: str, following: str) -> Iterator[Token]:
        """A word, perhaps with a following period that may belong to it."""
        end = at + len(word)
        if not word.endswith("."):
            yield from self._parts(word, at)
            return
        is_listed = self._is_english and word in ABBREVIATIONS
        is_short = _INITIAL.fullmatch(word) or _ACRONYM.fullmatch(word)
        has_own = word in self.vocabulary or is_short or is_listed
        # Nothing but closing quotes and brackets behind it: the period ends the sentence.
        if not rest.strip(_CLOSERS) and not following.strip(_CLOSERS):
            if has_own and _ACRONYM.fullmatch(word):
                yield Token(word, at, end)
            else:
                yield from self._parts(word[:-1], at)
            yield Token(".", end - 1, end)
        elif has_own or (not rest and following[0].islower()):
            yield Token(word, at, end)
        else:
            yield from self._parts(word[:-1], at)
            yield Token(".", end - 1, end)

    def _parts(self, word: str, at: int) -> Iterator[Token]:
        """Split off contractions and elisions, then split at hyphens if the vocabulary does."""
        end = at + len(word)
        cut = 0
        if self._stays_whole(word):
            yield Token(word, at, end)
        elif self._is_english and (match := _CLITIC.fullmatch(word)):
            yield from self._parts(match[1], at)
            yield Token(match[2], at + match.start(2), end)
        elif self._is_english and word.lower() in _FUSED:
            cut = _FUSED[word.lower()]
            yield Token(word[:cut], at, at + cut)
            yield Token(word[cut:], at + cut, end)
        elif (cut := _elision_length(word, self._elisions)) and cut < len(word):
            yield Token(word[:cut], at, at + cut)
            yield from self._parts(word[cut:], at + cut)
        elif self._splits_hyphens:
            yield from self._at_hyphens(word, at)
        else:
            written = re.sub(r"(?<!\\)/", r"\\/", word) if self._escapes_slash else word
            yield Token(written, at, end)

    def _at_hyphens(self, word: str, at: int) -> Iterator[Token]:
        first, hyphen, last = word.partition("-")
        if not (first and last) or {f"{first.lower()}-", f"-{last.lower()}"} & self._affixes:
            yield Token(word, at, at + len(word))
            return
        cut = at + len(first)
        yield Token(first, at, cut)
        yield Token(hyphen, cut, cut + 1)
        yield from self._at_hyphens(last, cut + 1)


# Marks that are tokens of their own, and belong to the word after or before them.
_FIRST = "( [ { `` ` “ ‘ « ‹ „ ¿ ¡ $ £ € ¥ ₹ ₩ -LRB- -LSB- -LCB-"
_LAST = ". , ; : ? ! … ... % ) ] } '' ' ” ’ » › 。 、 ！ ？ ， ； ： -RRB- -RSB- -RCB-"
_OPENING, _CLOSING = frozenset(_FIRST.split()), frozenset(_LAST.split())
_ENDING = re.compile(r"(?i)n['’]t|['’](?:s|re|ve|ll|d|m)")


def with_their_marks(chunks: Sequence[Sequence[str]]) -> list[int]:
    """Number of chunks of each word together with its punctuation and endings.

    Chunks are the tokens between blanks, as `PennTokenizer.by_chunk` returns them. Dashes, and
    marks without a word on their side, stay alone; straight quotes open and close by turns.

    Examples
    --------
    >>> with_their_marks([["the"], ["owners"], ["."]]), with_their_marks([["the"], ["owners", "."]])
    ([1, 2], [1, 1])
    >>> with_their_marks([["("], ["do"], ["n't"], [")"], ["--"], ["no"]])
    [4, 1, 1]
    """
    sizes: list[int] = []
    is_open = is_word = False  # whether a straight quote, and whether the last one, is open
    n_opening = 0  # chunks that wait for the word behind them
    for chunk in chunks:
        opens, closes = (
            all(x in _OPENING for x in chunk),
            all(x in _CLOSING or _ENDING.fullmatch(x) for x in chunk),
        )
        if list(chunk) == ['"']:
            is_open = not is_open
            opens, closes = is_open, not is_open
        if opens:
            n_opening += 1
        elif closes and is_word and not n_opening:
            sizes[-1] += 1
        else:
            sizes.append(n_opening + 1)
            n_opening, is_word = 0, any(c.isalnum() for x in chunk for c in x)
    return sizes + [1] * n_opening


def _elision_length(word: str, elisions: frozenset[str]) -> int:
    """Length of a first word that leans on the next, with its apostrophe; 0 when there is none."""
    match = re.match(r"\w+['’]", word)
    return match.end() if match and match[0].lower() in elisions else 0


def _hyphens(vocabulary: frozenset[str]) -> tuple[bool, frozenset[str]]:
    """Whether a vocabulary splits words at hyphens, and the affixes that it does not split off."""
    inside = [word.lower() for word in vocabulary if re.search(r"\w-\w", word)]
    is_split = (
        "-" in vocabulary
        and len(vocabulary) >= _MIN_FOR_HYPHENS
        and len(inside) < _FEW_HYPHENS * len(vocabulary)
    )
    firsts = {word[: word.index("-") + 1] for word in inside}
    return is_split, frozenset(firsts | {word[word.rindex("-") :] for word in inside})


def _quote(mark: str, before: str, after: str) -> str:
    """A straight quote as an opening or closing one, by its neighbours; itself in doubt."""
    if before and before[-1] not in _OPENERS:
        return "''" if mark == '"' else mark
    if after.strip(_CLOSERS + ",;:.!?"):
        return "``" if mark == '"' else "`"
    return mark


def _pieces(signs: str) -> re.Pattern[str]:
    """Patterns of pieces, tried in this order at the end of the last piece."""
    apart = re.escape(_MARKS + _MONEY + signs)
    # Inside a word: signs of numbers and times between digits, single periods and hyphens,
    # apostrophes between letters, and signs of currency that have no number.
    glue = r"(?<=\d)[,:](?=\d)|\.(?=\w|-\w)|(?<=\w)['’](?=\w)|(?<!-)-(?!-)"
    glue += rf"|(?<!\d)[{_MONEY}](?!\.?\d)"
    if "–" not in signs:
        glue += r"|(?<=\d)–(?=\d)"
    return re.compile(
        r"(?P<address>(?:[a-z]+://|www\.)[^\s\"'<>()\[\]{}“”«»]*[\w/])"
        r"|(?P<escape>-[LR][RSC]B-|``|''|\.\.\.)"
        r"|(?P<dash>-{2,})"
        rf"|(?P<clitic>{_APOSTROPHE_FIRST})"
        rf"|(?P<money>[A-Z]{{0,3}}[{_MONEY}](?=\.?\d)|#(?=\d))"
        rf"|(?P<word>(?:[^\s{apart}%.,:'’`–-]|{glue})+)"
        r"|(?P<mark>.)",
        re.DOTALL,
    )
