"""Predicted trees as they are read back: brackets, or what `sapwood parse --json` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from sapwood.corpus.files import Source, lines_of, open_text, peek_line, source_name
from sapwood.corpus.formats import read_lines, treebank_files
from sapwood.corpus.formats.brackets import is_comment
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError

WITH_JSON = "write it with: sapwood parse MODEL FILE --json"


class Predicted(NamedTuple):
    """One predicted sentence.

    Attributes
    ----------
    tree
        None where it is missing.
    phrases
        Label, start, end and probability of the phrases below the root, tags apart; None for a
        file of trees, which says nothing about them. A probability may be unknown.
    """

    tree: Tree | None
    phrases: list[tuple[str, int, int, float | None]] | None = None


def read_predicted(source: str, n_gold: int, *, has_phrases: bool = False) -> list[Predicted]:
    """The predicted sentences; an empty line, or a null, stands for a missing tree.

    Parameters
    ----------
    source
        File, folder, glob or `-`; brackets or the output of `sapwood parse --json`.
    n_gold
        How many trees there should be. When the trees alone are as many, empty lines are only
        there to look at.
    has_phrases
        Whether every sentence must say how probable its phrases are.
    """
    items = [item for file in treebank_files(source) for item in _read_file(file, has_phrases)]
    trees = [item for item in items if item.tree is not None]
    return trees if len(trees) == n_gold else items


def _read_file(source: Source, has_phrases: bool) -> Iterator[Predicted]:
    name = source_name(source)  # what error messages show
    with open_text(source) as file:
        first, lines = peek_line(lines_of(file, name))
        if first.lstrip().startswith("{"):
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _JsonLine(name, number, has_phrases).read(line)
            return
        if has_phrases and first:
            msg = "trees without the probabilities that --reliability is about"
            raise CorpusError(msg, file=name, hint=WITH_JSON)
        yield from map(Predicted, _read_trees(lines, name))


def _read_trees(lines: Iterator[str], name: str) -> Iterator[Tree | None]:
    """The trees of lines; None for each empty line, where every tree stands on one of its own."""
    kinds: list[str] = []

    def watch() -> Iterator[str]:
        for line in lines:
            is_blank = not line.strip()
            kinds.append("comment" if is_comment(line) and not is_blank else _kind(line))
            yield line

    trees = iter(list(read_lines(watch(), name)))
    if "part" in kinds:
        yield from trees
        return
    for kind in kinds:
        if kind == "tree":
            yield next(trees)
        elif kind == "empty":
            yield None


def _kind(line: str) -> str:
    """Whether a line is one whole tree, empty, or part of something else."""
    line = line.strip()
    if not line:
        return "empty"
    depth = 0
    for place, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return "tree" if place == len(line) - 1 and place else "part"
    return "part"


class _JsonLine(NamedTuple):
    """Where a JSON object stands, and whether the probabilities of its phrases are wanted."""

    file: str
    number: int
    has_phrases: bool

    def read(self, line: str) -> Predicted:
        """The tree and, where wanted, its phrases."""
        item = self._object(line)
        if "tree" not in item or not isinstance(item["tree"], str | None):
            self._fail('expected an object with a "tree" in brackets, or null')
        if item["tree"] is None:
            return Predicted(None, [])
        try:
            tree = Tree.parse(item["tree"])
        except CorpusError as error:
            self._fail(f"in its tree: {error.message}")
        return Predicted(tree, self._phrases(tree, item) if self.has_phrases else None)

    def _object(self, line: str) -> dict[str, Any]:
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            self._fail("expected a JSON object, found other text")
        if not isinstance(item, dict):
            self._fail(f"expected a JSON object, found {line.strip()[:20]!r}")
        return item

    def _phrases(
        self, tree: Tree, item: dict[str, Any]
    ) -> list[tuple[str, int, int, float | None]]:
        """The phrases below the root; the constituents must be those of the tree, in order."""
        if not isinstance(item.get("constituents"), list):
            self._fail('no "constituents", so no probabilities')
        listed = [self._constituent(one) for one in item["constituents"]]
        if [one[:3] for one in listed] != tree.spans()[1:]:
            self._fail("the constituents are not those of the tree")
        nodes = list(tree.nodes())[1:]
        return [one for one, node in zip(listed, nodes, strict=True) if not node.is_preterminal]

    def _constituent(self, one: Any) -> tuple[str, int, int, float | None]:
        try:
            label, start, end, p = (one[key] for key in ("label", "start", "end", "probability"))
        except (TypeError, KeyError):
            self._fail("a constituent without label, start, end or probability")
        is_number = isinstance(p, int | float) and not isinstance(p, bool)
        if p is not None and not (is_number and 0 <= p <= 1):
            self._fail(f"expected a probability from 0 to 1, or null, found {p!r}")
        return label, start, end, p

    def _fail(self, message: str) -> NoReturn:
        raise CorpusError(message, file=self.file, line=self.number, hint=WITH_JSON)
