"""`SequenceModel`: a weighted automaton; a hidden Markov model is one whose weights add up.

Notation
--------
    alpha    initial   [n]          omega    final   [n]
    A_sigma  steps     [d, n, n]    from a state (row) to the next (column), reading sigma

    f(x) = alpha' A_x1 ... A_xm omega
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from sapwood.core.arguments import as_count
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.model_files import FileContents, SavedModel, read_names
from sapwood.corpora.tree import Tree
from sapwood.hankel.data.bracketed import right_branching
from sapwood.hankel.model.string_model import (
    MAX_TRIES,
    MAX_WORDS,
    SUM_TOLERANCE,
    StringModel,
    Total,
    check_arrays,
    refuse_to_draw,
    refuse_to_end,
)


@dataclass(frozen=True, eq=False, repr=False)
class SequenceModel(StringModel, SavedModel):
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
    >>> coin = SequenceModel.from_hmm(("h", "t"), np.ones(1), half[:, :1], half)
    >>> round(coin.value("h t".split()), 6), coin.total().expected_length
    (0.03125, 1.0)
    """

    symbols: tuple[str, ...]
    initial: FloatArray
    final: FloatArray
    steps: FloatArray
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, d = self.initial.size, len(self.symbols)
        arrays = {
            "initial": (self.initial, (n,)),
            "final": (self.final, (n,)),
            "steps": (self.steps, (d, n, n)),
        }
        check_arrays(self.symbols, arrays)

    @classmethod
    def from_hmm(
        cls,
        symbols: tuple[str, ...],
        start: FloatArray,
        transitions: FloatArray,
        emissions: FloatArray,
    ) -> Self:
        """The automaton of a hidden Markov model that may stop.

        Parameters
        ----------
        start : [n]
            Distribution of the first state.
        transitions : [n, n]
            From a state (row) to the next; what a row lacks to 1 is the probability to stop before
            a symbol is read there.
        emissions : [n, d]
            Symbols of each state; rows sum to 1.
        """
        steps = np.einsum("hx,hk->xhk", emissions, transitions)
        stop = 1 - transitions.sum(axis=1)
        # a symbol is read where the walk goes on: the state that stops reads none
        return cls(symbols, np.asarray(start, float), stop, np.ascontiguousarray(steps))

    @property
    def n_states(self) -> int:
        """Hidden states."""
        return len(self.initial)

    @cached_property
    def is_probabilistic(self) -> bool:
        """Whether weights are probabilities: none negative, and what each state does sums to 1."""
        arrays = (self.initial, self.final, self.steps)
        sums = self.final + self.steps.sum(axis=(0, 2))
        near = abs(self.initial.sum() - 1) < SUM_TOLERANCE
        return bool(
            near
            and (np.abs(sums - 1) < SUM_TOLERANCE).all()
            and all((x >= 0).all() for x in arrays)
        )

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
        if not self.is_probabilistic:
            raise refuse_to_draw()
        rng, states = np.random.default_rng(seed), self.n_states
        outcomes = np.concatenate(
            [self.final[:, None], self.steps.transpose(1, 0, 2).reshape(states, -1)], axis=1
        )
        cumulative = np.cumsum(outcomes, axis=1)
        start = np.cumsum(self.initial)
        drawn = []
        for _ in range(as_count(n, "the number of strings")):
            for _ in range(MAX_TRIES):
                words: list[int] = []
                h = int(np.searchsorted(start, rng.random() * start[-1], side="right"))
                while len(words) <= MAX_WORDS:
                    ticket = rng.random() * cumulative[h, -1]
                    outcome = int(np.searchsorted(cumulative[h], ticket, side="right")) - 1
                    if outcome < 0:
                        break
                    x, h = divmod(outcome, states)
                    words.append(x)
                if 0 < len(words) <= MAX_WORDS:
                    break
            else:
                raise refuse_to_end()
            drawn.append(right_branching([self.symbols[x] for x in words]).tree())
        return drawn

    def to_file(self) -> FileContents:
        """The three arrays, the symbols and the record."""
        arrays = {"initial": self.initial, "final": self.final, "steps": self.steps}
        return FileContents(arrays, {"symbols": list(self.symbols), "record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The automaton of a file."""
        arrays, header = contents
        return cls(
            read_names(header["symbols"], "symbols"), arrays["initial"], arrays["final"],
            arrays["steps"], header.get("record", {}),
        )  # fmt: skip
