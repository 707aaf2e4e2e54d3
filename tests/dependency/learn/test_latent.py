"""Latent trees and chains: learners and their statistics."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.learn import spectral
from sapwood.dependency.learn.em import tie_valences
from sapwood.dependency.learn.moments import (
    ArcCounts,
    ChainSums,
    StateCounts,
    TripleSums,
    word_vectors,
)
from sapwood.dependency.model.dependency import Seen
from sapwood.dependency.model.latent import LatentArcs, SeenTrees, pack_seen_trees
from sapwood.progress import Event

TAGS = ("DET", "NOUN", "VERB", "ADP")
SHAPES = [[2, 0, 2], [2, 4, 2, 0, 4], [0, 3, 1, 3], [3, 3, 0, 3, 4, 4], [2, 0], [0]]


def table(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return rng.dirichlet(np.full(rows, 0.4), columns).T


def true_model(k: int = 2, seed: int = 3) -> sw.DependencyModel:
    rng = np.random.default_rng(seed)
    arcs = LatentArcs(
        rng.dirichlet(np.ones(k)), np.stack([table(rng, k, k) for _ in range(2)]),
        np.ascontiguousarray(table(rng, len(TAGS), k)), np.array([0, len(TAGS)]),
    )  # fmt: skip
    return sw.DependencyModel(Seen(TAGS, None), arcs)


def drawn(n: int, seed: int = 0, k: int = 2) -> ArcBank:
    trees = [Arcs(["_"] * len(shape), shape) for shape in SHAPES] * (n // len(SHAPES))
    return true_model(k).sample(trees, seed=seed)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("start", ["random", "spectral"])
@pytest.mark.parametrize("valence", [False, True])
def test_no_step_lowers_the_bound(smoothing: float, start: str, valence: bool) -> None:
    """EM at every step; without a prior the bound is the likelihood."""
    learner = sw.EMDependency(2, smoothing=smoothing, start=start, valence=valence, tolerance=0.0,
                              iterations=30).fit(drawn(300))  # fmt: skip
    bounds = np.array(learner.bounds_)
    # sums over 1,100 words in another order
    assert (np.diff(bounds) > -1e-8).all()
    assert bounds[-1] > bounds[0] + 1
    if not smoothing:
        assert learner.bounds_ == learner.log_likelihoods_


def test_tied_valences_stay_as_they_are() -> None:
    """What has the form already is the nearest of that form."""
    model = sw.EMDependency(3, valence=True, iterations=4).fit(drawn(300)).model_
    again = tie_valences(model.arcs, model.seen.valence_rows)
    np.testing.assert_allclose(again.symbols, model.arcs.symbols, atol=1e-12)
    assert model.is_probabilistic
    assert model.seen.symbol(len(model.arcs.symbols) - 1) == "<9 right>"


def test_shapes_count_where_valences_are_seen() -> None:
    """The same words in another tree: only numbers of children can tell which is likelier."""
    trees = [Arcs(["a"] * 3, [2, 0, 2], upos=["X"] * 3)] * 30
    other = [Arcs(["a"] * 3, [0, 1, 1], upos=["X"] * 3)]
    plain = sw.EMDependency(1).fit(trees).model_
    assert plain.log_probs(other)[0] == pytest.approx(plain.log_probs(trees[:1])[0])
    shaped = sw.EMDependency(1, valence=True).fit(trees).model_
    assert shaped.log_probs(other)[0] < shaped.log_probs(trees[:1])[0] - 1


def test_likelihoods_are_those_of_the_model() -> None:
    bank = drawn(300)
    learner = sw.EMDependency(2, iterations=5).fit(bank)
    # EM's own tables have nothing for unknown tags, which get half a word of 1,100
    room = -bank.n_tokens * np.log1p(0.5 / bank.n_tokens)
    found = learner.model_.log_probs(bank).sum()
    assert found == pytest.approx(learner.log_likelihoods_[-1] + room)
    assert learner.model_.is_probabilistic


def test_em_stops_when_it_gains_too_little() -> None:
    told: list[Event] = []
    learner = sw.EMDependency(2, tolerance=1e-3, listen=told.append).fit(drawn(300))
    gains = np.diff(learner.bounds_) / drawn(300).n_tokens
    assert (gains[:-1] >= 1e-3).all()
    assert gains[-1] < 1e-3
    assert learner.iterations_ == len(gains) < 100
    assert [x.facts["iteration"] for x in told if x.facts] == list(range(len(gains) + 1))
    assert learner.model_.record["converged"]


def test_both_learners_come_near_the_model_that_made_the_trees() -> None:
    """Held-out likelihood: below the truth's, and nearer to it than words that tell nothing."""
    train, held = drawn(12_000), drawn(3_000, seed=9)
    truth = true_model().log_probs(held)
    plain = sw.EMDependency(1).fit(train).model_.log_probs(held)
    for learner in (
        sw.SpectralDependency(2, ridge=0.0), sw.EMDependency(2, iterations=200, tolerance=1e-6),
        sw.EMDependency(2, start="spectral"),
    ):  # fmt: skip
        logs, signs = learner.fit(train).model_.signed_log_probs(held)
        kept = signs > 0
        assert kept.mean() > (0.98 if isinstance(learner, sw.SpectralDependency) else 0.9999)
        gain = (truth - plain)[kept].sum()
        assert gain > 50
        assert (truth - logs)[kept].sum() < 0.2 * gain


