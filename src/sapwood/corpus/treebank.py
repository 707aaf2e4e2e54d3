"""`Treebank`: all trees as packed arrays.

Notation
--------
A node of a tree is a row; the rows of one tree stand together, children before parents, so the
root is the last row. Bottom-up is a loop up, top-down a loop down.

    column   meaning                                              in-terminal   pre-terminal
    label    symbol number                                        < n_phrases   >= n_phrases
    rule     number of its binary rule                            >= 0          -1
    left     row of the left child, counted from the tree's first >= 0          -1
    right    row of the right child, likewise                     >= 0          -1
    parent   row of the parent, likewise; -1 at the root
    word     word number                                          -1            >= 0
    start    first word covered
    end      one past the last word covered
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import as_file
from itertools import chain as concatenate
from itertools import islice, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from sapwood.arguments import describe
from sapwood.arrays import ranges, starts_of
from sapwood.corpus.bundled import sample_path
from sapwood.corpus.clean import ROOT, clean_all
from sapwood.corpus.files import Source
from sapwood.corpus.heads import uses_penn_tags
from sapwood.corpus.penn import read_trees
from sapwood.corpus.transform import (
    Symbol,
    Transform,
    binarise,
    child_ancestors,
    restore,
)
from sapwood.corpus.tree import Tree, as_tree, unary_chain
from sapwood.errors import CorpusError

IntArray = npt.NDArray[np.int32]
# what `as_treebank` takes: trees, files of them by name, or one file's or folder's name
TreebankLike = Iterable[Any] | str | Path
N_PEEKED = 1000  # trees that are looked at to recognise the label set
# Shards depend on the data alone, so that no sum over them depends on who takes it. Each has counts
# of all rules, so that smaller ones cost more time than more threads win.
SHARD_NODES = 100_000


@dataclass(frozen=True)
class Inventory:
    """What the numbers in a treebank stand for; shared by all its shards.

    Attributes
    ----------
    phrases, tags
        The symbols of in-terminals and of pre-terminals; a tag's number follows the last phrase's.
    words
        The word behind each word number.
    rules
        `(a, b, c)` behind each rule number, shape [n_rules, 3].
    transform
        How the trees were made binary, with `heads` decided.
    rule_heads
        On which side the head of each rule lies, 0 left or 1 right, shape [n_rules].
    """

    phrases: tuple[Symbol, ...]
    tags: tuple[Symbol, ...]
    words: tuple[str, ...]
    rules: IntArray
    transform: Transform
    rule_heads: IntArray

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols in the order of their numbers."""
        return self.phrases + self.tags


