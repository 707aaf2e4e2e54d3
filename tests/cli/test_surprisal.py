"""`sapwood surprisal`: tables that R reads, regions of experiments, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw

Run = Callable[..., Any]


def table(text: str) -> list[dict[str, str]]:
    header, *rows = (line.split("\t") for line in text.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_a_row_for_each_word(cli: Run) -> None:
    result = cli("surprisal", "bundled", "-", stdin="they sleep .\n\nthe dog sleeps .\n")
    assert result.status == 0, result.err
    rows = table(result.out)
    assert [row["sentence"] for row in rows] == ["1"] * 4 + ["3"] * 5
    assert [row["word"] for row in rows[:4]] == ["they", "sleep", ".", "</s>"]
    expected = sw.surprisal(sw.bundled_grammar(), ["they", "sleep", "."]).surprisal
    assert [float(row["surprisal"]) for row in rows[:4]] == pytest.approx(expected, abs=1e-6)
    assert "2 sentences" in result.err


def test_units_and_json(cli: Run) -> None:
    bits, nats = (
        json.loads(
            cli("surprisal", "bundled", "-", "--json", "--unit", unit, stdin="they sleep .").out
        )
        for unit in ("bits", "nats")
    )
    ratio = bits["words"][0]["surprisal"] / nats["words"][0]["surprisal"]
    assert ratio == pytest.approx(1.4426950408889634)
    assert bits["words"][0].keys() == {
        "sentence", "number", "word", "surprisal", "syntactic", "lexical", "tag_entropy",
        "word_entropy",
    }  # fmt: skip


def test_words_and_regions_of_an_experiment(cli: Run) -> None:
    words = cli("surprisal", "bundled", "-", "--join", stdin="The dog sleeps.\n")
    assert [row["word"] for row in table(words.out)] == ["The", "dog", "sleeps.", "</s>"]
    regions = cli("surprisal", "bundled", "-", "--join", stdin="The dog\tsleeps.\n")
    assert [row["word"] for row in table(regions.out)] == ["The dog", "sleeps.", "</s>"]
    totals = [sum(float(row["surprisal"]) for row in table(x.out)) for x in (words, regions)]
    assert totals[0] == pytest.approx(totals[1], abs=1e-5)


def test_empty_regions_keep_their_numbers(cli: Run) -> None:
    result = cli("surprisal", "bundled", "-", "--join", stdin="The dog\t\tsleeps.\t\t\r\n")
    rows = table(result.out)
    assert [row["word"] for row in rows] == ["The dog", "", "sleeps.", "</s>"]
    assert [row["number"] for row in rows] == ["1", "2", "3", "4"]
    assert rows[1]["surprisal"] == "NA"


def test_a_region_with_an_impossible_word_is_told(cli: Run) -> None:
    result = cli("surprisal", "bundled", "-", "--join", stdin="They\tthe dog.\tHe sleeps.\n")
    assert [row["surprisal"] for row in table(result.out)][1:] == ["Inf", "NA", "NA"]
    assert "--restart 1e-4" in result.err


def test_a_word_that_cannot_be_derived_is_infinite_and_told(cli: Run) -> None:
    result = cli("surprisal", "bundled", "-", stdin="dog the .\n")
    assert [row["surprisal"] for row in table(result.out)] == ["Inf", "NA", "NA", "NA"]
    assert "1 of 1 sentence with a word that the grammar cannot derive" in result.err
    assert "--restart 1e-4" in result.err
    mended = cli("surprisal", "bundled", "-", "--restart", "1e-4", stdin="dog the .\n")
    assert not {"Inf", "NA"} & {row["surprisal"] for row in table(mended.out)}


def test_a_language_model_gives_the_same_table(cli: Run, tmp_path: Path) -> None:
    sw.KneserNey(2).fit([["a", "b"], ["b", "a", "c"]] * 20).model_.save(tmp_path / "m.lm")
    result = cli("surprisal", tmp_path / "m.lm", "-", stdin="a b\n")
    assert result.status == 0, result.err
    rows = table(result.out)
    assert [row["word"] for row in rows] == ["a", "b", "</s>"]
    assert {row["syntactic"] for row in rows} == {"NA"}


def test_the_result_does_not_depend_on_the_number_of_jobs(cli: Run) -> None:
    text = "they sleep .\nthe dog sees the man .\n" * 5
    one, two = (cli("surprisal", "bundled", "-", "--jobs", n, stdin=text).out for n in (1, 2))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["bundled", "-", "--unit", "bans"], "a\n", "is not bits or nats"),
        (["bundled", "-", "--restart", "0.9"], "a\n", "0.9 is not a probability from 0 to 0.5"),
        (["bundled", "-", "--restart", "nan"], "a\n", "nan is not a probability"),
        (["bundled", "-", "--join", "--tokenizer", "a:b"], "a\n", "not together with --tokenizer"),
        (["bundled", "-"], "(S (NP a) (VP b))\n", "expected one sentence per line"),
        (["bundled", "missing.txt"], "", "missing.txt"),
    ],
)
def test_wrong_usage(cli: Run, arguments: list[str], stdin: str, message: str) -> None:
    result = cli("surprisal", *arguments, stdin=stdin)
    assert result.status != 0
    assert message in " ".join(result.err.split())
    assert not result.out  # not even the header


def test_models_without_probabilities_are_refused(cli: Run, tmp_path: Path, learn: Any) -> None:
    learn("spectral").save(tmp_path / "s.sapwood")
    result = cli("surprisal", tmp_path / "s.sapwood", "-", stdin="they sleep .\n")
    assert result.status == 1
    assert "no surprisal by spectral" in result.err
    assert "pivot-em" in result.err


@pytest.mark.parametrize("command", ["surprisal", "parse"])
def test_hints_on_encodings_name_what_the_command_has(
    fails: Run, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("le café était fermé .\n".encode("latin-1"))
    result = fails(command, "bundled", path)
    assert "not UTF-8 text" in result.err
    assert "--encoding" not in result.err  # neither command has such an option
    assert "iconv -f latin-1 -t utf-8" in result.err


def test_marks_between_blanks_join_their_word(cli: Run) -> None:
    """Text and its tokens give the same rows, so that both go with the words of an experiment."""
    shown = '"The dogs don\'t (often) sleep," he says.\n'
    tokens = "`` The dogs do n't -LRB- often -RRB- sleep , '' he says .\n"
    options = ("surprisal", "bundled", "-", "--join", "--restart", "1e-4")
    words, joined = (table(cli(*options, stdin=text).out) for text in (shown, tokens))
    assert [row["word"] for row in words] == [*shown.split(), "</s>"]
    assert [row["word"] for row in joined] == [
        "``The", "dogs", "don't", "-LRB-often-RRB-", "sleep,\'\'", "he", "says.", "</s>",
    ]  # fmt: skip
    for one, other in zip(words, joined, strict=True):
        assert one["surprisal"] == other["surprisal"]


def test_regions_may_be_given_as_tokens(cli: Run) -> None:
    found = [
        table(cli("surprisal", "bundled", "-", "--join", stdin=text).out)
        for text in ("The dog\tsleeps.\n", "The dog\tsleeps .\n", "The dog sleeps .\n")
    ]
    assert [row["word"] for row in found[1]] == ["The dog", "sleeps .", "</s>"]
    assert [row["word"] for row in found[2]] == ["The", "dog", "sleeps.", "</s>"]
    assert found[0][1]["surprisal"] == found[1][1]["surprisal"] == found[2][2]["surprisal"]


def test_a_text_without_words_is_a_table_without_rows(cli: Run) -> None:
    for text in ("", "\n\n"):
        result = cli("surprisal", "bundled", "-", stdin=text)
        assert (result.status, table(result.out)) == (0, [])
        assert result.out.startswith("sentence\tnumber\tword\tsurprisal\t")


@pytest.mark.parametrize("text", ["(S (NP a) (VP b))\n", "the/DT dog/NN sleeps/VBZ ./.\n"])
def test_hints_name_no_options_of_other_commands(cli: Run, text: str) -> None:
    said = cli("surprisal", "bundled", "-", stdin=text).err
    assert "hint: " in said
    assert "--trees" not in said
    assert "--sentences" not in said


@pytest.mark.parametrize("options", [(), ("--join",)])
@pytest.mark.parametrize("mark", ["</s>", "<s>"])
def test_the_end_of_a_sentence_is_no_word(fails: Run, options: tuple[str, ...], mark: str) -> None:
    result = fails("surprisal", "bundled", "-", *options, stdin=f"\nthe dog {mark} .\n")
    assert not result.out
    assert f"<stdin>:2: found {mark} as a word" in result.err


def test_language_models_have_no_restarts(misused: Run, tmp_path: Path) -> None:
    sw.KneserNey(2).fit([["a", "b"]] * 20).model_.save(tmp_path / "m.lm")
    result = misused("surprisal", tmp_path / "m.lm", "-", "--restart", "0.1", stdin="a b\n")
    assert "no derivation to break off" in " ".join(result.err.split())
