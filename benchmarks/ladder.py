"""The steps from three grammars to the mix with a network: what each wins on held parts of train.

Trees are held out in runs, since sentences of one article are alike: of five parts, as many as
`--folds` says are parsed by members that learnt from the other four. Gains are against the first
row, with 95 % intervals of a paired bootstrap over sentences; CPU seconds are those of training.

python benchmarks/ladder.py --corpus ptb --folds 1 --passes 12
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import machine
import numpy as np

import sapwood as sw
from sapwood.estimators.ensemble import estimator_of
from sapwood.estimators.panel import Panel, grade
from sapwood.evaluate.scores import SentenceScore
from sapwood.inference import decoders
from sapwood.models.ensemble import Member

PARTS = 5
RESAMPLES = 1000
GRAMMARS = (
    sw.Candidate("spectral", 16), sw.Candidate("em", 16, "right"), sw.Candidate("crf"),
    sw.Candidate("cluster", 16), sw.Candidate("em", 16, None, 0, 1),
)  # fmt: skip
NETWORK = sw.Candidate("encoder")
THREE, FIVE = (0, 1, 2), (0, 1, 2, 3, 4)
WEIGHTS = (0.2, 0.35, 0.5)
COSTS = (0.38, 0.48)
Scores = list[SentenceScore]


@dataclass
class Fold:
    """Members that learnt from the other parts, and what they say of this one."""

    panel: Panel
    members: list[Member] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def mix(self, grammars: Sequence[int], network: float, *, is_free: bool = True) -> Scores:
        """Rows of a mix of some grammars, equal among themselves, and of the networks."""
        share = np.zeros(self.panel.n_members)
        share[list(grammars)] = (1 - network) / max(len(grammars), 1)
        share[len(GRAMMARS) :] = network / (self.panel.n_members - len(GRAMMARS))
        return self.panel.scores(share / share.sum(), is_free=is_free)

    def learnt(self) -> Scores:
        """Rows with weights that make the brackets of every other sentence probable."""
        places = [*THREE, *range(len(GRAMMARS), self.panel.n_members)]
        found: dict[int, SentenceScore] = {}
        for half in (0, 1):
            share = np.zeros(self.panel.n_members)
            share[places] = _every_other(self.panel, 1 - half).likely_weights(places)
            rows = _every_other(self.panel, half).scores(share, is_free=True)
            found |= dict(zip(range(half, len(self.panel.sentences), 2), rows, strict=True))
        return [found[k] for k in range(len(found))]


def _every_other(panel: Panel, first: int) -> Panel:
    part = copy(panel)
    part.sentences, part.gold = panel.sentences[first::2], panel.gold[first::2]
    return part


@contextmanager
def bracket_cost(cost: float) -> Iterator[None]:
    """What a bracket must be worth, for a while."""
    usual = decoders.BRACKET_COST
    decoders.BRACKET_COST = cost
    try:
        yield
    finally:
        decoders.BRACKET_COST = usual


def at_cost(fold: Fold, cost: float) -> Scores:
    """Rows of the usual mix with another cost of brackets."""
    with bracket_cost(cost):
        return fold.mix(THREE, 0.35)


STEPS: dict[str, tuple[Callable[[Fold], Scores], Sequence[int]]] = {
    "three grammars, in the first one's chart": (lambda f: f.mix(THREE, 0, is_free=False), THREE),
    "among all trees": (lambda f: f.mix(THREE, 0), THREE),
    "two grammars more": (lambda f: f.mix(FIVE, 0, is_free=False), FIVE),
    "the network alone": (lambda f: f.mix((), 1), (5,)),
    "both, in the first grammar's chart": (
        lambda f: f.mix(THREE, 0.35, is_free=False), (*THREE, 5)
    ),
    **{
        f"both among all trees, network {w}": (lambda f, w=w: f.mix(THREE, w), (*THREE, 5))
        for w in WEIGHTS
    },
    **{
        f"both, a bracket costs {c}": (lambda f, c=c: at_cost(f, c), (*THREE, 5)) for c in COSTS
    },
    "both, weights learnt on other sentences": (Fold.learnt, (*THREE, 5)),
    "five grammars and the network": (lambda f: f.mix(FIVE, 0.35), (*FIVE, 5)),
}  # fmt: skip


def prepare(bank: sw.Treebank, part: int, given: argparse.Namespace) -> Fold:
    """Train all members on the other parts; those found in a folder are not trained again."""
    start, end = (bank.n_trees * k // PARTS for k in (part, part + 1))
    trees = list(bank)
    rest = sw.Treebank.from_trees(trees[:start] + trees[end:], bank.inventory.transform)
    fold: Fold | None = None
    candidates = [*GRAMMARS, *(NETWORK._replace(seed=k) for k in range(given.networks))]
    for candidate in candidates:
        path = Path(given.models or ".") / f"{part}-{str(candidate).replace(' ', '-')}.sapwood"
        with machine.Clock() as clock:
            if given.models and path.exists():
                model: Member = sw.load(path)
            else:
                learner = estimator_of(candidate, n_jobs=given.jobs)
                if candidate.method == NETWORK.method:
                    learner.set_params(passes=given.passes)
                model = learner.fit(rest).model_
        if given.models and not path.exists():
            model.save(path)
        print(f"part {part}: {candidate}, {clock.cpu:.0f} CPU s", flush=True)
        if fold is None:
            fold = Fold(Panel(trees[start:end], model, given.jobs))
        fold.panel.add(model)
        fold.members.append(model)
        fold.cpu.append(clock.cpu)
    assert fold is not None
    return fold


def counts(rows: Sequence[SentenceScore]) -> np.ndarray:
    """Matched brackets, and all of gold and given trees, by sentence."""
    return np.array([(r.matched, r.gold_brackets + r.predicted_brackets) for r in rows], float)


def f1_of(totals: np.ndarray) -> np.ndarray:
    """F1 in percent of sums of counts."""
    return 200 * totals[..., 0] / np.maximum(totals[..., 1], 1)


def interval(base: np.ndarray, other: np.ndarray) -> str:
    """Of the gain of one row of the table over another."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(base), (RESAMPLES, len(base)))
    gains = f1_of(other[drawn].sum(axis=1)) - f1_of(base[drawn].sum(axis=1))
    low, high = np.percentile(gains, [2.5, 97.5])
    return f"{low:+.2f} to {high:+.2f}"


