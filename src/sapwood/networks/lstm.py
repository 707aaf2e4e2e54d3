"""LSTMs that read batches of sentences in both directions, and their gradients.

Rows of a batch lie by step: the first words of all sentences, then the second words of those that
have one, and so on. Sentences come longest first, so that the rows of a step belong to the first
sentences, a step is a run of rows, and no row is padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import starts_of
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
    W, U, b = P[name + ".W"], P[name + ".U"], P[name + ".b"]
    h = len(U)
    # a sigmoid is a tanh of half as much: one call for all gates
    half = np.repeat(np.array([0.5, 0.5, 0.5, 1.0], W.dtype), h)
    gates = inputs @ W
    gates += b
    gates *= half
    U = U * half
    cells, outputs = np.empty((2, len(inputs), h), W.dtype)
    for start, end, last, _ in _steps(packing):
        z, c = gates[start:end], cells[start:end]
        if start:
            z += outputs[last : last + end - start] @ U
        np.tanh(z, out=z)
        z[:, : 3 * h] *= 0.5
        z[:, : 3 * h] += 0.5
        np.multiply(z[:, :h], z[:, 3 * h :], out=c)
        if start:
            c += z[:, h : 2 * h] * cells[last : last + end - start]
        np.multiply(z[:, 2 * h : 3 * h], np.tanh(c), out=outputs[start:end])
    return LSTMTrace(inputs, gates, cells, outputs)


def _steps(packing: Packing) -> list[tuple[int, int, int, int]]:
    """First row and end of each step, first row of the step before, end of the step behind."""
    starts = packing.starts.tolist()
    ends = [*starts[1:], starts[-1]]
    return list(zip(starts[:-1], ends[:-1], [0, *starts[:-2]], ends[1:], strict=True))


def lstm_gradient(
    P: Parameters, G: Parameters, name: str, trace: LSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of the weights into G; that of the inputs is returned."""
    W, U = P[name + ".W"], P[name + ".U"]
    h, first = len(U), int(packing.starts[1])
    i, f, o, g = (trace.gates[:, k * h : (k + 1) * h] for k in range(4))
    tanh_c = np.tanh(trace.cells)
    # d z = slope * (dc, dc, dh, dc), all of it known but dh and dc, which run through the sentence
    slope = np.empty_like(trace.gates)
    slope[:, :h] = g * i * (1 - i)
    slope[:first, h : 2 * h] = 0
    slope[first:, h : 2 * h] = trace.cells[packing.before] * (f * (1 - f))[first:]
    slope[:, 2 * h : 3 * h] = tanh_c * o * (1 - o)
    slope[:, 3 * h :] = i * (1 - g * g)
    to_cell = o * (1 - tanh_c * tanh_c)
    d_h, d_c = d_outputs.copy(), np.empty_like(d_outputs)
    d_z, back = slope.reshape(-1, 4, h), np.ascontiguousarray(U.T)
    for start, end, last, next_end in reversed(_steps(packing)):
        dh, dc = d_h[start:end], d_c[start:end]
        np.multiply(dh, to_cell[start:end], out=dc)
        dc[: next_end - end] += d_c[end:next_end] * f[end:next_end]
        d_z[start:end, :2] *= dc[:, None]
        d_z[start:end, 2] *= dh
        d_z[start:end, 3] *= dc
        if start:
            d_h[last : last + end - start] += slope[start:end] @ back
    np.matmul(trace.inputs.T, slope, out=G[name + ".W"])
    np.matmul(trace.outputs[packing.before].T, slope[first:], out=G[name + ".U"])
    np.sum(slope, axis=0, out=G[name + ".b"])
    d_inputs: Real = slope @ W.T
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
