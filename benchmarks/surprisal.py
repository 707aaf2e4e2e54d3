"""Surprisal: words a CPU second and memory by states and length; perplexity beside n-grams.

speed       EM grammars of several numbers of states on the dev sentences of ptb, by length
perplexity  grammars and Kneser-Ney n-grams of the same training text, which predict the same events
            (words seen twice or more, classes of other words, ends of sentences), on every
            so-many-th sentence of ptb dev, Brown and wikinews; their mixture, word by word. A
            grammar also knows words seen once: their probabilities are added to their class's

All models are learnt from the first nine tenths of ptb train; the last tenth chooses the weights of
mixtures. Models that are learnt are kept in the folder of --models and read from there again.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np

import sapwood as sw
from sapwood.constituency.parse.prefixes import chart_bytes, predict_words, prefix_tables
from sapwood.core.arrays import FloatArray
from sapwood.corpora.tokenize import PennTokenizer
from sapwood.corpora.vocabulary import Vocabulary
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.model.language_model import LanguageModel

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 100))  # words
ORDERS = (2, 3)
RESTART = 1e-4
MIN_COUNT = 2  # words seen less often are predicted as their class
MIX = "mix of the three"
WEIGHTS = np.linspace(0.0, 1.0, 101)
GRAMMARS: dict[str, Callable[[], Any]] = {
    "pcfg": sw.PCFG,
    "em 8": lambda: sw.EMLPCFG(8, seed=0),
    "cluster 8": lambda: sw.ClusterLPCFG(8, seed=0),
}
Sentence = list[str]


def learn(name: str, learner: Callable[[], Any], folder: Path) -> Any:
    """A grammar of the first nine tenths of ptb train, from its file where there is one."""
    path = folder / f"{name.replace(' ', '-')}.sapwood"
    if not path.exists():
        trees = machine.gold_trees("ptb", "train")
        with machine.Clock() as clock:
            learner().fit(sw.Treebank.from_trees(trees[: len(trees) * 9 // 10])).model_.save(path)
        print(f"{name}: learnt in {clock.cpu:.0f} CPU seconds", file=sys.stderr, flush=True)
    return sw.load(path)


# -- speed and memory -----------------------------------------------------------------------------


def print_speed(states: list[int], folder: Path) -> None:
    """Words a CPU second of one thread, the best of two runs, and megabytes of the charts."""
    by_length = [
        [tree.words() for tree in machine.gold_trees("ptb", "dev")
         if low <= len(tree.words()) <= high] for low, high in LENGTHS
    ]  # fmt: skip
    rows = []
    for m in states:
        grammar = learn(f"em {m}", lambda m=m: sw.EMLPCFG(m, seed=0), folder)  # type: ignore[misc]
        with machine.Clock() as clock:
            tables = prefix_tables(grammar)
        prepared = clock.thread
        sw.surprisal(grammar, by_length[0][0])  # kernels loaded
        rates, seconds = [], 0.0
        machine.forget_peak()
        before = machine.peak_mb()
        for sentences in by_length:
            times = []
            for _ in range(2):
                with machine.Clock() as clock:
                    for words in sentences:
                        sw.surprisal(grammar, words)
                times.append(clock.thread)
            rates.append(sum(map(len, sentences)) / min(times))
            seconds += min(times)
        n_words = sum(len(words) for sentences in by_length for words in sentences)
        longest = max(len(words) for sentences in by_length for words in sentences)
        charts = [chart_bytes(tables, n) / 1e6 for n in (25, 50, 100)]
        rows.append(
            [f"em {m}", *(f"{rate:,.0f}" for rate in rates), f"{n_words / seconds:,.0f}",
             *(f"{size:,.0f}" for size in charts),
             f"{machine.peak_mb() - before:,.0f}", f"{prepared:.2f}"]
        )  # fmt: skip
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    machine.print_table(
        ["grammar", *(f"{low} to {high} words" for low, high in LENGTHS), "all",
         "MB, 25 words", "MB, 50 words", "MB, 100 words", f"MB measured, {longest} words",
         "s to prepare"],
        rows,
    )  # fmt: skip


# -- perplexity -----------------------------------------------------------------------------------


@dataclass
class Part:
    """A text, and the probability that each model gave to each of its words and ends."""

    sentences: list[Sentence]
    found: dict[str, FloatArray]

    @property
    def n_events(self) -> int:
        """Words and ends of sentences."""
        return sum(len(words) + 1 for words in self.sentences)


class Events:
    """What all models predict: rows of a vocabulary, words seen once joined to their classes."""

    def __init__(self, vocabulary: Vocabulary, train: list[Sentence]) -> None:
        self.vocabulary = vocabulary
        rows = np.concatenate([vocabulary.rows(words) for words in train])
        counts = np.bincount(rows, minlength=len(vocabulary))
        # by whether the word is the first of its sentence: [2, n_rows]
        self.of_row = np.tile(np.arange(len(vocabulary)), (2, 1))
        for row in np.flatnonzero(counts[: len(vocabulary.words)] < MIN_COUNT).tolist():
            for is_first in (0, 1):
                self.of_row[is_first, row] = vocabulary.class_row(
                    vocabulary[row], is_first=bool(is_first)
                )

    def numbers(self, words: Sentence) -> list[int]:
        """The event of each word."""
        rows = self.vocabulary.rows(words).tolist()
        return [int(self.of_row[int(k == 0), row]) for k, row in enumerate(rows)]

    def names(self, words: Sentence) -> Sentence:
        """The event of each word, as n-grams know it."""
        return [self.vocabulary[number] for number in self.numbers(words)]

    def n_classes(self, sentences: list[Sentence]) -> int:
        """How many words of a text are predicted as a class."""
        known = len(self.vocabulary.words)
        return sum(number >= known for words in sentences for number in self.numbers(words))


def text_parts(n_words: int, vocabulary: Vocabulary) -> dict[str, Part]:
    """Every so-many-th sentence of the held-out part of train, of ptb dev, Brown and wikinews."""
    train = machine.gold_trees("ptb", "train")
    tokenise = PennTokenizer(vocabulary.words)
    texts = {
        "held out": [tree.words() for tree in train[len(train) * 9 // 10 :]],
        "ptb dev": [tree.words() for tree in machine.gold_trees("ptb", "dev")],
        "Brown": [line.split() for line in brown_lines()],
        "wikinews": [line.split() for line in wikinews_lines()],
    }
    for name, sentences in texts.items():
        texts[name] = sentences[:: max(1, sum(map(len, sentences)) // n_words)]
        if name in {"Brown", "wikinews"}:
            texts[name] = [tokenise(" ".join(words)) for words in texts[name] if words]
    return {name: Part(sentences, {}) for name, sentences in texts.items()}


def brown_lines() -> list[str]:
    """Brown without its tags, a sentence per line."""
    path = machine.corpus_file("brown", "brown", "tagged")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [" ".join(token.rpartition("/")[0] for token in line.split()) for line in file]


def wikinews_lines() -> list[str]:
    """The dev part of wikinews, a sentence per line."""
    with lzma.open(machine.corpus_file("wikinews_en", "dev", "txt"), "rt") as file:
        return list(file)


def by_grammar(
    grammar: Any, sentences: list[Sentence], events: Events
) -> tuple[FloatArray, FloatArray]:
    """Probabilities of the events of a text, and of its words as the grammar itself knows them."""
    of_events, of_words = [], []
    for words in sentences:
        numbers = events.numbers(words)
        found = predict_words(grammar, words, restart=RESTART, with_words=True)
        for k, prediction in enumerate(found):
            of_words.append(prediction.probability)
            if k == len(words) or prediction.words is None:
                of_events.append(prediction.probability)
                continue
            joined = events.of_row[int(k == 0)] == numbers[k]
            of_events.append(float(prediction.words[:-1][joined].sum()))
    return np.array(of_events), np.array(of_words)


def mix_of(members: list[tuple[FloatArray, FloatArray]], sentences: list[Sentence]) -> FloatArray:
    """Probabilities of events by a mix of equal weights, as `sw.Ensemble` conditions it."""
    out, at = np.empty_like(members[0][0]), 0
    for words in sentences:
        part = slice(at, at + len(words) + 1)
        before = np.array([np.log(p[part]).cumsum() - np.log(p[part]) for _, p in members])
        shares = np.exp(before - np.logaddexp.reduce(before))
        out[part] = sum(share * p[part] for share, (p, _) in zip(shares, members, strict=True))
        at = part.stop
    return out


def learn_ngrams(events: Events, train: list[Sentence], order: int) -> LanguageModel:
    """Modified Kneser-Ney over the events of a vocabulary, from the same training text."""
    counts = count_sentence_ngrams([events.names(words) for words in train], order)
    known = set(counts.words)
    names = (events.vocabulary[number] for number in np.unique(events.of_row).tolist())
    unseen = tuple(name for name in names if name not in known)
    return sw.KneserNey(order).fit(replace(counts, words=counts.words + unseen)).model_


def perplexity(p: FloatArray) -> float:
    """Perplexity of a text from the probabilities of its words and ends."""
    return float(np.exp(-np.log(p).mean()))


def print_perplexity(n_words: int, folder: Path) -> None:
    """Perplexity of grammars, n-grams and their mixtures on text of three kinds."""
    models = {name: learn(name, learner, folder) for name, learner in GRAMMARS.items()}
    vocabulary = models["pcfg"].lexicon.vocabulary
    assert all(model.lexicon.vocabulary == vocabulary for model in models.values())
    parts = text_parts(n_words, vocabulary)
    train = [tree.words() for tree in machine.gold_trees("ptb", "train")]
    train = train[: len(train) * 9 // 10]
    events = Events(vocabulary, train)
    ngrams = {f"{n}-gram": learn_ngrams(events, train, n) for n in ORDERS}
    grammars = [*models, MIX]
    for title, part in parts.items():
        text, members = [events.names(words) for words in part.sentences], []
        for name, ngram in ngrams.items():
            part.found[name] = np.exp(
                np.concatenate([ngram.log_probs(ngram.rows_of(words)) for words in text])
            )
        for name, model in models.items():
            with machine.Clock() as clock:
                members.append(by_grammar(model, part.sentences, events))
            part.found[name] = members[-1][0]
            rate = part.n_events / clock.thread
            print(f"{title}, {name}: {perplexity(part.found[name]):.1f}, {rate:.0f} words a second",
                  file=sys.stderr, flush=True)  # fmt: skip
        part.found[MIX] = mix_of(members, part.sentences)
    held = parts.pop("held out")
    rows = [
        [name, "", *(f"{perplexity(part.found[name]):.1f}" for part in parts.values())]
        for name in (*ngrams, *grammars)
    ]
    for one, other in product(grammars, ngrams):
        weight = best_weight(held.found[one], held.found[other])
        mixed = [
            weight * part.found[one] + (1 - weight) * part.found[other] for part in parts.values()
        ]
        found = [f"{perplexity(p):.1f}" for p in mixed]
        rows.append([f"{one} and {other}", f"{weight:.2f}", *found])
    n_known = int((np.unique(events.of_row) < len(vocabulary.words)).sum())
    print(f"{n_known:,} words, {len(vocabulary.classes)} classes of other words; "
          f"restart {RESTART:g}\n")  # fmt: skip
    machine.print_table(["model", "weight of the grammar", *parts], rows)
    print("Sentences without a derivation, restart 0:\n")
    machine.print_table(
        ["text", "words and ends", "words by class", "sentences", *models],
        [[title, f"{part.n_events:,}", f"{events.n_classes(part.sentences):,}", len(part.sentences),
          *(sum(not np.isfinite(model.log_prob(words)) for words in part.sentences)
            for model in models.values())]
         for title, part in parts.items()],
    )  # fmt: skip


def best_weight(first: FloatArray, second: FloatArray) -> float:
    """The weight of the first of two models whose mixture is best on held-out text."""
    scores = [np.log(w * first + (1 - w) * second).sum() for w in WEIGHTS[1:-1]]
    return float(WEIGHTS[1:-1][int(np.argmax(scores))])


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["speed", "perplexity"])
    parser.add_argument("--states", nargs="+", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--words", type=int, default=5000, help="of each text, about")
    parser.add_argument("--models", type=Path, help="a folder that keeps the models")
    options = parser.parse_args()
    machine.print_facts("Surprisal")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.models or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if "speed" in options.parts:
            print_speed(options.states, folder)
        if "perplexity" in options.parts:
            print_perplexity(options.words, folder)


if __name__ == "__main__":
    main()
