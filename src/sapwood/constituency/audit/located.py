"""Trees of files with the place of each, and the documents that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from sapwood.core.errors import CorpusError
from sapwood.core.outputs import sha256
from sapwood.corpora.files import Reading, Source, open_lines, source_name
from sapwood.corpora.formats import (
    DEPENDENCIES,
    FORMATS,
    find_format,
    foreign_kind,
    peek,
    recognise,
    treebank_files,
)
from sapwood.corpora.tree import ROOT, Tree, as_tree, clean

Bracket = tuple[str, int, int]


class Annotation(NamedTuple):
    """The tags and brackets of a tree, brackets in pre-order, without the root `TOP`.

    Examples
    --------
    >>> annotation_of(Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP bark))))"))
    Annotation(tags=('NNS', 'VBP'), brackets=(('S', 0, 2), ('NP', 0, 1), ('VP', 1, 2)))
    """

    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]


@dataclass(frozen=True)
class LocatedTree:
    """A cleaned tree with the file, the line on which it starts, and its number from 1."""

    file: str
    line: int
    number: int
    words: tuple[str, ...]
    annotation: Annotation


@dataclass
class LocatedTrees:
    """The trees of an audit, in the order read.

    Attributes
    ----------
    file_starts, group_starts
        Indices of the trees that start a file, and of those after an empty line.
    skipped
        Errors of trees that could not be read.
    """

    trees: list[LocatedTree] = field(default_factory=list)
    file_starts: list[int] = field(default_factory=list)
    group_starts: list[int] = field(default_factory=list)
    skipped: list[CorpusError] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def annotation_of(tree: Tree) -> Annotation:
    """The tags and brackets of a cleaned tree."""
    tags: list[str] = []
    brackets: list[Bracket] = []
    for node, bracket in zip(tree.nodes(), tree.spans(), strict=True):
        if node.is_preterminal:
            tags.append(node.label)
        else:
            brackets.append(bracket)
    if brackets and brackets[0][0] == ROOT:
        del brackets[0]
    return Annotation(tuple(tags), tuple(brackets))


def as_brackets(words: Iterable[str], annotation: Annotation) -> Tree:
    """The tree of an annotation, with `TOP` on top.

    Examples
    --------
    >>> tree = Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now)))))")
    >>> as_brackets(tree.words(), annotation_of(tree)) == tree
    True
    """
    leaves = [Tree._trusted(t, (w,)) for t, w in zip(annotation.tags, words, strict=True)]
    brackets = [(ROOT, 0, len(leaves)), *annotation.brackets]
    built: dict[int, tuple[Tree, int]] = {i: (leaf, i + 1) for i, leaf in enumerate(leaves)}
    for label, i, j in reversed(brackets):  # children come before their parents
        kids, at = [], i
        while at < j:
            kid, end = built.pop(at)
            kids.append(kid)
            at = end
        built[i] = (Tree._trusted(label, tuple(kids)), j)
    return built[0][0]


class _Lines:
    """The lines of a file, counted as they are read, with the numbers of empty ones."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.number = 0
        self.empty: list[int] = []

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            if not line.strip():
                self.empty.append(self.number)
            yield line


def read_located_trees(
    sources: Source | Iterable[Source],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    left_out: list[str] | None = None,
) -> LocatedTrees:
    """Read and clean the trees of files, each with its place.

    Parameters
    ----------
    skip_bad
        Whether trees that cannot be read are skipped and their errors kept.
    sources, format, encoding, left_out
        As `sapwood.read_trees` takes them.
    """
    found = LocatedTrees()
    number = 0
    for source in treebank_files(sources, encoding, left_out):
        found.file_starts.append(len(found.trees))
        name = source_name(source)
        for tree, line, is_group in _trees_of(source, format, encoding, found, skip_bad=skip_bad):
            number += 1
            cleaned = clean(tree)
            if cleaned is None:
                continue
            if is_group:
                found.group_starts.append(len(found.trees))
            words = tuple(cleaned.words())
            found.trees.append(LocatedTree(name, line, number, words, annotation_of(cleaned)))
        if isinstance(source, (str, Path)) and str(source) != "-":
            found.files[name] = sha256(Path(source))
    return found


def _trees_of(
    source: Source, format: str | None, encoding: str, found: LocatedTrees, *, skip_bad: bool
) -> Iterator[tuple[Tree, int, bool]]:
    """Trees of a file with their line, and whether each follows an empty line."""
    with open_lines(source, encoding) as (name, every):
        head, lines = peek(every)
        if format is None and foreign_kind(head) is DEPENDENCIES:
            msg = "holds dependency trees (CoNLL-U), expected phrase trees"
            hint = "`sapwood depend audit` takes dependency trees"
            raise CorpusError(msg, file=name, hint=hint)
        chosen = find_format(format) if format else recognise(head) or FORMATS["penn"]
        counted, starts = _Lines(iter(lines)), [0]
        reading = Reading(name, found.skipped if skip_bad else None, started=starts)
        before = 0
        for tree in chosen.read(counted, reading):
            line = starts[-1] or counted.number
            is_group = before == 0 or any(before < empty < line for empty in counted.empty)
            counted.empty.clear()
            before = counted.number
            yield tree, line, is_group


def locate(trees: Iterable[Tree]) -> LocatedTrees:
    """Trees that come from no file, each with its number."""
    found = LocatedTrees(file_starts=[0], group_starts=[0])
    for number, tree in enumerate(chain(trees), 1):
        cleaned = clean(as_tree(tree))
        if cleaned is not None:
            words = tuple(cleaned.words())
            one = LocatedTree("<trees>", number, number, words, annotation_of(cleaned))
            found.trees.append(one)
    return found
