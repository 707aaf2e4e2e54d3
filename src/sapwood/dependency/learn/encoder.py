"""Learns an encoder of sentences that gives words their tags, heads and relations.

The three are learnt together, each word on its own: the loss is the sum of the negative logarithms
of the shares of its right head, relation and tag. Trees are asked for when sentences are parsed.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.arrays import IntArray, ranges
from sapwood.dependency.data.bank import ArcBank
from sapwood.networks.biaffine import (
    ArcSizes,
    head_gradient,
    head_shares,
    relation_gradient,
    relation_shares,
    start_arcs,
    word_vectors,
    word_vectors_gradient,
)
from sapwood.networks.encoder import EncoderSizes
from sapwood.networks.network import Network
from sapwood.networks.training import (
    SIDE_LOSS,
    AfterPass,
    NetworkLesson,
    NetworkPlan,
    ShareGradient,
    log_share,
    residue,
)


def learn_encoder(
    bank: ArcBank,
    tags: tuple[int, IntArray],
    relations: tuple[int, IntArray],
    plan: NetworkPlan,
    jobs: int,
    on_pass: AfterPass | None = None,
    sizes: tuple[EncoderSizes, ArcSizes] = (EncoderSizes(), ArcSizes()),
) -> Network:
    """The network that fits dependency trees.

    Parameters
    ----------
    tags, relations
        How many there are, and that of each word.
    """
    lesson = _ArcLesson(bank, tags, relations, plan, sizes)
    return lesson.learn(lesson.gradient, jobs, on_pass)


class _ArcLesson(NetworkLesson):
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
        super().__init__(sentences, encoder, shapes, start_arcs, plan)
        # per row of sentences with their roots; the roots' are never looked at
        is_word = np.ones(len(self.words.word), bool)
        is_word[self.words.starts[:-1]] = False
        self.head, self.tag, self.relation = np.zeros((3, len(is_word)), np.int64)
        self.head[is_word] = bank.head
        self.tag[is_word], self.relation[is_word] = tags[1], relations[1]

    def gradient(
        self, sentences: IntArray, rng: np.random.Generator, n_words: int
    ) -> ShareGradient:
        """Loss and gradient of some sentences, longest first."""
        batch = self.read(sentences, rng)
        P, G, packing, local = self.P, batch.G, batch.packing, batch.starts
        first, end = self.words.starts[sentences], self.words.starts[sentences + 1]
        vectors = word_vectors(P, batch.encoding.states, packing, batch.dropout)
        modifiers = ranges(local[:-1] + 1, local[1:])
        offsets = np.repeat(local[:-1], np.diff(local) - 1)
        row = batch.rows[modifiers]
        loss, d_scores = 0.0, []
        for share, start, stop in zip(
            head_shares(P, vectors, local.tolist()), first.tolist(), end.tolist(), strict=True
        ):
            right = self.head[start + 1 : stop]
            loss -= log_share(share, right)
            d_scores.append(residue(share, right, 1 / n_words))
        relations = relation_shares(P, vectors, self.head[row] + offsets, modifiers)
        loss -= SIDE_LOSS * log_share(relations.shares, self.relation[row])
        d_relations = residue(relations.shares, self.relation[row], SIDE_LOSS / n_words)
        d_found = [
            *head_gradient(P, G, vectors, local.tolist(), d_scores),
            *relation_gradient(P, G, vectors, relations, d_relations),
        ]
        d_states = word_vectors_gradient(P, G, vectors, packing, d_found)
        return self.finish(batch, loss, d_states, self.tag[row], n_words)
