"""Matrices of networks in 8 bits a number, with one scale for each row.

    w[i, j] = scale[i] * code[i, j],    code from -127 to 127,  scale[i] = max |w[i]| / 127

A scale has 16 significant bits, rounded up, so that products of scales and codes are exact in
single precision: a matrix that was rounded once is rounded to itself. Rows of zeros have no codes;
a bitmap marks the rows that do.

`drop_rare` makes such rows: vectors of words and of affixes that were hardly ever seen while a
network was trained are still near the random numbers that they started from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.networks.network import N_SPECIAL, Network, Real

Arrays = dict[str, npt.NDArray[Any]]
MOST_CODE = 127
SCALE_BITS = 16  # significant bits of a scale; 7 more of a code are within the 24 of a float32
MOST_SCALE = 60_000 / MOST_CODE  # weights are at most those of half precision
CODES, SCALES, KEPT = "codes", "scales", "kept"  # ends of the names of arrays


def row_scales(matrix: Real) -> npt.NDArray[np.float32]:
    """The scale of each row of a matrix; 0 for a row of zeros."""
    most = np.abs(matrix).max(axis=1, initial=0.0).astype(np.float64) / MOST_CODE
    fraction, exponent = np.frexp(most)
    rounded_up = np.ceil(np.ldexp(fraction, SCALE_BITS))
    return np.asarray(np.ldexp(rounded_up, exponent - SCALE_BITS), np.float32)


def encode_rows(name: str, matrix: Real) -> Arrays:
    """The arrays of a matrix in 8 bits, their names after the matrix's.

    Examples
    --------
    >>> arrays = encode_rows("W", np.array([[0.0, 0.0], [1.27, -0.5]], np.float32))
    >>> {name: array.tolist() for name, array in arrays.items() if name != "W.scales"}
    {'W.codes': [[127, -50]], 'W.kept': [64]}
    """
    scale = row_scales(matrix)
    kept = scale > 0
    codes = np.rint(matrix[kept] / scale[kept, None]).astype(np.int8)
    arrays: Arrays = {f"{name}.{CODES}": codes, f"{name}.{SCALES}": scale[kept]}
    return arrays if kept.all() else arrays | {f"{name}.{KEPT}": np.packbits(kept)}


def decode_rows(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], n_rows: int | None = None
) -> npt.NDArray[np.float32]:
    """The matrix of `encode_rows`, from the arrays of a file, which may be damaged.

    `n_rows` is needed where the number of rows is no multiple of eight and some are zeros.
    """
    codes, scale = arrays[f"{name}.{CODES}"], arrays[f"{name}.{SCALES}"]
    require_type(codes, f"{name}.{CODES}", np.int8, 2)
    require_type(scale, f"{name}.{SCALES}", np.float32, 1)
    if len(scale) != len(codes):
        raise ModelFormatError(f"{name} has {len(scale)} scales for {len(codes)} rows")
    if not ((scale > 0) & (scale <= MOST_SCALE)).all():  # NaN neither
        raise ModelFormatError(f"{name} has a scale that is not above 0 or not finite")
    found = np.asarray(codes.astype(np.float32) * scale[:, None], np.float32)
    bits = arrays.get(f"{name}.{KEPT}")
    if bits is None:
        return found
    require_type(bits, f"{name}.{KEPT}", np.uint8, 1)
    kept = np.unpackbits(bits)[:n_rows].astype(bool)
    if int(np.unpackbits(bits).sum()) != len(found) or int(kept.sum()) != len(found):
        raise ModelFormatError(f"{name} has {len(found)} rows, and marks {int(kept.sum())}")
    whole = np.zeros((len(kept), codes.shape[1]), np.float32)
    whole[kept] = found
    return whole


def round_rows(matrix: Real) -> npt.NDArray[np.float32]:
    """A matrix with its numbers rounded as `encode_rows` stores them."""
    scale = row_scales(matrix)[:, None]
    codes = np.rint(matrix / np.where(scale > 0, scale, 1))
    return np.asarray(codes.astype(np.float32) * scale, np.float32)


def drop_rare(
    network: Network, sentences: Iterable[Sequence[str]], least_words: int, least_forms: int
) -> Network:
    """The network without the vectors of rare words, affixes and shapes.

    Words without a vector are read as unknown ones; forms without one add nothing.

    Parameters
    ----------
    sentences
        What the network learnt from.
    least_words, least_forms
        How often a word, or a row of the table of forms, has to occur to be kept.
    """
    n_forms = len(network.form_vectors)
    rows = network.rows
    words = np.zeros(len(network.word_vectors), np.int64)
    forms = np.zeros(n_forms, np.int64)
    for sentence in sentences:
        of_words, of_forms = rows.rows(sentence)
        np.add.at(words, of_words, 1)
        np.add.at(forms, of_forms[of_forms >= 0], 1)
    is_kept = words[N_SPECIAL:] >= least_words
    vectors = network.word_vectors[np.append(np.ones(N_SPECIAL, bool), is_kept)]
    kept_forms = np.where(forms[:, None] >= least_forms, network.form_vectors, np.float32(0))
    return replace(
        network, familiar=network.familiar[is_kept], word_vectors=vectors,
        form_vectors=kept_forms.astype(np.float32),
    )  # fmt: skip
