"""The training process: reads its order as one line of JSON from stdin, prints events as JSON.

The process ends when its stdin is closed, so that it never outlives the server, and then removes
the server's folder.
"""

from __future__ import annotations

import _thread
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree

Tell = Callable[..., None]
ORPHANED = 3  # exit status of a process whose server is gone


class Order(NamedTuple):
    """The settings of one training.

    Attributes
    ----------
    trees, dev
        Files of trees in brackets; None for the bundled trees. `dev` is `""` for no dev trees.
    every
        Every how many trees one is held out as a dev tree; 0 holds out none.
    out
        The model file to write.
    folder
        The server's folder, which is removed when the server is gone.
    memory
        Bytes of address space that the process may take.
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
    folder: str
    memory: int


def main() -> None:
    """Train as the order on stdin says, and print events."""
    order = Order(**json.loads(sys.stdin.readline()))
    _thread.start_new_thread(end_with_server, (order.folder,))
    limit_memory(order.memory)
    warnings.simplefilter("ignore")
    try:
        train(order, tell)
    except SapwoodError as error:
        tell("failed", error=str(error), hint=error.hint)
    except MemoryError:
        hint = "train with fewer states or a smaller treebank, or serve with a larger --max-memory"
        tell("failed", error="the training needs more memory than it may take", hint=hint)


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


def train(order: Order, tell: Tell) -> None:
    """Read the trees, train, save the model and score it on the dev trees."""
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.learn.registry import Settings
    from sapwood.constituency.report.training import sign, train_method
    from sapwood.report import score_on
    from sapwood.web.loaded_models import traits_of

    began, began_cpu = perf_counter(), process_time()
    tell("phase", name="reading")
    trees, dev = _read(order)
    bank = Treebank.from_trees(trees)
    tell("read", trees=bank.n_trees, words=bank.n_tokens, dev=len(dev))
    settings = Settings(
        seed=order.seed, jobs=1, states=order.states, most_states=order.states,
        budget=order.budget, spent=process_time() - began_cpu, iterations=order.iterations,
        on_iteration=lambda n, states, log: tell("iteration", n=n, states=states, log=log),
        on_grade=lambda n, f1: tell("grade", n=n, f1=f1),
        on_trial=lambda trial: tell(
            "trial", name=trial.name, seconds=trial.seconds, f1=trial.f1, verdict=trial.verdict
        ),
    )  # fmt: skip
    tell("phase", name="training")
    learner, report = train_method(order.method, settings, bank, dev or None)
    tell("phase", name="saving")
    model: Any = learner.model_
    report["traits"] = traits_of(model)
    name = Path(order.trees or "bundled").name
    sign(model, seed=order.seed, treebanks=[name]).save(order.out)
    if dev:
        tell("phase", name="parsing dev")
        report["dev"] = score_on(model, dev)
    tell("done", report=report | {"seconds": round(perf_counter() - began, 3)})


def _read(order: Order) -> tuple[list[Tree], list[Tree]]:
    """Read the training trees and the dev trees."""
    from sapwood.constituency.data.treebank import bundled_treebank
    from sapwood.corpora.formats import read_trees
    from sapwood.corpora.tree import clean_all

    trees = (
        list(bundled_treebank("train"))
        if order.trees is None
        else list(clean_all(read_trees(order.trees)))
    )
    if order.every:
        held = trees[:: order.every]
        return [tree for k, tree in enumerate(trees) if k % order.every], held
    if order.dev is None:
        return trees, list(bundled_treebank("dev"))
    return trees, list(clean_all(read_trees(order.dev))) if order.dev else []


if __name__ == "__main__":
    main()
