"""Features of arcs and tags, and the log-linear models of them, against the plain formulas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sapwood.core.kernels.adagrad import adagrad_labels, adagrad_parts
from sapwood.dependency.kernels.arc_features import (
    ARC,
    GRAND,
    LAST,
    NONE,
    SIBLING,
    part_features,
    part_scores,
    relation_scores,
    tag_lattice,
)
from sapwood.dependency.kernels.arc_layout import BETWEEN, N_ATOMS

MASK = np.uint64((1 << 16) - 1)
HEAD, MODIFIER, THIRD = 2, 7, 12  # places of the three words of a part


@pytest.fixture(autouse=True)
def _hashes_may_overflow() -> Iterator[None]:
    with np.errstate(over="ignore"):
        yield


def templates(*rows: list[tuple[int, int]]) -> np.ndarray:
    found = np.full((len(rows), N_ATOMS, 2), -1, np.int32)
    for t, atoms in enumerate(rows):
        found[t, : len(atoms)] = atoms
    return found


# The words of both ends, what is between them; for other kinds of parts, their words.
TEMPLATES = templates(
    [(HEAD, 0), (MODIFIER, 0)], [(HEAD, 1), (MODIFIER, 1), (BETWEEN, 0)],
    [(MODIFIER, 0)], [(HEAD, 0)], [(MODIFIER, 1), (THIRD, 1)], [(HEAD, 1), (THIRD, 1)],
)  # fmt: skip
BOUNDS = np.array([0, 2, 3, 4, 5, 6], np.int32)


def words_of(tags: list[int], words: list[int]) -> np.ndarray:
    """Rows of a sentence: one before it, the root, its words, two behind."""
    rows = np.zeros((len(words) + 4, 2), np.uint64)
    rows[2 : 2 + len(words)] = np.stack([words, tags], axis=1)
    return rows


def features_of(parts: list[tuple[int, ...]], rows: np.ndarray) -> list[set[int]]:
    table = np.array(parts, np.int32)
    found, n, lengths = part_features(
        table, rows, 1, np.array([1, 1], np.int32), TEMPLATES, BOUNDS, MASK
    )
    return [
        {int(x) for x in row[:k]} | {-int(length)}
        for row, k, length in zip(found, n, lengths, strict=True)
    ]


def test_arcs_have_the_features_of_their_words_and_of_what_is_between() -> None:
    # words 1 2 3 4 5: 2 -> 4 and 7 -> 9 are alike but for the tag between them
    tags, words = [1, 2, 3, 4, 5, 1, 2, 6, 4, 5], [11, 12, 13, 14, 15, 11, 12, 13, 14, 15]
    rows = words_of(tags, words)
    one, other, back, far = features_of(
        [(ARC, 2, 4, 0), (ARC, 7, 9, 0), (ARC, 4, 2, 0), (ARC, 2, 9, 0)], rows
    )
    assert len(one) == 4  # two templates, one tag between, the length
    assert len(one & other) == 2  # the words, and the length
    assert one & back == {-2}  # another direction: another feature
    assert len(one & far) == 2  # the same words, and a tag between them
    assert -2 in one
    assert -7 in far


def test_lengths_fall_into_classes() -> None:
    rows = words_of([1] * 40, [1] * 40)
    found = features_of([(ARC, 1, 1 + n, 0) for n in (1, 6, 7, 9, 12, 16, 21, 31)], rows)
    assert [min(x) for x in found] == [-1, -6, -7, -8, -9, -10, -11, -12]


def test_every_kind_of_part_has_its_own_features() -> None:
    rows = words_of([1, 2, 3, 4], [11, 12, 13, 14])
    parts = [
        (ARC, 0, 2, 0), (LAST, 2, 3, 0), (NONE, 2, 1, 0), (SIBLING, 2, 4, 3), (SIBLING, 2, 4, 0),
        (GRAND, 3, 4, 2), (GRAND, 3, 4, 0), (GRAND, 2, 1, 3), (-1, 0, 0, 0),
    ]  # fmt: skip
    found = features_of(parts, rows)
    assert found[-1] == {0}  # a part that cannot be has none
    hashed = [{x for x in one if x > 0} for one in found[:-1]]
    assert all(hashed)
    assert all(a.isdisjoint(b) for i, a in enumerate(hashed) for b in hashed[:i])


def test_scores_are_sums_of_weights_and_steps_are_those_of_adagrad() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 1024, (5, 3)).astype(np.uint32) * np.uint32(16)
    n, lengths = np.array([3, 2, 0, 1, 3], np.int32), np.array([0, 4, 0, 2, 7], np.uint32)
    weights = rng.normal(size=1 << 14).astype(np.float32)
    expected = [
        sum(weights[f] + (weights[f ^ length] if length else 0) for f in row[:k])
        for row, k, length in zip(features, n, lengths, strict=True)
    ]
    np.testing.assert_allclose(
        part_scores(features, n, lengths, weights), expected, rtol=1e-5, atol=1e-6
    )
    residue = np.array([0.5, -0.25, 1.0, 0.00001, 0.125])
    squares, moved = np.ones_like(weights), weights.copy()
    after, rate = np.ones_like(weights), np.float32(0.1)
    for p in (0, 1, 4):
        for f in features[p, : n[p]]:
            for place in [f, f ^ lengths[p]] if lengths[p] else [f]:
                after[place] += np.float32(residue[p] ** 2)
                moved[place] += rate * np.float32(residue[p]) / np.sqrt(after[place])
    adagrad_parts(features, n, lengths, residue, weights, squares, rate)
    np.testing.assert_allclose(weights, moved, rtol=1e-5)
    np.testing.assert_allclose(squares, after, rtol=1e-6)


def test_a_lattice_has_a_path_for_every_sequence_of_tags() -> None:
    first, candidates = np.array([0, 2, 3, 6], np.int32), np.array([0, 1, 2, 0, 1, 3], np.int32)
    types = np.array([0, 2, 1], np.int32)  # two, three and one tag
    rows, base = words_of([1, 2, 3], [11, 12, 13]), np.full((3, 4), 64, np.uint32)
    starts, edges, tag, features, n_features = tag_lattice(
        types, first, candidates, rows, 0, base, MASK
    )
    assert tag.tolist() == [0, 1, 0, 1, 3, 2, -1]
    paths: list[int] = []
    for x in range(len(tag)):
        before = edges[starts[x] : starts[x + 1], 0]
        paths.append(sum(1 if y < 0 else paths[y] for y in before))
    assert paths[-1] == 2 * 3 * 1
    assert (features[:6] == 64 ^ tag[:6, None]).all()
    assert n_features.tolist() == [4] * 6 + [3] * (2 + 6 + 3)
    pairs = features[6:, :3]
    assert len({tuple(row) for row in pairs}) == len(pairs)  # each pair of tags is told apart


def test_labels_are_scored_and_followed() -> None:
    rng = np.random.default_rng(1)
    features = rng.integers(0, 20, (4, 2)).astype(np.uint32) * np.uint32(8)
    weights = rng.normal(size=200).astype(np.float32)
    rows = weights[features.astype(int)[:, :, None] + np.arange(3)]
    np.testing.assert_allclose(relation_scores(features, weights, 3), rows.sum(axis=1), rtol=1e-5)
    residue = rng.normal(size=(4, 3)).astype(np.float32)
    residue[0, 0] = 1e-5  # too little to follow
    squares, rate = np.ones_like(weights), np.float32(0.1)
    after, moved = squares.copy(), weights.copy()
    for p, k in np.ndindex(4, 3):
        for f in features[p].astype(int):
            if (p, k) != (0, 0):
                after[f + k] += residue[p, k] ** 2
                moved[f + k] += rate * residue[p, k] / np.sqrt(after[f + k])
    adagrad_labels(features, residue, weights, squares, rate)
    np.testing.assert_allclose(weights, moved, rtol=1e-5)
