"""Networks in 8 bits: what comes back, what is refused, and which vectors are dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sapwood as sw
from sapwood.core.errors import ModelFormatError
from sapwood.networks.network import N_SPECIAL, Network, RowSums, VectorRows, look_up
from sapwood.networks.rounding import MOST_CODE, decode_rows, drop_rare, encode_rows, round_rows

NUMBERS = st.floats(-100, 100, width=32)
MATRICES = arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=NUMBERS)


@pytest.fixture(scope="module")
def bank() -> sw.Treebank:
    return sw.bundled_treebank("dev")[:40]


@pytest.fixture(scope="module")
def network(bank: sw.Treebank) -> Network:
    found: Any = sw.SpanEncoder(width=5, hidden=4, passes=1).fit(bank).model_
    return found.network


@given(MATRICES)
def test_numbers_come_back_to_half_a_step(matrix: np.ndarray) -> None:
    found = decode_rows("W", encode_rows("W", matrix), len(matrix))
    step = np.abs(matrix).max(axis=1, keepdims=True) / MOST_CODE
    assert (np.abs(found - matrix) <= 0.5001 * step + 1e-37).all()


@given(MATRICES)
def test_what_was_rounded_once_stays_the_same(matrix: np.ndarray) -> None:
    once = round_rows(matrix)
    assert (round_rows(once) == once).all()
    first, again = encode_rows("W", matrix), encode_rows("W", once)
    assert first.keys() == again.keys()
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert (decode_rows("W", first, len(matrix)) == once).all()


def test_a_network_in_8_bits_is_its_file(network: Network) -> None:
    small = network.rounded(bits=8)
    assert small.rounded(bits=8).to_arrays("n").keys() == small.to_arrays("n").keys()
    stored, whole = small.to_arrays("n"), network.to_arrays("n")
    n_bytes = [sum(x.nbytes for x in some.values()) for some in (stored, whole)]
    assert n_bytes[0] < 0.7 * n_bytes[1]
    for name, table in small.tables.items():
        assert np.abs(table - network.tables[name]).max() <= np.abs(table).max() / 200


def test_files_of_both_kinds_are_read(network: Network, bank: sw.Treebank, tmp_path: Any) -> None:
    model: Any = sw.SpanEncoder(width=5, hidden=4, passes=1).fit(bank).model_
    for bits in (8, 16):
        rounded = replace(model, network=model.network.rounded(bits))
        rounded.save(tmp_path / f"{bits}.sapwood")
        loaded = sw.load(tmp_path / f"{bits}.sapwood")
        assert loaded.network.bits == bits
        for name, table in rounded.network.tables.items():
            assert (loaded.network.tables[name] == table).all()
        loaded.save(tmp_path / "again.sapwood", force=True)
        first, again = (tmp_path / f"{bits}.sapwood", tmp_path / "again.sapwood")
        assert first.read_bytes() == again.read_bytes()


def _spoil(name: str, change: Any) -> Any:
    def spoil(stored: dict[str, np.ndarray]) -> None:
        stored[name] = change(stored[name])

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_spoil("W.codes", lambda x: x.astype(np.int16)), "W.codes is of type int16"),
        (_spoil("W.scales", lambda x: x[1:]), "W has 1 scales for 2 rows"),
        (_spoil("W.scales", lambda x: x * np.nan), "a scale that is not above 0"),
        (_spoil("W.scales", lambda x: -x), "a scale that is not above 0"),
        (_spoil("W.scales", lambda x: x * np.float32(1e9)), "a scale that is not above 0"),
        (_spoil("W.kept", lambda x: ~x), "W has 2 rows, and marks"),
        (_spoil("W.kept", lambda x: x | 1), "W has 2 rows, and marks"),
    ],
)
def test_damaged_matrices_are_refused(spoil: Any, message: str) -> None:
    stored = encode_rows("W", np.array([[1, 2], [0, 0], [3, -4]], np.float32))
    spoil(stored)
    with pytest.raises(ModelFormatError, match=message):
        decode_rows("W", stored, 3)


def test_a_file_with_matrices_of_both_kinds_is_refused(network: Network) -> None:
    stored = network.rounded(bits=8).to_arrays("n")
    stored |= {"n.tag.W": network.to_arrays("n")["n.tag.W"]}
    with pytest.raises(ModelFormatError, match="in 8 bits and others in 16"):
        Network.from_arrays("n", stored, 1, lambda *_: {})


def test_rare_words_and_forms_lose_their_vectors(network: Network, bank: sw.Treebank) -> None:
    sentences = [tree.words() for tree in bank]
    few = drop_rare(network, sentences, 4, 3)
    n = len(few.familiar)
    assert 0 < n < len(network.familiar)
    assert few.word_vectors.shape == (n + N_SPECIAL, network.word_vectors.shape[1])
    counts: dict[int, int] = {}
    old, new = (VectorRows(x.familiar, len(x.form_vectors)) for x in (network, few))
    for sentence in sentences:
        for word in old.rows(sentence)[0].tolist():
            counts[word] = counts.get(word, 0) + 1
    for word in {word for sentence in sentences for word in sentence}:
        before, after = (int(rows.rows([word])[0][0]) for rows in (old, new))
        if before >= N_SPECIAL and counts[before] >= 4:
            assert (few.word_vectors[after] == network.word_vectors[before]).all()
        else:
            assert after < N_SPECIAL
    dropped = (few.form_vectors == 0).all(axis=1) & (network.form_vectors != 0).any(axis=1)
    assert dropped.any()
    kept = ~dropped
    assert (few.form_vectors[kept] == network.form_vectors[kept]).all()


def test_nothing_is_dropped_below_one(network: Network, bank: sw.Treebank) -> None:
    same = drop_rare(network, [tree.words() for tree in bank], 1, 1)
    assert (same.familiar == network.familiar).all()
    assert (same.form_vectors == network.form_vectors).all()


def test_sums_of_rows_are_those_of_the_sparse_matrix_bit_for_bit() -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(40, 6)).astype(np.float32)
    rows = rng.integers(-1, 40, size=(30, 5))
    rows[0] = -1
    looked, _ = look_up(table, rows)
    assert (RowSums(rows) @ table).tobytes() == (looked.words @ looked.vectors).tobytes()
