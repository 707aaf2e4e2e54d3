"""What all estimators share: parameters that are stored, shown, copied and checked in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sapwood.errors import NotFittedError
from sapwood.estimators.parameters import ANYTHING, Domain, Parametrised, maybe, parameter
from sapwood.execute import Engine, Threads

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import TreebankLike


class Estimator(Parametrised):
    """Learns with the parameters that its class declares, and checks them when fitting.

    Follows scikit-learn's contract (`get_params`, `set_params`, fitted values end in `_`) without
    importing it.

    Examples
    --------
    >>> from sapwood.estimators.parameters import at_least, parameter
    >>> class Mean(Estimator):
    ...     '''The mean of some numbers.'''
    ...
    ...     prior: float = parameter(0.0, at_least(0), "Numbers 1 that are added first.")
    ...
    ...     def fit(self, numbers):
    ...         self._check_parameters()
    ...         self.mean_ = (sum(numbers) + self.prior) / (len(numbers) + self.prior)
    ...         return self
    >>> Mean(prior=2).fit([4, 6]).mean_, Mean(prior=2)
    (3.0, Mean(prior=2))
    >>> Mean(prior=-1).fit([4, 6])
    Traceback (most recent call last):
    sapwood.errors.SapwoodError: Mean: prior must be 0 or more, not -1
    """

    n_jobs: int = parameter(
        1,
        ANYTHING,
        "Threads; 0 means all cores. The result does not depend on it.",
        changes_model=False,
    )
    engine: Engine | None = parameter(
        None,
        maybe(Domain("an Engine", lambda value: hasattr(value, "total"))),
        "Where training runs, see `sapwood.execute`; None for `n_jobs` threads of this process. "
        "The result does not depend on it.",
        changes_model=False,
    )

    def _engine(self) -> Engine:
        return self.engine if self.engine is not None else Threads(self.n_jobs)

    def decisions(self) -> dict[str, Any]:
        """What decides which model is learnt: the class and its parameters, for JSON.

        Examples
        --------
        >>> from sapwood.estimators.pcfg import PCFG
        >>> PCFG(vertical=2, n_jobs=8).decisions()["vertical"]
        '2'
        >>> PCFG(n_jobs=8).decisions() == PCFG().decisions()
        True
        """
        told: dict[str, Any] = {"class": type(self).__name__}
        for name, declared in self.parameters().items():
            if declared.changes_model:
                value = getattr(self, name)
                told[name] = value.decisions() if isinstance(value, Estimator) else repr(value)
        return told

    def __getattr__(self, name: str) -> Any:
        """Explain the absence of a fitted value; Python calls this only where there is none."""
        if name.endswith("_") and not name.startswith("_"):
            msg = f"this {type(self).__name__} has not been fitted, so it has no {name}"
            raise NotFittedError(msg, hint="call fit(treebank) first")
        msg = f"{type(self).__name__} has no attribute {name!r}"
        raise AttributeError(msg)


def dev_trees(source: TreebankLike | None) -> list[Tree] | None:
    """Trees apart from the training trees, given as such or as the path where they lie."""
    from sapwood.corpus.penn import as_trees
    from sapwood.corpus.tree import as_tree

    return None if source is None else [as_tree(tree) for tree in as_trees(source)]


class TreebankEstimator(Estimator):
    """An estimator of grammars: learns from trees, and parses with what it has learnt.

    `predict` and `score` make scikit-learn's model selection work: a treebank is `X`, there is no
    `y`, and `GridSearchCV(SpectralLPCFG(), {"n_states": [4, 8, 16]}).fit(bank)` cuts the folds.
    """

    def predict(self, sentences: Iterable[Sequence[str] | Tree]) -> list[Tree]:
        """Parse sentences: lists of words, or trees whose words are parsed.

        Returns
        -------
        list
            One tree for each sentence, in order.
        """
        from sapwood.corpus.tree import Tree
        from sapwood.inference.parser import Parser

        words = (item.words() if isinstance(item, Tree) else item for item in sentences)
        parser = Parser(self.model_)
        return [parse.tree for parse in parser.parse_many(words, jobs=self._engine())]

    def score(self, trees: TreebankLike, y: None = None) -> float:
        """Labelled F1 in percent of the parses of these trees' sentences against the trees.

        Parameters
        ----------
        trees
            What `fit` takes: a treebank, a list of trees, a path.
        y
            There for scikit-learn; trees are their own answers.
        """
        from sapwood.corpus.treebank import as_treebank
        from sapwood.evaluate import bracketing

        gold = list(as_treebank(trees))
        return bracketing(gold, self.predict(gold)).f1

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of every estimator before it searches parameters."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags()
        )
