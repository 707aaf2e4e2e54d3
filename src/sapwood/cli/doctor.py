"""`sapwood doctor`: versions, threads, folders, and compiling the kernels ahead of time."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from sapwood.cli.console import FAILED, echo, print_json
from sapwood.cli.inputs import JsonOption

PACKAGES = ("numpy", "scipy", "numba", "safetensors", "typer", "rich", "pooch", "conllu")
MISSING = "missing"

EPILOG = """\b
Examples:
  sapwood doctor
  sapwood doctor --warm      so that every command starts at once
"""


def doctor(
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Compile all kernels now and keep them, instead of when they are first needed; "
            "up to a minute the first time.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what Sapwood runs on: versions, threads, where kernels and corpora are kept.

    Exits with 1 when a package that Sapwood needs is missing.
    """
    report = checkup()
    is_healthy = MISSING not in report["packages"].values()
    if warm and is_healthy:
        report |= _warm()
    if as_json:
        print_json(report)
    else:
        print(_text(report))
    if not is_healthy:
        echo("error: a package is missing")
        echo("hint: pip install --force-reinstall sapwood")
        raise typer.Exit(FAILED)


def checkup() -> dict[str, Any]:
    """Everything the command reports, as plain data."""
    from sapwood import __version__
    from sapwood.execute import resolve_jobs

    return {
        "sapwood": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "threads": resolve_jobs(None),
        "cores": os.cpu_count(),
        "kernel_cache": _folder(_kernel_cache()),
        "data": _folder(_data_folder()),
    }


def _warm() -> dict[str, Any]:
    """Load every kernel, compiling those that were not; what it took."""
    from sapwood.cli.compiling import notice
    from sapwood.cli.warming import every_kernel, warm_up

    started = perf_counter()
    notice.total = len(every_kernel())
    warm_up()
    return {
        "warm_seconds": round(perf_counter() - started, 3), "kernels": notice.total,
        "compiled": sum(bool(kernel.stats.cache_misses) for kernel in every_kernel()),
    }  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING


def _kernel_cache() -> Path | None:
    """Where Numba keeps what it compiled; None where it cannot say."""
    try:
        from sapwood.kernels import coarse
    except ImportError:
        return None
    stats = getattr(coarse.fill, "stats", None)  # absent when compiling is switched off
    return Path(stats.cache_path) if stats and stats.cache_path else None


def _data_folder() -> Path | None:
    try:
        from sapwood.corpus.fetch import default_folder

        return default_folder()
    except ImportError:
        return None


def _folder(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {"folder": None, "exists": False, "writable": False}
    nearest = next((p for p in (path, *path.parents) if p.exists()), path)
    return {
        "folder": str(path),
        "exists": path.is_dir(),
        "writable": nearest.is_dir() and os.access(nearest, os.W_OK),
    }


def _text(report: dict[str, Any]) -> str:
    lines = [f"sapwood       {report['sapwood']}"]
    lines.append(f"python        {report['python']}  ({report['platform']})")
    lines += [f"{name:<14}{found}" for name, found in report["packages"].items()]
    lines.append(f"threads       {report['threads']} of {report['cores']} cores")
    lines.append(f"kernel cache  {_folder_text(report['kernel_cache'])}")
    lines.append(f"data folder   {_folder_text(report['data'])}")
    if "warm_seconds" in report:
        lines.append(
            f"kernels       {report['kernels']} ready after {report['warm_seconds']:.1f} s, "
            f"{report['compiled']} of them compiled now"
        )
    return "\n".join(lines)


def _folder_text(folder: dict[str, Any]) -> str:
    if folder["folder"] is None:
        return "unknown"
    state = "writable" if folder["writable"] else "NOT writable: nothing can be kept there"
    return f"{folder['folder']}  ({state}{'' if folder['exists'] else ', not made yet'})"
