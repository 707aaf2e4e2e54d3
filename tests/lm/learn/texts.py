"""Texts and an ARPA file for tests of language models."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sapwood.lm.data.ngrams import UNKNOWN, NgramCounts

TEXT = [["the", "dog", "sees", "the", "cat"], ["a", "dog"], ["the", "dog", "sees"], ["cat"]] * 3


def some_text(n: int = 300, seed: int = 0) -> list[list[str]]:
    """Sentences in which a word depends on the two before it."""
    p = np.random.default_rng(0).dirichlet(np.full(9, 0.3), (8, 8))
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        x, y, line = 0, 0, []
        while len(line) < 12:
            z = int(rng.choice(9, p=p[x, y]))
            if z == 8:
                break
            x, y = y, z
            line.append("abcdefgh"[z])
        found.append(line or ["a"])
    return found


ARPA = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1.0 <unk>
-99 <s> -0.3
-0.5 </s>
-0.6 a -0.2

\\2-grams:
-0.1 <s> a
-0.2 a </s>

\\end\\
"""


def log_prob(model: object, text: NgramCounts) -> float:
    rows = text.rows[text.rows[:, 0] != UNKNOWN]
    n = text.counts[text.rows[:, 0] != UNKNOWN]
    return float(n @ model.log_probs(rows) / n.sum())  # type: ignore[attr-defined]


def write(folder: Path, sentences: list[list[str]], name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text("".join(" ".join(line) + "\n" for line in sentences), "utf-8")
    return path
