"""Weights of latent grammars in 16 bits a number, for files of ensembles.

Members disagree about far more than the third digit of a weight, so files round weights: a number
is kept as its sign and the logarithm of its ratio to the largest number of its block,

    w = sign * scale[block] * 2^(-code / CODES_PER_HALVING),

which is right to 1 part in 3,000 down to a ratio of 2^-32; smaller numbers become 0.

- **Probabilities**: a block is all rules and words of a symbol in a state, and its scale is not
  stored: it makes them sum to 1.
- **Weights of any sign**: a block is the tensor of a rule, or the vector of a word with a tag. Its
  scale is its largest number, in single precision.

EM leaves few rules of a state above 0: where there are many zeros, a bit a number marks them, and
only the others have codes. To pack unpacked numbers again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.latent_grammar import MAX_STATES, LatentGrammar
from sapwood.core.arrays import PIECE, FloatArray, IntArray, pieces, ranges, starts_of
from sapwood.core.errors import ModelFormatError

CODES_PER_HALVING = 1024
ZERO_CODE = 2**15 - 1  # the code of 0
MANY_ZEROS = 1 / 16  # the fraction of zeros from which on a bit a number takes less than codes
Codes = npt.NDArray[np.uint16]
Arrays = dict[str, npt.NDArray[Any]]


class _Layout(NamedTuple):
    """Sizes of the blocks of a grammar's weights, and the states that they belong to."""

    # sizes of tensors, of their rows (one for each state of the parent), and of words' vectors
    tensor: IntArray
    row: IntArray
    vector: IntArray
    # symbol and state of each row, and of the first number of words' vectors
    state_of_row: IntArray
    state_of_word: IntArray
    n_states: int

    @classmethod
    def of(
        cls, n_states: IntArray, rules: IntArray, rank: IntArray | None, tags: IntArray
    ) -> _Layout:
        """From states of symbols, rules, their ranks where some are factored, entries' symbols."""
        m, start = n_states[rules], starts_of(n_states)
        whole = m.prod(axis=1)
        tensor = whole if rank is None else np.where(rank == 0, whole, rank * m.sum(axis=1))
        a = rules[:, 0]
        return cls(
            tensor, np.repeat(m[:, 1] * m[:, 2], m[:, 0]), n_states[tags],
            ranges(start[a], start[a + 1]), start[tags], int(start[-1]),
        )  # fmt: skip


def pack_weights(grammar: LatentGrammar) -> Arrays:
    """The weights of rules and words of a grammar with hidden states, packed."""
    rank = grammar.rule_rank if grammar.rule_rank.any() else None
    tags = grammar.n_phrases + grammar.lexicon.entry_tag.astype(np.int64)
    layout = _Layout.of(grammar.n_states, grammar.rules.astype(np.int64), rank, tags)
    rules, words = grammar.rule_weights, grammar.lexicon.weights
    if grammar.is_probabilistic:
        largest = np.zeros(layout.n_states)
        of_words = ranges(layout.state_of_word, layout.state_of_word + layout.vector)
        np.maximum.at(largest, layout.state_of_row, _largest(rules, layout.row))
        np.maximum.at(largest, of_words, words)
        of_rules = np.repeat(largest[layout.state_of_row], layout.row)
        return _codes("rule", rules, of_rules) | _codes("lexicon", words, largest[of_words])
    packed: Arrays = {}
    for name, numbers, sizes in (
        ("rule", rules, layout.tensor), ("lexicon", words, layout.vector)
    ):  # fmt: skip
        scale = _largest(np.abs(numbers), sizes).astype(np.float32)
        packed |= _codes(name, numbers, np.repeat(scale.astype(np.float64), sizes))
        packed[f"{name}_scale"] = scale
    return packed


def unpack_weights(
    arrays: Mapping[str, npt.NDArray[Any]], n_phrases: int, *, is_probabilistic: bool
) -> Arrays:
    """Unpack the arrays of `pack_weights`: rule weights and lexicon weights.

    Raises
    ------
    ModelFormatError, LookupError
        Where the numbers do not fit the rules and words, or are not there.
    """
    tags = n_phrases + arrays["lexicon_entry_tag"].astype(np.int64)
    rules_of = arrays["rules"].astype(np.int64)
    _check_states(arrays["n_states"], rules_of, arrays.get("rule_rank"))
    try:
        layout = _Layout.of(arrays["n_states"], rules_of, arrays.get("rule_rank"), tags)
    except (IndexError, ValueError) as error:
        raise ModelFormatError(f"packed weights cannot be placed: {error}") from error
    sizes = {"rule": layout.tensor, "lexicon": layout.vector}
    rules, words = (_Kept.of(arrays, name, int(sizes[name].sum())) for name in sizes)
    if not is_probabilistic:
        for name, part in (("rule", rules), ("lexicon", words)):
            scale = arrays[f"{name}_scale"]
            if scale.dtype != np.float32 or scale.shape != sizes[name].shape:
                raise ModelFormatError(
                    f"{scale.size} scales of type {scale.dtype}, expected {len(sizes[name])}"
                )
            counts = part.counts(sizes[name])
            for blocks, at in pieces(starts_of(counts)):
                part.numbers[at] *= np.repeat(scale[blocks].astype(np.float64), counts[blocks])
    else:
        total = np.zeros(layout.n_states)
        for part, at, states in _by_state(layout, rules, words):
            total += np.bincount(states, part.numbers[at], len(total))
        scale = 1.0 / np.where(total > 0, total, 1.0)
        for part, at, states in _by_state(layout, rules, words):
            part.numbers[at] *= scale[states]
    return {"rule_weights": rules.whole(), "lexicon_weights": words.whole()}


