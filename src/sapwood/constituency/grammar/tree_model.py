"""`TreeModel`: what all models of trees can be asked, whatever answers.

This module is a door from models up to inference: models are arrays and files, and how probable
something is under them takes charts. The other door is in `span_network`, whose reader needs the
inputs of its network. Nothing else in this room may look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from sapwood.core.arrays import SignedLog

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.core.arrays import FloatArray
    from sapwood.corpora.tree import Tree


class TreeModel:
    """A model that gives trees and sentences a weight."""

    def log_prob(self, item: Tree | Sequence[str]) -> float:
        """Log-probability of a tree (with its words), or of a sentence (summed over its trees).

        Sums over hidden states and over all derivations: whatever binary tree of this grammar
        restores to the tree counts. The weights of a spectral model are no probabilities; this is
        the log of their absolute value, and `signed_log_prob` tells the sign too. A sentence of a
        latent grammar is summed over the whole chart; `Parser.parse` is faster and prunes. Of an
        ensemble, the log of the weighted mean of its members' weights.

        Parameters
        ----------
        item
            A `Tree`, cleaned or not, or a list of words.
        """
        return self.signed_log_prob(item).log

    def signed_log_prob(self, item: Tree | Sequence[str]) -> SignedLog:
        """As `log_prob`, with the sign of the weight: -1 happens with spectral models only.

        Examples
        --------
        >>> import sapwood as sw
        >>> model = sw.PCFG().fit(sw.bundled_treebank("dev")).model_
        >>> weight = model.signed_log_prob("the dog sleeps .".split())
        >>> weight.sign, weight.log == model.log_prob("the dog sleeps .".split())
        (1, True)
        """
        from sapwood.constituency.parse.scores import signed_log_prob

        return signed_log_prob(cast("Model", self), item)

    def log_probs(self, trees: Treebank | Sequence[Tree]) -> FloatArray:
        """Log-probabilities of many trees at once, shape [n_trees]; see `log_prob`."""
        return self.signed_log_probs(trees)[0]

    def signed_log_probs(self, trees: Treebank | Sequence[Tree]) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the weights: 1, -1, or 0 for a log of -inf."""
        from sapwood.constituency.parse.scores import signed_log_probs

        return signed_log_probs(cast("Model", self), trees)
