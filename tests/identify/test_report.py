"""The cells of Figure 2 in words, and the report on one size."""

from __future__ import annotations

from pathlib import Path

import pytest

from sapwood.core.errors import SapwoodError
from sapwood.identify.model.families import NAMED
from sapwood.identify.report import Cell, Size, as_row, figure, paper_answer
from sapwood.progress import listening

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "identifiability.md"


def cell(deficits: dict[tuple[int, int | None, int], int | None]) -> Cell:
    return Cell("pcfg-i", "pairs", {Size(*key): n for key, n in deficits.items()})


def test_answers() -> None:
    assert cell({(2, 2, 2): 1, (2, 2, 3): 2}).answer == "no"
    assert cell({(2, 2, 2): 0, (2, 2, 3): 0}).answer == "yes"
    assert cell({(2, 2, 2): None, (2, 2, 3): 0}).answer == "yes iff L >= 3"
    mixed = {(2, 2, 2): 1, (2, 2, 3): 0, (3, 3, 3): 1, (2, 2, 4): 0, (3, 3, 4): 0}
    assert cell(mixed).answer == "yes for L >= 4, at L = 3 with 2 states"
    words = {(2, None, 2): 0, (3, None, 2): 4, (2, None, 3): 0, (3, None, 3): 0}
    assert cell(words).answer == "yes for L >= 3, at L = 2 with 2 words"
    assert cell({(2, 2, 2): 0, (2, 2, 3): 1}).answer == "yes at L = 2 with all sizes"
    odd = {(2, 2, 2): 0, (3, 2, 2): 1, (3, 3, 2): 0, (2, 2, 3): 1}
    assert cell(odd).answer == "yes at L = 2 with 2 of 3 sizes"


def test_differences_from_the_paper() -> None:
    """The paper: PCFG-I from all pairs iff L >= 4."""
    right = {(2, 2, 3): 1, (2, 2, 4): 0}
    assert cell(right).differences() == []
    assert cell(right | {(3, 2, 4): 1}).differences() == [Size(3, 2, 4)]
    assert cell(right | {(3, 2, 3): 0}).differences() == [Size(3, 2, 3)]
    assert Cell("dep-i", "all", {Size(2, None, 2): 2}).differences() == []
    assert paper_answer("dep-i", "all") == ""
    assert paper_answer("pcfg", "all") == "no"


def test_small_figure() -> None:
    shares: list[float | None] = []
    with listening(lambda event: None if event.is_over else shares.append(event.share)):
        cells = figure(3, 2, 3)
    assert len(cells) == 42
    told = [share for share in shares if share is not None]
    assert told == sorted(told)
    assert told[-1] == 1.0
    found = {(each.family, each.moments): each for each in cells}
    assert found["dep-ie", "123"].deficits[Size(2, None, 2)] is None
    assert found["dep-i", "pairs"].answer == "yes iff L >= 3"
    assert {size.states for size in found["pcfg", "all"].deficits} == {2}
    row = as_row(found["pcfg-i", "123e1"])
    assert (row["answer"], row["paper"], row["agrees"]) == ("no", "yes iff L >= 3", False)
    assert row["deficits"][0] == {"words": 2, "states": 2, "length": 2, "deficit": None}


def test_a_figure_that_is_too_large_or_empty() -> None:
    with pytest.raises(SapwoodError, match="GB"):
        figure(100, 4, 6)
    with pytest.raises(SapwoodError, match="starts at 2 states"):
        figure(3, 1, 3)


def test_the_page_shows_the_figure() -> None:
    """Every cell of the table in the docs is what is computed; bold where the paper differs."""
    text = PAGE.read_text(encoding="utf-8").split("## Figure 2, cell by cell")[1]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    rows = [[part.strip() for part in row] for row in rows if len(row) == 1 + len(NAMED)]
    assert rows[0][1:] == list(NAMED)
    cells = {(each.family, each.moments): each for each in figure(3, 3, 4)}
    ours, theirs = rows[1::2], rows[2::2]
    for (name, *row), (paper, *claims) in zip(ours, theirs, strict=True):
        family = name.strip("*")
        assert paper == "paper"
        for moments, shown, claim in zip(NAMED, row, claims, strict=True):
            cell = cells[family, moments]
            bold = f"**{_short(cell.answer)}**"
            assert shown == (bold if cell.differences() else bold.strip("*"))
            assert claim.split(",")[0] == _short(paper_answer(family, moments))
    assert len(ours) == 6


def _short(answer: str) -> str:
    """As in the docs.

    Examples
    --------
    >>> _short("yes for L >= 4, at L = 3 with 2 states")
    'L >= 4; L = 3 if k = 2'
    """
    text = answer.removeprefix("yes iff ").removeprefix("yes for ")
    text = text.replace(", at", ";").replace("with 2 states", "if k = 2")
    return text.replace("with 2 words", "if d = 2")
