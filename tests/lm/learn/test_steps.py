"""The steps of learning hidden states between words, one by one and in numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import sparse
from tests.lm.learn.texts import some_text

import sapwood as sw
from sapwood.execute import Threads
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.data.ngrams import (
    END,
    HELD_FRACTION,
    MOST_HELD,
    NOTHING,
    SPECIAL,
    START,
    UNKNOWN,
    NgramCounts,
    draw_held,
)
from sapwood.lm.learn import kneser_ney, latent
from sapwood.lm.learn.bigram_em import (
    N_WEIGHT_BINS,
    STOP_WEIGHT,
    BigramEM,
    BigramStates,
    EngineEStep,
    HeldPairs,
    TrainingPairs,
    cut_pairs,
    follow_counts,
    maximise_states,
    random_states,
    smoothing_weights,
    word_distribution,
)
from sapwood.lm.learn.latent import member_weights, mixture_weights, pair_follow_counts
from sapwood.lm.learn.pivot import pivot_states
from sapwood.lm.model.latent_models import (
    N_CONTEXT_BINS,
    N_PAIR_BINS,
    N_WORD_BINS,
    BigramModel,
    ContextBins,
    LatentTrigramModel,
    MixtureModel,
)


@pytest.fixture(scope="module")
def counts() -> NgramCounts:
    return count_sentence_ngrams(some_text(300), 3)


# -- what is held out -----------------------------------------------------------------------------


def test_what_is_held_out_is_not_learnt_from(counts: NgramCounts) -> None:
    rest, held = counts.hold_out(seed=3)
    both = Counter({tuple(row): n for row, n in zip(rest.rows.tolist(), rest.counts, strict=True)})
    both.update({tuple(row): n for row, n in zip(held.rows.tolist(), held.counts, strict=True)})
    expected = dict(zip(map(tuple, counts.rows.tolist()), counts.counts, strict=True))
    assert both == expected
    assert held.counts.min() > 0
    assert held.counts.sum() == pytest.approx(HELD_FRACTION * counts.counts.sum(), rel=0.3)
    assert (counts.hold_out(seed=4)[0].counts != rest.counts).any()


def test_pairs_that_are_held_out_are_not_learnt_from(counts: NgramCounts) -> None:
    c, held = TrainingPairs.of(counts, None, seed=0)
    whole = follow_counts(counts.rows, counts.counts, len(counts.words))
    apart = whole - c
    assert apart.sum() > 0
    assert held.counts.sum() == apart.sum() - apart[:, [UNKNOWN]].sum()
    np.testing.assert_array_equal(apart.toarray()[held.before, held.after], held.counts)
    np.testing.assert_allclose(held.u, word_distribution(whole))  # words count wherever they are


@pytest.mark.parametrize("is_given", [False, True])
def test_kneser_ney_over_states_learns_them_from_the_rest(
    counts: NgramCounts, is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    learner = sw.LatentKneserNey(2, iterations=1, n_blocks=1)
    states = kneser_ney.LatentKneserNey._states
    monkeypatch.setattr(
        kneser_ney.LatentKneserNey,
        "_states",
        lambda self, *texts: seen.append(texts) or states(self, *texts),
    )
    rest, held = counts.hold_out(learner.seed)
    learner.fit(counts, held if is_given else None)
    ((learnt, stop),) = seen
    expected = counts if is_given else rest
    assert (learnt.counts == expected.counts).all()
    assert (stop.counts == held.counts).all()


def test_a_mixture_weighs_members_on_text_that_they_have_not_seen(counts: NgramCounts) -> None:
    learner = sw.LanguageMixture(2, iterations=2)
    found = learner.fit(counts).model_
    rest, held = counts.hold_out(learner.seed)
    weights = member_weights(learner._members(rest, held), rest, held)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-6)
    # then members and bins are those of the whole text
    bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
    np.testing.assert_array_equal(found.bins.words, bins.words)
    np.testing.assert_array_equal(found.bins.pair_bins, bins.pair_bins)
    plain = sw.KneserNey(3).fit(counts).model_
    np.testing.assert_allclose(found.members[0].p[2], plain.p[2])
    given = learner.fit(counts, held).model_
    np.testing.assert_allclose(given.members[0].p[2], plain.p[2])
    assert np.abs(given.weights - found.weights).max() > 1e-3


def test_a_share_is_held_out_up_to_a_limit() -> None:
    assert draw_held(np.array([1_000_000]), 0)[0] == pytest.approx(50_000, rel=0.02)
    assert draw_held(np.array([1_000_000_000]), 0)[0] == pytest.approx(MOST_HELD, rel=0.01)
    assert draw_held(np.zeros(3, np.int64), 0).tolist() == [0, 0, 0]


# -- when EM ends ---------------------------------------------------------------------------------


class Scripted(HeldPairs):
    """Held-out text that is as likely as a list says."""

    def __init__(self, values: list[float]) -> None:
        object.__setattr__(self, "left_to_say", iter(values))

    def value(self, start: BigramStates) -> float:
        return next(self.left_to_say)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("values", "best", "n"),
    [
        ([0.0, 1.0, 3.0, 2.0, 1.0, 9.0], 2, 4),  # two iterations behind the best, and no more
        ([0.0, 1.0, 0.5, 2.0, 1.0, 1.5], 3, 5),  # one that is worse ends nothing
        ([5.0, 1.0, 2.0], 0, 2),  # the start is the best
        ([0.0, 1.0, 1.0, 0.0, 0.0], 2, 3),  # of equal ones the last is kept, the first counted
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 5, 5),  # all that were asked for
    ],
)
def test_the_best_iteration_on_held_out_text_is_kept(
    values: list[float], best: int, n: int
) -> None:
    rng = np.random.default_rng(0)
    c, u = sparse.csr_array(rng.poisson(1.0, (9, 9)).astype(float)), np.full(9, 1 / 9)
    start = random_states(u, 3, rng)
    source = EngineEStep(Threads(1), cut_pairs(c))
    climbed = BigramEM(5, 0.5, u, Scripted(values)).run(source, start)
    assert len(climbed.values) == n
    assert climbed.scores == values[: n + 1]
    expected = BigramEM(best, 0.5, u).run(source, start).parameters
    np.testing.assert_array_equal(climbed.parameters.r, expected.r)
    np.testing.assert_array_equal(climbed.parameters.s, expected.s)


def test_held_out_text_is_scored_with_a_little_of_single_words() -> None:
    u = np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4])
    r, s = random_states(u, 2, np.random.default_rng(1))
    before, after = np.array([2, 4, 5]), np.array([3, 5, 4])
    n, known, left = np.array([1.0, 2.0, 5.0]), np.array([0.1, 0.0, 0.2]), np.array([0.5, 0.9, 0.3])
    p = (r[before] * s[after]).sum(axis=1)
    mixed = 0.95 * p + 0.05 * u[after]
    assert STOP_WEIGHT == 0.05
    value = HeldPairs(before, after, n, u).value(BigramStates(r, s))
    assert value == pytest.approx(n @ np.log(mixed) / 8, rel=1e-6)
    value = HeldPairs(before, after, n, u, known, left).value(BigramStates(r, s))
    assert value == pytest.approx(n @ np.log(known + left * mixed) / 8, rel=1e-6)


def test_pairs_before_the_unknown_word_are_not_held_out() -> None:
    table = np.zeros((6, 6))
    table[4, 5], table[5, UNKNOWN], table[UNKNOWN, 4] = 3, 7, 2
    held = HeldPairs.of(sparse.csr_array(table), np.full(6, 1 / 6))
    found = sorted(zip(held.before, held.after, held.counts, strict=True))
    assert found == [(UNKNOWN, 4, 2.0), (4, 5, 3.0)]


# -- smoothing ------------------------------------------------------------------------------------


def test_every_word_that_could_follow_has_a_share() -> None:
    table = np.zeros((6, 6))
    table[4, 5], table[5, END], table[4, UNKNOWN] = 3, 2, 1
    u = word_distribution(sparse.csr_array(table))
    weights = np.array([0, 0, 2.5, 1.5, 0.5, 3.5])  # half a word for each; none for the start
    np.testing.assert_allclose(u, weights / weights.sum())


def test_shares_of_single_words_by_how_often_a_word_was_seen(counts: NgramCounts) -> None:
    """In a bin whose pairs the states rule out, single words get all but the word added."""
    n = len(counts.words)
    u, start = np.full(n, 1 / n), random_states(np.full(n, 1 / n), 2, np.random.default_rng(0))
    common, rare = 4, n - 1
    seen = counts.word_counts.copy()
    seen[common], seen[rare] = 1000, 2
    counts = counts.__class__(counts.words, seen, counts.rows, counts.counts)
    before, after = np.array([common, rare]), np.array([5, 6])
    start.s[5], start.s[6] = 0.0, 1e6  # after the common word states are no use, after the rare one
    held = HeldPairs(before, after, np.array([30.0, 10.0]), u)
    weight = smoothing_weights(start, counts, held)
    assert weight[common] == pytest.approx(31 / 32, abs=1e-6)
    assert weight[rare] == pytest.approx(1 / 12, abs=1e-3)
    nobody = int(np.flatnonzero(seen == 0)[0])
    assert weight[nobody] == 0.5
    assert np.log2(1 + counts.word_counts[START]) < N_WEIGHT_BINS
    assert weight[START] == 0.5  # a bin of its own, without pairs here
    # what something else leaves counts by how much that is
    half = HeldPairs(
        before, after, np.array([30.0, 10.0]), u, np.array([1.0, 0.0]), np.full(2, 1e-9)
    )
    assert smoothing_weights(start, counts, half)[common] == pytest.approx(0.5, abs=0.01)


def test_random_starts_are_near_single_words() -> None:
    u = np.array([0.1, 0.2, 0.7])
    r, s = random_states(u, 400, np.random.default_rng(0), np.float64)
    np.testing.assert_allclose(r.sum(axis=1), 1)
    np.testing.assert_allclose(s.sum(axis=0), 1)
    np.testing.assert_allclose(s.mean(axis=1), u, rtol=0.1)
    assert (s / u[:, None]).min() > 0.3
    assert r.std() > 1e-4


# -- pivots ---------------------------------------------------------------------------------------


def pivot_text(n: int = 2000) -> list[list[str]]:
    """After `now` come words of one kind, after `then` those of the other, after others either."""
    rng = np.random.default_rng(0)
    kinds = [["a", "b", "c"], ["x", "y", "z"]]
    found = []
    for _ in range(n):
        line: list[str] = []
        for _ in range(4):
            kind = int(rng.integers(2))
            line += [("now", "then")[kind], kinds[kind][rng.integers(3)]]
            line.append(kinds[int(rng.integers(2))][rng.integers(3)])
        found.append(line)
    return found


def test_pivots_decide_the_states() -> None:
    counts = count_sentence_ngrams(pivot_text(), 2)
    learner = sw.PivotBigram(3, iterations=0, min_pivot_count=100).fit(counts)
    model, number = learner.model_, {word: i for i, word in enumerate(counts.words)}
    assert {"now", "then"} <= set(learner.pivots_)
    assert len(learner.pivots_) == 3
    for state, word in enumerate(learner.pivots_):
        assert model.r[number[word]].argmax() == state
        assert model.r[number[word], state] > 0.98
    p = np.exp(model.next_log_probs(["now"]))
    assert sum(p[number[word]] for word in "abc") > 0.97
    assert learner.iterations_ == 0
    more = sw.PivotBigram(3, iterations=2, min_pivot_count=100, prior=0.0).fit(counts)
    assert 1 <= more.iterations_ <= 2


def test_rare_words_are_no_pivots() -> None:
    """A word seen three times, before another such word, lies far out; it may not be a pivot."""
    text = [*pivot_text(500), *[["now", "odd", "end"]] * 3]
    counts = count_sentence_ngrams(text, 2)
    pivots = sw.PivotBigram(4, iterations=0, min_pivot_count=50).fit(counts).pivots_
    assert "odd" not in pivots
    c = follow_counts(counts.rows, counts.counts, len(counts.words))
    free, _ = pivot_states(c, 4, least=1, ridge=0.0)
    assert "odd" in {counts.words[i] for i in free.pivots}


def test_pivots_give_distributions_of_the_words_after_each_state() -> None:
    counts = count_sentence_ngrams(pivot_text(100), 2)
    c = follow_counts(counts.rows, counts.counts, len(counts.words))
    found, s = pivot_states(c, 3, least=1, ridge=0.0, trusted=5)
    np.testing.assert_allclose(s.sum(axis=0), 1)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    assert (s >= 0).all()


def test_states_of_rare_words_come_from_em_and_no_others() -> None:
    rng = np.random.default_rng(0)
    u = np.full(8, 1 / 8)
    start = random_states(u, 2, rng)
    e_step = EngineEStep(Threads(1), cut_pairs(sparse.csr_array(rng.poisson(1.0, (8, 8)) * 1.0)))
    is_rare = np.arange(8) % 2 == 0
    learner = sw.PivotBigram(2, prior=0.7)
    found = learner._maximise_rare(is_rare, u, start, e_step.expect_states(start))
    before, after, _ = e_step.expect(start)
    expected, _ = maximise_states(before, after * start.s, u, 0.7)
    np.testing.assert_allclose(found.r[is_rare], expected[is_rare], rtol=1e-5)
    np.testing.assert_array_equal(found.r[~is_rare], start.r[~is_rare])
    np.testing.assert_array_equal(found.s, start.s)


def test_the_m_step_adds_the_prior() -> None:
    before, after = np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 1.0], [0.0, 1.0]])
    u = np.array([0.25, 0.75])
    r, s = maximise_states(before, after, u, 4.0)
    np.testing.assert_allclose(r, [[5 / 6, 1 / 6], [4 / 6, 2 / 6]], atol=1e-9)  # share 3/4, 1/4
    np.testing.assert_allclose(s, [[4 / 7, 2 / 6], [3 / 7, 4 / 6]], atol=1e-9)
    kept, same = maximise_states(before, after, u, 4.0, r=before)
    assert kept is before
    np.testing.assert_array_equal(same, s)


# -- pairs of words -------------------------------------------------------------------------------


def test_what_follows_a_pair_is_counted(counts: NgramCounts) -> None:
    c, pairs = pair_follow_counts(counts, 5)
    times: Counter[tuple[int, int]] = Counter()
    after: Counter[tuple[int, int, int]] = Counter()
    for (y, x, w), n in zip(counts.rows.tolist(), counts.counts.tolist(), strict=True):
        if w != NOTHING:
            times[w, x] += n
            after[w, x, y] += n
    kept = sorted(pair for pair, n in times.items() if n >= 5)
    assert [divmod(int(key), len(counts.words)) for key in pairs] == kept
    assert len(kept) < len(times)
    expected = [[after[w, x, y] for y in range(len(counts.words))] for w, x in kept]
    np.testing.assert_array_equal(c.toarray(), expected)


def test_states_of_pairs_are_a_posterior_around_their_nearer_word(counts: NgramCounts) -> None:
    learner = sw.LatentTrigram(3, strength=2.5, min_pair_count=4, pair_iterations=2, iterations=3)
    model = learner.fit(counts).model_
    assert learner.iterations_ == learner.bigram_.iterations_ + 2
    c, pairs = pair_follow_counts(counts, 4)
    bigram = learner.bigram_.model_
    prior = bigram.r[pairs.astype(np.int64) % len(counts.words)].astype(float)
    r2 = prior
    for _ in range(2):
        ratio = np.divide(
            c.toarray(), r2 @ bigram.s.T, where=c.toarray() > 0, out=np.zeros(c.shape)
        )
        r2 = r2 * (ratio @ bigram.s) + 2.5 * prior
        r2 /= r2.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.r2, r2, atol=1e-4)


def latent_trigram() -> LatentTrigramModel:
    words = (*SPECIAL, "a", "b")
    rng = np.random.default_rng(0)
    u = np.array([0, 0, 0.1, 0.2, 0.3, 0.4])
    start = random_states(u, 2, rng)
    bigram = BigramModel(words, start.r, start.s, u, np.linspace(0.1, 0.6, 6))
    return LatentTrigramModel(bigram, np.array([4 * 6 + 5], np.uint64), np.float32([[0.9, 0.1]]))


def test_the_states_of_a_pair_are_looked_up_in_its_order() -> None:
    """The pair a b has states of its own; b a, and a pair without its first word, have not."""
    model = latent_trigram()
    bigram = model.bigram
    rows = np.array([[4, 5, 4], [4, 4, 5], [4, 5, NOTHING], [4, 5, 5]], np.uint32)
    plain = bigram.log_probs(rows)
    p = bigram.s[4] @ [0.9, 0.1]
    w = bigram.weight[5]
    own = np.log((1 - w) * p + w * bigram.u[4])
    np.testing.assert_allclose(model.log_probs(rows), [own, *plain[1:]], rtol=1e-6)
    assert abs(own - plain[0]) > 0.01
    np.testing.assert_array_equal(model.log_probs(rows[:, :2]), plain)


def test_states_of_pairs_come_back_from_a_file_to_a_hundredth() -> None:
    model = latent_trigram()
    again = LatentTrigramModel.from_file(model.to_file())
    np.testing.assert_allclose(again.r2, model.r2, atol=0.01)
    np.testing.assert_array_equal(again.pairs, model.pairs)


def test_a_latent_bigram_model_is_its_formula() -> None:
    model = latent_trigram().bigram
    rows = np.array([[4, 5], [5, START], [4, NOTHING]], np.uint32)
    w = np.array([model.weight[5], model.weight[START], 1.0])
    p = np.array([model.s[4] @ model.r[5], model.s[5] @ model.r[START], 0.0])
    expected = np.log((1 - w) * p + w * model.u[[4, 5, 4]])
    np.testing.assert_allclose(model.log_probs(rows), expected, rtol=1e-6)


# -- mixtures -------------------------------------------------------------------------------------


def test_bins_of_contexts_are_looked_up_in_their_order() -> None:
    rows = np.array([[5, 4, 6], [5, 4, NOTHING], [6, 4, 6], [4, 6, 4]], np.uint32)
    bins = ContextBins.of(rows, np.array([4, 8, 2, 2]), 7)
    assert bins.words.tolist() == [0, 0, 0, 0, 3, 0, 1]  # log2(1 + 14), log2(1 + 2)
    assert bins.pairs.tolist() == [4 * 7 + 6, 6 * 7 + 4]
    assert bins.pair_bins.tolist() == [1, 2]  # log2(1 + 2), log2(1 + 6)
    asked = np.array([[5, 4, 6], [5, 6, 4], [5, 4, 5], [5, 4, NOTHING], [5, 5, 4]], np.uint32)
    expected = [3 * N_PAIR_BINS + 2, N_PAIR_BINS + 1, 3 * N_PAIR_BINS, 3 * N_PAIR_BINS, 0]
    assert bins.bin(asked).tolist() == expected
    assert bins.bin(asked[:, :2]).tolist() == [24, 8, 24, 24, 0]
    many = ContextBins.of(rows, np.array([1 << 30] * 4), 7)
    assert many.words.max() == N_WORD_BINS - 1
    assert many.pair_bins.max() == N_PAIR_BINS - 1


def test_a_mixture_is_the_weighed_sum_of_its_members(counts: NgramCounts) -> None:
    members = tuple(sw.KneserNey(order).fit(counts).model_ for order in (1, 3))
    bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
    weights = np.random.default_rng(0).dirichlet(np.ones(2), N_CONTEXT_BINS)
    found = MixtureModel(members, bins, weights).log_probs(counts.rows)
    p = np.exp([member.log_probs(counts.rows) for member in members])
    here = weights[bins.bin(counts.rows)]
    assert len(np.unique(here[:, 0])) > 5
    np.testing.assert_allclose(found, np.log(here[:, 0] * p[0] + here[:, 1] * p[1]), rtol=1e-9)


def test_weights_of_a_bin_are_drawn_to_those_of_all() -> None:
    """The optimum with a prior: weight = (share of the words + strength * prior) / (n + ...)."""
    rng = np.random.default_rng(0)
    p, n = rng.uniform(0.1, 1, (60, 2)), rng.integers(1, 5, 60).astype(float)
    bins = np.repeat([0, 2], 30)
    prior = np.array([3.0, 1.0])
    lam = mixture_weights(p, n, bins, 3, prior, 20.0)
    np.testing.assert_allclose(lam[1], [0.75, 0.25])  # a bin without words
    for b in (0, 2):
        here = bins == b
        share = n[here, None] * lam[b] * p[here] / (p[here] @ lam[b])[:, None]
        expected = (share.sum(axis=0) + 20 * prior / 4) / (n[here].sum() + 20)
        np.testing.assert_allclose(lam[b], expected, atol=1e-5)
    assert latent.WEIGHT_ITERATIONS >= 20
    assert np.abs(lam[0] - lam[2]).max() > 1e-3


def test_unknown_words_do_not_weigh_members(counts: NgramCounts) -> None:
    """The member that is sure of the unknown word gains nothing by it."""
    members = [sw.KneserNey(order).fit(counts).model_ for order in (1, 2)]
    expected = member_weights(members, counts, counts)
    unknown = np.array([[UNKNOWN, 4, 5]] * 3, np.uint32)
    more = counts.__class__(
        counts.words, counts.word_counts, np.concatenate([counts.rows, unknown]),
        np.append(counts.counts, [9999] * 3),
    )  # fmt: skip
    np.testing.assert_allclose(member_weights(members, counts, more), expected, rtol=1e-12)
