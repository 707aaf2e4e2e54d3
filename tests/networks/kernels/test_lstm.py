"""LSTMs from step to step, against sentences one by one, word by word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.networks import read_words, slopes_of_words

from sapwood.networks.kernels import lstm
from sapwood.networks.lstm import pack

# Rounding of sums of a dozen numbers, and of tanh where it is approximate.
ATOL = {np.float32: 2e-5, np.float64: 1e-12}
batches = st.lists(st.integers(1, 5), min_size=1, max_size=6)
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def read(z, carried, b, packing):
    gates = z.copy()
    cells, outputs = np.empty((2, len(z), len(carried)), z.dtype)
    lstm.read_steps(gates, carried, b, packing.starts, cells, outputs)
    return gates, cells, outputs


def random_batch(lengths, seed, scale, dtype, width=3):
    rng, packing = np.random.default_rng(seed), pack(np.sort(lengths)[::-1])
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
    lstm.slopes_of_steps(gates, cells, d, carried, packing.starts, slopes)
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
