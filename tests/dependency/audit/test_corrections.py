"""Corrections of CoNLL-U change cells of heads, relations and tags, and no other byte."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.audit.conllu_texts import conllu_text, judgement, random_annotation

from sapwood.auditing.decisions import ACCEPT, REJECT, SKIP, DecidedPart, Decision, replace_in
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.dependency.audit.corrections import ArcCorrector
from sapwood.dependency.audit.edits import apply_edits, edits_between
from sapwood.dependency.audit.located import Annotation, read_located
from sapwood.dependency.data.bank import HEAD, RELATION, UPOS, Arcs, heads_problem


@given(st.integers(0, 10**9), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_only_the_cells_change(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: list[int]
) -> None:
    rng = random.Random(seed)
    end = rng.choice(["\n", "\r\n"])
    annotations = [random_annotation(rng, n) for n in sizes]
    words = [[f"w{rng.randint(0, 3)}" for _ in range(n)] for n in sizes]
    parts = [conllu_text(rng, a, w, end) for a, w in zip(annotations, words, strict=True)]
    text = rng.choice(["", "\ufeff", end]) + "".join(parts)
    file = tmp_path_factory.mktemp("conllu") / "a.conllu"
    file.write_bytes(text.encode())
    located = read_located(str(file)).sentences
    assert [one.annotation for one in located] == annotations

    k = rng.randrange(len(sizes))
    wanted = random_annotation(rng, sizes[k])
    one = located[k]
    decision = Decision(
        "f", str(file), one.line, one.number, ACCEPT, str(one.arcs()), str(one.arcs(wanted))
    )
    made = replace_in(text, ArcCorrector()(text, decision))
    file.write_bytes(made.encode())
    again = [other.annotation for other in read_located(str(file)).sentences]
    assert again == [*annotations[:k], wanted, *annotations[k + 1 :]]
    for before, after in zip(text.split("\n"), made.split("\n"), strict=True):
        pairs = enumerate(zip(before.split("\t"), after.split("\t"), strict=True))
        changed = {number for number, (a, b) in pairs if a != b}
        assert changed <= {UPOS, HEAD, RELATION}


@given(st.integers(0, 10**9), st.integers(1, 7))
def test_accepted_parts_alone_change(seed: int, n: int) -> None:
    """Any parts of any correction: applied where they make a tree, and otherwise refused."""
    rng = random.Random(seed)
    old, new = random_annotation(rng, n), random_annotation(rng, n)
    words = [f"w{k}" for k in range(n)]
    edits = edits_between(words, old, judgement(new, rng))
    is_taken = [rng.random() < 0.6 for _ in edits]
    taken = [edit for edit, is_one in zip(edits, is_taken, strict=True) if is_one]
    text = conllu_text(rng, old, words, "\n")
    first = next(k for k, line in enumerate(text.split("\n"), 1) if line[:1].isdigit())
    trees = (str(Arcs(words, a.heads, a.relations, a.upos, ["X"] * n)) for a in (old, new))
    parts = [
        DecidedPart(ACCEPT if is_one else REJECT, edit.kind, edit.as_dict())
        for edit, is_one in zip(edits, is_taken, strict=True)
    ]
    decision = Decision("f", "a", first, 1, ACCEPT, *trees, tuple(parts))
    heads = list(old.heads)
    for edit in taken:
        for word, head in zip(edit.words, edit.heads, strict=not edit.is_tag):
            heads[word - 1] = head
    if heads_problem(heads) is not None:
        with pytest.raises(CorpusError, match="accepts no tree with part") as caught:
            ArcCorrector()(text, decision)
        assert "accept" in str(caught.value.hint)
        return
    wanted = apply_edits(old, taken)
    assert wanted.heads == tuple(heads)
    made = replace_in(text, ArcCorrector()(text, decision) if taken else [])
    expected = random_free(text, old, wanted, words)
    assert made == expected


def random_free(text: str, old: Annotation, new: Annotation, words: list[str]) -> str:
    """The text with other cells, by another route: line by line."""
    lines = []
    for line in text.split("\n"):
        cells = line.split("\t")
        if cells[0].isdecimal():
            k = int(cells[0]) - 1
            assert cells[1] == words[k]
            assert cells[UPOS] == old.upos[k]
            cells[UPOS], cells[HEAD] = new.upos[k], str(new.heads[k])
            cells[RELATION] = new.relations[k]
        lines.append("\t".join(cells))
    return "\n".join(lines)


def test_a_part_that_needs_another_is_named() -> None:
    """Words 1 and 2 would depend on each other, unless word 2 moves as well."""
    old, new = Arcs(["a", "b", "c"], [3, 1, 0]), Arcs(["a", "b", "c"], [2, 3, 0])
    parts = (
        DecidedPart(ACCEPT, "head", {"words": [1], "heads": [2], "relations": ["x"], "tag": None}),
        DecidedPart(SKIP, "head", {"words": [2], "heads": [3], "relations": ["x"], "tag": None}),
    )
    decision = Decision("f", "a", 1, 1, ACCEPT, str(old), str(new), parts)
    with pytest.raises(CorpusError, match="words 1 and 2 depend on each other") as caught:
        ArcCorrector()(f"{old}\n\n", decision)
    assert caught.value.hint == "accept part 2 as well, or none of these"


@pytest.mark.parametrize(
    "change",
    [
        {"words": [0]}, {"words": [3]}, {"words": []}, {"words": "1"}, {"words": [True]},
        {"heads": [3]}, {"heads": []}, {"relations": [""]}, {"relations": None}, {"tag": "X"},
        {"tag": 1}, {"relations": ["a\tb"]},
    ],
)  # fmt: skip
def test_parts_that_are_no_edits_are_refused(change: dict[str, object]) -> None:
    old, new = Arcs(["a", "b"], [2, 0]), Arcs(["a", "b"], [2, 0], ["x", "root"])
    edit = {"words": [1], "heads": [2], "relations": ["x"], "tag": None} | change
    parts = DecidedPart(ACCEPT, "relation", edit), DecidedPart(SKIP, "relation", edit)
    decision = Decision("f", "a", 1, 1, ACCEPT, str(old), str(new), parts)
    with pytest.raises(SapwoodError):
        ArcCorrector()(f"{old}\n\n", decision)


def test_a_sentence_that_is_not_there_is_refused() -> None:
    arcs = Arcs(["a", "b"], [2, 0])
    text = f"{arcs}\n\n"
    new = str(Arcs(["a", "b"], [0, 1]))
    for line, old, suggested in (
        (2, str(arcs), new), (9, str(arcs), new), (0, str(arcs), new), (-9, str(arcs), new),
        (1, str(Arcs(["a", "c"], [2, 0])), str(Arcs(["a", "c"], [0, 1]))),
        (1, new, str(arcs)), (1, str(Arcs(["a", "b", "c"], [2, 0, 2])), new),
    ):  # fmt: skip
        with pytest.raises(CorpusError, match=r"not here|other words"):
            ArcCorrector()(text, Decision("f", "a", line, 1, ACCEPT, old, suggested))
