"""Pivots in words: each by its template and an example node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sapwood.estimators.projection import Features
from sapwood.estimators.training_data import TrainingData
from sapwood.features.nodes import NodeTable
from sapwood.moments.projected import FeatureRows

IntArray = npt.NDArray[np.int64]

# Outside templates that look at more than one rule: so many are shown.
RULES_SHOWN = {"two_rules_above": 2, "three_rules_above": 3, "grandparent": 2}


def pivot_names(
    data: TrainingData, features: Features, pivots: Mapping[int, IntArray], side: str
) -> dict[str, list[str]]:
    """The pivots of each label in words, such as `rule_above: S -> [NP] VP`.

    Parameters
    ----------
    pivots
        By label, the features.
    side
        Theirs, `inside` or `outside`.
    """
    space = features.inside if side == "inside" else features.outside
    templates = [template.__name__ for template in space.templates]
    wanted = np.unique(np.concatenate([np.empty(0, np.int64), *pivots.values()]))
    # nodes and their features lie in shards of their own, but in the same order
    found: dict[int, str] = {}
    engine = data.engine
    examples = engine.gather(engine.map(example_nodes, features.rows, wanted, side))
    for shard, example in zip(engine.gather(data.shards), examples, strict=True):
        table = NodeTable(shard)
        for feature, (place, node) in example.items():
            found[feature] = _name(table, templates[place], node, side)
    symbols = data.inventory.symbols
    return {str(symbols[a]): [found[f] for f in of.tolist()] for a, of in pivots.items()}


def example_nodes(rows: FeatureRows, wanted: IntArray, side: str) -> dict[int, tuple[int, int]]:
    """For each wanted feature that occurs in a shard, its template and the last node with it."""
    ids = rows.inside if side == "inside" else rows.outside
    found: dict[int, tuple[int, int]] = {}
    for place in range(ids.shape[1]):
        nodes = np.flatnonzero(np.isin(ids[:, place], wanted))
        found |= {
            f: (place, n) for f, n in zip(ids[nodes, place].tolist(), nodes.tolist(), strict=True)
        }
    return found


def _name(table: NodeTable, template: str, node: int, side: str) -> str:
    if side == "inside":
        return f"{template}: {_below(table, node)}"
    return f"{template}: {_above(table, node, RULES_SHOWN.get(template, 1))}"


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
