"""Log-probabilities of trees and sentences, one by one and in sum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.execute import Engine
    from sapwood.models.ensemble import Model
    from sapwood.models.tree_model import SignedLog

CHUNK = 1000  # trees scored at once: enough to keep the arrays full, few enough to hold


def score_trees(model: Model, trees: Iterable[Tree]) -> Iterator[tuple[SignedLog, int]]:
    """Log-probability and number of words of each tree, as they come."""
    from sapwood.models.tree_model import SignedLog

    rest = iter(trees)
    while chunk := list(islice(rest, CHUNK)):
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
    from sapwood.models.tree_model import SignedLog

    return (model.signed_log_prob(words) if words else SignedLog(math.nan, 0)), len(words)


@dataclass
class ScoreReport:
    """Scores of trees or sentences, and sums over those that the model can build.

    Attributes
    ----------
    kind
        `trees` or `sentences`.
    is_probabilistic
        Whether the model holds probabilities; a spectral one holds weights with signs.

    Examples
    --------
    >>> from sapwood.models.from_text import bundled_grammar
    >>> report = ScoreReport("sentences", is_probabilistic=True)
    >>> for weight, n_words in score_sentences(bundled_grammar(), [["they", "sleep", "."], []]):
    ...     report.add(weight, n_words)
    >>> report.as_dict()["scored"], report.as_dict()["empty"]
    (1, 1)
    """

    kind: str
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
        """Of a word: exp(-log P / number of words); weights that are no probabilities have none."""
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
