"""Vectors of words: against dense linear algebra, and on text with known states."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.constituency.learn.embedding_text import text

import sapwood as sw
from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError
from sapwood.corpora.vocabulary import Vocabulary, choose_vocabulary
from sapwood.lm.learn import eigenwords
from sapwood.lm.learn.eigenwords import ContextCounts, count_vocabulary

Array = np.ndarray


def chain() -> list[list[str]]:
    """Words that depend on the one before, no two alike."""
    rng = np.random.default_rng(0)
    steps = rng.dirichlet(np.full(6, 0.5), 6)
    out = []
    for _ in range(400):
        words = [int(rng.integers(6))]
        while len(words) < 7:
            words.append(int(rng.choice(6, p=steps[words[-1]])))
        out.append(["abcdef"[x] for x in words])
    return out


def counts_of(sentences: list[list[str]], n: int) -> ContextCounts:
    known = choose_vocabulary(count_vocabulary(sentences), 5, "generic")
    return ContextCounts.of(sentences, known, n)


def pairs(counts: ContextCounts, power: float) -> list[Array]:
    return [each.toarray() ** power for each in counts.pairs]


def same_up_to_signs(found: Array, truth: Array) -> None:
    signs = np.sign((found * truth).sum(axis=0))
    np.testing.assert_allclose(found * signs, truth, rtol=2e-3, atol=2e-3 * np.abs(truth).max())


def test_one_step_by_hand() -> None:
    """Singular vectors of the whitened counts, each row divided by the root of its count."""
    model = sw.WordEmbedding(3).fit(text()).model_
    counts = counts_of(text(), 2)
    context = np.hstack([*(p.T for p in pairs(counts, 0.5)), *pairs(counts, 0.5)])
    words = np.maximum(counts.words, 1e-300) ** 0.5
    inverse = np.where(counts.words > 0, words**-0.5, 0.0)
    left, values, _ = np.linalg.svd(inverse[:, None] * context * np.tile(inverse, 4))
    same_up_to_signs(model.vectors, inverse[:, None] * left[:, :3])
    np.testing.assert_allclose(model.strengths, values[:3], rtol=1e-4)


def test_two_steps_by_hand() -> None:
    """The first step: left and right neighbours, i and j places away, are i + j apart."""
    model = sw.WordEmbedding(2, method="two-step", power=1.0).fit(chain()).model_
    counts = counts_of(chain(), 4)
    n = pairs(counts, 1.0)
    both = np.block([[n[1], n[2]], [n[2], n[3]]])
    inverse = np.where(counts.words > 0, np.maximum(counts.words, 1e-300) ** -0.5, 0.0)
    scale = np.tile(inverse, 2)
    left, _, right = np.linalg.svd(scale[:, None] * both * scale)
    phi, psi = scale[:, None] * left[:, :2], scale[:, None] * right[:2].T
    states = np.hstack([np.hstack([n[0].T, n[1].T]) @ phi, np.hstack([n[0], n[1]]) @ psi])
    words = np.diag(counts.words)
    # the two neighbours on one side are one apart: the nearer one comes behind on the left
    sides = [np.block([[words, n[0].T], [n[0], words]]), np.block([[words, n[0]], [n[0].T, words]])]
    second = np.block([
        [phi.T @ sides[0] @ phi, phi.T @ both @ psi],
        [(phi.T @ both @ psi).T, psi.T @ sides[1] @ psi],
    ])  # fmt: skip
    values, axes = np.linalg.eigh(second + 1e-6 * np.trace(second) / 4 * np.eye(4))
    white = (axes * values**-0.5) @ axes.T
    u, s, _ = np.linalg.svd(inverse[:, None] * states @ white)
    np.testing.assert_allclose(model.strengths, s[:2], rtol=1e-4)
    same_up_to_signs(model.vectors, inverse[:, None] * u[:, :2])


def slow_smooths(rows: Array, A: Array) -> tuple[Array, Array]:  # noqa: N803
    """By the sum that a smooth is: rate (1 - rate)^d for the word d places further away."""
    sides = [[], []]
    for t in range(len(rows)):
        for side, others in zip(sides, (rows[:t][::-1], rows[t + 1 :]), strict=True):
            parts = [sum((rate * (1 - rate) ** d * A[x] for d, x in enumerate(others)),
                         np.zeros(A.shape[1])) for rate in eigenwords.RATES]  # fmt: skip
            side.append(np.concatenate(parts))
    left, right = map(np.array, sides)
    return left, right


def dense_cca(cross: Array, one: Array, other: Array, k: int) -> tuple[Array, Array, Array]:
    """Whiten both views, with the ridge, and take singular vectors."""
    whites = []
    for moment in (one, other):
        values, axes = np.linalg.eigh(moment + 1e-6 * np.trace(moment) / len(moment) * np.eye(
            len(moment)))  # fmt: skip
        whites.append((axes * np.maximum(values, 1e-300) ** -0.5) @ axes.T)
    u, s, v = np.linalg.svd(whites[0] @ cross @ whites[1])
    return whites[0] @ u[:, :k], whites[1] @ v[:k].T, s[:k]


def slow_lr_mvl(sentences: list[Array], start: Array, iterations: int) -> tuple[Array, Array]:
    """LR-MVL place by place, with every smooth, state and word as a dense row of one big table."""
    n, k = start.shape
    words = np.eye(n)[np.concatenate(sentences)]
    mean = words.mean(axis=0)
    A, s = start - mean @ start, np.ones(k)  # noqa: N806
    for _ in range(iterations):
        smoothed = [slow_smooths(rows, A) for rows in sentences]
        L, R = (np.vstack(side) for side in zip(*smoothed, strict=True))  # noqa: N806
        left, right, _ = dense_cca(L.T @ R, L.T @ L, R.T @ R, k)
        S = np.hstack([L @ left, R @ right])  # noqa: N806
        A, _, s = dense_cca(words.T @ S, words.T @ words, S.T @ S, k)  # noqa: N806
        A = np.sqrt(len(words)) * A  # noqa: N806
        A = A - mean @ A  # noqa: N806
    return A, s


@pytest.mark.parametrize("iterations", [1, 3])
def test_lr_mvl_by_hand(iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenwords, "SMOOTHS_AT_ONCE", 120)  # a few sentences at a time
    monkeypatch.setattr(eigenwords, "SHARD_LINES", 17)
    lines = chain()[:90]
    model = sw.WordEmbedding(2, method="lr-mvl", iterations=iterations).fit(lines).model_
    sentences = [model.vocabulary.rows(words) for words in lines]
    start = np.random.default_rng(0).standard_normal((len(model.vocabulary), 2))
    vectors, strengths = slow_lr_mvl(sentences, start, iterations)
    np.testing.assert_allclose(model.strengths, strengths, rtol=1e-4)
    same_up_to_signs(model.vectors[:6], vectors[:6])  # the class of unknown words never occurs
    # contexts are smooths of the vectors that the model has, not of those before the last step
    smoothed = [slow_smooths(rows, model.vectors.astype(float)) for rows in sentences]
    left, right = (np.vstack(side) for side in zip(*smoothed, strict=True))
    maps = dense_cca(left.T @ right, left.T @ left, right.T @ right, 2)
    scale = np.sqrt(len(left))
    states = np.hstack([scale * left @ maps[0], scale * right @ maps[1]])
    found = np.vstack([model.in_context(words)[:, 2:] for words in lines])
    same_up_to_signs(found, states)
    # the nearest word alone is another method
    monkeypatch.setattr(eigenwords, "RATES", (1.0,))
    other = sw.WordEmbedding(2, method="lr-mvl", iterations=iterations).fit(lines).model_
    assert np.abs(other.strengths - strengths).max() > 1e-3


def test_long_sentences_are_smoothed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the text, or with its longest sentence."""
    sizes = []

    def recorded(vectors, offsets, rates, *, real=eigenwords.smooth_contexts):
        sizes.append(vectors.size * len(rates))
        return real(vectors, offsets, rates)

    monkeypatch.setattr(eigenwords, "SMOOTHS_AT_ONCE", 600)
    monkeypatch.setattr(eigenwords, "smooth_contexts", recorded)
    long = [[word for words in chain() for word in words]]
    sw.WordEmbedding(2, method="lr-mvl", iterations=1).fit(long)
    assert max(sizes) <= 600
    assert sum(sizes) == 2 * 6 * len(long[0])  # two passes, two numbers for each of three rates


