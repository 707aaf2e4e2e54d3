"""`SpanEncoder`: a network that reads sentences and labels their spans.

1. Words and their affixes are embedded as vectors, which two layers of bidirectional LSTMs read;
part-of-speech tags are predicted too.
2. Each span gets a score for each label, from the LSTM states of its words.
3. The loss is the negative log-probability of the gold tree among all trees over the sentence, plus
that of the gold tags. It is minimised by Adam in small batches.

A phrase of more than two children has several binary trees, all of the same weight, since spans
without a label score 0. The gradient does not depend on which of these trees counts as gold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.constituency.parse.posteriors import span_posteriors
from sapwood.core.arrays import IntArray, cell, ranges, starts_of
from sapwood.core.learner import (
    ANYTHING,
    Info,
    PhaseClock,
    between,
    former_callback,
    maybe,
    parameter,
    whole,
)
from sapwood.core.progress import tell
from sapwood.networks.network import EncoderSizes, Real
from sapwood.networks.pretrained.given import TrainingVectors, given_bytes
from sapwood.networks.pretrained.source import WordSource, as_source
from sapwood.networks.scores import SpanSizes, fenceposts, init_spans, span_scores, spans_backward
from sapwood.networks.training import NetworkPlan, NetworkTrainer, PartGradient

FAMILIAR_CHAIN = 2  # unary chains seen at least this often are labels of their own
WORD_DROPOUT, UNKNOWN = 0.2, 1.0  # of words; more than for arcs: measured on held-out trees
SECONDS_A_WORD, SECONDS_A_STEP = 1.75e-4, 0.005  # CPU seconds per word, and per step of Adam

NETWORK_BYTES, TOKEN_BYTES = 200e6, 1_000  # of a network with its batches, and per token


def seconds_a_pass(n_words: int) -> float:
    """Estimate the CPU seconds of a pass over a number of words."""
    return SECONDS_A_WORD * n_words + SECONDS_A_STEP * n_words / NetworkPlan.usual(n_words).words


class SpanEncoder(OnPlainGrammar):
    """A small neural parser that scores labelled spans, with two layers of bidirectional LSTMs.

    Attributes
    ----------
    model_ : SpanNetwork
    info_ : Info
    """

    passes: int | None = parameter(
        None,
        maybe(whole(1)),
        "Passes over the training trees. None chooses: about 1.6 million words, in 8 to 30 passes.",
    )
    width: int = parameter(200, whole(1), "Size of the LSTM's hidden state in each direction.")
    hidden: int = parameter(250, whole(1), "Size of the hidden layer that scores spans.")
    rate: float = parameter(
        0.003, between(0, 1, "(]"), "Learning rate of Adam, which decays linearly to 0."
    )
    dropout: float = parameter(0.2, between(0, 1, "[)"), "Dropout rate.")
    encoder: WordSource | str | Path | None = parameter(
        None,
        ANYTHING,
        "A pretrained encoder, whose word vectors the network reads beside its own: its folder, "
        "or a `PretrainedEncoder`. Or static word vectors: the file, or `StaticVectors`.",
    )
    on_iteration: Callable[..., Any] | None = former_callback("on_iteration")

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the sentences, the network and a pretrained encoder."""
        own = KERNEL_BYTES + NETWORK_BYTES + TOKEN_BYTES * data.sizes["tokens"]
        return own + given_bytes(as_source(self.encoder))

    def fit(self, bank: Trainable) -> Self:
        """Learn the weights from a treebank."""
        clock = PhaseClock()
        data = self._prepare(bank)
        plan = NetworkPlan.usual(int(data.sizes["tokens"]), self.passes, self.seed or 0)
        plan = replace(
            plan, rate=self.rate, dropout=self.dropout, word_dropout=WORD_DROPOUT, unknown=UNKNOWN
        )
        trees = RightTrees.of(data.engine.gather(data.shards))
        clock.tick("trees")
        given = None
        if (source := as_source(self.encoder)) is not None:
            given = TrainingVectors.of(source, trees.sentences, jobs=data.engine.jobs_here)
            clock.tick("vectors")
        encoder = EncoderSizes(state=self.width, given=0 if given is None else given.width)
        trainer = SpanTrainer(trees, plan, (encoder, SpanSizes(self.hidden)), given)
        self.info_ = Info()

        def note(iteration: int, log_likelihood: float) -> Any:
            self.info_.history.append({"log_likelihood": log_likelihood})
            return tell(iteration=iteration, states=1, log_likelihood=log_likelihood)

        network = trainer.train(trainer.gradient, data.engine.jobs_here, note)
        clock.tick("passes")
        self.info_.seconds = clock.seconds
        record = {
            "method": "encoder", "iterations": self.info_.iterations, "seed": self.seed,
            "log_likelihood": self.info_.log_likelihoods[-1], **data.sizes,
        }  # fmt: skip
        if given is not None:
            record["pretrained"] = given.learnt.record.description
        self.model_ = SpanNetwork(data.grammar, network, trees.labels, trees.tags, record)
        return self


