"""Output files: every file that Sapwood writes is opened here.

A path means the file at the end of its links; the links stay. The file is written under another
name in the same folder, brought to the disk, and renamed: it is there whole or not at all, and what
was there before stays until then. What is not a regular file is never replaced: text is streamed to
pipes and character devices, anything else is refused. Refused are also files with something that
nobody asked to lose: inputs and other outputs of the same command, and what Sapwood did not write.

What Sapwood wrote is known by the header of models and checkpoints, and for other files by an
extended attribute with the size and time that they had then.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from time import time
from typing import IO

from sapwood.core.errors import SapwoodError

STDOUT = Path("-")
ATTRIBUTE = "user.sapwood"
# What follows the first eight bytes, the length of the header, in a file of tensors of ours.
MODEL_START = b'{"__metadata__":{"sapwood":'
HINT = "does the folder exist, may you write there, and is there space?"
MAX_NAME = 200  # bytes of a name of a file; systems allow 255
OLD = 60.0  # seconds after which a temporary file that nobody holds is that of a dead process
_PART = re.compile(r"\.\d+-[0-9a-f]{8}\.part")
_unfinished: set[Path] = set()  # temporary files that have not got their names yet

Input = Path | int  # a path, or an open descriptor such as that of stdin


@dataclass(frozen=True)
class Place:
    """Where an output goes."""

    path: Path
    status: os.stat_result | None = None
    # of an open file that the path stands for, as /dev/stdout does; None for any other path
    descriptor: int | None = None

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
    """Refuse, before any work is done, a place where an output cannot or should not be written.

    Parameters
    ----------
    inputs
        What the command reads; looked at only where something is there that could be one of them.
    is_model
        Whether a model or a checkpoint is written, rather than text or a figure.
    may_stream
        Whether the output may go to a pipe or a device as well.
    """
    place = find_place(path)
    if place.is_stream:
        _refuse_stream(path, may_stream=may_stream)
        return
    for other in others:
        found = find_place(other)
        if found.path == place.path or (found.status and place.is_same(found.status)):
            msg = f"{path}: is meant for two outputs at once"
            raise SapwoodError(msg, hint="choose another name for one of them")
    with explain(Path(path)):
        _refuse_file_in_use(path, place, inputs)
        _refuse_place(path, place, force=force, is_model=is_model)
    _sweep(place.path)


def find_place(path: str | Path) -> Place:
    """Follow a path to where it leads."""
    path = Path(path)
    if path == STDOUT:
        return Place(path, descriptor=1)
    try:
        if (descriptor := _descriptor(path)) is not None:
            return Place(path, descriptor=descriptor)
        target = Path(os.path.realpath(path))
        with suppress(FileNotFoundError, NotADirectoryError):
            return Place(target, target.stat())
        return Place(target)
    except OSError as error:  # links in a circle, a name too long, a folder that may not be entered
        raise _failure(path, error) from error


def _descriptor(path: Path) -> int | None:
    """The number of the open file that a path such as /dev/stdout stands for.

    To open such a path anew would cut off what is in the file behind it, as after `>> log`.
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


def _refuse_place(path: str | Path, place: Place, *, force: bool, is_model: bool) -> None:
    """Refuse what cannot be a file, or what is there and should stay."""
    target, status = place.path, place.status
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
        why = _reason_to_keep(place, is_model=is_model)
        if why:
            msg = f"{path}: {why}"
            hint = "choose another name; --force (in Python force=True) replaces it"
            raise SapwoodError(msg, hint=hint)


def _reason_to_keep(place: Place, *, is_model: bool) -> str | None:
    """Why a file should not be replaced; None for one of the same kind that Sapwood wrote."""
    holds_model = has_model(place.path)
    if not os.access(place.path, os.W_OK):
        return "is there, and is protected against writing"
    if is_model:
        return None if holds_model else "is there, and is not a model that Sapwood wrote"
    if holds_model:
        return "holds a model or a checkpoint"
    return None if _is_tagged(place) else "is there, and Sapwood did not write it"


def has_model(path: Path) -> bool:
    """Whether a file begins as the models and checkpoints of Sapwood do."""
    try:
        with path.open("rb") as file:
            return file.read(8 + len(MODEL_START))[8:] == MODEL_START
    except OSError:
        return False


def _refuse_file_in_use(path: str | Path, place: Place, inputs: Iterable[Input]) -> None:
    """Refuse a file that the command reads, or that the shell has opened for its stdout."""
    if place.status is None:
        return
    for source in inputs:
        with suppress(OSError):  # whoever reads it will say that it is missing
            if place.is_same(os.stat(source)):  # noqa: PTH116 - of a descriptor too
                msg = f"{path}: is also an input, which it would overwrite"
                raise SapwoodError(msg, hint="choose another name for the output")
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError):
            if place.is_same(os.fstat(descriptor)):
                msg = f"{path}: is also where {name} goes"
                raise SapwoodError(msg, hint=f"choose another name for the output or for {name}")


