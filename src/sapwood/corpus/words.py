"""Words: which strings can be one, and what the shape of one never seen before tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from sapwood.arguments import describe
from sapwood.errors import SapwoodTypeError, SapwoodValueError

STYLES = ("english", "generic")
UNKNOWN = "<unk>"
_BLANK = re.compile(r"[ \t\r\n\f\v]")  # what separates words in treebanks and in lines of text
_ENGLISH_SUFFIXES = (
    "ing", "ed", "ly", "ion", "er", "est", "ity", "al", "ous", "ive", "able", "ment", "ness",
    "ism", "ist", "ic", "ish", "ful", "less", "ies", "es", "s", "y",
)  # fmt: skip


@lru_cache(maxsize=200_000)
def signatures(word: str, *, is_first: bool, style: str) -> tuple[str, ...]:
    """Signatures of a word from the most telling to the plainest, which all words share.

    Parameters
    ----------
    word
        The word as written.
    is_first
        Whether it stands first in its sentence, where a capital says little.
    style
        `english` knows English suffixes; `generic` takes the last letters of any alphabet.

    Examples
    --------
    >>> signatures("Walking", is_first=False, style="english")
    ('<unk-Capital-ing>', '<unk-Capital>', '<unk>')
    >>> signatures("1990-91", is_first=False, style="generic")
    ('<unk-digits-dash>', '<unk-digits>', '<unk>')
    """
    shape = _shape(word, is_first)
    out = [f"<unk-{shape}{ending}>" for ending in _endings(word, shape, style)]
    return (*out, f"<unk-{shape}>", UNKNOWN)


def _shape(word: str, is_first: bool) -> str:
    if not any(char.isalnum() for char in word):
        return "symbol"
    if any(char.isdigit() for char in word):
        return "mixed" if any(char.isalpha() for char in word) else "digits"
    if word.isupper() and len(word) > 1:
        return "CAPITALS"
    if word[0].isupper():
        return "First" if is_first else "Capital"
    return "inner" if any(char.isupper() for char in word) else "lower"


def _endings(word: str, shape: str, style: str) -> list[str]:
    """The endings that refine a shape, longest first, each starting with a dash."""
    dash = "-dash" if "-" in word else ""
    if shape in {"symbol", "digits", "CAPITALS"}:
        return [dash] if dash else []
    lower = word.lower()
    if style == "english":
        suffix = next(
            (s for s in _ENGLISH_SUFFIXES if len(word) > len(s) + 2 and lower.endswith(s)), ""
        )
        found = [dash + "-" + suffix] if suffix else []
        return found + ([dash] if dash else [])
    suffixes = [f"{dash}-{lower[-size:]}" for size in (4, 3, 2, 1) if len(word) > size + 1]
    return suffixes + ([dash] if dash else [])


def as_sentence(words: object) -> list[str]:
    """The words of a sentence, refused where they could not stand in a line of text.

    Examples
    --------
    >>> as_sentence(("dogs", "bark"))
    ['dogs', 'bark']
    """
    if isinstance(words, str):
        msg = "a sentence is a list of words, not a string"
        raise SapwoodTypeError(msg, hint="use sentence.split()")
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        msg = f"a sentence is a list of words, not {describe(words)}"
        raise SapwoodTypeError(msg, hint="give a list of strings")
    sentence = list(words)
    if not sentence:
        msg = "an empty sentence has no tree and no probability"
        raise SapwoodValueError(msg, hint="give at least one word")
    for place, word in enumerate(sentence, 1):
        check_word(word, f"word {place} of the sentence")
    return sentence


def check_word(word: object, place: str) -> None:
    """Refuse a word that could not be read again from a line of text or from brackets.

    Parameters
    ----------
    place
        Where it stands, for the message.
    """
    if not isinstance(word, str):
        msg = f"{place}: a word is a string, not {describe(word)}"
        raise SapwoodTypeError(msg, hint="give a sentence as a list of strings")
    if not word or _BLANK.search(word):
        found = f"the word {word!r} holds a blank" if word else "a word is empty"
        msg = f"{place}: {found}"
        raise SapwoodValueError(msg, hint="split it, or join its parts with _ or a no-break space")
