"""Spectral learners of strings: counts and moments, held-out choices, records."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.core.errors import SapwoodWarning
from sapwood.execute import Threads
from sapwood.hankel.learn import spectral_wfa, unsupervised_wcfg
from sapwood.hankel.learn.moments import Basis, count_brackets, count_hankel
from sapwood.hankel.learn.prefixes import BYTES_A_CUT
from sapwood.hankel.learn.spectral_wfa import refuse_large_automaton

REGULAR = {("a",) * i + ("b",) * j: 2 ** (14 - i - j) for i in range(1, 7) for j in range(1, 7)}


def values(model: sw.WeightedGrammar) -> np.ndarray:
    return np.asarray(model.values(strings_up_to(("a", "b"), 4)))


def test_counts_in_a_basis_give_what_trees_give() -> None:
    trees = strings_grammar(2, 2, seed=3).sample_brackets(400, seed=1)
    whole = sw.SpectralWCFG(2, basis=0.3).fit(trees)
    basis = Basis.by_frequency(count_brackets(trees, Threads(1)), 0.3)
    counted = sw.SpectralWCFG(2).fit_counts(basis, count_hankel(trees, basis, Threads(1)))
    np.testing.assert_allclose(values(counted.model_), values(whole.model_), atol=1e-12)
    for learner in (whole, counted):
        assert learner.info_.n_strings == 400
        assert learner.info_.basis == basis.shape
        assert learner.model_.record["strings"] == 400
        assert learner.info_.conditioning.noise > 0
        assert learner.info_.conditioning.smallest == learner.info_.singular_values[1]


def test_exact_moments_have_no_noise() -> None:
    trees = strings_grammar(2, 2, seed=3).sample_brackets(400, seed=1)
    basis = Basis.by_frequency(count_brackets(trees, Threads(1)), 0.3)
    counts = count_hankel(trees, basis, Threads(1))
    exact = sw.SpectralWCFG(2).fit_moments(
        basis, (counts.whole / 400).toarray(), (counts.pairs / 400).toarray()
    )
    assert exact.info_.conditioning.noise == 0
    assert "strings" not in exact.model_.record
    expected = sw.SpectralWCFG(2).fit_counts(basis, counts)
    np.testing.assert_allclose(values(exact.model_), values(expected.model_), atol=1e-12)


def test_one_tree_is_too_few_to_hold_some_out() -> None:
    tree = sw.Tree.parse("(S (A a) (B b))")
    found = sw.SpectralWCFG(choose="held-out", basis=1.0).fit([tree])
    assert found.info_.risks == {1: 0.0}
    assert found.model_.n_states == 1


def test_a_number_of_states_that_is_given_is_not_chosen() -> None:
    trees = strings_grammar(2, 2, seed=3).sample_brackets(200, seed=1)
    strings = Counter(x.words for x in trees)
    for learner, data in (
        (sw.SpectralWFA(1, choose="held-out", basis=0.5), strings),
        (sw.SpectralWCFG(1, choose="held-out", basis=0.5), trees),
        (sw.UnsupervisedWCFG(1, choose="held-out", solver="direct"), strings),
    ):
        found = learner.fit(data)
        assert found.model_.n_states == 1
        assert found.info_.risks == {}


@pytest.mark.filterwarnings("ignore:ill-conditioned", "ignore:a grammar of")
@pytest.mark.parametrize(
    "learner",
    [sw.SpectralWFA(basis=1.0), sw.UnsupervisedWCFG(solver="direct")],
    ids=lambda learner: type(learner).__name__,
)
def test_states_are_chosen_by_strings_held_out(learner: sw.SpectralWFA) -> None:
    """Risks are those of models of the strings that are not held out."""
    from sapwood.hankel.learn.shared import choose_rank, risk, split_counts

    learner.choose = "held-out"
    found = learner.fit(REGULAR)
    rest, held = split_counts(REGULAR)
    assert len(found.info_.risks) >= 2
    assert choose_rank(found.info_.risks) == found.model_.n_states
    for n in (1, 2):
        model = (
            type(learner)(n, **{k: v for k, v in vars(learner).items() if k in ("basis", "solver")})
            .fit(rest)
            .model_
        )
        assert found.info_.risks[n] == pytest.approx(risk(model, held, rest), rel=1e-6)


def test_risks_of_grammars_are_those_of_every_tenth_tree() -> None:
    """Each number of states is learnt from the other trees, in the basis of all of them."""
    from sapwood.hankel.learn.shared import choose_rank, risk

    trees = strings_grammar(2, 2, seed=3).sample_brackets(300, seed=1)
    found = sw.SpectralWCFG(choose="held-out", basis=0.3).fit(trees)
    held, rest = trees[::10], [tree for place, tree in enumerate(trees) if place % 10]
    basis = Basis.by_frequency(count_brackets(trees, Threads(1)), 0.3)
    counts = count_hankel(rest, basis, Threads(1))
    apart, seen = (Counter(x.words for x in part) for part in (held, rest))
    model = sw.SpectralWCFG(1).fit_counts(basis, counts).model_
    assert found.info_.risks[1] == pytest.approx(risk(model, apart, seen), rel=1e-9)
    assert len(found.info_.risks) == min(12, *basis.shape)
    assert found.model_.n_states == choose_rank(found.info_.risks)


def test_an_automaton_tells_its_singular_values() -> None:
    found = sw.SpectralWFA(3, basis=1.0).fit(REGULAR)
    assert found.info_.n_strings == sum(REGULAR.values())
    assert min(found.info_.basis) == len(found.info_.singular_values)
    assert found.info_.conditioning.smallest == found.info_.singular_values[2]
    assert found.info_.conditioning.noise > 0
    record = found.model_.record
    assert (record["method"], record["states"]) == ("wfa", 3)
    assert record["singular_values"][0] == pytest.approx(found.info_.singular_values[0], rel=1e-3)
    assert len(record["singular_values"]) > 3


def test_the_memory_of_an_automaton_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(spectral_wfa, "require_memory", lambda *args: asked.append(args))
    observed = {("a", "b"): 0.5, ("a",): 0.5}
    refuse_large_automaton(observed, 2, 3)
    refuse_large_automaton(observed, 2, 1)
    n_bytes, what, _ = asked[0]
    assert n_bytes == 5 * BYTES_A_CUT + 24 * 2 * 9  # three cuts of "a b", two of "a"
    assert "2 symbols and 3 states from 5 cuts" in what
    assert "1 state from" in asked[1][1]
    sw.SpectralWFA(1, basis=1.0).fit({("a",): 3, ("a", "a"): 1})
    assert len(asked) == 3


def test_exact_probabilities_have_no_noise() -> None:
    target = strings_grammar(2, 2, seed=3)
    short = strings_up_to(("a", "b"), 3)
    exact = dict(zip(short, target.values(short).tolist(), strict=True))
    found = sw.UnsupervisedWCFG(2, solver="direct").fit(exact, n=1.0)
    assert found.info_.n_strings == np.inf
    assert found.info_.conditioning.noise == 0
    counted = sw.UnsupervisedWCFG(2, solver="direct").fit(
        {x: 1e6 * p for x, p in exact.items()}, n=1e6
    )
    assert counted.info_.n_strings == 1e6
    assert counted.info_.conditioning.noise > 0
    np.testing.assert_allclose(values(counted.model_), values(found.model_), atol=1e-9)
    alone = sw.UnsupervisedWCFG(2, solver="direct").fit({x: 1e6 * p for x, p in exact.items()})
    assert alone.info_.n_strings == pytest.approx(1e6 * sum(exact.values()))
    total = sum(exact.values())  # without n, those given are taken for all
    np.testing.assert_allclose(alone.model_.values(short), np.array(list(exact.values())) / total)
    assert found.model_.record["method"] == "unsupervised (direct)"


def test_solvers_get_their_numbers_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    target = strings_grammar(2, 2, seed=3)
    short = strings_up_to(("a", "b"), 3)
    exact = dict(zip(short, target.values(short).tolist(), strict=True))
    asked = {}
    for name, word in (("admm", "max_steps"), ("fista", "steps"), ("factored", "max_steps")):
        solve = getattr(unsupervised_wcfg.lowrank, name)

        def spy(*args, name=name, word=word, solve=solve, **more):
            asked.setdefault(name, []).append(more[word])
            return solve(*args, **(more | {word: 3}))

        monkeypatch.setattr(unsupervised_wcfg.lowrank, name, spy)
        with pytest.warns(SapwoodWarning) if name == "admm" else np.errstate():
            for steps in (None, 7):
                sw.UnsupervisedWCFG(2, solver=name, max_steps=steps, basis=1e-9).fit(exact, n=1.0)
    assert asked == {"admm": [2000, 7], "fista": [50, 7], "factored": [2000, 7]}


def test_what_a_solver_tells_of_itself() -> None:
    target = strings_grammar(2, 2, seed=3)
    short = strings_up_to(("a", "b"), 3)
    exact = dict(zip(short, target.values(short).tolist(), strict=True))
    told = sw.UnsupervisedWCFG(2, solver="direct").fit(exact, n=1.0).info_.solver
    assert told.keys() == {
        "listed", "observed", "constraints", "steps", "feasibility", "gap", "nuclear"
    }  # fmt: skip
    assert told["observed"] == len(short)
    assert told["feasibility"] < 1e-9


def test_factors_of_three_symbols_give_the_grammar() -> None:
    """Nine pairs of symbols fix the four weights of each state by least squares."""
    target = strings_grammar(2, 3, seed=5)
    every = strings_up_to(("a", "b", "c"), 4)
    exact = dict(zip(every, target.values(every).tolist(), strict=True))
    found = sw.UnsupervisedWCFG(2, solver="factored", basis=1e-9).fit(exact, n=1.0)
    assert found.info_.solver["feasibility"] < 1e-4
    short = strings_up_to(("a", "b", "c"), 3)
    np.testing.assert_allclose(found.model_.values(short), target.values(short), atol=2e-3)
    assert found.info_.conditioning.smallest == found.info_.singular_values[1]
