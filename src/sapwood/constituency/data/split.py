"""Cutting a treebank into parts, and doubts about the parts of a run.

A treebank is cut into parts to train on, to choose with and to report on. Doubts are about files
that are named twice, and dev trees that were trained on.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from sapwood.constituency.data.treebank import StoredTreebank, Treebank
from sapwood.core.errors import SapwoodError, count
from sapwood.corpora.formats import treebank_files
from sapwood.corpora.tree import Tree

PARTS = ("train", "dev", "test")


def part_size(text: str, n_trees: int) -> int:
    """The number of trees that a size such as `10%` or `500` asks for.

    Examples
    --------
    >>> part_size("10%", 300), part_size("500", 3000), part_size("0", 10), part_size("0.5%", 300)
    (30, 500, 0, 2)
    """
    try:
        size = Fraction(text.removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        size = Fraction(-1)
    is_count = not text.endswith("%")
    if size < 0 or (size >= 100 and not is_count) or (is_count and size.denominator > 1):
        raise SapwoodError(
            f"{text!r} is no size of a part; expected a percentage or a number of trees",
            hint="write 10% or 500",
        )
    return int(size) if is_count else round(size * n_trees / 100)


def split_trees(
    files: Sequence[int], n_dev: int, n_test: int, *, by: str = "tree", seed: int = 0
) -> list[int]:
    """The part of each tree: 0 train, 1 dev, 2 test.

    Parameters
    ----------
    files
        The number of the file that each tree is from.
    n_dev, n_test
        How many trees the parts should have; whole files may make them a little larger.
    by
        `tree` draws trees at random. `file` draws whole files, so that no text is in two parts.
        `order` keeps the order of the trees: train, then dev, then test.

    Examples
    --------
    >>> split_trees([0] * 6, 1, 2, by="order")
    [0, 0, 0, 1, 2, 2]
    >>> split_trees([0, 0, 1, 1, 2, 2], 2, 2, by="file", seed=1)
    [0, 0, 1, 1, 2, 2]
    """
    n = len(files)
    if n_dev + n_test >= n:
        raise SapwoodError(
            f"dev ({n_dev:,}) and test ({n_test:,}) leave none of {n:,} trees to train on",
            hint="ask for smaller parts",
        )
    if by == "order":
        return [0] * (n - n_dev - n_test) + [1] * n_dev + [2] * n_test
    if by == "file":
        return _by_file(files, n_dev, n_test, seed)
    parts = [0] * n
    shuffled = _shuffle(range(n), seed)
    for place in shuffled[:n_dev]:
        parts[place] = 1
    for place in shuffled[n_dev : n_dev + n_test]:
        parts[place] = 2
    return parts


def _by_file(files: Sequence[int], n_dev: int, n_test: int, seed: int) -> list[int]:
    sizes = Counter(files)
    wanted = [(part, size) for part, size in ((1, n_dev), (2, n_test)) if size]
    if len(sizes) <= len(wanted):
        n_parts = len(wanted) + 1
        raise SapwoodError(
            f"{n_parts} parts of whole files need as many files, but there are {len(sizes)}",
            hint="split by tree, or by order, which keeps neighbours together",
        )
    ahead = _shuffle(sorted(sizes), seed)
    part_of: dict[int, int] = {}
    for place, (part, size) in enumerate(wanted):
        n_reserved = len(wanted) - place  # a file for each later part, and one to train on
        n_taken = 0
        while n_taken < size and len(ahead) > n_reserved:
            file = ahead.pop()
            part_of[file] = part
            n_taken += sizes[file]
    return [part_of.get(file, 0) for file in files]


def _shuffle(items: Sequence[int], seed: int) -> list[int]:
    # random() is the one part of the module that Python promises never to change.
    draw = random.Random(seed).random
    return [item for _, item in sorted((draw(), item) for item in items)]


SHORT_TREE = 5  # words: "Thank you ." and its like occur in any two files
CHANCE_OVERLAP = 0.1  # of the longer trees: a larger overlap is no chance


class Doubt(NamedTuple):
    """A reason to distrust the scores of a run, and what to do about it."""

    message: str
    hint: str


def doubt_training_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str]
) -> Iterator[Doubt]:
    """Doubts about files that are named twice or share many trees; not about copies in one file."""
    files = Counter(_files(sources))
    twice = [path for path, n in files.items() if n > 1]
    if twice:
        more = f" and {count(len(twice) - 1, 'other file')}" if len(twice) > 1 else ""
        yield Doubt(
            f"{twice[0]}{more}: named more than once, so that its trees count double",
            "name every file once, also where a folder or a glob holds it",
        )
    if twice or len(files) < 2:
        return
    seen, n_long, n_again = set[bytes](), 0, 0
    for shard in _shards(bank):
        for first, last in zip(shard.offsets, shard.offsets[1:], strict=False):
            if shard.end[last - 1] > SHORT_TREE:
                key = shard.label[first:last].tobytes() + shard.word[first:last].tobytes()
                n_long, n_again = n_long + 1, n_again + (key in seen)
                seen.add(key)
    if n_again > CHANCE_OVERLAP * n_long:
        yield Doubt(
            f"{n_again:,} of {n_long:,} training trees of more than {SHORT_TREE} words are "
            "copies of others",
            "do two of the files hold the same trees?",
        )


def doubt_dev_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str], gold: Sequence[Tree], dev: str
) -> Iterator[Doubt]:
    """Doubts about dev trees that are training trees too, where they are more than chance."""
    wanted = {tuple(tree.words()) for tree in gold}
    known = {
        shard.tree(index)
        for shard in _shards(bank)
        for index in range(shard.n_trees)
        if tuple(shard.words(index)) in wanted
    }
    shared = [tree for tree in gold if tree in known]
    n_long = sum(len(tree.words()) > SHORT_TREE for tree in gold)
    n_long_shared = sum(len(tree.words()) > SHORT_TREE for tree in shared)
    is_same_file = not set(_files([dev])).isdisjoint(_files(sources))
    if is_same_file or n_long_shared > CHANCE_OVERLAP * n_long:
        yield Doubt(
            f"{len(shared):,} of {count(len(gold), 'dev tree')} are also in the training "
            "trees, so that scores on them say little about new sentences",
            "hold out trees that are not trained on",
        )


def doubt_comparison(gold: str, predicted: str) -> Iterator[Doubt]:
    """Doubts about gold trees that are compared with themselves."""
    one, other = Path(gold), Path(predicted)
    if one.is_file() and other.is_file() and one.samefile(other):
        yield Doubt(
            f"{predicted}: is the gold file too, so that the scores say nothing",
            "give the trees of a parser: sapwood parse MODEL FILE > PREDICTED",
        )


def _shards(bank: Treebank | StoredTreebank) -> Iterator[Treebank]:
    """The shards of a treebank, one in memory at a time."""
    for shard in bank.shards():
        yield shard if isinstance(shard, Treebank) else shard.load()


def _files(sources: Iterable[str]) -> list[Path]:
    """The files that names, globs and folders stand for, without stdin."""
    named = treebank_files(list(sources))
    return [Path(file).resolve() for file in named if isinstance(file, (str, Path)) and file != "-"]
