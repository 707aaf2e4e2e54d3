"""Clocks and memory of a run."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time


class Meter:
    """Wall-clock and processor seconds since it was made, and the peak memory of the process."""

    def __init__(self) -> None:
        self._wall = perf_counter()
        self._cpu = process_time()

    def as_dict(self) -> dict[str, float | None]:
        """The report's keys `seconds`, `cpu_seconds` (all threads) and `peak_memory_mb`."""
        return {
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(process_time() - self._cpu, 3),
            "peak_memory_mb": peak_memory_mb(),
        }

    @property
    def seconds(self) -> float:
        """Wall-clock seconds so far."""
        return perf_counter() - self._wall


def peak_memory_mb() -> float | None:
    """The most memory this process has held, in MB; None where the platform does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1024**2 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def reset_peak_memory() -> None:
    """Let the peak start again from what is held now, where the system can (Linux)."""
    with suppress(OSError):  # elsewhere it stays the peak of the process so far
        Path("/proc/self/clear_refs").write_text("5")
