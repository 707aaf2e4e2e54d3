"""Runs every kernel once, so that all of them are compiled and kept."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np

import sapwood
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.from_text import grammar_from_text
from sapwood.constituency.grammar.member import Member
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.parse.decoders import DECODERS
from sapwood.constituency.parse.parser import Parser
from sapwood.core.jit import all_kernels
from sapwood.corpora.tree import Tree
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn.crf import ArcCRF
from sapwood.dependency.learn.moments import StateCounts
from sapwood.dependency.learn.reranker import RankingData, perceptron_passes
from sapwood.dependency.model.latent import LatentArcs, pack_seen_trees
from sapwood.dependency.parse.parser import ArcParser, arc_posteriors
from sapwood.hankel.data import PairConstraints
from sapwood.hankel.learn.em_wcfg import EMWCFG
from sapwood.identify.model.uniform_trees import UniformTreeModel
from sapwood.incremental import surprisal
from sapwood.lm.learn.latent import LatentTrigram

WARM_WORDS = ["the", "dog", "sees", "a", "cat"]
WARM_TREE = "(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))"
# Two of everything that the kernels tell apart: phrases and tags on either side, states, chains.
_TINY = """
root S[a] 1
root S[b] 1
root NP|NN 1
S[a] -> NP[x] VP 1
S[b] -> NN[x] VP 1
S[b] -> NP[x] VB 1
S[b] -> NN[y] VB 1
NP[x] -> DT NN[x] 1
NP[y] -> DT NN[y] 1
VP -> VB NP[y] 1
VP -> VB NN[y] 1
DT : the a
NN[x] NN[y] NP|NN : dog cat
VB : sees hears
"""


def every_kernel() -> list[Any]:
    """The kernels of all files; none where compiling is switched off."""
    for module in walk_packages(sapwood.__path__, "sapwood."):
        if ".kernels." in module.name:
            import_module(module.name)
    return all_kernels


def warm_up() -> None:
    """Train by every method on a tiny treebank, and use every model, so that kernels compile."""
    bank = Treebank.from_trees([Tree.parse(WARM_TREE)] * 40)  # enough of everything for two states
    for method in METHODS.values():
        if not method.has_candidates:  # whose candidates are the other methods
            _use(method.make_smallest().fit(bank).model_)
    _use(grammar_from_text(_TINY))
    warm_up_other_tasks(WARM_WORDS)
    half, rows, ones = np.full((2, 2), 0.5), np.zeros((1, 3), np.int64), np.ones(1)
    for family, tables in (
        ("pcfg-ie", {"root": half[0], "child": half, "words": half}),
        ("dep-ies", {"root": half[0], "argument": half}),
    ):
        UniformTreeModel(family, ("a", "b"), tables).expect(rows, ones)


def _use(model: Member) -> None:
    for decoder in DECODERS:
        if decoder == "viterbi" and not model.can.derivations:
            continue
        if decoder != "f1" and not model.can.rules:
            continue
        parse = Parser(model, decoder=decoder).parse_compiled(WARM_WORDS)
        parse.k_best(2)
    model.log_prob(parse.tree)
    model.log_prob(WARM_WORDS)
    if model.can.sample:
        surprisal(model, WARM_WORDS)


def warm_up_other_tasks(words: list[str]) -> None:
    """Train every learner that needs no treebank on one sentence of five words."""
    trees, strings = [Tree.parse("(X (X a) (X b))")], [["a", "b", "a"]]
    for data in (trees, strings):
        found = EMWCFG(1, iterations=1).fit(data).model_
        found.best_brackets(strings[0])
        found.best_brackets(strings[0], PairConstraints.parse("(.)", 3))
        found.values(strings)
    LatentTrigram(1, iterations=1, min_pair_count=1).fit([words]).model_.log_prob(words)
    for order in (1, 2):
        bank = [Arcs(tuple(words), (2, 3, 0, 5, 3))] * 4
        learnt = ArcCRF(order, passes=1, folds=2).fit(bank).model_
        ArcParser(learnt).parse(words).k_best(2)
    half, few = np.full((2, 2), 0.5), pack_seen_trees([[2, 0, 2]], [[0, 1, 0]])
    latent = LatentArcs(half[0], np.stack([half, half]), half, np.array([0, 2]))
    latent.signed_log_weights(few)
    latent.in_basis(np.array([[1.0, 1.0], [0.0, 1.0]])).signed_log_weights(few)
    StateCounts.of(few, latent)
    arc_posteriors(latent, few.seen, np.ones((4, 3)))
    pair, right = np.array([0, 2]), np.array([0, 1])
    lists = RankingData(pair, np.arange(3), np.zeros((2, 2), np.uint32), np.eye(2), right, 1)
    for weights in perceptron_passes(lists, right[:1], (0, 1.0), 1, 0):
        lists.n_right(weights, right[:1])
