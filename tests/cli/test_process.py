"""What only a process of its own can show: streams, broken pipes, signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.execute.processes import CAN_FORK

SENTENCE = "the dog sleeps .\n"
TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n"
WAIT = 120  # seconds; the first run on a machine compiles the kernels


@pytest.mark.parametrize("jobs", [1, 2])
def test_parse_answers_line_by_line(start, model: Path, jobs: int) -> None:
    with start("parse", model, "--jobs", jobs) as process:
        for line, answer in ((SENTENCE, TREE), ("\n", "\n"), (SENTENCE, TREE)):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == answer  # stdin is still open
        out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (0, "")
    assert err.startswith("2 sentences  1 empty line  ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_is_one_line(start, model: Path, jobs: int) -> None:
    with start("parse", model, "--jobs", jobs) as process:
        process.stdin.write(SENTENCE)
        process.stdin.flush()
        assert process.stdout.readline() == TREE
        process.send_signal(signal.SIGINT)  # while it waits for more
        assert process.wait(timeout=WAIT) == 130
        assert process.stderr.read() == "interrupted\n"


@pytest.mark.skipif(not CAN_FORK, reason="threads do the work here")
def test_ctrl_c_ends_all_processes(start, model: Path, tmp_path: Path) -> None:
    """Typed on a terminal it reaches all of them; what was written before is whole."""
    text = tmp_path / "text"
    text.write_text(SENTENCE * 100_000)
    with start("parse", model, text, "--jobs", 2, start_new_session=True) as process:
        lines = [process.stdout.readline() for _ in range(2000)]
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.killpg(process.pid, signal.SIGINT)
        lines += process.stdout.readlines()
        assert process.wait(timeout=WAIT) == 130
        assert process.stderr.read() == "interrupted\n"
    assert len(workers) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert set(lines) == {TREE}
    assert 2000 <= len(lines) < 100_000


@pytest.mark.parametrize(
    ("command", "options"),
    [("parse", ["--jobs", "1"]), ("parse", ["--jobs", "2"]), ("sample", ["-n", "99999"])],
)
def test_a_broken_pipe_ends_quietly(start, model: Path, command: str, options: list[str]) -> None:
    with start(command, model, *options) as process:
        if command == "parse":
            process.stdin.write(SENTENCE)
            process.stdin.flush()
        assert process.stdout.readline().startswith("(TOP ")
        process.stdout.close()
        try:
            process.stdin.write(SENTENCE * 100)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.wait(timeout=WAIT) == 0
        assert "Traceback" not in process.stderr.read()


def test_help_into_a_broken_pipe(start) -> None:
    with start("--help") as process:
        process.stdout.close()
        assert process.wait(timeout=WAIT) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_output_file_is_not_left(
    start, model: Path, tmp_path: Path, jobs: int
) -> None:
    with start("parse", model, "-", "-o", tmp_path / "out", "--jobs", jobs) as process:
        process.stdin.write(SENTENCE)
        process.stdin.flush()
        while not list(tmp_path.iterdir()):  # it has begun, and may be loading kernels
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=WAIT) == 130
    assert not list(tmp_path.iterdir())


def test_pipeline(environment: dict[str, str], model: Path) -> None:
    python = f"{sys.executable} -m sapwood"
    command = (
        f"{python} sample {model} -n 5 > gold && {python} sample {model} -n 5 --words |"
        f" {python} parse {model} | {python} evaluate gold - --json"
    )
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=True, env=environment,
        cwd=model.parent,
    )  # fmt: skip
    assert '"sentences": 5' in done.stdout


@pytest.mark.parametrize(("said", "found"), [(None, "1"), ("3", "3")])
def test_products_of_small_matrices_get_one_thread(
    environment: dict[str, str], said: str | None, found: str
) -> None:
    code = (
        "import os, sys\nfrom sapwood.cli.main import run_command_line\n"
        "sys.argv[1:] = ['--version']\n"
        "assert 'numpy' not in sys.modules\n"  # else it would be too late
        "try: run_command_line()\nexcept SystemExit: print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {k: v for k, v in environment.items() if k != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": said} if said else {}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == found


def test_any_locale_gets_utf8(start, environment: dict[str, str], model: Path) -> None:
    command = [sys.executable, "-m", "sapwood", "parse", str(model)]
    strange = environment | {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run(
        command, input="日本 é .".encode(), capture_output=True, check=True, env=strange
    )
    assert "日本" in done.stdout.decode()


def test_failures_have_no_traceback(start) -> None:
    with start("parse", "nowhere.sapwood") as process:
        out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (1, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "hint"]


def test_debug_has_one(start) -> None:
    with start("--debug", "parse", "nowhere.sapwood") as process:
        _, err = process.communicate(timeout=WAIT)
    assert process.returncode == 1
    assert "Traceback" in err
    assert "ModelFormatError" in err


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are any bytes on Linux only")
def test_names_that_are_not_utf_8(start, dev: Path, tmp_path: Path) -> None:
    """Commands read and write such files, record them in models, and show them escaped."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff"))
    folder.mkdir()
    trees, model = folder / "t.mrg.gz", folder / "m.sapwood"
    trees.write_bytes(dev.read_bytes())
    results = {}
    for name, args in {
        "train": ("train", trees, "-o", model, "--method", "pcfg"),
        "inspect": ("inspect", model, "--json"),
        "missing": ("parse", model, folder / "none.txt"),
    }.items():
        with start(*args) as process:
            out, err = process.communicate(timeout=WAIT)
            results[name] = (process.returncode, out, err)
    assert results["train"][0] == 0, results["train"]
    assert "bad\\udcff/m.sapwood" in results["train"][2]
    assert json.loads(results["inspect"][1])["record"]["treebanks"] == [str(trees)]
    assert results["missing"][0] == 1
    assert "bad\\udcff/none.txt: no such file\n" in results["missing"][2]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_a_terminal_does_not_obey_what_stands_in_a_file(
    environment: dict[str, str], plain: sw.LatentGrammar, tmp_path: Path
) -> None:
    """The record of a model holds an escape sequence; a pipe gets it as JSON writes it."""
    path = tmp_path / "m.sapwood"
    replace(plain, record={"method": "pcfg", "treebanks": ["\x1b]0;title\x07.mrg"]}).save(path)
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "sapwood", "inspect", str(path)]
    subprocess.run(command, stdout=theirs, env=environment, timeout=WAIT, check=True)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while found := os.read(ours, 1 << 16):
            shown += found
    os.close(ours)
    assert b"\\x1b]0;title\\x07.mrg" in shown
    assert b"\x1b" not in shown
