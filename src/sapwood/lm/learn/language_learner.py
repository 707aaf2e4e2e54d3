"""What all estimators of language models share."""

from __future__ import annotations

from typing import Any

from sapwood.core.errors import count
from sapwood.core.learner import Estimator
from sapwood.core.memory import require_memory
from sapwood.lm.data.ngram_files import CountsLike, as_counts
from sapwood.lm.data.ngrams import NgramCounts
from sapwood.lm.data.plain_text import SPECIAL

# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
LIBRARIES = 10e6  # bytes that any learner takes
NGRAM_WORD = 45  # bytes for each word of each n-gram while levels are interpolated

# parameters that a model's record has, and what they are called there
TOLD = {"order": "order", "n_states": "states", "n_blocks": "blocks", "seed": "seed"}


class LanguageEstimator(Estimator):
    """Learns from counts of n-grams: `NgramCounts`, files of counts or text, or sentences.

    Words are taken as they are counted: `NgramCounts.cut_words` makes rare ones the unknown word.
    """

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes that learning takes at most, about, besides the counts."""
        return LIBRARIES + NGRAM_WORD * counts.rows.size

    def _read(self, source: CountsLike, order: int) -> NgramCounts:
        """Counts of at least an order; refused where learning from them does not fit in memory."""
        counts = as_counts(source, order, self._engine())
        states, work = getattr(self, "n_states", None), f"training on {len(counts.words):,} words"
        hint = "count rare words as unknown with a larger --min-count, or use a smaller --order"
        if states is not None:
            work, hint = f"{work} with {count(states, 'state')}", f"use fewer --states, {hint}"
        require_memory(self.memory_needed(counts), work, hint)
        return counts

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
