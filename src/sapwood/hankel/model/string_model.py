"""`StringModel`: what models of plain strings can be asked, whatever answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.core.arguments import as_sentence
from sapwood.core.arrays import FloatArray, IntArray, SignedLog
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import require_type

if TYPE_CHECKING:
    import numpy.typing as npt

    from sapwood.corpora.tree import Tree

SUM_TOLERANCE = 1e-8
LARGEST = 1e30  # a weight whose products over a string are still numbers
SHOWN = 8  # symbols that a message lists
MAX_WORDS = 1000  # a draw that grows longer is drawn again
MAX_TRIES = 1000


@dataclass(frozen=True)
class Total:
    """The sum of a model over all strings.

    Attributes
    ----------
    mass
        The sum of all values; infinite where it diverges.
    expected_length
        Mean length, weighted by values; infinite where it diverges.
    spectral_radius
        Of the map whose powers are summed: below 1 where the sum converges.
    """

    mass: float
    expected_length: float
    spectral_radius: float

    @property
    def converges(self) -> bool:
        """Whether there is a sum."""
        return bool(np.isfinite(self.mass))


class StringModel(ABC):
    """A function from strings of symbols to numbers."""

    symbols: tuple[str, ...]
    record: Mapping[str, Any]

    @property
    @abstractmethod
    def n_states(self) -> int:
        """Hidden states."""

    @property
    @abstractmethod
    def is_probabilistic(self) -> bool:
        """Whether the weights are those of a probability, so that strings can be drawn."""

    @abstractmethod
    def scaled_values(self, strings: Sequence[IntArray]) -> tuple[FloatArray, IntArray]:
        """Values of strings of symbol numbers, each as a number and a power of two."""

    @abstractmethod
    def total(self) -> Total:
        """The sum over all strings, and their expected length."""

    @abstractmethod
    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw strings, as trees without labels."""

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each symbol."""
        return {symbol: place for place, symbol in enumerate(self.symbols)}

    def numbers(self, words: Sequence[str]) -> IntArray:
        """Numbers of the symbols of a string.

        Raises
        ------
        SapwoodError
            For a symbol that the model does not have.
        """
        known = self.number
        words = as_sentence(words)
        for place, word in enumerate(words, 1):
            if word not in known:
                some = ", ".join(self.symbols[:SHOWN]) + (", ..." * (len(self.symbols) > SHOWN))
                msg = f"symbol {word!r}, the {place}. of its string, is not in the model"
                raise SapwoodError(msg, hint=f"the model has {len(self.symbols)} symbols: {some}")
        return np.array([known[word] for word in words], np.int64)

    def values(self, strings: Iterable[Sequence[str]]) -> FloatArray:
        """f(x) of each string; below the smallest number, 0."""
        found, power = self.scaled_values([self.numbers(words) for words in strings])
        return np.asarray(np.ldexp(found, np.clip(power, -3000, 3000)))

    def value(self, words: Sequence[str]) -> float:
        """f(x) of one string."""
        return float(self.values([words])[0])

    def signed_log_prob(self, words: Sequence[str]) -> SignedLog:
        """The log of |f(x)|, and the sign of f(x)."""
        found, power = self.scaled_values([self.numbers(words)])
        return signed_log(float(found[0]), int(power[0]))

    def log_prob(self, words: Sequence[str]) -> float:
        """The log of |f(x)|."""
        return self.signed_log_prob(words).log

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        return (
            f"<{type(self).__name__} ({method}): {len(self.symbols):,} symbols, "
            f"{self.n_states:,} states>"
        )


def signed_log(value: float, power: int) -> SignedLog:
    """The number `value * 2**power`."""
    if value == 0.0:
        return SignedLog(-inf, 0)
    return SignedLog(log(abs(value)) + power * log(2.0), 1 if value > 0 else -1)


def check_arrays(
    symbols: tuple[str, ...], arrays: Mapping[str, tuple[npt.NDArray[Any], tuple[int, ...]]]
) -> None:
    """Refuse symbols that are listed twice, and arrays of another type or shape, or not finite."""
    if not symbols or len(set(symbols)) != len(symbols):
        msg = "no symbols" if not symbols else "a symbol is listed twice"
        raise ModelFormatError(msg)
    for name, (array, shape) in arrays.items():
        require_type(array, name, np.float64, len(shape))
        if array.shape != shape:
            msg = f"{name} is of shape {array.shape}, expected {shape}"
            raise ModelFormatError(msg)
        low, high = array.min(initial=0.0), array.max(initial=0.0)
        if not (low >= -LARGEST and high <= LARGEST):  # nor where one is NaN
            msg = f"a number of {name} is not finite or beyond {LARGEST:g}"
            raise ModelFormatError(msg)


def refuse_to_draw() -> SapwoodError:
    """Why strings cannot be drawn from weights."""
    msg = "this model holds weights, not probabilities, so strings cannot be drawn from it"
    return SapwoodError(msg, hint="learn with --method em to sample")


def refuse_to_end() -> SapwoodError:
    """Why no string was drawn."""
    msg = f"{MAX_TRIES} draws in a row grew past {MAX_WORDS} symbols: the model does not end"
    return SapwoodError(msg)
