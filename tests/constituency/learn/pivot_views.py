"""Views of the nodes of a treebank, for tests of pivot learning."""

from __future__ import annotations

import numpy as np

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.em_steps import TrainingTrees
from sapwood.constituency.learn.pivot import PivotNodes, Recipe, Views, find_views, pivot_nodes
from sapwood.constituency.learn.spectral import project
from sapwood.execute import Threads


def views_of(bank: Treebank, n_states: int, side: str) -> tuple[PivotNodes, Views]:
    data = sw.PCFG().prepare(bank, Threads())
    seen, trees = project(data, n_states), TrainingTrees(data)
    nodes = pivot_nodes(data, seen, trees)
    wanted = np.minimum(np.minimum(trees.limit, n_states), seen.m)
    return nodes, find_views(nodes, wanted, side, Recipe())