@dataclass(frozen=True, eq=False, repr=False)
class Treebank:
    """Packed trees; slicing gives shards that share everything and copy nothing.

    For people it is a sequence of trees: `bank[0]` is a `Tree`, `bank[:100]` and `bank[[3, 5, 8]]`
    are treebanks, and a loop over it gives its trees.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now))))")
    >>> bank = Treebank.from_trees([tree])
    >>> bank.n_trees, bank.n_tokens, len(bank.label)
    (1, 3, 5)
    >>> print(bank[0])
    (TOP (S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now)))))
    >>> bank
    <Treebank: 1 tree, 3 words; 2 phrase labels, 3 tags>
    """

    inventory: Inventory
    offsets: npt.NDArray[np.int64]
    label: IntArray
    rule: IntArray
    left: IntArray
    right: IntArray
    parent: IntArray
    word: IntArray
    start: IntArray
    end: IntArray

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "label", "rule", "left", "right", "parent", "word", "start", "end",
    )  # fmt: skip

    def digest(self) -> str:
        """A fingerprint of trees and numbering: the same trees, in the same order, or another one.

        Cost: a few hundred MB of columns a second.
        """
        known = self.inventory
        names = [known.phrases, known.tags, known.words, known.transform.as_dict()]
        made = sha256(json.dumps(names).encode())
        for column in (known.rules, self.offsets, *(getattr(self, name) for name in self.COLUMNS)):
            made.update(f"{column.dtype.str} {column.shape}".encode())
            made.update(np.ascontiguousarray(column).tobytes())
        return made.hexdigest()

    @classmethod
    def from_trees(cls, trees: Iterable[Tree], transform: Transform | None = None) -> Treebank:
        """Pack trees that are already clean, in one pass.

        Parameters
        ----------
        trees
            Cleaned trees, ours or NLTK's; ones that lack the root `TOP` are taken as its only
            child. `as_treebank` cleans them first.
        transform
            How to make them binary; the default grows phrases outward from their heads.
        """
        if isinstance(trees, (str, bytes, PathLike, Tree)) or not isinstance(trees, Iterable):
            msg = f"from_trees needs several trees, not {describe(trees)}"
            raise CorpusError(msg, hint="give a list of trees; files are read by read_treebank")
        packer, trees = packer_for(trees, transform)
        for tree in trees:
            packer.add(tree)
        return packer.treebank()

    # -- size and slicing ---------------------------------------------------------------------

    @property
    def n_trees(self) -> int:
        """How many trees."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """How many words, counted with repetition."""
        return (len(self.label) + self.n_trees) // 2  # a binary tree over n words has 2n - 1 nodes

    def __len__(self) -> int:
        return self.n_trees

    def __repr__(self) -> str:
        inventory = self.inventory
        sizes = (self.n_trees, "tree"), (self.n_tokens, "word")
        kinds = (len(inventory.phrases), "phrase label"), (len(inventory.tags), "tag")
        listed = (
            ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in part)
            for part in (sizes, kinds)
        )
        return f"<Treebank: {'; '.join(listed)}>"

    def __iter__(self) -> Iterator[Tree]:
        return self.trees()

    @overload
    def __getitem__(self, place: int) -> Tree: ...

    @overload
    def __getitem__(self, place: slice | Sequence[int] | npt.NDArray[Any]) -> Treebank: ...

    def __getitem__(self, place: int | slice | Sequence[int] | npt.NDArray[Any]) -> Tree | Treebank:
        """One tree for a number; a treebank for a slice, numbers in a list, or an array of them."""
        if isinstance(place, slice):
            first, last, step = place.indices(self.n_trees)
            if step == 1:
                return self._run(first, max(first, last))
            return self._take(np.arange(first, last, step))
        if isinstance(place, (int, np.integer)) and not isinstance(place, bool):
            if not -self.n_trees <= place < self.n_trees:
                msg = f"the treebank has {self.n_trees:,} trees, so there is no tree {place}"
                raise IndexError(msg)
            return self.tree(int(place) % self.n_trees)
        return self._take(_tree_numbers(place, self.n_trees))

    def _take(self, trees: npt.NDArray[np.int64]) -> Treebank:
        """The trees of these numbers, copied, in this order."""
        first, end = self.offsets[trees], self.offsets[trees + 1]
        rows = ranges(first, end)
        cut: dict[str, Any] = {name: getattr(self, name)[rows] for name in self.COLUMNS}
        return replace(self, offsets=starts_of(end - first), **cut)

    def _run(self, first: int, last: int) -> Treebank:
        """The trees from one number up to another, as views."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        cut: dict[str, Any] = {name: getattr(self, name)[rows] for name in self.COLUMNS}
        return replace(self, offsets=self.offsets[first : last + 1] - self.offsets[first], **cut)

    def shards(self, n: int | None = None) -> list[Treebank]:
        """Cut into runs of trees with about equally many nodes.

        Parameters
        ----------
        n
            How many at most; None for as many as the number of nodes asks for.
        """
        return [self._run(first, last) for first, last in shard_cuts(self.offsets, n)]

    # -- back to people -----------------------------------------------------------------------

    def words(self, index: int) -> list[str]:
        """The sentence of one tree."""
        numbers = self.word[self._rows(index)]
        return [self.inventory.words[number] for number in numbers[numbers >= 0]]

    def tree(self, index: int) -> Tree:
        """One tree, restored to what `clean` left."""
        rows = self._rows(index)
        names = self.inventory.words
        columns = (getattr(self, c)[rows].tolist() for c in ("label", "left", "right", "word"))
        nodes = [
            (a, b, c, names[x] if x >= 0 else None) for a, b, c, x in zip(*columns, strict=True)
        ]
        return restore(self.inventory.symbols, nodes)

    def trees(self) -> Iterator[Tree]:
        """All trees, restored."""
        return (self.tree(index) for index in range(self.n_trees))

    def retransform(self, transform: Transform) -> Treebank:
        """The same trees made binary in another way."""
        if transform in (self.inventory.transform, replace(self.inventory.transform, heads="auto")):
            return self
        return Treebank.from_trees(self.trees(), transform)

    def _rows(self, index: int) -> slice:
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))


