"""Rows of a vocabulary, and signatures of unknown words."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary, signatures

WORDS = ("the", "Kim", "dog", "-LRB-", "-RRB-")
CLASSES = (UNKNOWN, "<unk-lower>", "<unk-lower-ing>", "<unk-Capital>")
known = Vocabulary(WORDS, CLASSES, "english")


def rows_of(*names: str) -> list[int]:
    return [(*WORDS, *CLASSES).index(name) for name in names]


def test_a_known_word_is_itself_wherever_it_stands() -> None:
    for row, word in enumerate(WORDS):
        assert known.row(word, is_first=True) == known.row(word, is_first=False) == row


def test_a_capital_at_the_start_is_that_of_the_sentence() -> None:
    assert known.rows(["The", "dog", "The"]).tolist() == rows_of("the", "dog", "<unk-Capital>")
    assert known.row("kim", is_first=True) == known.row("kim", is_first=False)  # not the other way


@pytest.mark.parametrize("word", ["THE", "tHe", "DOg"])
def test_only_the_first_letter_is_forgiven(word: str) -> None:
    assert known.row(word, is_first=True) >= len(WORDS)


def test_brackets_are_found_in_either_spelling() -> None:
    assert known.rows(["a", "(", "-LRB-", ")"]).tolist()[1:] == rows_of("-LRB-", "-LRB-", "-RRB-")


def test_the_name_of_a_class_is_its_own() -> None:
    found = [known.row(name, is_first=False) for name in CLASSES]
    assert found == rows_of(*CLASSES)


def test_unknown_words_are_of_the_most_telling_class_that_is_known() -> None:
    words = ["walking", "walked", "Walking", "1990"]
    found = known.rows(["x", *words]).tolist()[1:]
    assert found == rows_of("<unk-lower-ing>", "<unk-lower>", "<unk-Capital>", UNKNOWN)


@given(st.text(min_size=1, max_size=8), st.booleans())
def test_any_word_has_a_row(word: str, is_first: bool) -> None:
    row = known.row(word, is_first=is_first)
    chain = signatures(word, is_first=is_first, style=known.style)
    own = known.class_row(word, is_first=is_first)
    assert known[own] == next(name for name in chain if name in CLASSES)
    assert row == own or row < len(WORDS) or word in CLASSES


def test_rows_have_names() -> None:
    assert [known[row] for row in range(len(known))] == [*WORDS, *CLASSES]
    assert repr(known) == "<Vocabulary: 5 words, 4 classes of others>"


def test_what_was_looked_up_is_neither_compared_nor_pickled() -> None:
    fresh = Vocabulary(WORDS, CLASSES, "english")
    before = pickle.dumps(fresh)
    fresh.row("dog", is_first=False)
    assert pickle.dumps(fresh) == before
    assert pickle.loads(before) == fresh == known
    assert replace(fresh, style="generic") != fresh


@pytest.mark.parametrize(
    ("word", "is_first", "expected"),
    [
        ("walking", False, ["lower-ing", "lower"]),
        ("king", False, ["lower"]),  # hardly more than the ending
        ("aking", False, ["lower"]),
        ("baking", False, ["lower-ing", "lower"]),
        ("Walking", False, ["Capital-ing", "Capital"]),
        ("Walking", True, ["First-ing", "First"]),  # a capital at the start says little
        ("walking", True, ["lower-ing", "lower"]),
        ("well-known", False, ["lower-dash", "lower"]),
        ("half-baked", False, ["lower-dash-ed", "lower-dash", "lower"]),
        ("DNA", False, ["CAPITALS"]),
        ("I", False, ["Capital"]),
        ("iPod", False, ["inner"]),
        ("1990", False, ["digits"]),
        ("1990-91", False, ["digits-dash", "digits"]),
        ("3rd", False, ["mixed"]),
        ("%", False, ["symbol"]),
        ("--", False, ["symbol-dash", "symbol"]),
        ("boxes", False, ["lower-es", "lower"]),  # the first that fits, longer ones before shorter
        ("dogs", False, ["lower-s", "lower"]),
    ],
)
def test_english_signatures(word: str, is_first: bool, expected: list[str]) -> None:
    found = signatures(word, is_first=is_first, style="english")
    assert found == (*(f"<unk-{name}>" for name in expected), "<unk>")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("hestur", ["lower-stur", "lower-tur", "lower-ur", "lower-r", "lower"]),
        ("Á", ["Capital"]),
        ("og", ["lower"]),  # a letter at least must be left
        ("dag", ["lower-g", "lower"]),
        ("vel-gert", ["lower-dash-gert", "lower-dash-ert", "lower-dash-rt", "lower-dash-t",
                      "lower-dash", "lower"]),
    ],
)  # fmt: skip
def test_generic_signatures(word: str, expected: list[str]) -> None:
    found = signatures(word, is_first=False, style="generic")
    assert found == (*(f"<unk-{name}>" for name in expected), "<unk>")
