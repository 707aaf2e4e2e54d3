"""Products with feature rows against sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import Treebank, bundled_treebank
from sapwood.constituency.learn.features import NodeTable
from sapwood.constituency.learn.kernels.node_features import gather, head_tags, heads_above, scatter
from sapwood.corpora.tree import Tree, penn_head

TINY = 1e-12  # sums of at most a few hundred numbers of size 1


def case(
    seed: int, n_nodes: int, n_templates: int, n_features: int
) -> tuple[np.ndarray, np.ndarray, csr_array]:
    """Feature numbers and scales, each template with features of its own, and Phi itself."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, n_features, (n_nodes, n_templates))
    ids = (own + n_features * np.arange(n_templates)).astype(np.uint32)
    w = rng.normal(size=n_features * n_templates)
    w[rng.random(len(w)) < 0.2] = 0.0
    rows = np.repeat(np.arange(n_nodes), n_templates)
    phi = csr_array((w[ids.ravel()], (rows, ids.ravel())), shape=(n_nodes, len(w)))
    return ids, w, phi


@given(
    seed=st.integers(0, 1000),
    n_nodes=st.integers(0, 30),
    n_templates=st.integers(1, 5),
    n_columns=st.integers(1, 9),
)
def test_gather_and_scatter(seed: int, n_nodes: int, n_templates: int, n_columns: int) -> None:
    ids, w, phi = case(seed, n_nodes, n_templates, 7)
    rng = np.random.default_rng(seed)
    matrix, rows = rng.normal(size=(len(w), n_columns)), rng.normal(size=(n_nodes, n_columns))
    out = np.full((n_nodes, n_columns), np.nan)  # whatever stood there
    gather(ids, w, matrix, out)
    np.testing.assert_allclose(out, phi @ matrix, rtol=0, atol=TINY)
    total = np.ones((len(w), n_columns))
    scatter(ids, w, rows, total)
    np.testing.assert_allclose(total, 1.0 + phi.T @ rows, rtol=0, atol=TINY)


def test_scatter_is_the_transpose_of_gather() -> None:
    ids, w, _ = case(0, 200, 4, 50)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(len(w), 1)), rng.normal(size=(200, 1))
    forward, back = np.empty((200, 1)), np.zeros((len(w), 1))
    gather(ids, w, x, forward)
    scatter(ids, w, y, back)
    assert (forward * y).sum() == pytest.approx((x * back).sum(), rel=1e-12)


def test_a_mutant_without_scales_differs() -> None:
    ids, w, phi = case(1, 50, 3, 20)
    matrix, out = np.ones((len(w), 2)), np.empty((50, 2))
    gather(ids, np.ones_like(w), matrix, out)
    assert np.abs(out - phi @ matrix).max() > 0.1


def test_features_of_scale_zero_are_not_read() -> None:
    """A feature may be left out by its scale, whatever its row holds."""
    matrix = np.array([[1.0], [np.nan]])
    out = np.empty((1, 1))
    gather(np.array([[0, 1]], np.uint32), np.array([2.0, 0.0]), matrix, out)
    assert out[0, 0] == 2.0


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
