"""Scores computed from the states of words: labels of spans, heads and relations of words.

Spans (Stern, Andreas and Klein 2017): between two words lies a fencepost, whose vector is made of
the states that were read up to it from the start and from the end of the sentence. A span has the
difference of the vectors of its ends. One hidden layer with layer normalisation and a matrix turn
it into scores of labels; no label at all scores 0. The notation is that of
`sapwood.networks.kernels.span_layer`.

Arcs (Dozat and Manning 2017): each word has four vectors, made of its state: as a head and as a
modifier, for arcs and for relations. An arc's score is bilinear in two of them, a relation's in the
other two.

Each backward pass follows its forward pass: it writes the gradient of the weights into
G and returns that of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import BoolArray, FloatArray, IntArray, ranges
from sapwood.networks.network import (
    Dropout,
    EncoderSizes,
    Mask,
    Network,
    Packing,
    Parameters,
    Real,
    SentenceEncoder,
    glorot_uniform,
)
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.training import (
    Batch,
    NetworkPlan,
    NetworkTrainer,
    PartGradient,
    cross_entropy,
)

INITIAL_LABEL_SCORE = -3.0  # most spans have no label
NEGLIGIBLE_GRADIENT = 1e-4  # of the largest: scores below it are left out of the backward pass
LEAK = 0.1  # slope of the leaky ReLU for negative numbers
_GAIN, _OFFSET = "span.gain", "span.offset"  # weights of the layer normalisation


def centre(array: Real) -> Real:
    """Subtract from each row its mean: the first half of layer normalisation.

    >>> centre(np.array([[1.0, 3.0], [5.0, 5.0]]))
    array([[-1.,  1.],
           [ 0.,  0.]])
    """
    centred: Real = array - array.mean(axis=-1, keepdims=True)
    return centred


class SpanSizes(NamedTuple):
    """Size of the hidden layer of spans, and whether it has layer normalisation.

    Networks of version 0.2.0 have none: they are used as they are, but no longer trained.
    """

    hidden: int = 250
    is_normalised: bool = True

    def shapes(self, n_states: int, n_labels: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of spans and labels."""
        factors = (_GAIN, _OFFSET) if self.is_normalised else ()
        return {
            "span.W": (n_states, self.hidden), "span.b": (self.hidden,),
            **dict.fromkeys(factors, (self.hidden,)),
            "label.W": (self.hidden, n_labels), "label.b": (n_labels,),
        }  # fmt: skip


def init_spans(P: Parameters, rng: np.random.Generator) -> None:
    """Random initial weights; gains start at 1, and labels start improbable."""
    for name in ("span.W", "label.W"):
        glorot_uniform(P[name], rng)
    P[_GAIN][:] = 1
    P["label.b"][:] = INITIAL_LABEL_SCORE


class Fenceposts(NamedTuple):
    """Vectors between the words of a batch of sentences, with the trace for the backward pass.

    Spans are given by their starts and ends among all fenceposts, and by their sentences; those of
    a sentence are numbered as `sapwood.core.arrays.cell` does.
    """

    before: IntArray  # row of the batch whose state ends at a fencepost, read from the start
    behind: IntArray  # likewise, read from the end
    spans: tuple[IntArray, IntArray, IntArray]
    states: Real
    masks: tuple[Mask, Mask]
    # A [n_fenceposts, hidden], b [hidden], g and o [n_sentences, hidden]
    layer: tuple[Real, Real, Real, Real]


def fenceposts(
    P: Parameters, states: Real, packing: Packing, starts: IntArray, dropout: Dropout | None = None
) -> Fenceposts:
    """Vectors between the words of sentences with marks at both ends, which start at `starts`."""
    from sapwood.networks.kernels.lstm import row_products

    words = np.delete(np.arange(starts[-1]), starts[1:] - 1)  # all but the marks of ends
    before, behind = packing.row[words], packing.row[words + 1]
    half, sizes = states.shape[1] // 2, np.diff(starts) - 1
    sentence = np.repeat(np.arange(len(sizes)), sizes)
    gain, offset = (np.tile(P.get(name, 1.0), (len(sizes), 1)) for name in (_GAIN, _OFFSET))
    masks: tuple[Mask, Mask] = (1.0, 1.0)
    if dropout is not None:
        by_sentence = dropout.sentence_mask(gain.shape[1])[packing.row[starts[:-1]]]
        masks = dropout.sentence_mask(states.shape[1])[before], by_sentence
        gain *= by_sentence  # dropout before a ReLU, whose mask is not negative, is that behind it
        offset *= by_sentence
    ends = np.concatenate([states[before, :half], states[behind, half:]], axis=1) * masks[0]
    layer = centre(row_products(ends, P["span.W"])), centre(P["span.b"]), gain, offset
    return Fenceposts(before, behind, _spans_of(sentence, sizes), ends, masks, layer)


