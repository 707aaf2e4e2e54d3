"""`sapwood identify`: one question, and the table."""

from __future__ import annotations

import json

import pytest

KEYS = (
    "family", "words", "states", "length", "moments", "parameters", "rank", "deficit",
    "identifiable",
)  # fmt: skip


def ask(cli, *args: object) -> dict:
    result = cli("identify", *args, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_identifiable(cli) -> None:
    result = cli("identify", "pcfg-ie", "--words", 4, "--states", 2, "--length", 4)
    assert result.status == 0
    assert result.out.startswith("identifiable: pcfg-ie with 4 words and 2 states from pairs")
    assert "hint" not in result.out
    assert result.err == ""


def test_not_identifiable_is_an_answer_with_a_hint(cli) -> None:
    result = cli("identify", "dep-i", "--words", 3, "--length", 2, "--moments", "all")
    assert result.status == 0
    assert result.out.startswith("not identifiable: dep-i with 3 words from whole sentences")
    assert "identifiable with --moments pairs --length 3" in result.out


def test_families_may_be_written_in_capitals(cli) -> None:
    assert ask(cli, "DEP-IES", "--words", 3, "--length", 3)["family"] == "dep-ies"


def test_json(cli) -> None:
    report = ask(cli, "pcfg", "--words", 4, "--states", 3, "--length", 3, "--moments", "triples")
    assert tuple(report)[:9] == KEYS
    assert [report[key] for key in KEYS] == ["pcfg", 4, 3, 3, "triples", 35, 29, 6, False]
    assert "pcfg-ie" in report["hint"]
    assert "directions" not in report


def test_json_of_dependencies_has_no_states(cli) -> None:
    report = ask(cli, "dep-ies", "--words", 3, "--length", 3, "--moments", "pairs")
    assert [report[key] for key in KEYS] == ["dep-ies", 3, None, 3, "pairs", 6, 6, 0, True]
    assert report["hint"] is None


def test_directions(cli) -> None:
    args = ("dep-ie", "--words", 3, "--length", 2, "--moments", "12", "--directions")
    report = ask(cli, *args)
    assert len(report["directions"]) == report["deficit"] == 3
    assert report["directions"][0].keys() == report["point"].keys() == {"root", "argument"}


@pytest.mark.parametrize("moments", ["13", "1,3", "12+13", "pairs+123e2"])
def test_own_moments(cli, moments: str) -> None:
    report = ask(cli, "dep-i", "--words", 3, "--length", 3, "--moments", moments)
    assert report["moments"] == moments
    assert report["identifiable"] == (moments not in ("13", "1,3"))


def test_more_states_than_words_are_answered_with_a_note(cli) -> None:
    args = ("--words", 2, "--states", 3, "--length", 5, "--moments", "triples")
    result = cli("identify", "pcfg-ie", *args)
    assert result.status == 0
    assert result.err == "note: more states than words, which is outside the range of the table\n"


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (("cfg", "--words", 3), "unknown model family 'cfg'", "dep-ies"),
        (("pcfg", "--words", 3, "--length", 3), "missing", "--states"),
        (("dep-i", "--words", 3, "--states", 2, "--length", 3), "no hidden states", "--states"),
        (("dep-i", "--words", 3, "--length", 3, "--moments", "x"), "moments 'x'", "triples-e1"),
        (("dep-i", "--words", 3, "--length", 3, "--moments", ""), "moments ''", "triples-e1"),
        (("dep-i", "--words", 3, "--length", 3, "--moments", "14"), "position 4", "1 to 3"),
        (("dep-i", "--words", 3, "--length", 99), "99", "60"),
        (("dep-i", "--words", 999, "--length", 9), "GB of memory", "fewer words"),
        (("pcfg", "--words", 9, "--states", 999, "--length", 3), "GB of memory", "states"),
        (("table", "--max-words", 200), "GB of memory", "fewer words"),
    ],
)
def test_bad_questions_fail_in_one_line(fails, args: tuple, message: str, hint: str) -> None:
    result = fails("identify", *args)
    error, advice = result.err.splitlines()
    assert message in error
    assert hint in advice
    assert result.out == ""


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("dep-i", "--length", 3),
        ("dep-i", "--words", 3),
        ("dep-i", "--words", 0, "--length", 3),
        ("dep-i", "--words", 3, "--length", 3, "--max-words", 4),
        ("dep-i", "--words", 3, "--length", 3, "--directions"),
        ("table", "--words", 3),
        ("table", "--moments", "pairs"),
        ("table", "--directions"),
        ("table", "--max-length", 1),
    ],
)
def test_wrong_usage(misused, args: tuple) -> None:
    misused("identify", *args)


def test_table(cli) -> None:
    result = cli("identify", "table", "--max-words", 3, "--max-states", 3, "--max-length", 4)
    assert result.status == 0
    lines = [line.split(maxsplit=2) for line in result.out.splitlines()[1:43]]
    found = {(family, moments): rest for family, moments, rest in lines}
    assert found["pcfg-i", "pairs"].startswith("yes iff L >= 4")
    assert found["pcfg-ie", "triples-e1"].startswith("yes for L >= 4, at L = 3 with 2 states")
    assert found["pcfg-ie", "triples-e1"].endswith("differs")
    assert all(rest.startswith("no ") for (family, _), rest in found.items() if family == "pcfg")
    assert result.err == ""


def test_table_as_json(cli) -> None:
    rows = ask(cli, "table", "--max-words", 2, "--max-states", 2, "--max-length", 3)
    assert len(rows) == 42
    assert rows[0].keys() == {"family", "moments", "answer", "paper", "agrees", "deficits"}
