"""Log-linear models of tags, heads, trees and relations: posteriors, and steps of AdaGrad.

Notation
--------
    rows    properties of the words of a sentence, [n + 4, N_WORD_PROPERTIES]: one row before it,
            the root, its words, two rows behind it
    arc     a number; `head[a]` and `modifier[a]`, the root being 0; sorted by head, then modifier
    part    what is scored: a word, an arc, or a pair of arcs; see `kernels.arc_forest`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, Int32Array, IntArray
from sapwood.corpora.vocabulary import (
    COLUMN,
    N_OF_FORM,
    N_WORD_PROPERTIES,
    Words,
    form_properties,
    hash_of,
)
from sapwood.dependency.model.arc_model import ArcMember, FeatureTable, TagLexicon, WordClusters

_OUTSIDE, _ROOT = 1, 2  # values of rows that are no words
_UNFAMILIAR = np.uint64(1 << 33)  # above all hashes of words
_FIRST_COARSE, _N_COARSE = 3, 60  # coarse tags: below 64, behind the values of no word
_MAX_CACHED_FORMS = 200_000
_MAX_CACHED_LENGTH = 100  # of sentences whose arcs are kept for the next of the same length
_BETWEEN_COLUMNS = np.array([COLUMN["X"], COLUMN["X"]], np.int32)
MIN_HEAD_RATIO = 2e-3  # heads below this fraction of the best head's posterior are pruned
MAX_HEADS = 8  # of a word
LONG_SENTENCE, MIN_HEADS = 150, 3  # longer ones keep fewer heads: siblings cost O(arcs^2)
N_LABEL_WORDS = 9  # words that the label model looks at, see `arc_layout`


# -- words ----------------------------------------------------------------------------------------


class WordRows:
    """Properties of words, looked up or made.

    Parameters
    ----------
    familiar
        Hashes of lower-case words that are features themselves, sorted.
    tags
        Pairs of tags, in the order of their numbers.
    clusters
        Clusters of words; None for none.
    """

    def __init__(
        self,
        familiar: npt.NDArray[np.uint32],
        tags: tuple[tuple[str, str], ...],
        clusters: WordClusters | None = None,
    ) -> None:
        self.familiar, self.tags, self.clusters = familiar, tags, clusters
        upos = sorted({upos for upos, _ in tags})
        # a treebank without universal tags has its own between the words
        names = upos if len(upos) > 1 else sorted({xpos for _, xpos in tags})
        self._is_universal = len(upos) > 1
        self._coarse = {name: _FIRST_COARSE + k % _N_COARSE for k, name in enumerate(names)}
        self._of_tag = self._tag_columns(tags).reshape(-1, 3)
        self._cache: dict[str, npt.NDArray[np.uint64]] = {}

    def of_forms(self, forms: Sequence[str]) -> Words:
        """Properties of words, without tags, shape [n, N_WORD_PROPERTIES]."""
        cache = self._cache
        missing = [form for form in dict.fromkeys(forms) if form not in cache]
        if missing:
            if len(cache) + len(missing) > _MAX_CACHED_FORMS:
                cache.clear()
                missing = list(dict.fromkeys(forms))
            cache.update(zip(missing, self._make(missing), strict=True))
        return np.array([cache[form] for form in forms])

    def _make(self, forms: list[str]) -> Words:
        rows = np.zeros((len(forms), N_WORD_PROPERTIES), np.uint64)
        rows[:, :N_OF_FORM], index = form_properties(forms, self.familiar)
        lower = rows[:, COLUMN["L"]]
        # unfamiliar words are replaced by their ending and shape
        kind = rows[:, COLUMN["2"]] * np.uint64(7) + rows[:, COLUMN["H"]] * np.uint64(5)
        rows[:, COLUMN["W"]] = np.where(index >= 0, lower, kind | _UNFAMILIAR)
        if self.clusters is not None:
            clusters = self.clusters.of(rows[:, COLUMN["F"]], lower)
            rows[:, COLUMN["K"] : COLUMN["J"] + 1] = clusters
        return rows

    def _tag_columns(self, pairs: Sequence[tuple[str, str]]) -> Words:
        names = [upos if self._is_universal else xpos for upos, xpos in pairs]
        coarse = [self._coarse.get(name, _FIRST_COARSE + _N_COARSE) for name in names]
        hashes = ((hash_of(f"x{xpos}"), hash_of(f"u{upos}")) for upos, xpos in pairs)
        return np.array([(*two, one) for two, one in zip(hashes, coarse, strict=True)], np.uint64)

    def of_sentence(self, forms: Sequence[str]) -> Words:
        """Rows of one sentence without tags, shape [n + 4, N_WORD_PROPERTIES]."""
        return sentence_rows(self.of_forms(forms), np.array([0, len(forms)]))

    def of_sentences(
        self,
        names: Sequence[str],
        word: Int32Array,
        starts: IntArray,
        tags: IntArray | None = None,
    ) -> Words:
        """Rows of sentences whose words are given by numbers among `names`; see `sentence_rows`."""
        of_words = self.of_forms(names)[word]
        if tags is not None:
            self.put_tags(of_words, tags)
        return sentence_rows(of_words, starts)

    def put_tags(self, rows: Words, tags: npt.NDArray[Any]) -> None:
        """Write tags, by their numbers, into rows of words (rows of one sentence: `[2:-2]`)."""
        rows[:, COLUMN["X"] : COLUMN["C"] + 1] = self._of_tag[tags]

    def put_named_tags(self, rows: Words, upos: Sequence[str], xpos: Sequence[str]) -> None:
        """Write tags, by their names, into rows of words."""
        columns = self._tag_columns(list(zip(upos, xpos, strict=True)))
        rows[:, COLUMN["X"] : COLUMN["C"] + 1] = columns


def sentence_rows(of_words: Words, starts: npt.NDArray[np.int64]) -> Words:
    """Rows of sentences, with rows of the root and of positions outside.

    Parameters
    ----------
    of_words : [n_tokens, N_WORD_PROPERTIES]
    starts : [n_sentences + 1]
        First word of each sentence.
    """
    n_sentences = len(starts) - 1
    rows = np.full((len(of_words) + 4 * n_sentences, of_words.shape[1]), _OUTSIDE, np.uint64)
    first = starts[:-1] + 4 * np.arange(n_sentences)
    rows[first + 1] = _ROOT
    sentence = np.repeat(np.arange(n_sentences), np.diff(starts))
    rows[np.arange(len(of_words)) + 4 * sentence + 2] = of_words
    return rows


# -- parts and trees ------------------------------------------------------------------------------


class LearntTable(NamedTuple):
    """Weights of features that AdaGrad is learning."""

    features: FeatureTable  # with the weights, which steps change
    squares: npt.NDArray[np.float32]  # AdaGrad's sums of squared gradients
    rate: float  # learning rate


class PartFeatures(NamedTuple):
    """Hashed features of parts; see `sapwood.dependency.kernels.arc_features`."""

    places: npt.NDArray[np.uint32]
    n_features: Int32Array
    lengths: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, parts: Int32Array, rows: Words, table: FeatureTable) -> PartFeatures:
        """Features of the parts of a sentence."""
        from sapwood.dependency.kernels.arc_features import part_features

        atoms, bounds = table.templates
        return cls(
            *part_features(parts, rows, COLUMN["C"], _BETWEEN_COLUMNS, atoms, bounds, _mask(table))
        )

    def scores(self, weights: npt.NDArray[np.float32]) -> FloatArray:
        """Sum of the weights of each part's features."""
        from sapwood.dependency.kernels.arc_features import part_scores

        scores: FloatArray = part_scores(*self, weights)
        return scores

    def adagrad_step(self, residue: FloatArray, table: LearntTable) -> None:
        """Take one step of AdaGrad; the residue of a part is its gold less its expected count."""
        from sapwood.core.kernels.adagrad import adagrad_parts

        adagrad_parts(*self, residue, table.features.weights, table.squares, table.rate)


