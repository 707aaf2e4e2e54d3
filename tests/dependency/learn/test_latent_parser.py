"""A parser with hidden states: its posteriors are those of the sum over all trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import arc_toys

import sapwood as sw
from sapwood.core.errors import ModelFormatError
from sapwood.dependency.data.bank import UNPARSED
from sapwood.dependency.model.arc_model import ArcModel, LatentMember
from sapwood.dependency.parse.latent import arc_posteriors


@pytest.fixture(scope="module")
def model() -> ArcModel:
    return sw.LatentArcCRF(4, folds=2, passes=2).fit(arc_toys.bank(80)).model_


def with_member(model: ArcModel, trust: float, weight: float) -> ArcModel:
    assert model.latent is not None
    return replace(model, latent=LatentMember(model.latent.model, trust, weight))


@pytest.mark.parametrize(("trust", "weight"), [(1.0, 1.0), (0.0, 1.0), (3.0, 0.25)])
def test_posteriors_are_those_of_the_sum_over_all_trees(
    model: ArcModel, trust: float, weight: float
) -> None:
    assert model.latent is not None
    words = ["the", "old", "dog", "sees", "a", "cat", "."]
    plain = sw.ArcParser(replace(model, latent=None)).parse(words)
    prior = plain.posteriors.T
    arcs = np.where(prior > 0, np.where(prior > 0, prior, 1.0) ** trust, 0.0)
    bank = sw.ArcBank.of([replace(plain.arcs, heads=(UNPARSED,) * len(words), relations=())])
    seen = model.latent.model.seen.of(bank).seen
    _, sign, found = arc_posteriors(model.latent.model.arcs, seen, arcs)
    assert sign == 1
    parse = sw.ArcParser(with_member(model, trust, weight)).parse(words)
    truth = (1 - weight) * prior + weight * found
    np.testing.assert_allclose(parse.posteriors.T, truth, atol=1e-9)
    np.testing.assert_allclose(parse.posteriors.sum(axis=1), 1.0, atol=1e-9)


def test_it_parses_sentences_that_it_has_not_seen(model: ArcModel) -> None:
    gold = arc_toys.bank(100)[80:]
    parser = sw.ArcParser(model)
    right = [
        np.mean(np.array(parser.parse(tree.words).arcs.heads) == np.array(tree.heads))
        for tree in gold
    ]
    assert np.mean(right) > 0.85


def test_it_comes_back_from_its_file(model: ArcModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    words = ["the", "cat", "sings", "."]
    one, two = (sw.ArcParser(each).parse(words) for each in (model, again))
    np.testing.assert_array_equal(one.posteriors, two.posteriors)
    assert again.latent.trust == model.latent.trust  # type: ignore[union-attr]


def test_only_probabilities_are_members(model: ArcModel) -> None:
    assert model.latent is not None
    with pytest.raises(ModelFormatError, match="probabilities"):
        with_member(model, 1.0, 2.0)
    spectral = sw.SpectralDependency(2).fit(arc_toys.bank(80)).model_
    with pytest.raises(ModelFormatError, match="probabilities"):
        replace(model, latent=LatentMember(spectral, 1.0, 1.0))
