"""The forward pass of pretrained Transformers, in NumPy: numbers of pieces in, hidden states out.

A block is self-attention and a layer of two matrices, each added to its input. BERT and its
relatives normalise the sums; ModernBERT normalises the inputs and rotates queries and keys by their
positions (rotary embeddings), where the others add a vector for each position.

Notation
--------
    x      hidden states, [n, d]
    q k v  queries, keys and values of a head, [n, d / n_heads]
    softmax(q k' / sqrt(d / n_heads)) v      attention

Windows are computed one by one, so the numbers of a sentence do not depend on its neighbours, as
they would if a BLAS multiplied the rows of several sentences together.

References: Devlin and others (2019); Liu and others (2019); Sanh and others (2019); Warner and
others (2024); Su and others (2021) for rotary embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.networks.network import Real

Float32Array = npt.NDArray[np.float32]
# Abramowitz and Stegun (1964), 7.1.26, with an error below 1.5e-7:
# erfc(z) = (sum of A[k] t^(k+1)) exp(-z^2),  t = 1 / (1 + P z)
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_SQRT_HALF = 0.7071067811865476


def gelu(x: Float32Array) -> Float32Array:
    """Multiply each number by the probability that a standard normal one is smaller.

    x Phi(x)  =  max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2

    >>> [round(x, 4) for x in gelu(np.array([-1.0, 0.0, 2.0], np.float32)).tolist()]
    [-0.1587, 0.0, 1.9545]
    """
    size = np.abs(x)
    t = np.reciprocal(1 + np.float32(_P * _SQRT_HALF) * size)
    tail = t * np.float32(_A[-1] / 2)
    for a in _A[-2::-1]:
        tail += np.float32(a / 2)
        tail *= t
    np.multiply(x, x, out=t)
    t *= np.float32(-0.5)
    np.exp(t, out=t)
    tail *= t
    tail *= size
    return np.maximum(x, 0) - tail


def gelu_tanh(x: Float32Array) -> Float32Array:
    """The approximation of `gelu` by a hyperbolic tangent (Hendrycks and Gimpel 2016)."""
    inner = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)), np.float32)


def relu(x: Float32Array) -> Float32Array:
    """Replace negative numbers by 0."""
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[Float32Array], Float32Array]] = {
    "gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh, "relu": relu,
}  # fmt: skip


class Linear(NamedTuple):
    """A matrix, as files have it, and perhaps a bias."""

    W: Float32Array  # [n_outputs, n_inputs]
    b: Float32Array | None = None

    def __call__(self, x: Float32Array) -> Float32Array:
        """Multiply rows by the matrix and add the bias."""
        y = x @ self.W.T
        if self.b is not None:
            y += self.b
        return y


class LayerNorm(NamedTuple):
    """Layer normalisation with a gain and perhaps an offset."""

    gain: Float32Array
    offset: Float32Array | None
    epsilon: float

    def __call__(self, x: Float32Array) -> Float32Array:
        """Give each row mean 0 and variance 1, then apply gain and offset."""
        x = x - x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x) / x.shape[1]
        x *= np.reciprocal(np.sqrt(variance + np.float32(self.epsilon)))[:, None]
        x *= self.gain
        if self.offset is not None:
            x += self.offset
        return x


class Block(NamedTuple):
    """One layer of a Transformer."""

    qkv: Linear  # queries, keys and values, one below the other
    attention_out: Linear
    attention_norm: LayerNorm | None  # None in front of the first block of ModernBERT
    up: Linear  # with a gate behind it where the Transformer is gated
    down: Linear
    norm: LayerNorm
    rotation: float | None = None  # the base of rotary embeddings
    reach: int | None = None  # pieces to either side that attention sees; None for all


@dataclass(frozen=True, eq=False)
class Transformer:
    """Weights and settings of a pretrained Transformer.

    Attributes
    ----------
    pieces : [n_pieces, d]
        Vectors of pieces of words.
    positions : [most, d]
        Vectors of positions, from the first that text may have on, with those of the first type of
        text added; None where queries and keys are rotated instead.
    is_prenorm
        Whether blocks normalise their inputs, not their outputs; `final_norm` follows the last.
    is_gated
        Whether half of the outputs of `up` are multiplied with the other half.
    most
        Most pieces of a window, special ones included.
    """

    pieces: Float32Array
    positions: Float32Array | None
    norm: LayerNorm
    blocks: tuple[Block, ...]
    n_heads: int
    activation: Callable[[Float32Array], Float32Array]
    most: int
    is_prenorm: bool = False
    is_gated: bool = False
    final_norm: LayerNorm | None = None

    @property
    def width(self) -> int:
        """Numbers of a hidden state."""
        return int(self.pieces.shape[1])

    def hidden_states(self, ids: IntArray, layers: Collection[int]) -> Float32Array:
        """Hidden states of some layers of one window, joined in their order, [n, d * n_layers].

        Layer 0 is the input of the first block, layer k the output of the k-th.
        Cost: O(n d^2 + n^2 d) for each layer up to the last requested one.
        """
        x = self.pieces[ids]
        if self.positions is not None:
            x = x + self.positions[: len(ids)]
        x = self.norm(x)
        found = [x] if 0 in layers else []
        for k, block in enumerate(self.blocks[: max(layers)], 1):
            x = self._block(block, x)
            if k in layers:
                is_last = k == len(self.blocks) and self.final_norm is not None
                found.append(self.final_norm(x) if is_last and self.final_norm else x)
        return np.concatenate(found, axis=1)

    def _block(self, block: Block, x: Float32Array) -> Float32Array:
        if self.is_prenorm:
            inputs = x if block.attention_norm is None else block.attention_norm(x)
            x = x + self._attend(block, inputs)
            return x + self._feed_forward(block, block.norm(x))
        assert block.attention_norm is not None
        x = block.attention_norm(x + self._attend(block, x))
        return block.norm(x + self._feed_forward(block, x))

    def _feed_forward(self, block: Block, x: Float32Array) -> Float32Array:
        hidden = block.up(x)
        if not self.is_gated:
            return block.down(self.activation(hidden))
        inputs, gate = np.split(hidden, 2, axis=1)
        return block.down(self.activation(inputs) * gate)

    def _attend(self, block: Block, x: Float32Array) -> Float32Array:
        n, width = x.shape
        size = width // self.n_heads
        # [3, n_heads, n, size]
        parts = block.qkv(x).reshape(n, 3, self.n_heads, size).transpose(1, 2, 0, 3)
        q, k, v = parts
        if block.rotation is not None:
            q, k = (rotate(part, block.rotation) for part in (q, k))
        scores = q @ k.transpose(0, 2, 1)
        scores *= np.float32(size**-0.5)
        if block.reach is not None and block.reach < n - 1:
            place = np.arange(n)
            scores[:, np.abs(place[:, None] - place) > block.reach] = -np.inf
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=2, keepdims=True)
        mixed: Real = (scores @ v).transpose(1, 0, 2).reshape(n, width)
        return block.attention_out(mixed)


def rotate(x: Real, base: float) -> Real:
    """Turn pairs of numbers by angles that grow with the position, [n_heads, n, size].

    Numbers i and i + size / 2 are a pair, turned at position p by  p base^(-2 i / size).
    """
    n, size = x.shape[1:]
    frequency = base ** (-np.arange(0, size, 2) / size)
    angle = np.arange(n)[:, None] * frequency
    sin, cos = np.sin(angle).astype(x.dtype), np.cos(angle).astype(x.dtype)
    left, right = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)
