"""Prefix probabilities, the slow way: by listing sentences, and by unrolling left recursion.

Notation
--------
    root, rules, emissions   as in `tests.reference.enumerate`; they must be probabilities
    prefix[a][h]             probability that what a in state h derives begins with the given words
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

from tests.reference import charts
from tests.reference.enumerate import Emissions, Number, Root, Rules

Words = tuple[str, ...]


def sentences_of(root: Root, rules: Rules, lexicon: Any) -> dict[Words, Number]:
    """The probability of every sentence of a grammar without recursion.

    Parameters
    ----------
    lexicon
        lexicon[word][tag] is the emission vector of a tag for a word.
    """
    yields: dict[tuple[Any, int], dict[Words, Number]] = {}

    def below(a: Any, h: int) -> dict[Words, Number]:
        if (a, h) not in yields:
            found: dict[Words, Number] = defaultdict(int)
            for word, tags in lexicon.items():
                if a in tags:
                    found[(word,)] += tags[a][h]
            for (parent, b, c), tensor in rules.items():
                if parent != a:
                    continue
                for p, q in product(range(len(tensor[h])), range(len(tensor[h][0]))):
                    for left, x in below(b, p).items():
                        for right, y in below(c, q).items():
                            found[left + right] += tensor[h][p][q] * x * y
            yields[a, h] = found
        return yields[a, h]

    total: dict[Words, Number] = defaultdict(int)
    for a, vector in root.items():
        for h, weight in enumerate(vector):
            for words, p in below(a, h).items():
                total[words] += weight * p
    return total


def prefix_probability(
    root: Root, rules: Rules, emissions: Emissions, n_rounds: int = 2000
) -> float:
    """Probability of all sentences that begin with the given words (Jelinek and Lafferty 1991).

        prefix(a, i) = sum over a -> b c and j of  inside(b, i, j) prefix(c, j)
                       + sum over a -> b c of  P(a -> b c) prefix(b, i)

    for the words from i to the last one. The second sum, over left recursion, is run in circles
    until it changes no more.
    """
    n = len(emissions)
    inside = charts.inside(rules, emissions)
    sizes = {a: len(tensor) for (a, _, _), tensor in rules.items()}
    later: dict[int, dict[Any, list[float]]] = {}
    for i in reversed(range(n)):
        complete = {a: [0.0] * m for a, m in sizes.items()}
        if i == n - 1:
            complete |= {tag: list(map(float, v)) for tag, v in emissions[i].items()}
        for (a, b, c), tensor in rules.items():
            for j in range(i + 1, n):
                left, right = inside.get((b, i, j)), later[j].get(c)
                if left is None or right is None:
                    continue
                for h, p, q in product(range(len(tensor)), range(len(left)), range(len(right))):
                    complete[a][h] += float(tensor[h][p][q]) * float(left[p]) * right[q]
        prefix = {a: list(v) for a, v in complete.items()}
        for _ in range(n_rounds):
            new = {a: list(v) for a, v in complete.items()}
            for (a, b, _), tensor in rules.items():
                for h, p in product(range(len(tensor)), range(len(tensor[0]))):
                    if b in prefix:
                        new[a][h] += float(sum(tensor[h][p])) * prefix[b][p]
            change = max(abs(x - y) for a in new for x, y in zip(new[a], prefix[a], strict=True))
            prefix = new
            if change < 1e-17:
                break
        later[i] = prefix
    return sum(
        float(w) * x
        for a, v in root.items()
        if a in later[0]
        for w, x in zip(v, later[0][a], strict=True)
    )


def restarted_probabilities(
    first: Root, later: Root, rules: Rules, emissions: Emissions, restart: float
) -> list[float]:
    """Probability of each prefix, and last of the sentence, of a grammar that may start anew.

    Behind each word, a new fragment begins with probability `restart`; else the fragment goes on,
    or the sentence ends where the fragment does. With V[i], the probability that the words up to i
    were read and that a fragment begins there:

        V[0] = 1,   V[k] = sum over i < k of  V[i] prefix(i, k) (1 - restart)^(k - i - 1) restart

    Parameters
    ----------
    first, later
        Roots of the first fragment, and of any other.
    """
    n, go_on = len(emissions), 1.0 - restart
    begun, prefixes = [1.0], []
    for k in range(1, n + 1):
        read = 0.0
        for i, weight in enumerate(begun):
            below = prefix_probability(later if i else first, rules, emissions[i:k])
            read += weight * below * go_on ** (k - i - 1)
        prefixes.append(read)
        begun.append(read * restart)
    whole = 0.0
    for i, weight in enumerate(begun[:n]):
        beta = charts.inside(rules, emissions[i:])
        root = later if i else first
        below = sum(
            float(w) * float(x)
            for a, v in root.items()
            for w, x in zip(v, beta.get((a, 0, n - i), [0] * len(v)), strict=True)
        )
        whole += weight * below * go_on ** (n - i)
    return [*prefixes, whole]