class RightTrees(NamedTuple):
    """Sentences with the labels of their spans and the tags of their words.

    Attributes
    ----------
    sentences
        The words of each sentence.
    labels
        The unary chains that are labels.
    tags
        The names of the tags.
    tag
        The tag of every word, sentence after sentence.
    starts : [n_sentences + 1]
        First labelled span of each sentence.
    start, end, label
        Columns of all labelled spans.
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
        """Read the trees of a treebank; rare chains are shortened from below to frequent ones."""
        parts = [_spans_of(shard) for shard in shards]
        chains = [chain for part in parts for chain in part.chains]
        counts = Counter(chain for chain in chains if chain)
        known = {chain for chain, n in counts.items() if n >= FAMILIAR_CHAIN}
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
    """Sentences, tags and labelled spans of a shard.

    Attributes
    ----------
    chains
        The unary chain of every labelled span.
    spans
        Number of labelled spans per sentence, and the starts and ends of the spans.
    """

    sentences: list[list[str]]
    tags: list[str]
    chains: list[tuple[str, ...]]
    spans: tuple[IntArray, IntArray, IntArray]


def _spans_of(bank: Treebank) -> _Spans:
    symbols, n_phrases = bank.inventory.symbols, len(bank.inventory.phrases)
    above = [  # the labels of each node without its part-of-speech tag
        () if symbol.is_intermediate else symbol.chain[: -1 if k >= n_phrases else None]
        for k, symbol in enumerate(symbols)
    ]
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


class SpanTrainer(NetworkTrainer):
    """Sentences with the labels of their spans and the tags of their words."""

    def __init__(
        self,
        trees: RightTrees,
        plan: NetworkPlan,
        sizes: tuple[EncoderSizes, SpanSizes],
        given: TrainingVectors | None = None,
    ) -> None:
        self.trees = trees
        encoder, spans = sizes
        shapes = encoder.shapes(len(trees.tags))
        shapes |= spans.shapes(2 * encoder.state, len(trees.labels))
        super().__init__(
            trees.sentences, encoder, shapes, init_spans, plan, has_end=True, given=given
        )

    def gradient(self, sentences: IntArray, rng: np.random.Generator, n_words: int) -> PartGradient:
        """Return the loss and gradient of some sentences, sorted longest first."""
        batch = self.encode(sentences, rng)
        packing, states = batch.packing, batch.encoding.states
        posts = fenceposts(self.P, states, packing, batch.starts, batch.dropout)
        loss, d_scores = self._tree_loss(sentences, span_scores(self.P, posts))
        d_scores *= 1 / n_words
        d_states = spans_backward(self.P, batch.G, posts, packing, d_scores)
        # two tokens per sentence mark its ends
        first, end = (self.words.starts[sentences + k] - 2 * (sentences + k) for k in (0, 1))
        right = self.trees.tag[ranges(first, end)]
        return self.encode_backward(batch, loss, d_states, right, n_words)

    def _tree_loss(self, sentences: IntArray, scores: Real) -> tuple[float, Real]:
        """Return the negative log-probability of the gold trees, and its gradient by the scores."""
        trees = self.trees
        first, end = trees.starts[sentences], trees.starts[sentences + 1]
        n = self.words.starts[sentences + 1] - self.words.starts[sentences] - 2  # without end marks
        before = starts_of(n * (n + 1) // 2)[:-1]  # number of spans in the earlier sentences
        those, place = ranges(first, end), np.repeat(np.arange(len(n)), end - first)
        spans = before[place] + cell(trees.start[those], trees.end[those], n[place])
        right = spans, trees.label[those]
        log_total, shares = span_posteriors(scores, n.tolist())
        loss = log_total - float(scores[right].sum(dtype=np.float64))
        shares[right] -= 1  # no span occurs twice
        return loss, shares
