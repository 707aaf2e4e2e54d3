"""What several grammars think of a sentence, against enumeration and against each alone."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest
from tests.conftest import Learn
from tests.constituency.grammar.ensemble_toys import toys
from tests.reference import enumerate as listing
from tests.toys import Toy, random_bases, random_toy
from threadpoolctl import ThreadpoolController, threadpool_limits

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.grammar.ensemble import Ensemble, Model
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse import charts
from sapwood.constituency.parse.charts import LEAST_FACTOR, Pruning
from sapwood.constituency.parse.parser import FAST, Parse, Parser
from sapwood.constituency.parse.posteriors import NetworkReader, PreparedEnsemble, split_codes
from sapwood.execute import Processes, processes
from sapwood.networks.network import one_blas_thread

WORDS = ["w0", "w1", "w2", "w0"]
WEIGHTS = (0.5, 0.3, 0.2)
NOTHING = Pruning(0.0, 0.0, 0.0)
Table = dict[Any, float]


def exact(model: Model, decoder: str = "f1") -> Parser:
    """A parser that prunes nothing."""
    return Parser(model, decoder=decoder, threshold=0.0, beam=0.0, middle=0.0)


def spans_of(toy: Toy, words: Sequence[str] = WORDS) -> Table:
    """Posterior of each labelled span under one toy, from all its trees."""
    weighted = listing.weighted_trees(*toy.floats(words))
    total = listing.sentence_weight(weighted)
    return {
        (f"{'P' if a < toy.n_phrases else 'T'}{a}", i, j): weight / total
        for (a, i, j), weight in listing.marginals(weighted).items()
    }


def mean(tables: Sequence[Table], weights: Sequence[float]) -> Table:
    """The slow twin: a weighted mean, label by label."""
    out: Table = defaultdict(float)
    for table, weight in zip(tables, weights, strict=True):
        for key, p in table.items():
            out[key] += weight * p
    return dict(out)


def said(parse: Parse) -> Table:
    return {c[:3]: c.probability for c in parse.marginals}


def brackets(parse: Parse) -> Table:
    """Posteriors as they are before they are cut at 1."""
    forest = parse._forest
    assert forest is not None
    names = parse._prepared.labels
    columns = (*split_codes(forest.brackets.code, len(parse.words)), forest.brackets.p)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(names[a], i, j, is_tag): p for a, i, j, is_tag, p in rows}


def distance(one: Table, other: Table) -> float:
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})


@pytest.fixture(scope="module")
def strangers(learn: Learn) -> list[LatentGrammar]:
    """Grammars of trees made binary in another way."""
    return [learn(method, binarise="right") for method in ("spectral", "pcfg")]


@pytest.fixture(scope="module")
def network() -> SpanNetwork:
    bank = sw.bundled_treebank("dev")[:40]
    return sw.SpanEncoder(width=6, hidden=5, passes=1).fit(bank).model_


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    bank = sw.bundled_treebank("test")
    every = [bank.words(i) for i in range(200)]
    return [words for words in every if 2 <= len(words) <= 8][:8]


# -- the mean ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [1, 2, 3])
def test_posteriors_are_the_weighted_mean_of_all_trees(n_states: int) -> None:
    several = toys(3, n_states)
    parse = exact(Ensemble.of([toy.grammar() for toy in several], WEIGHTS)).parse(WORDS)
    each = [spans_of(toy) for toy in several]
    assert distance(said(parse), mean(each, WEIGHTS)) < 1e-11
    # Mutants: equal weights, weights in another order, the first alone.
    for wrong in ([1 / 3] * 3, WEIGHTS[::-1], (1.0, 0.0, 0.0)):
        assert distance(said(parse), mean(each, wrong)) > 1e-3


def test_posteriors_are_the_weighted_mean_of_single_parsers(
    family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    together = exact(Ensemble.of(family, WEIGHTS))
    singly = [exact(member) for member in family]
    furthest = 0.0
    for words in sentences:
        each = [brackets(parser.parse(words)) for parser in singly]
        found = brackets(together.parse(words))
        assert distance(found, mean(each, WEIGHTS)) < 1e-9  # charts of thousands of items
        furthest = max(furthest, distance(found, mean(each, WEIGHTS[::-1])))
    assert furthest > 1e-3


def test_brackets_are_averaged_over_groups(
    family: list[LatentGrammar], strangers: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    members = [family[0], strangers[0], family[1], strangers[1]]
    weights = (0.4, 0.3, 0.2, 0.1)
    together = exact(Ensemble.of(members, weights))
    singly = [exact(member) for member in members]
    for words in sentences:
        each = [brackets(parser.parse(words)) for parser in singly]
        assert distance(brackets(together.parse(words)), mean(each, weights)) < 1e-9


def test_groups_of_toys_are_averaged_by_label() -> None:
    """Grammars with other symbols: what only one of them has, counts as 0 in the other."""
    one = random_toy(np.random.default_rng(0), n_states=2)
    other = random_toy(np.random.default_rng(1), n_phrases=3, n_states=2)
    ensemble = Ensemble.of([one.grammar(), other.grammar()], [2, 1])
    assert ensemble.groups == ((0,), (1,))
    expected = mean([spans_of(one), spans_of(other)], [2 / 3, 1 / 3])
    assert distance(said(exact(ensemble).parse(WORDS)), expected) < 1e-11
    assert {"T2", "T4"} <= {label for label, _, _ in expected}


def test_a_group_without_a_parse_is_left_out() -> None:
    """The others then share its weight."""
    one, other = (random_toy(np.random.default_rng(s), n_states=2) for s in (0, 1))
    mute = Toy(1, [1, 1], {0: np.ones(1)}, {}, {"w0": {1: np.ones(1)}})
    ensemble = Ensemble.of([t.grammar() for t in (one, mute, other)], [0.5, 0.3, 0.2])
    expected = mean([spans_of(one), spans_of(other)], [5 / 7, 2 / 7])
    assert distance(said(exact(ensemble).parse(WORDS)), expected) < 1e-11


def test_the_sentence_probability_is_the_mean_over_the_members() -> None:
    several = toys(3)
    ensemble = Ensemble.of([toy.grammar() for toy in several], WEIGHTS)
    totals = [
        listing.sentence_weight(listing.weighted_trees(*toy.floats(WORDS))) for toy in several
    ]
    expected = log(sum(w * x for w, x in zip(WEIGHTS, totals, strict=True)))
    parse = exact(ensemble).parse(WORDS)
    assert parse.sentence_log_prob == pytest.approx(expected, abs=1e-11)
    assert parse.sentence_log_prob == pytest.approx(ensemble.log_prob(WORDS), abs=1e-11)
    assert parse.log_prob == ensemble.log_prob(parse.tree) < parse.sentence_log_prob


@pytest.mark.parametrize("words", [WORDS, WORDS[:1]], ids=len)
def test_the_sentence_probability_is_that_of_all_groups(words: list[str]) -> None:
    one = random_toy(np.random.default_rng(0), n_states=2)
    other = random_toy(np.random.default_rng(1), n_phrases=3, n_states=2)
    for toy in (one, other):
        toy.root |= {toy.n_phrases: np.ones(toy.n_states[toy.n_phrases])}
    ensemble = Ensemble.of([one.grammar(), other.grammar()], [2, 1])
    assert len(ensemble.groups) == 2
    parse = exact(ensemble).parse(words)
    assert parse.sentence_log_prob == pytest.approx(ensemble.log_prob(words), abs=1e-11)


@pytest.mark.parametrize("words", [["the", "dog", "sleeps", "."], ["sleeps"]], ids=len)
def test_a_network_counts_as_its_plain_grammar(
    words: list[str], network: SpanNetwork, learn: Learn
) -> None:
    """In the probabilities of sentences and trees; a tree is never likelier than its sentence."""
    for members in ([network], [learn("spectral"), network], [network, learn("cluster"), network]):
        ensemble = Ensemble.of(members, range(1, len(members) + 1))
        parse = Parser(ensemble, threshold=0, beam=0, middle=0).parse(words)
        whole = ensemble.log_prob(words)
        assert parse.sentence_log_prob == pytest.approx(whole, abs=1e-6)
        assert parse.log_prob == ensemble.log_prob(parse.tree)
        trees = parse.k_best(4)
        assert trees[0].tree == parse.tree
        assert [t.log_prob for t in trees] == [ensemble.log_prob(t.tree) for t in trees]
        scores = [t.score for t in trees]
        assert scores[1:] == sorted(scores[1:], reverse=True)


def test_labels_of_a_network_are_weighed_with_their_functions() -> None:
    text = "\n".join(str(tree) for tree in sw.bundled_treebank("dev")[:40])
    bank = sw.read_treebank(io.StringIO(text.replace("(NP ", "(NP-SBJ ")), keep_functions=True)
    network = sw.SpanEncoder(width=6, hidden=5, passes=1).fit(bank).model_
    found = Parser(network).parse(bank.words(3)).k_best(8)
    expected = network.log_probs(Treebank.from_trees([one.tree for one in found]))
    assert [one.log_prob for one in found] == expected.tolist()
    assert any("NP-SBJ" in str(one.tree) and np.isfinite(one.log_prob) for one in found)


def blas_threads() -> set[int]:
    """Threads that matrix products use now, in each library."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return {library.num_threads for library in libraries}


