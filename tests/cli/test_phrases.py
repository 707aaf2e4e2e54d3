"""`sapwood phrases`, and the phrases of texts as a table."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.constituency.report.phrases import TABLE_COLUMNS, phrase_rows

TEXT = "The king's dog sleeps.\r\nThey sleep. The woman saw a\tdog in the garden.\r\n"


def rows(out: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode())
    return path


def test_noun_phrases_have_probability_and_place(cli, text: Path) -> None:
    result = cli("phrases", "bundled", text, "--label", "NP")
    assert result.out.startswith(
        "sentence\tlabel\tstart\tend\tchar_start\tchar_end\tprobability\ttext\n"
        "1\tNP\t0\t4\t0\t14\t1.0000\tThe king's dog\n"
    )
    found = rows(result.out)
    assert {row["label"] for row in found} == {"NP"}
    for row in found:
        written = TEXT[int(row["char_start"]) : int(row["char_end"])]
        assert " ".join(written.split()) == row["text"]
        assert 0.0 <= float(row["probability"]) <= 1.0
    assert [row["text"] for row in found if row["sentence"] == "3"][:2] == ["The woman", "a dog"]
    assert "phrases" in result.err


def test_they_are_those_of_the_trees(cli, text: Path) -> None:
    found = [
        json.loads(line) for line in cli("phrases", "bundled", text, "--json").out.splitlines()
    ]
    trees = cli("parse", "bundled", text, "--raw").out.splitlines()
    for number, line in enumerate(trees, 1):
        tree = sw.Tree.parse(line)
        phrases = [
            span
            for node, span in zip(tree.nodes(), tree.spans(), strict=True)
            if not node.is_preterminal
        ]
        mine = [(r["label"], r["start"], r["end"]) for r in found if r["sentence"] == number]
        assert mine == phrases[1:]
    assert all(TEXT[row["char_start"] : row["char_end"]] == row["text"] for row in found)


def test_least_and_several_labels(cli, text: Path) -> None:
    every = rows(cli("phrases", "bundled", text, "-l", "NP", "-l", "VBZ").out)
    assert {row["label"] for row in every} == {"NP", "VBZ"}
    some = rows(cli("phrases", "bundled", text, "-l", "NP", "-l", "VBZ", "--least", 0.9).out)
    expected = [r for r in every if r["probability"] != "NA" and float(r["probability"]) >= 0.9]
    assert some == expected
    joined = rows(cli("phrases", "bundled", stdin="the the the\n").out)
    assert {row["probability"] for row in joined} == {"NA"}
    assert rows(cli("phrases", "bundled", "--least", 0.1, stdin="the the the\n").out) == []


def test_a_text_without_words_is_a_table_without_rows(cli) -> None:
    result = cli("phrases", "bundled", stdin="\n \n")
    assert result.out.splitlines() == ["\t".join(("sentence", *TABLE_COLUMNS[2:]))]
    assert cli("phrases", "bundled", "--json", stdin="").out == ""


def test_mistakes_are_explained(fails, misused) -> None:
    wrong = fails("phrases", "bundled", "--label", "NPP", stdin="They sleep.")
    assert "the model has no label 'NPP'" in wrong.err
    assert "'NP'" in wrong.err
    misused("phrases", "bundled", "--least", 2)
    with pytest.raises(sw.SapwoodError, match="given as words"):
        list(phrase_rows(sw.Parser(sw.bundled_grammar()).parse(["they", "sleep"])))


# -- tables ---------------------------------------------------------------------------------------


def test_columns_are_the_phrases_of_all_texts() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    texts = {"one": TEXT, "two": "They sleep."}
    found = sw.parse_columns(parser, texts, labels=["NP"])
    assert tuple(found) == TABLE_COLUMNS
    assert len({len(column) for column in found.values()}) == 1
    for name, start, end, text in zip(
        found["text_id"], found["char_start"], found["char_end"], found["text"], strict=True
    ):
        assert texts[name][start:end] == text
    assert sw.parse_columns(parser, texts["two"])["text_id"] == [0, 0, 0]
    assert sw.parse_columns(parser, texts, labels=["NP"], jobs=2) == found
    high = sw.parse_columns(parser, texts, least=0.999)
    assert min(high["probability"]) >= 0.999
    with pytest.raises(sw.SapwoodError, match="text 1 is int"):
        sw.parse_columns(parser, ["a", 3])  # type: ignore[list-item]


def test_tables_are_read_by_others() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    model = sw.bundled_grammar()
    table = sw.parse_table(model, [TEXT])
    assert table.to_pydict() == sw.parse_columns(model, [TEXT])
    assert table.schema.field("probability").type == pyarrow.float64()
    empty = sw.parse_table(model, [])
    assert empty.num_rows == 0
    assert empty.schema.names == list(TABLE_COLUMNS)
    assert empty.schema.field("label").type == pyarrow.string()


def test_a_table_without_pyarrow_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sw.SapwoodError, match="needs pyarrow") as caught:
        sw.parse_table(sw.bundled_grammar(), ["They sleep."])
    assert "sapwood[arrow]" in str(caught.value.hint)
