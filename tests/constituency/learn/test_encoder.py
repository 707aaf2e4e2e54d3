"""`SpanEncoder`: what right trees are, the loss and its gradient, and what comes of learning."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.reference.span_trees import binary_spans

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.learn import crf, encoder
from sapwood.constituency.learn.dev_scores import MixScorer
from sapwood.constituency.learn.encoder import RightTrees, SpanTrainer
from sapwood.constituency.parse.posteriors import NetworkReader, span_posteriors
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.learner import FORMER_CALLBACKS
from sapwood.core.model_files import FileContents, read_model
from sapwood.evaluate import bracketing
from sapwood.networks import training as network_training
from sapwood.networks.network import EncoderSizes, Parameters
from sapwood.networks.scores import SpanSizes
from sapwood.networks.training import NetworkPlan
from sapwood.progress import Event

SMALL = {"width": 12, "hidden": 10}
TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))",
    "(S (NP (NP (NNS cats))) (VP (VBP see) (NP (DT the) (NN dog))))",
    "(NP (NN dog))",
    "(S (NP (NNS cats)) (VP (VBP sleep)))",
]


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return sw.bundled_treebank("dev")[:60]


@pytest.fixture(scope="module")
def fitted(bank: Treebank) -> sw.SpanEncoder:
    return sw.SpanEncoder(passes=15, width=40, hidden=40, rate=0.01).fit(bank)


@pytest.fixture(scope="module")
def model(fitted: sw.SpanEncoder) -> SpanNetwork:
    return fitted.model_


def test_right_trees_are_labels_of_spans_and_tags() -> None:
    bank = Treebank.from_trees(sw.Tree.parse(tree) for tree in TREES)
    trees = RightTrees.of(bank.shards(2))
    assert trees.sentences == [tree.words() for tree in bank]
    assert [trees.tags[k] for k in trees.tag] == [tag for tree in bank for tag in tree.tags()]
    found = [
        sorted(
            (trees.labels[trees.label[k]], int(trees.start[k]), int(trees.end[k]))
            for k in range(trees.starts[s], trees.starts[s + 1])
        )
        for s in range(4)
    ]
    assert found[0] == [(("NP",), 0, 2), (("S",), 0, 4), (("VP",), 2, 3)]
    assert found[2] == [(("NP",), 0, 1)]


def test_rare_chains_lose_their_inner_labels() -> None:
    odd = "(FRAG (INTJ (UH oh) (UH no)))"
    trees = RightTrees.of([Treebank.from_trees([sw.Tree.parse(odd)])])
    assert trees.labels == (("FRAG",),)
    twice = RightTrees.of([Treebank.from_trees([sw.Tree.parse(odd)] * 2)])
    assert twice.labels == (("FRAG",), ("FRAG", "INTJ"))
    deep = "(FRAG (INTJ (X (UH oh) (UH no))))"  # seen once, above a chain that was seen twice
    some = RightTrees.of([Treebank.from_trees(map(sw.Tree.parse, (odd, odd, deep)))])
    assert [some.labels[k] for k in some.label] == [("FRAG", "INTJ")] * 3


@pytest.mark.parametrize("given", [{"rate": 1.5}, {"rate": 0}, {"dropout": 1.0}, {"width": 0}])
def test_parameters_out_of_range_are_named(given: dict[str, float], bank: Treebank) -> None:
    with pytest.raises(SapwoodError, match=f"SpanEncoder: {next(iter(given))} must be"):
        sw.SpanEncoder(**given).fit(bank)


def test_posteriors_of_labels_are_those_of_all_trees() -> None:
    n, rng = 4, np.random.default_rng(0)
    scores = rng.normal(size=(10, 3))
    log_total, shares = span_posteriors(scores, [n])
    number = {span: k for k, span in enumerate((i, j) for i in range(4) for j in range(i + 1, 5))}
    each = np.log1p(np.exp(scores).sum(axis=1))  # to have no label scores 0
    logs = np.array([sum(each[number[span]] for span in tree) for tree in binary_spans(0, n)])
    assert log_total == pytest.approx(np.logaddexp.reduce(logs), abs=1e-12)
    expected = np.zeros_like(scores)
    for tree, log in zip(binary_spans(0, n), logs, strict=True):
        for span in tree:
            k = number[span]
            expected[k] += np.exp(log - log_total + scores[k] - each[k])
    np.testing.assert_allclose(shares, expected, atol=1e-12)
    log_both, both = span_posteriors(np.concatenate([scores, scores[:3]]), [n, 2])
    log_second, second = span_posteriors(scores[:3], [2])
    assert log_both == pytest.approx(log_total + log_second, abs=1e-12)
    np.testing.assert_allclose(both, np.concatenate([shares, second]), atol=1e-12)


def test_the_gradient_is_that_of_differences() -> None:
    bank = Treebank.from_trees(sw.Tree.parse(tree) for tree in TREES)
    plan = NetworkPlan(dropout=0.3, word_dropout=0.2)
    trainer = SpanTrainer(RightTrees.of([bank]), plan, (EncoderSizes(4, 3, 2, 5), SpanSizes(6)))
    weights = Parameters(trainer.P.shapes, np.float64)
    weights.flat[:] = trainer.P.flat
    trainer.P = weights
    trainer.word_vectors = trainer.word_vectors.astype(np.float64)
    trainer.form_vectors = trainer.form_vectors.astype(np.float64)
    sentences = np.array([1, 0, 3, 2])  # longest first

    def loss() -> float:
        return trainer.gradient(sentences, np.random.default_rng(5), 1).loss

    whole = trainer.gradient(sentences, np.random.default_rng(5), 1).weights.flat.copy()
    quarter = trainer.gradient(sentences, np.random.default_rng(5), 4).weights.flat
    np.testing.assert_allclose(quarter, whole / 4, rtol=1e-3, atol=1e-6)  # single precision
    found = trainer.gradient(sentences, np.random.default_rng(5), 1)
    rng = np.random.default_rng(6)
    for name in weights:
        places = rng.choice(weights[name].size, min(2, weights[name].size), replace=False)
        for place in places.tolist():
            at = np.unravel_index(place, weights[name].shape)
            kept = weights[name][at]
            weights[name][at] = kept + 1e-5
            above = loss()
            weights[name][at] = kept - 1e-5
            below = loss()
            weights[name][at] = kept
            expected = (above - below) / 2e-5
            # the shares of labels and masks of dropout are rounded to single precision
            assert found.weights[name][at] == pytest.approx(expected, abs=2e-4, rel=1e-3), name


def test_it_learns(fitted: sw.SpanEncoder, bank: Treebank) -> None:
    assert fitted.info_.iterations == 15
    assert fitted.info_.log_likelihoods[-1] > 0.5 * fitted.info_.log_likelihoods[0]
    assert fitted.score(bank) > 80
    told = fitted.model_.record
    assert (told["method"], told["iterations"], told["trees"]) == ("encoder", 15, 60)


def test_threads_change_nothing_and_seeds_do(bank: Treebank) -> None:
    one, two, other = (
        sw.SpanEncoder(passes=1, n_jobs=jobs, seed=seed, **SMALL).fit(bank[:20]).model_
        for jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    assert one.network.weights.flat.tobytes() == two.network.weights.flat.tobytes()
    assert one.network.word_vectors.tobytes() == two.network.word_vectors.tobytes()
    assert not np.array_equal(one.network.weights.flat, other.network.weights.flat)


def test_passes_follow_the_size_of_the_treebank() -> None:
    passes = [NetworkPlan.usual(n).passes for n in (1000, 80_000, 10**6)]
    assert passes == [30, 20, 8]
    assert NetworkPlan.usual(1000, 3).passes == 3


def test_a_pass_takes_time_by_words_and_by_steps() -> None:
    """A pass over n words reads n words and changes all weights once a batch."""
    for n in (1000, 10**6):
        steps = n / NetworkPlan.usual(n).words
        expected = encoder.SECONDS_A_WORD * n + encoder.SECONDS_A_STEP * steps
        assert encoder.seconds_a_pass(n) == pytest.approx(expected)


def test_settings_reach_the_network(bank: Treebank, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):  # noqa: N818 - ends the training
        pass

    def record(trees: RightTrees, plan: NetworkPlan, sizes: object, given: object) -> None:
        seen.append((plan, sizes))
        raise Stop

    seen: list[tuple[NetworkPlan, object]] = []
    monkeypatch.setattr(encoder, "SpanTrainer", record)
    settings = {"passes": 3, "width": 7, "hidden": 9, "rate": 0.02, "dropout": 0.4, "seed": 5}
    with pytest.raises(Stop):
        sw.SpanEncoder(**settings).fit(bank[:5])
    with pytest.raises(Stop):
        sw.SpanEncoder(seed=None).fit(bank[:5])
    (plan, sizes), (usual, _) = seen
    assert (plan.passes, plan.rate, plan.dropout, plan.seed) == (3, 0.02, 0.4, 5)
    assert sizes == (EncoderSizes(state=7), SpanSizes(9))
    assert (usual.seed, usual.passes) == (0, 30)
    assert (usual.word_dropout, usual.unknown) == (0.2, 1.0)


def test_each_pass_is_reported(bank: Treebank) -> None:
    """A listener is told of the pass and its log-likelihood, and may end the training."""
    calls: list[tuple[int, int, float]] = []

    def note(event: Event) -> int | None:
        if not event.facts:
            return None
        calls.append(tuple(event.facts[name] for name in FORMER_CALLBACKS["on_iteration"]))
        return 2

    learner = sw.SpanEncoder(passes=5, listen=note, **SMALL).fit(bank[:5])
    assert [call[:2] for call in calls] == [(1, 1), (2, 1)]
    assert [call[2] for call in calls] == learner.info_.log_likelihoods
    assert learner.model_.record["log_likelihood"] == learner.info_.log_likelihoods[-1]
    assert learner.info_.seconds.keys() == {"trees", "passes"}


def test_a_parse_is_a_tree_over_the_words(model: SpanNetwork) -> None:
    parser = sw.Parser(model)
    for words in (["the", "dog", "sleeps", "."], ["dog"], ["(", "unheard-of", ")"] * 7):
        parse = parser.parse(words)
        assert parse.tree.words() == words
        assert parse.kind == "parsed"
        for c in parse.marginals:
            assert 0 <= c.probability <= 1
    assert parser.stats.fallbacks == 0


def test_other_trees_come_from_the_plain_grammar(model: SpanNetwork, bank: Treebank) -> None:
    words = bank[0].words()
    parse = sw.Parser(model).parse(words)
    best = parse.k_best(3)
    assert best[0].tree == parse.tree
    assert len({scored.tree for scored in best}) == len(best) == 3
    assert [s.score for s in best] == sorted((s.score for s in best), reverse=True)
    assert parse.log_prob == model.grammar.log_prob(parse.tree) <= parse.sentence_log_prob


def reader_of(model: SpanNetwork) -> NetworkReader:
    labels = dict.fromkeys(x for symbol in model.grammar.symbols for x in symbol.chain)
    return NetworkReader(model, {label: number for number, label in enumerate(labels)})


def test_posteriors_say_what_the_tree_is_made_of(model: SpanNetwork, bank: Treebank) -> None:
    parse = sw.Parser(model).parse(bank[1].words())
    sure = {(c.label, c.start, c.end) for c in parse.marginals if c.probability > 0.5}
    assert sure <= {*parse.tree.spans()[1:], *parse.tree.spans()}
    _, p = reader_of(model).read(bank[1].words())
    assert ((p > 0) & (p <= 1)).all()


def test_it_is_a_member_like_others(model: SpanNetwork, bank: Treebank, tmp_path: Path) -> None:
    spectral = sw.SpectralLPCFG(2).fit(bank).model_
    mix = sw.Ensemble.of([spectral, model], [0.6, 0.4])
    assert mix.groups == ((0,), (1,))
    words = bank[2].words()
    alone, both = sw.Parser(spectral).parse(words), sw.Parser(mix).parse(words)
    network = sw.Parser(model).parse(words)

    def p(parse: object, c: object) -> float:
        key = (c.label, c.start, c.end)
        return sum(x.probability for x in parse.marginals if (x.label, x.start, x.end) == key)

    for c in both.marginals:
        if c.end - c.start > 1:  # shares of tags sum to 1 in each
            expected = 0.6 * p(alone, c) + 0.4 * p(network, c)
            assert c.probability == pytest.approx(expected, abs=1e-9)
    mix.save(tmp_path / "mix.sapwood")
    again = sw.load(tmp_path / "mix.sapwood")
    assert [type(member).__name__ for member in again.members] == ["LatentGrammar", "SpanNetwork"]
    assert sw.Parser(again).parse(words).tree == both.tree
    first = sw.Ensemble.of([model, spectral])
    assert sw.Parser(first).parse(words).tree.words() == words
    with pytest.raises(SapwoodError, match="trees are drawn by their probabilities"):
        first.sample(1)


def test_an_ensemble_trains_and_weighs_it(bank: Treebank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_training, "MOST_PASSES", 4)
    monkeypatch.setattr(crf, "TABLE_BITS", 18)  # quicker to make
    plan = [sw.Candidate("spectral", 2), sw.Candidate("crf"), sw.Candidate("encoder")]
    for dev in (None, list(bank[:8])):
        learner = sw.EnsembleLPCFG(plan=plan).fit(bank[8:48], dev)
        told = [trial.verdict for trial in learner.info_.trials]
        if dev is None:
            assert told == ["member"] * 3
            np.testing.assert_allclose(learner.model_.weights, [0.325, 0.325, 0.35])
        else:
            assert learner.info_.trials[2].f1 is not None
            assert set(told) <= {"member", "trained"}


def test_a_network_without_time_is_skipped(bank: Treebank) -> None:
    plan = [sw.Candidate("spectral", 2), sw.Candidate("encoder")]
    learner = sw.EnsembleLPCFG(0.2, plan=plan).fit(bank)
    assert learner.info_.trials[1].verdict.startswith("skipped: about")


def test_a_panel_parses_as_the_parser_does(model: SpanNetwork, bank: Treebank) -> None:
    spectral = sw.SpectralLPCFG(2).fit(bank[8:]).model_
    panel = MixScorer(list(bank[:8]), spectral)
    for member in (spectral, model):
        panel.add(member)
    mix = sw.Ensemble.of([spectral, model], [0.7, 0.3])
    parser = sw.Parser(mix, middle=0)
    found = [parser.parse(tree.words()).tree for tree in bank[:8]]
    assert panel.f1([0.7, 0.3]) == pytest.approx(bracketing(list(bank[:8]), found).f1)
    weights = panel.likely_weights([0, 1])
    assert weights[1] > 0.3  # the network has seen these trees


@pytest.mark.parametrize("decoder", ["goodman", "max-rule", "viterbi"])
def test_decoders_of_rules_are_refused(model: SpanNetwork, decoder: str) -> None:
    with pytest.raises(SapwoodError, match=f"{decoder} follows the rules of a grammar"):
        sw.Parser(model, decoder=decoder)


def test_long_sentences_get_flat_trees(model: SpanNetwork) -> None:
    parser = sw.Parser(model, memory_limit_mb=0.1)
    assert parser.parse(["dog"] * 60).kind == "flat"
    assert parser.parse(["dog"] * 3).kind == "parsed"


def test_names_must_fit_the_weights(model: SpanNetwork) -> None:
    with pytest.raises(SapwoodError, match=r"names for the network's label.b"):
        replace(model, labels=model.labels[1:])
    with pytest.raises(SapwoodError, match="hidden states"):
        replace(model, grammar=sw.ClusterLPCFG(2).fit(sw.bundled_treebank("dev")).model_)


def test_a_file_without_labels_is_refused(model: SpanNetwork) -> None:
    arrays, header = model.to_file()
    contents = FileContents(arrays, json.loads(json.dumps(header)))
    again = read_model("SpanNetwork", contents)
    assert again.labels == model.labels
    contents.header["span_labels"] = "NP"
    with pytest.raises(ModelFormatError, match="no list of lists"):
        read_model("SpanNetwork", contents)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("span.offset", r"has no network\.span\.offset, which this version"),
        ("span.gain", r"network\.span\.offset has a shape that does not fit"),
    ],
)
def test_a_network_with_half_a_normalisation_is_refused(
    name: str, words: str, model: SpanNetwork
) -> None:
    arrays, header = model.to_file()
    del arrays[f"network.{name}"]
    with pytest.raises(ModelFormatError, match=words):
        read_model("SpanNetwork", FileContents(arrays, json.loads(json.dumps(header))))


def test_the_memory_of_a_sentence_is_bounded_by_its_estimate(model: SpanNetwork) -> None:
    reader, words = reader_of(model), ["the", "dog", "barks", "."] * 25
    reader.read(words)  # what is remembered of words does not count
    tracemalloc.start()
    reader.read(words)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert 0.3 * reader.megabytes(100) < peak < reader.megabytes(100)
