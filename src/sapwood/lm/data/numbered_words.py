"""Words of plain text as numbers, a shard at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError
from sapwood.lm.data.plain_text import (
    END,
    RESERVED,
    RESERVED_HINT,
    START,
    KnownWords,
    TextShard,
)

_RESERVED = frozenset(word.encode() for word in RESERVED)
MOST_WORDS = 1 << 16  # different ones of a shard that are reckoned with at first


class NumberedWords(NamedTuple):
    """The words of a shard.

    Attributes
    ----------
    words
        Every word once, as it is first seen.
    counts : [n_words]
        How often each is seen.
    tokens : [n]
        The number of each word of the text; `LINE_END` of `kernels.text` where a line ends.
    """

    words: list[bytes]
    counts: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.uint32]


def number_shard(data: bytes) -> NumberedWords:
    r"""Words of a text, numbered; ends of lines are kept.

    Examples
    --------
    >>> found = number_shard(b"the dog\nthe cat\n")
    >>> found.words, found.counts.tolist()
    ([b'the', b'dog', b'cat'], [2, 1, 1])
    """
    from sapwood.lm.data.kernels.text import number_words

    text = np.frombuffer(data, np.uint8)
    tokens = np.empty(len(text) + 1, np.uint32)
    most = MOST_WORDS
    while True:
        starts, sizes, counts = np.empty((3, most), np.int64)
        table = np.zeros(4 * most, np.uint32)
        n_words, n_tokens = number_words(text, table, starts, sizes, counts, tokens)
        if n_words >= 0:
            break
        most *= 4
    places = zip(starts[:n_words].tolist(), sizes[:n_words].tolist(), strict=True)
    words = [data[start : start + size] for start, size in places]
    return NumberedWords(words, counts[:n_words].copy(), tokens[:n_tokens])


def refuse_reserved(shard: TextShard, data: bytes, words: Iterable[bytes]) -> None:
    """Refuse a text that has a reserved symbol as a word.

    Parameters
    ----------
    data
        The text of the shard.
    words
        The different words of the text.

    Raises
    ------
    CorpusError
        With the line of the first reserved symbol.
    """
    if marks := _RESERVED.intersection(words):
        mark = min(marks)
        msg = f"found {mark.decode()} as a word: it stands for the start or end of a sentence"
        found = re.search(rb"(?<!\S)" + re.escape(mark) + rb"(?!\S)", data)
        line = None if found is None else shard.line_of(found.start())
        raise CorpusError(msg, file=shard.name, line=line, hint=RESERVED_HINT)


def read_ids(shard: TextShard, ids: KnownWords, *, is_stream: bool) -> npt.NDArray[np.uint32]:
    """A shard's words as numbers; sentences with their starts and ends."""
    from sapwood.lm.data.kernels.text import LINE_END

    data = shard.read() + b"\n"  # the last line may have no end
    words, _, tokens = number_shard(data)
    refuse_reserved(shard, data, words)
    own = np.fromiter(map(ids.__getitem__, words), np.uint32, len(words))
    if is_stream:
        lead = np.fromiter(map(ids.__getitem__, shard.lead), np.uint32, len(shard.lead))
        return np.concatenate([lead, own[tokens[tokens != LINE_END]]])
    is_end = tokens == LINE_END
    # Blank lines are no sentences: an end that follows another, or the start of the text, is none.
    is_kept = ~is_end
    is_kept[1:] |= ~is_end[:-1]
    is_end = is_end[is_kept]
    found = np.full(len(is_end) + int(is_end.sum()), START, np.uint32)
    # Each sentence is moved by one place more than the one before, for its start.
    place = np.arange(len(is_end)) + np.cumsum(is_end) - is_end + 1
    found[place[is_end]] = END
    found[place[~is_end]] = own[tokens[tokens != LINE_END]]
    return found
