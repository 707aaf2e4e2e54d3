"""Models of plain strings: the interface `StringModel`, and the weighted automaton `SequenceModel`.

Notation of automata
--------------------
    alpha    initial   [n]          omega    final   [n]
    A_sigma  steps     [d, n, n]    from a state (row) to the next (column), reading sigma

    f(x) = alpha' A_x1 ... A_xm omega

A hidden Markov model is an automaton whose weights sum to 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log
from typing import Any, ClassVar, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, SignedLog
from sapwood.core.errors import ModelFormatError, SapwoodError, as_count, as_sentence
from sapwood.core.model_files import FileContents, SavedModel, read_names, require_type
from sapwood.corpora.tree import Tree
from sapwood.hankel.data import right_branching

PROBABILITY_TOLERANCE = 1e-8
LARGEST_WEIGHT = 1e30  # a weight whose products over a string are still numbers
N_SYMBOLS_SHOWN = 8  # symbols that a message lists
MAX_DRAWN_SYMBOLS = 1000  # a draw that grows longer is drawn again
MAX_DRAWS = 1000


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
        """Whether the sum over all strings is finite."""
        return bool(np.isfinite(self.mass))


class StringModel(SavedModel):
    """A function from strings of symbols to numbers, with arrays over hidden states.

    Attributes
    ----------
    SHAPES
        The arrays of the model, in the order of its constructor, and their axes: n states, d
        symbols.
    """

    SHAPES: ClassVar[Mapping[str, str]]
    symbols: tuple[str, ...]
    initial: FloatArray
    record: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.symbols or len(set(self.symbols)) != len(self.symbols):
            raise ModelFormatError("a symbol is listed twice" if self.symbols else "no symbols")
        sizes = {"n": self.initial.size, "d": len(self.symbols)}
        for (name, axes), array in zip(self.SHAPES.items(), self.weights, strict=True):
            shape = tuple(sizes[axis] for axis in axes)
            require_type(array, name, np.float64, len(shape))
            if array.shape != shape:
                raise ModelFormatError(f"{name} is of shape {array.shape}, expected {shape}")
            low, high = array.min(initial=0.0), array.max(initial=0.0)
            if not (low >= -LARGEST_WEIGHT and high <= LARGEST_WEIGHT):  # nor where one is NaN
                raise ModelFormatError(
                    f"a number of {name} is not finite or beyond {LARGEST_WEIGHT:g}"
                )

    @property
    def weights(self) -> tuple[FloatArray, ...]:
        """The arrays of the model."""
        return tuple(getattr(self, name) for name in self.SHAPES)

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return len(self.initial)

    @property
    @abstractmethod
    def state_sums(self) -> FloatArray:
        """The sum of the weights of all rules or steps of each state, shape [n]."""

    @cached_property
    def is_probabilistic(self) -> bool:
        """Whether weights are probabilities: none negative, and each state sums to 1."""
        sums = np.append(self.state_sums, self.initial.sum())
        is_one = np.abs(sums - 1) < PROBABILITY_TOLERANCE
        return bool(is_one.all() and all((x >= 0).all() for x in self.weights))

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
                some = ", ".join(self.symbols[:N_SYMBOLS_SHOWN]) + (
                    ", ..." * (len(self.symbols) > N_SYMBOLS_SHOWN)
                )
                msg = f"symbol {word!r}, the {place}. of its string, is not in the model"
                raise SapwoodError(msg, hint=f"the model has {len(self.symbols)} symbols: {some}")
        return np.array([known[word] for word in words], np.int64)

    def number_values(self, strings: Sequence[IntArray]) -> FloatArray:
        """f(x) of strings of symbol numbers; below the smallest number, 0."""
        found, power = self.scaled_values(strings)
        return np.asarray(np.ldexp(found, np.clip(power, -3000, 3000)))

    def values(self, strings: Iterable[Sequence[str]]) -> FloatArray:
        """f(x) of each string; below the smallest number, 0."""
        return self.number_values([self.numbers(words) for words in strings])

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

    def _require_probabilities(self) -> None:
        """Refuse to draw strings from weights that are no probabilities."""
        if not self.is_probabilistic:
            msg = "this model holds weights, not probabilities, so strings cannot be drawn from it"
            raise SapwoodError(msg, hint="learn with --method em to sample")

    def to_file(self) -> FileContents:
        """The arrays, the symbols and the record."""
        arrays = dict(zip(self.SHAPES, self.weights, strict=True))
        return FileContents(arrays, {"symbols": list(self.symbols), "record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arrays, header = contents
        symbols = read_names(header["symbols"], "symbols")
        make: Any = cls
        model: Self = make(symbols, *(arrays[x] for x in cls.SHAPES), header.get("record", {}))
        return model

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        return (
            f"<{type(self).__name__} ({method}): {len(self.symbols):,} symbols, "
            f"{self.n_states:,} states>"
        )


def signed_log(value: float, power: int) -> SignedLog:
    """The sign and the log of the number `value * 2**power`."""
    if value == 0.0:
        return SignedLog(-inf, 0)
    return SignedLog(log(abs(value)) + power * log(2.0), 1 if value > 0 else -1)


def endless_draws() -> SapwoodError:
    """The error for a model whose strings do not end."""
    msg = f"{MAX_DRAWS} draws in a row grew past {MAX_DRAWN_SYMBOLS} symbols"
    return SapwoodError(f"{msg}: the model does not end")


@dataclass(frozen=True, eq=False, repr=False)
class SequenceModel(StringModel):
    """A weighted automaton over symbols; see the notation of this module.

    Attributes
    ----------
    symbols : [d]
    initial, final : [n]
    steps : [d, n, n]
    record
        How it was made.

    Examples
    --------
    >>> half = np.full((1, 2), 0.5)
    >>> coin = SequenceModel(("h", "t"), np.ones(1), half[0, :1], np.full((2, 1, 1), 0.25))
    >>> round(coin.value("h t".split()), 6), coin.total().expected_length
    (0.03125, 1.0)
    """

    SHAPES: ClassVar[Mapping[str, str]] = {"initial": "n", "final": "n", "steps": "dnn"}
    symbols: tuple[str, ...]
    initial: FloatArray
    final: FloatArray
    steps: FloatArray
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state_sums(self) -> FloatArray:
        """The weights of stopping in a state, and of every step from it."""
        return np.asarray(self.final + self.steps.sum(axis=(0, 2)))

    def scaled_values(self, strings: Sequence[IntArray]) -> tuple[FloatArray, IntArray]:
        """Products of vectors and matrices, each as a number and a power of two."""
        value, power = np.zeros(len(strings)), np.zeros(len(strings), np.int64)
        for place, words in enumerate(strings):
            vector = self.initial
            for x in words.tolist():
                vector = vector @ self.steps[x]
                shift = int(np.frexp(np.abs(vector).max())[1])
                vector = np.ldexp(vector, -shift)
                power[place] += shift
            value[place] = vector @ self.final
        return value, power

    def total(self) -> Total:
        """The sum over all strings: alpha' (I - A)^-1 omega with A the sum of the steps."""
        step = self.steps.sum(axis=0)
        radius = float(np.abs(np.linalg.eigvals(step)).max())
        if radius >= 1 - 1e-12:
            return Total(np.inf, np.inf, radius)
        inverse = np.linalg.inv(np.eye(self.n_states) - step)
        mass = float(self.initial @ inverse @ self.final)
        length = float(self.initial @ inverse @ step @ inverse @ self.final)
        return Total(mass, length / mass if mass else 0.0, radius)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw strings as right-branching trees; empty ones are drawn again."""
        self._require_probabilities()
        rng, states = np.random.default_rng(seed), self.n_states
        outcomes = np.concatenate(
            [self.final[:, None], self.steps.transpose(1, 0, 2).reshape(states, -1)], axis=1
        )
        cumulative = np.cumsum(outcomes, axis=1)
        start = np.cumsum(self.initial)
        drawn = []
        for _ in range(as_count(n, "the number of strings")):
            for _ in range(MAX_DRAWS):
                words: list[int] = []
                h = int(np.searchsorted(start, rng.random() * start[-1], side="right"))
                while len(words) <= MAX_DRAWN_SYMBOLS:
                    ticket = rng.random() * cumulative[h, -1]
                    outcome = int(np.searchsorted(cumulative[h], ticket, side="right")) - 1
                    if outcome < 0:
                        break
                    x, h = divmod(outcome, states)
                    words.append(x)
                if 0 < len(words) <= MAX_DRAWN_SYMBOLS:
                    break
            else:
                raise endless_draws()
            drawn.append(right_branching([self.symbols[x] for x in words]).tree())
        return drawn
