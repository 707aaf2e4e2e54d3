"""Dependency parsers: tags, UAS, LAS, complete trees, speed, training time, memory, lists.

python benchmarks/dependency_parsing.py --corpus ud_english_ewt --methods first second best
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import machine
import numpy as np

import sapwood as sw
from sapwood.corpus.arcs.bank import ArcBank
from sapwood.evaluate.attachment import attachment
from sapwood.inference.arcs.reranking import arc_parser

HEADER = (
    "corpus", "method", "UAS", "LAS", "complete", "UPOS", "XPOS", "gold tags: UAS", "LAS",
    "train CPU s", "train MB", "file MB", "sentences/CPU s",
)  # fmt: skip


def trained(train: Path, method: str, path: Path, options: list[str]) -> dict[str, Any]:
    """The report of a training in a process of its own."""
    command = [sys.executable, "-m", "sapwood", "depend", "train", str(train), "-o", str(path)]
    command += ["--method", method, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def parsed(model: Any, gold: ArcBank, *, use_tags: bool = False) -> tuple[ArcBank, float]:
    """Parses of the sentences, and CPU seconds on one thread."""
    parser = arc_parser(model, use_tags=use_tags)
    given = list(gold) if use_tags else [gold.sentence(k) for k in range(len(gold))]
    parser.parse(given[0])  # kernels loaded
    with machine.Clock() as clock:
        found = [parse.arcs for parse in parser.parse_many(given)]
    return ArcBank.of(found), clock.thread


def oracle(parser: sw.ArcParser, gold: ArcBank, k: int, limit: int) -> float:
    """UAS in percent of the best tree in each list of k."""
    n_right = n_words = 0
    for right in islice(gold, limit):
        lists = parser.parse(list(right.words)).k_best(k)
        n_right += max(
            sum(x == y for x, y in zip(best.arcs.heads, right.heads, strict=True)) for best in lists
        )
        n_words += len(right)
    return 100 * n_right / n_words


def row(corpus: str, method: str, folder: Path, options: list[str]) -> tuple[str, ...]:
    """Train and parse."""
    train, dev = (machine.corpus_file(corpus, part, "conllu") for part in ("train", "dev"))
    path, gold = folder / f"{corpus}-{method}.sapwood", sw.read_arcs(dev)
    report = trained(train, method, path, options)
    model = sw.load(path)
    found, seconds = parsed(model, gold)
    scores = attachment(gold, found)
    given = attachment(gold, parsed(model, gold, use_tags=True)[0])
    names = [[bank.xpos_names[x] for x in bank.xpos] for bank in (gold, found)]
    xpos = 100 * sum(a == b for a, b in zip(*names, strict=True)) / gold.n_tokens
    figures = [scores.uas, scores.las, scores.complete, scores.upos, xpos, given.uas, given.las]
    return (
        corpus, method, *(f"{figure:.2f}" for figure in figures), f"{report['cpu_seconds']:.0f}",
        f"{report['peak_memory_mb'] or 0:.0f}", f"{path.stat().st_size / 1e6:.0f}",
        f"{len(gold) / seconds:.0f}",
    )  # fmt: skip


def without_some_documents(bank: ArcBank, every: int = 8) -> tuple[ArcBank, ArcBank]:
    """Sentences to learn from, and those of every eighth document, which are held out."""
    starts = [any(c.lstrip("# ").startswith("newdoc") for c in arcs.comments) for arcs in bank]
    is_held = np.cumsum(starts) % every == every // 2
    return bank.select(~is_held), bank.select(is_held)


def vectors_table(corpus: str, text: Path, limit: int) -> None:
    """What vectors of words are worth, of the treebank's own words and of other text."""
    train, held = without_some_documents(
        sw.read_arcs(machine.corpus_file(corpus, "train", "conllu"))
    )
    train = train.select(np.arange(len(train)) % max(len(train) // limit, 1) == 0)
    own = [list(arcs.words) for arcs in train]
    sources: dict[str, tuple[Any, int]] = {
        "none": (None, 0), "its own": (own, 2), f"{text.parent.name}": (text, 3),
    }  # fmt: skip
    rows = []
    for name, (source, least) in sources.items():
        with machine.Clock() as clock:
            vectors = source and sw.WordEmbedding(50, min_count=least).fit(source).model_
        with machine.Clock() as training:
            model = sw.ArcCRF(1, folds=2, embeddings=vectors).fit(train).model_
        scores = attachment(held, parsed(model, held)[0])
        figures = [f"{figure:.2f}" for figure in (scores.upos, scores.uas, scores.las)]
        rows.append((name, f"{len(train):,}", *figures, f"{clock.cpu:.0f}", f"{training.cpu:.0f}"))
    header = ("text of vectors", "sentences", "UPOS", "UAS", "LAS", "vectors CPU s", "train CPU s")
    machine.print_table(header, rows)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", nargs="+", default=["ud_english_ewt"])
    options.add_argument("--methods", nargs="+", default=["first", "second", "best"])
    options.add_argument("--jobs", default="1", help="threads of training")
    options.add_argument("--budget", default=None, help="of best")
    options.add_argument("--oracle", type=int, default=0, help="sentences whose 50-best are made")
    options.add_argument("--vectors", type=Path, metavar="TEXT", help="text of vectors of words")
    options.add_argument("--limit", type=int, default=10**9, help="of sentences, with --vectors")
    given = options.parse_args()
    if given.vectors:
        vectors_table(given.corpus[0], given.vectors, given.limit)
        return
    rows, lists = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for corpus in given.corpus:
            for method in given.methods:
                budget = ["--budget", given.budget] if given.budget and method == "best" else []
                rows.append(row(corpus, method, folder, ["--jobs", given.jobs, *budget]))
                print(*rows[-1], file=sys.stderr, flush=True)
                if given.oracle:
                    parser = sw.ArcParser(sw.load(folder / f"{corpus}-{method}.sapwood"))
                    gold = sw.read_arcs(machine.corpus_file(corpus, "dev", "conllu"))
                    best = [f"{oracle(parser, gold, k, given.oracle):.2f}" for k in (1, 10, 50)]
                    lists.append((corpus, method, *best))
    machine.print_table(HEADER, rows)
    if lists:
        machine.print_table(("corpus", "method", "best of 1: UAS", "of 10", "of 50"), lists)


if __name__ == "__main__":
    main()
