"""What all estimators share: parameters that are stored, shown, copied and checked in one place."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from sapwood.corpus.penn import as_trees
from sapwood.corpus.tree import Tree, as_tree
from sapwood.corpus.treebank import TreebankLike, as_treebank
from sapwood.errors import NotFittedError, SapwoodError

_RUNNING = ("n_jobs", "checkpoint", "on_iteration")  # parameters that change no model


class Estimator:
    """Stores its constructor's arguments and checks them against a table when fitting.

    Follows scikit-learn's contract (`get_params`, `set_params`, fitted values end in `_`) without
    importing it.
    """

    # name: (test, what is expected in words)
    CONSTRAINTS: ClassVar[dict[str, tuple[Any, str]]] = {}

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name (`deep` is there for scikit-learn)."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments by name."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                msg = f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                raise SapwoodError(msg)
            setattr(self, name, value)
        return self

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
        given = {k: v for k, v in self.get_params().items() if k not in _RUNNING}
        told = {k: v.decisions() if isinstance(v, Estimator) else repr(v) for k, v in given.items()}
        return {"class": type(self).__name__} | told

    def _check_parameters(self) -> None:
        for name, (is_valid, expected) in self.CONSTRAINTS.items():
            value = getattr(self, name)
            if not is_valid(value):
                msg = f"{type(self).__name__}: {name} must be {expected}, not {value!r}"
                raise SapwoodError(msg)

    def __getattr__(self, name: str) -> Any:
        """Explain the absence of a fitted value; Python calls this only where there is none."""
        if name.endswith("_") and not name.startswith("_"):
            msg = f"this {type(self).__name__} has not been fitted, so it has no {name}"
            raise NotFittedError(msg, hint="call fit(treebank) first")
        msg = f"{type(self).__name__} has no attribute {name!r}"
        raise AttributeError(msg)

    def __repr__(self) -> str:
        usual = inspect.signature(type(self).__init__).parameters
        given = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not usual[name].default and value != usual[name].default
        )
        return f"{type(self).__name__}({given})"


def dev_trees(source: TreebankLike | None) -> list[Tree] | None:
    """Trees apart from the training trees, given as such or as the path where they lie."""
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
        from sapwood.inference.parser import Parser

        words = (item.words() if isinstance(item, Tree) else item for item in sentences)
        parser = Parser(self.model_)
        return [parse.tree for parse in parser.parse_many(words, jobs=getattr(self, "n_jobs", 1))]

    def score(self, trees: TreebankLike, y: None = None) -> float:
        """Labelled F1 in percent of the parses of these trees' sentences against the trees.

        Parameters
        ----------
        trees
            What `fit` takes: a treebank, a list of trees, a path.
        y
            There for scikit-learn; trees are their own answers.
        """
        from sapwood.evaluate import bracketing

        gold = list(as_treebank(trees))
        return bracketing(gold, self.predict(gold)).f1

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of every estimator before it searches parameters."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags()
        )
