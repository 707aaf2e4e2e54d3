"""The cleaning recipe: from a treebank as published to the trees that are learnt and scored.

In this order, for every tree:

1. **Empty leaves go.** A leaf is empty when its tag is `-NONE-`; when its word is a trace
   (`*T*-1`, `*pro*`, `*-2`, `*ICH*`); or, as Penn-historical treebanks write it, when it is a bare
   `0` or `*` under a phrase label or under `C`, `P`, `TO`, `DO` (`(WNP-1 0)`, `(C 0)`), but not
   under a number or symbol tag (`(CD 0)`, `(SYM *)`).
2. **Emptied nodes go**, and so on upwards.
3. **Function tags and coindexation are cut** from phrase labels: `NP-SBJ-1` and `NP=2` become
   `NP`. Tags lose coindexation (`CONJ-1`) and the function tags of the Penn and TIGER treebanks
   (`NNP-SBJ`, `ART-NK`); any other dash on a tag is morphology (`N-D`). Labels that start with a
   dash (`-LRB-`) are left alone. With `keep_functions` only coindexation goes.
4. **`X -> X` collapses**: a node with an only child of its own label is replaced by that child.
5. **The root is `TOP`.** `ROOT`, `TOP`, `S1`, `VROOT` and empty labels at the top become one `TOP`;
   a tree without such a root gets one.

The recipe is idempotent: `clean(clean(t)) == clean(t)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial

from sapwood.corpus.tree import Tree, as_tree, rebuild

ROOT = "TOP"
ROOT_LABELS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})

# Penn's and Penn-historical's trace names; *emphasis* in web text is a word.
_TRACE = re.compile(r"\*([A-Z?0-9]{1,3}|pro|con|exp|arb)\*(-.*)?|\*-\d+")
_HISTORICAL_EMPTY = re.compile(
    r"(C|P|TO|DO|W?(NP|PP|CP|IP|ADVP|ADJP|QP|NUMP|CONJP)|W[A-Z]+P)([-=].*)?"
)
_COINDEX = re.compile(r"([-=]\d+)+$")
# Function tags that some treebanks also put on parts of speech: those of the English and Chinese
# Penn treebanks, then the edge labels of NEGRA and TIGER. Any other dash on a tag is morphology.
_TAG_FUNCTIONS = (
    "ADV|APP|BNF|CLF|CLR|CND|DIR|DTV|EXT|FOC|HLN|IJ|IMP|IO|LGS|LOC|MNR|NOM|OBJ|PN|PRD|PRP|PUT|SBJ"
    "|SHORT|TMP|TPC|TTL|VOC|WH"
    "|AC|ADC|AG|AMS|AVC|CC|CD|CJ|CM|CP|CVC|DA|DH|DM|EP|HD|JU|MO|NG|NK|NMC|OA|OA2|OC|OG|OP|PAR|PD"
    "|PG|PH|PM|PNC|RC|RE|RS|SB|SBP|SVP|UC|VO"
)
_TAG_SUFFIX = re.compile(rf"([-=](\d+|{_TAG_FUNCTIONS}))+$")


def clean(tree: Tree, *, keep_functions: bool = False) -> Tree | None:
    """Apply the recipe of this module; None when nothing but empties was there.

    Parameters
    ----------
    tree
        As published.
    keep_functions
        Whether step 3 cuts coindexation alone, so that `NP-SBJ-1` becomes `NP-SBJ`.

    Examples
    --------
    >>> tree = Tree.parse("( (S (NP-SBJ-1 (DT a) (NN cat)) (VP (VBD sat) (NP (-NONE- *)))))")
    >>> print(clean(tree))
    (TOP (S (NP (DT a) (NN cat)) (VP (VBD sat))))
    >>> print(clean(tree, keep_functions=True))
    (TOP (S (NP-SBJ (DT a) (NN cat)) (VP (VBD sat))))
    """
    of_tag, of_phrase = (cut_index, cut_index) if keep_functions else (clean_tag, clean_label)
    kept = rebuild(as_tree(tree), partial(_leaf, of_tag), partial(_phrase, of_phrase))
    if kept is None:
        return None
    while kept.label in ROOT_LABELS and not kept.is_preterminal and len(kept.children) == 1:
        kept = kept[0]
    if kept.label in ROOT_LABELS:
        return Tree._trusted(ROOT, kept.children)
    return Tree._trusted(ROOT, (kept,))


def clean_all(trees: Iterable[Tree], *, keep_functions: bool = False) -> Iterator[Tree]:
    """Clean a stream, leaving out the trees of which nothing remains."""
    cleaned = (clean(tree, keep_functions=keep_functions) for tree in trees)
    return (kept for kept in cleaned if kept is not None)


def _leaf(rename: Callable[[str], str], node: Tree) -> Tree | None:
    if is_empty(node.label, node.word):
        return None
    label = rename(node.label)
    return node if label == node.label else Tree._trusted(label, node.children)


def _phrase(rename: Callable[[str], str], label: str, kids: tuple[Tree, ...]) -> Tree:
    label = rename(label)
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
    """Cut coindexation and known function tags; `N-D` keeps its case, `-LRB-` its dashes.

    Examples
    --------
    >>> clean_tag("CONJ-1"), clean_tag("NNP-SBJ"), clean_tag("ART-NK"), clean_tag("N-D")
    ('CONJ', 'NNP', 'ART', 'N-D')
    """
    if label.startswith("-"):
        return label
    # A phrase label right above a word stays apart from that phrase: (NP-SBJ I) is no (NP I).
    cut = _COINDEX if _HISTORICAL_EMPTY.fullmatch(label) else _TAG_SUFFIX
    return cut.sub("", label) or label


@lru_cache(maxsize=4096)
def cut_index(label: str) -> str:
    """Cut coindexation alone.

    Examples
    --------
    >>> cut_index("NP-SBJ-1"), cut_index("S=2"), cut_index("-LRB-")
    ('NP-SBJ', 'S', '-LRB-')
    """
    return label if label.startswith(("-", "=")) else _COINDEX.sub("", label) or label


def is_empty(label: str, word: str) -> bool:
    """Whether a leaf stands for nothing that is written or said."""
    if label == "-NONE-":
        return True
    if word in {"0", "*"}:
        return _HISTORICAL_EMPTY.fullmatch(label) is not None
    return word.startswith("*") and _TRACE.fullmatch(word) is not None