def test_one_state_is_how_often_symbols_occur() -> None:
    """With nothing to tell states apart, whatever the ridge, words are independent."""
    bank = drawn(300)
    # with half a word for unknown tags
    share = np.bincount(bank.upos, minlength=len(bank.upos_names)) / (bank.n_tokens + 0.5)
    model = sw.SpectralDependency(1, shrinkage=0).fit(bank).model_
    sums = np.add.reduceat(np.log(share)[bank.upos], bank.offsets[:-1])
    np.testing.assert_allclose(model.log_probs(bank), sums, atol=1e-9)
    far = sw.SpectralDependency(2, ridge=1e6, shrinkage=0).fit(bank).model_
    np.testing.assert_allclose(far.log_probs(bank), sums, atol=1e-5)


@pytest.mark.parametrize("kind", ["tags", "words", "both"])
@pytest.mark.parametrize("learner", [sw.SpectralDependency, sw.EMDependency])
def test_what_is_seen(kind: str, learner: Any) -> None:
    rng = np.random.default_rng(0)
    bank = ArcBank.of(
        Arcs([f"{tag}{rng.integers(2)}" for tag in tree.upos], tree.heads, upos=tree.upos)
        for tree in drawn(600)
    )
    model = learner(2, seen=kind, min_count=2).fit(bank).model_
    assert model.seen.kind == kind
    assert len(model.arcs.column_start) == (3 if kind == "both" else 2)
    other = [Arcs(["NOUN0", "new", "DET1"], [2, 0, 2], upos=["NOUN", "X", "DET"])]
    logs = model.log_probs(other)  # a word and a tag that nobody has seen
    assert np.isfinite(logs).all()
    assert model.features(other).shape == (1, 3)


@pytest.mark.parametrize("kind", ["tags", "both"])
@pytest.mark.parametrize("learner", [sw.SpectralDependency, sw.EMDependency])
def test_unknown_tags_have_the_probability_of_half_a_word(kind: str, learner: Any) -> None:
    """They were ignored, which is a probability of 1: new tags were better than any known ones."""
    bank = drawn(600)
    model = learner(2, seen=kind, min_count=1).fit(bank).model_
    tag, other = Arcs(["_"], [0], upos=["NOUN"]), Arcs(["_"], [0], upos=["X"])
    unknown = 0.5 / (bank.n_tokens + 0.5)
    near = 1e-9 if kind == "tags" else 1e-3  # unknown words, of which there are none, have theirs
    assert np.exp(model.log_probs([other])[0]) == pytest.approx(unknown, rel=near)
    assert model.log_probs([other])[0] < model.log_probs([tag])[0]
    # what a word can show sums to 1, and an unknown tag tells nothing of the words around it
    single = [Arcs(["_"], [0], upos=[name]) for name in (*TAGS, "X")]
    assert np.exp(model.log_probs(single)).sum() == pytest.approx(1.0, abs=near)
    pair = [Arcs(["_"] * 2, [2, 0], upos=["X", name]) for name in TAGS]
    np.testing.assert_allclose(
        model.log_probs(pair), np.log(unknown) + model.log_probs(single[:-1]), atol=near
    )
    assert model.seen.count_unknown_tags(ArcBank.of([*single, *pair])) == 1 + len(TAGS)


