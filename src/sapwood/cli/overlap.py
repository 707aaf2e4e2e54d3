"""Warnings of trees that are given twice: files named twice, and dev trees that were trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.cli.console import count, echo

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank

SHORT = 5  # words: "Thank you ." and its like occur in any two files
LARGE_SHARE = 0.1  # of the longer trees: more is no chance


def files_of(sources: Iterable[str]) -> list[Path]:
    """The files that names, globs and folders stand for, without stdin."""
    from sapwood.corpus.formats import treebank_files

    named = treebank_files(list(sources))
    return [Path(file).resolve() for file in named if isinstance(file, (str, Path)) and file != "-"]


def warn_of_files_named_twice(sources: Sequence[str]) -> bool:
    """Say which training files are named more than once; whether any is."""
    twice = [path for path, n in Counter(files_of(sources)).items() if n > 1]
    if twice:
        more = f" and {count(len(twice) - 1, 'other file')}" if len(twice) > 1 else ""
        echo(f"warning: {twice[0]}{more}: named more than once, so that its trees count double")
        echo("hint: name every file once, also where a folder or a glob holds it")
    return bool(twice)


def warn_of_training_trees_twice(bank: Treebank, sources: Sequence[str]) -> None:
    """Say how many trees several training files share; inside one file, copies are natural."""
    if warn_of_files_named_twice(sources) or len(files_of(sources)) < 2:
        return
    seen, n_long, n_again = set[bytes](), 0, 0
    for first, last in zip(bank.offsets, bank.offsets[1:], strict=False):
        if bank.end[last - 1] > SHORT:
            key = bank.label[first:last].tobytes() + bank.word[first:last].tobytes()
            n_long, n_again = n_long + 1, n_again + (key in seen)
            seen.add(key)
    if n_again > LARGE_SHARE * n_long:
        echo(
            f"warning: {n_again:,} of {n_long:,} training trees of more than {SHORT} words are "
            "copies of others"
        )
        echo("hint: do two of the files hold the same trees?")


def warn_of_dev_in_training(
    bank: Treebank, sources: Sequence[str], gold: Sequence[Tree], dev: str
) -> None:
    """Say how many dev trees are training trees too, where that is more than chance."""
    wanted = {tuple(tree.words()) for tree in gold}
    trained = {
        bank.tree(index) for index in range(bank.n_trees) if tuple(bank.words(index)) in wanted
    }
    shared = [tree for tree in gold if tree in trained]
    n_long = sum(len(tree.words()) > SHORT for tree in gold)
    n_long_shared = sum(len(tree.words()) > SHORT for tree in shared)
    is_same_file = not set(files_of([dev])).isdisjoint(files_of(sources))
    if is_same_file or n_long_shared > LARGE_SHARE * n_long:
        echo(
            f"warning: {len(shared):,} of {count(len(gold), 'dev tree')} are also in the training "
            "trees, so that scores on them say little about new sentences"
        )
        echo("hint: hold out trees that are not trained on")


def warn_of_comparing_with_itself(gold: str, predicted: str) -> None:
    """Say that gold trees compared with themselves are always right."""
    one, other = Path(gold), Path(predicted)
    if one.is_file() and other.is_file() and one.samefile(other):
        echo(f"warning: {predicted}: is the gold file too, so that the scores say nothing")
        echo("hint: give the trees of a parser: sapwood parse MODEL FILE > PREDICTED")
