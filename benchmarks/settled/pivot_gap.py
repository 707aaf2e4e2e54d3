"""Pivots as a start of EM beside other starts, and why the side of the pivots matters.

Every method is trained twice: on the first 85 % of train and graded on the rest ("held"), and on
all of train and graded on dev. Settings were chosen on the held part. Without options: pivots of
either side and clusters. `--em` is EM by itself, `--variants` tries other settings of the pivots.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from benchmarks import machine

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn import pivot
from sapwood.constituency.learn.cluster import count_states, find_centres, layout_of
from sapwood.constituency.learn.cluster_moments import hard_counts
from sapwood.constituency.learn.em_steps import TrainingTrees, latent_grammar
from sapwood.constituency.learn.expected_counts import ExpectedCounts
from sapwood.constituency.learn.latent_parameters import (
    LatentParameters,
    matsuzaki,
    maximise,
    smooth,
)
from sapwood.constituency.learn.pivot import Recipe, Views, estimate, find_views, likely_states
from sapwood.constituency.learn.pivot_nodes import PivotRows, Side
from sapwood.constituency.learn.projected import FeatureRows
from sapwood.constituency.learn.spectral import project
from sapwood.execute import Threads, tree_sum

HELD = 0.15  # of train
SMOOTHING = (0.03, 0.1)  # the defaults of all estimators here
NO_SMOOTHING = (0.0, 0.0)
STEPS = (0, 2, 10)
LONG_STEPS = (2, 5, 10, 20, 50)
SPLIT_SEEDS = (0, 1, 2)
RECIPE = Recipe()


class Part(NamedTuple):
    """Trees to train on, and trees to grade on."""

    name: str
    bank: Treebank
    gold: list[Any]


def parts() -> list[Part]:
    """The two ways of training and grading."""
    bank = sw.read_treebank(machine.corpus_file("ptb", "train"))
    trees = list(bank.trees())
    n = int(len(trees) * (1 - HELD))
    return [
        Part("held", Treebank.from_trees(trees[:n]), trees[n:]),
        Part("dev", bank, machine.gold_trees("ptb", "dev")),
    ]


def grade(model: sw.LatentGrammar, gold: list[Any]) -> float:
    """F1 of the model's parses."""
    parses = sw.Parser(model, decoder="goodman").parse_many([tree.words() for tree in gold])
    return float(sw.evaluate.bracketing(gold, [parse.tree for parse in parses]).f1)


# -- starts ---------------------------------------------------------------------------------------


