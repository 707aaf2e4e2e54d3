"""`python -m tests.fuzz`: give every reader of Sapwood spoilt input, and keep what breaks it.

A reader may return a result or raise a `SapwoodError`. Any other exception, a crash, more than 5 s
or 2 GiB for one small input is a finding. Findings go to `build/fuzz`, each with its input, the
smallest input that does the same, and where it happened; `--reader NAME --replay FILE` shows one.
Input N of a seed is the same everywhere. A finding that is fixed becomes an ordinary test beside
the code. A new reader is a line in `readers.py`: how an input is made (mostly `spoilt` of a right
one from `seeds.py`), a function that reads it, and its part of a thousand inputs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
import warnings
from pathlib import Path
from time import monotonic

from tests.fuzz.hunt import PATIENCE, Room, Tally, hunt, keep, portions
from tests.fuzz.readers import READERS, Reader


def main() -> int:
    """Run as the arguments say; status 1 when something was found."""
    options = _options()
    chosen = {
        name: reader
        for name, reader in READERS.items()
        if _is_called(name, options.reader) and not any(_is_called(name, x) for x in options.skip)
    }
    if not chosen:
        print(f"no reader is called {options.reader}; there are {', '.join(READERS)}")
        return 2
    if options.replay:
        return _replay(next(iter(chosen.values())), options.replay)
    tallies = _hunt(chosen, options)
    if options.json:
        print(json.dumps([tally.as_dict() for tally in tallies], indent=1))
    else:
        print("\n".join(_table(tallies)))
    return int(any(tally.findings for tally in tallies))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="over all readers")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", help="this one, or all that start so: model, brackets.gz")
    parser.add_argument("--skip", action="append", default=[], help="not these, likewise")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="to make findings smaller")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="put them here")
    parser.add_argument("--replay", type=Path, help="read this input with --reader, in the open")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _is_called(name: str, start: str | None) -> bool:
    return start is None or name == start or name.startswith(f"{start}.")


def _hunt(chosen: dict[str, Reader], options: argparse.Namespace) -> list[Tally]:
    warnings.simplefilter("ignore")
    started = monotonic()
    tallies = {name: Tally(name) for name in chosen}
    shares = {name: reader.share for name, reader in chosen.items()}
    room = Room()
    try:
        for reader in chosen.values():
            reader.read(reader.make(random.Random(0), 0), room.folder)  # compiles, and must work
        for name, numbers in portions(shares, options.inputs, at_once=20_000):
            if monotonic() - started > options.seconds:
                break
            known = set(tallies[name].findings)
            hunt(chosen[name], options.seed, numbers, tallies[name], room)
            for what, finding in tallies[name].findings.items():
                if what not in known:
                    place = keep(finding, chosen[name], options.seed, room, options.findings,
                                 options.patience)  # fmt: skip
                    print(f"{name}: {what}, in {place}", file=sys.stderr, flush=True)
    finally:
        room.close()
    return list(tallies.values())


def _table(tallies: list[Tally]) -> list[str]:
    rows = [f"{'reader':<20}{'inputs':>10}{'taken':>10}{'refused':>10}{'found':>7}{'a second':>10}"]
    for tally in tallies:
        rate = tally.n_inputs / tally.seconds if tally.seconds else 0.0
        figures = f"{tally.n_inputs:>10,}{tally.taken:>10,}{tally.refused:>10,}"
        rows.append(f"{tally.reader:<20}{figures}{len(tally.findings):>7}{rate:>10,.0f}")
    total, seconds = sum(t.n_inputs for t in tallies), sum(t.seconds for t in tallies)
    rows.append(f"{total:,} inputs in {seconds:,.0f} s")
    for tally in tallies:
        rows += [f"{f.reader}: {f.what} ({f.times} times)" for f in tally.findings.values()]
    return rows


def _replay(reader: Reader, path: Path) -> int:
    room = Room()
    try:
        reader.read(path.read_bytes(), room.folder)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        room.close()
    print("taken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
