"""`SentenceCounts`: a commutative monoid, and moments that do not depend on shards."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.identify.learn.sentence_counts import SentenceCounts

D = 3
SENTENCES = st.lists(st.lists(st.integers(0, D - 1), max_size=4), max_size=12)


def as_dict(counts: SentenceCounts) -> dict[tuple[int, ...], float]:
    return {
        tuple(row): count
        for n in counts.lengths
        for row, count in zip(counts.rows[n].tolist(), counts.counts[n].tolist(), strict=True)
    }


@given(SENTENCES)
def test_every_distinct_sentence_is_counted(sentences: list[list[int]]) -> None:
    found = SentenceCounts.of(sentences, D)
    assert as_dict(found) == Counter(tuple(words) for words in sentences if words)
    assert found.total == sum(1 for words in sentences if words)


@given(SENTENCES, SENTENCES, SENTENCES)
def test_counts_are_a_commutative_monoid(one, two, three) -> None:
    a, b, c = (SentenceCounts.of(part, D) for part in (one, two, three))
    assert as_dict(a + b) == as_dict(b + a) == as_dict(SentenceCounts.of(one + two, D))
    assert as_dict((a + b) + c) == as_dict(a + (b + c))
    assert as_dict(a + SentenceCounts(D)) == as_dict(a)


@given(SENTENCES, st.integers(1, 4))
def test_shards_add_up_to_the_whole(sentences, n_shards: int) -> None:
    whole = SentenceCounts.of(sentences, D)
    shards = whole.shards(n_shards)
    assert len(shards) == n_shards
    joined = as_dict(sum(shards, start=SentenceCounts(D)))
    assert {row: count for row, count in joined.items() if count} == as_dict(whole)


def test_moments_are_relative_frequencies() -> None:
    counts = SentenceCounts.of([[0, 1, 2], [0, 1, 2], [0, 2, 2], [1, 1, 0], [2]], D)
    assert counts.joint(3, (1, 2))[0].tolist() == [0, 0.5, 0.25]
    assert counts.joint(3, (2, 1))[:, 0].tolist() == [0, 0.5, 0.25]
    assert counts.joint(3, (1, 2, 3))[0, 1, 2] == 0.5
    np.testing.assert_allclose(counts.words() * 13, [4, 4, 5])


@pytest.mark.parametrize("places", [((1, 2), 3), ((1, 3), 2), ((2, 3), 1), ((2, 4), 1)])
def test_a_contraction_is_a_slice_of_the_tensor(places) -> None:
    rng = np.random.default_rng(0)
    counts = SentenceCounts.of_rows(rng.integers(0, D, (200, 4)), D)
    pair, third = places
    eta = rng.standard_normal(D)
    whole = counts.joint(4, (*pair, third)) @ eta
    np.testing.assert_allclose(counts.contracted(4, pair, third, eta), whole, atol=1e-15)


def test_sentences_too_many_to_number_are_counted_all_the_same() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (50, 30)) * 900
    many = SentenceCounts.of_rows(np.concatenate([rows, rows]), 1000)
    assert 1000**30 > 2**62
    assert as_dict(many) == dict(Counter(map(tuple, rows.tolist() * 2)))


def test_lengths_can_be_left_out() -> None:
    counts = SentenceCounts.of([[0], [0, 1], [0, 1, 2], [1, 1, 1, 1]], D)
    assert counts.up_to(3, least=2).lengths == [2, 3]
    assert counts.n_sentences(7) == 0
