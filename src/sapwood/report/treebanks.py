"""What is in treebanks, and what their parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.corpus.statistics import TreeCounts
    from sapwood.corpus.tree import Tree


def treebank_report(counts: TreeCounts, known: TreeCounts | None = None) -> dict[str, Any]:
    """Sizes, lengths, labels, tags, rules and empty elements of trees.

    Parameters
    ----------
    counts
        What was counted over the trees.
    known
        The same of trees that a model is trained on: `against` then tells what they have not, and
        what they share.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.corpus.statistics import TreeCounts
    >>> trees = [sw.Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")]
    >>> report = treebank_report(TreeCounts.of(trees))
    >>> report["trees"], report["words"], report["tags"]
    (1, 2, {'NNS': 1, 'VBP': 1})
    """
    from sapwood.corpus.statistics import coverage, describe

    report = describe(counts)
    return report if known is None else report | {"against": coverage(counts, known)}


def split_report(parts: Mapping[str, Sequence[Tree]]) -> list[dict[str, Any]]:
    """Sizes of the parts of a treebank, and how many of their trees the part `train` has too."""
    train = set(parts.get("train", ()))
    return [
        {
            "part": name,
            "trees": len(trees),
            "words": sum(len(tree.words()) for tree in trees),
            "also_in_train": sum(tree in train for tree in trees) if name != "train" else 0,
        }
        for name, trees in parts.items()
    ]
