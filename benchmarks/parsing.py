"""Parsing: what `--fast` costs and gains, what a second core and streams gain, where time goes.

python benchmarks/parsing.py model.sapwood ensemble.sapwood --corpus ptb
python benchmarks/parsing.py ensemble.sapwood --corpus craft --limit 300 --tables streams
python benchmarks/parsing.py model.sapwood ensemble.sapwood --corpus ptb --tables cores stages
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any
from unittest import mock

import machine

import sapwood as sw
from sapwood.constituency.evaluate.bracketing import bracketing
from sapwood.constituency.evaluate.reliability import calibration, graded
from sapwood.constituency.parse import charts
from sapwood.constituency.parse import parser as parsers
from sapwood.constituency.parse import posteriors as ensembles
from sapwood.execute import Processes

LENGTHS = {"2 to 10": (2, 10), "15 to 25": (15, 25), "35 to 60": (35, 60)}  # words
LOOPS = 3_000_000  # of a process that does nothing else: what the machine gives at the moment
MAKERS: dict[str, Callable[[Any], sw.Parser]] = {"default": sw.Parser, "fast": sw.Parser.fast}


def measure(parser: sw.Parser, gold: list[sw.Tree], repeats: int) -> tuple[float, float, float]:
    """F1, sentences per CPU second of one thread (the best of several runs), calibration error."""
    parser.parse(gold[0].words())  # kernels loaded
    best, parses = float("inf"), []
    for _ in range(repeats):
        with machine.Clock() as clock:
            parses = [parser.parse(tree.words()) for tree in gold]
        best = min(best, clock.thread)
    f1 = bracketing(gold, [parse.tree for parse in parses]).f1
    return f1, len(gold) / best, calibration_error(parses, gold)


def calibration_error(parses: list[Any], gold: list[sw.Tree]) -> float:
    """Expected calibration error of the phrases of the parsed trees."""
    pairs = []
    for parse, right in zip(parses, gold, strict=True):
        known = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
        spans = [span for span in parse.tree.spans()[1:] if span in known]
        tags = {(tag, i, i + 1) for i, tag in enumerate(parse.tree.tags())}
        phrases = [(*span, known[span]) for span in spans if span not in tags]
        pairs += graded(right, phrases)
    return calibration(*zip(*pairs, strict=True)).ece


def rows_of(path: Path, gold: list[sw.Tree], repeats: int) -> list[tuple[str, ...]]:
    """Two rows: the default, and fast with the difference to it."""
    model = sw.load(path)
    rows, first = [], (0.0, 1.0)
    for name, maker in MAKERS.items():
        f1, rate, ece = measure(maker(model), gold, repeats)
        first = (f1, rate) if name == "default" else first
        rows.append(
            (path.stem, name, f"{f1:.2f}", f"{f1 - first[0]:+.2f}", f"{rate:.0f}",
             f"{rate / first[1]:.1f}", f"{ece:.4f}")
        )  # fmt: skip
    return rows


def print_fast(paths: list[Path], gold: list[sw.Tree], repeats: int) -> None:
    """What `--fast` costs and gains."""
    print(f"{len(gold)} sentences, CPU time of one thread:\n")
    rows = [row for path in paths for row in rows_of(path, gold, repeats)]
    header = ("model", "parser", "F1", "difference", "sentences/s", "times as fast", "ECE")
    machine.print_table(header, rows)
    print("The settings of fast were chosen on ptb dev.")


def text_of(words: list[str], parser: sw.Parser) -> str:
    """What `sapwood parse` writes."""
    return f"{parser.parse(words).tree}\n"


def spin(_: int) -> int:
    """Work that shares nothing with anybody."""
    total = 0
    for number in range(LOOPS):
        total += number
    return total


def seconds_of_jobs(
    jobs: int, sentences: list[list[str]], parser: sw.Parser
) -> tuple[float, float]:
    """By the clock and of all processors, on so many processes as `sapwood parse` has them."""
    start, used = perf_counter(), sum(machine.cpu_of_all())
    for _ in Processes(jobs).stream(text_of, sentences, parser):
        pass
    return perf_counter() - start, sum(machine.cpu_of_all()) - used


def seconds_of_spinning(jobs: int) -> float:
    """By the clock, for two loops: one after the other, or at once."""
    with get_context("fork").Pool(jobs) as pool:
        start = perf_counter()
        pool.map(spin, range(2), chunksize=1)
        return perf_counter() - start


def enough(sentences: list[list[str]], parser: sw.Parser, seconds: float) -> list[list[str]]:
    """Sentences, some of them again, that take about so long."""
    for words in sentences[:3]:
        parser.parse(words)
    with machine.Clock() as clock:
        for words in sentences[:10]:
            text_of(words, parser)
    n = max(20, int(seconds / (clock.thread / min(10, len(sentences)))))
    return (sentences * (n // len(sentences) + 1))[:n]


def print_cores(paths: list[Path], gold: list[sw.Tree], repeats: int, seconds: float) -> None:
    """What two jobs gain over one, and what two loops did that have nothing in common."""
    rows = []
    for path in paths:
        parser = sw.Parser(sw.load(path))
        for name, (least, most) in LENGTHS.items():
            chosen = [tree.words() for tree in gold if least <= len(tree.words()) <= most]
            sentences = enough(chosen, parser, seconds)
            run = partial(seconds_of_jobs, sentences=sentences, parser=parser)
            times = []
            for _ in range(repeats):  # in turns: others on the machine come and go
                spun = seconds_of_spinning(1) / seconds_of_spinning(2)
                times.append((*run(1), *run(2), spun))
            one, cpu_one, two, cpu_two, _ = map(min, zip(*times, strict=True))
            ratios = [row[0] / row[2] for row in times]
            rows.append(
                (path.stem, name, f"{len(sentences) / one:.0f}", f"{len(sentences) / two:.0f}",
                 f"{one / two:.2f}", f"{median(ratios):.2f}",
                 f"{median(row[4] for row in times):.2f}", f"{cpu_two / cpu_one:.2f}")
            )  # fmt: skip
            print(*rows[-1], sep="  ", flush=True)
    machine.print_table(
        ("model", "words", "sentences/s", "two jobs", "times, best", "median", "two loops", "CPU"),
        rows,
    )
    print("two loops: what two processes gained that share nothing, median; CPU: of two jobs, in")
    print("that of one.")


def print_streams(paths: list[Path], gold: list[sw.Tree], repeats: int) -> None:
    """Sentences one by one, and as a stream, whose sentences networks read in batches."""
    sentences, rows = [tree.words() for tree in gold], []
    for path in paths:
        parser = sw.Parser(sw.load(path))
        list(parser.parse_many(sentences[:20]))
        ways = {
            "one by one": lambda parser=parser: map(parser.parse_compiled, sentences),
            "stream": lambda parser=parser: parser.parse_many(sentences),
        }
        times: defaultdict[str, list[float]] = defaultdict(list)
        trees: dict[str, list[str]] = {}
        for _ in range(repeats):  # in turns: others on the machine come and go
            for name, way in ways.items():
                with machine.Clock() as clock:
                    trees[name] = [str(parse.tree) for parse in way()]
                times[name].append(clock.thread)
        alone, together = (len(gold) / min(times[name]) for name in ways)
        pairs = zip(*(way() for way in ways.values()), strict=True)
        n_same = sum(one.marginals == other.marginals for one, other in pairs)
        n_trees = sum(a == b for a, b in zip(*trees.values(), strict=True))
        rows.append(
            (path.stem, f"{alone:.1f}", f"{together:.1f}", f"{together / alone:.2f}",
             f"{n_trees}", f"{n_same}")
        )  # fmt: skip
    print(f"{len(gold)} sentences, sentences per CPU second of one thread:\n")
    header = ("model", "one by one", "stream", "times as fast", "equal trees", "equal posteriors")
    machine.print_table(header, rows)


class Stages:
    """CPU seconds of this thread by stage; what a stage calls that is one itself is not its own."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last, self._open = thread_time(), ["other"]

    def _lap(self) -> None:
        now = thread_time()
        self.seconds[self._open[-1]] += now - self._last
        self._last = now

    def enter(self, stage: str) -> None:
        """From here on."""
        self._lap()
        self._open.append(stage)

    def leave(self) -> None:
        """Up to here."""
        self._lap()
        self._open.pop()

    def watch(self, function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """The same function, counted under the name that its arguments give."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.enter(name(*args))
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return watched

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count all that parsing does."""
        homes = {
            "tags of the words": [(charts, "tag_weights")],
            "averages": [
                (charts, "prune_more"), (charts, "combine_posteriors"),
                (ensembles.PreparedEnsemble, "average"), (ensembles, "item_labels"),
                (ensembles, "sum_by_bracket"), (ensembles, "average_brackets"),
            ],
            "network": [(ensembles.NetworkReader, "read_many")],
            "decoding": [(parsers, "unconstrained_tree"), (parsers, "decode")],
        }  # fmt: skip
        with ExitStack() as stack:
            for stage, places in homes.items():
                for home, name in places:
                    found = self.watch(getattr(home, name), lambda *_, stage=stage: stage)
                    stack.enter_context(mock.patch.object(home, name, found))
            for home, name, stage in (
                (charts, "plain_posteriors", "chart"),
                (charts, "posteriors", "posteriors of"),
            ):
                found = self.watch(getattr(home, name), partial(named, stage))
                stack.enter_context(mock.patch.object(home, name, found))
            yield


def named(stage: str, prepared: Any, *_: Any) -> str:
    """A stage of one grammar."""
    if stage == "chart":
        return f"chart of trees that were made binary by {prepared.grammar.transform.binarise}"
    return f"{stage} {prepared.member.record.get('method', 'a grammar')}"


def print_stages(paths: list[Path], gold: list[sw.Tree]) -> None:
    """Where the time of parsing goes."""
    for path in paths:
        parser = sw.Parser(sw.load(path))
        for tree in gold[:5]:
            parser.parse(tree.words())
        stages = Stages()
        with stages.watching():
            for parse in parser.parse_many([tree.words() for tree in gold]):
                stages.enter("output")
                str(parse.tree)
                stages.leave()
        total = sum(stages.seconds.values())
        rate = len(gold) / total
        print(f"{path.stem}: {len(gold)} sentences, {rate:.1f} a CPU second of one thread\n")
        rows = sorted(stages.seconds.items(), key=lambda row: -row[1])
        machine.print_table(
            ("stage", "ms a sentence", "share"),
            [(name, f"{1e3 * s / len(gold):.2f}", f"{s / total:.1%}") for name, s in rows],
        )


def main() -> None:
    """Print the tables that are asked for."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("models", nargs="+", type=Path)
    options.add_argument("--tables", nargs="+", choices=["fast", "cores", "streams", "stages"])
    options.add_argument("--seconds", type=float, default=1.5, help="of one run, for cores")
    options.add_argument("--corpus", choices=sorted(machine.CORPORA), default="ptb")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    machine.print_facts("Parsing")
    print(f"{given.corpus} dev:\n")
    tables = given.tables or ["fast"]
    if "fast" in tables:
        print_fast(given.models, gold, given.repeats)
    if "cores" in tables:
        print_cores(given.models, gold, given.repeats, given.seconds)
    if "streams" in tables:
        print_streams(given.models, gold, given.repeats)
    if "stages" in tables:
        print_stages(given.models, gold)


if __name__ == "__main__":
    main()
