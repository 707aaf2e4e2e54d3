"""Calibration of the posteriors of constituents: reliability, ECE, Brier score.

Notation
--------
    p[i]       probability that a parser gave to phrase i
    y[i]       1 when the gold tree has the phrase, else 0
    k          bin: the phrases with p in [k/B, (k+1)/B); p = 1 is in the last
    n[k]       phrases in bin k;  N, phrases in all
    ece        sum over k of  n[k] / N * | mean p - mean y |      (means over bin k)
    brier      mean of (p - y)^2

A parser is calibrated when, of the phrases that it gives probability p, a fraction p is right. Even
then `ece` is above 0, as fractions of finitely many phrases vary; `chance` is the mean `ece` of a
calibrated parser whose phrases are independent:

    chance     sum over k of  n[k] / N * sqrt(2 / pi) * sd[k],   sd[k]^2 = sum p (1 - p) / n[k]^2
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.files import FEWER_TREES, TREE_BYTES, Source, open_lines, peek_line
from sapwood.corpora.formats import read_lines, treebank_files
from sapwood.corpora.formats.brackets import is_comment
from sapwood.corpora.tree import ROOT_LABELS, Tree, clean

WITH_JSON = "write it with: sapwood parse MODEL FILE --json"


class Predicted(NamedTuple):
    """A predicted tree with the probabilities of its phrases."""

    tree: Tree | None  # None where it is missing
    # label, start, end and probability of the phrases below the root, tags apart; None for a file
    # of trees, which says nothing about them. A probability may be unknown
    phrases: list[tuple[str, int, int, float | None]] | None = None


def read_predicted(source: str, n_gold: int, *, has_phrases: bool = False) -> list[Predicted]:
    """The predicted sentences; an empty line, or a null, means a missing tree.

    Parameters
    ----------
    source
        File, folder, glob or `-`; brackets or the output of `sapwood parse --json`.
    n_gold
        How many trees there should be. When the trees alone are as many, empty lines are only
        there to look at.
    has_phrases
        Whether every sentence must say how probable its phrases are.
    """
    files = treebank_files(source, memory=(TREE_BYTES, FEWER_TREES))
    items = [item for file in files for item in _read_file(file, has_phrases)]
    trees = [item for item in items if item.tree is not None]
    return trees if len(trees) == n_gold else items


def _read_file(source: Source, has_phrases: bool) -> Iterator[Predicted]:
    with open_lines(source) as (name, opened):
        first, lines = peek_line(opened)
        if first.lstrip().startswith("{"):
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _JsonLine(name, number, has_phrases).read(line)
            return
        if has_phrases and first:
            raise CorpusError(
                "the trees have no probabilities, which --reliability needs",
                file=name,
                hint=WITH_JSON,
            )
        yield from map(Predicted, _read_trees(lines, name))


def _read_trees(lines: Iterator[str], name: str) -> Iterator[Tree | None]:
    """The trees of lines; None for each empty line, where every tree is on a line of its own."""
    kinds: list[str] = []

    def watch() -> Iterator[str]:
        for line in lines:
            is_blank = not line.strip()
            kinds.append("comment" if is_comment(line) and not is_blank else _kind(line))
            yield line

    trees = iter(list(read_lines(watch(), name)))
    if "part" in kinds:
        yield from trees
        return
    for kind in kinds:
        if kind == "tree":
            yield next(trees)
        elif kind == "empty":
            yield None


def _kind(line: str) -> str:
    """Whether a line is one whole tree, empty, or part of something else."""
    line = line.strip()
    if not line:
        return "empty"
    depth = 0
    for place, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return "tree" if place == len(line) - 1 and place else "part"
    return "part"


class _JsonLine(NamedTuple):
    """The place of a JSON object, and whether the probabilities of its phrases are requested."""

    file: str
    number: int
    has_phrases: bool

    def read(self, line: str) -> Predicted:
        """The tree and, where requested, its phrases."""
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            self._fail("expected a JSON object, found other text")
        if not isinstance(item, dict):
            self._fail(f"expected a JSON object, found {line.strip()[:20]!r}")
        if "tree" not in item or not isinstance(item["tree"], str | None):
            self._fail('expected an object with a "tree" in brackets, or null')
        if item["tree"] is None:
            return Predicted(None, [])
        try:
            tree = Tree.parse(item["tree"])
        except CorpusError as error:
            self._fail(f"in its tree: {error.message}")
        return Predicted(tree, self._phrases(tree, item) if self.has_phrases else None)

    def _phrases(
        self, tree: Tree, item: dict[str, Any]
    ) -> list[tuple[str, int, int, float | None]]:
        """The phrases below the root; the constituents must be those of the tree, in order."""
        if not isinstance(item.get("constituents"), list):
            self._fail('no "constituents", so no probabilities')
        listed = [self._constituent(one) for one in item["constituents"]]
        if [one[:3] for one in listed] != tree.spans()[1:]:
            self._fail("the constituents are not those of the tree")
        nodes = list(tree.nodes())[1:]
        return [one for one, node in zip(listed, nodes, strict=True) if not node.is_preterminal]

    def _constituent(self, one: Any) -> tuple[str, int, int, float | None]:
        try:
            label, start, end, p = (one[key] for key in ("label", "start", "end", "probability"))
        except (TypeError, KeyError):
            self._fail("a constituent without label, start, end or probability")
        is_number = isinstance(p, int | float) and not isinstance(p, bool)
        if p is not None and not (is_number and 0 <= p <= 1):
            self._fail(f"expected a probability from 0 to 1, or null, found {p!r}")
        return label, start, end, p

    def _fail(self, message: str) -> NoReturn:
        raise CorpusError(message, file=self.file, line=self.number, hint=WITH_JSON)


@dataclass(frozen=True, slots=True)
class Bin:
    """Phrases whose probability lies in `[low, high)`; the last bin contains 1.

    `probability` and `correct` are the mean probability and the fraction that is right; None where
    `count` is 0.
    """

    low: float
    high: float
    count: int
    probability: float | None
    correct: float | None


@dataclass(frozen=True, slots=True)
class Reliability:
    """Calibration of probabilities; the symbols are those of the module.

    Attributes
    ----------
    bins
        From 0 to 1, of equal width.
    count, probability, correct
        Number of phrases, their mean probability, and the fraction that is right.
    ece, chance, brier
        Expected calibration error, the ECE of a calibrated parser by chance, Brier score.
    """

    bins: list[Bin]
    count: int
    probability: float
    correct: float
    ece: float
    chance: float
    brier: float

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain numbers."""
        return asdict(self)


