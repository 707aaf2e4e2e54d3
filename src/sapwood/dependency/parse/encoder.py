"""What an encoder of sentences says of their arcs: tags, heads and relations, with posteriors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.networks.biaffine import WordVectors, head_shares, relation_shares, word_vectors
from sapwood.networks.encoder import encode
from sapwood.networks.lstm import pack
from sapwood.networks.network import Network
from sapwood.networks.network_inputs import SentenceWords, WordPlaces, look_up
from sapwood.networks.parameters import Real


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
