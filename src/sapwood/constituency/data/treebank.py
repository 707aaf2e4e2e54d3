"""`Treebank`: all trees as packed arrays; `StoredTreebank`: the same in files, beyond memory.

Notation
--------
A node of a tree is a row; the rows of one tree are contiguous, children before parents, so the
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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import (
    COLUMNS,
    Inventory,
    Packer,
    Transform,
    number_tags,
    pack_binary_trees,
    restore,
)
from sapwood.core.arrays import Int32Array, RaggedBank, shard_cuts
from sapwood.core.errors import CorpusError, count, describe
from sapwood.core.outputs import append_bytes, working_folder
from sapwood.corpora.files import FEWER_TREES, PACKED_TREE_BYTES, Source
from sapwood.corpora.formats import read_trees
from sapwood.corpora.tree import ROOT, Tree, as_tree, clean_all

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# trees, paths of files, or the path of one file or folder
TreebankLike = Iterable[Any] | str | Path
# Shards depend on the data alone, so that no sum over them depends on the engine. Each counts
# all rules, so that smaller shards cost more time than more threads gain.
SHARD_NODES = 100_000
ON_DISK = "`sapwood train --on-disk FOLDER` keeps trees on disk, StoredTreebank.read in Python"
SPLITS = ("train", "dev", "test")  # of the bundled treebank


@dataclass(frozen=True, eq=False, repr=False)
class Treebank(RaggedBank[Tree]):
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
    <Treebank: 1 tree, 3 words; 4 phrase labels, 3 tags>
    """

    inventory: Inventory
    offsets: npt.NDArray[np.int64]
    label: Int32Array
    rule: Int32Array
    left: Int32Array
    right: Int32Array
    parent: Int32Array
    word: Int32Array
    start: Int32Array
    end: Int32Array

    COLUMNS: ClassVar[tuple[str, ...]] = COLUMNS
    NAME: ClassVar[str] = "treebank"
    ITEM: ClassVar[str] = "tree"

    def digest(self) -> str:
        """A hash of the trees, their order, and the numbering of symbols and words.

        Cost: a few hundred MB of columns a second.
        """
        known = self.inventory
        names = [known.phrases, known.tags, known.words, known.transform.as_dict()]
        return self._digest(names, known.rules)

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
            raise CorpusError(
                f"from_trees needs several trees, not {describe(trees)}",
                hint="give a list of trees; files are read by read_treebank",
            )
        return cls(*pack_binary_trees(map(as_tree, trees), transform))

    @property
    def n_trees(self) -> int:
        """Number of trees in the treebank."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of words, counted with repetition."""
        return (len(self.label) + self.n_trees) // 2  # a binary tree over n words has 2n - 1 nodes

    def __repr__(self) -> str:
        sizes = f"{count(self.n_trees, 'tree')}, {count(self.n_tokens, 'word')}"
        n_phrases, symbols = len(self.inventory.phrases), self.inventory.symbols
        numbers = np.unique(self.label).tolist()  # labels that occur, not the symbols made of them
        n_tags = len({symbols[a].chain[-1] for a in numbers if a >= n_phrases})
        chains = [symbols[a].chain[: -1 if a >= n_phrases else None] for a in numbers]
        n_labels = len({label for chain in chains for label in chain} - {ROOT})
        return f"<Treebank: {sizes}; {count(n_labels, 'phrase label')}, {count(n_tags, 'tag')}>"

    def shards(self, n: int | None = None) -> list[Treebank]:
        """Cut into at most n runs of trees with about equally many nodes.

        The default n depends on the number of nodes.
        """
        return self.runs(n_shards(self.offsets) if n is None else n)

    def words(self, index: int) -> list[str]:
        """The sentence of one tree."""
        numbers = self.word[self.rows(index)]
        return [self.inventory.words[number] for number in numbers[numbers >= 0]]

    def item(self, index: int) -> Tree:
        """One tree, restored to what `clean` left."""
        rows = self.rows(index)
        names = self.inventory.words
        columns = (getattr(self, c)[rows].tolist() for c in ("label", "left", "right", "word"))
        nodes = [
            (a, b, c, names[x] if x >= 0 else None) for a, b, c, x in zip(*columns, strict=True)
        ]
        return restore(self.inventory.symbols, nodes)

    def tree(self, index: int) -> Tree:
        """One tree, the same as `bank[index]`."""
        return self.item(index)

    def trees(self) -> Iterator[Tree]:
        """All trees, as `clean` left them."""
        return iter(self)

    def retransform(self, transform: Transform) -> Treebank:
        """The trees under another transform."""
        if is_same(self.inventory.transform, transform):
            return self
        return Treebank.from_trees(self.trees(), transform)


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
    transform
        How to make the trees binary; the default grows phrases outward from their heads.
    keep_functions
        Whether function tags stay in the labels, as in `NP-SBJ`.
    sources, format, encoding, skipped, left_out
        As `read_trees` takes them.
    """
    trees = read_trees(
        sources, format=format, encoding=encoding, keep_functions=keep_functions, skipped=skipped,
        left_out=left_out, memory=(PACKED_TREE_BYTES, f"{FEWER_TREES}; {ON_DISK}"),
    )  # fmt: skip
    return Treebank(*pack_binary_trees(clean_all(trees, keep_functions=keep_functions), transform))


def as_treebank(source: TreebankLike) -> Treebank:
    """A treebank from a treebank, trees (ours or NLTK's), or the path of a file or folder.

    Trees that come as objects are cleaned (`sapwood.corpora.tree`) as those of files are.

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
    raise CorpusError(
        f"expected a treebank, not {describe(source)}",
        hint="give a Treebank, a list of trees, or the path of a file or folder",
    )


def bundled_treebank(split: str = "train", transform: Transform | None = None) -> Treebank:
    """The treebank that comes with Sapwood: `train` (3,000 trees), `dev` or `test` (300 each)."""
    with resources.as_file(sample_path(split)) as path:
        return read_treebank(path, transform)


def sample_path(split: str) -> Traversable:
    """The gzipped file of the bundled trees `train`, `dev` or `test`.

    It is a `pathlib.Path` whenever Sapwood is installed as plain files.
    """
    if split not in SPLITS:
        raise CorpusError(
            f"there is no bundled split {split!r}", hint=f"choose one of {', '.join(SPLITS)}"
        )
    return resources.files("sapwood.constituency.data.bundled").joinpath(f"{split}.mrg.gz")


def is_same(done: Transform, wanted: Transform) -> bool:
    """Whether trees of one transform are also those of another."""
    return wanted in (done, replace(done, heads="auto"))


def n_shards(offsets: npt.NDArray[np.int64]) -> int:
    """The usual number of shards of trees with these rows."""
    return -(-int(offsets[-1]) // SHARD_NODES)


ROWS_AT_A_TIME = 100_000  # that are packed in memory before they are written to files


@dataclass(frozen=True, eq=False)
class StoredShard:
    """A run of trees in the files of a treebank."""

    folder: Path
    inventory: Inventory
    first: int  # its first row
    last: int  # one past its last row
    offsets: npt.NDArray[np.int64]  # where each of its trees starts, counted from its first row

    def load(self) -> Treebank:
        """Read the shard from its files."""
        columns: dict[str, Any] = {
            name: np.fromfile(
                self.folder / name, np.int32, self.last - self.first, offset=4 * self.first
            )
            for name in Treebank.COLUMNS
        }
        columns["label"] = number_tags(columns["label"], len(self.inventory.phrases))
        return Treebank(self.inventory, self.offsets, **columns)


@dataclass(frozen=True, eq=False)
class StoredTreebank:
    """A treebank of which no more than one shard per thread is in memory at a time.

    A folder holds a file for each column of `Treebank`, rows of all trees one after the other.
    Shards are cut as those in memory, so that models learnt from them are bitwise the same.
    Estimators accept it in place of a `Treebank`. The caller removes the folder.

    Examples
    --------
    >>> import sapwood as sw
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     bank = StoredTreebank.write(sw.bundled_treebank("dev").trees(), folder)
    ...     model = sw.PCFG().fit(bank).model_
    >>> bank.n_trees, model.is_plain
    (300, True)
    """

    folder: Path
    inventory: Inventory
    offsets: npt.NDArray[np.int64]

    @classmethod
    def read(
        cls,
        sources: Source | Iterable[Source],
        folder: str | Path,
        transform: Transform | None = None,
        *,
        keep_functions: bool = False,
        **options: Any,
    ) -> StoredTreebank:
        """Read, clean, make binary and pack a treebank into files.

        Parameters
        ----------
        folder
            Where the files go, in a folder of their own.
        sources, transform, keep_functions, options
            As for `read_treebank`.
        """
        trees = read_trees(sources, keep_functions=keep_functions, **options)
        return cls.write(clean_all(trees, keep_functions=keep_functions), folder, transform)

    @classmethod
    def write(
        cls, trees: Iterable[Tree], folder: str | Path, transform: Transform | None = None
    ) -> StoredTreebank:
        """Pack cleaned trees, as `Treebank.from_trees` does, into files."""
        packer = Packer(map(as_tree, trees), transform)
        is_more = packer.fill(ROWS_AT_A_TIME)
        own = working_folder(Path(folder), "treebank-")
        _append(packer, own)
        while is_more:
            is_more = packer.fill(ROWS_AT_A_TIME)
            _append(packer, own)
        return cls(own, packer.inventory(), np.array(packer.offsets, dtype=np.int64))

    @property
    def n_trees(self) -> int:
        """Number of trees in the treebank."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """Number of words, counted with repetition."""
        return (int(self.offsets[-1]) + self.n_trees) // 2

    def __len__(self) -> int:
        return self.n_trees

    def __iter__(self) -> Iterator[Tree]:
        return self.trees()

    def __repr__(self) -> str:
        return f"<StoredTreebank: {self.n_trees:,} trees, {self.n_tokens:,} words in {self.folder}>"

    def shards(self) -> list[StoredShard]:
        """Runs of trees, cut by their size alone."""
        return [
            StoredShard(
                self.folder, self.inventory, int(self.offsets[first]), int(self.offsets[last]),
                self.offsets[first : last + 1] - self.offsets[first],
            )
            for first, last in shard_cuts(self.offsets, n_shards(self.offsets))
        ]  # fmt: skip

    def trees(self) -> Iterator[Tree]:
        """All trees, as `clean` left them."""
        return (tree for shard in self.shards() for tree in shard.load().trees())

    def retransform(self, transform: Transform) -> StoredTreebank:
        """The trees under another transform, in files beside these."""
        if is_same(self.inventory.transform, transform):
            return self
        return StoredTreebank.write(self.trees(), self.folder.parent, transform)


def _append(packer: Packer, folder: Path) -> None:
    for name, rows in packer.take_rows().items():
        append_bytes(folder / name, rows.tobytes())
