"""Weights of networks, and layers with their backward passes: softmax, dropout, LSTM, BiLSTM.

A backward pass takes the gradient of the loss by the layer's outputs (`d_outputs`), writes that by
its weights into G and returns that by its inputs.

Rows of a batch lie by time step: the first words of all sentences, then the second words of the
sentences that have one, and so on. Sentences come longest first, so that the rows of a step belong
to the first sentences, a step is a run of rows, and no row is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray, starts_of

Real = npt.NDArray[Any]  # float32 in use, float64 in tests of gradients


class Parameters(Mapping[str, Real]):
    """Arrays by name, one behind the other in a vector.

    Examples
    --------
    >>> P = Parameters({"W": (2, 3), "b": (3,)})
    >>> P["b"][:] = 1
    >>> P.flat.tolist(), P["W"].shape
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], (2, 3))
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtype: npt.DTypeLike = np.float32,
        make: Callable[..., Real] = np.zeros,
    ) -> None:
        self.shapes = dict(shapes)
        self.flat = make(sum(map(prod, self.shapes.values())), dtype)
        self._views: dict[str, Real] = {}
        start = 0
        for name, shape in self.shapes.items():
            self._views[name] = self.flat[start : start + prod(shape)].reshape(shape)
            start += prod(shape)

    def __getitem__(self, name: str) -> Real:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def empty_like(self) -> Parameters:
        """Arrays of the same shapes, not initialised."""
        return Parameters(self.shapes, self.flat.dtype, make=np.empty)


def glorot_uniform(array: Real, rng: np.random.Generator) -> None:
    """Fill a matrix with random numbers in the interval of Glorot and Bengio (2010)."""
    limit = (6 / (array.shape[-2] + array.shape[-1])) ** 0.5
    array[:] = rng.uniform(-limit, limit, array.shape)


def softmax(scores: Real) -> Real:
    """Softmax of each row of scores."""
    p: Real = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def softmax_backward(p: Real, d_p: Real) -> Real:
    """Gradient by the scores of a softmax, given its outputs and the gradient by them."""
    d_scores: Real = p * (d_p - (p * d_p).sum(axis=1, keepdims=True))
    return d_scores


def gold_log_likelihood(p: Real, gold: IntArray) -> float:
    """Sum of the log-probabilities of the gold classes, one for each row."""
    return float(np.log(np.maximum(p[np.arange(len(gold)), gold], 1e-30)).sum())


def cross_entropy_backward(p: Real, gold: IntArray, weight: float) -> Real:
    """Gradient of the weighted negative log-likelihood by the scores of a softmax."""
    d_scores = p.copy()
    d_scores[np.arange(len(gold)), gold] -= 1
    d_scores *= weight
    return d_scores


def centre(array: Real) -> Real:
    """Subtract from each row its mean: the first half of layer normalisation.

    >>> centre(np.array([[1.0, 3.0], [5.0, 5.0]]))
    array([[-1.,  1.],
           [ 0.,  0.]])
    """
    centred: Real = array - array.mean(axis=-1, keepdims=True)
    return centred


class Packing(NamedTuple):
    """The order of the rows of a batch of sentences."""

    starts: IntArray  # first row of each step, [n_steps + 1]
    row: IntArray  # row of each word, sentence after sentence, [n]
    sentence: IntArray  # sentence of each row, [n]
    # row of the word as far from the end as this row's word is from the start, [n]
    reverse: IntArray
    before: IntArray  # row of the previous word, for rows of all steps but the first


