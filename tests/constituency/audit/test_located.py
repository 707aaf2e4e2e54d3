"""Trees with their places: lines, numbers, files, groups, unreadable trees."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sapwood.constituency.audit.located import (
    Annotation,
    annotation_of,
    as_brackets,
    locate,
    read_located_trees,
)
from sapwood.constituency.audit.posteriors import Judgement, Labels, pack, unpack
from sapwood.core.errors import CorpusError
from sapwood.corpora.tree import Tree, clean

TEXT = """# a comment
(S (NP (N dogs)) (VP (V bark)))  (S (V go))

( (S
    (NP (N cats))
    (VP (V sleep))))
(X (-NONE- *))
(S (V stop))
"""


def test_a_tree_has_the_line_on_which_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "a.mrg"
    path.write_text(TEXT)
    with gzip.open(tmp_path / "b.mrg.gz", "wt") as file:
        file.write("(S (V go))\n")
    found = read_located_trees([path, tmp_path / "b.mrg.gz"])
    # the tree of nothing but an empty element has a number, and is not judged
    assert [(t.line, t.number) for t in found.trees] == [(2, 1), (2, 2), (4, 3), (8, 5), (1, 6)]
    assert [Path(t.file).name for t in found.trees] == ["a.mrg"] * 4 + ["b.mrg.gz"]
    assert found.file_starts == [0, 4]
    assert found.group_starts == [0, 2, 4]
    assert len(found.files) == 2


def test_unreadable_trees_are_kept_or_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.mrg"
    path.write_text("(S (N a))\n(S (N b) c)\n(S (N d))\n")
    with pytest.raises(CorpusError):
        read_located_trees(path)
    found = read_located_trees(path, skip_bad=True)
    assert [t.line for t in found.trees] == [1, 3]
    assert [error.line for error in found.skipped] == [2]


@given(...)
def test_annotations_hold_all_of_a_cleaned_tree(tree: Tree) -> None:
    cleaned = clean(tree)
    if cleaned is not None:
        assert clean(as_brackets(cleaned.words(), annotation_of(cleaned))) == cleaned
        (one,) = locate([tree]).trees
        assert one.words == tuple(cleaned.words())


def test_judgements_come_back_from_their_bytes() -> None:
    labels = Labels(["S", "NP", "N"])
    some = [
        Judgement(
            np.array([2, 0], np.int32), np.array([0, 0], np.int16), np.array([1, 1], np.int16),
            np.array([True, False]), np.array([0.25, 1.0], np.float32),
            Annotation(("N",), (("S", 0, 1),)),
        ),
        Judgement(
            np.array([], np.int32), np.array([], np.int16), np.array([], np.int16),
            np.array([], np.bool_), np.array([], np.float32), None,
        ),
    ]  # fmt: skip
    other = Labels(["X"])
    found = unpack(pack(some, labels), other)
    assert [other.names[k] for k in found[0].label] == ["N", "S"]
    assert found[0].p.tolist() == [0.25, 1.0]
    assert found[0].best == some[0].best
    assert found[1].best is None
    assert pack(found, other) == pack(some, labels)
