"""The experiments of WCFG, sections 5.1 and 5.2: random targets, and the Dyck language."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import inf, nan
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import SapwoodError, SapwoodWarning

if TYPE_CHECKING:
    from sapwood.hankel.model.weighted_grammar import WeightedGrammar

SIZES = (*(10**k for k in range(3, 10)), inf)
LISTED = {2: 8, 6: 4}  # symbols: length up to which strings are drawn as one multinomial
LONGEST = 10  # of strings that KL is summed over
N_LISTED = 10_000  # strings over which that is done one by one
N_DRAWS = 4000  # on which it is estimated otherwise
NONE = 50.0  # KL of a learner that found nothing at all


class Reading(NamedTuple):
    """An unsupervised learner's settings, and the length of the strings that it is given."""

    settings: dict[str, Any]
    longest: int = LONGEST


UNSUPERVISED = {
    "fista": Reading({"solver": "fista"}),
    "fista, 1,000 steps": Reading({"solver": "fista", "max_steps": 1000}),
    "admm": Reading({"solver": "admm"}),
    "admm, composed contexts": Reading({"solver": "admm", "composed": True}),
    "direct": Reading({"solver": "direct"}),
    "factored": Reading({"solver": "factored"}),
    "admm + values up to 3": Reading({"solver": "admm", "refine": "values"}, 3),
    "admm + values": Reading({"solver": "admm", "refine": "values"}),
}
QUICK_METHODS = ("supervised", *UNSUPERVISED, "em")
RANDOM_METHODS = (*QUICK_METHODS, "em, to the maximum", "em, supervised")


def study_random(  # noqa: PLR0913 - an experiment has as many settings
    states: int,
    symbols: int,
    *,
    targets: int = 50,
    sizes: Sequence[float] = SIZES,
    methods: Sequence[str] = QUICK_METHODS,
    em_iterations: int = 200,
    seed: int = 0,
    seconds: float = inf,
    own_seeds: bool = False,
    tell: Callable[[dict[str, Any]], object] = lambda _: None,
) -> list[dict[str, Any]]:
    """Figures 1 and 2: KL up to length 10 by size of the sample, geometric means over targets.

    Targets are random PCFGs that end with probability 1. Samples are multinomials of exact
    probabilities of strings up to 8 (2 symbols) or 4 symbols; of longer ones, only their number is
    drawn. An infinite sample has the probabilities themselves. After so many seconds on the clock
    no further target is begun; `targets` tells how many there were. What each method learns of each
    target and sample is told as it comes.

    Parameters
    ----------
    own_seeds
        Whether each target and each sample has a seed of its own, so that runs with other sizes
        have the same targets and samples. Otherwise one stream of random numbers gives all of them,
        in the order of the sizes.
    """
    import numpy as np

    from .targets import random_pcfg

    rng = np.random.default_rng(seed)
    found: dict[tuple[str, float], list[_Outcome]] = defaultdict(list)
    n_drawn, n_done, start = 0, 0, perf_counter()
    while n_done < targets and (not n_done or perf_counter() - start < seconds):
        n_done += 1
        if own_seeds:
            rng = np.random.default_rng((seed, n_done))
        target, tries = random_pcfg(states, symbols, rng)
        n_drawn += tries
        trial = _Trial(target, em_iterations)
        for size in sizes:
            if own_seeds:
                rng = np.random.default_rng((seed, n_done, 0 if size == inf else int(size)))
            sample = trial.draw(size, rng)
            for method in methods:
                outcome = trial.run(method, sample)
                found[method, size].append(outcome)
                tell({"target": n_done, "method": method, "samples": size, **outcome._asdict()})
    return [
        {
            "method": method,
            "samples": size,
            "kl": float(np.exp(np.mean(np.log([max(x.kl, 1e-18) for x in outcomes])))),
            "worst": max(x.kl for x in outcomes),
            "feasibility": float(np.median([x.feasibility for x in outcomes])),
            "gap": float(np.median([x.gap for x in outcomes])),
            "worst_gap": max(x.gap for x in outcomes),
            "targets": n_done,
            "drawn": n_drawn,
            "seconds": float(np.mean([x.seconds for x in outcomes])),
        }
        for (method, size), outcomes in found.items()
    ]


class _Outcome(NamedTuple):
    kl: float
    seconds: float
    feasibility: float = nan
    gap: float = nan


