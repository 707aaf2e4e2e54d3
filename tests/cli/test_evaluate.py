"""`sapwood evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sapwood as sw

GOLD = ["(S (NP (NNS dogs)) (VP (VBP bark)))", "(S (NP (NNS cats)) (VP (VBP purr)))", "(X (UH oh))"]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.mrg"
    path.write_text("\n".join(GOLD) + "\n")
    return path


def test_text(cli, gold: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.mrg").write_bytes(gold.read_bytes())
    result = cli("evaluate", gold, tmp_path / "copy.mrg")
    assert (result.status, result.err) == (0, "")
    assert result.out == sw.evaluate.bracketing(*[list(sw.read_trees(gold))] * 2).text() + "\n"


def test_json(cli, dev: Path) -> None:
    report = json.loads(cli("evaluate", dev, dev, "--json").out)
    assert report.keys() == {"all", "len40", "strict"}
    keys = {
        "sentences",
        "errors",
        "recall",
        "precision",
        "f1",
        "complete_match",
        "tagging_accuracy",
    }
    assert all(part.keys() >= keys for part in report.values())
    assert report["all"]["f1"] == report["all"]["complete_match"] == 100
    assert report["all"]["sentences"] == 300


def test_stdin(cli, gold: Path) -> None:
    text = "\n".join(GOLD)
    assert json.loads(cli("evaluate", gold, "-", "--json", stdin=text).out)["all"]["f1"] == 100
    assert json.loads(cli("evaluate", "-", gold, "--json", stdin=text).out)["all"]["f1"] == 100


def test_an_empty_line_is_a_missing_tree(cli, gold: Path) -> None:
    text = f"{GOLD[0]}\n\n{GOLD[2]}\n"
    result = cli("evaluate", gold, "-", "--json", stdin=text)
    report = json.loads(result.out)
    assert (report["all"]["errors"], report["all"]["f1"]) == (1, 100)
    assert report["strict"]["recall"] == pytest.approx(400 / 7)
    assert result.err == "EVALB drops 1 sentence; the first is number 2: No predicted tree\n"


@pytest.mark.parametrize("missing", [[0], [2], [0, 1], [0, 1, 2]])
def test_empty_lines_anywhere(cli, gold: Path, missing: list[int]) -> None:
    text = "".join("\n" if i in missing else f"{tree}\n" for i, tree in enumerate(GOLD))
    report = json.loads(cli("evaluate", gold, "-", "--json", stdin=text).out)
    assert report["all"]["errors"] == len(missing)


def test_what_parse_writes_is_aligned(cli, model: Path, gold: Path) -> None:
    trees = cli("parse", model, stdin="dogs bark\n\noh\n").out
    assert json.loads(cli("evaluate", gold, "-", "--json", stdin=trees).out)["all"]["errors"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(GOLD),
        "# comment\n" + "\n".join(GOLD),
        " ".join(GOLD),
        "\n".join(GOLD).replace(" (VP", "\n  (VP"),
        "\n\n".join(GOLD).replace(" (VP", "\n\n  (VP"),
        "\n".join(GOLD) + "\n\n\n",
        "\r\n".join(GOLD),
    ],
)
def test_other_layouts(cli, gold: Path, text: str) -> None:
    report = json.loads(cli("evaluate", gold, "-", "--json", stdin=text).out)
    assert (report["all"]["sentences"], report["all"]["errors"]) == (3, 0)
    assert report["all"]["f1"] == 100


def test_per_sentence(cli, gold: Path) -> None:
    text = cli("evaluate", gold, gold, "--per-sentence").out
    assert "=== Summary ===" in text
    assert "strict" in text
    rows = json.loads(cli("evaluate", gold, gold, "--per-sentence", "--json").out)["sentences"]
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert rows[0]["recall"] == 100


def test_raw_keeps_function_tags_apart(cli, tmp_path: Path) -> None:
    path = tmp_path / "traces.mrg"
    path.write_text("(S (NP-SBJ (NNS dogs)) (VP (VBP bark) (NP (-NONE- *T*-1))))\n")
    cleaned = "(S (NP (NNS dogs)) (VP (VBP bark)))"
    report = json.loads(cli("evaluate", path, "-", "--json", stdin=cleaned).out)
    assert report["all"]["f1"] == 100
    assert cli("evaluate", path, "-", "--raw", stdin=cleaned).status == 0


def test_raw_counts_a_repeated_label_twice(cli, tmp_path: Path) -> None:
    path = tmp_path / "gold.mrg"
    path.write_text("(S (NP (NP (NNS dogs))) (VP (VBP bark)))\n")
    cleaned = "(S (NP (NNS dogs)) (VP (VBP bark)))"
    for options, recall in (((), 100), (("--raw",), 75)):
        result = cli("evaluate", path, "-", "--json", *options, stdin=cleaned)
        assert json.loads(result.out)["all"]["recall"] == recall


# -- what goes wrong ------------------------------------------------------------------------------


def test_different_numbers_of_trees(fails, gold: Path) -> None:
    assert "- has 1 tree, but" in fails("evaluate", gold, "-", stdin=GOLD[0]).err
    more = "\n".join([*GOLD, GOLD[0]])
    assert f"- has {len(GOLD) + 1} trees, but" in fails("evaluate", gold, "-", stdin=more).err


def test_empty_files(fails, gold: Path, empty: Path) -> None:
    assert f"{empty}: no tree found" in fails("evaluate", empty, gold).err
    assert "has 0 trees" in fails("evaluate", gold, empty).err


def test_broken_trees_have_their_place(fails, gold: Path) -> None:
    text = f"{GOLD[0]}\n(S (NP\n"
    assert "error: <stdin>:2:1: " in fails("evaluate", gold, "-", stdin=text).err
    text = f"{GOLD[0]}\n(S ())\n"
    assert "error: <stdin>:2:" in fails("evaluate", gold, "-", stdin=text).err


def test_missing_file_and_folder(fails, gold: Path, tmp_path: Path) -> None:
    assert "no such file" in fails("evaluate", "none.mrg", gold).err
    assert "no such file" in fails("evaluate", gold, "none.mrg").err
    folder = tmp_path / "folder"
    folder.mkdir()
    assert "holds no file" in fails("evaluate", gold, folder).err


def test_stdin_twice(misused) -> None:
    assert "only once" in misused("evaluate", "-", "-").err


def test_too_few_arguments(misused, gold: Path) -> None:
    misused("evaluate", gold)


def test_a_word_tagged_as_punctuation_is_named(cli, tmp_path: Path) -> None:
    """EVALB's `Length unmatch` of the same words comes from a tag that it leaves out."""
    gold, predicted = tmp_path / "gold.mrg", tmp_path / "predicted.mrg"
    gold.write_text("(S (NP (NNS dogs)) (VP (VBP bark) (RB --)))\n")
    predicted.write_text("(S (NP (NNS dogs)) (VP (VBP bark)) (: --))\n")
    told = cli("evaluate", gold, predicted).err
    assert "number 1: Length unmatch (3|2), because '--' is tagged RB in the gold tree" in told
    assert "and : in the predicted one" in told
