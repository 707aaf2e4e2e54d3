"""Output files: every file that Sapwood writes is opened here.

A path means the file at the end of its links; the links stay. The file is written under a
temporary name in the same folder, flushed to disk, and renamed: the new file is there whole or not
at all, and the old one stays until then. Only regular files are replaced: text is streamed to pipes
and character devices, anything else is refused. Also refused are inputs and other outputs of the
same command, and files that Sapwood did not write.

Files of Sapwood are known by the header of models and checkpoints, and otherwise by an extended
attribute with the size and time that they had when they were written.

An unfinished output that the next run resumes is `OUT.part`, and its origin is in `OUT.part.json`.
A record is the output of one line of input. Records are appended as they come; a restart keeps the
complete ones, cuts off a torn last one, and skips the input of all complete ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter, time
from typing import IO, Any, TypeVar

from sapwood.core.errors import SapwoodError, count

STDOUT = Path("-")
ATTRIBUTE = "user.sapwood"
# Follows the first eight bytes, the length of the header, in a model or checkpoint of Sapwood.
MODEL_START = b'{"__metadata__":{"sapwood":'
MAX_NAME = 200  # bytes of a name of a file; systems allow 255
STALE_SECONDS = 60.0  # age at which a temporary file without a lock belongs to a dead process
_PART = re.compile(r"\.\d+-[0-9a-f]{8}\.part")
_unfinished: set[Path] = set()  # temporary files that have not been renamed yet

Input = Path | int  # a path, or an open descriptor such as that of stdin


@dataclass(frozen=True)
class OutputTarget:
    """The file or stream that the path of an output leads to."""

    path: Path
    status: os.stat_result | None = None  # of the file that is there
    descriptor: int | None = None  # of an open file that the path stands for, as /dev/stdout does

    @property
    def is_stream(self) -> bool:
        """Whether text goes there as it comes: an open file, a pipe or a character device."""
        if self.status is None or self.descriptor is not None:
            return self.descriptor is not None
        return stat.S_ISFIFO(self.status.st_mode) or stat.S_ISCHR(self.status.st_mode)

    def is_same(self, other: os.stat_result) -> bool:
        """Whether a file that is there is this very one, under whatever name."""
        mine = self.status
        return mine is not None and (mine.st_dev, mine.st_ino) == (other.st_dev, other.st_ino)


def check_output(
    path: str | Path,
    *,
    inputs: Iterable[Input] = (),
    others: Iterable[Path] = (),
    force: bool = False,
    is_model: bool = False,
    may_stream: bool = False,
) -> None:
    """Refuse, before any work is done, a path where an output cannot or should not be written.

    Parameters
    ----------
    inputs, others
        Inputs and other outputs of the command, none of which may be the same file.
    is_model
        Whether a model or a checkpoint is written, rather than text or a figure.
    may_stream
        Whether the output may go to a pipe or a device as well.
    """
    output = find_target(path)
    if output.is_stream:
        _refuse_stream(path, may_stream=may_stream)
        return
    for other in others:
        found = find_target(other)
        if found.path == output.path or (found.status and output.is_same(found.status)):
            msg = f"{path}: is meant for two outputs at once"
            raise SapwoodError(msg, hint="choose another name for one of them")
    with explain_disk_errors(Path(path)):
        _refuse_file_in_use(path, output, inputs)
        _refuse_target(path, output, force=force, is_model=is_model)
    _sweep(output.path)


def find_target(path: str | Path) -> OutputTarget:
    """Follow a path to the file or stream it leads to."""
    path = Path(path)
    if path == STDOUT:
        return OutputTarget(path, descriptor=1)
    try:
        if (descriptor := _descriptor(path)) is not None:
            return OutputTarget(path, descriptor=descriptor)
        target = Path(os.path.realpath(path))
        with suppress(FileNotFoundError, NotADirectoryError):
            return OutputTarget(target, target.stat())
        return OutputTarget(target)
    except OSError as error:  # links in a circle, a name too long, a folder that may not be entered
        raise _failure(path, error) from error


def _descriptor(path: Path) -> int | None:
    """The number of the open file that a path such as /dev/stdout stands for.

    To open such a path again would truncate the file behind it, as after `>> log`.
    """
    folders = {Path("/dev/fd"), Path(f"/proc/{os.getpid()}/fd")}
    for _ in range(40):  # as many links as Linux follows
        if path.name.isdigit() and Path(os.path.realpath(path.parent)) in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _refuse_stream(path: str | Path, *, may_stream: bool) -> None:
    if not may_stream:
        msg = f"{path}: not a regular file, and this output needs one"
        raise SapwoodError(msg, hint="name an ordinary file")


def _refuse_target(path: str | Path, output: OutputTarget, *, force: bool, is_model: bool) -> None:
    """Refuse a path that cannot be written, or that has a file which should stay."""
    target, status = output.path, output.status
    if not target.parent.is_dir():
        msg = f"cannot write {path}: its folder {target.parent} does not exist"
        raise SapwoodError(msg, hint=f"make it first: mkdir -p {target.parent}")
    if status is not None and stat.S_ISDIR(status.st_mode):
        msg = f"cannot write {path}: a folder, expected the name of a file to write"
        raise SapwoodError(msg, hint=f"name a file in it, such as {target / 'output'}")
    if status is not None and not stat.S_ISREG(status.st_mode):
        msg = f"{path}: not a regular file, so it cannot be replaced by one"
        raise SapwoodError(msg, hint="name an ordinary file")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        msg = f"cannot write {path}: its folder {target.parent} cannot be written"
        raise SapwoodError(msg, hint="choose another folder, or change its permissions")
    if status is not None and status.st_size and not force:
        why = _reason_to_keep(output, is_model=is_model)
        if why:
            msg = f"{path}: {why}"
            hint = "choose another name; --force (in Python force=True) replaces it"
            raise SapwoodError(msg, hint=hint)


def _reason_to_keep(output: OutputTarget, *, is_model: bool) -> str | None:
    """Why a file should not be replaced; None for a file of the same kind by Sapwood."""
    holds_model = has_model(output.path)
    if not os.access(output.path, os.W_OK):
        return "is there, and is protected against writing"
    if is_model:
        return None if holds_model else "is there, and is not a model that Sapwood wrote"
    if holds_model:
        return "holds a model or a checkpoint"
    return None if _is_tagged(output) else "is there, and Sapwood did not write it"


def has_model(path: Path) -> bool:
    """Whether a file begins as the models and checkpoints of Sapwood do."""
    try:
        with path.open("rb") as file:
            return file.read(8 + len(MODEL_START))[8:] == MODEL_START
    except OSError:
        return False


def _refuse_file_in_use(path: str | Path, output: OutputTarget, inputs: Iterable[Input]) -> None:
    """Refuse a file that the command reads, or that the shell has opened for its stdout."""
    if output.status is None:
        return
    for source in inputs:
        with suppress(OSError):  # whoever reads it will say that it is missing
            if output.is_same(os.stat(source)):  # noqa: PTH116 - of a descriptor too
                msg = f"{path}: is also an input, which it would overwrite"
                raise SapwoodError(msg, hint="choose another name for the output")
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError):
            if output.is_same(os.fstat(descriptor)):
                msg = f"{path}: is also where {name} goes"
                raise SapwoodError(msg, hint=f"choose another name for the output or for {name}")


@contextmanager
def open_output(path: str | Path | None, *, force: bool = False) -> Iterator[IO[str]]:
    """Open a text file that takes its name when all of it is written, or a stream.

    The paths None and `-` mean stdout. Pipes and character devices get each line as it comes.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trees.mrg"
    ...     with open_output(path) as file:
    ...         n = file.write("(S (X a))")
    ...         is_there = path.exists()
    ...     is_there, path.read_text()
    (False, '(S (X a))')
    """
    path = STDOUT if path is None else Path(path)
    output = find_target(path)
    if output.descriptor == 1:
        yield sys.stdout
        return
    with explain_disk_errors(path):
        if output.is_stream:
            number = output.descriptor
            handle = os.open(output.path, os.O_WRONLY) if number is None else os.dup(number)
            with os.fdopen(handle, "w", buffering=1, encoding="utf-8", newline="\n") as file:
                yield file
            return
        _refuse_target(path, output, force=force, is_model=False)
        with new_file(output) as part, part.open("w", encoding="utf-8", newline="\n") as file:
            yield file


def write_bytes(
    path: str | Path, data: bytes, *, force: bool = False, is_model: bool = False
) -> None:
    """Write a file, whole or not at all; the arguments are those of `check_output`."""
    output = find_target(path)
    if output.is_stream:
        _refuse_stream(path, may_stream=False)
    with explain_disk_errors(Path(path)):
        _refuse_target(path, output, force=force, is_model=is_model)
        with new_file(output) as part:
            part.write_bytes(data)


def is_stdout(path: Path) -> bool:
    """Whether a path stands for stdout: `-`, /dev/stdout and the like."""
    return find_target(path).descriptor == 1


@contextmanager
def new_file(output: OutputTarget) -> Iterator[Path]:
    """An empty file in the target's folder, which takes its name when the block ends well."""
    target = output.path
    # only the start of the name: systems limit the length of names
    start = f".{target.name[:40]}.{os.getpid()}-{os.urandom(4).hex()}.part"
    part = target.with_name(start)
    _unfinished.add(part)
    try:
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask
        try:
            lock(handle)
            yield part
            _finish(handle, output.status)
        finally:
            os.close(handle)
        _rename(part, target)
    except BaseException:
        with suppress(OSError):  # the disk may have become read-only: the first error counts
            part.unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(part)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file that takes the name of an output when the block ends well, see `new_file`."""
    with explain_disk_errors(path), new_file(find_target(path)) as part:
        yield part


def give_name(part: Path, path: Path) -> None:
    """Rename a finished file to an output path, as if it had been written there."""
    output = find_target(path)
    handle = os.open(part, os.O_RDWR)
    try:
        _finish(handle, output.status)
    finally:
        os.close(handle)
    _rename(part, output.path)


def _finish(handle: int, old: os.stat_result | None) -> None:
    """Flush a file to disk, with the permissions of the one it replaces, and tag it as ours."""
    if old is not None and hasattr(os, "fchmod"):
        with suppress(OSError):  # only root may give files away
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # a file system without attributes: --force will be asked for
            os.setxattr(handle, ATTRIBUTE, _tag(os.fstat(handle)))
    os.fsync(handle)


def _rename(part: Path, target: Path) -> None:
    os.replace(part, target)  # noqa: PTH105 - beside the other calls that a disk can fail
    with suppress(OSError):  # not every system can; the file itself is safe, under either name
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _tag(status: os.stat_result) -> bytes:
    return f"{status.st_size} {status.st_mtime_ns}".encode()


def _is_tagged(output: OutputTarget) -> bool:
    """Whether Sapwood wrote the file, and nobody has changed it since."""
    if output.status is None or not hasattr(os, "getxattr"):
        return False
    with suppress(OSError):
        return os.getxattr(output.path, ATTRIBUTE) == _tag(output.status)
    return False


@contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk into one line; a closed pipe is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # errors of writing have no file name; those of opening and renaming have one
        if error.filename is not None and not str(error.filename).endswith(
            (".part", ".lock", path.name)
        ):
            raise
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> SapwoodError:
    hint = "does the folder exist, may you write there, and is there space?"
    return SapwoodError(f"cannot write {path}: {error.strerror or error}", hint=hint)


def remove_unfinished() -> None:
    """Remove all temporary files of this process, which is about to end."""
    for part in list(_unfinished):
        with suppress(OSError):
            part.unlink(missing_ok=True)


def lock(handle: int) -> bool:
    """Lock a file while this process lives; False where another process has locked it."""
    with suppress(ImportError, OSError):  # a system, or a file system, without locks
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def hold_output(path: str | Path) -> Iterator[None]:
    """Lock an output that is written in several steps; refused while another command has it.

    The lock is an empty file beside the output, removed when the block ends; the lock of a killed
    command blocks nobody.
    """
    target = find_target(path).path
    guard = target.with_name(f".{target.name}.lock")
    if len(os.fsencode(guard.name)) > MAX_NAME:
        guard = target.with_name(f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()}.lock")
    with explain_disk_errors(Path(path)):
        handle = _open_guard(guard, path)
    try:
        yield
    finally:
        with suppress(OSError):
            guard.unlink(missing_ok=True)
        os.close(handle)


def _open_guard(guard: Path, path: str | Path) -> int:
    while True:
        handle = os.open(guard, os.O_RDWR | os.O_CREAT, 0o666)  # less the umask
        if not lock(handle):
            os.close(handle)
            msg = f"{path}: another command is writing it"
            raise SapwoodError(msg, hint="wait until it has ended, or choose another name")
        with suppress(FileNotFoundError):  # its last holder has just removed it
            if os.path.samestat(os.fstat(handle), guard.stat()):
                return handle
        os.close(handle)


def _sweep(target: Path) -> None:
    """Remove temporary files that killed processes left for the same target."""
    try:
        import fcntl
    except ImportError:
        return
    start = f".{target.name[:40]}"
    with suppress(OSError):
        for name in os.listdir(target.parent):  # noqa: PTH208 - many files, few of them ours
            if not (name.startswith(start) and _PART.fullmatch(name.removeprefix(start))):
                continue
            part = target.with_name(name)
            with suppress(OSError), part.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer lives: OSError
                if time() - os.fstat(file.fileno()).st_mtime > STALE_SECONDS:
                    part.unlink()


def working_folder(parent: Path, prefix: str) -> Path:
    """Make a new folder inside another, for temporary files."""
    try:
        return Path(mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise _failure(parent, error) from error


def append_bytes(path: Path, data: bytes) -> None:
    """Append to a file of a working folder."""
    with explain_disk_errors(path), path.open("ab") as file:
        file.write(data)


READ_SIZE = 1 << 20  # characters or bytes read at once
T = TypeVar("T")
EVERY = 0.25  # seconds between flushes: the work that a killed run may lose


class UnfinishedOutput:
    """An unfinished output file, to which records are appended."""

    def __init__(self, file: IO[str], n_done: int) -> None:
        self.n_done = n_done
        self._file = file
        self._flushed = perf_counter()

    def write(self, record: str) -> None:
        """Append one record, and flush the file now and then."""
        self._file.write(record)
        if perf_counter() - self._flushed > EVERY:
            self._file.flush()
            self._flushed = perf_counter()


def part_and_note(path: Path) -> tuple[Path, Path]:
    """Paths of the records of an unfinished output, and of the note on their origin."""
    path = find_target(path).path  # beside the file itself, not beside a link to it
    return path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")


@contextmanager
def open_part(
    path: Path,
    origin: Mapping[str, Any],
    *,
    is_block: bool,
    tell: Callable[[str], None],
    force: bool = False,
) -> Iterator[UnfinishedOutput]:
    """Open `path.part` to append records; it becomes `path` when the block ends well.

    Parameters
    ----------
    origin
        Everything the records depend on, for JSON; a part with another origin is refused.
    is_block
        Whether a record is a block that ends with an empty line, rather than one line.
    tell
        Called with a line on how many records were there, or are kept after a failure.
    force
        Whether files may be replaced that Sapwood did not write.
    """
    part, note = part_and_note(path)
    with hold_output(path), explain_disk_errors(part):
        _check_origin(part, note, origin, force=force)
        with part.open("a", encoding="utf-8", newline="\n") as file:
            n_done, size = complete_records(part, is_block=is_block)
            file.truncate(size)
            opened = UnfinishedOutput(file, n_done)
            if n_done:
                tell(f"going on after {count(n_done, 'line')}, which are in {part}")
            try:
                yield opened
                file.flush()
            except BaseException:
                with suppress(OSError):
                    file.flush()
                n_kept, _ = complete_records(part, is_block=is_block)
                kept = f"{count(n_kept, 'line')} done, in {part}"
                tell(f"{kept}; the same command continues it")
                raise
        give_name(part, path)
        note.unlink(missing_ok=True)


def skip_done(items: Iterator[T], n_done: int) -> Iterator[T]:
    """Skip the items whose records are complete already."""
    n_skipped = sum(1 for _ in islice(items, n_done))
    if n_skipped < n_done:
        msg = f"{count(n_done, 'record')} are there already, for {count(n_skipped, 'sentence')}"
        raise SapwoodError(msg, hint="delete the unfinished output and its note to start again")
    return items


def complete_records(part: Path, *, is_block: bool) -> tuple[int, int]:
    """Number of complete records of a file, and the offset at which the last of them ends."""
    n = size = offset = 0
    is_start = True
    with part.open("rb") as file:
        while piece := file.readline(READ_SIZE):  # a foreign file may be one endless line
            offset += len(piece)
            is_end = piece.endswith(b"\n")
            if is_end and (not is_block or (is_start and piece == b"\n")):
                n, size = n + 1, offset
            is_start = is_end
    return n, size


def sha256(path: Path) -> str:
    """SHA-256 checksum of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_origin(part: Path, note: Path, origin: Mapping[str, Any], *, force: bool) -> None:
    """Refuse a part of another origin; write down the origin of a new one."""
    begin = f"delete {part} and {note.name} to start again, or choose another -o"
    if not part.exists():
        with open_output(note, force=force) as file:
            file.write(json.dumps(origin, indent=2) + "\n")
        return
    try:
        with note.open(encoding="utf-8") as file:
            before = json.loads(file.read(READ_SIZE))  # a whole note is far shorter
    except (OSError, ValueError, RecursionError):
        msg = f"{part}: nothing says what made it ({note.name} is missing or not readable)"
        raise SapwoodError(msg, hint=begin) from None
    before = before if isinstance(before, dict) else {}
    for key in {**before, **origin}:
        old, new = before.get(key), origin.get(key)
        if old != new:
            is_sum = isinstance(old, str) and isinstance(new, str) and len(old) == len(new) == 64
            change = "its contents have changed" if is_sum else f"then {old}, now {new}"
            msg = f"{part}: begun with another {key}: {change}"
            raise SapwoodError(msg, hint=f"use what it was begun with; or {begin}")
