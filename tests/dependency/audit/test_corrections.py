"""Corrections of CoNLL-U change cells of heads, relations and tags, and no other byte."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.audit.conllu_texts import conllu_text, random_annotation

from sapwood.auditing.decisions import ACCEPT, Decision, replace_in
from sapwood.core.errors import CorpusError
from sapwood.dependency.audit.corrections import ArcCorrector
from sapwood.dependency.audit.located import read_located
from sapwood.dependency.data.bank import HEAD, RELATION, UPOS, Arcs


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


def test_a_sentence_that_is_not_there_is_refused() -> None:
    arcs = Arcs(["a", "b"], [2, 0])
    text = f"{arcs}\n\n"
    new = str(Arcs(["a", "b"], [0, 1]))
    for line, old, suggested in (
        (2, str(arcs), new), (9, str(arcs), new),
        (1, str(Arcs(["a", "c"], [2, 0])), str(Arcs(["a", "c"], [0, 1]))),
        (1, new, str(arcs)), (1, str(Arcs(["a", "b", "c"], [2, 0, 2])), new),
    ):  # fmt: skip
        with pytest.raises(CorpusError, match=r"not here|other words"):
            ArcCorrector()(text, Decision("f", "a", line, 1, ACCEPT, old, suggested))
