"""Sample the bundled trees from the bundled grammar.

Run it from the root of the repository after a change of the grammar::

    python tools/sample_bundled.py

Trees of more than 60 words, about one in 700, are drawn again; the script says how many there were.
"""

from __future__ import annotations

import argparse
import gzip
import random
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from sapwood.constituency.data.bundled import GrammarText, LatentSymbol, grammar_text, parse_grammar
from sapwood.constituency.data.treebank import SPLITS

SEED = 1789
SIZES = {"train": 3000, "dev": 300, "test": 300}
MAX_WORDS = 60
FOLDER = Path(__file__).resolve().parents[1] / "src" / "sapwood" / "corpus" / "bundled"


@dataclass(frozen=True)
class Choices:
    """Outcomes with their cumulated probabilities."""

    outcomes: list
    cumulated: list[float]

    @classmethod
    def of(cls, weighted: list[tuple[object, float]]) -> Choices:
        """Cumulate a list of outcomes and probabilities."""
        outcomes = [outcome for outcome, _ in weighted]
        return cls(outcomes, list(accumulate(probability for _, probability in weighted)))

    def draw(self, rng: random.Random) -> object:
        """Draw one outcome.

        Only ``random()`` is promised to give the same numbers in every version of Python, so the
        draw is made from that rather than with ``choices``.
        """
        place = bisect_right(self.cumulated, rng.random() * self.cumulated[-1])
        return self.outcomes[min(place, len(self.outcomes) - 1)]


class Sampler:
    """Draws trees from a latent grammar and counts those that were too long."""

    def __init__(self, grammar: GrammarText, rng: random.Random) -> None:
        rules: dict[LatentSymbol, list[tuple[object, float]]] = defaultdict(list)
        for parent, left, right, probability in grammar.binary:
            rules[parent].append(((left, right), probability))
        for tag, word, probability in grammar.lexical:
            rules[tag].append((word, probability))
        self.rules = {symbol: Choices.of(weighted) for symbol, weighted in rules.items()}
        self.roots = Choices.of(list(grammar.roots.items()))
        self.rng = rng
        self.too_long = 0

    def tree(self) -> str:
        """Draw one tree of at most ``MAX_WORDS`` words, in brackets."""
        while True:
            pieces, words = self.expand(self.roots.draw(self.rng))
            if words <= MAX_WORDS:
                return f"(TOP {' '.join(pieces)})"
            self.too_long += 1

    def expand(self, symbol: LatentSymbol) -> tuple[list[str], int]:
        """Draw what is below a symbol: its bracketed trees and the number of its words.

        The list has one tree, or, below an invented ``@`` symbol, those to be spliced in above.
        """
        outcome = self.rules[symbol].draw(self.rng)
        if isinstance(outcome, str):
            pieces, words = [outcome], 1
        else:
            left, left_words = self.expand(outcome[0])
            right, right_words = self.expand(outcome[1])
            pieces, words = left + right, left_words + right_words
        if symbol[0].startswith("@"):
            return pieces, words
        bracketed = " ".join(pieces)
        for label in reversed(symbol[0].split("|")):
            bracketed = f"({label} {bracketed})"
        return [bracketed], words


def sample_splits() -> tuple[dict[str, str], int]:
    """Draw all splits from one stream of random numbers.

    Returns
    -------
    splits
        The text of each split, one tree per line.
    too_long
        How many trees of more than ``MAX_WORDS`` words were drawn again.
    """
    sampler = Sampler(parse_grammar(grammar_text()), random.Random(SEED))
    splits = {
        split: "".join(f"{sampler.tree()}\n" for _ in range(SIZES[split])) for split in SPLITS
    }
    return splits, sampler.too_long


def main() -> None:
    """Write the files of all splits and say how large they are."""
    parser = argparse.ArgumentParser(description="Sample the bundled trees.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    folder = parser.parse_args().out
    splits, too_long = sample_splits()
    for split, text in splits.items():
        # mtime=0 keeps the date out of the file, so that equal trees give equal files.
        packed = gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)
        path = folder / f"{split}.mrg.gz"
        path.write_bytes(packed)
        print(f"{path.name}: {text.count(chr(10))} trees, {len(packed)} bytes")
    print(f"drawn again because longer than {MAX_WORDS} words: {too_long}")


if __name__ == "__main__":
    main()
