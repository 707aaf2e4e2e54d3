"""`UniformTreeModel` and the kernels behind it, against enumeration of all trees.

`SentenceCounts` is a commutative monoid, and its moments do not depend on shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.topologies import (
    binary_trees,
    constituency_weight,
    dependency_weight,
    projective_trees,
)

import sapwood as sw
from sapwood.core import model_files as kinds
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformCounts, UniformTreeModel

Tables = dict[str, np.ndarray]
STEP = 1e-30  # imaginary: derivatives without differences


def columns(rng: np.random.Generator, rows: int, n: int, *, zeros: bool) -> np.ndarray:
    table = rng.dirichlet(np.ones(rows), n).T
    if zeros:
        table[table < 0.2] = 0.0
        table[0, table.sum(axis=0) == 0] = 1.0
    return table / table.sum(axis=0)


def drawn(family: str, seed: int, *, zeros: bool) -> Tables:
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    if family == "dep-ies":
        argument = columns(rng, d, d, zeros=zeros)
        return {"root": columns(rng, d, 1, zeros=zeros)[:, 0], "argument": argument}
    return {
        "root": columns(rng, k, 1, zeros=zeros)[:, 0],
        "child": columns(rng, k, k, zeros=zeros),
        "words": columns(rng, d, k, zeros=zeros),
    }


def slow_probability(family: str, tables: Tables, row: tuple[int, ...]) -> complex:
    """The mean over all trees, one by one."""
    if family == "dep-ies":
        trees = list(projective_trees(len(row)))
        root, argument = tables["root"].tolist(), tables["argument"].tolist()
        weights = (dependency_weight(tree, row, root, argument, argument) for tree in trees)
        return sum(weights) / len(trees)
    child, words = tables["child"].tolist(), tables["words"].tolist()
    trees = binary_trees(0, len(row))
    total = sum(
        weight * constituency_weight(tree, row, a, lambda a, b, c: child[b][a] * child[c][a], words)
        for tree in trees
        for a, weight in enumerate(tables["root"].tolist())
    )
    return total / len(trees)


def slow_counts(family: str, tables: Tables, row: tuple[int, ...]) -> Tables:
    """Expected counts: each entry times the derivative of the log-probability in it."""
    out = {name: np.zeros(table.shape) for name, table in tables.items()}
    total = slow_probability(family, tables, row)
    for name, table in tables.items():
        for place in np.ndindex(table.shape):
            moved = {key: value.astype(complex) for key, value in tables.items()}
            moved[name][place] += 1j * STEP
            slope = complex(slow_probability(family, moved, row)).imag / STEP
            out[name][place] = table[place] * slope / total
    return out


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 4), zeros=st.booleans())
def test_probabilities_and_counts_are_those_of_all_trees(
    family: str, seed: int, length: int, zeros: bool
) -> None:
    tables = drawn(family, seed, zeros=zeros)
    d = len(tables["words" if family == "pcfg-ie" else "argument"])
    model = UniformTreeModel(family, tuple(map(str, range(d))), tables)
    row = tuple(np.random.default_rng(seed + 1).integers(0, d, length).tolist())
    counts, logs = model.expect(np.array([row]), np.array([2.0]))
    total = slow_probability(family, tables, row)
    np.testing.assert_allclose(np.exp(logs[0]), total, rtol=1e-12, atol=0)
    slow = slow_counts(family, tables, row) if total > 0 else {}
    for name, table in counts.items():
        expected = 2 * slow[name] if total > 0 else np.zeros(table.shape)
        np.testing.assert_allclose(table, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_all_sentences_of_a_length_add_up_to_one(family: str, length: int) -> None:
    tables = drawn(family, 12, zeros=False)
    d = len(tables["words" if family == "pcfg-ie" else "argument"])
    model = UniformTreeModel(family, tuple(map(str, range(d))), tables)
    rows = np.array(list(product(range(d), repeat=length)))
    _, logs = model.expect(rows, np.ones(len(rows)))
    np.testing.assert_allclose(np.exp(logs).sum(), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_long_sentences_do_not_underflow(family: str) -> None:
    tables = drawn(family, 5, zeros=False)
    d = len(tables["words" if family == "pcfg-ie" else "argument"])
    model = UniformTreeModel(family, tuple(map(str, range(d))), tables)
    counts, logs = model.expect(np.zeros((1, 60), dtype=np.int64), np.ones(1))
    assert np.isfinite(logs).all()
    assert counts["root"].sum() == pytest.approx(1, rel=1e-9)
    arcs = {"pcfg-ie": ("child", 2 * 59), "dep-ies": ("argument", 59)}[family]
    assert counts[arcs[0]].sum() == pytest.approx(arcs[1], rel=1e-9)


def test_expected_counts_add_up_over_shards() -> None:
    tables = drawn("pcfg-ie", 3, zeros=False)
    d = len(tables["words"])
    model = UniformTreeModel("pcfg-ie", tuple(map(str, range(d))), tables)
    rng = np.random.default_rng(0)
    rows = [SentenceCounts.of_rows(rng.integers(0, d, (50, n)), d) for n in (2, 3)]
    sentences = rows[0] + rows[1]
    whole = UniformCounts.of(sentences, model)
    parts = [UniformCounts.of(shard, model) for shard in sentences.shards(3)]
    joined = sum(parts, start=UniformCounts.zero(model))
    assert joined.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    for name, table in whole.tables.items():
        np.testing.assert_allclose(joined.tables[name], table, rtol=1e-12)


def test_impossible_sentences_are_counted_apart() -> None:
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    model = UniformTreeModel("dep-ies", ("a", "b"), {"root": np.full(2, 0.5), "argument": swap})
    sentences = SentenceCounts.of([[0, 0], [0, 1], [0, 0], [0, 1], [0, 0]], 2)
    counts = UniformCounts.of(sentences, model)
    assert counts.n_impossible == 3
    assert counts.log_likelihood == pytest.approx(2 * np.log(0.5))


def test_samples_are_sentences_of_the_lengths_asked_for() -> None:
    tables = drawn("pcfg-ie", 1, zeros=False)
    names = tuple("abcdef"[: len(tables["words"])])
    model = UniformTreeModel("pcfg-ie", names, tables)
    drawn_words = model.sample([3, 1, 5], seed=3)
    assert [len(words) for words in drawn_words] == [3, 1, 5]
    assert np.isfinite(model.log_probs(drawn_words)).all()
    assert model.log_probs([["never-seen"], []]).tolist() == [-np.inf, -np.inf]


def test_tables_must_be_distributions_of_the_family() -> None:
    half = np.full((2, 2), 0.5)
    with pytest.raises(SapwoodError, match="must be distributions"):
        UniformTreeModel("dep-ies", ("a", "b"), {"root": half[0], "argument": half + 0.1})
    with pytest.raises(SapwoodError, match="must be distributions"):
        UniformTreeModel("dep-ies", ("a", "b"), {"root": np.array([1.5, -0.5]), "argument": half})
    with pytest.raises(SapwoodError, match="3 words named"):
        UniformTreeModel("dep-ies", ("a", "b", "c"), {"root": half[0], "argument": half})
    with pytest.raises(SapwoodError, match="pcfg-ie: tables"):
        UniformTreeModel("pcfg-ie", ("a", "b"), {"root": half[0], "argument": half})


# -- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_a_saved_model_comes_back_the_same(family: str, tmp_path: Path) -> None:
    tables = drawn(family, 3, zeros=True)
    words = tuple(f"w{x}" for x in range(len(list(tables.values())[-1])))
    model, path = UniformTreeModel(family, words, tables), tmp_path / "model.sapwood"
    model.save(path)
    again = sw.load(path)
    assert type(again) is UniformTreeModel
    assert (again.family, again.vocabulary) == (family, words)
    assert list(again.tables) == list(tables)
    for name, table in tables.items():
        assert again.tables[name].tobytes() == table.tobytes()
    sentences = model.sample([1, 2, 3, 4], seed=0)
    np.testing.assert_array_equal(again.log_probs(sentences), model.log_probs(sentences))


DAMAGE: dict[str, Callable[[Tables, dict[str, Any]], Any]] = {
    "no family": lambda tables, header: header.pop("family"),
    "another family": lambda tables, header: header.update(family="dep-i"),
    "family no string": lambda tables, header: header.update(family=["pcfg-ie"]),
    "a word too few": lambda tables, header: header["vocabulary"].pop(),
    "word no string": lambda tables, header: header["vocabulary"].__setitem__(0, 7),
    "no table": lambda tables, header: tables.pop("child"),
    "single precision": lambda tables, header: tables.update(root=tables["root"].astype("f4")),
    "another axis": lambda tables, header: tables.update(words=tables["words"][:, :, None]),
    "no distribution": lambda tables, header: tables.update(child=tables["child"] * 2),
    "not a number": lambda tables, header: tables.update(root=tables["root"] * np.nan),
    "a state too many": lambda tables, header: tables.update(root=np.full(4, 0.25)),
    "not square": lambda tables, header: tables.update(child=np.full((2, 3), 0.5)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    tables = {"root": np.full(3, 1 / 3), "child": np.eye(3), "words": np.full((2, 3), 0.5)}
    path = tmp_path / "model.sapwood"
    header: dict[str, Any] = {"family": "pcfg-ie", "vocabulary": ["a", "b"]}
    DAMAGE[damage](tables, header)
    said = {"format": 1, "kind": "UniformTreeModel", "sha256": kinds.digest_of(tables, header)}
    kinds.write_atomically(path, tables, said | {"model": header})
    with pytest.raises(ModelFormatError, match="not a valid model"):
        sw.load(path)


# -- counts of sentences

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
    np.testing.assert_allclose(counts.contract(4, pair, third, eta), whole, atol=1e-15)


def test_sentences_too_many_to_number_are_counted_all_the_same() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (50, 30)) * 900
    many = SentenceCounts.of_rows(np.concatenate([rows, rows]), 1000)
    assert 1000**30 > 2**62
    assert as_dict(many) == dict(Counter(map(tuple, rows.tolist() * 2)))


def test_lengths_can_be_left_out() -> None:
    counts = SentenceCounts.of([[0], [0, 1], [0, 1, 2], [1, 1, 1, 1]], D)
    assert counts.up_to(3, least=2).lengths == [2, 3]
    assert counts.n_sentences(7) == 0