@contextmanager
def open_output(path: str | Path | None, *, force: bool = False) -> Iterator[IO[str]]:
    """Open a text file that takes its name when all of it is written, or a stream.

    Parameters
    ----------
    path
        None and `-` mean stdout. Pipes and character devices get each line as it comes.

    Examples
    --------
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
    place = find_place(path)
    if place.descriptor == 1:
        yield sys.stdout
        return
    with explain(path):
        if place.is_stream:
            number = place.descriptor
            handle = os.open(place.path, os.O_WRONLY) if number is None else os.dup(number)
            with os.fdopen(handle, "w", buffering=1, encoding="utf-8", newline="\n") as file:
                yield file
            return
        _refuse_place(path, place, force=force, is_model=False)
        with new_file(place) as part, part.open("w", encoding="utf-8", newline="\n") as file:
            yield file


def write_bytes(
    path: str | Path, data: bytes, *, force: bool = False, is_model: bool = False
) -> None:
    """Write a file, whole or not at all; the arguments are those of `check_output`."""
    place = find_place(path)
    if place.is_stream:
        _refuse_stream(path, may_stream=False)
    with explain(Path(path)):
        _refuse_place(path, place, force=force, is_model=is_model)
        with new_file(place) as part:
            part.write_bytes(data)


def is_stdout(path: Path) -> bool:
    """Whether a path stands for stdout: `-`, /dev/stdout and the like."""
    return find_place(path).descriptor == 1


@contextmanager
def new_file(place: Place) -> Iterator[Path]:
    """An empty file beside a place, which takes its name when the block ends well."""
    target = place.path
    # A part of the name: all of it with more behind could be longer than names may be.
    start = f".{target.name[:40]}.{os.getpid()}-{os.urandom(4).hex()}.part"
    part = target.with_name(start)
    _unfinished.add(part)
    try:
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask
        try:
            lock(handle)
            yield part
            _finish(handle, place.status)
        finally:
            os.close(handle)
        _rename(part, target)
    except BaseException:
        with suppress(OSError):  # of a disk that has become read-only: the first error counts
            part.unlink(missing_ok=True)
        raise
    finally:
        _unfinished.discard(part)


def give_name(part: Path, path: Path) -> None:
    """Make a finished file the one at a place, as if it had been written there."""
    place = find_place(path)
    handle = os.open(part, os.O_RDWR)
    try:
        _finish(handle, place.status)
    finally:
        os.close(handle)
    _rename(part, place.path)


def _finish(handle: int, old: os.stat_result | None) -> None:
    """Bring a file to the disk, with the permissions of the one it replaces, and mark it ours."""
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


def _is_tagged(place: Place) -> bool:
    """Whether Sapwood wrote the file, and nobody has changed it since."""
    if place.status is None or not hasattr(os, "getxattr"):
        return False
    with suppress(OSError):
        return os.getxattr(place.path, ATTRIBUTE) == _tag(place.status)
    return False


@contextmanager
def explain(path: Path) -> Iterator[None]:
    """Turn failures of the disk into one line; a reader that went away is no failure."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Failures to write have no name; those to open and to rename have that of the file.
        if error.filename is not None and not str(error.filename).endswith(
            (".part", ".lock", path.name)
        ):
            raise
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> SapwoodError:
    return SapwoodError(f"cannot write {path}: {error.strerror or error}", hint=HINT)


def remove_unfinished() -> None:
    """Remove all temporary files of this process, which is about to end at once."""
    for part in list(_unfinished):
        with suppress(OSError):
            part.unlink(missing_ok=True)


def lock(handle: int) -> bool:
    """Hold a file while this process lives, where the system can; whether nobody else holds it."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # a system, or a file system, without locks
        return True
    return True


@contextmanager
def hold_output(path: str | Path) -> Iterator[None]:
    """Keep other commands away from an output that is written in several steps.

    The lock is an empty file beside the output, which goes when the block ends; one that a killed
    command left holds nobody up.

    Raises
    ------
    SapwoodError
        When another command, still alive, has the output.
    """
    target = find_place(path).path
    guard = target.with_name(f".{target.name}.lock")
    if len(os.fsencode(guard.name)) > MAX_NAME:
        guard = target.with_name(f".{sha256(os.fsencode(target.name)).hexdigest()}.lock")
    with explain(Path(path)):
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
    """Remove temporary files that killed processes have left for the same target."""
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
                if time() - os.fstat(file.fileno()).st_mtime > OLD:
                    part.unlink()


def working_folder(parent: Path, prefix: str) -> Path:
    """A new folder in another, for files that are no results."""
    try:
        return Path(mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise _failure(parent, error) from error


def append_bytes(path: Path, data: bytes) -> None:
    """Add to a file of a working folder."""
    with explain(path), path.open("ab") as file:
        file.write(data)
