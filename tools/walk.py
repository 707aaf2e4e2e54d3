"""Print how far a reader walks through the sources to follow nine stories.

    python tools/walk.py                        files, rooms, and switches between them
    python tools/walk.py --steps "EM iteration" every step of one story, in order
    python tools/walk.py --into "EM iteration"  how many calls lead from other files into each file
    python tools/walk.py --page                 write the table into docs/concepts/architecture.md
    python tools/walk.py --check                fail where the table of that page is not up to date
    python tools/walk.py --source OTHER/src     the sources of another checkout
    python tools/walk.py --json                 a report for machines on stdout

A story is run as users run it, with one worker and small data, and its calls are recorded. The
reader follows every call from one function of Sapwood to another once, in the order in which the
calls happen for the first time: loops and repetitions cost nothing. Functions of other packages are
looked through. For each call the reader must be where the call is made and then goes to the
function called. A *switch* is a move to another file. A *room* is a folder of a family
(`constituency/parse`) or a shared folder (`core`, `cli`); kernels belong to the room that holds
them. Every story runs twice and the second run is recorded, so that modules are imported and
kernels are compiled before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
BEGIN, END = "<!-- walk: begin -->", "<!-- walk: end -->"
FAMILIES = ("constituency", "dependency", "hankel", "lm", "identify")
SENTENCE = "the dog sees the man ."
# Comprehensions and lambdas are read where they stand; modules and classes are run by imports.
_IN_PLACE = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>"}


class Place(NamedTuple):
    """A function: its file below the package, and its name there."""

    file: str
    function: str

    @property
    def room(self) -> str:
        """The folder that the file belongs to; a file of a family or of the package is its own."""
        top, *rest = self.file.split("/")
        return f"{top}/{rest[0].removesuffix('.py')}" if top in FAMILIES and rest else top


Call = tuple[Place, Place]  # who calls, and what is called


class Recorder:
    """Record which function of a package calls which, once each, in order."""

    def __init__(self, package: Path) -> None:
        self.folder = f"{package}{os.sep}"
        self.calls: dict[Call, None] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of this thread, and of threads that it starts, inside the block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def start(self) -> None:
        """Record calls from now on."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def stop(self) -> None:
        """Record no more calls."""
        sys.setprofile(None)
        threading.setprofile(None)

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
    """What the walk along the calls costs its reader."""
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


def learn_spectral(recorder: Recorder, folder: Path) -> None:
    """Read a file of brackets, learn a spectral grammar, and save it."""
    import sapwood as sw

    trees = folder / "trees.mrg"
    if not trees.exists():
        trees.write_text("\n".join(map(str, sw.bundled_treebank("dev"))), encoding="utf-8")
    with recorder.recording():
        bank = sw.read_treebank(trees)
        sw.SpectralLPCFG(n_states=4).fit(bank).model_.save(folder / "spectral.sapwood")


def parse_sentence(recorder: Recorder, folder: Path) -> None:
    """Load the default mix, with a network in it, and parse a sentence."""
    import sapwood as sw

    path = _ensemble(folder)
    with recorder.recording():
        parse = sw.Parser(sw.load(path)).parse(SENTENCE.split())
        _ = parse.tree, parse.log_prob, parse.k_best(3)


def iterate_em(recorder: Recorder, _: Path) -> None:
    """From the end of one EM iteration to the end of the next."""
    import sapwood as sw

    def listen(event: Any) -> None:
        if "log_likelihood" in event.facts:
            recorder.stop()
            if event.facts["iteration"] == 2:
                recorder.start()

    sw.EMLPCFG(n_states=2, iterations=4, listen=listen).fit(sw.bundled_treebank("dev"))
    recorder.stop()


def train_dependencies(recorder: Recorder, folder: Path) -> None:
    """`sapwood depend train --method best`, with features and a network."""
    arcs = _dependency_trees(folder)
    _command(recorder, "depend", "train", arcs, "-o", folder / "arcs.sapwood", "--force",
             "--method", "best", "--jobs", "1")  # fmt: skip


def parse_dependencies(recorder: Recorder, folder: Path) -> None:
    """`sapwood depend parse`, with the model of the story before."""
    if not (folder / "arcs.sapwood").exists():
        train_dependencies(Recorder(folder), folder)
    text = _lines(folder / "sentence.txt", [SENTENCE])
    _command(recorder, "depend", "parse", folder / "arcs.sapwood", text, "--text", "--jobs", "1")


