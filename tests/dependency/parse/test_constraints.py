"""Given tags, heads and relations: against lists of all trees, and trees that obey."""

from __future__ import annotations

from functools import cache
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.arc_toys import bank
from tests.reference import arcs as reference

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import heads_problem
from sapwood.dependency.data.transform import is_projective
from sapwood.dependency.kernels.arc_layout import PART_KINDS
from sapwood.dependency.parse import scoring
from sapwood.dependency.parse.constraints import (
    ArcConstraintError,
    PartialArcs,
    constrain_arcs,
)
from sapwood.dependency.parse.scoring import all_arcs, score_forest

MOST_WORDS = 5
TAGS = (("NOUN", "NN"), ("NOUN", "NNS"), ("VERB", "VBZ"), ("X", "FW"))
RELATIONS = ("det", "nsubj", "obj", "root")
WORDS = ("the", "old", "dog", "sees", "cats")


@cache
def all_trees(n: int) -> list[tuple[int, ...]]:
    return [heads[1:] for heads in reference.projective_trees(n)]


@cache
def learnt(method: str) -> sw.ArcModel:
    if method == "mix":
        return sw.ArcEnsemble(passes=1, folds=2, encoder_passes=2).fit(bank(40)).model_
    if method == "latent":
        return sw.LatentArcCRF(n_states=3, passes=1, folds=2).fit(bank(40)).model_
    return sw.ArcCRF(order=1 if method == "first" else 2, passes=1, folds=2).fit(bank(40)).model_


def fits(tree: tuple[int, ...], heads: list[int | None]) -> bool:
    return all(asked in (None, found) for asked, found in zip(heads, tree, strict=True))


@st.composite
def partial_heads(draw: st.DrawFn, most: int = MOST_WORDS) -> list[int | None]:
    n = draw(st.integers(1, most))
    head = st.one_of(st.none(), st.none(), st.integers(0, n))
    return draw(st.lists(head, min_size=n, max_size=n))


@settings(max_examples=400)
@given(partial_heads(6))
def test_heads_are_refused_where_no_tree_has_them(heads: list[int | None]) -> None:
    n = len(heads)
    left = [tree for tree in all_trees(n) if fits(tree, heads)]
    if not left:
        with pytest.raises(ArcConstraintError) as caught:
            constrain_arcs(n, TAGS, RELATIONS, heads=heads)
        assert caught.value.words
        assert all(1 <= word <= n for word in caught.value.words)
        return
    found = constrain_arcs(n, TAGS, RELATIONS, heads=heads)
    if found is None:
        assert not any(head is not None for head in heads)
        return
    assert tuple(found.tree[1:].tolist()) in left
    in_trees = np.zeros((n + 1, n), bool)
    for tree in left:
        in_trees[list(tree), np.arange(n)] = True
    assert not (in_trees & ~found.allowed).any()
    assert not (found.allowed & ~found.asked).any()


@settings(max_examples=60)
@given(st.integers(6, 60), st.integers(0, 2**20), st.floats(0, 1))
def test_parts_of_long_trees_are_never_refused(n: int, seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n * n)
    forest = scoring.ArcForest(n, *np.ascontiguousarray(all_arcs(n)[:, 1:3].T))
    heads = forest.best(scores)[1:]
    given_heads = [int(h) if rng.random() < share else None for h in heads]
    found = constrain_arcs(n, TAGS, RELATIONS, heads=given_heads)
    if found is None:
        return
    tree = found.tree[1:].tolist()
    assert heads_problem(tree) is None
    assert is_projective(tree)
    assert fits(tuple(tree), given_heads)
    assert found.allowed[tree, np.arange(n)].all()
    assert found.allowed[heads, np.arange(n)].all()


