"""The notations of treebanks: how each is recognised and read, in one table.

A reader takes lines and gives trees; it names file, line and column where it stops, and continues
after a broken tree when errors are collected. Labels and words are changed to what Penn brackets
can write: brackets inside are `-LRB-` and `-RRB-`, blanks are `_`. What a notation adds that is no
part of the tree, such as lemmas, codes and numbers, goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from sapwood.core.errors import CorpusError, SapwoodError, as_items
from sapwood.core.outputs import open_output
from sapwood.corpora.files import COMPRESSED, MemoryNeed, Reading, Source, expand, open_lines
from sapwood.corpora.formats import brackets, graph
from sapwood.corpora.formats.brackets import COMMENT, FLORESTA
from sapwood.corpora.tree import Tree, as_tree

N_PEEKED_CHARACTERS = 16_384  # characters from which a format is recognised
MAX_PEEKED_LINES = 400

Read = Callable[[Iterable[str], Reading], Iterator[Tree]]

# Inside a folder these are looked at before they are taken: not every such file holds trees.
UNSURE_SUFFIXES = (".txt", ".xml")
TREEBANK_SUFFIXES = (
    ".mrg", ".parse", ".psd", ".prd", ".tree", ".trees", ".ptb", ".penn", ".bracket", ".brackets",
    ".tbf", ".export", *UNSURE_SUFFIXES,
)  # fmt: skip


_TIGER = re.compile(r"<(corpus|subcorpus)[\s>]|<s\s+id=")
_EXPORT = re.compile(r"#(FORMAT\s+\d|BOS\s+\d|BOT\s+\w)")
_CLAUSE = re.compile(
    r"\s*(?:#\d[^\s()]*\s+)?[^\s()|:#<{\[]+"  # a number, a category, and its brackets,
    r"(?=\().*?[(|](?:[^\s()|:]+:){1,2}[^\s()|:]+[|)]"  # in which there is some role:tag:word
)
_HISTORICAL = re.compile(r"\(ID\s+[^\s(),]+,[^\s()]+\s*\)|\(CODE\s+[<{]|^[ \t]*/~?\*", re.MULTILINE)
_CODE = re.compile(r"\((ID|CODE)\s+[^()]*\)")
_LEAF = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)(\s+[^\s()]+)?\s*\)")
_ROW = re.compile(r"\d+(?:[-.]\d+)?\t[^\t\n]*(?:\t[^\t\n]*){6,}")
_COLUMNS = re.compile(r"\S+(?:\t[^\t\n]*){2,}")
N_LEAVES = 5  # fewest leaves with a lemma that make a format with lemmas
MOST = 0.8  # fraction of leaves that must look alike


def read_trees(
    sources: Source | Iterable[Source],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    keep_functions: bool = False,
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
    memory: MemoryNeed | None = None,
) -> Iterator[Tree]:
    """Stream the trees of files, folders, globs or open files, in order, as they are written.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    format
        How the trees are written, a name of `sapwood.corpora.formats`; None recognises it, for each
        file, from its beginning.
    encoding
        The encoding of the files, unless an XML file names its own.
    keep_functions
        Whether labels of formats that keep functions apart carry them, as in `NP-SBJ`.
    skipped
        When given, a broken tree is skipped and its error appended here; when None, it is raised.
    left_out
        When given, the files of folders that were passed over are appended.
    memory
        Bytes that the caller keeps for each byte of text, and what to do where these are not free:
        then nothing is read.

    Raises
    ------
    CorpusError
        With file, line, column and what was expected.

    Examples
    --------
    >>> import io
    >>> [tree.label for tree in read_trees(io.StringIO("(S (X a)) (NP (X b) (Y c))"))]
    ['S', 'NP']
    """
    for source in treebank_files(sources, encoding, left_out, memory=memory):
        with open_lines(source, encoding) as (name, lines):
            yield from read_lines(
                lines, name, format, skipped=skipped, keep_functions=keep_functions
            )


def as_trees(source: object) -> Iterable[Any]:
    """Trees, given as such or as the path of a file."""
    if isinstance(source, (str, Path)):
        return read_trees(source)
    return as_items(source, "trees, or the path of a file of them")


def write_trees(trees: Iterable[Tree], file: str | Path | IO[str], *, force: bool = False) -> int:
    """Write one tree per line and return how many; a path is written whole or not at all.

    `force` allows to replace a file that Sapwood did not write.
    """
    if isinstance(file, (str, Path)):
        with open_output(file, force=force) as out:
            return write_trees(trees, out)
    n_trees = 0
    for n_trees, tree in enumerate(as_items(trees, "trees"), 1):  # noqa: B007
        file.write(f"{as_tree(tree)}\n")
    return n_trees


def is_tigerxml(head: str) -> bool:
    """Whether a text is XML that starts a corpus or a sentence of TIGER-XML."""
    return head.lstrip().startswith("<") and _TIGER.search(head) is not None


def is_export(head: str) -> bool:
    """Whether a text starts with a header or a sentence of NEGRA export."""
    rows = (line for line in head.split("\n") if line.partition("%%")[0].strip())
    return _EXPORT.match(next(rows, "")) is not None


def is_graph_format(head: str) -> bool:
    """Whether a text starts as TIGER-XML or NEGRA export does."""
    return is_export(head) or is_tigerxml(head)


def is_sinica(head: str) -> bool:
    """Whether one of the first lines is a clause of Sinica's notation."""
    if is_penn(head):
        return False
    lines = islice((line for line in head.split("\n") if line.strip()), 5)
    return any(_CLAUSE.match(line) for line in lines)


