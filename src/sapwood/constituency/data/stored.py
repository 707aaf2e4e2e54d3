"""`StoredTreebank`: packed trees in files, for treebanks larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Inventory, Packer, Transform, number_tags
from sapwood.constituency.data.treebank import Treebank, is_same, shard_cuts
from sapwood.core.outputs import append_bytes, working_folder
from sapwood.corpora.files import Source
from sapwood.corpora.formats import read_trees
from sapwood.corpora.tree import Tree, as_tree, clean_all

ROWS_AT_A_TIME = 100_000  # that are packed in memory before they are written to files


@dataclass(frozen=True, eq=False)
class StoredShard:
    """A run of trees in the files of a treebank."""

    folder: Path
    inventory: Inventory
    # rows
    first: int
    last: int
    offsets: npt.NDArray[np.int64]  # where each of its trees starts, counted from its first row

    def load(self) -> Treebank:
        """Read it."""
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
    """A treebank of which no more than one shard a thread is in memory at a time.

    A folder holds a file for each column of `Treebank`, rows of all trees one after the other.
    Shards are cut as those in memory, so that what is learnt from them is the same to the last bit.
    Estimators take it where they take a `Treebank`. The folder is the caller's, and goes when the
    caller removes it.

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
        """How many trees."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """How many words, counted with repetition."""
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
            for first, last in shard_cuts(self.offsets)
        ]  # fmt: skip

    def trees(self) -> Iterator[Tree]:
        """All trees, restored."""
        return (tree for shard in self.shards() for tree in shard.load().trees())

    def retransform(self, transform: Transform) -> StoredTreebank:
        """The same trees made binary in another way, in files beside these."""
        if is_same(self.inventory.transform, transform):
            return self
        return StoredTreebank.write(self.trees(), self.folder.parent, transform)


def _append(packer: Packer, folder: Path) -> None:
    for name, rows in packer.take_rows().items():
        append_bytes(folder / name, rows.tobytes())