def weighted_trees(model: sw.ArcModel, parse: object, words: list[str]) -> dict:
    """The score of every tree under the only member of a model, part by part."""
    (member,) = model.members
    parser = sw.ArcParser(model)
    tagged = sw.ArcParser(model).parse(words).arcs
    n, rows = len(words), parser._word_rows.of_sentence(words)
    parser._word_rows.put_named_tags(rows[2:-2], tagged.upos, tagged.xpos)
    arcs = np.ascontiguousarray(all_arcs(n)[:, 1:3].T)
    forest, scores, _ = score_forest(n, arcs, rows, member.order, member.table)
    named = {
        (PART_KINDS[kind], h, m, third): score
        for (kind, h, m, third), score in zip(forest.parts.tolist(), scores.tolist(), strict=True)
        if kind >= 0
    }
    return reference.tree_scores(n, {tuple(arc) for arc in arcs.T.tolist()}, named)


@pytest.fixture
def unpruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MIN_HEAD_RATIO", 0.0)


@pytest.mark.parametrize("method", ["first", "second"])
@settings(max_examples=40)
@given(partial_heads(), st.data())
def test_posteriors_are_those_of_the_trees_that_fit(
    method: str, heads: list[int | None], data: st.DataObject
) -> None:
    model, n = learnt(method), len(heads)
    words = [data.draw(st.sampled_from(WORDS)) for _ in range(n)]
    old, scoring.MIN_HEAD_RATIO = scoring.MIN_HEAD_RATIO, 0.0
    try:
        _check_posteriors(model, words, heads)
    finally:
        scoring.MIN_HEAD_RATIO = old


def _check_posteriors(model: sw.ArcModel, words: list[str], heads: list[int | None]) -> None:
    n = len(words)
    try:
        parse = sw.ArcParser(model).parse(words, heads=heads)
    except SapwoodError:
        assert not any(fits(tree, heads) for tree in all_trees(n))
        return
    scores = weighted_trees(model, parse, words)
    total, _ = reference.posteriors(scores)
    left = {tree: score for tree, score in scores.items() if fits(tree[1:], heads)}
    some, parts = reference.posteriors(left)
    assert parse.constraint_log_prob == pytest.approx(some - total, rel=1e-7, abs=1e-9)
    for h in range(n + 1):
        for m in range(1, n + 1):
            expected = parts.get(("arc", h, m, -1), 0.0)
            assert parse.posteriors[m - 1, h] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert fits(parse.arcs.heads, heads)
    best = parse.k_best(200)
    assert {tree.arcs.heads for tree in best} == {tree[1:] for tree in left}
    assert sum(exp(tree.score) for tree in best) == pytest.approx(1.0, rel=1e-9)
    for tree in best:
        assert tree.score == pytest.approx(left[0, *tree.arcs.heads] - some, rel=1e-7, abs=1e-7)


def test_a_mutant_that_keeps_other_heads_is_noticed(
    monkeypatch: pytest.MonkeyPatch, unpruned: None
) -> None:
    """Where the mask is forgotten, trees without the given head stay in the forest."""
    words, heads = list(WORDS), [None, None, 2, None, None]
    _check_posteriors(learnt("second"), words, heads)
    right = sw.ArcParser.constrain

    def forget(parser: sw.ArcParser, partial: PartialArcs) -> object:
        found = right(parser, partial)
        assert found is not None
        found.allowed[4, 2] = True  # word 3 may hang on word 4 too
        return found

    monkeypatch.setattr(sw.ArcParser, "constrain", forget)
    with pytest.raises(AssertionError):
        _check_posteriors(learnt("second"), words, heads)


