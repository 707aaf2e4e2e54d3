"""Unmixing: errors from exact and sampled moments, and EM from it against EM from random starts.

Models are random (every column uniform on its simplex) unless the table says otherwise. Errors of
samples are L1 distances of the whole table T (PCFG-IE) or A (DEP-IES), medians over models.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import machine  # first: it pins BLAS to one thread
import numpy as np

from sapwood.core.errors import SapwoodWarning
from sapwood.core.topologies import sample_words
from sapwood.identify.learn import unmix
from sapwood.identify.learn.uniform import UNIFORM_FAMILIES, em, fit_moments
from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE, clip_columns
from sapwood.identify.mixing import PairPaths, pair_mixing, triple_mixing
from sapwood.identify.model.families import family_of, moments, stationary
from sapwood.identify.model.jacobian import draw_reals
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformTreeModel

Tables = dict[str, np.ndarray]
Learner = UnmixPCFGIE | UnmixDEPIES
PCFG_IE, DEP_IES = family_of("pcfg-ie"), family_of("dep-ies")
GAIN = 200  # noise gain of the exact moments, below which a model counts as well-conditioned
WORSE = 10.0  # nats: a likelihood so much lower is another optimum, not slow convergence
STARTS = 10
CLEAR = "pcfg-ie, d = 6, k = 2, gain below 200"
REFINEMENTS = ("none", "moments", "em")


# -- models, samples and errors -------------------------------------------------------------------


def draw(family: str, d: int, k: int, seed: int) -> Tables:
    """A random model."""
    rng = np.random.default_rng(seed)
    tables = draw_reals(family_of(family).tables(d, k), rng)
    if family == "dep-ies":
        tables = {"root": np.asarray(stationary(tables["argument"])), **tables}
    return tables


def well_conditioned(d: int, k: int, seed: int) -> Tables:
    """The first of many random PCFG-IE models that is well-conditioned."""
    return next(
        tables
        for at in range(10_000)
        if gain(tables := draw("pcfg-ie", d, k, 10_000 * seed + at), k) < GAIN
    )


def gain(tables: Tables, k: int) -> float:
    """Noise gain of the closed form at a model."""
    return UnmixPCFGIE(k).fit_moments(triples(tables)).info_.noise_gain


def triples(tables: Tables) -> np.ndarray:
    """Exact moments for PCFG-IE."""
    return moments(PCFG_IE, tables, 3, [(1, 2, 3)])[0]


def pairs(tables: Tables) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact moments for DEP-IES."""
    one, two = moments(DEP_IES, tables, 3, [(1, 2), (1, 3)])
    return one, two, moments(DEP_IES, tables, 2, [(1, 2)])[0]


def sample(family: str, tables: Tables, n: int, lengths: tuple[int, ...], seed: int):
    """Counted sentences, n of each length."""
    rng = np.random.default_rng(seed)
    d = len(tables["words" if family == "pcfg-ie" else "argument"])
    parts = (
        SentenceCounts.of_rows(sample_words(family, tables, n, length, rng), d)
        for length in lengths
    )
    return sum(parts, start=SentenceCounts(d))


