"""Hypothesis draws sentences and trees of all shapes."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import strategies as st

from sapwood.dependency.data.bank import Arcs

# A word of blanks alone would be a blank line, and `#` starts a comment only before the rows.
_TEXT = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])
RELATIONS = ("nsubj", "obj", "acl", "acl:relcl", "punct", "dep")


def cells() -> st.SearchStrategy[str]:
    """What can stand in a column."""
    return st.one_of(
        st.sampled_from(["dog", "_", "#", "a b", "日本", "1-2", "e\u0301", "=", "|"]),
        st.text(_TEXT, min_size=1, max_size=4).filter(str.strip),
    )


@st.composite
def head_lists(draw: st.DrawFn, max_words: int = 9) -> list[int]:
    """Heads of any tree with one root, projective or not: words in any order, each below one
    before it."""
    n = draw(st.integers(1, max_words))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for place, word in enumerate(order[1:], 1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    return heads


@st.composite
def sentences(draw: st.DrawFn, max_words: int = 9) -> Arcs:
    """Sentences of any words, tags and trees."""
    heads = draw(head_lists(max_words))
    n = len(heads)

    def column() -> list[str]:
        return draw(st.lists(cells(), min_size=n, max_size=n))

    relations = draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n))
    return Arcs(column(), heads, relations, column(), column())


def corpus_files() -> list[Path]:
    return sorted(Path(os.environ.get("SAPWOOD_DATA", "/nowhere")).glob("*/*.conllu.xz"))
