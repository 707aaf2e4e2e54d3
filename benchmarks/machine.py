"""What all benchmarks share: the machine's facts, its limits, timers, memory, corpora, tables.

Import this module before NumPy: it pins BLAS to one thread, so that CPU seconds mean what they say.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import importlib.util
import json
import platform
import resource
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if importlib.util.find_spec("sapwood") is None:  # a checkout that is not installed
    sys.path.insert(0, str(ROOT / "src"))

CORPORA = {"ptb": "ptb_nltk_sample", "craft": "craft", "icepahc": "icepahc"}
_GEMM_SIZE = 768
_LARGE_COPY = 1 << 28  # bytes: far beyond any cache
_SMALL_COPY = 1 << 19  # bytes: source and target fit a 1 MB second-level cache together


# -- corpora --------------------------------------------------------------------------------------


def corpus_file(corpus: str, split: str, ending: str = "mrg") -> Path:
    """File of a corpus (`ptb`, `craft`, a folder) and split in the folder SAPWOOD_DATA names."""
    folder = os.environ.get("SAPWOOD_DATA")
    if not folder:
        sys.exit("SAPWOOD_DATA is not set: name the folder that holds ptb_nltk_sample/ and craft/")
    name = CORPORA.get(corpus, corpus)
    path = Path(folder) / name / f"{split}.{ending}.xz"
    if not path.exists():
        sys.exit(f"{path} is missing: SAPWOOD_DATA must name the folder above {name}/")
    return path


def gold_trees(corpus: str, split: str, limit: int | None = None) -> list[Any]:
    """Cleaned trees of a split, the first `limit` of them."""
    from itertools import islice

    import sapwood as sw
    from sapwood.corpora.tree import clean_all

    return list(islice(clean_all(sw.read_trees(corpus_file(corpus, split))), limit))


# -- timers and memory ----------------------------------------------------------------------------


class Seconds(NamedTuple):
    """CPU seconds of several runs of the same thing."""

    least: float
    median: float

    def __str__(self) -> str:
        return f"{self.least:.3f} / {self.median:.3f}"


class Clock:
    """CPU and wall seconds of a `with` block: `cpu` of the process, `thread` of this thread."""

    def __enter__(self) -> Clock:
        self._start = process_time(), thread_time(), perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        now = process_time(), thread_time(), perf_counter()
        self.cpu, self.thread, self.wall = (b - a for a, b in zip(self._start, now, strict=True))


def cpu_of_all() -> tuple[float, float]:
    """CPU seconds of this process, and of those it started that have ended."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, theirs = (usage.ru_utime + usage.ru_stime for usage in found)
    return own, theirs


def seconds_of(task: Callable[[], object], repeats: int = 3) -> Seconds:
    """Least and median CPU seconds of a task."""
    times = []
    for _ in range(repeats):
        with Clock() as clock:
            task()
        times.append(clock.cpu)
    return summary(times)


def summary(times: Iterable[float]) -> Seconds:
    """Least and median of measured seconds."""
    times = list(times)
    return Seconds(min(times), statistics.median(times))


def peak_mb() -> float:
    """Largest resident memory of this process since its start or since `forget_peak`, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def forget_peak() -> None:
    """Let `peak_mb` count from here on; where the system cannot, it counts from the start."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


# -- the machine ----------------------------------------------------------------------------------


def gemm_gflops() -> float:
    """Rate of one-thread float64 matrix products: the practical limit of multiply-adds."""
    a, b = np.random.default_rng(0).random((2, _GEMM_SIZE, _GEMM_SIZE))
    out = np.empty_like(a)
    best = min(_thread_seconds(lambda: np.matmul(a, b, out=out)) for _ in range(7))
    return 2 * _GEMM_SIZE**3 / best / 1e9


def copy_gbs(n_bytes: int = _LARGE_COPY) -> float:
    """Bytes read and written per second by a copy, in GB/s; by default too large for caches."""
    source, target = np.ones(n_bytes // 16), np.zeros(n_bytes // 16)
    loops = max(1, (_LARGE_COPY >> 2) // n_bytes)

    def copy() -> None:
        for _ in range(loops):
            np.copyto(target, source)

    copy()
    return n_bytes * loops / min(_thread_seconds(copy) for _ in range(5)) / 1e9


def cached_copy_gbs() -> float:
    """The same for arrays that stay in the second-level cache."""
    return copy_gbs(_SMALL_COPY)


def _thread_seconds(task: Callable[[], object]) -> float:
    start = thread_time()
    task()
    return thread_time() - start


def cpu_model() -> str:
    """Name of the processor as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def n_cores() -> int:
    """Cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def facts() -> dict[str, Any]:
    """What numbers were measured on."""
    versions = {name: _version(name) for name in ("numpy", "numba", "scipy")}
    python = platform.python_version()
    return {"processor": cpu_model(), "cores": n_cores(), "python": python, **versions}


def print_facts(title: str, threads: int = 1) -> None:
    """Print what the numbers below were measured on; under load they are lower."""
    found = facts()
    versions = ", ".join(f"{name} {found[name]}" for name in ("numpy", "numba", "scipy"))
    print(f"## {title}\n")
    print(f"{found['processor']}, {found['cores']} cores; Python {found['python']}, {versions}")
    print(f"threads used: {threads}; load average at start: {os.getloadavg()[0]:.1f}\n", flush=True)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


# -- tables ---------------------------------------------------------------------------------------


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a Markdown table, first column left, the others right.

    `run_all.py` gets it as JSON too: a line a table in the file that `SAPWOOD_TABLES` names.
    """
    print("| " + " | ".join(header) + " |")
    print("|---|" + "---:|" * (len(header) - 1))
    cells = []
    for row in rows:
        cells.append([str(cell) for cell in row])
        print("| " + " | ".join(cells[-1]) + " |", flush=True)
    print(flush=True)
    if path := os.environ.get("SAPWOOD_TABLES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"header": list(header), "rows": cells}) + "\n")


if __name__ == "__main__":
    print_facts("Machine")
    print_table(
        ("limit of one thread", "value"),
        [
            (f"float64 GEMM {_GEMM_SIZE} x {_GEMM_SIZE}, GFlop/s", f"{gemm_gflops():.1f}"),
            ("copy in memory (read + write), GB/s", f"{copy_gbs():.1f}"),
            ("copy in second-level cache (read + write), GB/s", f"{cached_copy_gbs():.1f}"),
        ],
    )
