"""Work in processes of its own: heavy requests that need no model, and training.

A process can be ended at any moment, has a memory limit of its own, and leaves memory and processor
to other requests. The request is one line of JSON on stdin, events are lines of JSON on stdout, and
the last event is the answer. The process ends when its stdin is closed, so that it never outlives
the server, and then removes the server's folder.
"""

from __future__ import annotations

import _thread
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.web.guard import MEGABYTE, Limits, Refusal, error_body

if TYPE_CHECKING:
    from sapwood.core.progress import Event
    from sapwood.corpora.tree import Tree

POLL = 0.05  # seconds between two checks of the time
END_SECONDS = 5.0  # seconds to wait for a killed process to end
NICENESS = 10  # of heavy requests
ORPHANED = 3  # exit status of a process whose server is gone
OUT_OF_MEMORY = b'{"event": "memory"}\n'
NO_MEMORY = (-signal.SIGABRT, -getattr(signal, "SIGKILL", signal.SIGABRT))
N_ERRORS = 20  # errors of a treebank that are shown
EXCERPT = 160  # characters of a broken line that are shown
LEAST_UPLOAD_TREES = 2  # trees that a treebank needs for training


def start_process(
    function: str,
    arguments: dict[str, Any],
    *,
    folder: Path,
    memory: int,
    niceness: int = 0,
    is_quiet: bool = False,
) -> subprocess.Popen[str]:
    """Start a process that calls a function of `FUNCTIONS`.

    Parameters
    ----------
    arguments
        The keyword arguments of the function.
    folder
        The server's folder, which the process removes when the server is gone.
    memory
        Bytes of address space that the process may take.
    is_quiet
        Whether the stderr of the process is dropped.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "sapwood.web.processes"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if is_quiet else None, text=True, encoding="utf-8",
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        start_new_session=True,  # so that Ctrl-C reaches the server alone
    )  # fmt: skip
    assert process.stdin is not None
    order = {
        "function": function, "arguments": arguments, "folder": str(folder), "memory": memory,
        "niceness": niceness,
    }  # fmt: skip
    with suppress(BrokenPipeError):  # it has ended already: its status says why
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
    return process


def close_streams(process: subprocess.Popen[str]) -> None:
    """Close the two ends of the pipes to a process that has ended."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


class RequestProcesses:
    """Starts a process for each heavy request, and kills it when the client has gone."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = Lock()
        self._is_stopped = False

    def ask(self, name: str, arguments: dict[str, Any], check: Callable[[], None]) -> Any:
        """Call a function of `FUNCTIONS` in a new process and return its result.

        Parameters
        ----------
        check
            Raises an error when time is up or the client has left; the process is killed then.

        Raises
        ------
        SapwoodError
            The error of Sapwood that the function raised.
        Refusal
            422 where the memory limit is reached.
        """
        with self._lock:
            if self._is_stopped:
                raise Refusal(503, "the server is stopping")
            process = start_process(
                name, arguments, folder=self.folder, memory=self.limits.memory, niceness=NICENESS
            )
            self._running.add(process)
        try:
            found = self._wait(process, check)
        finally:
            process.kill()
            process.wait()
            close_streams(process)
            with self._lock:
                self._running.discard(process)
        if not found and process.returncode not in NO_MEMORY:
            raise RuntimeError(f"the process for {name!r} ended with status {process.returncode}")
        event = json.loads(found or OUT_OF_MEMORY)
        if event["event"] == "memory":
            limit = f"{self.limits.memory / MEGABYTE:,.0f} MB"
            raise Refusal(
                422,
                f"the answer needs more than the {limit} of memory that a request may take",
                "ask for less, or start the server with a larger --max-memory",
            )
        if event["event"] == "failed":
            position = {key: event[key] for key in ("line", "column") if key in event}
            kind = CorpusError if position else SapwoodError
            raise kind(event["error"], hint=event["hint"], **position)
        return event["answer"]

    def _wait(self, process: subprocess.Popen[str], check: Callable[[], None]) -> str:
        """The line that the process prints; its stdin stays open until the process has ended."""
        found: list[str] = []
        is_read = Lock()
        is_read.acquire()

        def read(stdout: Any = process.stdout) -> None:
            with suppress(ValueError):  # closed while it was read
                found.append(stdout.readline())
            is_read.release()

        _thread.start_new_thread(read, ())
        while not is_read.acquire(timeout=POLL):
            check()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        return found[0] if found else ""

    def stop(self) -> None:
        """Kill every process, and start no others."""
        with self._lock:
            self._is_stopped = True
            running = list(self._running)
        for process in running:
            process.kill()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


# -- in the process -------------------------------------------------------------------------------


def answer_order() -> None:
    """Call the function that the request on stdin names, and print its result."""
    order = json.loads(sys.stdin.readline())
    _thread.start_new_thread(end_with_server, (order["folder"],))
    limit_memory(order["memory"])
    if hasattr(os, "nice"):
        os.nice(order["niceness"])
    try:
        tell("done", answer=FUNCTIONS[order["function"]](**order["arguments"]))
    except SapwoodError as error:
        tell("failed", **error_body(error))
    except MemoryError:  # there may be no memory left to build a message
        os.write(1, OUT_OF_MEMORY)
        os._exit(0)
    sys.stdout.close()
    os._exit(0)  # at once, without waiting for the thread that reads stdin


def end_with_server(folder: str) -> None:
    """Wait until the server is gone, then remove its folder and end the process."""
    sys.stdin.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(ORPHANED)


def limit_memory(size: int) -> None:
    """Limit the address space of this process, on systems that have such a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    least = size if most == resource.RLIM_INFINITY else min(size, most)
    with suppress(ValueError, OSError):  # a system that has the limit, but does not keep it
        resource.setrlimit(resource.RLIMIT_AS, (least, most))