def test_a_network_reads_one_sentence_with_one_blas_thread(
    network: SpanNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `parse_many` does: with more, idle threads take six times the processor time."""
    parser, seen = Parser(network), []
    read_many = NetworkReader.read_many

    def watched(self: NetworkReader, sentences: Any) -> Any:
        seen.append(blas_threads())
        return read_many(self, sentences)

    monkeypatch.setattr(NetworkReader, "read_many", watched)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        one = parser.parse(["the", "dog", "sleeps", "."])
        assert blas_threads() == before
        (many,) = parser.parse_many([["the", "dog", "sleeps", "."]])
    assert seen == [{1}, {1}]
    assert one.marginals == many.marginals


def test_a_sentence_is_charted_once_by_each_group(
    bank: Treebank, family: list[LatentGrammar], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members without a chart take the probability of the sentence from a group that has one."""
    network = sw.SpanEncoder(width=6, hidden=5, passes=1, plain=sw.PCFG()).fit(bank).model_
    words, charted = ["the", "dog", "sleeps", "."], []
    right = charts.plain_inside

    def counted(*args: Any) -> Any:
        charted.append(1)
        return right(*args)

    monkeypatch.setattr(charts, "plain_inside", counted)
    mix = Ensemble.of([*family, network])
    assert len({mix.chart_owners[k] for k in range(len(mix.members))}) == 1
    parse = Parser(mix).parse(words)
    assert not parse.is_fallback
    assert parse.k_best(3)
    assert parse.marginals
    assert len(charted) == 1
    alone = Parser(network.grammar).parse(words).sentence_log_prob
    parts = [Parser(member).parse(words).sentence_log_prob for member in family]
    mean = np.logaddexp.reduce([*parts, alone]) - np.log(len(mix.members))
    charted.clear()
    assert parse.sentence_log_prob == pytest.approx(mean, abs=1e-9)
    assert not charted
    parse = Parser(network).parse(words)
    assert [best.tree for best in parse.k_best(1)] == [parse.tree]
    assert not charted
    assert len(parse.k_best(2)) == 2
    assert len(charted) == 1


def test_the_blas_limit_of_overlapping_users_ends_with_the_last() -> None:
    """Each restoring what it found would leave the limit of the first behind for good."""
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second = ExitStack(), ExitStack()
        first.enter_context(one_blas_thread())
        second.enter_context(one_blas_thread())
        first.close()
        assert blas_threads() == {1}
        second.close()
        assert blas_threads() == before


# -- the product ------------------------------------------------------------------------------


def test_the_product_is_the_geometric_mean() -> None:
    several = toys(3)
    members = tuple(toy.grammar() for toy in several)
    parse = exact(Ensemble(members, np.array(WEIGHTS), "product")).parse(WORDS)
    each = [spans_of(toy) for toy in several]
    expected = {
        key: exp(
            sum(w * log(max(p[key], LEAST_FACTOR)) for w, p in zip(WEIGHTS, each, strict=True))
        )
        for key in each[0]
    }
    for i in range(len(WORDS)):  # the tags of a word sum to 1
        tags = [key for key in expected if key[0].startswith("T") and key[1] == i]
        total = sum(expected[key] for key in tags)
        expected |= {key: expected[key] / total for key in tags}
    assert distance(said(parse), expected) < 1e-11
    assert distance(said(parse), mean(each, WEIGHTS)) > 1e-3


def test_one_member_alone_cannot_rule_anything_out() -> None:
    """A span that one member gives posterior 0 keeps a floor, to the power of its weight."""
    first = random_toy(np.random.default_rng(0), n_states=2)
    second = Toy(**vars(first))
    dead = [rule for rule in first.rules if rule[0] == 1 and min(rule[1:]) >= 2]
    assert dead  # all that make a P1 of two words
    second.rules = first.rules | {rule: np.zeros_like(first.rules[rule]) for rule in dead}
    # Equal coarse weights, or they would be two groups.
    one, other = first.grammar(), second.grammar()
    other = replace(other, coarse=one.coarse)
    ensemble = Ensemble((one, other), np.array([0.5, 0.5]), "product")
    assert ensemble.groups == ((0, 1),)
    words = ["w0", "w0"]
    a, b = spans_of(first, words), spans_of(second, words)
    key = ("P1", 0, 2)
    assert b.get(key, 0.0) == 0.0
    expected = exp(0.5 * log(a[key]) + 0.5 * log(LEAST_FACTOR))
    assert said(exact(ensemble).parse(words))[key] == pytest.approx(expected, rel=1e-9)


# -- an ensemble of one -----------------------------------------------------------------------


@pytest.mark.parametrize("decoder", ["f1", "goodman", "max-rule"])
@pytest.mark.parametrize("place", range(3))
def test_an_ensemble_of_one_is_the_model(
    place: int, decoder: str, family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    model = family[place]
    alone, wrapped = (Parser(m, decoder=decoder) for m in (model, Ensemble.of([model])))
    for words in [*sentences, ["hello"], ["Blorf", "blorfs", "."]]:
        one, other = alone.parse(words), wrapped.parse(words)
        assert one.tree == other.tree
        assert one.marginals == other.marginals
        assert one.sentence_log_prob == other.sentence_log_prob
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-12)
        assert [s[:2] for s in one.k_best(3)] == [s[:2] for s in other.k_best(3)]


def test_copies_of_a_model_change_nothing(
    family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    alone, copies = exact(family[0]), exact(Ensemble.of([family[0]] * 3))
    for words in sentences:
        one, other = alone.parse(words), copies.parse(words)
        assert one.tree == other.tree
        assert distance(brackets(one), brackets(other)) < 1e-12


# -- pruning by the smallest ------------------------------------------------------------------


def resized(toy: Toy, n_states: list[int], seed: int) -> Toy:
    """The same symbols, rules and words with other numbers of states and other weights."""
    rng = np.random.default_rng(seed)
    return Toy(
        toy.n_phrases,
        n_states,
        {a: rng.uniform(0.1, 1, n_states[a]) for a in toy.root},
        {r: rng.uniform(0.1, 1, [n_states[a] for a in r]) for r in toy.rules},
        {w: {t: rng.uniform(0.1, 1, n_states[t]) for t in row} for w, row in toy.words.items()},
    )


def narrowed_mean(small: Toy, large: Toy, least: float, weights: Sequence[float]) -> Table:
    """What the small one finds probable enough, and the large one over trees made of it."""
    table = spans_of(small)
    kept = {key for key, p in table.items() if p >= least}

    def name(span: tuple[int, int, int]) -> tuple[str, int, int]:
        return (f"{'P' if span[0] < small.n_phrases else 'T'}{span[0]}", *span[1:])

    weighted = [
        (tree, weight)
        for tree, weight in listing.weighted_trees(*large.floats(WORDS))
        if all(name(span) in kept for span in listing.spans(tree))
    ]
    total = listing.sentence_weight(weighted)
    theirs = {name(span): w / total for span, w in listing.marginals(weighted).items()}
    return mean([{key: table[key] for key in kept}, theirs], weights)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", [0.0, 0.05, 0.15])
def test_the_smallest_member_prunes_for_the_others(seed: int, least: float) -> None:
    large = random_toy(np.random.default_rng(seed), n_states=3)
    small = resized(large, [2, *[1] * (len(large.n_states) - 1)], seed)
    ensemble = Ensemble.of([large.grammar(), small.grammar()], [0.6, 0.4])
    assert ensemble.groups == ((0, 1),)
    parser = Parser(ensemble, threshold=0.0, beam=0.0, middle=least)
    found = said(parser.parse(WORDS))
    expected = narrowed_mean(small, large, least, [0.4, 0.6])
    assert distance(found, expected) < 1e-10
    # Mutant: the large one prunes for the small one.
    if least > 0.1:  # the other value drops nothing from some of these charts
        assert distance(found, narrowed_mean(large, small, least, [0.6, 0.4])) > 1e-3


def test_where_nothing_is_left_the_chart_is_taken_whole() -> None:
    several = toys(2, 3)
    ensemble = Ensemble.of([toy.grammar() for toy in several])
    parse = Parser(ensemble, threshold=0.0, beam=0.0, middle=0.99).parse(WORDS)
    assert not parse.is_fallback
    assert parse.tree == exact(ensemble).parse(WORDS).tree
    assert distance(said(parse), mean([spans_of(toy) for toy in several], [0.5, 0.5])) < 1e-11


def test_the_order_of_members_does_not_matter_within_a_group(
    family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    one, other = (
        Parser(Ensemble.of(members, weights))
        for members, weights in ((family, WEIGHTS), (family[::-1], WEIGHTS[::-1]))
    )
    for words in sentences:
        a, b = one.parse(words), other.parse(words)
        assert a.tree == b.tree
        assert distance(said(a), said(b)) < 1e-12


# -- one word, no parse, negative numbers, threads --------------------------------------------


def one_word_toys() -> list[Toy]:
    rng = np.random.default_rng(0)
    return [
        Toy(
            1,
            [1, 2, 2],
            {1: rng.uniform(0.1, 1, 2), 2: rng.uniform(0.1, 1, 2)},
            {(0, 1, 1): np.ones((1, 2, 2))},
            {"w0": {1: rng.uniform(0.1, 1, 2), 2: rng.uniform(0.1, 1, 2)}},
        )
        for _ in range(2)
    ]


def test_one_word_gets_its_likeliest_tag() -> None:
    several = one_word_toys()
    ensemble = Ensemble.of([toy.grammar() for toy in several], [0.3, 0.7])
    expected: Table = defaultdict(float)
    for toy, weight in zip(several, (0.3, 0.7), strict=True):
        mass = {t: float(toy.root[t] @ toy.words["w0"][t]) for t in (1, 2)}
        for t, value in mass.items():
            expected[f"T{t}", 0, 1] += weight * value / sum(mass.values())
    parse = exact(ensemble).parse(["w0"])
    assert distance(said(parse), expected) < 1e-12
    assert parse.tree[0].label == max(expected, key=expected.__getitem__)[0]
    assert not parse.is_fallback


def test_one_word_sentences_of_the_bundled_treebank(
    family: list[LatentGrammar], strangers: list[LatentGrammar]
) -> None:
    parser = Parser(Ensemble.of([*family, *strangers]))
    for word in ("dog", "hello", "Blorfing", "("):
        parse = parser.parse([word])
        assert parse.tree.words() == [word]
        assert all(0.0 <= c.probability <= 1.0 for c in parse.marginals)


def test_a_sentence_that_nobody_can_parse_is_joined_from_pieces() -> None:
    rules = {(0, 1, 2): np.ones((1, 1, 1))}
    toy = Toy(1, [1, 1, 1], {0: np.ones(1)}, rules, {})
    toy.words = {"w0": {1: np.ones(1)}, "w1": {2: np.ones(1)}}
    other = Toy(1, [1, 1, 1], {0: np.ones(1)}, {}, toy.words)
    for members in ([toy], [toy, other], [other, toy]):
        parser = Parser(Ensemble.of([t.grammar() for t in members]))
        parse = parser.parse(["w1", "w0"])
        assert str(parse.tree) == "(TOP (P0 (T2 w1) (T1 w0)))"
        assert (parse.is_fallback, parse.kind) == (True, "joined")
        assert parse.log_prob == parse.sentence_log_prob == -inf
        assert parse.marginals == []
        assert (parser.stats.fallbacks, parser.stats.joined) == (1, 1)


@pytest.mark.parametrize("words", [["w0", "w1"], ["w2"]], ids=len)
def test_where_the_first_group_has_no_parse_another_one_has_the_word(words: list[str]) -> None:
    """Its tree and its posteriors count, and nothing was joined from pieces."""
    rules = {(0, 1, 2): np.ones((1, 1, 1))}
    able = Toy(1, [1, 1, 1], {0: np.ones(1), 1: np.ones(1)}, rules, {})
    able.words = {"w0": {1: np.ones(1)}, "w1": {2: np.ones(1)}, "w2": {1: np.ones(1)}}
    unable = Toy(1, [1, 1, 1], {0: np.ones(1)}, {}, able.words)
    alone = Parser(able.grammar()).parse(words)
    for members in ([able, unable], [unable, able]):
        parser = Parser(Ensemble.of([t.grammar() for t in members]))
        parse = parser.parse(words)
        assert (parse.tree, parse.kind) == (alone.tree, "parsed")
        assert parse.marginals == alone.marginals
        assert parse.k_best(2)[0].tree == parse.tree
        assert parse.log_prob == pytest.approx(alone.log_prob + log(0.5))
        assert parser.stats.fallbacks == 0


def test_negative_posteriors_count_as_0(
    family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    spectral, _, cluster = family
    parser = exact(Ensemble.of([spectral, cluster]))
    prepared = PreparedEnsemble(spectral)
    n_negative = 0
    for words in sentences:
        parse = parser.parse(words)
        assert all(0.0 <= c.probability <= 1.0 for c in parse.marginals)
        assert all(p >= 0.0 for p in brackets(parse).values())
        found = prepared.bracket_posteriors(words, NOTHING)
        assert found is not None
        forest = found.forest
        assert forest is not None
        n_negative += int((forest.posteriors.items < 0).sum())
    assert n_negative > 0  # or nothing was tested
    assert parser.stats.negative_items == n_negative


def test_a_change_of_basis_changes_no_mixture() -> None:
    """Members of either sign: the same posteriors as the probabilities they were made from."""
    rng = np.random.default_rng(0)
    several = toys(2, 3)
    bases = [random_bases(rng, toy.n_states) for toy in several]
    turned = [toy.rebased(g) for toy, g in zip(several, bases, strict=True)]
    one, other = (
        exact(Ensemble.of([t.grammar() for t in group])).parse(WORDS) for group in (several, turned)
    )
    assert distance(said(one), said(other)) < 1e-10
    assert one.tree == other.tree


@pytest.mark.parametrize("jobs", [2, Processes(2)])
def test_jobs_change_nothing(
    family: list[LatentGrammar],
    strangers: list[LatentGrammar],
    sentences: list[list[str]],
    jobs: int | Processes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "ALONE", -1.0)
    model = Ensemble.of([*family, *strangers])
    many = [*sentences, ["hello"], ["Blorf", "blorfs"]] * 2
    one, two = Parser(model), Parser(model)
    alone, together = list(one.parse_many(many, jobs=1)), list(two.parse_many(many, jobs=jobs))
    assert [p.tree for p in alone] == [p.tree for p in together]
    assert [p.marginals for p in alone] == [p.marginals for p in together]
    assert [p.sentence_log_prob for p in alone] == [p.sentence_log_prob for p in together]
    assert one.stats.sentences == two.stats.sentences == len(many)


# -- the fast parser --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "kept"),
    [
        ([0.3, 0.3, 0.2, 0.2], [0, 2, 1, 3]),  # the first group alone has exactly half
        ([0.3, 0.2, 0.3, 0.2], [0, 2]),
        ([0.1, 0.6, 0.1, 0.2], [0, 2, 1, 3]),
        ([1.0, 0.0, 0.0, 0.0], [0, 2]),
    ],
)
def test_the_fast_parser_asks_the_first_groups(
    weights: list[float],
    kept: list[int],
    family: list[LatentGrammar],
    strangers: list[LatentGrammar],
) -> None:
    members = [family[0], strangers[0], family[1], strangers[1]]
    parser = Parser.fast(Ensemble.of(members, weights))
    asked = parser.model
    assert isinstance(asked, Ensemble)
    assert list(map(id, asked.members)) == [id(members[k]) for k in kept]
    share = np.array(weights)[kept]
    np.testing.assert_allclose(asked.weights, share / share.sum(), rtol=1e-12)


def test_settings_of_the_fast_parser_can_be_changed(family: list[LatentGrammar]) -> None:
    assert Parser.fast(family[0])._pruning == tuple(FAST[k] for k in Pruning._fields)
    changed = Parser.fast(family[0], threshold=0.25, decoder="goodman")
    assert changed._pruning == (0.25, FAST["beam"], FAST["middle"])
    assert changed.decoder == "goodman"
    assert Parser.fast(family[0]).model is family[0]


def test_the_fast_parser_prunes_more_and_parses_everything(
    family: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    model = Ensemble.of(family)
    n_items = [0, 0]
    for words in [*sentences, ["hello"], ["Blorf", "(", "blorfs"]]:
        for k, parser in enumerate((Parser(model), Parser.fast(model))):
            parse = parser.parse(words)
            assert parse.tree.words() == words
            n_items[k] += len(parse.marginals)
    assert n_items[1] < n_items[0]


# -- members that count little or nothing -----------------------------------------------------


def test_members_without_weight_are_not_asked(
    family: list[LatentGrammar], strangers: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    alone = Parser(family[0])
    mute = Parser(Ensemble.of([family[0], *strangers, family[2]], [1, 0, 0, 0]))
    for words in [*sentences, ["hello"]]:
        one, other = alone.parse(words), mute.parse(words)
        assert one.tree == other.tree
        assert one.marginals == other.marginals


def test_a_first_group_without_weight_still_makes_the_trees(
    family: list[LatentGrammar], strangers: list[LatentGrammar], sentences: list[list[str]]
) -> None:
    parser = exact(Ensemble.of([*family, strangers[0]], [0, 0, 0, 1]))
    theirs = exact(strangers[0])
    for words in sentences:
        expected = {k: p for k, p in brackets(theirs.parse(words)).items() if p}
        assert distance(brackets(parser.parse(words)), expected) < 1e-9
    assert parser.parse(["hello"]).tree.words() == ["hello"]


@pytest.mark.parametrize("middle", [0.0, 1e-4, 0.05])
def test_several_plain_members(middle: float) -> None:
    """A plain grammar has its posteriors from the chart itself, also from a narrowed one."""
    several = toys(2, 1)
    members = [toy.grammar() for toy in several]
    twice = Ensemble.of([members[0]] * 2)
    assert twice.groups == ((0, 1),)
    settings = {"threshold": 0.0, "beam": 0.0, "middle": middle}
    for decoder in ("f1", "goodman", "max-rule"):
        one, other = (Parser(m, decoder=decoder, **settings) for m in (members[0], twice))
        assert one.parse(WORDS).tree == other.parse(WORDS).tree


def test_one_word_tags_are_matched_by_name() -> None:
    """Members that leave out different tags have lists of equal length that do not match."""
    one, other = one_word_toys()
    one.root = {1: one.root[1], 2: np.zeros(2)}
    other.root = {1: np.zeros(2), 2: other.root[2]}
    a, b = one.grammar(), other.grammar()
    both = replace(b, coarse=a.coarse)
    ensemble = Ensemble.of([a, both])
    assert ensemble.groups == ((0, 1),)
    parse = exact(ensemble).parse(["w0"])
    assert said(parse) == {("T1", 0, 1): 1.0}  # the first alone, not both under its name
    assert parse.sentence_log_prob == pytest.approx(a.log_prob(["w0"]))
