"""Sentences of CoNLL-U with their places, and the documents that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sapwood.core.errors import CorpusError
from sapwood.core.outputs import sha256
from sapwood.corpora.files import Reading, Source, expand, lines_of, open_text, source_name
from sapwood.corpora.formats import DEPENDENCIES, foreign_kind, peek, recognise
from sapwood.dependency.data.bank import Arcs, heads_problem
from sapwood.dependency.data.reader import CONLLU_SUFFIXES, read_conllu

_NEW_DOCUMENT = re.compile(r"^#\s*newdoc\b", re.MULTILINE)


class Annotation(NamedTuple):
    """Tags, heads and relations of the words of a sentence; heads from 1 on, 0 is the root."""

    upos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True)
class LocatedSentence:
    """A sentence with its file, the line of its first word, and its number from 1."""

    file: str
    line: int
    number: int
    words: tuple[str, ...]
    xpos: tuple[str, ...]
    annotation: Annotation

    def arcs(self, annotation: Annotation | None = None) -> Arcs:
        """The sentence with its tree, or with another annotation."""
        upos, heads, relations = annotation or self.annotation
        return Arcs(self.words, heads, relations, upos, self.xpos)


@dataclass
class LocatedSentences:
    """The sentences of an audit, in the order read.

    Attributes
    ----------
    file_starts, document_starts
        Indices of the sentences that start a file, and of those with a comment `# newdoc`.
    skipped
        Errors of sentences that could not be read.
    files
        SHA-256 of each file.
    """

    sentences: list[LocatedSentence] = field(default_factory=list)
    file_starts: list[int] = field(default_factory=list)
    document_starts: list[int] = field(default_factory=list)
    skipped: list[CorpusError] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def read_located(
    sources: Source | Iterable[Source],
    *,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    left_out: list[str] | None = None,
) -> LocatedSentences:
    """Read the sentences of CoNLL-U files, each with its place.

    Parameters
    ----------
    skip_bad
        Whether sentences that cannot be read are skipped and their errors kept.
    sources, encoding, left_out
        As `sapwood.read_arcs` takes them.
    """
    found = LocatedSentences()
    number = 0
    for source in expand(sources, CONLLU_SUFFIXES, left_out=left_out):
        found.file_starts.append(len(found.sentences))
        name = source_name(source)
        with open_text(source, encoding) as file:
            reading = Reading(name, found.skipped if skip_bad else None)
            head, lines = peek(lines_of(file, name))
            _refuse_phrases(name, head)
            for one in read_conllu(lines, reading):
                number += 1
                if _NEW_DOCUMENT.search(one.text):
                    found.document_starts.append(len(found.sentences))
                tree = Annotation(tuple(one.upos), tuple(one.heads), tuple(one.relations))
                found.sentences.append(
                    LocatedSentence(
                        name, one.lines[0], number, tuple(one.words), tuple(one.xpos), tree
                    )
                )
        if isinstance(source, (str, Path)) and str(source) != "-":
            found.files[name] = sha256(Path(source))
    return _with_first(found)


def locate_arcs(trees: Iterable[Arcs]) -> LocatedSentences:
    """Dependency trees that come from no file, each with its number."""
    found = LocatedSentences(file_starts=[0])
    for number, one in enumerate(trees, 1):
        problem = heads_problem(one.heads)
        if problem is not None:
            raise CorpusError(f"sentence {number}: {problem.message}", hint=problem.hint)
        if any(map(_NEW_DOCUMENT.search, one.comments)):
            found.document_starts.append(number - 1)
        tree = Annotation(tuple(one.upos), tuple(one.heads), tuple(one.relations))
        words, xpos = tuple(one.words), tuple(one.xpos)
        found.sentences.append(LocatedSentence("<trees>", number, number, words, xpos, tree))
    return _with_first(found)


def _with_first(found: LocatedSentences) -> LocatedSentences:
    """Sentences before the first mark of a document are one as well."""
    if found.document_starts and found.document_starts[0]:
        found.document_starts.insert(0, 0)
    return found


def _refuse_phrases(name: str, head: str) -> None:
    """Refuse a file of phrase trees, whose lines would all be broken sentences."""
    phrases = None if foreign_kind(head) is DEPENDENCIES else recognise(head)
    if phrases is not None:
        msg = f"holds phrase trees ({phrases.title}), expected CoNLL-U"
        hint = "`sapwood audit` takes phrase trees; `sapwood depend convert` makes arcs of them"
        raise CorpusError(msg, file=name, hint=hint)
