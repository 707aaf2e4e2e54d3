"""`ArcReranker`: lists are jackknifed, and what is learnt helps or is not used."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.errors import CorpusError, ModelFormatError
from sapwood.dependency.learn import reranker
from sapwood.dependency.learn.reranker import (
    ArcReranker,
    RankingChoice,
    RankingWeights,
    rerank_info,
)
from sapwood.dependency.model.arc_model import ArcRerankModel
from sapwood.dependency.parse.reranking import RerankingParser

SETTINGS = {"passes": 1, "folds": 2, "list_folds": 2, "n_best": 5, "list_passes": 2}


def test_each_list_is_made_by_those_who_have_not_seen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given = bank(60)
    learnt: list[set[str]] = []
    parsed: list[set[str]] = []

    def learn(self: ArcReranker, part, labels, *, real=ArcReranker.learn_parser):
        learnt.append({" ".join(arcs.words) for arcs in part.data.bank})
        return real(self, part, labels)

    class Parser(sw.ArcParser):
        def parse_many(self, sentences, *, jobs=1):
            kept = list(sentences)
            parsed.append({" ".join(arcs.words) for arcs in kept})
            return super().parse_many(kept, jobs=jobs)

    monkeypatch.setattr(ArcReranker, "learn_parser", learn)
    monkeypatch.setattr(reranker, "ArcParser", Parser)
    found = ArcReranker(2, latent="none", **SETTINGS).fit(given)
    sizes = [len(part) for part in learnt]
    assert len(sizes) == 3
    assert sizes[2] >= max(sizes[:2])
    twice = {" ".join(a.words) for a in given if sum(b.words == a.words for b in given) > 1}
    assert not (learnt[0] & parsed[0]) - twice
    assert not (learnt[1] & parsed[1]) - twice
    assert found.info_.oracle >= found.info_.held_uas >= found.info_.parser_uas
    assert found.info_.list_size <= 5


@pytest.mark.parametrize(("n", "block"), [(49, 1), (50, 25), (120, 25)])
def test_folds_are_blocks_of_neighbours_where_there_are_enough_sentences(
    monkeypatch: pytest.MonkeyPatch, n: int, block: int
) -> None:
    """Every block of 25 sentences is in one fold; fewer sentences than two blocks alternate."""

    class Numbers:
        """Sentences that are their own numbers."""

        select = staticmethod(np.flatnonzero)

        def __len__(self) -> int:
            return n

    data = SimpleNamespace(
        bank=Numbers(),
        with_predicted_tags=Numbers,
        select=lambda mask: SimpleNamespace(bank=np.flatnonzero(mask)),
    )
    trainer = SimpleNamespace(data=data, tagger=None)
    of = SimpleNamespace(of=lambda data, tagger, seed: SimpleNamespace(data=data))
    monkeypatch.setattr(reranker, "ArcTrainer", of)
    parser = SimpleNamespace(parse_many=lambda numbers, jobs: numbers)
    monkeypatch.setattr(ArcReranker, "learn_parser", lambda self, part, labels: part)
    monkeypatch.setattr(reranker, "ArcParser", lambda model, use_tags: parser)
    monkeypatch.setattr(reranker, "propose_trees", lambda parses, n_best: parses)
    for fold in (0, 1):
        found = ArcReranker(2, **SETTINGS).fold_lists(trainer, None, fold)  # type: ignore[arg-type]
        own = [k for k in range(n) if k // block % 2 == fold]
        assert list(found.lists) == list(found.right) == own
        assert sorted([*found.others, *own]) == list(range(n))


def texts(trees) -> set[str]:
    return {" ".join(arcs.words) for arcs in trees}


@pytest.mark.parametrize("kind", ["SpectralDependency", "EMDependency"])
def test_latent_models_have_not_seen_the_sentences_that_they_score(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The log-probabilities that the perceptron learns from are those of held-out sentences."""
    learnt: dict[int, set[str]] = {}
    scored: list[tuple[int, set[str]]] = []
    learner = getattr(reranker, kind)

    class Recorded(learner):
        def fit(self, trees):
            super().fit(trees)
            learnt[id(self.model_)] = texts(trees)
            return self

    def features(self, trees, *, real=sw.DependencyModel.features):
        scored.append((id(self), texts(trees)))
        return real(self, trees)

    monkeypatch.setattr(reranker, kind, Recorded)
    monkeypatch.setattr(sw.DependencyModel, "features", features)
    given = bank(60)
    latent = {"SpectralDependency": "spectral", "EMDependency": "em"}[kind]
    ArcReranker(2, latent=latent, **SETTINGS).fit(given)
    assert len(scored) == SETTINGS["list_folds"]
    twice = {" ".join(a.words) for a in given if sum(b.words == a.words for b in given) > 1}
    for model, sentences in scored:
        assert sentences
        assert learnt[model]
        assert not (learnt[model] & sentences) - twice
    assert set().union(*(sentences for _, sentences in scored)) == texts(given)


