"""Words of a text as numbers: one pass over its bytes, one look-up a word.

table    open addressing: slot -> 1 + number of a word, 0 where it is free     [a power of 2]
hash     h = (h xor byte) * 1099511628211, the FNV-1a hash of the word's bytes
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel

FIRST, FACTOR = np.uint64(14695981039346656037), np.uint64(1099511628211)
LINE_END = np.uint32(0xFFFFFFFF)


@kernel
def number_words(data, table, starts, sizes, counts, tokens):
    """Number the words of a text in the order in which they are first seen.

    Parameters
    ----------
    data : [n]
        Bytes; words are apart by blanks, which are those of ASCII.
    table : [a power of 2]
        Zeros; filled.
    starts, sizes, counts : [most words]
        Where each word is first seen, its bytes, and how often it is seen; filled.
    tokens : [n + 1]
        The number of each word of the text, and `LINE_END` for each end of a line; filled.

    Returns
    -------
    tuple
        How many different words and how many tokens there are; -1, -1 where there are more words
        than the arrays have room for.

    Cost: a multiplication a byte, and a look-up a word.
    """
    mask = np.uint64(len(table) - 1)
    n_words, n_tokens, n = 0, 0, len(data)
    i = 0
    while i < n:
        byte = data[i]
        if byte == 32 or 9 <= byte <= 13:
            if byte == 10:
                tokens[n_tokens] = LINE_END
                n_tokens += 1
            i += 1
            continue
        start, h = i, FIRST
        while i < n and not (data[i] == 32 or 9 <= data[i] <= 13):
            h = (h ^ np.uint64(data[i])) * FACTOR
            i += 1
        size = i - start
        slot = (h ^ (h >> np.uint64(32))) & mask
        while True:
            word = np.int64(table[slot]) - 1
            if word < 0:
                if n_words == len(starts):
                    return -1, -1
                word = n_words
                n_words += 1
                table[slot] = n_words
                starts[word], sizes[word], counts[word] = start, size, 0
                break
            if sizes[word] == size:
                k = 0
                while k < size and data[starts[word] + k] == data[start + k]:
                    k += 1
                if k == size:
                    break
            slot = (slot + np.uint64(1)) & mask
        counts[word] += 1
        tokens[n_tokens] = word
        n_tokens += 1
    return n_words, n_tokens