def _spans_of(sentence: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Starts, ends and sentences of spans, given the sentences of all fenceposts.

    >>> _spans_of(np.array([0, 0, 1, 1, 1]), np.array([2, 3]))
    (array([0, 2, 2, 3]), array([1, 3, 4, 4]), array([0, 1, 1, 1]))
    """
    post, end = np.arange(len(sentence)), np.repeat(np.cumsum(sizes), sizes)
    n_from = end - post - 1
    return np.repeat(post, n_from), ranges(post + 1, end), np.repeat(sentence, n_from)


def span_scores(P: Parameters, posts: Fenceposts) -> Real:
    """Scores of labels of all spans, [n_spans, n_labels]."""
    from sapwood.networks.kernels.span_layer import span_label_scores

    W, b = P["label.W"], P["label.b"]
    if _GAIN not in P:  # a network of version 0.2.0
        start, end, _ = posts.spans
        vectors = posts.states @ P["span.W"]
        hidden: Real = np.maximum(vectors[end] - vectors[start] + P["span.b"], 0)
        unnormalised: Real = hidden @ W + b
        return unnormalised
    scores = np.empty((len(posts.spans[0]), len(b)), W.dtype)
    span_label_scores(*posts.layer, *posts.spans, W, b, scores)
    return scores


def score_words_and_spans(
    encoder: SentenceEncoder,
    sentences: Sequence[Sequence[str]],
    tag_factors: Sequence[Real | None],
) -> Iterator[tuple[Real, Real]]:
    """For each sentence, scores of labels of its spans, and posteriors of the tags of its words.

    Sentences and factors are those of `SentenceEncoder.encode`.
    """
    P = encoder.network.weights
    encoding, packing, starts = encoder.encode(sentences, has_end=True, tag_factors=tag_factors)
    posts = fenceposts(P, encoding.states, packing, starts)
    for k, scores in enumerate(sentence_span_scores(P, posts)):
        yield scores, encoding.tags[packing.row[starts[k] + 1 : starts[k + 1] - 1]]


def sentence_span_scores(P: Parameters, posts: Fenceposts) -> Iterator[Real]:
    """Scores of labels of the spans of each sentence; they do not depend on the batch."""
    start, end, sentence = posts.spans
    A, b, gain, offset = posts.layer
    bounds = np.searchsorted(sentence, np.arange(len(gain) + 1))
    for k, (first, stop) in enumerate(pairwise(bounds.tolist())):
        low, high = start[first], end[stop - 1] + 1  # its fenceposts
        spans = start[first:stop] - low, end[first:stop] - low, np.zeros(stop - first, np.int64)
        layer = A[low:high], b, gain[k : k + 1], offset[k : k + 1]
        yield span_scores(
            P, posts._replace(spans=spans, layer=layer, states=posts.states[low:high])
        )


def spans_backward(
    P: Parameters, G: Parameters, posts: Fenceposts, packing: Packing, d_scores: Real
) -> Real:
    """Write the gradient of the spans' weights into G; return that of the states.

    Nearly all spans of a sentence have negligible posteriors and gradients: they are left out.
    """
    from sapwood.networks.kernels.span_layer import row_maxima, span_layer, span_layer_backward

    largest = row_maxima(np.abs(d_scores))
    kept = np.flatnonzero(largest >= NEGLIGIBLE_GRADIENT * largest.max())
    d, spans = d_scores[kept], [part[kept] for part in posts.spans]
    z = np.empty((len(d), posts.layer[0].shape[1]), d.dtype)
    c, hidden = np.empty(len(d), d.dtype), np.empty_like(z)
    span_layer(*posts.layer, *spans, z, c, hidden)
    np.matmul(hidden.T, d, out=G["label.W"])
    np.sum(d, axis=0, out=G["label.b"])
    gradients = [np.zeros_like(part) for part in posts.layer]
    span_layer_backward(d @ P["label.W"].T, hidden, z, c, posts.layer[2], *spans, *gradients)
    d_vectors, d_bias, d_gain, d_offset = gradients
    np.sum(d_gain * posts.masks[1], axis=0, out=G[_GAIN])
    np.sum(d_offset * posts.masks[1], axis=0, out=G[_OFFSET])
    G["span.b"][:] = centre(d_bias)
    d_vectors = centre(d_vectors)
    np.matmul(posts.states.T, d_vectors, out=G["span.W"])
    d_ends = d_vectors @ P["span.W"].T * posts.masks[0]
    half = d_ends.shape[1] // 2
    d_states = np.zeros((len(packing.row), 2 * half), d_ends.dtype)
    d_states[posts.before, :half] = d_ends[:, :half]
    d_states[posts.behind, half:] = d_ends[:, half:]
    return d_states


class ArcSizes(NamedTuple):
    """Sizes of the vectors of words for arcs, and for relations."""

    arc: int = 200
    relation: int = 100

    def shapes(self, n_states: int, n_relations: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of arcs and relations."""
        a, r = self
        return {
            "vectors.W": (n_states, 2 * (a + r)), "vectors.b": (2 * (a + r),),
            "arc.U": (a + 1, a), "relation.U": (r + 1, n_relations * (r + 1)),
        }  # fmt: skip


def init_arcs(P: Parameters, rng: np.random.Generator) -> None:
    """Random initial weights; those of relations start at 0."""
    for name in ("vectors.W", "arc.U"):
        glorot_uniform(P[name], rng)


class ArcVectors(NamedTuple):
    """The vectors of the words of a batch, sentence after sentence, and their layer's trace."""

    states: Real
    inputs: Real  # of the leaky ReLU, by rows of the batch, [n, 2 * (arc + relation)]
    masks: tuple[Mask, Mask]
    head: Real
    modifier: Real  # this and the next two end in a 1
    relation_head: Real
    relation_modifier: Real


def arc_vectors(
    P: Parameters, states: Real, packing: Packing, dropout: Dropout | None = None
) -> ArcVectors:
    """Vectors of words as heads and as modifiers: one layer with a leaky ReLU."""
    masks: tuple[Mask, Mask] = (1.0, 1.0)
    if dropout is not None:
        masks = dropout.sentence_mask(states.shape[1]), dropout.sentence_mask(len(P["vectors.b"]))
    states = states * masks[0]
    inputs = states @ P["vectors.W"] + P["vectors.b"]
    vectors = (np.where(inputs > 0, inputs, LEAK * inputs) * masks[1])[packing.row]
    a, r = P["arc.U"].shape[1], len(P["relation.U"]) - 1
    head, *others = np.split(vectors, [a, 2 * a, 2 * a + r], axis=1)
    ones = np.ones_like(head[:, :1])
    with_ones = (np.concatenate([part, ones], axis=1) for part in others)
    return ArcVectors(states, inputs, masks, head, *with_ones)


def arc_vectors_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, packing: Packing, d_vectors: Sequence[Real]
) -> Real:
    """Write the gradient of the layer's weights into G; return that of the states.

    `d_vectors` are the gradients of the four vectors of a word, with their constant ones.
    """
    parts = [d_vectors[0], *(part[:, :-1] for part in d_vectors[1:])]
    d_inputs = np.empty_like(vectors.inputs)
    d_inputs[packing.row] = np.concatenate(parts, axis=1)
    d_inputs *= vectors.masks[1]
    d_inputs *= np.where(vectors.inputs > 0, 1.0, LEAK).astype(d_inputs.dtype)
    np.matmul(vectors.states.T, d_inputs, out=G["vectors.W"])
    np.sum(d_inputs, axis=0, out=G["vectors.b"])
    d_states: Real = d_inputs @ P["vectors.W"].T * vectors.masks[0]
    return d_states


