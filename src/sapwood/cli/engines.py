"""`--engine`, `--scheduler` and `--on-disk`: where the work of a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sapwood.cli.console import echo
from sapwood.core.errors import count
from sapwood.progress import note, step

if TYPE_CHECKING:
    from sapwood.execute import Engine

EngineOption = Annotated[
    Literal["threads", "dask"] | None,
    typer.Option(
        help="Where the work runs: threads of this process, or processes of Dask, here or where "
        "--scheduler says (pip install distributed). Results do not depend on it. Not dask for "
        "one machine: threads share their memory.",
        show_default="threads, or dask with --scheduler",
    ),
]
StreamEngineOption = Annotated[
    Literal["processes", "threads", "dask"] | None,
    typer.Option(
        help="Where the work runs: forks of this process, which share its memory; its threads, "
        "which are slower for short sentences; or processes of Dask, here or where --scheduler "
        "says (pip install distributed). Results do not depend on it.",
        show_default="processes, or dask with --scheduler; threads where the system is not Linux",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the cluster of Dask whose scheduler listens there, such as "
        "tcp://10.0.0.1:8786; its workers need this version of Sapwood.",
    ),
]
OnDiskOption = Annotated[
    Path | None,
    typer.Option(
        "--on-disk",
        metavar="FOLDER",
        help="Keep trees, and what is made of them, in files in this folder while training: for "
        "treebanks larger than memory. Models are the same. Workers of Dask must reach the folder. "
        "Not for best and crf, which hold charts of all sentences.",
    ),
]


@contextmanager
def open_engine(
    name: str | None, scheduler: str | None, jobs: int, spill: Path | None = None
) -> Iterator[Engine]:
    """What `--engine`, `--scheduler` and `--jobs` ask for; closed at the end.

    What shards become is kept in `spill`, where it is given. Shards that are done are told to
    whoever listens to progress. At the end, stderr tells what a cluster was sent.
    """
    if name in ("threads", "processes") and scheduler:
        msg = "a scheduler is for --engine dask"
        raise typer.BadParameter(msg, param_hint="--scheduler")
    from sapwood.execute import Cluster, Processes, Threads

    if name == "dask" or scheduler:
        with step("starting workers" if scheduler is None else f"connecting to {scheduler}"):
            engine: Engine = Cluster(scheduler, jobs, spill=spill)
    else:
        engine = (Processes if name == "processes" else Threads)(jobs, spill=spill)
    with engine:
        engine.report = partial(note, unit="shard")
        yield engine
        if isinstance(engine, Cluster):
            sent = engine.traffic
            parts = {
                "placed": sent.placed, "sent to all": sent.common,
                "sent one by one": sent.streamed, "returned": sent.returned,
            }  # fmt: skip
            megabytes = (f"{what} {n / 1e6:,.1f} MB" for what, n in parts.items() if n)
            echo("  ".join([f"    dask: {count(engine.jobs, 'thread')}", *megabytes]))


@contextmanager
def open_folder(parent: Path | None) -> Iterator[Path | None]:
    """A folder in another for what a command works on, removed at the end; None for none."""
    if parent is None:
        yield None
        return
    from sapwood.core.outputs import working_folder

    folder = working_folder(parent, "sapwood-")
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)
