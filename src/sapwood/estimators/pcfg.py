"""`PCFG`: relative frequencies, the plain grammar of a treebank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from sapwood.corpus.transform import BINARISATIONS
from sapwood.corpus.treebank import Inventory, Treebank, TreebankLike, as_treebank
from sapwood.estimators.base import TreebankEstimator
from sapwood.estimators.lexicon import LexiconSettings, estimate_lexicon
from sapwood.estimators.parameters import FLAG, Domain, maybe, one_of, parameter, whole
from sapwood.execute import map_reduce, resolve_jobs
from sapwood.models.latent_grammar import CoarseWeights, LatentGrammar
from sapwood.moments.tree_counts import TreeCounts


class PCFG(TreebankEstimator):
    """The plain PCFG of a treebank: relative frequencies, with a lexicon for unknown words.

    Attributes
    ----------
    model_ : LatentGrammar
        The estimated grammar.
    bank_ : Treebank
        The treebank as it was made binary for it.

    Examples
    --------
    >>> import sapwood as sw
    >>> model = sw.PCFG().fit(sw.bundled_treebank("dev")).model_
    >>> model.is_plain
    True
    """

    binarise: str | None = parameter(
        None,
        maybe(one_of(BINARISATIONS)),
        "How trees are made binary, see `Transform`; None keeps what the treebank was read with.",
    )
    horizontal: int | None = parameter(
        None, maybe(whole(0)), "Sisters that a half-built phrase remembers; None keeps that too."
    )
    vertical: int | None = parameter(
        None, maybe(whole(1)), "Ancestors in a label, itself counted; None keeps that too."
    )
    tag_parents: bool | None = parameter(
        None, maybe(FLAG), "Whether tags carry their ancestors too; None keeps that as well."
    )
    lexicon: LexiconSettings | None = parameter(
        None,
        maybe(Domain("LexiconSettings", lambda value: isinstance(value, LexiconSettings))),
        "How words are generalised; None takes the defaults.",
    )

    def fit(self, bank: TreebankLike) -> Self:
        """Estimate the grammar of a treebank."""
        self._check_parameters()
        bank = as_treebank(bank)
        self.bank_ = bank = self._retransformed(bank)
        counts = map_reduce(TreeCounts.of, bank.shards(resolve_jobs(self.n_jobs)), jobs=self.n_jobs)
        record = {"method": "pcfg", "trees": bank.n_trees, "tokens": bank.n_tokens}
        self.model_ = grammar_of(counts, bank.inventory, self.lexicon or LexiconSettings(), record)
        return self

    def _retransformed(self, bank: Treebank) -> Treebank:
        names = ("binarise", "horizontal", "vertical", "tag_parents")
        wanted = {name: v for name in names if (v := getattr(self, name)) is not None}
        return bank.retransform(replace(bank.inventory.transform, **wanted))


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