def test_models_without_a_symbol_for_unknown_tags_refuse_them() -> None:
    model = true_model()
    assert np.isfinite(model.log_probs([Arcs(["_"], [0], upos=["NOUN"])])).all()
    with pytest.raises(SapwoodError, match="never seen the tag 'X'") as caught:
        model.log_probs([Arcs(["_"], [0], upos=["X"])])
    assert caught.value.hint


def test_weights_of_zero_have_features() -> None:
    arcs = LatentArcs(np.ones(1), np.ones((2, 1, 1)), np.array([[1.0], [0.0]]), np.array([0, 2]))
    model = sw.DependencyModel(Seen(("A", "B"), None), arcs)
    trees = [Arcs(["x", "y"], [0, 1], upos=["A", tag]) for tag in "AB"]
    assert model.log_probs(trees).tolist() == [0.0, -np.inf]
    found = model.features(trees)
    assert np.isfinite(found).all()
    assert found[:, 2].tolist() == [1.0, 0.0]


def test_samples_have_the_frequencies_of_the_model() -> None:
    bank = drawn(30_000)
    pairs = np.zeros((len(TAGS), len(TAGS)))
    first = bank.offsets[4 : len(bank) : len(SHAPES)]  # [2, 0]
    np.add.at(pairs, (bank.upos[first + 1], bank.upos[first]), 1)
    m = true_model().arcs
    truth = np.einsum("xh,h,gh,yg->xy", m.symbols, m.root, m.steps[0], m.symbols)
    # 5,000 draws: standard errors of at most 0.007
    np.testing.assert_allclose(pairs / len(first), truth, atol=0.03)


def test_a_spectral_model_cannot_be_drawn_from() -> None:
    model = sw.SpectralDependency(2).fit(drawn(300)).model_
    assert not model.is_probabilistic
    with pytest.raises(SapwoodError, match="not probabilities") as caught:
        model.sample(drawn(6))
    assert "EM" in str(caught.value.hint)


def test_vectors_from_other_text_are_a_projection() -> None:
    rng = np.random.default_rng(0)
    bank = ArcBank.of(
        Arcs([f"{tag}{rng.integers(2)}" for tag in tree.upos], tree.heads, upos=tree.upos)
        for tree in drawn(3000)
    )
    train, held = bank[:2500], bank[2500:]
    words = sw.WordEmbedding(4, min_count=1).fit([list(tree.words) for tree in train]).model_
    learner = sw.SpectralDependency(2, seen="words", embeddings=words, min_count=1)
    plain = sw.SpectralDependency(1, seen="words", min_count=1).fit(train).model_
    logs, signs = learner.fit(train).model_.signed_log_probs(held)
    assert (signs > 0).mean() > 0.98
    assert logs[signs > 0].sum() > plain.log_probs(held)[signs > 0].sum() + 20
    for wrong, told in (({"seen": "tags"}, "vectors of words"), ({"n_states": 9}, "dimension 4")):
        with pytest.raises(SapwoodError, match=told):
            learner.set_params(**wrong).fit(train)
        learner.set_params(seen="words", n_states=2)


# -- chains ---------------------------------------------------------------------------------------


def sentences(n: int) -> list[list[str]]:
    """Words that come in pairs: ab, cd, and sometimes cb."""
    rng = np.random.default_rng(5)
    out = []
    for _ in range(n):
        words: list[str] = []
        for _ in range(int(rng.integers(2, 5))):
            words += [["a", "b"], ["c", "d"], ["c", "b"]][rng.choice(3, p=[0.5, 0.4, 0.1])]
        out.append(words)
    return out


@pytest.mark.parametrize("start", ["random", "spectral"])
def test_baum_welch_never_falls(start: str) -> None:
    learner = sw.EMHMM(3, smoothing=0.0, tolerance=0.0, iterations=25, start=start).fit(
        sentences(200)
    )
    assert (np.diff(learner.log_likelihoods_) > -1e-8).all()
    assert learner.model_.is_probabilistic


