"""Given tags and partial trees: posteriors against lists of all trees, and trees that obey."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from math import exp, inf
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.reference import enumerate as listing
from tests.reference.enumerate import Node
from tests.reference.span_trees import binary_spans
from tests.toys import random_toy

import sapwood as sw
from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.grammar import constraints as module
from sapwood.constituency.grammar.constraints import (
    ConstrainedPhrase,
    Constraints,
    KnownLabels,
    PartialSentence,
    _entry_sources,
    constrain,
    word_entries,
)
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.parse.posteriors import NetworkReader, split_codes
from sapwood.core.errors import SapwoodError

WORDS = ["w0", "w1", "w2", "w0", "w1"]
N = len(WORDS)
KNOWN = KnownLabels(frozenset({"P0", "P1"}), frozenset({"T2", "T3"}))
SPANS = [(i, j) for i in range(N) for j in range(i + 1, N + 1)]


# Labels of the symbols 0 to 3, outermost first: unary chains over several words, and over one.
CHAINS = (("P0",), ("P1", "P0"), ("T2",), ("P0", "T3"))


def shown(node: Node) -> sw.Tree:
    """An enumerated tree as the library shows it, with the chains of its symbols."""
    *above, last = CHAINS[node.symbol]
    tree = sw.Tree(last, [shown(child) for child in node.children] or WORDS[node.start])
    for label in reversed(above):
        tree = sw.Tree(label, [tree])
    return tree


class Listed(NamedTuple):
    """A tree of the list with its weight, and what requests are compared with."""

    text: str
    weight: float
    spans: frozenset[tuple[str, int, int]]
    phrases: dict[tuple[int, int], list[str]]  # labels over each span, outermost first
    tags: list[str]


def listed(tree: sw.Tree, weight: float = 1.0) -> Listed:
    phrases: dict[tuple[int, int], list[str]] = {}
    for label, i, j in tree.spans():
        if label.startswith("P"):
            phrases.setdefault((i, j), []).append(label)
    return Listed(str(tree), weight, frozenset(tree.spans()), phrases, tree.tags())


@cache
def listed_trees(seed: int, n_states: int) -> tuple[sw.LatentGrammar, list[Listed]]:
    """A random grammar with unary chains, and all trees of the sentence."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=n_states)
    for word in WORDS:  # a soft tag that a word never has would count as one of its class
        toy.words[word].setdefault(3, rng.uniform(0.1, 1.0, toy.n_states[3]))
    symbols = [Symbol(chain) for chain in CHAINS]
    grammar = replace(toy.grammar(), phrases=tuple(symbols[:2]), tags=tuple(symbols[2:]))
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    return grammar, [listed(sw.Tree("TOP", [shown(tree)]), float(w)) for tree, w in weighted]


def factor(tree: Listed, asked: PartialSentence) -> float:
    """What the weight of a tree counts, 0 where it has not all that was asked for.

    Written without the code that is tested.
    """
    wanted: dict[tuple[int, int], list[str]] = {}
    for i, j, label in asked.spans:
        own = wanted.setdefault((i, j), [])
        own += [label] if label and own[-1:] != [label] else []
    for span, labels in wanted.items():
        found = tree.phrases.get(span, [])
        if not found or labels not in map(list, combinations(found, len(labels))):
            return 0.0
    for i, j, label in asked.forbidden:
        found = tree.phrases.get((i, j), [])
        if label in found or (label is None and found):
            return 0.0
    product = 1.0
    for tag, given_tags in zip(tree.tags, asked.tags or [None] * N, strict=True):
        soft = {given_tags: 1.0} if isinstance(given_tags, str) else given_tags
        product *= 1.0 if soft is None else soft.get(tag, 0.0)
    return product


def requests() -> st.SearchStrategy[PartialSentence]:
    span = st.tuples(st.sampled_from(SPANS), st.sampled_from(["P0", "P1", None])).map(
        lambda x: (*x[0], x[1])
    )
    weight = st.sampled_from([0.0, 0.2, 0.7, 1.5])
    soft = st.fixed_dictionaries({"T2": st.sampled_from([0.1, 0.6])}, optional={"T3": weight})
    tag = st.one_of(st.none(), st.sampled_from(["T2", "T3"]), soft)
    tags = st.lists(tag, min_size=N, max_size=N)
    return st.builds(
        PartialSentence, st.just(WORDS), tags, st.lists(span, max_size=3),
        st.lists(span, max_size=2),
    )  # fmt: skip


