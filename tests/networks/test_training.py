"""`train_network`: its learning rates, batches, clipping; words that are taken for unknown ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from sapwood.constituency.learn.encoder import seconds_a_pass
from sapwood.networks import training as network_training
from sapwood.networks.network import UNKNOWN_ROW, EncoderSizes, Parameters
from sapwood.networks.training import (
    NetworkPlan,
    NetworkTrainer,
    PartGradient,
    cross_entropy,
    train_network,
)

LENGTHS = np.array([3, 9, 4, 4, 7, 2, 12, 5, 5, 3, 8, 6])


class Run:
    """Trains a network whose gradient is the same in every step, and keeps what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slope: float, **plan: Any) -> None:
        self.shares: list[tuple[list[int], int]] = []
        self.steps: list[tuple[float, np.ndarray, dict[str, Any]]] = []
        self.passes: list[tuple[int, float]] = []
        self.slope, self.P = slope, Parameters({"W": (2, 2)}, np.float64)

        def step(
            _: object, gradient: np.ndarray, rows: dict[str, Any], rate: float, each: Any
        ) -> None:
            self.steps.append((rate, gradient.copy(), rows))
            _.n_steps += 1  # type: ignore[attr-defined]

        monkeypatch.setattr(network_training.Adam, "step", step)
        table = {"words": np.zeros((5, 2))}
        self.plan = NetworkPlan(**plan)
        train_network(self.P, table, LENGTHS, self.task, self.plan, 1, self.note)

    def note(self, iteration: int, log_likelihood: float) -> None:
        self.passes.append((iteration, log_likelihood))

    def task(self, batch: np.ndarray, rng: np.random.Generator, n_words: int) -> PartGradient:
        self.shares.append((batch.tolist(), n_words))
        gradient = self.P.empty_like()
        gradient.flat[:] = self.slope
        return PartGradient(
            2.0, gradient, {"words": (np.array([1, 3]), np.full((2, 2), self.slope))}
        )


def test_the_rate_grows_for_a_hundred_steps_and_falls_to_zero_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, 0.0, passes=40, rate=0.5, words=15)
    n = len(run.steps)
    assert n == 40 * 5 > 150
    expected = [0.5 * min(1, k / 100 + 0.01) * (1 - k / (n + 1)) for k in range(n)]
    np.testing.assert_allclose([rate for rate, _, _ in run.steps], expected, rtol=1e-12)


def test_each_pass_reads_every_sentence_once_in_batches_of_like_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, 0.0, passes=3, words=20)
    read = Counter(sentence for share, _ in run.shares for sentence in share)
    assert read == Counter({k: 3 for k in range(len(LENGTHS))})
    for share, n_words in run.shares:
        assert (np.diff(LENGTHS[share]) <= 0).all()  # longest first
        assert n_words <= 20 + LENGTHS.max()
    spread = [np.ptp(LENGTHS[share]) for share, _ in run.shares]
    assert np.mean(spread) < 0.3 * np.ptp(LENGTHS)


def test_shares_of_a_batch_know_the_words_of_the_whole_and_passes_report_the_summed_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, 0.0, passes=2, words=20)
    n_shares = len(run.shares) / 2
    assert [number for number, _ in run.passes] == [1, 2]
    assert sum(value for _, value in run.passes) == -2.0 * 2 * n_shares
    rest = list(run.shares)
    while rest:  # a batch has two shares, or one where it is a single sentence
        (share, n_words), *rest = rest
        if LENGTHS[share].sum() < n_words:
            (other, same), *rest = rest
            assert same == n_words == LENGTHS[[*share, *other]].sum()


def test_gradients_of_shares_are_summed_then_clipped_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = Run(monkeypatch, 0.25, passes=1, words=20)
    _, gradient, rows = small.steps[0]
    np.testing.assert_allclose(gradient, 0.5)  # two shares
    assert rows["words"][0].tolist() == [1, 3]
    np.testing.assert_allclose(rows["words"][1], 0.5)
    large = Run(monkeypatch, 1000.0, passes=1, words=20)
    _, gradient, rows = large.steps[0]
    together = np.concatenate([gradient, rows["words"][1].ravel()])
    assert np.linalg.norm(together) == pytest.approx(network_training.MAX_GRADIENT_NORM)
    assert np.ptp(together) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("n_words", "passes", "words"),
    [(10, 30, 50), (5_000, 30, 50), (20_000, 30, 200), (100_000, 16, 400), (10**7, 8, 400)],
)
def test_the_usual_plan_reads_as_many_words_in_all_as_it_may(
    n_words: int, passes: int, words: int
) -> None:
    plan = NetworkPlan.usual(n_words, seed=3)
    assert (plan.passes, plan.words, plan.seed) == (passes, words, 3)
    assert NetworkPlan.usual(n_words, 5).passes == 5


def trainer(sentences: list[list[str]], **plan: Any) -> NetworkTrainer:
    sizes = EncoderSizes(4, 3, 2, 5)
    return NetworkTrainer(sentences, sizes, sizes.shapes(3), lambda *_: None, NetworkPlan(**plan))


def test_rare_words_are_taken_for_unknown_ones_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer([["the", "The", "dog"], ["the", "dog", "once"]], unknown=1.0)
    assert len(made.familiar) == 2  # not the word that was seen once
    assert made.word_vectors.shape == (2 + 2, 4)
    assert made.unknown_probability[:2].tolist() == [0, 0]  # the root and the unknown word
    # "the" was seen three times, "dog" twice
    assert sorted(made.unknown_probability[2:].tolist()) == pytest.approx([1 / 4, 1 / 3])
    seen = []
    real = network_training.look_up
    monkeypatch.setattr(
        network_training, "look_up", lambda t, p: (seen.append(p.ravel()), real(t, p))[1]
    )
    rng = np.random.default_rng(0)
    for _ in range(400):
        made.encode(np.array([0, 1]), rng)
    words = np.concatenate(seen[::2])
    known = made.words.word[made.words.word > UNKNOWN_ROW]
    expected = made.unknown_probability[known].sum() + (made.words.word == UNKNOWN_ROW).sum()
    assert (words == UNKNOWN_ROW).sum() / 400 == pytest.approx(expected, rel=0.1)


def test_vectors_of_forms_are_no_more_than_words_within_bounds() -> None:
    assert len(trainer([["a"] * 10]).form_vectors) == 2**8
    assert len(trainer([["a"] * 1500]).form_vectors) == 2**10
    assert len(trainer([["a"] * 300_000]).form_vectors) == 2**16


def test_seconds_of_a_pass_of_spans_grow_with_words_and_steps() -> None:
    assert seconds_a_pass(40_000) == pytest.approx(40_000 * 1.75e-4 + 0.005 * 100)
    assert seconds_a_pass(1_000) == pytest.approx(1_000 * 1.75e-4 + 0.005 * 20)


def test_the_slope_of_the_log_probability_is_probability_less_one_at_the_right_answer() -> None:
    shares = np.array([[0.2, 0.8], [0.5, 0.5]])
    loss, found = cross_entropy(shares, np.array([1, 0]), 3.0)
    assert loss == pytest.approx(-np.log(0.8 * 0.5))
    np.testing.assert_allclose(found, [[0.6, -0.6], [-1.5, 1.5]])
    np.testing.assert_allclose(shares, [[0.2, 0.8], [0.5, 0.5]])  # untouched
