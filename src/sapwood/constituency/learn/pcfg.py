"""`PCFG`: relative frequencies, the plain grammar of a treebank; and the base of other learners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sapwood.constituency.data.transform import BINARISATIONS
from sapwood.constituency.data.treebank import (
    SHARD_NODES,
    StoredTreebank,
    Treebank,
    TreebankLike,
    as_treebank,
)
from sapwood.constituency.learn.training_data import LexiconSettings, TrainingData
from sapwood.core.errors import require_memory
from sapwood.core.learner import FLAG, Domain, Estimator, maybe, one_of, parameter, whole
from sapwood.core.progress import counted
from sapwood.execute import Engine

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree

# Estimates of memory are sums over the large arrays. Their constants, here and in the other
# learners, are measured: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
COUNTING_BYTES, COUNTING_NODE_BYTES = 30e6, 350  # SciPy, and a node of the trees in memory
KERNEL_BYTES = 150e6  # Numba, SciPy and compiled kernels


def dev_trees(source: TreebankLike | None) -> list[Tree] | None:
    """Read held-out trees from any source of trees; None stays None."""
    from sapwood.corpora.formats import as_trees
    from sapwood.corpora.tree import as_tree

    return None if source is None else [as_tree(tree) for tree in as_trees(source)]


class TreebankEstimator(Estimator):
    """An estimator of grammars: learns from trees, and parses with the learnt grammar.

    `predict` and `score` support scikit-learn's model selection: a treebank is `X`, there is no
    `y`, and `GridSearchCV(SpectralLPCFG(), {"n_states": [4, 8, 16]}).fit(bank)` cuts the folds.
    """

    def predict(self, sentences: Iterable[Sequence[str] | Tree]) -> list[Tree]:
        """Parse sentences: lists of words, or trees whose words are parsed."""
        from sapwood.constituency.parse.parser import Parser
        from sapwood.corpora.tree import Tree

        words = (item.words() if isinstance(item, Tree) else item for item in sentences)
        found = Parser(self.model_).parse_many(words, jobs=self._engine())
        total = len(sentences) if isinstance(sentences, Sized) else None
        return [parse.tree for parse in counted(found, "parsing", total=total, unit="sentence")]

    def score(self, trees: TreebankLike, y: None = None) -> float:
        """Return the labelled F1, in percent, of parsing the sentences of gold trees.

        Parameters
        ----------
        y
            Ignored; scikit-learn passes it.
        """
        from sapwood.constituency.evaluate.bracketing import bracketing

        gold = list(as_treebank(trees))
        return bracketing(gold, self.predict(gold)).f1

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the peak memory of training in bytes, without the packed trees."""
        return 0.0

    def require_memory(self, data: TrainingData) -> None:
        """Raise an error if the estimated memory of training is not free."""
        hint, amounts = "give fewer trees, or use one thread (--jobs 1)", [(data.n_trees, "tree")]
        if (n_states := getattr(self, "n_states", None)) is not None:
            hint, amounts = f"use fewer --states, {hint}", [*amounts, (n_states, "state")]
        require_memory(self.memory_needed(data), "training on", hint, *amounts)

    def __sklearn_tags__(self) -> Any:
        """Return the tags that scikit-learn's model selection reads."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags()
        )


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
        "Binarisation, see `Transform`; None keeps that of the treebank.",
    )
    horizontal: int | None = parameter(
        None, maybe(whole(0)), "Horizontal Markov order; None keeps that of the treebank."
    )
    vertical: int | None = parameter(
        None,
        maybe(whole(1)),
        "Number of ancestors in a label, itself included; None keeps that of the treebank.",
    )
    tag_parents: bool | None = parameter(
        None,
        maybe(FLAG),
        "Whether tags carry their ancestors too; None keeps the setting of the treebank.",
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
        """Binarise and count a treebank for any learner; prepared data are returned as they are."""
        if isinstance(bank, TrainingData):
            return bank
        if not isinstance(bank, (Treebank, StoredTreebank)):
            bank = as_treebank(bank)
        names = ("binarise", "horizontal", "vertical", "tag_parents")
        wanted = {name: v for name in names if (v := getattr(self, name)) is not None}
        if wanted:
            bank = bank.retransform(replace(bank.inventory.transform, **wanted))
        n_nodes = int(bank.offsets[-1] - bank.offsets[0])
        if isinstance(bank, StoredTreebank):
            n_nodes = min(n_nodes, engine.jobs_here * SHARD_NODES)
        n_bytes = COUNTING_BYTES + COUNTING_NODE_BYTES * n_nodes
        amount = (len(bank.offsets) - 1, "tree")
        require_memory(n_bytes, "counting the rules of", "give fewer trees", amount)
        return TrainingData(bank, self.lexicon or LexiconSettings(), engine)


PLAIN = PCFG()  # default of learners with a plain grammar


class OnPlainGrammar(TreebankEstimator):
    """Base of learners that start from the plain grammar of a treebank."""

    plain: PCFG | None = parameter(
        None,
        maybe(Domain("a PCFG estimator", lambda value: isinstance(value, PCFG))),
        "The estimator of the underlying plain grammar and lexicon.",
    )
    seed: int = parameter(0, maybe(whole(0)), "Seed of the random numbers.")

    def _prepare(self, bank: Trainable) -> TrainingData:
        """Count the treebank unless it is counted, and check the memory."""
        data = (self.plain or PLAIN).prepare(bank, self._engine())
        self.require_memory(data)
        return data
