"""The hidden layer of spans and scores of labels, against spans one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sapwood.kernels.span_layer import hidden_layer, label_scores, largest_of_rows, send_back
from sapwood.reference.networks import hidden_of_span

WIDTH, N_LABELS = 3, 2
ATOL = 1e-5  # sums of a few numbers around 1 in single precision


def random_spans(sizes, seed):
    """Vectors of fenceposts of sentences, their biases, and all spans."""
    rng = np.random.default_rng(seed)
    posts, bias = (rng.normal(size=(n, WIDTH)).astype(np.float32) for n in (sum(sizes), len(sizes)))
    first = np.append(0, np.cumsum(sizes))
    spans = [
        (i, j, s)
        for s in range(len(sizes))
        for i in range(first[s], first[s + 1])
        for j in range(i + 1, first[s + 1])
    ]
    hidden = np.array([hidden_of_span(posts, bias[s], i, j) for i, j, s in spans])
    return posts, bias, np.array(spans).T.copy(), hidden


@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(0, 10**6))
def test_the_hidden_layer_is_that_of_each_span(sizes, seed):
    posts, bias, spans, expected = random_spans(sizes, seed)
    hidden = np.empty_like(expected)
    hidden_layer(posts, bias, *spans, hidden)
    np.testing.assert_allclose(hidden, expected, atol=ATOL)


def test_scores_are_products_with_the_hidden_layer():
    for sizes in ([2], [5, 14]):  # of one span; of more spans than are taken at once
        posts, bias, spans, hidden = random_spans(sizes, 1)
        rng = np.random.default_rng(2)
        weights = rng.normal(size=(WIDTH, N_LABELS)).astype(np.float32)
        u = rng.normal(size=N_LABELS).astype(np.float32)
        scores = np.empty((len(hidden), N_LABELS), np.float32)
        label_scores(posts, bias, *spans, weights, u, scores)
        np.testing.assert_allclose(scores, hidden @ weights + u, atol=ATOL)


@given(st.lists(st.integers(2, 4), min_size=1, max_size=3), st.integers(0, 10**6))
def test_slopes_go_back_to_both_ends(sizes, seed):
    posts, bias, spans, hidden = random_spans(sizes, seed)
    d = np.random.default_rng(seed).normal(size=hidden.shape).astype(np.float32)
    d_posts, d_bias = np.zeros_like(posts), np.zeros_like(bias)
    send_back(d.copy(), hidden, *spans, d_posts, d_bias)
    expected_posts, expected_bias = np.zeros_like(posts), np.zeros_like(bias)
    for slope, (i, j, s) in zip(d * (hidden > 0), spans.T, strict=True):
        expected_posts[i] -= slope
        expected_posts[j] += slope
        expected_bias[s] += slope
    np.testing.assert_allclose(d_posts, expected_posts, atol=ATOL)
    np.testing.assert_allclose(d_bias, expected_bias, atol=ATOL)


@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 10**6))
def test_the_largest_of_each_row(n, width, seed):
    rows = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    np.testing.assert_array_equal(largest_of_rows(rows), rows.max(axis=1))
