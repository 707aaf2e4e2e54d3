"""Reranking the best trees of a parser with latent models (DEP, Table 1), on dev sentences.

python benchmarks/dependency_reranking.py --corpora ptb_nltk_dep ud_english_ewt --limit 2000
python benchmarks/dependency_reranking.py --search --corpora ud_english_ewt --limit 2000

Parser and latent models learn from train, or from `--limit` sentences from all over it; the
reranker learns from lists of parsers that have not seen their sentences. All rows of a parser
choose from the same lists, which `--keep` writes and reads again. `--search` compares latent models
on the lists of train, each time on those that were held out, and never looks at dev.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import machine
import numpy as np

import sapwood as sw
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.evaluate import AttachmentScores, attachment, compare_attachment
from sapwood.dependency.learn.reranker import (
    TRIPLE_BITS,
    ArcReranker,
    FoldLists,
    RankingData,
    learn_to_rank,
)
from sapwood.dependency.parse.reranking import propose_trees

CORPORA = (
    "ptb_nltk_dep", "ud_english_ewt", "ud_french_sequoia", "ud_korean_gsd", "ud_vietnamese_vtb",
)  # fmt: skip
N_SAMPLES = 2000  # of intervals and p
Learner = Callable[[ArcBank], Any]  # a latent model of some trees


class Material(NamedTuple):
    """Lists of a treebank.

    Attributes
    ----------
    folds
        Of train, by parsers that have not seen them.
    dev
        By the parser of all of train.
    parsed
        Heads of its own parses: the most expected right ones among all trees.
    column
        Where the tags of features stand.
    """

    folds: list[FoldLists]
    dev: FoldLists
    parsed: np.ndarray
    column: str


def material(corpus: str, order: int, limit: int | None, folds: int) -> Material:
    """Train parsers and make their lists."""
    train, gold = (
        sw.read_arcs(machine.corpus_file(corpus, part, "conllu")) for part in ("train", "dev")
    )
    if limit is not None and limit < len(train):  # from all over the treebank: texts differ
        train = train.select(np.linspace(0, len(train) - 1, limit).astype(int))
    learner = ArcReranker(order=order, folds=folds)
    trainer = learner._prepare(train)
    labels = trainer.train_labels(0)  # which the heads do not depend on
    made = [learner.fold_lists(trainer, labels, fold) for fold in range(learner.list_folds)]
    parser = sw.ArcParser(learner.learn_parser(trainer, labels))
    parses = list(parser.parse_many([gold.sentence(index) for index in range(len(gold))]))
    dev = FoldLists(propose_trees(parses, learner.n_best), gold, train)
    parsed = ArcBank.of(parse.arcs for parse in parses).head
    return Material(made, dev, parsed, learner.tag_column(train))


def kept_material(folder: Path | None, *settings: Any) -> Material:
    """The same, from a file where it was made before."""
    path = folder and folder / f"{'-'.join(map(str, settings))}.pickle"
    if path and path.exists():
        return Material(*pickle.loads(path.read_bytes()))
    found = material(*settings)
    if path:
        path.write_bytes(pickle.dumps(tuple(found)))
    return found


def lesson_of(part: FoldLists, learners: list[Learner], column: str) -> RankingData:
    """Lists as features."""
    latent = [learn(part.others) for learn in learners]
    return RankingData.of(part.lists, part.right, latent, column, TRIPLE_BITS)


def heads_scored(gold: ArcBank, heads: np.ndarray) -> AttachmentScores:
    """Scores of heads; relations and tags are not looked at."""
    return attachment(gold, replace(gold, head=heads))


def chosen(lists: CandidateLists, scores: np.ndarray) -> np.ndarray:
    """Heads of the trees that score highest."""
    return lists.bank.select(lists.best(scores)).head


def rerank(lesson: RankingData, shown: RankingData, columns: list[int]) -> np.ndarray:
    """Scores of the trees of lists, by a perceptron over others with some dense features."""
    choice = learn_to_rank(
        replace(lesson, dense=lesson.dense[:, columns]), passes=4, folds=3, seed=0
    )
    of_triples = choice.weights.sparse[shown.triples].sum(axis=1)
    return shown.dense[:, columns] @ choice.weights.dense + np.add.reduceat(
        of_triples, shown.offsets[:-1]
    )


# -- Table 1 --------------------------------------------------------------------------------------

HEADER = (
    "corpus", "order", "trees", "UAS", "95 %", "complete", "over the parser", "p",
    "over + reranker", "p",
)  # fmt: skip


def spectral(k: int, column: str, seen: str = "both", **more: Any) -> Learner:
    """A latent model by moments."""
    return lambda bank: (
        sw.SpectralDependency(k, seen=seen, tag_column=column, **more).fit(bank).model_
    )


def em(k: int, column: str, seen: str = "both", **more: Any) -> Learner:
    """A latent model by EM."""
    settings: dict[str, Any] = {"seen": seen, "tag_column": column, "iterations": 60, **more}
    return lambda bank: sw.EMDependency(k, **settings).fit(bank).model_


def rows(found: Material, corpus: str, order: int, states: int) -> Iterator[tuple[str, ...]]:
    """The parser alone, then with a reranker, then with latent models too."""
    models = {
        f"spectral, {states}": spectral(states, found.column),
        f"EM, {states}": em(states, found.column),
        f"EM, {2 * states}, children": em(2 * states, found.column, valence=True),
    }
    learners = list(models.values())
    lesson = RankingData.join([lesson_of(fold, learners, found.column) for fold in found.folds])
    dev, gold, lists = lesson_of(found.dev, learners, found.column), *found.dev[1::-1]
    columns = {"+ reranker": [0, 1]}
    columns |= {
        f"+ log p, {name}": [0, 1, *range(3 * k + 2, 3 * k + 5)] for k, name in enumerate(models)
    }
    columns["+ log p, all"] = list(range(2 + 3 * len(models)))
    scored = {
        "parser": heads_scored(gold, found.parsed),
        "best of list": heads_scored(gold, chosen(lists, lists.score)),
        "oracle of list": heads_scored(gold, chosen(lists, dev.right)),
    }
    for name in (*scored, *columns):
        if name in columns:
            scores = rerank(lesson, dev, columns[name])
            scored[name] = heads_scored(gold, chosen(lists, scores))
        yield corpus, str(order), name, *_cells(name, scored)


def _cells(name: str, scored: dict[str, AttachmentScores]) -> Iterator[str]:
    scores = scored[name]
    low, high = scores.interval("uas", n_samples=N_SAMPLES)
    yield from (f"{scores.uas:.2f}", f"{low:.2f} to {high:.2f}", f"{scores.complete:.2f}")
    for other, is_due in (("parser", name.startswith("+")), ("+ reranker", "log" in name)):
        yield from _gain(scores, scored[other]) if is_due else ("", "")


def _gain(scores: AttachmentScores, other: AttachmentScores) -> tuple[str, str]:
    gain = compare_attachment(scores, other, n_samples=N_SAMPLES)
    return f"{gain.points:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})", f"{gain.p_value:.3f}"


# -- which latent model helps ---------------------------------------------------------------------

SEARCH_HEADER = (
    "corpus", "order", "log p of", "UAS", "over + reranker", "p", "weight", "CPU s",
)  # fmt: skip
# in standard deviations of log p, where 1 is that of the reranker's score
WEIGHTS = (0.0, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


def candidates(column: str, vectors: Any) -> dict[str, Learner]:
    """Latent models by name: how they are learnt, what they see, states, where vectors are from."""
    found = {
        f"spectral, {seen}, {k}": spectral(k, column, seen)
        for seen in ("tags", "words", "both")
        for k in (4, 8, 16)
    }
    found |= {
        "spectral, both, 8, svd": spectral(8, column, "both", projection="svd"),
        "spectral, both, 8, ridge 1": spectral(8, column, "both", ridge=1.0),
        "spectral, both, 8, ridge 0.1": spectral(8, column, "both", ridge=0.1),
    }
    if vectors is not None:
        found["spectral, words, 8, eigenwords"] = spectral(8, column, "words", embeddings=vectors)
        found["spectral, words, 16, eigenwords"] = spectral(16, column, "words", embeddings=vectors)
    for seen in ("tags", "words", "both"):
        found[f"EM, {seen}, 16"] = em(16, column, seen)
        found[f"EM, {seen}, 16, children"] = em(16, column, seen, valence=True)
    found["EM, both, 16, spectral start"] = em(16, column, "both", start="spectral")
    found["EM, both, 32, children"] = em(32, column, "both", valence=True)
    return found


def search(found: Material, corpus: str, order: int, vectors: Any) -> Iterator[tuple[str, ...]]:
    """Each latent model beside the reranker, on lists of train that neither has learnt from."""
    plain = [lesson_of(fold, [], found.column) for fold in found.folds]
    own = []
    for k, shown in enumerate(plain):
        others = RankingData.join([part for j, part in enumerate(plain) if j != k])
        own.append(rerank(others, shown, [0, 1]))
    own = [scores / np.concatenate(own).std() for scores in own]
    base = _held(found, [chosen(f.lists, s) for f, s in zip(found.folds, own, strict=True)])
    parser = _held(found, [chosen(f.lists, f.lists.score) for f in found.folds])
    yield (
        corpus,
        str(order),
        "nothing, parser's order",
        f"{parser.uas:.2f}",
        *_gain(parser, base),
        "",
        "",
    )
    yield corpus, str(order), "nothing, + reranker", f"{base.uas:.2f}", "", "", "", ""
    said: dict[str, list[np.ndarray]] = {}
    for name, learn in candidates(found.column, vectors).items():
        try:
            with machine.Clock() as clock:
                said[name] = [_log_probs(learn(fold.others), fold.lists) for fold in found.folds]
        except sw.SapwoodError as error:  # more states than there is to tell apart
            yield corpus, str(order), name, "", str(error), "", "", ""
            continue
        yield corpus, str(order), name, *_searched(found, own, [said[name]], base, clock.cpu)
    several = ["EM, tags, 16, children", "EM, words, 16, children", "EM, both, 16, children"]
    with_spectral = [*several, "spectral, tags, 8", "spectral, words, 8"]
    for names in (several, with_spectral):
        cells = _searched(found, own, [said[name] for name in names], base, 0.0)
        yield corpus, str(order), " + ".join(names), *cells


def _searched(
    found: Material, own: list, said: list[list[np.ndarray]], base: AttachmentScores, cpu: float
) -> tuple[str, ...]:
    heads, weights = [], []
    for k, fold in enumerate(found.folds):
        mine = [j for j in range(len(found.folds)) if j != k]
        weights.append(best_weights(found, own, said, mine))
        heads.append(chosen(fold.lists, _mixed(own[k], [each[k] for each in said], weights[-1])))
    scores = _held(found, heads)
    shown = "; ".join("/".join(f"{w:g}" for w in some) for some in weights)
    return f"{scores.uas:.2f}", *_gain(scores, base), shown, f"{cpu:.1f}"


def best_weights(found: Material, own: list, said: list, mine: list[int]) -> list[float]:
    """Of each log p, one after the other, by the right heads in some folds."""
    weights = [0.0] * len(said)
    right = {j: found.folds[j].lists.right_heads(found.folds[j].right) for j in mine}
    for place in range(len(said)):
        totals = []
        for weight in WEIGHTS:
            weights[place] = weight
            totals.append(
                sum(
                    right[j][
                        found.folds[j].lists.best(_mixed(own[j], [s[j] for s in said], weights))
                    ].sum()
                    for j in mine
                )
            )
        weights[place] = WEIGHTS[int(np.argmax(totals))]
    return weights


def _mixed(own: np.ndarray, said: list[np.ndarray], weights: list[float]) -> np.ndarray:
    return own + sum(w * each for w, each in zip(weights, said, strict=True))


def _log_probs(model: Any, lists: CandidateLists) -> np.ndarray:
    """Of each tree, about its mean over the list, with a standard deviation of 1."""
    said, sizes = model.features(lists.bank)[:, 0], np.diff(lists.starts)
    means = np.add.reduceat(said, lists.starts[:-1]) / sizes
    said = said - np.repeat(means, sizes)
    return said / max(float(said.std()), 1e-12)


def _held(found: Material, heads: list[np.ndarray]) -> AttachmentScores:
    parts = [heads_scored(f.right, h) for f, h in zip(found.folds, heads, strict=True)]
    columns = ("n_words", "n_heads", "n_labelled", "n_tags")
    return AttachmentScores(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in columns)
    )


def main() -> None:
    """Print the table, row by row."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpora", nargs="+", default=CORPORA, metavar="NAME")
    options.add_argument("--orders", nargs="+", type=int, default=(2,), metavar="N")
    options.add_argument("--limit", type=int, help="sentences of train")
    options.add_argument("--folds", type=int, default=2, help="taggers that jackknife tags")
    options.add_argument("--states", type=int, default=8, metavar="K")
    options.add_argument("--search", action="store_true", help="compare latent models, on train")
    options.add_argument("--vectors", metavar="U", help="eigenwords, with --search")
    options.add_argument("--keep", type=Path, metavar="FOLDER", help="where lists stay")
    given = options.parse_args()
    machine.print_facts("Reranking of dependency trees")
    vectors = sw.load(given.vectors) if given.vectors else None

    def printed() -> Iterator[tuple[str, ...]]:
        for corpus, order in product(given.corpora, given.orders):
            found = kept_material(given.keep, corpus, order, given.limit, given.folds)
            if given.search:
                yield from search(found, corpus, order, vectors)
            else:
                yield from rows(found, corpus, order, given.states)

    machine.print_table(SEARCH_HEADER if given.search else HEADER, printed())


if __name__ == "__main__":
    main()
