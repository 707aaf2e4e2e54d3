"""Eigenwords: against dense linear algebra, on words that must be alike, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.errors import CorpusError, SapwoodError
from sapwood.estimators import eigenwords
from sapwood.estimators.arcs.observe import choose_vocabulary
from sapwood.moments.contexts import ContextCounts, WordCounts

Array = np.ndarray


def text(n: int = 2000) -> list[list[str]]:
    """Two kinds of sentences; a rare animal, and things of a shape that are seen once each."""
    rng = np.random.default_rng(4)
    animals, things = ["dog", "cat", "cow"], ["car", "bus", "van"]
    out = []
    for number in range(n):
        noun, verb = ((animals, ["eats", "sleeps"]), (things, ["drives", "stops"]))[number % 2]
        chosen = str(rng.choice(noun)) if number % 40 else "yak"
        place = (["here", "there"], ["now", "soon"])[number % 2]
        out.append(
            [("the", "a")[number % 2], chosen, str(rng.choice(verb)), str(rng.choice(place))]
        )
        if number % 50 == 1:
            out[-1][1] = f"x{number}mobile"
    return out


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
    known = choose_vocabulary(WordCounts.of(sentences).counts, 5, "generic")
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


def test_bigrams_by_hand() -> None:
    model = sw.WordEmbedding(2, method="bigram", power=1.0).fit(text()).model_
    u, s, _ = np.linalg.svd(pairs(counts_of(text(), 1), 1.0)[0])
    np.testing.assert_allclose(model.strengths, s[:2], rtol=1e-4)
    same_up_to_signs(model.vectors, u[:, :2])


@pytest.mark.parametrize("method", eigenwords.METHODS)
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
