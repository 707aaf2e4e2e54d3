"""Every sentence gets a tree, the same one on any number of threads, and the right one."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import combinations, pairwise
from math import inf, isfinite, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from tests.reference import enumerate as listing
from tests.toys import Toy, random_bases, random_toy, tree_of

import sapwood as sw
from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse import charts
from sapwood.constituency.parse.charts import chart_room
from sapwood.constituency.parse.decoders import DECODERS, PRICE, _best_cut
from sapwood.constituency.parse.parser import Parser, chart_megabytes
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

WORDS = ["w0", "w1", "w2", "w0"]


@pytest.fixture(scope="module")
def latent() -> LatentGrammar:
    return sw.bundled_grammar()


@pytest.fixture(scope="module", params=["plain", "latent"])
def model(request: pytest.FixtureRequest) -> LatentGrammar:
    return request.getfixturevalue(request.param)


def exact_parser(model: LatentGrammar, decoder: str = "goodman") -> Parser:
    """A parser that prunes nothing."""
    return Parser(model, decoder=decoder, threshold=0.0, beam=0.0)


# -- every sentence gets a tree ---------------------------------------------------------------

ODD = {
    "one known word": ["hello"],
    "one unknown word": ["Xylophonist"],
    "one bracket": ["("],
    "only unknown words": ["foo", "barred", "Bazzes", "."],
    "brackets": ["the", "(", "dog", ")", "sleeps", "."],
    "Unicode": ["日本", "e\u0301", "\U0001f600", "a\u00a0b", "\u2028", "\u202e", "ﬀ", "İ", "."],
    "long word": ["the", "dog" * 10_000, "sleeps", "."],
    "numbers": ["1990-91", "3,000.5", "-", "%"],
    "our own marks": ["<unk>", "@S", "A|B", "<unk-lower>", "-LRB-"],
    "capitals": ["THE", "Dog", "sLEEPS", "."],
}


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("case", ODD)
def test_every_sentence_gets_a_tree_over_its_words(
    case: str, decoder: str, model: LatentGrammar
) -> None:
    words = ODD[case]
    parse = Parser(model, decoder=decoder).parse(words)
    assert parse.tree.words() == words == parse.words
    assert parse.tree.label == "TOP"
    assert parse.is_fallback == (parse.sentence_log_prob == -inf)
    assert parse.log_prob <= parse.sentence_log_prob or case == "one known word"


_NO_BLANK = st.characters(exclude_characters=" \t\r\n\f\v")  # words with blanks are refused


@settings(max_examples=40)
@given(words=st.lists(st.text(_NO_BLANK, min_size=1, max_size=6), min_size=1, max_size=8))
def test_any_text_gets_a_tree(words: list[str], plain: LatentGrammar) -> None:
    assert Parser(plain).parse(words).tree.words() == words


@pytest.mark.compiled
def test_a_sentence_of_300_words_takes_bounded_time_and_memory(latent: LatentGrammar) -> None:
    words = [*("the dog said that " * 74).split(), *["the", "dog", "sleeps", "."]]
    assert len(words) == 300
    parser = Parser(latent)
    parser.parse(words[-4:])  # compiled, if it was not
    before, started = _peak_megabytes(), time.perf_counter()
    parse = parser.parse(words)
    assert not parse.is_fallback
    assert parse.tree.words() == words
    assert time.perf_counter() - started < 20  # 0.3 s on one core of 2024
    # The charts themselves, forests and vectors of about the same size, and some room.
    assert _peak_megabytes() - before < 2 * chart_megabytes(prepare(latent), 300) + 100


def _peak_megabytes() -> float:
    resource = pytest.importorskip("resource")
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def test_no_parse_joins_the_best_pieces_and_is_counted() -> None:
    toy = Toy(1, [1, 1, 1], {0: np.ones(1)}, {(0, 1, 2): np.ones((1, 1, 1))}, {})
    toy.words = {"w0": {1: np.ones(1)}, "w1": {2: np.ones(1)}}
    parser = Parser(toy.grammar())
    assert str(parser.parse(["w0", "w1"]).tree) == "(TOP (P0 (T1 w0) (T2 w1)))"
    joined = parser.parse(["w1", "w0", "w1"])
    assert str(joined.tree) == "(TOP (P0 (T2 w1) (P0 (T1 w0) (T2 w1))))"
    assert (joined.is_fallback, joined.kind) == (True, "joined")
    assert joined.log_prob == joined.sentence_log_prob == -inf
    assert joined.sign == 0
    assert joined.marginals == []
    assert [scored.tree for scored in joined.k_best(3)] == [joined.tree]
    one = parser.parse(["w1"])  # no tag may be the root
    assert (str(one.tree), one.kind) == ("(TOP (T2 w1))", "joined")
    unknown = parser.parse(["w0", "unheard-of"])  # a word without any tag
    assert unknown.is_fallback
    assert unknown.tree.words() == ["w0", "unheard-of"]
    assert (parser.stats.sentences, parser.stats.fallbacks, parser.stats.joined) == (4, 3, 3)


def test_posteriors_beyond_all_bounds_are_no_parse() -> None:
    """1 / 1e-320 is infinite, and infinity times 0 not a number, which no kernel may follow."""
    tensor = np.array([[[1e-320]], [[1.0]]])
    toy = Toy(1, [2, 1], {0: np.array([1.0, 0.0])}, {(0, 1, 1): tensor}, {"w0": {1: np.ones(1)}})
    with np.errstate(all="ignore"):
        for decoder in ("f1", "goodman", "max-rule"):
            parse = Parser(toy.grammar(), decoder=decoder).parse(["w0", "w0"])
            assert parse.tree.words() == ["w0", "w0"]
            assert parse.is_fallback


@pytest.mark.parametrize("method", ["plain", "latent", "spectral"])
def test_fragments_get_the_tree_they_have_inside_a_sentence(method: str) -> None:
    """No sentence of the treebank is a noun phrase, and none lacks its full stop."""
    bank = sw.bundled_treebank("dev")
    model = {
        "plain": lambda: sw.PCFG(vertical=2).fit(bank).model_,
        "latent": lambda: sw.EMLPCFG(2, iterations=3).fit(bank).model_,
        "spectral": lambda: sw.SpectralLPCFG(4).fit(bank).model_,
    }[method]()
    parser = Parser(model)
    found = {}
    for text in ("the dog", "with a hat", "the dog sleeps with", "the man , the dog"):
        parse = parser.parse(text.split())
        assert parse.tree.words() == text.split()
        if parse.is_fallback:
            found[text] = str(parse.tree)
    assert found["the dog"] == "(TOP (NP (DT the) (NN dog)))"
    assert found["with a hat"] == "(TOP (PP (IN with) (NP (DT a) (NN hat))))"


def test_pieces_are_never_intermediate_symbols() -> None:
    """A symbol that vanishes would leave its children without a label."""
    toy = Toy(2, [1] * 3, {0: np.ones(1)}, {}, {"w0": {2: np.ones(1)}})
    toy.rules = {(1, 2, 2): np.ones((1, 1, 1)), (0, 1, 1): np.ones((1, 1, 1))}
    grammar = replace(toy.grammar(), phrases=(Symbol(("A",)), Symbol(("A",), (), ())))
    parse = Parser(grammar).parse(["w0"] * 3)
    assert str(parse.tree) == "(TOP (A (T2 w0) (T2 w0) (T2 w0)))"
    assert parse.kind == "joined"


def test_a_single_word_is_rather_a_phrase() -> None:
    bank = Treebank.from_trees(
        [
            Tree.parse("(S (NP (NN dog)) (VP (VB sleeps)))"),
            Tree.parse("(S (NP (DT a) (NN dog)) (V x))"),
        ]
    )
    parse = Parser(sw.PCFG().fit(bank).model_).parse(["dog"])
    assert (str(parse.tree), parse.kind) == ("(TOP (NP (NN dog)))", "joined")


def test_the_cut_into_pieces_is_the_best_of_all() -> None:
    """Against all ways to cut a sentence into pieces."""
    for seed in range(20):
        n = 6
        weight = np.random.default_rng(seed).normal(-8.0, 6.0, (n, n + 1))
        weight[np.random.default_rng(seed + 100).random(weight.shape) < 0.3] = -inf
        for i in range(n):
            weight[i, i + 1] = max(weight[i, i + 1], -30.0)
        cuts = [
            list(pairwise((0, *inner, n)))
            for k in range(n)
            for inner in combinations(range(1, n), k)
        ]
        scores = [sum(weight[i, j] - PRICE for i, j in cut) for cut in cuts]
        assert _best_cut(weight) == cuts[int(np.argmax(scores))]


def test_the_memory_of_charts_is_what_they_hold(latent: LatentGrammar) -> None:
    """Inside and outside charts, their product, and the lists of phrases; 8 and 4 bytes each."""
    prepared, n = prepare(latent), 40
    cells = n * (n + 1) // 2 * latent.n_phrases
    held = 2 * 8 * chart_room(prepared.plain, n) + 8 * cells + 4 * cells
    np.testing.assert_allclose(chart_megabytes(prepared, n), held / 1e6, rtol=1e-12)


def test_a_long_sentence_leaves_no_large_chart_behind() -> None:
    """Each thread kept up to 320 MB for good after one sentence of 130 words."""
    scratch = charts._Scratch()
    for size in (10_000, 3_000_000, 15_000_000):
        for name in ("inside", "outside", "active"):
            assert len(scratch.get(name, size)) >= size
    assert sum(buffer.nbytes for buffer in scratch.kept.values()) <= 96e6


def test_a_chart_beyond_the_memory_limit_gives_a_flat_tree(latent: LatentGrammar) -> None:
    words = ["the", "dog", "sleeps", "."]
    parser = Parser(latent, memory_limit_mb=chart_megabytes(prepare(latent), 3))
    parse = parser.parse(words)
    assert (parse.is_fallback, parse.kind) == (True, "flat")
    assert str(parse.tree) == "(TOP (S (DT the) (NN dog) (VBZ sleeps) (. .)))"
    assert (parser.stats.fallbacks, parser.stats.joined, parser.stats.too_long) == (1, 0, 1)
    assert (
        not Parser(latent, memory_limit_mb=chart_megabytes(prepare(latent), 4))
        .parse(words)
        .is_fallback
    )
    assert not parser.parse(words[:1]).is_fallback or parser.stats.too_long == 1


# -- streams ----------------------------------------------------------------------------------


def test_a_parse_outlives_the_next_one(model: LatentGrammar) -> None:
    """Charts are laid out in memory that the next sentence uses again; results must not be."""
    parser = Parser(model)
    first = parser.parse(["the", "dog", "sleeps", "."])
    parser.parse(["the", "man", "with", "a", "hat", "sees", "the", "dog", "."])
    fresh = Parser(model).parse(["the", "dog", "sleeps", "."])
    assert first.marginals == fresh.marginals
    assert [s.tree for s in first.k_best(3)] == [s.tree for s in fresh.k_best(3)]


def test_parsing_twice_gives_the_same_bits(model: LatentGrammar) -> None:
    words = ["the", "dog", "sleeps", "."]
    Parser(model).parse(
        ["w"] * (8 if config.DISABLE_JIT else 40)
    )  # leaves other numbers behind in the scratch space
    one, other = (Parser(model).parse(words) for _ in range(2))
    assert one.sentence_log_prob == other.sentence_log_prob
    assert one.marginals == other.marginals


# -- decoders ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [1, 2, 3])
@pytest.mark.parametrize("decoder", ["goodman", "max-rule"])
@pytest.mark.parametrize("seed", range(4))
def test_decoders_find_the_tree_of_the_highest_score(
    seed: int, decoder: str, n_states: int
) -> None:
    toy = random_toy(np.random.default_rng(seed), n_states=n_states, density=0.3)
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    score = {"goodman": listing.goodman_score, "max-rule": listing.max_rule_score}[decoder]
    trees = [tree for tree, _ in weighted]
    _, best = listing.best_by(score, trees, weighted)
    # Scores are sums of at most a dozen numbers of about 1; ties within rounding are as good.
    good = [tree_of(tree, WORDS, 2) for tree in trees if score(tree, weighted) > best - 1e-9]
    parse = exact_parser(toy.grammar(), decoder=decoder).parse(WORDS)
    assert parse.tree in good
    assert len(good) < len(trees)


def test_decoders_disagree_somewhere() -> None:
    """The decoders are not one and the same: on some grammar each finds another tree."""
    found = set()
    for seed in range(20):
        toy = random_toy(np.random.default_rng(seed), density=0.4)
        trees = [
            exact_parser(toy.grammar(), decoder=d).parse([*WORDS, "w1"]).tree for d in DECODERS
        ]
        found |= {len(set(trees))}
    assert found & {2, 3}


@pytest.mark.parametrize("decoder", ["goodman", "max-rule"])
def test_a_change_of_basis_changes_no_parse(decoder: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        toy = random_toy(rng, n_states=3, density=0.3)
        other = toy.rebased(random_bases(rng, toy.n_states))
        one, two = (exact_parser(t.grammar(), decoder=decoder).parse(WORDS) for t in (toy, other))
        assert one.tree == two.tree
        assert abs(one.sentence_log_prob - two.sentence_log_prob) < 1e-10


def test_viterbi_refuses_weights_of_either_sign() -> None:
    grammar = random_toy(np.random.default_rng(0), n_states=2).grammar()
    with pytest.raises(SapwoodError, match="viterbi decoder needs probabilities"):
        Parser(grammar, decoder="viterbi").parse(WORDS)


@pytest.mark.parametrize(
    "pruning",
    [{"beam": b} for b in (0.0, 1e-9, 0.5)]
    + [{"threshold": t} for t in (0.0, 1e-300, 1e-5, 0.01, 0.9)],
    ids=str,
)
def test_any_pruning_gives_a_tree(pruning: dict[str, float], model: LatentGrammar) -> None:
    words = ["the", "man", "with", "a", "hat", "sees", "the", "dog", "."]
    parse = Parser(model, **pruning).parse(words)  # type: ignore[arg-type]
    assert parse.tree.words() == words
    if pruning.get("threshold", 0.0) <= 1e-5:
        assert not parse.is_fallback
    if pruning.get("beam", 1.0) < 0.1:
        assert parse.tree == exact_parser(model).parse(words).tree


def only_rare_tag_parses() -> LatentGrammar:
    """The common tag of w1 has a parse under the plain grammar, but its states never meet."""
    states = [2, 2, 2, 2]
    meets, never = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    meets[0, 0, 0], never[0, 1, 1] = 1.0, 1.0
    first, common = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    toy = Toy(1, states, {0: np.array([1.0, 0.0])}, {(0, 1, 2): never, (0, 1, 3): meets}, {})
    toy.words = {"w0": {1: first}, "w1": {2: common, 3: np.array([1.0, 0.0])}}
    grammar = toy.grammar()
    rare = np.where(grammar.lexicon.entry_tag == 2, 1e-9, 1.0)
    return replace(grammar, coarse=replace(grammar.coarse, lexical=rare))


@pytest.mark.parametrize("threshold", [0.0, 1e-5])
def test_a_parse_that_only_a_rare_tag_allows_is_found(threshold: float) -> None:
    grammar = only_rare_tag_parses()
    assert isfinite(grammar.log_prob(["w0", "w1"]))
    assert not Parser(grammar, threshold=threshold).parse(["w0", "w1"]).is_fallback


def test_a_lower_threshold_never_lowers_the_goodman_score(model: LatentGrammar) -> None:
    words = ["the", "dog", "sees", "the", "man", "with", "a", "hat", "."]
    scores = [Parser(model, threshold=t).parse(words).k_best(1)[0].score for t in (0.0, 1e-5, 1e-2)]
    # pruning renormalises a latent grammar's posteriors by what was dropped, about 1e-3 at most
    assert scores[0] >= scores[1] - 1e-2


# -- what a parse says ------------------------------------------------------------------------


def test_marginals_are_probabilities_of_constituents(model: LatentGrammar) -> None:
    words = ["the", "dog", "sees", "the", "man", "with", "a", "hat", "."]
    parse = Parser(model).parse(words)
    marginals = parse.marginals
    assert all(0.0 <= m.probability <= 1.0 for m in marginals)
    assert len({m[:3] for m in marginals}) == len(marginals)
    assert {m[:3] for m in marginals} >= set(parse.tree[0].spans())
    tags = parse.tree.tags()
    for i, tag in enumerate(tags):
        here = {m.label: m.probability for m in marginals if (m.start, m.end) == (i, i + 1)}
        assert here[tag] == max(here.values())
    starts = [(m.start, -m.end) for m in marginals]
    assert starts == sorted(starts)


def test_marginals_are_those_of_enumeration() -> None:
    toy = random_toy(np.random.default_rng(0))
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    mu, total = listing.marginals(weighted), listing.sentence_weight(weighted)
    parse = exact_parser(toy.grammar()).parse(WORDS)
    found = {m[:3]: m.probability for m in parse.marginals}
    names = {0: "P0", 1: "P1", 2: "T2", 3: "T3"}
    expected = {(names[a], i, j): w / total for (a, i, j), w in mu.items()}
    assert found == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(parse.sentence_log_prob, log(total), rtol=0, atol=1e-12)


def test_the_tags_of_a_word_sum_to_1_also_where_posteriors_are_negative() -> None:
    n_negative = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        toy = random_toy(rng, n_states=2, density=0.5)
        toy.rules = {rule: rng.normal(size=t.shape) for rule, t in toy.rules.items()}
        parse = exact_parser(toy.grammar()).parse(WORDS)
        assert all(0.0 <= m.probability <= 1.0 for m in parse.marginals)
        tags = [m for m in parse.marginals if m.label.startswith("T")]
        sums = [sum(m.probability for m in tags if m.start == i) for i in range(len(WORDS))]
        assert sums == pytest.approx([1.0] * len(WORDS), abs=1e-12)
        n_negative += parse._forest.posteriors.n_negative if parse._forest else 0
    assert n_negative > 0


def test_the_sign_of_a_tree_comes_with_its_weight() -> None:
    rng = np.random.default_rng(0)
    signs = []
    for _ in range(8):
        toy = random_toy(rng, n_states=2, density=0.5)
        toy.rules = {rule: rng.normal(size=t.shape) for rule, t in toy.rules.items()}
        grammar = toy.grammar()
        parse = exact_parser(grammar).parse(WORDS)
        assert (parse.log_prob, parse.sign) == grammar.signed_log_prob(parse.tree)
        signs.append(parse.sign)
    assert {1, -1} == set(signs)


def test_the_probability_of_the_tree_is_that_of_the_model(model: LatentGrammar) -> None:
    parse = Parser(model).parse(["the", "dog", "sleeps", "."])
    assert isfinite(parse.log_prob)
    assert parse.log_prob == model.log_prob(parse.tree)
    assert parse.log_prob <= parse.sentence_log_prob + 1e-9


def test_trees_can_be_read_again(model: LatentGrammar) -> None:
    parse = Parser(model).parse(["the", "(dog)", "sleeps", "."])
    assert Tree.parse(str(parse.tree)).words() == ["the", "-LRB-dog-RRB-", "sleeps", "."]
    assert isfinite(parse.log_prob)


def test_joint_symbols_are_unfolded(plain: LatentGrammar) -> None:
    """Chains such as NP|PRP come back as two nodes, and no mark of ours is left in a tree."""
    bank = sw.bundled_treebank("test")
    for parse in Parser(plain).parse_many(bank.words(i) for i in range(20)):
        for node in parse.tree.nodes():
            assert "|" not in node.label
            assert not node.label.startswith("@")


# -- bad arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"decoder": "best"}, "decoder must be one of"),
        ({"threshold": -0.1}, "threshold must be"),
        ({"threshold": 1.0}, "threshold must be"),
        ({"threshold": float("nan")}, "threshold must be"),
        ({"beam": -1e-9}, "beam must be"),
        ({"beam": 1.0}, "beam must be"),
    ],
)
def test_bad_settings_are_explained(
    arguments: dict[str, object], match: str, latent: LatentGrammar
) -> None:
    with pytest.raises(SapwoodError, match=match):
        Parser(latent, **arguments)  # type: ignore[arg-type]


def test_bad_sentences_are_explained(latent: LatentGrammar) -> None:
    parser = Parser(latent)
    with pytest.raises(SapwoodError, match="not a string") as caught:
        parser.parse("the dog sleeps .")
    assert "split" in str(caught.value.hint)
    with pytest.raises(SapwoodError, match="empty sentence"):
        parser.parse([])
    with pytest.raises(SapwoodError, match="jobs must be"):
        list(parser.parse_many([["hello"]], jobs=-2))
    with pytest.raises(SapwoodError, match="empty sentence"):
        list(parser.parse_many([["hello"], []], jobs=2))


def test_models_without_phrases_or_rules_parse_too(plain: LatentGrammar) -> None:
    toy = Toy(0, [1], {0: np.ones(1)}, {}, {"w0": {0: np.ones(1)}})
    parser = Parser(toy.grammar())
    assert str(parser.parse(["w0"]).tree) == "(TOP (T0 w0))"
    assert str(parser.parse(["w0", "w0"]).tree) == "(TOP (X (T0 w0) (T0 w0)))"
    bare = replace(
        plain,
        rules=plain.rules[:0],
        rule_weights=plain.rule_weights[:0],
        coarse=replace(plain.coarse, rules=plain.coarse.rules[:0]),
    )
    assert Parser(bare).parse(["the", "dog", "sleeps", "."]).is_fallback
