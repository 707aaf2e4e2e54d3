"""Errors planted in treebanks, and how many of them an audit finds, beside three baselines.

For each corpus, rate and seed, the first trees of the train part get planted errors, and the whole
audit runs on them: its models, too, are learnt from trees with errors. Labels and tags are confused
as by an audit of the clean trees. Rows:

audit       parts by their score
variation   places that most others with the same words annotate otherwise, alone
trees       whole trees, the least probable by word first, under a plain grammar of other documents;
            the precision is that of trees with some error
parser      disagreement with one parser (spectral 16) alone, by the odds of its suggestion

`first 100` is the fraction of planted errors among the first 100 parts (or trees); real errors
count as wrong. `recall` is the fraction of all planted errors among twice as many parts (or in
trees that together hold so many brackets and tags). A second table compares the precision that the
audit expects of its first parts with the fraction of planted errors among them. Each run is
appended to the file of `--json` as a line, and is not repeated when that file is given again.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np

import sapwood as sw
from sapwood.auditing.nuclei import count_differences
from sapwood.auditing.stages import expect
from sapwood.constituency.audit.located import LocatedTrees, locate
from sapwood.constituency.audit.parts import Edit, edits_between
from sapwood.constituency.audit.planting import Planted, plant_in_tree
from sapwood.constituency.audit.run import (
    AuditSettings,
    Evidence,
    judge_trees,
    score_edits,
)
from sapwood.constituency.audit.signals import Posterior, Sentence, score_tree, variation_edits
from sapwood.execute import Processes

ONE = (sw.Candidate("spectral", 16),)
KINDS = ("label", "tag", "boundary", "missing", "extra")
ROWS = ("audit", "variation", "trees", "parser")
DEPTHS = (20, 50, 100, 200, 400, 800)
N_FIRST = 100


def planted_trees(
    located: LocatedTrees, evidence: Evidence, rate: float, seed: int
) -> tuple[LocatedTrees, list[list[Planted]]]:
    """Trees with planted errors, and the errors of each."""
    trees, errors = [], []
    for k, tree in enumerate(located.trees):
        rng = np.random.default_rng([7919, seed, k])
        annotation, planted = plant_in_tree(tree.annotation, evidence.confusions, rate, rng)
        trees.append(replace(tree, annotation=annotation))
        errors.append(planted)
    return replace(located, trees=trees), errors


def measure(
    edits: list[tuple[int, Any]], errors: list[list[Any]], kinds: Sequence[str] = KINDS
) -> dict[str, float]:
    """Precision of the first edits, and recall among twice as many as there are errors."""
    total = Counter(error.kind for some in errors for error in some)
    n = sum(total.values())
    first = [any(e.is_hit(edit) for e in errors[k]) for k, edit in edits[:N_FIRST]]
    found: Counter[str] = Counter()
    seen: set[tuple[int, int]] = set()
    for k, edit in edits[: 2 * n]:
        for place, error in enumerate(errors[k]):
            if (k, place) not in seen and error.is_hit(edit):
                seen.add((k, place))
                found[error.kind] += 1
    recall = {f"recall {kind}": found[kind] / max(1, total[kind]) for kind in kinds}
    return {"first 100": float(np.mean(first)), "recall": sum(found.values()) / n, **recall}


def by_audit(evidence: Evidence, settings: AuditSettings) -> tuple[list[tuple[int, Edit]], Any]:
    """Edits by the score of the audit, with the precision that is expected down to each."""
    scored = score_edits(evidence, settings)
    words = [tree.words for tree in evidence.trees]
    repetitions = count_differences(words, evidence.spans)
    expected, _ = expect(scored, evidence.n_nodes, settings.error_rate, *repetitions)
    order = np.argsort(-scored.scores, kind="stable").tolist()
    edits = [(int(scored.clean.sentence[r]), scored.clean.edits[r]) for r in order]
    return edits, expected[order]


def by_variation(evidence: Evidence) -> list[tuple[int, Edit]]:
    """Places annotated otherwise than most others with the same words, the clearest first."""
    found = []
    for k, tree in enumerate(evidence.trees):
        one = Sentence(k, tree.words, tree.annotation, int(evidence.folds[k]))
        for edit in variation_edits(one, [], evidence.nuclei):
            others = evidence.nuclei.counts(k, *edit.span)
            most = max(others.values())
            found.append((-most / (others.total() + 1), -others.total(), k, edit))
    return [(k, edit) for _, _, k, edit in sorted(found, key=lambda row: row[:3])]


def by_parser(evidence: Evidence) -> list[tuple[int, Edit]]:
    """Differences from the best tree of one parser, the largest odds first."""
    found = []
    for k, tree in enumerate(evidence.trees):
        posterior = Posterior(evidence.judgements[k], evidence.labels.names)
        for edit in edits_between(tree.annotation, posterior.best or tree.annotation):
            odds = (posterior.suggested(edit) + 1e-3) / (posterior.annotated(edit) + 1e-3)
            found.append((-odds, k, edit))
    return [(k, edit) for _, k, edit in sorted(found, key=lambda row: row[:2])]


def by_tree(evidence: Evidence, errors: list[list[Planted]]) -> dict[str, float]:
    """The numbers of `measure` for whole trees, the least probable first."""
    value = []
    for k, tree in enumerate(evidence.trees):
        fold = int(evidence.folds[k])
        log_prob = score_tree(tree.annotation, evidence.counts, fold).total
        for tag, word in zip(tree.annotation.tags, tree.words, strict=True):
            log_prob += evidence.counts.log_word(word, tag, fold)
        value.append(log_prob / len(tree.words))
    total = Counter(error.kind for some in errors for error in some)
    n, left, found = sum(total.values()), 2 * sum(total.values()), Counter[str]()
    order = np.argsort(value, kind="stable").tolist()
    for k in order:
        annotation = evidence.trees[k].annotation
        left -= len(annotation.tags) + len(annotation.brackets)
        if left < 0:
            break
        found.update(error.kind for error in errors[k])
    recall = {f"recall {kind}": found[kind] / max(1, total[kind]) for kind in KINDS}
    first = float(np.mean([bool(errors[k]) for k in order[:N_FIRST]]))
    return {"first 100": first, "recall": sum(found.values()) / n, **recall}


def brackets_dropped(
    evidence: Evidence, edits: list[tuple[int, Edit]], errors: list[list[Planted]]
) -> dict[str, float]:
    """What becomes of brackets that were dropped, and why those not found are not.

    Found are those among twice as many places as errors; the others rank lower, or are not in the
    best tree, with or without a posterior.
    """
    most, found = 2 * sum(map(len, errors)), Counter[str]()
    for k, some in enumerate(errors):
        posterior = Posterior(evidence.judgements[k], evidence.labels.names)
        for error in some:
            if error.kind != "missing":
                continue
            places = (n for n, (m, edit) in enumerate(edits) if m == k and error.is_hit(edit))
            first = next(places, None)
            if first is not None:
                found["found" if first < most else "rank lower"] += 1
            else:
                found["likely" if posterior.brackets.get(error.right[0]) else "unlikely"] += 1
    return {name: float(n) for name, n in found.items()}


def one_run(
    located: LocatedTrees, clean: Evidence, rate: float, seed: int, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Numbers of all rows for one corpus, rate and seed."""
    bad, errors = planted_trees(located, clean, rate, seed)
    settings = AuditSettings(folds=options.folds, fast=not options.full, seed=seed)
    engine = Processes(options.jobs)
    before = sum(machine.cpu_of_all())
    evidence, _ = judge_trees(bad, settings, engine)
    edits, expected = by_audit(evidence, settings)
    cpu = sum(machine.cpu_of_all()) - before
    found = {"audit": measure(edits, errors) | {"cpu": cpu}}
    found["dropped"] = brackets_dropped(evidence, edits, errors)
    found["variation"] = measure(by_variation(evidence), errors)
    found["trees"] = by_tree(evidence, errors)
    alone, _ = judge_trees(bad, replace(settings, fast=True, plan=ONE), engine)
    found["parser"] = measure(by_parser(alone), errors)
    is_right = np.array([any(e.is_hit(edit) for e in errors[k]) for k, edit in edits])
    for n in DEPTHS:
        if n <= len(edits):
            found[f"depth {n}"] = {"expected": expected[n - 1], "planted": is_right[:n].mean()}
    return found


