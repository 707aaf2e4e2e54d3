"""Runs the kernels of dependencies, strings and text once."""

from __future__ import annotations

import numpy as np

from sapwood.corpora.tree import Tree
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn.crf import ArcCRF
from sapwood.dependency.learn.moments import StateCounts
from sapwood.dependency.learn.perceptron import RankLesson, perceptron_passes
from sapwood.dependency.model.latent import LatentArcs, pack_trees
from sapwood.dependency.parse.latent import arc_posteriors
from sapwood.dependency.parse.parser import ArcParser
from sapwood.hankel.learn.em_wcfg import EMWCFG
from sapwood.lm.learn.latent import LatentTrigram


def warm_up_other_tasks(words: list[str]) -> None:
    """Learn from a sentence of five words in every way that needs no treebank."""
    trees, strings = [Tree.parse("(X (X a) (X b))")], [["a", "b", "a"]]
    for data in (trees, strings):
        found = EMWCFG(1, iterations=1).fit(data).model_
        found.best_brackets(strings[0])
        found.values(strings)
    LatentTrigram(1, iterations=1, min_pair_count=1).fit([words]).model_.log_prob(words)
    for order in (1, 2):
        bank = [Arcs(tuple(words), (2, 3, 0, 5, 3))] * 4
        learnt = ArcCRF(order, passes=1, folds=2).fit(bank).model_
        ArcParser(learnt).parse(words).k_best(2)
    half, few = np.full((2, 2), 0.5), pack_trees([[2, 0, 2]], [[0, 1, 0]])
    latent = LatentArcs(half[0], np.stack([half, half]), half, np.array([0, 2]))
    latent.signed_log_weights(few)
    latent.in_basis(np.array([[1.0, 1.0], [0.0, 1.0]])).signed_log_weights(few)
    StateCounts.of(few, latent)
    arc_posteriors(latent, few.seen, np.ones((4, 3)))
    pair, right = np.array([0, 2]), np.array([0, 1])
    lists = RankLesson(pair, np.arange(3), np.zeros((2, 2), np.uint32), np.eye(2), right, 1)
    for weights in perceptron_passes(lists, right[:1], (0, 1.0), 1, 0):
        lists.n_right(weights, right[:1])
