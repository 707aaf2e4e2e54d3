"""What joining pieces brings where a grammar has no parse: other text, and little training.

Grammars of one treebank parse the dev part of the other. Sentences without a parse get a flat tree,
as they would without pieces, or their best pieces under one root.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import machine

import sapwood as sw
from sapwood.constituency.parse.parser import Parse

SHORT = 5  # words
METHODS: dict[str, Callable[[], Any]] = {
    "pcfg": sw.PCFG,
    "pcfg, v = 3, h = 2": lambda: sw.PCFG(vertical=3, horizontal=2, tag_parents=True),
    "spectral, 8 states": lambda: sw.SpectralLPCFG(8),
}
HEADER = (
    "trained on", "trees", "method", "parsed", "sentences", "no parse", "of 1 word",
    "F1, flat", "F1, joined", "no parse: flat", "joined", f"up to {SHORT} words: flat", "joined",
)  # fmt: skip


def f1(gold: Sequence[sw.Tree], trees: Sequence[sw.Tree], places: Sequence[int]) -> str:
    """F1 over some of the sentences."""
    if not places:
        return "-"
    report = sw.evaluate.bracketing([gold[k] for k in places], [trees[k] for k in places])
    return f"{report.f1:.1f}"


def flat_tree(parser: sw.Parser, words: list[str]) -> sw.Tree:
    """The most probable tags and nothing else; a single word has no phrase above it."""
    tree = parser._flat(words).tree
    return tree if len(words) > 1 else sw.Tree("TOP", list(tree[0]))


def row(names: Sequence[str], parser: sw.Parser, gold: Sequence[sw.Tree], jobs: int) -> list[str]:
    """One line of the table."""
    parses: list[Parse] = list(parser.parse_many([tree.words() for tree in gold], jobs=jobs))
    joined = [parse.tree for parse in parses]
    flat = [flat_tree(parser, p.words) if p.kind == "joined" else p.tree for p in parses]
    failed = [k for k, parse in enumerate(parses) if parse.kind == "joined"]
    short = [k for k, parse in enumerate(parses) if len(parse.words) <= SHORT]
    n_single = sum(len(parses[k].words) == 1 for k in failed)
    scores = [
        f1(gold, trees, places)
        for places in (range(len(gold)), failed, short)
        for trees in (flat, joined)
    ]
    return [*names, f"{len(gold):,}", str(len(failed)), str(n_single), *scores]


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--limit", type=int, default=500, help="first sentences of each dev part")
    options.add_argument("--sizes", type=int, nargs="*", default=[300, 3000], metavar="TREES")
    options.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    options.add_argument("--jobs", type=int, default=0, help="threads; 0 means all cores")
    given = options.parse_args()
    machine.print_facts("Text of another kind", threads=given.jobs or machine.n_cores())
    rows = []
    for trained, parsed in (("ptb", "craft"), ("craft", "ptb"), ("ptb", "ptb")):
        bank = sw.read_treebank(machine.corpus_file(trained, "train"))
        gold = machine.gold_trees(parsed, "dev", given.limit)
        for size in given.sizes:
            part = bank[:size]
            for name in given.methods:
                parser = sw.Parser(METHODS[name]().fit(part).model_)
                names = (trained, f"{part.n_trees:,}", name, parsed)
                rows.append(row(names, parser, gold, given.jobs))
    machine.print_table(HEADER, rows)


if __name__ == "__main__":
    main()
