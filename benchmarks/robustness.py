"""Every sentence gets a tree: all of craft dev on all cores, and sentences far too long."""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import chain, cycle, islice

import machine

import sapwood as sw


def train(corpus: str) -> sw.LatentGrammar:
    """The default plain grammar of a corpus."""
    return sw.PCFG().fit(sw.read_treebank(machine.corpus_file(corpus, "train"))).model_


def parse_all(model: sw.LatentGrammar, sentences: list[list[str]], jobs: int) -> tuple[str, ...]:
    """Parse everything, check every tree, and return one row."""
    parser = sw.Parser(model)
    list(parser.parse_many([sentences[0][:4]] * jobs, jobs=jobs))  # kernels loaded, threads tried
    machine.forget_peak()
    parser = sw.Parser(model)
    n_trees = 0
    with machine.Clock() as clock:
        results = parser.parse_many(sentences, jobs=jobs)
        for words, result in zip(sentences, results, strict=True):
            check(words, result)
            n_trees += 1
    stats = parser.stats
    return (
        f"{n_trees:,}", str(jobs), f"{n_trees / clock.wall:.1f}", f"{n_trees / clock.cpu:.1f}",
        f"{clock.wall:.0f}", f"{clock.cpu:.0f}", str(stats.fallbacks), str(stats.too_long),
        f"{machine.peak_mb():.0f}",
    )  # fmt: skip


def check(words: list[str], result: sw.inference.parser.Parse) -> None:
    """A tree must be there, and cover the sentence word by word."""
    if result.tree is None or result.tree.words() != words:
        sys.exit(f"no tree, or one over other words, for: {' '.join(words)}")


def parse_long(corpus: str, n: int, limit_mb: float) -> None:
    """Print, in a process of its own, what one sentence of n words takes."""
    from sapwood.constituency.parse.parser import chart_megabytes
    from sapwood.constituency.parse.prepared import prepare

    model = train(corpus)
    trees = machine.gold_trees(corpus, "dev", 100)
    words = list(islice(cycle(chain.from_iterable(tree.words() for tree in trees)), n))
    parser = sw.Parser(model, memory_limit_mb=limit_mb)
    parser.parse(words[:4])
    machine.forget_peak()
    before = machine.peak_mb()
    with machine.Clock() as clock:
        result = parser.parse(words)
    check(words, result)
    how = "charted" if result.kind == "parsed" else f"{result.kind} tree"
    expected = chart_megabytes(prepare(model), n)
    print(f"{n}\t{how}\t{clock.cpu:.1f}\t{expected:.0f}\t{machine.peak_mb() - before:.0f}")


def main() -> None:
    """Print two tables; exit with an error when a tree is missing or wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", choices=("ptb", "craft"), default="craft")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--jobs", type=int, default=0, help="threads; 0 means all cores")
    options.add_argument("--words", type=int, nargs="*", default=[100, 300, 500])
    options.add_argument("--memory-limit", type=float, default=2000.0, metavar="MB")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        parse_long(given.corpus, given.one, given.memory_limit)
        return
    machine.corpus_file(given.corpus, "train")
    jobs = given.jobs or machine.n_cores()
    machine.print_facts("Every sentence gets a tree", threads=jobs)
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    sentences = [tree.words() for tree in gold]
    longest = max(map(len, sentences))
    print(f"{given.corpus} dev, default plain grammar, longest sentence {longest} words:\n")
    header = (
        "sentences", "threads", "sentences/s wall", "sentences/s CPU", "wall s", "CPU s",
        "no parse", "of these too long", "peak MB",
    )  # fmt: skip
    machine.print_table(header, [parse_all(train(given.corpus), sentences, jobs)])
    print("No sentence is without a tree; the words of every tree are those of its sentence.\n")
    print("Sentences put together from dev, one thread, memory beyond the loaded model:\n")
    rows = [long_row(given, n) for n in given.words]
    machine.print_table(("words", "result", "CPU s", "charts, MB (computed)", "peak MB"), rows)


def long_row(given: argparse.Namespace, n: int) -> list[str]:
    """Run `parse_long` in a fresh process."""
    command = [sys.executable, __file__, "--corpus", given.corpus, "--one", str(n)]
    command += ["--memory-limit", str(given.memory_limit)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().split("\t")


if __name__ == "__main__":
    main()
