"""`sapwood identify`: one family, the table, and bounds of sample sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.theorems.spectral_toys import random_lpcfg

import sapwood as sw
from sapwood.constituency.evaluate.sample_bounds import hidden_constants

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


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of two states whose labels can all be told apart."""
    path = tmp_path_factory.mktemp("models") / "toy.sapwood"
    random_lpcfg(0, 2).grammar(is_probabilistic=True).save(path)
    return path


def ask_bounds(cli, *args: object) -> dict:
    result = cli("identify", "bounds", *args, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_the_numbers_are_those_of_the_theorem(cli, toy: Path) -> None:
    report = ask_bounds(cli, toy, "--length", 4)
    hidden = hidden_constants(sw.load(toy))
    assert (report["sigma"], report["xi"]) == pytest.approx((hidden.sigma, hidden.xi))
    assert (report["states"], report["length"], report["depth"]) == (2, 4, 1)
    # R = L N^2 m^3 / (epsilon^2 sigma^2), with N = 3 binary rules for 4 words
    labels = report["phrases"] + report["tags"]
    share = np.log((2 * labels + 1) / 0.05) * 3**2 * 2**3 / 0.1**2
    assert report["roots"] == pytest.approx(share / hidden.sigma**2)
    assert report["trees"] > report["phrase_nodes"] > 1e20
    assert [row["xi"] for row in report["labels"]] == sorted(hidden.by_label.values())


def test_longer_sentences_and_smaller_errors_ask_for_more(cli, toy: Path) -> None:
    plain = ask_bounds(cli, toy)["trees"]
    assert ask_bounds(cli, toy, "--length", 39)["trees"] == pytest.approx(4 * plain)  # (38 / 19)^2
    assert ask_bounds(cli, toy, "--epsilon", 0.01)["trees"] == pytest.approx(100 * plain)
    assert ask_bounds(cli, toy, "--delta", 0.01)["trees"] > plain


def test_features_that_tell_more_need_fewer_trees(cli) -> None:
    near, far = (ask_bounds(cli, "bundled", "--depth", depth)["labels"] for depth in (1, 2))
    assert sum(not row["xi"] for row in far) < sum(not row["xi"] for row in near)


def test_the_text_says_how_loose_it_is(cli, toy: Path) -> None:
    result = cli("identify", "bounds", toy)
    assert result.status == 0
    assert "Enough, but far from necessary" in result.out
    assert "trees of 20 words" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    nothing = cli("identify", "bounds", "bundled").out
    assert "The theorem promises nothing here, since sigma and xi = 0" in nothing
    assert "trees        none promised" in nothing


def test_states_alike_are_null_in_json(cli) -> None:
    report = ask_bounds(cli, "bundled")
    assert (report["trees"], report["xi"]) == (None, 0.0)
    assert report["impossible"] > 0


def test_models_without_probabilities_are_refused(fails, spectral: Path, tmp_path: Path) -> None:
    result = fails("identify", "bounds", spectral)
    assert "holds weights, not probabilities of hidden states (method spectral)" in result.err
    assert "hint: give a grammar of method pcfg, em" in result.err
    crf = tmp_path / "crf.sapwood"
    sw.SpanCRF(passes=1).fit(sw.bundled_treebank("dev")[:20]).model_.save(crf)
    assert "(method crf)" in fails("identify", "bounds", crf).err


def test_one_grammar_of_an_ensemble(cli, fails, ensemble: Path) -> None:
    assert "--member K takes one" in fails("identify", "bounds", ensemble).err
    assert ask_bounds(cli, ensemble, "--member", 2)["states"] == 1
    assert "has no member 9" in fails("identify", "bounds", ensemble, "--member", 9).err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bounds",), "MODEL: missing"),
        (("bounds", "bundled", "--words", 3), "bounds are about a model"),
        (("bounds", "bundled", "--max-words", 3), "it is for `sapwood identify table`"),
        (("bounds", "bundled", "--epsilon", 0), "--epsilon"),
        (("bounds", "bundled", "--delta", 1), "--delta"),
        (("pcfg", "bundled"), "it is for `sapwood identify bounds`"),
        (("table", "--depth", 2), "it is for `sapwood identify bounds`"),
    ],
)
def test_misuse_of_bounds(misused, args: tuple[object, ...], message: str) -> None:
    assert message in misused("identify", *args).err
