"""Refilling after an edit, cross-fitted curves, and expected errors of parses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.annotation.cross_fitting import cross_fit, grammar_curve
from sapwood.constituency.annotation.errors_expected import (
    calibration,
    errors_of_sentences,
    expected_errors,
)
from sapwood.constituency.annotation.grammar import AnnotationGrammar, tree_brackets
from sapwood.constituency.annotation.refill import (
    LEAST_LOG_PROB,
    Requests,
    parse_feasible,
    settle,
)

TREES = list(sw.bundled_treebank("dev"))
PARSER = sw.Parser(sw.bundled_grammar())
SENTENCE = ["the", "man", "sees", "the", "dog", "with", "a", "hat", "."]


def test_requests_that_are_possible_are_all_kept() -> None:
    asked = Requests(spans=((3, 8, "NP"),), tags=((1, "NN"),))
    parse, kept = parse_feasible(PARSER, SENTENCE, asked)
    assert kept == asked
    assert parse.tree == asked.parse(PARSER, SENTENCE).tree
    more, kept = parse_feasible(PARSER, SENTENCE, Requests(forbidden=((5, 8, "NP"),)), kept)
    assert kept.spans == asked.spans
    assert ("NP", 3, 8) in more.tree.spans()


def test_one_impossible_request_leaves_the_others_alone() -> None:
    asked = Requests(spans=((1, 3, "PP"), (3, 8, "NP")))
    assert asked.parse(PARSER, SENTENCE).is_fallback
    parse, kept = parse_feasible(PARSER, SENTENCE, asked)
    assert kept.spans == ((3, 8, "NP"),)
    assert not parse.is_fallback
    assert ("NP", 3, 8) in parse.tree.spans()


def test_a_request_that_is_nearly_impossible_is_left_out() -> None:
    """What the model finds less probable than the limit, beside what was kept, is not asked."""
    odd = Requests(tags=((1, "VB"),))
    found = odd.parse(PARSER, SENTENCE)
    assert found.is_fallback or found.constraint_log_prob < LEAST_LOG_PROB
    parse, kept = parse_feasible(PARSER, SENTENCE, odd, Requests(spans=((3, 8, "NP"),)))
    assert kept == Requests(spans=((3, 8, "NP"),))
    assert ("NP", 3, 8) in parse.tree.spans()


def test_what_was_shown_stays_unless_the_parser_is_sure() -> None:
    parse = PARSER.parse(SENTENCE)
    other = PARSER.parse(SENTENCE, spans=[(3, 8, "NP")]).tree
    assert other != parse.tree
    assert settle(PARSER, parse, other, stay=0.0) == parse.tree
    assert settle(PARSER, parse, other, stay=0.99) == other
    probability = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
    settled = set(tree_brackets(settle(PARSER, parse, other, stay=0.3)))
    for bracket in set(tree_brackets(other)) & set(tree_brackets(parse.tree)):
        assert bracket in settled
        assert probability[bracket] > 0.2


def test_expected_errors_of_trees_drawn_from_the_grammar_are_the_actual_ones() -> None:
    """The trees of a grammar have as many errors as it expects; half as many are rejected."""
    model = sw.bundled_grammar()
    drawn = [tree for tree in model.sample(400, seed=5) if 2 < len(tree.words()) <= 25]
    parser, expected, actual = sw.Parser(model, threshold=1e-6, beam=0.0), 0.0, 0
    for tree in drawn:
        parse = parser.parse(tree.words())
        expected += expected_errors(parse)
        right, said = set(tree_brackets(tree)), set(tree_brackets(parse.tree))
        actual += len(right ^ said)
    assert actual > 100
    assert expected == pytest.approx(actual, rel=0.2)
    assert expected / 2 != pytest.approx(actual, rel=0.2)


def test_calibration_makes_expected_errors_as_many_as_there_were() -> None:
    grammar = AnnotationGrammar()
    for k in range(40):
        grammar.add(k, TREES[k])
    parser, held = sw.Parser(grammar.learn().model), TREES[100:150]
    factor = calibration(parser, held)
    expected = sum(errors_of_sentences(parser, [tree.words() for tree in held], factor))
    actual = 0
    for tree in held:
        said = parser.parse(tree.words()).tree
        actual += len(set(tree_brackets(said)) ^ set(tree_brackets(tree)))
    assert expected == pytest.approx(actual, rel=0.15)


def test_cross_fitting_judges_no_model_on_what_it_learnt_from() -> None:
    grammar = AnnotationGrammar()
    for k in range(48):
        grammar.add(k, TREES[k])
    documents = [f"d{k // 8}" for k in range(48)]
    learnt_from = []
    members = grammar.members

    def spy(without: set[int] = frozenset()) -> list:  # type: ignore[assignment, type-arg]
        learnt_from.append(set(grammar.keys) - set(without))
        return members(without)

    grammar.members = spy  # type: ignore[assignment, method-assign]
    counts = cross_fit(grammar, documents)
    n_sizes = len(counts.trees)
    assert len(learnt_from) == 4 * n_sizes
    assert [len(one) for one in learnt_from[:n_sizes]] == counts.trees.tolist()
    for fold in range(4):
        runs = learnt_from[fold * n_sizes : (fold + 1) * n_sizes]
        for smaller, larger in pairwise(runs):
            assert smaller < larger
        seen = {documents[k] for k in runs[-1]}
        assert len(seen) < 6  # whole documents are held out
    assert (counts.matched <= counts.total + 1e-9).all()
    assert len(np.unique(counts.document)) == 6


def test_the_curve_of_a_project() -> None:
    grammar = AnnotationGrammar()
    for k in range(15):
        grammar.add(k, TREES[k])
    assert grammar_curve(grammar) is None
    for k in range(15, 80):
        grammar.add(k, TREES[k])
    curve = grammar_curve(grammar)
    assert curve is not None
    assert curve.gain is not None
    assert curve.points[-1].trees == 60
    assert curve.points[-1].score > curve.points[0].score
