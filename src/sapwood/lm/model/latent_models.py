"""Language models with a hidden state between the words before and the next word, and mixtures.

Notation (PIVOT, section 8; Saul and Pereira 1997)
--------------------------------------------------
    r[x, h]      p(h | the word before is x)                         [V, m]
    s[y, h]      p(next word is y | h)                               [V, m]
    r2[c, h]     p(h | the two words before), for pairs c seen       [n_pairs, m]
    u[y]         p(y), whatever comes before                         [V]
    weight[x]    weight of u after x                                 [V]

    p(y | x) = (1 - weight[x]) sum over h of r[x, h] s[y, h]  +  weight[x] u[y]

Inside Kneser-Ney, u is that of its single words, and p(y | x) what its pairs back off to.

Mixtures of members k have weights by how often a context c was seen:

    bin(c)          floor(log2(1 + n)) of the counts n of the last word and of the last two words
    lam[bin, k]     weights, rows sum to 1                                     [n_bins, n_members]

    p(y | c) = sum over k of lam[bin(c), k] p[k](y | c)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError, SapwoodError, count
from sapwood.core.model_files import FileContents, class_of, read_flag, read_record
from sapwood.lm.data.ngrams import NOTHING, NgramCounts, Rows
from sapwood.lm.model.language_model import (
    HALF_TOLERANCE,
    LanguageModel,
    require_distribution,
    require_finite,
    require_shape,
    require_shares,
    require_words,
)
from sapwood.lm.model.ngram_model import NgramModel, require_sums

SingleArray = npt.NDArray[np.float32]
LEAST_U, MOST_LIFT = 1e-30, 65504.0  # a number above 0, and the largest of half precision
ROOT_STEPS = 255
N_WORD_BINS, N_PAIR_BINS = 16, 8
N_CONTEXT_BINS = N_WORD_BINS * N_PAIR_BINS


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
        """Number of hidden states."""
        return int(self.r.shape[1])

    @property
    def order(self) -> int:
        """Two: one word before the next one."""
        return 2

    def state_mix(self, rows: Rows) -> FloatArray:
        """Sum over states of r s for each row."""
        return pair_mix(self.r, self.s, rows[:, 1].astype(np.int64), rows[:, 0].astype(np.int64))

    def log_probs(self, rows: Rows) -> FloatArray:
        """Log-probability of the first word of each row; see `LanguageModel.log_probs`."""
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
        """The model of a file, whose shapes are checked, since the kernels trust them."""
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
        """The words of the bigram model."""
        return self.bigram.words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """Whether the bigram model is of a stream."""
        return self.bigram.is_stream

    @property
    def order(self) -> int:
        """Three: two words before the next one."""
        return 3

    def log_probs(self, rows: Rows) -> FloatArray:
        """Log-probability of the first word of each row; see `LanguageModel.log_probs`."""
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
        roots = np.rint(ROOT_STEPS * np.sqrt(self.r2 / self.r2.max(axis=1, keepdims=True)))
        own = {"pairs": self.pairs, "roots": roots.astype(np.uint8)}
        return FileContents(arrays | own, header | {"record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file, whose shapes are checked, since the kernels trust them."""
        header = contents.header | {"record": {}}  # the record is that of the whole model
        bigram = BigramModel.from_file(contents._replace(header=header))
        pairs, roots = contents.arrays["pairs"], contents.arrays["roots"]
        require_shape(roots, "roots", np.uint8, (len(pairs), bigram.n_states))
        require_shape(pairs, "pairs", np.uint64, (len(pairs),))
        if not len(pairs) or not (pairs[1:] > pairs[:-1]).all():
            raise ModelFormatError("pairs are not in order")
        r2 = roots.astype(np.float32) ** 2
        total = r2.sum(axis=1, keepdims=True)
        if not total.all():
            raise ModelFormatError("pairs without states")
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
        """The latent bigram model that pairs back off to."""
        u = np.exp(self.ngrams.p[0].astype(float))
        return BigramModel(self.words, self.r, self.s, u, self.weight, self.is_stream)

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        """The words of the n-grams."""
        return self.ngrams.words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """Whether the n-grams are of a stream."""
        return self.ngrams.is_stream

    @property
    def order(self) -> int:
        """The order of the longest n-grams."""
        return self.ngrams.order

    def log_probs(self, rows: Rows) -> FloatArray:
        """Log-probability of the first word of each row; see `LanguageModel.log_probs`."""
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
        """The model of a file, whose shapes are checked, since the kernels trust them."""
        header = contents.header | {"record": {}, "has_states": True}
        ngrams = NgramModel.from_file(contents._replace(header=header))
        weight = contents.arrays["weight"]
        require_shape(weight, "weight", np.float64, (len(ngrams.words),))
        if ngrams.order < 2:
            raise ModelFormatError("states without pairs of words")
        require_shares(weight, "weight")
        u = np.exp(ngrams.p[0].astype(float))
        record = read_record(contents.header.get("record", {}))
        model = cls(ngrams, *whole_states(contents.arrays, u), weight, record)
        require_sums(
            ngrams.keys, ngrams.p, ngrams.b, ngrams.can_follow, lowest=model.below_pairs,
            tolerance=HALF_TOLERANCE,
        )  # fmt: skip
        return model


