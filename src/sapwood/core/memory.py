"""How much memory there is, and the refusal of work that needs more."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sapwood.core.errors import SapwoodError

UNKNOWN_SYSTEM = 8 << 30  # bytes assumed where the system reports nothing
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that this process can still take.

    The least of what the machine has left, what the container has left, and what `ulimit -v`
    leaves.
    """
    found = [_machine_memory(), _container_memory(), _process_memory()]
    return max(0, min((n for n in found if n is not None), default=UNKNOWN_SYSTEM))


def require_memory(needed: float, work: str, hint: str) -> None:
    """Refuse work before it starts when it needs more memory than there is.

    Parameters
    ----------
    needed
        Bytes.
    work
        The work, as the subject of the message.
    hint
        What the user can do instead.

    Raises
    ------
    SapwoodError
        With both numbers.
    """
    free = available_memory()
    if needed > free:
        gigabytes, left = f"{needed / 1e9:,.1f} GB", f"{free / 1e9:,.1f} GB"
        msg = f"{work} needs about {gigabytes} of memory, and {left} are free"
        raise SapwoodError(msg, hint=hint)


def _machine_memory() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return None


def _container_memory() -> int | None:
    with suppress(OSError, ValueError):
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit != "max":
            used = int((_CGROUP / "memory.current").read_text())
            cached = 0  # pages of files, which the system gives back when it needs them
            for line in (_CGROUP / "memory.stat").read_text().splitlines():
                if line.startswith("inactive_file "):
                    cached = int(line.split()[1])
            return int(limit) - used + cached
    return None


def _process_memory() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError):
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    return limit
