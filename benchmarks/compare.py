"""Say what changed between two runs of `make bench`, beyond noise.

    python benchmarks/compare.py OLD.json NEW.json
    make bench OLD=OLD.json                         run, then compare

Times, speeds and memory vary from run to run: they must differ by more than `--noise` and
`--memory-noise`. Everything else (F1, counts, sizes) is the same every time on one machine, and
must differ by more than `--accuracy`. Times of two machines are not compared.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

# Units of columns: seconds, rates and ratios of them; bytes.
_TIME = re.compile(
    r"\b(m?s|seconds?|CPU|wall|GFlop|fast|ratio|rate|of GEMM|threads?)\b|/s\b|^\d+ words$"
)
_MEMORY = re.compile(r"\b[MG]B\b(?!/s)")


class Limits(NamedTuple):
    """How much of a difference is noise: shares of the old value, and an absolute one."""

    noise: float = 0.10
    memory: float = 0.05
    accuracy: float = 0.02


class Change(NamedTuple):
    """A number that is another one now."""

    name: str
    old: float
    new: float

    def __str__(self) -> str:
        share = f"{self.new / self.old - 1:+.1%}" if self.old else "from 0"
        return f"{self.name}: {self.old:g} -> {self.new:g} ({share})"


def is_time(name: str) -> bool:
    """Whether a number depends on how fast the machine is.

    Examples
    --------
    >>> is_time("em 16 | train, s"), is_time("plain | sentences/s"), is_time("plain | F1")
    (True, True, False)
    """
    column = name.rpartition(" | ")[2]
    return bool(_TIME.search(column)) and not _MEMORY.search(column)


def has_changed(name: str, old: float, new: float, limits: Limits) -> bool:
    """Whether two values of a number differ by more than noise.

    Examples
    --------
    >>> has_changed("plain | CPU s", 1.0, 1.05, Limits())
    False
    >>> has_changed("plain | F1", 80.0, 80.05, Limits())
    True
    """
    difference, size = abs(new - old), max(abs(old), abs(new))
    if is_time(name):
        return difference > limits.noise * size
    if _MEMORY.search(name.rpartition(" | ")[2]):
        return difference > limits.memory * size
    return difference > limits.accuracy


def changes(old: dict[str, Any], new: dict[str, Any], limits: Limits) -> list[Change]:
    """The numbers of both runs that differ by more than noise, by name."""
    is_same = old["machine"]["processor"] == new["machine"]["processor"]
    found = []
    for script, after in new["benchmarks"].items():
        before = old["benchmarks"].get(script, {})
        found += [
            Change(f"{script}: {name}", before[name], after[name])
            for name in before.keys() & after.keys()
            if (is_same or not is_time(name))
            and has_changed(name, before[name], after[name], limits)
        ]
    return sorted(found)


def one_sided(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Numbers that only one of the runs has."""
    names = [
        {f"{script}: {name}" for script, numbers in run["benchmarks"].items() for name in numbers}
        for run in (old, new)
    ]
    gone = [f"only in the old run: {name}" for name in sorted(names[0] - names[1])]
    return gone + [f"only in the new run: {name}" for name in sorted(names[1] - names[0])]


def read(path: Path) -> dict[str, Any]:
    """A run, as `run_all.py` writes it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        _ = found["machine"]["processor"], found["benchmarks"].items(), found["commit"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        sys.exit(f"error: {path} is no file of `make bench`: {error}")
    return dict(found)


def main() -> None:
    """Compare two files."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("old", type=Path)
    options.add_argument("new", type=Path)
    usual = Limits()
    options.add_argument("--noise", type=float, default=usual.noise, help="share, of times")
    options.add_argument("--memory-noise", type=float, default=usual.memory, help="share")
    options.add_argument("--accuracy", type=float, default=usual.accuracy, help="absolute")
    given = options.parse_args()
    old, new = read(given.old), read(given.new)
    print(f"{old['commit']} -> {new['commit']}")
    if old["machine"] != new["machine"]:
        print(f"other machines or versions: {old['machine']} -> {new['machine']}")
    found = changes(old, new, Limits(given.noise, given.memory_noise, given.accuracy))
    for line in [*map(str, found), *one_sided(old, new)]:
        print(line)
    n = sum(len(numbers) for numbers in new["benchmarks"].values())
    print(f"{len(found)} of {n} numbers changed beyond noise")


if __name__ == "__main__":
    main()
