"""Outputs of the commands: nothing is destroyed, nothing is half-written, failures are one line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.disks import FaultyDisk

import sapwood as sw
from sapwood.cli.main import app
from sapwood.constituency.learn import em
from sapwood.core import outputs

posix = pytest.mark.skipif(os.name != "posix", reason="links and streams as POSIX has them")
SENTENCE = "the dog sleeps .\n"
N_SENTENCES = 30
WAIT = 300


@pytest.fixture
def place(tmp_path: Path, model: Path, spectral: Path, dev: Path) -> Path:
    """A folder with everything that commands read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "m.sapwood").write_bytes(model.read_bytes())
    (tmp_path / "spectral.sapwood").write_bytes(spectral.read_bytes())
    (tmp_path / "s.txt").write_text(SENTENCE * N_SENTENCES)
    trees = list(sw.read_trees(dev))[:20]
    sw.write_trees(trees, tmp_path / "in" / "t.mrg")
    (tmp_path / "dev.mrg").write_text("".join(f"{tree}\n" for tree in trees[:3]))
    objects = [
        {"tree": str(tree), "constituents": _constituents(tree)} for tree in trees[:3]
    ]  # as `parse --json` writes them
    (tmp_path / "p.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in objects))
    return tmp_path


def _constituents(tree: sw.Tree) -> list[dict[str, object]]:
    return [
        {"label": label, "start": start, "end": end, "probability": 0.5}
        for label, start, end in tree.spans()[1:]
    ]


# Every command that writes a file: its arguments, with OUT for the file.
COMMANDS = {
    "train": "train in/t.mrg --method pcfg -o OUT",
    "checkpoint": (
        "train in/t.mrg --method em --states 2 --iterations 1 -o em.sapwood --checkpoint OUT"
    ),
    "parse": "parse m.sapwood s.txt -o OUT",
    "resume": "parse m.sapwood s.txt -o OUT --resume",
    "words": "words in/t.mrg -o OUT",
    "inspect": "inspect spectral.sapwood --spectrum --plot OUT",
    "evaluate": "evaluate dev.mrg p.jsonl --reliability --plot OUT",
    "compare": "compare in/t.mrg dev.mrg --methods pcfg --plot OUT",
}


def words(command: str, out: Path | str) -> list[str]:
    return [str(out) if word == "OUT" else word for word in COMMANDS[command].split()]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_foreign_file_is_replaced_only_by_force(
    cli, fails, place: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    out = place / "out.png"
    out.write_text("mine")
    before = sorted(place.iterdir())
    err = fails(*words(command, out)).err
    assert "out.png: is there, and " in err
    assert "--force" in err
    assert out.read_text() == "mine"
    assert sorted(place.iterdir()) == before
    if command == "checkpoint":  # what is no checkpoint cannot be gone on with
        return
    assert cli(*words(command, out), "--force").status == 0
    assert out.read_bytes() != b"mine"
    # Once more: what Sapwood wrote it may replace. Text and figures need attributes for that.
    again = [] if command == "train" or _keeps_attributes(place) else ["--force"]
    assert cli(*words(command, out), *again).status == 0
    assert sorted(place.iterdir()) == before


def _keeps_attributes(folder: Path) -> bool:
    probe = folder / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.sapwood", b"")
    except (AttributeError, OSError):
        return False
    finally:
        probe.unlink()
    return True


@posix
@pytest.mark.parametrize("command", COMMANDS)
def test_links_stay_links(cli, place: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    link, target = place / "link.png", place / "in" / "target"
    link.symlink_to(target)
    assert cli(*words(command, link)).status == 0
    assert link.is_symlink()
    assert target.stat().st_size > 100
    assert [path for path in place.rglob("*") if path.name.endswith(("part", "part.json"))] == []


INPUTS = [
    ("parse m.sapwood s.txt", "m.sapwood"),
    ("parse m.sapwood s.txt", "s.txt"),
    ("parse m.sapwood s.txt --resume", "m.sapwood"),
    ("parse m.sapwood out.part.json --resume", "out"),
    ("words in", "in/t.mrg"),
    ("train in --method pcfg", "in/t.mrg"),
    ("train in/*.mrg --method pcfg", "in/t.mrg"),
    ("train in --method pcfg --dev dev.mrg", "dev.mrg"),
    ("train in --method pcfg --dev dev.mrg", "link"),
]


@posix
@pytest.mark.parametrize(("command", "out"), INPUTS)
def test_inputs_are_never_replaced(
    fails, place: Path, command: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "link").symlink_to("dev.mrg")
    (place / "out.part.json").write_text(SENTENCE)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert "is also an input" in fails(*command.split(), "-o", out, "--force").err
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@posix
def test_parts_of_a_treebank_are_several_files(
    cli, fails, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert "is also an input" in fails("split", "dev.mrg", "-o", "", "--force").err
    (place / "my-dev.mrg").write_text("mine")
    assert "did not write it" in fails("split", "in/t.mrg", "-o", "my-").err
    (place / "my-test.mrg").symlink_to("my-train.mrg")
    assert "two outputs" in fails("split", "in/t.mrg", "-o", "my-", "--force").err
    (place / "my-test.mrg").unlink()
    assert not (place / "my-train.mrg").exists()
    assert cli("split", "in/t.mrg", "-o", "my-", "--force").status == 0
    assert len((place / "my-dev.mrg").read_text().splitlines()) == 2


@pytest.mark.parametrize("checkpoint", ["x", "./x", "in/../x"])
def test_model_and_checkpoint_are_two_files(
    fails, place: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    result = fails("train", "in", "--method", "em", "-o", "x", "--checkpoint", checkpoint)
    assert "two outputs at once" in result.err
    assert not (place / "x").exists()


def test_a_dash_is_stdout(cli, fails, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    expected = cli("parse", "m.sapwood", "s.txt").out
    assert cli("parse", "m.sapwood", "s.txt", "-o", "-").out == expected
    assert "not a regular file" in fails("train", "in", "-o", "-").err
    assert not (place / "-").exists()


def test_every_command_that_writes_has_force() -> None:
    from typer.main import get_command

    found = []

    def look(command: object) -> None:
        for sub in getattr(command, "commands", {}).values():
            look(sub)
        options = {option for one in command.params for option in one.opts}  # type: ignore[attr-defined]
        if options & {"--out", "--plot", "--checkpoint", "--folder"}:
            found.append(command.name)  # type: ignore[attr-defined]
            assert "--force" in options, command.name  # type: ignore[attr-defined]

    look(get_command(app))
    expected = {"train", "parse", "words", "split", "inspect", "evaluate", "compare", "fetch"}
    assert expected <= set(found)


# -- streams --------------------------------------------------------------------------------------


def shell(command: str, environment: dict[str, str], folder: Path) -> tuple[int, str, str]:
    python = f"{sys.executable} -m sapwood"
    done = subprocess.run(
        command.replace("sapwood ", f"{python} ", 1), shell=True, cwd=folder, env=environment,
        capture_output=True, text=True, check=False, timeout=WAIT,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@posix
def test_dev_stdout_is_the_stream_that_it_says(environment: dict[str, str], place: Path) -> None:
    link = os.lstat("/dev/stdout")
    (place / "log").write_text("before\n")
    command = "sapwood parse m.sapwood s.txt -o /dev/stdout --force"
    assert shell(f"{command} >> log", environment, place)[0] == 0
    lines = (place / "log").read_text().splitlines()
    assert lines[0] == "before"
    assert len(lines) == 1 + N_SENTENCES
    assert os.lstat("/dev/stdout").st_ino == link.st_ino
    status, out, err = shell("sapwood train in -o /dev/stdout --force", environment, place)
    assert (status, out) == (1, "")
    assert err.startswith("error: /dev/stdout: not a regular file")
    assert os.lstat("/dev/stdout").st_ino == link.st_ino
    # What the shell has opened already is neither replaced nor written twice.
    status, _, err = shell("sapwood parse m.sapwood s.txt -o log > log", environment, place)
    assert (status, err.splitlines()[0]) == (1, "error: log: is also where stdout goes")
    status, _, err = shell("sapwood parse m.sapwood -o s.txt < s.txt", environment, place)
    assert (status, err.splitlines()[0][:31]) == (1, "error: s.txt: is also an input,")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize(
    ("command", "name", "unbuffered"),
    [
        ("sapwood --help > /dev/full", "to stdout", ""),
        ("sapwood --help > /dev/full", "to stdout", "1"),
        ("sapwood sample m.sapwood -n 2 > /dev/full", "to stdout", ""),
        ("sapwood sample m.sapwood -n 2 > /dev/full", "to stdout", "1"),
        ("sapwood sample m.sapwood -n 2000 > /dev/full", "to stdout", ""),
        ("sapwood parse m.sapwood s.txt -o /dev/full", "/dev/full", ""),
        ("sapwood score m.sapwood s.txt >&-", "to stdout", ""),
    ],
)
def test_a_full_stdout_is_one_line(
    environment: dict[str, str], place: Path, command: str, name: str, unbuffered: str
) -> None:
    environment = environment | {"PYTHONUNBUFFERED": unbuffered}
    status, _, err = shell(command, environment, place)
    reason = "Bad file descriptor" if "&-" in command else "No space left on device"
    lines = err.splitlines()
    assert status == 1
    assert f"error: cannot write {name}: {reason}" in lines
    assert "Traceback" not in err


@posix
@pytest.mark.parametrize("stderr", ["/dev/full", "&-"])
def test_the_work_goes_on_without_stderr(
    environment: dict[str, str], place: Path, stderr: str
) -> None:
    command = f"sapwood train in --method pcfg -o new.sapwood --json 2>{stderr}"
    status, out, _ = shell(command, environment, place)
    assert status == 0
    assert json.loads(out)["trees"] == 20  # and nothing that was meant for people
    assert (place / "new.sapwood").exists()


# -- a disk that is full --------------------------------------------------------------------------

# How often each command calls what can fail; more would mean that it writes more than once.
MOST_CALLS = 20


@posix
@pytest.mark.parametrize(
    ("command", "number"),
    [("train", errno.EROFS), *((name, errno.ENOSPC) for name in COMMANDS if name != "compare")],
)
def test_a_disk_that_fails_anywhere(
    cli, place: Path, command: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call fails: one line and the old file, or the whole new one; and no debris."""
    monkeypatch.chdir(place)
    out, is_checkpoint = place / "out.png", command == "checkpoint"
    assert cli(*words(command, out)).status == 0
    whole = out.read_bytes()
    before = {path.name for path in place.iterdir()}
    n_failures = 0
    for call in range(1, MOST_CALLS):
        out.unlink() if is_checkpoint else out.write_text("old")
        disk = FaultyDisk(call, number)
        with monkeypatch.context() as patch:
            patch.setattr(outputs, "os", disk)
            result = cli(*words(command, out), *([] if is_checkpoint else ["--force"]))
        if not disk.has_failed:
            break
        if result.status:
            n_failures += 1
            lines = result.err.splitlines()
            assert lines[-2].startswith("error: cannot write "), result.err
            assert lines[-2].endswith(os.strerror(number)), result.err
            if not is_checkpoint:  # one of an earlier iteration may be there
                assert out.read_text() == "old"
        else:
            assert _is_like(out.read_bytes(), whole)
        left = {path.name for path in place.iterdir()} - before
        kept = {"out.png.part", "out.png.part.json"} if command == "resume" else set()
        assert left <= kept
        for name in left:
            (place / name).unlink()
        out.touch()
    assert not disk.has_failed
    assert n_failures >= 3  # to open, to bring to the disk, to rename


def _is_like(data: bytes, whole: bytes) -> bool:
    return abs(len(data) - len(whole)) < 100 and data[:8] == whole[:8]  # but for times in it


LIMITS = (0, 100)  # bytes; smaller than any of the outputs
# All cases in one process, each once without a limit: kernels and fonts are then in memory.
RUNNER = """
import contextlib, io, json, resource, signal, sys
from sapwood.cli.main import app

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails with EFBIG

def run(arguments):
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            app(arguments, prog_name="sapwood")
        except SystemExit as end:
            return end.code, err.getvalue()

cases, limits = json.load(sys.stdin)
first = [run(arguments) for arguments, _ in cases]
results = []
for _, arguments in cases:
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        results.append(run(arguments))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(json.dumps([first, results]))
"""


@posix
def test_a_full_disk_is_one_line_and_the_old_file_stays(
    environment: dict[str, str], place: Path
) -> None:
    """Every command, with an old file in the place of its output, and with none."""
    names = [name for name in COMMANDS if name not in ("checkpoint", "compare")]
    cases = []
    for name in names:
        (place / f"old-{name}.png").write_text("old")
        for kind in ("old", "new"):
            first = words(name, f"first-{kind}-{name}.png")
            cases.append([first, [*words(name, f"{kind}-{name}.png"), "--force"]])
    first = words("checkpoint", "first-checkpoint")
    cases.append([first, words("checkpoint", "new-checkpoint")])
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps([cases, LIMITS]), env=environment,
        cwd=place, capture_output=True, text=True, check=True, timeout=WAIT,
    )  # fmt: skip
    first, results = json.loads(done.stdout)
    assert [status for status, _ in first] == [0] * len(cases), first
    for number, (status, err) in enumerate(results):
        arguments = cases[number // len(LIMITS)][1]
        lines = err.splitlines()
        assert status == 1, (arguments, err)
        assert lines[-2].startswith("error: cannot write "), (arguments, err)
        assert lines[-2].endswith(": File too large"), (arguments, err)
        assert lines[-1].startswith("hint: "), (arguments, err)
    for name in names:
        assert (place / f"old-{name}.png").read_text() == "old"
    left = {path.name for path in place.iterdir() if path.name.startswith((".", "new-"))}
    # What a run can go on with stays: a part, or a checkpoint before a model that did not fit.
    assert left <= {"new-resume.png.part", "new-resume.png.part.json", "new-checkpoint"}
    if "new-checkpoint" in left:
        em._read_checkpoint(place / "new-checkpoint")


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such lock")
def test_commands_that_write_in_steps_refuse_an_output_that_another_has(
    fails, dev: Path, tmp_path: Path
) -> None:
    from sapwood.core.outputs import hold_output

    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("the dog sleeps\n")
    line = "error: {}: another command is writing it"
    with hold_output(out):
        assert line.format(out) in fails("lm", "count", text, "-o", out).err
        given = ("train", dev, "-o", tmp_path / "m", "--method", "em", "--states", "2")
        assert line.format(out) in fails(*given, "--checkpoint", out).err
        assert line.format(out) in fails("parse", "bundled", text, "-o", out, "--resume").err
    with hold_output(tmp_path / "my-train.mrg"):
        given = ("split", dev, "-o", f"{tmp_path}/my-")
        assert line.format(tmp_path / "my-train.mrg") in fails(*given).err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]
