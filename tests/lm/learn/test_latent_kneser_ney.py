"""Hidden states inside Kneser-Ney: what they must keep, their limits, and that they help."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lm.learn.texts import log_prob, some_text

import sapwood as sw
from sapwood.execute import Threads
from sapwood.linalg.latent_bigrams import maximise_states
from sapwood.lm.data.ngrams import CountSettings, NgramCounts, count_sentences, count_text
from sapwood.lm.data.plain_text import NOTHING
from sapwood.lm.learn.bigram_em import OnEngine, Start, cut_pairs
from sapwood.lm.learn.kneser_ney import KneserNey, adjusted_counts
from sapwood.lm.learn.latent import random_start
from sapwood.lm.learn.latent_kneser_ney import taken_off
from sapwood.lm.model.latent_models import LatentNgramModel, pair_mix

CONTEXTS = ([], ["a"], ["h", "g"], ["x", "a"], ["a", "x"], ["a", "b", "c"])


@pytest.fixture(scope="module")
def counts() -> NgramCounts:
    return count_sentences(some_text(400), 3)


def with_states(counts: NgramCounts, start: Start, weight: float) -> LatentNgramModel:
    """A bigram model over given states."""
    everywhere = np.full(len(counts.words), weight)
    single = np.exp(KneserNey(1).model_of(counts).p[0])
    ngrams = KneserNey(2).model_of(
        counts, lambda x, y: (1 - weight) * pair_mix(*start, x, y) + weight * single[y]
    )
    return LatentNgramModel(ngrams, *start, everywhere)


def m_step(counts: NgramCounts, start: Start, n: int = 1) -> Start:
    """Iterations of EM over what is taken off pairs, without a prior."""
    plain = KneserNey(2)
    plain.model_of(counts)
    source = OnEngine(Threads(1), cut_pairs(taken_off(counts, plain.discounts_[1]), float))
    for _ in range(n):
        after, before, _ = source.expect(start)
        nobody = np.zeros(len(counts.words))
        start = Start(*maximise_states(after, before * start.s, nobody, 0.0))
    return start


@pytest.mark.parametrize("order", [2, 3])
def test_frequencies_of_words_are_kept(counts: NgramCounts, order: int) -> None:
    """sum over x of A(x) p(y | x) = sum over x of a(x y), after any M-step: Kneser-Ney's aim."""
    counts = counts.shorten(order)
    n = len(counts.words)
    u = np.full(n, 1 / n)
    start = m_step(counts, random_start(u, 3, np.random.default_rng(0), float))
    model = with_states(counts, start, 0.0)
    rows = counts.shorten(2).rows
    rows, a = rows[rows[:, 1] != NOTHING], adjusted_counts(counts, 1)
    before = np.bincount(rows[:, 1], a, n)
    found = np.zeros(n)
    for x in np.flatnonzero(before):
        every = np.stack([np.arange(n), np.full(n, x)], axis=1).astype(np.uint32)
        found += before[x] * np.exp(model.log_probs(every))
    np.testing.assert_allclose(found, np.bincount(rows[:, 0], a, n), atol=1e-6 * before.sum())


def test_states_that_are_not_trusted_are_kneser_ney(counts: NgramCounts) -> None:
    n = len(counts.words)
    start = random_start(np.full(n, 1 / n), 3, np.random.default_rng(0))
    model, plain = with_states(counts, start, 1.0), KneserNey(2).model_of(counts)
    for context in CONTEXTS:
        np.testing.assert_allclose(
            model.next_log_probs(context), plain.next_log_probs(context), atol=1e-6
        )


def test_a_state_for_each_word_is_no_smoothing(counts: NgramCounts) -> None:
    """What was taken off a pair goes back to it: relative frequencies."""
    counts = counts.shorten(2)
    n = len(counts.words)
    start = m_step(counts, Start(np.eye(n) + 1e-13, np.full((n, n), 1 / n)))
    model = with_states(counts, start, 0.0)
    rows = counts.rows[counts.rows[:, 1] != NOTHING]
    share = counts.counts / np.bincount(rows[:, 1], counts.counts, n)[rows[:, 1]]
    np.testing.assert_allclose(np.exp(model.log_probs(rows)), share, atol=1e-6)


def test_one_state_is_the_words_that_follow_most(counts: NgramCounts) -> None:
    """With one discount, one state has the shares of different words before: Kneser-Ney's own."""
    counts = counts.shorten(2)
    n = len(counts.words)
    d = taken_off(counts, np.array([0.0, 0.7, 0.7, 0.7]))
    source = OnEngine(Threads(1), cut_pairs(d, float))
    start = Start(np.ones((n, 1)), np.full((n, 1), 1 / n))
    after, before, _ = source.expect(start)
    _, s = maximise_states(after, before * start.s, np.zeros(n), 0.0)
    pairs = counts.rows[counts.rows[:, 1] != NOTHING]
    different = np.bincount(pairs[:, 0], minlength=n)
    np.testing.assert_allclose(s[:, 0], different / different.sum(), atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_it_is_a_distribution_after_any_context(order: int) -> None:
    model = sw.LatentKneserNey(3, order=order, n_blocks=1).fit(some_text(200)).model_
    for context in CONTEXTS:
        assert np.exp(model.next_log_probs(context)).sum() == pytest.approx(1, abs=1e-5)


def test_states_help_where_pairs_are_rare(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Words of two kinds that alternate: what follows is known by kind before it is by pair."""
    rng = np.random.default_rng(0)

    def text(n: int) -> list[list[str]]:
        return [[f"{'ab'[i % 2]}{rng.integers(60)}" for i in range(12)] for _ in range(n)]

    train = count_sentences(text(120), 2)
    path = tmp_path_factory.mktemp("held") / "held.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in text(120)))
    held = count_text(path, CountSettings(2), words=train.words)
    latent = sw.LatentKneserNey(2, order=2, n_blocks=1).fit(train, held)
    plain = sw.KneserNey(2).fit(train)
    assert log_prob(latent.model_, held) > log_prob(plain.model_, held) + 0.2
    assert latent.iterations_ == len(latent.climbs_[0].values) > 0
