"""What `parse` and `score` take for sentences, and what they say about anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sapwood as sw

TREES = (
    "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps) (NP (-NONE- *))) (. .)) )\n(X (-NONE- *))\n"
)
CONLLU = "# text = the dog\n1\tthe\tthe\tDET\t_\n2\tdog\tdog\tNOUN\t_\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- given by mistake -----------------------------------------------------------------------------


def test_trees_are_refused_with_the_option_that_takes_them(fails, model: Path, tmp_path) -> None:
    path = tmp_path / "gold.mrg"
    path.write_text(TREES)
    result = fails("parse", model, path)
    assert f"error: {path}:1: expected one sentence a line, found bracketed trees" in result.err
    assert "hint: --trees takes the words" in result.err
    assert result.out == ""


def test_trees_over_several_lines_and_behind_a_comment(fails, model: Path) -> None:
    assert "<stdin>:2: " in fails("parse", model, stdin="(TOP\n  (S (NP (DT the)\n").err
    assert (
        "<stdin>:3: " in fails("parse", model, stdin="a comment\n\n(TOP (S (NN a) (NN b)))\n").err
    )


@pytest.mark.parametrize("command", ["parse", "score"])
def test_conllu_is_refused_with_the_command_that_reads_it(fails, model: Path, command: str) -> None:
    result = fails(command, model, stdin=CONLLU)
    assert "found CoNLL-U" in result.err
    assert "`sapwood words -`" in result.err


def test_a_missing_file_is_called_missing(fails, model: Path, tmp_path: Path) -> None:
    for command in ("parse", "score"):
        missing = fails(command, model, tmp_path / "none.txt").err
        assert "none.txt: no such file\n" in missing
        assert "complete" not in missing
    assert "a folder, expected a file" in fails("parse", model, tmp_path).err


PARAGRAPHS = "The dog sleeps. It is late.\nThe dog barks.\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--raw"], PARAGRAPHS), ([], PARAGRAPHS.replace(".", " ."))],
    ids=["raw", "tokenised"],
)
def test_lines_of_several_sentences_are_doubted(cli, model: Path, options, text: str) -> None:
    result = cli("parse", model, *options, stdin=text)
    assert len(result.out.splitlines()) == 2
    assert "1 of the first 2 lines seem to hold several (line 1 is the first)" in result.err
    assert "hint: write one sentence on each line" in result.err
    single = cli("parse", model, *options, stdin=text.splitlines()[1])
    assert "warning" not in single.err


@pytest.mark.parametrize("command", ["parse", "score"])
def test_json_is_refused(fails, cli, model: Path, command: str) -> None:
    output = cli("parse", model, "--json", stdin="the dog sleeps .").out
    assert "found JSON" in fails(command, model, stdin=output).err


def test_sentences_takes_any_line(cli, model: Path) -> None:
    result = cli("parse", model, "--sentences", stdin=TREES + CONLLU)
    assert result.status == 0
    assert len(result.out.splitlines()) == 5
    assert "warning:" not in result.err


def test_sentences_with_brackets_are_no_trees(cli, model: Path) -> None:
    result = cli("parse", model, stdin="( the dog sleeps . )\n( ( dog ) )\n")
    assert sw.Tree.parse(result.out.splitlines()[0]).words()[0] == "-LRB-"


def test_a_line_that_tells_nothing_yet_is_parsed_in_the_end(cli, model: Path) -> None:
    result = cli("parse", model, stdin="\n(\n")
    assert [bool(line) for line in result.out.splitlines()] == [False, True]


@pytest.mark.parametrize("command", ["parse", "score"])
def test_untokenised_text_is_parsed_with_a_warning(cli, model: Path, command: str) -> None:
    result = cli(command, model, stdin="The dog sleeps.\n\nthe man, sleeps.\n")
    assert result.status == 0
    assert result.out.count("\n") == 3
    assert "warning: the text seems not to be tokenised: 'sleeps.'" in result.err
    assert "has '.' as a word" in result.err
    assert "hint: --raw tokenises" in result.err
    assert result.err.count("warning:") == 1


def test_the_warning_comes_once_in_a_long_text(cli, model: Path) -> None:
    assert cli("parse", model, stdin="dog.\n" * 50).err.count("warning:") == 1


@pytest.mark.parametrize("text", ["the dog sleeps .\n" * 3 + "sleeps.\n", "Dr. Lee sleeps .", ""])
def test_tokenised_text_gets_no_warning(cli, model: Path, text: str) -> None:
    assert "warning:" not in cli("parse", model, stdin=text).err


# -- --trees --------------------------------------------------------------------------------------


def test_the_words_of_trees_are_parsed(cli, model: Path) -> None:
    result = cli("parse", model, "--trees", stdin=TREES)
    first, second = result.out.split("\n")[:2]
    assert sw.Tree.parse(first).words() == ["the", "dog", "sleeps", "."]
    assert second == ""  # nothing is left of it, and the next tree keeps its place
    assert "1 sentence  1 empty line" in result.err


def test_parsed_trees_can_be_evaluated(cli, dev: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "predicted.mrg"
    assert cli("parse", "bundled", dev, "--trees", "-o", predicted).status == 0
    report = json.loads(cli("evaluate", dev, predicted, "--json").out)
    assert report["all"]["errors"] == 0
    assert report["all"]["sentences"] == 300
    assert report["all"]["f1"] > 90


def test_trees_can_be_resumed(cli, dev: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.mrg"
    trees = list(sw.read_trees(dev))[:5]
    sw.write_trees(trees, gold)
    out = tmp_path / "out.mrg"
    assert cli("parse", "bundled", gold, "--trees", "-o", out, "--resume").status == 0
    assert [t.words() for t in sw.read_trees(out)] == [t.words() for t in trees]


def test_a_broken_tree_is_an_error_with_its_place(fails, model: Path) -> None:
    assert "<stdin>:1:" in fails("parse", model, "--trees", stdin="(S (NN dog)").err


# -- --raw and --tokenizer ------------------------------------------------------------------------


def test_raw_text(cli, model: Path) -> None:
    raw = cli("parse", model, "--raw", stdin="The king's dog sleeps.\n\nThe dog sleeps!\n")
    tokenised = cli("parse", model, stdin="The king 's dog sleeps .\n\nThe dog sleeps !\n")
    assert raw.out == tokenised.out
    assert "warning:" not in raw.err


def test_score_of_raw_text(cli, model: Path) -> None:
    raw = cli("score", model, "--raw", stdin="The dog sleeps.\n")
    assert raw.out == cli("score", model, stdin="The dog sleeps .\n").out


def test_raw_text_may_start_with_a_bracket(cli, model: Path) -> None:
    result = cli("score", model, "--raw", stdin="(The dog sleeps.)\n")
    assert (result.status, result.err.split()[1]) == (0, "sentences")


def test_a_tokenizer_of_ones_own(cli, model: Path, folder: Path) -> None:
    (folder / "my_words.py").write_text("def cut(text):\n    return text.split('_')\n")
    result = cli("parse", model, "--tokenizer", "my_words:cut", stdin="the_dog_sleeps_.\n")
    assert sw.Tree.parse(result.out).words() == ["the", "dog", "sleeps", "."]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("def cut(text): return text", "returned 'a b'"),
        ("def cut(text): return [text]", "returned ['a b']"),
        ("def cut(text): return ['', 'a']", "returned ['', 'a']"),
        ("def cut(text): return [1]", "returned [1]"),
        ("cut = 3", "not a function, but int"),
        ("other = 3", "no attribute 'cut'"),
        ("import no_such_module", "no_such_module"),
    ],
)
def test_tokenizers_that_are_none(fails, model: Path, folder: Path, body: str, complaint) -> None:
    name = f"bad_words_{abs(hash(body))}"
    (folder / f"{name}.py").write_text(body + "\n")
    assert complaint in fails("parse", model, "--tokenizer", f"{name}:cut", stdin="a b").err


def test_misuse(misused, model: Path) -> None:
    misused("parse", model, "--trees", "--raw")
    misused("score", model, "--trees", "--tokenizer", "a:b")
    misused("parse", model, "--tokenizer", "nocolon")


# -- Python ---------------------------------------------------------------------------------------


def test_parse_text() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    assert parser.parse_text("The king's dog sleeps.").words[1:3] == ["king", "'s"]
    assert parser.parse_text("the-dog", tokenize=lambda text: text.split("-")).words == [
        "the", "dog",
    ]  # fmt: skip
    with pytest.raises(sw.SapwoodError, match="empty sentence"):
        parser.parse_text(" ")
