"""Language models: perplexity and time on Brown and news text.

brown     the split of the PIVOT paper (800,000 / 200,000 / rest, one stream, words seen once
unknown): EM, pivot and pivot-em by number of states, Kneser-Ney, mixtures; dev is its
second half, the first half is held out for stopping and weights
paper     Table 2 of PIVOT on that split: EM, pivot and pivot-em, each as the paper has it (the
hidden states alone, no prior) and as Sapwood has it (interpolated with single words, one prior)
news      wikinews_en in sentences: modified Kneser-Ney and the mixture on dev, which is cut in
two: the first half is held out, the second is scored
iteration seconds and bytes of an EM iteration
"""

from __future__ import annotations

import argparse
import lzma
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np

import sapwood as sw
from sapwood.execute import Threads
from sapwood.lm.data.counting import CountSettings, count_text
from sapwood.lm.data.ngrams import NgramCounts
from sapwood.lm.evaluate import perplexity
from sapwood.lm.learn import bigram_em
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    EngineEStep,
    cut_pairs,
    follow_counts,
    random_states,
    word_distribution,
)
from sapwood.lm.model.language_model import LanguageModel

BROWN = (800_000, 900_000, 1_000_000)
STATES = (2, 4, 8, 16, 32, 64, 128, 256)


def data_file(*parts: str) -> Path:
    """A file of the folder that SAPWOOD_DATA names."""
    folder = os.environ.get("SAPWOOD_DATA") or sys.exit("SAPWOOD_DATA is not set")
    return Path(folder, *parts)


def brown_texts(folder: Path) -> dict[str, Path]:
    """Brown as one stream, in the parts of the paper."""
    with lzma.open(data_file("brown", "brown.tagged.xz"), "rt", encoding="utf-8") as file:
        words = [token.rpartition("/")[0] for line in file for token in line.split()]
    first, half, last = BROWN
    parts = {
        "train": words[:first], "held": words[first:half], "dev": words[half:last],
        "test": words[last:],
    }  # fmt: skip
    for name, part in parts.items():
        lines = (" ".join(part[i : i + 1000]) for i in range(0, len(part), 1000))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: folder / f"{name}.txt" for name in parts}


def score(model: LanguageModel, texts: dict[str, NgramCounts]) -> list[str]:
    """Perplexity of each text."""
    return [f"{perplexity(model, t.rows, t.counts).perplexity:.1f}" for t in texts.values()]


def from_file(title: str, model: LanguageModel, m: int, texts: dict[str, NgramCounts]) -> list[str]:
    """The size of a model's file, and its scores when it is read again."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "model.lm")
        model.save(path)
        size = path.stat().st_size / 1e6
        return [
            f"{title}, read from its file of {size:.0f} MB",
            str(m),
            *score(sw.load(path), texts),
        ]


def brown_counts() -> tuple[NgramCounts, NgramCounts, dict[str, NgramCounts]]:
    """Counts of the training part, of what is held out, and of the parts that are scored."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = brown_texts(Path(scratch))
        settings = CountSettings(3, is_stream=True)
        counts = count_text(paths["train"], settings).cut_words(2)
        texts = {
            name: count_text(path, settings, words=counts.words)
            for name, path in paths.items()
            if name != "train"
        }
    return counts, texts.pop("held"), texts


def paper(most_states: int) -> None:
    """Table 2 of PIVOT: sum over h of r s alone, without a prior, and what Sapwood makes of it.

    Each keeps the iteration that is best on the held-out part by its own perplexity.
    """
    counts, held, texts = brown_counts()
    rows, usual = [], bigram_em.STOP_WEIGHT
    for order in (2, 3):
        model = sw.KneserNey(order, is_modified=False).fit(counts).model_
        rows.append([f"Kneser-Ney {order}", "", *score(model, texts), "", "", "", ""])
    for m in (m for m in STATES if m <= most_states):
        for title in ("em", "pivot", "pivot-em"):
            found: list[str | int] = []
            for is_alone in (True, False):
                prior = {"prior": 0.0} if is_alone else {}
                bigram_em.STOP_WEIGHT = 0.0 if is_alone else usual
                if title == "em":
                    learner: Any = sw.EMBigram(m, n_blocks=1, **prior)
                else:
                    more = {"iterations": 0} if title == "pivot" else {}
                    learner = sw.PivotBigram(m, **prior, **more)
                model = learner.fit(counts, held).model_
                if is_alone:
                    model = replace(model, weight=np.zeros_like(model.weight))
                climbed = learner.climbs_[0] if title == "em" else learner.climb_
                found += [*score(model, texts), int(np.argmax(climbed.scores))]
            rows.append([title, m, *found])
            print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    machine.print_table(
        ["model", "states", "alone, dev", "alone, test", "iterations",
         "smoothed, dev", "smoothed, test", "iterations, smoothed"],
        rows,
    )  # fmt: skip


