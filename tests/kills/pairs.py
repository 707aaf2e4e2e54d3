"""`python -m tests.kills.pairs`: two commands write to one place at once, every pair of them.

When both have ended, the output must be, byte for byte, the one that one of the two writes when it
is alone. A command may refuse with one clear line, but one of the two must end well, and nothing
else may be left in the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from time import monotonic, sleep

from tests.kills.jobs import Job, command, prepare
from tests.kills.kill import run, start, wait, warm

import sapwood as sw

OUTPUT = "shared"
OTHER = {"a": "b", "b": "a"}
REFUSALS = (  # of a place that another command has, or has just written
    "another command is writing it",
    "Sapwood did not write it",
    "holds a model",
    "is not a model that Sapwood wrote",
    "belongs to a training with other settings",
    "a folder, expected the name of a file",  # in which `lm count` keeps its parts
)


def writers(which: str) -> Iterator[Job]:
    """Every command that writes a file, with one of two inputs."""

    def job(name: str, *arguments: str, outputs: tuple[str, ...] = (OUTPUT,)) -> Job:
        given = [word.replace("INPUT", which) for word in arguments]
        return Job(name, command(*given), outputs)

    out = ("-o", f"@{OUTPUT}")
    trees, text, arcs = "@INPUT.mrg", "@INPUT.txt", "@INPUT.conllu"
    yield job("train", "train", trees, *out, "--method", "pcfg", "--jobs", "1")
    em = ("--method", "em", "--states", "2", "--iterations", "2", "--jobs", "1")
    kept = ("--checkpoint", f"@{OUTPUT}.checkpoint")
    both = (OUTPUT, f"{OUTPUT}.checkpoint")
    yield job("train --checkpoint", "train", trees, *out, *em, *kept, outputs=both)
    yield job("parse", "parse", "@model.sapwood", text, *out, "--jobs", "1")
    yield job("parse --resume", "parse", "@model.sapwood", text, *out, "--jobs", "1", "--resume")
    yield job("words", "words", trees, *out)
    parts = tuple(f"{OUTPUT}-{part}.mrg" for part in ("train", "dev", "test"))
    yield job("split", "split", trees, "-o", f"@{OUTPUT}-", outputs=parts)
    yield job("embed", "embed", text, *out, "--dimension", "2", "--jobs", "1")
    strings = ("--method", "wfa", "--states", "1", "--jobs", "1")
    yield job("hankel learn", "hankel", "learn", text, *out, *strings)
    yield job("lm count", "lm", "count", text, *out, "--jobs", "1")
    yield job("lm train", "lm", "train", text, *out, "--method", "kn", "--jobs", "1")
    yield job("lm convert", "lm", "convert", "@INPUT.lm", *out)
    yield job("data convert", "data", "convert", trees, *out)
    yield job("data convert rna", "data", "convert", "rna", "@INPUT.dbn", *out)
    first = ("--method", "first", "--passes", "1", "--jobs", "1")
    yield job("depend train", "depend", "train", arcs, *out, *first)
    yield job("depend parse", "depend", "parse", "@arcs.sapwood", arcs, *out)
    yield job("depend convert", "depend", "convert", trees, *out)
    yield job("depend draw", "depend", "draw", arcs, *out)


def prepare_pairs(folder: Path) -> None:
    """Two inputs of each kind, which share no sentence."""
    prepare(folder)
    lines = (folder / "train.mrg").read_text().splitlines(keepends=True)
    records = (folder / "structures.dbn").read_text().splitlines(keepends=True)
    bank = list(sw.read_arcs(folder / "train.conllu"))
    for name, part in (("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
        (folder / f"{name}.mrg").write_text("".join(lines[part]))
        trees = list(sw.read_trees(folder / f"{name}.mrg"))
        text = "".join(" ".join(tree.words()) + "\n" for tree in trees)
        (folder / f"{name}.txt").write_text(text)
        pairs = [records[i : i + 3] for i in range(0, len(records), 3)][part]
        (folder / f"{name}.dbn").write_text("".join(line for one in pairs for line in one))
        sw.write_arcs(bank[part], folder / f"{name}.conllu")
        sw.KneserNey(2).fit([tree.words() for tree in trees]).model_.save(folder / f"{name}.lm")


def contents(folder: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Files of a folder that are there."""
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


