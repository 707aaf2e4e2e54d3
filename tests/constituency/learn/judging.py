"""How good a learnt grammar is, and whether two are the same, for tests of learners."""

from __future__ import annotations

import numpy as np

import sapwood as sw

ARRAYS = ("n_states", "root", "rules", "rule_weights", "rule_rank")


def f1(model: sw.LatentGrammar, dev: sw.Treebank) -> float:
    """F1 of the parses of a treebank's sentences."""
    sentences = [dev.words(index) for index in range(dev.n_trees)]
    parses = sw.Parser(model).parse_many(sentences, jobs=2)
    return sw.evaluate.bracketing(list(dev.trees()), [parse.tree for parse in parses]).f1


def is_same(one: sw.LatentGrammar, other: sw.LatentGrammar) -> bool:
    """Whether the weights of two grammars are equal to the last bit."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ARRAYS]
    pairs += [(one.lexicon.weights, other.lexicon.weights)]
    return all(np.array_equal(a, b) for a, b in pairs)