class Bench:
    """A projected treebank, from which every start is made."""

    def __init__(self, part: Part, n_states: int) -> None:
        self.part, self.n_states = part, n_states
        self.data = sw.PCFG().prepare(part.bank, Threads())
        self.projection = project(self.data, n_states)
        self.trees = TrainingTrees(self.data)
        self.nodes = pivot.pivot_nodes(self.data, self.projection, self.trees)
        self.limit = np.minimum(self.trees.limit, n_states)

    def pivots(self, side: str, recipe: Recipe = RECIPE) -> LatentParameters:
        """Figure 1 of the paper."""
        return estimate(self.nodes, self.views(side, recipe), recipe)

    def views(self, side: str, recipe: Recipe = RECIPE) -> Views:
        """Step 1."""
        return find_views(self.nodes, np.minimum(self.limit, self.projection.m), side, recipe)

    def mixed_pivots(self, *, phrases: str, tags: str) -> LatentParameters:
        """Pivots of one side for phrases, of another for tags."""
        views, others = self.views(phrases), self.views(tags)
        for a in range(len(self.data.inventory.phrases), len(views.m)):
            below, above = self.nodes.inside.block(a), self.nodes.outside.block(a)
            views.m[a], views.pi[a] = others.m[a], others.pi[a]
            views.r[below], views.s[above] = others.r[below], others.s[above]
        return estimate(self.nodes, views, RECIPE)

    def hard_pivots(self, side: str) -> LatentParameters:
        """Every node in its likeliest state, and relative frequencies."""
        views, gather = self.views(side), self.data.engine.gather
        layout = layout_of(self.trees, views.m)
        shards = zip(gather(self.projection.features.rows), gather(self.nodes.shards), strict=True)
        counts = tree_sum(hard_pivot_counts(*shard, views, layout) for shard in shards)
        return maximise(layout, counts)

    def clusters(self) -> LatentParameters:
        """k-means."""
        layout = layout_of(self.trees, self.limit)
        centres = find_centres(self.data, self.projection, self.limit, seed=0)
        return maximise(layout, count_states(self.data, self.projection, layout, centres))

    def random(self) -> LatentParameters:
        """The start of Matsuzaki et al."""
        return matsuzaki(self.trees.plain_parameters(), self.limit, np.random.default_rng(0))

    def curve(
        self,
        start: LatentParameters,
        steps: tuple[int, ...] = STEPS,
        smoothing: tuple[float, float] = SMOOTHING,
    ) -> tuple[list[float], LatentParameters]:
        """F1 after so many EM iterations, and where EM got."""
        now, done, found = smooth(start, *SMOOTHING), 0, []
        for target in steps:
            for _ in range(target - done):
                now = maximise(now, self.trees.expect(now), *smoothing)
            done = target
            found.append(grade(self.model(now), self.part.gold))
        return found, now

    def model(self, now: LatentParameters) -> sw.LatentGrammar:
        """The grammar of some probabilities."""
        return latent_grammar(self.data, self.trees.pairs, now, self.trees.expect(now), {})

    def likelihood(self, now: LatentParameters) -> float:
        """Mean log-likelihood of a training tree."""
        return self.trees.expect(now).log_likelihood / self.data.n_trees

    def used_states(self, now: LatentParameters) -> tuple[float, float]:
        """Perplexity of the states of phrases and of tags, geometric mean over nodes."""
        counts = self.trees.expect(now)
        expected = replace(now, root=counts.root, rules=counts.rules, words=counts.words)
        total = expected.state_totals()
        count = np.add.reduceat(total, now.state_start[:-1])
        owner = np.repeat(np.arange(len(count)), now.n_states)
        share = np.maximum(total, 1e-300) / count[owner]
        bits = np.bincount(owner, -total * np.log2(share))
        n = len(self.data.inventory.phrases)
        phrases, tags = bits[:n].sum() / count[:n].sum(), bits[n:].sum() / count[n:].sum()
        return float(2**phrases), float(2**tags)


def hard_pivot_counts(
    rows: FeatureRows, nodes: PivotRows, views: Views, layout: LatentParameters
) -> ExpectedCounts:
    """Counts of one shard, each node in its likeliest state."""
    likely = likely_states(nodes, views, RECIPE)
    states = (likely.below * likely.above * views.pi[nodes.label]).argmax(axis=1)
    return hard_counts(rows, states, layout, nodes.pair)


# -- tables ---------------------------------------------------------------------------------------


def start_rows(part: Part, n_states: int) -> Iterator[tuple[Any, ...]]:
    """F1 after 0, 2 and 10 iterations from each start, and what its states are like."""
    bench = Bench(part, n_states)
    starts: dict[str, Callable[[], LatentParameters]] = {
        "pivots inside": lambda: bench.pivots("inside"),
        "pivots outside": lambda: bench.pivots("outside"),
        "clusters": bench.clusters,
    }
    for name, make in starts.items():
        found, now = bench.curve(make())
        used = bench.used_states(now)
        yield (
            part.name, n_states, name, *(f"{x:.2f}" for x in found),
            f"{bench.likelihood(now):.1f}", *(f"{x:.1f}" for x in used),
        )  # fmt: skip


