"""What is chosen on a treebank, what choosing costs, and what each fixed setting would have had.

One fifth of a part of the training trees is held out; the choice sees the rest only. Then the
method learns from the rest with each setting, and parses the held fifth. `best` is the mix of the
four grammars that it starts with: a network reads words, however trees are made binary.

python -m benchmarks.settled.treebank_choices --corpora ptb icepahc craft --methods em spectral best
"""

from __future__ import annotations

import argparse
from itertools import product
from time import process_time
from typing import Any

import numpy as np
from benchmarks import machine

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.choice import WAYS, choose_settings
from sapwood.constituency.learn.ensemble import MEMBERS_UNSEEN, PLAN
from sapwood.constituency.learn.registry import METHODS
from sapwood.evaluate import bracketing

LONGEST = 40  # words of a held sentence
GRAMMARS = tuple(one for one in PLAN[:MEMBERS_UNSEEN] if one.method != "encoder")
OWN: dict[str, dict[str, Any]] = {"best": {"plan": GRAMMARS, "budget": None}}  # by method


def parts_of(corpus: str, n_trees: int) -> tuple[Treebank, list[sw.Tree]]:
    """Trees to learn from, and held ones."""
    bank = sw.read_treebank(machine.corpus_file(corpus, "train"))
    bank = bank[:: -(-bank.n_trees // n_trees)]
    is_held = np.arange(bank.n_trees) % 5 == 2
    held = [tree for tree in bank[is_held] if len(tree.words()) <= LONGEST]
    return Treebank.from_trees(bank[~is_held].trees()), held


def f1_of(
    method: str, states: int, ways: dict[str, Any], bank: Treebank, held: list[sw.Tree]
) -> tuple[float, float]:
    """F1 of a method with fixed settings, and CPU seconds of training."""
    began = process_time()
    own = OWN.get(method, {})
    learner = METHODS[method].make(n_states=states, plain=sw.PCFG(**ways), **own).fit(bank)
    seconds = process_time() - began
    return bracketing(held, learner.predict(held)).f1, seconds


def main() -> None:
    """Print two tables: all settings, and the choice beside them."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpora", nargs="+", default=["ptb", "icepahc", "craft"])
    options.add_argument("--methods", nargs="+", default=["em", "spectral", "best"])
    options.add_argument("--states", type=int, default=16)
    options.add_argument("--trees", type=int, default=3400, help="of a corpus, at most")
    given = options.parse_args()
    machine.print_facts("Settings that are chosen on the treebank")
    summary = []
    ways = [dict(zip(WAYS, values, strict=True)) for values in product(*WAYS.values())]
    for corpus in given.corpora:
        bank, held = parts_of(corpus, given.trees)
        print(f"{corpus}: {bank.n_trees:,} trees to learn from, {len(held):,} held\n", flush=True)
        for method in given.methods:
            choice = choose_settings(bank, method)
            seen = {tuple(tried.values()): f1 for tried, f1 in choice.grades}
            rows, f1, cpu = [], {}, []
            for way in ways:
                key = tuple(way.values())
                f1[key], seconds = f1_of(method, given.states, way, bank, held)
                cpu.append(seconds)
                judged = f"{seen[key]:.2f}" if key in seen else "not tried"
                rows.append(
                    (corpus, method, f"{way['binarise']} {way['horizontal']}", judged,
                     f"{f1[key]:.2f}", f"{seconds:.1f}")
                )  # fmt: skip
            header = ("corpus", "method", "setting", "judge's F1", "F1", "train, CPU s")
            machine.print_table(header, rows)
            chosen, best = tuple(choice.settings.values()), max(f1, key=f1.__getitem__)
            summary.append((
                corpus, f"{method} {given.states}", _name(chosen), f"{choice.seconds:.1f}",
                f"{np.mean(cpu):.1f}", f"{f1[chosen]:.2f}", f"{f1[next(iter(f1))]:.2f}",
                f"{f1[best]:.2f} ({_name(best)})",
            ))  # fmt: skip
    header = (
        "corpus", "method", "chosen", "choosing, CPU s", "training, CPU s", "F1 of the chosen",
        "F1 of head 1", "F1 of the best fixed",
    )  # fmt: skip
    machine.print_table(header, summary)


def _name(way: tuple[Any, ...]) -> str:
    return f"{way[1]} {way[0]}"


if __name__ == "__main__":
    main()
