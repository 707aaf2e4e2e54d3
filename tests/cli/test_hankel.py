"""`sapwood hankel`, and other commands on models of strings."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
from benchmarks.papers.targets import dyck
from tests.conftest import Run

from sapwood.core.errors import FewDataWarning, SapwoodWarning
from sapwood.core.model_files import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hankel")
    drawn = dyck().sample(400, seed=1)
    (path / "trees.mrg").write_text("".join(f"{tree}\n" for tree in drawn))
    strings = [" ".join(tree.words()) for tree in drawn if len(tree.words()) < 9]
    (path / "strings.txt").write_text("\n".join(strings) + "\n")
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> str:
    import sapwood as sw

    path = folder / "dyck.sapwood"
    sw.SpectralWCFG(4, basis=0.05).fit(sw.read_trees(folder / "trees.mrg")).model_.save(path)
    return str(path)


def test_learn_from_trees_and_from_strings(cli: Run, folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "m.sapwood")
    done = cli("hankel", "learn", str(folder / "trees.mrg"), "-o", out, "--supervised",
               "--states", "4", "--basis", "0.05", "--json")  # fmt: skip
    report = json.loads(done.out)
    assert (report["states"], report["symbols"], report["method"]) == (4, ["a", "b"], "spectral")
    assert report["conditioning"]["smallest"] > report["conditioning"]["next"]
    with pytest.warns(SapwoodWarning, match="not complete"):  # the Dyck language has rank 4
        done = cli("hankel", "learn", str(folder / "strings.txt"), "-o", out, "--states", "2",
                   "--basis", "0.0001")  # fmt: skip
    assert "gap" in done.out
    assert "over all strings" in done.out
    assert load(out).record["texts"] == [str(folder / "strings.txt")]
    for method in ("em", "wfa"):
        more = ("--states", "2", "--method", method)
        assert cli("hankel", "learn", str(folder / "strings.txt"), "-o", out, *more).status == 0
        card = json.loads(cli("inspect", out, "--card", "--json").out)
        assert (card["training"]["method"], card["training"]["states"]) == (method, 2)
        assert isinstance(card["training"]["strings"], int)
        assert ("seed" in card["training"]) == bool(card["scores"]) == (method == "em")


def test_wide_nodes_are_told(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "t.mrg").write_text("(S (A a) (B b) (C c))\n(A a)\n")
    given = (str(tmp_path / "t.mrg"), "-o", str(tmp_path / "m"), "--supervised", "--states", "1")
    done = cli("hankel", "learn", *given)
    assert "1 node of more than two children split to the right" in done.err


def test_score_prints_one_value_a_line(cli: Run, model: str) -> None:
    done = cli("hankel", "score", model, stdin="a b\n\na a b b\nb\n")
    lines = done.out.split("\n")
    assert float(lines[0]) == pytest.approx(0.4, abs=0.1)
    assert lines[1] == ""
    assert float(lines[2]) == pytest.approx(0.16, abs=0.05)
    logs = cli("hankel", "score", model, "--log", stdin="a b\n").out
    assert float(logs) == pytest.approx(-0.9, abs=0.3)
    report = json.loads(cli("hankel", "score", model, "--json", stdin="a b\n").out)
    assert len(report["values"]) == 1


def test_parse_prints_brackets(cli: Run, model: str) -> None:
    done = cli("hankel", "parse", model, stdin="a b a b\n")
    assert done.out == "(X (X (X a) (X b)) (X (X a) (X b)))\n"


def test_score_sample_and_inspect_of_any_model(
    cli: Run, fails: Run, model: str, tmp_path: Path
) -> None:
    assert float(cli("score", model, stdin="a b\n").out.split("\t")[0]) < 0
    shown = cli("inspect", model).out
    assert "kind       a weighted grammar of strings\n" in shown
    assert "None" not in shown
    assert json.loads(cli("inspect", model, "--json").out)["states"] == 4
    refused = fails("sample", model)
    assert "weights, not probabilities" in refused.err
    path = str(tmp_path / "target.sapwood")
    dyck().save(path)
    assert len(cli("sample", path, "-n", "3").out.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (
            ["score"],
            "a b\na c\n",
            r"<stdin>:2: symbol 'c', the 2. of its string, is not in the model",
        ),
        (["parse"], "a x\n", "symbol 'x'"),
    ],
)
def test_a_symbol_not_in_the_model(fails: Run, model: str, arguments, text, message) -> None:
    done = fails("hankel", *arguments, model, stdin=text)
    assert message in done.err
    assert "hint: the model has 2 symbols: a, b" in done.err


def test_bad_input_is_told(fails: Run, misused: Run, folder: Path, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "m.sapwood"))
    (tmp_path / "bad.mrg").write_text("(S (A a) (B b)\n")
    done = fails("hankel", "learn", str(tmp_path / "bad.mrg"), *out, "--supervised")
    assert "bad.mrg" in done.err
    done = fails("hankel", "learn", str(folder / "trees.mrg"), *out)
    assert "--supervised" in done.err
    done = fails("hankel", "learn", str(folder / "strings.txt"), *out, "--solver", "direct",
               "--states", "5")  # fmt: skip
    assert "hint: ask for at most 2 states" in done.err
    (tmp_path / "none.txt").write_text("\n")
    assert "no strings" in fails("hankel", "learn", str(tmp_path / "none.txt"), *out).err
    usage = misused("hankel", "learn", "x", *out, "--solver", "admm", "--supervised")
    assert "--solver" in usage.err


def test_rna_there_and_back(cli: Run, fails: Run, tmp_path: Path) -> None:
    (tmp_path / "s.dbn").write_text(">x\nAGAAACU\n.(...).\n>y\nGGAAACC\n((...))\n")
    trees = cli("data", "convert", "rna", str(tmp_path / "s.dbn")).out
    (tmp_path / "s.mrg").write_text(trees)
    again = cli("data", "convert", "rna", str(tmp_path / "s.mrg")).out
    assert again == (tmp_path / "s.dbn").read_text()  # with the names of the structures
    (tmp_path / "s.mrg").write_text(re.sub("# .*\n", "", trees))
    assert cli("data", "convert", "rna", str(tmp_path / "s.mrg")).out.startswith(">1\nAGAAACU\n")
    (tmp_path / "bad.dbn").write_text(">x\nAG\n((\n")
    (tmp_path / "nameless.dbn").write_text("GGGAAACCC\n(((...)))\n")
    told = fails("data", "convert", "rna", str(tmp_path / "nameless.dbn")).err
    assert "nameless.dbn:1: expected a name such as >x, found 'GGGAAACCC'" in told
    (tmp_path / "odd.dbn").write_text(">x\nA(U\n...\n")
    assert (
        "odd.dbn:2:2: '(' is no base"
        in fails("data", "convert", "rna", str(tmp_path / "odd.dbn")).err
    )
    (tmp_path / "words.mrg").write_text("(S (U A) (U A))\n(S (D the) (N dog))\n")
    told = fails("data", "convert", "rna", str(tmp_path / "words.mrg")).err
    assert "words.mrg: tree 2: the word 'the' of a tree is no base" in told
    (tmp_path / "empty.dbn").write_text("")
    given = ("rna", str(tmp_path / "empty.dbn"), "-o", str(tmp_path / "none.mrg"))
    assert "no structure found" in fails("data", "convert", *given).err
    assert not (tmp_path / "none.mrg").exists()
    done = fails("data", "convert", "rna", str(tmp_path / "bad.dbn"))
    assert "bad.dbn:3: 2 opening brackets are not closed" in done.err


def test_a_basis_of_what_never_meets_is_told(fails, tmp_path):
    (tmp_path / "few.txt").write_text("(S (A a) (B b))\n(S (A a) (B (C b) (D c)))\n")
    told = fails("hankel", "learn", tmp_path / "few.txt", "-o", tmp_path / "x.sapwood",
                 "--states", 1, "--supervised").err  # fmt: skip
    assert "1 state asked for" in told
    assert "at most 0" not in told


def test_a_grammar_written_by_hand_has_no_method(cli: Run, tmp_path: Path) -> None:
    dyck().save(tmp_path / "dyck.sapwood")
    shown = cli("inspect", tmp_path / "dyck.sapwood").out
    assert "None" not in shown
    assert "the file does not say how it was made" in shown


def test_four_strings_are_doubted(cli: Run, tmp_path: Path) -> None:
    few, out = tmp_path / "few.txt", tmp_path / "m.sapwood"
    few.write_text("a b\na a b b\na b\na b a b\n")
    with pytest.warns(FewDataWarning, match="were learnt from 4 strings only"):
        assert cli("hankel", "learn", few, "-o", out, "--method", "em", "--states", 1).status == 0
    few.write_text("a b\na a b b\n" * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewDataWarning)
        assert cli("hankel", "learn", few, "-o", out, "--method", "em").status == 0


def test_strings_seen_twice_count_twice_for_an_automaton_of_trees(cli: Run, tmp_path: Path) -> None:
    trees, out = tmp_path / "trees.mrg", tmp_path / "m.sapwood"
    trees.write_text("(S (A a) (B b))\n" * 15 + "(S (A a))\n" * 15)
    options = ("--supervised", "--method", "wfa", "--states", 1, "--basis", 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewDataWarning)
        assert cli("hankel", "learn", trees, "-o", out, *options).status == 0


def test_parse_keeps_given_pairs(cli: Run, model: str) -> None:
    free = cli("hankel", "parse", model, stdin="a a b b\n\na b\n").out
    signs = "a a b b\n....\n\na b\t..\n"
    assert cli("hankel", "parse", model, "--partial", stdin=signs).out == free
    text = "a a b b a b\n( . . ) . .\na a b b\t(x.)\n"
    done = cli("hankel", "parse", model, "--partial", "--json", stdin=text)
    first, second = map(json.loads, done.out.splitlines())
    assert first["pairs"].startswith("(..)")
    assert second["pairs"] == "(..)"
    assert first["tree"].startswith("(X ")
    assert first["constraint_log_prob"] is None or first["constraint_log_prob"] < 0.1
    plain = cli("hankel", "parse", model, "--json", stdin="a b\n\n").out.splitlines()
    assert list(map(json.loads, plain)) == [
        {"tree": "(X (X a) (X b))", "pairs": ".."},
        {"tree": None, "pairs": None},
    ]


@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("a b\n..\na a b\n(..\n", "4:1", "an opening bracket that is not closed", "one sign"),
        ("a a b\t..)\n", "1:9", "a closing bracket without an opening one", "one sign"),
        ("a a b\n....\n", "2:4", "4 signs for a string of 3 symbols", "one sign"),
        ("aab\n(.)\n", "2:2", "3 signs for a string of 1 symbol", "put blanks between"),
        ("a a b\n(y)\n", "2:2", "the sign 'y' says nothing about pairs", "one sign"),
        ("a b a\n.()\n", "2:2", "neighbours cannot be a pair", "put other signs"),
        ("a b a\n", "1", "a string without the signs of its pairs", "one sign"),
        ("a b a\n.||\n", "1", "no brackets have symbol 2 (|) in some pair", "ask for less"),
    ],
)
def test_bad_pairs_are_refused_with_line_and_column(
    fails: Run, model: str, text: str, where: str, message: str, hint: str
) -> None:
    said = fails("hankel", "parse", model, "-", "--partial", stdin=text).err
    assert f"error: <stdin>:{where}: {message}" in said
    assert f"hint: {hint}" in said


def test_errors_name_stdin_and_the_signs_that_clash(fails: Run, model: str) -> None:
    told = fails("hankel", "parse", model, "--partial", stdin="a b\n)(\n").err
    assert "error: <stdin>:2:1: a closing bracket" in told
    told = fails("hankel", "parse", model, "--partial", stdin="a a b b a b\n(<).|.\n").err
    assert "<stdin>:1: no brackets have the pair of symbols 1 and 3 and symbol 2 (<) in" in told
    assert "<stdin>:1: symbol 'c'" in fails("score", model, stdin="c\n").err
