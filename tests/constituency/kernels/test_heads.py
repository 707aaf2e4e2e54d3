"""Head tags of packed trees against recursion over trees."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import Treebank, bundled_treebank
from sapwood.constituency.learn.kernels.heads import head_tags, heads_above
from sapwood.constituency.learn.templates import NodeTable
from sapwood.corpora.heads import penn_head
from sapwood.corpora.tree import Tree


def head_tag(tree: Tree) -> str:
    """Tag of the head word, by Collins's table, from the tree before it was made binary."""
    if tree.is_preterminal:
        return tree.label
    labels = [child.label for child in tree.children]
    return head_tag(tree.children[penn_head(tree.label, labels)])


def of_row(bank: Treebank, first: int, row: int) -> int:
    """Row of the head leaf, by recursion over the columns."""
    rule = bank.rule[first + row]
    if rule < 0:
        return row
    side = bank.right if bank.inventory.rule_heads[rule] else bank.left
    return of_row(bank, first, int(side[first + row]))


@pytest.fixture(scope="module", params=["head", "right", "left"])
def bank(request: pytest.FixtureRequest) -> Treebank:
    return bundled_treebank("dev", Transform(binarise=request.param))[:100]


def named(table: NodeTable) -> dict[int, str]:
    symbols = table.inventory.symbols
    return {int(n): s.chain[-1] for n, s in zip(table.base_tag, symbols, strict=True)}


def test_heads_are_those_of_the_columns(bank: Treebank) -> None:
    table = NodeTable(bank)
    for first, last in zip(bank.offsets[:-1].tolist(), bank.offsets[1:].tolist(), strict=True):
        for row in range(last - first):
            leaf = first + of_row(bank, first, row)
            assert table.head[first + row] == table.base_tag[bank.label[leaf]]


def test_heads_of_roots_are_those_of_the_table(bank: Treebank) -> None:
    table = NodeTable(bank)
    names = named(table)
    for index, tree in enumerate(bank.trees()):
        assert names[int(table.head[bank.offsets[index + 1] - 1])] == head_tag(tree[0])


def above(table: NodeTable, node: int) -> int:
    """First different head tag above, by climbing."""
    over = int(table.parent[node])
    while over >= 0 and table.head[over] == table.head[node]:
        over = int(table.parent[over])
    return int(table.head[over]) if over >= 0 else -1


def test_heads_above(bank: Treebank) -> None:
    table = NodeTable(bank)
    assert table.head_above.tolist() == [above(table, node) for node in range(len(table))]


def test_by_hand_and_a_mutant() -> None:
    # ((0 1) 2): rule 0 joins the leaves 0 and 1 (head right), rule 1 adds leaf 2 (head left)
    label, rule = np.array([0, 1, 3, 2, 4]), np.array([-1, -1, 0, -1, 1])
    left, right = np.array([-1, -1, 0, -1, 2]), np.array([-1, -1, 1, -1, 3])
    tags = np.array([10, 11, 12, 99, 99])
    head = head_tags(label, rule, left, right, np.array([1, 0]), tags)
    assert head.tolist() == [10, 11, 11, 12, 11]
    assert heads_above(head, np.array([2, 2, 4, 4, -1])).tolist() == [11, -1, -1, 11, -1]
    mutant = head_tags(label, rule, left, right, np.array([0, 0]), tags)  # sides forgotten
    assert mutant.tolist() != head.tolist()