@pytest.mark.parametrize(("latent", "n_models"), [("none", 0), ("both", 2)])
def test_latent_models_are_features(latent: str, n_models: int) -> None:
    learner = ArcReranker(2, latent=latent, **SETTINGS).fit(bank(60))
    stages = ["tags, arcs, relations", "lists", "latent models", "perceptron", "parser"]
    assert list(learner.info_.seconds) == stages
    model = learner.model_
    assert len(model.latent) == n_models
    assert len(model.dense) == 2 + 3 * n_models
    assert model.column == "xpos"
    words = bank(1, 7).sentence(0)
    first, second = (RerankingParser(model).parse(words).arcs for _ in range(2))
    assert first == second


def test_latent_models_that_are_of_no_use_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = 2  # dense columns that held-out lists are best with

    def learn(lesson, **settings):
        n = lesson.dense.shape[1]
        weights = RankingWeights(np.zeros(1 << lesson.bits), np.ones(n))
        return RankingChoice(weights, (0, 1.0), 1, 10 + (n == wanted), 10)

    monkeypatch.setattr(reranker, "learn_to_rank", learn)
    assert ArcReranker(2, **SETTINGS).fit(bank(60)).model_.latent == ()
    wanted = 5
    assert len(ArcReranker(2, **SETTINGS).fit(bank(60)).model_.latent) == 1


@pytest.mark.parametrize(
    ("heads", "reason"), [([2, 3, 4, 0], ""), ([4, 4, 4, 0], "children on both sides")]
)
def test_treebanks_without_children_on_both_sides(heads: list[int], reason: str) -> None:
    """Latent models learn from paths, and where there are none `auto` does without."""
    rng = np.random.default_rng(0)
    names = [rng.permutation(list("abcd")).tolist() for _ in range(40)]
    trees = [sw.Arcs(words, heads, xpos=[word.upper() for word in words]) for words in names]
    found = ArcReranker(2, **SETTINGS).fit(trees)
    assert reason in found.info_.without_latent
    assert bool(reason) == bool(found.info_.without_latent)
    assert RerankingParser(found.model_).parse(list("abcd")).arcs.heads == tuple(heads)
    if reason:
        with pytest.raises(sw.SapwoodError, match=reason):
            ArcReranker(2, latent="spectral", **SETTINGS).fit(trees)


def test_sentences_must_be_enough() -> None:
    with pytest.raises(CorpusError, match="3 sentences for 2 folds"):
        ArcReranker(2, **SETTINGS).fit(bank(3))


def test_a_model_without_a_parser_ranks_lists_alone() -> None:
    model = ArcRerankModel("upos", np.zeros(4), np.array([1.0, 0.0]))
    with pytest.raises(sw.SapwoodError, match="no parser of its own"):
        RerankingParser(model)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"column": "lemma"}, "tags are in the column"),
        ({"weights": np.zeros(3)}, "expected a power of 2"),
        ({"weights": np.zeros(4, np.float32)}, "float32"),
        ({"dense": np.zeros(3)}, "3 dense weights, expected 2"),
        ({"dense": np.array([1.0, np.nan])}, "not finite"),
        ({"dense": np.array([1.0, 1e200])}, "beyond 1e"),
        ({"n_best": 0}, "n_best is"),
        ({"latent": (3,)}, "a latent model of a reranker"),
    ],
)
def test_models_that_cannot_be(fields: dict[str, object], message: str) -> None:
    usual = {"column": "upos", "weights": np.zeros(4), "dense": np.array([1.0, 0.0])}
    with pytest.raises(ModelFormatError, match=message):
        ArcRerankModel(**(usual | fields))


def test_the_report_counts_the_best_tree_of_each_list() -> None:
    # two sentences of 4 and 3 words with lists of 3 and 2 trees, and right heads of each tree
    lesson = SimpleNamespace(
        starts=np.array([0, 3, 5]),
        offsets=np.array([0, 4, 8, 12, 15, 18]),
        right=np.array([1, 4, 2, 3, 0]),
    )
    choice = SimpleNamespace(held=(0, 1.0), passes=2, held_right=5, parser_right=4)
    found = rerank_info(lesson, choice)  # type: ignore[arg-type]
    assert found.oracle == pytest.approx(100 * (4 + 3) / 7)
    assert found.held_uas == pytest.approx(100 * 5 / 7)
    assert found.parser_uas == pytest.approx(100 * 4 / 7)
