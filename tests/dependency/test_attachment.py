"""Attachment scores, by counting by hand, and tests of differences, by known answers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.data.draws import sentences

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.evaluate import AttachmentScores, attachment, compare_attachment

GOLD = [
    Arcs(["a", "b", "c"], [2, 0, 2], ["nsubj:pass", "root", "punct"], ["N", "V", "P"]),
    Arcs(["d", "e"], [0, 1], ["root", "obj"], ["V", "N"]),
]


def test_what_counts_by_hand() -> None:
    found = [
        Arcs(["a", "b", "c"], [2, 0, 1], ["nsubj", "root", "punct"], ["N", "N", "P"]),
        Arcs(["d", "e"], [0, 1], ["root", "obl"], ["V", "N"]),
    ]
    assert attachment(GOLD, found).as_dict() == pytest.approx(
        # a subtype (nsubj:pass) does not count, punctuation (c) does
        {"uas": 80.0, "las": 60.0, "complete": 50.0, "upos": 80.0, "sentences": 2, "tokens": 5}
    )


@given(st.lists(st.tuples(sentences(5), sentences(5)), min_size=1, max_size=4))
def test_scores_are_shares_of_words(pairs: list[tuple[Arcs, Arcs]]) -> None:
    gold, found = [], []
    for one, other in pairs:
        n = min(len(one), len(other))
        if n != len(one) or n != len(other):
            other = one  # noqa: PLW2901
        gold.append(one)
        found.append(Arcs(one.words, other.heads, other.relations, other.upos))
    scores = attachment(gold, found)
    words = [
        (g.heads[i] == f.heads[i],
         g.relations[i].split(":")[0] == f.relations[i].split(":")[0], g.upos[i] == f.upos[i])
        for g, f in zip(gold, found, strict=True) for i in range(len(g))
    ]  # fmt: skip
    assert scores.uas == pytest.approx(100 * np.mean([h for h, _, _ in words]))
    assert scores.las == pytest.approx(100 * np.mean([h and r for h, r, _ in words]))
    assert scores.upos == pytest.approx(100 * np.mean([t for _, _, t in words]))
    complete = [g.heads == f.heads for g, f in zip(gold, found, strict=True)]
    assert scores.complete == pytest.approx(100 * np.mean(complete))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (GOLD[:1], "1 sentence predicted, but 2 gold"),
        ([GOLD[0], GOLD[0]], "sentence 2 has 3 words, but 2 in gold"),
        ([GOLD[0], Arcs(["d", "x"], [0, 1])], "sentence 2 has the word 'x', but 'e' in gold"),
    ],
)
def test_other_words_are_refused(found: list[Arcs], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        attachment(GOLD, found)


def scores_of(right: np.ndarray, words: np.ndarray) -> AttachmentScores:
    return AttachmentScores(words, right, right, right)


def test_randomisation_is_that_of_all_exchanges() -> None:
    """On few sentences all 2^n exchanges can be tried: the drawn share must be near theirs."""
    words = np.array([5, 6, 7, 8, 9, 5])
    ours, theirs = np.array([5, 5, 7, 7, 9, 4]), np.array([4, 5, 5, 6, 9, 5])
    gain = ours - theirs
    signs = np.array(list(product([1, -1], repeat=6)))
    exact = np.mean(np.abs(signs @ gain) >= abs(gain.sum()))
    found = compare_attachment(scores_of(ours, words), scores_of(theirs, words))
    assert found.points == pytest.approx(100 * gain.sum() / words.sum())
    assert found.p_value == pytest.approx(exact, abs=0.02)  # 10,000 draws: deviation below 0.005


def test_a_bootstrap_interval_is_as_wide_as_it_should_be() -> None:
    rng = np.random.default_rng(0)
    words = np.full(2000, 10)
    right = rng.binomial(10, 0.8, 2000)
    scores = scores_of(right, words)
    low, high = scores.interval("uas", n_samples=2000)
    deviation = 100 * np.sqrt(0.8 * 0.2 / 20_000)
    assert (high - low) / 2 == pytest.approx(1.96 * deviation, rel=0.1)
    assert low < scores.uas < high
    worse = scores_of(right - (np.arange(2000) % 10 == 0), words)
    gain = compare_attachment(scores, worse, n_samples=1000)
    assert gain.points == pytest.approx(1.0)
    assert 0 < gain.low < 1 < gain.high
    assert gain.p_value < 0.01


def test_the_room_offers_it() -> None:
    assert sw.evaluate.attachment(GOLD, GOLD).uas == 100.0
