"""`sapwood evaluate --errors` and `--reliability`, and trees read from `sapwood parse --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw

GOLD = [
    "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NNS men)) (PP (IN in) (NP (NN town))))))",
    "(S (NP (NNS cats)) (VP (VBP purr)))",
]
PREDICTED = [
    "(S (NP (PRP I)) (VP (VBD saw) (NP (NNS men)) (PP (IN in) (NP (NN town)))))",
    "(S (NP (NNS cats)) (VP (VB purr)))",
]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.mrg"
    path.write_text("\n".join(GOLD) + "\n")
    return path


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short dev trees, one of them a single word."""
    trees = [tree for tree in sw.bundled_treebank("dev").trees() if len(tree.words()) < 12][:25]
    path = tmp_path_factory.mktemp("right") / "gold.mrg"
    path.write_text("".join(f"{tree}\n" for tree in [*trees, "(TOP (X (UH Oh)))"]))
    return path


@pytest.fixture
def parsed(cli, right: Path, tmp_path: Path) -> Path:
    """What the bundled grammar makes of their words, as JSON."""
    text = "".join(" ".join(tree.words()) + "\n" for tree in sw.read_trees(right))
    path = tmp_path / "parsed.jsonl"
    path.write_text(cli("parse", "bundled", "--json", stdin=text).out)
    return path


def line(tree: str | None, constituents: Any = ()) -> str:
    """A line as `sapwood parse --json` writes it, every probability one half unless given."""
    rooted = tree and f"(TOP {tree})"
    spans = sw.Tree.parse(rooted).spans()[1:] if rooted else []
    listed = [{"label": a, "start": i, "end": j, "probability": 0.5} for a, i, j in spans]
    return json.dumps(
        {"tree": rooted, "constituents": listed if constituents == () else constituents}
    )


# -- errors ---------------------------------------------------------------------------------------


def test_errors_read_well(cli, gold: Path) -> None:
    result = cli("evaluate", gold, "-", "--errors", stdin="\n".join(PREDICTED))
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 100
    rows = [" ".join(row.split()) for row in lines]
    for row in (
        "Bracketing Recall 90.00 90.00 90.00",
        "NP 5 80.00 100.00 88.89 1 0",
        "PP attachment 1 1 0 100.0 %",
        "1 PP: in town",
        "gold in NP: men in town",
        "predicted in VP: saw men in town",
    ):
        assert row in rows
    assert "VBP -> VB" in result.out


def test_errors_as_json_add_up(cli, right: Path, parsed: Path) -> None:
    report = json.loads(cli("evaluate", right, parsed, "--errors", "--examples", 1, "--json").out)
    errors, scores = report["errors"], report["all"]
    for side, whole in (("missing", "gold_brackets"), ("extra", "predicted_brackets")):
        wrong = scores[whole] - scores["matched"]
        assert errors[side] == wrong > 0
        assert sum(kind[side] for kind in errors["kinds"].values()) == wrong
        assert sum(label[side] for label in errors["labels"].values()) == wrong
    assert all(len(kind["examples"]) == 1 for kind in errors["kinds"].values())
    n_wrong_tags = scores["words"] - scores["correct_tags"]
    assert sum(pair["count"] for pair in errors["wrong_tags"]) == n_wrong_tags


def test_number_of_examples(cli, gold: Path) -> None:
    text = "\n".join(PREDICTED)
    assert "Examples" not in cli("evaluate", gold, "-", "--errors", "--examples", 0, stdin=text).out
    assert "Examples" in cli("evaluate", gold, "-", "--errors", stdin=text).out
    assert "Examples" not in cli("evaluate", gold, "-", stdin=text).out


def test_no_errors_at_all(cli, gold: Path) -> None:
    assert "No wrong bracket, no wrong tag." in cli("evaluate", gold, gold, "--errors").out


def test_long_phrases_are_shortened(cli, tmp_path: Path) -> None:
    words = " ".join(f"(NN word{i})" for i in range(60))
    path = tmp_path / "long.mrg"
    path.write_text(f"(S (NP (NP {words}) (PP (IN in) (NP (NN town)))) (VP (VB b)))\n")
    flat = f"(S (NP {words}) (PP (IN in) (NP (NN town))) (VP (VB b)))"
    text = cli("evaluate", path, "-", "--errors", stdin=flat).out
    assert "…" in text
    assert max(map(len, text.splitlines())) <= 100


def test_examples_without_errors(misused, gold: Path) -> None:
    assert "--errors" in misused("evaluate", gold, gold, "--examples", 3).err


# -- reliability ----------------------------------------------------------------------------------


def test_json_lines_score_as_their_trees(cli, right: Path, parsed: Path) -> None:
    trees = [json.loads(item)["tree"] for item in parsed.read_text().splitlines()]
    by_json = json.loads(cli("evaluate", right, parsed, "--json").out)
    by_trees = json.loads(cli("evaluate", right, "-", "--json", stdin="\n".join(trees)).out)
    assert by_json == by_trees
    from_stdin = cli("evaluate", right, "-", "--json", stdin=parsed.read_text()).out
    assert json.loads(from_stdin) == by_trees