@pytest.mark.parametrize("method", ["first", "second", "latent", "mix"])
def test_every_kind_of_member_obeys(method: str) -> None:
    model, rng = learnt(method), np.random.default_rng(5)
    parser = sw.ArcParser(model)
    upos, xpos = (sorted({pair[k] for pair in model.tags}) for k in range(2))
    n_refused = 0
    for arcs in bank(60, 8):
        n = len(arcs)
        asked = PartialArcs(arcs.words, [None] * n, [None] * n, [None] * n)
        for _ in range(int(rng.integers(1, 6))):
            k = int(rng.integers(n))
            asked.heads[k] = int(rng.integers(n + 1))
            asked.relations[int(rng.integers(n))] = str(rng.choice(model.relations))
            asked.tags[k] = str(rng.choice(upos if rng.random() < 0.5 else xpos))
        try:
            parse = parser.parse(asked)
        except ArcConstraintError:
            n_refused += 1
            continue
        for tree in (parse.arcs, *(one.arcs for one in parse.k_best(3))):
            assert heads_problem(tree.heads) is None
            assert fits(tree.heads, asked.heads)
            for name, found in zip(asked.relations, tree.relations, strict=True):
                assert name in (None, found)
            for tag, pair in zip(asked.tags, zip(tree.upos, tree.xpos, strict=True), strict=True):
                assert tag is None or tag in pair
        assert parse.constraint_log_prob <= 0.0
        sums = parse.posteriors.sum(axis=1)  # of a network without the arcs that were pruned
        np.testing.assert_allclose(sums, 1.0, rtol=0.5 if method == "mix" else 1e-9)
        for word, head in enumerate(asked.heads):
            if head is not None:
                assert parse.posteriors[word, head] == pytest.approx(1.0, rel=1e-5)
    assert 5 < n_refused < 55


@pytest.mark.parametrize("method", ["first", "latent", "mix"])
def test_the_probabilities_of_all_heads_of_a_word_sum_to_one(method: str) -> None:
    parser, words = sw.ArcParser(learnt(method)), list(bank(3, 4)[0].words)
    n = len(words)
    for word in (0, n - 1):
        total = 0.0
        for head in range(n + 1):
            if head != word + 1:
                heads = [None] * n
                heads[word] = head
                total += exp(parser.parse(words, heads=heads).constraint_log_prob)
        # arcs that were pruned come back when they are asked for: a little more than 1
        assert total == pytest.approx(1.0, abs=0.02)


def test_nothing_given_is_the_parse_without_constraints() -> None:
    for method in ("second", "mix"):
        parser = sw.ArcParser(learnt(method))
        for arcs in bank(5, 6):
            n = len(arcs)
            free = parser.parse(arcs.words)
            same = parser.parse(arcs.words, tags=[None] * n, heads=[None] * n, relations=[None] * n)
            assert str(same.arcs) == str(free.arcs)
            np.testing.assert_array_equal(same.posteriors, free.posteriors)
            assert same.constraint_log_prob == 0.0


def test_relations_fix_the_root() -> None:
    parser, words = sw.ArcParser(learnt("second")), list(bank(3, 4)[0].words)
    n = len(words)
    relations = ["root", *[None] * (n - 1)]
    parse = parser.parse(words, relations=relations)
    assert parse.arcs.heads[0] == 0
    assert parse.arcs.relations.count("root") == 1
    free = parser.parse(words).arcs
    root = free.heads.index(0)
    relations = [None] * n
    relations[root] = "obj"  # no other word may be the root with that relation
    parse = parser.parse(words, relations=relations)
    assert parse.arcs.heads[root] != 0
    assert parse.arcs.relations[root] == "obj"
    parse = parser.parse(words, relations=["obj"] * n)  # where all are no roots, one is
    assert parse.arcs.heads.count(0) == 1
    with pytest.raises(ArcConstraintError, match="words 1 and 2 are both the root"):
        parser.parse(
            words, heads=[0, *[None] * (n - 1)], relations=[None, "root", *[None] * (n - 2)]
        )


def test_the_probability_of_a_relation_is_the_label_models() -> None:
    parser, words = sw.ArcParser(learnt("second")), list(bank(3, 4)[0].words)
    free = parser.parse(words)
    heads, word = list(free.arcs.heads), 0
    every = {
        name: parser.parse(words, heads=heads, relations=[name, *[None] * (len(words) - 1)])
        for name in learnt("second").relations
        if name != "root"
    }
    of_tree = parser.parse(words, heads=heads).constraint_log_prob
    shares = [exp(parse.constraint_log_prob - of_tree) for parse in every.values()]
    assert sum(shares) == pytest.approx(1.0, abs=0.02)  # the rest is that of root
    assert max(every, key=lambda name: every[name].constraint_log_prob) == free.arcs.relations[word]


