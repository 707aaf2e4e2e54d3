"""`PCFG`: relative frequencies, the plain grammar of a treebank."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from sapwood.corpus.stored import StoredTreebank
from sapwood.corpus.transform import BINARISATIONS
from sapwood.corpus.treebank import TreebankLike, as_treebank
from sapwood.estimators.base import TreebankEstimator
from sapwood.estimators.lexicon import LexiconSettings
from sapwood.estimators.parameters import FLAG, Domain, maybe, one_of, parameter, whole
from sapwood.estimators.training_data import ShardSource, TrainingData
from sapwood.execute import Engine

Trainable = TreebankLike | StoredTreebank | TrainingData  # what `fit` takes


class PCFG(TreebankEstimator):
    """The plain PCFG of a treebank: relative frequencies, with a lexicon for unknown words.

    Attributes
    ----------
    model_ : LatentGrammar
        The estimated grammar.

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

    def fit(self, bank: Trainable) -> Self:
        """Estimate the grammar of a treebank."""
        self.model_ = self.prepare(bank, self._engine()).grammar
        return self

    def prepare(self, bank: Trainable, engine: Engine) -> TrainingData:
        """A treebank made binary and counted as this estimator says, for any learner.

        Data that were prepared before are given back as they are.
        """
        if isinstance(bank, TrainingData):
            return bank
        self._check_parameters()
        source: ShardSource = bank if isinstance(bank, StoredTreebank) else as_treebank(bank)
        names = ("binarise", "horizontal", "vertical", "tag_parents")
        wanted = {name: v for name in names if (v := getattr(self, name)) is not None}
        source = source.retransform(replace(source.inventory.transform, **wanted))
        return TrainingData(source, self.lexicon or LexiconSettings(), engine)