def count_ngrams(recorder: Recorder, folder: Path) -> None:
    """`sapwood lm count`, from text to a file of counts."""
    text, out = _sentences(folder), folder / "counts.parquet"
    _command(recorder, "lm", "count", text, "-o", out, "--force", "--jobs", "1")


def train_language_model(recorder: Recorder, folder: Path) -> None:
    """`sapwood lm train` with its default method, from the counts of the story before."""
    counts, out = folder / "counts.parquet", folder / "text.sapwood"
    if not counts.exists():
        count_ngrams(Recorder(folder), folder)
    _command(recorder, "lm", "train", counts, "-o", out, "--force", "--states", "8", "--jobs", "1")


def answer_request(recorder: Recorder, folder: Path) -> None:
    """`POST /api/parse` for the default mix, through the application without a socket."""
    import httpx

    import sapwood as sw
    from sapwood.web.app import ServerState, make_app
    from sapwood.web.guard import Guard, Limits
    from sapwood.web.models import TREES, LoadedModel, ModelStore

    uploads = folder / "uploads"
    uploads.mkdir(exist_ok=True)
    model = sw.load(_ensemble(folder))
    store, limits = ModelStore(uploads), Limits()
    store.add(LoadedModel("mix", lambda: model, kind=TREES))

    async def ask() -> None:
        state = ServerState(store, limits)
        transport = httpx.ASGITransport(Guard(make_app(state), limits))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for is_recorded in (False, True):  # the first request loads the model
                if is_recorded:
                    state.pool = type(state.pool)(limits)  # its threads start while recording
                    recorder.start()
                body = {"model": "mix", "sentence": SENTENCE}
                answer = await client.post("/api/parse", json=body)
                recorder.stop()
                assert answer.status_code == 200, answer.text
        state.stop()

    asyncio.run(ask())


def unmix_sentences(recorder: Recorder, folder: Path) -> None:
    """`sapwood unmix`, the closed form for hidden states, written to a file."""
    text = _lines(folder / "short.txt", ["a b a", "b a b", "a a b", "b b a", "a b b", "a b"] * 20)
    out = folder / "hidden.sapwood"
    _command(recorder, "unmix", "pcfg-ie", text, "-o", out, "--force", "--states", "2")


STORIES: dict[str, Callable[[Recorder, Path], None]] = {
    "brackets, spectral, file": learn_spectral,
    "parse with the default mix": parse_sentence,
    "EM iteration": iterate_em,
    "depend train --method best": train_dependencies,
    "depend parse": parse_dependencies,
    "lm count": count_ngrams,
    "lm train": train_language_model,
    "/api/parse": answer_request,
    "unmix": unmix_sentences,
}
# The most file switches that each story should take, in the same order; unmix has no goal yet.
GOALS = dict(zip(STORIES, (60, 60, 15, 170, 110, 60, 110, 100), strict=False))
MOST_ROOMS = 5


def _ensemble(folder: Path) -> Path:
    """The file of an ensemble with every kind of member that the default method mixes."""
    import sapwood as sw

    path = folder / "ensemble.sapwood"
    if not path.exists():
        bank = sw.bundled_treebank("dev")
        learners = [
            sw.SpectralLPCFG(n_states=4), sw.EMLPCFG(n_states=4, iterations=2),
            sw.PCFG(binarise="right"), sw.SpanCRF(), sw.SpanEncoder(passes=1),
        ]  # fmt: skip
        sw.Ensemble.of([learner.fit(bank).model_ for learner in learners]).save(path)
    return path


def _dependency_trees(folder: Path) -> Path:
    """A small CoNLL-U file, made of the bundled trees by head rules."""
    import sapwood as sw

    trees, path = folder / "few.mrg", folder / "few.conllu"
    if not path.exists():
        _lines(trees, map(str, sw.bundled_treebank("dev")[:40]))
        _command(Recorder(folder), "depend", "convert", trees, "-o", path)
    return path


def _sentences(folder: Path) -> Path:
    """The words of the bundled trees, one sentence per line."""
    import sapwood as sw

    path = folder / "text.txt"
    if not path.exists():
        _lines(path, (" ".join(tree.words()) for tree in sw.bundled_treebank("dev")))
    return path