@pytest.mark.parametrize("method", ["second", "mix"])
def test_soft_tags_are_weighed(method: str) -> None:
    parser, words = sw.ArcParser(learnt(method)), list(bank(3, 4)[0].words)
    n = len(words)
    rest = [None] * (n - 1)
    free = parser.parse(words).arcs.xpos[0]
    other = "NN" if free != "NN" else "JJ"
    found = [
        parser.parse(words, tags=[{free: 1 - p, other: p}, *rest]).arcs.xpos[0]
        for p in (0.0, 1e-9, 1 - 1e-9, 1.0)
    ]
    assert found == [free, free, other, other]


def test_a_pair_that_was_never_seen_is_kept() -> None:
    parser, words = sw.ArcParser(learnt("mix")), ["dog", "sees"]
    arcs = parser.parse(words, tags=[("NOUN", "VBZ"), ("_", "VBZ")]).arcs
    assert (arcs.upos[0], arcs.xpos) == ("NOUN", ("VBZ", "VBZ"))
    assert arcs.upos[1] == "VERB"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"heads": [2, 1, None]}, "words 1 and 2 depend on each other in a cycle"),
        ({"heads": [2, 3, 1]}, "words 1, 2 and 3 depend on each other in a cycle"),
        ({"heads": [0, None, 0]}, "words 1 and 3 both have the head 0, and a tree has one root"),
        ({"heads": [4, None, None]}, "word 1 has the head 4, but the sentence has 3 words"),
        ({"heads": [-2, None, None]}, "word 1 has the head -2, but"),
        ({"heads": [None, 2, None]}, "word 2 is its own head"),
        ({"heads": [3, 0, None]}, "the arc from 3 to 1 passes over word 2, which is the root"),
        ({"heads": [3, None, 2]}, "the arc from 3 to 1 passes over word 2, the head of word 3"),
        ({"heads": [None]}, "found 1 heads for a sentence of 3 words"),
        ({"tags": "NOUN"}, "found the string 'NOUN' for a sentence of 3 words"),
        ({"tags": ["NON", None, None]}, "the tag of word 1 is NON, which the model has never"),
        ({"tags": [("NOUN", "NP"), None, None]}, "XPOS of word 1 is NP, which the model has never"),
        ({"tags": [{"NN": -1.0}, None, None]}, "the probability of NN for word 1 is a float"),
        ({"tags": [{"NN": 0.0}, None, None]}, "word 1 has no tag of positive probability"),
        ({"relations": ["subj", None, None]}, "the relation of word 1 is subj, which the model"),
    ],
)  # fmt: skip
def test_impossible_requests_name_what_clashes(asked: dict, words: str) -> None:
    with pytest.raises(ArcConstraintError) as caught:
        constrain_arcs(3, TAGS, RELATIONS, **asked)
    assert str(caught.value).startswith(words)
    assert caught.value.hint


def test_crossing_arcs_are_named() -> None:
    with pytest.raises(ArcConstraintError, match="the arcs from 3 to 1 and from 4 to 2 cross"):
        constrain_arcs(4, TAGS, RELATIONS, heads=[3, 4, None, None])


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(ArcConstraintError) as caught:
        constrain_arcs(1, TAGS, RELATIONS, tags=["NOUM"])
    assert caught.value.hint.startswith("the nearest that it has: 'NOUN'")


def test_rerankers_keep_what_is_given() -> None:
    model = sw.ArcReranker(n_states=2, passes=1, folds=2, latent="none").fit(bank(60)).model_
    parser, words = sw.RerankingParser(model), list(bank(3, 4)[0].words)
    heads = [0, *[None] * (len(words) - 1)]
    parse = parser.parse(words, heads=heads)
    assert parse.arcs.heads[0] == 0
    assert all(tree.arcs.heads[0] == 0 for tree in parse.k_best(5))
    assert parse.constraint_log_prob < log(0.5)
