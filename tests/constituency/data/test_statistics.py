"""Counts over treebanks, by hand and by another route."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.data.statistics import (
    TreeCounts,
    coverage,
    describe_treebank,
    part_size,
    split_trees,
)

TREES = [
    sw.Tree.parse(text)
    for text in (
        "( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBD saw) (NP (PRP it))) (. .)) )",
        "(S (NP (NN saw)) (VP (VBD cut) (NP (-NONE- *T*-1)) (SBAR (-NONE- 0) (S (VP (VB go))))))",
        "(X (-NONE- *))",
        "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (PRP it))) (. .))",
    )
]


def test_by_hand() -> None:
    report = describe_treebank(TreeCounts.of(TREES))
    assert (report["trees"], report["empty_trees"], report["repeated_trees"]) == (4, 1, 1)
    assert (report["words"], report["vocabulary"], report["words_seen_once"]) == (13, 7, 2)
    assert [report[f"length_{key}"] for key in ("min", "median", "mean", "max")] == [3, 5, 4.333, 5]
    assert report["lengths"]["1-5"] == 3
    assert sum(report["lengths"].values()) == 3
    assert [report[f"depth_{key}"] for key in ("min", "max")] == [5, 7]
    assert report["labels"] == {"NP": 5, "S": 4, "VP": 4, "SBAR": 1}
    assert report["tags"] == {"NN": 3, "VBD": 3, ".": 2, "DT": 2, "PRP": 2, "VB": 1}
    assert report["tags_per_word"] == round(8 / 7, 4)  # saw is a noun and a verb
    assert (report["ambiguous_words"], report["ambiguous_tokens"]) == (1, 3)
    assert report["unary_chains"] == {"NP > PRP": 2, "NP > NN": 1, "SBAR > S > VP > VB": 1}
    assert (report["unary_nodes"], report["longest_unary_chain"]) == (6, 3)
    assert report["empty_elements"] == {"*": 1, "*T*": 1, "0": 1}
    assert report["rules"] == 11
    assert report["children"] == {"1": 9, "2": 6, "3": 2, "4": 0, "5-": 0}
    assert report["children_max"] == 3


def test_against() -> None:
    report = coverage(TreeCounts.of(TREES[:1] + TREES[1:2]), TreeCounts.of(TREES[3:]))
    assert (report["unknown_words"], report["unknown_tokens"]) == (2, 2)
    assert report["unknown_tokens_share"] == 0.25
    assert report["known_words_with_new_tags"] == 1  # saw, as a noun
    assert report["unknown_tags"] == {"VB": 1}
    assert report["unknown_labels"] == {"SBAR": 1}
    assert (report["trees_with_unseen_rules"], report["shared_trees"]) == (1, 1)
    assert report["shared_sentences"] == 1
    assert report["trees"] == 1


def test_the_same_words_with_another_tree_are_a_shared_sentence() -> None:
    one, other = (sw.Tree.parse(f"(S (NN a) ({tag} b))") for tag in ("VB", "NN"))
    report = coverage(TreeCounts.of([one]), TreeCounts.of([other]))
    assert (report["shared_trees"], report["shared_sentences"]) == (0, 1)


@given(st.lists(st.from_type(sw.Tree), max_size=6))
def test_totals_agree_with_the_trees(trees: list[sw.Tree]) -> None:
    report = describe_treebank(TreeCounts.of(trees))
    kept = [tree for tree in map(sw.clean, trees) if tree is not None]
    words = [word for tree in kept for word in tree.words()]
    assert report["trees"] == len(trees)
    assert report["words"] == len(words) == sum(report["tags"].values())
    assert report["vocabulary"] == len(set(words))
    assert report["tags"] == Counter(tag for tree in kept for tag in tree.tags())
    inner = [node for tree in kept for node in tree.nodes() if not node.is_preterminal]
    assert sum(report["children"].values()) == len(inner)
    assert report["phrases"] == len(inner) - sum(not tree.is_preterminal for tree in kept)
    unary = [node for node in inner if len(node) == 1 and not any(node is tree for tree in kept)]
    assert report["unary_nodes"] == len(unary)
    json.dumps(report)


@given(st.lists(st.from_type(sw.Tree), min_size=1, max_size=6))
def test_trees_are_covered_by_themselves(trees: list[sw.Tree]) -> None:
    counts = TreeCounts.of(trees)
    report = coverage(counts, counts)
    n_kept = report["trees"] - counts.n_empty_trees
    assert (report["shared_trees"], report["shared_sentences"]) == (n_kept, n_kept)
    assert not any(
        report[key] for key in report if key not in {"trees", "shared_trees", "shared_sentences"}
    )


@given(
    st.lists(st.integers(0, 6), min_size=3, max_size=60),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sampled_from(["tree", "file", "order"]),
    st.integers(0, 5),
)
def test_every_tree_has_one_part(files, n_dev: int, n_test: int, by: str, seed: int) -> None:
    files = sorted(files)
    n_parts = 1 + (n_dev > 0) + (n_test > 0)
    if n_dev + n_test >= len(files) or (by == "file" and len(set(files)) < n_parts):
        with pytest.raises(sw.SapwoodError):
            split_trees(files, n_dev, n_test, by=by, seed=seed)
        return
    parts = split_trees(files, n_dev, n_test, by=by, seed=seed)
    assert parts == split_trees(files, n_dev, n_test, by=by, seed=seed)
    assert len(parts) == len(files)
    sizes = Counter(parts)
    assert sizes[0] > 0
    if by == "file":
        assert all(
            len({p for p, f in zip(parts, files, strict=True) if f == file}) == 1 for file in files
        )
        assert bool(sizes[1]) == bool(n_dev)
        assert bool(sizes[2]) == bool(n_test)
    else:
        assert (sizes[1], sizes[2]) == (n_dev, n_test)
    if by == "order":
        assert parts == sorted(parts)


def test_the_draw_is_the_same_on_every_machine() -> None:
    assert split_trees([0] * 10, 2, 2, seed=3) == [2, 0, 0, 0, 0, 1, 1, 0, 0, 2]


def test_seeds_differ() -> None:
    assert len({tuple(split_trees([0] * 50, 5, 5, seed=seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("text", ["", "%", "x", "-1", "-5%", "100%", "1.5", "1/0", "nan", "1e400%"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(sw.SapwoodError, match="not the size of a part"):
        part_size(text, 100)


def test_too_large_parts() -> None:
    with pytest.raises(sw.SapwoodError, match=r"dev \(5\) and test \(5\) leave none of 10"):
        split_trees([0] * 10, 5, 5)