def read_treebank(
    sources: Source | Iterable[Source],
    transform: Transform | None = None,
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    keep_functions: bool = False,
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Treebank:
    """Read, clean, make binary and pack a treebank.

    One that does not fit in memory is read by `StoredTreebank.read`.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    transform
        How to make the trees binary; the default grows phrases outward from their heads.
    format
        How the trees are written, a name of `sapwood.corpus.formats`; None recognises it, for each
        file, from its beginning.
    encoding
        The encoding of the files, unless an XML file names its own.
    keep_functions
        Whether function tags stay in the labels, as in `NP-SBJ`.
    skipped
        When given, broken trees are skipped and their errors appended; when None, they are raised.
    left_out
        When given, the files of folders that were passed over are appended.
    """
    trees = read_trees(
        sources,
        format=format,
        encoding=encoding,
        keep_functions=keep_functions,
        skipped=skipped,
        left_out=left_out,
    )
    return Treebank.from_trees(clean_all(trees, keep_functions=keep_functions), transform)


def as_treebank(source: TreebankLike) -> Treebank:
    """What `fit` and others take for a treebank: one, trees (ours or NLTK's), or where they lie.

    Trees that come as objects are cleaned (`sapwood.corpus.clean`) as read ones are.

    Examples
    --------
    >>> as_treebank([Tree.parse("(S (NP-SBJ (NNS dogs)) (VP (VBP bark)))")])[0].words()
    ['dogs', 'bark']
    """
    if isinstance(source, Treebank):
        return source
    if isinstance(source, (str, Path)):
        return read_treebank(source)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, Tree, Mapping)):
        items = list(source)
        if items and all(isinstance(item, (str, Path)) for item in items):
            return read_treebank(items)
        return Treebank.from_trees(clean_all(map(as_tree, items)))
    msg = f"expected a treebank, not {describe(source)}"
    raise CorpusError(msg, hint="give a Treebank, a list of trees, or the path of a file or folder")


def bundled_treebank(split: str = "train", transform: Transform | None = None) -> Treebank:
    """The treebank that comes with Sapwood: `train` (3,000 trees), `dev` or `test` (300 each)."""
    with as_file(sample_path(split)) as path:
        return read_treebank(path, transform)


def _tree_numbers(places: object, n_trees: int) -> npt.NDArray[np.int64]:
    """Numbers of trees from a list or array of numbers, or from one truth value a tree."""
    numbers = np.asarray(places)
    if numbers.ndim == 1 and numbers.dtype == bool and len(numbers) == n_trees:
        return np.flatnonzero(numbers)
    if numbers.ndim == 1 and not len(numbers):
        return np.empty(0, np.int64)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        msg = f"a treebank is indexed by numbers, a slice, or a list of numbers, not {places!r:.80}"
        raise TypeError(msg)
    wrong = numbers[(numbers < -n_trees) | (numbers >= n_trees)]
    if len(wrong):
        msg = f"the treebank has {n_trees:,} trees, so there is no tree {wrong[0]}"
        raise IndexError(msg)
    return numbers.astype(np.int64) % n_trees


