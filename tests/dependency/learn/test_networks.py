"""Several networks in one parser: averaged, saved, refused; Korean read by letters of Hangul."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.model_files import FileContents
from sapwood.dependency.learn.compress import compress_arcs
from sapwood.networks.network import (
    FORM_PROPERTIES,
    HANGUL_PROPERTIES,
    VectorRows,
    has_hangul,
    letter_endings,
)
from sapwood.networks.pretrained import source as sources
from sapwood.networks.pretrained.given import given_bytes
from sapwood.networks.rounding import drop_rare
from sapwood.networks.scores import ArcEncoder, mean_of

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"


@pytest.fixture(scope="module")
def model():
    return sw.ArcEnsemble(passes=1, folds=2, encoder_passes=2).fit(bank(40)).model_


def test_posteriors_are_means_over_networks(model):
    assert len(model.encoder.networks) == 2
    assert model.n_members == 3
    words, heads = bank(1, 2)[0].words, np.zeros(len(bank(1, 2)[0]), np.int64)
    both = ArcEncoder(*model.encoder.networks).read(words)
    alone = [ArcEncoder(network).read(words) for network in model.encoder.networks]
    assert np.abs(alone[0].heads - alone[1].heads).max() > 1e-3  # another seed, another network
    for name in ("heads", "tags"):
        expected = sum(getattr(one, name).astype(float) for one in alone) / 2
        np.testing.assert_allclose(getattr(both, name), expected, atol=1e-6)
    expected = sum(one.relations(heads).astype(float) for one in alone) / 2
    np.testing.assert_allclose(both.relations(heads), expected, atol=1e-6)


def test_the_mean_of_one_is_itself():
    array = np.arange(3.0)
    assert mean_of([array]) is array
    np.testing.assert_array_equal(mean_of([array, array + 2, array + 4]), array + 2)


def test_all_networks_are_saved_and_read(model, tmp_path):
    model.save(tmp_path / "m.sapwood")
    again = sw.load(tmp_path / "m.sapwood")
    assert len(again.encoder.networks) == 2
    for found, expected in zip(again.encoder.networks, model.encoder.networks, strict=True):
        np.testing.assert_array_equal(found.weights.flat, expected.weights.flat)
    words = bank(3, 1)[0].words
    found, expected = (sw.ArcParser(one).parse(words) for one in (again, model))
    np.testing.assert_array_equal(found.posteriors, expected.posteriors)


@pytest.mark.parametrize("others", ["1", 2.0, -1, 100, None])
def test_an_impossible_number_of_networks_is_refused(model, others):
    arrays, header = model.to_file()
    damaged = header | {"encoder": header["encoder"] | {"others": others}}
    with pytest.raises(sw.ModelFormatError, match="other networks"):
        type(model).from_file(FileContents(arrays, damaged))


def test_a_second_network_of_other_sizes_is_refused(model):
    arrays, header = model.to_file()
    damaged = arrays | {"encoder1.tag.W": arrays["encoder1.tag.W"][:-1]}
    with pytest.raises(sw.ModelFormatError, match="shape"):
        type(model).from_file(FileContents(damaged, header))


def test_one_network_has_the_file_that_it_always_had(model):
    arrays, header = replace(model, encoder=model.encoder._replace(others=())).to_file()
    assert "others" not in header["encoder"]
    assert not any(name.startswith("encoder1") for name in arrays)


def test_all_networks_are_compressed(model):
    small = compress_arcs(model, (arcs.words for arcs in bank(40)))
    assert [network.bits for network in small.encoder.networks] == [8, 8]


def test_a_file_holds_an_encoder_once_for_both_networks(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_open", {})
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    folder = shutil.copytree(ENCODERS / "bert", tmp_path / "tiny")
    encoder = sw.PretrainedEncoder.of_folder(folder, bits=16)
    few = bank(12)  # too few for a trial
    model = sw.ArcEnsemble(passes=1, folds=2, encoder_passes=1, encoder=encoder).fit(few).model_
    model.save(tmp_path / "m.sapwood")
    shutil.rmtree(folder)
    again = sw.load(tmp_path / "m.sapwood")
    one, other = (network.given for network in again.encoder.networks)
    assert one is other
    assert one.held is not None
    names = again.to_file().arrays
    assert sum(name.endswith("given_mean") for name in names) == 1
    words = few[0].words
    found, expected = (sw.ArcParser(x).parse(words) for x in (again, model))
    np.testing.assert_array_equal(found.posteriors, expected.posteriors)


KOREAN = [("나는", "갔다"), ("그는", "왔다"), ("물이", "좋다")]


def korean(n):
    return sw.ArcBank.of(
        sw.Arcs(words, (2, 0), ("nsubj", "root"), ("NOUN", "VERB")) for words in KOREAN * n
    )


def test_korean_is_read_by_its_letters_too(tmp_path):
    learner = sw.ArcEnsemble(passes=1, folds=2, encoder_passes=1, networks=1)
    model = learner.fit(korean(10)).model_
    network = model.encoder.network
    assert network.splits_hangul
    assert not learner.fit(bank(20)).model_.encoder.network.splits_hangul
    model.save(tmp_path / "m.sapwood")
    again = sw.load(tmp_path / "m.sapwood").encoder.network
    assert again.splits_hangul
    for found, expected in zip(
        again.rows.rows(KOREAN[0]), network.rows.rows(KOREAN[0]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    without = replace(network, splits_hangul=False)
    heads = [ArcEncoder(one).read(KOREAN[0]).heads for one in (network, without)]
    assert np.abs(heads[0] - heads[1]).max() > 0  # the letters count


def test_endings_by_letters_are_shared_by_words_of_other_syllables():
    rows = VectorRows(np.zeros(0, np.uint32), 1 << 16, splits_hangul=True)
    plain = VectorRows(np.zeros(0, np.uint32), 1 << 16)
    _, (went, came, eats) = rows.rows(["갔다", "왔다", "eats"])
    n = len(FORM_PROPERTIES)
    assert len(went) == len(HANGUL_PROPERTIES)
    np.testing.assert_array_equal(went[:n], plain.rows(["갔다"])[1][0])
    assert (went == came).tolist()[n:] == [True, True, False, False]
    assert (eats[n:] == -1).all()
    assert (eats[:n] >= 0).all()
    assert has_hangul("A갔")
    assert not has_hangul("日本")
    assert not letter_endings(["日本"]).any()


def test_rows_of_no_property_are_not_counted_as_seen():
    learner = sw.ArcEnsemble(passes=1, folds=2, encoder_passes=1, networks=1)
    mixed = sw.ArcBank.of(
        sw.Arcs(words, (2, 0), ("nsubj", "root"), ("NOUN", "VERB"))
        for words in [("나는", "갔다"), ("dogs", "bark")] * 10
    )
    network = learner.fit(mixed).model_.encoder.network
    assert network.splits_hangul
    few = drop_rare(network, [("dogs", "bark")], 1, 1)
    kept = np.flatnonzero(few.form_vectors.any(axis=1))
    taken = np.unique(network.rows.rows(("dogs", "bark"))[1])
    assert set(kept) <= set(taken[taken >= 0])


def test_memory_for_an_encoder_is_asked_for_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_open", {})
    asked = []
    monkeypatch.setattr(
        "sapwood.dependency.learn.trainer.require_memory", lambda needed, *_: asked.append(needed)
    )
    options = {"passes": 1, "folds": 2, "networks": 1, "encoder_passes": 1}
    encoder = sw.PretrainedEncoder.of_folder(ENCODERS / "bert")
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    for source in (None, encoder):
        sw.ArcEnsemble(**options, encoder=source).fit(bank(12))
    assert asked[1] - asked[0] == given_bytes(encoder)
    assert given_bytes(encoder) > 2 * encoder.n_bytes > 0
    sw.ArcEnsemble(**options | {"encoder_passes": 0}, encoder=encoder).fit(bank(12))
    assert asked[2] == asked[0]  # no network reads it
