"""Features of dependency trees for reranking: tags of three words, hashed.

The paper's two (DEP, section 4.3), which parsers of single arcs do not see:

    nearest left modifier, head, nearest right modifier        of each word as a head
    modifier with its side, head, head of the head             of each word as a modifier
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.dependency.data.bank import ArcBank

Hashes = npt.NDArray[np.uint64]
N_KINDS = 2
_NONE, _ROOT = 1, 2  # what stands where there is no word
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, Knuth's multiplier


def tag_triples(bank: ArcBank, column: str, bits: int) -> npt.NDArray[np.uint32]:
    """Two features of each word, numbers below 2^bits, shape [n_tokens, N_KINDS].

    Parameters
    ----------
    column
        Where tags stand: `upos` or `xpos`.

    Examples
    --------
    >>> from sapwood.dependency.data.bank import Arcs
    >>> trees = [Arcs(["a", "b", "c"], heads, upos=list("XYX")) for heads in ([2, 0, 2], [2, 0, 1])]
    >>> one, other = tag_triples(ArcBank.of(trees), "upos", 20).reshape(2, 3, 2)
    >>> (one == other).tolist()
    [[False, True], [False, True], [True, False]]
    """
    shards = [_of_shard(shard, column, bits) for shard in bank.shards()]
    return np.concatenate([np.empty((0, N_KINDS), np.uint32), *shards])


def _of_shard(bank: ArcBank, column: str, bits: int) -> npt.NDArray[np.uint32]:
    names = getattr(bank, f"{column}_names")
    # by name, because another bank numbers its tags otherwise
    hashed = np.array([crc32(name.encode()) + 3 for name in names], np.uint64)
    tag = np.append(hashed[getattr(bank, column)], np.array([_NONE, _ROOT], np.uint64))
    none, root = len(bank.head), len(bank.head) + 1
    word = np.arange(len(bank.head))
    first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
    up = np.where(bank.head > 0, first + bank.head - 1, root)
    left, right = _nearest(word, up, none)
    above = np.append(up, [none, none])
    side = (word > up).astype(np.uint64)
    as_head = _hash(np.uint64(1), tag[left], tag[:none], tag[right])
    as_modifier = _hash(np.uint64(2) + side, tag[:none], tag[up], tag[above[up]])
    features = np.stack([as_head, as_modifier], axis=1) >> np.uint64(64 - bits)
    return features.astype(np.uint32)


def _nearest(word: IntArray, up: IntArray, none: int) -> tuple[IntArray, IntArray]:
    """The modifiers of each word that stand nearest to it, left and right."""
    left, right = np.full(none + 2, -1), np.full(none + 2, none)
    np.maximum.at(left, up[word < up], word[word < up])
    np.minimum.at(right, up[word > up], word[word > up])
    left[left < 0] = none
    return left[:none], right[:none]


def _hash(kind: Hashes | np.uint64, *tags: Hashes) -> Hashes:
    mixed = np.broadcast_to(kind, tags[0].shape).astype(np.uint64) * _MIX
    for tag in tags:
        mixed = (mixed ^ tag) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed * _MIX, np.uint64)
