"""Signatures: what the shape of a word never seen before tells about its tag."""

from __future__ import annotations

from functools import lru_cache

STYLES = ("english", "generic")
UNKNOWN = "<unk>"
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
