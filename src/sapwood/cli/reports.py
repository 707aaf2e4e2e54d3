"""Shows reports: JSON for machines; facts, tables and figures for people."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sapwood.cli.options import FIGURE_NAMES, FIGURE_SUFFIXES
from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import Input, check_output, write_bytes
from sapwood.report import to_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sapwood.core.arrays import SignedLog


_Report = TypeVar("_Report")
_FORM = re.compile(r"( *)([<>]\d+)(.*)")  # blanks before a cell, its room, how numbers are written


def show(report: _Report, lines: Callable[[_Report], Iterable[str]], *, as_json: bool) -> None:
    """Write a report on stdout, for machines or for people."""
    print(to_json(report, indent=2) if as_json else "\n".join(lines(report)))


def score_text(weight: SignedLog, *, is_probabilistic: bool) -> str:
    """The logarithm of a weight, and after a tab its sign if weights are no probabilities."""
    sign = "" if is_probabilistic else "\t" + {1: "+", -1: "-", 0: "0"}[weight.sign]
    return f"{weight.log:.6f}{sign}"


def fact_lines(facts: Mapping[str, object], room: int, indent: str = "") -> Iterator[str]:
    """Lines with a name in a column of `room` characters, and its value.

    Examples
    --------
    >>> list(fact_lines({"trees": 3, "words": 21}, 8))
    ['trees   3', 'words   21']
    """
    return (f"{indent}{name:<{room}}{value}" for name, value in facts.items())


def table_lines(columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    r"""A table with titles, and a format for each column; cells that are texts are only padded.

    Examples
    --------
    >>> columns = {"label": "<8", "count": ">7,", "share": ">8.1%"}
    >>> print(*table_lines(columns, [("NP", 1200, 0.25), ("QP", 3, "-")]), sep="\n")
    label     count   share
    NP        1,200   25.0%
    QP            3       -
    """
    forms = [found.groups() for form in columns.values() if (found := _FORM.fullmatch(form))]
    for row in (tuple(columns), *rows):
        yield "".join(
            gap + format(cell, room if isinstance(cell, str) else room + number)
            for cell, (gap, room, number) in zip(row, forms, strict=True)
        ).rstrip()


def more_line(n: int, top: int, what: str = "", *, indent: str = "", see: str = "") -> list[str]:
    """The line below the first `top` of n rows that says how many more there are.

    Examples
    --------
    >>> more_line(12, 10), more_line(10, 10), more_line(11, 10, "rarer label", see="--json")
    (['... and 2 more (--top, --json)'], [], ['... and 1 rarer label (--json)'])
    """
    if n <= top:
        return []
    left = count(n - top, what) if what else f"{n - top:,} more"
    return [f"{indent}... and {left} ({see or '--top, --json'})"]


def name_some(names: Iterable[str], top: int, separator: str = ", ") -> str:
    """The first names, and whether there are more.

    Examples
    --------
    >>> name_some("abc", 5), name_some("abcdef", 3)
    ('a, b, c', 'a, b, c, ...')
    """
    first = list(islice(names, top + 1))
    return separator.join([*first[:top], "..."] if len(first) > top else first)


def number_text(value: object) -> str:
    """A number with thousands separators; other values as plain text."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


MARKERS = "osD^vPX*<>"
MAX_CURVES = 10  # more labels than colours cannot be distinguished


def check_plot(path: Path, inputs: Iterable[Input], *, force: bool) -> None:
    """Refuse, before any work is done, a figure that could not be drawn or written."""
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        msg = f"{path}: a figure's name must end in one of {FIGURE_NAMES}"
        raise SapwoodError(msg, hint=f"for example {path.with_suffix('.png')}")
    check_output(path, inputs=inputs, force=force)
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = "figures need Matplotlib, which is not installed"
        raise SapwoodError(msg, hint="pip install matplotlib") from error