class _Trial:
    """One target: its samples, and how far what is learnt from them is from it."""

    def __init__(self, target: WeightedGrammar, em_iterations: int) -> None:
        import numpy as np

        from sapwood.hankel.data import from_splits
        from sapwood.hankel.learn.moments import Basis

        from .string_distances import strings_up_to

        self.target, self.em_iterations = target, em_iterations
        self.listed = strings_up_to(target.symbols, LISTED.get(len(target.symbols), 3))
        self.p = target.values(self.listed)
        self.is_listed = float(len(target.symbols)) ** LONGEST < N_LISTED
        if self.is_listed:
            self.judged = strings_up_to(target.symbols, LONGEST)
            self.truth = target.values(self.judged)
        else:
            drawn = [x.words for x in target.sample_brackets(N_DRAWS, seed=1)]
            self.judged = [x for x in drawn if len(x) <= LONGEST]
        self.basis = Basis.smallest(target.symbols)
        self.trees = [
            from_splits(x, splits)
            for x in strings_up_to(target.symbols, 3)
            for splits in ({(0, 3): 1, (1, 3): 2, (0, 2): 1}, {(0, 3): 2, (0, 2): 1})[
                : max(len(x) - 1, 1)
            ]
        ]
        self.q = np.exp([target.signed_log_prob(tree.tree()).log for tree in self.trees])

    def draw(self, size: float, rng: Any) -> dict[str, Any]:
        """Counts of strings and of bracketed strings; for an infinite size, probabilities."""
        from numpy import append

        if size == inf:
            strings, trees = self.p, self.q
        else:
            strings, trees = (
                rng.multinomial(int(size), append(p, max(1 - float(p.sum()), 0.0)))[:-1]
                for p in (self.p, self.q)
            )
        counts = {x: t for x, t in zip(self.listed, strings.tolist(), strict=True) if t}
        return {"n": 1.0 if size == inf else size, "strings": counts, "trees": trees}

    def run(self, method: str, sample: dict[str, Any]) -> _Outcome:
        """Learn by a method; a constant for the KL where nothing is learnt."""
        start = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SapwoodWarning)
            try:
                learner = self.learn(method, sample)
            except SapwoodError:
                return _Outcome(NONE, process_time() - start)
        seconds, told = process_time() - start, learner.info_.solver
        about = (told["feasibility"], told["gap"]) if told else (nan, nan)
        return _Outcome(self.kl(learner.model_), seconds, *about)

    def kl(self, model: WeightedGrammar) -> float:
        """KL from the target: over all strings where they are few enough, else on draws."""
        from .string_distances import compare_on_draws, distance, values_in

        if self.is_listed:
            return distance(self.truth, values_in(model, self.judged)).kl
        return compare_on_draws(self.target, model, LONGEST, self.judged).kl

    def learn(self, method: str, sample: dict[str, Any]) -> Any:
        """A fitted learner."""
        from sapwood.hankel.learn.em_wcfg import EMWCFG
        from sapwood.hankel.learn.moments import HankelCounts
        from sapwood.hankel.learn.spectral import SpectralWCFG
        from sapwood.hankel.learn.unsupervised_wcfg import UnsupervisedWCFG

        n, strings = self.target.n_states, sample["strings"]
        if method == "supervised":
            counts = HankelCounts.of_brackets(self.trees, self.basis, sample["trees"])
            counts = HankelCounts(counts.whole, counts.pairs, sample["n"])
            return SpectralWCFG(n).fit_counts(self.basis, counts)
        if method.startswith("em"):
            is_cut = method == "em"
            learner = EMWCFG(
                n, iterations=self.em_iterations, starts=1, quasi_newton=not is_cut,
                tolerance=1e-7 if is_cut else 1e-9,
            )  # fmt: skip
            if method == "em, supervised":
                weights = sample["trees"].tolist()
                strings = {x: t for x, t in zip(self.trees, weights, strict=True) if t}
            return learner.fit(strings, n=sample["n"])
        settings, longest = UNSUPERVISED[method]
        read = {x: t for x, t in strings.items() if len(x) <= longest}
        return UnsupervisedWCFG(n, basis=1e-9, **settings).fit(read, n=sample["n"])


def study_dyck(
    *,
    samples: int = 4000,
    repeats: int = 5,
    factors: Sequence[float] = (0.002, 0.005, 0.01, 0.03, 0.1),
    states: int = 4,
    unsupervised_factors: Sequence[float] = (0.0002, 0.0004),
) -> list[dict[str, Any]]:
    """Figure 3: L1 up to lengths 7 and 11 by basis factor, means over samples.

    Samples whose Hankel matrix has not the rank for so many states are left out; `samples` tells
    how many were not.
    """
    import numpy as np

    from sapwood.hankel.learn.spectral import SpectralWCFG, SpectralWFA
    from sapwood.hankel.learn.unsupervised_wcfg import UnsupervisedWCFG

    from .string_distances import compare_strings
    from .targets import dyck

    target = dyck()
    drawn = [target.sample_brackets(samples, seed=seed) for seed in range(repeats)]
    plans: list[tuple[str, Any, Sequence[float]]] = [
        ("wfa", SpectralWFA, factors),
        ("supervised", SpectralWCFG, factors),
        ("unsupervised", UnsupervisedWCFG, unsupervised_factors),
    ]
    rows = []
    for name, kind, wanted in plans:
        for factor in wanted:
            found, sizes, start = [], (0, 0), process_time()
            for sample in drawn:
                data: Any = sample if name == "supervised" else Counter(x.words for x in sample)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SapwoodWarning)
                    try:
                        learner = kind(states, basis=factor).fit(data)
                    except SapwoodError:  # so small a basis has not this rank
                        continue
                sizes = learner.info_.basis
                found.append([compare_strings(target, learner.model_, n).l1 for n in (7, 11)])
            if not found:
                continue
            l1 = np.mean(found, axis=0)
            rows.append(
                {
                    "method": name,
                    "factor": factor,
                    "basis": f"{sizes[0]} x {sizes[1]}",
                    "l1_7": float(l1[0]),
                    "l1_11": float(l1[1]),
                    "samples": len(found),
                    "seconds": (process_time() - start) / repeats,
                }
            )
    return rows
