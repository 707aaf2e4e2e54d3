"""Parsers in compact files: what comes back, what is lost, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import arc_toys

import sapwood as sw
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import digest_of, read_tensors, write_atomically
from sapwood.dependency.learn.compress import ArcCompression, compress_arcs, fewer_weights
from sapwood.dependency.learn.crf import ArcEnsemble
from sapwood.dependency.model.arc_model import FeatureTable
from sapwood.dependency.model.compact import (
    FEATURE_CODES_PER_HALVING,
    MOST_CODE,
    decode_weights,
    encode_weights,
    round_weights,
)

STEP = (
    2 ** (0.5 / FEATURE_CODES_PER_HALVING) - 1
)  # the largest relative error of rounding a logarithm
SETTINGS = ArcCompression(1, 2, table_bits=12, tagger=600, labels=600, members=900)


@pytest.fixture(scope="module")
def bank() -> sw.ArcBank:
    return arc_toys.bank(60)


@pytest.fixture(scope="module")
def model(bank: sw.ArcBank) -> sw.ArcModel:
    return ArcEnsemble(folds=2, encoder_passes=4, passes=3).fit(bank).model_


@pytest.fixture(scope="module")
def small(model: sw.ArcModel, bank: sw.ArcBank) -> sw.ArcModel:
    return compress_arcs(model, [bank.sentence(k) for k in range(bank.n_sentences)], SETTINGS)


@given(st.lists(st.sampled_from([0.0, 0.0, 1e-3, -0.02, 0.5, -3.0, 2.0]), min_size=1, max_size=700))
def test_weights_come_back_to_a_step(numbers: list[float]) -> None:
    weights = np.array(numbers, np.float32)
    found = round_weights(weights)
    most = np.abs(weights).max()
    is_large = np.abs(weights) > most * 2 ** (-MOST_CODE / FEATURE_CODES_PER_HALVING)
    np.testing.assert_allclose(found[is_large], weights[is_large], rtol=1.01 * STEP)
    assert (round_weights(found) == found).all()
    assert (np.sign(found) * np.sign(weights) >= 0).all()


def test_few_weights_far_apart_take_two_bytes_and_one_for_each_255() -> None:
    weights = np.zeros(10_000, np.float32)
    weights[[0, 254, 255, 5000, 9999]] = [1, -1, 0.5, 2, 3]
    stored = encode_weights("x", weights)
    assert stored["x.codes"].nbytes == 5
    assert stored["x.distances"].nbytes == 5 + 4744 // 255 + 4999 // 255
    np.testing.assert_allclose(decode_weights("x", stored, 10_000), weights, rtol=1.01 * STEP)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x.codes", lambda x: x[1:], "3 places below"),
        ("x.codes", lambda x: x.astype(np.int8), "of type int8"),
        ("x.distances", lambda x: x + np.uint8(100), "places below"),
        ("x.distances", lambda x: x * np.uint8(0), "places below"),
        ("x.most", lambda x: x * np.nan, "no largest weight"),
        ("x.most", lambda x: np.append(x, x), "no largest weight"),
    ],
)
def test_damaged_weights_are_refused(name: str, change: Any, message: str) -> None:
    stored = encode_weights("x", np.array([0, 1, 0, 2, 3], np.float32))
    with pytest.raises(ModelFormatError, match=message):
        decode_weights("x", stored | {name: change(stored[name])}, 5)


def test_a_folded_table_adds_weights_of_equal_hashes(model: sw.ArcModel) -> None:
    spare, weights = 3, np.arange(67, dtype=np.float32)
    table = FeatureTable(model.tagger.templates, weights, spare)
    folded = fewer_weights(table, 5, 1000)
    assert len(folded.weights) == 32 + spare
    expected = np.concatenate([weights[:32] + weights[32:64], weights[64:]])
    np.testing.assert_allclose(folded.weights, expected, rtol=1.01 * STEP)
    two = fewer_weights(table, 5, 2).weights
    assert np.flatnonzero(two).tolist() == [30, 31]  # 30 + 62 and 31 + 63 are the largest


def test_a_file_holds_the_compressed_parser(small: sw.ArcModel, tmp_path: Path) -> None:
    small.save(tmp_path / "one.sapwood")
    loaded = sw.load(tmp_path / "one.sapwood")
    loaded.save(tmp_path / "two.sapwood")
    assert (tmp_path / "one.sapwood").read_bytes() == (tmp_path / "two.sapwood").read_bytes()
    for one, other in zip(small.lexicon, loaded.lexicon, strict=True):
        assert one.dtype == other.dtype
        assert (one == other).all()
    for name in ("tagger", "pruner", "labels"):
        assert (getattr(small, name).weights == getattr(loaded, name).weights).all()
    assert loaded.encoder.network.bits == 8


def test_it_is_smaller_and_parses_nearly_as_well(
    model: sw.ArcModel, small: sw.ArcModel, bank: sw.ArcBank, tmp_path: Path
) -> None:
    gold = list(bank)
    for name, one in (("whole", model), ("small", small)):
        one.save(tmp_path / name)
    scores = []
    for name in ("whole", "small"):
        parses = sw.ArcParser(sw.load(tmp_path / name)).parse_many([arcs.words for arcs in gold])
        found = sw.evaluate.attachment(gold, [parse.arcs for parse in parses])
        scores.append(found.percent("uas"))
    assert (tmp_path / "small").stat().st_size < 0.6 * (tmp_path / "whole").stat().st_size
    assert scores[1] > scores[0] - 10  # of 60 sentences; a wrong scale loses half of the arcs


def test_a_parser_without_a_network_is_refused(model: sw.ArcModel) -> None:
    with pytest.raises(SapwoodError, match="without a network"):
        compress_arcs(replace(model, encoder=None), [])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("lexicon.tags", lambda x: x[1:], "lexicon.tags has the shape"),
        ("lexicon.tags", lambda x: x * np.uint8(0), "does not give every word tags"),
        ("tagger.codes", lambda x: x[1:], "places below"),
        ("encoder.forms.kept", lambda x: ~x, "rows, and marks"),
    ],
)
def test_damaged_files_are_refused(
    small: sw.ArcModel, name: str, change: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.sapwood"
    small.save(path)
    arrays, header = read_tensors(path)
    arrays = dict(arrays) | {name: change(arrays[name])}
    whole = header | {"sha256": digest_of(arrays, header["model"])}
    write_atomically(path, arrays, whole, force=True)
    with pytest.raises(ModelFormatError, match=message):
        sw.load(path)
