"""What states have in common, and where they are in trees."""

from __future__ import annotations

from math import sqrt

import pytest

import sapwood as sw
from sapwood.constituency.report.states import StateAtlas


@pytest.fixture(scope="module")
def atlas() -> StateAtlas:
    return StateAtlas(sw.bundled_grammar())


def overlap(atlas: StateAtlas, one: tuple[str, int], other: tuple[str, int]) -> float:
    """By the lists of the vectors, thing by thing."""

    def shares(symbol: str, state: int, kind: str) -> dict[str, float]:
        a = atlas.view.find(symbol)[0]
        name = f"[{atlas.view.names[a]}]"
        items = getattr(atlas.vectors, kind)(a)
        found = {item.name.replace(name, "[ ]"): float(item.vector[state]) for item in items}
        total = sum(found.values())
        return {key: value / total for key, value in found.items()}

    sums = []
    for kind in ("below", "contexts"):
        p, q = shares(*one, kind), shares(*other, kind)
        sums.append(sum(sqrt(p[key] * q.get(key, 0.0)) for key in p))
    return sum(sums) / 2


@pytest.mark.parametrize(("symbol", "state"), [("NN", 0), ("NP", 3), ("VBD", 2)])
def test_overlaps_are_those_of_the_lists(atlas: StateAtlas, symbol: str, state: int) -> None:
    near = atlas.nearest(symbol, state)
    assert near
    assert [row["overlap"] for row in near] == sorted(
        (row["overlap"] for row in near), reverse=True
    )
    for row in near:
        expected = overlap(atlas, (symbol, state), (row["symbol"], row["state"]))
        assert row["overlap"] == pytest.approx(expected, abs=1e-3)  # sweeps stop there


def test_phrases_are_compared_with_phrases(atlas: StateAtlas) -> None:
    tags = {str(symbol) for symbol in atlas.model.tags}
    assert all(row["symbol"] in tags for row in atlas.nearest("NN", 1))
    assert not any(row["symbol"] in tags for row in atlas.nearest("NP", 1))


def test_examples_are_constituents_of_the_label(atlas: StateAtlas) -> None:
    trees = list(sw.bundled_treebank("dev")[:60])
    found = atlas.examples("PP", trees)
    spans = {(tuple(tree.words()), i, j) for tree in trees for a, i, j in tree.spans() if a == "PP"}
    total = 0.0
    for row in found["symbols"][0]["rows"]:
        total += row["count"]
        for example in row["examples"]:
            assert (tuple(example["words"]), example["start"], example["end"]) in spans
    assert total == pytest.approx(found["nodes"], rel=0.05)  # shares below 5 % are not counted
