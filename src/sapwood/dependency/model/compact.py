"""Parsers in compact files: tables of few weights in 8 bits, and the tags of words as bits.

A weight of a table is its sign and the logarithm of its ratio to the largest of the table,

    w = sign * most * 2^(-code / FEATURE_CODES_PER_HALVING),    code from 0 to 127,

right to 2.2 %; smaller ones are zeros. Between two weights that are not zero stands their distance
in bytes: 255 goes that far on without a weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import starts_of
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type

Arrays = dict[str, npt.NDArray[Any]]
FEATURE_CODES_PER_HALVING = 16
MOST_CODE, SIGN = 127, 128
FAR = 255  # the distance that has no weight behind it


def round_weights(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Weights rounded as `encode_weights` stores them.

    Examples
    --------
    >>> round_weights(np.array([0.0, 1.0, -0.51, 0.001], np.float32)).tolist()
    [0.0, 1.0, -0.5, 0.0]
    """
    return decode_weights("x", encode_weights("x", weights), len(weights))


def encode_weights(name: str, weights: npt.NDArray[np.float32]) -> Arrays:
    """The arrays of the weights of a table, their names after the table's."""
    most = np.abs(weights).max(initial=0.0)
    ratio = np.abs(weights) / np.float32(most or 1.0)
    with np.errstate(divide="ignore"):
        steps = np.rint(-FEATURE_CODES_PER_HALVING * np.log2(ratio.astype(np.float64)))
    places = np.flatnonzero(steps <= MOST_CODE)
    codes = steps[places].astype(np.uint8) | np.where(weights[places] < 0, SIGN, 0).astype(np.uint8)
    return {
        f"{name}.codes": codes, f"{name}.distances": _distances(places),
        f"{name}.most": np.array([most], np.float32),
    }  # fmt: skip


def _distances(places: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Distances between rising places, in bytes.

    >>> _distances(np.array([3, 4, 600])).tolist()
    [4, 1, 255, 255, 86]
    """
    gap = np.diff(places, prepend=-1)
    n_far, rest = np.divmod(gap, FAR)
    out = np.full(len(gap) + int(n_far.sum()), FAR, np.uint8)
    out[np.cumsum(n_far + 1) - 1] = rest
    return out


def decode_weights(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], size: int
) -> npt.NDArray[np.float32]:
    """The weights of `encode_weights`, from the arrays of a file, which may be damaged."""
    codes, distances, most = (arrays[f"{name}.{part}"] for part in ("codes", "distances", "most"))
    require_type(codes, f"{name}.codes", np.uint8, 1)
    require_type(distances, f"{name}.distances", np.uint8, 1)
    require_type(most, f"{name}.most", np.float32, 1)
    if most.shape != (1,) or not 0 <= most[0] <= 60000:  # NaN neither
        raise ModelFormatError(f"{name} has no largest weight of half precision")
    places = np.cumsum(distances, dtype=np.int64)[distances < FAR] - 1
    rises = len(places) == 0 or (places[0] >= 0 and places[-1] < size)
    if len(places) != len(codes) or not rises or (np.diff(places) <= 0).any():
        msg = f"{name} has {len(codes)} weights for {len(places)} places below {size}"
        raise ModelFormatError(msg)
    weights = np.zeros(size, np.float32)
    weights[places] = (_numbers() * most[0])[codes]
    return weights


def _numbers() -> npt.NDArray[np.float32]:
    """The ratios of all codes to the largest weight, [256]."""
    ratio = np.exp2(-np.arange(MOST_CODE + 1) / FEATURE_CODES_PER_HALVING)
    return np.concatenate([ratio, -ratio]).astype(np.float32)


def encode_tags(starts: npt.NDArray[Any], candidates: npt.NDArray[Any], n_tags: int) -> Arrays:
    """The arrays of a lexicon: a bit for each tag that a word may have.

    Examples
    --------
    >>> arrays = encode_tags(np.array([0, 2, 3]), np.array([0, 2, 1]), 3)
    >>> [part.tolist() for part in decode_tags(arrays, 2, 3)]
    [[0, 2, 3], [0, 2, 1]]
    """
    bits = np.zeros((len(starts) - 1, n_tags), bool)
    bits[np.repeat(np.arange(len(bits)), np.diff(starts)), candidates] = True
    return {"lexicon.tags": np.packbits(bits, axis=1)}


def decode_tags(
    arrays: Mapping[str, npt.NDArray[Any]], n_rows: int, n_tags: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Starts and tags of the rows of a lexicon, from the arrays of a file, which may be damaged."""
    packed = arrays["lexicon.tags"]
    require_type(packed, "lexicon.tags", np.uint8, 2)
    if packed.shape != (n_rows, -(-n_tags // 8)):
        msg = f"lexicon.tags has the shape {packed.shape} for {n_rows} words and {n_tags} tags"
        raise ModelFormatError(msg)
    bits = np.unpackbits(packed, axis=1, count=n_tags)
    starts = starts_of(bits.sum(axis=1, dtype=np.int64)).astype(np.int32)
    return starts, np.nonzero(bits)[1].astype(np.int32)
