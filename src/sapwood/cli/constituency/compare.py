"""`sapwood compare`: the method x states table of the papers, on one's own treebank."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, warn
from sapwood.cli.inputs import TreeReading, check_files, input_files
from sapwood.cli.reports import check_plot, plot_f1, show, table_lines
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.errors import count
from sapwood.core.learner import MAX_STATES
from sapwood.report import comparison_row

WARM_TREES = 20  # trees that are learnt and parsed before the clock starts

COMPARE_EPILOG = """\b
Examples:
  sapwood compare train.mrg dev.mrg
  sapwood compare train.mrg dev.mrg --methods spectral --states 4,8,16,32 --plot f1.png
  sapwood compare train.mrg dev.mrg --limit 200 --json > table.json
"""


def compare_methods(  # noqa: PLR0913 - every option of the command is an argument
    train: str = typer.Argument(
        ...,
        metavar="TRAIN",
        help="Trees to learn from: a file, a quoted glob, a folder, or - for stdin.",
    ),
    dev: str = typer.Argument(
        ..., metavar="DEV", help="Trees to score on; none of them may be in TRAIN."
    ),
    *,
    methods: str = typer.Option(
        "pcfg,spectral", metavar="A,B", help=f"Any of {', '.join(METHODS)}."
    ),
    states: str = typer.Option(
        "8,16",
        metavar="M,N",
        help="Numbers of hidden states to try; a method without any is run once.",
    ),
    limit: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Only the first N dev sentences. Not below some hundreds for figures to report.",
        show_default="all",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    plot: opt.Plot = None,
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Train every method with every number of states, and print a row for each.

    EM keeps the iteration that parses DEV best, so its F1 is slightly too high; scoring is not
    part of its time. Times are processor seconds over all threads, without compiling kernels and
    without the choice of the binarisation; memory is the peak of the process during the row.
    Ctrl-C keeps the finished rows.
    """
    from sapwood.constituency.data.statistics import doubt_dev_trees
    from sapwood.constituency.learn.pcfg import PCFG
    from sapwood.constituency.learn.settings_search import ChosenSettings, choose_settings

    runs = _runs(methods, states)
    check_files(train, dev)
    if plot:
        check_plot(plot, input_files(train, dev), force=force)
    phases = Phases(len(runs) + 2)
    reading = TreeReading(format, encoding, keep_functions, skip_bad)
    rows: list[dict[str, Any]] = []
    try:
        with opt.open_engine(engine, scheduler, jobs) as where:
            with phases.phase("reading") as notes:
                gold = reading.clean_trees(dev)[:limit]
                bank = reading.bank([train])
                notes += [count(bank.n_trees, "tree"), count(len(gold), "dev sentence")]
            reading.echo_skipped()
            warn(doubt_dev_trees(bank, [train], gold, dev))
            data = PCFG().prepare(bank, where)
            for method, m in runs:  # none is trained for long before another is refused
                chosen = METHODS[method]
                chosen.make(**chosen.pick({"n_states": m, "engine": where})).require_memory(data)
            row = partial(comparison_row, seed=seed, jobs=where)
            with phases.phase("warming up"):  # compiles or loads the kernels: no row pays for it
                for method in dict.fromkeys(method for method, _ in runs):
                    row(method, bank[:WARM_TREES], gold[:WARM_TREES], states=2)
            choices: dict[str, ChosenSettings] = {}
            for method, m in runs:
                title = f"{method}  {count(m, 'state')}" if METHODS[method].has_states else method
                with phases.phase(title) as notes:
                    if method not in choices:
                        choices[method] = choose_settings(bank, method, seed=seed, engine=where)
                    rows.append(row(method, bank, gold, states=m, choice=choices[method]))
                    notes.append(f"F1 {rows[-1]['f1']:.2f}")
    finally:  # whatever stops it, what is done is kept
        if rows:
            show(rows, _table, as_json=as_json)
        if rows and plot:
            plot_f1(plot, rows, has_states=[METHODS[row["method"]].has_states for row in rows])


def _runs(methods: str, states: str) -> list[tuple[str, int]]:
    """All rows, in the order asked for; a method without states once."""
    names = [opt.known_method(name, METHODS) for name in _parts("--methods", methods)]
    numbers = _parts("--states", states)
    for text in numbers:
        if not text.isdecimal() or not 1 <= int(text) <= MAX_STATES:
            msg = f"--states: {text!r} is not a whole number from 1 to {MAX_STATES}"
            raise typer.BadParameter(msg)
    runs = [(x, int(m)) for x in names for m in (numbers if METHODS[x].has_states else ["1"])]
    return list(dict.fromkeys(runs))


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise typer.BadParameter(f"{option} is empty; expected words with commas between them")
    return parts


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(10, *(len(row["method"]) + 2 for row in rows))
    columns = {
        "method": f"<{width}", "states": ">6", "F1": ">11.2f", "strict F1": ">11.2f",
        "tags": ">11.2f", "iterations": ">11,", "train s": ">11,.2f", "sent/s": ">11,.0f",
        "memory MB": ">11,.0f",
    }  # fmt: skip
    yield from table_lines(columns, map(_cells, rows))
    yield ""
    yield "F1 and tags in percent; train s and sent/s are processor time, all threads together."
    if any(row["best_iteration"] is not None for row in rows):
        yield "Iterations: of EM, to the best dev F1 of the last level / in all. The best is kept."


def _cells(row: dict[str, Any]) -> list[object]:
    best = row["best_iteration"]
    iterations = f"{row['iterations']:,}" if best is None else f"{best:,}/{row['iterations']:,}"
    cells = (
        row["method"], row["states"], row["f1"], row["strict_f1"], row["tagging_accuracy"],
        iterations, row["cpu_seconds"], row["sentences_per_cpu_second"], row["peak_memory_mb"],
    )  # fmt: skip
    return ["-" if cell is None else cell for cell in cells]
