"""`sapwood compare`: the method x states table of the papers, on one's own treebank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sapwood.cli.console import Meter, Phases, count, peak_memory_mb, print_json
from sapwood.cli.inputs import ForceOption, JobsOption, JsonOption, claim_stdin
from sapwood.cli.methods import MAX_STATES, METHODS, Settings, known_method, option
from sapwood.cli.overlap import warn_of_dev_in_training
from sapwood.cli.plots import Curve, PlotOption, check_plot, plot_f1
from sapwood.cli.reading import (
    EncodingOption,
    FormatOption,
    KeepFunctionsOption,
    Reading,
    SkipBadOption,
)
from sapwood.cli.training import score_on
from sapwood.estimators.shared_parameters import OnPlainGrammar

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank

N_WARM = 20  # trees that are learnt and parsed before the clock starts

EPILOG = """\b
Examples:
  sapwood compare train.mrg dev.mrg
  sapwood compare train.mrg dev.mrg --methods spectral --states 4,8,16,32 --plot f1.png
  sapwood compare train.mrg dev.mrg --limit 200 --json > table.json
"""


def compare(  # noqa: PLR0913 - every option of the command is an argument
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            help="Trees to learn from: a file, a quoted glob, a folder, or - for stdin.",
            show_default=False,
        ),
    ],
    dev: Annotated[
        str,
        typer.Argument(
            metavar="DEV",
            help="Trees to score on; none of them may be in TRAIN.",
            show_default=False,
        ),
    ],
    *,
    methods: Annotated[
        str, typer.Option(metavar="A,B", help=f"Any of {', '.join(METHODS)}.")
    ] = "pcfg,spectral",
    states: Annotated[
        str,
        typer.Option(
            metavar="M,N",
            help="Numbers of hidden states to try; a method without any is run once.",
        ),
    ] = "8,16",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Only the first N dev sentences. Not below some hundreds for figures to report.",
            show_default="all",
        ),
    ] = None,
    format: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    keep_functions: KeepFunctionsOption = False,
    skip_bad: SkipBadOption = False,
    plot: PlotOption = None,
    force: ForceOption = False,
    seed: Annotated[int, option(OnPlainGrammar.parameters()["seed"], metavar="N")] = 0,
    jobs: JobsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train every method with every number of states, and print a row for each.

    EM keeps the iteration that parses DEV best, so its F1 flatters a little; grading is not part
    of its time. Times are processor seconds over all threads, without compiling the kernels; memory
    is the peak of the process during the row. Ctrl-C keeps the rows that are done.
    """
    runs = _runs(methods, states)
    claim_stdin(train, dev)
    if plot:
        check_plot(plot, [train, dev], force=force)
    phases = Phases(len(runs) + 2)
    reading = Reading(format, encoding, keep_functions, skip_bad)
    with phases.phase("reading") as notes:
        gold = reading.clean_trees(dev)[:limit]
        bank = reading.bank([train])
        notes += [count(bank.n_trees, "tree"), count(len(gold), "dev sentence")]
    reading.tell()
    warn_of_dev_in_training(bank, [train], gold, dev)
    contest = _Contest(bank, gold, Settings(seed=seed, jobs=jobs))
    contest.warm_up(phases, runs)
    rows: list[dict[str, Any]] = []
    try:
        for run in runs:
            with phases.phase(run.title) as notes:
                rows.append(contest.row(run))
                notes.append(f"F1 {rows[-1]['f1']:.2f}")
    finally:  # whatever stops it, what is done is kept
        if rows:
            _show(rows, plot, as_json=as_json)


class _Run(NamedTuple):
    """One row to be: a method with its number of states."""

    method: str
    states: int

    @property
    def title(self) -> str:
        has_states = METHODS[self.method].has_states
        return f"{self.method}  {count(self.states, 'state')}" if has_states else self.method


def _runs(methods: str, states: str) -> list[_Run]:
    """All rows, in the order asked for; a method without states once."""
    names = [known_method(name) for name in _parts("--methods", methods)]
    numbers = [_number(part) for part in _parts("--states", states)]
    runs = [_Run(name, m) for name in names for m in (numbers if METHODS[name].has_states else [1])]
    return list(dict.fromkeys(runs))


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        msg = f"{option} is empty; expected words with commas between them"
        raise typer.BadParameter(msg)
    return parts


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_STATES:
        msg = f"--states: {text!r} is not a whole number from 1 to {MAX_STATES}"
        raise typer.BadParameter(msg)
    return int(text)