def pair_mix(r: SingleArray, s: SingleArray, before: IntArray, after: IntArray) -> FloatArray:
    """Sum over states of r[before, h] s[after, h]."""
    from sapwood.lm.kernels.bigrams import pair_probabilities

    out = np.empty(len(before), r.dtype)
    pair_probabilities(np.ascontiguousarray(before), np.ascontiguousarray(after), r, s, out)
    return out.astype(float)


def half_states(
    r: SingleArray, s: SingleArray, u: FloatArray
) -> dict[str, npt.NDArray[np.float16]]:
    """States in half precision; s as its lift, s / u, since s itself would underflow."""
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
        raise ModelFormatError("no hidden states")
    s = lift * np.maximum(u, LEAST_U)[:, None]
    # Rows of words that never stand before another are 0.
    stated = r.any(axis=1)
    require_distribution(r[stated], "r", tolerance=HALF_TOLERANCE)
    clipped = (lift >= MOST_LIFT).any(axis=0)  # a state of words too rare for half precision
    require_distribution(s.T[~clipped], "lift times u", tolerance=HALF_TOLERANCE)
    if not s.min() >= 0 or (s.sum(axis=0) > 1 + HALF_TOLERANCE).any():
        raise ModelFormatError("lift times u is more than a probability")
    return r.astype(np.float32), s.astype(np.float32)


@dataclass(frozen=True, eq=False)
class ContextBins:
    """How often contexts were seen in training.

    Attributes
    ----------
    words : [V]
        Bin of each word as the last before the next.
    pairs, pair_bins : [n_pairs]
        (word before the last) * V + last word, sorted, and their bins.
    """

    words: npt.NDArray[np.uint8]
    pairs: npt.NDArray[np.uint64]
    pair_bins: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, rows: Rows, counts: IntArray, n_words: int) -> Self:
        """Bins of the contexts of n-grams and their counts."""
        last = np.bincount(rows[:, 1], counts, n_words)
        words = np.minimum(np.log2(1 + last), N_WORD_BINS - 1).astype(np.uint8)
        if rows.shape[1] < 3:
            return cls(words, np.zeros(0, np.uint64), np.zeros(0, np.uint8))
        keys = rows[:, 2].astype(np.uint64) * np.uint64(n_words) + rows[:, 1]
        is_pair = rows[:, 2] != NOTHING
        pairs, place = np.unique(keys[is_pair], return_inverse=True)
        seen = np.bincount(place, counts[is_pair])
        return cls(words, pairs, np.minimum(np.log2(1 + seen), N_PAIR_BINS - 1).astype(np.uint8))

    def bin(self, rows: Rows) -> IntArray:
        """The bin of each row's context."""
        bins = self.words[rows[:, 1]].astype(np.int64) * N_PAIR_BINS
        if rows.shape[1] < 3 or not len(self.pairs):
            return bins
        keys = rows[:, 2].astype(np.uint64) * np.uint64(len(self.words)) + rows[:, 1]
        at = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        return bins + np.where(self.pairs[at] == keys, self.pair_bins[at], 0)


