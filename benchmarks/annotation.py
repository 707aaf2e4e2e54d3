"""A simulated annotator: words until an accuracy by order of sentences, and actions per sentence.

`words`: trees are annotated in an order, and the grammar is learnt again after each of `STEPS`
parts of N random trees. The words that an order needs are those at which its F1 reaches that of N
random trees, by linear interpolation in the logarithm of the words. Orders are random, the errors
that are expected per word, and `learn` (`sapwood.annotation.order`). Only a sample of the sentences
that wait is scored.

`actions`: see `annotation_actions.py`.

`grammars`: F1 and CPU seconds of methods by number of trees. `curve`: how often the interval of
what more trees bring covers what they brought. Each run is appended to the file of `--json` as a
line, and is not repeated when that file is given again. All trees are drawn from the train part.

python benchmarks/annotation.py words --corpus ptb craft icepahc gum_open --json words.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np
from annotation_actions import count_actions

import sapwood as sw
from sapwood.annotation.curve import learning_curve
from sapwood.annotation.order import WaitingSentence, rank, sentence_counts
from sapwood.constituency.annotation.cross_fitting import cross_fit
from sapwood.constituency.annotation.errors_expected import errors_of_sentences
from sapwood.constituency.annotation.grammar import (
    PLANS,
    AnnotationGrammar,
    GrammarPlan,
    Plan,
)
from sapwood.corpora.tree import Tree

POOL, HELD, CORPUS = 2000, 200, 3000  # trees to annotate, to judge by, and to draw these from
N_TREES = 400  # random trees whose F1 is to be reached
STEPS = (0.15, 0.35, 0.5, 0.64, 1.0)  # parts of the words of these
SCORED = 700  # sentences that wait, of which the next ones are chosen
ORDERS = ("random", "errors", "learn")
ACTION_TREES, ACTION_WORDS = 8, 25
SEEDS = 5


@cache
def read_trees(corpus: str) -> list[Tree]:
    """The first trees of the train part of a corpus."""
    return machine.gold_trees(corpus, "train", CORPUS)


def draw(corpus: str, seed: int, pool: int = POOL) -> tuple[list[Tree], list[Tree]]:
    """Trees to annotate, and trees to judge by, drawn at random."""
    every = read_trees(corpus)
    places = np.random.default_rng([seed, len(every)]).permutation(len(every))
    held, rest = places[:HELD], places[HELD : HELD + pool]
    return [every[k] for k in rest], [every[k] for k in held]


def f1_of(model: Any, held: Sequence[Tree]) -> float:
    """Strict F1 of a model."""
    found = [one.tree for one in sw.Parser(model).parse_many([tree.words() for tree in held])]
    return sw.evaluate.bracketing(list(held), found).strict.f1


def choose(
    order: str, trees: Sequence[Tree], left: list[int], model: Any, n_words: int
) -> list[int]:
    """The next trees in an order, about so many words of them; `left` is in random order."""
    words = {k: trees[k].words() for k in left}
    if model is None or order == "random":
        ranked = left
    else:
        sample = left[:SCORED]
        first = sw.Ensemble.of([model.members[k] for k in model.groups[0]])
        errors = errors_of_sentences(sw.Parser(first), [words[k] for k in sample])
        rows = [WaitingSentence(str(k), words[k], e) for k, e in zip(sample, errors, strict=True)]
        if order == "errors":
            best = sorted(rows, key=lambda row: -(row.errors or 0.0) / len(row.words))
            ranked = [int(row.id) for row in best]
        else:
            waiting = sentence_counts(words.values())
            done = sentence_counts(tree.words() for k, tree in enumerate(trees) if k not in words)
            ranked = [int(row.id) for row in rank(rows, done, waiting)]
    chosen = []
    for k in ranked:
        if n_words <= 0:
            break
        chosen.append(k)
        n_words -= len(words[k])
    return chosen


def run_words(corpus: str, seed: int, pool: int, n_trees: int) -> dict[str, Any]:
    """F1 by words annotated, for each order."""
    trees, held = draw(corpus, seed, pool)
    total = sum(len(tree.words()) for tree in trees[:n_trees])
    found: dict[str, Any] = {"n_trees": n_trees, "words": total, "pool": len(trees)}
    for order in ORDERS:
        began = process_time()
        grammar, left, model, done = AnnotationGrammar(), list(range(len(trees))), None, 0
        points = []
        for step in STEPS:
            for k in choose(order, trees, left, model, round(step * total) - done):
                grammar.add(k, trees[k])
                done += len(trees[k].words())
            left = [k for k in left if k not in grammar]
            is_needed = order != "random" or step == 1.0
            model = grammar.learn().model if is_needed else model
            if is_needed and step >= 0.5:
                points.append((done, len(grammar), round(f1_of(model, held), 3)))
        found[order] = {"points": points, "cpu_seconds": round(process_time() - began, 1)}
    return found


def words_needed(points: Sequence[Sequence[float]], goal: float) -> float:
    """Words at which an order reaches an F1; where it never does, 1.25 times its last words."""
    before: Sequence[float] | None = None
    for words, _, f1 in points:
        if f1 >= goal:
            if before is None:
                return words
            part = (goal - before[2]) / (f1 - before[2])
            return float(np.exp(np.log(before[0]) + part * np.log(words / before[0])))
        before = (words, 0, max(f1, 0.0 if before is None else before[2]))
    return 1.25 * points[-1][0]


def run_actions(corpus: str, seed: int, pool: int, n_trees: int) -> dict[str, Any]:
    """Actions per sentence of trees of a model of N random trees, without and with refilling."""
    trees, held = draw(corpus, seed, pool)
    grammar = AnnotationGrammar()
    for k, tree in enumerate(trees[:n_trees]):
        grammar.add(k, tree)
    began = process_time()
    short = [tree for tree in held if len(tree.words()) <= ACTION_WORDS][:ACTION_TREES]
    rows = np.array(count_actions(grammar.learn().model, short), float)
    names = ("words", "alone", "alone_moves", "plain", "good")
    means = dict(zip(names, rows.mean(axis=0).round(3).tolist(), strict=True))
    return {"n_trees": n_trees, **means, "cpu_seconds": round(process_time() - began, 1)}


METHODS: dict[str, tuple[GrammarPlan, ...]] = {
    "pcfg h0": (GrammarPlan("pcfg", 1, 0),),
    "pcfg h1": (GrammarPlan("pcfg", 1, 1),),
    "cluster h0": (GrammarPlan("cluster", 4, 0),),
    "cluster h1": (GrammarPlan("cluster", 4, 1),),
    "two h0": PLANS[1].members,
    "two h1": tuple(member for member in PLANS[2].members if member.horizontal),
    "four": PLANS[2].members,
}


def run_grammars(corpus: str, seed: int, pool: int, n_trees: int) -> dict[str, Any]:
    """F1 and CPU seconds of learning, by method, and of the plan for the number of trees."""
    trees, held = draw(corpus, seed, pool)
    found: dict[str, Any] = {"n_trees": n_trees}
    for name, members in {**METHODS, "the plan": ()}.items():
        plans = (Plan(1, members),) if members else PLANS
        grammar = AnnotationGrammar(plans=plans)
        for k, tree in enumerate(trees[:n_trees]):
            grammar.add(k, tree)
        learnt = grammar.learn()
        found[name] = (round(f1_of(learnt.model, held[:150]), 2), round(learnt.seconds, 2))
    return found


def run_curve(corpus: str, seed: int, pool: int, n_trees: int) -> dict[str, Any]:
    """What 100 more trees were expected to bring, and what they brought on other trees."""
    trees, held = draw(corpus, seed, pool)
    grammar, scores = AnnotationGrammar(), []
    for k, tree in enumerate(trees[:n_trees]):
        grammar.add(k, tree)
    curve = learning_curve(cross_fit(grammar), n_trees, 100)
    for extra in (0, 100):
        for k in range(n_trees, n_trees + extra):
            grammar.add(k, trees[k])
        scores.append(f1_of(grammar.learn().model, held))
    gain = scores[1] - scores[0]
    is_inside = curve.low is not None and curve.low <= gain <= (curve.high or 0.0)
    return {
        "n_trees": n_trees, "expected": curve.gain, "low": curve.low, "high": curve.high,
        "brought": round(gain, 2), "is_inside": is_inside,
    }  # fmt: skip


RUNS: dict[str, Callable[[str, int, int, int], dict[str, Any]]] = {
    "words": run_words, "actions": run_actions, "grammars": run_grammars, "curve": run_curve,
}  # fmt: skip


def interval(values: Sequence[float]) -> str:
    """Mean and its 95 % interval over seeds, by Student's t."""
    from scipy.stats import t

    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return f"{mean:.2f}"
    half = float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return f"{mean:.2f} ± {half:.2f}"


