"""An encoder of sentences: words in, a state for each word in its sentence out, with tags between.

word vector, sum of the vectors of its affixes -> BiLSTM -> tags
                                                  BiLSTM's outputs, expected vector of the tag
                                                                   -> BiLSTM -> states

A familiar word has a vector of its own; all words share vectors of their affixes and shapes, which
hashes choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sapwood.core.arrays import IntArray, place_among, starts_of
from sapwood.corpora.vocabulary import COLUMN, N_OF_FORM, form_properties
from sapwood.networks.layers import (
    BiLSTMTrace,
    Dropout,
    Packing,
    Parameters,
    Real,
    apply_mask,
    bilstm,
    bilstm_backward,
    glorot_uniform,
    softmax,
    softmax_backward,
)

LAYER_1, LAYER_2 = "first", "second"  # names of the two layers
ROOT_ROW, UNKNOWN_ROW, N_SPECIAL = 0, 1, 2  # word vectors before those of familiar words
_ODD = np.uint64(0x9E3779B97F4A7C15)  # odd, of 64 bits: products with it fill the upper bits
_CACHED_FORMS = 30_000  # about 0.5 kB each


class EncoderSizes(NamedTuple):
    """Sizes of the vectors of words, of their forms and of tags, and of an LSTM's state."""

    word: int = 100
    form: int = 100
    tag: int = 50
    state: int = 200

    def shapes(self, n_tags: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all arrays but the tables of word and form vectors."""
        h = self.state
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, width in ((LAYER_1, self.word + self.form), (LAYER_2, 2 * h + self.tag)):
            for direction in ("forwards", "backwards"):
                name = f"{layer}.{direction}"
                shapes |= {f"{name}.W": (width, 4 * h), f"{name}.U": (h, 4 * h)}
                shapes |= {f"{name}.b": (4 * h,)}
        return shapes | {
            "tag.W": (2 * h, n_tags), "tag.b": (n_tags,), "tag.E": (n_tags, self.tag),
        }  # fmt: skip


def init_encoder(P: Parameters, rng: np.random.Generator) -> None:
    """Random initial weights: orthogonal recurrent matrices, forget gates open."""
    for name, array in P.items():
        if name.endswith(".U") and name.startswith((LAYER_1, LAYER_2)):
            h = len(array)
            for k in range(4):
                array[:, k * h : (k + 1) * h] = np.linalg.qr(rng.normal(size=(h, h)))[0]
        elif name.endswith(".E"):
            array[:] = 0.1 * rng.normal(size=array.shape)
        elif name.endswith(".b") and name.startswith((LAYER_1, LAYER_2)):
            array[len(array) // 4 : len(array) // 2] = 1
        elif array.ndim > 1:
            glorot_uniform(array, rng)


class VectorRows:
    """Finds the rows of words and of their forms in the tables of vectors.

    `familiar` are sorted hashes of lower-case words with a vector of their own; the table of forms
    has 2^bits rows.
    """

    def __init__(self, familiar: npt.NDArray[np.uint32], bits: int) -> None:
        self.familiar, self.bits = familiar, bits
        self._cache: dict[str, tuple[int, IntArray]] = {}

    def rows(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Row of each word, [n], and its rows in the table of forms, [n, N_OF_FORM]."""
        cache = self._cache
        missing = [word for word in dict.fromkeys(words) if word not in cache]
        if len(cache) + len(missing) > _CACHED_FORMS:
            cache.clear()
            missing = list(dict.fromkeys(words))
        if missing:
            properties = form_properties(missing)
            index = place_among(properties[:, COLUMN["L"]], self.familiar)
            word = np.where(index >= 0, index + N_SPECIAL, UNKNOWN_ROW).tolist()
            mixed = (properties << np.uint64(4)) | np.arange(N_OF_FORM, dtype=np.uint64)
            forms = ((mixed * _ODD) >> np.uint64(64 - self.bits)).astype(np.int64)
            cache.update(zip(missing, zip(word, forms, strict=True), strict=True))
        found = [cache[word] for word in words]
        word_rows = np.array([word for word, _ in found], np.int64)
        return word_rows, np.array([forms for _, forms in found], np.int64).reshape(-1, N_OF_FORM)


class SentenceRows(NamedTuple):
    """Rows of the vectors of sentences, each of which starts with the root."""

    starts: IntArray  # first word of each sentence, [n_sentences + 1]
    word: IntArray  # [n]
    forms: IntArray  # [n, N_OF_FORM]

    @classmethod
    def of(
        cls, rows: VectorRows, sentences: Sequence[Sequence[str]], *, has_end: bool = False
    ) -> SentenceRows:
        """Look up sentences; `has_end` also marks their ends by the root."""
        word, forms = rows.rows([word for sentence in sentences for word in sentence])
        starts = starts_of([len(sentence) + 1 + has_end for sentence in sentences])
        is_word = np.ones(starts[-1], bool)
        is_word[starts[:-1]] = False
        if has_end:
            is_word[starts[1:] - 1] = False
        out = np.full(len(is_word), ROOT_ROW), np.full((len(is_word), forms.shape[1]), -1)
        out[0][is_word], out[1][is_word] = word, forms
        return cls(starts, *out)


class Lookup(NamedTuple):
    """The vectors of a batch: each word takes a sum of some rows of a table."""

    words: sp.csr_array  # [n, n_vectors]: how often each word takes a vector
    vectors: Real  # [n_vectors, width]


def look_up(table: Real, rows: IntArray) -> tuple[Lookup, IntArray]:
    """The vectors that words take from a table, and their rows in it.

    `rows`, [n, n_each], are those of each word; negative numbers stand for none.
    """
    distinct, column = np.unique(rows, return_inverse=True)
    column = column.reshape(rows.shape)
    counts = np.ones(rows.shape, table.dtype)
    if len(distinct) and distinct[0] < 0:
        counts[rows < 0] = 0
        distinct[0] = distinct[-1] if len(distinct) > 1 else 0  # any row: it is taken 0 times
    starts = np.arange(0, rows.size + 1, rows.shape[1])
    shape = (len(rows), len(distinct))
    words = sp.csr_array((counts.ravel(), column.ravel(), starts), shape=shape)
    return Lookup(words, table[distinct]), distinct


class Encoding(NamedTuple):
    """The encoder's outputs for a batch, and what its backward pass needs."""

    words: Lookup
    forms: Lookup
    vector_masks: tuple[Real | None, Real | None]
    masks: tuple[Real | None, Real | None, Real | None]
    first: BiLSTMTrace
    tag_inputs: Real
    tags: Real  # posteriors, [n, n_tags]
    second: BiLSTMTrace

    @property
    def states(self) -> Real:
        """The state of each word, [n, 2 * state]."""
        return self.second.outputs


def encode(
    P: Parameters,
    words: Lookup,
    forms: Lookup,
    packing: Packing,
    dropout: Dropout | None = None,
    tag_factors: tuple[IntArray, Real] | None = None,
) -> Encoding:
    """Run the encoder over a batch of sentences, whose outputs do not depend on their batch.

    Parameters
    ----------
    tag_factors : [n_known], [n_known, n_tags]
        What is known of the tags of some rows: their probabilities are multiplied by it and
        normalised.
    """
    from sapwood.networks.kernels.lstm import row_products

    vector_masks: tuple[Real | None, Real | None] = (None, None)
    masks: tuple[Real | None, Real | None, Real | None] = (None, None, None)
    if dropout is not None:
        vector_masks = dropout.word_masks()
        widths = [len(P[f"{layer}.forwards.W"]) for layer in (LAYER_1, LAYER_2)]
        widths.insert(1, len(P["tag.W"]))
        a, b, c = map(dropout.sentence_mask, widths)
        masks = a, b, c
    vectors = [
        apply_mask(looked.words @ looked.vectors, mask)
        for looked, mask in zip((words, forms), vector_masks, strict=True)
    ]
    first = bilstm(P, LAYER_1, apply_mask(np.concatenate(vectors, axis=1), masks[0]), packing)
    tag_inputs = apply_mask(first.outputs, masks[1])
    tags = softmax(row_products(tag_inputs, P["tag.W"]) + P["tag.b"])
    if tag_factors is not None:
        known, factors = tag_factors
        weighted = np.maximum(tags[known], np.finfo(tags.dtype).tiny) * factors
        tags[known] = weighted / weighted.sum(axis=1, keepdims=True)
    inputs = np.concatenate([first.outputs, row_products(tags, P["tag.E"])], axis=1)
    second = bilstm(P, LAYER_2, apply_mask(inputs, masks[2]), packing)
    return Encoding(words, forms, vector_masks, masks, first, tag_inputs, tags, second)


def encode_backward(
    P: Parameters,
    G: Parameters,
    encoding: Encoding,
    packing: Packing,
    d_states: Real,
    d_tags: Real,
) -> tuple[Real, Real]:
    """Write the gradient of the encoder's weights into G; return those of word and form vectors.

    `d_tags`, [n, n_tags], is the gradient by the scores of tags; that through the states is added.
    """
    n_outputs = encoding.first.outputs.shape[1]
    d_inputs = bilstm_backward(P, G, LAYER_2, encoding.second, packing, d_states)
    d_inputs = apply_mask(d_inputs, encoding.masks[2])
    d_outputs, d_vectors = d_inputs[:, :n_outputs], d_inputs[:, n_outputs:]
    np.matmul(encoding.tags.T, d_vectors, out=G["tag.E"])
    d_scores = d_tags + softmax_backward(encoding.tags, d_vectors @ P["tag.E"].T)
    np.matmul(encoding.tag_inputs.T, d_scores, out=G["tag.W"])
    np.sum(d_scores, axis=0, out=G["tag.b"])
    d_outputs = d_outputs + apply_mask(d_scores @ P["tag.W"].T, encoding.masks[1])
    d_inputs = bilstm_backward(P, G, LAYER_1, encoding.first, packing, d_outputs)
    d_inputs = apply_mask(d_inputs, encoding.masks[0])
    n_word = encoding.words.vectors.shape[1]
    d_word = apply_mask(d_inputs[:, :n_word], encoding.vector_masks[0])
    d_form = apply_mask(d_inputs[:, n_word:], encoding.vector_masks[1])
    return encoding.words.words.T @ d_word, encoding.forms.words.T @ d_form
