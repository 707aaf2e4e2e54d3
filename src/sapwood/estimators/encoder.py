"""`SpanEncoder`: a network that reads sentences and labels their spans.

1. Words and their affixes become vectors, which two layers of LSTMs read from both ends; tags are
   guessed on the way.
2. Each span is scored for each label by what was read in it.
3. The loss is the negative log of the right tree's share among all trees over the sentence, and of
   the right tags'; Adam follows its gradient in small batches.

A phrase of several children has many binary trees, all of the same weight, since spans without a
label score 0: whichever of them is called right, the gradient is the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from sapwood.arrays import IntArray, cell, ranges, starts_of
from sapwood.corpus.transform import Symbol
from sapwood.corpus.treebank import Treebank
from sapwood.estimators.base import (
    ANYTHING,
    OnPlainGrammar,
    TreebankEstimator,
    between,
    parameter,
    whole,
)
from sapwood.estimators.network_training import NetworkPlan, ShareGradient, train_network
from sapwood.estimators.pcfg import Trainable
from sapwood.estimators.spectral import PhaseClock
from sapwood.features.arcs import hash_of
from sapwood.inference.spans import MarkedWords, label_shares
from sapwood.inference.word_places import UNKNOWN, WordPlaces, look_up
from sapwood.models.networks import N_SPECIAL, Network
from sapwood.models.span_network import SpanNetwork
from sapwood.networks.encoder import Dropout, EncoderSizes, encode, encode_gradient, start_encoder
from sapwood.networks.lstm import pack
from sapwood.networks.parameters import Parameters, Real
from sapwood.networks.spans import (
    SpanSizes,
    fenceposts,
    span_gradient,
    span_scores,
    start_spans,
)

FAMILIAR = 2  # words, and labels of spans, seen so often are themselves
MOST_FORM_BITS = 16  # of the number of vectors of forms, of which there are no more than of words
TAG_LOSS = 0.5  # weight of the loss of tags
SMALL = 0.1  # numbers that vectors start with


@dataclass
class EncoderInfo:
    """What happened in a training.

    Attributes
    ----------
    log_likelihoods
        Of the right trees and tags given their sentences, summed, during each pass.
    seconds
        Wall-clock seconds by phase.
    """

    log_likelihoods: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """Passes over the trees."""
        return len(self.log_likelihoods)


class SpanEncoder(OnPlainGrammar, TreebankEstimator):
    """A small network beside the plain grammar: two layers of LSTMs, and scores of labelled spans.

    Attributes
    ----------
    model_ : SpanNetwork
    info_ : EncoderInfo
    """

    passes: int = parameter(12, whole(1), "Over the training trees.")
    width: int = parameter(200, whole(1), "Numbers that an LSTM remembers, in each direction.")
    hidden: int = parameter(250, whole(1), "Numbers in the hidden layer that scores spans.")
    rate: float = parameter(0.003, between(0, 1, "(]"), "Of Adam; falls to 0 in a straight line.")
    dropout: float = parameter(0.2, between(0, 1, "[)"), "Share of numbers that are left out.")
    on_iteration: Callable[[int, int, float], None] | None = parameter(
        None,
        ANYTHING,
        "Called with (pass, states, log-likelihood) after every pass, as EM does; states are 1.",
        changes_model=False,
    )

    def fit(self, bank: Trainable) -> Self:
        """Learn the weights from a treebank."""
        clock = PhaseClock()
        data = self._prepare(bank)
        plan = NetworkPlan(passes=self.passes, rate=self.rate, dropout=self.dropout)
        trees = RightTrees.of(data.engine.gather(data.shards))
        sizes = EncoderSizes(state=self.width), SpanSizes(self.hidden)
        lesson = SpanLesson(trees, plan, self.seed or 0, sizes)
        clock.tick("trees")
        self.info_ = EncoderInfo()

        def note(done: int, log_likelihood: float) -> None:
            self.info_.log_likelihoods.append(log_likelihood)
            if self.on_iteration:
                self.on_iteration(done, 1, log_likelihood)

        tables, lengths = lesson.tables, np.diff(lesson.words.starts)
        jobs = data.engine.jobs_here
        train_network(lesson.P, tables, lengths, lesson.gradient, plan, lesson.seed, jobs, note)
        clock.tick("passes")
        self.info_.seconds = clock.seconds
        record = {
            "method": "encoder", "iterations": self.info_.iterations, "seed": self.seed,
            "log_likelihood": self.info_.log_likelihoods[-1], **data.sizes,
        }  # fmt: skip
        self.model_ = SpanNetwork(data.grammar, lesson.network(), trees.labels, trees.tags, record)
        return self


class RightTrees(NamedTuple):
    """Sentences with the labels of their spans and the tags of their words.

    Attributes
    ----------
    sentences
        Words.
    labels
        Chains that are told apart.
    tags
        Names.
    tag
        Of all words, sentence after sentence.
    starts : [n_sentences + 1]
        First labelled span of each sentence.
    start, end, label
        Of all labelled spans.
    """

    sentences: list[list[str]]
    labels: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    tag: IntArray
    starts: IntArray
    start: IntArray
    end: IntArray
    label: IntArray

    @classmethod
    def of(cls, shards: Iterable[Treebank]) -> RightTrees:
        """Of the trees of a treebank; rare chains lose their inner labels until they are known."""
        parts = [_spans_of(shard) for shard in shards]
        chains = [chain for part in parts for chain in part.chains]
        counts = Counter(chain for chain in chains if chain)
        known = {chain for chain, n in counts.items() if n >= FAMILIAR}
        known |= {chain[:1] for chain in counts}
        labels = tuple(sorted(known))
        number = {chain: place for place, chain in enumerate(labels)}
        label = [number[_shorten(chain, number)] for chain in chains]
        tags = [tag for part in parts for tag in part.tags]
        names = tuple(sorted(set(tags)))
        place = {name: k for k, name in enumerate(names)}
        columns = [np.concatenate([part.spans[k] for part in parts]) for k in range(3)]
        return cls(
            [words for part in parts for words in part.sentences], labels, names,
            np.array([place[tag] for tag in tags], np.int64), starts_of(columns[0]),
            columns[1], columns[2], np.array(label, np.int64),
        )  # fmt: skip


def _shorten(chain: tuple[str, ...], known: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    while chain not in known:
        chain = chain[:-1]
    return chain


class _Spans(NamedTuple):
    """Of the trees of a shard.

    Attributes
    ----------
    chains
        Of labelled spans.
    spans
        How many each sentence has; where they start, where they end.
    """

    sentences: list[list[str]]
    tags: list[str]
    chains: list[tuple[str, ...]]
    spans: tuple[IntArray, IntArray, IntArray]


def _spans_of(bank: Treebank) -> _Spans:
    symbols, n_phrases = bank.inventory.symbols, len(bank.inventory.phrases)
    above = [_chain_above(symbol, k >= n_phrases) for k, symbol in enumerate(symbols)]
    has_label = np.array([bool(chain) for chain in above])[bank.label]
    tree = np.repeat(np.arange(bank.n_trees), np.diff(bank.offsets))
    leaves = np.flatnonzero(bank.word >= 0)
    leaves = leaves[np.lexsort((bank.start[leaves], tree[leaves]))]
    counts = np.bincount(tree[has_label], minlength=bank.n_trees)
    return _Spans(
        [bank.words(k) for k in range(bank.n_trees)],
        [symbols[k].chain[-1] for k in bank.label[leaves].tolist()],
        [above[k] for k in bank.label[has_label].tolist()],
        (counts, bank.start[has_label].astype(np.int64), bank.end[has_label].astype(np.int64)),
    )


def _chain_above(symbol: Symbol, is_tag: bool) -> tuple[str, ...]:
    """The labels of a node, without the tag of its word; none for a half-built phrase."""
    if symbol.is_intermediate:
        return ()
    return symbol.chain[:-1] if is_tag else symbol.chain


class SpanLesson:
    """Training sentences as arrays, and the weights that learn from them."""

    def __init__(
        self,
        trees: RightTrees,
        plan: NetworkPlan,
        seed: int,
        sizes: tuple[EncoderSizes, SpanSizes],
    ) -> None:
        self.trees, self.plan, self.seed = trees, plan, seed
        seen = Counter(hash_of(word.lower()) for words in trees.sentences for word in words)
        self.familiar = np.array(sorted(w for w, n in seen.items() if n >= FAMILIAR), np.uint32)
        bits = min(MOST_FORM_BITS, max(8, len(trees.tag).bit_length() - 1))
        self.words = MarkedWords.of(WordPlaces(self.familiar, bits), trees.sentences)
        counts = [seen[word] for word in self.familiar.tolist()]
        counts_by_row = np.array([np.inf, np.inf, *counts])
        self.unknown_share = plan.unknown / (plan.unknown + counts_by_row)
        rng = np.random.default_rng([seed, 5])
        encoder, spans = sizes
        shapes = encoder.shapes(len(trees.tags))
        self.P = Parameters(shapes | spans.shapes(2 * encoder.state, len(trees.labels)))
        start_encoder(self.P, rng)
        start_spans(self.P, rng)
        self.tables = {
            "words": _small((len(self.familiar) + N_SPECIAL, encoder.word), rng),
            "forms": _small((1 << bits, encoder.form), rng),
        }

    def network(self) -> Network:
        """What was learnt."""
        seen = np.zeros(len(self.tables["forms"]), bool)
        seen[self.words.forms] = True
        self.tables["forms"][~seen] = 0  # what was never seen says nothing
        vectors = self.tables["words"], self.tables["forms"]
        return Network(self.familiar, *vectors, self.P).rounded()

    def gradient(
        self, sentences: IntArray, rng: np.random.Generator, n_words: int
    ) -> ShareGradient:
        """Loss and gradient of some sentences, longest first."""
        first, end = self.words.starts[sentences], self.words.starts[sentences + 1]
        rows, packing, starts = ranges(first, end), pack(end - first), starts_of(end - first)
        by_step = np.empty_like(rows)
        by_step[packing.row] = rows
        word = self.words.word[by_step]
        word = np.where(rng.random(len(word)) < self.unknown_share[word], UNKNOWN, word)
        words, word_rows = look_up(self.tables["words"], word[:, None])
        forms, form_rows = look_up(self.tables["forms"], self.words.forms[by_step])
        dropout = Dropout(rng, self.plan.dropout, self.plan.word_dropout, packing)
        P, G = self.P, self.P.zeros()
        encoding = encode(P, words, forms, packing, dropout)
        posts = fenceposts(P, encoding.states, packing, starts, dropout)
        loss, hidden, d_scores = 0.0, [], []
        for place, sentence in enumerate(sentences.tolist()):
            h, scores = span_scores(P, posts, place)
            found, d = self._tree_loss(sentence, scores)
            d *= 1 / n_words
            loss += found
            hidden.append(h)
            d_scores.append(d)
        # two marks a sentence are no words
        right = self.trees.tag[ranges(first - 2 * sentences, end - 2 * sentences - 2)]
        is_word = packing.row[ranges(starts[:-1] + 1, starts[1:] - 1)]
        tags = encoding.tag_shares[is_word]
        of_right = np.arange(len(right)), right
        loss -= TAG_LOSS * float(np.log(np.maximum(tags[of_right], 1e-30)).sum())
        tags[of_right] -= 1
        d_tags = np.zeros_like(encoding.tag_shares)
        d_tags[is_word] = tags * np.float32(TAG_LOSS / n_words)
        d_states = span_gradient(P, G, posts, packing, hidden, d_scores)
        d_words, d_forms = encode_gradient(P, G, encoding, packing, d_states, d_tags)
        return ShareGradient(
            loss, G, {"words": (word_rows, d_words), "forms": (form_rows, d_forms)}
        )

    def _tree_loss(self, sentence: int, scores: Real) -> tuple[float, Real]:
        """Negative log of the right tree's share, and its gradient by the scores."""
        trees, n = self.trees, len(self.trees.sentences[sentence])
        those = slice(int(trees.starts[sentence]), int(trees.starts[sentence + 1]))
        right = cell(trees.start[those], trees.end[those], n), trees.label[those]
        log_total, shares = label_shares(scores, n)
        loss = log_total - float(scores[right].sum())
        shares[right] -= 1  # no span is there twice
        return loss, shares


def _small(shape: tuple[int, int], rng: np.random.Generator) -> Real:
    return (SMALL * rng.standard_normal(shape, np.float32)).astype(np.float32)
