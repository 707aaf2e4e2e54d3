"""`SpanCRF`: the right tree in its chart, training, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import bundled
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.discriminative import FeatureGrammar, SpanFeatures
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn import crf
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.constituency.parse.charts import PrunedForest, gold_forest, pruned_forests
from sapwood.constituency.parse.kernels import span_features as kernel
from sapwood.constituency.parse.kernels.forest import Forest
from sapwood.constituency.parse.prepared import prepare
from sapwood.core import model_files as kinds
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.learner import Info
from sapwood.core.training_loops import FIRST_SQUARE, WeightTable
from sapwood.execute import Threads
from sapwood.progress import Event, listening

Array = np.ndarray
SENTENCE = ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]


@pytest.fixture(autouse=True, scope="module")
def small_table() -> object:
    """A table of 2^18 weights is enough here, and quicker to make, save and load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crf, "TABLE_BITS", 18)
        yield


@cache
def train() -> Treebank:
    return bundled("train")


@cache
def dev() -> list[sw.Tree]:
    return list(sw.bundled_treebank("dev").trees())


@cache
def prepared() -> TrainingData:
    """The training trees are binary as they were read: their rows are those of `train()`."""
    return sw.PCFG().prepare(train(), Threads())


@pytest.fixture(scope="module")
def fitted() -> sw.SpanCRF:
    return sw.SpanCRF().fit(train())


def f1(model: LatentGrammar) -> float:
    parser = sw.Parser(model)
    return sw.evaluate.bracketing(dev(), [parser.parse(t.words()).tree for t in dev()]).f1


# -- the chart of a training tree -------------------------------------------------------------


def nodes_of(bank: Treebank, tree: int) -> slice:
    return slice(int(bank.offsets[tree]), int(bank.offsets[tree + 1]))


def marked(chart: PrunedForest, items: Array, edges: Array) -> tuple[list[tuple[int, ...]], ...]:
    """The marked items as (a, i, j) and edges as (r, i, k, j), sorted."""
    forest, x, e = chart.forest, items == 1, edges == 1
    assert set(np.unique(items)) | set(np.unique(edges)) <= {0.0, 1.0}
    spans = (forest.symbol[x], forest.start[x], forest.end[x])
    head, left = forest.head[e], forest.left[e]
    rules = (forest.rule[e], forest.start[head], forest.end[left], forest.end[head])
    return tuple(sorted(zip(*(c.tolist() for c in part), strict=True)) for part in (spans, rules))


def right_parts(bank: Treebank, tree: int) -> tuple[list[tuple[int, ...]], ...]:
    """The nodes of a tree and its rules at their places, straight from the treebank's rows."""
    rows = range(int(bank.offsets[tree]), int(bank.offsets[tree + 1]))
    spans = [(int(bank.label[x]), int(bank.start[x]), int(bank.end[x])) for x in rows]
    rules = [
        (int(bank.rule[x]), int(bank.start[x]), int(bank.end[rows[0] + int(bank.left[x])]),
         int(bank.end[x]))
        for x in rows
        if bank.rule[x] >= 0
    ]  # fmt: skip
    return sorted(spans), sorted(rules)


def assert_marked(
    model: LatentGrammar, bank: Treebank, tree: int, threshold: float
) -> PrunedForest:
    words, nodes = bank.words(tree), nodes_of(bank, tree)
    chart, items, edges = gold_forest(prepare(model), words, bank, nodes, threshold)
    assert marked(chart, items, edges) == right_parts(bank, tree)
    assert (items.sum(), edges.sum()) == (2 * len(words) - 1, len(words) - 1)
    roots = chart.forest.symbol[chart.roots]
    assert bank.label[nodes.stop - 1] in roots
    assert (chart.forest.end[chart.roots] == len(words)).all()
    return chart


@pytest.mark.parametrize("threshold", [1e-3, 0.5])
def test_just_the_nodes_and_edges_of_the_right_tree_are_marked(threshold: float) -> None:
    """Also at a threshold that leaves hardly more than the right tree."""
    n_checked = 0
    for tree in range(0, train().n_trees, 7):
        if len(train().words(tree)) > 1:
            assert_marked(prepared().grammar, train(), tree, threshold)
            n_checked += 1
    assert n_checked > 300


