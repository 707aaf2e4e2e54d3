"""The plain grammar's charts against enumeration and the dictionary chart."""

from __future__ import annotations

import os
import subprocess
import sys
from math import comb, exp, inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import config
from tests.reference import charts
from tests.reference import enumerate as listing
from tests.toys import EXTREME, Toy, exact_log, plain_toys, random_toy, sentences

from sapwood.constituency.parse.charts import (
    _scratch,
    chart_room,
    plain_inside,
    sentence_log,
    tag_weights,
)
from sapwood.constituency.parse.kernels import coarse
from sapwood.constituency.parse.prepared import prepare, sentence_log_weight
from sapwood.corpora.vocabulary import UNKNOWN

# The kernel multiplies and adds at most a few hundred positive numbers per value.
RTOL = 1e-11
# One span shares one power of two: weights this much smaller than its largest may be lost.
RANGE = 1e-290
LONG = 30 if config.DISABLE_JIT else 150


def poison_rooms() -> None:
    """Fill the scratch space with nan: whatever is read before it is written shows."""
    for name in ("inside", "outside"):
        _scratch.get(name, 1000)[:] = np.nan


class Charted:
    """Posteriors of one sentence through the kernels' public functions."""

    def __init__(self, toy: Toy, words: list[str]) -> None:
        prepared = prepare(toy.grammar())
        self.tags = tag_weights(prepared, words)
        self.n, self.n_phrases = len(words), toy.n_phrases
        self.root = prepared.plain.root
        poison_rooms()
        self.chart = plain_inside(prepared.plain, self.tags)
        self.total = coarse.partition(self.chart, self.root)
        self.log_weight = sentence_log(self.chart.scale, self.n, self.total)
        plain, room = prepared.plain, np.empty(chart_room(prepared.plain, self.n))
        alpha, tag_alpha = coarse.plain_outside(
            plain.rules, self.tags, self.chart, plain.root, room
        )
        self.phrases, self.tag_posteriors = self.chart.beta * alpha, self.tags.weight * tag_alpha

    def posteriors(self) -> dict[tuple[int, int, int], float]:
        """Posterior of (a, i, j) for phrases and tags."""
        out = {}
        for i in range(self.n):
            for j in range(i + 2, self.n + 1):
                row = self.phrases[coarse.cell_of(i, j, self.n)]
                out |= {(a, i, j): float(p) for a, p in enumerate(row)}
            for x in range(self.tags.start[i], self.tags.start[i + 1]):
                symbol = self.n_phrases + int(self.tags.tag[x])
                out[symbol, i, i + 1] = float(self.tag_posteriors[x])
        return out


class Exact:
    """The same quantities from the dictionary chart, in fractions."""

    def __init__(self, toy: Toy, words: list[str]) -> None:
        root, self.rules, emissions = toy.exactly(words)
        self.n = len(words)
        self.beta = charts.inside(self.rules, emissions)
        self.total = charts.sentence_weight(root, self.beta, self.n)
        alpha = charts.outside(root, self.rules, emissions, self.beta)
        self.mu = charts.marginals(alpha, self.beta)
        self.rho = charts.rule_marginals(self.rules, emissions, alpha, self.beta)

    def posterior(self, span: tuple[int, int, int]) -> float:
        return float(self.mu.get(span, 0) / self.total) if self.total else 0.0

    def is_in_range(self) -> bool:
        """Whether every rule of a possible tree is within `RANGE` of the largest of its span."""
        peak: dict[tuple[int, int], Any] = {}
        for (_, i, j), (value,) in self.beta.items():
            peak[i, j] = max(peak.get((i, j), 0), value)
        base = {
            (i, j): max(
                (peak.get((i, k), 0) * peak.get((k, j), 0) for k in range(i + 1, j)), default=0
            )
            for i, j in peak
        }
        for (a, b, c, i, k, j), weight in self.rho.items():
            if weight > 0:
                value = self.rules[a, b, c][0][0][0] * self.beta[b, i, k][0] * self.beta[c, k, j][0]
                if value < RANGE * base[i, j] or value < RANGE * peak[i, j]:
                    return False
        leaves = [span for span, weight in self.mu.items() if weight > 0 and span[2] - span[1] == 1]
        return all(self.beta[span][0] >= RANGE * peak[span[1:]] for span in leaves)


def check(toy: Toy, words: list[str]) -> None:
    got, exact = Charted(toy, words), Exact(toy, words)
    if exact.total == 0:
        assert got.total == 0.0
        assert not got.phrases.any()
        assert not got.tag_posteriors.any()
        return
    np.testing.assert_allclose(got.log_weight, exact_log(exact.total), rtol=1e-12, atol=RTOL)
    for span, posterior in got.posteriors().items():
        np.testing.assert_allclose(posterior, exact.posterior(span), rtol=RTOL, atol=1e-300)