@settings(max_examples=30)
@given(requests(), st.integers(0, 2), st.sampled_from([1, 2]))
@example(PartialSentence(WORDS, None, [(1, 2, "P0"), (2, 5, "P1"), (2, 5, "P0")]), 0, 2)
@example(PartialSentence(WORDS, None, [(2, 5, "P0"), (2, 5, "P1")]), 0, 2)
@example(PartialSentence(WORDS, [{"T2": 0.2, "T3": 0.7}] * N, [], [(0, 2, None)]), 1, 2)
def test_posteriors_are_those_of_the_trees_that_satisfy(
    asked: PartialSentence, seed: int, n_states: int
) -> None:
    grammar, trees = listed_trees(seed, n_states)
    parser = sw.Parser(grammar, threshold=0.0, beam=0.0)
    counted = [(tree, tree.weight * factor(tree, asked)) for tree in trees]
    left = [(tree, weight) for tree, weight in counted if weight > 0.0]
    try:
        parse = parser.parse(WORDS, tags=asked.tags, spans=asked.spans, forbidden=asked.forbidden)
    except SapwoodError:  # two of the requests contradict each other
        assert not left
        return
    total, everything = sum(weight for _, weight in left), sum(tree.weight for tree in trees)
    expected = min(1.0, total / everything)
    assert exp(parse.constraint_log_prob) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert not left or parse.kind == "parsed"
    constraints = constrain(N, KNOWN, asked.tags, asked.spans, asked.forbidden)
    assert constraints is None or constraints.unmet(parse.tree) is None
    if left:
        assert factor(listed(parse.tree), asked) > 0.0
        np.testing.assert_allclose(exp(parse.sentence_log_prob), total, rtol=1e-9)
        posterior: dict[tuple[str, int, int], float] = {}
        for tree, weight in left:
            for span in tree.spans:
                posterior[span] = posterior.get(span, 0.0) + weight / total
        for label, i, j, p in parse.marginals:
            assert p == pytest.approx(posterior.get((label, i, j), 0.0), abs=1e-9)
        best = {str(one.tree) for one in parse.k_best(40)}
        assert len(best) == min(40, len(left))
        assert best <= {tree.text for tree, _ in left}


