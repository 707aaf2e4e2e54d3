"""Head children of phrases: Collins's table for Penn English, and a rule that reads labels alone.

The table is that of Collins (1999, appendix A); label sets without a table follow the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sapwood.corpora.tree import clean_label

HeadRule = Callable[[str, Sequence[str]], int]
# label: direction of the search among the children, then head labels, best first
_PENN: dict[str, tuple[str, str]] = {
    "ADJP": ("left", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
    "ADVP": ("right", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": ("right", "CC RB IN"),
    "FRAG": ("right", ""),
    "INTJ": ("left", ""),
    "LST": ("right", "LS :"),
    "NAC": ("left", "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "PP": ("right", "IN TO VBG VBN RP FW"),
    "PRN": ("left", ""),
    "PRT": ("right", "RP"),
    "QP": ("left", "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": ("right", "VP NP ADVP ADJP PP"),
    "S": ("left", "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": ("left", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": ("left", "SQ S SINV SBARQ FRAG"),
    "SINV": ("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": ("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": ("right", ""),
    "VP": ("left", "TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP"),
    "WHADJP": ("left", "CC WRB JJ ADJP"),
    "WHADVP": ("right", "CC WRB"),
    "WHNP": ("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": ("right", "IN TO FW"),
    "TOP": ("left", "S SINV SQ SBARQ NP FRAG"),
}
_PENN_TABLE = {label: (side, tuple(wanted.split())) for label, (side, wanted) in _PENN.items()}
_NOMINAL = frozenset({"NP", "NX", "NML", "WHNP"})
_NOUN_TAGS = frozenset({"NN", "NNP", "NNPS", "NNS", "NX", "POS", "JJR"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''", "-LRB-", "-RRB-", "HYPH"})
_PENN_MARKS = frozenset({"NN", "NNP", "NNS", "IN", "DT", "VBD", "VBZ", "VB", "JJ", "CC"})


def uses_penn_tags(labels: Iterable[str]) -> bool:
    """Whether a label set looks like Penn English (at least half of its commonest tags)."""
    return 2 * len(_PENN_MARKS.intersection(labels)) >= len(_PENN_MARKS)


def penn_head(label: str, children: Sequence[str]) -> int:
    """Index of the head child by Collins's table, with his rules for NP and for coordination.

    Examples
    --------
    >>> penn_head("NP", ["DT", "JJ", "NN"]), penn_head("VP", ["MD", "VP"])
    (2, 0)
    >>> penn_head("NP-SBJ", ["DT", "NN"]), penn_head("S", ["NP-SBJ", "VP"])
    (1, 1)
    """
    label, children = clean_label(label), [clean_label(child) for child in children]
    if label in _NOMINAL and label != "WHNP":
        head = _nominal_head(children)
    else:
        side, wanted = _PENN_TABLE.get(label, ("left", ()))
        order = range(len(children))[:: 1 if side == "left" else -1]
        found = (index for each in wanted for index in order if children[index] == each)
        others = (index for index in order if children[index] not in PUNCTUATION)
        head = next(found, next(others, order[0]))
    if head >= 2 and children[head - 1] in {"CC", "CONJP"}:  # in X CC X, the first conjunct
        head -= 2
        while head > 0 and children[head] in PUNCTUATION:
            head -= 1
    return head


def _nominal_head(children: Sequence[str]) -> int:
    last = len(children) - 1
    if children[last] == "POS":
        return last
    backwards, forwards = range(last, -1, -1), range(last + 1)
    for order, wanted in (
        (backwards, _NOUN_TAGS),
        (forwards, {"NP", "NML"}),
        (backwards, {"$", "ADJP", "PRN"}),
        (backwards, {"CD"}),
        (backwards, {"JJ", "JJS", "RB", "QP"}),
    ):
        for index in order:
            if children[index] in wanted:
                return index
    return next((i for i in backwards if children[i] not in PUNCTUATION), last)


def generic_head(label: str, children: Sequence[str]) -> int:
    """Index of the head child where no table is known.

    The child that shares the longest beginning with its parent's label wins (`NP` over `N-D`,
    `VP` over `VB`, `PP` over `P`); a phrase of the very same label comes second to a word-like
    child; the first of equals wins. Without any shared beginning the first child is the head.

    Examples
    --------
    >>> generic_head("NP", ["D-A", "N-A", "CP"]), generic_head("IP", ["NP", "VBPI"])
    (1, 0)
    """
    label = clean_label(label)
    stem = label[:-1] if label.endswith("P") and len(label) > 1 else label

    def affinity(child: str) -> int:
        shared = 0
        for ours, theirs in zip(stem, child, strict=False):
            if ours != theirs:
                break
            shared += 1
        return 2 * shared - (child == label)

    return max(range(len(children)), key=lambda index: (affinity(children[index]), -index))


HEAD_RULES: dict[str, HeadRule] = {"penn": penn_head, "generic": generic_head}
