"""Reading is refused before it starts where the contents of a file would not fit into memory."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from sapwood.cli.inputs import TreeReading
from sapwood.constituency.data.treebank import StoredTreebank, read_treebank
from sapwood.constituency.evaluate.reliability import read_predicted
from sapwood.core.errors import SapwoodError
from sapwood.corpora.files import EXPANSION, require_reading_memory, text_bytes
from sapwood.dependency.data.reader import read_arcs, stream_arcs
from sapwood.dependency.data.transform import read_as_arcs

TREE = "(S (NP (NNS dogs)) (VP (VBP bark)))\n"
ARCS = "1\tdogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def large_files(tmp_path: Path, limit_memory: Callable[[int], None]) -> Path:
    """A folder with trees and arcs of 4 kB each, on a machine with 5 kB of free memory."""
    (tmp_path / "trees.mrg").write_text(TREE * (4000 // len(TREE)))
    (tmp_path / "arcs.conllu").write_text(ARCS * (4000 // len(ARCS)))
    limit_memory(5_000)
    return tmp_path


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (read_treebank, "trees.mrg"),
        (lambda path: TreeReading().trees(str(path)), "trees.mrg"),
        (lambda path: TreeReading().clean_trees(str(path)), "trees.mrg"),
        (lambda path: read_predicted(str(path), 1, has_phrases=False), "trees.mrg"),
        (read_arcs, "arcs.conllu"),
        (read_as_arcs, "arcs.conllu"),
    ],
)
def test_reading_is_refused_with_both_numbers(
    large_files: Path, read: Callable[[Path], object], name: str
) -> None:
    with pytest.raises(SapwoodError, match=r"reading 0 MB of .*trees needs about .* are free") as e:
        read(large_files / name)
    assert "at a time" in (e.value.hint or "")


def test_a_refusal_names_a_way_that_needs_less_memory(large_files: Path) -> None:
    with pytest.raises(SapwoodError) as e:
        read_treebank(large_files / "trees.mrg")
    assert "--on-disk" in (e.value.hint or "")
    assert StoredTreebank.read(large_files / "trees.mrg", large_files).n_trees == 4000 // len(TREE)


def test_dependency_trees_are_streamed_whatever_their_size(large_files: Path) -> None:
    streamed = list(stream_arcs(large_files / "arcs.conllu"))
    assert streamed == list(read_arcs(io.StringIO(ARCS * len(streamed))))
    assert len(streamed) == 4000 // len(ARCS)


def test_a_compressed_file_counts_for_more_than_its_size(tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg.gz"
    path.write_bytes(gzip.compress(TREE.encode()))
    assert text_bytes(path) == EXPANSION * path.stat().st_size


def test_sources_without_a_size_are_not_refused(limit_memory: Callable[[int], None]) -> None:
    limit_memory(0)
    require_reading_memory(["-", io.StringIO(TREE), "missing.mrg"], 20.0)