# -- the twins themselves ---------------------------------------------------------------------


@settings(max_examples=40)
@given(plain_toys().flatmap(lambda toy: st.tuples(st.just(toy), sentences(toy, least=1, most=4))))
def test_dictionary_chart_agrees_with_enumeration_exactly(case: tuple[Toy, list[str]]) -> None:
    toy, words = case
    root, rules, emissions = toy.exactly(words)
    weighted = listing.weighted_trees(root, rules, emissions)
    beta = charts.inside(rules, emissions)
    alpha = charts.outside(root, rules, emissions, beta)
    mu = charts.marginals(alpha, beta)
    rho = charts.rule_marginals(rules, emissions, alpha, beta)
    assert charts.sentence_weight(root, beta, len(words)) == listing.sentence_weight(weighted)
    assert {span: w for span, w in mu.items() if w} == listing.marginals(weighted)
    assert {edge: w for edge, w in rho.items() if w} == listing.rule_marginals(weighted)
    delta = charts.viterbi(rules, emissions)
    tops = [
        w[0] * delta[a, 0, len(words)][0] for a, w in root.items() if (a, 0, len(words)) in delta
    ]
    best = listing.best_tree(weighted)[1] if weighted else 0
    assert max(tops, default=0) == best
    assert listing.best_derivation(root, rules, emissions)[2] == best


# -- inside and outside -----------------------------------------------------------------------


@settings(max_examples=120)
@given(plain_toys().flatmap(lambda toy: st.tuples(st.just(toy), sentences(toy, most=7))))
def test_weights_and_posteriors_are_those_of_the_dictionary_chart(
    case: tuple[Toy, list[str]],
) -> None:
    check(*case)


@settings(max_examples=120)
@given(plain_toys(EXTREME).flatmap(lambda toy: st.tuples(st.just(toy), sentences(toy, most=5))))
def test_weights_of_any_size_do_not_underflow(case: tuple[Toy, list[str]]) -> None:
    exact = Exact(*case)
    assume(exact.is_in_range())
    check(*case)


@settings(max_examples=60)
@given(plain_toys(EXTREME).flatmap(lambda toy: st.tuples(st.just(toy), sentences(toy, most=5))))
def test_posteriors_are_probabilities_whatever_the_weights(case: tuple[Toy, list[str]]) -> None:
    got = Charted(*case)
    for posteriors in (got.phrases, got.tag_posteriors):
        assert np.isfinite(posteriors).all()
        assert (posteriors >= 0.0).all()
        assert (posteriors <= 1.0 + RTOL).all()


@pytest.mark.parametrize("seed", range(6))
def test_weights_are_those_of_enumeration(seed: int) -> None:
    toy = random_toy(np.random.default_rng(seed), density=0.3)
    for words in (["w0", "w1"], ["w0", "w1", "w2"], ["w0", "w1", "w2", "w0"], ["w1"] * 5):
        weighted = listing.weighted_trees(*toy.exactly(words))
        mu, total = listing.marginals(weighted), listing.sentence_weight(weighted)
        if not weighted:
            assert Charted(toy, words).total == 0.0
            continue
        for span, posterior in Charted(toy, words).posteriors().items():
            expected = float(mu.get(span, 0) / total)
            np.testing.assert_allclose(posterior, expected, rtol=RTOL, atol=0.0)


@pytest.mark.parametrize("seed", range(5))
def test_every_tree_has_n_leaves_and_one_fewer_binary_node(seed: int) -> None:
    toy = random_toy(np.random.default_rng(seed), n_phrases=4, n_tags=3)
    for n in (2, 3, 7, 12):
        got = Charted(toy, [f"w{x % 3}" for x in range(n)])
        whole = coarse.cell_of(0, n, n)
        np.testing.assert_allclose(got.phrases[whole].sum(), 1.0, rtol=RTOL)
        np.testing.assert_allclose(got.tag_posteriors.sum(), n, rtol=RTOL)
        wide = [coarse.cell_of(i, j, n) for i in range(n) for j in range(i + 2, n + 1)]
        np.testing.assert_allclose(got.phrases[wide].sum(), n - 1, rtol=RTOL)


@pytest.mark.parametrize("seed", range(3))
def test_inside_times_outside_is_the_sentence_at_every_cut(seed: int) -> None:
    """Every tree has exactly one leaf at each position, so their posteriors sum to 1."""
    n = 9
    got = Charted(random_toy(np.random.default_rng(seed)), [f"w{x % 3}" for x in range(n)])
    for i in range(n):
        here = slice(int(got.tags.start[i]), int(got.tags.start[i + 1]))
        np.testing.assert_allclose(got.tag_posteriors[here].sum(), 1.0, rtol=RTOL)


