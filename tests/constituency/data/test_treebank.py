from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.constituency.data.statistics import TreeCounts
from sapwood.constituency.data.transform import Transform
from sapwood.constituency.data.treebank import Treebank, bundled_treebank, read_treebank
from sapwood.core.errors import CorpusError
from sapwood.corpora.tree import Tree, clean_all

TEXT = """
(S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now))))
(S (NP (DT the) (JJ big) (NN dog))
   (VP (VBD ate) (NP (NNS bones)) (PP (IN in) (NP (NNP May)))) (. .))
(FRAG (NN dogs))
(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
"""


@st.composite
def banks(draw: st.DrawFn) -> Treebank:
    trees = list(clean_all(draw(st.lists(st.from_type(Tree), min_size=1, max_size=6))))
    return Treebank.from_trees(trees or [Tree.parse("(TOP (X a))")])


def small_bank(transform: Transform | None = None) -> Treebank:
    return read_treebank(io.StringIO(TEXT), transform)


def assert_same(one: Treebank, other: Treebank) -> None:
    for name in ("offsets", *Treebank.COLUMNS):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    assert one.inventory.symbols == other.inventory.symbols
    assert one.inventory.words == other.inventory.words
    assert one.inventory.transform == other.inventory.transform
    np.testing.assert_array_equal(one.inventory.rules, other.inventory.rules)