def _mask(table: FeatureTable) -> np.uint64:
    """The bits of a hash that are an index."""
    return np.uint64(len(table.weights) - table.spare - 1)


class ArcForest:
    """All projective trees over some arcs, with one word at the root.

    Parameters
    ----------
    n
        Number of words.
    head, modifier
        Of each arc; sorted. There must be a tree: the chain of arcs from each word to the next
        is one.
    order
        1 or 2.
    """

    def __init__(self, n: int, head: Int32Array, modifier: Int32Array, order: int = 1) -> None:
        from sapwood.dependency.kernels import arc_forest as kernel

        self.n, self.head, self.modifier, self.order = n, head, modifier, order
        if order == 1:
            made = kernel.first_order(n, head, modifier)
        else:
            *made, self._first_sibling = kernel.second_order(n, head, modifier)
        self.parts, self.starts, self.edges, self.arc_of = made

    def _edge_scores(self, scores: FloatArray) -> FloatArray:
        """Scores of parts as hyperedges have them: the score of an arc is in that of siblings."""
        if self.order == 1:
            return scores
        first, out = self._first_sibling, scores.copy()
        out[first[0] : first[-1]] += np.repeat(scores[: len(self.head)], np.diff(first))
        return out

    def posteriors(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Log of the sum over all trees, and posteriors of all parts, arcs first."""
        from sapwood.dependency.kernels.arc_forest import part_posteriors

        total, of_parts = part_posteriors(self.starts, self.edges, self._edge_scores(scores))
        if self.order > 1:
            first = self._first_sibling
            of_siblings = of_parts[first[0] : first[-1]]
            of_parts[: len(self.head)] = np.add.reduceat(of_siblings, first[:-1] - first[0])
        return float(total), of_parts

    def right(self, heads: Int32Array) -> FloatArray:
        """Which parts are in a tree, as 0 and 1; `heads` has one more number, for the root."""
        from sapwood.dependency.kernels.arc_forest import right_parts

        is_right: FloatArray = right_parts(self.parts, heads)
        return is_right

    def best(self, scores: FloatArray) -> Int32Array:
        """Heads of the best tree, shape [n + 1]; that of the root is 0."""
        from sapwood.dependency.kernels.arc_forest import best_arcs

        _, arcs = best_arcs(self.starts, self.edges, self.arc_of, self._edge_scores(scores))
        heads = np.zeros(self.n + 1, np.int32)
        heads[self.modifier[arcs]] = self.head[arcs]
        return heads

    def k_best(self, scores: FloatArray, k: int) -> tuple[FloatArray, Int32Array]:
        """Scores and heads, shape [n_trees, n + 1], of the k best trees or as many as there are."""
        from sapwood.dependency.kernels.arc_k_best import k_best_trees

        totals, arcs = k_best_trees(
            self.n, self.starts, self.edges, self.arc_of, self._edge_scores(scores), k
        )
        heads = np.zeros((len(totals), self.n + 1), np.int32)
        np.put_along_axis(heads, self.modifier[arcs], self.head[arcs], axis=1)
        return totals, heads


@dataclass(frozen=True)
class ScoredForest:
    """Arcs with mean posteriors; with a single scorer of trees also its forest and scores."""

    n: int
    head: Int32Array
    modifier: Int32Array
    posterior: FloatArray
    forest: ArcForest | None = None
    scores: FloatArray | None = None

    def best(self) -> Int32Array:
        """Heads of the tree with the most expected right arcs, shape [n + 1]."""
        return ArcForest(self.n, self.head, self.modifier).best(self.posterior)

    def k_best(self, k: int) -> tuple[FloatArray, Int32Array]:
        """Scores and heads of the best trees: log-probabilities, or expected right arcs."""
        if self.forest is None or self.scores is None:
            return ArcForest(self.n, self.head, self.modifier).k_best(self.posterior, k)
        scores, heads = self.forest.k_best(self.scores, k)
        return scores - self.forest.posteriors(self.scores)[0], heads

    def mix(self, posterior: npt.NDArray[Any], weight: float) -> ScoredForest:
        """The mean with other posteriors of the same arcs, which have a weight up to 1."""
        mean = (1 - weight) * self.posterior + weight * posterior
        return ScoredForest(self.n, self.head, self.modifier, mean)


def score_forest(
    n: int, arcs: Int32Array, rows: Words, order: int, table: FeatureTable
) -> tuple[ArcForest, FloatArray, FloatArray]:
    """The forest over some arcs, the scores of its parts, and the posterior of each arc."""
    forest = ArcForest(n, arcs[0], arcs[1], order)
    scores = PartFeatures.of(forest.parts, rows, table).scores(table.weights)
    return forest, scores, forest.posteriors(scores)[1][: arcs.shape[1]]


def score_likely(
    members: Sequence[ArcMember], rows: Words, of_heads: npt.NDArray[Any]
) -> ScoredForest:
    """Mean posteriors of the arcs that are likely by posteriors of heads, [n + 1, n]."""
    return score_members(members, rows, keep_likely(of_heads))


def score_members(members: Sequence[ArcMember], rows: Words, arcs: Int32Array) -> ScoredForest:
    """Mean posteriors of some arcs, by the weights of the members."""
    n = len(rows) - 4
    posterior = np.zeros(arcs.shape[1])
    for member in members:
        forest, scores, of_arcs = score_forest(n, arcs, rows, member.order, member.table)
        posterior += member.weight * of_arcs
    posterior /= sum(member.weight for member in members)
    only = (forest, scores) if len(members) == 1 else (None, None)
    return ScoredForest(n, arcs[0], arcs[1], posterior, *only)


def tree_step(
    order: int, rows: Words, gold: Int32Array, arcs: Int32Array, table: LearntTable
) -> float:
    """Step along the gradient of the log-likelihood of the gold tree, which is returned."""
    forest = ArcForest(len(gold) - 1, arcs[0], arcs[1], order)
    features = PartFeatures.of(forest.parts, rows, table.features)
    scores, right = features.scores(table.features.weights), forest.right(gold)
    total, expected = forest.posteriors(scores)
    features.adagrad_step(right - expected, table)
    return float(scores @ right - total)


# -- tags -----------------------------------------------------------------------------------------


class TagForest(NamedTuple):
    """The tags that the words of a sentence may have; see `tag_lattice` in `arc_features`."""

    starts: Int32Array
    edges: Int32Array
    tag: Int32Array
    features: PartFeatures

    def scores(
        self, weights: npt.NDArray[np.float32], log_factors: FloatArray | None = None
    ) -> FloatArray:
        """Scores of the parts, with logs of factors for the tags of each word."""
        scores = self.features.scores(weights)
        if log_factors is not None:
            scores[: len(log_factors)] += log_factors
        return scores


class Tagger(NamedTuple):
    """A chain CRF over the tags that a lexicon allows.

    Its methods take the rows of a sentence, and `types`, the row of each word in the lexicon;
    `log_factors`, [sum of the numbers of tags], are added to the scores of the words' tags.
    """

    lexicon: TagLexicon
    table: FeatureTable

    def forest(self, rows: Words, types: Int32Array) -> TagForest:
        """All sequences of tags of a sentence."""
        from sapwood.dependency.kernels.arc_features import tag_lattice

        base = PartFeatures.of(_single_words(len(types)), rows, self.table).places
        starts, edges, tag, places, n_features = tag_lattice(
            types, self.lexicon.starts, self.lexicon.candidates, rows, COLUMN["L"], base,
            _mask(self.table),
        )  # fmt: skip
        no_length = np.zeros(len(places), np.uint32)
        return TagForest(starts, edges, tag, PartFeatures(places, n_features, no_length))

    def best(
        self, rows: Words, types: Int32Array, log_factors: FloatArray | None = None
    ) -> Int32Array:
        """The best sequence of tags, shape [n]."""
        from sapwood.dependency.kernels.arc_forest import best_arcs

        forest = self.forest(rows, types)
        scores = forest.scores(self.table.weights, log_factors)
        _, backwards = best_arcs(forest.starts, forest.edges, forest.tag, scores)
        tags: Int32Array = np.ascontiguousarray(backwards[::-1])
        return tags

    def posteriors(
        self, rows: Words, types: Int32Array, n_tags: int, log_factors: FloatArray | None = None
    ) -> FloatArray:
        """Posteriors of the tags of each word, shape [n, n_tags]."""
        from sapwood.dependency.kernels.arc_forest import part_posteriors

        forest, starts = self.forest(rows, types), self.lexicon.starts
        sizes = starts[types + 1] - starts[types]
        scores = forest.scores(self.table.weights, log_factors)
        _, expected = part_posteriors(forest.starts, forest.edges, scores)
        tag = forest.tag[:-1]
        out = np.zeros((len(sizes), n_tags))
        out[np.repeat(np.arange(len(sizes)), sizes), tag] = expected[: len(tag)]
        return out


def tag_step(
    lexicon: TagLexicon, rows: Words, types: Int32Array, tags: IntArray, table: LearntTable
) -> float:
    """Step along the gradient of the log-likelihood of the gold tags, which is returned."""
    from sapwood.dependency.kernels.arc_forest import part_posteriors

    forest = Tagger(lexicon, table.features).forest(rows, types)
    sizes = lexicon.starts[types + 1] - lexicon.starts[types]  # numbers of tags of each word
    word = np.repeat(np.arange(len(tags)), sizes)
    node = np.flatnonzero(forest.tag[:-1] == tags[word])
    first = np.cumsum(sizes) - sizes
    before = np.concatenate([[0], (node - first)[:-1]])
    pair = len(forest.tag) - 1 + forest.starts[node] + before
    gold = np.concatenate([node, pair])
    scores = forest.scores(table.features.weights)
    total, expected = part_posteriors(forest.starts, forest.edges, scores)
    residue = -expected
    residue[gold] += 1.0
    forest.features.adagrad_step(residue, table)
    return float(scores[gold].sum() - total)


@lru_cache(maxsize=256)
def _single_words(n: int) -> Int32Array:
    """A part for each word, of the kind that looks at nothing else."""
    from sapwood.dependency.kernels.arc_forest import NONE

    parts = np.zeros((n, 4), np.int32)
    parts[:, 0], parts[:, 1] = NONE, np.arange(1, n + 1)
    return parts


# -- pruning --------------------------------------------------------------------------------------


def all_arcs(n: int) -> Int32Array:
    """A part for each arc of n words, by head, then by modifier."""
    return _cached_arcs(n) if n <= _MAX_CACHED_LENGTH else _cached_arcs.__wrapped__(n)


@lru_cache(maxsize=_MAX_CACHED_LENGTH)
def _cached_arcs(n: int) -> Int32Array:
    head, modifier = np.nonzero(~np.eye(n + 1, dtype=bool)[:, 1:])
    parts = np.full((len(head), 4), -1, np.int32)
    parts[:, 0], parts[:, 1], parts[:, 2] = 0, head, modifier + 1
    return parts


def head_posteriors(n: int, scores: FloatArray) -> FloatArray:
    """Softmax of the scores of the heads of each word, shape [n + 1, n]."""
    parts = all_arcs(n)
    out = np.full((n + 1, n), -np.inf)
    out[parts[:, 1], parts[:, 2] - 1] = scores
    out -= out.max(axis=0)
    np.exp(out, out=out)
    out /= out.sum(axis=0)
    return out


def head_step(rows: Words, gold: Int32Array, table: LearntTable) -> float:
    """Step along the gradient of the log-likelihood of gold heads, which is returned."""
    heads, word = gold[1:], np.arange(len(gold) - 1)
    parts = all_arcs(len(heads))
    features = PartFeatures.of(parts, rows, table.features)
    posterior = head_posteriors(len(heads), features.scores(table.features.weights))
    right = posterior[heads, word]
    posterior[heads, word] -= 1.0
    features.adagrad_step(-posterior[parts[:, 1], parts[:, 2] - 1], table)
    return float(np.log(np.maximum(right, 1e-300)).sum())


def likely_arcs(rows: Words, table: FeatureTable, *, right: Int32Array | None = None) -> Int32Array:
    """The arcs that the pruner keeps, shape [2, n_arcs]: heads, modifiers.

    The arcs from each word to the next are always kept, so that there is a tree.

    Parameters
    ----------
    right : [n + 1]
        Heads that are kept in any case.
    """
    return keep_likely(pruner_posteriors(rows, table), right=right)


def pruner_posteriors(rows: Words, table: FeatureTable) -> FloatArray:
    """Posteriors of the heads of each word by the pruner, shape [n + 1, n]."""
    n = len(rows) - 4
    scores = PartFeatures.of(all_arcs(n), rows, table).scores(table.weights)
    return head_posteriors(n, scores)


def keep_likely(posterior: npt.NDArray[Any], *, right: Int32Array | None = None) -> Int32Array:
    """The arcs to keep by the posteriors of heads, [n + 1, n]; see `likely_arcs`."""
    n = posterior.shape[1]
    times = max(n / LONG_SENTENCE, 1.0)
    keep = posterior >= MIN_HEAD_RATIO * times**2 * posterior.max(axis=0)
    most = max(int(MAX_HEADS / times), MIN_HEADS)
    if n >= most:
        keep &= posterior >= np.partition(posterior, -most, axis=0)[-most]
    word = np.arange(n)
    keep[word, word] = True
    if right is not None:
        keep[right[1:], word] = True
    head, modifier = np.nonzero(keep)
    return np.stack([head, modifier + 1]).astype(np.int32)


def keep_allowed(
    posterior: npt.NDArray[Any], allowed: npt.NDArray[np.bool_], tree: Int32Array
) -> tuple[Int32Array, npt.NDArray[np.bool_]]:
    """The arcs to keep where some are excluded, and which of these are allowed.

    Kept are the arcs that are likely among all of them, those that are likely among the allowed
    ones, and those of a tree of allowed arcs. Sums over the allowed ones and over all have the same
    trees, so that their ratio is a probability.
    """
    of_tree = np.zeros(allowed.shape, bool)
    of_tree[tree[1:], np.arange(allowed.shape[1])] = True
    keep = of_tree
    for among in (np.ones_like(allowed), allowed):
        head, modifier = keep_likely(np.where(among, posterior, 0.0))
        likely = np.zeros(allowed.shape, bool)
        likely[head, modifier - 1] = True
        keep = keep | (likely & among)
    head, modifier = np.nonzero(keep)
    return np.stack([head, modifier + 1]).astype(np.int32), allowed[head, modifier]


# -- relations ------------------------------------------------------------------------------------


def labelled_parts(heads: Int32Array) -> Int32Array:
    """A part for each arc of a tree, with the words around it in the tree.

    Examples
    --------
    >>> labelled_parts(np.array([0, 2, 0, 2], np.int32))[:, 1:].tolist()
    [[2, 1, 0, -1, 3, -1, -1, 1, 3], [0, 2, 0, -1, -1, 1, 3, 2, 2], [2, 3, 0, 1, -1, -1, -1, 1, 3]]
    """
    from sapwood.dependency.kernels.arc_forest import GRAND

    n = len(heads) - 1
    parts = np.full((n, 1 + N_LABEL_WORDS), -1, np.int32)
    word = np.arange(1, n + 1)
    parts[:, 0], parts[:, 1], parts[:, 2], parts[:, 3] = GRAND, heads[1:], word, heads[heads[1:]]
    order = np.argsort(heads[1:], kind="stable")  # words by head, in their order
    sisters = heads[1:][order[1:]] == heads[1:][order[:-1]]
    parts[order[1:][sisters], 4] = order[:-1][sisters] + 1
    parts[order[:-1][sisters], 5] = order[1:][sisters] + 1
    np.minimum.at(first := np.full(n + 1, n + 1), heads[1:], word)
    np.maximum.at(last := np.full(n + 1, -1), heads[1:], word)
    parts[:, 6] = np.where(first[1:] <= n, first[1:], -1)
    parts[:, 7] = last[1:]
    parts[:, 8], parts[:, 9] = first[heads[1:]], last[heads[1:]]
    return parts


def label_posteriors(
    heads: Int32Array, rows: Words, table: FeatureTable, n_labels: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]:
    """Posteriors of relations of each arc of a tree, shape [n, n_labels], and its features."""
    from sapwood.dependency.kernels.arc_features import relation_scores

    features = PartFeatures.of(labelled_parts(heads), rows, table).places
    scores: npt.NDArray[np.float32] = relation_scores(features, table.weights, n_labels)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores, features


def label_step(
    n_labels: int, rows: Words, heads: Int32Array, gold: Int32Array, table: LearntTable
) -> float:
    """Step along the gradient of the log-likelihood of gold relations, which is returned."""
    from sapwood.core.kernels.adagrad import adagrad_labels

    posterior, features = label_posteriors(heads, rows, table.features, n_labels)
    word = np.arange(len(gold))
    likelihood = np.log(np.maximum(posterior[word, gold], 1e-30)).sum()
    posterior[word, gold] -= 1.0
    adagrad_labels(features, -posterior, table.features.weights, table.squares, table.rate)
    return float(likelihood)
