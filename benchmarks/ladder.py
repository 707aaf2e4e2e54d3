"""The steps from three grammars to the mix with networks: what each wins on held parts of train.

Trees are held out in runs, since sentences of one article are alike: of five parts, as many as
`--folds` says are parsed by members that learnt from the other four. Gains are against three
grammars, with 95 % intervals of a paired bootstrap over sentences; CPU seconds are those of
training; where there are five folds, the mean of their F1 has an interval too.
Where weights or a second stage are learnt, each half of a part is parsed with what the other says.

python benchmarks/ladder.py --corpus ptb --folds 5 --passes 12 --networks 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

import machine
import numpy as np
from sklearn.linear_model import LogisticRegression

import sapwood as sw
from sapwood.constituency.evaluate.bracketing import SentenceScore
from sapwood.constituency.grammar.ensemble import Member
from sapwood.constituency.learn.dev_scores import MixScorer, score_on_dev
from sapwood.constituency.learn.ensemble import estimator_of
from sapwood.constituency.learn.ensemble_budget import EnsembleSettings
from sapwood.constituency.parse import decoders
from sapwood.constituency.parse.posteriors import BracketPosteriors, split_codes

PARTS = 5
RESAMPLES = 1000
GRAMMARS = (
    sw.Candidate("spectral", 16), sw.Candidate("em", 16), sw.Candidate("crf"),
    sw.Candidate("cluster", 16), sw.Candidate("em", 16, "right"),
)  # fmt: skip
NETWORK = sw.Candidate("encoder")
THREE, FOUR, FIVE = (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4)
ONE, TWO = (5,), (5, 6)  # networks, behind all grammars
COSTS = (0.40, 0.48)
BASE = "three grammars, in the first one's chart"  # what gains are against
STUDENT = 2.776  # 95 % of the means of five lie within so many standard errors
LEAST_ODDS = 1e-4  # posteriors closer to 0 or 1 count as this
Scores = list[SentenceScore]

NETWORK_WEIGHTS = EnsembleSettings().network_weights


@dataclass
class Fold:
    """Members that learnt from the other parts, and what they say of this one."""

    panel: MixScorer
    members: list[Member] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def mix(
        self,
        grammars: Sequence[int],
        networks: Sequence[int] = (),
        weight: float = 0.0,
        *,
        is_free: bool = True,
    ) -> Scores:
        """Rows of a mix of some grammars, equal among themselves, and of some networks."""
        share = np.zeros(self.panel.n_members)
        share[list(grammars)] = (1 - weight) / max(len(grammars), 1)
        share[list(networks)] = weight / max(len(networks), 1)
        return self.panel.scores(share / share.sum(), is_unconstrained=is_free)

    def learnt(self, places: Sequence[int]) -> Scores:
        """Rows with weights that make the brackets of every other sentence probable."""

        def rows(learns: MixScorer, parses: MixScorer) -> Scores:
            share = np.zeros(parses.n_members)
            share[list(places)] = learns.likely_weights(places)
            return parses.scores(share, is_free=True)

        return self._by_halves(rows)

    def staged(self, places: Sequence[int]) -> Scores:
        """Rows of a second stage: the chance of a bracket, given what each member thinks of it."""

        def rows(learns: MixScorer, parses: MixScorer) -> Scores:
            stage = SecondStage(learns, places)
            one = copy(parses)
            one.sentences = [
                replace(sentence, brackets=[stage.brackets(parses, k)], scores={})
                for k, sentence in enumerate(parses.sentences)
            ]
            return one.scores(np.ones(1), is_free=True)

        return self._by_halves(rows)

    def _by_halves(self, rows: Callable[[MixScorer, MixScorer], Scores]) -> Scores:
        halves = [_every_other(self.panel, k) for k in (0, 1)]
        found = [rows(halves[1 - k], halves[k]) for k in (0, 1)]
        return [found[k % 2][k // 2] for k in range(len(self.panel.sentences))]


def _every_other(panel: MixScorer, first: int) -> MixScorer:
    part = copy(panel)
    part.sentences, part.gold = panel.sentences[first::2], panel.gold[first::2]
    return part


class SecondStage:
    """Logistic regression: whether a bracket is right, by what members say, label and length."""

    def __init__(self, panel: MixScorer, places: Sequence[int]) -> None:
        self.places, self.n_labels = list(places), len(panel.numbers)
        inputs, right = [], []
        for k, (sentence, tree) in enumerate(zip(panel.sentences, panel.gold, strict=True)):
            code, is_tag, x = self._inputs(panel, k)
            gold = panel._gold_codes(tree, len(sentence.words))
            inputs.append(x[~is_tag])
            right.append(np.isin(code, gold)[~is_tag])
        self.model = LogisticRegression(C=1.0, max_iter=1000)
        self.model.fit(np.concatenate(inputs), np.concatenate(right))

    def _inputs(self, panel: MixScorer, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, whether they are tags, and [n, features], of the brackets of a sentence."""
        sentence = panel.sentences[place]
        heard = [sentence.brackets[k] for k in self.places]
        code = np.unique(np.concatenate([part.code for part in heard]))
        label, start, end, is_tag = split_codes(code, len(sentence.words))
        p = np.array([part.of(code) for part in heard])
        inner = np.clip(p, LEAST_ODDS, 1 - LEAST_ODDS)
        labels = np.eye(self.n_labels)[label]
        length = np.log2(np.maximum(end - start, 1))
        return code, is_tag, np.column_stack([np.log(inner / (1 - inner)).T, p.T, length, labels])

    def brackets(self, panel: MixScorer, place: int) -> BracketPosteriors:
        """The stage's posteriors; of tags, means."""
        code, is_tag, x = self._inputs(panel, place)
        if not len(code):
            return panel.sentences[place].brackets[self.places[-1]]
        n = len(self.places)
        p = np.where(is_tag, x[:, n : 2 * n].mean(axis=1), self.model.predict_proba(x)[:, 1])
        return BracketPosteriors(code, p)


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
        return fold.mix(FOUR, ONE, NETWORK_WEIGHTS[0])


