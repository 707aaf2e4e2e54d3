"""`VectorStore`: the memory of vectors on disk."""

from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.networks.pretrained import store
from sapwood.networks.pretrained.given import given_bytes
from sapwood.networks.pretrained.store import VectorStore, _Mapped

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"
SENTENCES = [["the", "dog", "sees"], ["a", "cat"], ["cats"]] * 5


@pytest.fixture(scope="module")
def encoder() -> sw.PretrainedEncoder:
    return sw.PretrainedEncoder.of_folder(ENCODERS / "bert")


def test_memory_is_given_back_while_vectors_are_read(
    encoder: sw.PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FILE_BYTES", 4.0 * encoder.width)  # two words a file
    found = VectorStore(encoder, tmp_path).sentences(SENTENCES)
    released: list[_Mapped] = []
    real = _Mapped.release
    monkeypatch.setattr(_Mapped, "release", lambda self: (released.append(self), real(self))[1])
    monkeypatch.setattr(store, "RESIDENT_BYTES", 2.0 * encoder.width * 6)  # six words
    expected = [encoder.read(words) for words in SENTENCES]
    before = found.of(0)
    for k, vectors in enumerate(expected):
        np.testing.assert_array_equal(found.of(k), vectors)
    np.testing.assert_array_equal(before, expected[0])  # read again from the file
    n_files = len({id(file) for file in released})
    assert n_files > 1
    n_words = sum(map(len, SENTENCES)) + len(SENTENCES[0])
    assert len(released) == n_files * (n_words // 7)  # each time that more than six were read


def test_the_estimate_of_memory_does_not_grow_with_the_treebank(
    encoder: sw.PretrainedEncoder,
) -> None:
    assert given_bytes(None) == 0
    assert given_bytes(encoder) >= store.RESIDENT_BYTES + encoder.n_bytes


def test_a_span_network_counts_the_encoder(encoder: sw.PretrainedEncoder) -> None:
    bank = sw.bundled_treebank("dev")[:20]
    needs = []
    for source in (None, encoder):
        learner = sw.SpanEncoder(passes=1, encoder=source)
        needs.append(learner.memory_needed(learner._prepare(bank)))
    assert needs[1] - needs[0] == given_bytes(encoder)
