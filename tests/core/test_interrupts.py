"""Ctrl-C at any moment: status 130 or 0, no crash, nothing half-written; a notebook lives on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.data.treebank import sample_path
from sapwood.constituency.learn import em

HERE = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(HERE.parent / "src"), "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip
WAIT = 240  # seconds; the first run on a machine compiles the kernels
BAD = re.compile(r"Traceback|fault|Segmentation|unexpected|Aborted|Exception ignored|error:")

# `{trees}`, `{model}`, `{plain}`, `{text}` are files that are there; everything else is written
COMMANDS = {
    "pcfg": "train {trees} -o out.sapwood --method pcfg -j 1",
    "spectral": "train {trees} -o out.sapwood --method spectral --states 4 -j 1",
    "em": "train {trees} -o out.sapwood --method em --states 4 --iterations 4 -j 1",
    "em -j 2": "train {trees} -o out.sapwood --method em --states 4 --iterations 4 -j 2",
    "checkpoint": "train {trees} -o out.sapwood --method em --states 4 --iterations 4 -j 1"
    " --checkpoint em.checkpoint",
    "cluster": "train {trees} -o out.sapwood --method cluster --states 4 -j 1",
    "pivot": "train {trees} -o out.sapwood --method pivot --states 4 -j 1",
    "pivot-em": "train {trees} -o out.sapwood --method pivot-em --states 4 -j 2",
    "crf": "train {trees} -o out.sapwood --method crf -j 1",
    "crf -j 2": "train {trees} -o out.sapwood --method crf -j 2",
    "encoder -j 2": "train {trees} -o out.sapwood --method encoder --iterations 2 -j 2",
    "best": "train {trees} -o out.sapwood --method best --budget 2s -j 1",
    "best -j 2": "train {trees} -o out.sapwood --method best --budget 2s -j 2",
    "parse": "parse {model} {text} -o out.mrg -j 1",
    "parse -j 2": "parse {model} {text} -o out.mrg -j 2",
    "parse --resume": "parse {model} {text} -o out.mrg -j 1 --resume",
    "compare": "compare {trees} {trees} --methods pcfg,em --states 2 --limit 50 -j 1",
    "score": "score {model} {trees}",
    "sample": "sample {plain} -n 3000",
    "evaluate": "evaluate {trees} {trees}",
    "demo": "demo",
    "doctor": "doctor --warm",
    "unmix": "unmix pcfg-ie --refine em {text}",
    "identify": "identify table --max-words 4 --max-states 3 --max-length 5",
}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("interrupts")
    bank = sw.bundled_treebank("dev")
    model, plain, text = folder / "model.sapwood", folder / "plain.sapwood", folder / "text"
    sw.SpectralLPCFG(4).fit(bank).model_.save(model)
    sw.PCFG().fit(bank).model_.save(plain)
    sentences = [" ".join(bank.words(tree)) for tree in range(bank.n_trees)]
    text.write_text("\n".join(sentences * 5) + "\n")
    trees = Path(str(sample_path("dev")))
    return {"trees": trees, "model": model, "plain": plain, "text": text}


Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def ask(files: dict[str, Path]) -> Iterator[Ask]:
    """Run a command in a fork of a process that has all kernels loaded."""
    command = [sys.executable, str(HERE / "fork_and_interrupt.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as server:
        assert server.stdin
        assert server.stdout
        assert server.stdout.readline() == "ready\n"

        def request(name: str, folder: Path, delay: float | None, terminal: bool) -> dict[str, Any]:
            assert server.stdin
            assert server.stdout
            folder.mkdir()
            argv = COMMANDS[name].format(**files).split()
            told = {"argv": argv, "folder": str(folder), "delay": delay, "terminal": terminal}
            server.stdin.write(json.dumps(told) + "\n")
            server.stdin.flush()
            found: dict[str, Any] = json.loads(server.stdout.readline())
            return found

        yield request
        server.stdin.close()


def check(name: str, status: int, text: str, folder: Path) -> None:
    """A command that was interrupted, or was faster."""
    assert status in (0, 130), (name, status, text)
    assert not BAD.search(text), (name, status, text)
    for path in folder.iterdir():
        if path.suffix == ".sapwood":
            sw.load(path)  # whole, or this fails
        elif path.name == "em.checkpoint":
            em._read_checkpoint(path)  # likewise
        elif path.name == "out.mrg":
            assert status == 0, (name, "an unfinished output has its name")
        else:
            is_kept = name == "parse --resume" and path.name.startswith("out.mrg.part")
            assert is_kept, (name, "left behind", path.name)


def interrupt_many(ask: Ask, tmp_path: Path, names: list[str], n: int) -> dict[int, int]:
    """Interrupt each command n times, at random moments of its life; count how they ended."""
    rng = np.random.default_rng(7)
    counts: dict[int, int] = {}
    for name in names:
        whole = ask(name, tmp_path / f"{name} whole", None, False)
        check(name, whole["status"], whole["text"], tmp_path / f"{name} whole")
        for k in range(n):
            folder = tmp_path / f"{name} {k}"
            # not while Python forks: call-backs of its own would drop the exception
            delay = max(0.03, float(rng.uniform(0.0, whole["seconds"])))
            found = ask(name, folder, delay, bool(k % 2))
            check(name, found["status"], found["text"], folder)
            counts[found["status"]] = counts.get(found["status"], 0) + 1
    return counts


def test_commands_on_one_thread_can_be_interrupted(ask: Ask, tmp_path: Path) -> None:
    counts = interrupt_many(ask, tmp_path, ["crf", "parse"], 3)
    assert counts.get(130, 0) >= 2


@pytest.mark.slow
def test_every_command_can_be_interrupted_at_any_moment(ask: Ask, tmp_path: Path) -> None:
    counts = interrupt_many(ask, tmp_path, list(COMMANDS), 8)
    assert sum(counts.values()) == 8 * len(COMMANDS)
    assert counts.get(130, 0) > sum(counts.values()) / 2, counts


# -- processes of their own: imports, loading from the cache --------------------------------------


# What Python does before it runs anything of ours, when interrupted, is its own affair.
FRESH = "from sapwood.__main__ import main; print('Python is there', flush=True); main()"


def start_and_interrupt(name: str, files: dict[str, Path], folder: Path, delay: float) -> int:
    folder.mkdir()
    argv = COMMANDS[name].format(**files).split()
    process = subprocess.Popen(
        [sys.executable, "-c", FRESH, *argv], cwd=folder, env=ENVIRONMENT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "Python is there\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=WAIT)
    check(name, process.returncode, text, folder)
    return process.returncode


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.8])
def test_a_fresh_process_can_be_interrupted(
    files: dict[str, Path], tmp_path: Path, delay: float
) -> None:
    """While modules are imported, and kernels loaded."""
    start_and_interrupt("parse", files, tmp_path / "out", delay)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parse", "crf", "em", "best", "score", "doctor"])
def test_fresh_processes_can_be_interrupted(
    files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    rng = np.random.default_rng(11)
    ends = [
        start_and_interrupt(name, files, tmp_path / str(k), float(rng.uniform(0.0, 4.0)))
        for k in range(6)
    ]
    assert 130 in ends


def test_an_interrupt_at_the_very_end_changes_nothing() -> None:
    """While Python takes itself apart: the command is done, and its status stays."""
    code = (
        "import atexit, os, signal, sys\nfrom sapwood.__main__ import main\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\nsys.argv[1:] = ['doctor']\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert (done.returncode, done.stderr) == (0, "")


DROPPED = """
import sys, time, weakref
from sapwood.cli.main import handle_interrupts
handle_interrupts()
class Thing: pass
def call_back(_):
    import signal
    signal.raise_signal(signal.SIGINT)
    time.sleep(0)