@dataclass(frozen=True)
class _Contest:
    """What all rows share: the trees and the settings."""

    bank: Treebank
    gold: list[Tree]
    settings: Settings

    def warm_up(self, phases: Phases, runs: list[_Run]) -> None:
        """Compile or load the kernels on a few trees, so that no row pays for it."""
        few = replace(self, bank=self.bank[:N_WARM], gold=self.gold[:N_WARM])
        with phases.phase("warming up"):
            for method in dict.fromkeys(run.method for run in runs):
                few.row(_Run(method, 2))

    def row(self, run: _Run) -> dict[str, Any]:
        reset_peak_memory()
        settings = replace(self.settings, states=run.states, most_states=run.states)
        meter = Meter()
        learner = METHODS[run.method].fit(settings, self.bank, self.gold)
        model, training = learner.model_, meter.as_dict()
        info = getattr(learner, "info_", None)
        em = getattr(info, "em", info)  # pivots keep what EM did behind them
        grading = getattr(em, "grading_cpu_seconds", 0.0)
        best = getattr(em, "best_iteration", None)
        dev = score_on(model, self.gold, settings.jobs)
        cpu = dev["cpu_seconds"]
        return {
            "method": run.method,
            "states": run.states if METHODS[run.method].has_states else 1,
            "f1": dev["f1"],
            "strict_f1": dev["strict_f1"],
            "tagging_accuracy": dev["tagging_accuracy"],
            "iterations": int(model.record.get("iterations", 0)),
            "best_iteration": best,
            "seconds": training["seconds"],
            "cpu_seconds": round((training["cpu_seconds"] or 0.0) - grading, 3),
            "parse_cpu_seconds": cpu,
            "sentences_per_cpu_second": round(dev["sentences"] / cpu, 1) if cpu else None,
            "peak_memory_mb": peak_memory_mb(),
            "sentences": dev["sentences"],
            "fallbacks": dev["fallbacks"],
        }


def reset_peak_memory() -> None:
    """Let the peak start again from what is held now, where the system can (Linux)."""
    with suppress(OSError):  # elsewhere a row shows the peak of the process so far
        Path("/proc/self/clear_refs").write_text("5")


# -- output ---------------------------------------------------------------------------------------


def _show(rows: list[dict[str, Any]], plot: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print("\n".join(_table(rows)))
    if plot:
        plot_f1(plot, *_lines(rows))


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(10, *(len(row["method"]) + 2 for row in rows))
    titles = ("F1", "strict F1", "tags", "iterations", "train s", "sent/s", "memory MB")
    yield f"{'method':<{width}}{'states':>6}" + "".join(f"{title:>11}" for title in titles)
    for row in rows:
        memory, speed = row["peak_memory_mb"], row["sentences_per_cpu_second"]
        cells = (
            f"{row['f1']:.2f}",
            f"{row['strict_f1']:.2f}",
            f"{row['tagging_accuracy']:.2f}",
            _iterations(row),
            f"{row['cpu_seconds']:,.2f}",
            "-" if speed is None else f"{speed:,.0f}",
            "-" if memory is None else f"{memory:,.0f}",
        )
        states = f"{row['method']:<{width}}{row['states']:>6}"
        yield states + "".join(f"{cell:>11}" for cell in cells)
    yield ""
    yield "F1 and tags in percent; train s and sent/s are processor time, all threads together."
    if any(row["best_iteration"] is not None for row in rows):
        yield "Iterations: of EM, to the best dev F1 of the last level / in all. The best is kept."


def _iterations(row: dict[str, Any]) -> str:
    best = row["best_iteration"]
    return f"{row['iterations']:,}" if best is None else f"{best:,}/{row['iterations']:,}"


def _lines(rows: list[dict[str, Any]]) -> tuple[dict[str, Curve], dict[str, float]]:
    """Points of each method with states, and the F1 of each method without."""
    levels = {row["method"]: row["f1"] for row in rows if not METHODS[row["method"]].has_states}
    curves = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        if name not in levels:
            points = sorted((row["states"], row["f1"]) for row in rows if row["method"] == name)
            curves[name] = Curve([m for m, _ in points], [f1 for _, f1 in points])
    return curves, levels
