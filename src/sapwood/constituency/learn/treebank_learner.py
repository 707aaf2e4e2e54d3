"""Bases of the learners of treebanks: data, dev trees, the plain grammar behind them, EM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sapwood.core.errors import count
from sapwood.core.learner import ANYTHING, Domain, Estimator, between, maybe, parameter, whole
from sapwood.core.memory import require_memory
from sapwood.progress import counted

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import TreebankLike
    from sapwood.constituency.learn.em_steps import EMSettings
    from sapwood.constituency.learn.pcfg import PCFG, Trainable, TrainingData
    from sapwood.corpora.tree import Tree


def dev_trees(source: TreebankLike | None) -> list[Tree] | None:
    """Trees apart from the training trees, given as such or as the path where they lie."""
    from sapwood.corpora.formats import as_trees
    from sapwood.corpora.tree import as_tree

    return None if source is None else [as_tree(tree) for tree in as_trees(source)]


class TreebankEstimator(Estimator):
    """An estimator of grammars: learns from trees, and parses with what it has learnt.

    `predict` and `score` make scikit-learn's model selection work: a treebank is `X`, there is no
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
        """Labelled F1 in percent of the parses of these trees' sentences against the trees.

        Parameters
        ----------
        y
            There for scikit-learn; trees are their own answers.
        """
        from sapwood.constituency.data.treebank import as_treebank
        from sapwood.constituency.evaluate.bracketing import bracketing

        gold = list(as_treebank(trees))
        return bracketing(gold, self.predict(gold)).f1

    def memory_needed(self, data: TrainingData) -> float:
        """Bytes that learning takes at most, about, besides the packed trees; 0 for very few."""
        return 0.0

    def require_memory(self, data: TrainingData) -> None:
        """Refuse to learn what does not fit into memory."""
        states = getattr(self, "n_states", None)
        work = f"training on {count(data.n_trees, 'tree')}"
        hint = "give fewer trees, or use one thread (--jobs 1)"
        if states is not None:
            work, hint = f"{work} with {count(states, 'state')}", f"use fewer --states, {hint}"
        require_memory(self.memory_needed(data), work, hint)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of every estimator before it searches parameters."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags()
        )


def _is_pcfg(value: object) -> bool:
    from sapwood.constituency.learn.pcfg import PCFG

    return isinstance(value, PCFG)


class OnPlainGrammar(TreebankEstimator):
    """Learns on top of the plain grammar of a treebank."""

    plain: PCFG | None = parameter(
        None,
        maybe(Domain("a PCFG estimator", _is_pcfg)),
        "The estimator of the plain grammar and lexicon behind it.",
    )
    seed: int = parameter(0, maybe(whole(0)), "Of the random numbers that are drawn, if any.")

    def _prepare(self, bank: Trainable) -> TrainingData:
        """Check the parameters; the treebank counted, or what was counted before."""
        from sapwood.constituency.learn.pcfg import PCFG

        self._check_parameters()
        data = (self.plain or PCFG()).prepare(bank, self._engine())
        self.require_memory(data)
        return data


class WithEM(Estimator):
    """Runs EM iterations."""

    uses_held: ClassVar[bool] = True
    iterations: int = parameter(0, whole(0), "EM iterations from where it begins; 0 for none.")
    rule_smoothing: float = parameter(
        0.03,
        between(0, 1, "[)"),
        "How far the rule weights of a label's states are pulled towards their mean after each "
        "M-step; 0, for words too, gives plain EM, whose likelihood never falls.",
    )
    word_smoothing: float = parameter(
        0.1, between(0, 1, "[)"), "The same for the probabilities of words."
    )
    patience: int | None = parameter(
        None,
        maybe(whole(1)),
        "With dev trees, end when no EM iteration of the last level has parsed them better for so "
        "many iterations; the best one is kept.",
    )
    checkpoint: str | Path | None = parameter(
        None,
        ANYTHING,
        "A file that is written after every EM iteration and, when it is there, continued from.",
        changes_model=False,
    )
    on_iteration: Callable[[int, int, float], None] | None = parameter(
        None,
        ANYTHING,
        "Called with (iteration, states, log-likelihood) after every E-step.",
        changes_model=False,
    )
    on_grade: Callable[[int, float], None] | None = parameter(
        None,
        ANYTHING,
        "Called with (iteration, dev F1) whenever dev trees were parsed.",
        changes_model=False,
    )

    def em_settings(self, seed: int, *, merge: float = 0.0, tolerance: float = 0.0) -> EMSettings:
        """What EM itself asks for."""
        from sapwood.constituency.learn.em_steps import EMSettings

        return EMSettings(
            self.decisions(), self.rule_smoothing, self.word_smoothing, merge, tolerance,
            self.patience, seed, self.checkpoint, self.on_iteration, self.on_grade,
        )  # fmt: skip
