"""The cleaning recipe: from a treebank as published to the trees that are learnt and scored.

In this order, for every tree:

1. **Empty leaves go.** A leaf is empty when its tag is `-NONE-`; when its word is a trace
   (`*T*-1`, `*pro*`, `*-2`, `*ICH*`); or, as Penn-historical treebanks write it, when it is a bare
   `0` or `*` under a phrase label or under `C`, `P`, `TO`, `DO` (`(WNP-1 0)`, `(C 0)`), but not
   under a number or symbol tag (`(CD 0)`, `(SYM *)`).
2. **Emptied nodes go**, and so on upwards.
3. **Function tags and coindexation are cut** from phrase labels: `NP-SBJ-1` and `NP=2` become
   `NP`. Tags lose only coindexation (`CONJ-1`), because a dash on a tag is morphology (`N-D`).
   Labels that start with a dash (`-LRB-`) are left alone.
4. **`X -> X` collapses**: a node with an only child of its own label is replaced by that child.
5. **The root is `TOP`.** `ROOT`, `TOP`, `S1`, `VROOT` and empty labels at the top become one `TOP`;
   a tree without such a root gets one.

The recipe is idempotent: `clean(clean(t)) == clean(t)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from sapwood.corpus.tree import Tree, as_tree

ROOT = "TOP"
ROOT_LABELS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})

# Penn's and Penn-historical's trace names; *emphasis* in web text is a word.
_TRACE = re.compile(r"\*([A-Z?0-9]{1,3}|pro|con|exp|arb)\*(-.*)?|\*-\d+")
_HISTORICAL_EMPTY = re.compile(
    r"(C|P|TO|DO|W?(NP|PP|CP|IP|ADVP|ADJP|QP|NUMP|CONJP)|W[A-Z]+P)([-=].*)?"
)
_COINDEX = re.compile(r"([-=]\d+)+$")


def clean(tree: Tree) -> Tree | None:
    """Apply the recipe of this module; None when nothing but empties was there.

    Examples
    --------
    >>> print(clean(Tree.parse("( (S (NP-SBJ-1 (DT a) (NN cat)) (VP (VBD sat) (NP (-NONE- *)))))")))
    (TOP (S (NP (DT a) (NN cat)) (VP (VBD sat))))
    """
    kept = _clean_nodes(as_tree(tree))
    if kept is None:
        return None
    while kept.label in ROOT_LABELS and not kept.is_preterminal and len(kept.children) == 1:
        kept = kept[0]
    if kept.label in ROOT_LABELS:
        return Tree._trusted(ROOT, kept.children)
    return Tree._trusted(ROOT, (kept,))


def clean_all(trees: Iterable[Tree]) -> Iterator[Tree]:
    """Clean a stream, leaving out the trees of which nothing remains."""
    return (kept for tree in trees if (kept := clean(tree)) is not None)


def _clean_nodes(tree: Tree) -> Tree | None:
    """Steps 1 to 4, bottom-up over the nodes from last to first, so that depth is no limit."""
    done: list[Tree | None] = []
    for node in reversed(list(tree.nodes())):
        if isinstance(node.children[0], str):
            done.append(_clean_leaf(node, node.children[0]))
            continue
        n_kids = len(node.children)
        kept = tuple([kid for kid in reversed(done[-n_kids:]) if kid is not None])
        del done[-n_kids:]
        done.append(_clean_phrase(node.label, kept) if kept else None)
    return done[0]


def _clean_leaf(node: Tree, word: str) -> Tree | None:
    if is_empty(node.label, word):
        return None
    label = clean_tag(node.label)
    return node if label == node.label else Tree._trusted(label, node.children)


def _clean_phrase(label: str, kids: tuple[Tree, ...]) -> Tree:
    label = clean_label(label)
    return kids[0] if len(kids) == 1 and kids[0].label == label else Tree._trusted(label, kids)


@lru_cache(maxsize=4096)
def clean_label(label: str) -> str:
    """Cut function tags and coindexation from a phrase label.

    Examples
    --------
    >>> clean_label("NP-SBJ-1"), clean_label("S=2"), clean_label("-LRB-")
    ('NP', 'S', '-LRB-')
    """
    if label.startswith(("-", "=")):
        return label
    return re.split("[-=]", label, maxsplit=1)[0]


@lru_cache(maxsize=4096)
def clean_tag(label: str) -> str:
    """Cut coindexation from a tag; `N-D` keeps its case, `-LRB-` its dashes."""
    return label if label.startswith("-") else _COINDEX.sub("", label) or label


def is_empty(label: str, word: str) -> bool:
    """Whether a leaf stands for nothing that is written or said."""
    if label == "-NONE-":
        return True
    if word in {"0", "*"}:
        return _HISTORICAL_EMPTY.fullmatch(label) is not None
    return word.startswith("*") and _TRACE.fullmatch(word) is not None
