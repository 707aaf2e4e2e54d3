"""`sapwood depend evaluate`, `convert` and `draw`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import sapwood as sw
from sapwood.dependency.data.bank import Arcs

GOLD = [
    Arcs(["Big", "dogs", "bark"], [2, 3, 0], ["amod", "nsubj", "root"], ["ADJ", "NOUN", "VERB"]),
    Arcs(["They", "do", "it", "well"], [2, 0, 4, 2], ["nsubj", "root", "obj", "advmod"]),
    Arcs(["a", "b", "c", "d"], [3, 0, 2, 3], ["obl", "root", "acl", "x"]),
]
TREE = "(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.conllu"
    sw.write_arcs(GOLD, path)
    return path


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    path = tmp_path / "predicted.conllu"
    worse = Arcs(GOLD[0].words, [3, 3, 0], GOLD[0].relations, GOLD[0].upos)
    sw.write_arcs([worse, *GOLD[1:]], path)
    return path


def test_evaluate_for_machines(cli, gold: Path, predicted: Path) -> None:
    result = cli("depend", "evaluate", gold, predicted, "--json")
    assert json.loads(result.out) == pytest.approx(
        {"uas": 100 * 10 / 11, "las": 100 * 10 / 11, "complete": 200 / 3, "upos": 100.0,
         "sentences": 3, "tokens": 11}
    )  # fmt: skip
    assert (result.status, result.err) == (0, "")


def test_evaluate_for_people(cli, gold: Path, predicted: Path) -> None:
    lines = cli("depend", "evaluate", gold, predicted).out.splitlines()
    assert lines[0] == "3 sentences  11 words"
    assert lines[2].split() == ["UAS", "90.91"]
    assert lines[4].split() == ["complete", "trees", "66.67"]


def test_evaluate_against_another(cli, gold: Path, predicted: Path) -> None:
    result = cli("depend", "evaluate", gold, gold, "--against", predicted, "--json")
    report = json.loads(result.out)
    assert report["uas"] == 100.0
    assert report["against"]["uas"] == pytest.approx(90.909, abs=1e-3)
    gain = report["against"]["differences"]["uas"]
    assert gain["points"] == pytest.approx(9.091, abs=1e-3)
    assert gain["p_value"] == pytest.approx(1.0)  # one sentence tells nothing
    text = cli("depend", "evaluate", gold, gold, "--against", predicted).out
    assert "+9.09" in text


def test_evaluate_reads_stdin_once(cli, misused, gold: Path) -> None:
    text = gold.read_text()
    assert cli("depend", "evaluate", gold, "-", stdin=text).status == 0
    misused("depend", "evaluate", "-", "-", stdin=text)


def test_evaluate_says_which_sentence_differs(fails, gold: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.conllu"
    sw.write_arcs(GOLD[:2], other)
    assert (
        "other.conllu: 2 sentences predicted, but 3" in fails("depend", "evaluate", gold, other).err
    )


def test_convert_trees(cli, tmp_path: Path) -> None:
    trees, out = tmp_path / "a.mrg", tmp_path / "a.conllu"
    trees.write_text(TREE * 2)
    result = cli("depend", "convert", trees, "-o", out, "--heads", "penn")
    assert result.status == 0
    assert "2 sentences  8 words  0 not projective" in result.err
    assert sw.read_arcs(out)[1].heads == (2, 3, 0, 3)
    assert cli("depend", "convert", "-", "--heads", "penn", stdin=TREE).out.startswith("1\tthe\t")


def test_convert_lifts_and_lowers(cli, gold: Path, tmp_path: Path) -> None:
    lifted, back = tmp_path / "lifted.conllu", tmp_path / "back.conllu"
    assert "1 not projective, lifted" in cli("depend", "convert", gold, "--lift", "-o", lifted).err
    assert all(arcs.is_projective() for arcs in sw.read_arcs(lifted))
    assert cli("depend", "convert", lifted, "--lower", "-o", back).status == 0
    assert back.read_text() == gold.read_text()


def test_convert_refuses_what_makes_no_sense(misused, fails, gold: Path, tmp_path: Path) -> None:
    misused("depend", "convert", gold, "--lift", "--lower")
    misused("depend", "convert", gold, "--heads", "french")
    assert "input" in fails("depend", "convert", gold, "-o", gold).err
    kept = tmp_path / "mine.conllu"
    kept.write_text("precious")
    fails("depend", "convert", gold, "-o", kept)
    assert kept.read_text() == "precious"


@pytest.mark.parametrize("command", ["convert", "draw"])
def test_bad_sentences_stop_or_are_counted(cli, fails, tmp_path: Path, command: str) -> None:
    path = tmp_path / "bad.conllu"
    good = f"{GOLD[0]}\n\n"
    path.write_text(good + good.replace("\t0\t", "\t1\t") + good)
    error = fails("depend", command, path).err
    assert "bad.conllu:5: words 1 and 2 hang on each other in a circle" in error
    result = cli("depend", command, path, "--skip-bad")
    assert result.status == 0
    assert "skipped 1 broken tree; the first: " in result.err


def test_nothing_readable_is_an_error(fails, tmp_path: Path, empty: Path) -> None:
    assert "no sentence found" in fails("depend", "draw", empty).err
    path = tmp_path / "bad.conllu"
    path.write_text("1\tx\n")
    error = fails("depend", "draw", path, "--skip-bad").err
    assert "1 tree skipped; the first" in error


def test_draw(cli, misused, fails, gold: Path, tmp_path: Path) -> None:
    text = cli("depend", "draw", gold).out
    assert text.startswith(GOLD[0].draw() + "\n\n" + GOLD[1].draw())
    assert cli("depend", "draw", gold, "--sentence", 2, "--as", "latex").out.startswith(r"\begin{d")
    out = tmp_path / "tree.svg"
    assert cli("depend", "draw", gold, "--sentence", 1, "--as", "svg", "-o", out).status == 0
    ElementTree.fromstring(out.read_text())
    misused("depend", "draw", gold, "--as", "svg")
    assert "there is no sentence 4" in fails("depend", "draw", gold, "--sentence", 4).err
