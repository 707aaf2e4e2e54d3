"""Language models with a hidden state between the words before and the next word.

Notation (PIVOT, section 8; Saul and Pereira 1997)
--------------------------------------------------
    r[x, h]      p(h | the word before is x)                         [V, m]
    s[y, h]      p(next word is y | h)                               [V, m]
    r2[c, h]     p(h | the two words before), for pairs c seen       [n_pairs, m]
    u[y]         p(y), whatever comes before                         [V]
    weight[x]    share of u after x                                  [V]

    p(y | x) = (1 - weight[x]) sum over h of r[x, h] s[y, h]  +  weight[x] u[y]

Inside Kneser-Ney, u is that of its single words, and p(y | x) what its pairs back off to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError, count
from sapwood.core.model_files import FileContents, read_flag, read_record, require_type
from sapwood.lm.data.plain_text import NOTHING, Rows
from sapwood.lm.model.language_model import LanguageModel, require_finite, require_words
from sapwood.lm.model.ngram_model import NgramModel
from sapwood.lm.model.normalisation import (
    HALF_TOLERANCE,
    require_distribution,
    require_shares,
    require_sums,
)

SingleArray = npt.NDArray[np.float32]
LEAST_U, MOST_LIFT = 1e-30, 65504.0  # a number above 0, and the largest of half precision
STEPS = 255


@dataclass(frozen=True, eq=False, repr=False)
class BigramModel(LanguageModel):
    """The latent bigram model, smoothed by the distribution of single words.

    Attributes
    ----------
    r, s, u, weight
        See the notation of this module.
    """

    words: tuple[str, ...]
    r: SingleArray
    s: SingleArray
    u: FloatArray
    weight: FloatArray
    is_stream: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{count(self.n_states, 'state')}, {count(len(self.words), 'word')}"
        return f"<{type(self).__name__}: {sizes}>"

    @property
    def n_states(self) -> int:
        """Hidden states."""
        return int(self.r.shape[1])

    @property
    def order(self) -> int:
        """One word before the next."""
        return 2

    def state_mix(self, rows: Rows) -> FloatArray:
        """Sum over states of r s for each row."""
        return pair_mix(self.r, self.s, rows[:, 1].astype(np.int64), rows[:, 0].astype(np.int64))

    def log_probs(self, rows: Rows) -> FloatArray:
        """See `LanguageModel`."""
        weight = np.where(rows[:, 1] == NOTHING, 1.0, self.weight[rows[:, 1]])
        with np.errstate(divide="ignore"):
            return np.log((1 - weight) * self.state_mix(rows) + weight * self.u[rows[:, 0]])

    def to_file(self) -> FileContents:
        """All arrays; r and s as `half_states` has them."""
        arrays: dict[str, npt.NDArray[Any]] = {"u": self.u, "weight": self.weight}
        arrays |= half_states(self.r, self.s, self.u)
        header = {
            "words": list(self.words), "is_stream": self.is_stream, "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Check the shapes, which the kernels trust."""
        arrays, header = contents
        words = require_words(header["words"])
        require_finite(arrays)
        u, weight = arrays["u"], arrays["weight"]
        require_shape(u, "u", np.float64, (len(words),))
        require_shape(weight, "weight", np.float64, (len(words),))
        is_stream = read_flag(header["is_stream"], "is_stream")
        require_distribution(u, "u")
        require_shares(weight, "weight")
        record = read_record(header.get("record", {}))
        return cls(words, *whole_states(arrays, u), u, weight, is_stream, record)


