"""Trees of hundreds of thousands of nodes: nothing is quadratic, nothing recurs."""

from __future__ import annotations

import io
import pickle
import time

import pytest

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import Treebank
from sapwood.core.errors import SapwoodError
from sapwood.corpora.formats import read_trees, write_trees
from sapwood.corpora.tree import Tree, clean

N = 200_000
SHAPES = {
    "flat": "(S " + "(X a) " * N + ")",
    "chain": "(A (B " * (N // 2) + "(X a)" + "))" * (N // 2),
    "right spine": "(A (T x) (B (U y) " * (N // 4) + "(X a)" + "))" * (N // 4),
    "left spine": "(A (B " * (N // 4) + "(X a)" + " (T x)) (U y))" * (N // 4),
}
SECONDS = 30.0  # each step takes about one; a quadratic one takes minutes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "transform",
    [
        Transform(),
        pytest.param(Transform("right", 2, 2), marks=pytest.mark.slow),
        pytest.param(Transform("left", 0), marks=pytest.mark.slow),
    ],
)
def test_from_text_to_text(shape: str, transform: Transform) -> None:
    start = time.process_time()
    (tree,) = read_trees(io.StringIO(SHAPES[shape]))
    cleaned = clean(tree)
    assert cleaned is not None
    restored = Treebank.from_trees([cleaned], transform).tree(0)
    assert restored == cleaned
    file = io.StringIO()
    write_trees([restored], file)
    assert file.getvalue() == f"(TOP {Tree.parse(SHAPES[shape])})\n"
    assert len(restored.spans()) == sum(1 for _ in restored.nodes())
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.slow
def test_drawing_refuses(shape: str) -> None:
    start = time.process_time()
    tree = Tree.parse(SHAPES[shape])
    for draw in (tree.draw, tree.svg):
        with pytest.raises(SapwoodError, match="too large to draw") as caught:
            draw()
        assert caught.value.hint
    assert time.process_time() - start < SECONDS


def test_a_deep_tree_is_pickled_and_compared() -> None:
    tree = Tree.parse(SHAPES["chain"])
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree) == hash(Tree.parse(SHAPES["chain"]))