def brown(most_states: int) -> None:
    """The paper's table, and what goes beyond it."""
    counts, held, texts = brown_counts()
    rows = []
    for order in (2, 3):
        for title, is_modified in (("Kneser-Ney", False), ("modified Kneser-Ney", True)):
            with machine.Clock() as clock:
                model = sw.KneserNey(order, is_modified=is_modified).fit(counts).model_
            rows.append([f"{title} {order}", "", *score(model, texts), "", f"{clock.cpu:.1f}"])
    for order in (2, 3):
        with machine.Clock() as clock:
            latent = sw.LatentKneserNey(most_states, order=order).fit(counts, held)
        found, n = score(latent.model_, texts), latent.iterations_
        rows.append([f"Kneser-Ney {order} over states", most_states, *found, n, f"{clock.cpu:.1f}"])
        print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    for m in (m for m in STATES if m <= most_states):
        learners = {
            "em, one start, no prior": sw.EMBigram(m, n_blocks=1, prior=0.0),
            "em, in blocks": sw.EMBigram(m),
            "pivot": sw.PivotBigram(m, iterations=0),
            "pivot-em": sw.PivotBigram(m),
            "hidden state of two words": sw.LatentTrigram(m, min_pair_count=1),
        }
        for title, learner in learners.items():
            with machine.Clock() as clock:
                learner.fit(counts, held)
            found = score(learner.model_, texts)
            rows.append([title, m, *found, learner.iterations_, f"{clock.cpu:.1f}"])
            print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    with machine.Clock() as clock:
        mixture = sw.LanguageMixture(most_states).fit(counts, held)
    n = mixture.iterations_
    rows.append(["mix", most_states, *score(mixture.model_, texts), n, f"{clock.cpu:.1f}"])
    rows.append([*from_file("mix", mixture.model_, most_states, texts), "", ""])
    print(
        f"Brown: {counts.n_tokens:,} tokens, {len(counts.words) - 4:,} words; perplexity",
        end="\n\n",
    )
    machine.print_table(
        ["model", "states", "dev", "test", "iterations", "CPU s"],
        rows,
    )


def news() -> None:
    """Sentences of news, words seen once unknown; ends and unknown words are not scored."""
    with tempfile.TemporaryDirectory() as scratch:
        with lzma.open(data_file("wikinews_en", "dev.txt.xz"), "rt", encoding="utf-8") as file:
            lines = file.readlines()
        half = Path(scratch, "held.txt"), Path(scratch, "dev.txt")
        half[0].write_text("".join(lines[::2]), encoding="utf-8")
        half[1].write_text("".join(lines[1::2]), encoding="utf-8")
        settings = CountSettings(3)
        with machine.Clock() as clock:
            counts = count_text(data_file("wikinews_en", "train.txt.xz"), settings).cut_words(2)
        rows = [["counting", "", "", f"{clock.cpu:.1f}"]]
        held, dev = (count_text(path, settings, words=counts.words) for path in half)
        whole = count_text(data_file("wikinews_en", "dev.txt.xz"), settings, words=counts.words)
    texts = {"half": dev, "whole": whole}
    for order in (2, 3):
        with machine.Clock() as clock:
            model = sw.KneserNey(order).fit(counts).model_
        rows.append([f"modified Kneser-Ney {order}", *score(model, texts), f"{clock.cpu:.1f}"])
    for order in (2, 3):
        with machine.Clock() as clock:
            latent = sw.LatentKneserNey(128, order=order).fit(counts, held)
        found = score(latent.model_, {"half": dev})
        rows.append([f"Kneser-Ney {order} over states", *found, "", f"{clock.cpu:.1f}"])
        print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    with machine.Clock() as clock:
        mixture = sw.LanguageMixture(128).fit(counts, held)
    for title, member in (
        ("hidden states of one word", mixture.model_.members[1]),
        ("hidden states of two words", mixture.model_.members[2]),
        ("mix", mixture.model_),
    ):
        found = score(member, {"half": dev})
        rows.append([title, *found, "", f"{clock.cpu:.1f}" if title == "mix" else ""])
    title, _, *found = from_file("mix", mixture.model_, 128, {"half": dev})
    rows.append([title, *found, "", ""])
    print(
        f"News: {counts.n_tokens:,} tokens, {len(counts.words) - 4:,} words; perplexity", end="\n\n"
    )
    machine.print_table(
        ["model", "second half of dev", "all of dev", "CPU s"],
        rows,
    )


def iteration(states: list[int]) -> None:
    """Seconds and bytes of an EM iteration, beside what the machine can move."""
    counts = count_text(data_file("wikinews_en", "train.txt.xz"), CountSettings(2)).cut_words(2)
    c = follow_counts(counts.rows, counts.counts, len(counts.words))
    u = word_distribution(c)
    shards = cut_pairs(c)
    rows = []
    for m in states:
        start = random_states(u, m, np.random.default_rng(0))
        em = BigramEM(1, 1.0, u)
        source = EngineEStep(Threads(1), shards)
        em.run(source, start)
        with machine.Clock() as clock:
            em.run(source, start)
        moved = 3 * 4 * m * c.nnz / 1e9
        rows.append([m, f"{clock.cpu:.2f}", f"{moved:.1f}", f"{moved / clock.cpu:.1f}"])
    print(f"One EM iteration over {c.nnz:,} pairs of words, one thread", end="\n\n")
    machine.print_table(
        ["states", "CPU s", "GB of rows moved", "GB / s"],
        rows,
    )


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["brown"],
                        choices=["brown", "paper", "news", "iteration"])  # fmt: skip
    parser.add_argument("--states", type=int, default=256, help="the most, for brown and paper")
    options = parser.parse_args()
    for part in options.parts:
        if part in {"brown", "paper"}:
            (brown if part == "brown" else paper)(options.states)
        elif part == "news":
            news()
        else:
            iteration([16, 64, 256])


if __name__ == "__main__":
    main()
