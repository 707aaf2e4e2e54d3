"""`sapwood parse --tagged` and `--partial`: trees that have what the lines say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw

Run = Callable[..., Any]
AMBIGUOUS = "the man sees the dog with a hat ."


def trees(text: str) -> list[sw.Tree | None]:
    return [sw.Tree.parse(line) if line else None for line in text.splitlines()]


def test_tags_are_kept_and_lines_stay_aligned(cli: Run) -> None:
    lines = "the/DT dog/NN sleeps/VBZ ./.\n\nthe/ dog/NNP sleeps/ ./\n"
    result = cli("parse", "bundled", "-", "--tagged", "--jobs", 1, stdin=lines)
    assert result.status == 0, result.err
    first, empty, last = trees(result.out)
    assert empty is None
    assert first is not None
    assert last is not None
    assert first.tags() == ["DT", "NN", "VBZ", "."]
    assert last.tags()[1] == "NNP"


def test_tags_of_trees_are_taken(cli: Run, tmp_path: Path) -> None:
    bank = tmp_path / "gold.mrg"
    gold = list(sw.bundled_treebank("test")[:5])
    sw.write_trees(gold, bank)
    result = cli("parse", "bundled", bank, "--trees", "--tagged", "--jobs", 1)
    assert [tree and tree.tags() for tree in trees(result.out)] == [tree.tags() for tree in gold]


def test_a_required_phrase_changes_the_tree(cli: Run) -> None:
    lines = f"{AMBIGUOUS}\nthe man (VP sees (NP the dog) (PP with a hat)) .\nthe man sees " \
        "(NP the dog with a hat) .\n"  # fmt: skip
    result = cli("parse", "bundled", "-", "--partial", "--jobs", 1, stdin=lines)
    assert result.status == 0, result.err
    _, low, high = trees(result.out)
    assert low is not None
    assert high is not None
    assert ("NP", 3, 8) in high.spans()
    assert ("NP", 3, 8) not in low.spans()


def test_the_probability_of_constraints_is_told(cli: Run) -> None:
    lines = f"{AMBIGUOUS}\n\nthe man sees (NP the dog with a hat) .\n(NP man sees) the .\n"
    options = ("parse", "bundled", "-", "--partial", "--jobs", 1)
    table = cli(*options, "--scores", stdin=lines).out.splitlines()
    column = [line.split("\t")[-1] for line in table]
    assert [column[0], column[1], column[3]] == ["0.000000", "", "-inf"]
    rows = [json.loads(x) for x in cli(*options, "--json", stdin=lines).out.splitlines()]
    found = [row["constraint_log_prob"] for row in rows]
    words = AMBIGUOUS.split()
    expected = sw.Parser(sw.bundled_grammar()).parse(words, spans=[(3, 8, "NP")])
    assert found[0] == 0.0
    assert found[1] is None
    assert found[2] == pytest.approx(expected.constraint_log_prob, abs=1e-9)
    assert float(column[2]) == pytest.approx(found[2], abs=1e-6)
    assert (found[3], rows[3]["kind"]) == (None, "joined")
    plain = cli("parse", "bundled", "-", "--json", stdin="they sleep .\n").out
    assert "constraint_log_prob" not in json.loads(plain)


@pytest.mark.parametrize("decoder", ["f1", "goodman", "max-rule", "viterbi"])
def test_every_decoder_and_all_k_best_obey(cli: Run, decoder: str) -> None:
    result = cli(
        "parse", "bundled", "-", "--partial", "--k-best", 3, "--decoder", decoder, "--jobs", 1,
        stdin="the man sees (the dog with a hat) .\n",
    )  # fmt: skip
    rows = [line.split("\t") for line in result.out.splitlines() if line]
    assert rows
    for *_, tree in rows:
        assert any(span[1:] == (3, 8) for span in sw.Tree.parse(tree).spans())


def test_a_run_that_was_interrupted_goes_on(cli: Run, tmp_path: Path) -> None:
    lines, out = tmp_path / "lines.txt", tmp_path / "out.mrg"
    lines.write_text("(NP the dog) sleeps .\n(NPP the dog) sleeps .\n")
    command = ("parse", "bundled", lines, "--partial", "-o", out, "--resume", "--jobs", 1)
    refused = cli(*command)
    assert refused.status == 1
    assert f"{lines}:2:2: the label is NPP" in refused.err
    assert "NP" in refused.err.split("nearest")[1]
    assert not out.exists()
    assert Path(f"{out}.part").read_text().count("\n") == 1
    note = json.loads(Path(f"{out}.part.json").read_text())
    assert (note["tagged"], note["partial"]) == (False, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tagged", "--partial"], "not with --partial"),
        (["--tagged", "--raw"], "leave --raw and --tokenizer out"),
        (["--partial", "--raw"], "leave --raw and --tokenizer out"),
        (["--partial", "--trees"], "leave --trees out"),
    ],
)
def test_options_that_contradict_each_other(cli: Run, options: list[str], message: str) -> None:
    result = cli("parse", "bundled", "-", *options, stdin="x\n")
    assert result.status == 2
    assert message in " ".join(result.err.split())


def test_unknown_tags_are_refused_with_the_nearest(cli: Run, tmp_path: Path) -> None:
    result = cli("parse", "bundled", "-", "--tagged", stdin="the/DT dog/NNX\n")
    assert result.status == 1
    assert "<stdin>:1:12: the tag of 'dog' is NNX" in result.err
    assert "nearest that it has: 'NN', 'NNP', 'NNS'" in result.err
    bank = tmp_path / "gold.mrg"
    bank.write_text("(S (NP (QQ the) (NN dog)))\n")
    result = cli("parse", "bundled", bank, "--tagged")
    assert "--trees" in result.err
    result = cli("parse", "bundled", bank, "--tagged", "--trees")
    assert "tree 1: the tag of 'the' is QQ" in result.err


def test_processes_give_the_same(cli: Run) -> None:
    lines = "(NP the dog) sleeps .\n" * 3
    one, two = (
        cli("parse", "bundled", "-", "--partial", "--scores", "--jobs", n, stdin=lines).out
        for n in (1, 2)
    )
    assert one == two


def test_unknown_tags_get_the_nearest_in_quotes(fails: Run) -> None:
    said = fails("parse", "bundled", "-", "--tagged", stdin="the/dt dog/nn\n").err
    assert "<stdin>:1:5: the tag of 'the' is dt" in said
    assert "hint: the nearest that it has: 'DT', " in said
