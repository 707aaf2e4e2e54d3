"""Latent bigram and trigram models, and mixtures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from tests.lm.learn.texts import log_prob, some_text

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.execute import Threads
from sapwood.lm.data.counting import CountSettings, count_sentence_ngrams, count_text
from sapwood.lm.data.ngrams import UNKNOWN, NgramCounts
from sapwood.lm.learn import bigram_em, device
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    BigramStates,
    EngineEStep,
    HeldPairs,
    cut_pairs,
    expect_pairs,
    random_states,
)
from sapwood.lm.learn.device import DevicePairs
from sapwood.lm.learn.latent import member_weights, mixture_weights


@pytest.fixture(scope="module")
def counts() -> NgramCounts:
    return count_sentence_ngrams(some_text(2000), 3)


@pytest.fixture(scope="module")
def held(counts: NgramCounts, tmp_path_factory: pytest.TempPathFactory) -> NgramCounts:
    path = tmp_path_factory.mktemp("held") / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in some_text(300, seed=1)))
    return count_text(path, CountSettings(3), words=counts.words)


def a_table(rng: np.random.Generator, n: int = 12) -> sparse.csr_array:
    return sparse.csr_array(rng.poisson(1.0, (n, n)).astype(float))


def test_the_e_step_is_that_of_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    c, u = a_table(rng), np.full(12, 1 / 12)
    r, s = random_states(u, 3, rng, np.float64)
    p = r @ s.T
    joint = c.toarray()[:, :, None] * r[:, None, :] * s[None] / p[:, :, None]  # [x, y, h]
    monkeypatch.setattr(bigram_em, "SHARD_ENTRIES", 9)
    shards = cut_pairs(c, np.float64)
    assert len(shards) > 3
    with Threads(2) as engine:
        found = engine.total(expect_pairs, engine.place(shards), r, s)
    np.testing.assert_allclose(np.concatenate(found.R), joint.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.S * s, joint.sum(axis=0), rtol=1e-12)
    expected = (c.toarray() * np.log(p)).sum()
    assert found.log_likelihood == pytest.approx(expected, rel=1e-12)


def test_em_never_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    c, u = a_table(rng, 30), np.full(30, 1 / 30)
    em = BigramEM(iterations=60, prior=0.0, u=u)
    climbed = em.run(
        EngineEStep(Threads(1), cut_pairs(c, np.float64)), random_states(u, 4, rng, float)
    )
    gains = np.diff(climbed.values)
    assert (gains >= -1e-9).all()
    assert gains.sum() > 1


def test_with_states_of_contexts_fixed_em_finds_the_maximum_for_the_rest() -> None:
    """The likelihood is concave in s: any start ends at the same value, and r stays."""
    rng = np.random.default_rng(3)
    c, u = a_table(rng, 15), np.full(15, 1 / 15)
    em = BigramEM(iterations=3000, prior=0.0, u=u, is_r_free=False)
    source = EngineEStep(Threads(1), cut_pairs(c, np.float64))
    r = random_states(u, 3, rng, float).r
    ends = [em.run(source, BigramStates(r, random_states(u, 3, rng, float).s)) for _ in range(3)]
    assert all(np.array_equal(end.parameters.r, r) for end in ends)
    values = [end.values[-1] for end in ends]
    assert max(values) - min(values) < 1e-3 * abs(values[0])


def test_a_device_takes_the_same_e_step() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    c, u = a_table(rng)[:7], np.full(12, 1 / 12)  # fewer first words than second ones
    c.sort_indices()
    r, s = random_states(u, 3, rng)
    r = r[:7].copy()
    expected = expect_pairs(cut_pairs(c)[0], r, s)
    pairs = DevicePairs(c.indptr, c.indices, c.data, c.shape[1], "cpu")
    after, before, value = pairs.expect(pairs.put(r), pairs.put(s))
    np.testing.assert_allclose(after.numpy(), expected.R[0], rtol=1e-4)
    np.testing.assert_allclose(before.numpy(), expected.S, rtol=1e-4)
    assert value == pytest.approx(expected.log_likelihood, rel=1e-5)


def test_a_device_is_given_the_sorted_table(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr(device, "DevicePairs", lambda *arguments: given.extend(arguments))
    c = sparse.csr_array((np.array([2.0, 3.0]), np.array([4, 1]), np.array([0, 2, 2])), (2, 5))
    device.DeviceEStep(c, "cuda:1")
    starts, places, values, n, name = given
    assert np.asarray(starts).tolist() == [0, 2, 2]
    assert np.asarray(places).tolist() == [1, 4]
    assert np.asarray(values).tolist() == [3.0, 2.0]
    assert (n, name) == (5, "cuda:1")


def test_a_device_that_is_not_there_is_told(counts: NgramCounts) -> None:
    with pytest.raises(SapwoodError, match="device 'cuda:7'"):
        sw.EMBigram(2, device="cuda:7").fit(counts)


def test_blocks_side_by_side_are_their_mean() -> None:
    rng = np.random.default_rng(2)
    u = np.full(9, 1 / 9)
    blocks = [random_states(u, m, rng, np.float64) for m in (2, 3)]
    r, s = bigram_em.join_blocks(blocks)
    np.testing.assert_allclose(r @ s.T, sum(b.r @ b.s.T for b in blocks) / 2, rtol=1e-12)
    np.testing.assert_allclose(r.sum(axis=1), 1)


@pytest.mark.parametrize(
    "learner",
    [sw.EMBigram(8, n_blocks=2), sw.PivotBigram(3), sw.LatentTrigram(8, n_blocks=2)],
    ids=lambda learner: type(learner).__name__,
)
def test_they_are_distributions_that_have_learnt(learner: object, counts: NgramCounts) -> None:
    model = learner.fit(counts).model_  # type: ignore[attr-defined]
    for context in ([], ["a"], ["h", "g"], ["x", "a"], ["a", "x"]):
        assert np.exp(model.next_log_probs(context)).sum() == pytest.approx(1, abs=1e-4)
    single = sw.KneserNey(1).fit(counts).model_
    assert log_prob(model, counts) > log_prob(single, counts) + 0.05


def test_held_out_text_ends_em(counts: NgramCounts, held: NgramCounts) -> None:
    em = sw.EMBigram(8, n_blocks=1, prior=0.0, iterations=500).fit(counts, held)
    (climbed,) = em.climbs_
    assert len(climbed.values) < 500
    assert np.argmax(climbed.scores) == len(climbed.scores) - 3


def test_smoothing_weights_make_held_out_text_likelier(
    counts: NgramCounts, held: NgramCounts
) -> None:
    model = sw.EMBigram(8, n_blocks=1).fit(counts, held).model_
    for weight in (0.2, 0.5):
        other = sw.EMBigram(8, n_blocks=1).fit(counts, held).model_
        other.weight[:] = weight
        assert log_prob(model, held) > log_prob(other, held)


def test_pairs_of_words_say_more_than_one(counts: NgramCounts, held: NgramCounts) -> None:
    trigram = sw.LatentTrigram(8).fit(counts, held)
    assert log_prob(trigram.model_, held) > log_prob(trigram.bigram_.model_, held) + 0.02


def test_pairs_that_were_not_seen_back_off(counts: NgramCounts) -> None:
    model = sw.LatentTrigram(4, min_pair_count=2).fit(counts).model_
    unseen = [["x", "a"], ["x", "h"]]
    for context in unseen:
        np.testing.assert_allclose(
            model.next_log_probs(context), model.bigram.next_log_probs(context), rtol=1e-6
        )


def test_pairs_with_a_strong_prior_are_their_nearer_word(counts: NgramCounts) -> None:
    model = sw.LatentTrigram(4, strength=1e6).fit(counts).model_
    for context in (["a", "b"], ["h", "g"]):
        np.testing.assert_allclose(
            model.next_log_probs(context), model.bigram.next_log_probs(context), rtol=1e-3
        )


def test_weights_are_those_of_greatest_likelihood() -> None:
    """There, every member's share of the probability is the same: the slopes are equal."""
    rng = np.random.default_rng(0)
    p, n = rng.uniform(0.1, 1, (200, 3)), rng.integers(1, 9, 200).astype(float)
    (lam,) = mixture_weights(p, n, np.zeros(200, np.int64), 1, np.ones(3), 0.0)
    slopes = (n[:, None] * p / (p @ lam)[:, None]).sum(axis=0) / n.sum()
    np.testing.assert_allclose(slopes[lam > 0.05], 1, atol=1e-2)
    assert (slopes < 1.01).all()