Step = tuple[Callable[[Fold], Scores], Sequence[int]]  # its rows, its members


def mixed(grammars: Sequence[int], networks: Sequence[int] = (), *said: float, **how: bool) -> Step:
    """The step of a mix."""
    return lambda f: f.mix(grammars, networks, *said, **how), (*grammars, *networks)


def steps(n_networks: int) -> dict[str, Step]:
    """By name, the rows of the table."""
    usual, both = NETWORK_WEIGHTS
    found = {f"{GRAMMARS[k]} alone": mixed((k,), is_free=False) for k in FOUR}
    found |= {
        BASE: mixed(THREE, is_free=False),
        "four grammars": mixed(FOUR, is_free=False),
        "five, one of them right-binarised": mixed(FIVE, is_free=False),
        "four grammars, among all trees": mixed(FOUR),
        "a network alone": mixed((), ONE, 1),
        "four grammars and a network, in the chart": mixed(FOUR, ONE, usual, is_free=False),
    }
    found |= {f"among all trees, network {w}": mixed(FOUR, ONE, w) for w in (0.2, 0.35, 0.5, 0.65)}
    found |= {
        f"network {usual}, a bracket costs {c}": (lambda f, c=c: at_cost(f, c), (*FOUR, *ONE))
        for c in COSTS
    }
    found |= {
        "weights learnt": (lambda f: f.learnt((*FOUR, *ONE)), (*FOUR, *ONE)),
        "second stage learnt": (lambda f: f.staged((*FOUR, *ONE)), (*FOUR, *ONE)),
        f"five grammars, network {usual}": mixed(FIVE, ONE, usual),
    }
    if n_networks > 1:
        found |= {"two networks alone": mixed((), TWO, 1)}
        found |= {
            f"four grammars, two networks {w}": mixed(FOUR, TWO, w) for w in (0.35, 0.5, 0.65)
        }
        found |= {
            "two networks, second stage learnt": (lambda f: f.staged((*FOUR, *TWO)), (*FOUR, *TWO)),
            f"five grammars, two networks {both}": mixed(FIVE, TWO, both),
        }
    return found


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
            fold = Fold(MixScorer(trees[start:end], model, given.jobs))
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


def mean_of(folds: Sequence[np.ndarray]) -> str:
    """Mean of the F1 of folds, with its interval where there are five."""
    f1 = np.array([f1_of(one.sum(axis=0)) for one in folds])
    if len(f1) < PARTS:
        return f"{f1.mean():.2f}"
    return f"{f1.mean():.2f} +- {STUDENT * f1.std(ddof=1) / len(f1) ** 0.5:.2f}"


def main() -> None:
    """Print the ladder, and how fast the mix parses."""
    reads = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    reads.add_argument("--corpus", default="ptb")
    reads.add_argument("--trees", type=int, help="of train at most")
    reads.add_argument("--folds", type=int, default=1, choices=range(1, PARTS + 1))
    reads.add_argument("--passes", type=int, help="of the network")
    reads.add_argument("--networks", type=int, default=1, choices=(1, 2))
    reads.add_argument("--models", help="a folder for members, which are used again")
    reads.add_argument("--jobs", type=int, default=2)
    given = reads.parse_args()
    machine.print_facts("Ladder", threads=given.jobs)
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.trees]
    folds = [prepare(bank, part, given) for part in range(given.folds)]
    table = steps(given.networks)
    by_fold = {name: [counts(rows(fold)) for fold in folds] for name, (rows, _) in table.items()}
    found = {name: np.concatenate(parts) for name, parts in by_fold.items()}
    base = found[BASE]
    cpu = np.sum([fold.cpu for fold in folds], axis=0)
    print(f"\n{given.corpus} train: {len(base):,} sentences of {given.folds} of {PARTS} parts\n")
    machine.print_table(
        ("step", "F1", "gain", "95 % interval", "mean of folds", "CPU s"),
        [
            (
                name, f"{f1_of(one.sum(axis=0)):.2f}",
                f"{f1_of(one.sum(axis=0)) - f1_of(base.sum(axis=0)):+.2f}", interval(base, one),
                mean_of(by_fold[name]),
                f"{cpu[list(table[name][1])].sum():.0f}",
            )
            for name, one in found.items()
        ],
    )  # fmt: skip
    for networks in (ONE, TWO)[: given.networks]:
        print_speed(folds[0], networks)


def print_speed(fold: Fold, networks: Sequence[int]) -> None:
    """Grade the parser of four grammars and some networks on part 0."""
    w, n = NETWORK_WEIGHTS[len(networks) - 1], len(networks)
    members = [fold.members[k] for k in (*FOUR, *networks)]
    mix = sw.Ensemble.of(members, [(1 - w) / len(FOUR)] * len(FOUR) + [w / n] * n)
    one = score_on_dev(mix, fold.panel.gold)
    print(
        f"\nThe parser of four grammars and {n} networks, part 0: F1 {one.f1:.2f}, strict "
        f"{one.report.strict.f1:.2f}, tags {one.report.all.tagging_accuracy:.2f}, "
        f"{one.n_trees / one.cpu_seconds:.0f} sentences/CPU s"
    )


if __name__ == "__main__":
    main()
