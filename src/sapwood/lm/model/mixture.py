"""`MixtureModel`: several language models at once, with weights by how often a context was seen.

Notation
--------
    p[k](y | c)     of member k
    bin(c)          floor(log2(1 + times the last word was seen)) and the same of the last two
    lam[bin, k]     weights, rows sum to 1                                     [n_bins, n_members]

    p(y | c) = sum over k of lam[bin(c), k] p[k](y | c)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import FileContents, class_of, read_record
from sapwood.lm.data.plain_text import NOTHING, Rows
from sapwood.lm.model.language_model import LanguageModel, require_same_words
from sapwood.lm.model.latent_models import LatentTrigramModel, require_shape
from sapwood.lm.model.normalisation import require_distribution

N_WORD_BINS, N_PAIR_BINS = 16, 8
N_BINS = N_WORD_BINS * N_PAIR_BINS


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
        require_same_words(self.members)

    def __repr__(self) -> str:
        return f"<MixtureModel: {', '.join(type(member).__name__ for member in self.members)}>"

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of its members."""
        return self.members[0].words

    @property
    def is_stream(self) -> bool:  # type: ignore[override]
        """As its members."""
        return self.members[0].is_stream

    @property
    def order(self) -> int:
        """The most of any member, and at least what the bins look at."""
        return max(2 + bool(len(self.bins.pairs)), *(member.order for member in self.members))

    def log_probs(self, rows: Rows) -> FloatArray:
        """See `LanguageModel`."""
        p = np.stack([np.exp(member.log_probs(rows)) for member in self.members], axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((self.weights[self.bins.bin(rows)] * p).sum(axis=1)))

    def to_file(self) -> FileContents:
        """Members one after the other."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "weights": self.weights, "word_bins": self.bins.words,
            "pairs": self.bins.pairs, "pair_bins": self.bins.pair_bins,
        }  # fmt: skip
        headers: list[dict[str, Any]] = []
        for k, member in enumerate(self.members):
            if (owner := self._owner_of(member)) is not None:
                headers.append({"kind": "BigramModel", "inside": owner})
                continue
            inner, header = member.to_file()
            arrays |= {f"{k}.{name}": array for name, array in inner.items()}
            header = {name: value for name, value in header.items() if name != "words"}
            headers.append({"kind": type(member).__name__, **header})
        own = {"words": list(self.words), "members": headers, "record": dict(self.record)}
        return FileContents(arrays, own)

    def _owner_of(self, member: LanguageModel) -> int | None:
        """The member that backs off to another, whose arrays are then written once."""
        for k, other in enumerate(self.members):
            if isinstance(other, LatentTrigramModel) and other.bigram is member:
                return k
        return None

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Members by their kinds."""
        arrays, header = contents
        members: list[Any] = []
        for k, said in enumerate(header["members"]):
            if "inside" in said:
                members.append(int(said["inside"]))
                continue
            start = f"{k}."
            inner = {
                name.removeprefix(start): array
                for name, array in arrays.items()
                if name.startswith(start)
            }
            kind = class_of(said["kind"])
            if not issubclass(kind, LanguageModel) or issubclass(kind, cls):
                msg = f"member {k + 1} is no language model"
                raise ModelFormatError(msg)
            members.append(kind.from_file(FileContents(inner, {**said, "words": header["words"]})))
        if not members:
            msg = "a mixture without members"
            raise ModelFormatError(msg)
        for k, member in enumerate(members):
            if isinstance(member, int):
                owner = members[member]
                if not isinstance(owner, LatentTrigramModel):
                    msg = f"member {k + 1} is not inside another"
                    raise ModelFormatError(msg)
                members[k] = owner.bigram
        bins = ContextBins(arrays["word_bins"], arrays["pairs"], arrays["pair_bins"])
        require_shape(bins.words, "word_bins", np.uint8, (len(members[0].words),))
        require_shape(bins.pairs, "pairs", np.uint64, (len(bins.pairs),))
        require_shape(bins.pair_bins, "pair_bins", np.uint8, (len(bins.pairs),))
        require_shape(arrays["weights"], "weights", np.float64, (N_BINS, len(members)))
        if (bins.words >= N_WORD_BINS).any() or (bins.pair_bins >= N_PAIR_BINS).any():
            msg = "bins of contexts beyond the last"
            raise ModelFormatError(msg)
        if (bins.pairs[1:] <= bins.pairs[:-1]).any():
            msg = "pairs are not in order"
            raise ModelFormatError(msg)
        require_distribution(arrays["weights"], "weights")
        record = read_record(header.get("record", {}))
        return cls(tuple(members), bins, arrays["weights"], record)
