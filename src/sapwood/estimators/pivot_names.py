"""Pivots in words: each by its template and an example node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank
from sapwood.features.nodes import NodeTable
from sapwood.features.space import FeatureSpace

# Outside templates that look at more than one rule: so many are shown.
RULES_SHOWN = {"two_rules_above": 2, "three_rules_above": 3, "grandparent": 2}


def pivot_names(
    bank: Treebank,
    space: FeatureSpace,
    ids: npt.NDArray[np.uint32],
    pivots: Mapping[int, npt.NDArray[np.int64]],
    side: str,
) -> dict[str, list[str]]:
    """The pivots of each label in words, such as `rule_above: S -> [NP] VP`.

    Parameters
    ----------
    space, ids
        The features of the side of the pivots, and those of each node.
    pivots
        By label, the features.
    """
    table, symbols = NodeTable(bank), bank.inventory.symbols
    templates = [f.__name__ for f in space.templates]
    node_of = np.full(space.n_features, -1, np.int64)
    template_of = np.zeros_like(node_of)
    for place in range(ids.shape[1]):
        node_of[ids[:, place]] = np.arange(len(ids))
        template_of[ids[:, place]] = place

    def name(feature: int) -> str:
        template, node = templates[template_of[feature]], int(node_of[feature])
        if side == "inside":
            return f"{template}: {_below(table, node)}"
        return f"{template}: {_above(table, node, RULES_SHOWN.get(template, 1))}"

    return {str(symbols[a]): [name(f) for f in found.tolist()] for a, found in pivots.items()}


def _below(table: NodeTable, node: int) -> str:
    """A node by its word or its rule."""
    inventory = table.inventory
    if table.word[node] >= 0:
        return str(inventory.words[table.word[node]])
    a, b, c = (str(inventory.symbols[x]) for x in inventory.rules[table.rule[node]])
    return f"{a} -> {b} {c}"


def _above(table: NodeTable, node: int, n_rules: int) -> str:
    """A node by the rules above it, its own place in brackets."""
    inventory, rules = table.inventory, list[str]()
    while len(rules) < n_rules and table.parent[node] >= 0:
        node, is_left = int(table.parent[node]), node == table.left[table.parent[node]]
        a, b, c = (str(inventory.symbols[x]) for x in inventory.rules[table.rule[node]])
        rules.append(f"{a} -> [{b}] {c}" if is_left else f"{a} -> {b} [{c}]")
    return ", ".join(rules) if len(rules) == n_rules else ", ".join([*rules, "root"])
