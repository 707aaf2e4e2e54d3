"""`sapwood evaluate`: scores, errors and reliability of predicted trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


GOLD_WITH_ERRORS = [
    "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NNS men)) (PP (IN in) (NP (NN town))))))",
    "(S (NP (NNS cats)) (VP (VBP purr)))",
]
PREDICTED = [
    "(S (NP (PRP I)) (VP (VBD saw) (NP (NNS men)) (PP (IN in) (NP (NN town)))))",
    "(S (NP (NNS cats)) (VP (VB purr)))",
]


@pytest.fixture
def gold_with_errors(tmp_path: Path) -> Path:
    path = tmp_path / "gold.mrg"
    path.write_text("\n".join(GOLD_WITH_ERRORS) + "\n")
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


def test_errors_read_well(cli, gold_with_errors: Path) -> None:
    result = cli("evaluate", gold_with_errors, "-", "--errors", stdin="\n".join(PREDICTED))
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


def test_number_of_examples(cli, gold_with_errors: Path) -> None:
    text = "\n".join(PREDICTED)
    assert (
        "Examples"
        not in cli("evaluate", gold_with_errors, "-", "--errors", "--examples", 0, stdin=text).out
    )
    assert "Examples" in cli("evaluate", gold_with_errors, "-", "--errors", stdin=text).out
    assert "Examples" not in cli("evaluate", gold_with_errors, "-", stdin=text).out


def test_no_errors_at_all(cli, gold_with_errors: Path) -> None:
    assert (
        "No wrong bracket, no wrong tag."
        in cli("evaluate", gold_with_errors, gold_with_errors, "--errors").out
    )


def test_long_phrases_are_shortened(cli, tmp_path: Path) -> None:
    words = " ".join(f"(NN word{i})" for i in range(60))
    path = tmp_path / "long.mrg"
    path.write_text(f"(S (NP (NP {words}) (PP (IN in) (NP (NN town)))) (VP (VB b)))\n")
    flat = f"(S (NP {words}) (PP (IN in) (NP (NN town))) (VP (VB b)))"
    text = cli("evaluate", path, "-", "--errors", stdin=flat).out
    assert "…" in text
    assert max(map(len, text.splitlines())) <= 100


def test_examples_without_errors(misused, gold_with_errors: Path) -> None:
    assert (
        "--errors" in misused("evaluate", gold_with_errors, gold_with_errors, "--examples", 3).err
    )


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


def test_reliability_by_hand(cli, gold_with_errors: Path) -> None:
    """6 and 3 phrases, tags apart, each at one half and each in the gold tree."""
    text = "\n".join([line(PREDICTED[0]), line(PREDICTED[1])])
    result = cli("evaluate", gold_with_errors, "-", "--reliability", "--json", stdin=text)
    found = json.loads(result.out)["reliability"]
    assert (found["count"], found["correct"], found["probability"]) == (9, 1.0, 0.5)
    assert (found["ece"], found["brier"]) == (0.5, 0.25)
    assert found["bins"][5]["count"] == 9


def test_phrases_that_cannot_be_graded_are_told(cli, gold_with_errors: Path) -> None:
    word = {"start": 0, "end": 1, "probability": None}
    unknown = [{"label": label} | word for label in ("X", "UH")]
    text = line(PREDICTED[0]) + "\n" + line("(X (UH oh))", unknown)
    result = cli("evaluate", gold_with_errors, "-", "--reliability", stdin=text)
    assert "reliability: without 1 sentence whose words differ" in result.err
    gold_with_errors.write_text(f"{GOLD_WITH_ERRORS[0]}\n(TOP (X (UH oh)))\n")
    result = cli("evaluate", gold_with_errors, "-", "--reliability", stdin=text)
    assert "reliability: without 1 phrase of no known probability" in result.err
    assert result.status == 0


def test_an_empty_line_parsed_is_a_missing_tree(cli, gold_with_errors: Path) -> None:
    text = line(PREDICTED[0]) + "\n" + line(None) + "\n\n"
    report = json.loads(cli("evaluate", gold_with_errors, "-", "--json", stdin=text).out)
    assert report["all"]["errors"] == 1


@pytest.mark.parametrize(("name", "start"), [("r.png", b"\x89PNG"), ("r.svg", b"<?xml")])
def test_plot(cli, right: Path, parsed: Path, tmp_path: Path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    assert cli("evaluate", right, parsed, "--reliability", "--plot", path).status == 0
    assert path.read_bytes().startswith(start)


def test_plot_without_matplotlib(
    fails, gold_with_errors: Path, tmp_path: Path, no_matplotlib: None
) -> None:
    result = fails(
        "evaluate",
        gold_with_errors,
        gold_with_errors,
        "--reliability",
        "--plot",
        tmp_path / "r.png",
    )
    assert "pip install matplotlib" in result.err


def test_plot_of_nothing(misused, gold_with_errors: Path, tmp_path: Path) -> None:
    assert (
        "--reliability"
        in misused("evaluate", gold_with_errors, gold_with_errors, "--plot", tmp_path / "r.png").err
    )


# -- what goes wrong ------------------------------------------------------------------------------


def test_trees_have_no_probabilities(fails, gold_with_errors: Path) -> None:
    result = fails("evaluate", gold_with_errors, gold_with_errors, "--reliability")
    assert f"{gold_with_errors}: the trees have no probabilities" in result.err
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
def test_bad_lines(fails, gold_with_errors: Path, second: str, message: str) -> None:
    text = f"{line(PREDICTED[0])}\n{second}\n"
    result = fails("evaluate", gold_with_errors, "-", stdin=text)
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
def test_bad_constituents(
    cli, fails, gold_with_errors: Path, constituents: Any, message: str
) -> None:
    text = f"{line(PREDICTED[0])}\n{line(PREDICTED[1], constituents)}\n"
    result = fails("evaluate", gold_with_errors, "-", "--reliability", stdin=text)
    assert f"<stdin>:2: {message}" in result.err
    assert (
        cli("evaluate", gold_with_errors, "-", stdin=text).status == 0
    )  # the trees are all that is needed


def test_trees_with_a_json_line_among_them(fails, gold_with_errors: Path) -> None:
    text = f"{PREDICTED[0]}\n{line(PREDICTED[1])}\n"
    assert "<stdin>:2:1: " in fails("evaluate", gold_with_errors, "-", stdin=text).err


def test_other_numbers_of_sentences(fails, gold_with_errors: Path) -> None:
    result = fails("evaluate", gold_with_errors, "-", "--reliability", stdin=line(PREDICTED[0]))
    assert "- has 1 tree, but" in result.err


def test_no_probability_at_all(fails, gold_with_errors: Path) -> None:
    text = "\n".join([line("(X (UH oh))")] * 2)
    result = fails("evaluate", gold_with_errors, "-", "--reliability", stdin=text)
    assert "no phrase with a probability" in result.err