thing = Thing()
kept = weakref.ref(thing, call_back)
try:
    del thing  # Python drops exceptions of its call-backs
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_a_call_back_dropped_is_raised_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, check=False,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


@pytest.mark.slow
def test_compiling_can_be_interrupted(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing compiled yet, Ctrl-C ends the command within seconds, and the cache is good."""
    monkeypatch.setitem(ENVIRONMENT, "NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for k, delay in enumerate((2.0, 4.0, 7.0)):
        began = time.perf_counter()
        assert start_and_interrupt("parse", files, tmp_path / str(k), delay) == 130
        assert time.perf_counter() - began < delay + 20  # three seconds on a quiet machine
    command = [sys.executable, "-m", "sapwood", *COMMANDS["parse"].format(**files).split()]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert done.returncode == 0


# -- a notebook: the process lives on -------------------------------------------------------------

LOOPS = {
    "parse": "for words in sentences: parser.parse(words)",
    "em": "sw.EMLPCFG(4, iterations=3).fit(bank)",
    "crf": "sw.SpanCRF(passes=1).fit(bank)",
    "score": "model.log_probs(bank); model.log_prob(sentences[0])",
    "k-best": "parser.parse(sentences[0]).k_best(5)",
}
NOTEBOOK = """
import os, random, signal, sys, threading, time
import sapwood as sw
number = {"SIGINT": signal.SIGINT, "SIGALRM": signal.SIGALRM}[sys.argv[2]]
if number != signal.SIGINT:
    def mine(*_): raise KeyboardInterrupt  # somebody's own handler of an alarm
    signal.signal(number, mine)
bank = sw.bundled_treebank("dev")
sentences = [bank.words(tree) for tree in range(60)]
model = sw.SpectralLPCFG(2).fit(bank).model_
parser = sw.Parser(model)
def cell():
    CELL
def answer():
    return parser.parse(sentences[0]).tree, parser.parse(sentences[0]).log_prob
before = answer()
cell()
random.seed(int(sys.argv[1]))
caught = 0
for _ in range(int(sys.argv[3])):
    timer = threading.Timer(random.uniform(0, 0.15), os.kill, (os.getpid(), number))
    try:
        timer.start()
        while True:
            cell()
    except KeyboardInterrupt:
        caught += 1
    timer.join()
    assert answer() == before
print("caught", caught)
"""


def run_notebook(name: str, n: int, kind: str = "SIGINT", seed: int = 0) -> None:
    code = NOTEBOOK.replace("CELL", LOOPS[name])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code, str(seed), kind, str(n)],
        capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=2 * WAIT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"caught {n}\n"), (name, done.stderr[-3000:])
    assert "Exception ignored" not in done.stderr


def test_a_loop_of_parses_can_be_interrupted() -> None:
    run_notebook("parse", 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SIGINT", "SIGALRM"])
@pytest.mark.parametrize("name", LOOPS)
def test_python_loops_can_be_interrupted(name: str, kind: str) -> None:
    run_notebook(name, 40, kind, seed=1)
