"""Sample sizes of Theorem 8: the formula, and how it moves with its inputs."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from tests.linalg.exact_spectral import observable_form
from tests.theorems.spectral_toys import SYMBOLS, WORDS, moments, random_lpcfg, sampled_error, sums
from tests.toys import Toy, random_toy

from sapwood.cli.identify import CAVEATS
from sapwood.constituency.data.treebank import bundled_treebank
from sapwood.constituency.evaluate.sample_bounds import (
    BoundInputs,
    hidden_constants,
    sample_bounds,
)
from sapwood.constituency.grammar.from_text import bundled_grammar
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.core.errors import SapwoodError

# with 10 labels, L = log((2 * 10 + 1) / delta) = 5
INPUTS = BoundInputs(
    n_states=2, n_phrases=4, n_tags=6, n_words=100, n_binary=3, epsilon=0.5,
    delta=21 * float(np.exp(-5)), sigma=0.5, xi=0.5, gamma=0.25,
)  # fmt: skip
SIZES = ("phrase_nodes", "tag_nodes", "phrase_nodes_svd", "tag_nodes_svd", "roots")


def test_worked_by_hand() -> None:
    # L N^2 m^2 / epsilon^2 = 5 * 9 * 4 * 4 = 720; gamma^2 xi^4 = 1 / 256; sigma^2 = 1 / 4
    found = sample_bounds(INPUTS)
    assert found.phrase_nodes == pytest.approx(720 * 256 * 16)
    assert found.tag_nodes == pytest.approx(720 * 100 * 16)
    assert found.phrase_nodes_svd == pytest.approx(720 * 256 * 4)
    assert found.tag_nodes_svd == pytest.approx(720 * 4)
    assert found.roots == pytest.approx(720 * 2 * 4)
    assert found.trees == pytest.approx(
        4 * 720 * 256 * 16 + 6 * 720 * 100 * 16 + 4 * 720 * 256 * 4 + 6 * 720 * 4
    )


def test_roots_count_when_they_are_the_most() -> None:
    found = sample_bounds(replace(INPUTS, sigma=1.0, xi=1.0, gamma=1.0, n_words=1, n_states=64))
    assert found.roots > 4 * found.phrase_nodes + 6 * found.tag_nodes
    assert found.trees == found.roots + 4 * found.phrase_nodes_svd + 6 * found.tag_nodes_svd


# the power with which N_a, N_a (tags), M_a, M_a (tags) and R depend on an input
POWERS = {
    "epsilon": (-2, -2, -2, -2, -2),
    "n_binary": (2, 2, 2, 2, 2),
    "n_states": (2, 2, 2, 2, 3),
    "n_words": (0, 1, 0, 0, 0),
    "sigma": (-4, -4, -2, -2, -2),
    "xi": (-4, 0, -4, 0, 0),
    "gamma": (-2, 0, -2, 0, 0),
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_of_the_formula(name: str) -> None:
    before = sample_bounds(INPUTS)
    after = sample_bounds(replace(INPUTS, **{name: 2 * getattr(INPUTS, name)}))
    for size, power in zip(SIZES, POWERS[name], strict=True):
        assert getattr(after, size) == pytest.approx(2.0**power * getattr(before, size)), size


def test_labels_and_confidence_count_by_their_logarithm() -> None:
    surer = sample_bounds(replace(INPUTS, delta=INPUTS.delta / 10))
    more = sample_bounds(replace(INPUTS, n_tags=106))
    for size in SIZES:
        of_five = getattr(sample_bounds(INPUTS), size) / 5
        assert getattr(surer, size) == pytest.approx((5 + log(10)) * of_five)
        assert getattr(more, size) == pytest.approx((5 + log(221 / 21)) * of_five)


def test_each_constant_scales_its_own_size() -> None:
    scaled = sample_bounds(INPUTS, (2.0, 3.0, 5.0, 7.0, 11.0))
    plain = sample_bounds(INPUTS)
    factors = [getattr(scaled, size) / getattr(plain, size) for size in SIZES]
    assert factors == pytest.approx([2, 3, 5, 7, 11])


@pytest.mark.parametrize("name", ["sigma", "xi", "gamma"])
def test_zero_promises_nothing(name: str) -> None:
    found = sample_bounds(replace(INPUTS, **{name: 0.0}))
    assert found.trees == inf


@pytest.mark.parametrize(
    ("name", "value"),
    [("delta", 0.0), ("delta", 1.0), ("epsilon", 0.0), ("sigma", -0.1), ("n_states", 0),
     ("n_binary", 0), ("xi", float("nan"))],
)  # fmt: skip
def test_inputs_are_checked(name: str, value: float) -> None:
    with pytest.raises(SapwoodError, match=name):
        replace(INPUTS, **{name: value})


# -- constants of the hidden model ------------------------------------------------------------


def listed_features(toy: Toy, a: int, depth: int) -> np.ndarray:
    """I[a] with its features one by one: trees of so many rules, [d, m]."""
    if depth == 0:
        return np.ones((1, toy.n_states[a]))
    if a >= toy.n_phrases:
        return np.array([row[a] for row in toy.words.values() if a in row])
    rows = []
    for (parent, b, c), tensor in toy.rules.items():
        if parent == a:
            below = listed_features(toy, b, depth - 1), listed_features(toy, c, depth - 1)
            rows.append(np.einsum("hpq,ip,jq->ijh", tensor, *below).reshape(-1, len(tensor)))
    return np.concatenate(rows)


@pytest.mark.parametrize("depth", [1, 2])
def test_xi_is_a_singular_value_of_listed_features(depth: int) -> None:
    toy = random_toy(np.random.default_rng(3), n_states=2, density=0.9, n_words=5).normalised()
    found = hidden_constants(toy.grammar(is_probabilistic=True), depth=depth)
    values = [
        np.linalg.svd(listed_features(toy, a, depth), compute_uv=False)[m - 1]
        for a, m in enumerate(toy.n_states)
    ]
    # eigenvalues of a Gram matrix know singular values to about the root of 1e-16
    np.testing.assert_allclose(list(found.by_label.values()), values, rtol=1e-6)
    assert found.xi == min(found.by_label.values())


def test_gamma_is_the_rarest_step() -> None:
    toy = random_toy(np.random.default_rng(0), n_states=2).normalised()
    tensor = next(iter(toy.rules.values()))
    found = hidden_constants(toy.grammar(is_probabilistic=True))
    assert found.gamma == min(t.min() for t in toy.rules.values())
    assert found.n_impossible == 0
    tensor[0, 0, 1], tensor[0, 0, 0] = 0.0, tensor[0, 0, 0] + tensor[0, 0, 1]
    assert hidden_constants(toy.grammar(is_probabilistic=True)).n_impossible == 1


def test_states_that_are_alike_have_no_xi() -> None:
    toy = random_lpcfg(0, 2)
    # both states of T3 emit the same words
    words = {x: row | {3: np.full(2, row[3].mean())} for x, row in toy.words.items()}
    found = hidden_constants(replace(toy, words=words).grammar(is_probabilistic=True))
    assert found.xi == 0.0
    assert found.indistinct == ("T3",)


def test_the_bundled_grammar_has_states_alike() -> None:
    found = hidden_constants(bundled_grammar(), depth=3)
    assert found.indistinct == ("TO",)
    assert found.xi == 0.0
    assert found.gamma > 0 < found.n_impossible


def listed_contexts(toy: Toy, a: int) -> np.ndarray:
    """J[a] D[a] with its features one by one: the root, and each rule above and side, [d', m]."""
    roots = [toy.root.get(b, np.zeros(m)) for b, m in enumerate(toy.n_states)]
    visits = roots
    for _ in range(300):  # trees of the toy end: few rules branch further
        new = list(roots)
        for (parent, b, c), tensor in toy.rules.items():
            below = np.tensordot(visits[parent], tensor, axes=1)
            new[b] = new[b] + below.sum(axis=1)
            new[c] = new[c] + below.sum(axis=0)
        visits = new
    rows = [roots[a]]
    for (parent, b, c), tensor in toy.rules.items():
        below = np.tensordot(visits[parent], tensor, axes=1)
        rows += [below.sum(axis=1)] if b == a else []
        rows += [below.sum(axis=0)] if c == a else []
    return np.array(rows) / visits[a].sum()


def test_sigma_is_a_singular_value_of_listed_features() -> None:
    toy = random_toy(np.random.default_rng(3), n_phrases=2, n_tags=3, n_states=2, n_words=5)
    rules = {r: t * (0.1 if min(r[1:]) < 2 else 1.0) for r, t in toy.rules.items()}
    toy = replace(toy, rules=rules).normalised()
    found = hidden_constants(toy.grammar(is_probabilistic=True))
    values = [
        np.linalg.svd(listed_features(toy, a, 1) @ listed_contexts(toy, a).T, compute_uv=False)[
            m - 1
        ]
        for a, m in enumerate(toy.n_states)
    ]
    # visits are iterated, and roots of Gram matrices know singular values to about 1e-8
    np.testing.assert_allclose(list(found.sigma_by_label.values()), values, rtol=1e-5)
    assert found.sigma == min(found.sigma_by_label.values()) > 0


def test_a_spectral_model_has_no_hidden_constants() -> None:
    model = SpectralLPCFG(4).fit(bundled_treebank("dev")).model_
    with pytest.raises(SapwoodError, match="weights in an unknown basis"):
        hidden_constants(model)


def test_how_loose_the_bounds_are() -> None:
    """What `sapwood identify bounds` says: more than 1e28 trees asked for, 10,000 enough."""
    toy = random_lpcfg(0, 2)
    hidden = hidden_constants(toy.grammar(is_probabilistic=True))
    form = observable_form(moments(sums(toy, 1.0)), 2)
    sigma = min(form.s[a][1] for a in SYMBOLS)
    inputs = BoundInputs(2, 3, 4, len(WORDS), 1, 0.1, 0.05, sigma, hidden.xi, hidden.gamma)
    assert sample_bounds(inputs).trees > 1e28
    assert sampled_error(0, 2, 10_000) < 0.1
    assert "asks for more than 1e28 trees" in " ".join(CAVEATS)