def interval(values: list[float]) -> str:
    """A mean, and with several seeds half of its 95 % interval."""
    if len(values) < 2:
        return f"{values[0]:.3f}"
    half = {2: 12.7, 3: 4.30, 4: 3.18, 5: 2.78}.get(len(values), 2.0)
    spread = half * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.3f} ± {spread:.3f}"


def print_tables(runs: list[dict[str, Any]]) -> None:
    """Print the tables of one corpus and rate."""
    first = runs[0]
    print(f"\n{first['corpus']}, {first['trees']:,} trees, {first['rate']:.0%} planted, "
          f"{len(runs)} seeds")  # fmt: skip
    rows = [run["rows"] for run in runs]
    names = list(rows[0]["audit"])
    machine.print_table(
        ["", *names],
        [
            (row, *(interval([one[row][n] for one in rows]) if n in rows[0][row] else ""
                    for n in names))
            for row in ROWS
        ],
    )  # fmt: skip
    dropped = sum((Counter(one.get("dropped", {})) for one in rows), Counter[str]())
    print(f"brackets dropped, all seeds: {dict(dropped)}\n")
    depths = [row for row in rows[0] if row.startswith("depth")]
    machine.print_table(
        ["first", "expected", "planted"],
        [
            (row.split()[1], *(interval([one[row][n] for one in rows if row in one])
                               for n in ("expected", "planted")))
            for row in depths
        ],
    )  # fmt: skip


