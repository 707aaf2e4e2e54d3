"""Rows of properties for the words of sentences, as the features of arcs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import place_among
from sapwood.corpora.word_properties import (
    COLUMN,
    N_OF_FORM,
    N_PROPERTIES,
    Words,
    form_properties,
    hash_of,
)
from sapwood.dependency.model.tables import WordClusters
from sapwood.dependency.parse.features import sentence_rows

UNFAMILIAR = np.uint64(1 << 33)  # apart from all numbers of words
FIRST_COARSE, N_COARSE = 3, 60  # numbers of tags between words: below 64, behind those of no word
MOST_KEPT = 200_000  # forms whose properties are kept


class WordRows:
    """Properties of words, looked up or made.

    Parameters
    ----------
    familiar
        Numbers of lower-case words that are features themselves, sorted.
    tags
        Pairs of tags, in the order of their numbers.
    clusters
        Of words; None for none.
    """

    def __init__(
        self,
        familiar: npt.NDArray[np.uint32],
        tags: Sequence[tuple[str, str]],
        clusters: WordClusters | None = None,
    ) -> None:
        self.familiar, self.clusters = familiar, clusters
        upos = sorted({upos for upos, _ in tags})
        # a treebank without universal tags has its own between the words
        names = upos if len(upos) > 1 else sorted({xpos for _, xpos in tags})
        self._is_universal = len(upos) > 1
        self._coarse = {name: FIRST_COARSE + k % N_COARSE for k, name in enumerate(names)}
        self._of_tag = np.array([self._columns(*pair) for pair in tags], np.uint64).reshape(-1, 3)
        self._kept: dict[str, npt.NDArray[np.uint64]] = {}

    def of_forms(self, forms: Sequence[str]) -> Words:
        """Properties of words, without tags, shape [n, N_PROPERTIES]."""
        kept = self._kept
        missing = [form for form in dict.fromkeys(forms) if form not in kept]
        if missing:
            if len(kept) + len(missing) > MOST_KEPT:
                kept.clear()
                missing = list(dict.fromkeys(forms))
            kept.update(zip(missing, self._made(missing), strict=True))
        return np.array([kept[form] for form in forms])

    def _made(self, forms: list[str]) -> Words:
        rows = np.zeros((len(forms), N_PROPERTIES), np.uint64)
        rows[:, :N_OF_FORM] = form_properties(forms)
        lower = rows[:, COLUMN["L"]]
        # others stand for their ending and shape
        kind = rows[:, COLUMN["2"]] * np.uint64(7) + rows[:, COLUMN["H"]] * np.uint64(5)
        is_known = place_among(lower, self.familiar) >= 0
        rows[:, COLUMN["W"]] = np.where(is_known, lower, kind | UNFAMILIAR)
        if self.clusters is not None:
            found = self.clusters.of(rows[:, COLUMN["F"]], lower)
            rows[:, COLUMN["K"] : COLUMN["J"] + 1] = found
        return rows

    def _columns(self, upos: str, xpos: str) -> tuple[int, int, int]:
        name = upos if self._is_universal else xpos
        coarse = self._coarse.get(name, FIRST_COARSE + N_COARSE)
        return hash_of(f"x{xpos}"), hash_of(f"u{upos}"), coarse

    def put_tags(self, rows: Words, tags: npt.NDArray[Any]) -> None:
        """Write tags, by their numbers, into rows of words."""
        rows[:, COLUMN["X"] : COLUMN["C"] + 1] = self._of_tag[tags]

    def put_named_tags(self, rows: Words, upos: Sequence[str], xpos: Sequence[str]) -> None:
        """Write tags that are given by their names."""
        pairs = zip(upos, xpos, strict=True)
        rows[:, COLUMN["X"] : COLUMN["C"] + 1] = np.array(
            [self._columns(*pair) for pair in pairs], np.uint64
        )


def one_sentence(of_words: Words) -> Words:
    """The rows of one sentence, from those of its words."""
    return sentence_rows(of_words, np.array([0, len(of_words)]))
