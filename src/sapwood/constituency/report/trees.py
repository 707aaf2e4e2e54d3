"""Reports on trees: sizes of treebanks, parses, probabilities, and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from sapwood.core.progress import counted

if TYPE_CHECKING:
    from sapwood.constituency.data.statistics import TreeCounts
    from sapwood.constituency.evaluate.bracketing import BracketingReport
    from sapwood.constituency.evaluate.errors import ErrorReport
    from sapwood.constituency.evaluate.reliability import Predicted, Reliability
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.core.arrays import SignedLog
    from sapwood.corpora.tree import Tree
    from sapwood.execute import Engine


def treebank_report(counts: TreeCounts, known: TreeCounts | None = None) -> dict[str, Any]:
    """Sizes, lengths, labels, tags, rules and empty elements of trees.

    Parameters
    ----------
    known
        The same of trees that a model is trained on: `against` then has the differences and
        the overlap.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.constituency.data.statistics import TreeCounts
    >>> trees = [sw.Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")]
    >>> report = treebank_report(TreeCounts.of(trees))
    >>> report["trees"], report["words"], report["tags"]
    (1, 2, {'NNS': 1, 'VBP': 1})
    """
    from sapwood.constituency.data.statistics import coverage, describe_treebank

    report = describe_treebank(counts)
    return report if known is None else report | {"against": coverage(counts, known)}


def split_report(parts: Mapping[str, Sequence[Tree]]) -> list[dict[str, Any]]:
    """Sizes of the parts of a treebank, and how many of their trees the part `train` has too."""
    train = set(parts.get("train", ()))
    return [
        {
            "part": name,
            "trees": len(trees),
            "words": sum(len(tree.words()) for tree in trees),
            "also_in_train": sum(tree in train for tree in trees) if name != "train" else 0,
        }
        for name, trees in parts.items()
    ]


TREES_AT_ONCE = 1000  # trees scored at once: enough to keep the arrays full, few enough to hold


def score_trees(model: Model, trees: Iterable[Tree]) -> Iterator[tuple[SignedLog, int]]:
    """Log-probability and number of words of each tree, as they come."""
    from sapwood.core.arrays import SignedLog

    rest = iter(trees)
    while chunk := list(islice(rest, TREES_AT_ONCE)):
        columns = (column.tolist() for column in model.signed_log_probs(chunk))
        for log, sign, tree in zip(*columns, chunk, strict=True):
            yield SignedLog(log, int(sign)), len(tree.words())


def score_sentences(
    model: Model, sentences: Iterable[list[str]], jobs: Engine | int = 1
) -> Iterator[tuple[SignedLog, int]]:
    """Log-probability and length of each sentence, as they come; an empty one has neither."""
    from sapwood.execute import as_engine

    return as_engine(jobs).stream(_score_sentence, sentences, model)


def _score_sentence(words: list[str], model: Model) -> tuple[SignedLog, int]:
    from sapwood.core.arrays import SignedLog

    return (model.signed_log_prob(words) if words else SignedLog(math.nan, 0)), len(words)


@dataclass
class ScoreReport:
    """Scores of trees or sentences, and sums over those that the model can build.

    Examples
    --------
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> report = ScoreReport("sentences", is_probabilistic=True)
    >>> for weight, n_words in score_sentences(bundled_grammar(), [["they", "sleep", "."], []]):
    ...     report.add(weight, n_words)
    >>> report.as_dict()["scored"], report.as_dict()["empty"]
    (1, 1)
    """

    kind: str  # `trees` or `sentences`
    # whether the model holds probabilities; a spectral one holds weights with signs
    is_probabilistic: bool
    log_probs: list[float] = field(default_factory=list)
    signs: list[int | None] = field(default_factory=list)
    total: float = 0.0
    n_scored: int = 0
    n_words: int = 0
    n_empty: int = 0

    def add(self, weight: SignedLog, n_words: int) -> None:
        """Add one item; one without words is only counted."""
        self.log_probs.append(weight.log)
        self.signs.append(weight.sign if n_words else None)
        if not n_words:
            self.n_empty += 1
        elif math.isfinite(weight.log):
            self.total += weight.log
            self.n_scored += 1
            self.n_words += n_words

    @property
    def perplexity(self) -> float | None:
        """Perplexity of a word, exp(-log P / number of words); None without probabilities."""
        if not self.n_words or not self.is_probabilistic:
            return None
        return math.exp(-self.total / self.n_words)

    def as_dict(self) -> dict[str, Any]:
        """Counts and sums, then `log_probs` and `signs` of all items, in order."""
        return {
            "kind": self.kind,
            "is_probabilistic": self.is_probabilistic,
            "scored": self.n_scored,
            "impossible": len(self.log_probs) - self.n_empty - self.n_scored,
            "negative": self.signs.count(-1),
            "empty": self.n_empty,
            "words": self.n_words,
            "log_prob": self.total,
            "perplexity": self.perplexity,
            "log_probs": self.log_probs,
            "signs": self.signs,
        }


@dataclass(frozen=True)
class Evaluation:
    """Scores of predicted trees, see `evaluate_trees`."""

    brackets: BracketingReport
    # None where they were not asked for; reliability also where no phrase has a probability
    errors: ErrorReport | None = None
    reliability: Reliability | None = None
    # sentences that reliability leaves out since their words differ or are missing, and phrases
    # of no known probability
    n_other: int = 0
    n_unknown: int = 0

    def as_dict(self, *, per_sentence: bool = False, examples: int = 2) -> dict[str, Any]:
        """The totals `all`, `len40`, `strict`, and the requested tables."""
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
        In the order of the gold trees; see
        `sapwood.constituency.evaluate.reliability.read_predicted`.
    raw
        Whether to take the trees as they are, instead of cleaning both sides first.
    errors, reliability
        Whether to explain errors, and to say how well probabilities are calibrated.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.constituency.evaluate.reliability import Predicted
    >>> trees = [sw.Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")]
    >>> evaluate_trees(trees, [Predicted(tree) for tree in trees]).as_dict()["all"]["f1"]
    100.0
    """
    from sapwood.constituency.evaluate.bracketing import bracketing
    from sapwood.constituency.evaluate.errors import diagnose

    trees = [item.tree for item in predicted]
    found = bracketing(counted(gold, "comparing", unit="tree"), trees, raw=raw)
    explained = None
    if errors:
        explained = diagnose(counted(gold, "explaining errors", unit="tree"), trees, raw=raw)
    if not reliability:
        return Evaluation(found, explained)
    return Evaluation(found, explained, *_reliability(gold, predicted, raw=raw))


def _reliability(
    gold: Sequence[Tree], predicted: Sequence[Predicted], *, raw: bool
) -> tuple[Reliability | None, int, int]:
    """Grade the phrases of all sentences that have the words of their gold trees."""
    from sapwood.constituency.evaluate.reliability import calibration, graded
    from sapwood.corpora.tree import clean

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
