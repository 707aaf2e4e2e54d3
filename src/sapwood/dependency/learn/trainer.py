"""Training of the parts of a dependency parser: tagger, pruner, members, relations, network.

All but the network are log-linear models of hashed features, trained by AdaGrad, sentence by
sentence; weights are averaged over the last half of the passes. The parser learns from tags of
taggers that have not seen the sentence (jackknifing), since it will see such tags in new sentences.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import BoolArray, Int32Array, IntArray
from sapwood.core.errors import CorpusError, require_memory
from sapwood.core.progress import counted, tell
from sapwood.core.training_loops import AdaGradPlan, OnPass, run_adagrad
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.vocabulary import Words, hash_of
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.transform import LIFTED, lift_columns
from sapwood.dependency.kernels.arc_layout import Templates
from sapwood.dependency.model.arc_model import (
    ArcMember,
    ArcModel,
    EncoderMember,
    FeatureTable,
    TagLexicon,
    WordClusters,
)
from sapwood.dependency.parse import templates as arc_templates
from sapwood.dependency.parse.scoring import (
    LearntTable,
    Tagger,
    WordRows,
    head_step,
    label_step,
    likely_arcs,
    tag_step,
    tree_step,
)
from sapwood.execute import Engine
from sapwood.networks.network import EncoderSizes, Network, one_blas_thread
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.pretrained.source import WordSource
from sapwood.networks.pretrained.trial import PASSES, TrialSplit
from sapwood.networks.scores import ArcEncoder, ArcNetworkTrainer, ArcSizes
from sapwood.networks.training import BATCH_PARTS, AfterPass, NetworkPlan

_MEMBER_WEIGHTS = (64, 24)  # see `TablePlan`
# bytes of Numba and compiled kernels; bytes a token; arrays as large as the largest table of
# weights, besides four for each thread; measured by `benchmarks/memory_estimates.py`
_KERNEL_BYTES, _TOKEN_BYTES, _TABLE_COPIES = 150e6, 2_000, 5
MIN_WORD_FEATURE_COUNT = 2  # words seen at least this often are features themselves
MIN_CLOSED_COUNT = 10  # words seen at least this often have only tags seen with them
MAX_RARE_COUNT = 3  # words seen at most this often show which tags unknown words have
MAX_OPEN_TAGS = 64  # of unknown words: time grows with the square of their number
FOLD_BLOCK = 25  # neighbouring sentences are held out together: they are often of one text
_TAGGER_WEIGHTS = (64, 24)  # weights a word, and the most, as a power of two
FEW_CLUSTERS, MANY_CLUSTERS = 48, 512  # a few resemble tags, many resemble topics
N_KMEANS_ROUNDS = 12  # with more, the clusters hardly change


def table_bits(n_tokens: int, room: tuple[int, int]) -> int:
    """Logarithm of the size of a feature table for a treebank.

    >>> table_bits(200_000, (16, 24)), table_bits(10, (16, 24)), table_bits(10**8, (16, 24))
    (22, 12, 24)
    """
    weights_a_word, most = room
    return min(most, max(12, (n_tokens * weights_a_word).bit_length()))


class TablePlan(NamedTuple):
    """Settings for training a feature table."""

    adagrad: AdaGradPlan
    templates: Templates
    room: tuple[int, int]  # weights a word of the treebank, and the most, as a power of two
    spare: int = 0


def train_table(
    plan: TablePlan,
    bank: ArcBank,
    examples: Sequence[tuple[Any, ...]],
    step: Callable[..., float],
    on_pass: OnPass | None = None,
) -> FeatureTable:
    """Train the weights of features on the sentences of a bank.

    Parameters
    ----------
    examples
        What `step` takes of each sentence.
    step
        Called with an example and a `LearntTable`, whose weights it changes; returns the
        log-likelihood of the example before.
    """
    size = (1 << table_bits(bank.n_tokens, plan.room)) + plan.spare
    features = FeatureTable(plan.templates, np.zeros(size, np.float32), plan.spare)
    weights = run_adagrad(
        plan.adagrad, features.weights, examples,
        lambda example, table, rate: step(*example, LearntTable(features, table.squares, rate)),
        on_pass,
    )  # fmt: skip
    # rounded as in the file: the largest float16 number is 65,504
    rounded = np.clip(weights, -60_000, 60_000).astype(np.float16).astype(np.float32)
    return FeatureTable(plan.templates, rounded, plan.spare)


def familiar_words(bank: ArcBank) -> npt.NDArray[np.uint32]:
    """Hashes of the lower-case words that are features themselves, sorted."""
    seen: Counter[str] = Counter()
    for word, n in enumerate(np.bincount(bank.word, minlength=len(bank.words)).tolist()):
        seen[bank.words[word].lower()] += n
    kept = {hash_of(w) for w, n in seen.items() if n >= MIN_WORD_FEATURE_COUNT}
    return np.array(sorted(kept), np.uint32)


class TaggerTrainer:
    """Trains taggers on the sentences of a bank, or on some of them."""

    def __init__(self, bank: ArcBank, clusters: WordClusters | None) -> None:
        pairs, tag = np.unique(np.stack([bank.upos, bank.xpos]), axis=1, return_inverse=True)
        tags = tuple((bank.upos_names[u], bank.xpos_names[x]) for u, x in pairs.T.tolist())
        self.bank, self.tag = bank, tag.ravel()
        self.word_rows = WordRows(familiar_words(bank), tags, clusters)
        self.rows = self.word_rows.of_sentences(bank.words, bank.word, bank.offsets)
        self.lower = np.array([hash_of(word.lower()) for word in bank.words], np.uint32)
        self.templates = choose_templates(arc_templates.TAGGER, clusters)

    def train(self, is_in: BoolArray, seed: int) -> Tagger:
        """The tagger of some sentences, by AdaGrad."""
        lexicon = self._lexicon(is_in)
        types = self._types(lexicon)
        examples = []
        for s in np.flatnonzero(is_in).tolist():
            tokens, rows = self._sentence(s)
            examples.append((rows, types[tokens], self.tag[tokens]))
        adagrad = AdaGradPlan("tagger", 4, 0.1, (seed, 0))
        plan = TablePlan(adagrad, self.templates, _TAGGER_WEIGHTS)
        return Tagger(lexicon, train_table(plan, self.bank, examples, partial(tag_step, lexicon)))

    def _lexicon(self, is_in: BoolArray) -> TagLexicon:
        """Tags of frequent words as they were seen; other words may also have any open tag."""
        lower = [word.lower() for word in self.bank.words]
        tags: dict[str, Counter[int]] = {}
        for row in np.flatnonzero(self._is_token_in(is_in)).tolist():
            tags.setdefault(lower[self.bank.word[row]], Counter())[int(self.tag[row])] += 1
        of_rare = Counter(t for n in tags.values() if n.total() <= MAX_RARE_COUNT for t in n)
        common = [t for t, n in of_rare.most_common(MAX_OPEN_TAGS) if n > 1]
        open_tags = set(common) or set(of_rare) or set(self.tag)
        allowed = {
            hash_of(word): sorted(n if n.total() >= MIN_CLOSED_COUNT else open_tags | set(n))
            for word, n in tags.items()
        }
        words = sorted(allowed)
        candidates = [sorted(open_tags), *(allowed[word] for word in words)]
        starts = np.cumsum([0, *map(len, candidates)], dtype=np.int32)
        flat = np.array([*chain.from_iterable(candidates)], np.int32)
        return TagLexicon(np.array(words, np.uint32), starts, flat)

    def _is_token_in(self, is_in: BoolArray) -> BoolArray:
        """Whether each token belongs to one of some sentences."""
        return np.repeat(is_in, np.diff(self.bank.offsets))

    def _types(self, lexicon: TagLexicon) -> Int32Array:
        """Row of each token in a lexicon."""
        return lexicon.types(self.lower)[self.bank.word]

    def _sentence(self, s: int) -> tuple[slice, Words]:
        """The tokens of a sentence, and its rows."""
        here = slice(int(self.bank.offsets[s]), int(self.bank.offsets[s + 1]))
        return here, self.rows[here.start + 4 * s : here.stop + 4 * (s + 1)]

    def jackknife(self, engine: Engine, folds: int, seed: int) -> npt.NDArray[np.int64]:
        """The tag of each word, by a tagger that has not seen its sentence."""
        fold = np.arange(self.bank.n_sentences) // FOLD_BLOCK % folds
        if self.bank.n_sentences < FOLD_BLOCK * folds:
            fold = np.arange(self.bank.n_sentences) % folds
        results = engine.stream(partial(_tag_fold, self, fold, seed), range(folds), ahead=1)
        tag = self.tag.copy()
        for is_token_in, tags in counted(results, "taggers of folds", total=folds, unit="fold"):
            tag[is_token_in] = tags
        return tag


def _tag_fold(
    trainer: TaggerTrainer, fold: npt.NDArray[np.int64], seed: int, k: int
) -> tuple[BoolArray, list[int]]:
    """Which tokens are in one fold, and their tags by a tagger of the other folds."""
    is_own = fold == k
    if is_own.all() or not is_own.any():
        return np.zeros(trainer.bank.n_tokens, bool), []
    tagger = trainer.train(~is_own, seed)
    types = trainer._types(tagger.lexicon)
    tags: list[int] = []
    for s in np.flatnonzero(is_own).tolist():
        tokens, rows = trainer._sentence(s)
        tags += tagger.best(rows, types[tokens]).tolist()
    return trainer._is_token_in(is_own), tags


def choose_templates(templates: Templates, clusters: WordClusters | None) -> Templates:
    """Templates, extended by templates of word clusters if there are clusters."""
    return templates if clusters is None else arc_templates.with_clusters(templates)


@dataclass(frozen=True)
class MemberPlan:
    """Settings of one member; the default templates are those of its order."""

    name: str  # for progress
    order: int
    passes: int
    rate: float
    seed: int
    templates: Templates | None = None


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
        rows = word_rows.of_sentences(bank.words, bank.word, bank.offsets, tag)
        return cls(bank, heads, tag, word_rows, rows)

    def select(self, is_in: npt.NDArray[np.bool_]) -> TaggedSentences:
        """Some of the sentences; the words of the others are not known."""
        bank, of_token = self.bank.select(is_in), np.repeat(is_in, np.diff(self.bank.offsets))
        word_rows = WordRows(familiar_words(bank), self.tags, self.word_rows.clusters)
        return TaggedSentences.of(bank, self.heads[of_token], self.tag[of_token], word_rows)

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """Pairs of universal tag and tag of the treebank."""
        return self.word_rows.tags

    def examples(self) -> list[tuple[Words, Int32Array]]:
        """Rows and gold heads of each sentence; the heads, [n + 1], start with that of the root."""
        root, found = np.zeros(1, np.int32), []
        for s, (first, end) in enumerate(pairwise(self.bank.offsets.tolist())):
            rows = self.rows[first + 4 * s : end + 4 * s + 4]
            found.append((rows, np.concatenate([root, self.heads[first:end]])))
        return found

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
        more_bytes: float = 0.0,
    ) -> ArcTrainer:
        """Train tagger and pruner; `more_bytes` of memory are needed for something else."""
        if not bank.n_sentences:
            msg = "no sentence to learn from"
            raise CorpusError(msg, hint="give CoNLL-U with at least one sentence")
        if (bank.head < 0).any():
            msg = "sentences without heads: there is nothing to learn from"
            raise CorpusError(msg, hint="column 7 of CoNLL-U holds the heads of training sentences")
        n_weights = 1 << table_bits(bank.n_tokens, _MEMBER_WEIGHTS)
        require_memory(
            parser_bytes(bank.n_tokens, n_weights, engine.jobs_here) + more_bytes,
            "training on",
            "give fewer sentences, or use one thread (--jobs 1)",
            (bank.n_sentences, "sentence"),
        )
        trainer = TaggerTrainer(bank, None if embeddings is None else cluster_words(embeddings))
        tagger = trainer.train(np.ones(bank.n_sentences, bool), seed)
        tag = trainer.jackknife(engine, folds, seed)
        data = TaggedSentences.of(bank, lift_columns(bank)[0], tag, trainer.word_rows)
        return cls.of(data, tagger, seed)

    @classmethod
    def of(cls, data: TaggedSentences, tagger: Tagger, seed: int) -> ArcTrainer:
        """Train the pruner of some sentences."""
        plan = TablePlan(
            AdaGradPlan("likely arcs", 2, 0.02, (seed, 1)), arc_templates.PRUNER, (4, 22)
        )
        examples = data.examples()
        pruner = train_table(plan, data.bank, examples, head_step)
        arcs = [
            likely_arcs(rows, pruner, right=gold)
            for rows, gold in counted(examples, "likely arcs", unit="sentence")
        ]
        return cls(data, tagger, pruner, arcs)

    def train_member(
        self, plan: MemberPlan, on_pass: OnPass | None = None
    ) -> tuple[ArcMember, float]:
        """A member, which maximises log p(gold tree | sentence, arcs), and its CPU seconds."""
        started = thread_time()
        templates = plan.templates or (arc_templates.FIRST, arc_templates.SECOND)[plan.order - 1]
        settings = TablePlan(
            AdaGradPlan("parser", plan.passes, plan.rate, (plan.seed, 2)),
            choose_templates(templates, self.data.word_rows.clusters), _MEMBER_WEIGHTS,
        )  # fmt: skip
        examples = [
            (*example, arcs) for example, arcs in zip(self.data.examples(), self.arcs, strict=True)
        ]
        table = train_table(
            settings, self.data.bank, examples, partial(tree_step, plan.order),
            on_pass or partial(tell, member=plan.name),
        )  # fmt: skip
        return ArcMember(plan.order, 1.0, table), thread_time() - started

    def train_labels(self, seed: int) -> FeatureTable:
        """The model of relations of gold arcs."""
        bank, (names, relation) = self.data.bank, self.data.relations
        plan = TablePlan(
            AdaGradPlan("relations", 4, 0.1, (seed, 3)),
            choose_templates(arc_templates.LABELS, self.data.word_rows.clusters), (64, 24),
            spare=len(names),
        )  # fmt: skip
        sentences = zip(self.data.examples(), pairwise(bank.offsets.tolist()), strict=True)
        examples = [(*example, relation[first:end]) for example, (first, end) in sentences]
        return train_table(plan, bank, examples, partial(label_step, len(names)))

    def train_encoder(
        self,
        plan: NetworkPlan,
        jobs: int,
        on_pass: AfterPass | None = None,
        given: TrainingVectors | None = None,
    ) -> Network:
        """The network, from gold tags, heads and relations, and perhaps given vectors of words."""
        bank, (names, relation) = self.data.bank, self.data.relations
        number = {pair: k for k, pair in enumerate(self.data.tags)}
        pairs = zip(bank.upos.tolist(), bank.xpos.tolist(), strict=True)
        tag = np.array([number[bank.upos_names[u], bank.xpos_names[x]] for u, x in pairs])
        relations = len(names), relation.astype(np.int64)
        return train_arc_network(
            bank, (len(number), tag), relations, plan, jobs, on_pass, given=given
        )  # fmt: skip

    def try_vectors(
        self, source: WordSource, split: TrialSplit, seed: int, jobs: int
    ) -> tuple[float, float]:
        """UAS of a short-trained network with given vectors, and of one without, in percent.

        Both learn from some of the sentences and parse others, each word on its own.
        """
        bank = self.data.bank
        is_in = np.zeros(bank.n_sentences, bool)
        is_in[split.train] = True
        part = replace(self, data=self.data.select(is_in))
        plan = NetworkPlan.usual(part.data.bank.n_tokens, PASSES, seed)
        given = TrainingVectors.of(source, part.data.bank.sentences(), jobs=jobs)
        scores = []
        for one in (given, None):
            network = part.train_encoder(plan, min(jobs, BATCH_PARTS), given=one)
            reader, n_right, n_words = ArcEncoder(network), 0, 0
            for s in split.held.tolist():
                gold = bank.head[bank.offsets[s] : bank.offsets[s + 1]]
                with one_blas_thread():
                    found = reader.read(bank.sentence(s)).heads.argmax(axis=1)
                n_right, n_words = n_right + int((found == gold).sum()), n_words + len(gold)
            scores.append(100 * n_right / n_words)
        return scores[0], scores[1]

    def model(
        self,
        members: tuple[ArcMember, ...],
        labels: FeatureTable,
        method: str,
        encoder: EncoderMember | None = None,
        **record: float | str,
    ) -> ArcModel:
        """The trained parser, with a record of how it was trained."""
        bank, words, (relations, _) = self.data.bank, self.data.word_rows, self.data.relations
        sizes = {"method": method, "sentences": bank.n_sentences, "tokens": bank.n_tokens}
        return ArcModel(
            tags=words.tags, relations=relations, familiar=words.familiar,
            lexicon=self.tagger.lexicon, tagger=self.tagger.table, pruner=self.pruner,
            labels=labels, members=members, clusters=words.clusters, encoder=encoder,
            record=sizes | record,
        )  # fmt: skip


def train_arc_network(  # noqa: PLR0913 - sizes and given vectors have defaults
    bank: ArcBank,
    tags: tuple[int, IntArray],
    relations: tuple[int, IntArray],
    plan: NetworkPlan,
    jobs: int,
    on_pass: AfterPass | None = None,
    *,
    sizes: tuple[EncoderSizes, ArcSizes] = (EncoderSizes(layers=3), ArcSizes()),
    given: TrainingVectors | None = None,
) -> Network:
    """Train a network on dependency trees: tags, heads and relations, each word on its own.

    The loss is the sum of their negative log-probabilities; no tree is required of the heads, as in
    parsing.

    Parameters
    ----------
    tags, relations
        Their number, and that of each word, shape [n_tokens].
    given
        Vectors of the words of the sentences from elsewhere.
    """
    encoder, arcs = sizes
    if given is not None:
        encoder = encoder._replace(given=given.width)
    trainer = ArcNetworkTrainer(
        bank.sentences(), bank.head, tags, relations, plan, (encoder, arcs), given
    )  # fmt: skip
    return trainer.train(trainer.gradient, jobs, on_pass)


def parser_bytes(n_tokens: int, n_weights: int, jobs: int) -> float:
    """Estimated bytes for training a parser."""
    tables = 4 * (_TABLE_COPIES + 4 * jobs) * n_weights
    return _KERNEL_BYTES + _TOKEN_BYTES * n_tokens + tables


def cluster_words(vectors: Eigenwords, seed: int = 0) -> WordClusters:
    """Two clusterings of the words that have vectors of their own, by k-means of directions.

    A small vocabulary has fewer clusters, of four and of two words. A word that is only known in
    capitals is also found by its lower-case form.

    Examples
    --------
    >>> import sapwood as sw
    >>> text = [["the", "dog", "eats"], ["the", "cat", "eats"], ["a", "car", "stops"]] * 5
    >>> clusters = cluster_words(sw.WordEmbedding(2).fit(text).model_)
    >>> hashes = np.array([hash_of(word) for word in ("dog", "cat", "a")])
    >>> dog, cat, a = clusters.of(hashes, hashes)[:, 0]
    >>> dog == cat, dog == a
    (np.True_, np.False_)
    """
    words = vectors.vocabulary.words
    points = vectors.vectors[: len(words)] * vectors.strengths
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    sizes = ((FEW_CLUSTERS, 4), (MANY_CLUSTERS, 2))
    both = [_k_means(points, min(k, -(-len(words) // n)), seed) for k, n in sizes]
    rows = np.stack(both, axis=1)
    of_word = {hash_of(word.lower()): row for word, row in zip(words, rows, strict=True)}
    of_word |= {hash_of(word): row for word, row in zip(words, rows, strict=True)}
    hashes = sorted(of_word)
    clusters = np.array([of_word[number] for number in hashes], np.int32)
    return WordClusters(np.array(hashes, np.uint32), clusters.reshape(-1, 2))


def _k_means(points: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Cluster of each point."""
    from scipy.cluster.vq import kmeans2

    unlike = np.unique(points, axis=0)
    k = min(k, len(unlike))
    starts = np.random.default_rng(seed).choice(len(unlike), k, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster does no harm
        return np.asarray(kmeans2(points, unlike[starts], iter=N_KMEANS_ROUNDS, minit="matrix")[1])
