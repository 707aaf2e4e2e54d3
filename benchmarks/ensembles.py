"""Ensembles: F1 against training time and number of members, parsing speed.

Without options: every candidate of the plan is trained on the train part and graded on dev, alone
and mixed with all before it; then the mix that `EnsembleLPCFG` would choose. Choosing flatters dev
scores; `ladder.py` grades fixed mixes by cross-validation over the train part instead.
`--scaling` times parsing by sentence length and number of states. CPU seconds over all threads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import machine
import numpy as np

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.ensemble import Model
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.dev_scores import MixScorer
from sapwood.constituency.learn.ensemble import EnsembleLPCFG, estimator_of
from sapwood.constituency.learn.ensemble_budget import PLAN

THREE = ("spectral 16", "em 16", "crf")
CLASSIC = ("spectral 16", "em 16", "cluster 16")
EIGHT = tuple(str(candidate) for candidate in PLAN[:8])
SPEED_SENTENCES = 300
LENGTHS = (10, 20, 30, 40, 60, 80, 100, 120)
AT_LENGTH = 20  # sentences for each length, those nearest to it
REPEATS = 3


class Grade(NamedTuple):
    """F1 with and without EVALB's dropping of sentences, tags, and sentences a CPU second."""

    f1: float
    strict: float
    tags: float
    speed: float
    fallbacks: int


def grade(model: Model, gold: list[Any], jobs: int, *, fast: bool = False) -> Grade:
    """Parse gold sentences with a model."""
    parser = sw.Parser.fast(model) if fast else sw.Parser(model)
    sentences = [tree.words() for tree in gold]
    parser.parse(sentences[0])
    with machine.Clock() as clock:
        trees = [parse.tree for parse in parser.parse_many(sentences, jobs=jobs)]
    report = sw.evaluate.bracketing(gold, trees)
    return Grade(
        report.f1, report.strict.f1, report.all.tagging_accuracy, len(gold) / clock.cpu,
        parser.stats.fallbacks,
    )  # fmt: skip