def test_a_right_tree_that_pruning_would_drop_is_kept() -> None:
    plain, n_lost = prepared().grammar, 0
    for tree in range(0, train().n_trees, 7):
        words = train().words(tree)
        if len(words) == 1:
            continue
        found = next(pruned_forests(prepare(plain), words, 0.3, 0.3), None)
        kept = set()
        if found is not None:
            forest = found.pruned.forest
            columns = (forest.symbol, forest.start, forest.end)
            kept = set(zip(*(x.tolist() for x in columns), strict=True))
        spans, _ = right_parts(train(), tree)
        if not kept.issuperset(spans):
            n_lost += 1
            assert_marked(plain, train(), tree, 0.3)
    assert n_lost > 50


def test_a_grammar_that_cannot_parse_the_sentence_still_has_its_tree() -> None:
    """Without any root symbol all posteriors are 0; only the right tree is left, and is certain."""
    plain, tree = prepared().grammar, 0
    none = np.zeros_like(plain.root)
    model = replace(
        plain, root=none, coarse=replace(plain.coarse, root=none), is_probabilistic=False
    )
    chart = assert_marked(model, train(), tree, 1e-3)
    forest = chart.forest
    assert len(forest.symbol) == 2 * len(train().words(tree)) - 1
    total, items, _ = kernel.log_linear_posteriors(
        forest, chart.roots, np.zeros(len(forest.symbol)), np.zeros(len(forest.head))
    )
    assert total == 0
    assert (items == 1).all()


def test_other_ways_to_make_trees_binary() -> None:
    for ways in ({"binarise": "right"}, {"binarise": "left", "horizontal": 0}, {"vertical": 2}):
        data = sw.PCFG(**ways).prepare(train()[:200], Threads())
        (bank,) = data.shards.items
        for tree in range(0, 200, 11):
            if len(bank.words(tree)) > 1:
                assert_marked(data.grammar, bank, tree, 1e-3)


# -- features in training and parsing ---------------------------------------------------------


def features_by_place(
    model: FeatureGrammar, forest: Forest, words: list[str]
) -> dict[tuple[int, ...], Array]:
    """Features of items and edges by where they stand."""
    items, edges = SpanFeatures(model).of(forest, words)
    spans = zip(forest.symbol.tolist(), forest.start.tolist(), forest.end.tolist(), strict=True)
    head, left = forest.head, forest.left
    places = zip(
        forest.rule.tolist(), forest.start[head].tolist(), forest.end[left].tolist(),
        forest.end[head].tolist(), strict=True,
    )  # fmt: skip
    return dict(zip([*spans, *places], [*items, *edges], strict=True))


def test_features_are_the_same_in_training_and_parsing(fitted: sw.SpanCRF) -> None:
    model, bank = fitted.model_, train()
    long = [tree for tree in range(200) if len(bank.words(tree)) > 3]
    for tree in long[::13]:
        words = bank.words(tree)
        example = crf._example(prepare(model), bank, tree)
        chart = next(pruned_forests(prepare(model), words, 1e-3, 1e-3), None)
        assert example is not None
        assert chart is not None
        then, now = (features_by_place(model, x.forest, words) for x in (example, chart.pruned))
        shared = then.keys() & now.keys()
        assert len(shared) >= 0.9 * len(now)
        assert all(np.array_equal(then[place], now[place]) for place in shared)
        assert np.array_equal(np.concatenate([*example.item_features, *example.edge_features]),
                              np.concatenate(list(then.values())))  # fmt: skip


# -- training ---------------------------------------------------------------------------------


def test_the_likelihood_rises_from_pass_to_pass(fitted: sw.SpanCRF) -> None:
    logs = fitted.info_.log_likelihoods
    assert len(logs) == fitted.info_.iterations == 5
    assert all(a < b < 0 for a, b in pairwise(logs))
    assert logs[-1] > 0.5 * logs[0]
    assert fitted.info_.seconds.keys() == {"charts", "passes"}


def test_the_steps_are_those_of_the_gradient() -> None:
    """One step at a small rate raises the likelihood of its own sentence by what it promises."""
    model = crf._untrained(prepared())
    example = crf._example(prepare(model), train(), 0)
    assert example is not None
    n = len(model.feature_weights)
    w, rate = np.random.default_rng(0).normal(size=n) * 0.1, 1e-7
    after, ones = w.copy(), np.full(n, 1e12)  # squares so large that all steps are alike
    before = crf._step(example, WeightTable(after, ones), rate)
    moved = after - w
    gained = crf._step(example, WeightTable(after.copy(), ones), rate) - before
    # gain = gradient . step, and step = rate / 1e6 * gradient
    assert gained == pytest.approx((moved @ moved) / (rate / 1e6), rel=0.01, abs=1e-12)


