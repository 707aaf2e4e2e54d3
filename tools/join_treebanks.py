"""Bring the labels of English treebanks together, so that one model can learn from several.

- Labels that only some treebanks have are taken out, and what was below them stays: `NML` inside
  noun phrases, and `TITLE`, `HEADING`, `CAPTION` around sentences. `CIT`, a citation, is `PRN`.
- Function tags, indices and traces go. A phrase with an only child of its own label goes too.
- Quotes are written as Penn treebanks do, which parsers expect: `` and '', and ' for an apostrophe.
- The root is `ROOT`; what has several parts below it, or a word alone, becomes a `FRAG`.
"""

# ruff: noqa: RUF001 - quotes that look alike are what this file is about

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sapwood.corpora.tree import Tree

SPLICED = frozenset({"NML", "TITLE", "HEADING", "CAPTION"})
RENAMED = {"CIT": "PRN"}
_DOUBLE = frozenset({'"', "“", "”", "``", "''"})
_END_OF_LABEL = re.compile(r"[-=|]")


def join_labels(trees: Iterable[Tree]) -> Iterator[Tree]:
    """Trees as published, with the labels and quotes that all treebanks share.

    >>> tree = Tree.parse("( (TITLE (NP-SBJ (NML (NN heart) (NN rate)) (NN data)) (-NONE- *)))")
    >>> print(next(join_labels([tree])))
    (ROOT (NP (NN heart) (NN rate) (NN data)))
    """
    for tree in trees:
        kids = [part for kid in tree for part in _parts(kid)]
        if not kids:
            continue
        if len(kids) > 1 or kids[0].is_preterminal:
            kids = [Tree("FRAG", kids)]
        yield Tree("ROOT", kids)


def _parts(tree: Tree) -> list[Tree]:
    """The trees that stand for a tree below its parent: none for a trace."""
    if tree.is_preterminal:
        return [] if tree.label == "-NONE-" else [Tree(tree.label, _word(tree.label, tree.word))]
    kids = [part for kid in tree for part in _parts(kid)]
    label = shared_label(tree.label)
    if not kids or label in SPLICED:
        return kids
    label = RENAMED.get(label, label)
    if len(kids) == 1 and kids[0].label == label and not kids[0].is_preterminal:
        return kids
    return [Tree(label, kids)]


def shared_label(label: str) -> str:
    """The label of a phrase without functions and indices.

    >>> shared_label("NP-SBJ=2"), shared_label("-LRB-")
    ('NP', '-LRB-')
    """
    return label if label.startswith("-") else _END_OF_LABEL.split(label)[0] or label


def _word(tag: str, word: str) -> str:
    """A word with the apostrophes and quotes of Penn treebanks."""
    if tag == "``":
        return "``" if word in _DOUBLE else "`" if word in "'‘’" else word
    if tag == "''":
        return "''" if word in _DOUBLE else "'" if word in "'‘’" else word
    return re.sub("[’‘]", "'", word)
