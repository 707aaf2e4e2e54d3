"""Examples of the directions of a spectral label: the constituents furthest to either side.

A constituent's inside vector b, divided by b . out[a] / V(a), is on the scale on which
`state_vectors.pulls` compares rules and words. How far a constituent lies to a side is its distance
from the median of the label's constituents, in median absolute deviations: a few constituents with
almost no weight would stretch a scale of standard deviations for all others.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray

N_HEADS = 8  # head words that are listed
N_EXAMPLES = 4  # constituents that are listed
LEAST = 0.5  # deviations from the median below which a constituent is no example


class DirectionExamples:
    """The constituents of one spectral label, gathered tree by tree.

    Parameters
    ----------
    out : [m]
        The label's outside vector, summed over all its places.
    """

    def __init__(self, out: FloatArray) -> None:
        self.out = out
        self.values: list[FloatArray] = []
        self.found: list[tuple[list[str], tuple[int, int], str]] = []

    def add(self, words: list[str], span: tuple[int, int], head: str, inside: FloatArray) -> None:
        """One constituent more; left out where the model gives it no positive weight."""
        weight = float(inside @ self.out)
        if weight > 0:
            self.values.append(inside / weight)
            self.found.append((words, span, head))

    def rows(self) -> list[dict[str, Any]]:
        """For each direction, `positive` and `negative`: `head_words` and `examples` of a side."""
        if not self.values:
            return []
        values = np.array(self.values)  # [n, m]
        middle = np.median(values, axis=0)
        spread = np.median(np.abs(values - middle), axis=0)
        far = np.where(spread > 0, values - middle, 0.0) / np.where(spread > 0, spread, 1.0)
        return [
            {
                "dimension": d + 1,
                "positive": self._side(far[:, d]),
                "negative": self._side(-far[:, d]),
            }
            for d in range(values.shape[1])
        ]

    def _side(self, far: FloatArray) -> dict[str, Any]:
        """The head words and constituents furthest to one side, one of each wording."""
        heads: defaultdict[str, list[float]] = defaultdict(list)
        for (_, _, head), distance in zip(self.found, far.tolist(), strict=True):
            heads[head].append(distance)
        pull = {head: sum(all_) / len(all_) ** 0.5 for head, all_ in heads.items()}
        seen: dict[str, dict[str, Any]] = {}
        for place in np.argsort(-far, kind="stable").tolist():
            words, (start, end), _ = self.found[place]
            if far[place] < LEAST or len(seen) == N_EXAMPLES:
                break
            text = " ".join(words[start:end])
            seen.setdefault(text, {"words": words, "start": start, "end": end})
        best = sorted((head for head in pull if pull[head] > LEAST), key=lambda head: -pull[head])
        return {"head_words": best[:N_HEADS], "examples": list(seen.values())}