def hidden_text(n: int) -> tuple[list[list[str]], list[list[int]]]:
    """Sentences of a hidden Markov model with sticky states, and the states of their words.

    All states show all words; word w belongs to state w % 4, which shows it four times as often.
    """
    rng, k, n_words = np.random.default_rng(0), 4, 60
    steps = np.full((k, k), 0.1 / (k - 1))
    np.fill_diagonal(steps, 0.9)
    shows = np.where(np.arange(n_words) % k == np.arange(k)[:, None], 4.0, 1.0)
    shows = shows / np.arange(1, n_words + 1)
    shows /= shows.sum(axis=1, keepdims=True)
    h = rng.integers(k, size=n)
    words, states = [], []
    for _ in range(20):
        states.append(h)
        words.append([int(rng.choice(n_words, p=shows[x])) for x in h])
        h = np.array([rng.choice(k, p=steps[x]) for x in h])
    lines = [[f"w{x}" for x in line] for line in np.array(words).T.tolist()]
    return lines, np.array(states).T.tolist()


def test_lr_mvl_finds_hidden_states_better_than_one_step() -> None:
    """Where states last, all words on a side tell more of them than the two nearest."""
    lines, states = hidden_text(300)
    found = {}
    for method in ("cca", "lr-mvl"):
        model = sw.WordEmbedding(4, method=method, min_count=1).fit(lines).model_
        same = [int(model.nearest(w, 1)[0].word[1:]) % 4 == int(w[1:]) % 4
                for w in model.vocabulary.words]  # fmt: skip
        found[method] = np.mean(same)
    assert found["lr-mvl"] > found["cca"]
    assert found["lr-mvl"] > 0.5  # chance is one of four
    # and a word in its context tells its own state better than the word alone
    rows, truth = np.vstack([model.in_context(line) for line in lines]), np.concatenate(states)
    half, right = len(rows) // 2, []
    for columns in (rows[:, :4], rows):
        table = np.hstack([columns, np.ones((len(rows), 1))])
        solved = np.linalg.lstsq(table[:half], np.eye(4)[truth[:half]], rcond=None)[0]
        right.append(np.mean((table[half:] @ solved).argmax(axis=1) == truth[half:]))
    assert right[1] > right[0] + 0.03
    with pytest.raises(SapwoodError, match="nothing of contexts"):
        sw.WordEmbedding(4, min_count=1).fit(lines).model_.in_context(["w1"])


