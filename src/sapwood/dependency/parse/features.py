"""What features of arcs are made of: properties of words, and templates that put them together.

A template is written as the properties that it joins, each at a place:

    "h.X m.W m+1.P"     tag of the head, the modifier's word, and the coarse tag behind it

Letters of words are listed in `sapwood.dependency.model.kernels.arc_layout`, those of properties in
`sapwood.corpora.word_properties`; b is what stands between
head and modifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import starts_of
from sapwood.corpora.word_properties import COLUMN, PROPERTIES, Words
from sapwood.dependency.model.kernels.arc_layout import BETWEEN, KINDS, N_ATOMS, PLACES, Templates

_ATOM = re.compile(rf"([{PLACES}])([+-][12])?\.([{PROPERTIES}])|b\.([012])")
_OUTSIDE, _ROOT = 1, 2  # values in rows that are no words


def parse_templates(**texts: Iterable[str]) -> Templates:
    """Templates by kind of part.

    Examples
    --------
    >>> made = parse_templates(arc=["h.X m.W", "h.X m+1.P b.0"])
    >>> made.bounds.tolist()
    [0, 2, 2, 2, 2, 2]
    >>> made.atoms[1, :4].tolist()
    [[2, 13], [8, 14], [63, 0], [-1, -1]]
    """
    rows = [[_atoms(text) for text in texts.get(kind, ())] for kind in KINDS]
    atoms = np.array([row for kind in rows for row in kind], np.int32)
    bounds = starts_of([len(kind) for kind in rows]).astype(np.int32)
    return Templates(atoms.reshape(-1, N_ATOMS, 2), bounds)


def _atoms(text: str) -> list[tuple[int, int]]:
    found = []
    for atom in text.split():
        match = _ATOM.fullmatch(atom)
        assert match is not None, atom
        place, shift, column, inside = match.groups()
        if inside is not None:
            found.append((BETWEEN, int(inside)))
        else:
            found.append((5 * PLACES.index(place) + int(shift or 0) + 2, COLUMN[column]))
    assert len(found) <= N_ATOMS, text
    return found + [(-1, -1)] * (N_ATOMS - len(found))


def sentence_rows(of_words: Words, starts: npt.NDArray[np.int64]) -> Words:
    """Rows of sentences: those of the words of each, between one row, the root, and two rows.

    Parameters
    ----------
    of_words : [n_tokens, N_PROPERTIES]
    starts : [n_sentences + 1]
        First word of each sentence.
    """
    n_sentences = len(starts) - 1
    rows = np.full((len(of_words) + 4 * n_sentences, of_words.shape[1]), _OUTSIDE, np.uint64)
    first = starts[:-1] + 4 * np.arange(n_sentences)
    rows[first + 1] = _ROOT
    sentence = np.repeat(np.arange(n_sentences), np.diff(starts))
    rows[np.arange(len(of_words)) + 4 * sentence + 2] = of_words
    return rows