def shard_cuts(offsets: npt.NDArray[np.int64], n: int | None = None) -> list[tuple[int, int]]:
    """First tree, and one past the last, of shards with about equally many nodes."""
    n = -(-int(offsets[-1]) // SHARD_NODES) if n is None else n
    targets = np.linspace(0, offsets[-1], max(1, n) + 1)
    return list(pairwise(np.unique(np.searchsorted(offsets, targets)).tolist()))


def packer_for(trees: Iterable[Tree], transform: Transform | None) -> tuple[Packer, Iterable[Tree]]:
    """A packer that has decided, by the first trees, whose heads to look for; and all trees."""
    trees = map(as_tree, trees)
    peeked = list(islice(trees, N_PEEKED))
    if not peeked:
        msg = "no tree found"
        raise CorpusError(msg, hint="is the file empty, or are all its trees empty?")
    return Packer(_decide_heads(transform or Transform(), peeked)), concatenate(peeked, trees)


def _decide_heads(transform: Transform, trees: Sequence[Tree]) -> Transform:
    if transform.heads != "auto":
        return transform
    labels = {label for tree in trees for label in tree.tags()}
    return replace(transform, heads="penn" if uses_penn_tags(labels) else "generic")


class _Template(NamedTuple):
    """A production seen before: its binary nodes as numbers, innermost first."""

    label: tuple[int, ...]
    rule: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]


class _Open(NamedTuple):
    """A phrase whose children are being packed: each as row, symbol number and outermost label."""

    chain: tuple[str, ...]
    ancestors: tuple[str, ...]
    n_kids: int
    kids: list[tuple[int, int, str]]