def megabytes(model: Model) -> float:
    """Size of the model's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.stat().st_size / 1e6


# -- the plan -------------------------------------------------------------------------------------


class Trained(NamedTuple):
    """A candidate with what it took."""

    name: str
    model: LatentGrammar
    cpu: float
    wall: float


def train(bank: Treebank, names: list[str] | None, given: argparse.Namespace) -> list[Trained]:
    """Candidates of the plan, until the minutes are over."""
    began, out = perf_counter(), []
    for candidate in PLAN:
        if names is not None and str(candidate) not in names:
            continue
        if given.minutes and perf_counter() - began > 60 * given.minutes:
            break
        estimator = estimator_of(candidate, seed=given.seed, n_jobs=given.jobs)
        with machine.Clock() as clock:
            model = estimator.fit(bank).model_
        out.append(Trained(str(candidate), model, clock.cpu, clock.wall))
        print(f"  trained {candidate} in {clock.cpu:.1f} s", flush=True)
    return out


def plan_table(given: argparse.Namespace) -> None:
    """Singles, growing mixes, and chosen mixes."""
    with machine.Clock() as reading:
        bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.limit]
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    trained = train(bank, None, given)
    print(f"\n{given.corpus}: {bank.n_trees:,} trees; dev {len(gold):,} sentences; "
          f"{given.jobs} threads; training peak {machine.peak_mb():,.0f} MB\n")  # fmt: skip
    panel = MixScorer(gold, trained[0].model, given.jobs)
    rows, cpu, wall = [], reading.cpu, reading.wall
    for n, one in enumerate(trained):
        panel.add(one.model)
        cpu, wall = cpu + one.cpu, wall + one.wall
        speed = grade(one.model, gold[:SPEED_SENTENCES], 1).speed
        alone, together = panel.f1_of([n]), panel.f1_of(list(range(n + 1)))
        rows.append((
            one.name, f"{alone:.2f}", f"{one.cpu:.1f}", f"{megabytes(one.model):.0f}",
            f"{speed:.0f}", n + 1, f"{together:.2f}", f"{cpu:.0f}", f"{wall:.0f}",
        ))  # fmt: skip
    header = (
        "candidate", "F1", "train CPU s", "MB", "sent/s", "members", "mix F1", "CPU s so far",
        "wall s so far",
    )  # fmt: skip
    machine.print_table(header, rows)
    mixes_table(trained, gold, reading.cpu, given)


def mixes_table(
    trained: list[Trained], gold: list[Any], reading: float, given: argparse.Namespace
) -> None:
    """Mixes of equal weight, and the mix that is chosen on these dev trees."""
    by_name = {one.name: one for one in trained}
    mixes: dict[str, list[Trained]] = {}
    for title, names in (("spectral + em + cluster", CLASSIC), ("spectral + em + crf", THREE),
                         ("first eight", EIGHT)):  # fmt: skip
        if all(name in by_name for name in names):
            mixes[title] = [by_name[name] for name in names]
    mixes["all"] = trained
    rows = []
    for title, members in mixes.items():
        model = sw.Ensemble.of([one.model for one in members])
        rows.append(mix_row(title, model, sum(one.cpu for one in members) + reading, gold, given))
    chosen, seconds = choose(trained, gold, given)
    cpu = sum(one.cpu for one in trained) + reading + seconds
    rows.append(mix_row("chosen on dev", chosen, cpu, gold, given))
    print()
    header = (
        "mix", "members", "F1", "strict F1", "tags", "CPU s in all", "MB", "sent/s", "fast F1",
        "fast sent/s",
    )  # fmt: skip
    machine.print_table(header, rows)


def mix_row(
    title: str, model: sw.Ensemble, cpu: float, gold: list[Any], given: argparse.Namespace
) -> tuple[Any, ...]:
    """Grades of one mix."""
    slow, fast = grade(model, gold, given.jobs), grade(model, gold, given.jobs, fast=True)
    return (
        title, len(model.members), f"{slow.f1:.2f}", f"{slow.strict:.2f}", f"{slow.tags:.2f}",
        f"{cpu:.0f}", f"{megabytes(model):.0f}", f"{slow.speed:.0f}", f"{fast.f1:.2f}",
        f"{fast.speed:.0f}",
    )  # fmt: skip


def choose(
    trained: list[Trained], gold: list[Any], given: argparse.Namespace
) -> tuple[sw.Ensemble, float]:
    """What EnsembleLPCFG makes of grammars that are trained already, and its CPU seconds."""
    models = iter([one.model for one in trained])
    names = {one.name for one in trained}
    plan = [candidate for candidate in PLAN if str(candidate) in names]
    estimator = EnsembleLPCFG(plan=plan, seed=given.seed, n_jobs=given.jobs)
    estimator._train = lambda *_: next(models)  # type: ignore[method-assign]
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.limit]
    with machine.Clock() as clock:
        estimator.fit(bank, gold)
    return estimator.model_, clock.cpu


# -- speed ----------------------------------------------------------------------------------------


def scaling_table(given: argparse.Namespace) -> None:
    """CPU milliseconds a sentence by length and by number of states."""
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.limit]
    trees = machine.gold_trees(given.corpus, "dev") + list(bank.trees())  # few dev ones are long
    sentences = sorted((tree.words() for tree in trees), key=len)
    models: dict[str, Model] = {"plain": sw.PCFG().fit(bank).model_}
    for m in (8, 16, 32):
        models[f"spectral {m}"] = sw.SpectralLPCFG(m).fit(bank).model_
    models["em 16"] = sw.EMLPCFG(16, n_jobs=given.jobs).fit(bank).model_
    crf = sw.SpanCRF(n_jobs=given.jobs).fit(bank).model_
    models["spectral + em + crf"] = sw.Ensemble.of([models["spectral 16"], models["em 16"], crf])
    by_length = {}
    for length in LENGTHS:
        nearest = sorted(sentences, key=lambda words: abs(len(words) - length))[:AT_LENGTH]
        by_length[f"{np.mean([len(words) for words in nearest]):.0f}"] = nearest
    rows = []
    for name, model in models.items():
        parser = sw.Parser(model)
        cells = []
        for chosen in by_length.values():
            parser.parse(chosen[0])
            with machine.Clock() as clock:
                for sentence in chosen:
                    parser.parse(sentence)
            cells.append(f"{1000 * clock.cpu / len(chosen):.1f}")
        rows.append((name, *cells))
    print(f"{AT_LENGTH} sentences of dev and train nearest to each length; CPU ms a sentence:\n")
    machine.print_table(("model", *(f"{n} words" for n in by_length)), rows)
    threads_table(models, given)


def threads_table(models: dict[str, Model], given: argparse.Namespace) -> None:
    """One thread against two, on the clock."""
    sentences = [tree.words() for tree in machine.gold_trees(given.corpus, "dev", 600)]
    rows = []
    for name, model in models.items():
        parser = sw.Parser(model)
        parser.parse(sentences[0])
        walls = []
        for jobs in (1, 2):
            runs = []
            for _ in range(REPEATS):
                with machine.Clock() as clock:
                    list(parser.parse_many(sentences, jobs=jobs))
                runs.append(clock.wall)
            walls.append(min(runs))
        rows.append(
            (name, *(f"{len(sentences) / w:.0f}" for w in walls), f"{walls[0] / walls[1]:.2f}")
        )
    print(f"\nSentences a second on the clock, the best of {REPEATS} runs:\n")
    machine.print_table(("model", "1 thread", "2 threads", "ratio"), rows)


def main() -> None:
    """Print the tables that were asked for."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft", "icepahc"), default="ptb")
    options.add_argument("--limit", type=int, help="first trees of train and dev only")
    options.add_argument("--minutes", type=float, help="begin no candidate after so many")
    options.add_argument("--scaling", action="store_true", help="parsing speed by length")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    machine.print_facts("Ensembles", threads=given.jobs)
    print(json.dumps({k: v for k, v in vars(given).items() if v}), flush=True)
    if given.scaling:
        scaling_table(given)
    else:
        plan_table(given)


if __name__ == "__main__":
    main()
