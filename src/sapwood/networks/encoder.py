"""An encoder of sentences: words in, a vector for each word in its sentence out, with tags between.

word vector, sum of vectors of its affixes -> BiLSTM -> tags
                                              BiLSTM's outputs, expected vector of the tag
                                                               -> BiLSTM -> states
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sapwood.networks.lstm import BothTraces, Packing, bilstm, bilstm_gradient
from sapwood.networks.parameters import Parameters, Real

FIRST, SECOND = "first", "second"  # names of the two layers


class EncoderSizes(NamedTuple):
    """How many numbers there are.

    Attributes
    ----------
    word, form, tag
        In vectors of words, of their forms, and of tags.
    state
        In the outputs of an LSTM of one direction.
    """

    word: int = 100
    form: int = 100
    tag: int = 50
    state: int = 200

    def shapes(self, n_tags: int) -> dict[str, tuple[int, ...]]:
        """Of all arrays but the tables of vectors."""
        h = self.state
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, width in ((FIRST, self.word + self.form), (SECOND, 2 * h + self.tag)):
            for direction in ("forwards", "backwards"):
                name = f"{layer}.{direction}"
                shapes |= {f"{name}.W": (width, 4 * h), f"{name}.U": (h, 4 * h)}
                shapes |= {f"{name}.b": (4 * h,)}
        return shapes | {
            "tag.W": (2 * h, n_tags), "tag.b": (n_tags,), "tag.E": (n_tags, self.tag),
        }  # fmt: skip


def start_encoder(P: Parameters, rng: np.random.Generator) -> None:
    """Random weights: orthogonal from step to step; forget gates start open."""
    for name, array in P.items():
        if name.endswith(".U") and name.startswith((FIRST, SECOND)):
            h = len(array)
            for k in range(4):
                array[:, k * h : (k + 1) * h] = np.linalg.qr(rng.normal(size=(h, h)))[0]
        elif name.endswith(".E"):
            array[:] = 0.1 * rng.normal(size=array.shape)
        elif name.endswith(".b") and name.startswith((FIRST, SECOND)):
            array[len(array) // 4 : len(array) // 2] = 1
        elif array.ndim > 1:
            start_uniform(array, rng)


def start_uniform(array: Real, rng: np.random.Generator) -> None:
    """Small numbers around 0, by the number of inputs and outputs."""
    most = (6 / (array.shape[-2] + array.shape[-1])) ** 0.5
    array[:] = rng.uniform(-most, most, array.shape)


class Lookup(NamedTuple):
    """Rows of a table of vectors, as words take sums of them.

    Attributes
    ----------
    words : sparse [n, n_vectors]
        How often each word, by its row of the batch, takes a vector.
    vectors : [n_vectors, width]
    """

    words: sp.csr_array
    vectors: Real


class Dropout:
    """Which numbers are left out in a pass over a batch, and by how much the others grow.

    Parameters
    ----------
    rate
        Of numbers that a whole sentence does without.
    word_rate
        Of words that do without their vector, and of those that do without that of their form.
    """

    def __init__(
        self, rng: np.random.Generator, rate: float, word_rate: float, packing: Packing
    ) -> None:
        self.rng, self.rate, self.word_rate, self.packing = rng, rate, word_rate, packing

    def of_sentences(self, width: int) -> Real:
        """For each word; the same for all words of a sentence."""
        n = int(self.packing.starts[1])
        kept = self.rng.random((n, width), np.float32) >= self.rate
        mask = kept * np.float32(1 / (1 - self.rate))
        return mask[self.packing.sentence]

    def of_vectors(self) -> tuple[Real, Real]:
        """For the vectors of words and of forms: where one is left out the other counts twice."""
        word, form = self.rng.random((2, len(self.packing.row), 1), np.float32) >= self.word_rate
        scale = (2 / np.maximum(1, word.astype(np.float32) + form)).astype(np.float32)
        return word * scale, form * scale


def times(array: Real, mask: Real | None) -> Real:
    """The product; the array itself where there is no mask."""
    return array if mask is None else array * mask


def softmax(scores: Real) -> Real:
    """Shares of each row."""
    shares: Real = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


class Encoding(NamedTuple):
    """Sentences that were read, with what the gradient needs."""

    words: Lookup
    forms: Lookup
    vector_masks: tuple[Real | None, Real | None]
    masks: tuple[Real | None, Real | None, Real | None]
    first: BothTraces
    seen: Real
    tag_shares: Real
    second: BothTraces

    @property
    def states(self) -> Real:
        """Of each word, shape [n, 2 * state]."""
        return self.second.outputs


def encode(
    P: Parameters, words: Lookup, forms: Lookup, packing: Packing, dropout: Dropout | None = None
) -> Encoding:
    """Read the sentences of a batch."""
    h = len(P[f"{FIRST}.forwards.U"])
    width, second_width = (len(P[f"{layer}.forwards.W"]) for layer in (FIRST, SECOND))
    vector_masks: tuple[Real | None, Real | None] = (None, None)
    masks: tuple[Real | None, Real | None, Real | None] = (None, None, None)
    if dropout is not None:
        vector_masks = dropout.of_vectors()
        a, b, c = (dropout.of_sentences(n) for n in (width, 2 * h, second_width))
        masks = a, b, c
    found = [
        times(looked.words @ looked.vectors, mask)
        for looked, mask in zip((words, forms), vector_masks, strict=True)
    ]
    first = bilstm(P, FIRST, times(np.concatenate(found, axis=1), masks[0]), packing)
    seen = times(first.outputs, masks[1])
    shares = softmax(seen @ P["tag.W"] + P["tag.b"])
    inputs = np.concatenate([first.outputs, shares @ P["tag.E"]], axis=1)
    second = bilstm(P, SECOND, times(inputs, masks[2]), packing)
    return Encoding(words, forms, vector_masks, masks, first, seen, shares, second)


def encode_gradient(
    P: Parameters,
    G: Parameters,
    encoding: Encoding,
    packing: Packing,
    d_states: Real,
    d_tags: Real,
) -> tuple[Real, Real]:
    """Write the gradient of the weights into G; those of the vectors of words and forms.

    Parameters
    ----------
    d_tags : [n, n_tags]
        By the scores of tags, without what comes through the states.
    """
    n_outputs = encoding.first.outputs.shape[1]
    d_inputs = bilstm_gradient(P, G, SECOND, encoding.second, packing, d_states)
    d_inputs = times(d_inputs, encoding.masks[2])
    d_outputs, d_vectors = d_inputs[:, :n_outputs], d_inputs[:, n_outputs:]
    shares = encoding.tag_shares
    np.matmul(shares.T, d_vectors, out=G["tag.E"])
    d_shares = d_vectors @ P["tag.E"].T
    d_scores = d_tags + shares * (d_shares - (shares * d_shares).sum(axis=1, keepdims=True))
    np.matmul(encoding.seen.T, d_scores, out=G["tag.W"])
    np.sum(d_scores, axis=0, out=G["tag.b"])
    d_outputs = d_outputs + times(d_scores @ P["tag.W"].T, encoding.masks[1])
    d_inputs = bilstm_gradient(P, G, FIRST, encoding.first, packing, d_outputs)
    d_inputs = times(d_inputs, encoding.masks[0])
    n_word = encoding.words.vectors.shape[1]
    d_word = times(d_inputs[:, :n_word], encoding.vector_masks[0])
    d_form = times(d_inputs[:, n_word:], encoding.vector_masks[1])
    return encoding.words.words.T @ d_word, encoding.forms.words.T @ d_form
