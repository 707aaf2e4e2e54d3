"""Choose the binarisation of a treebank by the F1 of a quick grammar on held-out trees.

The best settings depend on the treebank and on the method. If phrases are flat, intermediate
symbols with many sisters are numerous and rare, so that their hidden states have few training
examples; a plain grammar, however, needs the sisters to distinguish incomplete phrases. Therefore a
*judge*, a grammar that is quick to train, is trained on most of a sample of the trees with each
setting, and parses the rest. Settings are searched one at a time, each with the best values of the
earlier ones.

Notation
--------
    m[k], t[k]   number of matched brackets of held-out sentence k; number of its gold and predicted
    brackets
    F            2 sum(m) / sum(t)

A setting replaces that of the treebank only if F rises by more than the standard error of the
paired difference over sentences, since smaller gains may be noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from sapwood.constituency.data.treebank import StoredTreebank, Treebank, TreebankLike, as_treebank
from sapwood.constituency.evaluate.bracketing import bracketing
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.core.arrays import FloatArray
from sapwood.core.progress import step
from sapwood.corpora.tree import Tree
from sapwood.execute import Engine, Threads
from sapwood.execute.engine import load_shard

# values to try besides those of the treebank: for methods with hidden states, and for `pcfg`
LATENT_VALUES: dict[str, tuple[Any, ...]] = {
    "horizontal": (1, 0),
    "binarise": ("head", "right", "left"),
}
PLAIN_VALUES = LATENT_VALUES | {"horizontal": (1, 0, 2), "vertical": (1, 2)}
SETTINGS = tuple(PLAIN_VALUES)  # all settings that can be searched


class SearchLimits(NamedTuple):
    """Bounds of the search, so that it takes seconds.

    Attributes
    ----------
    least_trees
        Minimum size of a treebank; with fewer trees, the held-out trees are too few to choose
        settings.
    most_trees, most_words
        Maximum size of the sample, training and held-out trees together.
    least_budget
        Minimum budget in seconds; with less, the search would take much of the budget.
    held_every
        Every tree of the sample whose number is a multiple of this is held out.
    longest
        Maximum number of words of a held-out sentence; longer sentences would take most of the
        time.
    """

    least_trees: int = 1000
    most_trees: int = 2500
    most_words: int = 40_000
    least_budget: float = 40.0
    held_every: int = 5
    longest: int = 40


LIMITS = SearchLimits()


class Score(NamedTuple):
    """The F1 of a judge with some settings, in percent."""

    settings: Mapping[str, Any]
    f1: float


@dataclass(frozen=True)
class ChosenSettings:
    """The settings chosen for a treebank.

    Attributes
    ----------
    settings
        The best values of the searched settings.
    judge
        Description of the judge; empty without a search.
    grades
        Scores of all tried settings; the first score is that of the treebank's own settings.
    trees, held
        Number of training trees of the judge, and of held-out trees.
    seconds
        CPU seconds of this process.
    reason
        The reason for not searching; empty after a search.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    judge: str = ""
    grades: Sequence[Score] = ()
    trees: int = 0
    held: int = 0
    seconds: float = 0.0
    reason: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return the entries for the model file, without any that depend on the clock."""
        return {
            "settings": dict(self.settings), "judge": self.judge, "trees": self.trees,
            "held": self.held, "grades": [dict(f1=f1, **tried) for tried, f1 in self.grades],
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return the result of the search as plain data for reports."""
        return self.as_record() | {"seconds": self.seconds, "reason": self.reason}

    def __str__(self) -> str:
        if not self.grades:
            return f"the usual settings: {self.reason}"
        shown = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        first = self.grades[0].f1
        best = next(grade.f1 for grade in self.grades if grade.settings == self.settings)
        gain = f"F1 {best:.2f}, usual settings {first:.2f}" if best != first else f"F1 {best:.2f}"
        return f"{shown}: chosen on {self.held:,} held trees by {self.judge} ({gain})"

    def plain(self, lexicon: LexiconSettings | None = None) -> PCFG:
        """Return an estimator of the plain grammar with the chosen settings."""
        return PCFG(**self.settings, lexicon=lexicon)


def choose_settings(
    bank: TreebankLike | StoredTreebank,
    method: str,
    *,
    names: Sequence[str] = SETTINGS,
    lexicon: LexiconSettings | None = None,
    seed: int = 0,
    engine: Engine | None = None,
) -> ChosenSettings:
    """Choose the binarisation of a treebank's trees for a method.

    Parameters
    ----------
    method
        A method of `sapwood train`.
    names
        The settings to search; the others keep the values of the treebank.
    lexicon
        How words are generalised.

    Examples
    --------
    >>> import sapwood as sw
    >>> choice = choose_settings(sw.bundled_treebank("dev"), "em")
    >>> print(choice)
    the usual settings: 300 trees are too few to choose by, 1,000 are needed
    >>> sw.EMLPCFG(4, plain=choice.plain())
    EMLPCFG(n_states=4, plain=PCFG())
    """
    if not isinstance(bank, (Treebank, StoredTreebank)):
        bank = as_treebank(bank)
    known = PLAIN_VALUES if method == "pcfg" else LATENT_VALUES
    wanted = {name: values for name, values in known.items() if name in names}
    if METHODS[method].judge is None:
        return ChosenSettings(reason=f"{method} does not depend on them")
    if not wanted:
        return ChosenSettings(reason="all were given")
    if bank.n_trees < LIMITS.least_trees:
        found = f"{bank.n_trees:,} trees are too few to choose by"
        return ChosenSettings(reason=f"{found}, {LIMITS.least_trees:,} are needed")
    return SettingsSearch(bank, method, lexicon, seed, engine).run(wanted)