def test_it_is_better_than_the_plain_grammar(fitted: sw.SpanCRF) -> None:
    """Measured on the bundled dev trees: 94.6 against 91.2."""
    assert f1(fitted.model_) > f1(prepared().grammar) + 2


def test_weights_are_averaged_over_the_last_half() -> None:
    """Of one pass there is nothing to average; of two the mean is not the last."""
    bank, size = train()[:100], 1 << 18
    model = crf._untrained(sw.PCFG().prepare(bank, Threads()))
    made = [crf._example(prepare(model), bank, tree) for tree in range(bank.n_trees)]
    examples = [example for example in made if example is not None]
    learner = sw.SpanCRF(passes=4)
    learner.info_ = Info()
    table = WeightTable(np.zeros(size), np.full(size, FIRST_SQUARE))
    rng, kept = np.random.default_rng(0), []
    for _ in range(4):
        for place in rng.permutation(len(examples)).tolist():
            crf._step(examples[place], table, learner.rate)
        kept.append(table.weights.copy())
    found = learner._learnt(examples, size)
    np.testing.assert_allclose(found, (kept[2] + kept[3]) / 2, atol=1e-12)
    assert not np.allclose(found, kept[3], atol=1e-6)
    assert not np.allclose(found, np.mean(kept, axis=0), atol=1e-6)


@pytest.fixture(scope="module")
def short() -> Treebank:
    return bundled("train")[:150]


def test_a_seed_means_a_model_and_jobs_mean_nothing(short: Treebank) -> None:
    one, again, threads, shards, other = (
        sw.SpanCRF(passes=2, seed=seed, n_jobs=jobs).fit(bank)
        for seed, jobs, bank in (
            (0, 1, short), (0, 1, short), (0, 2, short), (0, 3, shards_of(short, 4)), (1, 1, short)
        )
    )  # fmt: skip
    for same in (again, threads, shards):
        assert same.model_.feature_weights.tobytes() == one.model_.feature_weights.tobytes()
        assert same.info_.log_likelihoods == one.info_.log_likelihoods
    assert other.model_.feature_weights.tobytes() != one.model_.feature_weights.tobytes()


def test_sentences_of_one_word_teach_nothing_and_do_no_harm(short: Treebank) -> None:
    """The words of one-word sentences are in the lexicon; nothing else is learnt from them."""
    words = [sw.Tree.parse("(TOP (INTJ (UH oh)))"), sw.Tree.parse("(TOP (NN dog))")] * 3
    alone = sw.SpanCRF(passes=1).fit(Treebank.from_trees(words))
    assert alone.info_.log_likelihoods == [0.0]
    assert not alone.model_.feature_weights.any()
    assert str(sw.Parser(alone.model_).parse(["oh"]).tree) == "(TOP (INTJ (UH oh)))"
    mixed = sw.SpanCRF(passes=1).fit(Treebank.from_trees([*words, *short.trees()]))
    assert str(sw.Parser(mixed.model_).parse(["oh"]).tree) == "(TOP (INTJ (UH oh)))"
    assert sw.Parser(mixed.model_).parse(SENTENCE).tree.words() == SENTENCE


def test_a_part_of_a_treebank_is_a_treebank(short: Treebank) -> None:
    """A part shares the symbols of the whole, but rules and words are counted in the part only."""
    fresh = Treebank.from_trees(list(short.trees()), short.inventory.transform)
    part, alone = (sw.SpanCRF(passes=2).fit(bank) for bank in (short, fresh))
    assert len(part.model_.grammar.rules) == len(alone.model_.grammar.rules)
    assert part.info_.log_likelihoods[0] == pytest.approx(alone.info_.log_likelihoods[0], rel=0.01)
    counts = {True: 0, False: 0}
    seen = [word for tree in short.trees() for word in tree.words()]
    words = part.model_.grammar.lexicon.words
    for word, known in zip(words, part.model_.is_familiar, strict=True):
        assert bool(known) == (seen.count(word) >= crf.FAMILIAR_WORD)
        counts[bool(known)] += 1
    assert min(counts.values()) > 10


def test_progress_is_told(short: Treebank) -> None:
    told: list[Event] = []
    learner = sw.SpanCRF(passes=3, listen=told.append).fit(short)
    found = [tuple(event.facts.values()) for event in told if event.facts]
    assert found == [(k, 1, x) for k, x in enumerate(learner.info_.log_likelihoods, 1)]