def pack_sentences(lengths: IntArray) -> Packing:
    """Order the rows of a batch of sentences, longest first.

    Examples
    --------
    >>> packing = pack_sentences(np.array([3, 1]))
    >>> packing.starts.tolist(), packing.row.tolist(), packing.reverse.tolist()
    ([0, 2, 3, 4], [0, 2, 3, 1], [3, 1, 2, 0])
    """
    assert (np.diff(lengths) <= 0).all()
    steps = np.arange(int(lengths[0]) if len(lengths) else 0)
    starts = starts_of((lengths[None] > steps[:, None]).sum(axis=1)).astype(np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    time = np.arange(len(sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = starts[time] + sentence
    of_row, reverse, before = (np.empty_like(row) for _ in range(3))
    of_row[row] = sentence
    reverse[row] = starts[lengths[sentence] - 1 - time] + sentence
    before[row] = starts[np.maximum(time - 1, 0)] + sentence
    return Packing(starts, row, of_row, reverse, before[len(lengths) :])


class Dropout:
    """Draws dropout masks for a batch: 0, or the factor that keeps the expected value.

    `rate` is the probability that a unit is dropped, `word_rate` that of a word's vector, and of
    the vector of its form.
    """

    def __init__(
        self, rng: np.random.Generator, rate: float, word_rate: float, packing: Packing
    ) -> None:
        self.rng, self.rate, self.word_rate, self.packing = rng, rate, word_rate, packing

    def sentence_mask(self, width: int) -> Real:
        """One mask for each sentence, repeated for its words, [n, width] (variational dropout)."""
        n = int(self.packing.starts[1])
        kept = self.rng.random((n, width), np.float32) >= self.rate
        mask = kept * np.float32(1 / (1 - self.rate))
        return mask[self.packing.sentence]

    def word_masks(self) -> tuple[Real, Real]:
        """Masks of word and form vectors, [n, 1]: where one is dropped the other counts twice."""
        word, form = self.rng.random((2, len(self.packing.row), 1), np.float32) >= self.word_rate
        scale = (2 / np.maximum(1, word.astype(np.float32) + form)).astype(np.float32)
        return word * scale, form * scale


def apply_mask(array: Real, mask: Real | None) -> Real:
    """Multiply by a dropout mask, forwards and backwards alike; without one, do nothing."""
    return array if mask is None else array * mask


class LSTMTrace(NamedTuple):
    """What the backward pass of an LSTM needs."""

    inputs: Real
    gates: Real  # [n, 4 h]: input, forget and output gate, candidate values of the cells
    cells: Real
    outputs: Real


def lstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> LSTMTrace:
    """Run an LSTM over sentences from their starts.

    i, f, o = sigmoid, g = tanh of  x W + h' U + b;   c = f c' + i g;   h = o tanh(c)
    """
    from sapwood.networks.kernels.lstm import lstm_steps, row_products

    U = P[name + ".U"]
    gates = row_products(inputs, P[name + ".W"])
    cells, outputs = np.empty((2, len(inputs), len(U)), U.dtype)
    lstm_steps(gates, U, P[name + ".b"], packing.starts, cells, outputs)
    return LSTMTrace(inputs, gates, cells, outputs)


def lstm_backward(
    P: Parameters, G: Parameters, name: str, trace: LSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of an LSTM's weights into G; return that of its inputs."""
    from sapwood.networks.kernels.lstm import lstm_steps_backward

    W, U = P[name + ".W"], P[name + ".U"]
    d_outputs, d_z = np.ascontiguousarray(d_outputs), np.empty_like(trace.gates)
    lstm_steps_backward(trace.gates, trace.cells, d_outputs, U, packing.starts, d_z)
    np.matmul(trace.inputs.T, d_z, out=G[name + ".W"])
    later = d_z[packing.starts[1] :]
    np.matmul(trace.outputs[packing.before].T, later, out=G[name + ".U"])
    np.sum(d_z, axis=0, out=G[name + ".b"])
    d_inputs: Real = d_z @ W.T
    return d_inputs


class BiLSTMTrace(NamedTuple):
    """What the backward pass of a BiLSTM needs; its outputs stand side by side."""

    forwards: LSTMTrace
    backwards: LSTMTrace
    outputs: Real


def bilstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> BiLSTMTrace:
    """Run one LSTM from the starts of sentences and another from their ends."""
    forwards = lstm(P, name + ".forwards", inputs, packing)
    backwards = lstm(P, name + ".backwards", inputs[packing.reverse], packing)
    outputs = np.concatenate([forwards.outputs, backwards.outputs[packing.reverse]], axis=1)
    return BiLSTMTrace(forwards, backwards, outputs)


def bilstm_backward(
    P: Parameters, G: Parameters, name: str, trace: BiLSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of a BiLSTM's weights into G; return that of its inputs."""
    h = d_outputs.shape[1] // 2
    d_forwards, d_backwards = d_outputs[:, :h], d_outputs[packing.reverse, h:]
    d_inputs = lstm_backward(P, G, name + ".forwards", trace.forwards, packing, d_forwards)
    reverse = lstm_backward(P, G, name + ".backwards", trace.backwards, packing, d_backwards)
    d_inputs += reverse[packing.reverse]
    return d_inputs
