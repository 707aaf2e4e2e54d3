"""Posteriors of labelled spans from a network, and the best tree over all trees of a sentence.

A tree's weight is the sum of the scores of its labelled spans. Binary trees stand for all trees: a
span that has no label only joins its neighbours, and scores 0 however they are joined. With a
network among the members no chart has pruned the trees, so that every tree over the words competes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.constraints import Constraints, has_labels
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.parse.decoders import BRACKET_COST, TAG_GAIN, Decoded
from sapwood.constituency.parse.posteriors import split_codes
from sapwood.core.arrays import FloatArray, IntArray, cell, ranges, starts_of
from sapwood.corpora.tree import ROOT, Tree, escape
from sapwood.networks.network import Real, SentenceEncoder
from sapwood.networks.scores import fenceposts, sentence_span_scores

if TYPE_CHECKING:
    from sapwood.constituency.parse.posteriors import BracketPosteriors

LEAST_SPAN_POSTERIOR = 1e-3  # smaller posteriors are left out: their sums change no tree


BATCH_WORDS = 400  # words that a network reads at a time: about 8 MB of activations
EXCLUDED = -1e4  # score of a label or span that constraints exclude: its exponential is 0


def span_posteriors(
    scores: Real, lengths: Sequence[int], is_bare: npt.NDArray[np.bool_] | None = None
) -> tuple[float, Real]:
    """Log of the sum over all trees of sentences, and posteriors of labels, [n_spans, n_labels].

    Scores [n_spans, n_labels] are those of the spans of one sentence after the other.
    `is_bare` tells which spans may have no label; all where it is None.
    """
    from sapwood.constituency.parse.kernels.span_trees import span_marginals
    from sapwood.networks.kernels.span_layer import row_maxima

    top = row_maxima(scores)
    top = np.maximum(top, 0 if is_bare is None else np.where(is_bare, 0, top))
    posterior = scores - top[:, None]
    np.exp(posterior, out=posterior)
    # a product is quicker than a sum of short rows; a span without a label has score 0
    bare = np.exp(-np.maximum(top, 0))
    bare = bare if is_bare is None else bare * is_bare
    total = posterior @ np.ones(posterior.shape[1], posterior.dtype) + bare
    weight = (np.log(total) + top).astype(np.float64)
    log_total, first = 0.0, 0
    for n in lengths:
        spans = slice(first, first + n * (n + 1) // 2)
        log_sum, weight[spans] = span_marginals(weight[spans], n)
        log_total, first = log_total + log_sum, spans.stop
    posterior *= (weight / total).astype(posterior.dtype)[:, None]
    return log_total, posterior


class NetworkReader:
    """A `BracketReader`: posteriors of a network as codes of brackets."""

    def __init__(self, model: SpanNetwork, numbers: Mapping[str, int]) -> None:
        self._model = model
        self._weights = model.network.weights
        self._encoder = SentenceEncoder(model.network)
        self._starts = starts_of([len(chain) for chain in model.labels])
        labels = (2 * numbers[name] for chain in model.labels for name in chain)
        self._labels = np.fromiter(labels, np.int64)
        self._tags = np.array([2 * numbers[name] + 1 for name in model.tags], np.int64)

    def read(
        self, words: list[str], constraints: Constraints | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Codes of brackets and tags, see `posteriors`, and their posteriors."""
        return self.read_many([(words, constraints)])[0]

    def read_many(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> list[tuple[IntArray, FloatArray]]:
        """What `read` returns for each sentence; sentences of like length are encoded together."""
        order = sorted(range(len(sentences)), key=lambda k: -len(sentences[k][0]))
        found: dict[int, tuple[IntArray, FloatArray]] = {}
        for batch in _cut(order, [len(sentences[k][0]) for k in order]):
            for k, (_, posterior, tags) in zip(
                batch, self._posteriors([sentences[k] for k in batch]), strict=True
            ):
                found[k] = self._codes(posterior, tags)
        return [found[k] for k in range(len(sentences))]

    def _codes(self, posterior: Real, tags: Real) -> tuple[IntArray, FloatArray]:
        """Codes and posteriors of a sentence from those of labels over spans, and of its tags."""
        n = len(tags)
        # half the time of np.nonzero of a matrix
        kept = np.flatnonzero(posterior >= LEAST_SPAN_POSTERIOR)
        span, chain = np.divmod(kept, posterior.shape[1])
        word, tag = np.nonzero(tags >= LEAST_SPAN_POSTERIOR)
        # a span has all labels of its chain
        first, end = self._starts[chain], self._starts[chain + 1]
        row = np.repeat(np.arange(len(first)), end - first)
        label = np.concatenate([self._labels[ranges(first, end)], self._tags[tag]])
        first_cells = starts_of(np.arange(n, 0, -1))  # of the spans that start at each word
        start = np.searchsorted(first_cells, span, side="right") - 1
        i = np.concatenate([start[row], word])
        j = np.concatenate([(start + span - first_cells[start])[row], word]) + 1
        p = np.concatenate([posterior[span, chain][row], tags[word, tag]]).astype(float)
        code, place = np.unique((label * (n + 1) + i) * (n + 1) + j, return_inverse=True)
        return code, np.minimum(np.bincount(place, p, len(code)), 1.0)

    def _posteriors(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> Iterator[tuple[float, Real, Real]]:
        """Log of the sum over trees, posteriors of labels over spans, and those of tags.

        Sentences stand longest first.
        """
        encoding, packing, starts = self._encoder.encode(
            [[escape(word) for word in words] for words, _ in sentences],
            has_end=True,
            tag_factors=[None if one is None else self._tag_factors(one) for _, one in sentences],
        )
        posts = fenceposts(self._weights, encoding.states, packing, starts)
        scored = sentence_span_scores(self._weights, posts)
        for k, ((words, constraints), scores) in enumerate(zip(sentences, scored, strict=True)):
            tags = encoding.tags[packing.row[starts[k] + 1 : starts[k + 1] - 1]]
            yield *self._span_posteriors(scores, len(words), constraints), tags

    def _span_posteriors(
        self, scores: Real, n: int, constraints: Constraints | None
    ) -> tuple[float, Real]:
        """Log of the sum over the trees that constraints allow, and posteriors of labels."""
        if constraints is None or not (constraints.required or constraints.forbidden):
            return span_posteriors(scores, [n])
        of_cell, allowed = constraints.cell_classes([*self._model.labels, None])
        is_allowed = allowed[of_cell]
        scores = np.where(is_allowed[:, :-1], scores, scores.dtype.type(EXCLUDED))
        log_sum, posterior = span_posteriors(scores, [n], is_allowed[:, -1])
        return log_sum, posterior * is_allowed[:, :-1]

    def log_ratio(self, words: list[str], constraints: Constraints) -> float:
        """Log-probability that the tree of a sentence satisfies constraints; -inf for never."""
        ((free, _, of_words),) = self._posteriors([(words, None)])
        log_tags = 0.0
        for place, tags in enumerate(constraints.tags):
            if tags is not None:
                p = of_words[place]
                mass = sum(float(p[self._number_of[x]]) * q for x, q in tags.items()
                           if x in self._number_of)  # fmt: skip
                log_tags += float(np.log(mass)) if mass > 0.0 else -np.inf
        if not (constraints.required or constraints.forbidden):
            return log_tags
        if any(tags is not None for tags in constraints.tags):  # scores of spans depend on them
            ((free, _, _),) = self._posteriors([(words, constraints.tags_alone())])
        ((log_sum, _, _),) = self._posteriors([(words, constraints)])
        return min(0.0, log_sum - free if log_sum - free > EXCLUDED / 2 else -np.inf) + log_tags

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {tag: number for number, tag in enumerate(self._model.tags)}

    def _tag_factors(self, constraints: Constraints) -> Real | None:
        """What the probabilities of tags are multiplied by, root and end of sentence included."""
        if all(tags is None for tags in constraints.tags):
            return None
        factors = np.ones((constraints.n + 2, len(self._number_of)), np.float32)
        for place, tags in enumerate(constraints.tags):
            known = {} if tags is None else {x: q for x, q in tags.items() if x in self._number_of}
            if known:
                factors[place + 1] = 0.0
                factors[place + 1, [self._number_of[x] for x in known]] = list(known.values())
        return factors

    def megabytes(self, n: int) -> float:
        """Memory that a sentence of n words needs, in millions of bytes."""
        n_labels, hidden = self._weights["label.W"].T.shape
        return float(n * (n + 1) / 2 * 4 * (2 * hidden + 3 * n_labels) / 1e6)


def _cut(order: list[int], lengths: list[int]) -> Iterator[list[int]]:
    """Group sentences, longest first, into batches with a limited number of words.

    Examples
    --------
    >>> list(_cut([2, 0, 1], [300, 90, 20]))
    [[2, 0], [1]]
    """
    first, n_words = 0, 0
    for place, n in enumerate(lengths):
        if n_words and n_words + n > BATCH_WORDS:
            yield order[first:place]
            first, n_words = place, 0
        n_words += n
    if order:
        yield order[first:]


def unconstrained_tree(
    brackets: BracketPosteriors,
    words: Sequence[str],
    names: Sequence[str],
    chains: Mapping[frozenset[str], tuple[str, ...]],
    constraints: Constraints | None = None,
) -> tuple[Tree, Decoded]:
    """The tree of highest expected F1 among all trees over the words, and its score.

    Labels over the same words stand in the order of `chains`, outermost first, by their set; sets
    that are not in there stand in the order of their posteriors.
    """
    from sapwood.constituency.parse.kernels.span_trees import best_spans

    n = len(words)
    label, start, end, is_tag = split_codes(brackets.code, n)
    tags, score = _likeliest_tags(brackets.p, label, start, is_tag, n)
    is_used = ~is_tag & (brackets.p > BRACKET_COST)
    whole = np.flatnonzero(~is_tag & (end - start == n))
    if n > 1 and len(whole) and not is_used[whole].any():
        is_used[whole[brackets.p[whole].argmax()]] = True  # a sentence has a label
    used = np.flatnonzero(is_used)
    used = used[np.argsort(-brackets.p[used], kind="stable")]
    where = cell(start[used], end[used], n)
    gain = np.bincount(where, brackets.p[used] - BRACKET_COST, n * (n + 1) // 2).astype(float)
    labels_of: dict[int, list[str]] = {}
    for place, name in zip(where.tolist(), label[used].tolist(), strict=True):
        labels_of.setdefault(place, []).append(names[name])
    required = {} if constraints is None else constraints.required_labels()
    if constraints is not None:
        score -= _require(constraints, brackets, names, gain, labels_of)
        tags = _constrained_tags(tags, names, constraints)
    done: dict[tuple[int, int], tuple[Tree, ...]] = {}
    for i, j, k in best_spans(gain, n)[::-1].tolist():  # children before parents
        if k:
            kids = done.pop((i, k)) + done.pop((k, j))
        else:
            kids = (Tree._trusted(names[tags[i]], (words[i],)),)
        place = cell(i, j, n)
        found = labels_of.get(place, [])
        score += gain[place]
        ordered = chains.get(frozenset(found), tuple(found))
        if required and not has_labels(ordered, required.get((i, j), ())):
            first = required[i, j]
            ordered = (*first, *(name for name in ordered if name not in first))
        for name in reversed(ordered):
            kids = (Tree._trusted(name, kids),)
        done[i, j] = kids
    kids = done[0, n]
    tree = kids[0] if kids[0].label == ROOT else Tree._trusted(ROOT, kids)
    return tree, Decoded(float(score), [])


def _require(
    constraints: Constraints,
    brackets: BracketPosteriors,
    names: Sequence[str],
    gain: FloatArray,
    labels_of: dict[int, list[str]],
) -> float:
    """Add gains for the required phrases that no tree without them can reach; their sum.

    A phrase without a label gets the most probable one.
    """
    n = constraints.n
    label, start, end, is_tag = split_codes(brackets.code, n)
    for i, j, labels in constraints.required:
        found = labels_of.setdefault(int(cell(i, j, n)), [])
        found += [name for name in labels if name not in found]
        if not found:
            here = np.flatnonzero((start == i) & (end == j) & ~is_tag)
            here = here[np.argsort(-brackets.p[here], kind="stable")]
            best = (*(names[k] for k in label[here].tolist()), *names)
            allowed = (x for x in best if x != ROOT and constraints.allows(i, j, (x,)))
            found.append(next(allowed))
        gain[cell(i, j, n)] += n + 1.0
    return (n + 1.0) * len(constraints.required)


def _constrained_tags(tags: list[int], names: Sequence[str], constraints: Constraints) -> list[int]:
    """The tags of the words, where those that constraints exclude are the likeliest allowed."""
    numbers = {name: number for number, name in enumerate(names)}
    return [
        tag if given is None or given.get(names[tag], 0.0) > 0.0
        else numbers[max(given, key=lambda name: given[name])]
        for tag, given in zip(tags, constraints.tags, strict=True)
    ]  # fmt: skip


def _likeliest_tags(
    p: FloatArray, label: IntArray, start: IntArray, is_tag: npt.NDArray[np.bool_], n: int
) -> tuple[list[int], float]:
    """The likeliest tag of each word (label 0 for a word without any), and their score."""
    order = np.flatnonzero(is_tag)
    order = order[np.argsort(p[order], kind="stable")]
    tags, best = np.zeros(n, np.int64), np.zeros(n)
    tags[start[order]], best[start[order]] = label[order], p[order]  # the last of several stays
    return tags.tolist(), TAG_GAIN * float(best.sum())
