"""What depends on the treebank is chosen on the treebank: how its trees are made binary.

Which settings are best depends on the trees, and on the method: where phrases are flat, symbols
that remember sisters are many and rare, so that their hidden states have little to learn from,
while a plain grammar has nothing else to tell half-built phrases apart by. So a *judge*, a quick
grammar, learns from most of a sample of the trees under one setting after the other, and parses
the rest. Settings are asked for one at a time, each with the answers so far.

Notation
--------
    m[k], t[k]   matched brackets of held sentence k; its gold and predicted brackets together
    F            2 sum(m) / sum(t)

A setting replaces the treebank's own only where F rises by more than its standard error, that of
the paired difference over sentences: what is smaller is noise, and defaults were chosen with care.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from sapwood.constituency.data.stored import StoredTreebank
from sapwood.constituency.data.treebank import Treebank, TreebankLike, as_treebank
from sapwood.constituency.evaluate.bracketing import bracketing
from sapwood.constituency.learn.pcfg import PCFG, LexiconSettings
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.arrays import FloatArray
from sapwood.corpora.tree import Tree
from sapwood.execute import Engine, Threads
from sapwood.execute.engine import load_shard
from sapwood.progress import Advance, step

LEAST_TREES = 1000  # below, the held ones are too few to tell settings apart
MOST_TREES, MOST_WORDS = 2500, 40_000  # of the sample, so that choosing takes seconds
LEAST_BUDGET = 40.0  # seconds: of shorter ones, choosing would take a large part
HELD = 5  # every fifth tree of the sample is parsed, those before it are learnt from
LONGEST = 40  # words of a sentence that is parsed: longer ones take most of the time
# the settings, and what is tried beside the treebank's own
WAYS: Mapping[str, tuple[Any, ...]] = {"horizontal": (1, 0), "binarise": ("head", "right", "left")}
PLAIN_WAYS = {"horizontal": (1, 0, 2), "binarise": WAYS["binarise"], "vertical": (1, 2)}
SETTINGS = tuple(PLAIN_WAYS)  # all that may be chosen


class Grade(NamedTuple):
    """What a judge makes of some settings: F1 in percent."""

    settings: Mapping[str, Any]
    f1: float


@dataclass(frozen=True)
class Choice:
    """What was chosen on a treebank.

    Attributes
    ----------
    settings
        Those that were open, as they were chosen.
    judge
        Who judged, in words; empty where nothing was open.
    grades
        Of all that was tried, the treebank's own settings first.
    trees, held
        How many trees were learnt from, and how many were parsed.
    seconds
        Processor seconds of this process.
    reason
        Why nothing was tried, where nothing was.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    judge: str = ""
    grades: Sequence[Grade] = ()
    trees: int = 0
    held: int = 0
    seconds: float = 0.0
    reason: str = ""

    def as_record(self) -> dict[str, Any]:
        """What a model file says of it: nothing that the clock decides."""
        return {
            "settings": dict(self.settings), "judge": self.judge, "trees": self.trees,
            "held": self.held, "grades": [dict(f1=f1, **tried) for tried, f1 in self.grades],
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """What a report says of it."""
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
        """The estimator of a plain grammar with these settings, to be given to others."""
        return PCFG(**self.settings, lexicon=lexicon)


def choose_settings(
    bank: TreebankLike | StoredTreebank,
    method: str,
    *,
    names: Sequence[str] = SETTINGS,
    lexicon: LexiconSettings | None = None,
    seed: int = 0,
    engine: Engine | None = None,
) -> Choice:
    """Choose how a treebank's trees are made binary for a method.

    Parameters
    ----------
    method
        One of those of `sapwood train`.
    names
        The settings that are open; others stay as the treebank was read with.
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
    known = PLAIN_WAYS if method == "pcfg" else WAYS
    wanted = {name: ways for name, ways in known.items() if name in names}
    if METHODS[method].judge is None:
        return Choice(reason=f"{method} does not depend on them")
    if not wanted:
        return Choice(reason="all were given")
    if bank.n_trees < LEAST_TREES:
        found = f"{bank.n_trees:,} trees are too few to choose by"
        return Choice(reason=f"{found}, {LEAST_TREES:,} are needed")
    return _Court(bank, method, lexicon, seed, engine).choose(wanted)


class _Trial(NamedTuple):
    """Settings, and the brackets of each held sentence under them, rows (m, t)."""

    settings: dict[str, Any]
    counts: FloatArray

    @property
    def grade(self) -> Grade:
        """Its F1."""
        return Grade(self.settings, round(100.0 * _f(self.counts), 3))


class _Court:
    """Trees to learn from and to parse, and who judges settings by them."""

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
        self.judge = judge
        self.engine = Threads(engine.jobs_here if engine is not None else 1)
        trees = list(_sample(bank))
        self.held = [tree for tree in trees[HELD - 1 :: HELD] if len(tree.words()) <= LONGEST]
        rest = (tree for place, tree in enumerate(trees, 1) if place % HELD)
        self.train = Treebank.from_trees(rest, self.transform)

    def choose(self, questions: Mapping[str, Sequence[Any]]) -> Choice:
        """Answer one question after the other."""
        own = {name: getattr(self.transform, name) for name in questions}
        others_of = {name: [w for w in ways if w != own[name]] for name, ways in questions.items()}
        n_settings = 1 + sum(map(len, others_of.values()))
        with step("choosing settings on held trees", total=n_settings, unit="setting") as advance:
            return self._choose(own, others_of, advance)

    def _choose(
        self, own: dict[str, Any], others_of: Mapping[str, Sequence[Any]], advance: Advance
    ) -> Choice:
        best = self.hear(own)
        grades = [best.grade]
        for name, others in others_of.items():
            trials: list[_Trial] = []
            for way in others:
                advance(len(grades) + len(trials))
                trials.append(self.hear(best.settings | {name: way}))
            grades += [trial.grade for trial in trials]
            leader = max(trials, key=lambda trial: trial.grade.f1)
            gain = leader.grade.f1 - best.grade.f1
            best = leader if gain > standard_error(leader.counts, best.counts) else best
        name, values = self.judge
        return Choice(
            best.settings, f"{name} {values.get('n_states', '')}".strip(), grades,
            self.train.n_trees, len(self.held), round(process_time() - self.began, 3),
        )  # fmt: skip

    def hear(self, settings: dict[str, Any]) -> _Trial:
        """What the judge makes of some settings."""
        data = PCFG(**settings, lexicon=self.lexicon).prepare(self.train, self.engine)
        name, values = self.judge
        given = METHODS[name].pick({**values, "seed": self.seed, "engine": self.engine})
        learner = METHODS[name].make(**given).fit(data)
        rows = bracketing(self.held, learner.predict(self.held)).strict_sentences
        both = [(row.matched, row.gold_brackets + row.predicted_brackets) for row in rows]
        return _Trial(settings, np.array(both, float))


def _sample(bank: Treebank | StoredTreebank) -> Iterator[Tree]:
    """Every so many trees of a treebank, all of a small one."""
    step = max(1, -(-bank.n_trees // MOST_TREES), -(-bank.n_tokens // MOST_WORDS))
    first = 0
    for shard in map(load_shard, bank.shards()):
        for place in range(-first % step, shard.n_trees, step):
            yield shard.tree(place)
        first += shard.n_trees


def _f(counts: FloatArray) -> float:
    """F of rows (m, t)."""
    m, t = counts.sum(axis=0)
    return float(2.0 * m / t) if t else 0.0


def standard_error(one: FloatArray, other: FloatArray) -> float:
    """Standard error of the difference of two F1 in percent, over the same sentences.

    By the delta method: sentence k moves F by (2 m[k] - F t[k]) / sum(t).

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
