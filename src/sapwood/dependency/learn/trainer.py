"""Training of the parts of a dependency parser: pruner, members, relations, network.

The pruner and the members are log-linear models of hashed features, trained by AdaGrad sentence by
sentence; their weights are averaged over the last half of the passes. The network learns tags,
heads and relations together, each word on its own: its loss is the sum of their negative
log-probabilities. Trees come in when sentences are parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray, ranges
from sapwood.core.errors import CorpusError, count, require_memory
from sapwood.core.training_loops import WeightTable
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.vocabulary import Words
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.transform import LIFTED, lift
from sapwood.dependency.kernels.arc_layout import Templates
from sapwood.dependency.learn.tagger import (
    TablePlan,
    Tagger,
    TaggerTrainer,
    choose_templates,
    cluster_words,
    familiar_words,
    table_bits,
    train_table,
)
from sapwood.dependency.model.arc_model import ArcMember, ArcModel, EncoderMember
from sapwood.dependency.model.tables import FeatureTable
from sapwood.dependency.parse import templates as arc_templates
from sapwood.dependency.parse.scoring import (
    WordRows,
    head_step,
    label_step,
    likely_arcs,
    sentence_rows,
    tree_step,
)
from sapwood.execute import Engine
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
from sapwood.progress import counted, tell

_MEMBER_WEIGHTS = (64, 24)  # see `TablePlan`
# bytes of Numba and compiled kernels; bytes a token; arrays as large as the largest table of
# weights, besides four for each thread; measured by `benchmarks/memory_estimates.py`
_KERNEL_BYTES, _TOKEN_BYTES, _TABLE_COPIES = 150e6, 2_000, 5


def tell_pass(member: str, done: int, likelihood: float) -> Any:
    """Tell whoever listens of a pass over the training sentences; returns the answer."""
    return tell(member=member, iteration=done, log_likelihood=likelihood)


@dataclass(frozen=True)
class MemberPlan:
    """Settings of one member."""

    order: int
    templates: Templates
    passes: int
    rate: float

    @classmethod
    def usual(cls, order: int, passes: int, rate: float) -> MemberPlan:
        """A member of an order, with the templates of that order."""
        templates = arc_templates.FIRST if order == 1 else arc_templates.SECOND
        return cls(order, templates, passes, rate)


@dataclass(frozen=True, eq=False)
class TaggedSentences:
    """Training sentences with predicted tags, as the parts of a parser read them.

    Attributes
    ----------
    bank
        The sentences with the tags and trees of the treebank.
    heads : [n_tokens]
        Heads after lifting: all trees are projective.
    tag : [n_tokens]
        Predicted tags, as numbers among `tags`.
    word_rows
        Makes the properties of words.
    rows
        Properties of all words; see `sentence_rows`.
    """

    bank: ArcBank
    heads: npt.NDArray[np.int32]
    tag: npt.NDArray[np.int64]
    word_rows: WordRows
    rows: Words

    @classmethod
    def of(
        cls,
        bank: ArcBank,
        heads: npt.NDArray[np.int32],
        tag: npt.NDArray[np.int64],
        word_rows: WordRows,
    ) -> TaggedSentences:
        """Make the properties of all words, with their tags."""
        of_words = word_rows.of_forms(bank.words)[bank.word]
        word_rows.put_tags(of_words, tag)
        return cls(bank, heads, tag, word_rows, sentence_rows(of_words, bank.offsets))

    def select(self, is_in: npt.NDArray[np.bool_]) -> TaggedSentences:
        """Some of the sentences; the words of the others are not known."""
        bank, of_token = self.bank.select(is_in), np.repeat(is_in, np.diff(self.bank.offsets))
        word_rows = WordRows(familiar_words(bank), self.tags, self.word_rows.clusters)
        return TaggedSentences.of(bank, self.heads[of_token], self.tag[of_token], word_rows)

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """Pairs of universal tag and tag of the treebank."""
        return self.word_rows.tags

    def sentence(self, s: int) -> Words:
        """Rows of one sentence."""
        return self.rows[self.bank.offsets[s] + 4 * s : self.bank.offsets[s + 1] + 4 * (s + 1)]

    def gold(self, s: int) -> npt.NDArray[np.int32]:
        """Gold heads of one sentence, behind that of the root, shape [n + 1]."""
        heads = self.heads[self.bank.offsets[s] : self.bank.offsets[s + 1]]
        return np.concatenate([np.zeros(1, np.int32), heads])

    @cached_property
    def relations(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        """Names of relations, and the number of each word's relation."""
        names = sorted({name.split(LIFTED)[0] for name in self.bank.relations})
        number = {name: index for index, name in enumerate(names)}
        of = np.array([number[name.split(LIFTED)[0]] for name in self.bank.relations], np.int32)
        return tuple(names), of[self.bank.relation]

    def with_predicted_tags(self) -> ArcBank:
        """The bank with predicted tags in place of the treebank's."""
        columns = [sorted({pair[k] for pair in self.tags}) for k in range(2)]
        numbers = [np.array([names.index(pair[k]) for pair in self.tags], np.int32)[self.tag]
                   for k, names in enumerate(columns)]  # fmt: skip
        return replace(
            self.bank, upos_names=tuple(columns[0]), upos=numbers[0],
            xpos_names=tuple(columns[1]), xpos=numbers[1], texts=(),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ArcTrainer:
    """Trains the parts of a parser on the same sentences, tags and pruned arcs.

    Attributes
    ----------
    data
        The training sentences.
    arcs
        Arcs of each sentence: the arcs that the pruner keeps, and the gold ones.
    """

    data: TaggedSentences
    tagger: Tagger
    pruner: FeatureTable
    arcs: list[npt.NDArray[np.int32]]

    @classmethod
    def prepare(
        cls,
        bank: ArcBank,
        engine: Engine,
        folds: int,
        seed: int,
        embeddings: Eigenwords | None = None,
    ) -> ArcTrainer:
        """Train tagger and pruner."""
        if not len(bank):
            msg = "no sentence to learn from"
            raise CorpusError(msg, hint="give CoNLL-U with at least one sentence")
        if (bank.head < 0).any():
            msg = "sentences without heads: there is nothing to learn from"
            raise CorpusError(msg, hint="column 7 of CoNLL-U holds the heads of training sentences")
        n_weights = 1 << table_bits(bank.n_tokens, _MEMBER_WEIGHTS)
        require_memory(
            parser_bytes(bank.n_tokens, n_weights, engine.jobs_here),
            f"training on {count(len(bank), 'sentence')}",
            "give fewer sentences, or use one thread (--jobs 1)",
        )
        trainer = TaggerTrainer(bank, None if embeddings is None else cluster_words(embeddings))
        tagger = trainer.train(np.arange(len(bank)), seed)
        tag = trainer.jackknife(engine, folds, seed)
        data = TaggedSentences.of(bank, lift(bank).head, tag, trainer.word_rows)
        return cls.of(data, tagger, seed)

    @classmethod
    def of(cls, data: TaggedSentences, tagger: Tagger, seed: int) -> ArcTrainer:
        """Train the pruner of some sentences."""

        def step(s: int, features_of: FeatureTable, table: WeightTable, rate: float) -> float:
            return head_step(data.sentence(s), data.gold(s), features_of, table, rate)

        plan = TablePlan("likely arcs", arc_templates.PRUNER, (4, 22), 2, 0.02, (seed, 1))
        pruner = train_table(plan, data.bank, len(data.bank), step)
        arcs = [
            likely_arcs(data.sentence(s), pruner, right=data.gold(s))
            for s in counted(range(len(data.bank)), "likely arcs", unit="sentence")
        ]
        return cls(data, tagger, pruner, arcs)

    def train_member(
        self, plan: MemberPlan, seed: int, on_pass: Callable[[int, float], None] | None = None
    ) -> ArcMember:
        """A member, which maximises log p(gold tree | sentence, arcs)."""
        data = self.data

        def step(s: int, features_of: FeatureTable, table: WeightTable, rate: float) -> float:
            arcs, rows, gold = self.arcs[s], data.sentence(s), data.gold(s)
            return tree_step(arcs, rows, gold, plan.order, features_of, table, rate)

        templates = choose_templates(plan.templates, data.word_rows.clusters)
        settings = TablePlan(
            "parser", templates, _MEMBER_WEIGHTS, plan.passes, plan.rate, (seed, 2)
        )
        table = train_table(settings, data.bank, len(self.arcs), step, on_pass)
        return ArcMember(plan.order, 1.0, table)

    def train_labels(self, seed: int) -> FeatureTable:
        """The model of relations of gold arcs."""
        data, (names, relation) = self.data, self.data.relations

        def step(s: int, features_of: FeatureTable, table: WeightTable, rate: float) -> float:
            rows, heads = data.sentence(s), data.gold(s)
            gold = relation[data.bank.offsets[s] : data.bank.offsets[s + 1]]
            return label_step(heads, rows, gold, len(names), features_of, table, rate)

        templates = choose_templates(arc_templates.LABELS, data.word_rows.clusters)
        plan = TablePlan("relations", templates, (64, 24), 4, 0.1, (seed, 3), len(names))
        return train_table(plan, data.bank, len(self.arcs), step)

    def train_encoder(
        self, plan: NetworkPlan, jobs: int, on_pass: AfterPass | None = None
    ) -> Network:
        """The network, from gold tags, heads and relations."""
        bank, (names, relation) = self.data.bank, self.data.relations
        number = {pair: k for k, pair in enumerate(self.data.tags)}
        pairs = zip(bank.upos.tolist(), bank.xpos.tolist(), strict=True)
        tag = np.array([number[bank.upos_names[u], bank.xpos_names[x]] for u, x in pairs])
        relations = len(names), relation.astype(np.int64)
        return train_arc_network(bank, (len(number), tag), relations, plan, jobs, on_pass)

    def model(
        self,
        members: tuple[ArcMember, ...],
        labels: FeatureTable,
        method: str,
        encoder: EncoderMember | None = None,
        **record: float,
    ) -> ArcModel:
        """The trained parser, with a record of how it was trained."""
        bank, words, (relations, _) = self.data.bank, self.data.word_rows, self.data.relations
        sizes = {"method": method, "sentences": len(self.arcs), "tokens": bank.n_tokens}
        return ArcModel(
            tags=words.tags, relations=relations, familiar=words.familiar,
            lexicon=self.tagger.lexicon, tagger=self.tagger.table, pruner=self.pruner,
            labels=labels, members=members, clusters=words.clusters, encoder=encoder,
            record=sizes | record,
        )  # fmt: skip


def parser_bytes(n_tokens: int, n_weights: int, jobs: int) -> float:
    """Estimated bytes for training a parser."""
    tables = 4 * (_TABLE_COPIES + 4 * jobs) * n_weights
    return _KERNEL_BYTES + _TOKEN_BYTES * n_tokens + tables


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
