"""Gradients of labels of spans against differences, and what spans and fenceposts are."""

import numpy as np
import pytest
from tests.reference.networks import hidden_of_span

from sapwood.core.arrays import starts_of
from sapwood.networks.encoder import Dropout
from sapwood.networks.lstm import pack
from sapwood.networks.parameters import Parameters
from sapwood.networks.spans import SpanSizes, fenceposts, span_gradient, span_scores, start_spans

LENGTHS = np.array([6, 5, 3])  # with marks: sentences of 4, 3 and 1 words
N_STATES, N_LABELS = 8, 3


class Problem:
    def __init__(self):
        rng = np.random.default_rng(0)
        self.packing, self.starts = pack(LENGTHS), starts_of(LENGTHS)
        self.P = Parameters(SpanSizes(5).shapes(N_STATES, N_LABELS), np.float64)
        start_spans(self.P, rng)
        for name in ("span.b", "span.gain", "span.offset"):
            self.P[name][:] = rng.normal(size=5)
        self.states = rng.normal(size=(LENGTHS.sum(), N_STATES))
        sizes = [n * (n + 1) // 2 for n in (LENGTHS - 2).tolist()]
        self.factors = rng.normal(size=(sum(sizes), N_LABELS))

    def posts(self):
        dropout = Dropout(np.random.default_rng(3), 0.3, 0.1, self.packing)
        return fenceposts(self.P, self.states, self.packing, self.starts, dropout)

    def loss(self):
        return float((span_scores(self.P, self.posts()) * self.factors).sum())

    def gradients(self):
        G = self.P.blank()
        return span_gradient(self.P, G, self.posts(), self.packing, self.factors), G


def slope(loss, array, place, step=1e-6):
    kept = array[place]
    array[place] = kept + step
    above = loss()
    array[place] = kept - step
    below = loss()
    array[place] = kept
    return (above - below) / (2 * step)


ARRAYS = ["span.W", "span.b", "span.gain", "span.offset", "label.W", "label.b", "states"]


@pytest.mark.parametrize("name", ARRAYS)
def test_gradients_are_those_of_differences(name):
    problem = Problem()
    d_states, G = problem.gradients()
    array, found = (problem.states, d_states) if name == "states" else (problem.P[name], G[name])
    expected = np.array([slope(problem.loss, array, place) for place in np.ndindex(array.shape)])
    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-6)


def test_a_span_is_what_changes_between_its_ends():
    problem = Problem()
    posts = fenceposts(problem.P, problem.states, problem.packing, problem.starts)
    rows, P = problem.packing.row[problem.starts[1] :][:5], problem.P
    half = N_STATES // 2
    ends = [
        np.concatenate([problem.states[rows[k], :half], problem.states[rows[k + 1], half:]])
        for k in range(4)
    ]
    spans = [(i, j) for i in range(3) for j in range(i + 1, 4)]
    changes = [(ends[j] - ends[i]) @ P["span.W"] + P["span.b"] for i, j in spans]
    hidden = [hidden_of_span(change, P["span.gain"], P["span.offset"]) for change in changes]
    expected = np.array(hidden) @ P["label.W"] + P["label.b"]
    scores = span_scores(P, posts)
    np.testing.assert_allclose(scores[10:16], expected, atol=1e-12)  # behind those of 4 words
