"""What learners of arcs and chains share: parameters, data, and what is seen of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sapwood.core.arguments import as_items, as_sentence
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.learner import (
    ANYTHING,
    FLAG,
    Estimator,
    at_least,
    between,
    one_of,
    parameter,
    positional,
    whole,
)
from sapwood.corpora.vocabulary import STYLES, choose_vocabulary
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.model.dependency import TAG_COLUMNS, Seen
from sapwood.dependency.model.latent import LatentArcs

MAX_STATES = 256
PROJECTIONS = ("cca", "svd")
SEEN = ("tags", "words", "both")
HALF = 0.5  # count of what was never seen


class OfWords(Estimator):
    """Learns hidden states of words."""

    n_states: int = positional(
        default=8, domain=whole(1, MAX_STATES), words="Hidden states of a word.", kw_only=False
    )
    min_count: int = parameter(
        5, whole(1), "Words seen less often are taken for their class of unknown words."
    )
    style: str = parameter(
        "generic", one_of(STYLES), "How unknown words are classed: by English endings, or by any."
    )
    seed: int = parameter(0, whole(0), "Of the random numbers that are drawn, if any.")


class OfArcs(OfWords):
    """Learns from dependency trees."""

    seen: str = parameter("tags", one_of(SEEN), "What is seen of a word: tags, words or both.")
    tag_column: str = parameter(
        "upos", one_of(TAG_COLUMNS), "Which tags: universal ones, or those of the language."
    )

    valence: bool = parameter(
        False,
        FLAG,
        "Whether the numbers of a word's left and right children are seen as well: then trees are "
        "weighed by their shapes too, which the paper's model does not.",
    )

    def _see(self, trees: ArcBankLike) -> tuple[ArcBank, Seen]:
        """The trees, and what this learner sees of their words."""
        bank = as_arc_bank(trees)
        if not len(bank):
            msg = "no dependency trees: nothing can be learnt"
            raise CorpusError(msg, hint="is the file empty?")
        if bank.head.min() < 0:
            msg = "some sentences have no heads"
            raise CorpusError(msg, hint="give trees, not plain sentences")
        tags = () if self.seen == "words" else getattr(bank, f"{self.tag_column}_names")
        if self.seen == "tags":
            return bank, Seen(tags, None, self.tag_column, self.valence)
        is_first = np.zeros(bank.n_tokens, np.int64)
        is_first[bank.offsets[:-1]] = 1
        pairs, n = np.unique(2 * bank.word.astype(np.int64) + is_first, return_counts=True)
        counts = {(bank.words[pair // 2], bool(pair % 2)): int(times)
                  for pair, times in zip(pairs.tolist(), n, strict=True)}  # fmt: skip
        known = choose_vocabulary(counts, self.min_count, self.style)
        return bank, Seen(tags, known, self.tag_column, self.valence)

    def _complete(self, seen: Seen, arcs: LatentArcs, n_words: int) -> tuple[Seen, LatentArcs]:
        """What is seen, and its tables, with a symbol for unknown tags: as rare as half a word.

        Words need none: classes of unknown words are among their symbols.
        """
        if not seen.tags:
            return seen, arcs
        return seen.with_unknown_tag(), arcs.with_unknown(HALF / (n_words + HALF))


class OfChains(OfWords):
    """Learns from plain sentences."""

    def _read(self, sentences: Iterable[Sequence[str]]) -> tuple[list[list[str]], Seen]:
        """Lists of words, and what this learner sees of them."""
        kept = [as_sentence(words) for words in as_items(sentences, "sentences, lists of words")]
        if not kept:
            msg = "no sentences: nothing can be learnt"
            raise SapwoodError(msg, hint="give lists of words")
        counts = Counter((word, not place) for words in kept for place, word in enumerate(words))
        return kept, Seen((), choose_vocabulary(counts, self.min_count, self.style))


class BySpectrum(Estimator):
    """Learns from moments, by inverses of them."""

    projection: str = parameter(
        "cca",
        one_of(PROJECTIONS),
        "How symbols become vectors: `cca` of words and the words at the other ends of their arcs, "
        "or `svd` of the counts themselves, in which rare words hardly count.",
    )
    power: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Counts are taken to this power for the projection, so that no few pairs outweigh all "
        "others; 1 for none.",
    )
    ridge: float = parameter(
        0.3,
        at_least(0),
        "Correlations below this are left out of inverses, smoothly: with 0 the estimate is "
        "consistent, with more it has less noise, and in the end words tell nothing of each other.",
    )
    shrinkage: float = parameter(
        10.0,
        at_least(0),
        "C: a symbol seen n times is trusted n / (n + C), and tells nothing of the state for the "
        "rest.",
    )


class ByEM(Estimator):
    """Learns by EM."""

    iterations: int = parameter(100, whole(1), "The most EM iterations.")
    tolerance: float = parameter(
        1e-4, at_least(0), "EM ends when an iteration gains less than this, in nats a word."
    )
    smoothing: float = parameter(
        0.01,
        between(0, 1),
        "Added to every expected count, a prior: with 0, the likelihood itself never falls; else "
        "its sum with the log of the prior.",
    )
    start: str = parameter(
        "random",
        one_of(("random", "spectral")),
        "Where EM begins: from noise, or from the spectral estimate made into probabilities.",
    )
    on_iteration: Callable[[int, int, float], None] | None = parameter(
        None,
        ANYTHING,
        "Called with (iteration, states, log-likelihood) after every E-step.",
        changes_model=False,
    )

    @property
    def log_likelihoods_(self) -> list[float]:
        """The log-likelihood before the first M-step and after each."""
        return [row["log_likelihood"] for row in self.info_.history]

    @property
    def bounds_(self) -> list[float]:
        """The log-likelihood and the log of the prior, which never fall together."""
        return [row["bound"] for row in self.info_.history]

    @property
    def iterations_(self) -> int:
        """Number of M-steps."""
        return int(self.info_.iterations)
