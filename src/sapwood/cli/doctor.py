"""`sapwood doctor`: versions, threads, folders, and compiling the kernels ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import FAILED, echo
from sapwood.cli.reports import fact_lines, show
from sapwood.constituency.report.training import MISSING, checkup

DOCTOR_EPILOG = """\b
Examples:
  sapwood doctor
  sapwood doctor --warm      so that every command starts at once
"""


def show_installation(
    warm: bool = typer.Option(
        False,
        "--warm",
        help="Compile all kernels now and keep them, instead of when they are first needed; "
        "one to two minutes the first time.",
    ),
    as_json: opt.Json = False,
) -> None:
    """Show versions, threads, and the folders of kernels and corpora.

    Exits with 1 when a package that Sapwood needs is missing.
    """
    report = checkup()
    is_healthy = MISSING not in report["packages"].values()
    if warm and is_healthy:
        report |= _warm()
    show(report, _text, as_json=as_json)
    if not is_healthy:
        echo("error: a package is missing")
        echo("hint: pip install --force-reinstall sapwood")
        raise typer.Exit(FAILED)


def _warm() -> dict[str, Any]:
    """Load every kernel, compiling where needed, and report time and numbers."""
    from sapwood.cli.console import notice
    from sapwood.cli.warming import every_kernel, warm_up

    started = perf_counter()
    notice.total = len(every_kernel())
    warm_up()
    return {
        "warm_seconds": round(perf_counter() - started, 3),
        "kernels": notice.total,
        "compiled": sum(bool(kernel.stats.cache_misses) for kernel in every_kernel()),
    }


def _text(report: dict[str, Any]) -> Iterator[str]:
    facts = {
        "sapwood": report["sapwood"],
        "python": f"{report['python']}  ({report['platform']})",
        **report["packages"],
        "threads": f"{report['threads']} of {report['cores']} core{'s' * (report['cores'] != 1)}",
        "kernel cache": _folder_text(report["kernel_cache"]),
        "data folder": _folder_text(report["data"]),
    }
    if "warm_seconds" in report:
        facts["kernels"] = (
            f"{report['kernels']} ready after {report['warm_seconds']:.1f} s, "
            f"{report['compiled']} of them compiled now"
        )
    return fact_lines(facts, 14)


def _folder_text(folder: dict[str, Any]) -> str:
    if folder["folder"] is None:
        return "unknown"
    state = "writable" if folder["writable"] else "NOT writable: nothing can be kept there"
    return f"{folder['folder']}  ({state}{'' if folder['exists'] else ', not made yet'})"
