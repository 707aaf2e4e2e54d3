"""How good predicted trees are: EVALB's figures, errors by kind, reliability of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.evaluate.errors import ErrorReport
    from sapwood.evaluate.predicted import Predicted
    from sapwood.evaluate.reliability import Reliability
    from sapwood.evaluate.scores import BracketingReport


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate_trees` found.

    Attributes
    ----------
    brackets
        EVALB's figures.
    errors, reliability
        None where they were not asked for; reliability also where no phrase has a probability.
    n_other, n_unknown
        Sentences that reliability leaves out since their words differ or are missing, and phrases
        of no known probability.
    """

    brackets: BracketingReport
    errors: ErrorReport | None = None
    reliability: Reliability | None = None
    n_other: int = 0
    n_unknown: int = 0

    def as_dict(self, *, per_sentence: bool = False, examples: int = 2) -> dict[str, Any]:
        """The totals `all`, `len40`, `strict`; if asked for `sentences`, `errors`, `reliability`.

        Parameters
        ----------
        per_sentence
            Whether to list the figures of every sentence.
        examples
            Of each kind of error.
        """
        out: dict[str, Any] = dict(self.brackets.as_dict())
        if per_sentence:
            figures = ("recall", "precision", "tag_accuracy")
            out["sentences"] = [
                asdict(row) | {name: getattr(row, name) for name in figures}
                for row in self.brackets.sentences
            ]
        if self.errors is not None:
            out["errors"] = self.errors.as_dict(examples)
        if self.reliability is not None:
            out["reliability"] = self.reliability.as_dict()
        return out


def evaluate_trees(
    gold: Sequence[Tree],
    predicted: Sequence[Predicted],
    *,
    raw: bool = False,
    errors: bool = False,
    reliability: bool = False,
) -> Evaluation:
    """Compare predicted trees with gold ones.

    Parameters
    ----------
    predicted
        In the order of the gold trees; see `sapwood.evaluate.predicted.read_predicted`.
    raw
        Whether to take the trees as they are, instead of cleaning both sides first.
    errors, reliability
        Whether to explain errors, and to say how far probabilities can be believed.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.evaluate.predicted import Predicted
    >>> trees = [sw.Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")]
    >>> evaluate_trees(trees, [Predicted(tree) for tree in trees]).as_dict()["all"]["f1"]
    100.0
    """
    from sapwood.evaluate.bracketing import bracketing
    from sapwood.evaluate.errors import diagnose

    trees = [item.tree for item in predicted]
    found = bracketing(gold, trees, raw=raw)
    explained = diagnose(gold, trees, raw=raw) if errors else None
    if not reliability:
        return Evaluation(found, explained)
    return Evaluation(found, explained, *_reliability(gold, predicted, raw=raw))


def _reliability(
    gold: Sequence[Tree], predicted: Sequence[Predicted], *, raw: bool
) -> tuple[Reliability | None, int, int]:
    """Grade the phrases of all sentences that have the words of their gold trees."""
    from sapwood.corpus.tree import clean
    from sapwood.evaluate.reliability import calibration, graded

    grades: list[tuple[float, bool]] = []
    n_other = n_unknown = 0
    for right, item in zip(gold, predicted, strict=True):
        tree = right if raw else clean(right)
        if tree is None or item.tree is None or tree.words() != item.tree.words():
            n_other += 1
            continue
        known = [(a, i, j, p) for a, i, j, p in item.phrases or () if p is not None]
        n_unknown += len(item.phrases or ()) - len(known)
        grades += graded(right, known, raw=raw)
    found = calibration(*zip(*grades, strict=True)) if grades else None
    return found, n_other, n_unknown
