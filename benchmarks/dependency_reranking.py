"""Reranking the best trees of a parser with latent models (DEP, Table 1), on dev sentences.

python benchmarks/dependency_reranking.py --corpora ptb_nltk_dep ud_english_ewt --orders 1 2

Parser and latent models learn from all of train; the reranker learns from lists of parsers that
have not seen their sentences. All rows of a parser choose from the same lists.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import machine
import numpy as np

import sapwood as sw
from sapwood.corpus.arcs.bank import ArcBank
from sapwood.corpus.arcs.lists import CandidateLists
from sapwood.estimators.arcs.perceptron import RankLesson, learn_to_rank
from sapwood.estimators.arcs.reranker import BITS, ArcReranker
from sapwood.evaluate.attachment import AttachmentScores, attachment, compare_attachment
from sapwood.inference.arcs.reranking import propose_trees

CORPORA = (
    "ptb_nltk_dep", "ud_english_ewt", "ud_french_sequoia", "ud_korean_gsd", "ud_vietnamese_vtb",
)  # fmt: skip
# name: columns of dense features, of the list, of the spectral model, of EM's
VARIANTS = {
    "+ reranker": (0, 1),
    "+ log p, spectral": (0, 1, 2, 3, 4),
    "+ log p, EM": (0, 1, 5, 6, 7),
    "+ log p, both": (0, 1, 2, 3, 4, 5, 6, 7),
}
HEADER = ("corpus", "order", "trees", "UAS", "95 %", "complete", "gain", "p", "over reranker", "p")


def heads_scored(gold: ArcBank, lists: CandidateLists, trees: np.ndarray) -> AttachmentScores:
    """Scores of chosen trees; relations and tags are not looked at."""
    chosen = lists.bank.select(trees)
    return attachment(gold, replace(gold, head=chosen.head))


def rows(
    corpus: str, order: int, limit: int | None, states: int, folds: int
) -> list[tuple[str, ...]]:
    """The parser alone, then the variants; of so many sentences of train, and all of dev."""
    train, gold = (
        sw.read_arcs(machine.corpus_file(corpus, part, "conllu")) for part in ("train", "dev")
    )
    if limit is not None and limit < len(train):  # from all over the treebank: texts differ
        train = train.select(np.linspace(0, len(train) - 1, limit).astype(int))
    learner = ArcReranker(states, order=order, latent="both", folds=folds)
    course = learner.prepare(train)
    labels = course.labels(0, passes=1)  # which the heads do not depend on
    parts = [learner.fold_lesson(course, labels, fold) for fold in range(learner.list_folds)]
    lesson = RankLesson.join(parts)
    parser, latent = learner.learn_parts(course, labels)
    words = [gold.sentence(index) for index in range(len(gold))]
    parses = list(sw.ArcParser(parser).parse_many(words))
    lists = propose_trees(parses, learner.n_best)
    dev = RankLesson.of(lists, gold, latent, learner.tag_column(train), BITS)
    base = attachment(gold, replace(gold, head=ArcBank.of(p.arcs for p in parses).head))
    first = heads_scored(gold, lists, lists.best(lists.score))
    oracle = heads_scored(gold, lists, lists.best(dev.right))
    found = {"parser": base, "best of list": first, "oracle of list": oracle}
    for name, columns in VARIANTS.items():
        part = replace(lesson, dense=lesson.dense[:, columns])
        choice = learn_to_rank(part, passes=learner.list_passes, folds=3, seed=0)
        shown = replace(dev, dense=dev.dense[:, columns])
        features = np.add.reduceat(
            choice.weights.sparse[shown.triples].sum(axis=1), shown.offsets[:-1]
        )
        scores = shown.dense @ choice.weights.dense + features
        found[name] = heads_scored(gold, lists, lists.best(scores))
    return [_row(corpus, order, name, scores, found) for name, scores in found.items()]


def _row(
    corpus: str, order: int, name: str, scores: AttachmentScores, all_: dict[str, AttachmentScores]
) -> tuple[str, ...]:
    low, high = scores.interval("uas")
    cells = [corpus, str(order), name, f"{scores.uas:.2f}", f"{low:.2f}-{high:.2f}"]
    cells.append(f"{scores.complete:.2f}")
    for other, is_due in (("parser", name.startswith("+")), ("+ reranker", "log" in name)):
        if is_due:
            gain = compare_attachment(scores, all_[other])
            cells += [f"{gain.points:+.2f}", f"{gain.p_value:.3f}"]
        else:
            cells += ["", ""]
    return tuple(cells)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpora", nargs="+", default=CORPORA, metavar="NAME")
    options.add_argument("--orders", nargs="+", type=int, default=(1, 2), metavar="N")
    options.add_argument("--limit", type=int, help="sentences of train")
    options.add_argument("--folds", type=int, default=2, help="taggers that jackknife tags")
    options.add_argument("--states", type=int, default=8, metavar="K")
    given = options.parse_args()
    machine.print_facts("Reranking of dependency trees")
    found = [
        row
        for corpus in given.corpora
        for order in given.orders
        for row in rows(corpus, order, given.limit, given.states, given.folds)
    ]
    machine.print_table(HEADER, found)


if __name__ == "__main__":
    main()
