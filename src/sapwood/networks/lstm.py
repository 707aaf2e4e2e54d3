"""LSTMs that read batches of sentences in both directions, and their gradients.

Rows of a batch lie by step: the first words of all sentences, then the second words of those that
have one, and so on. Sentences come longest first, so that the rows of a step belong to the first
sentences, a step is a run of rows, and no row is padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import starts_of
from sapwood.networks.parameters import Parameters, Real

Places = npt.NDArray[np.int64]


class Packing(NamedTuple):
    """Where the words of a batch lie.

    Attributes
    ----------
    starts : [n_steps + 1]
        First row of each step.
    row : [n]
        Row of each word, sentence after sentence.
    sentence : [n]
        Sentence of each row.
    reverse : [n]
        Row of the word that is as far from the end of its sentence as this row's from the start.
    before : [n - n_sentences]
        Row of the word before, for the rows of all steps but the first.
    """

    starts: Places
    row: Places
    sentence: Places
    reverse: Places
    before: Places


def pack(lengths: Places) -> Packing:
    """Lay out a batch of sentences, longest first.

    Examples
    --------
    >>> packing = pack(np.array([3, 1]))
    >>> packing.starts.tolist(), packing.row.tolist(), packing.reverse.tolist()
    ([0, 2, 3, 4], [0, 2, 3, 1], [3, 1, 2, 0])
    """
    assert (np.diff(lengths) <= 0).all()
    steps = np.arange(int(lengths[0]) if len(lengths) else 0)
    starts = starts_of((lengths[None] > steps[:, None]).sum(axis=1)).astype(np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    time = np.arange(len(sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = starts[time] + sentence
    of_row, reverse = np.empty_like(row), np.empty_like(row)
    of_row[row] = sentence
    reverse[row] = starts[lengths[sentence] - 1 - time] + sentence
    before = np.empty_like(row)
    before[row] = starts[np.maximum(time - 1, 0)] + sentence
    return Packing(starts, row, of_row, reverse, before[len(lengths) :])


class LSTMTrace(NamedTuple):
    """What the gradient of a pass needs.

    Attributes
    ----------
    gates : [n, 4 * width]
        Input, forget and output gate, and what is offered to the cells.
    """

    inputs: Real
    gates: Real
    cells: Real
    outputs: Real


def lstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> LSTMTrace:
    """Read sentences from their starts.

    i, f, o = sigmoid, g = tanh of  x W + h' U + b;   c = f c' + i g;   h = o tanh(c)
    """
    from sapwood.networks.kernels.lstm import read_steps

    U = P[name + ".U"]
    gates = inputs @ P[name + ".W"]
    cells, outputs = np.empty((2, len(inputs), len(U)), U.dtype)
    read_steps(gates, U, P[name + ".b"], packing.starts, cells, outputs)
    return LSTMTrace(inputs, gates, cells, outputs)


def lstm_gradient(
    P: Parameters, G: Parameters, name: str, trace: LSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of the weights into G; that of the inputs is returned."""
    from sapwood.networks.kernels.lstm import slopes_of_steps

    W, U = P[name + ".W"], P[name + ".U"]
    d_outputs, slopes = np.ascontiguousarray(d_outputs), np.empty_like(trace.gates)
    slopes_of_steps(trace.gates, trace.cells, d_outputs, U, packing.starts, slopes)
    np.matmul(trace.inputs.T, slopes, out=G[name + ".W"])
    behind = slopes[packing.starts[1] :]
    np.matmul(trace.outputs[packing.before].T, behind, out=G[name + ".U"])
    np.sum(slopes, axis=0, out=G[name + ".b"])
    d_inputs: Real = slopes @ W.T
    return d_inputs


class BothTraces(NamedTuple):
    """Passes from the starts and from the ends of sentences."""

    forwards: LSTMTrace
    backwards: LSTMTrace
    outputs: Real


def bilstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> BothTraces:
    """Read sentences in both directions; outputs of both side by side."""
    forwards = lstm(P, name + ".forwards", inputs, packing)
    backwards = lstm(P, name + ".backwards", inputs[packing.reverse], packing)
    outputs = np.concatenate([forwards.outputs, backwards.outputs[packing.reverse]], axis=1)
    return BothTraces(forwards, backwards, outputs)


def bilstm_gradient(
    P: Parameters, G: Parameters, name: str, trace: BothTraces, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of the weights into G; that of the inputs is returned."""
    h = d_outputs.shape[1] // 2
    d_forwards, d_backwards = d_outputs[:, :h], d_outputs[packing.reverse, h:]
    d_inputs = lstm_gradient(P, G, name + ".forwards", trace.forwards, packing, d_forwards)
    reverse = lstm_gradient(P, G, name + ".backwards", trace.backwards, packing, d_backwards)
    d_inputs += reverse[packing.reverse]
    return d_inputs