def _lines(path: Path, lines: Any) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _command(recorder: Recorder, *arguments: object) -> None:
    """Run a command of `sapwood` in this process and record it; its output is dropped."""
    from sapwood.cli.main import app

    said = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(said), recorder.recording():
        status = app([str(one) for one in arguments], prog_name="sapwood", standalone_mode=False)
    if status:
        raise SystemExit(f"sapwood {' '.join(map(str, arguments))}\n{said.getvalue()}")


# -- the report ----------------------------------------------------------------------------------


def record(story: str, package: Path, folder: Path) -> list[Call]:
    """The calls of a story, from its second run: the first one imports, loads and compiles."""
    STORIES[story](Recorder(package), folder)
    recorder = Recorder(package)
    STORIES[story](recorder, folder)
    return list(recorder.calls)


def record_all(stories: list[str], package: Path) -> dict[str, list[Call]]:
    """The calls of every story, in one process that has one thread for linear algebra."""
    warnings.simplefilter("ignore")  # small treebanks have few pivots; nobody reads a report here
    from sapwood.cli import console
    from sapwood.core import compiling
    from sapwood.networks import training

    training.MOST_PASSES = 6  # more are the same steps again
    console.PLAIN_PERIOD = float("inf")  # however slow the machine is, no line says how far it is
    compiling._spent = float("inf")  # kernels are compiled, never interpreted for short work
    with tempfile.TemporaryDirectory() as folder:
        return {story: record(story, package, Path(folder)) for story in stories}


def page_table(table: dict[str, dict[str, int]]) -> str:
    """The table of the architecture page, in Markdown."""
    columns = ("file_switches", "files", "rooms")
    rows = [[story, *(str(found[name]) for name in columns)] for story, found in table.items()]
    head = [["story", "file switches", "files", "rooms"], ["---", *["---:"] * len(columns)]]
    return "".join(f"| {' | '.join(row)} |\n" for row in head + rows)


def between_marks(text: str) -> tuple[str, str, str]:
    """The page before the table, the table, and the page after it."""
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no table between {BEGIN} and {END}")
    return before + begin + "\n", table.strip("\n") + "\n", end + after


def main() -> None:
    """Walk and print."""
    parser = argparse.ArgumentParser(description="How far a reader walks to follow nine stories.")
    parser.add_argument("--source", type=Path, default=ROOT / "src", metavar="FOLDER")
    parser.add_argument("--steps", choices=STORIES, help="print every step of one story")
    parser.add_argument("--into", choices=STORIES, help="print where the switches of one lead")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    parser.add_argument("--check", action="store_true", help="compare the page's table")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    package = arguments.source.resolve() / "sapwood"
    if not package.is_dir():
        parser.error(f"no folder {package}")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.path.insert(0, str(package.parent))
    one = arguments.steps or arguments.into
    calls = record_all([one] if one else list(STORIES), package)
    if arguments.steps:
        print_steps(calls[arguments.steps])
    elif arguments.into:
        print_goals(calls[arguments.into])
    else:
        table = {story: figures(made) for story, made in calls.items()}
        print_figures(table, arguments.json)
        before, old, after = between_marks(PAGE.read_text(encoding="utf-8"))
        if arguments.page:
            PAGE.write_text(before + page_table(table) + after, encoding="utf-8")
        elif arguments.check and old != page_table(table):
            sys.exit(f"{PAGE.name} has other numbers; write them anew with tools/walk.py --page")


def print_steps(calls: list[Call]) -> None:
    """Print one line for each call."""
    for caller, callee in calls:
        mark = "  " if caller.file == callee.file else "->"
        print(f"{caller.file}:{caller.function}  {mark}  {callee.file}:{callee.function}")


def print_goals(calls: list[Call]) -> None:
    """Print one line for each file that others lead to, most often first."""
    goals = Counter(callee.file for caller, callee in calls if caller.file != callee.file)
    for file, n in goals.most_common():
        print(f"{n:5}  {file}")


def print_figures(table: dict[str, dict[str, int]], as_json: bool) -> None:
    """Print one line for each story."""
    if as_json:
        print(json.dumps(table, indent=2))
        return
    row: Any = "{:<28}{:>6}{:>7}{:>11}{:>7}{:>15}{:>15}{:>6}".format
    names = ("story", "files", "rooms", "functions", "calls", "file switches", "room switches")
    print(row(*names, "goal"))
    for story, numbers in table.items():
        print(row(story, *numbers.values(), GOALS.get(story, "")))
    print(f"goal: the most file switches; no story should lead through over {MOST_ROOMS} rooms")


if __name__ == "__main__":
    main()
