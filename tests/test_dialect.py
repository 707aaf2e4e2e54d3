"""Old phrases that readers stumbled over stay out of docs, docstrings, help and messages.

Every entry of `DIALECT` is a pattern, the words to use instead, an example that the pattern must
find, and right uses that it must pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HOME = Path(__file__).resolve().parents[1]
PAGES = [
    *(HOME / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((HOME / "docs").rglob("*.md")),
]
CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*?$", re.DOTALL | re.MULTILINE)


class Phrase(NamedTuple):
    """An old phrase, and what to write instead."""

    pattern: str
    instead: str
    found: str
    passed: tuple[str, ...] = ()


DIALECT = (
    Phrase(r"\bnothing (?:is )?said\b", "default settings", "With nothing said"),
    Phrase(
        r"\b(?:is|are|was|were|be|been|being) told\b|\btold (?:of|apart|from|otherwise)\b",
        "distinguished, reported",
        "as if they were told apart",
    ),
    Phrase(r"\bwho (?:has|have) no\b", "members without", "who has no weight is not asked"),
    Phrase(
        r"\bwhat (?:is|was) left\b(?! out)",
        "the remaining ...",
        "over what is left",
        ("the list of what is left out",),
    ),
    Phrase(r"\bso (?:many|much)\b", "the number itself", "from so many samples"),
    Phrase(
        r"\b(?:a|an|one) (?:(?!from|in|on|at|as|of|to|by|with|is)\w+ )?"
        r"a (?:line|row|word|sentence|label|tree|file|page|thread|member"
        r"|document|pass|step)\b",
        "per line",
        "a sentence a line",
        ("make one from a line", "one sentence per line", "as a line"),
    ),
    Phrase(
        r"\bin (?:an)?other ways?\b|\bways? in which\b|\bbranch one way\b|\bways? to make trees\b",
        "binarisation; differently",
        "trees made in other ways",
        ("in the same way", "on the way"),
    ),
    Phrase(r"\bmade binary\b", "binarised, binarisation", "how trees were made binary"),
    Phrase(r"\ball else\b", "the rest", "all else forwards"),
    Phrase(r"\bhears? of\b", "receives", "a listener that hears of them"),
    Phrase(r"\bgraded (?:on|by|with|at)\b|\bto grade\b|\bgrading\b", "score", "graded on dev"),
    Phrase(r"\bas (?:it|they) stands?\b", "as it is written", "the sentence as it stands"),
    Phrase(
        r"\bgo(?:es)? on (?:from|there|with|behind|at)\b|\b(?:audit|reading|command) goes on\b",
        "continue",
        "the same command goes on there",
        ("such grammars go on for ever",),
    ),
    Phrase(
        r"\btell(?:s|ing)? (?:[\w-]+ ){0,4}apart\b|\btells of\b",
        "distinguish; describe",
        "cannot tell settings apart",
    ),
    Phrase(
        r"\bnothing is asked\b|\bwhat (?:was|is) asked\b",
        "without constraints; the request",
        "0 where nothing is asked",
    ),
    Phrase(
        r"\b(?:is|are|was|were) wanted\b|\b(?:if|where) wanted\b",
        "requested",
        "None where none is wanted",
    ),
    Phrase(
        r"\b(?:scripts?|texts?|functions?|trees|files?) of yours\b", "your", "a script of yours"
    ),
    Phrase(r"\bbelieved\b", "calibrated", "how far probabilities can be believed"),
    Phrase(r"\banew\b", "again", "write the file anew"),
    Phrase(r"\boftener\b", "more often", "not oftener than once"),
    Phrase(r"\bsmall letters\b", "lower case", "in small letters"),
    Phrase(r"\bof like (?:length|size)s?\b", "of similar length", "sentences of like length"),
    Phrase(
        r"\bshares? of (?:right|all|each|a|numbers)\b",
        "fraction, weight, posterior",
        "Share of right phrases",
    ),
    Phrase(
        r"\bword behind\b|\bbehind (?:the|each|every|its) (?:last|first|word|sentence|others)\b",
        "after",
        "the word behind the last",
        ("a machine behind a proxy",),
    ),
)


def hits(text: str, phrase: Phrase) -> list[str]:
    """The places of a text with a phrase, each with some words around it."""
    found = re.finditer(phrase.pattern, text, re.IGNORECASE)
    return [" ".join(text[max(m.start() - 40, 0) : m.end() + 30].split()) for m in found]


def strings(path: Path) -> Iterator[str]:
    """Docstrings, help and messages of a module: all of its strings with a blank."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield " ".join(node.value.split())


def prose(path: Path) -> str:
    """A page without code."""
    return CODE.sub("", path.read_text(encoding="utf-8"))


@cache
def manual() -> tuple[tuple[Path, str], ...]:
    """All pages, and the strings of each module as one text."""
    modules = sorted((HOME / "src" / "sapwood").rglob("*.py"))
    return (
        *((path, prose(path)) for path in PAGES),
        *((path, "\n".join(strings(path))) for path in modules),
    )


@pytest.mark.parametrize("phrase", DIALECT, ids=lambda phrase: phrase.found[:30])
def test_no_page_docstring_or_message_has_an_old_phrase(phrase: Phrase) -> None:
    found = [
        f"{path.relative_to(HOME)}: {hit}" for path, text in manual() for hit in hits(text, phrase)
    ]
    assert not found, f"write {phrase.instead!r}:\n" + "\n".join(found)


@pytest.mark.parametrize("phrase", DIALECT, ids=lambda phrase: phrase.found[:30])
def test_each_pattern_finds_its_phrase_and_passes_right_uses(phrase: Phrase) -> None:
    assert hits(f"Text before; {phrase.found} and after.", phrase)
    for text in (phrase.instead, *phrase.passed):
        assert not hits(text, phrase), text


def test_an_old_phrase_in_a_docstring_is_noticed_and_code_is_not(tmp_path: Path) -> None:
    module, page = tmp_path / "module.py", tmp_path / "page.md"
    module.write_text('def f():\n    """Go over\n    what is left."""\n')
    page.write_text("Sizes of `what is left`.\n\n```\nso many\n```\n\nReal text, made anew.\n")
    by_name = {phrase.found: phrase for phrase in DIALECT}
    assert [hits(text, by_name["over what is left"]) for text in strings(module)] == [
        ["Go over what is left."]
    ]
    assert not hits(prose(page), by_name["over what is left"])
    assert not hits(prose(page), by_name["from so many samples"])
    assert hits(prose(page), by_name["write the file anew"])