def tell(event: str, **facts: Any) -> None:
    """Print an event as one line of JSON for the server."""
    from sapwood.report import to_json

    sys.stdout.write(to_json({"event": event} | facts) + "\n")
    sys.stdout.flush()


def answer_identify(family: str, **size: Any) -> Any:
    """Whether a family of models can be learnt from moments, as a report."""
    from sapwood.report import identify_family

    return identify_family(family, **size).to_dict()


def answer_identify_table(words: int, states: int, length: int) -> Any:
    """Deficits of all families and moments at one size."""
    from sapwood.identify.report import identify_size

    return {"rows": identify_size(words, states, length)}


def check_upload(data: str, trees: str) -> Any:
    """Check the treebank in a file, and write its good trees to another file."""
    from sapwood.corpora.formats import write_trees

    report, found = check_treebank(Path(data).read_bytes())
    if len(found) >= LEAST_UPLOAD_TREES:
        write_trees(found, trees)
    return report


def check_treebank(data: bytes) -> tuple[dict[str, Any], list[Tree]]:
    r"""Read the trees of a treebank, and report those that cannot be read.

    Returns
    -------
    tuple
        The report (`trees`, `words`, `labels`, the first of the `errors`, each with `line`,
        `column`, an `excerpt` of the line and `at`, the position of the error in the excerpt; and
        the number of all errors, `n_errors`), and the good trees, cleaned.

    Examples
    --------
    >>> report, trees = check_treebank(b"(S (NP (NN dogs)) (VP (VB bark)))\n(S (NP oops\n")
    >>> report["trees"], report["errors"][0]["line"]
    (1, 2)
    """
    from sapwood.corpora.formats import read_lines
    from sapwood.corpora.tree import clean_all

    if data[:2] == b"\x1f\x8b":
        hint = "unpack it first; only the server's own files are unpacked"
        raise SapwoodError("a compressed file, expected text", hint=hint)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8: byte {data[error.start]:#x}"
        raise CorpusError(message, line=line, hint="save the file as UTF-8 text") from None
    skipped: list[CorpusError] = []
    trees = list(clean_all(read_lines(io.StringIO(text), "treebank", skipped=skipped)))
    if not trees and not skipped:
        hint = "trees are written in brackets: (S (NP (NN dogs)) (VP ...))"
        raise CorpusError("no tree found", hint=hint)
    lines = text.split("\n")
    labels = {node.label for tree in trees for node in tree.nodes() if not node.is_preterminal}
    report = {
        "trees": len(trees),
        "words": sum(len(tree.words()) for tree in trees),
        "labels": len(labels),
        "n_errors": len(skipped),
        "errors": [show_error(error, lines) for error in skipped[:N_ERRORS]],
    }
    return report, trees


def show_error(error: CorpusError, lines: list[str]) -> dict[str, Any]:
    """An error, with an excerpt of its line and the position of the error in the excerpt."""
    line = lines[error.line - 1].rstrip("\r") if error.line and error.line <= len(lines) else ""
    at = max((error.column or 1) - 1, 0)
    first = max(0, at - EXCERPT // 2)
    return {
        "error": error.message, "hint": error.hint, "line": error.line, "column": error.column,
        "excerpt": line[first : first + EXCERPT], "at": min(at - first, EXCERPT),
    }  # fmt: skip


class TrainingOrder(NamedTuple):
    """The settings of one training.

    Attributes
    ----------
    trees, dev
        Files of trees in brackets; None for the bundled trees. `dev` is `""` for no dev trees.
    every
        Every how many trees one is held out as a dev tree; 0 holds out none.
    out
        The model file to write.
    """

    trees: str | None
    dev: str | None
    every: int
    method: str
    states: int
    budget: float
    iterations: int | None
    seed: int
    out: str

    def read(self) -> tuple[list[Tree], list[Tree]]:
        """Read the training trees and the dev trees."""
        from sapwood.constituency.data.treebank import bundled_treebank
        from sapwood.corpora.formats import read_trees
        from sapwood.corpora.tree import clean_all

        trees = list(
            bundled_treebank("train") if self.trees is None else clean_all(read_trees(self.trees))
        )
        if self.every:
            held = trees[:: self.every]
            return [tree for k, tree in enumerate(trees) if k % self.every], held
        if self.dev is None:
            return trees, list(bundled_treebank("dev"))
        return trees, list(clean_all(read_trees(self.dev))) if self.dev else []


def train_on_page(order: TrainingOrder, tell: Callable[..., None]) -> dict[str, Any]:
    """Read the trees, train, save the model and score it on the dev trees; returns the report.

    Parameters
    ----------
    tell
        Called with the name of each event, such as an iteration, and its facts.
    """
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.learn.registry import METHODS, Settings
    from sapwood.constituency.report.training import train_method
    from sapwood.core.model_card import with_provenance
    from sapwood.corpora.conventions import PENN
    from sapwood.report import score_on
    from sapwood.web.models import traits_of

    began, began_cpu = perf_counter(), process_time()
    tell("phase", name="reading")
    trees, dev = order.read()
    bank = Treebank.from_trees(trees)
    tell("read", trees=bank.n_trees, words=bank.n_tokens, dev=len(dev))
    iterations = {} if order.iterations is None else {
        "iterations": order.iterations, "passes": order.iterations,
    }  # fmt: skip
    settings = Settings(iterations | {
        "seed": order.seed, "n_jobs": 1, "n_states": order.states, "budget": order.budget,
        "spent": process_time() - began_cpu,
        "listen": partial(tell_facts, tell, METHODS[order.method].has_candidates),
    })  # fmt: skip
    tell("phase", name="training")
    learner, report = train_method(order.method, settings, bank, dev or None)
    tell("phase", name="saving")
    model: Any = learner.model_
    report["traits"] = traits_of(model)
    names = [Path(order.trees or "bundled").name]
    with_provenance(model, seed=order.seed, treebanks=names, tokenisation=PENN).save(order.out)
    if dev:
        tell("phase", name="parsing dev")
        report["dev"] = score_on(model, dev)
    return report | {"seconds": round(perf_counter() - began, 3)}


def tell_facts(tell: Callable[..., None], has_candidates: bool, event: Event) -> None:
    """Send the facts of a training to the page; with several candidates, only their outcomes."""
    facts = event.facts
    if "trial" in facts:
        trial = facts["trial"]
        tell("trial", name=trial.name, seconds=trial.seconds, f1=trial.f1, verdict=trial.verdict)
    elif "dev_f1" in facts:
        tell("grade", n=facts["iteration"], f1=facts["dev_f1"])
    elif "log_likelihood" in facts and not has_candidates:
        n, states, log = (facts[name] for name in ("iteration", "states", "log_likelihood"))
        tell("iteration", n=n, states=states, log=log)


def answer_train(**order: Any) -> dict[str, Any]:
    """Train as the order says, without warnings, and print events."""
    warnings.simplefilter("ignore")
    return train_on_page(TrainingOrder(**order), tell)


def answer_audit(**order: Any) -> dict[str, Any]:
    """Audit a treebank as the order says, and print events."""
    from sapwood.web.audits import audit_upload

    return audit_upload(**order)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "identify": answer_identify,
    "identify/table": answer_identify_table,
    "upload": check_upload,
    "train": answer_train,
    "audit": answer_audit,
}

if __name__ == "__main__":
    answer_order()
