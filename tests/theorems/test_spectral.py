"""Theorem 6 of SPECTRAL: exact moments give exact tree probabilities; sampled ones, close ones.

Notation
--------
    phi    the rule at a phrase, the word at a tag        psi   the rule above and the side, or root
    Z[a]   weight of all inside trees by state, each node counting s     v[a]   of all outside trees
    I[a]   Z split by phi, [d, m]                         J[a]  v split by psi, [d', m]

At s = 1 the inside trees of a state weigh 1, v counts its expected visits, and `sums(toy, 1)` holds
the expected moments of all nodes of a random tree. Other s weigh a tree of N nodes by s**N: their
integral over ds / s weighs it by 1 / N, which is what drawing one node from each tree does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.linalg.exact_spectral import FullMoments, ObservableForm, observable_form
from tests.reference import enumerate as listing
from tests.theorems.spectral_toys import (
    PHRASES,
    WORDS,
    Array,
    Nodes,
    Sums,
    counted,
    draw_nodes,
    l1_gap,
    learnt,
    moments,
    packed,
    random_lpcfg,
    rule_or_word,
    sampled_error,
    sums,
    toy_of,
)
from tests.toys import Toy, parse_forest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn import features
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.core.errors import NotIdentifiableError

# Singular values down to 3e-4 are divided by at each of up to seven nodes; measured: 4e-16.
EXACT = 1e-10


# -- exact moments ----------------------------------------------------------------------------


def one_node_sums(toy: Toy) -> Sums:
    """Expected sums when one node is drawn from each tree: 1 / N = integral of s**N ds / s."""
    points, weights = np.polynomial.legendre.leggauss(24)  # a smooth integrand: 12 agree to 1e-12
    at = (points + 1) / 2  # from [-1, 1] to [0, 1]
    parts = [(w, sums(toy, s)) for s, w in zip(at, weights / 2 / at, strict=True)]
    return {key: sum(w * part[key] for w, part in parts) for key in parts[0][1]}


# -- exact moments: Theorem 6 -----------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_exact_moments_give_exact_tree_probabilities(seed: int, m: int) -> None:
    """Theorems 3 and 6: tensors of equations 14 to 16 compute p(r_1 ... r_N) in Figure 4."""
    toy = random_lpcfg(seed, m, n_rules=9)
    form = observable_form(moments(sums(toy, 1.0)), m)
    assert l1_gap(toy, learnt(form, m), most=3) < EXACT


def test_the_expected_counts_are_those_of_samples() -> None:
    toy = random_lpcfg(0, 2, n_rules=9)
    n = 20_000
    exact, drawn = sums(toy, 1.0), counted(toy, draw_nodes(toy, n, np.random.default_rng(0)))
    for key, value in exact.items():
        # counts within six standard deviations; a node has few ancestors with the same features
        slack = 6 * np.sqrt(3 * value / n) + 10 / n
        assert (np.abs(drawn[key] / n - value) < slack).all(), key


def not_inverted(form: ObservableForm) -> ObservableForm:
    """A mutant that forgets Sigma^-1."""

    def times_sigma(a: int, tensor: Array) -> Array:
        return (tensor.T * form.s[a][: len(tensor)]).T

    return ObservableForm(
        {rule: times_sigma(rule[0], C) for rule, C in form.C.items()},
        {entry: times_sigma(entry[0], c) for entry, c in form.c_inf.items()},
        form.c_1, form.U, form.V, form.s,
    )  # fmt: skip


def sides_swapped(toy: Toy) -> FullMoments:
    """A mutant that takes the left child's features for the right child's."""
    right = moments(sums(toy, 1.0))
    rules = {r: D.transpose(0, 2, 1) if r[1] == r[2] else D for r, D in right.rules.items()}
    return FullMoments(right.omega, rules, right.words, right.root)


MUTANTS: dict[str, Callable[[Toy], ObservableForm]] = {
    "Sigma not inverted": lambda toy: not_inverted(observable_form(moments(sums(toy, 1.0)), 2)),
    "left and right swapped": lambda toy: observable_form(sides_swapped(toy), 2),
    "large trees weighed less": lambda toy: observable_form(moments(sums(toy, 0.99)), 2),
    "one node per tree": lambda toy: observable_form(moments(one_node_sums(toy)), 2),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_noticed(mutant: str) -> None:
    toy = random_lpcfg(0, 2, n_rules=16)
    assert l1_gap(toy, learnt(MUTANTS[mutant](toy), 2)) > 1e-3


def test_too_many_states_are_refused() -> None:
    """Lemma 7 needs m non-zero singular values; a grammar of two states has no third."""
    toy = random_lpcfg(0, 2, n_rules=9)
    with pytest.raises(NotIdentifiableError, match="rank 2") as caught:
        observable_form(moments(sums(toy, 1.0)), 3)
    assert caught.value.report.rank == 2
    assert caught.value.report.wanted == 3


def posteriors(toy: Toy, words: list[str]) -> dict[tuple[int, int, int], float]:
    """mu(a, i, j) / Z by the library's charts, nothing pruned."""
    parsed = parse_forest(toy.grammar(), words, threshold=0.0, beam=0.0)
    assert parsed is not None
    columns = (
        parsed.pruned.forest.symbol,
        parsed.pruned.forest.start,
        parsed.pruned.forest.end,
        parsed.items,
    )
    return {(a, i, j): p for a, i, j, p in zip(*(c.tolist() for c in columns), strict=True)}


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("words", [WORDS[:2], WORDS[2:5], WORDS[:4], WORDS[3:]], ids=len)
def test_marginals_of_figure_5(words: list[str], m: int) -> None:
    """Theorem 3: the algorithm in Figure 5 correctly computes the marginals mu(a, i, j)."""
    toy = random_lpcfg(1, m, n_rules=6)
    weighted = listing.weighted_trees(*toy.floats(words))
    total = listing.sentence_weight(weighted)
    expected = {span: mu / total for span, mu in listing.marginals(weighted).items()}
    model = learnt(observable_form(moments(sums(toy, 1.0)), m), m)
    found = posteriors(model, words)
    assert any((C < -1e-3).any() for C in model.rules.values())  # not the basis of the states
    assert {span: found[span] for span in expected} == pytest.approx(expected, rel=0, abs=1e-9)
    assert all(abs(p) < 1e-9 for span, p in found.items() if span not in expected)


