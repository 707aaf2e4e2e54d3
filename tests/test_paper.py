"""The software paper: its length, its references, and numbers that another page has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAPER = (DOCS / "paper.md").read_text(encoding="utf-8")
BODY = PAPER.split("---\n", 2)[2]
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w,]*[a-z])")


def cited(text: str) -> set[str]:
    return set(re.findall(r"@(\w+)", text))


def unknown_numbers(text: str, pages: str) -> set[str]:
    """Numbers of two digits and more, years of references aside, that no page has."""
    known = set(NUMBER.findall(pages))
    numbers = set(NUMBER.findall(re.sub(r"\[[^]]*@[^]]*\]", "", text)))
    return {number for number in numbers if len(number) > 1 and number not in known}


def test_the_paper_has_at_most_a_thousand_words_and_the_sections_of_its_form() -> None:
    words = re.findall(r"[\w'-]+", re.sub(r"\]\([^)]*\)", "]", BODY))
    assert 500 < len(words) <= 1000
    headings = re.findall(r"^# (.*)$", BODY, re.MULTILINE)
    assert headings[:2] == ["Summary", "Statement of need"]
    assert headings[-1] == "References"
    assert {"State of the field", "Functionality"} < set(headings)


def test_every_reference_is_cited_and_every_citation_has_a_reference() -> None:
    keys = re.findall(r"^@\w+\{(\w+),$", (DOCS / "paper.bib").read_text("utf-8"), re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert set(keys) == cited(BODY)


def test_every_number_is_on_a_page_that_the_paper_links() -> None:
    links = re.findall(r"\]\(([\w/-]+\.md)", BODY)
    pages = "".join((DOCS / link).read_text("utf-8") for link in {*links, "papers/audit-ewt.md"})
    assert unknown_numbers(BODY, pages) == set()


@pytest.mark.parametrize("number", ["89.66", "1,234", "17.5"])
def test_a_number_that_no_page_has_is_noticed(number: str) -> None:
    pages = (DOCS / "reference" / "results.md").read_text("utf-8")
    assert unknown_numbers(f"The mix has {number} F1.", pages) == {number}