def softmax(scores: Real) -> Real:
    """Softmax of each row of scores."""
    p: Real = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def biaffine_heads(P: Parameters, vectors: ArcVectors, starts: Sequence[int]) -> list[Real]:
    """For each sentence, the posteriors of the heads of its words, [n, n + 1], the root first."""
    left = vectors.modifier @ P["arc.U"]
    posteriors = []
    for start, end in pairwise(starts):
        scores = left[start + 1 : end] @ vectors.head[start:end].T
        word = np.arange(end - start - 1)
        scores[word, word + 1] = -np.inf  # no word is its own head
        posteriors.append(softmax(scores))
    return posteriors


def biaffine_heads_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, starts: Sequence[int], d_scores: list[Real]
) -> tuple[Real, Real]:
    """Write the gradient of the arcs' weights into G; return those of heads and modifiers."""
    left = vectors.modifier @ P["arc.U"]
    d_left, d_head = np.zeros_like(left), np.empty_like(vectors.head)
    for start, end, d in zip(starts[:-1], starts[1:], d_scores, strict=True):
        d_left[start + 1 : end] = d @ vectors.head[start:end]
        d_head[start:end] = d.T @ left[start + 1 : end]
    np.matmul(vectors.modifier.T, d_left, out=G["arc.U"])
    return d_head, d_left @ P["arc.U"].T


