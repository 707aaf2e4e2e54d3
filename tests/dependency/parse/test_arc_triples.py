"""Triples of tags: equal where the triples are, whoever numbers the tags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.data.draws import head_lists

from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.parse.arc_triples import tag_triples

BITS = 30  # so many that no two triples of a test meet by chance


def triples(heads: list[int], tags: list[str]) -> list[tuple[object, ...]]:
    """The definition, word by word."""
    n = len(heads)
    found: list[tuple[object, ...]] = []
    for word in range(1, n + 1):
        left = [m for m in range(1, word) if heads[m - 1] == word]
        right = [m for m in range(word + 1, n + 1) if heads[m - 1] == word]
        found.append(
            ("head", tags[max(left) - 1] if left else None, tags[word - 1],
             tags[min(right) - 1] if right else None)
        )  # fmt: skip
        head = heads[word - 1]
        above = (
            tags[head - 1] if head else "root",
            ("root" if not heads[head - 1] else tags[heads[head - 1] - 1]) if head else None,
        )
        found.append(("modifier", head and word > head, tags[word - 1], *above))
    return found


@given(st.data())
def test_equal_features_are_equal_triples(data: st.DataObject) -> None:
    sentences, expected = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        heads = data.draw(head_lists(7))
        tags = data.draw(st.lists(st.sampled_from("ABC"), min_size=len(heads), max_size=len(heads)))
        sentences.append(Arcs(["w"] * len(heads), heads, upos=tags))
        expected += triples(heads, tags)
    features = tag_triples(ArcBank.of(sentences), "upos", BITS).ravel().tolist()
    assert len(features) == len(expected)
    assert len(set(zip(features, expected, strict=True))) == len(set(features))
    assert len(set(features)) == len(set(expected))


def test_features_do_not_depend_on_how_tags_are_numbered() -> None:
    one, other = Arcs(["a", "b"], [2, 0], upos=list("NV")), Arcs(["c"], [0], upos=list("V"))
    both = tag_triples(ArcBank.of([other, one]), "upos", 20)
    assert both[1:].tolist() == tag_triples(ArcBank.of([one]), "upos", 20).tolist()
    assert both.max() < 1 << 20


def test_the_column_is_the_one_that_was_asked_for() -> None:
    bank = ArcBank.of([Arcs(["a", "b"], [2, 0], upos=list("NV"), xpos=list("VN"))])
    swapped = ArcBank.of([Arcs(["a", "b"], [2, 0], upos=list("VN"), xpos=list("NV"))])
    assert (tag_triples(bank, "xpos", 20) == tag_triples(swapped, "upos", 20)).all()
    assert (tag_triples(bank, "upos", 20) != tag_triples(swapped, "upos", 20)).any()