def aligned(found: UniformTreeModel, true: Tables) -> Tables:
    """Tables with states in the order of the true ones."""
    from scipy.optimize import linear_sum_assignment

    tables = dict(found.tables)
    if found.family == "dep-ies":
        return tables
    cost = np.abs(tables["words"][:, :, None] - true["words"][:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(cost)
    order = rows[np.argsort(columns)]
    return {
        "root": tables["root"][order],
        "child": tables["child"][np.ix_(order, order)],
        "words": tables["words"][:, order],
    }


def largest_error(found: UniformTreeModel, true: Tables) -> float:
    """Of any parameter."""
    tables = aligned(found, true)
    return max(float(np.abs(tables[name] - true[name]).max()) for name in true)


def l1_error(found: UniformTreeModel, true: Tables) -> float:
    """Of T or A."""
    name = "child" if found.family == "pcfg-ie" else "argument"
    return float(np.abs(aligned(found, true)[name] - true[name]).sum())


# -- exact moments --------------------------------------------------------------------------------


def mixing_table() -> None:
    """Sizes and ranks of the mixing matrices, and what can be read off."""
    rows = []
    for longest in (3, 4, 5, 10):
        triple, pair = triple_mixing(longest), pair_mixing(longest)
        rows.append((longest, *_sizes(triple), *_sizes(pair)))
    print(
        "Mixing matrices: PCFG-IE from triples, DEP-IES from pairs, sentences up to L_max words\n"
    )
    header = (
        "L_max", "triples", "rank", "recoverable", "pairs", "rank", "recoverable",
    )  # fmt: skip
    machine.print_table(header, rows)
    linear = pair_mixing(5).weights(PairPaths(1, 0))
    print(f"A D from pairs of up to 5 words: weights add up to {np.abs(linear).sum():.0f} in size")
    print("(7 x 2 + 2 = 16 for A A D + A D from up to 3 words).\n")


def _sizes(mixing) -> tuple[str, int, int]:
    n, m = mixing.matrix.shape
    return f"{n} x {m}", mixing.rank, int(mixing.is_recoverable.sum())


def exact_table(models: int) -> None:
    """Errors from exact moments."""
    rows = []
    for d, k in ((4, 2), (6, 2), (6, 3), (8, 4)):
        drawn = [draw("pcfg-ie", d, k, seed) for seed in range(models)]
        found = [UnmixPCFGIE(k).fit_moments(triples(true)) for true in drawn]
        errors = [largest_error(one.model_, true) for one, true in zip(found, drawn, strict=True)]
        gains = [one.info_.noise_gain for one in found]
        rows.append(("pcfg-ie", d, k, *_numbers(errors), f"{np.median(gains):.2g}", "", ""))
    for d in (2, 3, 4, 6, 8):
        drawn = [draw("dep-ies", d, 0, seed) for seed in range(models)]
        found = [UnmixDEPIES().fit_moments(*pairs(true)) for true in drawn]
        errors = [largest_error(one.model_, true) for one, true in zip(found, drawn, strict=True)]
        wrong = sum(error > 1e-3 for error in errors)
        other = sum(one.roots_.n_other > 0 for one in found)
        rows.append(("dep-ies", d, "", *_numbers(errors), "", other, wrong))
    print(f"Exact moments, {models} random models each: largest error of any parameter\n")
    header = (
        "family", "d", "k", "median", "largest", "median noise gain",
        "not the principal roots", "wrong roots chosen",
    )  # fmt: skip
    machine.print_table(header, rows)
    gains = [gain(draw("pcfg-ie", 6, 2, seed), 2) for seed in range(1000)]
    share = sum(value < GAIN for value in gains) / len(gains)
    print(f"{share:.1%} of 1,000 random pcfg-ie, d = 6, k = 2, have a noise gain below {GAIN}\n")


def _numbers(errors: list[float]) -> tuple[str, str]:
    return f"{np.median(errors):.1e}", f"{max(errors):.1e}"


# -- samples --------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What is sampled: a family, its models, its sentences, and what to call that."""

    name: str
    family: str
    model: Callable[[int], Tables]
    learner: Callable[[str], Learner]
    lengths: tuple[int, ...]


def settings() -> list[Setting]:
    """Short sentences only, and with longer ones for the refinement."""
    states = "pcfg-ie, d = 6, k = 2"
    words = "dep-ies, d = 4"
    return [
        Setting(name, family, model, learner, lengths)
        for name, family, model, learner, lengths in (
            (states, "pcfg-ie", _state_model, _state_learner, (3,)),
            (states, "pcfg-ie", _state_model, _state_learner, (3, 4, 5)),
            (words, "dep-ies", _word_model, _word_learner, (2, 3)),
            (words, "dep-ies", _word_model, _word_learner, (2, 3, 4, 5)),
        )
    ]


def _state_model(seed: int) -> Tables:
    return well_conditioned(6, 2, seed)


def _word_model(seed: int) -> Tables:
    return draw("dep-ies", 4, 0, seed)


def _state_learner(refine: str) -> Learner:
    return UnmixPCFGIE(2, refine=refine, iterations=1000)


def _word_learner(refine: str) -> Learner:
    return UnmixDEPIES(refine=refine, iterations=1000)


Curves = dict[tuple[str, tuple[int, ...], str], list[float]]


def sample_table(sizes: list[int], models: int, family: str | None = None) -> Curves:
    """Median errors by number of sentences and refinement; CPU seconds of an estimate."""
    rows, curves = [], {}
    for one in settings():
        if family not in (None, one.family):
            continue
        drawn = [one.model(seed) for seed in range(models)]
        counted = {
            n: [sample(one.family, true, n, one.lengths, seed) for seed, true in enumerate(drawn)]
            for n in sizes
        }
        for refine in REFINEMENTS:
            if refine == "none" and len(one.lengths) > 2:
                continue  # the closed form reads the shortest sentences only
            medians, begun = [], process_time()
            for n in sizes:
                errors = [
                    l1_error(one.learner(refine).fit_counts(counts).model_, true)
                    for counts, true in zip(counted[n], drawn, strict=True)
                ]
                medians.append(float(np.median(errors)))
            seconds = (process_time() - begun) / (models * len(sizes))
            curves[one.name, one.lengths, refine] = medians
            shown = ", ".join(map(str, one.lengths))
            cells = (f"{error:.3f}" for error in medians)
            rows.append((one.name, shown, refine, *cells, f"{seconds:.2f}"))
    print(f"Sampled sentences, n of each length: median L1 error over {models} models")
    print(f"(pcfg-ie: random models with a noise gain below {GAIN}; dep-ies: all random models)\n")
    header = ("model", "lengths", "refine", *(f"n = {n:.0e}" for n in sizes), "CPU s")
    machine.print_table(header, rows)
    return curves


@contextmanager
def plain_margins() -> Iterator[None]:
    """Leave the margins of A D as the roots and pairs have them."""
    old, unmix._balance = unmix._balance, lambda down, pi: down
    try:
        yield
    finally:
        unmix._balance = old


def roots_table(sizes: list[int], models: int) -> None:
    """DEP-IES: what the pairs of two-word sentences and the counts of words add to the roots."""
    rows: dict[str, list[float]] = {}
    for n in sizes:
        errors: dict[str, list[float]] = {}
        for seed in range(models):
            true = _word_model(seed)
            learner = UnmixDEPIES()
            with plain_margins():
                counts = sample("dep-ies", true, n, (2, 3), seed)
                before = learner.fit_counts(counts).model_.tables["argument"]
            after = learner.fit_counts(counts).model_.tables
            found = {
                "A, roots only": (clip_columns(learner.roots_.A)[0], true["argument"]),
                "A, with pairs": (before, true["argument"]),
                "A, balanced": (after["argument"], true["argument"]),
                "root, stationary vector with pairs": (stationary(before), true["root"]),
                "root, counted": (after["root"], true["root"]),
            }
            for name, (table, truth) in found.items():
                errors.setdefault(name, []).append(float(np.abs(table - truth).sum()))
        for name, values in errors.items():
            rows.setdefault(name, []).append(float(np.median(values)))
    print(f"dep-ies, d = 4, closed form: median L1 error over {models} random models\n")
    header = ("table", *(f"n = {n:.0e}" for n in sizes))
    machine.print_table(
        header, [(name, *(f"{e:.3f}" for e in found)) for name, found in rows.items()]
    )


# -- EM -------------------------------------------------------------------------------------------


class Contest(NamedTuple):
    """Log-likelihoods, less the best known of the same sentences."""

    unmixed: float
    fitted: float
    random: list[float]


def em_table(models: int) -> dict[str, list[Contest]]:
    """EM from the unmixed estimate against EM from random starts."""
    rows, contests = [], {}
    for name, family, d, k, lengths in (
        (CLEAR, "pcfg-ie", 6, 2, (3, 4)),
        ("pcfg-ie, d = 6, k = 2", "pcfg-ie", 6, 2, (3, 4)),
        ("pcfg-ie, d = 6, k = 3", "pcfg-ie", 6, 3, (3, 4)),
        ("dep-ies, d = 4", "dep-ies", 4, 0, (2, 3, 4)),
    ):
        ours, fitted, theirs, found, closed = [], [], [], [], 0.0
        for seed in range(models):
            true = well_conditioned(d, k, seed) if name == CLEAR else draw(family, d, k, seed)
            counts = sample(family, true, 25_000, lengths, seed)
            begun = process_time()
            learner = UnmixPCFGIE(k) if family == "pcfg-ie" else UnmixDEPIES()
            start = learner.fit_counts(counts).model_
            closed += process_time() - begun
            ours.append(_em(start, counts))
            fitted.append(_em(fit_moments(start, counts, 10).model, counts))
            rng = np.random.default_rng(seed)
            drawn = [draw_reals(family_of(family).tables(d, k), rng) for _ in range(STARTS)]
            model = partial(UNIFORM_FAMILIES[family].model, start.vocabulary)
            theirs.append([_em(model(tables), counts) for tables in drawn])
            from_truth = _em(UniformTreeModel(family, start.vocabulary, true), counts)
            found.append(_contest(ours[-1], fitted[-1], theirs[-1], from_truth))
        contests[name] = found
        rows.append((name, *_em_row(found, ours, theirs, closed / models)))
    print(f"EM, 25,000 sentences of each length, {models} random models, {STARTS} random starts")
    print(f"each; worse: more than {WORSE:g} nats below the best known of the same sentences\n")
    header = (
        "model", "unmixed start worse", "fitted start worse", "random starts worse",
        "all random starts worse", "median loss of those", "CPU s closed form",
        "CPU s EM from it", "CPU s EM from 10 starts",
    )  # fmt: skip
    machine.print_table(header, rows)
    return contests


class EMRun(NamedTuple):
    """The log-likelihood where EM ended, and what it took."""

    log_likelihood: float
    cpu_seconds: float


def _em(start: UniformTreeModel, counts: SentenceCounts) -> EMRun:
    began = process_time()
    run = em(start, counts, iterations=1500, tolerance=1e-8)
    return EMRun(run.values[-1], process_time() - began)


def _contest(ours: EMRun, fitted: EMRun, theirs: list[EMRun], from_truth: EMRun) -> Contest:
    last = [run.log_likelihood for run in (ours, fitted, *theirs, from_truth)]
    best = max(last)
    return Contest(last[0] - best, last[1] - best, [value - best for value in last[2:-1]])


def _em_row(
    found: list[Contest], ours: list[EMRun], theirs: list[list[EMRun]], closed: float
) -> tuple[str, ...]:
    worse = [value for contest in found for value in contest.random if value < -WORSE]
    n = len(found)
    return (
        f"{sum(contest.unmixed < -WORSE for contest in found)} of {n}",
        f"{sum(contest.fitted < -WORSE for contest in found)} of {n}",
        f"{len(worse)} of {n * STARTS}",
        f"{sum(max(contest.random) < -WORSE for contest in found)} of {n}",
        f"{-np.median(worse):.0f} nats" if worse else "",
        f"{closed:.3f}",
        f"{np.mean([run.cpu_seconds for run in ours]):.2f}",
        f"{np.mean([sum(run.cpu_seconds for run in runs) for runs in theirs]):.2f}",
    )


# -- the figure -----------------------------------------------------------------------------------


def plot(path: Path, sizes: list[int], curves: Curves, contests: dict[str, list[Contest]]) -> None:
    """Errors against sentences on the left, likelihoods lost by EM on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.8), dpi=150, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    for axes, family in ((left, "pcfg-ie"), (middle, "dep-ies")):
        _draw_errors(axes, sizes, {key: v for key, v in curves.items() if key[0][:7] == family})
    left.set_ylabel("median L1 error of the table of children")
    _draw_losses(right, contests)
    figure.savefig(path)


def _draw_errors(axes, sizes: list[int], curves: Curves) -> None:
    names = {"none": "closed form", "moments": "moments", "em": "EM"}
    for (name, lengths, refine), errors in curves.items():
        reach = "" if refine == "none" else f", up to {lengths[-1]} words"
        style = "--" if lengths[-1] > 3 else "-"
        colour = {"none": "C0", "moments": "C1", "em": "C2"}[refine]
        axes.loglog(
            sizes,
            errors,
            style,
            color=colour,
            marker="o",
            markersize=4,
            label=names[refine] + reach,
        )
        axes.set_title(name, fontsize=10)
    reference = next(errors for key, errors in curves.items() if key[2] == "none")[0]
    axes.loglog(
        sizes, [reference * (sizes[0] / n) ** 0.5 for n in sizes], ":", color="0.6",
        label="one over the square root",
    )  # fmt: skip
    axes.set_xlabel("sentences of each length")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=7, handlelength=3.5)


def _draw_losses(axes, contests: dict[str, list[Contest]]) -> None:
    rng = np.random.default_rng(0)
    labels = {-0.2: "random start", 0.1: "unmixed start", 0.3: "unmixed, moments fitted"}
    for place, found in enumerate(contests.values()):
        for shift, colour, values in (
            (-0.2, "C3", [value for contest in found for value in contest.random]),
            (0.1, "C0", [contest.unmixed for contest in found]),
            (0.3, "C1", [contest.fitted for contest in found]),
        ):
            x = place + shift + rng.uniform(-0.08, 0.08, len(values))
            label = None if place else labels[shift]
            axes.plot(x, [max(-value, 0.01) for value in values], ".", color=colour, label=label)
    axes.axhline(WORSE, color="0.4", linewidth=0.8)
    axes.text(len(contests) - 0.55, WORSE * 1.2, "worse optimum above", fontsize=7, ha="right")
    axes.set_yscale("log")
    axes.set_xticks(range(len(contests)), [name.replace(", ", "\n") for name in contests])
    axes.set_ylabel("nats below the best known likelihood")
    axes.set_title("where EM ends", fontsize=10)
    axes.grid(alpha=0.3, axis="y")
    axes.legend(frameon=False, fontsize=8)


def main() -> None:
    """Print the tables and, if wanted, draw the figure."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--models", type=int, default=12)
    options.add_argument("--sizes", default="10000,100000,1000000")
    options.add_argument(
        "--part", choices=("exact", "roots", "samples", "em", "all"), default="all"
    )
    options.add_argument("--family", choices=("pcfg-ie", "dep-ies"), help="samples of one only")
    options.add_argument("--plot", type=Path, help="write a figure of all parts (.png, .svg, .pdf)")
    given = options.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    warnings.simplefilter("ignore", SapwoodWarning)  # few sentences are what is measured
    machine.print_facts("Unmixing")
    if given.part in ("exact", "all"):
        mixing_table()
        exact_table(50)
    if given.part in ("roots", "all"):
        roots_table(sizes, given.models)
    curves, contests = {}, {}
    if given.part in ("samples", "all"):
        curves = sample_table(sizes, given.models, given.family)
    if given.part in ("em", "all"):
        contests = em_table(given.models)
    if given.plot and curves and contests:
        plot(given.plot, sizes, curves, contests)


if __name__ == "__main__":
    main()
