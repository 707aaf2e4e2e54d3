"""The hunt: inputs are read in a child process, so that a crash, a hang or a flood ends only it.

The child notes the number of each input in shared memory before it reads it. When the child dies,
its parent knows by which input, keeps that, and goes on behind it with another child.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import mmap
import os
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, sleep

from tests.fuzz.readers import Reader, input_of

from sapwood.core.errors import SapwoodError

CPU_SECONDS = 5.0  # of one input: more is a hang
WALL_SECONDS = 60.0  # likewise, without any CPU time: the process waits for something
MEMORY = 2 << 30  # bytes that reading may add to what the process has when it starts
PATIENCE = 60.0  # seconds for making the input of a finding smaller
_COUNTS = struct.Struct("<qqq")  # the number of the input being read; how many were taken, refused
_SOURCE = f"{os.sep}sapwood{os.sep}"
_BORDER = re.compile(r"core.(jit|compiling)\.py")  # through which every kernel is called


@dataclass
class Finding:
    """An input that did something else than give a result or be refused.

    Attributes
    ----------
    what
        The exception or signal, and the place in Sapwood: equal findings are one.
    """

    reader: str
    index: int
    what: str
    detail: str
    times: int = 1


@dataclass
class Tally:
    """What became of the inputs of a reader."""

    reader: str
    taken: int = 0
    refused: int = 0
    seconds: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def n_bad(self) -> int:
        """Inputs that gave a finding."""
        return sum(finding.times for finding in self.findings.values())

    @property
    def n_inputs(self) -> int:
        """Inputs that were read."""
        return self.taken + self.refused + self.n_bad

    def add(self, finding: Finding) -> None:
        """Count a finding, new or known."""
        known = self.findings.setdefault(finding.what, finding)
        known.times += known is not finding

    def as_dict(self) -> dict[str, object]:
        """For a report."""
        return asdict(self) | {
            "inputs": self.n_inputs,
            "findings": [asdict(found) for found in self.findings.values()],
        }


class Room:
    """Shared memory in which a child says what it is doing, and a folder to work in."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")  # inputs are written and read a million times
        self.folder = Path(
            tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None)
        )
        self.shared = mmap.mmap(-1, _COUNTS.size)
        self.log = self.folder / "log"

    def counts(self) -> tuple[int, int, int]:
        """The input being read, and how many were taken and refused."""
        return _COUNTS.unpack(self.shared[: _COUNTS.size])

    def note(self, index: int, taken: int, refused: int) -> None:
        """Set them."""
        self.shared[: _COUNTS.size] = _COUNTS.pack(index, taken, refused)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def hunt(reader: Reader, seed: int, numbers: range, tally: Tally, room: Room) -> None:
    """Read the inputs of these numbers and add up what became of them."""
    started = monotonic()
    while numbers:
        room.note(numbers.start - 1, 0, 0)
        status = in_child(room, lambda numbers=numbers: _read_all(reader, seed, numbers, room))
        index, taken, refused = room.counts()
        tally.taken += taken
        tally.refused += refused
        for line in _log(room):
            if line.startswith("{"):
                tally.add(Finding(**json.loads(line)))
        if status:
            tally.add(_death(reader, index, status, room))
        numbers = range(index + 1, numbers.stop)
    tally.seconds += monotonic() - started


def in_child(room: Room, work: Callable[[], None]) -> int:
    """Do some work in another process, watched; how it ended, as `os.waitpid` says it."""
    room.log.write_bytes(b"")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            _confine(room)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return _watch(child, room)