@dataclass(frozen=True, eq=False, repr=False)
class LatentTrigramModel(LanguageModel):
    """The state depends on two words; for pairs that were not seen, on the nearer one.

    Attributes
    ----------
    bigram
        For other pairs, and for smoothing.
    pairs : [n_pairs]
        (word before the last) * V + last word, sorted.
    r2 : [n_pairs, m]
        See the notation of this module.
    """

    bigram: BigramModel
    pairs: npt.NDArray[np.uint64]
    r2: SingleArray
    record: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        states = count(self.bigram.n_states, "state")
        return f"<LatentTrigramModel: {states}, {count(len(self.pairs), 'pair')}>"

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the bigram model."""
        return self.bigram.words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """As the bigram model."""
        return self.bigram.is_stream

    @property
    def order(self) -> int:
        """Two words before the next."""
        return 3

    def log_probs(self, rows: Rows) -> FloatArray:
        """See `LanguageModel`."""
        result = self.bigram.log_probs(rows)
        if rows.shape[1] < 3:
            return result
        wanted = rows[:, 2].astype(np.uint64) * np.uint64(len(self.words)) + rows[:, 1]
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        hit = np.flatnonzero(self.pairs[at] == wanted)
        mix = pair_mix(self.r2, self.bigram.s, at[hit], rows[hit, 0].astype(np.int64))
        weight = self.bigram.weight[rows[hit, 1]]
        result[hit] = np.log((1 - weight) * mix + weight * self.bigram.u[rows[hit, 0]])
        return result

    def to_file(self) -> FileContents:
        """The bigram model's arrays, and those of pairs: the roots of r2 in 255 steps."""
        arrays, header = self.bigram.to_file()
        roots = np.rint(STEPS * np.sqrt(self.r2 / self.r2.max(axis=1, keepdims=True)))
        own = {"pairs": self.pairs, "roots": roots.astype(np.uint8)}
        return FileContents(arrays | own, header | {"record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Check the shapes, which the kernels trust."""
        bigram = BigramModel.from_file(_without_record(contents))
        pairs, roots = contents.arrays["pairs"], contents.arrays["roots"]
        require_shape(roots, "roots", np.uint8, (len(pairs), bigram.n_states))
        require_shape(pairs, "pairs", np.uint64, (len(pairs),))
        if not len(pairs) or not (pairs[1:] > pairs[:-1]).all():
            msg = "pairs are not in order"
            raise ModelFormatError(msg)
        r2 = roots.astype(np.float32) ** 2
        total = r2.sum(axis=1, keepdims=True)
        if not total.all():
            msg = "pairs without states"
            raise ModelFormatError(msg)
        return cls(bigram, pairs, r2 / total, read_record(contents.header.get("record", {})))


@dataclass(frozen=True, eq=False, repr=False)
class LatentNgramModel(LanguageModel):
    """N-grams, with hidden states between pairs of words and single ones.

    Attributes
    ----------
    ngrams
        Of order 2 or more. Its pairs back off to the states, and these to its single words.
    r, s, weight
        See the notation of this module.
    """

    ngrams: NgramModel
    r: SingleArray
    s: SingleArray
    weight: FloatArray
    record: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<LatentNgramModel: {count(self.r.shape[1], 'state')}, order {self.order}>"

    @property
    def bigram(self) -> BigramModel:
        """What pairs back off to, as a model."""
        u = np.exp(self.ngrams.p[0].astype(float))
        return BigramModel(self.words, self.r, self.s, u, self.weight, self.is_stream)

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the n-grams."""
        return self.ngrams.words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """As the n-grams."""
        return self.ngrams.is_stream

    @property
    def order(self) -> int:
        """Of the longest n-grams."""
        return self.ngrams.order

    def log_probs(self, rows: Rows) -> FloatArray:
        """See `LanguageModel`."""
        lowest = self.below_pairs(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64))
        return self.ngrams.log_probs_above(rows, np.log(lowest))

    def below_pairs(self, y: IntArray, x: IntArray) -> FloatArray:
        """What pairs of words back off to: the probability of words y after words x."""
        weight = np.where(x == NOTHING, 1.0, self.weight[x])
        single = np.exp(self.ngrams.p[0][y].astype(float))
        return np.asarray((1 - weight) * pair_mix(self.r, self.s, x, y) + weight * single)

    def to_file(self) -> FileContents:
        """The arrays of the n-grams, and those of states."""
        arrays, header = self.ngrams.to_file()
        u = np.exp(arrays["p_1"].astype(float))
        arrays |= half_states(self.r, self.s, u) | {"weight": self.weight}
        return FileContents(arrays, header | {"record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Check the shapes, which the kernels trust."""
        said = contents.header | {"record": {}, "has_states": True}
        ngrams = NgramModel.from_file(contents._replace(header=said))
        weight = contents.arrays["weight"]
        require_shape(weight, "weight", np.float64, (len(ngrams.words),))
        if ngrams.order < 2:
            msg = "states without pairs of words"
            raise ModelFormatError(msg)
        require_shares(weight, "weight")
        u = np.exp(ngrams.p[0].astype(float))
        record = read_record(contents.header.get("record", {}))
        model = cls(ngrams, *whole_states(contents.arrays, u), weight, record)
        require_sums(
            ngrams.keys, ngrams.p, ngrams.b, ngrams.can_follow, lowest=model.below_pairs,
            tolerance=HALF_TOLERANCE,
        )  # fmt: skip
        return model


def _without_record(contents: FileContents) -> FileContents:
    """For the part of a model: how it was made is told of the whole."""
    return contents._replace(header=contents.header | {"record": {}})


def pair_mix(r: SingleArray, s: SingleArray, before: IntArray, after: IntArray) -> FloatArray:
    """Sum over states of r[before, h] s[after, h]."""
    from sapwood.lm.model.kernels.bigrams import pair_probabilities

    out = np.empty(len(before), r.dtype)
    pair_probabilities(np.ascontiguousarray(before), np.ascontiguousarray(after), r, s, out)
    return out.astype(float)


def half_states(
    r: SingleArray, s: SingleArray, u: FloatArray
) -> dict[str, npt.NDArray[np.float16]]:
    """States in half precision; for s, how much likelier a state makes a word than it is alone.

    That has four digits, where s itself would be too small for any.
    """
    lift = s / np.maximum(u, LEAST_U)[:, None]
    return {"r": r.astype(np.float16), "lift": np.minimum(lift, MOST_LIFT).astype(np.float16)}


def whole_states(
    arrays: dict[str, npt.NDArray[Any]], u: FloatArray
) -> tuple[SingleArray, SingleArray]:
    """The tables r and s of a file."""
    r, lift = arrays["r"], arrays["lift"]
    require_shape(r, "r", np.float16, (len(u), r.shape[-1]))
    require_shape(lift, "lift", np.float16, r.shape)
    if not r.shape[1]:
        msg = "no hidden states"
        raise ModelFormatError(msg)
    s = lift * np.maximum(u, LEAST_U)[:, None]
    # Rows of words that never stand before another are 0.
    stated = r.any(axis=1)
    require_distribution(r[stated], "r", tolerance=HALF_TOLERANCE)
    clipped = (lift >= MOST_LIFT).any(axis=0)  # a state of words too rare for half precision
    require_distribution(s.T[~clipped], "lift times u", tolerance=HALF_TOLERANCE)
    if not s.min() >= 0 or (s.sum(axis=0) > 1 + HALF_TOLERANCE).any():
        msg = "lift times u is more than a probability"
        raise ModelFormatError(msg)
    return r.astype(np.float32), s.astype(np.float32)


def require_shape(
    array: npt.NDArray[Any], name: str, kind: npt.DTypeLike, shape: tuple[int, ...]
) -> None:
    """Refuse an array that kernels could not take."""
    require_type(array, name, kind, len(shape))
    if array.shape != shape:
        msg = f"{name} is of shape {array.shape}, expected {shape}"
        raise ModelFormatError(msg)
