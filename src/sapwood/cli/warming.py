"""Runs every kernel once, so that all of them are compiled and kept."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np

import sapwood
from sapwood.cli.warming_tasks import warm_up_other_tasks
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.from_text import grammar_from_text
from sapwood.constituency.grammar.member import Member
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.parse.decoders import DECODERS
from sapwood.constituency.parse.parser import Parser
from sapwood.core.jit import all_kernels
from sapwood.corpora.tree import Tree
from sapwood.identify.model.uniform_trees import UniformTreeModel

WORDS = ["the", "dog", "sees", "a", "cat"]
TREE = "(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))"
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
    """Learn in every way from next to nothing, and use in every way what was learnt."""
    bank = Treebank.from_trees([Tree.parse(TREE)] * 40)  # enough of everything for two states
    for method in METHODS.values():
        if not method.has_candidates:  # whose candidates are the other methods
            _use(method.make_smallest().fit(bank).model_)
    _use(grammar_from_text(_TINY))
    warm_up_other_tasks(WORDS)
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
        parse = Parser(model, decoder=decoder).parse_compiled(WORDS)
        parse.k_best(2)
    model.log_prob(parse.tree)
    model.log_prob(WORDS)
