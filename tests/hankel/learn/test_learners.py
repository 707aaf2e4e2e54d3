"""Learners from strings: what they share, recover, refuse and tell."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from benchmarks.papers.hankel_corpora import left_branching
from benchmarks.papers.string_distances import (
    compare_on_draws,
    compare_strings,
    perplexity,
    strings_up_to,
    unlabelled,
)
from benchmarks.papers.targets import dyck
from tests.toys import strings_grammar

import sapwood as sw
from sapwood.core.errors import SapwoodError, SapwoodTypeError, SapwoodWarning
from sapwood.corpora.tree import Tree
from sapwood.execute import Threads
from sapwood.hankel.data import right_branching
from sapwood.hankel.learn import spectral, unsupervised_wcfg
from sapwood.hankel.learn.moments import Basis, count_brackets, count_hankel
from sapwood.hankel.learn.shared import (
    best_rank,
    choose_rank,
    judge_conditioning,
    read_bracketed,
    read_strings,
    risk,
    split_counts,
    string_info,
    string_record,
)
from sapwood.hankel.learn.spectral import BYTES_A_CUT, refuse_large_automaton
from sapwood.hankel.learn.unsupervised_wcfg import fit_values
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.linalg.hankel import HankelConditioning


def one_state(stop: float) -> WeightedGrammar:
    """p("a") = stop, p("aa") = (1 - stop) stop^2, and so on."""
    return WeightedGrammar(("a",), np.ones(1), np.array([[stop]]), np.array([[[1 - stop]]]))


def test_one_string_in_ten_is_held_out() -> None:
    """Of frequent strings a tenth of their count; of rare ones every tenth string."""
    common = {("z", str(k)): times for k, times in enumerate((10, 29, 100))}
    rare = {("a", f"{k:02}"): 1 + k % 9 for k in range(21)}
    rest, held = split_counts(rare | common)
    assert {x: t for x, t in held.items() if x in common} == {
        ("z", "0"): 1, ("z", "1"): 2, ("z", "2"): 10
    }  # fmt: skip
    assert {x for x in held if x in rare} == {("a", "00"), ("a", "10"), ("a", "20")}
    assert rest + held == Counter(rare | common)
    assert not any(rest[x] for x in held if x in rare)
    assert min(held.values()) > 0


def test_risk_is_a_squared_distance_less_a_constant() -> None:
    model = one_state(0.5)
    held, seen = {("a",): 3.0, ("a", "a"): 1.0, ("b",): 4.0}, {("a", "a", "a"): 2.0}
    p = [0.5, 0.125, 0.0625]  # two trees of three symbols
    expected = sum(x * x for x in p) - 2 * (3 * p[0] + p[1]) / 8
    assert risk(model, held, seen) == pytest.approx(expected)


def test_risks_of_all_numbers_of_states_that_can_be_learnt() -> None:
    def learn(n: int) -> WeightedGrammar:
        if n == 4:
            msg = "rank"
            raise SapwoodError(msg)
        return one_state(0.1 * n)

    found = best_rank(learn, lambda model: float(model.terminals[0, 0]), 9)
    assert found == {1: pytest.approx(0.1), 2: pytest.approx(0.2), 3: pytest.approx(0.3)}
    assert best_rank(learn, lambda model: np.nan, 2) == {1: np.inf, 2: np.inf}
    assert list(best_rank(lambda n: one_state(0.5), lambda model: 0.0, 99)) == list(range(1, 13))


def test_the_least_number_of_states_that_is_as_good() -> None:
    assert choose_rank({1: -0.9, 2: -0.995, 3: -1.0}) == 2
    assert choose_rank({1: -0.9, 2: -0.994, 3: -1.0}) == 3
    assert choose_rank({1: 1.004, 2: 1.0}) == 1
    assert choose_rank({2: 5.0, 1: np.inf}) == 2


def test_strings_are_counted() -> None:
    assert read_strings([["a"], ["a"], ["b", "a"]]) == {("a",): 2, ("b", "a"): 1}
    assert read_strings({("a",): 2.5, ("b",): 1}) == {("a",): 2.5, ("b",): 1}
    for nothing in ([], {}, {("a",): 0}):
        with pytest.raises(SapwoodError, match="no strings"):
            read_strings(nothing)


def test_trees_are_read_and_wide_nodes_counted() -> None:
    wide = Tree.parse("(S (A a) (B b) (C c))")
    trees, n_wide = read_bracketed([wide, Tree.parse("(S (A a) (B b))")])
    assert ([x.words for x in trees], n_wide) == ([("a", "b", "c"), ("a", "b")], 1)
    with pytest.raises(SapwoodTypeError, match="not a mapping"):
        read_bracketed({wide: 1})
    with pytest.raises(SapwoodError, match="no trees"):
        read_bracketed([])


def test_noise_as_large_as_what_is_kept_is_a_warning() -> None:
    info = string_info(n_strings=1234.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_conditioning(info, HankelConditioning(0.5, 0.1, 0.5, 1.0))
    assert not info.warnings
    with pytest.warns(SapwoodWarning, match=r"kept, 0.5, .*1,234 strings, about 0.6"):
        judge_conditioning(info, HankelConditioning(0.5, 0.1, 0.6, 1.2))
    assert info.conditioning == (0.5, 0.1, 0.6, 1.2)
    assert len(info.warnings) == 1


def test_records_of_model_files() -> None:
    assert string_record(string_info(n_strings=np.inf), "x", 2) == {"method": "x", "states": 2}
    assert string_record(string_info(n_strings=2.0), "x", 2)["strings"] == 2
    assert isinstance(string_record(string_info(n_strings=2.0), "x", 2)["strings"], int)
    assert string_record(string_info(n_strings=2.5), "x", 2)["strings"] == 2.5
    values = np.arange(40) / 3
    told = string_record(string_info(basis=(4, 5), singular_values=values), "x", 2)
    assert told["basis"] == [4, 5]
    assert len(told["singular_values"]) == 32
    assert told["singular_values"][4] == 1.333
    told = string_record(string_info(iterations=7, log_likelihood=-3.0), "em", 2)
    assert (told["iterations"], told["log_likelihood"]) == (7, -3.0)


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
    monkeypatch.setattr(spectral, "require_memory", lambda *args: asked.append(args))
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


@pytest.mark.parametrize("n_states", [2, None])
def test_strings_that_are_all_too_long_are_refused_before_a_matrix_is_made(
    monkeypatch: pytest.MonkeyPatch, n_states: int | None
) -> None:
    """Nothing is known of the Hankel matrix: it took a gigabyte to say so."""
    monkeypatch.setattr(
        unsupervised_wcfg, "problem_of", lambda *_, **__: pytest.fail("the matrix was made")
    )
    text = [["a", "b"] * 10, ["b", "a"] * 9]
    with pytest.raises(SapwoodError, match="has rank 0") as caught:
        sw.UnsupervisedWCFG(n_states, basis=0.01).fit(text)
    assert "take a larger --basis, or more text" in str(caught.value.hint)


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


@pytest.fixture(scope="module")
def target() -> sw.WeightedGrammar:
    return strings_grammar(2, 2, seed=3)


@pytest.fixture(scope="module")
def exact(target: sw.WeightedGrammar) -> dict[tuple[str, ...], float]:
    every = strings_up_to(("a", "b"), 6)
    return dict(zip(every, target.values(every).tolist(), strict=True))


@pytest.mark.parametrize(
    ("solver", "limit"), [("admm", 1e-6), ("direct", 1e-12), ("factored", 1e-2)]
)
def test_exact_probabilities_of_strings_give_the_grammar(target, exact, solver, limit) -> None:
    learner = sw.UnsupervisedWCFG(2, solver=solver, basis=0.01).fit(exact, n=1.0)
    assert compare_strings(target, learner.model_, 6).kl < limit
    assert learner.info_.solver["feasibility"] < 1e-4


def test_the_iteration_of_the_paper_stops_short(target, exact) -> None:
    """Where the nuclear norm to its end recovers the grammar, fifty printed steps do not."""
    fista, admm = (
        sw.UnsupervisedWCFG(2, solver=x, basis=0.03).fit(exact, n=1.0) for x in ("fista", "admm")
    )
    errors = [compare_strings(target, x.model_, 6).l1 for x in (fista, admm)]
    assert errors[0] > 10 * errors[1]


def test_values_are_fitted_from_a_rough_start(target, exact) -> None:
    rng = np.random.default_rng(0)
    rough = sw.WeightedGrammar(
        ("a", "b"), target.initial, target.terminals * rng.uniform(0.95, 1.05, (2, 2)),
        target.binary * rng.uniform(0.9, 1.1, (2, 2, 2)),
    )  # fmt: skip
    fitted = fit_values(rough, exact)
    assert compare_strings(target, fitted, 6).l1 < 1e-6 < compare_strings(target, rough, 6).l1


def test_the_number_of_states_by_strings_held_out() -> None:
    drawn = [x for x in dyck().sample_brackets(2000, seed=2) if len(x.words) < 13]
    learner = sw.SpectralWCFG(choose="held-out", basis=0.2).fit(drawn)
    assert learner.model_.n_states == 4
    assert learner.info_.risks[4] < learner.info_.risks[2]


def test_an_automaton_of_a_regular_language() -> None:
    strings = {
        ("a",) * i + ("b",) * j: 2.0 ** (20 - i - j) for i in range(1, 9) for j in range(1, 9)
    }
    model = sw.SpectralWFA(3, basis=1.0).fit(strings).model_
    assert model.value(["a", "a", "b"]) == pytest.approx(2.0**-3, rel=0.02)
    assert model.value(["b", "a"]) == pytest.approx(0, abs=1e-3)


def test_em_finds_a_likelier_grammar_than_the_truth(target) -> None:
    drawn = Counter(x.words for x in target.sample_brackets(400, seed=1))
    found = sw.EMWCFG(2, iterations=60).fit(drawn)
    truth = sum(t * target.log_prob(x) for x, t in drawn.items())
    assert found.info_.log_likelihood > truth - 5
    assert found.model_.is_probabilistic


def test_noise_above_what_is_kept_is_told() -> None:
    with pytest.warns(SapwoodWarning, match="ill-conditioned"):
        sw.SpectralWCFG(4, basis=0.3).fit(dyck().sample_brackets(60, seed=1))


def test_more_states_than_the_basis_supports() -> None:
    strings = {("a",): 3, ("a", "b"): 2}
    with pytest.raises(SapwoodError, match="rank"):
        sw.UnsupervisedWCFG(9, solver="direct").fit(strings)
    with pytest.raises(SapwoodError, match="has rank 2") as caught:
        sw.UnsupervisedWCFG(9, solver="factored", basis=1e-9).fit(strings)
    assert "at most 2 states" in str(caught.value.hint)


def test_factors_choose_their_number_of_states(target, exact) -> None:
    learner = sw.UnsupervisedWCFG(solver="factored", basis=1e-9).fit(exact, n=1.0)
    assert learner.model_.n_states == 2
    assert learner.info_.conditioning.smallest > 0


def test_composed_contexts_are_rows(target, exact) -> None:
    plain, more = (
        sw.UnsupervisedWCFG(2, basis=1e-9, composed=x).fit(exact, n=1.0) for x in (False, True)
    )
    assert more.info_.solver["listed"] > plain.info_.solver["listed"]
    assert compare_strings(target, more.model_, 6).kl < 1e-6


@pytest.mark.filterwarnings("ignore:ill-conditioned")
def test_values_from_few_strings_stay_where_nothing_is_known(target) -> None:
    """Where 300 strings say nothing, weights that move freely end anywhere."""
    drawn = Counter(x.words for x in target.sample_brackets(300, seed=7) if len(x.words) < 7)
    start, fitted = (
        sw.UnsupervisedWCFG(2, basis=1e-9, refine=x).fit(drawn, n=300).model_
        for x in ("none", "values")
    )
    before, after = (compare_strings(target, x, 6).l1 for x in (start, fitted))
    assert after < 1.2 * before
    np.testing.assert_allclose(fitted.length_masses(6), target.length_masses(6), atol=0.08)


# -- distances ------------------------------------------------------------------------------------


def test_kl_on_draws_agrees_with_kl_over_all_strings(target) -> None:
    near = sw.WeightedGrammar(("a", "b"), target.initial, target.terminals * 1.02, target.binary)
    draws = [x.words for x in target.sample_brackets(6000, seed=4) if len(x.words) <= 8]
    whole, drawn = compare_strings(target, near, 8), compare_on_draws(target, near, 8, draws)
    assert drawn.kl == pytest.approx(whole.kl, rel=0.15)
    assert drawn.l1 == pytest.approx(whole.l1, rel=0.15)
    assert drawn.mass == pytest.approx(whole.mass, rel=1e-9)


def test_perplexity_leaves_out_what_has_no_probability(target) -> None:
    one = sw.WeightedGrammar(("a",), np.ones(1), np.full((1, 1), 0.5), np.full((1, 1, 1), 0.5))
    found, without = perplexity(one, [["a"]])
    assert (found, without) == (pytest.approx(2**0.5), 0)


def test_unlabelled_brackets() -> None:
    words = list("abcd")
    right, left = right_branching(words), left_branching(words)
    assert unlabelled([right], [right]).f1 == 100
    assert unlabelled([right], [left]).f1 == 0
    flat = sw.Tree.parse("(S (A a) (B (X b) (Y c)) (C d))")
    found = unlabelled([flat], [right])
    assert (found.precision, found.recall) == (0, 0)
