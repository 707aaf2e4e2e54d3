"""Distances between functions over strings, perplexity, and unlabelled brackets.

    KL = sum over x of p(x) log (p(x) / q(x))        L1 = sum over x of |p(x) - f(x)|

over all strings up to a length. What a spectral model computes may be negative and need not sum to
1, so that for KL its values below `FLOOR` are raised to it, and both sides are scaled to sum to 1
over these strings; how much that changed is told. L1 takes values as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import exp
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.hankel.data import Bracketed
from sapwood.hankel.model.string_model import StringModel
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

FLOOR = 1e-20  # of a probability, before both sides are scaled
Strings = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class StringDistance:
    """How far a model is from a target over some strings.

    Attributes
    ----------
    kl
        From the target to the model, both scaled to sum to 1, in nats.
    l1
        Of values as they are.
    clipped
        Sum of the absolute values that were negative.
    mass
        Sum of the model's values before anything was done to them.
    target_mass
        Sum of the target's values.
    strings
        How many were compared.
    """

    kl: float
    l1: float
    clipped: float
    mass: float
    target_mass: float
    strings: int

    def as_dict(self) -> dict[str, Any]:
        """For reports."""
        return asdict(self)


def strings_up_to(symbols: Sequence[str], longest: int) -> list[tuple[str, ...]]:
    """All strings of one to so many symbols.

    Examples
    --------
    >>> strings_up_to("ab", 2)
    [('a',), ('b',), ('a', 'a'), ('a', 'b'), ('b', 'a'), ('b', 'b')]
    """
    return [x for size in range(1, longest + 1) for x in product(symbols, repeat=size)]


def distance(p: FloatArray, f: FloatArray) -> StringDistance:
    """Distance of values f from probabilities p of the same strings.

    Examples
    --------
    >>> found = distance(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    >>> found.kl, found.l1
    (0.0, 0.0)
    >>> distance(np.array([0.5, 0.5]), np.array([0.6, -0.1])).clipped
    0.1
    """
    clipped = -float(f[f < 0].sum())
    q = np.maximum(f, FLOOR)
    q, share = q / q.sum(), p / p.sum()
    seen = share > 0
    kl = float((share[seen] * np.log(share[seen] / q[seen])).sum())
    return StringDistance(
        max(kl, 0.0), float(np.abs(p - f).sum()), clipped, float(f.sum()), float(p.sum()), len(p)
    )


def compare_strings(target: StringModel, model: StringModel, longest: int) -> StringDistance:
    """Distance of a model from a target over all strings up to a length."""
    every = strings_up_to(target.symbols, longest)
    return distance(target.values(every), values_in(model, every))


def values_in(model: StringModel, strings: Strings) -> FloatArray:
    """Values of strings; 0 for those with a symbol that the model has never seen."""
    known = set(model.symbols)
    values = np.zeros(len(strings))
    places = [i for i, x in enumerate(strings) if known.issuperset(x)]
    values[places] = model.values([strings[i] for i in places])
    return values


def compare_on_draws(
    target: WeightedGrammar, model: WeightedGrammar, longest: int, draws: Strings
) -> StringDistance:
    """As `compare_strings`, where there are too many strings to list them all.

    The sums over lengths are exact; KL is the mean over strings that the target drew, up to the
    length, of  log r - 1 + 1 / r  with r = p / q, which has the same mean as log r and none of its
    noise. L1 is the mean of |1 - f / p|. `clipped` counts only what was drawn.
    """
    p, f = target.values(draws), values_in(model, draws)
    mass = float(target.length_masses(longest).sum())
    model_mass = float(model.length_masses(longest).sum())
    q = np.maximum(f, FLOOR) / max(model_mass, FLOOR)
    r = p / mass / q
    kl = float(np.mean(np.log(r) - 1 + 1 / r))
    clipped = float(np.mean(np.where(f < 0, -f / p, 0.0))) * mass
    l1 = float(np.mean(np.abs(1 - f / p))) * mass
    return StringDistance(max(kl, 0.0), l1, clipped, model_mass, mass, len(draws))


def expected_l1(model: StringModel, observed: Mapping[tuple[str, ...], float]) -> float:
    """The mean over observed strings of |p(x) - f(x)|, each weighted by p(x)."""
    strings = list(observed)
    p = np.array([observed[x] for x in strings])
    return float(p @ np.abs(p - values_in(model, strings)))


def perplexity(model: StringModel, strings: Iterable[Sequence[str]]) -> tuple[float, int]:
    """Perplexity per symbol, the end of a string counted as one, and how many had no value above 0.

    Raises
    ------
    SapwoodError
        Where no string has a value above 0.
    """
    total, n, n_without = 0.0, 0, 0
    for words in strings:
        log, sign = model.signed_log_prob(words)
        if sign <= 0:
            n_without += 1
            continue
        total += log
        n += len(words) + 1
    if not n:
        raise SapwoodError("no string has a value above 0, so that there is no perplexity")
    return exp(-total / n), n_without


@dataclass(frozen=True)
class UnlabelledScore:
    """Brackets found, as percentages; single symbols and whole strings are no brackets."""

    precision: float
    recall: float
    f1: float

    def as_dict(self) -> dict[str, float]:
        """For reports."""
        return asdict(self)


def unlabelled(
    gold: Iterable[Tree | Bracketed], predicted: Iterable[Tree | Bracketed]
) -> UnlabelledScore:
    """Unlabelled bracketing scores over all sentences.

    Examples
    --------
    >>> gold = [Tree.parse("(S (A a) (B (C b) (D c)))")]
    >>> unlabelled(gold, [Bracketed(("a", "b", "c"), ((0, 1, 2), (0, 2, 3)))]).f1
    0.0
    """
    matched = n_gold = n_predicted = 0
    for one, other in zip(gold, predicted, strict=True):
        right, found = spans_of(one), spans_of(other)
        matched += len(right & found)
        n_gold += len(right)
        n_predicted += len(found)
    precision = 100 * matched / n_predicted if n_predicted else 0.0
    recall = 100 * matched / n_gold if n_gold else 0.0
    both = precision + recall
    return UnlabelledScore(precision, recall, 2 * precision * recall / both if both else 0.0)


def spans_of(tree: Tree | Bracketed) -> set[tuple[int, int]]:
    """Brackets of more than one symbol and less than all."""
    if isinstance(tree, Bracketed):
        spans, n = {(i, j) for i, _, j in tree.splits}, len(tree.words)
    else:
        spans, n = {(i, j) for _, i, j in tree.spans()}, len(tree.words())
    return {(i, j) for i, j in spans if 1 < j - i < n}
