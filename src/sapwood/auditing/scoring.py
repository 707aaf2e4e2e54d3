"""Scores of candidates, learnt from planted errors, with precision and recall on these.

A candidate is an edit of an annotated sentence. Edits of a family have a `kind`, what is annotated
(`old`) and what is suggested (`new`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple, Protocol

import numpy as np

from sapwood.auditing.combine import cross_fit
from sapwood.auditing.findings import N_FIRST
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import step

LEAST_SHARED = 0.3  # of the changes of an edit that is about an error, chosen on CRAFT
# Penalties of the combiner, chosen on the Penn Treebank sample and CRAFT: without the second, the
# first places are those where the weights of a rare kind are extreme.
RIDGE, RIDGE_OF_KINDS = 1.0, 30.0
_BLOCK = 20_000  # candidates that are scored at once


class AnyEdit(Protocol):
    """The fields of an edit that scores use."""

    @property
    def kind(self) -> str:
        """The kind of the edit."""
        ...


class Candidates(NamedTuple):
    """Edits of all sentences of one annotation, with their signals.

    Attributes
    ----------
    sentence
        The number of the sentence of each edit.
    confusions
        What each edit replaces by what, such as `("tag", "NN", "JJ")`.
    x : [n, d]
        Signals.
    y
        1 where an error was planted, else 0.
    planted
        For each planted error the row of an edit that finds it; -1 where there is none.
    kinds
        The kind of each planted error.
    weights
        How many real errors each planted error represents (`weight_of_planted`).
    """

    sentence: IntArray
    edits: list[Any]
    confusions: list[tuple[str, str, str]]
    x: FloatArray
    y: FloatArray
    planted: list[int]
    kinds: list[str]
    weights: list[float]


@dataclass(frozen=True)
class Scored:
    """Candidates of the trees with scores, and those of copies that scores were learnt from."""

    clean: Candidates
    scores: FloatArray
    copies: list[Candidates]
    copy_scores: list[FloatArray]

    def planted_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores of all planted errors, `-inf` of those that no edit is about, and weights."""
        scores = [
            scores[row] if row >= 0 else -np.inf
            for one, scores in zip(self.copies, self.copy_scores, strict=True)
            for row in one.planted
        ]
        weights = [weight for one in self.copies for weight in one.weights]
        return np.array(scores, float), np.array(weights, float)


def is_about(n_shared: int, n_changed: int) -> bool:
    """Whether an edit finds a planted error, given how many of its changes belong to the error.

    An edit that rebuilds half a sentence contains a planted error by chance.

    Examples
    --------
    >>> is_about(1, 2), is_about(1, 12), is_about(0, 0)
    (True, False, False)
    """
    return n_shared > 0 and n_shared >= LEAST_SHARED * n_changed


def confusion_signals(
    some: Candidates, clean: Candidates, frequency: Mapping[str, int]
) -> FloatArray:
    """How often the same confusion is among all edits of the trees, by the label's frequency.

    A confusion that occurs everywhere is a bias of the models or a convention of the treebank,
    rather than an error.
    """
    seen = Counter(clean.confusions)
    olds = Counter((kind, old) for kind, old, _ in clean.confusions)
    rows = [
        [
            log((seen[kind, old, new] + 0.5) / (frequency.get(old, 0) + 10.0)),
            log((olds[kind, old] + 0.5) / (frequency.get(old, 0) + 10.0)),
            log(1 + frequency.get(old, 0)),
            log(1 + frequency.get(new, 0)),
        ]
        for kind, old, new in some.confusions
    ]
    return np.array(rows, float).reshape(len(rows), 4)


