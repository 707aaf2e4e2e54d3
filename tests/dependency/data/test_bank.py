"""`Arcs` and `ArcBank`: what is put in comes out, in objects, slices, shards and text."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.data.draws import cells, sentences

import sapwood as sw
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.dependency.data.bank import ArcBank, Arcs, as_arc_bank, heads_problem

DOGS = Arcs(["dogs", "bark", "."], [2, 0, 2], ["nsubj", "root", "punct"], ["N", "V", "."])


@given(st.lists(sentences(), min_size=1, max_size=5))
def test_packing_keeps_every_sentence(drawn: list[Arcs]) -> None:
    bank = ArcBank.of(drawn)
    assert list(bank) == drawn
    assert [bank.sentence(i) for i in range(len(bank))] == [list(arcs.words) for arcs in drawn]
    assert bank.n_tokens == sum(map(len, drawn))


@given(st.lists(sentences(), min_size=1, max_size=6), st.integers(1, 8))
def test_shards_are_the_bank_cut_in_order(drawn: list[Arcs], n: int) -> None:
    shards = ArcBank.of(drawn).shards(n)
    assert [arcs for shard in shards for arcs in shard] == drawn
    assert len(shards) <= n


def test_shards_depend_on_size_alone() -> None:
    bank = ArcBank.of([DOGS] * 20_000)
    sizes = [shard.n_tokens for shard in bank.shards()]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 3


@given(sentences())
def test_text_is_read_back(arcs: Arcs) -> None:
    assert Arcs.parse(str(arcs)) == arcs


@given(sentences())
def test_the_library_conllu_reads_and_gives_the_same(arcs: Arcs) -> None:
    tokens = arcs.to_tokens()
    assert [token["form"] for token in tokens] == list(arcs.words)
    assert [token["head"] for token in tokens] == list(arcs.heads)


def test_without_the_library_conllu_its_objects_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "conllu", None)
    arcs = Arcs(["dogs", "bark"], [2, 0])
    with pytest.raises(SapwoodError, match="conllu, which is not installed") as refused:
        arcs.to_tokens()
    assert "pip install conllu" in refused.value.hint
    assert Arcs.parse(str(arcs)) == arcs  # reading and writing need no package


def test_tokens_of_conllu_come_back_with_features() -> None:
    text = "# a = b\n1\tdogs\tdog\tNOUN\t_\tNumber=Plur\t0\troot\t_\tSpaceAfter=No"
    tokens = Arcs.parse(text).to_tokens()
    assert tokens[0]["feats"] == {"Number": "Plur"}
    assert str(Arcs.from_tokens(tokens)) == text


def test_indexing_is_that_of_a_list() -> None:
    drawn = [Arcs([f"w{i}"] * (i + 1), [0] + [1] * i) for i in range(6)]
    bank = ArcBank.of(drawn)
    assert bank[2] == drawn[2]
    assert bank[-1] == drawn[-1]
    assert list(bank[1:4]) == drawn[1:4]
    assert list(bank[::2]) == drawn[::2]
    assert list(bank[[4, 0]]) == [drawn[4], drawn[0]]
    assert list(bank.select(np.array([True, False] * 3))) == drawn[::2]
    assert len(bank.select([])) == 0
    with pytest.raises(IndexError, match="6 sentences"):
        bank[6]


def test_slices_are_views_and_count_from_themselves() -> None:
    bank = ArcBank.of([DOGS] * 5)
    part = bank[2:4]
    assert np.shares_memory(part.head, bank.head)
    assert part.offsets.tolist() == [0, 3, 6]


def test_columns_stand_over_what_was_written() -> None:
    text = "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\tx\n1\tdo\tdo\tA\tB\tc=d\t0\troot\t_\t_\n" \
        "2\tn't\tnot\tP\tQ\t_\t1\tadvmod\t1:advmod\te"  # fmt: skip
    bank = ArcBank.of([Arcs.parse(text)])
    assert str(bank[0]) == text
    bank.head[:] = [2, 0]
    assert str(bank[0]) == text.replace("\t0\troot", "\t2\troot").replace("\t1\tadv", "\t0\tadv")


def test_comments_are_kept_in_their_place() -> None:
    text = "#one\n# two = 2 \n" + str(DOGS)
    assert str(ArcBank.of([DOGS, Arcs.parse(text)])[1]) == text
    assert str(ArcBank.of([DOGS, Arcs.parse(text)])[0]) == str(DOGS)


def test_a_sentence_may_wait_for_a_parser() -> None:
    arcs = Arcs(["dogs", "bark"], [-1, -1])
    assert not arcs.is_parsed
    assert arcs.relations == ("_", "_")
    assert Arcs.parse(str(arcs)) == arcs
    with pytest.raises(SapwoodError, match="no arcs to draw"):
        arcs.draw()


def test_pickles_and_digests() -> None:
    bank = ArcBank.of([DOGS] * 2)
    again = pickle.loads(pickle.dumps(bank))
    assert list(again) == list(bank)
    assert again.digest() == bank.digest()
    bank.head[1:3] = [3, 0]
    assert again.digest() != bank.digest()


@pytest.mark.parametrize(
    ("heads", "message", "place"),
    [
        ([2, 1, 0], "words 1 and 2 depend on each other", 1),
        ([2, 3, 1], "depend on each other", 1),
        ([0, 3, 2], "words 2 and 3", 2),
        ([0, 0, 1], "two roots: words 1 and 2", 2),
        ([0, 4, 1], "word 2 has the head 4, but the sentence has 3 words", 2),
        ([0, 2, 1], "word 2 is its own head", 2),
        ([0, -2, 1], "the head -2", 2),
    ],
)
def test_heads_that_are_no_tree(heads: list[int], message: str, place: int) -> None:
    problem = heads_problem(heads)
    assert problem is not None
    assert message in problem.message
    assert problem.place == place
    with pytest.raises(SapwoodError, match=message):
        Arcs(["a", "b", "c"], heads)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_only_trees_pass(heads: list[int]) -> None:
    n = len(heads)

    def leads_up(word: int) -> bool:
        for _ in range(n + 1):
            if word == 0:
                return True
            word = heads[word - 1] if word <= n else -1
            if word < 0:
                return False
        return False

    is_tree = heads.count(0) == 1 and max(heads) <= n and all(map(leads_up, range(1, n + 1)))
    assert (heads_problem(heads) is None) == is_tree


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"words": []}, "empty sentence"),
        ({"relations": ["nsubj"]}, "3 words with 1 relations"),
        ({"upos": ["A", "B\tC", "D"]}, "cannot stand among the upos"),
        ({"words": ["a", "", "b"]}, "cannot stand among the words"),
        ({"words": [1, 2, 3]}, "words are strings, not an int"),
        ({"words": "abc"}, "not the string 'abc'"),
    ],
)
def test_fields_that_cannot_be(fields: dict[str, object], message: str) -> None:
    given = {"words": ["a", "b", "c"], "heads": [0, 1, 1]} | fields
    if fields.get("words") == []:
        given["heads"] = []
    with pytest.raises(SapwoodError, match=message):
        Arcs(**given)


def test_what_is_taken_for_a_bank(tmp_path) -> None:
    path = tmp_path / "a.conllu"
    assert sw.write_arcs([DOGS], path) == 1
    for source in (path, str(path), [path], [DOGS], ArcBank.of([DOGS])):
        assert list(as_arc_bank(source)) == [DOGS]
    with pytest.raises(CorpusError, match="expected dependency trees"):
        as_arc_bank(3)
    with pytest.raises(SapwoodError, match="expected Arcs"):
        as_arc_bank([3])


@given(cells())
def test_cells_are_strings_that_can_stand_in_a_row(cell: str) -> None:
    assert Arcs.parse(str(Arcs([cell], [0]))).words == (cell,)