def is_penn(head: str) -> bool:
    """Whether the first line that is no comment starts a bracket."""
    lines = head.split("\n")
    return next((line for line in lines if not COMMENT.match(line)), "").lstrip().startswith("(")


def is_numbered(head: str) -> bool:
    """Whether the words carry their positions, `0=The`, as in discontinuous brackets."""
    return is_penn(head) and _most_words(head, r"\d+=.+")


def is_historical(head: str) -> bool:
    """Whether there are `(ID text,number)` by trees, `(CODE <x>)` in them, or comment blocks."""
    return _HISTORICAL.search(head) is not None


def is_historical_with_lemmas(head: str) -> bool:
    """Whether Penn-historical words also carry their lemmas, `dogs-dog`."""
    return is_historical(head) and _most_words(_CODE.sub("", head), r".+-.+|\*.*|0")


def is_floresta(head: str) -> bool:
    """Whether labels are `FUNCTION+form`."""
    labels = re.findall(r"\(([^\s()]*\w[^\s()]*)", head) if is_penn(head) else []
    n_joint = sum(FLORESTA.fullmatch(label) is not None for label in labels)
    return n_joint > 0 and n_joint >= MOST * len(labels)


def is_cess(head: str) -> bool:
    """Whether the leaves are `(tag word lemma)`; a few alone may as well be mistakes."""
    lemmas = [bool(leaf[3]) for leaf in _LEAF.finditer(head)] if is_penn(head) else []
    return sum(lemmas) >= max(N_LEAVES, MOST * len(lemmas))


def _most_words(head: str, pattern: str) -> bool:
    words = [leaf[2] for leaf in _LEAF.finditer(head)]
    n_like = sum(re.fullmatch(pattern, word) is not None for word in words)
    return n_like > 0 and n_like >= MOST * len(words)


class Kind(NamedTuple):
    """The recognised kind of a text without trees, and a hint for its user."""

    title: str
    hint: str


DEPENDENCIES = Kind(
    "CoNLL-U",
    "`sapwood depend train` and the other commands of `sapwood depend` take dependency trees",
)
_TABLE = Kind("a table of words", "bring the trees in brackets, or in the export format")
_JSON = Kind("JSON", "write the trees in brackets, one per line")
_XML = Kind("XML, but not TIGER-XML", "export it as TIGER-XML, NEGRA export or Penn brackets")
_BINARY = Kind("a binary file", "name the treebank itself; .gz, .xz and .bz2 may stay compressed")
_SENTENCES = Kind("plain sentences", "trees are expected here; `sapwood parse` takes sentences")