def check_rows(bank: Treebank) -> None:
    """The table in the module's docstring, row by row."""
    n_phrases = len(bank.inventory.phrases)
    for first, last in zip(bank.offsets[:-1], bank.offsets[1:], strict=True):
        columns = {name: getattr(bank, name)[first:last].tolist() for name in Treebank.COLUMNS}
        rows = [
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
        assert rows[-1]["parent"] == -1
        assert (rows[-1]["start"], rows[-1]["end"]) == (0, (len(rows) + 1) // 2)
        for number, row in enumerate(rows):
            if number < len(rows) - 1:
                assert number < row["parent"] < len(rows)
                assert number in (rows[row["parent"]]["left"], rows[row["parent"]]["right"])
            if row["word"] >= 0:
                assert row["label"] >= n_phrases
                assert (row["rule"], row["left"], row["right"]) == (-1, -1, -1)
                assert row["end"] == row["start"] + 1
                continue
            assert 0 <= row["label"] < n_phrases
            left, right = rows[row["left"]], rows[row["right"]]
            assert row["left"] < number
            assert row["right"] < number
            assert (row["start"], left["end"], row["end"]) == (
                left["start"],
                right["start"],
                right["end"],
            )
            rule = bank.inventory.rules[row["rule"]].tolist()
            assert rule == [row["label"], left["label"], right["label"]]


@given(banks())
def test_rows(bank: Treebank) -> None:
    check_rows(bank)


@pytest.mark.parametrize(
    "transform", [Transform(), Transform("right", 2, 3), Transform("left", 0, 2, True)]
)
def test_rows_of_a_small_bank(transform: Transform) -> None:
    bank = small_bank(transform)
    check_rows(bank)
    assert (len(bank), bank.n_trees, bank.n_tokens) == (4, 4, 15)
    assert bank.words(2) == ["dogs"]
    assert len(set(bank.inventory.words)) == len(bank.inventory.words)
    assert len(set(bank.inventory.phrases)) == len(bank.inventory.phrases)


def test_a_check_that_can_fail() -> None:
    bank = small_bank()
    bank.end[3] += 1
    with pytest.raises(AssertionError):
        check_rows(bank)


@given(banks(), st.integers(0, 9))
def test_shards_concatenate_to_the_whole(bank: Treebank, n: int) -> None:
    shards = bank.shards(n)
    assert len(shards) <= max(1, n)
    assert all(shard.n_trees for shard in shards)
    assert [tree for shard in shards for tree in shard.trees()] == list(bank.trees())
    assert sum(shard.n_tokens for shard in shards) == bank.n_tokens
    for name in Treebank.COLUMNS:
        joined = np.concatenate([getattr(shard, name) for shard in shards])
        np.testing.assert_array_equal(joined, getattr(bank, name))
    for shard in shards:
        assert shard.inventory is bank.inventory
        check_rows(shard)


@given(banks(), st.integers(-7, 7) | st.none(), st.integers(-7, 7) | st.none())
def test_slices_are_those_of_a_list(bank: Treebank, first: int | None, last: int | None) -> None:
    cut = bank[first:last]
    assert list(cut.trees()) == list(bank.trees())[first:last]
    assert [cut.words(index) for index in range(len(cut))] == [tree.words() for tree in cut.trees()]
    assert cut.offsets[0] == 0


def test_slices_copy_nothing() -> None:
    bank = small_bank()
    assert np.shares_memory(bank[1:3].label, bank.label)
    assert list(bank[::2]) == list(bank)[::2]


@given(banks())
def test_pickling_keeps_everything(bank: Treebank) -> None:
    assert_same(pickle.loads(pickle.dumps(bank)), bank)
    assert_same(pickle.loads(pickle.dumps(bank[1:])), bank[1:])


def test_retransform() -> None:
    bank = small_bank()
    other = bank.retransform(Transform("right", 2, 2, heads="generic"))
    assert list(other.trees()) == list(bank.trees())
    assert other.inventory.transform.vertical == 2
    assert bank.retransform(Transform()) is bank
    assert bank.retransform(bank.inventory.transform) is bank
    own = bank.inventory.transform
    for change in ({"horizontal": 2}, {"vertical": 2}, {"tag_parents": True}):
        wanted = replace(own, **change)
        assert bank.retransform(wanted).inventory.transform == wanted


def test_heads_are_decided_by_the_labels() -> None:
    assert small_bank().inventory.transform.heads == "penn"
    other = Treebank.from_trees([Tree.parse("(TOP (IP (N-N a) (VBPI b)))")])
    assert other.inventory.transform.heads == "generic"


def test_a_missing_root_is_supplied() -> None:
    bank = Treebank.from_trees([Tree.parse("(S (A a) (B b))"), Tree.parse("(TOP (S (A a) (B b)))")])
    assert bank.tree(0) == bank.tree(1) == Tree.parse("(TOP (S (A a) (B b)))")


def test_one_word_trees() -> None:
    bank = Treebank.from_trees([Tree.parse("(TOP (X a))")] * 3)
    check_rows(bank)
    assert (bank.n_tokens, len(bank.label), bank.inventory.rules.shape) == (3, 3, (0, 3))


# -- reading --------------------------------------------------------------------------------------


def test_reading_cleans() -> None:
    bank = read_treebank(io.StringIO("( (S (NP-SBJ (-NONE- *)) (VP (VB go)))) ( (NP (-NONE- *)))"))
    assert [str(tree) for tree in bank.trees()] == ["(TOP (S (VP (VB go))))"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "( (NP (-NONE- *)))"])
def test_nothing_to_read(text: str) -> None:
    with pytest.raises(CorpusError, match="no tree found") as caught:
        read_treebank(io.StringIO(text))
    assert caught.value.hint


def test_skipped_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_text("(S (X a))\n(S (X b)\n(S (X c))\n(S ())\n(S (X d))\n")
    with pytest.raises(CorpusError):
        read_treebank(path)
    skipped: list[CorpusError] = []
    bank = read_treebank(path, skipped=skipped)
    assert [bank.words(index) for index in range(len(bank))] == [["a"], ["c"], ["d"]]
    assert [error.line for error in skipped] == [2, 4]


@pytest.mark.corpora
def test_a_real_treebank(corpora: Path) -> None:
    bank = read_treebank(corpora / "ptb_nltk_sample" / "train.mrg.xz")
    assert bank.n_trees > 3000
    check_rows(bank)


def test_repr_counts_labels_as_statistics_do() -> None:
    """Not the symbols that chains and binary phrases became; of a slice, its own."""
    bank = bundled_treebank("dev")
    for part in (bank, bank[:3]):
        counts = TreeCounts.of(part)
        expected = f"; {len(counts.labels)} phrase labels, {len(counts.tags)} tags>"
        assert repr(part).endswith(expected)
