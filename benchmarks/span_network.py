"""What the network is worth beside grammars: the first fifth of train held out, by weight.

python benchmarks/span_network.py --corpus ptb_nltk_sample --weights 0.2 0.35 0.5
"""

from __future__ import annotations

import argparse

import machine

import sapwood as sw
from sapwood.estimators.panel import grade
from sapwood.models.ensemble import Member
from sapwood.models.span_network import SpanNetwork

GRAMMARS = (
    sw.Candidate("spectral", 16), sw.Candidate("em", 16, "right"), sw.Candidate("crf"),
)  # fmt: skip
HEADER = ("corpus", "parser", "F1", "strict F1", "tags", "sentences/CPU s")


def row(
    corpus: str, name: str, model: Member | sw.Ensemble, gold: list[sw.Tree]
) -> tuple[str, ...]:
    """Scores of a model's parses."""
    found = grade(model, gold)
    figures = found.f1, found.report.strict.f1, found.report.all.tagging_accuracy
    speed = f"{len(gold) / found.cpu_seconds:.0f}"
    return corpus, name, *(f"{figure:.2f}" for figure in figures), speed


def main() -> None:
    """Train on the rest, and print a row for each weight."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("--corpus", default="ptb_nltk_sample")
    reads.add_argument("--weights", type=float, nargs="+", default=[0.2, 0.35, 0.5])
    reads.add_argument("--trees", type=int, help="of train at most")
    reads.add_argument("--passes", type=int, help="of the network")
    reads.add_argument("--network", help="a model that was trained on the same trees before")
    reads.add_argument("--jobs", type=int, default=2)
    given = reads.parse_args()
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.trees]
    n_held = bank.n_trees // 5
    gold, train = list(bank[:n_held]), bank[n_held:]
    with machine.Clock() as clock:
        grammars = sw.EnsembleLPCFG(plan=GRAMMARS, n_jobs=given.jobs).fit(train).model_
    print(f"{given.corpus}: grammars of {train.n_trees} trees in {clock.cpu:.0f} CPU s", flush=True)
    if given.network:
        network = sw.load(given.network)
    else:
        with machine.Clock() as clock:
            learner = sw.SpanEncoder(passes=given.passes, n_jobs=given.jobs)
            network = learner.fit(train).model_
        passes = network.record["iterations"]
        print(
            f"{given.corpus}: {passes} passes of the network in {clock.cpu:.0f} CPU s", flush=True
        )
    assert isinstance(network, SpanNetwork)
    rows = [
        row(given.corpus, "grammars", grammars, gold),
        row(given.corpus, "network", network, gold),
    ]
    for weight in given.weights:
        weights = [*((1 - weight) * grammars.weights), weight]
        mix = sw.Ensemble.of([*grammars.members, network], weights)
        rows.append(row(given.corpus, f"both, weight {weight}", mix, gold))
    machine.print_table(HEADER, rows)


if __name__ == "__main__":
    main()
