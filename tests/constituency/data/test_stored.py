"""Treebanks in files: the same trees, shards and models as in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.data import stored, treebank
from sapwood.constituency.data.stored import StoredTreebank
from sapwood.constituency.data.treebank import Treebank
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.execute import Threads


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several shards, written in several portions that are not theirs."""
    monkeypatch.setattr(treebank, "SHARD_NODES", 1000)
    monkeypatch.setattr(stored, "ROWS_AT_A_TIME", 777)


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
