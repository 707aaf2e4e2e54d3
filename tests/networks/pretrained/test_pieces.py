"""Pieces belong to words exactly; long sentences are read in windows that overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import ModelFormatError
from sapwood.networks.pretrained.pieces import PieceReader, plain_word, windows
from sapwood.networks.pretrained.source import PretrainedEncoder

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"
NAMES = sorted(path.name for path in ENCODERS.iterdir())
READERS = {
    name: PieceReader((ENCODERS / name / "tokenizer.json").read_text(encoding="utf-8"), 10**6)
    for name in NAMES
}
ODD_WORDS = [
    "-LRB-", "-RRB-", "``", "''", "and\\/or", "\U0001f469‍\U0001f4bb", "é", "́", "\u200b", "\x00",
    "[SEP]", "<s>", "▁", "Ġ", "漢字", "20 000", "x" * 600, "dogs" * 150, "\ud800", "don't", "",
]  # fmt: skip
words = st.one_of(st.sampled_from(ODD_WORDS), st.text(min_size=1, max_size=12))


@pytest.mark.parametrize("name", NAMES)
@given(sentence=st.lists(words, min_size=1, max_size=8))
def test_each_word_has_the_pieces_that_it_has_alone(name: str, sentence: list[str]) -> None:
    reader = READERS[name]
    ids, starts = reader.read(sentence)
    assert len(starts) == len(sentence) + 1
    assert starts[0] == 0
    assert starts[-1] == len(ids)
    for k, word in enumerate(sentence):
        own = ids[starts[k] : starts[k + 1]].tolist()
        assert own, "a word without a piece"
        assert own == reader.read([word])[0].tolist()


@pytest.mark.parametrize("name", NAMES)
@given(
    sentence=st.lists(st.text("dogsthe()\"'/.x9", min_size=1, max_size=9), min_size=1, max_size=9)
)
def test_pieces_of_words_are_those_of_their_sentence(name: str, sentence: list[str]) -> None:
    """The tokenizer, given the whole sentence, cuts it into the same pieces."""
    from tokenizers import Tokenizer

    whole = Tokenizer.from_file(str(ENCODERS / name / "tokenizer.json"))
    whole.no_truncation()
    whole.no_padding()
    text = " ".join(map(plain_word, sentence))
    expected = whole.encode(" " + text if name in ("roberta", "modernbert") else text).ids
    reader = READERS[name]
    found = [*reader.before, *reader.read(sentence)[0].tolist(), *reader.behind]
    assert found == expected


def test_brackets_and_quotes_of_penn_treebanks_are_read_as_text_has_them() -> None:
    penn = ["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-", "``", "''", "1\\/2", "\\*"]
    plain = ["(", ")", "[", "]", "{", "}", '"', '"', "1/2", "*"]
    assert list(map(plain_word, penn)) == plain
    for reader in READERS.values():
        assert [reader.pieces_of(w) for w in penn] == [reader.pieces_of(w) for w in plain]


def test_byte_level_pieces_are_those_behind_a_blank() -> None:
    vocabulary = READERS["roberta"]._tokenizer.get_vocab()
    assert READERS["roberta"].pieces_of("dog") == (vocabulary["Ġdog"],)
    assert READERS["bert"].pieces_of("Dogs") == tuple(
        READERS["bert"]._tokenizer.get_vocab()[piece] for piece in ("dog", "##s")
    )


@given(st.integers(0, 200), st.integers(1, 40))
def test_windows_keep_every_piece_once_and_never_hold_more_than_there_is_room(
    n: int, room: int
) -> None:
    kept = []
    for window in windows(n, room):
        assert window.start <= window.first_kept <= window.end_kept <= window.end <= max(n, 0)
        assert window.end - window.start <= room
        kept += range(window.first_kept, window.end_kept)
    assert kept == list(range(n))


def test_pieces_are_kept_from_the_window_where_they_stand_farther_from_the_edge() -> None:
    n, room = 100, 20
    for window in windows(n, room):
        for piece in range(window.first_kept, window.end_kept):
            edge = min(
                piece - window.start if window.start else n,
                window.end - piece if window.end < n else n,
            )
            assert edge >= room // 4


@pytest.mark.parametrize("name", NAMES)
def test_sentences_longer_than_the_table_of_positions_have_vectors(name: str) -> None:
    encoder = PretrainedEncoder.of_folder(ENCODERS / name)
    sentence = ["dog", "x" * 600, "the"] + ["dogs"] * 50
    vectors = encoder.read(sentence)
    assert vectors.shape == (len(sentence), encoder.width)
    assert np.isfinite(vectors).all()
    # a short sentence alone is read in one window
    ids, starts = encoder.pieces.read(sentence[:1])
    read = np.array([*encoder.pieces.before, *ids, *encoder.pieces.behind])
    states = encoder.transformer.hidden_states(read, encoder.record.layers)
    first = len(encoder.pieces.before)
    expected = states[first : first + starts[1]].mean(axis=0)
    np.testing.assert_allclose(encoder.read(sentence[:1])[0], expected, rtol=2e-3, atol=1e-3)


def test_a_tokenizer_of_another_model_is_refused() -> None:
    text = (ENCODERS / "roberta" / "tokenizer.json").read_text(encoding="utf-8")
    with pytest.raises(ModelFormatError, match="it belongs to another model"):
        PieceReader(text, 20)
    with pytest.raises(ModelFormatError, match="cannot be used"):
        PieceReader("{}", 20)
