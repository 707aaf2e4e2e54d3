"""Learns an encoder of sentences that gives words their tags, heads and relations.

The three are learnt together, each word on its own: the loss is the sum of the negative logarithms
of the shares of its right head, relation and tag. Trees are asked for when sentences are parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from sapwood.arrays import IntArray, ranges
from sapwood.corpus.arcs.bank import ArcBank
from sapwood.estimators.network_training import NetworkPlan, ShareGradient, train_network
from sapwood.features.arcs import hash_of
from sapwood.inference.arcs.encoder import SentenceWords
from sapwood.inference.word_places import UNKNOWN, WordPlaces, look_up
from sapwood.models.networks import N_SPECIAL, Network
from sapwood.networks.arcs import (
    ArcSizes,
    head_gradient,
    head_shares,
    relation_gradient,
    relation_shares,
    start_arcs,
    word_vectors,
    word_vectors_gradient,
)
from sapwood.networks.encoder import (
    Dropout,
    EncoderSizes,
    encode,
    encode_gradient,
    start_encoder,
)
from sapwood.networks.lstm import pack
from sapwood.networks.parameters import Parameters, Real

FAMILIAR = 2  # words seen so often have vectors of their own
MOST_FORM_BITS = 16  # of the number of vectors of forms, of which there are no more than of words
SIDE_LOSS = 0.5  # weight of the losses of tags and relations
SMALL = 0.1  # numbers that vectors start with


def learn_encoder(
    bank: ArcBank,
    tags: tuple[int, IntArray],
    relations: tuple[int, IntArray],
    plan: NetworkPlan,
    jobs: int,
    on_pass: Callable[[int, float], None] | None = None,
    sizes: tuple[EncoderSizes, ArcSizes] = (EncoderSizes(), ArcSizes()),
) -> Network:
    """The network that fits dependency trees.

    Parameters
    ----------
    tags, relations
        How many there are, and that of each word.
    """
    lesson = _ArcLesson(bank, tags, relations, plan, sizes)
    lengths = np.diff(lesson.words.starts)
    tables = {"words": lesson.word_vectors, "forms": lesson.form_vectors}
    train_network(lesson.P, tables, lengths, lesson.gradient, plan, jobs, on_pass)
    seen = np.zeros(len(lesson.form_vectors), bool)
    seen[lesson.words.forms[lesson.words.forms >= 0]] = True
    lesson.form_vectors[~seen] = 0  # what was never seen says nothing
    return Network(lesson.familiar, lesson.word_vectors, lesson.form_vectors, lesson.P).rounded()


class _ArcLesson:
    """Training sentences as arrays, and the weights that learn from them."""

    def __init__(
        self,
        bank: ArcBank,
        tags: tuple[int, IntArray],
        relations: tuple[int, IntArray],
        plan: NetworkPlan,
        sizes: tuple[EncoderSizes, ArcSizes],
    ) -> None:
        self.plan = plan
        lower = [hash_of(word.lower()) for word in bank.words]
        seen = Counter(lower[word] for word in bank.word.tolist())
        self.familiar = np.array(sorted(w for w, n in seen.items() if n >= FAMILIAR), np.uint32)
        bits = min(MOST_FORM_BITS, max(8, bank.n_tokens.bit_length() - 1))
        places = WordPlaces(self.familiar, bits)
        sentences = [bank.sentence(s) for s in range(len(bank))]
        self.words = SentenceWords.of(places, sentences)
        counts = [seen[word] for word in self.familiar.tolist()]
        counts_by_row = np.array([np.inf, np.inf, *counts])
        self.unknown_share = plan.unknown / (plan.unknown + counts_by_row)
        # per row of sentences with their roots; the roots' are never looked at
        is_word = np.ones(len(self.words.word), bool)
        is_word[self.words.starts[:-1]] = False
        self.head, self.tag, self.relation = np.zeros((3, len(is_word)), np.int64)
        self.head[is_word] = bank.head
        self.tag[is_word], self.relation[is_word] = tags[1], relations[1]
        rng = np.random.default_rng([plan.seed, 5])
        encoder, arcs = sizes
        shapes = encoder.shapes(tags[0]) | arcs.shapes(2 * encoder.state, relations[0])
        self.P = Parameters(shapes)
        start_encoder(self.P, rng)
        start_arcs(self.P, rng)
        self.word_vectors = _small((len(self.familiar) + N_SPECIAL, encoder.word), rng)
        self.form_vectors = _small((1 << bits, encoder.form), rng)

    def gradient(
        self, sentences: IntArray, rng: np.random.Generator, n_words: int
    ) -> ShareGradient:
        """Loss and gradient of some sentences, longest first."""
        starts = self.words.starts
        first, end = starts[sentences], starts[sentences + 1]
        rows = ranges(first, end)
        packing = pack(end - first)
        by_step = np.empty_like(rows)
        by_step[packing.row] = rows
        word = self.words.word[by_step]
        word = np.where(rng.random(len(word)) < self.unknown_share[word], UNKNOWN, word)
        words, word_rows = look_up(self.word_vectors, word[:, None])
        forms, form_rows = look_up(self.form_vectors, self.words.forms[by_step])
        dropout = Dropout(rng, self.plan.dropout, self.plan.word_dropout, packing)
        P, G = self.P, self.P.zeros()
        encoding = encode(P, words, forms, packing, dropout)
        vectors = word_vectors(P, encoding.states, packing, dropout)
        # places of sentences in this batch, their roots first
        local = np.concatenate([[0], np.cumsum(end - first)])
        modifiers = ranges(local[:-1] + 1, local[1:])
        offsets = np.repeat(local[:-1], np.diff(local) - 1)
        row = rows[modifiers]
        loss, d_scores = 0.0, []
        for share, start, stop in zip(
            head_shares(P, vectors, local.tolist()), first.tolist(), end.tolist(), strict=True
        ):
            right = self.head[start + 1 : stop]
            loss -= _log_share(share, right)
            d_scores.append(_residue(share, right, 1 / n_words))
        relations = relation_shares(P, vectors, self.head[row] + offsets, modifiers)
        loss -= SIDE_LOSS * _log_share(relations.shares, self.relation[row])
        d_relations = _residue(relations.shares, self.relation[row], SIDE_LOSS / n_words)
        is_word = packing.row[modifiers]
        tags = encoding.tag_shares[is_word]
        loss -= SIDE_LOSS * _log_share(tags, self.tag[row])
        d_tags = np.zeros_like(encoding.tag_shares)
        d_tags[is_word] = _residue(tags, self.tag[row], SIDE_LOSS / n_words)
        d_found = [
            *head_gradient(P, G, vectors, local.tolist(), d_scores),
            *relation_gradient(P, G, vectors, relations, d_relations),
        ]
        d_states = word_vectors_gradient(P, G, vectors, packing, d_found)
        d_words, d_forms = encode_gradient(P, G, encoding, packing, d_states, d_tags)
        return ShareGradient(
            loss, G, {"words": (word_rows, d_words), "forms": (form_rows, d_forms)}
        )


def _small(shape: tuple[int, int], rng: np.random.Generator) -> Real:
    return (SMALL * rng.standard_normal(shape, np.float32)).astype(np.float32)


def _log_share(shares: Real, right: IntArray) -> float:
    return float(np.log(np.maximum(shares[np.arange(len(right)), right], 1e-30)).sum())


def _residue(shares: Real, right: IntArray, weight: float) -> Real:
    """Gradient of the negative logarithm of the right shares by the scores."""
    shares = shares.copy()
    shares[np.arange(len(right)), right] -= 1
    shares *= weight
    return shares
