"""LSTMs from step to step, against sentences one by one, word by word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.networks import read_words, slopes_of_words

from sapwood.networks.kernels import lstm
from sapwood.networks.network import pack_sentences

# Rounding of sums of a dozen numbers, and of tanh where it is approximate.
ATOL = {np.float32: 2e-5, np.float64: 1e-12}
batches = st.lists(st.integers(1, 5), min_size=1, max_size=6)
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def read(z, carried, b, packing):
    gates = z.copy()
    cells, outputs = np.empty((2, len(z), len(carried)), z.dtype)
    lstm.lstm_steps(gates, carried, b, packing.starts, cells, outputs)
    return gates, cells, outputs


def random_batch(lengths, seed, scale, dtype, width=3):
    rng, packing = np.random.default_rng(seed), pack_sentences(np.sort(lengths)[::-1])
    carried, b = rng.normal(size=(width, 4 * width)), rng.normal(size=4 * width)
    z, d = (scale * rng.normal(size=(sum(lengths), k * width)) for k in (4, 1))
    sentences = np.split(packing.row, np.cumsum(np.sort(lengths)[::-1])[:-1])
    return packing, sentences, *(array.astype(dtype) for array in (z, d, carried, b))


@types
@given(batches, st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 30.0]))
def test_steps_read_as_words_one_by_one(dtype, lengths, seed, scale):
    packing, sentences, z, _, carried, b = random_batch(lengths, seed, scale, dtype)
    found = read(z, carried, b, packing)
    for rows in sentences:
        for array, expected in zip(found, read_words(z[rows], carried, b), strict=True):
            assert array.dtype == dtype
            np.testing.assert_allclose(array[rows], expected, atol=ATOL[dtype])


@types
@given(batches, st.integers(0, 10**6))
def test_slopes_are_those_of_words_one_by_one(dtype, lengths, seed):
    packing, sentences, z, d, carried, b = random_batch(lengths, seed, 1.0, dtype)
    gates, cells, _ = read(z, carried, b, packing)
    slopes = np.full_like(gates, np.nan)
    lstm.lstm_steps_backward(gates, cells, d, carried, packing.starts, slopes)
    for rows in sentences:
        expected = slopes_of_words(gates[rows], cells[rows], d[rows], carried)
        np.testing.assert_allclose(slopes[rows], expected, atol=ATOL[dtype])


def test_nan_stays_in_its_sentence():
    packing, sentences, z, _, carried, b = random_batch([3, 2], 0, 1.0, np.float32)
    z[sentences[0][1], 0] = np.nan
    outputs = read(z, carried, b, packing)[2]
    assert np.isnan(outputs[sentences[0][1:]]).any(axis=1).all()
    assert np.isfinite(outputs[[sentences[0][0], *sentences[1]]]).all()


def test_tanh_is_off_by_less_than_it_says():
    x = np.linspace(-12, 12, 4001).astype(np.float32)
    found = np.array([lstm.quick_tanh(each) for each in x])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), rtol=4e-7)
    assert np.abs(found).max() <= 1
    assert np.isnan(lstm.quick_tanh(np.float32(np.nan)))


@types
@pytest.mark.compiled
@pytest.mark.parametrize("shape", [(1, 1), (3, 12), (7, 5), (18, 40), (33, 17)])
def test_a_product_does_not_depend_on_the_rows_beside_it(dtype, shape):
    rng = np.random.default_rng(0)
    matrix, rows = rng.normal(size=shape).astype(dtype), rng.normal(size=(23, shape[0]))
    rows = rows.astype(dtype)
    whole = lstm.row_products(rows, matrix)
    assert whole.dtype == dtype
    np.testing.assert_allclose(whole, rows @ matrix, atol=ATOL[dtype])
    for n in range(1, 10):
        for first in range(23 - n):
            part = lstm.row_products(rows[first : first + n], matrix)
            np.testing.assert_array_equal(part, whole[first : first + n])


@pytest.mark.parametrize("shape", [(5, 3), (8, 6), (11, 4)])
def test_sums_of_rows_in_blocks_are_products(shape):
    """As the kernel is written; without the compiler, `row_products` asks NumPy instead."""
    rng = np.random.default_rng(1)
    matrix, rows = rng.normal(size=shape), rng.normal(size=(11, shape[0]))
    for n in (1, 3, 4, 7, 8, 11):
        found = np.empty((n, shape[1]))
        lstm._multiply_rows(rows[:n], matrix, found)
        np.testing.assert_allclose(found, rows[:n] @ matrix, atol=1e-12)


def test_no_rows_have_no_products():
    assert lstm.row_products(np.empty((0, 3)), np.ones((3, 2))).shape == (0, 2)


@pytest.mark.compiled
@given(batches, st.integers(0, 10**6))
def test_a_sentence_has_the_same_numbers_alone(lengths, seed):
    packing, sentences, z, _, carried, b = random_batch(lengths, seed, 1.0, np.float32)
    found = read(z, carried, b, packing)
    for rows in sentences:
        alone = read(z[rows], carried, b, pack_sentences(np.array([len(rows)])))
        for array, expected in zip(found, alone, strict=True):
            np.testing.assert_array_equal(array[rows], expected)