class Table:
    """Writers with what each of them writes when it is alone."""

    def __init__(self, prepared: Path, home: Path) -> None:
        self.prepared, self.home = prepared, home
        self.jobs: dict[tuple[str, str], Job] = {}
        self.right: dict[tuple[str, str], dict[str, bytes]] = {}
        for which in OTHER:
            for job in writers(which):
                folder = self._copy()
                warm(job, folder)
                folder = self._copy()
                done = run(job, folder)
                if done.status:
                    raise RuntimeError(f"{job.name} fails alone: {done.err[-2000:]}")
                self.jobs[job.name, which] = job
                self.right[job.name, which] = contents(folder, job.outputs)

    def _copy(self) -> Path:
        folder = self.home / "work"
        shutil.rmtree(folder, ignore_errors=True)
        return Path(shutil.copytree(self.prepared, folder))

    def race(self, one: str, other: str, pause: float) -> tuple[str, list[str]]:
        """Start two commands at about the same time: how they ended, and what is wrong."""
        folder = self._copy()
        keys = [(one, "a"), (other, "b")]
        jobs = [self.jobs[key] for key in keys]
        running = []
        for number, job in enumerate(jobs):
            running.append(start(job, folder, self.home / f"log-{number}"))
            if not number:
                sleep(pause)
        done = [wait(*each) for each in running]
        faults = []
        ended = [key for key, result in zip(keys, done, strict=True) if not result.status]
        if not ended:
            faults.append("neither ended well")
        for key, result in zip(keys, done, strict=True):
            lines = [x for x in result.err.splitlines() if x.startswith(("error:", "unexpected"))]
            refused = len(lines) == 1 and any(words in lines[0] for words in REFUSALS)
            if result.status and not refused:
                faults.append(f"{key[0]} ends with {result.status}: {result.err[-300:]}")
        for name in {name for job in jobs for name in job.outputs}:
            found = contents(folder, (name,)).get(name)
            # A command that refuses at the end, when another has the output, keeps its checkpoint.
            writers_of = ended if name == OUTPUT else keys
            if all(found != self.right[key].get(name) for key in writers_of):
                faults.append(f"{name} is not what one of them writes")
        if one == other:  # outputs of several files are all of one command
            every = contents(folder, jobs[0].outputs)
            if all(every != self.right[key] for key in ended):
                faults.append("the outputs are not those of one command")
        known = {path.name for path in self.prepared.iterdir()}
        known |= {name for job in jobs for name in job.outputs}
        left = sorted({path.name for path in folder.iterdir()} - known)
        if left:
            faults.append(f"left in the folder: {', '.join(left)}")
        return {2: "both", 1: "one refused"}.get(len(ended), "none"), faults


def main() -> int:
    """Race as the arguments say; status 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills.pairs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="of each pair")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only pairs with this command: lm count")
    parser.add_argument("--alike", action="store_true", help="only pairs of one command")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    rng, rows = random.Random(options.seed), []
    with tempfile.TemporaryDirectory(prefix="pairs-") as name:
        prepared = Path(name, "prepared")
        prepared.mkdir()
        prepare_pairs(prepared)
        table = Table(prepared, Path(name))
        names = [job.name for job in writers("a")]
        for pair in combinations_with_replacement(names, 2):
            if (options.only and options.only not in pair) or (options.alike and len({*pair}) > 1):
                continue
            started, ends, faults = monotonic(), Counter(), Counter()
            for _ in range(options.rounds):
                end, found = table.race(*pair, pause=rng.choice([0.0, rng.uniform(0, 0.1)]))
                ends[end] += 1
                faults.update(found)
            row = {"pair": pair, "ends": dict(ends), "faults": dict(faults)}
            rows.append(row)
            text = ", ".join(f"{what} {n}" for what, n in sorted(ends.items()))
            print(f"{' + '.join(pair):<44} {monotonic() - started:6.1f} s  {text}", file=sys.stderr)
            for fault, n in faults.items():
                print(f"    {n} of {options.rounds}: {fault}", file=sys.stderr, flush=True)
    n_rounds = options.rounds * len(rows)
    n_faults = sum(sum(row["faults"].values()) for row in rows)
    print(f"{len(rows)} pairs, {n_rounds} rounds, {n_faults} faults", file=sys.stderr)
    if options.json:
        print(json.dumps(rows, indent=1))
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
