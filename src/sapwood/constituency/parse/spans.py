"""What a network says of a sentence: posteriors of the labels of all its spans, and of tags.

A tree's weight is the sum of the scores of its labelled spans. Binary trees stand for all trees: a
span that has no label only joins its neighbours, and scores 0 however they are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.span_network import SpanNetwork
from sapwood.core.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.corpora.tree import escape
from sapwood.networks.encoder import encode
from sapwood.networks.lstm import pack
from sapwood.networks.network_inputs import SentenceWords, WordPlaces, look_up
from sapwood.networks.parameters import Real
from sapwood.networks.spans import fenceposts, span_scores

LEAST = 1e-3  # posteriors below are left out: what they add up to changes no tree


def label_shares(scores: Real, lengths: Sequence[int]) -> tuple[float, Real]:
    """Log of the sum over all trees of sentences, and posteriors of labels, [n_spans, n_labels].

    Parameters
    ----------
    scores : [n_spans, n_labels]
        Sentence after sentence.
    lengths
        Words of each.
    """
    from sapwood.constituency.parse.kernels.span_trees import span_shares
    from sapwood.networks.kernels.span_layer import largest_of_rows

    top = np.maximum(largest_of_rows(scores), 0)  # a span without a label has score 0
    shares = scores - top[:, None]
    np.exp(shares, out=shares)
    # a product is quicker than a sum of short rows
    total = shares @ np.ones(shares.shape[1], shares.dtype) + np.exp(-top)
    weight = (np.log(total) + top).astype(np.float64)
    log_total, at = 0.0, 0
    for n in lengths:
        those = slice(at, at + n * (n + 1) // 2)
        of_sentence, weight[those] = span_shares(weight[those], n)
        log_total, at = log_total + of_sentence, those.stop
    shares *= (weight / total).astype(shares.dtype)[:, None]
    return log_total, shares


class SpanLabels(NamedTuple):
    """Labelled spans of a sentence that are not improbable.

    Attributes
    ----------
    label, start, end, p
        Places of labels in the model's, where the spans start and end, posteriors.
    tag, tag_place, tag_p
        Places of tags in the model's, of their words, posteriors.
    """

    label: IntArray
    start: IntArray
    end: IntArray
    p: FloatArray
    tag: IntArray
    tag_place: IntArray
    tag_p: FloatArray


class SpanReader:
    """Reads sentences with the weights of a network."""

    def __init__(self, model: SpanNetwork) -> None:
        self.model = model
        self._places = WordPlaces(model.network.familiar, model.network.form_bits)

    def read(self, words: Sequence[str]) -> SpanLabels:
        """Posteriors of the labels of a sentence."""
        network, n = self.model.network, len(words)
        escaped = [escape(word) for word in words]
        marked = SentenceWords.of(self._places, [escaped], has_end=True)
        packing = pack(np.diff(marked.starts))
        word = look_up(network.word_vectors, marked.word[:, None])[0]
        form = look_up(network.form_vectors, marked.forms)[0]
        encoding = encode(network.weights, word, form, packing)
        posts = fenceposts(network.weights, encoding.states, packing, marked.starts)
        _, shares = label_shares(span_scores(network.weights, posts), [n])
        cell, label = np.nonzero(shares >= LEAST)
        start, last = np.triu_indices(n)  # in the order of the cells
        tags = encoding.tag_shares[1:-1]
        place, tag = np.nonzero(tags >= LEAST)
        p, tag_p = shares[cell, label].astype(float), tags[place, tag].astype(float)
        return SpanLabels(label, start[cell], last[cell] + 1, p, tag, place, tag_p)

    def megabytes(self, n: int) -> float:
        """Memory that a sentence of n words needs, in millions of bytes."""
        n_labels, hidden = self.model.network.weights["label.W"].T.shape
        return float(n * (n + 1) / 2 * 4 * (2 * hidden + 3 * n_labels) / 1e6)


class NetworkReader:
    """A `BracketReader`: the posteriors of a network as codes of brackets."""

    def __init__(self, model: SpanNetwork, numbers: Mapping[str, int]) -> None:
        self.reader = SpanReader(model)
        self.megabytes = self.reader.megabytes
        self._starts = starts_of([len(chain) for chain in model.labels])
        labels = (2 * numbers[name] for chain in model.labels for name in chain)
        self._labels = np.fromiter(labels, np.int64)
        self._tags = np.array([2 * numbers[name] + 1 for name in model.tags], np.int64)

    def read(self, words: list[str]) -> tuple[IntArray, FloatArray]:
        """Codes of brackets and tags, see `brackets`, and their posteriors."""
        found, n = self.reader.read(words), len(words)
        first, end = self._starts[found.label], self._starts[found.label + 1]
        row = np.repeat(np.arange(len(first)), end - first)
        label = np.concatenate([self._labels[ranges(first, end)], self._tags[found.tag]])
        i = np.concatenate([found.start[row], found.tag_place])
        j = np.concatenate([found.end[row], found.tag_place + 1])
        p = np.concatenate([found.p[row], found.tag_p])
        code, place = np.unique((label * (n + 1) + i) * (n + 1) + j, return_inverse=True)
        return code, np.minimum(np.bincount(place, p, len(code)), 1.0)


def chains_of(grammars: Sequence[LatentGrammar]) -> dict[frozenset[str], tuple[str, ...]]:
    """Labels that were seen over the same words, outermost first, by which they are."""
    every = (symbol.chain for grammar in grammars for symbol in grammar.symbols)
    above = (chain[:k] for chain in every for k in range(1, len(chain) + 1))
    return {frozenset(chain): chain for chain in above}