def test_charts_and_passes_share_one_bar(short: Treebank) -> None:
    """Charts are the first share, the passes the rest; neither begins again at 0."""
    shares: list[tuple[str, float]] = []

    def note(event: Event) -> None:
        if not event.is_over and event.share is not None:
            shares.append((event.what, event.share))

    with listening(note):
        sw.SpanCRF(passes=3).fit(short)
    passes = [share for what, share in shares if what not in {"", "charts"}]
    border = crf.CHARTS_COST / (crf.CHARTS_COST + 3)
    assert max(share for what, share in shares if what == "charts") == pytest.approx(border)
    assert min(passes) == pytest.approx(border)
    assert passes == sorted(passes)


def test_memory_is_that_of_charts_and_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, data = sw.SpanCRF(), prepared()
    small = learner.memory_needed(data)
    monkeypatch.setattr(crf, "TABLE_BITS", 19)
    assert learner.memory_needed(data) - small == 28 * 2**18


@pytest.mark.parametrize(
    "params",
    [{"passes": 0}, {"passes": 1.5}, {"rate": 0}, {"rate": 2}, {"plain": "pcfg"}],
    ids=str,
)
def test_bad_parameters_are_named_when_fitting(params: dict[str, object], short: Treebank) -> None:
    with pytest.raises(SapwoodError, match=f"SpanCRF: {next(iter(params))} must be"):
        sw.SpanCRF(**params).fit(short)  # type: ignore[arg-type]


def test_fitting_something_else_is_explained() -> None:
    with pytest.raises(SapwoodError, match="expected a treebank, not an int"):
        sw.SpanCRF().fit(3)  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match="no tree found"):
        sw.SpanCRF().fit([])


def test_the_plain_grammar_is_that_of_its_estimator(short: Treebank) -> None:
    learner = sw.SpanCRF(passes=1, plain=sw.PCFG(binarise="right", horizontal=0))
    model = learner.fit(short).model_.grammar
    ours = sw.PCFG(binarise="right", horizontal=0).fit(short).model_
    assert model.transform == ours.transform
    assert np.array_equal(model.rule_weights, ours.rule_weights)
    assert model.lexicon.weights.tobytes() == ours.lexicon.weights.tobytes()


# -- the model --------------------------------------------------------------------------------


def test_the_record_says_how_it_was_made(fitted: sw.SpanCRF) -> None:
    record = fitted.model_.record
    assert (record["method"], record["iterations"], record["seed"]) == ("crf", 5, 0)
    assert (record["trees"], record["tokens"]) == (train().n_trees, train().n_tokens)
    assert record["log_likelihood"] == fitted.info_.log_likelihoods[-1]


def test_it_parses_the_same_from_its_file(fitted: sw.SpanCRF, tmp_path: Path) -> None:
    path = tmp_path / "crf.sapwood"
    fitted.model_.save(path)
    again = sw.load(path)
    assert isinstance(again, FeatureGrammar)
    for tree in dev()[:40]:
        one, other = (sw.Parser(m).parse(tree.words()) for m in (fitted.model_, again))
        assert (one.tree, one.marginals) == (other.tree, other.marginals)
    tensors, header = kinds._read(path)
    tensors["feature_weights"] = tensors["feature_weights"][:-1]
    header["sha256"] = kinds.digest_of(tensors, header["model"])
    kinds.write_atomically(path, tensors, header)
    with pytest.raises(ModelFormatError, match=r"not a valid model: .* expected a power of two"):
        sw.load(path)


def test_decoders(fitted: sw.SpanCRF) -> None:
    for decoder in ("f1", "goodman", "max-rule"):
        parse = sw.Parser(fitted.model_, decoder=decoder).parse(SENTENCE)
        assert not parse.is_fallback
        assert parse.tree.words() == SENTENCE
        best = parse.k_best(3)
        assert best[0].tree == parse.tree
        assert best[0].score >= best[1].score
    with pytest.raises(SapwoodError, match="viterbi") as caught:
        sw.Parser(fitted.model_, decoder="viterbi").parse(SENTENCE)
    assert "f1, goodman or max-rule" in str(caught.value.hint)


def test_posteriors_are_those_of_all_trees_of_the_chart(fitted: sw.SpanCRF) -> None:
    """The tree's own items have posteriors that sum to more than those of any other tree."""
    parse = sw.Parser(fitted.model_, decoder="goodman").parse(SENTENCE)
    assert parse._forest is not None
    parsed = parse._forest.posteriors
    assert parsed.items.sum() == pytest.approx(2 * len(SENTENCE) - 1)
    assert parsed.edges.sum() == pytest.approx(len(SENTENCE) - 1)
    assert parsed.items[parsed.pruned.roots].sum() == pytest.approx(1)
    assert parsed.n_negative == 0