def _confine(room: Room) -> None:
    log = os.open(room.log, os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, stream)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    faulthandler.enable(sys.stderr)
    # Says where it hangs; then the signal ends the process, as it does by default.
    faulthandler.register(signal.SIGPROF, sys.stderr, chain=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")


def _watch(child: int, room: Room) -> int:
    """Wait for a child; end it when it has been waiting too long over one input."""
    last, since = (room.counts()[0], _cpu_ticks(child)), monotonic()
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        now = room.counts()[0], _cpu_ticks(child)  # which grow on a busy machine, but slowly
        if now != last:
            last, since = now, monotonic()
        elif monotonic() - since > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
        sleep(pause)
        pause = min(2 * pause, 0.1)


def _cpu_ticks(process: int) -> int:
    """Ticks of CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _read_all(reader: Reader, seed: int, numbers: range, room: Room) -> None:
    taken = refused = 0
    for index in numbers:
        room.note(index, taken, refused)
        data = input_of(reader, seed, index)
        try:
            outcome = _read_one(reader, data, room)
        except Exception as error:
            print(json.dumps(_fault(reader, index, error)), file=sys.stderr)
        else:
            taken += outcome
            refused += not outcome
    room.note(numbers.stop - 1, taken, refused)


def _read_one(reader: Reader, data: bytes, room: Room) -> bool:
    """Whether an input was taken, not refused."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        status = reader.read(data, room.folder)
    except SapwoodError as error:
        if "\n" in str(error):
            raise ValueError(f"an error of several lines: {str(error)!r}") from error
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return not status


def _fault(reader: Reader, index: int, error: Exception) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _SOURCE in frame.filename]
    last = (ours or list(frames))[-1]
    place = f"{Path(last.filename).name}:{last.lineno} {last.name}"
    text = "".join(traceback.format_exception(error, limit=-12))[-4000:]
    return asdict(Finding(reader.name, index, f"{type(error).__name__} at {place}", text))


def _death(reader: Reader, index: int, status: int, room: Room) -> Finding:
    """The finding of an input that ended its process."""
    names = {signal.SIGPROF: "hang", signal.SIGKILL: "waits for ever"}
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        how = names.get(signal.Signals(number), signal.Signals(number).name)
    else:
        how = f"exit {os.WEXITSTATUS(status)}"
    lines = [line for line in _log(room) if not line.startswith("{")]
    ours = (line.strip() for line in lines if _SOURCE in line and not _BORDER.search(line))
    place = next(ours, "")
    return Finding(reader.name, index, f"{how} at {place}", "\n".join(lines[-40:]))


def _log(room: Room) -> list[str]:
    return room.log.read_text(errors="replace").splitlines()


# -- findings -------------------------------------------------------------------------------------


def keep(
    finding: Finding, reader: Reader, seed: int, room: Room, folder: Path, patience: float
) -> Path:
    """Save a finding: the input, the smallest one that does the same, and what happened."""
    digest = hashlib.sha256(finding.what.encode()).hexdigest()[:8]
    place = folder / f"{finding.reader}-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    data = input_of(reader, seed, finding.index)
    (place / "input").write_bytes(data)
    (place / "smallest").write_bytes(smallest(finding, reader, seed, room, patience))
    about = f"{finding.what}\nreader {finding.reader}, seed {seed}, input {finding.index}\n"
    (place / "report.txt").write_text(f"{about}\n{finding.detail}\n", encoding="utf-8")
    return place


def smallest(
    finding: Finding, reader: Reader, seed: int, room: Room, patience: float = PATIENCE
) -> bytes:
    """Fewer edits, then fewer bytes, for as long as the same is found."""

    def is_same(data: bytes) -> bool:
        room.note(finding.index, 0, 0)
        status = in_child(room, lambda: _report_one(reader, data, finding.index, room))
        found = [json.loads(line)["what"] for line in _log(room) if line.startswith("{")]
        if status:
            found.append(_death(reader, finding.index, status, room).what)
        return finding.what in found

    until = monotonic() + patience
    fewer = (input_of(reader, seed, finding.index, n) for n in (1, 2))
    data = next(filter(is_same, fewer), input_of(reader, seed, finding.index))
    size = len(data) // 2
    while size and monotonic() < until:
        at = 0
        while at < len(data) and monotonic() < until:
            shorter = data[:at] + data[at + size :]
            if is_same(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _report_one(reader: Reader, data: bytes, index: int, room: Room) -> None:
    try:
        _read_one(reader, data, room)
    except Exception as error:
        print(json.dumps(_fault(reader, index, error)), file=sys.stderr)


def portions(shares: dict[str, int], n_inputs: int, at_once: int) -> Iterator[tuple[str, range]]:
    """The inputs of each reader, in runs, readers taking turns."""
    total = sum(shares.values())
    wanted = {name: -(-n_inputs * share // total) for name, share in shares.items()}
    done = dict.fromkeys(shares, 0)
    while any(done[name] < wanted[name] for name in shares):
        for name, share in shares.items():
            stop = min(wanted[name], done[name] + max(1, at_once * share // total))
            if stop > done[name]:
                yield name, range(done[name], stop)
                done[name] = stop