def test_chains_learn_what_follows_what() -> None:
    train, held = sentences(3000), sentences(200)
    plain = sw.EMHMM(1).fit(train).model_.log_probs(held).sum()
    for learner in (sw.SpectralHMM(3, ridge=0.05), sw.EMHMM(3), sw.EMHMM(3, start="spectral")):
        logs, signs = learner.fit(train).model_.signed_log_probs(held)
        assert (signs == 1).all()
        assert logs.sum() > plain + 100


def test_a_drawn_chain_has_its_length_and_words() -> None:
    model = sw.EMHMM(2).fit(sentences(100)).model_
    drawn_words = model.sample([3, 1, 4], seed=1)
    assert [len(words) for words in drawn_words] == [3, 1, 4]
    assert drawn_words == model.sample([3, 1, 4], seed=1)
    assert set().union(*drawn_words) <= {*"abcd", "<unk>"}


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "data", "words"),
    [
        (sw.SpectralDependency(9), drawn(300), "rank"),
        (sw.SpectralDependency(1), [Arcs(["a", "b"], [0, 1])] * 9, "children on both sides"),
        (sw.SpectralHMM(1), [["a", "b"]] * 9, "three words"),
        (sw.EMDependency(2), [Arcs(["a"], [-1])], "no heads"),
    ],
)
def test_what_cannot_be_learnt_is_said(learner: Any, data: Any, words: str) -> None:
    with pytest.raises(SapwoodError, match=words) as caught:
        learner.fit(data)
    assert caught.value.hint


def test_chains_of_words_are_learnt_from_paths() -> None:
    """Every word hangs on the next one: no word has children on both sides."""
    trees = [Arcs(["_"] * n, [*range(2, n + 1), 0]) for n in (3, 4, 5)] * 400
    bank = true_model().sample(trees, seed=1)
    learner = sw.SpectralDependency(2, ridge=0.0, shrinkage=0.0).fit(bank)
    assert learner.model_.record["triples"] == 0
    assert learner.model_.record["paths"] == [2400, 0]
    plain = sw.SpectralDependency(1).fit(bank).model_
    held = true_model().sample(trees[:300], seed=2)
    truth, found, none = (m.log_probs(held).sum() for m in (true_model(), learner.model_, plain))
    assert none < found
    assert truth - found < (truth - none) / 5


def test_negative_entries_are_clipped_and_a_little_of_what_tells_nothing_is_mixed_in() -> None:
    """A column without any positive entry is that which tells nothing."""
    found = spectral._distributions(np.array([[0.2, -1.0], [0.6, -2.0]]), np.array([[1.0], [3.0]]))
    share = spectral.UNIFORM_FRACTION
    first = (1 - share) * np.array([0.25, 0.75]) + share * np.array([0.25, 0.75])
    np.testing.assert_allclose(found, np.stack([first, [0.25, 0.75]], axis=1), rtol=1e-12)
    other = spectral._distributions(np.array([[0.3], [-0.1]]), np.ones((2, 1)))
    np.testing.assert_allclose(other[:, 0], [1 - share / 2, share / 2], rtol=1e-12)


def test_clipped_tables_are_distributions() -> None:
    bank = drawn(300)
    found = sw.SpectralDependency(3).fit(bank).model_.arcs
    made = spectral.make_probabilities(found, np.ones(len(found.symbols)), 0)
    assert made.is_probabilistic
    assert min(table.min() for table in (made.root, made.steps, made.symbols)) > 0


N, K = 5, 2
Array = np.ndarray


@pytest.fixture
def trees() -> SeenTrees:
    """Two columns, some of them without a symbol."""
    rng = np.random.default_rng(0)
    heads = [[2, 0, 2, 2], [0], [3, 3, 0, 3, 4], [2, 3, 0], [0, 1, 1, 3]] * 3
    seen = [np.stack([rng.integers(-1, 2, len(t)), rng.integers(2, N, len(t))], 1) for t in heads]
    return pack_seen_trees(heads, seen)