@dataclass(frozen=True, eq=False, repr=False)
class MixtureModel(LanguageModel):
    """A mixture of language models of the same words.

    Attributes
    ----------
    members
    bins
        Of contexts.
    weights : [n_bins, n_members]
        Rows sum to 1.
    """

    members: tuple[LanguageModel, ...]
    bins: ContextBins
    weights: FloatArray
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, *others = self.members
        if any(x.words != first.words or x.is_stream != first.is_stream for x in others):
            raise SapwoodError(
                "the models were not learnt from the same words, so they cannot be mixed",
                hint="train them from the same counts, with the same min-count",
            )

    @classmethod
    def of(
        cls,
        members: Sequence[LanguageModel],
        counts: NgramCounts,
        weights: FloatArray,
        record: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """The mixture of some models whose contexts are binned by the counts of a text."""
        bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
        return cls(tuple(members), bins, weights, record)

    def __repr__(self) -> str:
        sizes = (repr(member).partition(": ")[2].removesuffix(">") for member in self.members)
        return f"<MixtureModel of {len(self.members)}: {'; '.join(sizes)}>"

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        """The words of the members."""
        return self.members[0].words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """Whether the members are of a stream."""
        return self.members[0].is_stream

    @property
    def order(self) -> int:
        """The largest order of the members, and at least that of the contexts of the bins."""
        return max(2 + bool(len(self.bins.pairs)), *(member.order for member in self.members))

    def log_probs(self, rows: Rows) -> FloatArray:
        """Log-probability of the first word of each row; see `LanguageModel.log_probs`."""
        bins, p = self.members_on(rows)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((self.weights[bins] * p).sum(axis=1)))

    def members_on(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        """The bin of each row, and the probability of its first word by each member [n, k]."""
        p = np.stack([np.exp(member.log_probs(rows)) for member in self.members], axis=1)
        return self.bins.bin(rows), p

    def to_file(self) -> FileContents:
        """The arrays of all members, prefixed with the member's index, and the weights."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "weights": self.weights, "word_bins": self.bins.words,
            "pairs": self.bins.pairs, "pair_bins": self.bins.pair_bins,
        }  # fmt: skip
        headers: list[dict[str, Any]] = []
        trigrams = [x if isinstance(x, LatentTrigramModel) else None for x in self.members]
        for k, member in enumerate(self.members):
            owner = next((i for i, x in enumerate(trigrams) if x and x.bigram is member), None)
            if owner is not None:
                headers.append({"kind": "BigramModel", "inside": owner})
                continue
            inner, header = member.to_file()
            arrays |= {f"{k}.{name}": array for name, array in inner.items()}
            header = {name: value for name, value in header.items() if name != "words"}
            headers.append({"kind": type(member).__name__, **header})
        own = {"words": list(self.words), "members": headers, "record": dict(self.record)}
        return FileContents(arrays, own)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The mixture of a file, with its members by their kinds."""
        arrays, header = contents
        members: list[Any] = []
        for k, part in enumerate(header["members"]):
            if "inside" in part:
                members.append(int(part["inside"]))
                continue
            start = f"{k}."
            inner = {
                name.removeprefix(start): array
                for name, array in arrays.items()
                if name.startswith(start)
            }
            kind = class_of(part["kind"])
            if not issubclass(kind, LanguageModel) or issubclass(kind, cls):
                raise ModelFormatError(f"member {k + 1} is no language model")
            members.append(kind.from_file(FileContents(inner, {**part, "words": header["words"]})))
        if not members:
            raise ModelFormatError("a mixture without members")
        for k, member in enumerate(members):
            if isinstance(member, int):
                owner = members[member]
                if not isinstance(owner, LatentTrigramModel):
                    raise ModelFormatError(f"member {k + 1} is not inside another")
                members[k] = owner.bigram
        bins = ContextBins(arrays["word_bins"], arrays["pairs"], arrays["pair_bins"])
        require_shape(bins.words, "word_bins", np.uint8, (len(members[0].words),))
        require_shape(bins.pairs, "pairs", np.uint64, (len(bins.pairs),))
        require_shape(bins.pair_bins, "pair_bins", np.uint8, (len(bins.pairs),))
        require_shape(arrays["weights"], "weights", np.float64, (N_CONTEXT_BINS, len(members)))
        if (bins.words >= N_WORD_BINS).any() or (bins.pair_bins >= N_PAIR_BINS).any():
            raise ModelFormatError("bins of contexts beyond the last")
        if (bins.pairs[1:] <= bins.pairs[:-1]).any():
            raise ModelFormatError("pairs are not in order")
        require_distribution(arrays["weights"], "weights")
        record = read_record(header.get("record", {}))
        return cls(tuple(members), bins, arrays["weights"], record)