@pytest.mark.parametrize("seed", range(3))
def test_outside_is_the_gradient_of_log_weight(seed: int) -> None:
    """Posterior of a tag = d log Z / d log of its weight, by central differences."""
    toy, words = random_toy(np.random.default_rng(seed)), ["w0", "w1", "w2", "x"]
    got = Charted(toy, words).posteriors()
    step = 1e-5  # error of the difference: about step**2, and 1e-16 / step from rounding
    for position, word in enumerate([*words[:3], UNKNOWN]):
        for tag in toy.words[word]:
            shifted = [_log_weight_with(toy, words, word, tag, sign * step) for sign in (1, -1)]
            slope = (shifted[0] - shifted[1]) / (2 * step)
            np.testing.assert_allclose(got[tag, position, position + 1], slope, rtol=0, atol=1e-8)


def _log_weight_with(toy: Toy, words: list[str], word: str, tag: int, step: float) -> float:
    row = toy.words[word]
    changed = {**toy.words, word: {**row, tag: row[tag] * exp(step)}}
    return Charted(Toy(toy.n_phrases, toy.n_states, toy.root, toy.rules, changed), words).log_weight


def one_phrase(rules: dict[tuple[int, int, int], float], tag_weight: float = 1.0) -> Toy:
    """Phrase 0 and tag 1."""
    tensors = {rule: np.full((1, 1, 1), w) for rule, w in rules.items()}
    return Toy(1, [1, 1], {0: np.ones(1)}, tensors, {"w0": {1: np.array([tag_weight])}})


ALL_RULES = dict.fromkeys([(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)], 1.0)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 30, LONG])
def test_weights_of_one_count_catalan_trees(n: int) -> None:
    catalan = comb(2 * n - 2, n - 1) // n
    got = Charted(one_phrase(ALL_RULES), ["w0"] * n)
    np.testing.assert_allclose(got.log_weight, log(catalan), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1e12, 1e300])
def test_long_sentences_neither_underflow_nor_overflow(size: float) -> None:
    """A common factor of all rules and tags is a common factor of all trees."""
    n = LONG
    rules = {rule: min(size, 1e100) for rule in ALL_RULES}
    got = Charted(one_phrase(rules, size), ["w0"] * n)
    catalan = comb(2 * n - 2, n - 1) // n
    expected = log(catalan) + n * log(size) + (n - 1) * log(min(size, 1e100))
    np.testing.assert_allclose(got.log_weight, expected, rtol=1e-12)
    np.testing.assert_allclose(got.tag_posteriors, 1.0, rtol=1e-9)


@pytest.mark.parametrize("exponent", [-1010, -1040, -1060])
def test_weights_around_the_least_normal_number(exponent: int) -> None:
    """Scaling them to 1 takes the largest powers of two, or more than these."""
    rules = {(0, 1, 0): 0.5, (0, 1, 1): 2.0**exponent, (0, 0, 0): 0.25}
    for n in (2, 4, 5):
        check(one_phrase(rules), ["w0"] * n)


def test_the_beam_leaves_the_whole_sentence_alone() -> None:
    """The only root is far below the best phrase of its span: a beam there would leave no tree."""
    toy = Toy(2, [1, 1, 1], {1: np.ones(1)}, {}, {"w0": {2: np.ones(1)}})
    weights = {(0, 2, 2): 1.0, (1, 2, 2): 1e-6, (0, 0, 2): 1.0, (1, 0, 2): 1e-6}
    toy.rules = {rule: np.full((1, 1, 1), w) for rule, w in weights.items()}
    prepared = prepare(toy.grammar())
    plain = prepared.plain
    assert plain.visits[1] > 0.0
    for n in (2, 3, 4):
        tags = tag_weights(prepared, ["w0"] * n)
        chart = plain_inside(plain, tags, 0.1)
        found = sentence_log(chart.scale, n, coarse.partition(chart, plain.root))
        np.testing.assert_allclose(found, log(1e-6), rtol=1e-12)


def test_the_beam_drops_what_is_rare_over_a_narrower_span() -> None:
    """P1 is one thousandth of P0 over the first two words; its prior makes up for some of that."""
    toy = Toy(2, [1, 1, 1], {0: np.ones(1)}, {}, {"w0": {2: np.ones(1)}})
    weights = {(0, 2, 2): 1.0, (1, 2, 2): 1e-3, (0, 0, 2): 0.5, (0, 1, 2): 0.25}
    toy.rules = {rule: np.full((1, 1, 1), w) for rule, w in weights.items()}
    prepared = prepare(toy.grammar())
    tags, plain = tag_weights(prepared, ["w0"] * 3), prepared.plain
    share = 1e-3 * plain.visits[1] / plain.visits[0]
    for beam, is_kept in ((0.0, True), (share / 2, True), (share * 2, False)):
        chart = plain_inside(plain, tags, beam)
        assert (chart.beta[coarse.cell_of(0, 2, 3), 1] > 0) == is_kept


