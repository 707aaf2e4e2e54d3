from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.corpora.tree import HEAD_RULES, generic_head, penn_head, uses_penn_tags

PENN = [
    "S", "NP", "VP", "PP", "SBAR", "ADJP", "ADVP", "QP", "WHNP", "PRN", "UCP", "NX", "NML", "TOP",
    "DT", "NN", "NNS", "NNP", "JJ", "CC", "CD", "$", "POS", "IN", "TO", "MD", "VB", ",", ".", ":",
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "children", "head"),
    [
        ("S", "NP VP .", "VP"),
        ("S", "NP VP CC S", "VP"),
        ("VP", "MD VP", "MD"),
        ("VP", "VBD NP PP", "VBD"),
        ("PP", "IN NP", "IN"),
        ("SBAR", "IN S", "IN"),
        ("SBAR", "WHNP S", "WHNP"),
        ("NP", "DT JJ NN", "NN"),
        ("NP", "NNP POS", "POS"),
        ("NP", "NP PP", "NP"),
        ("NP", "DT CD", "CD"),
        ("NP", "DT JJ", "JJ"),
        ("ADJP", "RB JJ", "JJ"),
        ("ADVP", "RB RB", "RB"),
        ("WHNP", "WDT NN", "WDT"),
        ("UNKNOWN", ", X Y", "X"),
        ("UNKNOWN", ", .", ","),
    ],
)
def test_collins(label: str, children: str, head: str) -> None:
    kids = children.split()
    assert kids[penn_head(label, kids)] == head


@pytest.mark.parametrize(
    ("label", "children", "index"),
    [
        ("NP", "NN CC NN", 0),  # the last noun is sought first, its conjunct is the head
        ("NP", "NNS , CC NNS", 0),
        ("NP", "NP CC NP", 0),
        ("VP", "VP CC VP", 0),
        ("ADVP", "RB RB", 1),
        ("NP", ", CC NN", 0),  # nothing but punctuation before the conjunction
        ("NP", "CC NN", 1),  # nothing at all before it
        ("S", "CC VP NP", 1),
    ],
)
def test_coordination_and_direction(label: str, children: str, index: int) -> None:
    assert penn_head(label, children.split()) == index


@pytest.mark.parametrize(
    ("label", "children", "index"),
    [
        ("NP", "D-A N-A CP", 1),
        ("NP", "D NP N", 2),
        ("PP", "P NP", 0),
        ("VP", "RP VB NP", 1),
        ("XP", "A B", 0),
        ("", "A B", 0),
        ("P", "A P", 1),
    ],
)
def test_generic(label: str, children: str, index: int) -> None:
    assert generic_head(label, children.split()) == index


@pytest.mark.parametrize("name", ["penn", "generic"])
@given(st.data())
def test_the_head_is_a_child(name: str, data: st.DataObject) -> None:
    labels = st.one_of(st.sampled_from(PENN), st.text(max_size=3))
    label = data.draw(labels)
    kids = data.draw(st.lists(labels, min_size=1, max_size=6))
    assert 0 <= HEAD_RULES[name](label, kids) < len(kids)


def test_label_sets() -> None:
    assert uses_penn_tags(PENN)
    assert not uses_penn_tags(["N-N", "D-N", "VBDI", "P", "IP-MAT", "CC"])
    assert not uses_penn_tags([])
