"""Latent dependency trees and eigenwords: held-out likelihoods, time against size, errors.

The first nine tenths of ud_english_ewt's train part are learnt from, the last tenth is weighed.
Trees for the times are those of train, over and over, with tags drawn from a model learnt there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import machine  # first: it pins BLAS to one thread
import numpy as np

import sapwood as sw
from sapwood.dependency.learn.moments import SHARD_WORDS, ArcCounts, TripleSums
from sapwood.dependency.model.latent import LatentArcs, SeenTrees
from sapwood.dependency.parse.parser import arc_posteriors
from sapwood.dependency.parse.scoring import ArcForest


def data_file(*parts: str) -> Path:
    """A file below the folder of corpora."""
    folder = os.environ.get("SAPWOOD_DATA")
    if not folder:
        sys.exit("SAPWOOD_DATA is not set: name the folder that holds ud_english_ewt/")
    return Path(folder, *parts)


def per_word(model: sw.DependencyModel, held: sw.ArcBank) -> tuple[float, float]:
    """Nats a word over the trees of positive weight, and the share of the others."""
    logs, signs = model.signed_log_probs(held)
    kept = signs > 0
    return float(logs[kept].sum() / np.diff(held.offsets)[kept].sum()), float((~kept).mean())


def total_weights(model: sw.DependencyModel, held: sw.ArcBank) -> np.ndarray:
    """Of each tree, the sum of the weights of everything that its words could show."""
    arcs = model.arcs
    totals = np.add.reduceat(arcs.symbols, arcs.column_start[:-1], axis=0)  # a symbol for all
    columns = np.arange(len(totals) + 1)
    tables = replace(arcs, symbols=totals, column_start=columns)
    shown = np.tile(columns[:-1].astype(np.int32), (held.n_tokens, 1))
    logs, signs = tables.signed_log_weights(SeenTrees(held.offsets, held.head, shown))
    return signs * np.exp(logs)


def likelihoods(bank: sw.ArcBank, states: list[int]) -> None:
    """Spectral against EM, by what is seen and the number of states."""
    cut = len(bank) * 9 // 10
    train, held = bank[:cut], bank[cut:]
    rows = []
    for seen in ("tags", "words", "both"):
        for k in states:
            learners = {
                "spectral": sw.SpectralDependency(k, seen=seen),
                "EM, random start": sw.EMDependency(k, seen=seen, iterations=40),
                "EM, spectral start": sw.EMDependency(
                    k, seen=seen, iterations=40, start="spectral"
                ),
            }
            for name, learner in learners.items():
                with machine.Clock() as clock:
                    learner.fit(train)
                nats, lost = per_word(learner.model_, held)
                off = np.abs(total_weights(learner.model_, held) - 1).max()
                rows.append([seen, k, name, f"{nats:.3f}", f"{lost:.1%}", f"{off:.0e}",
                             f"{clock.cpu:.1f}"])  # fmt: skip
    header = ["seen", "states", "learner", "held-out nats a word", "not positive",
              "farthest sum from 1", "CPU s"]  # fmt: skip
    machine.print_table(header, rows)


def times(bank: sw.ArcBank, copies: list[int]) -> None:
    """Both passes over drawn trees, by their number."""
    model = sw.EMDependency(8, iterations=10).fit(bank).model_
    trees = model.seen.of(bank)
    rows = []
    U = sw.SpectralDependency(8).fit(bank).projection_  # noqa: N806
    for n in copies:
        words, triples, seconds = 0, 0.0, 0.0
        for copy in range(n):  # drawn one after the other: memory stays that of one
            drawn = model.arcs.sample(trees, np.random.default_rng(copy))
            with machine.Clock() as clock:
                triples += count(drawn, model.arcs, U)
            words, seconds = words + len(drawn.head), seconds + clock.cpu
        rows.append([f"{n}x", f"{words:,}", f"{triples:,.0f}", f"{seconds:.2f}",
                     f"{1e6 * seconds / words:.2f}"])  # fmt: skip
    machine.print_table(["size", "words", "triples", "CPU s", "us a word"], rows)


def count(trees: SeenTrees, arcs: LatentArcs, U: np.ndarray) -> float:  # noqa: N803
    """Both kinds of sums over all shards; the number of triples."""
    n = 0.0
    for shard in trees.shards(SHARD_WORDS):
        ArcCounts.of(shard, len(arcs.symbols))
        n += TripleSums.of(shard, U).n
    return n


def parsing(train: sw.ArcBank, held: sw.ArcBank, k: int) -> None:
    """Attachment of a second-order CRF, of the latent model on its arcs, and of both together."""
    crf = sw.ArcCRF(folds=2).fit(train).model_
    parses = [sw.ArcParser(crf).parse(held.sentence(s)) for s in range(len(held))]
    rows = [["CRF", "-", "-", f"{uas(held, [parse.arcs.heads for parse in parses]):.2f}"]]
    bank = sw.ArcBank.of(replace(parse.arcs, rows=(), comments=()) for parse in parses)
    priors = [parse.posteriors.T for parse in parses]
    for seen, valence in product(("tags", "words", "both"), (False, True)):
        model = (
            sw.EMDependency(k, seen=seen, tag_column="xpos", valence=valence, iterations=60)
            .fit(train)
            .model_
        )
        shown = model.seen.of(replace(bank, head=np.full_like(bank.head, -1)))
        what = f"{seen}{', valence' if valence else ''}"
        for trust in (0.0, 1.0):
            found = [latent_posteriors(model, shown, s, prior, trust)
                     for s, prior in enumerate(priors)]  # fmt: skip
            for share in (1.0, 0.3):
                mixed = (share * q + (1 - share) * p for q, p in zip(found, priors, strict=True))
                score = uas(held, [decode(each) for each in mixed])
                rows.append([what, f"{trust:g}", f"{share:g}", f"{score:.2f}"])
        print(*rows[-4:], sep="\n", file=sys.stderr, flush=True)
    machine.print_table(["states show", "trust", "share", "UAS"], rows)


def latent_posteriors(
    model: sw.DependencyModel, shown: SeenTrees, s: int, prior: np.ndarray, trust: float
) -> np.ndarray:
    """Posteriors of the arcs of a sentence, [n + 1, n]."""
    arcs = np.where(prior > 0, np.where(prior > 0, prior, 1.0) ** trust, 0.0)
    rows = slice(shown.offsets[s], shown.offsets[s + 1])
    return arc_posteriors(model.arcs, shown.seen[rows], arcs, model.seen.valence_rows)[2]


def decode(posterior: np.ndarray) -> np.ndarray:
    """Heads of the tree with the most expected right arcs."""
    head, word = (x.astype(np.int32) for x in np.nonzero(posterior > 0))
    forest = ArcForest(posterior.shape[1], head, word + 1)
    return forest.best(posterior[head, word])[1:]


def uas(gold: sw.ArcBank, heads: list) -> float:
    """Percent of heads that are right."""
    return 100 * float(np.mean(np.concatenate(heads) == gold.head))


def words(dimension: int) -> None:
    """Eigenwords of wikinews_en: time and memory by method."""
    rows = []
    for method in ("cca", "two-step", "bigram"):
        machine.forget_peak()
        with machine.Clock() as clock:
            model = (
                sw.WordEmbedding(dimension, method=method)
                .fit(data_file("wikinews_en", "train.txt.xz"))
                .model_
            )
        near = ", ".join(x.word for x in model.nearest("Monday", 2))
        rows.append([method, f"{len(model.vocabulary.words):,}", f"{clock.cpu:.0f}",
                     f"{machine.peak_mb():,.0f}", near])  # fmt: skip
    machine.print_table(["method", "words", "CPU s", "peak MB", "nearest to Monday"], rows)


def tags_of_neighbours(bank: sw.ArcBank, dimension: int) -> None:
    """How often the nearest word has the same most frequent tag, by method."""
    text = [list(arcs.words) for arcs in bank]
    counts: dict[str, Counter[str]] = {}
    for arcs in bank:
        for word, tag in zip(arcs.words, arcs.upos, strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    rows = []
    for method, settings in (
        ("cca", {}), ("two-step", {}), ("lr-mvl", {"iterations": 2}), ("lr-mvl", {"iterations": 5}),
    ):  # fmt: skip
        with machine.Clock() as clock:
            model = sw.WordEmbedding(dimension, method=method, **settings).fit(text).model_
        known = model.vocabulary.words
        main_tag = {word: counts[word].most_common(1)[0][0] for word in known}
        hits = [main_tag[model.nearest(word, 1)[0].word] == main_tag[word] for word in known]
        name = method + "".join(f", {value} {key}" for key, value in settings.items())
        rows.append([name, f"{len(known):,}", f"{np.mean(hits):.3f}", f"{clock.cpu:.0f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
    machine.print_table(["method", "words", "nearest word has the tag", "CPU s"], rows)


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["likelihoods", "times", "words"])
    parser.add_argument("--states", default="1,4,8,16")
    parser.add_argument("--copies", default="1,10,100")
    parser.add_argument("--dimension", type=int, default=50)
    parser.add_argument("--limit", type=int, help="sentences that `parsing` and `tags` learn from")
    given = parser.parse_args()
    bank = sw.read_arcs(data_file("ud_english_ewt", "train.conllu.xz"))
    if "parsing" in given.parts:
        cut = len(bank) * 9 // 10
        train, held = bank[:cut], bank[cut:]
        if given.limit:  # from all over the treebank: texts differ
            train = train.select(np.linspace(0, cut - 1, given.limit).astype(int))
            held = held.select(np.arange(0, len(held), 3))
        parsing(train, held, 16)
    if "likelihoods" in given.parts:
        likelihoods(bank, [int(k) for k in given.states.split(",")])
    if "times" in given.parts:
        times(bank, [int(n) for n in given.copies.split(",")])
    if "words" in given.parts:
        words(given.dimension)
    if "tags" in given.parts:
        tags_of_neighbours(bank[: given.limit], given.dimension)


if __name__ == "__main__":
    main()
