"""`sapwood hankel study`: the published experiments on weighted grammars, and ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import read_lines
from sapwood.cli.plots import MARKERS, canvas, check_plot, save
from sapwood.cli.tables import show, table_lines
from sapwood.progress import step

EPILOG = """\b
Examples:
  sapwood hankel study random --targets 5 --states 2 --symbols 2 --plot figure1.png
  sapwood hankel study dyck --repeats 3
  sapwood hankel study tags train.mrg dev.mrg
  sapwood hankel study rna train.dbn dev.dbn --limit 200
"""
Experiment = Literal["random", "dyck", "tags", "rna"]


def study(  # noqa: PLR0913 - every option of the command is an argument
    experiment: Experiment = typer.Argument(..., help="Which one."),
    files: list[str] = typer.Argument(
        None, metavar="FILES", help="For tags and rna: what to learn from, and what to judge by."
    ),
    *,
    states: int = typer.Option(2, min=1, max=8, metavar="N", help="Of random targets."),
    symbols: int = typer.Option(2, min=2, max=8, metavar="N", help="Of random targets."),
    targets: int = typer.Option(5, min=1, metavar="N", help="Random targets; the figures have 50."),
    repeats: int = typer.Option(3, min=1, metavar="N", help="Samples of dyck."),
    limit: int | None = typer.Option(
        None, min=1, metavar="N", help="Strings or structures to learn from and to judge by."
    ),
    seed: int = typer.Option(0, min=0, metavar="N", help="Of random targets and samples."),
    plot: opt.Plot = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Run an experiment and print its tables.

    random: KL by size of the sample for random grammars. dyck: L1 by basis for balanced brackets.
    tags: sizes, errors and brackets on strings of at most ten tags, from trees or, in files named
    .conllu, dependencies. rna: base pairs of RNA structures in dot-bracket form; with RNAfold,
    where the package ViennaRNA is installed.
    """
    from sapwood.report import hankel_corpora, hankel_study

    given = files or []
    if experiment in ("tags", "rna") and len(given) != 2:
        msg = f"{experiment} takes two files: to learn from, and to judge by"
        raise typer.BadParameter(msg, param_hint="FILES")
    if experiment in ("random", "dyck") and given:
        msg = f"{experiment} makes its own data"
        raise typer.BadParameter(msg, param_hint="FILES")
    if plot:
        check_plot(plot, given, force=force)
    report: Any
    with step(f"study {experiment}"):
        if experiment == "random":
            report = hankel_study.study_random(states, symbols, targets=targets, seed=seed)
        elif experiment == "dyck":
            report = hankel_study.study_dyck(repeats=repeats)
        elif experiment == "tags":
            report = hankel_corpora.study_tags(*(_trees(file, limit) for file in given))
        else:
            report = list(hankel_corpora.study_rna(*(_structures(file, limit) for file in given)))
    show(report, partial(_text, experiment), as_json=as_json)
    if plot:
        _draw(plot, experiment, report)


def _trees(file: str, limit: int | None) -> list[Any]:
    from itertools import islice

    from sapwood.corpus.arcs.reader import read_arcs
    from sapwood.corpus.formats import read_trees

    found: Iterable[Any] = read_arcs(file) if ".conllu" in Path(file).name else read_trees(file)
    return list(islice(found, limit))


def _structures(file: str, limit: int | None) -> list[Any]:
    from itertools import islice

    from sapwood.corpus.rna import read_structures

    return list(islice(read_structures(read_lines(file), file), limit))


def _text(experiment: str, report: Any) -> Iterator[str]:
    if experiment == "random":
        yield from _random_text(report)
    elif experiment == "dyck":
        columns = {"method": "<14", "factor": ">8g", "basis": ">14", "L1 7": ">9.4f",
                   "L1 11": ">9.4f", "s": ">8.2f"}  # fmt: skip
        rows = (
            (x["method"], x["factor"], x["basis"], x["l1_7"], x["l1_11"], x["seconds"])
            for x in report
        )
        yield from table_lines(columns, rows)
    elif experiment == "tags":
        yield from _tags_text(report)
    else:
        yield from _rna_text(report)