def main() -> None:
    """Print the ladder, and how fast the mix parses."""
    reads = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    reads.add_argument("--corpus", default="ptb")
    reads.add_argument("--trees", type=int, help="of train at most")
    reads.add_argument("--folds", type=int, default=1, choices=range(1, PARTS + 1))
    reads.add_argument("--passes", type=int, help="of the network")
    reads.add_argument("--networks", type=int, default=1)
    reads.add_argument("--models", help="a folder for members, which are used again")
    reads.add_argument("--jobs", type=int, default=2)
    given = reads.parse_args()
    machine.print_facts("Ladder", threads=given.jobs)
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.trees]
    folds = [prepare(bank, part, given) for part in range(given.folds)]
    found = {
        name: counts([row for fold in folds for row in rows(fold)])
        for name, (rows, _) in STEPS.items()
    }
    base = next(iter(found.values()))
    n = len(GRAMMARS)
    cpu = np.sum([[*fold.cpu[:n], sum(fold.cpu[n:])] for fold in folds], axis=0)
    print(f"\n{given.corpus} train: {len(base):,} sentences of {given.folds} of {PARTS} parts\n")
    machine.print_table(
        ("step", "F1", "gain", "95 % interval", "CPU s"),
        [
            (
                name, f"{f1_of(one.sum(axis=0)):.2f}",
                f"{f1_of(one.sum(axis=0)) - f1_of(base.sum(axis=0)):+.2f}", interval(base, one),
                f"{cpu[list(STEPS[name][1])].sum():.0f}",
            )
            for name, one in found.items()
        ],
    )  # fmt: skip
    fold = folds[0]
    chosen = [*(fold.members[k] for k in THREE), *fold.members[len(GRAMMARS) :]]
    n = len(chosen) - len(THREE)
    mix = sw.Ensemble.of(chosen, [0.65 / len(THREE)] * len(THREE) + [0.35 / n] * n)
    one = grade(mix, fold.panel.gold)
    print(
        f"\nThe parser of three grammars and the network, part 0: F1 {one.f1:.2f}, strict "
        f"{one.report.strict.f1:.2f}, tags {one.report.all.tagging_accuracy:.2f}, "
        f"{one.n_trees / one.cpu_seconds:.0f} sentences/CPU s"
    )


if __name__ == "__main__":
    main()