class _Trial(NamedTuple):
    """Tried settings, and the bracket counts (m, t) of each held-out sentence."""

    settings: dict[str, Any]
    counts: FloatArray

    @property
    def score(self) -> Score:
        """The F1 of the settings."""
        return Score(self.settings, round(100.0 * _f(self.counts), 3))


class SettingsSearch:
    """A sample of training and held-out trees, and the judge that scores settings."""

    def __init__(
        self,
        bank: Treebank | StoredTreebank,
        method: str,
        lexicon: LexiconSettings | None,
        seed: int,
        engine: Engine | None,
    ) -> None:
        self.began = process_time()
        self.transform, self.lexicon, self.seed = bank.inventory.transform, lexicon, seed
        judge = METHODS[method].judge
        assert judge is not None
        self.judge, self.judge_values = judge
        self.engine = Threads(engine.jobs_here if engine is not None else 1)
        trees, k = list(_sample(bank)), LIMITS.held_every
        self.held = [tree for tree in trees[k - 1 :: k] if len(tree.words()) <= LIMITS.longest]
        rest = (tree for number, tree in enumerate(trees, 1) if number % k)
        self.train = Treebank.from_trees(rest, self.transform)

    def run(self, values_of: Mapping[str, Sequence[Any]]) -> ChosenSettings:
        """Search one setting after the other."""
        own = {name: getattr(self.transform, name) for name in values_of}
        others = {name: [x for x in values if x != own[name]] for name, values in values_of.items()}
        total = 1 + sum(map(len, others.values()))
        with step("choosing settings on held trees", total=total, unit="setting") as advance:
            best = self.evaluate(own)
            scores = [best.score]
            for name, values in others.items():
                trials: list[_Trial] = []
                for value in values:
                    advance(len(scores) + len(trials))
                    trials.append(self.evaluate(best.settings | {name: value}))
                scores += [trial.score for trial in trials]
                leader = max(trials, key=lambda trial: trial.score.f1)
                gain = leader.score.f1 - best.score.f1
                best = leader if gain > standard_error(leader.counts, best.counts) else best
        return ChosenSettings(
            best.settings, f"{self.judge} {self.judge_values.get('n_states', '')}".strip(), scores,
            self.train.n_trees, len(self.held), round(process_time() - self.began, 3),
        )  # fmt: skip

    def evaluate(self, settings: dict[str, Any]) -> _Trial:
        """Train the judge with some settings, and count its brackets on the held-out trees."""
        data = PCFG(**settings, lexicon=self.lexicon).prepare(self.train, self.engine)
        method = METHODS[self.judge]
        given = method.pick({**self.judge_values, "seed": self.seed, "engine": self.engine})
        learner = method.make(**given).fit(data)
        rows = bracketing(self.held, learner.predict(self.held)).strict_sentences
        both = [(row.matched, row.gold_brackets + row.predicted_brackets) for row in rows]
        return _Trial(settings, np.array(both, float))


def _sample(bank: Treebank | StoredTreebank) -> Iterator[Tree]:
    """Draw trees at equal distances from a treebank; a small treebank is used whole."""
    by_trees, by_words = bank.n_trees / LIMITS.most_trees, bank.n_tokens / LIMITS.most_words
    stride = max(1, ceil(by_trees), ceil(by_words))
    first = 0
    for shard in map(load_shard, bank.shards()):
        for k in range(-first % stride, shard.n_trees, stride):
            yield shard.tree(k)
        first += shard.n_trees


def _f(counts: FloatArray) -> float:
    """Return F of rows (m, t)."""
    m, t = counts.sum(axis=0)
    return float(2.0 * m / t) if t else 0.0


def standard_error(one: FloatArray, other: FloatArray) -> float:
    """Standard error of the difference of two F1 in percent, over the same sentences.

    By the delta method, sentence k changes F by (2 m[k] - F t[k]) / sum(t).

    Parameters
    ----------
    one, other : [n_sentences, 2]
        Rows (m, t).

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[3.0, 8.0], [5.0, 10.0], [2.0, 8.0]])
    >>> standard_error(rows, rows)
    0.0
    """
    moves = [(2.0 * rows[:, 0] - _f(rows) * rows[:, 1]) / rows[:, 1].sum() for rows in (one, other)]
    difference = moves[0] - moves[1]
    return float(100.0 * np.sqrt(len(difference) * difference.var()))