def test_contexts_come_back_from_a_file(tmp_path: Path) -> None:
    model = sw.WordEmbedding(2, method="lr-mvl", iterations=2).fit(chain()).model_
    model.save(tmp_path / "u.sapwood")
    again = sw.load(tmp_path / "u.sapwood")
    np.testing.assert_array_equal(again.in_context(["a", "b"]), model.in_context(["a", "b"]))
    with pytest.raises(ModelFormatError, match="left is of shape"):
        replace(model, context=model.context._replace(left=model.context.left[:1]))


def test_bigrams_by_hand() -> None:
    model = sw.WordEmbedding(2, method="bigram", power=1.0).fit(text()).model_
    u, s, _ = np.linalg.svd(pairs(counts_of(text(), 1), 1.0)[0])
    np.testing.assert_allclose(model.strengths, s[:2], rtol=1e-4)
    same_up_to_signs(model.vectors, u[:, :2])


@pytest.mark.parametrize("method", ["cca", "two-step", "bigram", "lr-mvl"])
def test_words_are_near_their_like(method: str) -> None:
    model = sw.WordEmbedding(4, method=method).fit(text()).model_
    assert {x.word for x in model.nearest("dog", 2)} <= {"cat", "cow", "yak"}
    assert {x.word for x in model.nearest("bus", 2)} == {"car", "van"}
    assert model.nearest("drives", 1)[0].word == "stops"


