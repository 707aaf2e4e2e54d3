"""The notations of treebanks: how each is recognised and read, in one table.

A reader takes lines and gives trees; it names file, line and column where it stops, and goes on
behind a broken tree when errors are collected. Labels and words come out as Penn brackets can write
them: brackets inside are `-LRB-` and `-RRB-`, blanks are `_`. What a notation adds that is no part
of the tree, such as lemmas, codes and numbers, goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sapwood.corpus.files import COMPRESSED, Reading, Source, expand, open_text
from sapwood.corpus.formats import brackets, export, foreign, sinica, tigerxml
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError, SapwoodError

N_PEEKED = 16_384  # characters from which a format is recognised
MAX_PEEKED_LINES = 400

Read = Callable[[Iterable[str], Reading], Iterator[Tree]]

# Inside a folder these are looked at before they are taken: not every such file holds trees.
UNSURE = (".txt", ".xml")
SUFFIXES = (
    ".mrg", ".parse", ".psd", ".prd", ".tree", ".trees", ".ptb", ".penn", ".bracket", ".brackets",
    ".tbf", ".export", *UNSURE,
)  # fmt: skip


@dataclass(frozen=True)
class TreeFormat:
    """One notation.

    Parameters
    ----------
    name, title
        What users type, and what it is.
    is_like
        Whether the beginning of a text is written so.
    read
        Streams the trees of lines.
    """

    name: str
    title: str
    is_like: Callable[[str], bool]
    read: Read


# The first whose beginning fits is taken, so the strictest stand first.
FORMATS = {
    one.name: one
    for one in (
        TreeFormat("tigerxml", "TIGER-XML", tigerxml.is_like, tigerxml.read),
        TreeFormat("export", "NEGRA export, 3 or 4", export.is_like, export.read),
        TreeFormat("sinica", "Sinica's notation", sinica.is_like, sinica.read),
        TreeFormat(
            "discbracket", "brackets with leaves n=word", brackets.is_numbered,
            brackets.read_numbered,
        ),
        TreeFormat(
            "psd-lemmas", "Penn-historical brackets with word-lemma",
            brackets.is_historical_with_lemmas, brackets.read_historical_with_lemmas,
        ),
        TreeFormat(
            "psd", "Penn-historical brackets", brackets.is_historical, brackets.read_historical
        ),
        TreeFormat(
            "floresta", "Floresta's brackets: FUNCTION+form", brackets.is_floresta,
            brackets.read_floresta,
        ),
        TreeFormat("cess", "brackets with (tag word lemma)", brackets.is_cess, brackets.read_cess),
        TreeFormat(
            "joined", "Penn brackets, words with blanks joined", lambda head: False,
            brackets.read_joined,
        ),
        TreeFormat("penn", "Penn brackets", brackets.is_penn, brackets.read_penn),
    )
}  # fmt: skip


def find_format(name: str) -> TreeFormat:
    """The format of that name.

    Raises
    ------
    SapwoodError
        When there is none.
    """
    try:
        return FORMATS[name]
    except KeyError:
        msg = f"no format of trees is called {name!r}"
        raise SapwoodError(msg, hint=f"known are {', '.join(sorted(FORMATS))}") from None


def recognise(head: str) -> TreeFormat | None:
    """The format of a text, from its beginning; None when it holds no trees.

    Examples
    --------
    >>> recognise("(S (NP (N dogs)) (VP (V bark)))").name
    'penn'
    >>> recognise("Dogs bark .") is None
    True
    """
    return next((one for one in FORMATS.values() if one.is_like(head)), None)


def read_lines(
    lines: Iterable[str],
    name: str,
    format: str | None = None,
    *,
    skipped: list[CorpusError] | None = None,
    keep_functions: bool = False,
) -> Iterator[Tree]:
    """Stream the trees of lines in the format of that name, or in the one that they are in.

    Parameters
    ----------
    lines
        Of one file or anything else.
    format
        None recognises it from the first lines.
    name, skipped, keep_functions
        See `Reading`.
    """
    head, lines = peek(lines)
    found = recognise(head)
    chosen = find_format(format) if format else found or FORMATS["penn"]
    reading = Reading(name, skipped, keep_functions)
    n_trees, n_skipped = 0, len(skipped or ())
    try:
        for tree in chosen.read(lines, reading):
            n_trees += 1
            yield tree
    except CorpusError as error:
        if not n_trees:
            _explain(error, head, chosen, found)
        raise
    if skipped and not n_trees and len(skipped) > n_skipped:
        _explain(skipped[n_skipped], head, chosen, found)


def peek(lines: Iterable[str]) -> tuple[str, Iterator[str]]:
    """The beginning of a text, and all its lines; a byte-order mark is part of neither."""
    lines = iter(lines)
    seen: list[str] = []
    n = 0
    for line in lines:
        seen.append(line if seen else line.removeprefix("\ufeff"))
        n += len(line)
        if n >= N_PEEKED or len(seen) >= MAX_PEEKED_LINES:
            break
    return "".join(seen)[:N_PEEKED], chain(seen, lines)


def _explain(error: CorpusError, head: str, chosen: TreeFormat, found: TreeFormat | None) -> None:
    """Add what a text that has no tree at all seems to be."""
    if found is None:
        looks = foreign.kind_of(head)
        if looks is not None:
            error.message += f"; this looks like {looks.title}"
            error.hint = looks.hint
    elif found is not chosen:
        error.message += f"; this looks like {found.title}"
        error.hint = f"use --format {found.name}, or leave it to be recognised"


def treebank_files(
    sources: Source | Iterable[Source],
    encoding: str = "utf-8",
    left_out: list[str] | None = None,
    *,
    also: tuple[str, ...] = (),
) -> list[Source]:
    """The files that sources stand for; in folders, those with the ending of a treebank.

    Parameters
    ----------
    sources
        One or several of: path, glob, folder, `-` (stdin), open text file.
    encoding
        In which files of uncertain kind are looked at.
    left_out
        When given, the other files of folders are appended.
    also
        More endings that count inside a folder.
    """

    def holds_trees(path: Path) -> bool:
        name = path.name.lower()
        for ending in COMPRESSED:
            name = name.removesuffix(ending)
        if not name.endswith(UNSURE):
            return True
        try:
            with open_text(path, encoding) as file:
                return recognise(peek(file)[0]) is not None
        except CorpusError:
            return False

    return expand(sources, (*SUFFIXES, *also), is_wanted=holds_trees, left_out=left_out)