def _random_text(report: list[dict[str, Any]]) -> Iterator[str]:
    sizes = sorted({row["samples"] for row in report})
    methods = list(dict.fromkeys(row["method"] for row in report))
    found = {(row["method"], row["samples"]): row for row in report}
    names = [f"{size:.0e}" if size < inf else "exact" for size in sizes]
    columns = {"KL": "<26"} | dict.fromkeys(names, ">9.1e") | {"worst gap": ">11.0e", "s": ">8.2f"}
    rows = (
        [
            name,
            *(found[name, size]["kl"] for size in sizes),
            "-" if isnan(gap := max(found[name, size]["worst_gap"] for size in sizes)) else gap,
            found[name, sizes[0]]["seconds"],
        ]
        for name in methods
    )
    yield from table_lines(columns, rows)
    first = report[0]
    yield f"{first['targets']} targets of {first['drawn']} drawn end with probability 1"


def _tags_text(report: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    columns = {"solver": "<10", "basis": "<16", "entries held": ">13,", "strings": ">9,",
               "states": ">7", "steps": ">7", "feasible": ">10.0e", "gap": ">9.0e",
               "CPU s": ">8.1f", "MB": ">8.0f", "L1": ">10.2e", "F1": ">7.1f"}  # fmt: skip
    names = ("solver", "basis", "listed", "observed", "states", "steps", "feasibility", "gap",
             "cpu_seconds", "peak_memory_mb", "l1", "f1")  # fmt: skip
    done = [row for row in report["runs"] if "error" not in row]
    yield from table_lines(columns, ([row[name] for name in names] for row in done))
    yield from (
        f"{row['solver']}, {row['states']} states: {row['error']}"
        for row in report["runs"]
        if "error" in row
    )
    yield ""
    columns = {"brackets": "<34", "precision": ">10.1f", "recall": ">8.1f", "F1": ">7.1f"}
    shown = ("model", "precision", "recall", "f1")
    yield from table_lines(columns, ([row[k] for k in shown] for row in report["brackets"]))


def _rna_text(report: list[dict[str, Any]]) -> Iterator[str]:
    done = [row for row in report if "error" not in row]
    bins = list(done[0]["by_length"])
    columns = {"model": "<16", "states": ">7", "precision": ">10.1f", "recall": ">8.1f",
               "F1": ">7.1f"} | {f"F1 {name}": ">11.1f" for name in bins}  # fmt: skip
    columns |= {"train CPU s": ">13.1f", "a CPU s": ">9.1f"}
    names = ("model", "states", "precision", "recall", "f1")
    yield from table_lines(
        columns,
        (
            [*(x[name] for name in names), *x["by_length"].values(), x["train_seconds"],
             x["per_second"]]
            for x in done
        ),
    )  # fmt: skip
    yield from (f"{row['model']}: {row['error']}" for row in report if "error" in row)


def _draw(path: Path, experiment: str, report: Any) -> None:
    if experiment == "random":
        x, y, labels = "samples", "kl", ("strings in the sample", "KL up to length 10")
    elif experiment == "dyck":
        x, y, labels = "factor", "l1_11", ("basis factor", "L1 up to length 11")
    else:
        echo("note: figures are drawn for random and dyck only")
        return
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in report:
        if row[x] == inf:  # no place on an axis
            continue
        curves.setdefault(row["method"], []).append((row[x], max(row[y], 1e-18)))
    _plot_curves(path, curves, *labels)


def _plot_curves(
    path: Path, curves: dict[str, list[tuple[float, float]]], xlabel: str, ylabel: str
) -> None:
    """Curves by name, on log-log scales."""
    figure, axes = canvas(xlabel, ylabel)
    for place, (name, points) in enumerate(curves.items()):
        marker = MARKERS[place % len(MARKERS)]
        axes.loglog(*zip(*sorted(points), strict=True), marker=marker, label=name)
    axes.legend(frameon=False)
    save(figure, path)
