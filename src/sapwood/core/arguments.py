"""Arguments that people pass: what is wrong with one, said in our words at the border."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from sapwood.core.errors import SapwoodTypeError, SapwoodValueError

_BLANK = re.compile(r"[ \t\r\n\f\v]")  # what separates words in treebanks and in lines of text


def describe(item: object) -> str:
    """A wrong argument in a few words, for messages.

    Examples
    --------
    >>> describe(None), describe("a dog"), describe([1, 2])
    ('None', "the string 'a dog'", 'a list ([1, 2])')
    """
    if item is None:
        return "None"
    shown = repr(item)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    if isinstance(item, str):
        return f"the string {shown}"
    name = type(item).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name} ({shown})"


def as_path(path: object, use: str) -> Path:
    """The path of a file, given as a string or a `Path`."""
    if isinstance(path, (str, PathLike)):
        return Path(path)
    msg = f"expected the path of {use}, not {describe(path)}"
    raise SapwoodTypeError(msg, hint="give a string or a pathlib.Path")


def as_items(items: object, expected: str) -> Iterable[Any]:
    """Several things, refused where it is one or none, or text that would fall into letters."""
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes)):
        return items
    msg = f"expected {expected}, not {describe(items)}"
    raise SapwoodTypeError(msg, hint="give a list")


def as_count(n: object, name: str) -> int:
    """A whole number from 0 up, NumPy's included.

    Examples
    --------
    >>> as_count(3, "n")
    3
    """
    try:
        number = n.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        msg = f"{name} must be a whole number, not {describe(n)}"
        raise SapwoodTypeError(msg) from None
    if number < 0 or isinstance(n, bool):
        msg = f"{name} must be a whole number from 0 up, not {n!r}"
        raise SapwoodValueError(msg)
    return int(number)


def as_sentence(words: object) -> list[str]:
    """The words of a sentence, refused where they could not stand in a line of text.

    Examples
    --------
    >>> as_sentence(("dogs", "bark"))
    ['dogs', 'bark']
    """
    if isinstance(words, str):
        msg = "a sentence is a list of words, not a string"
        hint = "use sentence.split(), or Parser.parse_text for text that is not tokenised"
        raise SapwoodTypeError(msg, hint=hint)
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
    """Refuse a word that could not be read again from a line of text or from brackets."""
    if not isinstance(word, str):
        msg = f"{place}: a word is a string, not {describe(word)}"
        raise SapwoodTypeError(msg, hint="give a sentence as a list of strings")
    if not word or _BLANK.search(word):
        found = f"the word {word!r} holds a blank" if word else "a word is empty"
        msg = f"{place}: {found}"
        raise SapwoodValueError(msg, hint="split it, or join its parts with _ or a no-break space")
