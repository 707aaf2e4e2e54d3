"""Counts of topologies against enumeration; sampled words against exact moments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2
from tests.exact_moments import moment
from tests.reference.topologies import binary_trees, projective_trees

from sapwood.core import topologies
from sapwood.core.errors import SapwoodError
from sapwood.core.topologies import n_binary_trees, n_dependency_trees, n_sides, sample_words
from sapwood.identify.model.families import FAMILIES, family_of, stationary
from sapwood.identify.model.jacobian import draw_reals

N = 40_000
UNLIKELY = 1e-6  # of a correct sampler, with fixed seeds


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_topologies_are_counted_right(n: int) -> None:
    trees = list(projective_trees(n))
    assert n_binary_trees(n) == len(binary_trees(0, n))
    assert n_dependency_trees(n) == len(trees)
    assert n_sides(n - 1) == sum(heads[0] == -1 for heads in trees)  # the first word is the root


def tables(name: str, seed: int) -> dict[str, np.ndarray]:
    drawn = draw_reals(family_of(name).tables(3, 2), np.random.default_rng(seed))
    if name == "dep-ies":
        drawn["root"] = np.asarray(stationary(drawn["argument"]))
    return drawn


def chance(name: str, length: int, seed: int) -> float:
    """How likely counts at least that far from the exact probabilities are."""
    drawn = tables(name, seed)
    rows = sample_words(name, drawn, N, length, np.random.default_rng(seed + 100))
    expected = N * moment(family_of(name), drawn, length, tuple(range(1, length + 1))).ravel()
    code = rows @ 3 ** np.arange(length - 1, -1, -1)
    found = np.bincount(code, minlength=3**length)
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), 3**length - 1))


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_words_have_their_exact_distribution(name: str, length: int) -> None:
    assert chance(name, length, seed=4) > UNLIKELY


@pytest.mark.parametrize("name", ["pcfg-i", "dep-i"])
def test_a_sampler_of_other_trees_is_rejected(monkeypatch, name: str) -> None:
    """Every split as likely as every other is not every tree as likely as every other."""
    real = topologies._splits

    def even(first, second, length, *, least):
        flat = [[int(count > 0) for count in counts] for counts in (first, second)]
        return real(*flat, length, least=least)

    monkeypatch.setattr(topologies, "_splits", even)
    assert chance(name, 5, seed=4) < UNLIKELY


def test_longer_sentences_have_words_everywhere() -> None:
    for name in FAMILIES:
        rows = sample_words(name, tables(name, 0), 50, 12, np.random.default_rng(0))
        assert rows.shape == (50, 12)
        assert set(np.unique(rows)) <= {0, 1, 2}


def test_the_same_seed_draws_the_same_words() -> None:
    drawn = tables("pcfg", 1)
    one, two, three = (
        sample_words("pcfg", drawn, 100, 5, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != three).any()


def test_no_sentences_are_no_sentences() -> None:
    for name in FAMILIES:
        rows = sample_words(name, tables(name, 0), 0, 3, np.random.default_rng(0))
        assert rows.shape == (0, 3)


def test_what_cannot_be_drawn_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(SapwoodError, match="unknown model family"):
        sample_words("pcfg-x", tables("pcfg", 0), 1, 3, rng)
    with pytest.raises(SapwoodError, match="at least one word"):
        sample_words("pcfg", tables("pcfg", 0), 1, 0, rng)
    with pytest.raises(SapwoodError, match="left and right"):
        sample_words("dep-ie", {"root": np.ones(1)}, 1, 3, rng)
