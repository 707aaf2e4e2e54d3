"""Training of the network of a dependency parser.

The network learns tags, heads and relations together, each word on its own: its loss is the sum of
their negative log-probabilities. Trees come in when sentences are parsed.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.arrays import IntArray, ranges
from sapwood.dependency.data.bank import ArcBank
from sapwood.networks.network import EncoderSizes, Network
from sapwood.networks.scores import (
    ArcSizes,
    arc_vectors,
    arc_vectors_backward,
    biaffine_heads,
    biaffine_heads_backward,
    biaffine_relations,
    biaffine_relations_backward,
    init_arcs,
)
from sapwood.networks.training import (
    SIDE_LOSS,
    AfterPass,
    NetworkPlan,
    NetworkTrainer,
    PartGradient,
    cross_entropy,
)


def train_arc_network(
    bank: ArcBank,
    tags: tuple[int, IntArray],
    relations: tuple[int, IntArray],
    plan: NetworkPlan,
    jobs: int,
    on_pass: AfterPass | None = None,
    sizes: tuple[EncoderSizes, ArcSizes] = (EncoderSizes(), ArcSizes()),
) -> Network:
    """Train a network on dependency trees.

    Parameters
    ----------
    tags, relations
        Their number, and that of each word, shape [n_tokens].
    """
    trainer = _ArcNetworkTrainer(bank, tags, relations, plan, sizes)
    return trainer.train(trainer.gradient, jobs, on_pass)


class _ArcNetworkTrainer(NetworkTrainer):
    """Sentences with the heads, relations and tags of their words."""

    def __init__(
        self,
        bank: ArcBank,
        tags: tuple[int, IntArray],
        relations: tuple[int, IntArray],
        plan: NetworkPlan,
        sizes: tuple[EncoderSizes, ArcSizes],
    ) -> None:
        encoder, arcs = sizes
        shapes = encoder.shapes(tags[0]) | arcs.shapes(2 * encoder.state, relations[0])
        sentences = [bank.sentence(s) for s in range(len(bank))]
        super().__init__(sentences, encoder, shapes, init_arcs, plan)
        # one row a word and one a root; rows of roots are never read
        is_word = np.ones(len(self.words.word), bool)
        is_word[self.words.starts[:-1]] = False
        self.head, self.tag, self.relation = np.zeros((3, len(is_word)), np.int64)
        self.head[is_word] = bank.head
        self.tag[is_word], self.relation[is_word] = tags[1], relations[1]

    def gradient(self, sentences: IntArray, rng: np.random.Generator, n_words: int) -> PartGradient:
        """Loss and gradient of some sentences, longest first."""
        batch = self.encode(sentences, rng)
        P, G, packing, local = self.P, batch.G, batch.packing, batch.starts
        first, end = self.words.starts[sentences], self.words.starts[sentences + 1]
        vectors = arc_vectors(P, batch.encoding.states, packing, batch.dropout)
        modifiers = ranges(local[:-1] + 1, local[1:])
        offsets = np.repeat(local[:-1], np.diff(local) - 1)
        row = batch.rows[modifiers]
        loss, d_scores = 0.0, []
        of_sentences = biaffine_heads(P, vectors, local.tolist())
        bounds = zip(first.tolist(), end.tolist(), strict=True)
        for posteriors, (start, stop) in zip(of_sentences, bounds, strict=True):
            gold = self.head[start + 1 : stop]
            of_sentence, d = cross_entropy(posteriors, gold, 1 / n_words)
            loss += of_sentence
            d_scores.append(d)
        heads, gold = self.head[row] + offsets, self.relation[row]
        relations = biaffine_relations(P, vectors, heads, modifiers)
        weight = SIDE_LOSS / n_words
        of_relations, d_relations = cross_entropy(relations.posteriors, gold, weight)
        loss += SIDE_LOSS * of_relations
        d_vectors = [
            *biaffine_heads_backward(P, G, vectors, local.tolist(), d_scores),
            *biaffine_relations_backward(P, G, vectors, relations, d_relations),
        ]
        d_states = arc_vectors_backward(P, G, vectors, packing, d_vectors)
        return self.encode_backward(batch, loss, d_states, self.tag[row], n_words)
