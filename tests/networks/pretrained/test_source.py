"""Folders, records and files of sources of vectors, and their store on disk."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError
from sapwood.networks.pretrained import source as sources
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.pretrained.source import (
    PretrainedEncoder,
    SourceRecord,
    find_source,
    pack_tensors,
    unpack_tensors,
)
from sapwood.networks.pretrained.static import StaticVectors
from sapwood.networks.pretrained.store import VectorStore

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"
SENTENCES = [["the", "dog", "sees", "-LRB-", "9", "-RRB-"], ["dogs"], ["the"] * 30, ["a", "dog"]]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No source is known from another test, and the cache is empty."""
    monkeypatch.setattr(sources, "_open", {})
    monkeypatch.setattr(sources, "_places", [])
    monkeypatch.delenv(sources.PLACE, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ENCODERS / "bert", tmp_path / "tiny"))


def test_the_record_has_name_licence_and_layers(folder: Path) -> None:
    record = PretrainedEncoder.of_folder(folder).record
    assert (record.kind, record.name, record.licence) == ("encoder", "tiny", "apache-2.0")
    assert (record.layers, record.bits, record.path) == ((1, 2), 32, str(folder))
    assert SourceRecord.from_header(json.loads(json.dumps(record.as_header()))) == record
    for part in ("tiny", "licence apache-2.0", record.sha256, "layers 1, 2"):
        assert part in record.description


def test_a_folder_of_the_hubs_cache_has_the_name_of_the_model(tmp_path: Path) -> None:
    inside = tmp_path / "models--somebody--tiny" / "snapshots" / "0a1b"
    shutil.copytree(ENCODERS / "bert", inside)
    assert PretrainedEncoder.of_folder(inside).record.name == "somebody/tiny"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_the_checksum_changes_with_every_file(folder: Path, name: str) -> None:
    before = PretrainedEncoder.of_folder(folder).record.sha256
    data = (folder / name).read_bytes()
    changed = data.replace(b'"vocab_size"', b'"vocab_size" ').replace(
        b'"truncation"', b' "truncation"'
    )
    if name == "model.safetensors":
        changed = data[:-1] + bytes([data[-1] ^ 1])
    (folder / name).write_bytes(changed)
    assert PretrainedEncoder.of_folder(folder).record.sha256 != before


@pytest.mark.parametrize(
    ("make", "expected", "hint"),
    [
        (
            lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
            "pickle",
            "AutoModel",
        ),
        (lambda f: (f / "model.safetensors").rename(f / "model.onnx"), "ONNX", "AutoModel"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights", "AutoModel"),
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer.json", "AutoTokenizer"),
        (lambda f: (f / "config.json").unlink(), "no config.json", "config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not JSON", "copy"),
        (lambda f: (f / "config.json").write_text("[]"), "expected an object", ""),
        (lambda f: (f / "config.json").write_text('{"model_type": "t5"}'), "'t5'", "bert"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 50), "cannot be read", "copy"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "cannot be used", "copy"),
        (shutil.rmtree, "no such folder", "config.json"),
    ],
)
def test_folders_that_lack_something_are_refused_with_the_way_out(
    folder: Path, make: object, expected: str, hint: str
) -> None:
    make(folder)  # type: ignore[operator]
    with pytest.raises(ModelFormatError, match=expected) as error:
        PretrainedEncoder.of_folder(folder)
    assert hint in (error.value.hint or "")


def test_vectors_are_means_of_joined_layers_and_do_not_depend_on_company(folder: Path) -> None:
    encoder = PretrainedEncoder.of_folder(folder, layers=[0, 2])
    assert encoder.width == 16
    found = encoder.read(SENTENCES[0])
    alone = [PretrainedEncoder.of_folder(folder, layers=[k]).read(SENTENCES[0]) for k in (0, 2)]
    np.testing.assert_array_equal(found, np.concatenate(alone, axis=1))
    assert encoder.read([]).shape == (0, 16)
    with pytest.raises(SapwoodError, match="layers 0 to 2"):
        PretrainedEncoder.of_folder(folder, layers=[3])


@pytest.mark.parametrize("bits", [8, 16])
def test_rounded_weights_are_the_same_after_a_second_rounding(bits: int) -> None:
    rng = np.random.default_rng(0)
    tensors = {"W": rng.normal(size=(7, 9)).astype(np.float32), "b": np.zeros(3, np.float32)}
    tensors["W"][2] = 0
    once = unpack_tensors(pack_tensors(tensors, bits))
    twice = unpack_tensors(pack_tensors(once, bits))
    for name, array in tensors.items():
        np.testing.assert_array_equal(once[name], twice[name])
        largest = max(float(np.abs(array).max()), 1e-3)
        assert np.abs(once[name] - array).max() <= largest / (100 if bits == 8 else 1000)


def test_sources_are_found_where_they_were_or_where_one_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = PretrainedEncoder.of_folder(folder).record
    assert find_source(record).record == record
    sources._open.clear()
    moved = folder.rename(tmp_path / "elsewhere")
    with pytest.raises(ModelFormatError, match="needs the encoder tiny") as error:
        find_source(record)
    assert "SAPWOOD_ENCODER" in str(error.value.hint)
    monkeypatch.setenv(sources.PLACE, str(moved))
    assert find_source(record).record.key == record.key
    monkeypatch.delenv(sources.PLACE)
    sources._open.clear()
    sw.use_encoder(moved)
    assert find_source(record).record.key == record.key
    sources._open.clear()
    sw.use_encoder(ENCODERS / "roberta")
    with pytest.raises(ModelFormatError, match="holds another one"):
        find_source(record)


