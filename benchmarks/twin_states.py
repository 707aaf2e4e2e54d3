"""What is lost when almost equal states of EM are merged after training: F1, likelihood, time.

EM is trained with 16 states on the bundled trees, and on the train part of each corpus that is
named. States up to a total variation apart are merged (`sapwood.constituency.learn.em_states`),
weighted by how often they occur. Tolerance 0 is the model before any merging.

python benchmarks/twin_states.py --corpora ptb
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from time import process_time

import machine

import sapwood as sw
from sapwood.constituency.learn import em_states
from sapwood.constituency.learn.em_states import TWIN_ROUNDING, merge_states, twin_states
from sapwood.constituency.parse.state_vectors import StateVectors

TOLERANCES = (0.0, TWIN_ROUNDING, 0.001, 0.01, 0.03, 0.1)
HEADER = (
    "corpus", "tolerance", "states", "dev F1", "log P of a dev tree", "merge, CPU s",
    "ms a sentence",
)  # fmt: skip


def rows_of(corpus: str, states: int) -> Iterator[tuple[str, ...]]:
    """A row for each tolerance."""
    if corpus == "bundled":
        bank, dev = sw.bundled_treebank("train"), list(sw.bundled_treebank("dev"))
    else:
        bank = sw.Treebank.from_trees(machine.gold_trees(corpus, "train"))
        dev = machine.gold_trees(corpus, "dev")
    em_states.NEAR_TWINS = -1.0  # nothing is merged while training
    trained = sw.EMLPCFG(states).fit(bank).model_
    visits = StateVectors(trained).out
    for tolerance in TOLERANCES:
        began, model = process_time(), trained
        if tolerance:
            model = merge_states(trained, twin_states(trained, tolerance), visits)
        merging = process_time() - began
        parser = sw.Parser(model)
        parser.parse(dev[0].words())
        began = process_time()
        found = [parser.parse(tree.words()).tree for tree in dev]
        parsing = (process_time() - began) / len(dev)
        scores = [p for p in map(model.log_prob, dev) if p > float("-inf")]
        yield (
            corpus, f"{tolerance:g}", f"{model.n_states.sum():,}",
            f"{sw.evaluate.bracketing(dev, found).f1:.2f}",
            f"{sum(scores) / len(scores):.3f}", f"{merging:.1f}", f"{1000 * parsing:.1f}",
        )  # fmt: skip


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--corpora", nargs="*", choices=machine.CORPORA, default=[])
    options.add_argument("--states", type=int, default=16)
    given = options.parse_args()
    machine.print_facts("Twin states", threads=1)
    rows = [row for corpus in ("bundled", *given.corpora) for row in rows_of(corpus, given.states)]
    machine.print_table(HEADER, rows)


if __name__ == "__main__":
    main()
