"""Print how far a reader walks through the sources to follow three stories.

    python tools/walk.py                        files, switches between files and between rooms
    python tools/walk.py --steps "one EM step"  every step of one story, in order
    python tools/walk.py --into "one EM step"   how many calls lead from other files into each file
    python tools/walk.py --source OTHER/src     the sources of another checkout
    python tools/walk.py --json                 a report for machines on stdout

The stories are learning a spectral grammar from the bundled treebank (reading included), parsing a
sentence with an ensemble from a file (tree, probability and three best trees), and one EM step.

A story is run as users run it, with one thread, and its calls are recorded. The reader follows
every call from one function of ours to another once, in the order in which the calls happen for the
first time: loops and repetitions cost nothing. Functions of other packages are looked through. For
each of these calls the reader must be where the call is made and then goes to the function called.
A *switch* is a move to another file; a *room* is a folder of `src/sapwood`. Modules are imported
and kernels loaded before, so that the numbers are the same every time and on every machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["the", "dog", "sees", "the", "man", "."]
# Comprehensions and lambdas are read where they stand; modules and classes are run by imports.
_IN_PLACE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}


class Place(NamedTuple):
    """A function: its file below the package, and its name there."""

    file: str
    function: str

    @property
    def room(self) -> str:
        """The folder it is in; files of the package itself are one room."""
        return self.file.partition("/")[0] if "/" in self.file else ""


Call = tuple[Place, Place]  # who calls, and what is called


class Recorder:
    """Notes which function of a package calls which, once each, in order."""

    def __init__(self, package: Path) -> None:
        self.folder = f"{package}{os.sep}"
        self.calls: dict[Call, None] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note the calls of this thread until the end of the block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Note calls from now on."""
        sys.setprofile(self._look)

    def stop(self) -> None:
        """Note no more calls."""
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._is_own(frame.f_code):
            return
        caller = frame.f_back
        while caller is not None and not self._is_own(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            self.calls.setdefault((self._place(caller.f_code), self._place(frame.f_code)))

    def _is_own(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self.folder) and code.co_name not in _IN_PLACE

    def _place(self, code: CodeType) -> Place:
        file = code.co_filename.removeprefix(self.folder).replace(os.sep, "/")
        return Place(file, code.co_qualname)


def walk(calls: list[Call]) -> list[Place]:
    """Where the reader is, step by step."""
    return [place for call in calls for place in call]


def switches(names: list[str]) -> int:
    """How often two neighbours differ."""
    return sum(one != other for one, other in pairwise(names))


def figures(calls: list[Call]) -> dict[str, int]:
    """What the walk along some calls costs its reader."""
    places = walk(calls)
    return {
        "files": len({place.file for place in places}),
        "rooms": len({place.room for place in places}),
        "functions": len(set(places)),
        "calls": len(calls),
        "file_switches": switches([place.file for place in places]),
        "room_switches": switches([place.room for place in places]),
    }


# -- the stories ---------------------------------------------------------------------------------


def train_spectral(recorder: Recorder, _: Path) -> None:
    """Read the bundled treebank and learn a spectral grammar."""
    import sapwood as sw

    with recorder.recording():
        sw.SpectralLPCFG(n_states=8).fit(sw.bundled_treebank("train"))


def parse_with_ensemble(recorder: Recorder, folder: Path) -> None:
    """Load an ensemble of two charts and parse a sentence."""
    import sapwood as sw

    path = folder / "ensemble.sapwood"
    if not path.exists():
        bank = sw.bundled_treebank("dev")
        learners = [
            sw.SpectralLPCFG(n_states=4), sw.EMLPCFG(n_states=4, iterations=2), sw.SpanCRF(),
            sw.PCFG(binarise="right"),
        ]  # fmt: skip
        sw.Ensemble.of([learner.fit(bank).model_ for learner in learners]).save(path)
    with recorder.recording():
        parse = sw.Parser(sw.load(path)).parse(WORDS)
        _ = parse.tree, parse.log_prob, parse.k_best(3)


def take_em_step(recorder: Recorder, _: Path) -> None:
    """From the end of one EM iteration to the end of the next."""
    import sapwood as sw

    def listen(iteration: int, _: int, __: float) -> None:
        recorder.stop()
        if iteration == 2:
            recorder.start()

    bank = sw.bundled_treebank("dev")
    sw.EMLPCFG(n_states=2, iterations=4, on_iteration=listen).fit(bank)
    recorder.stop()


STORIES: dict[str, Callable[[Recorder, Path], None]] = {
    "train spectral": train_spectral,
    "parse with an ensemble": parse_with_ensemble,
    "one EM step": take_em_step,
}


def record(story: str, package: Path, folder: Path) -> list[Call]:
    """The calls of a story, from its second run: the first one imports, loads and compiles."""
    STORIES[story](Recorder(package), folder)
    recorder = Recorder(package)
    STORIES[story](recorder, folder)
    return list(recorder.calls)


def main() -> None:
    """Walk and print."""
    parser = argparse.ArgumentParser(description="How far a reader walks to follow three stories.")
    parser.add_argument("--source", type=Path, default=ROOT / "src", metavar="FOLDER")
    parser.add_argument("--steps", choices=STORIES, help="print every step of one story")
    parser.add_argument("--into", choices=STORIES, help="print where the switches of one lead")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    package = arguments.source.resolve() / "sapwood"
    if not package.is_dir():
        parser.error(f"no folder {package}")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path.insert(0, str(package.parent))
    warnings.simplefilter("ignore")  # small treebanks have few pivots; nobody reads a report here
    one = arguments.steps or arguments.into
    stories = [one] if one else list(STORIES)
    with tempfile.TemporaryDirectory() as folder:
        calls = {story: record(story, package, Path(folder)) for story in stories}
    if arguments.steps:
        print_steps(calls[arguments.steps])
    elif arguments.into:
        print_goals(calls[arguments.into])
    else:
        print_figures({story: figures(made) for story, made in calls.items()}, arguments.json)


def print_steps(calls: list[Call]) -> None:
    """One line for each call."""
    for caller, callee in calls:
        mark = "  " if caller.file == callee.file else "->"
        print(f"{caller.file}:{caller.function}  {mark}  {callee.file}:{callee.function}")


def print_goals(calls: list[Call]) -> None:
    """One line for each file that others lead to, most often first."""
    goals = Counter(callee.file for caller, callee in calls if caller.file != callee.file)
    for file, n in goals.most_common():
        print(f"{n:5}  {file}")


def print_figures(table: dict[str, dict[str, int]], as_json: bool) -> None:
    """One line for each story."""
    if as_json:
        print(json.dumps(table, indent=2))
        return
    row: Any = "{:<24}{:>8}{:>8}{:>12}{:>8}{:>16}{:>16}".format
    print(row("story", "files", "rooms", "functions", "calls", "file switches", "room switches"))
    for story, numbers in table.items():
        print(row(story, *numbers.values()))


if __name__ == "__main__":
    main()