def plot_f1(path: Path, rows: list[dict[str, Any]], *, has_states: Sequence[bool]) -> None:
    """F1 against the number of states, a line per method; methods without states are levels."""
    figure, axes = make_figure("hidden states of a label (m)", "F1 on the dev trees (percent)")
    curves: dict[str, list[tuple[int, float]]] = {}
    levels: dict[str, float] = {}
    for row, is_curve in zip(rows, has_states, strict=True):
        if is_curve:
            curves.setdefault(row["method"], []).append((row["states"], row["f1"]))
        else:
            levels[row["method"]] = row["f1"]
    for place, (name, points) in enumerate(curves.items()):
        marker = MARKERS[place % len(MARKERS)]
        axes.plot(*zip(*sorted(points), strict=True), marker=marker, label=name)
    for place, (name, f1) in enumerate(levels.items()):
        style = ("--", ":", "-.")[place % 3]
        axes.axhline(f1, linestyle=style, color="0.35", label=f"{name} (no hidden states)")
    ticks = sorted({m for points in curves.values() for m, _ in points})
    if ticks:
        axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.margins(y=0.15)
    axes.legend(frameon=False)
    save_figure(figure, path)


def plot_spectrum(path: Path, rows: list[dict[str, Any]]) -> None:
    """Singular values against their rank, a line per label, with the last state used marked."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    figure, axes = make_figure("rank of the singular value", "singular value (log scale)")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))  # 0.5, not 5 x 10^-1
    axes.yaxis.set_minor_locator(NullLocator())
    for place, row in enumerate(rows[:MAX_CURVES]):
        label = row["symbol"].replace("$", r"\$")  # the tag of dollars is no formula
        # zeros, which a logarithm cannot show, end the line
        values = [value for value in row["singular_values"] if value > 0]
        x, m = range(1, len(values) + 1), row["states"]
        (line,) = axes.plot(x, values, marker=".", label=label, color=f"C{place % 10}")
        if m <= len(values):
            last = [m], [values[m - 1]]
            axes.plot(*last, "o", markersize=10, markerfacecolor="none", color=line.get_color())
    axes.plot([], [], "o", markersize=10, markerfacecolor="none", color="0.35", label="m(a)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0.5)
    axes.legend(frameon=False, bbox_to_anchor=(1.01, 1.0), loc="upper left")
    axes.set_title("circles: m(a), the last of the singular values that is a state", fontsize=10)
    save_figure(figure, path)


def plot_reliability(path: Path, found: dict[str, Any]) -> None:
    """Plot the fraction of correct phrases against their probability, and their numbers below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 6.5), dpi=150, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    bins = found["bins"]
    full = [one for one in bins if one["count"]]
    p, correct = [one["probability"] for one in full], [one["correct"] for one in full]
    # Two standard errors of a binomial proportion with this probability.
    spread = [2 * (x * (1 - x) / one["count"]) ** 0.5 for x, one in zip(p, full, strict=True)]
    upper.plot([0, 1], [0, 1], "--", color="0.35", label="calibrated")
    label = "correct, with two standard errors"
    upper.errorbar(p, correct, yerr=spread, marker="o", capsize=3, label=label)
    upper.set_ylabel("share of phrases that are correct")
    figures = f"ECE {found['ece']:.3f}, Brier score {found['brier']:.3f}"
    upper.set_title(f"{found['count']:,} phrases: {figures}", fontsize=10)
    upper.legend(frameon=False, loc="upper left")
    counts, edges = [one["count"] for one in bins], [one["low"] for one in bins]
    bars = lower.bar(edges, counts, bins[0]["high"], align="edge", edgecolor="white")
    lower.bar_label(bars, [f"{n:,}" for n in counts], fontsize=7, padding=1)
    lower.margins(y=0.2)
    lower.set_ylabel("phrases")
    lower.set_xlabel("probability of the phrase")
    for axes in (upper, lower):
        axes.set_xlim(0, 1)
        axes.grid(alpha=0.3)
    upper.set_ylim(0, 1.02)
    save_figure(figure, path)


def make_figure(xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    """A figure of its own, without pyplot: no global state, no window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    return figure, axes


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that its name says."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lower()[1:])
    write_bytes(path, buffer.getvalue(), force=True)  # asked for when the plot was checked
