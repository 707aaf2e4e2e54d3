"""`TrainingData`: a treebank prepared once for everybody who learns from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from hashlib import sha256
from typing import Any, Protocol, TypeVar

import numpy as np

from sapwood.corpus.transform import Transform
from sapwood.corpus.treebank import Inventory, Treebank
from sapwood.estimators.lexicon import LexiconSettings, estimate_lexicon
from sapwood.execute import Engine
from sapwood.models.latent_grammar import CoarseWeights, LatentGrammar
from sapwood.moments.tree_counts import TreeCounts
from sapwood.moments.word_classes import WordClasses

T = TypeVar("T")


class ShardSource(Protocol):
    """What trees are learnt from: a `Treebank`, or one that lies on disk shard by shard."""

    @property
    def inventory(self) -> Inventory:
        """What the numbers of all shards stand for."""

    @property
    def n_trees(self) -> int:
        """How many trees."""

    @property
    def n_tokens(self) -> int:
        """How many words, counted with repetition."""

    def shards(self) -> Iterable[Any]:
        """Runs of trees, cut by their size alone."""

    def retransform(self, transform: Transform) -> ShardSource:
        """The same trees made binary in another way."""


class TrainingData:
    """Trees where an engine has put them, and the plain grammar that is behind every other.

    Parameters
    ----------
    bank
        The trees, made binary as they are to be learnt.
    lexicon
        How words are generalised.
    engine
        Where everything that is summed over the trees runs.

    Attributes
    ----------
    shards
        The trees, placed.
    counts : TreeCounts
        Of rules, symbols, roots and words.
    grammar : LatentGrammar
        Their relative frequencies.
    classes : WordClasses
        Which rows of its lexicon the words are instances of.
    """

    def __init__(self, bank: ShardSource, lexicon: LexiconSettings, engine: Engine) -> None:
        self.inventory = bank.inventory
        self.n_trees, self.n_tokens = bank.n_trees, bank.n_tokens
        self.engine = engine
        self.shards = engine.place(bank.shards())
        self.counts = engine.total(TreeCounts.of, self.shards)
        self.grammar = grammar_of(self.counts, self.inventory, lexicon, self.record("pcfg"))
        words = self.counts.words(self.inventory)
        self.classes = WordClasses.of(words, self.inventory, self.grammar.lexicon)
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, kept for whoever asks for the same key again."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def digest(self) -> str:
        """A fingerprint of trees and numbering: the same trees, in the same order, or another."""
        parts = self.engine.gather(self.engine.map(Treebank.digest, self.shards))
        return sha256("".join(parts).encode()).hexdigest()

    def record(self, method: str, **more: Any) -> dict[str, Any]:
        """What a model's training record says of these trees, with more."""
        return {"method": method, **more, "trees": self.n_trees, "tokens": self.n_tokens}


def grammar_of(
    counts: TreeCounts, inventory: Inventory, settings: LexiconSettings, record: dict[str, Any]
) -> LatentGrammar:
    """Relative frequencies.

    w(a -> b c) = n(a -> b c) / n(a),    root(a) = n(root = a) / n(trees)
    """
    seen = counts.rules > 0  # a part of a treebank shares the inventory of the whole
    rules = inventory.rules[seen]
    weights = counts.rules[seen] / counts.symbols[rules[:, 0]]
    root = counts.roots / counts.roots.sum()
    lexicon = estimate_lexicon(counts, inventory, settings)
    return LatentGrammar(
        phrases=inventory.phrases,
        tags=inventory.tags,
        n_states=np.ones(len(inventory.symbols), dtype=np.int64),
        root=root,
        rules=rules,
        rule_weights=weights,
        lexicon=lexicon,
        coarse=CoarseWeights(root, weights, lexicon.weights),
        transform=inventory.transform,
        record=record,
    )
