"""Properties of a word that can be read off its letters, as hashed numbers.

PROPERTIES    the properties by letter: form, lower-case form, endings and beginnings by length,
              shape; then what a model knows: the word if it is familiar or its class, tag,
              universal tag, the tag as a number below 64, its cluster among few and among many
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
PROPERTIES = "FL12345abcdHWXPCKJ"
N_PROPERTIES = len(PROPERTIES)
COLUMN = {name: column for column, name in enumerate(PROPERTIES)}
N_OF_FORM = COLUMN["W"]  # properties that the form alone tells


def form_properties(forms: Sequence[str]) -> Words:
    """Properties of words that can be read off their letters, shape [n, N_OF_FORM].

    Examples
    --------
    >>> dogs, cats = form_properties(["dogs", "cats"])
    >>> dogs[COLUMN["1"]] == cats[COLUMN["1"]], dogs[COLUMN["3"]] == cats[COLUMN["3"]]
    (np.True_, np.False_)
    """
    return np.array([_properties_of(form) for form in forms], np.uint64).reshape(-1, N_OF_FORM)


@cache
def hash_of(text: str) -> int:
    """Return a hash of a text that is the same on every machine, and at least 4."""
    return crc32(text.encode("utf-8", "surrogatepass")) | 4


def _properties_of(form: str) -> list[int]:
    lower = form.lower()
    parts = [form, lower, *(lower[-k:] for k in range(1, 6)), *(lower[:k] for k in range(1, 5))]
    return [crc32(text.encode("utf-8", "surrogatepass")) | 4 for text in [*parts, _shape(form)]]


def _shape(form: str) -> str:
    """Kinds of letters, no more than two of a kind in a row.

    >>> _shape("McDonald's"), _shape("2026-11-16")
    ('XxXxx.x', 'dd-dd-dd')
    """
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in form
    )
    text = re.sub(r"(.)\1+", r"\1\1", "".join(kinds).replace("'", "."))
    return text[:12]
