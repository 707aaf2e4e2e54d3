"""What all estimators of language models share."""

from __future__ import annotations

from typing import Any

from sapwood.corpus.plain_text import SPECIAL
from sapwood.estimators.base import Estimator
from sapwood.moments.ngrams import NgramCounts

# parameters that a model's record has, and what they are called there
TOLD = {"order": "order", "n_states": "states", "n_blocks": "blocks", "seed": "seed"}


class LanguageEstimator(Estimator):
    """Learns from counts of n-grams: `NgramCounts`, files of counts or text, or sentences.

    Words are taken as they are counted: `NgramCounts.cut_words` makes rare ones the unknown word.
    """

    def _record(
        self, method: str, counts: NgramCounts, held_out: NgramCounts | None = None
    ) -> dict[str, Any]:
        """How the model was made, once it is."""
        told: dict[str, Any] = {
            "method": method, "tokens": counts.n_tokens, "words": len(counts.words) - len(SPECIAL),
            "stream": counts.is_stream,
        }  # fmt: skip
        given = self.get_params()
        told |= {name: given[key] for key, name in TOLD.items() if given.get(key) is not None}
        if (iterations := getattr(self, "iterations_", None)) is not None:
            told["iterations"] = iterations
        if held_out is not None:
            told["held_out_tokens"] = held_out.n_tokens
        return told