def read_runs(path: Path | None) -> list[dict[str, Any]]:
    """Runs that were made before."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Make all runs that are missing, and print tables for each corpus and rate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--corpora", default="ptb,craft,icepahc,gum_open")
    parser.add_argument("--rates", default="0.02,0.01,0.05")
    parser.add_argument("--trees", type=int, default=800, help="first trees of each corpus")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="networks too, not only grammars")
    parser.add_argument("--json", type=Path, help="append a line for each run")
    options = parser.parse_args()
    machine.print_facts("audit of planted errors", options.jobs)
    runs = read_runs(options.json)
    done = {(run["corpus"], run["rate"], run["seed"]) for run in runs}
    corpora, rates = options.corpora.split(","), [float(r) for r in options.rates.split(",")]
    clean: dict[str, tuple[LocatedTrees, Evidence]] = {}
    for rate, corpus, seed in product(rates, corpora, range(options.seeds)):
        if (corpus, rate, seed) in done:
            continue
        if corpus not in clean:
            located = locate(machine.gold_trees(corpus, "train", options.trees))
            settings = AuditSettings(folds=2, fast=True, plan=ONE)
            clean[corpus] = located, judge_trees(located, settings, Processes(options.jobs))[0]
        rows = one_run(*clean[corpus], rate, seed, options)
        n = len(clean[corpus][0].trees)
        runs.append({"corpus": corpus, "rate": rate, "seed": seed, "trees": n, "rows": rows})
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(runs[-1]) + "\n")
    for rate, corpus in product(rates, corpora):
        mine = [run for run in runs if (run["corpus"], run["rate"]) == (corpus, rate)]
        if mine:
            print_tables(mine)


if __name__ == "__main__":
    main()