def test_a_mixture_is_better_than_its_members(counts: NgramCounts, held: NgramCounts) -> None:
    mixture = sw.LanguageMixture(8).fit(counts, held).model_
    assert np.exp(mixture.next_log_probs(["a", "b"])).sum() == pytest.approx(1, abs=1e-4)
    assert all(log_prob(mixture, held) > log_prob(m, held) for m in mixture.members)
    np.testing.assert_allclose(mixture.weights.sum(axis=1), 1)


def test_a_mixture_holds_out_by_itself(counts: NgramCounts, held: NgramCounts) -> None:
    mixture = sw.LanguageMixture(8).fit(counts).model_
    given = sw.LanguageMixture(8).fit(counts, held).model_
    assert log_prob(mixture, held) > max(log_prob(m, held) for m in mixture.members[1:])
    assert log_prob(mixture, held) == pytest.approx(log_prob(given, held), abs=0.05)


def test_weights_go_to_the_member_that_is_right(counts: NgramCounts) -> None:
    """One member is the source itself in all but name: it gets nearly all of the weight."""
    good, bad = sw.KneserNey(3).fit(counts).model_, sw.KneserNey(1).fit(counts).model_
    weights = member_weights([bad, good], counts, counts)
    assert (weights[:, 1] > 0.6).all()


def test_models_of_other_words_are_not_mixed(counts: NgramCounts) -> None:
    good, other = sw.KneserNey(2).fit(counts).model_, sw.KneserNey(2).fit([["x", "y"]]).model_
    with pytest.raises(SapwoodError, match="same words"):
        member_weights([good, other], counts, counts)


def test_held_out_text_in_other_words_is_refused(counts: NgramCounts) -> None:
    with pytest.raises(SapwoodError, match="other words"):
        sw.EMBigram(2).fit(counts, count_sentence_ngrams([["x", "y"]], 2))


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(SapwoodError, match="no pair of words was seen 9 times"):
        sw.LatentTrigram(2, min_pair_count=9).fit([["a", "b"], ["a", "c"]])


def test_held_of_nothing_known() -> None:
    u = np.full(5, 0.2)
    table = sparse.csr_array(np.eye(5))
    held = HeldPairs.of(table, u)
    assert UNKNOWN not in held.after
    start = BigramStates(np.ones((5, 1), np.float32), np.full((5, 1), 0.2, np.float32))
    assert held.value(start) == pytest.approx(np.log(0.2), abs=1e-6)


def test_small_files_say_the_same(counts: NgramCounts, held: NgramCounts, tmp_path: Path) -> None:
    for learner in (sw.LatentTrigram(8), sw.LatentKneserNey(8)):
        model = learner.fit(counts, held).model_
        model.save(tmp_path / "model.lm")
        again = sw.load(tmp_path / "model.lm")
        assert log_prob(again, held) == pytest.approx(log_prob(model, held), abs=1e-4)
