"""Treebanks in files: the same trees, shards and models as in memory."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.data import treebank
from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import StoredTreebank, Treebank
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.formats import read_trees, write_trees
from sapwood.corpora.tree import Tree, clean
from sapwood.execute import Threads


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several shards, written in several portions that are not theirs."""
    monkeypatch.setattr(treebank, "SHARD_NODES", 1000)
    monkeypatch.setattr(treebank, "ROWS_AT_A_TIME", 777)


def same(one: Treebank, other: Treebank) -> bool:
    return one.digest() == other.digest()


@pytest.mark.usefixtures("small")
def test_shards_are_those_of_the_treebank_in_memory(bank: Treebank, tmp_path: Path) -> None:
    kept = StoredTreebank.write(bank.trees(), tmp_path)
    assert (kept.n_trees, kept.n_tokens, len(kept)) == (bank.n_trees, bank.n_tokens, len(bank))
    in_memory = bank.shards()
    assert len(in_memory) > 5
    assert all(same(a.load(), b) for a, b in zip(kept.shards(), in_memory, strict=True))
    assert list(kept) == list(bank)
    assert str(kept.folder) in repr(kept)


@pytest.mark.usefixtures("small")
def test_another_binarisation_lies_beside(bank: Treebank, tmp_path: Path) -> None:
    kept = StoredTreebank.write(bank.trees(), tmp_path)
    other = replace(bank.inventory.transform, binarise="right")
    found, expected = kept.retransform(other), bank.retransform(other)
    assert all(same(a.load(), b) for a, b in zip(found.shards(), expected.shards(), strict=True))
    assert found.folder.parent == kept.folder.parent == tmp_path
    assert kept.retransform(kept.inventory.transform) is kept


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "estimator",
    [sw.PCFG(binarise="left"), sw.SpectralLPCFG(4), sw.EMLPCFG(3, iterations=3),
     sw.ClusterLPCFG(3, iterations=1), sw.PivotLPCFG(3), sw.SpanCRF(passes=1)],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_models_are_the_same_to_the_last_bit(
    bank: Treebank, tmp_path: Path, estimator: sw.SpectralLPCFG
) -> None:
    estimator.fit(bank).model_.save(tmp_path / "memory")
    kept = StoredTreebank.write(bank.trees(), tmp_path)
    with Threads(2, spill=tmp_path) as engine:
        estimator.set_params(engine=engine).fit(kept).model_.save(tmp_path / "disk")
    estimator.set_params(engine=None)
    assert (tmp_path / "disk").read_bytes() == (tmp_path / "memory").read_bytes()
    assert not list(tmp_path.glob("shards-*"))


def test_it_is_read_from_files(bank: Treebank, tmp_path: Path) -> None:
    sw.write_trees(bank.trees(), tmp_path / "trees.mrg")
    kept = StoredTreebank.read(tmp_path / "trees.mrg", tmp_path)
    assert same(kept.shards()[0].load(), sw.read_treebank(tmp_path / "trees.mrg"))


def test_no_trees(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no tree found"):
        StoredTreebank.write([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_folder(bank: Treebank, tmp_path: Path) -> None:
    with pytest.raises(SapwoodError, match="missing"):
        StoredTreebank.write(bank.trees(), tmp_path / "missing")
    with pytest.raises(SapwoodError, match="missing"):
        Threads(spill=tmp_path / "missing")


def test_rows_of_other_trees_are_noticed(bank: Treebank, tmp_path: Path) -> None:
    """The mutant reads one row further."""
    kept = StoredTreebank.write(bank.trees(), tmp_path)
    (shard,) = kept.shards()
    late = replace(shard, first=1, last=shard.last, offsets=np.array([0, shard.last - 1]))
    assert not same(late.load(), bank)


FEW, MANY = 40_000, 200_000
SHAPES: dict[str, Callable[[int], str]] = {
    "flat": lambda n: "(S " + "(X a) " * n + ")",
    "chain": lambda n: "(A (B " * (n // 2) + "(X a)" + "))" * (n // 2),
    "right spine": lambda n: "(A (T x) (B (U y) " * (n // 4) + "(X a)" + "))" * (n // 4),
    "left spine": lambda n: "(A (B " * (n // 4) + "(X a)" + " (T x)) (U y))" * (n // 4),
}
SECONDS = 30.0  # of many, each step takes about one; a quadratic one takes minutes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("transform", "n"),
    [
        (Transform(), FEW),
        pytest.param(Transform(), MANY, marks=pytest.mark.slow),
        pytest.param(Transform("right", 2, 2), MANY, marks=pytest.mark.slow),
        pytest.param(Transform("left", 0), MANY, marks=pytest.mark.slow),
    ],
)
def test_from_text_to_text(shape: str, transform: Transform, n: int) -> None:
    text, start = SHAPES[shape](n), time.process_time()
    (tree,) = read_trees(io.StringIO(text))
    cleaned = clean(tree)
    assert cleaned is not None
    restored = Treebank.from_trees([cleaned], transform).tree(0)
    assert restored == cleaned
    file = io.StringIO()
    write_trees([restored], file)
    assert file.getvalue() == f"(TOP {Tree.parse(text)})\n"
    assert len(restored.spans()) == sum(1 for _ in restored.nodes())
    assert time.process_time() - start < SECONDS * n / MANY


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.slow
def test_drawing_refuses(shape: str) -> None:
    start = time.process_time()
    tree = Tree.parse(SHAPES[shape](MANY))
    for draw in (tree.draw, tree.svg):
        with pytest.raises(SapwoodError, match="too large to draw") as caught:
            draw()
        assert caught.value.hint
    assert time.process_time() - start < SECONDS


def test_a_deep_tree_is_pickled_and_compared() -> None:
    tree = Tree.parse(SHAPES["chain"](FEW))
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree) == hash(Tree.parse(SHAPES["chain"](FEW)))