def test_unknown_words_have_the_vector_of_their_shape() -> None:
    """Words like x17mobile were seen with verbs of things only."""
    model = sw.WordEmbedding(4).fit(text()).model_
    assert not model.knows("x99mobile")
    assert {x.word for x in model.nearest("x99mobile", 3)} == {"car", "bus", "van"}
    np.testing.assert_array_equal(model.of(["x99mobile"]), model.of(["x7mobile"]))


def test_text_comes_from_files_of_all_kinds(tmp_path: Path) -> None:
    lines = "".join(" ".join(words) + "\n" for words in text(200))
    (tmp_path / "one.txt").write_text(lines)
    with gzip.open(tmp_path / "two.txt.gz", "wt") as file:
        file.write(lines)
    twice = sw.WordEmbedding(3).fit(text(200) * 2).model_
    for source in (tmp_path, [tmp_path / "one.txt", tmp_path / "two.txt.gz"]):
        found = sw.WordEmbedding(3).fit(source).model_
        np.testing.assert_array_equal(found.vectors, twice.vectors)


def test_shards_and_jobs_change_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenwords, "SHARD_LINES", 60)
    one, two = (sw.WordEmbedding(3, n_jobs=jobs).fit(text(200)).model_ for jobs in (1, 3))
    np.testing.assert_array_equal(one.vectors, two.vectors)


def test_what_cannot_be_embedded_is_said(tmp_path: Path) -> None:
    with pytest.raises(SapwoodError, match="at most"):
        sw.WordEmbedding(500).fit(text(50))
    with pytest.raises(SapwoodError, match="two words"):
        sw.WordEmbedding(1).fit([["a"], ["b"]])
    trees = tmp_path / "trees.txt"
    trees.write_text("(S (NP (NN dogs)) (VP (VB bark)))\n" * 30)
    with pytest.raises(CorpusError, match="bracketed trees"):
        sw.WordEmbedding(1).fit(trees)


KNOWN = Vocabulary(("a", "b", "c"), ("<unk-lower>", "<unk>"), "generic")
TEXT = [["a", "b", "c", "a"], ["A", "zz"], ["c"], ["b", "?", "b", "b", "a"]]


def test_pairs_are_those_of_a_loop() -> None:
    counts = ContextCounts.of(TEXT, KNOWN, 3)
    rows = [KNOWN.rows(words) for words in TEXT]
    for distance, pairs in enumerate(counts.pairs, 1):
        truth = np.zeros((len(KNOWN), len(KNOWN)))
        for row in rows:
            for x, y in zip(row[:-distance], row[distance:], strict=True):
                truth[x, y] += 1
        np.testing.assert_array_equal(pairs.toarray(), truth)
    np.testing.assert_array_equal(counts.words, np.bincount(np.concatenate(rows), minlength=5))
    assert counts.n_sentences == 4


def test_shards_add_up() -> None:
    whole = ContextCounts.of(TEXT, KNOWN, 2)
    parts = ContextCounts.of(TEXT[:1], KNOWN, 2) + ContextCounts.of(TEXT[1:], KNOWN, 2)
    for a, b in zip(whole.pairs, (parts + ContextCounts.zero(5, 2)).pairs, strict=True):
        np.testing.assert_array_equal(a.toarray(), b.toarray())
    assert count_vocabulary(TEXT[:2]) + count_vocabulary(TEXT[2:]) == count_vocabulary(TEXT)


def test_first_words_are_counted_apart() -> None:
    counts = count_vocabulary(TEXT)
    assert counts["b", True] == 1
    assert counts["b", False] == 3