# -- the edges --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {(0, 1, 1): 1.0},
        {(0, 1, 0): 1.0, (0, 1, 1): 1.0},
        {(0, 0, 1): 1.0, (0, 1, 1): 1.0},
        {(0, 0, 0): 1.0, (0, 1, 1): 1.0},
        {(0, 0, 0): 1.0},
        {(0, 1, 1): 0.0, (0, 0, 0): 0.0},
    ],
    ids=["none", "two words", "right", "left", "pairs", "nothing to start from", "zeros"],
)
def test_each_kind_of_rule_works_without_the_others(rules: dict[Any, float]) -> None:
    for n in range(2, 7):
        check(one_phrase(rules), ["w0"] * n)


def test_a_word_without_tags_has_no_parse() -> None:
    for place in range(3):
        words = ["w0"] * 3
        words[place] = "unheard-of"
        assert Charted(one_phrase(ALL_RULES), words).total == 0.0


def test_one_word_is_weighed_by_its_tag_at_the_root() -> None:
    toy = Toy(1, [1, 1, 1], {1: np.array([0.25]), 2: np.array([0.5])}, {}, {})
    toy.words = {"w0": {1: np.array([0.5]), 2: np.array([0.125])}}
    prepared = prepare(toy.grammar())
    np.testing.assert_allclose(
        sentence_log_weight(prepared, ["w0"]).log, log(0.25 * 0.5 + 0.5 * 0.125), rtol=1e-15
    )
    assert sentence_log_weight(prepared, ["unheard-of"]) == (-inf, 0)


def test_unequal_tags_keep_the_one_that_parses() -> None:
    """The only parse needs a tag 1e-250 times rarer than another one of the same word."""
    toy = Toy(1, [1, 1, 1], {0: np.ones(1)}, {(0, 1, 1): np.ones((1, 1, 1))}, {})
    toy.words = {"w0": {1: np.array([1e-250]), 2: np.array([1.0])}, "w1": {1: np.array([1.0])}}
    got = Charted(toy, ["w0", "w1"])
    np.testing.assert_allclose(got.log_weight, log(1e-250), rtol=1e-14)
    np.testing.assert_allclose(got.posteriors()[1, 0, 1], 1.0, rtol=RTOL)


def test_a_dropped_last_split_would_be_noticed() -> None:
    """The check has teeth: without its last split, the dictionary chart counts other trees."""
    mutant = one_phrase({rule: w for rule, w in ALL_RULES.items() if rule != (0, 0, 1)})
    whole = Charted(one_phrase(ALL_RULES), ["w0"] * 4).log_weight
    assert abs(whole - exact_log(Exact(mutant, ["w0"] * 4).total)) > 0.1


# -- compilation ------------------------------------------------------------------------------

ONE_SPECIALISATION = """
import sys, numpy as np, sapwood as sw
from sapwood.core.jit import Kernel
from sapwood.constituency.parse.kernels import coarse, forest, latent, trees, viterbi
bank = sw.bundled_treebank("dev")
plain = sw.PCFG().fit(bank).model_
plain.save(sys.argv[1])
bundled = sw.bundled_grammar()
bundled.save(sys.argv[2])
words = bank.words(0)
for model in (plain, bundled, sw.load(sys.argv[1]), sw.load(sys.argv[2])):
    for decoder in ("goodman", "max-rule", "viterbi"):
        parse = sw.Parser(model, decoder=decoder).parse(words)
        parse.k_best(2), parse.log_prob, parse.marginals
    model.log_prob(words), model.log_probs(bank[:3]), model.log_prob(bank.tree(0))
for module in (coarse, forest, latent, trees, viterbi):
    for name, value in vars(module).items():
        if isinstance(value, Kernel):
            print(module.__name__.split(".")[-1], name, len(value.signatures))
"""


@pytest.mark.compiled
def test_every_kernel_compiles_once_for_all_models(tmp_path: Any) -> None:
    """Trained, bundled and loaded models reach a kernel with the same types of arrays."""
    names = [str(tmp_path / name) for name in ("plain.sapwood", "latent.sapwood")]
    done = subprocess.run(
        [sys.executable, "-c", ONE_SPECIALISATION, *names],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    counts = [line.split() for line in done.stdout.splitlines()]
    assert len(counts) >= 12
    assert [row for row in counts if row[2] != "1"] == []
