"""The lines of docs/guides/other-libraries.md, run by the libraries that they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "other-libraries.md"


def block(start: str) -> str:
    """The indented or fenced block of the page that starts so."""
    page = PAGE.read_text(encoding="utf-8")
    fenced = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)
    plain = [re.sub(r"^    ", "", one, flags=re.MULTILINE) for one in indented]
    (found,) = [one for one in fenced + plain if start in one]
    return found


def test_pandas_polars_and_duckdb_read_the_tables() -> None:
    for name in ("pandas", "polars", "duckdb", "pyarrow"):
        pytest.importorskip(name, reason="the extras arrow and tables are not installed")
    names: dict[str, Any] = {}
    exec(block("texts = {"), names)
    lines = block("import pandas").splitlines()
    for line in lines:
        if "duckdb.sql" not in line:
            exec(line, names)
    assert len(names["phrases"]) == len(names["columns"]["text"]) > 2
    assert list(names["phrases"].columns) == names["frame"].columns == names["table"].column_names
    assert names["frame"]["probability"].min() >= 0.5
    counted, averages = (eval(line, names).fetchall() for line in lines if "duckdb.sql" in line)
    assert sum(n for _, n in counted) == len(names["phrases"])
    assert {label for label, _ in averages} == {"NP", "VP"}


def test_spacy_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("spacy", reason="the extra spacy is not installed")
    exec(block("import spacy"), {})
    out = capsys.readouterr().out
    assert out.startswith("(")
    assert "telescope" in out
    assert "('NP',)" in out


def test_english_is_what_nltk_and_spacy_take_where_nothing_is_named() -> None:
    words = ["I", "saw", "the", "man", "with", "the", "telescope", "."]
    best = sw.Parser(sw.load("english")).parse(words).tree
    pytest.importorskip("nltk", reason="the extra nltk is not installed")
    assert sw.Tree.from_nltk(sw.nltk_parser().parse_one(words)) == best
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood")
    (sentence,) = nlp(" ".join(words)).sents
    assert sentence._.parse_string == str(best[0])  # without TOP