def test_a_mutant_that_forgets_crossing_spans_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without excluded crossing spans, trees without the required phrase stay in the chart."""
    grammar, trees = listed_trees(0, 2)
    parser = sw.Parser(grammar, threshold=0.0, beam=0.0)
    asked = PartialSentence(WORDS, None, [(1, 3, "P0")])
    expected = sum(x.weight * factor(x, asked) for x in trees) / sum(x.weight for x in trees)
    right = parser.parse(WORDS, spans=asked.spans).constraint_log_prob
    assert exp(right) == pytest.approx(expected, rel=1e-9)
    monkeypatch.setattr(module, "CLOSED", module.FREE)
    wrong = parser.parse(WORDS, spans=asked.spans).constraint_log_prob
    assert exp(wrong) > 1.05 * expected


@pytest.mark.parametrize("method", ["pcfg", "em", "spectral", "crf", "encoder", "mix"])
def test_every_kind_of_member_obeys(
    method: str, learn: Any, small_bank: sw.Treebank, network: SpanNetwork
) -> None:
    model = _model(method, learn, small_bank, network)
    parser = sw.Parser(model)
    rng = np.random.default_rng(3)
    labels = sorted(parser.known_labels.phrases)
    tags = sorted(parser.known_labels.tags)
    n_refused = 0
    for tree in sw.bundled_treebank("test")[:12]:
        words = tree.words()
        n = len(words)
        i, k = (int(rng.integers(0, n - 1)) for _ in range(2))
        j, m = int(rng.integers(i + 1, n + 1)), int(rng.integers(k + 1, n + 1))
        given_tags: list[Any] = [None] * n
        given_tags[i] = str(rng.choice(tags))
        given_tags[k] = {str(rng.choice(tags)): 0.3, str(rng.choice(tags)): 0.7}
        asked = PartialSentence(
            words, given_tags, [(i, j, str(rng.choice(labels)))], [(k, m, str(rng.choice(labels)))]
        )
        try:
            parse = parser.parse_compiled(asked)
        except SapwoodError:  # the phrase is required and forbidden
            n_refused += 1
            continue
        constraints = constrain(n, parser.known_labels, *asked[1:])
        assert constraints is not None
        assert constraints.unmet(parse.tree) is None
        assert parse.constraint_log_prob <= 0.0
        for one in parse.k_best(3):
            assert constraints.unmet(one.tree) is None
    assert n_refused < 4


@pytest.fixture(scope="module")
def network(small_bank: sw.Treebank) -> SpanNetwork:
    return sw.SpanEncoder(passes=1).fit(small_bank).model_


def _model(method: str, learn: Any, bank: sw.Treebank, network: SpanNetwork) -> Any:
    if method == "encoder":
        return network
    if method == "crf":
        return sw.SpanCRF(passes=1).fit(bank).model_
    if method == "mix":
        return sw.Ensemble.of([learn("em"), learn("pcfg", binarise="right"), network])
    return learn(method)


def test_gold_constraints_give_the_gold_tree(
    learn: Any, small_bank: sw.Treebank, network: SpanNetwork
) -> None:
    parser = sw.Parser(_model("mix", learn, small_bank, network))
    for tree in sw.bundled_treebank("test")[:10]:
        words, tags, spans = tree.words(), [], []
        for node, (label, i, j) in zip(tree.nodes(), tree.spans(), strict=True):
            if node.is_preterminal:
                tags.append(label)
            elif label != "TOP":
                spans.append((i, j, label))
        assert parser.parse(words, tags=tags, spans=spans).tree == sw.clean(tree)


def test_soft_tags_multiply_and_hard_ones_exclude() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    words = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    free = parser.parse(words)
    soft = parser.parse(words, tags=[{"DT": 0.5, "NN": 0.5}, *[None] * 8])
    assert soft.tree == free.tree
    assert exp(soft.constraint_log_prob) == pytest.approx(0.5, rel=1e-6)
    hard = parser.parse(words, tags=["NN", *[None] * 8])
    assert next(node.label for node in hard.tree.nodes() if node.is_preterminal) == "NN"


def test_tags_that_the_lexicon_does_not_list_count_a_tenth_of_those_it_lists() -> None:
    grammar = sw.bundled_grammar()

    def weights(tags: dict[str, float], **options: bool) -> list[tuple[str, float]]:
        entries, factors = word_entries(grammar, "dog", 0, Constraints(1, (tags,), **options))
        labels = [grammar.tags[k].chain[-1] for k in grammar.lexicon.entry_tag[entries].tolist()]
        return list(zip(labels, grammar.coarse.lexical[entries] * factors, strict=True))

    ((_, listed),) = weights({"NN": 1.0})
    noun, *verbs = weights({"NN": 0.5, "VBD": 0.25})
    assert noun == ("NN", pytest.approx(0.5 * listed))
    assert {label for label, _ in verbs} == {"VBD"}
    assert max(weight for _, weight in verbs) == pytest.approx(0.25 * 0.1 * 0.5 * listed)
    assert weights({"NN": 0.5, "VBD": 0.25}, is_strict=True) == [noun]
    ((label, alone),) = weights({"DT": 0.5})  # nothing listed: as for an unknown word
    assert (label, alone) == ("DT", pytest.approx(0.5 * grammar.coarse.lexical.min()))


def test_the_last_source_of_a_tag_is_the_word_for_which_it_is_most_probable() -> None:
    grammar = sw.PCFG().fit([sw.Tree.parse("(TOP (S (A aa) (B bb) (C cc)))")] * 9).model_
    *_, likeliest = _entry_sources(grammar, "bb", 1)
    lexicon = grammar.lexicon
    words = [lexicon.words[row] for row in lexicon.entry_row[likeliest].tolist()]
    tags = [grammar.tags[tag].chain[-1] for tag in lexicon.entry_tag[likeliest].tolist()]
    assert dict(zip(tags, words, strict=True)) == {"A": "aa", "B": "bb", "C": "cc"}


def test_a_capital_at_the_start_of_a_sentence_is_no_other_word() -> None:
    grammar = sw.bundled_grammar()
    small, first, later = (
        next(_entry_sources(grammar, word, place)).tolist()
        for word, place in (("the", 1), ("The", 0), ("The", 1))
    )
    assert first == small
    assert later != small


def test_the_root_is_no_phrase_and_any_other_label_at_the_top_is() -> None:
    whole = (ConstrainedPhrase(0, 2, ("S",)),)
    for text in ("(S (A a) (B b))", "(TOP (S (A a) (B b)))"):
        tree = sw.Tree.parse(text)
        assert Constraints(2, (None, None), whole).unmet(tree) is None
        assert Constraints(2, (None, None), (), whole).unmet(tree) == "S over words 1 to 2"
    bare = sw.Tree.parse("(TOP (A a) (B b))")
    assert Constraints(2, (None, None), (), (ConstrainedPhrase(0, 2, ()),)).unmet(bare) is None
    assert Constraints(2, (None, None), whole).unmet(bare) == "no S over words 1 to 2"


def test_a_phrase_over_one_word_may_stand_above_or_below_others() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    words = ["they", "sleep", "."]
    parse = parser.parse(words, spans=[(0, 1, "NP"), (1, 2, "VP")])
    assert ("NP", 0, 1) in parse.tree.spans()
    assert ("VP", 1, 2) in parse.tree.spans()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"spans": [(0, 3, "P0"), (2, 5, None)]}, "P0 over words 1 to 3 and a phrase over words 3"),
        ({"spans": [(0, 3, "P0")], "forbidden": [(0, 3, "P0")]}, "is required, and P0 over words"),
        ({"spans": [(0, 3, None)], "forbidden": [(0, 3, None)]}, "is forbidden"),
        ({"spans": [(0, 9, "P0")]}, r"\(0, 9\) is no span of a sentence of 5 words: it must"),
        ({"spans": [(-1, 2, "P0")]}, r"\(-1, 2\) is no span of a sentence of 5 words: it must"),
        ({"spans": [(2, 2, "P0")]}, r"\(2, 2\) is no span .*: it has no words"),
        ({"spans": [("a", 2, "P0")]}, "holds the string 'a', expected a whole number"),
        ({"spans": [(0.0, 2, "P0")]}, r"holds a float \(0.0\), expected a whole number"),
        ({"forbidden": [(0, 2.0, "P0")]}, r"holds a float \(2.0\), expected a whole number"),
        ({"spans": [(True, 2, "P0")]}, r"holds a bool \(True\), expected a whole number"),
        ({"spans": [(0, 2)]}, r"a tuple \(\(0, 2\)\) is no span"),
        ({"spans": ["abc"]}, "the string 'abc' is no span"),
        ({"spans": [(0, 5, "TOP")]}, "'TOP', that of the root, which every tree has"),
        ({"spans": [(0, 5, "ROOT")]}, "'ROOT', that of the root"),
        ({"spans": [(0, 1, "T2")]}, "the label over word 1 is 'T2', a tag"),
        ({"forbidden": [(0, 2, "T2")]}, "the label over words 1 to 2 is 'T2', a tag"),
        (
            {"spans": [(0, 3, "P0")], "forbidden": [(0, 3, "P1"), (0, 3, "P0")]},
            "is required, and P0 over words 1 to 3 is forbidden",
        ),
        ({"spans": [(0, 2, "P7")]}, "is P7, which the model does not have"),
        ({"spans": [(0, 2, ["P0"])]}, r"is a list \(\['P0'\]\), which the model does not have"),
        ({"spans": 7}, "expected a list of"),
        (
            {"spans": [(0, 2, None)], "forbidden": [(0, 2, "P0"), (0, 2, "P1")]},
            "a phrase over words 1 to 2 is required, and every label",
        ),
        ({"tags": [["T2"], *[None] * 4]}, "the tag of word 1 is a list"),
        ({"tags": ["T2"]}, "found 1 tags for a sentence of 5 words"),
        ({"tags": "T2 T2"}, "for a sentence of 5 words"),
        ({"tags": ["T9", *[None] * 4]}, "the tag of word 1 is T9"),
        ({"tags": [{"T2": -1.0}, *[None] * 4]}, "the probability of T2 for word 1"),
        ({"tags": [{"T2": 0.0}, *[None] * 4]}, "word 1 has no tag of positive probability"),
    ],
)
def test_impossible_requests_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SapwoodError, match=message) as caught:
        constrain(N, KNOWN, **asked)
    assert caught.value.hint


def test_nothing_asked_is_no_constraint() -> None:
    assert constrain(N, KNOWN, [None] * N) is None
    assert sw.Parser(sw.bundled_grammar()).parse(["they", "sleep", "."]).constraint_log_prob == 0.0


def test_a_request_that_no_grammar_can_meet_is_met_by_pieces() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    parse = parser.parse(
        ["the", "man", "sees", "the", "dog", "."], spans=[(1, 3, "NP"), (0, 3, None)]
    )
    assert parse.kind == "joined"
    assert parse.constraint_log_prob == -inf
    assert ("NP", 1, 3) in parse.tree.spans()
    assert any((i, j) == (0, 3) for _, i, j in parse.tree.spans())


def test_pieces_go_with_the_brackets_that_the_grammar_can_have() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    words = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    parse = parser.parse(words, spans=[(0, 2, "PP"), (3, 8, None)])
    assert parse.kind == "joined"
    assert {("PP", 0, 2), ("NP", 3, 8), ("VP", 2, 8)} <= set(parse.tree.spans())


def test_tags_that_no_tree_has_are_given_to_the_best_tree() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    words = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    parse = parser.parse(words, tags=["DT", "NN", "IN", *[None] * 6], forbidden=[(3, 8, None)])
    assert (parse.kind, parse.constraint_log_prob) == ("joined", -inf)
    assert parse.tree.tags()[:3] == ["DT", "NN", "IN"]
    assert {("S", 0, 9), ("NP", 0, 2), ("VP", 2, 8), ("PP", 5, 8)} <= set(parse.tree.spans())
    assert ("NP", 3, 8) not in parse.tree.spans()


def test_many_sentences_with_and_without_constraints() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    words = ["the", "man", "sees", "the", "dog", "."]
    some = [words, PartialSentence(words, None, [(3, 6, None)]), words]
    first, middle, last = parser.parse_many(some, jobs=2)
    assert first.tree == last.tree
    assert any((i, j) == (3, 6) for _, i, j in middle.tree.spans())


def test_spans_with_the_same_symbols_share_a_class() -> None:
    constraints = Constraints(
        4, (None,) * 4, (ConstrainedPhrase(1, 3, ("A",)),), (ConstrainedPhrase(0, 4, ()),)
    )
    chains: list[Any] = [("A",), ("B", "A"), ("B",), (), None]
    of_cell, allowed = constraints.cell_classes(chains)
    free = {(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (1, 4)}
    cells = [(i, j) for i in range(4) for j in range(i + 1, 5)]
    for (start, end), row in zip(cells, of_cell, strict=True):
        expected = [constraints.allows(start, end, chain) for chain in chains]
        assert allowed[row].tolist() == expected
        assert (row == 0) == ((start, end) in free)
    assert all(a <= b for a, b in pairwise(sorted(of_cell.tolist())))


def test_requests_for_tags_point_to_their_argument() -> None:
    with pytest.raises(SapwoodError) as caught:
        constrain(N, KNOWN, spans=[(0, 1, "T2")])
    assert "tags=" in str(caught.value.hint)


def test_a_repeated_request_is_one() -> None:
    spans = [(0, 2, "P0"), (1, 4, None), (0, 2, "P0")]
    with pytest.raises(SapwoodError, match="P0 over words 1 to 2 and a phrase"):
        constrain(N, KNOWN, spans=spans)
    twice = constrain(N, KNOWN, spans=[(0, 2, "P0"), (0, 2, None), (0, 2, "P0")])
    assert twice == constrain(N, KNOWN, spans=[(0, 2, "P0")])
    nested = constrain(N, KNOWN, spans=[(0, 2, "P0"), (0, 2, "P1"), (0, 2, "P0")])
    assert nested is not None
    assert nested.required[0].labels == ("P0", "P1", "P0")
    words = ["the", "man", "sleeps", "."]
    parse = sw.Parser(sw.bundled_grammar()).parse(words, spans=[(0, 2, "NP"), (0, 2, "NP")])
    assert parse.kind == "parsed"


def test_text_takes_constraints_and_many_sentences_have_their_own() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    text = "the man sees the dog with a hat."
    words = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    for asked in (
        {"spans": [(3, 8, "NP")]},
        {"forbidden": [(3, 8, "NP")]},
        {"tags": ["DT", "NN", *[None] * 7]},
    ):
        assert parser.parse_text(text, **asked).tree == parser.parse(words, **asked).tree
    with pytest.raises(TypeError, match="parse_many takes no spans and tags: each") as caught:
        parser.parse_many([words], spans=[(3, 8, "NP")], tags=None)
    assert "PartialSentence(words, tags, spans, forbidden)" in caught.value.hint


def reader_of(network: SpanNetwork) -> tuple[NetworkReader, list[str]]:
    names = list(dict.fromkeys(x for symbol in network.grammar.symbols for x in symbol.chain))
    return NetworkReader(network, {name: number for number, name in enumerate(names)}), names


@pytest.mark.parametrize(
    "asked",
    [
        {"spans": [(1, 3, None)]},
        {"spans": [(0, 2, "NP")], "forbidden": [(2, 4, None)]},
        {"spans": [(1, 4, "VP"), (1, 2, None)], "forbidden": [(0, 1, "NP"), (2, 4, "NP")]},
        {"forbidden": [(0, 4, "S"), (1, 3, "VP"), (0, 2, None)]},
    ],
)
def test_a_network_sums_over_the_trees_that_satisfy(
    asked: dict[str, Any], network: SpanNetwork
) -> None:
    """Against a list of all binary trees, whose spans have each a chain of labels or none."""
    n, chains = 4, [*network.labels, ()]
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    scores = np.random.default_rng(7).normal(size=(len(spans), len(chains)))
    scores[:, -1] = 0.0  # no label scores 0

    def is_allowed(span: tuple[int, int], chain: tuple[str, ...]) -> bool:
        required = [x for i, j, x in asked.get("spans", ()) if (i, j) == span]
        excluded = [x for i, j, x in asked.get("forbidden", ()) if (i, j) == span]
        return all(chain and x in (None, *chain) for x in required) and not any(
            chain and x in (None, *chain) for x in excluded
        )

    weight = np.exp(scores) * [[is_allowed(span, chain) for chain in chains] for span in spans]
    number = {span: k for k, span in enumerate(spans)}
    total, expected = 0.0, np.zeros_like(weight)
    for tree in binary_spans(0, n):
        if all((i, j) in tree for i, j, _ in asked.get("spans", ())):
            rows = [number[span] for span in tree]
            product = float(np.prod(weight[rows].sum(axis=1)))
            total += product
            expected[rows] += (
                product * weight[rows] / np.maximum(weight[rows].sum(axis=1, keepdims=True), 1e-300)
            )
    constraints = constrain(n, sw.Parser(network).known_labels, **asked)
    reader, _ = reader_of(network)
    log_sum, found = reader._span_posteriors(scores[:, :-1], n, constraints)
    assert log_sum == pytest.approx(np.log(total), abs=1e-9)
    np.testing.assert_allclose(found, expected[:, :-1] / total, atol=1e-9)


def test_a_network_tells_how_probable_constraints_are(network: SpanNetwork) -> None:
    """A phrase is there, or it is not; and both agree with its posterior."""
    words = ["the", "man", "sees", "the", "dog", "."]
    (reader, names), known = reader_of(network), sw.Parser(network).known_labels

    def probability(**asked: Any) -> float:
        constraints = constrain(len(words), known, **asked)
        assert constraints is not None
        return exp(reader.log_ratio(words, constraints))

    code, p = reader.read(words)
    label, start, end, is_tag = split_codes(code, len(words))
    here = [names[k] for k in label.tolist()]
    for span, name in (((0, 2), "NP"), ((2, 5), "VP"), ((3, 5), "NP")):
        there = [x == name and not t for x, t in zip(here, is_tag, strict=True)]
        own = p[there & (start == span[0]) & (end == span[1])].sum()
        assert 0.0 < own < 1.0
        assert probability(spans=[(*span, name)]) == pytest.approx(own, abs=2e-3)
        assert probability(forbidden=[(*span, name)]) == pytest.approx(1.0 - own, abs=2e-3)
    tag = p[is_tag & (start == 1) & np.array([x == "NN" for x in here])].sum()
    soft = [None, {"NN": 0.5}, *[None] * 4]
    assert probability(tags=soft) == pytest.approx(0.5 * tag, rel=1e-5)
    both = [probability(tags=soft, **{name: [(0, 2, "NP")]}) for name in ("spans", "forbidden")]
    assert sum(both) == pytest.approx(0.5 * tag, rel=1e-3)  # scores of spans depend on the tags


def test_the_probability_of_constraints_under_a_mix_is_the_mean_of_its_members(learn: Any) -> None:
    members = [learn("pcfg"), learn("em")]
    words = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    tags = [None, {"NN": 0.8, "VB": 0.1}, *[None] * 7]

    def probability(model: Any) -> float:
        parse = sw.Parser(model).parse(words, tags=tags, spans=[(3, 8, "NP")])
        return exp(parse.constraint_log_prob)

    one, other = map(probability, members)
    assert abs(one - other) > 1e-4
    mix = probability(sw.Ensemble.of(members, [0.25, 0.75]))
    assert mix == pytest.approx(0.25 * one + 0.75 * other, rel=1e-9)
