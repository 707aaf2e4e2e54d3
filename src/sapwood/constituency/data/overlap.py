"""Doubts about the trees of a run: files named twice, and dev trees that were trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sapwood.constituency.data.stored import StoredTreebank
from sapwood.constituency.data.treebank import Treebank
from sapwood.core.errors import count
from sapwood.corpora.formats import treebank_files
from sapwood.corpora.tree import Tree

SHORT = 5  # words: "Thank you ." and its like occur in any two files
LARGE_SHARE = 0.1  # of the longer trees: more is no chance


class Doubt(NamedTuple):
    """Something that makes figures say less than they seem to, and what to do about it."""

    message: str
    hint: str


def doubt_training_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str]
) -> Iterator[Doubt]:
    """Files that are named twice, or share many trees; inside one file, copies are natural."""
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
            if shard.end[last - 1] > SHORT:
                key = shard.label[first:last].tobytes() + shard.word[first:last].tobytes()
                n_long, n_again = n_long + 1, n_again + (key in seen)
                seen.add(key)
    if n_again > LARGE_SHARE * n_long:
        yield Doubt(
            f"{n_again:,} of {n_long:,} training trees of more than {SHORT} words are "
            "copies of others",
            "do two of the files hold the same trees?",
        )


def doubt_dev_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str], gold: Sequence[Tree], dev: str
) -> Iterator[Doubt]:
    """Dev trees that are training trees too, where they are more than chance."""
    wanted = {tuple(tree.words()) for tree in gold}
    known = {
        shard.tree(index)
        for shard in _shards(bank)
        for index in range(shard.n_trees)
        if tuple(shard.words(index)) in wanted
    }
    shared = [tree for tree in gold if tree in known]
    n_long = sum(len(tree.words()) > SHORT for tree in gold)
    n_long_shared = sum(len(tree.words()) > SHORT for tree in shared)
    is_same_file = not set(_files([dev])).isdisjoint(_files(sources))
    if is_same_file or n_long_shared > LARGE_SHARE * n_long:
        yield Doubt(
            f"{len(shared):,} of {count(len(gold), 'dev tree')} are also in the training "
            "trees, so that scores on them say little about new sentences",
            "hold out trees that are not trained on",
        )


def doubt_comparison(gold: str, predicted: str) -> Iterator[Doubt]:
    """Gold trees that are compared with themselves, which are always right."""
    one, other = Path(gold), Path(predicted)
    if one.is_file() and other.is_file() and one.samefile(other):
        yield Doubt(
            f"{predicted}: is the gold file too, so that the scores say nothing",
            "give the trees of a parser: sapwood parse MODEL FILE > PREDICTED",
        )


def _shards(bank: Treebank | StoredTreebank) -> Iterator[Treebank]:
    """A treebank in parts, of which one is in memory at a time."""
    for shard in bank.shards():
        yield shard if isinstance(shard, Treebank) else shard.load()


def _files(sources: Iterable[str]) -> list[Path]:
    """The files that names, globs and folders stand for, without stdin."""
    named = treebank_files(list(sources))
    return [Path(file).resolve() for file in named if isinstance(file, (str, Path)) and file != "-"]