def test_reliability_of_a_parser(cli, right: Path, parsed: Path) -> None:
    found = json.loads(cli("evaluate", right, parsed, "--reliability", "--json").out)["reliability"]
    assert sum(one["count"] for one in found["bins"]) == found["count"] > 50
    assert 0 < found["brier"] < 0.25  # 0.25 is what one half everywhere would get
    assert 0 < found["ece"] < 0.5
    text = cli("evaluate", right, parsed, "--reliability").out
    assert f"Expected calibration error {found['ece']:.4f}" in text
    assert f"Brier score {found['brier']:.4f}" in text


def test_reliability_by_hand(cli, gold: Path) -> None:
    """6 and 3 phrases, tags apart, each at one half and each in the gold tree."""
    text = "\n".join([line(PREDICTED[0]), line(PREDICTED[1])])
    result = cli("evaluate", gold, "-", "--reliability", "--json", stdin=text)
    found = json.loads(result.out)["reliability"]
    assert (found["count"], found["correct"], found["probability"]) == (9, 1.0, 0.5)
    assert (found["ece"], found["brier"]) == (0.5, 0.25)
    assert found["bins"][5]["count"] == 9


def test_phrases_that_cannot_be_graded_are_told(cli, gold: Path) -> None:
    word = {"start": 0, "end": 1, "probability": None}
    unknown = [{"label": label} | word for label in ("X", "UH")]
    text = line(PREDICTED[0]) + "\n" + line("(X (UH oh))", unknown)
    result = cli("evaluate", gold, "-", "--reliability", stdin=text)
    assert "reliability: without 1 sentence whose words differ" in result.err
    gold.write_text(f"{GOLD[0]}\n(TOP (X (UH oh)))\n")
    result = cli("evaluate", gold, "-", "--reliability", stdin=text)
    assert "reliability: without 1 phrase of no known probability" in result.err
    assert result.status == 0


def test_an_empty_line_parsed_is_a_missing_tree(cli, gold: Path) -> None:
    text = line(PREDICTED[0]) + "\n" + line(None) + "\n\n"
    report = json.loads(cli("evaluate", gold, "-", "--json", stdin=text).out)
    assert report["all"]["errors"] == 1


@pytest.mark.parametrize(("name", "start"), [("r.png", b"\x89PNG"), ("r.svg", b"<?xml")])
def test_plot(cli, right: Path, parsed: Path, tmp_path: Path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    assert cli("evaluate", right, parsed, "--reliability", "--plot", path).status == 0
    assert path.read_bytes().startswith(start)


def test_plot_without_matplotlib(fails, gold: Path, tmp_path: Path, no_matplotlib: None) -> None:
    result = fails("evaluate", gold, gold, "--reliability", "--plot", tmp_path / "r.png")
    assert "pip install matplotlib" in result.err


def test_plot_of_nothing(misused, gold: Path, tmp_path: Path) -> None:
    assert "--reliability" in misused("evaluate", gold, gold, "--plot", tmp_path / "r.png").err


# -- what goes wrong ------------------------------------------------------------------------------


def test_trees_have_no_probabilities(fails, gold: Path) -> None:
    result = fails("evaluate", gold, gold, "--reliability")
    assert f"{gold}: trees without the probabilities" in result.err
    assert "parse MODEL FILE --json" in result.err


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (PREDICTED[1], "expected a JSON object, found other text"),
        ("[1]", "expected a JSON object, found '[1]'"),
        ("{}", 'expected an object with a "tree"'),
        ('{"tree": 3}', 'expected an object with a "tree"'),
        (json.dumps({"tree": "(S (NP"}), "in its tree: "),
    ],
)
def test_bad_lines(fails, gold: Path, second: str, message: str) -> None:
    text = f"{line(PREDICTED[0])}\n{second}\n"
    result = fails("evaluate", gold, "-", stdin=text)
    assert f"<stdin>:2: {message}" in result.err
    assert "hint: " in result.err


@pytest.mark.parametrize(
    ("constituents", "message"),
    [
        (None, 'no "constituents"'),
        ([3], "a constituent without label"),
        ([], "the constituents are not those of the tree"),
        (
            [{"label": "NP", "start": 0, "end": 1, "probability": 1.5}],
            "expected a probability from 0 to 1, or null, found 1.5",
        ),
    ],
)
def test_bad_constituents(cli, fails, gold: Path, constituents: Any, message: str) -> None:
    text = f"{line(PREDICTED[0])}\n{line(PREDICTED[1], constituents)}\n"
    result = fails("evaluate", gold, "-", "--reliability", stdin=text)
    assert f"<stdin>:2: {message}" in result.err
    assert cli("evaluate", gold, "-", stdin=text).status == 0  # the trees are all that is needed


def test_trees_with_a_json_line_among_them(fails, gold: Path) -> None:
    text = f"{PREDICTED[0]}\n{line(PREDICTED[1])}\n"
    assert "<stdin>:2:1: " in fails("evaluate", gold, "-", stdin=text).err


def test_other_numbers_of_sentences(fails, gold: Path) -> None:
    result = fails("evaluate", gold, "-", "--reliability", stdin=line(PREDICTED[0]))
    assert "- has 1 tree, but" in result.err


def test_no_probability_at_all(fails, gold: Path) -> None:
    text = "\n".join([line("(X (UH oh))")] * 2)
    result = fails("evaluate", gold, "-", "--reliability", stdin=text)
    assert "no phrase with a probability" in result.err
