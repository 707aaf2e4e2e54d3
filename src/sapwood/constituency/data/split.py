"""Cutting a treebank into parts to train on, to choose with, and to report on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from sapwood.core.errors import SapwoodError

PARTS = ("train", "dev", "test")


def part_size(text: str, n_trees: int) -> int:
    """The number of trees that a size such as `10%` or `500` asks for.

    Examples
    --------
    >>> part_size("10%", 300), part_size("500", 3000), part_size("0", 10), part_size("0.5%", 300)
    (30, 500, 0, 2)
    """
    try:
        share = Fraction(text.removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    is_count = not text.endswith("%")
    if share < 0 or (share >= 100 and not is_count) or (is_count and share.denominator > 1):
        msg = f"{text!r} is no size of a part; expected a percentage or a number of trees"
        raise SapwoodError(msg, hint="write 10% or 500")
    return int(share) if is_count else round(share * n_trees / 100)


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
        msg = f"dev ({n_dev:,}) and test ({n_test:,}) leave none of {n:,} trees to train on"
        raise SapwoodError(msg, hint="ask for smaller parts")
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
        msg = f"{n_parts} parts of whole files need as many files, but there are {len(sizes)}"
        raise SapwoodError(msg, hint="split by tree, or by order, which keeps neighbours together")
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
