"""Templates, and the numbers and scales of features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pytest

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import Treebank, bundled_treebank
from sapwood.constituency.learn import features
from sapwood.constituency.learn.features import (
    INSIDE,
    LEFT_CHILD,
    OUTSIDE,
    RIGHT_CHILD,
    TREE_ROOT,
    Column,
    FeatureCounts,
    FeatureSpace,
    NodeKeys,
    NodeTable,
    Template,
    feature_keys,
)
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

BY_HAND = """
(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (JJ small) (NN cat)) (PP (IN in) (NP (NN snow)))))
(S (NP (NN snow)) (VP (VBZ sees) (NP (NP (DT the) (NN cat)) (PP (IN in) (NP (NN snow))))))
(NP (NP (DT a) (NN cat)) (NP (DT the) (NN dog)))
(INTJ (UH oh))
(S (S (NP (DT a) (NN dog)) (VP (VBZ sees))) (CC and) (S (NP (DT a) (NN cat)) (VP (VBZ sees))))
"""  # noqa: E501


@dataclass(eq=False)
class Node:
    """A node of a binary tree, with its neighbours as objects."""

    label: str
    word: str | None
    head: str
    start: int
    end: int
    length: int  # of the sentence
    children: tuple[Node, ...] = ()
    parent: Node | None = None

    @property
    def rule(self) -> Hashable:
        return (self.label, *[child.label for child in self.children]) if self.children else None

    @property
    def side(self) -> str:
        if self.parent is None:
            return "root"
        return "left" if self.parent.children[0] is self else "right"


def nodes_of(bank: Treebank) -> list[Node]:
    """All nodes in the order of the rows, built from the columns one row at a time."""
    names = [str(symbol) for symbol in bank.inventory.symbols]
    bases = [symbol.chain[-1] for symbol in bank.inventory.symbols]
    out: list[Node] = []
    for index in range(bank.n_trees):
        first, last = bank.offsets[index : index + 2].tolist()
        tree: list[Node] = []
        for row in range(first, last):
            label, rule = int(bank.label[row]), int(bank.rule[row])
            kids = tuple(tree[k] for k in (bank.left[row], bank.right[row]) if k >= 0)
            node = Node(
                names[label],
                bank.inventory.words[bank.word[row]] if rule < 0 else None,
                bases[label] if rule < 0 else kids[bank.inventory.rule_heads[rule]].head,
                int(bank.start[row]), int(bank.end[row]), len(bank.words(index)), kids,
            )  # fmt: skip
            for kid in kids:
                kid.parent = node
            tree.append(node)
        out += tree
    return out


def width_class(n: int) -> int:
    return next(
        (place for place, most in enumerate([0, 1, 2, 3, 4, 5, 8, 12, 20, 30]) if n <= most), 99
    )


def child_rule(node: Node, side: int) -> Hashable:
    return (node.rule, node.children[side].rule) if node.children else (None, None)


def rules_above(node: Node, n: int) -> Hashable:
    out: list[Hashable] = []
    for _ in range(n):
        above = node.parent if node is not None else None
        out.append((above.rule, node.side) if above else "root" if node else "beyond")
        node = above  # type: ignore[assignment]
    return tuple(out)


def labels_above(node: Node, n: int) -> Hashable:
    out: list[Hashable] = []
    for _ in range(n):
        above = node.parent if node is not None else None
        out.append((above.label, node.side) if above else "root" if node else "beyond")
        node = above  # type: ignore[assignment]
    return tuple(out)


def other_head(node: Node) -> str | None:
    above = node.parent
    while above is not None and above.head == node.head:
        above = above.parent
    return above.head if above else None


TWINS: dict[str, Callable[[Node], Hashable]] = {
    "word": lambda node: node.word,
    "left_label": lambda node: node.children[0].label if node.children else None,
    "right_label": lambda node: node.children[1].label if node.children else None,
    "rule": lambda node: node.rule,
    "left_rule": lambda node: child_rule(node, 0),
    "right_rule": lambda node: child_rule(node, 1),
    "head": lambda node: node.head,
    "length": lambda node: width_class(node.end - node.start),
    "rule_above": lambda node: rules_above(node, 1),
    "two_rules_above": lambda node: rules_above(node, 2),
    "three_rules_above": lambda node: rules_above(node, 3),
    "parent": lambda node: labels_above(node, 1),
    "grandparent": lambda node: labels_above(node, 2),
    "head_above": other_head,
    "words_before": lambda node: width_class(node.start),
    "words_behind": lambda node: width_class(node.length - node.end),
}
KNOWN = INSIDE | OUTSIDE


def agree(values: Column, said: Sequence[Hashable]) -> bool:
    """Whether equal numbers and equal tuples go together."""
    pairs = set(zip(values.tolist(), said, strict=True))
    return len(pairs) == len(set(values.tolist())) == len(set(said))


@pytest.fixture(scope="module")
def by_hand() -> Treebank:
    trees = [Tree.parse(line) for line in BY_HAND.strip().splitlines()]
    return Treebank.from_trees(trees, Transform(heads="penn"))


@pytest.fixture(scope="module")
def sample() -> Treebank:
    return bundled_treebank("dev")[:100]


def test_every_template_has_a_twin() -> None:
    assert KNOWN.keys() == TWINS.keys()
    assert not INSIDE.keys() & OUTSIDE.keys()


@pytest.mark.parametrize("name", TWINS)
def test_templates_say_what_their_twins_say(name: str, by_hand: Treebank, sample: Treebank) -> None:
    for bank in (by_hand, sample):
        said = [TWINS[name](node) for node in nodes_of(bank)]
        assert agree(KNOWN[name](NodeTable(bank)), said)


MUTANTS: dict[str, Template] = {
    "rule_above": lambda t: t.at(t.rule, t.parent),
    "left_rule": lambda t: features._pair(t.rule, t.at(t.rule, t.right)),
    "parent": lambda t: t.at(t.label, t.parent),
    "head_above": lambda t: t.at(t.head, t.parent),
    "words_behind": lambda t: features._bucket(t.end),
    "length": lambda t: t.end - t.start,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_differ_from_the_twins(name: str, sample: Treebank) -> None:
    said = [TWINS[name](node) for node in nodes_of(sample)]
    assert not agree(MUTANTS[name](NodeTable(sample)), said)


def test_values_by_hand(by_hand: Treebank) -> None:
    table = NodeTable(by_hand)
    names = [str(symbol) for symbol in by_hand.inventory.symbols]
    words = [by_hand.inventory.words[x] if x >= 0 else None for x in table.word]
    dog = words.index("dog")
    assert names[features.left_label(table)[table.parent[dog]]] == "DT"
    assert names[features.right_label(table)[table.parent[dog]]] == "NN"
    assert features.left_label(table)[dog] == features.rule(table)[dog] == -1
    assert (table.side[dog], table.side[dog - 1]) == (RIGHT_CHILD, LEFT_CHILD)
    roots = by_hand.offsets[1:] - 1
    assert (table.side[roots] == TREE_ROOT).all()
    assert (table.parent[roots] == -1).all()
    assert features.words_before(table)[dog] == 1
    assert features.words_behind(table)[dog] == 6  # seven words in the class of 6 to 8
    assert features.head_above(table)[roots].tolist() == [-1] * 5


def test_lengths_fall_in_classes() -> None:
    counts = np.array([0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 20, 21, 30, 31, 1000])
    expected = [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10]
    assert features._bucket(counts).tolist() == expected


def test_pairs_are_told_apart() -> None:
    side = np.arange(-1, 700)
    first, second = (part.ravel() for part in np.meshgrid(side, side))
    mixed = features._pair(first, second)
    assert len(np.unique(mixed)) == len(mixed)  # 491,401 pairs: a clash has a chance of 0.04 %
    assert mixed.min() >= 0
    assert mixed.max() < 2**48
    nested = features._pair(mixed, second)
    assert len(np.unique(nested)) == len(nested)


@pytest.mark.parametrize("name", KNOWN)
def test_shards_agree_with_the_whole(name: str, sample: Treebank) -> None:
    parts = [KNOWN[name](NodeTable(shard)) for shard in sample.shards(7)]
    assert (np.concatenate(parts) == KNOWN[name](NodeTable(sample))).all()


def test_rare_words_may_stand_for_their_class(by_hand: Treebank) -> None:
    row_of_word = np.arange(len(by_hand.inventory.words)) % 2
    words = NodeTable(by_hand, row_of_word).word
    expected = [x % 2 if x >= 0 else -1 for x in by_hand.word.tolist()]
    assert words.tolist() == expected


TEMPLATES = list((INSIDE | OUTSIDE).values())
KAPPA = 5.0


@pytest.fixture(scope="module")
def counts(small_bank: Treebank) -> FeatureCounts:
    return NodeKeys.of(small_bank, TEMPLATES).counts


def rows_of(space: FeatureSpace, small_bank: Treebank) -> np.ndarray:
    nodes = NodeKeys.of(small_bank, TEMPLATES)
    return space.rows(nodes.counts.keys, nodes.key_of_node)


def space_of(small_bank: Treebank, counts: FeatureCounts, *, scaled: bool = True) -> FeatureSpace:
    symbols = np.bincount(small_bank.label, minlength=len(small_bank.inventory.symbols)).astype(
        float
    )
    return FeatureSpace.build(TEMPLATES, counts.keys, counts.counts, symbols, KAPPA, scaled=scaled)


def same(one: FeatureCounts, other: FeatureCounts) -> bool:
    return all(
        (a == b).all()
        for ours, theirs in ((one.keys, other.keys), (one.counts, other.counts))
        for a, b in zip(ours, theirs, strict=True)
    )


def test_counts_are_those_of_a_dictionary(small_bank: Treebank, counts: FeatureCounts) -> None:
    table = NodeTable(small_bank)
    for place, template in enumerate(TEMPLATES):
        expected = Counter(zip(template(table).tolist(), small_bank.label.tolist(), strict=True))
        assert sorted(expected.values()) == sorted(counts.counts[place].tolist())
        assert counts.counts[place].sum() == len(table)
        assert (np.diff(counts.keys[place]) > 0).all()


@pytest.mark.parametrize("n", [2, 5, 80])
def test_shards_add_up(n: int, small_bank: Treebank, counts: FeatureCounts) -> None:
    parts = [NodeKeys.of(shard, TEMPLATES).counts for shard in small_bank.shards(n)]
    assert same(reduce(add, parts), counts)
    assert same(reduce(add, reversed(parts)), counts)


def test_a_shard_left_out_is_noticed(small_bank: Treebank, counts: FeatureCounts) -> None:
    parts = [NodeKeys.of(shard, TEMPLATES).counts for shard in small_bank.shards(5)]
    short = reduce(add, parts[1:])
    assert any(a.sum() != b.sum() for a, b in zip(short.counts, counts.counts, strict=True))


def test_each_node_has_one_feature_per_template_in_its_labels_block(
    small_bank: Treebank, counts: FeatureCounts
) -> None:
    space = space_of(small_bank, counts)
    ids = rows_of(space, small_bank)
    assert ids.shape == (len(small_bank.label), len(TEMPLATES))
    first, stop = space.start[small_bank.label], space.start[small_bank.label + 1]
    assert (ids >= first[:, None]).all()
    assert (ids < stop[:, None]).all()
    assert space.start[0] == 0
    assert space.start[-1] == len(space.weight) == sum(map(len, space.keys))
    assert all(len(set(row)) == len(TEMPLATES) for row in ids.tolist())  # templates share none


def test_numbers_and_values_go_together(small_bank: Treebank, counts: FeatureCounts) -> None:
    """Nodes share a feature if and only if label and value are the same; counts are its nodes."""
    space = space_of(small_bank, counts)
    ids = rows_of(space, small_bank)
    for place, keys in enumerate(feature_keys(small_bank, TEMPLATES)):
        pairs = set(zip(ids[:, place].tolist(), keys.tolist(), strict=True))
        assert len(pairs) == len({f for f, _ in pairs}) == len({key for _, key in pairs})
    np.testing.assert_array_equal(
        np.bincount(ids.ravel(), minlength=len(space.weight)), space.count
    )


def test_scales(small_bank: Treebank, counts: FeatureCounts) -> None:
    space = space_of(small_bank, counts)
    n_nodes = np.bincount(small_bank.label, minlength=len(small_bank.inventory.symbols))
    for f in range(0, len(space.weight), 97):
        label = np.searchsorted(space.start, f, side="right") - 1
        expected = (n_nodes[label] / (space.count[f] + KAPPA)) ** 0.5
        assert space.weight[f] == pytest.approx(expected, rel=1e-15)
    assert (space_of(small_bank, counts, scaled=False).weight == 1.0).all()


def test_rows_of_shards_are_those_of_the_whole(small_bank: Treebank, counts: FeatureCounts) -> None:
    space = space_of(small_bank, counts)
    parts = [rows_of(space, shard) for shard in small_bank.shards(6)]
    assert (np.concatenate(parts) == rows_of(space, small_bank)).all()


def depth_is_even(table: NodeTable) -> Column:
    depth = np.zeros(len(table), np.int64)
    for node in range(len(table) - 1, -1, -1):
        if table.parent[node] >= 0:
            depth[node] = depth[table.parent[node]] + 1
    return depth % 2


def test_a_template_of_ones_own(small_bank: Treebank) -> None:
    learner = SpectralLPCFG(2, inside_features=["rule", "word"], outside_features=[depth_is_even])
    learner.fit(small_bank)
    found = set(
        zip(small_bank.label.tolist(), depth_is_even(NodeTable(small_bank)).tolist(), strict=True)
    )
    assert learner.info_.n_outside == len(found)
    assert np.isfinite(learner.model_.log_probs(small_bank)).all()


@pytest.mark.parametrize("side", ["inside_features", "outside_features"])
@pytest.mark.parametrize(
    ("wanted", "message"),
    [(["rool"], "no feature template 'rool'"), ([], "no feature template was")],
)
def test_unknown_names_are_refused(
    side: str, wanted: list[str], message: str, small_bank: Treebank
) -> None:
    with pytest.raises(SapwoodError, match=message) as caught:
        SpectralLPCFG(2, **{side: wanted}).fit(small_bank)
    known = INSIDE if side == "inside_features" else OUTSIDE
    assert all(name in str(caught.value.hint) for name in known)
