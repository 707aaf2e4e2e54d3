"""What the network is worth beside a parser by features: documents of train held out, by weight.

python -m benchmarks.settled.dependency_network --corpus ud_english_ewt --weights 0.4 0.6 0.75
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from benchmarks import machine

import sapwood as sw
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.evaluate import attachment
from sapwood.execute.engine import as_engine

ALONE = 1 - 1e-6  # weight of a network that is nearly alone
HEADER = ("corpus", "parser", "UAS", "LAS", "UPOS", "sentences/CPU s")


def split(bank: ArcBank, share: float) -> tuple[ArcBank, ArcBank]:
    """Train and held-out sentences, by documents where the corpus names them, else by 25."""
    is_first = np.array(["# newdoc" in text for text in bank.texts])
    if not is_first.any():
        is_first = np.arange(len(bank)) % 25 == 0
    document = np.maximum(np.cumsum(is_first) - 1, 0)
    order = np.random.default_rng(1).permutation(document[-1] + 1)
    sizes = np.bincount(document)[order]
    held = np.isin(document, order[np.cumsum(sizes) - sizes < share * len(bank)])
    return bank[~held], bank[held]


def row(corpus: str, name: str, model: sw.ArcModel, gold: ArcBank) -> tuple[str, ...]:
    """Scores of a model's parses."""
    parser, words = sw.ArcParser(model), [gold.sentence(k) for k in range(len(gold))]
    with machine.Clock() as clock:
        found = ArcBank.of(parse.arcs for parse in parser.parse_many(words))
    scores = attachment(gold, found)
    speed = f"{len(gold) / clock.thread:.0f}"
    return corpus, name, *(f"{value:.2f}" for value in (scores.uas, scores.las, scores.upos)), speed


def main() -> None:
    """Train on the rest, and print a row for each weight."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("--corpus", default="ud_english_ewt")
    reads.add_argument("--weights", type=float, nargs="+", default=[0.4, 0.6, 0.75])
    reads.add_argument("--share", type=float, default=0.1, help="of the sentences, held out")
    reads.add_argument("--sentences", type=int, help="of train at most")
    reads.add_argument("--jobs", type=int, default=2)
    given = reads.parse_args()
    bank = sw.read_arcs(machine.corpus_file(given.corpus, "train", "conllu"))
    train, held = split(bank[: given.sentences], given.share)
    with machine.Clock() as clock:
        model = sw.ArcEnsemble(engine=as_engine(given.jobs)).fit(train).model_
    print(f"{given.corpus}: {len(train)} sentences learnt from in {clock.cpu:.0f} CPU s")
    assert model.encoder is not None
    rows = [row(given.corpus, "features", replace(model, encoder=None), held)]
    for weight in (*given.weights, ALONE):
        mixed = replace(model, encoder=model.encoder._replace(weight=weight))
        name = "network" if weight == ALONE else f"both, weight {weight}"
        rows.append(row(given.corpus, name, mixed, held))
    machine.print_table(HEADER, rows)


if __name__ == "__main__":
    main()