@pytest.fixture
def vectors() -> Array:
    return np.random.default_rng(1).standard_normal((N, K))


def same(one: object, other: object) -> None:
    for name, value in vars(one).items():
        found = getattr(other, name)
        a, b = (x.toarray() if hasattr(x, "toarray") else x for x in (value, found))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)


def test_counts_are_those_of_a_loop(trees: SeenTrees) -> None:
    counts, up = ArcCounts.of(trees, N), trees.up()
    pairs = np.zeros((2, N, N))
    for child, head in enumerate(up.tolist()):
        if head >= 0:
            for x, y in product(trees.seen[head], trees.seen[child]):
                if x >= 0 and y >= 0:
                    pairs[int(child > head), x, y] += 1
    np.testing.assert_array_equal(counts.left.toarray(), pairs[0])
    np.testing.assert_array_equal(counts.right.toarray(), pairs[1])
    assert counts.n_trees == trees.n_trees
    shown = trees.seen[up < 0]
    np.testing.assert_array_equal(counts.roots, np.bincount(shown[shown >= 0], minlength=N))


def test_sums_are_those_over_all_triples(trees: SeenTrees, vectors: Array) -> None:
    sums, up = TripleSums.of(trees, vectors, N), trees.up()
    v = word_vectors(trees.seen, vectors)
    total = TripleSums.zero(K, N)
    for h in range(len(up)):
        children = np.flatnonzero(up == h)
        for a, b in product(children[children < h], children[children > h]):
            shows = np.bincount(trees.seen[h][trees.seen[h] >= 0], minlength=N)
            pair = np.outer(v[a], v[b])
            total = total + TripleSums(
                1.0, v[a], v[b], np.outer(v[h], v[a]), np.outer(v[h], v[b]), pair,
                np.multiply.outer(v[h], pair), np.multiply.outer(shows.astype(float), pair),
            )  # fmt: skip
    same(sums, total)


def test_chains_end_with_their_sentences(trees: SeenTrees, vectors: Array) -> None:
    v = word_vectors(trees.seen, vectors)
    total = ChainSums(0.0, np.zeros(K), np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K, K)))
    for first, last in zip(trees.offsets[:-1], trees.offsets[1:], strict=True):
        for t in range(first, last - 2):
            a, b, c = v[t : t + 3]
            total = total + ChainSums(
                1.0, a, np.outer(b, a), np.outer(c, a), np.multiply.outer(b, np.outer(c, a))
            )
    same(ChainSums.of(trees, vectors), total)


@pytest.mark.parametrize("side", [0, 1])
def test_paths_end_on_their_side(trees: SeenTrees, vectors: Array, side: int) -> None:
    v, up = word_vectors(trees.seen, vectors), trees.up().tolist()
    total = ChainSums(0.0, np.zeros(K), np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K, K)))
    for child, word in enumerate(up):
        if word >= 0 and up[word] >= 0 and (child > word) == bool(side):
            a, b, c = v[up[word]], v[word], v[child]
            total = total + ChainSums(
                1.0, a, np.outer(b, a), np.outer(c, a), np.multiply.outer(b, np.outer(c, a))
            )
    assert total.n
    same(ChainSums.of_paths(trees, vectors, side), total)


def test_shards_add_up(trees: SeenTrees, vectors: Array) -> None:
    rng = np.random.default_rng(2)
    model = LatentArcs(*(rng.random(s) for s in ((K,), (2, K, K), (N, K))), np.array([0, 2, N]))
    for size in (1, 7, 1000):
        shards = trees.shards(size)
        assert sum(shard.n_trees for shard in shards) == trees.n_trees
        for task, common in (
            (ArcCounts.of, N), (TripleSums.of, vectors), (ChainSums.of, vectors),
            (StateCounts.of, model),
        ):  # fmt: skip
            parts = [task(shard, common) for shard in shards]  # type: ignore[operator]
            same(sum(parts[1:], parts[0]), task(trees, common))  # type: ignore[operator]
    same(ArcCounts.of(trees, N) + ArcCounts.zero(N), ArcCounts.of(trees, N))
    same(TripleSums.of(trees, vectors) + TripleSums.zero(K), TripleSums.of(trees, vectors))