def foreign_kind(head: str) -> Kind | None:
    r"""Recognise a text without trees by its beginning; None for an empty text.

    Examples
    --------
    >>> foreign_kind("# sent_id = 1\n1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_").title
    'CoNLL-U'
    >>> foreign_kind('{"tree": "(S (X a))"}').title
    'JSON'
    """
    text = head.strip()
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not lines or text.startswith("("):
        return None
    if "\0" in text:
        return _BINARY
    if _ROW.match(lines[0]):
        return DEPENDENCIES
    if text.startswith(("{", "[")):
        return _JSON
    if text.startswith("<"):
        return _XML
    return _TABLE if _COLUMNS.match(lines[0]) else _SENTENCES


@dataclass(frozen=True)
class TreeFormat:
    """One notation of trees: how it is recognised and read."""

    name: str  # what users type
    title: str
    is_like: Callable[[str], bool]  # recognises the format by the beginning of a text
    read: Read  # streams the trees of lines


# The first whose beginning fits is taken, so the strictest stand first.
FORMATS = {
    one.name: one
    for one in (
        TreeFormat("tigerxml", "TIGER-XML", is_tigerxml, graph.read_tigerxml),
        TreeFormat("export", "NEGRA export, 3 or 4", is_export, graph.read_export),
        TreeFormat("sinica", "Sinica's notation", is_sinica, graph.read_sinica),
        TreeFormat(
            "discbracket", "brackets with leaves n=word", is_numbered,
            brackets.read_numbered,
        ),
        TreeFormat(
            "psd-lemmas", "Penn-historical brackets with word-lemma",
            is_historical_with_lemmas, brackets.read_historical_with_lemmas,
        ),
        TreeFormat(
            "psd", "Penn-historical brackets", is_historical, brackets.read_historical
        ),
        TreeFormat(
            "floresta", "Floresta's brackets: FUNCTION+form", is_floresta,
            brackets.read_floresta,
        ),
        TreeFormat("cess", "brackets with (tag word lemma)", is_cess, brackets.read_cess),
        TreeFormat(
            "joined", "Penn brackets, words with blanks joined", lambda head: False,
            brackets.read_joined,
        ),
        TreeFormat("penn", "Penn brackets", is_penn, brackets.read_penn),
    )
}  # fmt: skip


def find_format(name: str) -> TreeFormat:
    """The format that users call by a name."""
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
    """Stream the trees of lines in a format; None recognises it from the first lines.

    `name`, `skipped` and `keep_functions` are those of `Reading`.
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
        if n >= N_PEEKED_CHARACTERS or len(seen) >= MAX_PEEKED_LINES:
            break
    return "".join(seen)[:N_PEEKED_CHARACTERS], chain(seen, lines)


def _explain(error: CorpusError, head: str, chosen: TreeFormat, found: TreeFormat | None) -> None:
    """Add what a text that has no tree at all seems to be."""
    if found is None:
        looks = foreign_kind(head)
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
    memory: MemoryNeed | None = None,
) -> list[Source]:
    """The files that sources stand for; in folders, those with the endings of treebanks or `also`.

    Files of uncertain kind are opened in the given encoding and recognised by their beginning.
    `memory` is that of `read_trees`.
    """

    def holds_trees(path: Path) -> bool:
        name = path.name.lower()
        for ending in COMPRESSED:
            name = name.removesuffix(ending)
        if not name.endswith(UNSURE_SUFFIXES):
            return True
        try:
            with open_lines(path, encoding) as (_, lines):
                return recognise(peek(lines)[0]) is not None
        except CorpusError:
            return False

    endings = (*TREEBANK_SUFFIXES, *also)
    return expand(sources, endings, is_wanted=holds_trees, left_out=left_out, memory=memory)