class RelationTrace(NamedTuple):
    """Posteriors of the relations of some arcs, given by the indices of their words in a batch."""

    heads: IntArray
    modifiers: IntArray  # each word once
    posteriors: Real  # [n_arcs, n_relations]


def biaffine_relations(
    P: Parameters, vectors: ArcVectors, heads: IntArray, modifiers: IntArray
) -> RelationTrace:
    """Posteriors of the relations of arcs, whose words are given by their indices in the batch."""
    right, U = vectors.relation_head[heads], P["relation.U"]
    left = (vectors.relation_modifier[modifiers] @ U).reshape(len(heads), -1, len(U))
    return RelationTrace(heads, modifiers, softmax((left @ right[:, :, None])[:, :, 0]))


def biaffine_relations_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, trace: RelationTrace, d_scores: Real
) -> tuple[Real, Real]:
    """Write the gradient of the relations' weights into G; return those of heads and modifiers.

    Most relations of most arcs have negligible posteriors and gradients: they are left out.
    """
    right, left = vectors.relation_head[trace.heads], vectors.relation_modifier[trace.modifiers]
    size = np.abs(d_scores)
    is_kept = size >= NEGLIGIBLE_GRADIENT * size.max(initial=0.0)
    relation, arc = np.nonzero(is_kept.T)
    bounds = np.searchsorted(relation, np.arange(d_scores.shape[1] + 1)).tolist()
    U, G_U = (table["relation.U"].reshape(len(right.T), -1, len(right.T)) for table in (P, G))
    d_right, d_left = np.zeros((2, *right.shape), right.dtype)
    for k, (first, end) in enumerate(pairwise(bounds)):
        those = arc[first:end]
        weighted = left[those] * d_scores[those, k, None]
        G_U[:, k] = weighted.T @ right[those]
        d_right[those] += weighted @ U[:, k]
        d_left[those] += d_scores[those, k, None] * (right[those] @ U[:, k].T)
    d_head, d_modifier = np.zeros((2, *vectors.relation_head.shape), right.dtype)
    d_modifier[trace.modifiers] = d_left
    np.add.at(d_head, trace.heads, d_right)
    return d_head, d_modifier


class ReadSentence:
    """Posteriors of tags, heads and relations of one sentence: means over some networks.

    Parameters
    ----------
    parts
        The weights of each network, and its vectors of the words.
    tags
        Posteriors of tags by each network.

    Attributes
    ----------
    tags : [n, n_tags]
        Posteriors of tags.
    heads : [n, n + 1]
        Posteriors of the heads of each word, the root first.
    """

    def __init__(self, parts: Sequence[tuple[Parameters, ArcVectors]], tags: list[Real]) -> None:
        self.tags = mean_of(tags)
        ends = [0, len(self.tags) + 1]
        self.heads = mean_of([biaffine_heads(P, vectors, ends)[0] for P, vectors in parts])
        # a parse is sent between processes and needs the vectors of relations only
        none = np.empty((0, 0), np.float32)
        self._parts = [
            (
                P,
                vectors._replace(
                    states=none, inputs=none, masks=(1.0, 1.0), head=none, modifier=none
                ),
            )
            for P, vectors in parts
        ]

    def allowed_heads(self, allowed: BoolArray) -> Real:
        """Posteriors of heads where only some are allowed, [n + 1, n]."""
        heads = np.maximum(self.heads, np.finfo(self.heads.dtype).tiny) * allowed.T
        return np.asarray(heads / heads.sum(axis=1, keepdims=True))

    def relations(self, heads: IntArray) -> Real:
        """Posteriors of relations of each word to its head, shape [n, n_relations]."""
        words = np.arange(1, len(heads) + 1)
        return mean_of(
            [biaffine_relations(P, vectors, heads, words).posteriors for P, vectors in self._parts]
        )


def mean_of(arrays: Sequence[Real]) -> Real:
    """The mean of arrays of one shape; a single array is its own mean.

    >>> mean_of([np.array([0.0, 1.0]), np.array([1.0, 1.0])])
    array([0.5, 1. ])
    """
    total: Real = sum(arrays[1:], start=arrays[0])
    return total if len(arrays) == 1 else total / total.dtype.type(len(arrays))


