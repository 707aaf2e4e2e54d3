"""The methods of learning language models by name, and what their estimators share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sapwood.core.errors import count, require_memory
from sapwood.core.learner import Estimator, Method

if TYPE_CHECKING:
    from sapwood.lm.data.counting import CountsLike
    from sapwood.lm.data.ngrams import NgramCounts

LM_TASK = "text"
LM_METHODS: Mapping[str, Method] = {
    "mix": Method(
        "kn-mod, em and hidden states after two words, weighed by context",
        ("lm.learn.mixture", "LanguageMixture"),
        LM_TASK,
    ),
    "kn": Method(
        "interpolated Kneser-Ney",
        ("lm.learn.kneser_ney", "KneserNey"),
        LM_TASK,
        fixed={"is_modified": False},
    ),
    "kn-mod": Method(
        "Kneser-Ney with three discounts",
        ("lm.learn.kneser_ney", "KneserNey"),
        LM_TASK,
        fixed={"is_modified": True},
    ),
    "kn-latent": Method(
        "kn-mod with hidden states between pairs and single words",
        ("lm.learn.kneser_ney", "LatentKneserNey"),
        LM_TASK,
    ),
    "em": Method(
        "hidden states between two words, by EM", ("lm.learn.latent", "EMBigram"), LM_TASK
    ),
    "pivot": Method(
        "the same by pivot words and convex EM",
        ("lm.learn.pivot", "PivotBigram"),
        LM_TASK,
        fixed={"iterations": 0},
    ),
    "pivot-em": Method(
        "a few iterations of EM from there", ("lm.learn.pivot", "PivotBigram"), LM_TASK
    ),
}
# ways to count neighbours and decompose the counts; only one of them iterates over the text
EMBEDDING_METHODS: Mapping[str, Method] = {
    name: Method(
        summary, ("lm.learn.eigenwords", "WordEmbedding"), LM_TASK,
        fixed={"method": name} | ({} if name == "lr-mvl" else {"iterations": 5}),
    )
    for name, summary in {
        "cca": "words against their neighbours",
        "two-step": "neighbours are reduced first to what left and right ones tell of each other",
        "bigram": "plain singular vectors of pairs of words",
        "lr-mvl": "two steps again and again, with exponential smooths of all words on each side",
    }.items()
}  # fmt: skip
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
LIBRARIES = 10e6  # bytes that any learner takes
NGRAM_WORD = 45  # bytes for each word of each n-gram while levels are interpolated
# parameters that a model's record has, and their names there
RECORDED = {"order": "order", "n_states": "states", "n_blocks": "blocks", "seed": "seed"}


class LanguageEstimator(Estimator, ABC):
    """Learns from counts of n-grams: `NgramCounts`, files of counts or text, or sentences.

    Words are taken as they are counted: `NgramCounts.cut_words` makes rare ones the unknown word.
    """

    least_order: ClassVar[int] = 2  # of the n-grams, where it is no parameter

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of at least the learner's order, or from text.

        Parameters
        ----------
        source
            `NgramCounts`, the path of a file of counts or of a text, or sentences.
        held
            Held-out counts in the same words, for learners that use them.
        """
        return self.learn(self._read(source), held)

    @abstractmethod
    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts that fit into memory, with parameters that were checked."""

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes that learning takes at most, about, besides the counts."""
        return LIBRARIES + NGRAM_WORD * counts.rows.size

    def _read(self, source: CountsLike) -> NgramCounts:
        """The counts; refused where learning from them does not fit into memory."""
        from sapwood.lm.data.counting import as_counts

        given = vars(self)  # the parameters
        counts = as_counts(source, given.get("order", self.least_order), self._engine())
        work = f"training on {len(counts.words):,} words"
        hint = "count rare words as unknown with a larger --min-count, or use a smaller --order"
        if "n_states" in given:
            work = f"{work} with {count(given['n_states'], 'state')}"
            hint = f"use fewer --states, {hint}"
        require_memory(self.memory_needed(counts), work, hint)
        return counts

    def _record(
        self,
        method: str,
        counts: NgramCounts,
        held: NgramCounts | None = None,
        iterations: int | None = None,
    ) -> dict[str, Any]:
        """The record of the training in the model's file."""
        record: dict[str, Any] = {
            "method": method, "tokens": counts.n_tokens, "words": counts.n_words,
            "stream": counts.is_stream,
        }  # fmt: skip
        given = vars(self)  # the parameters, and more
        record |= {new: given[old] for old, new in RECORDED.items() if given.get(old) is not None}
        if iterations is not None:
            record["iterations"] = iterations
        if held is not None:
            record["held_out_tokens"] = held.n_tokens
        return record