def _check_states(n_states: IntArray, rules: IntArray, rank: IntArray | None) -> None:
    """Refuse wrong numbers of states before arrays of such sizes are made."""
    states_fit = n_states.dtype == np.int64 and n_states.ndim == 1
    states_fit = states_fit and bool(((n_states >= 1) & (n_states <= MAX_STATES)).all())
    rules_fit = rules.ndim == 2 and rules.shape[1] == 3
    rules_fit = rules_fit and bool(((rules >= 0) & (rules < len(n_states))).all())
    ranks_fit = rank is None or rank.shape == rules.shape[:1]
    if rank is not None and ranks_fit and rank.size:
        ranks_fit = 0 <= rank.min() <= rank.max() <= MAX_STATES
    if not (states_fit and rules_fit and ranks_fit):
        raise ModelFormatError(
            "packed weights have numbers of states, rules or ranks that no grammar has"
        )


def _by_state(
    layout: _Layout, rules: _Kept, words: _Kept
) -> Iterator[tuple[_Kept, slice, IntArray]]:
    """States of all numbers that have codes, piece by piece: part, slice of it, states."""
    counts = rules.counts(layout.row)
    for rows, at in pieces(starts_of(counts)):
        yield rules, at, np.repeat(layout.state_of_row[rows], counts[rows])
    for vectors, at in pieces(starts_of(layout.vector)):
        first = layout.state_of_word[vectors]
        states = ranges(first, first + layout.vector[vectors])
        if words.places is None:
            yield words, at, states
        else:
            low, high = np.searchsorted(words.places, (at.start, at.stop))
            yield words, slice(low, high), states[words.places[low:high] - at.start]


def _largest(numbers: FloatArray, sizes: IntArray) -> FloatArray:
    """The largest number of each block; no block is empty."""
    if not len(sizes):
        return np.empty(0)
    return np.asarray(np.maximum.reduceat(numbers, starts_of(sizes)[:-1]))


def _codes(name: str, numbers: FloatArray, largest: FloatArray) -> Arrays:
    """Codes of numbers, and, where there are many zeros, the bits that mark the other numbers."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # zeros, and next to them
        steps = np.rint(CODES_PER_HALVING * np.log2(largest / np.abs(numbers)))
    kept = (numbers != 0.0) & (largest > 0.0) & (steps < ZERO_CODE)
    code = np.where(kept, np.maximum(steps, 0.0) + (numbers < 0) * (ZERO_CODE + 1.0), ZERO_CODE)
    if kept.size - kept.sum() <= MANY_ZEROS * kept.size:
        return {f"{name}_codes": code.astype(np.uint16)}
    return {f"{name}_codes": code[kept].astype(np.uint16), f"{name}_kept": np.packbits(kept)}


@dataclass
class _Kept:
    """Numbers that have codes, divided by their blocks' scales, and their indices among all."""

    numbers: FloatArray
    places: IntArray | None  # None where all have codes
    size: int

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], name: str, size: int) -> _Kept:
        """Decode the arrays of `_codes` for a known number of weights."""
        codes, bits, places = arrays[f"{name}_codes"], arrays.get(f"{name}_kept"), None
        if bits is not None:
            if bits.dtype != np.uint8 or bits.shape != (-(-size // 8),):
                raise ModelFormatError(
                    f"{bits.size} marks of packed weights of type {bits.dtype}, expected {size}"
                )
            places = np.flatnonzero(np.unpackbits(bits, count=size))
        expected = size if places is None else len(places)
        if codes.dtype != np.uint16 or codes.shape != (expected,):
            raise ModelFormatError(
                f"{codes.size} packed weights of type {codes.dtype}, expected {expected}"
            )
        numbers, table = np.empty(expected), _numbers()
        for at in range(0, expected, PIECE):  # every code is a place in the table
            np.take(table, codes[at : at + PIECE], out=numbers[at : at + PIECE], mode="clip")
        return cls(numbers, places, size)

    def counts(self, sizes: IntArray) -> IntArray:
        """Number of codes in each block."""
        if self.places is None:
            return sizes
        return np.diff(np.searchsorted(self.places, starts_of(sizes)))

    def whole(self) -> FloatArray:
        """All numbers, zeros included."""
        if self.places is None:
            return self.numbers
        numbers = np.zeros(self.size)
        numbers[self.places] = self.numbers
        return numbers


@cache
def _numbers() -> FloatArray:
    """The numbers of all codes, [2^16], divided by the block's scale."""
    ratios = np.exp2(-np.arange(ZERO_CODE + 1.0) / CODES_PER_HALVING)
    ratios[ZERO_CODE] = 0.0
    return np.concatenate([ratios, -ratios])