class ArcEncoder:
    """Reads sentences, one by one, with one or several networks of arcs."""

    def __init__(self, *networks: Network) -> None:
        self._encoders = [SentenceEncoder(network) for network in networks]

    def read(self, sentence: Sequence[str], tag_factors: FloatArray | None = None) -> ReadSentence:
        """Posteriors for one sentence; the factors, [n, n_tags], are of the tags of its words."""
        factors = None
        if tag_factors is not None:
            of_root = np.ones((1, tag_factors.shape[1]))
            factors = np.concatenate([of_root, tag_factors]).astype(np.float32)
        parts, tags = list[tuple[Parameters, ArcVectors]](), list[Real]()
        for encoder in self._encoders:
            P = encoder.network.weights
            encoding, packing, _ = encoder.encode([sentence], tag_factors=[factors])
            parts.append((P, arc_vectors(P, encoding.states, packing)))
            tags.append(encoding.tags[1:])
        return ReadSentence(parts, tags)


def arc_loss(
    P: Parameters,
    batch: Batch,
    gold: tuple[IntArray, IntArray],
    n_words: int,
    side_loss: float,
) -> tuple[float, Real]:
    """Loss of the gold heads and relations of a batch, and its gradient with respect to the states.

    The gradient of the weights is written into that of the batch. `gold` are the heads, 0 for the
    root, and the relations of the words, sentence after sentence; `n_words` counts the whole batch,
    of which this may be a part; `side_loss` is the weight of the loss of relations.
    """
    heads, relations = gold
    starts, G, packing = batch.starts, batch.G, batch.packing
    vectors = arc_vectors(P, batch.encoding.states, packing, batch.dropout)
    lengths = np.diff(starts) - 1
    gold_heads, loss, d_scores = np.split(heads, np.cumsum(lengths)[:-1]), 0.0, []
    found = biaffine_heads(P, vectors, starts.tolist())
    for posteriors, of_words in zip(found, gold_heads, strict=True):
        of_sentence, d = cross_entropy(posteriors, of_words, 1 / n_words)
        loss += of_sentence
        d_scores.append(d)
    modifiers = np.delete(np.arange(starts[-1]), starts[:-1])  # all words but the roots
    trace = biaffine_relations(P, vectors, heads + np.repeat(starts[:-1], lengths), modifiers)
    of_relations, d_relations = cross_entropy(trace.posteriors, relations, side_loss / n_words)
    loss += side_loss * of_relations
    d_vectors = [
        *biaffine_heads_backward(P, G, vectors, starts.tolist(), d_scores),
        *biaffine_relations_backward(P, G, vectors, trace, d_relations),
    ]
    return loss, arc_vectors_backward(P, G, vectors, packing, d_vectors)


class ArcNetworkTrainer(NetworkTrainer):
    """Sentences with the heads, tags and relations of their words, and a network to learn them.

    Parameters
    ----------
    heads : [n]
        Head of each word in its sentence; 0 for the root.
    tags, relations
        Their number, and that of each word, [n].
    given
        Vectors of the words from elsewhere.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        heads: npt.NDArray[Any],
        tags: tuple[int, IntArray],
        relations: tuple[int, IntArray],
        plan: NetworkPlan,
        sizes: tuple[EncoderSizes, ArcSizes],
        given: TrainingVectors | None = None,
    ) -> None:
        encoder, arcs = sizes
        shapes = encoder.shapes(tags[0]) | arcs.shapes(2 * encoder.state, relations[0])
        super().__init__(sentences, encoder, shapes, init_arcs, plan, given=given)
        # one row per word, and one per root, which is never read
        self.head, self.tag, self.relation = np.zeros((3, len(self.is_word)), np.int64)
        self.head[self.is_word] = heads
        self.tag[self.is_word], self.relation[self.is_word] = tags[1], relations[1]

    def gradient(self, sentences: IntArray, rng: np.random.Generator, n_words: int) -> PartGradient:
        """Loss and gradient of some sentences, longest first."""
        batch = self.encode(sentences, rng)
        row = batch.rows[self.is_word[batch.rows]]
        gold = self.head[row], self.relation[row]
        loss, d_states = arc_loss(self.P, batch, gold, n_words, self.plan.side_loss)
        return self.encode_backward(batch, loss, d_states, self.tag[row], n_words)
