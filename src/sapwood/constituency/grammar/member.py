"""`Member`: the contract of a model that an ensemble mixes.

A latent grammar, a feature grammar and a span network are members. Ensembles, parsers, reports,
the page and the commands ask a model what it `can`; none of them asks which kind it is. A new
kind of member is one class that answers the questions below. A single member answers the questions
of an ensemble too, as an ensemble of one.

Models are arrays and files, and a probability under a model takes charts: `TreeModel`, which all
models of trees share, imports `constituency.parse` when it is asked for one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, SignedLog
from sapwood.core.errors import SapwoodError
from sapwood.core.model_files import SavedModel

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.constraints import Constraints
    from sapwood.constituency.grammar.discriminative import SpanFeatures
    from sapwood.constituency.grammar.ensemble import Ensemble, Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
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
        from sapwood.constituency.parse.prepared import signed_log_prob

        return signed_log_prob(cast("Model", self), item)

    def log_probs(self, trees: Treebank | Sequence[Tree]) -> FloatArray:
        """Log-probabilities of many trees at once, shape [n_trees]; see `log_prob`."""
        return self.signed_log_probs(trees)[0]

    def signed_log_probs(self, trees: Treebank | Sequence[Tree]) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the weights: 1, -1, or 0 for a log of -inf."""
        from sapwood.constituency.parse.prepared import signed_log_probs
        from sapwood.corpora.formats import as_trees

        return signed_log_probs(cast("Model", self), as_trees(trees))


Arrays = dict[str, npt.NDArray[Any]]


class Can(NamedTuple):
    """Abilities of a model of trees, beyond parsing and listing the k best trees."""

    sample: bool  # draw trees at random
    probabilities: bool  # its weights of trees and sentences are probabilities
    rules: bool  # score the rules of a chart, as the decoders goodman and max-rule need
    derivations: bool  # follow one derivation, as the decoder viterbi needs


class BracketReader(Protocol):
    """A member that finds posteriors of brackets without a chart."""

    def read(
        self, words: list[str], constraints: Constraints | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Codes of brackets and tags, see `constituency.parse.posteriors`, and their posteriors."""

    def read_many(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> list[tuple[IntArray, FloatArray]]:
        """What `read` returns for each sentence, given its constraints; quicker together."""

    def log_ratio(self, words: list[str], constraints: Constraints) -> float:
        """Log-probability that the tree of a sentence satisfies constraints."""

    def megabytes(self, n: int) -> float:
        """Memory that a sentence of n words needs, in millions of bytes."""


class Member(TreeModel, SavedModel):
    """A model that gives the labelled spans of a sentence posteriors.

    A member either has rules and is run over the pruned chart of its `chart_grammar`, which members
    with the same one share, or it has a `reader`.

    Attributes
    ----------
    record
        How the model was made.
    has_rules
        Whether it scores the rules of a chart, as most do.
    features
        The features that score a chart; None for a member whose grammar scores it itself.
    """

    record: Mapping[str, Any]
    has_rules: ClassVar[bool] = True
    features: ClassVar[SpanFeatures | None] = None
    is_ensemble: ClassVar[bool] = False

    @property
    @abstractmethod
    def can(self) -> Can:
        """The abilities of the model."""

    @property
    @abstractmethod
    def chart_grammar(self) -> LatentGrammar:
        """The grammar whose charts, symbols and sentence probabilities the member uses."""

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """Number of weights in a file of the member, which is the cost of writing it."""

    def reader(self, label_numbers: Mapping[str, int]) -> BracketReader:
        """A reader of sentences without a chart, of a member without rules.

        The numbers of labels are those in the codes of brackets.
        """
        raise NotImplementedError

    def pack(self, arrays: Arrays) -> Arrays:
        """The arrays of the member's own file as a file of an ensemble stores them."""
        return arrays

    def rounded(self) -> Self:
        """The member with its weights rounded as a file of an ensemble stores them."""
        return self

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees; an error for a member that cannot."""
        raise SapwoodError(
            f"trees are drawn by their probabilities, and {self.method} has none",
            hint="use a model of --method pcfg, em, pivot or cluster",
        )

    @property
    def members(self) -> tuple[Self]:
        """The member itself, as the only one."""
        return (self,)

    @property
    def weights(self) -> FloatArray:
        """The weight of the only member."""
        return np.ones(1)

    @property
    def grammars(self) -> tuple[LatentGrammar, ...]:
        """The chart grammar of the only member."""
        return (self.chart_grammar,)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The only member, in a group of its own; see `Ensemble.groups`."""
        return ((0,),)

    def as_ensemble(self) -> Ensemble:
        """An ensemble of this member alone."""
        from sapwood.constituency.grammar.ensemble import Ensemble

        return Ensemble.of([self])

    def heaviest_groups(self) -> Self:
        """The member itself; see `Ensemble.heaviest_groups`."""
        return self

    @property
    def method(self) -> str:
        """The name of the method that the member was learnt by."""
        return str(self.record.get("method", "an unnamed model"))
