"""Sentences of a project from running text, and from lines of words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from sapwood.annotation.actions import WORD_CHARACTERS
from sapwood.annotation.kinds import Imported
from sapwood.annotation.state import ProjectSentence
from sapwood.core.errors import SapwoodError, count
from sapwood.corpora.running_text import sentences_of
from sapwood.corpora.sentences import split_words
from sapwood.corpora.tokenize import Tokenizer

TEXT, RAW, FINDINGS = "text", "raw", "findings"
SENTENCE_WORDS = 1_000  # of a sentence: a page with more cannot be read
MOST_MESSAGES = 5
NOTED = (  # fields of a finding that the page shows
    "kind", "start", "end", "annotated", "suggested", "p_annotated", "p_suggested",
    "expected_precision", "suggested_tree", "file", "line",
)  # fmt: skip


def read_text(
    content: str, document: str, tokenize: Tokenizer, spell: Callable[[str], str]
) -> Imported:
    """The sentences of running text, split into words.

    Parameters
    ----------
    spell
        A word as the trees of the project write it.
    """
    rows = (
        ([spell(word) for word in one.words], one.text) for one in sentences_of(content, tokenize)
    )
    return _keep(rows, document)


def read_raw(content: str, document: str, spell: Callable[[str], str]) -> Imported:
    """One sentence per line, words separated by blanks."""
    lines = (split_words(line) for line in content.split("\n"))
    return _keep((([spell(word) for word in words], None) for words in lines), document)


def read_findings(
    content: str, read_tree: Callable[[str], tuple[tuple[str, ...], str]]
) -> Imported:
    """The sentences of the findings of an audit, each with its tree and what is suspected of it.

    Parameters
    ----------
    content
        The JSON of a report, as `sapwood audit --json` writes it.
    read_tree
        Words and tree, as the project keeps them, of a tree as the report has it.
    """
    try:
        report = json.loads(content)
        rows = report["findings"] if isinstance(report, dict) else report
        fields = [(str(row["annotated_tree"]), row) for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError):
        msg = "not the findings of an audit"
        hint = "give the JSON that `sapwood audit --json` writes"
        raise SapwoodError(msg, hint=hint) from None
    found, problems = list[ProjectSentence](), list[str]()
    for number, (text, row) in enumerate(fields, 1):
        try:
            words, tree = read_tree(text)
        except SapwoodError as error:
            problems.append(f"finding {number} was left out: {error}")
            continue
        problem = why_left_out(words)
        if problem is not None:
            problems.append(f"finding {number} {problem}, and was left out")
            continue
        note = {name: row[name] for name in NOTED if row.get(name) is not None}
        document = str(row.get("file") or FINDINGS)[:200]
        found.append(ProjectSentence("", document, words, tree=tree, note=note))
    return Imported(found, shorten(problems))


def _keep(rows: Iterable[tuple[list[str], str | None]], document: str) -> Imported:
    found, problems = list[ProjectSentence](), list[str]()
    for number, (words, text) in enumerate(rows, 1):
        problem = why_left_out(words)
        if problem is not None:
            problems.append(f"sentence {number} {problem}, and was left out")
        elif words:
            found.append(ProjectSentence("", document, tuple(words), text))
    return Imported(found, shorten(problems))


def why_left_out(words: Iterable[str]) -> str | None:
    """Why a sentence cannot be annotated, in words; None where it can."""
    words = list(words)
    if len(words) > SENTENCE_WORDS:
        return f"has {len(words):,} words, at most {SENTENCE_WORDS:,} are taken"
    longest = max(map(len, words), default=0)
    if longest > WORD_CHARACTERS:
        return f"has a word of {longest:,} characters, at most {WORD_CHARACTERS:,} are taken"
    return None


def shorten(messages: list[str]) -> list[str]:
    """The first messages of a list, and how many more there are."""
    if len(messages) <= MOST_MESSAGES:
        return messages
    rest = count(len(messages) - MOST_MESSAGES, "more message")
    return [*messages[:MOST_MESSAGES], f"and {rest}"]
