"""`Member`: the contract of a model that an ensemble mixes.

A latent grammar, a feature grammar and a span network are members. Ensembles, parsers, reports,
the page and the commands ask a model what it `can`; none of them asks which kind it is. A new
kind of member is one class that answers the questions below.

A single member answers the questions of an ensemble too, as an ensemble of one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.tree_model import TreeModel
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.model_files import SavedModel

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Ensemble
    from sapwood.constituency.grammar.feature_grammar import SpanFeatures
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.corpora.tree import Tree

Arrays = dict[str, npt.NDArray[Any]]


class Can(NamedTuple):
    """What a model of trees can do, beyond parsing and listing the k best trees."""

    sample: bool  # draw trees at random
    probabilities: bool  # its weights of trees and sentences are probabilities
    rules: bool  # score the rules of a chart, as the decoders goodman and max-rule need
    derivations: bool  # follow one derivation, as the decoder viterbi needs


class BracketReader(Protocol):
    """A member that finds posteriors of brackets without a chart."""

    def read(self, words: list[str]) -> tuple[IntArray, FloatArray]:
        """Codes of brackets and tags, see `constituency.parse.brackets`, and their posteriors."""

    def megabytes(self, n: int) -> float:
        """Memory that a sentence of n words needs, in millions of bytes."""


class Member(TreeModel, SavedModel):
    """A model that gives the labelled spans of a sentence posteriors.

    A member either has rules (`can.rules`) and is run over the pruned chart of its
    `chart_grammar`, which members with the same one share, or it has a `reader`.

    Attributes
    ----------
    record
        How the model was made.
    """

    record: Mapping[str, Any]
    is_ensemble: ClassVar[bool] = False

    @property
    @abstractmethod
    def can(self) -> Can:
        """What the model can do."""

    @property
    @abstractmethod
    def chart_grammar(self) -> LatentGrammar:
        """The grammar whose charts, symbols and sentence probabilities the member uses."""

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """How many weights a file of the member holds: what writing it costs."""

    def features(self) -> SpanFeatures | None:
        """The features that score a chart; None for a member whose grammar scores it itself."""
        return None

    def reader(self, label_numbers: Mapping[str, int]) -> BracketReader | None:
        """What reads sentences without a chart; None for a member that needs one.

        Parameters
        ----------
        label_numbers
            The number of each label in the codes of brackets.
        """
        return None

    def pack(self, arrays: Arrays) -> Arrays:
        """The arrays of the member's own file as a file of an ensemble stores them."""
        return arrays

    def rounded(self) -> Self:
        """The member with its weights rounded as a file of an ensemble stores them."""
        return self

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees; an error for a member that cannot."""
        msg = f"trees are drawn by their probabilities, and {self.method} has none"
        raise SapwoodError(msg, hint="use a model of --method pcfg, em, pivot or cluster")

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