def test_marginals_of_a_mutant_differ() -> None:
    toy, words = random_lpcfg(1, 2, n_rules=6), WORDS[:4]
    wrong = learnt(MUTANTS["Sigma not inverted"](toy), 2)
    right = posteriors(toy, words)
    assert max(abs(p - right.get(span, 0.0)) for span, p in posteriors(wrong, words).items()) > 0.01


# -- samples ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "published"), [(2, [0.28, 0.10, 0.033]), (3, [0.50, 0.15, 0.048])])
def test_errors_fall_with_the_root_of_the_number_of_trees(m: int, published: list[float]) -> None:
    """Theorem 8: M trees give an error of the order of 1 / sqrt(M)."""
    sizes = [1_000, 10_000, 100_000]
    errors = [float(np.median([sampled_error(seed, m, n) for seed in range(3)])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # medians of three runs that differ by some 10 %, over a factor of 100: the slope by 0.05
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert all(0.5 < found / known < 2.0 for found, known in zip(errors, published, strict=True))


def test_one_node_per_tree_is_inconsistent() -> None:
    """The limit of SPECTRAL's own sampling: Omega has a rank above m, and the error stays."""
    toy = random_lpcfg(0, 2)
    limit = observable_form(moments(one_node_sums(toy)), 2)
    assert l1_gap(toy, learnt(limit, 2)) > 0.05
    assert min(limit.s[a][2] for a in PHRASES) > 1e-5  # a third state that is none
    exact = observable_form(moments(sums(toy, 1.0)), 2)
    assert max(values[2] for values in exact.s.values()) < 1e-14


def test_one_node_per_tree_stops_improving() -> None:
    """The same by samples: the error approaches its limit, where that of all nodes is far below."""
    toy = random_lpcfg(0, 2)
    limit = l1_gap(toy, learnt(observable_form(moments(one_node_sums(toy)), 2), 2))
    found = sampled_error(0, 2, 100_000, one_node=True)
    assert found == pytest.approx(limit, rel=0.2)  # noise of the size that all nodes leave: 0.03
    assert found > 4 * sampled_error(0, 2, 100_000)


# -- the estimator ----------------------------------------------------------------------------


def estimated(toy: Toy, nodes: Nodes, m: int, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The bare algorithm of Figure 7 by `SpectralLPCFG`: no scaling, smoothing or sharing."""
    # the cut at 0.01 is meant for scaled features; without scaling the values are far smaller
    monkeypatch.setattr(features, "LEAST_VALUE", 0.0)
    learner = SpectralLPCFG(
        m, inside_features=[rule_or_word], outside_features=["rule_above"], scaled=False,
        shrinkage=0.0, word_trust=1.0,
        plain=PCFG(lexicon=LexiconSettings(sharing=0.0, class_weight=0.0)),
    )  # fmt: skip
    model = learner.fit(packed(toy, nodes)).model_
    assert set(model.n_states.tolist()) == {m}
    return toy_of(model, toy)


@pytest.mark.parametrize("m", [2, 3])
def test_the_estimator_is_the_observable_form_of_its_sample(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = random_lpcfg(0, m, n_rules=9)  # at most m + 10 features: the random projection is exact
    nodes = draw_nodes(toy, 3_000, np.random.default_rng(0))
    form = observable_form(moments(counted(toy, nodes)), m)
    assert l1_gap(learnt(form, m), estimated(toy, nodes, m, monkeypatch), most=2) < 1e-9


def test_the_estimator_converges(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, m = random_lpcfg(0, 2), 2
    for n, known in ((1_000, 0.28), (10_000, 0.10), (100_000, 0.033)):
        nodes = draw_nodes(toy, n, np.random.default_rng(n))
        assert 0.5 < l1_gap(toy, estimated(toy, nodes, m, monkeypatch)) / known < 2.0


def test_drawn_trees_are_packed_as_the_reader_packs_them() -> None:
    toy = random_lpcfg(0, 2, n_rules=9)
    bank = packed(toy, draw_nodes(toy, 50, np.random.default_rng(0)))
    again = Treebank.from_trees(bank.trees(), bank.inventory.transform)
    assert list(again.trees()) == list(bank.trees())
    for name in ("start", "end"):
        assert sorted(getattr(again, name)) == sorted(getattr(bank, name))