def calibration(
    probability: npt.ArrayLike, is_correct: npt.ArrayLike, *, n_bins: int = 10
) -> Reliability:
    """Compare probabilities with the fraction of phrases that are right.

    Notes
    -----
    Cost: O(N). The bins, and so `ece`, depend on `n_bins`; `brier` does not.

    Examples
    --------
    >>> sure = calibration([0.9, 0.9, 0.9, 0.9], [True, True, True, False])
    >>> round(sure.ece, 6), round(sure.brier, 6), sure.bins[-1].count
    (0.15, 0.21, 4)
    """
    p, y = _check_pairs(probability, is_correct, n_bins)
    k = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(k, minlength=n_bins)
    sum_p, sum_y, variance = (
        np.bincount(k, weights=w, minlength=n_bins) for w in (p, y, p * (1 - p))
    )
    # n/N * |mean p - mean y| = |sum p - sum y| / N, and likewise for the standard deviation.
    means = zip(
        (sum_p / np.maximum(n, 1)).tolist(), (sum_y / np.maximum(n, 1)).tolist(), strict=True
    )
    return Reliability(
        bins=[
            Bin(k / n_bins, (k + 1) / n_bins, int(n[k]), *(mean if n[k] else (None, None)))
            for k, mean in enumerate(means)
        ],
        count=len(p),
        probability=float(p.mean()),
        correct=float(y.mean()),
        ece=float(np.abs(sum_p - sum_y).sum() / len(p)),
        chance=float(np.sqrt(2 / np.pi * variance).sum() / len(p)),
        brier=float(np.mean((p - y) ** 2)),
    )


def graded(
    gold: Tree, phrases: Iterable[tuple[str, int, int, float]], *, raw: bool = False
) -> list[tuple[float, bool]]:
    """The probability of each phrase, and whether the gold tree has it.

    A phrase is right when the gold tree has one with its label over exactly its words. Unlike EVALB
    this does not overlook punctuation: the probability is of the very span.

    Parameters
    ----------
    phrases
        Label, start, end (half-open, over all words) and probability; a repeated label over the
        same words counts once.
    raw
        Whether to take the gold tree as it is, instead of cleaning it first.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")
    >>> graded(tree, [("NP", 0, 1, 0.9), ("NP", 1, 2, 0.2)])
    [(0.9, True), (0.2, False)]
    """
    tree = gold if raw else clean(gold)
    if tree is None:
        return []
    nodes = zip(tree.nodes(), tree.spans(), strict=True)
    right = {
        span
        for node, span in nodes
        if not node.is_preterminal and not (node is tree and node.label in ROOT_LABELS)
    }
    found = {(label, i, j): p for label, i, j, p in phrases}
    return [(p, span in right) for span, p in found.items()]


def _check_pairs(
    probability: npt.ArrayLike, is_correct: npt.ArrayLike, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    p, y = np.asarray(probability, np.float64), np.asarray(is_correct, np.float64)
    if n_bins < 1:
        raise SapwoodError(f"expected at least one bin, found {n_bins}", hint="10 is customary")
    if p.ndim != 1 or p.shape != y.shape or not p.size:
        raise SapwoodError(
            f"expected as many answers as probabilities, found {y.size:,} for {p.size:,}",
            hint="give one or more probabilities, each with its answer",
        )
    wrong = ~((p >= 0) & (p <= 1))  # NaN is wrong too
    if wrong.any():
        raise SapwoodError(
            f"expected probabilities from 0 to 1, found {p[wrong][0]:g}",
            hint="log-probabilities must be exponentiated first",
        )
    return p, y