class Packer:
    """Collects rows; remembers each distinct production, since most occur many times.

    Rows that were collected may be taken away before the end, see `StoredTreebank`.
    """

    def __init__(self, transform: Transform) -> None:
        self.transform = transform
        self.phrases: dict[Symbol, int] = {}
        self.tags: dict[Symbol, int] = {}
        self.word_numbers: dict[str, int] = {}
        self.rules: dict[tuple[int, int, int], int] = {}
        self.rule_heads: list[int] = []
        self.templates: dict[tuple[Any, ...], _Template] = {}
        self.columns = {name: array("i") for name in Treebank.COLUMNS}
        self.offsets = array("q", [0])

    def add(self, tree: Tree) -> None:
        """Append the rows of a cleaned tree."""
        if tree.label == ROOT and not tree.is_preterminal and len(tree.children) == 1:
            tree = tree[0]
        self.first = len(self.columns["label"])
        self.position = 0
        self._nodes(tree)
        n_nodes = len(self.columns["label"]) - self.first
        self.offsets.append(self.offsets[-1] + n_nodes)

    def take_rows(self) -> dict[str, IntArray]:
        """The rows collected since they were last taken; tags are numbered -1, -2, ..."""
        taken = {name: np.array(column, dtype=np.int32) for name, column in self.columns.items()}
        self.columns = {name: array("i") for name in Treebank.COLUMNS}
        return taken

    def _nodes(self, tree: Tree) -> None:
        """Append the rows of a tree, with a stack instead of recursion, so that depth is no limit.

        Tags are numbered -1, -2, ... until the number of phrases is known.
        """
        transform = self.transform
        ahead: list[tuple[Tree, tuple[str, ...]]] = [(tree, ())]  # the next node last
        opened: list[_Open] = []
        while ahead:
            node, ancestors = ahead.pop()
            chain, node = unary_chain(node)
            if not node.is_preterminal:
                below = (
                    child_ancestors(transform, chain, ancestors) if transform.vertical > 1 else ()
                )
                opened.append(_Open(chain, ancestors, len(node.children), []))
                ahead.extend([(child, below) for child in node.children[::-1]])  # type: ignore[misc]
                continue
            done = self._leaf(chain, ancestors, node.word), self._last_label(), chain[0]
            while opened:
                production = opened[-1]
                production.kids.append(done)
                if len(production.kids) < production.n_kids:
                    break
                opened.pop()
                row = self._production(production.chain, production.ancestors, production.kids)
                done = row, self._last_label(), production.chain[0]

    def _last_label(self) -> int:
        return self.columns["label"][-1]

    def _leaf(self, chain: tuple[str, ...], ancestors: tuple[str, ...], word: str) -> int:
        if len(chain) == 1 and not self.transform.tag_parents:
            ancestors = ()
        tags, words = self.tags, self.word_numbers
        tag = tags.setdefault(Symbol(chain, ancestors), -len(tags) - 1)
        number = words.setdefault(word, len(words))
        self.position += 1
        return self._append(tag, -1, -1, -1, number, self.position - 1)

    def _append(self, label: int, rule: int, left: int, right: int, word: int, start: int) -> int:
        columns = self.columns
        row = len(columns["label"]) - self.first
        columns["label"].append(label)
        columns["rule"].append(rule)
        columns["left"].append(left)
        columns["right"].append(right)
        columns["parent"].append(-1)
        columns["word"].append(word)
        columns["start"].append(start)
        columns["end"].append(self.position)
        return row

    def _production(
        self,
        chain: tuple[str, ...],
        ancestors: tuple[str, ...],
        kids: list[tuple[int, int, str]],
    ) -> int:
        key = (chain, ancestors, *[symbol for _, symbol, _ in kids])
        template = self.templates.get(key)
        if template is None:
            template = self.templates[key] = self._template(chain, ancestors, kids)
        rows = [row for row, _, _ in kids]
        starts, ends, parents = self.columns["start"], self.columns["end"], self.columns["parent"]
        built = -1
        for label, rule, left, right in zip(*template, strict=True):
            b = built if left < 0 else rows[left]
            c = built if right < 0 else rows[right]
            built = self._append(label, rule, b, c, -1, starts[self.first + b])
            ends[self.first + built] = ends[self.first + c]
            parents[self.first + b] = parents[self.first + c] = built
        return built

    def _template(
        self, chain: tuple[str, ...], ancestors: tuple[str, ...], kids: list[tuple[int, int, str]]
    ) -> _Template:
        steps = binarise(self.transform, chain, ancestors, [label for _, _, label in kids])
        numbers = [symbol for _, symbol, _ in kids]
        phrases = self.phrases
        labels = [phrases.setdefault(step.symbol, len(phrases)) for step in steps]
        rules = []
        for place, (step, a) in enumerate(zip(steps, labels, strict=True)):
            b, c = (labels[place - 1] if at < 0 else numbers[at] for at in (step.left, step.right))
            rules.append(self.rules.setdefault((a, b, c), len(self.rules)))
            if rules[-1] == len(self.rule_heads):
                self.rule_heads.append(step.head)
        return _Template(
            tuple(labels), tuple(rules), tuple(s.left for s in steps), tuple(s.right for s in steps)
        )

    def inventory(self) -> Inventory:
        """What the numbers stand for."""
        rules = np.array(list(self.rules), dtype=np.int32).reshape(-1, 3)
        return Inventory(
            phrases=tuple(self.phrases),
            tags=tuple(self.tags),
            words=tuple(self.word_numbers),
            rules=number_tags(rules, len(self.phrases)),
            transform=self.transform,
            rule_heads=np.array(self.rule_heads, dtype=np.int32),
        )

    def treebank(self) -> Treebank:
        """All trees, with their rows in memory."""
        columns: dict[str, Any] = self.take_rows()
        columns["label"] = number_tags(columns["label"], len(self.phrases))
        return Treebank(self.inventory(), np.array(self.offsets, dtype=np.int64), **columns)


def number_tags(labels: IntArray, n_phrases: int) -> IntArray:
    """Give tags, numbered -1, -2, ... while reading, the numbers after the last phrase."""
    return np.where(labels < 0, n_phrases - 1 - labels, labels).astype(np.int32)
