"""Treebanks with latent parameters, for tests of expected counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.em_states import copy_states
from sapwood.constituency.learn.em_steps import (
    LatentParameters,
    SortedTrees,
    TrainingTrees,
    normalise,
)
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.corpora.tree import Tree
from sapwood.execute import Threads

TREES = (
    "(S (A x) (B y))",
    "(S (S (A x) (A y)) (B x))",
    "(S (A x) (S (B y) (S (A y) (B z))))",
    "(Q (S (B z) (A x)) (S (A z) (B y)))",
    "(S (S (S (A x) (A y)) (B x)) (S (A z) (B y)))",
    "(Q (S (A x) (B y)) (A z))",
    "(S (A x) (B y))",
    "(I (U z))",  # a root that is a tag
)
Array = np.ndarray


@dataclass
class Case:
    """Trees with random probabilities on them."""

    bank: Treebank
    trees: TrainingTrees
    parameters: LatentParameters

    @property
    def shard(self) -> SortedTrees:
        return self.trees.shards.items[0]


def training_trees(bank: Treebank, jobs: int = 1) -> TrainingTrees:
    return TrainingTrees(PCFG().prepare(bank, Threads(jobs)))


def case(seed: int, *, zeros: float = 0.0) -> Case:
    """1 to 3 states a symbol; a share `zeros` of all numbers is 0, but never a whole vector."""
    rng = np.random.default_rng(seed)
    bank = Treebank.from_trees([Tree.parse(text) for text in TREES])
    trees = training_trees(bank)
    plain = trees.plain_parameters()
    states = [np.zeros(m, np.int64) for m in rng.integers(1, 4, len(plain.n_states))]
    copied = copy_states(plain, states, None)

    def shaken(numbers: Array) -> Array:
        kept = rng.random(len(numbers)) >= zeros
        return numbers * rng.uniform(0.1, 1.0, len(numbers)) * np.where(kept, 1.0, 0.0)

    words = shaken(copied.words)
    words[copied.word_start[:-1]] += 0.01
    rules = shaken(copied.rules)
    rules[copied.rule_start[:-1]] += 0.01
    root = shaken(copied.root)
    root[copied.state_start[:-1]] += 0.01
    parameters = normalise(replace(copied, root=root, rules=rules, words=words))
    return Case(bank, trees, parameters)


def random_tree(rng: np.random.Generator, n_words: int) -> Tree:
    if n_words == 1:
        return Tree(str(rng.choice(["A", "B"])), str(rng.choice(["x", "y"])))
    cut = int(rng.integers(1, n_words))
    kids = [random_tree(rng, cut), random_tree(rng, n_words - cut)]
    return Tree(str(rng.choice(["S", "Q"])), kids)


def forest(seed: int, n_trees: int, n_states: list[int]) -> Case:
    """Trees of 2 to 8 words; symbols take the numbers of states in turn."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, int(rng.integers(2, 9))) for _ in range(n_trees)]
    bank = Treebank.from_trees(trees)
    training = training_trees(bank)
    plain = training.plain_parameters()
    sizes = [n_states[a % len(n_states)] for a in range(len(plain.n_states))]
    copied = copy_states(plain, [np.zeros(m, np.int64) for m in sizes], None)

    def shaken(numbers: Array) -> Array:
        return numbers * rng.gamma(0.5, size=len(numbers)) + 1e-12

    parts = {name: shaken(getattr(copied, name)) for name in ("root", "rules", "words")}
    return Case(bank, training, normalise(replace(copied, **parts)))