def design(
    some: Candidates, clean: Candidates, frequency: Mapping[str, int], kinds: Sequence[str]
) -> FloatArray:
    """All signals of candidates, together and for each kind apart."""
    if not some.edits:
        return np.zeros((0, 1))
    x = np.hstack([some.x, confusion_signals(some, clean, frequency)])
    is_kind = np.array([[float(edit.kind == kind) for kind in kinds] for edit in some.edits])
    each = (is_kind[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    return np.hstack([x, is_kind, each])


def penalties(n_columns: int, n_kinds: int) -> FloatArray:
    """Penalties of the columns of a design: those that all kinds share, then those of each kind.

    Examples
    --------
    >>> penalties(8, 2)  # two signals, two kinds, and each signal for each kind
    array([ 1.,  1.,  1.,  1., 30., 30., 30., 30.])
    """
    n_signals = (n_columns - n_kinds) // (n_kinds + 1)
    return np.repeat([RIDGE, RIDGE_OF_KINDS], [n_signals + n_kinds, n_signals * n_kinds])


def score_candidates(
    candidates: Callable[[int | None], Candidates],
    n_copies: int,
    documents: IntArray,
    frequency: Mapping[str, int],
    kinds: Sequence[str],
) -> Scored:
    """Score all candidates by combiners that were learnt from planted errors elsewhere.

    Parameters
    ----------
    candidates
        Those of the trees for None, and of the copy with planted errors for its number.
    documents
        The document of each sentence: a combiner scores documents that it has not learnt from.
    frequency
        How often each label is annotated.
    """
    copies = []
    with step("comparing", total=1 + n_copies) as advance:
        clean = candidates(None)
        for copy in range(n_copies):
            advance(1 + copy)
            copies.append(candidates(copy))
    y = np.concatenate([one.y for one in copies])
    if not y.any():
        msg = "no planted error was found again, so that nothing can be ranked"
        raise SapwoodError(msg, hint="give more trees")
    x = np.vstack([design(one, clean, frequency, kinds) for one in copies if one.edits])
    rows = np.concatenate([documents[one.sentence] for one in copies])
    combiners, found = cross_fit(x, y, rows, ridge=penalties(x.shape[1], len(kinds)))
    part = documents[clean.sentence] % len(combiners)
    scores = np.zeros(len(clean.edits))
    for first in range(0, len(scores), _BLOCK):  # all signals of a large treebank fill the memory
        some = slice(first, first + _BLOCK)
        block = clean._replace(
            edits=clean.edits[some], confusions=clean.confusions[some], x=clean.x[some]
        )
        signals = design(block, clean, frequency, kinds)
        each = np.array([combiner.score(signals) for combiner in combiners])
        scores[some] = each[part[some], np.arange(each.shape[1])]
    ends = np.cumsum([len(one.edits) for one in copies])[:-1]
    return Scored(clean, scores, copies, list(np.split(found, ends)))


def measure(scored: Scored) -> tuple[float | None, dict[str, float], int]:
    """Precision of the first edits of copies, recall by kind, and the number of planted errors.

    The precision is None where fewer errors than these first ones were planted in a copy.
    """
    precisions, found, total = list[float](), Counter[str](), Counter[str]()
    for one, scores in zip(scored.copies, scored.copy_scores, strict=True):
        order = np.argsort(-scores, kind="stable")
        precisions.append(float(one.y[order[:N_FIRST]].mean()) if len(order) else 0.0)
        kept = set(order[: 2 * len(one.kinds)].tolist())
        for kind, row in zip(one.kinds, one.planted, strict=True):
            for name in (kind, "all"):
                total[name] += 1
                found[name] += row in kept
    recall = {name: found[name] / total[name] for name in sorted(total)}
    is_enough = all(len(one.kinds) >= N_FIRST for one in scored.copies)
    return float(np.mean(precisions)) if is_enough else None, recall, total["all"]


def precision_at_planted(scored: Scored) -> float:
    """Fraction of planted errors among as many first edits as errors were planted in a copy."""
    found = [
        float(one.y[np.argsort(-scores, kind="stable")[: len(one.kinds)]].mean())
        for one, scores in zip(scored.copies, scored.copy_scores, strict=True)
        if one.kinds and len(scores)
    ]
    return float(np.mean(found)) if found else 0.0
