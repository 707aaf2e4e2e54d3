"""Words of a text as numbers, against splitting it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.lm.data import counting
from sapwood.lm.data.counting import number_shard
from sapwood.lm.kernels.text import LINE_END, number_words

# All blanks of ASCII, bytes beside them, and letters of more than one byte.
texts = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r", "\v", "\f", "\x08", "\x0e", "!", "a", "ab", "b", "é"])
).map(lambda parts: "".join(parts).encode())


@given(texts, st.sampled_from([1, 2, 64]))
def test_words_are_those_of_splitting(data: bytes, most: int) -> None:
    # without compiling, NumPy would warn of hashes that overflow
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        patch.setattr(counting, "MOST_WORDS", most)  # so few that room has to be made
        found = number_shard(data)
    told = [b"\n" if x == LINE_END else found.words[x] for x in found.tokens]
    expected = []
    for k, line in enumerate(data.split(b"\n")):
        expected += [*([b"\n"] if k else []), *line.split()]
    assert told == expected
    assert dict(zip(found.words, found.counts, strict=True)) == Counter(data.split())


@np.errstate(over="ignore")
def test_words_of_one_hash_are_told_apart() -> None:
    """All words start at one slot where the table has as many slots as there are words."""
    data = b" ".join(str(k).encode() for k in range(64)) * 2
    text = np.frombuffer(data, np.uint8)
    starts, sizes, counts = np.zeros((3, 65), np.int64)
    tokens = np.zeros(len(data) + 1, np.uint32)
    n_words, n_tokens = number_words(text, np.zeros(128, np.uint32), starts, sizes, counts, tokens)
    assert (n_words, n_tokens) == (65, 127)  # "63" and "0" are one word where the halves meet
    assert [data[a : a + n] for a, n in zip(starts, sizes, strict=True)][:3] == [b"0", b"1", b"2"]
    small = np.zeros((3, 10), np.int64)
    assert number_words(text, np.zeros(32, np.uint32), *small, tokens) == (-1, -1)