def em_rows(part: Part, n_states: int) -> Iterator[tuple[Any, ...]]:
    """EM by itself: from a random start after some iterations, and with splitting."""
    bench = Bench(part, n_states)
    found, now = bench.curve(bench.random(), LONG_STEPS)
    yield (
        part.name, n_states, "random start", *(f"{x:.2f}" for x in found),
        f"{bench.likelihood(now):.1f}",
    )  # fmt: skip
    fits = [sw.EMLPCFG(n_states, seed=seed).fit(part.bank) for seed in SPLIT_SEEDS]
    scores = [grade(fit.model_, part.gold) for fit in fits]
    values = [fit.info_.log_likelihoods[-1] / part.bank.n_trees for fit in fits]
    yield (
        part.name, n_states, f"splitting, seeds {SPLIT_SEEDS}, {fits[0].info_.iterations} in all",
        *[""] * (len(LONG_STEPS) - 1),
        f"mean {np.mean(scores):.2f}: " + " ".join(f"{x:.2f}" for x in scores),
        f"{np.mean(values):.1f}",
    )  # fmt: skip


@contextmanager
def pooled_templates() -> Iterator[None]:
    """Let the features of all templates share one distribution per state."""

    def pooled(side: Any, weights: np.ndarray, m: np.ndarray) -> np.ndarray:
        total = np.zeros((len(m), weights.shape[1]))
        np.add.at(total, side.owner, weights)
        return weights / np.where(total > 0, total, 1.0)[side.owner]

    old, Side.per_template = Side.per_template, pooled  # type: ignore[assignment]
    try:
        yield
    finally:
        Side.per_template = old  # type: ignore[method-assign]


def variant_rows(part: Part, n_states: int) -> Iterator[tuple[Any, ...]]:
    """Other settings of pivots outside."""
    bench = Bench(part, n_states)
    base = bench.pivots("outside")

    def row(
        name: str, start: LatentParameters, smoothing: tuple[float, float] = SMOOTHING
    ) -> tuple[Any, ...]:
        found, now = bench.curve(start, STEPS, smoothing)
        shown = (f"{x:.2f}" for x in found)
        return (part.name, n_states, name, *shown, f"{bench.likelihood(now):.1f}")

    yield row(
        "pivots outside, of tags inside", bench.mixed_pivots(phrases="outside", tags="inside")
    )
    yield row(
        "pivots inside, of tags outside", bench.mixed_pivots(phrases="inside", tags="outside")
    )
    yield row("EM without smoothing", base, NO_SMOOTHING)
    yield row("likeliest state of each node", bench.hard_pivots("outside"))
    yield row("likeliest state, pivots inside", bench.hard_pivots("inside"))
    with pooled_templates():
        starts = {side: bench.pivots(side) for side in pivot.SIDES}
    for side, start in starts.items():
        yield row(f"all templates one distribution, pivots {side}", start)
    for sharpness in (0.25, 1.0):
        start = bench.pivots("outside", RECIPE._replace(sharpness=sharpness))
        yield row(f"sharpness {sharpness}", start)
    for count, share in ((10, 0.0), (50, 1e-3), (20, 1e-2)):
        recipe = RECIPE._replace(least_count=count, least_share=share)
        start = bench.pivots("outside", recipe)
        yield row(f"pivots seen {count} times, {100 * share:g} % of the nodes", start)


def main() -> None:
    """Print the tables that were asked for."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--states", default="8,16")
    options.add_argument("--variants", action="store_true", help="other settings of the pivots")
    options.add_argument("--em", action="store_true", help="EM from a random start; splitting")
    options.add_argument("--part", choices=("held", "dev"), help="one part only")
    given = options.parse_args()
    machine.print_facts("Pivots as a start of EM")
    chosen = [part for part in parts() if given.part in (None, part.name)]
    sizes = [int(size) for size in given.states.split(",")]
    jobs = [(part, size) for size in sizes for part in chosen]
    steps = [f"F1 after {n}" for n in STEPS]
    start = ("graded on", "states", "start")
    if given.variants:
        header = (*start, *steps, "train log-likelihood")
        machine.print_table(header, (row for job in jobs for row in variant_rows(*job)))
    elif given.em:
        header = (*start, *(f"F1 after {n}" for n in LONG_STEPS), "train log-likelihood")
        machine.print_table(header, (row for job in jobs for row in em_rows(*job)))
    else:
        used = ("states used, phrases", "states used, tags")
        header = (*start, *steps, "train log-likelihood", *used)
        machine.print_table(header, (row for job in jobs for row in start_rows(*job)))


if __name__ == "__main__":
    main()
