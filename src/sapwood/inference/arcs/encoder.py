"""What an encoder of sentences says of their arcs: tags, heads and relations, with posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.arrays import IntArray, starts_of
from sapwood.inference.word_places import ROOT, WordPlaces, look_up
from sapwood.models.networks import Network
from sapwood.networks.arcs import WordVectors, head_shares, relation_shares, word_vectors
from sapwood.networks.encoder import encode
from sapwood.networks.lstm import pack
from sapwood.networks.parameters import Real


class SentenceWords(NamedTuple):
    """Places of the vectors of the words of sentences, each behind the root.

    Attributes
    ----------
    starts : [n_sentences + 1]
        First row of each sentence.
    word : [n]
    forms : [n, n_each]
    """

    starts: IntArray
    word: IntArray
    forms: IntArray

    @classmethod
    def of(cls, places: WordPlaces, sentences: Sequence[Sequence[str]]) -> SentenceWords:
        """Of sentences of words."""
        word, forms = places.of([form for sentence in sentences for form in sentence])
        starts = starts_of([len(sentence) + 1 for sentence in sentences])
        is_word = np.ones(starts[-1], bool)
        is_word[starts[:-1]] = False
        out = np.full(len(is_word), ROOT), np.full((len(is_word), forms.shape[1]), -1)
        out[0][is_word], out[1][is_word] = word, forms
        return cls(starts, *out)


class ReadSentence:
    """A sentence that an encoder has read.

    Attributes
    ----------
    tags : [n, n_tags]
        Posteriors.
    heads : [n, n + 1]
        Posteriors of the heads of each word, the root first.
    """

    def __init__(self, network: Network, vectors: WordVectors, tags: Real) -> None:
        self._network, self._vectors, self.tags = network, vectors, tags
        self.heads = head_shares(network.weights, vectors, [0, len(tags) + 1])[0]

    def relations(self, heads: IntArray) -> Real:
        """Posteriors of relations of each word to its head, shape [n, n_relations]."""
        modifiers = np.arange(1, len(heads) + 1)
        return relation_shares(self._network.weights, self._vectors, heads, modifiers).shares


class ArcEncoder:
    """Reads sentences with the weights of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._places = WordPlaces(network.familiar, network.form_bits)

    def read(self, sentence: Sequence[str]) -> ReadSentence:
        """Read one sentence."""
        network = self.network
        words = SentenceWords.of(self._places, [sentence])
        packing = pack(np.diff(words.starts))
        word = look_up(network.word_vectors, words.word[:, None])[0]
        form = look_up(network.form_vectors, words.forms)[0]
        encoding = encode(network.weights, word, form, packing)
        vectors = word_vectors(network.weights, encoding.states, packing)
        return ReadSentence(network, vectors, encoding.tag_shares[1:])
