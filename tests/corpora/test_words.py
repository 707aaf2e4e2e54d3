"""Signatures of unknown words, by example."""

from __future__ import annotations

import pytest

from sapwood.corpora.vocabulary import signatures


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
def test_english(word: str, is_first: bool, expected: list[str]) -> None:
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
def test_generic(word: str, expected: list[str]) -> None:
    found = signatures(word, is_first=False, style="generic")
    assert found == (*(f"<unk-{name}>" for name in expected), "<unk>")
