from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.constituency.data.transform import BINARISATIONS, Symbol, Transform, binarise
from sapwood.constituency.data.treebank import Treebank
from sapwood.core.errors import SapwoodError
from sapwood.corpora.formats import read_trees
from sapwood.corpora.tree import Tree, clean, clean_all

DEPTH = 5_000

TRANSFORMS = [
    Transform(binarise, horizontal, vertical, tag_parents)
    for binarise, horizontal, vertical, tag_parents in product(
        BINARISATIONS, (0, 1, 2), (1, 2, 3), (False, True)
    )
]
# Together they use every value of every setting.
SOME_TRANSFORMS = [
    Transform(),
    Transform("right", 0, 2),
    Transform("left", 2, 3, tag_parents=True),
    Transform("head", 2, 2, heads="generic"),
    Transform("head", 0, 1, tag_parents=True, heads="penn"),
]


def symbols_of(tree: str, transform: Transform) -> set[str]:
    bank = Treebank.from_trees([Tree.parse(tree)], transform)
    return {str(symbol) for symbol in bank.inventory.symbols}


@pytest.mark.parametrize(
    "transform",
    TRANSFORMS,
    ids=lambda t: f"{t.binarise}-{t.horizontal}-{t.vertical}-{t.tag_parents}",
)
@settings(max_examples=15)
@given(st.lists(st.from_type(Tree), min_size=1, max_size=3))
def test_restore_undoes_transform(transform: Transform, trees: list[Tree]) -> None:
    cleaned = list(clean_all(trees))
    if cleaned:
        assert list(Treebank.from_trees(cleaned, transform).trees()) == cleaned


@pytest.mark.parametrize("transform", SOME_TRANSFORMS)
@pytest.mark.parametrize(
    "text",
    [
        "(X a)",
        "(TOP a)",
        "(A (B (C (D a))))",
        "(A (B (C (D a) (E b))))",
        "(TOP (S (X a)) (S (Y b)) (S (Z c)))",
        "(@X (A|B (X^Y a) (-LRB- b) (@X:>A c)) ( (TOP d) (TOP e)))",
        "(S (TOP (A a) (B b)) (TOP (A a)))",
        "(NP (NP (NP a) (NP b)) (NP c) (NP d) (NP (NP e) (NP f) (NP g)))",
    ],
)
def test_awkward_trees_survive(text: str, transform: Transform) -> None:
    tree = clean(Tree.parse(text))
    assert tree is not None
    assert Treebank.from_trees([tree], transform).tree(0) == tree


