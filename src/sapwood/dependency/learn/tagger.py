"""Training of feature tables by AdaGrad, and of the tagger.

The parser learns from tags of taggers that have not seen the sentence (jackknifing), since it will
see such tags in new sentences.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import Int32Array, ranges
from sapwood.core.training_loops import WeightTable, run_adagrad
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.vocabulary import COLUMN, hash_of
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.kernels.arc_layout import Templates
from sapwood.dependency.model.tables import FeatureTable, TagLexicon, WordClusters
from sapwood.dependency.parse import templates as arc_templates
from sapwood.dependency.parse.scoring import (
    TagForest,
    WordRows,
    best_tags,
    sentence_rows,
    tag_forest,
    tag_step,
)
from sapwood.execute import Engine
from sapwood.progress import counted

MIN_WORD_FEATURE_COUNT = 2  # words seen at least this often are features themselves
MIN_CLOSED_COUNT = 10  # words seen at least this often have only tags seen with them
MAX_RARE_COUNT = 3  # words seen at most this often show which tags unknown words have
MAX_OPEN_TAGS = 64  # of unknown words: time grows with the square of their number
FOLD_BLOCK = 25  # neighbouring sentences are held out together: texts are of one kind
_WEIGHTS = (64, 24)  # of the tagger: weights a word, and the most, as a power of two
FEW_CLUSTERS, MANY_CLUSTERS = 48, 512  # few are like tags, many like topics
N_KMEANS_ROUNDS = 12  # features hardly change after that


def table_bits(n_tokens: int, room: tuple[int, int]) -> int:
    """Logarithm of the size of a feature table for a treebank.

    >>> table_bits(200_000, (16, 24)), table_bits(10, (16, 24)), table_bits(10**8, (16, 24))
    (22, 12, 24)
    """
    weights_a_word, most = room
    return min(most, max(12, (n_tokens * weights_a_word).bit_length()))


class TablePlan(NamedTuple):
    """Settings for training a feature table by AdaGrad."""

    name: str
    templates: Templates
    room: tuple[int, int]  # weights a word of the treebank, and the most, as a power of two
    passes: int
    rate: float
    seed: tuple[int, int]
    spare: int = 0


def train_table(
    plan: TablePlan,
    bank: ArcBank,
    n: int,
    step: Callable[[int, FeatureTable, WeightTable, float], float],
    on_pass: Callable[[int, float], None] | None = None,
) -> FeatureTable:
    """Train the weights of features by steps over n sentences of a bank.

    Parameters
    ----------
    step
        Takes the index of a sentence, the features, the weights and the learning rate; returns the
        log-likelihood before the step.
    """
    size = (1 << table_bits(bank.n_tokens, plan.room)) + plan.spare
    table = WeightTable.of_size(size, name=plan.name)
    features_of = FeatureTable(plan.templates, table.weights, plan.spare)
    weights = run_adagrad(
        table, n, lambda s, rate: step(s, features_of, table, rate), plan.passes, plan.rate,
        np.random.default_rng(plan.seed), on_pass,
    )  # fmt: skip
    return FeatureTable.of(plan.templates, weights, plan.spare)


def familiar_words(bank: ArcBank) -> npt.NDArray[np.uint32]:
    """Hashes of the lower-case words that are features themselves, sorted."""
    seen: Counter[str] = Counter()
    for word, n in enumerate(np.bincount(bank.word, minlength=len(bank.words)).tolist()):
        seen[bank.words[word].lower()] += n
    kept = {hash_of(w) for w, n in seen.items() if n >= MIN_WORD_FEATURE_COUNT}
    return np.array(sorted(kept), np.uint32)


class Tagger(NamedTuple):
    """A chain CRF over the tags that the lexicon allows."""

    lexicon: TagLexicon
    table: FeatureTable


class TaggerTrainer:
    """Trains taggers on the sentences of a bank, or on some of them."""

    def __init__(self, bank: ArcBank, clusters: WordClusters | None) -> None:
        pairs, tag = np.unique(np.stack([bank.upos, bank.xpos]), axis=1, return_inverse=True)
        tags = tuple((bank.upos_names[u], bank.xpos_names[x]) for u, x in pairs.T.tolist())
        self.bank, self.tag = bank, tag.ravel()
        self.word_rows = WordRows(familiar_words(bank), tags, clusters)
        of_words = self.word_rows.of_forms(bank.words)[bank.word]
        self.lower, self.rows = of_words[:, COLUMN["L"]], sentence_rows(of_words, bank.offsets)
        self.templates = choose_templates(arc_templates.TAGGER, clusters)

    def train(self, sentences: npt.NDArray[np.int64], seed: int) -> Tagger:
        """The tagger of some sentences, by AdaGrad."""
        lexicon = self._lexicon(sentences)
        types, sizes = lexicon.types(self.lower), np.diff(lexicon.starts)

        def step(index: int, features_of: FeatureTable, table: WeightTable, rate: float) -> float:
            tagger = Tagger(lexicon, features_of)
            tokens, forest = self._forest(int(sentences[index]), types, tagger)
            return tag_step(forest, self.tag[tokens], sizes[types[tokens]], table, rate)

        plan = TablePlan("tagger", self.templates, _WEIGHTS, 4, 0.1, (seed, 0))
        return Tagger(lexicon, train_table(plan, self.bank, len(sentences), step))

    def _lexicon(self, sentences: npt.NDArray[np.int64]) -> TagLexicon:
        """Tags of frequent words as they were seen; other words may also have any open tag."""
        lower = [word.lower() for word in self.bank.words]
        tags: dict[str, Counter[int]] = {}
        for row in self._tokens(sentences).tolist():
            tags.setdefault(lower[self.bank.word[row]], Counter())[int(self.tag[row])] += 1
        of_rare = Counter(t for n in tags.values() if n.total() <= MAX_RARE_COUNT for t in n)
        common = [t for t, n in of_rare.most_common(MAX_OPEN_TAGS) if n > 1]
        open_tags = set(common) or set(of_rare) or set(self.tag)
        allowed = {
            hash_of(word): sorted(n if n.total() >= MIN_CLOSED_COUNT else open_tags | set(n))
            for word, n in tags.items()
        }
        return TagLexicon.of(allowed, sorted(open_tags))

    def _tokens(self, sentences: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return ranges(self.bank.offsets[sentences], self.bank.offsets[sentences + 1])

    def _forest(self, s: int, types: Int32Array, tagger: Tagger) -> tuple[slice, TagForest]:
        """The tokens of a sentence, and its sequences of tags."""
        here = slice(int(self.bank.offsets[s]), int(self.bank.offsets[s + 1]))
        rows = self.rows[here.start + 4 * s : here.stop + 4 * (s + 1)]
        return here, tag_forest(rows, types[here], tagger.lexicon, tagger.table)

    def jackknife(self, engine: Engine, folds: int, seed: int) -> npt.NDArray[np.int64]:
        """The tag of each word, by a tagger that has not seen its sentence."""
        fold = np.arange(len(self.bank)) // FOLD_BLOCK % folds
        if len(self.bank) < FOLD_BLOCK * folds:
            fold = np.arange(len(self.bank)) % folds
        results = engine.stream(partial(_tag_fold, self, fold, seed), range(folds), ahead=1)
        tag = self.tag.copy()
        for tokens, tags in counted(results, "taggers of folds", total=folds, unit="fold"):
            tag[tokens] = tags
        return tag


def _tag_fold(
    trainer: TaggerTrainer, fold: npt.NDArray[np.int64], seed: int, k: int
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Tokens of one fold, and their tags by a tagger of the other folds."""
    others, own = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
    if not len(others) or not len(own):
        return np.empty(0, np.int64), []
    tagger = trainer.train(others, seed)
    types = tagger.lexicon.types(trainer.lower)
    tags: list[int] = []
    for s in own.tolist():
        _, forest = trainer._forest(s, types, tagger)
        tags += best_tags(forest, tagger.table.weights).tolist()
    return trainer._tokens(own), tags


def choose_templates(templates: Templates, clusters: WordClusters | None) -> Templates:
    """Templates, extended by templates of word clusters if there are clusters."""
    return templates if clusters is None else arc_templates.with_clusters(templates)


def cluster_words(vectors: Eigenwords, seed: int = 0) -> WordClusters:
    """Two clusterings of the words that have vectors of their own, by k-means of directions.

    Few words make fewer clusters: four words to each, or two. A word that is only known with
    capitals stands for its small letters too.

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