def print_words(rows: Sequence[dict[str, Any]]) -> None:
    """Fractions of the words of N random trees that each order needs."""
    table = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        own = [row for row in rows if row["corpus"] == corpus]
        goals = [row["random"]["points"][-1][2] for row in own]
        cells = [corpus, str(len(own)), str(own[0]["n_trees"]), f"{np.mean(goals):.1f}"]
        for order in ORDERS[1:]:
            each = [
                words_needed(row[order]["points"], goal) / row["words"]
                for row, goal in zip(own, goals, strict=True)
            ]
            higher = [row[order]["points"][-1][2] - g for row, g in zip(own, goals, strict=True)]
            cells += [interval(each), interval(higher)]
        table.append(tuple(cells))
    header = ("corpus", "seeds", "N", "F1 of N random", "errors: words", "F1 gained")
    machine.print_table((*header, "learn: words", "F1 gained"), table)


def print_actions(rows: Sequence[dict[str, Any]]) -> None:
    """Actions per sentence, and ratios to editing alone."""
    table = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        own = [row for row in rows if row["corpus"] == corpus]
        means = [f"{np.mean([row[k] for row in own]):.1f}" for k in ("words", "alone_moves")]
        ratios = [interval([row[k] / row["alone_moves"] for row in own]) for k in ("plain", "good")]
        table.append((corpus, str(len(own)), str(own[0]["n_trees"]), *means, *ratios))
    header = ("corpus", "seeds", "N", "words", "alone: actions", "plain / alone", "good / alone")
    machine.print_table(header, table)


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Runs as they are."""
    names = list(rows[0])
    machine.print_table(names, [tuple(str(row[name]) for name in names) for row in rows])


def main() -> None:
    """Run what was not run yet, and print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("what", choices=RUNS)
    options.add_argument("--corpus", nargs="+", default=["ptb"])
    options.add_argument("--seeds", type=int, nargs="+", default=list(range(SEEDS)))
    options.add_argument("--pool", type=int, default=POOL)
    options.add_argument("--trees", type=int, nargs="+", default=[N_TREES])
    options.add_argument("--json", type=Path, help="lines of runs, which are not repeated")
    given = options.parse_args()
    rows: list[dict[str, Any]] = []
    if given.json and given.json.exists():
        rows = [json.loads(line) for line in given.json.read_text("utf-8").splitlines()]
    done = {(row["what"], row["corpus"], row["seed"], row["n_trees"]) for row in rows}
    for seed in given.seeds:
        for corpus in given.corpus:
            for n_trees in given.trees:
                if (given.what, corpus, seed, n_trees) in done:
                    continue
                row = {"what": given.what, "corpus": corpus, "seed": seed}
                row |= RUNS[given.what](corpus, seed, given.pool, n_trees)
                rows.append(row)
                if given.json:
                    with given.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    machine.print_facts("A simulated annotator", threads=1)
    own = [row for row in rows if row["what"] == given.what]
    {"words": print_words, "actions": print_actions}.get(given.what, print_rows)(own)


if __name__ == "__main__":
    main()
