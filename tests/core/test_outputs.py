"""Output files: whole or absent, at the end of their links, and never over something else."""

from __future__ import annotations

import ast
import errno
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.disks import FaultyDisk

import sapwood as sw
from sapwood.core import outputs
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import (
    check_output,
    find_target,
    give_name,
    has_model,
    hold_output,
    new_file,
    open_output,
    write_bytes,
)

SOURCE = Path(sw.__file__).parent
posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes as POSIX has them")


def write(path: Path, text: str = "new", **options: Any) -> None:
    with open_output(path, **options) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


@pytest.fixture
def tags(tmp_path: Path) -> None:
    """A file system that keeps what marks a file as ours."""
    probe = tmp_path / "probe"
    probe.touch()
    try:
        os.setxattr(probe, outputs.ATTRIBUTE, b"")
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")
    probe.unlink()


# -- whole or absent ------------------------------------------------------------------------------


def test_output_appears_only_when_complete(out: Path) -> None:
    with open_output(out) as file:
        file.write("half")
        file.flush()
        assert not out.exists()
    assert out.read_text() == "half"
    assert names(out.parent) == ["out.txt"]


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_output(out: Path, failure: type[BaseException]) -> None:
    out.write_text("old")

    def lines() -> Iterator[str]:
        yield "new"
        raise failure

    with pytest.raises(failure), open_output(out, force=True) as file:
        file.writelines(lines())
    assert out.read_text() == "old"
    assert names(out.parent) == ["out.txt"]


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127):
        write(tmp_path / name)
    for attempt in (check_output, write):
        with pytest.raises(SapwoodError, match=r"cannot write .*too long"):
            attempt(tmp_path / ("x" * 256))
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("old", [None, "old"])
def test_a_disk_that_fails_anywhere(
    out: Path, old: str | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the new file is there, or the old one is, and one line says why."""
    messages = []
    for place in range(1, 20):
        out.unlink(missing_ok=True)
        if old is not None:
            out.write_text(old)
        disk = FaultyDisk(place, number)
        monkeypatch.setattr(outputs, "os", disk)
        try:
            write(out, force=True)
        except SapwoodError as error:
            messages.append(str(error))
            left = old
        else:
            left = "new"
        assert (out.read_text() if out.exists() else None) == left
        assert names(out.parent) in ([out.name], [])
        assert not outputs._unfinished
        if not disk.has_failed:
            break
    assert not disk.has_failed
    assert len(messages) >= 3  # to open, to bring to the disk, to rename
    assert set(messages) == {f"cannot write {out}: {os.strerror(number)}"}


def test_nothing_is_renamed_before_it_is_on_the_disk(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1]
        )
    write(out)
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, the folder


# -- links and permissions ------------------------------------------------------------------------


@posix
def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    folder, other = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    other.mkdir()
    target = other / "target"
    (folder / "second").symlink_to(target)
    (folder / "first").symlink_to("second")  # relative, and to a target that is not there yet
    for text in ("one", "two"):
        write(folder / "first", text, force=True)
        assert (folder / "first").is_symlink()
        assert (folder / "second").is_symlink()
        assert target.read_text() == text
        assert (names(folder), names(other)) == (["first", "second"], ["target"])


@posix
def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(SapwoodError, match="cannot write"):
        write(tmp_path / "a")


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_gets_the_permissions_of_the_umask(out: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write(out)
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_replaced_file_keeps_its_permissions(out: Path, mode: int) -> None:
    out.write_text("old")
    out.chmod(mode)
    write(out, force=True)
    assert stat.S_IMODE(out.stat().st_mode) == mode


# -- what is in the way ---------------------------------------------------------------------------


def test_a_foreign_file_needs_force(out: Path) -> None:
    out.write_text("mine")
    for attempt in (check_output, write):
        with pytest.raises(SapwoodError, match="Sapwood did not write it") as caught:
            attempt(out)
        assert "--force" in str(caught.value.hint)
    assert out.read_text() == "mine"
    check_output(out, force=True)
    write(out, force=True)
    assert out.read_text() == "new"


def test_an_empty_file_may_be_replaced(out: Path) -> None:
    out.touch()  # as mktemp does
    check_output(out)
    write(out)
    assert out.read_text() == "new"


@pytest.mark.usefixtures("tags")
def test_what_sapwood_wrote_may_be_replaced_until_it_is_changed(out: Path) -> None:
    write(out, "one")
    check_output(out)
    write(out, "two")
    assert out.read_text() == "two"
    with out.open("a") as file:
        file.write(" and a note of my own")
    with pytest.raises(SapwoodError, match="did not write it"):
        write(out)
    write(out, force=True)
    write(out)
    status = out.stat()
    out.write_text("NEW")  # of the same size
    os.utime(out, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(SapwoodError, match="did not write it"):
        write(out)


def test_without_attributes_force_is_needed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "setxattr", unable, raising=False)
    write(out)
    with pytest.raises(SapwoodError, match="did not write it"):
        write(out)
    write(out, force=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anything")
def test_a_protected_file_needs_force(out: Path) -> None:
    write(out)
    out.chmod(0o444)
    with pytest.raises(SapwoodError, match="protected"):
        write(out)
    write(out, force=True)


def test_models_are_known_by_their_header(tmp_path: Path) -> None:
    model, other = sw.PCFG().fit(sw.bundled_treebank("dev")).model_, tmp_path / "text"
    path = tmp_path / "m.sapwood"
    for _ in range(2):
        model.save(path)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())  # a copy loses attributes, not its header
    assert has_model(copy)
    model.save(copy)
    # Neither replaces the other.
    with pytest.raises(SapwoodError, match="holds a model or a checkpoint"):
        write(path)
    write(other)
    with pytest.raises(SapwoodError, match="not a model that Sapwood wrote") as caught:
        model.save(other)
    assert "force=True" in str(caught.value.hint)
    model.save(other, force=True)
    assert sw.load(other).is_plain


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "a folder"), ("no/such/file", "does not exist"), ("input/x", "does not exist")],
)
def test_places_where_no_file_can_be(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "input").touch()
    for attempt in (check_output, write, lambda path: write_bytes(path, b"")):
        with pytest.raises(SapwoodError, match=message):
            attempt(tmp_path / name)


@posix
@pytest.mark.parametrize("kind", ["same", "link", "hard link", "descriptor"])
def test_inputs_are_never_replaced(tmp_path: Path, kind: str) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.write_text("precious")
    if kind == "same":
        out = source
    elif kind == "link":
        out.symlink_to(source)
    elif kind == "hard link":
        out.hardlink_to(source)
    with source.open() as file:
        inputs = [tmp_path / "missing", file.fileno() if kind == "descriptor" else source]
        out = source if kind == "descriptor" else out
        with pytest.raises(SapwoodError, match="also an input"):
            check_output(out, inputs=inputs, force=True)
    check_output(tmp_path / "other", inputs=inputs[:1])


@posix
def test_two_outputs_need_two_files(tmp_path: Path) -> None:
    one, link = tmp_path / "one", tmp_path / "link"
    link.symlink_to(one)
    for is_there in (False, True):
        for other in (one, link, tmp_path / "." / "one"):
            with pytest.raises(SapwoodError, match="two outputs at once"):
                check_output(one, others=[other], force=True)
        assert one.exists() == is_there
        one.touch()
    check_output(one, others=[tmp_path / "two"])


# -- streams --------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "-", "/dev/fd/1"])
def test_streams_take_text_and_nothing_else(path: str) -> None:
    before = os.lstat(path) if path != "-" else None
    check_output(path, may_stream=True)
    with pytest.raises(SapwoodError, match="not a regular file"):
        check_output(path)
    with pytest.raises(SapwoodError, match="not a regular file"):
        write_bytes(path, b"model", force=True)
    write(Path(path), "text\n")
    assert before is None or os.lstat(path).st_ino == before.st_ino
    assert not Path("-").exists()


@pytest.mark.parametrize("path", [None, Path("-")])
def test_stdout_has_a_short_name(path: Path | None, capsys: pytest.CaptureFixture[str]) -> None:
    write(path, "text\n")  # type: ignore[arg-type]
    assert capsys.readouterr().out == "text\n"
    assert not Path("-").exists()


@posix
def test_a_pipe_gets_lines_as_they_come(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines: list[str] = []
    first = threading.Event()

    def read() -> None:
        with pipe.open() as file:
            lines.append(file.readline())
            first.set()
            lines.extend(file)

    reader = threading.Thread(target=read)
    reader.start()
    with open_output(pipe) as file:
        file.write("one\n")
        assert first.wait(timeout=30)
        file.write("two\n")
    reader.join(timeout=30)
    assert lines == ["one\n", "two\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_sockets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("s")
        for attempt in (write, lambda path: check_output(path, may_stream=True, force=True)):
            with pytest.raises(SapwoodError, match="not a regular file"):
                attempt(Path("s"))


@posix
def test_an_open_file_is_written_where_it_stands(tmp_path: Path) -> None:
    """As /dev/fd/3 after `3>> log`: what is in it stays."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as file:
        write(Path(f"/dev/fd/{file.fileno()}"), "after\n")
    assert log.read_text() == "before\nafter\n"


# -- what dead processes leave --------------------------------------------------------------------


@posix
def test_old_parts_are_swept_and_those_in_use_are_not(out: Path) -> None:
    dead, young, other = (
        out.with_name(name)
        for name in (".out.txt.1-0123abcd.part", ".out.txt.2-0123abcd.part", ".out.txt.my.part")
    )
    for path in (dead, young, other):
        path.write_text("half")
    for path in (dead, other):
        os.utime(path, (0, 0))
    with new_file(find_target(out)) as mine:
        os.utime(mine, (0, 0))
        check_output(out)
        assert names(out.parent) == sorted([mine.name, young.name, other.name])


def test_a_finished_part_gets_a_name(tmp_path: Path) -> None:
    part, out = tmp_path / "x.part", tmp_path / "x"
    part.write_text("all of it")
    give_name(part, out)
    assert (names(tmp_path), out.read_text()) == (["x"], "all of it")


# -- nobody writes elsewhere ----------------------------------------------------------------------

WRITERS = {"write_text", "write_bytes", "savefig", "replace", "rename", "fdopen", "mkstemp", "dump"}
# file, what it calls: where that does not write, or writes what `new_file` has opened
ALLOWED = {
    ("execute/engine.py", "write_text"),  # a switch of the kernel's, in /proc
    ("cli/reports.py", "savefig"),  # into memory
    ("cli/main.py", "fdopen"),  # of /dev/null
    ("cli/main.py", "open"),
    ("annotation/project.py", "rename"),  # of a folder that is whole
    ("core/outputs.py", "open"),  # the part that a run goes on with
    ("execute/processes.py", "dump"),  # into memory
    ("corpora/fetch.py", "open"),  # of new files
    ("corpora/fetch.py", "write_text"),
    ("corpora/fetch.py", "replace"),  # of a folder
    ("networks/pretrained/store.py", "open"),  # of a part that `replacing` has made
    ("lm/data/ngrams.py", "open"),  # of a part that `new_file` has made
    ("web/server.py", "open"),  # the lock in the server's own temporary folder
    ("web/models.py", "write_bytes"),  # an upload, in that folder
    ("web/models.py", "replace"),
    ("web/audits.py", "write_bytes"),  # an upload, and its findings, in that folder
    ("web/audits.py", "write_text"),
    ("web/networks.py", "write_text"),  # trees of a training, in that folder
}


def writing_calls(text: str) -> Iterator[str]:
    """Names of calls that may write a file."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name))):
            continue
        if isinstance(node.func, ast.Name) and node.func.id != "open":
            continue  # a function of ours, not a method of a path
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
        modes = [mode for mode in modes if isinstance(mode, str) and len(mode) <= 3]
        if name == "open" and any(set(mode) & set("wax+") for mode in modes):
            yield name
        # str.replace and dataclasses.replace have two arguments and more
        is_rename = name in ("replace", "rename") and len(node.args) == 1 and not node.keywords
        if is_rename or (name in WRITERS - {"replace", "rename"}):
            yield name


def test_no_other_module_writes_files() -> None:
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        if path.name != "outputs.py"
        for name in writing_calls(path.read_text(encoding="utf-8"))
    }
    assert found <= ALLOWED, found - ALLOWED


@pytest.mark.parametrize(
    "text", ["path.open('w')", "open(path, 'ab')", "path.write_text('x')", "part.replace(path)"]
)
def test_a_mutant_is_noticed(text: str) -> None:
    assert list(writing_calls(text))


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such lock")
def test_an_output_is_held_by_one_command_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / ("x" * 250)
    for name in (out, tmp_path / "counts"):
        with hold_output(name):
            with (
                pytest.raises(SapwoodError, match="another command is writing it"),
                hold_output(name),
            ):
                pass
            with hold_output(tmp_path / "another"):
                pass
        assert not list(tmp_path.iterdir())
        with hold_output(name):
            pass


def test_a_lock_that_a_killed_command_left_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / ".counts.lock").touch()
    with hold_output(tmp_path / "counts"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_that_vanishes_while_it_is_taken_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder removes the file between our opening and our locking it."""
    import sapwood.core.outputs

    real, removed = sapwood.core.outputs.lock, []

    def lock(handle: int) -> bool:
        if not removed:
            removed.append((tmp_path / ".counts.lock").unlink())
        return real(handle)

    monkeypatch.setattr(sapwood.core.outputs, "lock", lock)
    with hold_output(tmp_path / "counts"):
        assert (tmp_path / ".counts.lock").exists()