@pytest.mark.parametrize("transform", SOME_TRANSFORMS)
@pytest.mark.parametrize("step", ["(A (T x) (B ", "(A (B ", "(A (T x) (U y) (B "])
def test_depth_is_no_limit(transform: Transform, step: str) -> None:
    tree = clean(Tree.parse(step * (DEPTH // 2) + "(X w)" + "))" * (DEPTH // 2)))
    assert tree is not None
    assert Treebank.from_trees([tree], transform).tree(0) == tree


# -- the names of symbols -------------------------------------------------------------------------

TREE = (
    "(TOP (S (NP (DT the) (JJ big) (NN dog))"
    " (VP (VBD ate) (NP (NNS bones)) (PP (IN in) (NP (NN may))) (. .))))"
)


def test_collapse() -> None:
    assert symbols_of("(TOP (S (VP (VB go) (ADVP (RB now)))))", Transform()) == {
        "S|VP",
        "VB",
        "ADVP|RB",
    }


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (Transform("right", 0), {"@NP", "@VP"}),
        (Transform("left", 0), {"@NP", "@VP"}),
        (Transform("right", 1), {"@NP:<JJ", "@VP:<PP", "@VP:<NP"}),
        (Transform("left", 1), {"@NP:>JJ", "@VP:>NP", "@VP:>PP"}),
        (Transform("head", 1, heads="penn"), {"@NP:<JJ", "@VP:>NP", "@VP:>PP"}),
        (Transform("head", 2, heads="penn"), {"@NP:<JJ", "@VP:>NP", "@VP:>PP,>NP"}),
        (Transform("head", 0, 2, heads="penn"), {"@NP^S", "@VP^S"}),
    ],
)
def test_intermediate_symbols(transform: Transform, expected: set[str]) -> None:
    assert {name for name in symbols_of(TREE, transform) if name.startswith("@")} == expected


def test_ancestors() -> None:
    names = symbols_of(TREE, Transform("left", 0, 2))
    assert {"S", "NP^S", "VP^S", "NP|NNS^VP", "PP^VP", "NP|NN^PP", "DT"} <= names
    names = symbols_of(TREE, Transform("left", 0, 3, tag_parents=True))
    assert {"NP|NN^PP^VP", "DT^NP^S", "IN^PP^VP", "VBD^VP^S"} <= names


def test_the_nearest_ancestor_is_the_last_of_a_chain() -> None:
    tree = "(S (X x) (SBAR (IP (NP (DT a) (NN b)) (VP (VB c) (RB d)))))"
    two, three = (symbols_of(tree, Transform("left", 0, v, tag_parents=True)) for v in (2, 3))
    assert {"SBAR|IP^S", "NP^IP", "VP^IP", "DT^NP"} <= two
    assert {"SBAR|IP^S", "NP^IP^SBAR", "VP^IP^SBAR", "DT^NP^IP"} <= three


def test_the_same_production_below_different_parents() -> None:
    tree = "(S (NP (DT a) (NN b)) (VP (VB c) (NP (DT d) (NN e))))"
    assert {"NP^S", "NP^VP"} <= symbols_of(tree, Transform("left", 0, 2))


def test_labels_that_look_alike_stay_apart() -> None:
    assert Symbol(("A", "B")) != Symbol(("A|B",))
    assert str(Symbol(("A", "B"))) == str(Symbol(("A|B",)))
    tree = Tree.parse("(TOP (S (A|B (X a) (Y b)) (A (B (X a) (Y b)))))")
    assert Treebank.from_trees([tree]).tree(0) == tree


@pytest.mark.parametrize(
    "transform", [Transform(heads="generic", binarise=name) for name in BINARISATIONS]
)
@given(st.lists(st.sampled_from(["A", "B", "NP", "N"]), min_size=2, max_size=7))
def test_steps_build_every_child_once_and_in_order(transform: Transform, kids: list[str]) -> None:
    steps = binarise(transform, ("NP",), (), kids)
    assert len(steps) == len(kids) - 1
    built: list[int] = []
    for number, step in enumerate(steps):
        left = built if step.left < 0 else [step.left]
        right = built if step.right < 0 else [step.right]
        assert (step.left < 0) + (step.right < 0) == (number > 0)
        built = left + right
    assert built == list(range(len(kids)))
    assert [step.symbol.is_intermediate for step in steps] == [True] * (len(kids) - 2) + [False]


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"binarise": "up"}, "binarise must be one of head, right, left, not 'up'"),
        ({"heads": "tail"}, "heads must be one of"),
        ({"horizontal": -1}, "horizontal must be a whole number from 0 up, not -1"),
        ({"vertical": 0}, "vertical must be a whole number from 1 up, not 0"),
        ({"vertical": 1.5}, "not 1.5"),
    ],
)
def test_wrong_settings(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(SapwoodError, match=message):
        Transform(**settings_)


def test_settings_as_data() -> None:
    for transform in TRANSFORMS:
        assert Transform(**transform.as_dict()) == transform


# -- real treebanks -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.corpora
@pytest.mark.parametrize("name", ["craft", "ptb_nltk_sample", "icepahc"])
def test_every_tree_of_real_treebanks(corpora: Path, name: str) -> None:
    sources = [corpora / name / f"{split}.mrg.xz" for split in ("train", "dev")]
    raw = list(read_trees(sources))
    trees = list(clean_all(raw))
    assert 0.95 * len(raw) < len(trees) <= len(raw)
    for tree in trees:
        assert clean(tree) == tree
    for transform in (SOME_TRANSFORMS[0], SOME_TRANSFORMS[2]):
        bank = Treebank.from_trees(trees, transform)
        for tree, restored in zip(trees, bank.trees(), strict=True):
            assert restored == tree
