"""Parsers by features, with and without hidden states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import arc_toys
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError
from sapwood.corpora.vocabulary import hash_of
from sapwood.dependency.data.bank import UNPARSED
from sapwood.dependency.learn import trainer
from sapwood.dependency.model.arc_model import ArcModel, LatentMember
from sapwood.dependency.parse.parser import arc_posteriors
from sapwood.dependency.parse.scoring import keep_likely

WORDS = ["the", "dog", "sees", "a", "cat", "."]


@pytest.fixture(scope="module", params=[1, 2])
def learner(request) -> sw.ArcCRF:
    return sw.ArcCRF(request.param, passes=3, folds=2).fit(bank())


def accuracy(model: sw.ArcModel, gold: sw.ArcBank, **how) -> tuple[float, float, float]:
    """Shares of right heads, relations and tags."""
    parser = sw.ArcParser(model, **how)
    pairs = [(right, parser.parse(right if how else list(right.words)).arcs) for right in gold]
    shares = []
    for name in ("heads", "relations", "xpos"):
        both = [(getattr(a, name), getattr(b, name)) for a, b in pairs]
        shares.append(np.mean([x == y for a, b in both for x, y in zip(a, b, strict=True)]))
    return tuple(shares)


def test_new_sentences_are_parsed_tagged_and_named(learner):
    heads, relations, tags = accuracy(learner.model_, bank(60, 1))
    assert heads > 0.93  # a phrase with `in` hangs on the verb, one with `of` on a noun
    assert relations > 0.97
    assert tags > 0.99


def test_likelihood_rises_with_the_passes(learner):
    found = learner.info_.log_likelihoods
    assert len(found) == learner.info_.iterations == 3
    assert list(learner.info_.seconds) == ["tags and arcs", "passes", "relations"]
    assert found[0] < found[-1] < 0


def test_tags_can_be_given(learner):
    given = sw.Arcs(["the", "glorb", "sees", "."], [-1] * 4, upos=["DET", "NOUN", "VERB", "PUNCT"],
                    xpos=["DT", "NN", "VBZ", "."])  # fmt: skip
    parse = sw.ArcParser(learner.model_, use_tags=True).parse(given)
    assert parse.arcs.upos == given.upos
    assert parse.arcs.heads == (2, 3, 0, 3)


def test_posteriors_are_distributions_over_heads(learner):
    parse = sw.ArcParser(learner.model_).parse([*WORDS[:5], "of", "the", "park", "."])
    np.testing.assert_allclose(parse.posteriors.sum(axis=1), 1.0, rtol=1e-6)
    assert min(parse.head_posteriors) > 0


def test_lists_of_trees_are_probabilities_in_order(learner):
    parse = sw.ArcParser(learner.model_).parse(WORDS)
    ranked = parse.k_best(1000)
    scores = [best.score for best in ranked]
    assert scores == sorted(scores, reverse=True)
    assert len({best.arcs.heads for best in ranked}) == len(ranked) > 1
    assert 0.9 < sum(np.exp(scores)) < 1 + 1e-6


def test_a_model_comes_back_from_its_file(learner, tmp_path):
    learner.model_.save(tmp_path / "parser.sapwood")
    again = sw.load(tmp_path / "parser.sapwood")
    for sentence in bank(10, 2):
        before = sw.ArcParser(learner.model_).parse(sentence)
        after = sw.ArcParser(again).parse(sentence)
        assert before.arcs == after.arcs
        np.testing.assert_array_equal(before.posteriors, after.posteriors)


def test_a_parser_has_relations(learner):
    with pytest.raises(ModelFormatError, match="without relations"):
        replace(learner.model_, relations=())


def test_threads_change_nothing(learner, tmp_path):
    again = sw.ArcCRF(learner.order, passes=3, folds=2, n_jobs=3).fit(bank())
    for name, model in (("one", learner.model_), ("three", again.model_)):
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()
    parser, words = sw.ArcParser(again.model_), [list(arcs.words) for arcs in bank(20, 3)]
    alone = [parser.parse(sentence).arcs for sentence in words]
    assert [parse.arcs for parse in parser.parse_many(words, jobs=3)] == alone


@pytest.mark.parametrize(("n", "block"), [(49, 1), (50, 25), (110, 25)])
def test_tags_to_learn_from_are_those_of_taggers_that_have_not_seen_the_sentence(
    monkeypatch: pytest.MonkeyPatch, n: int, block: int
) -> None:
    """Every block of 25 sentences is in one fold; fewer sentences than two blocks alternate."""
    learnt: list[set[int]] = []

    def train(self, is_in, seed, *, real=trainer.TaggerTrainer.train):
        learnt.append(set(np.flatnonzero(is_in).tolist()))
        return real(self, is_in, seed)

    monkeypatch.setattr(trainer.TaggerTrainer, "train", train)
    sw.ArcCRF(1, passes=1, folds=2).fit(bank(n))
    others = [{k for k in range(n) if k // block % 2 != fold} for fold in (0, 1)]
    assert learnt == [set(range(n)), *others]


def test_several_members_are_averaged():
    learner = sw.ArcEnsemble(members=3, passes=2, folds=2, encoder_passes=0).fit(bank())
    assert len(learner.model_.members) == 3
    assert accuracy(learner.model_, bank(40, 1))[0] > 0.93
    parse = sw.ArcParser(learner.model_).parse(WORDS)
    best = parse.k_best(2)
    assert best[0].arcs == parse.arcs
    assert best[0].score == pytest.approx(sum(parse.head_posteriors))
    one = [
        sw.ArcParser(replace(learner.model_, members=learner.model_.members[k : k + 1]))
        .parse(parse.arcs)
        .posteriors
        for k in range(3)
    ]
    np.testing.assert_allclose(parse.posteriors, np.mean(one, axis=0), rtol=1e-9, atol=1e-12)


def test_a_budget_leaves_members_out():
    learner = sw.ArcEnsemble(1e-3, members=3, passes=1, folds=2).fit(bank(30))
    assert len(learner.model_.members) == 1
    assert learner.model_.encoder is None
    assert [name for name, _ in learner.info_.members] == ["words"]
    assert learner.info_.left_out[0] == "network"
    assert len(learner.info_.left_out) == 3


def test_trees_that_are_not_projective_are_lifted():
    crossing = sw.Arcs(["a", "b", "c", "d"], [3, 4, 0, 3])
    model = sw.ArcCRF(passes=1, folds=2).fit([crossing] * 6).model_
    assert sw.ArcParser(model).parse(crossing).arcs.is_projective()


@pytest.mark.parametrize(
    ("data", "message"),
    [([], "no sentence"), ([sw.Arcs(["dogs", "bark"], [-1, -1])], "sentences without heads")],
)
def test_nothing_to_learn_from_is_said(data, message):
    with pytest.raises(CorpusError, match=message):
        sw.ArcCRF().fit(data)


@pytest.mark.parametrize("given", [{"order": 3}, {"passes": 0}, {"rate": 0.0}, {"folds": 1}])
def test_parameters_are_checked(given):
    with pytest.raises(SapwoodError, match=next(iter(given))):
        sw.ArcCRF(**given).fit(bank())


def test_one_word_and_unknown_words_get_a_tree(learner):
    parser = sw.ArcParser(learner.model_)
    assert parser.parse(["zxcv"]).arcs.heads == (0,)
    long = parser.parse(["qwer", "asdf", "1,000", "!", "\u00e9\u00df"] * 30).arcs
    assert len(long) == 150
    assert long.heads.count(0) == 1
    with pytest.raises(SapwoodError, match="empty sentence"):
        parser.parse([])


@pytest.mark.parametrize(("n", "most"), [(100, 8), (150, 8), (400, 3), (1000, 3)])
def test_words_of_long_sentences_have_fewer_heads(n, most):
    share = np.full((n + 1, n), 1.0) + np.random.default_rng(0).random((n + 1, n)) / 10
    head, modifier = keep_likely(share / share.sum(axis=0))
    n_heads = np.bincount(modifier, minlength=n + 1)[1:]
    assert n_heads.max() <= most + 1  # the word before is always one
    assert n_heads.min() >= most
    assert {(m - 1, m) for m in range(1, n + 1)} <= set(
        zip(head.tolist(), modifier.tolist(), strict=True)
    )


def test_unknown_words_have_few_of_many_tags(monkeypatch):
    """A language with a tag for each ending: the lattice of tags must not grow with its square."""
    monkeypatch.setattr(trainer, "MAX_OPEN_TAGS", 3)
    words = [f"{stem}{end}" for end in "abcdefgh" for stem in ("k", "l", "m")[: 2 + (end < "d")]]
    trees = [sw.Arcs([word, "."], [0, 1], xpos=[f"N+{word[1]}", "."]) for word in words]
    model = sw.ArcCRF(1, passes=1, folds=2).fit(trees).model_
    lexicon = model.lexicon
    by_type = np.split(lexicon.candidates, lexicon.starts[1:-1])
    names = [{model.tags[tag][1] for tag in tags} for tags in by_type]
    assert names[0] == {"N+a", "N+b", "N+c"}  # those of most words
    own = names[1 + lexicon.words.tolist().index(hash_of("kh"))]
    assert own == names[0] | {"N+h"}


@pytest.fixture(scope="module")
def model() -> ArcModel:
    return sw.LatentArcCRF(4, folds=2, passes=2).fit(arc_toys.bank(80)).model_


def with_member(model: ArcModel, trust: float, weight: float) -> ArcModel:
    assert model.latent is not None
    return replace(model, latent=LatentMember(model.latent.model, trust, weight))


@pytest.mark.parametrize(("trust", "weight"), [(1.0, 1.0), (0.0, 1.0), (3.0, 0.25)])
def test_posteriors_are_those_of_the_sum_over_all_trees(
    model: ArcModel, trust: float, weight: float
) -> None:
    assert model.latent is not None
    words = ["the", "old", "dog", "sees", "a", "cat", "."]
    plain = sw.ArcParser(replace(model, latent=None)).parse(words)
    prior = plain.posteriors.T
    arcs = np.where(prior > 0, np.where(prior > 0, prior, 1.0) ** trust, 0.0)
    bank = sw.ArcBank.of([replace(plain.arcs, heads=(UNPARSED,) * len(words), relations=())])
    seen = model.latent.model.seen.of(bank).seen
    _, sign, found = arc_posteriors(model.latent.model.arcs, seen, arcs)
    assert sign == 1
    parse = sw.ArcParser(with_member(model, trust, weight)).parse(words)
    truth = (1 - weight) * prior + weight * found
    np.testing.assert_allclose(parse.posteriors.T, truth, atol=1e-9)
    np.testing.assert_allclose(parse.posteriors.sum(axis=1), 1.0, atol=1e-9)


def test_it_parses_sentences_that_it_has_not_seen(model: ArcModel) -> None:
    gold = arc_toys.bank(100)[80:]
    parser = sw.ArcParser(model)
    right = [
        np.mean(np.array(parser.parse(tree.words).arcs.heads) == np.array(tree.heads))
        for tree in gold
    ]
    assert np.mean(right) > 0.85


def test_it_comes_back_from_its_file(model: ArcModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    words = ["the", "cat", "sings", "."]
    one, two = (sw.ArcParser(each).parse(words) for each in (model, again))
    np.testing.assert_array_equal(one.posteriors, two.posteriors)
    assert again.latent.trust == model.latent.trust  # type: ignore[union-attr]


def test_only_probabilities_are_members(model: ArcModel) -> None:
    assert model.latent is not None
    with pytest.raises(ModelFormatError, match="probabilities"):
        with_member(model, 1.0, 2.0)
    spectral = sw.SpectralDependency(2).fit(arc_toys.bank(80)).model_
    with pytest.raises(ModelFormatError, match="probabilities"):
        replace(model, latent=LatentMember(spectral, 1.0, 1.0))