def test_an_encoder_that_was_exchanged_is_refused(folder: Path) -> None:
    record = PretrainedEncoder.of_folder(folder).record
    shutil.rmtree(folder)
    shutil.copytree(ENCODERS / "distilbert", folder)
    with pytest.raises(ModelFormatError, match="holds another one"):
        find_source(record)


def test_a_source_goes_to_other_processes_whole(folder: Path) -> None:
    for one in (PretrainedEncoder.of_folder(folder), PretrainedEncoder.of_folder(folder, bits=8)):
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(again.read(SENTENCES[0]), one.read(SENTENCES[0]))
        assert again.record == one.record


def test_vectors_are_kept_on_disk_and_made_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = PretrainedEncoder.of_folder(folder)
    expected = [encoder.read(words) for words in SENTENCES]
    read: list[list[str]] = []
    real = encoder.read
    monkeypatch.setattr(encoder, "read", lambda words: (read.append(list(words)), real(words))[1])
    stored = VectorStore(encoder).sentences([*SENTENCES, SENTENCES[0]], jobs=2)
    assert sorted(read) == sorted(SENTENCES)  # the one that is there twice is read once
    for k, vectors in enumerate([*expected, expected[0]]):
        np.testing.assert_array_equal(stored.of(k), vectors)
    again = VectorStore(encoder).sentences(SENTENCES[::-1][:2])  # another fold, another run
    np.testing.assert_array_equal(again.of(1), expected[2])
    assert len(read) == len(SENTENCES)
    other = PretrainedEncoder.of_folder(folder, layers=[2])
    assert VectorStore(other).folder != VectorStore(encoder).folder


def test_a_run_that_was_stopped_goes_on_and_damaged_files_are_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapwood.networks.pretrained import store

    monkeypatch.setattr(store, "FILE_BYTES", 2 * 16 * 6)  # six words a file
    encoder = PretrainedEncoder.of_folder(folder)
    real, expected = encoder.read, [encoder.read(words) for words in SENTENCES]

    def stop_at_the_third(words: list[str]) -> np.ndarray:
        if len(words) == 30:
            raise KeyboardInterrupt
        return real(words)

    monkeypatch.setattr(encoder, "read", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        VectorStore(encoder).sentences(SENTENCES)
    files = sorted(VectorStore(encoder).folder.iterdir())
    assert len(files) == 2
    read: list[list[str]] = []
    monkeypatch.setattr(encoder, "read", lambda words: (read.append(list(words)), real(words))[1])
    VectorStore(encoder).sentences(SENTENCES)
    assert read == SENTENCES[2:]
    for spoil in (lambda x: x[:-3], lambda x: x[:60] + bytes([x[60] ^ 1]) + x[61:], lambda _: b""):
        files[0].write_bytes(spoil(files[0].read_bytes()))
        read.clear()
        stored = VectorStore(encoder).sentences(SENTENCES)
        assert len(read) == 1
        for k, vectors in enumerate(expected):
            np.testing.assert_array_equal(stored.of(k), vectors)


def test_training_vectors_have_mean_0_and_variance_1(folder: Path) -> None:
    encoder = PretrainedEncoder.of_folder(folder)
    given = TrainingVectors.of(encoder, SENTENCES)
    both = given.of_sentences(np.array([2, 0, 1, 3]))
    assert both.shape == (39, 16)
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(both.std(axis=0), 1, atol=1e-3)
    one = given.learnt.standardised(encoder.vectors(SENTENCES[0]))
    np.testing.assert_array_equal(both[30:36], one)


TABLE = {"the": [1.0, 0.5], "Dog": [2.0, -1.0], "dog": [3.0, -2.0], "new york": [4.0, 0.0]}


def vectors_file(path: Path, *, has_sizes: bool) -> Path:
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in TABLE.items()]
    path.write_text("\n".join([*(["4 2"] if has_sizes else []), *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("has_sizes", [True, False])
def test_static_vectors_are_those_of_the_word_then_of_its_small_letters_then_the_mean(
    tmp_path: Path, has_sizes: bool
) -> None:
    source = StaticVectors.of_file(vectors_file(tmp_path / "x.vec", has_sizes=has_sizes))
    found = source.read(["Dog", "DOG", "new york", "cat"]).tolist()
    assert found == [TABLE["Dog"], TABLE["dog"], TABLE["new york"], [2.5, -0.625]]
    assert source.record.kind == "vectors"
    assert not source.is_held
    assert StaticVectors.of_file(tmp_path / "x.vec", bits=8).record.bits == 8


def test_static_vectors_of_a_file_of_tensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    words = np.frombuffer("\n".join(TABLE).encode(), np.uint8)
    table = np.array(list(TABLE.values()), np.float32)
    save_file({"words": words, "vectors": table}, tmp_path / "x.safetensors")
    source = StaticVectors.of_file(tmp_path / "x.safetensors")
    assert source.read(["the"]).tolist() == [TABLE["the"]]
    save_file({"vectors": table}, tmp_path / "y.safetensors")
    with pytest.raises(ModelFormatError, match="no file of word vectors"):
        StaticVectors.of_file(tmp_path / "y.safetensors")


@pytest.mark.parametrize("text", ["", "the\n", "the 1 2\ndog 1\n", "the 1 x\n", "2 2\n"])
def test_files_that_hold_no_vectors_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.vec").write_text(text, encoding="utf-8")
    with pytest.raises((CorpusError, ModelFormatError), match=r"x\.vec"):
        StaticVectors.of_file(tmp_path / "x.vec")
