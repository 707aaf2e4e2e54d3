"""Attachment scores of predicted dependency trees, and significance of differences.

Scores are those of the evaluation script of CoNLL 2018 on gold tokens: words are matched by
position, punctuation counts, and a relation is right if its universal part, before the colon, is
right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import CorpusError, count
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank

N_BOOTSTRAP_SAMPLES = 10_000
_CHUNK = 250  # samples in memory at a time
ATTACHMENT_FIGURES = ("uas", "las", "complete", "upos")


@dataclass(frozen=True, eq=False, repr=False)
class AttachmentScores:
    """Numbers of right heads, relations and tags in each sentence; `uas` and others in percent.

    Attributes
    ----------
    n_words, n_heads, n_labelled, n_tags
        For each sentence the number of words, of words with the right head, of words with the right
        head and relation, and of words with the right universal tag.
    """

    n_words: IntArray
    n_heads: IntArray
    n_labelled: IntArray
    n_tags: IntArray

    @property
    def uas(self) -> float:
        """Words with the right head, in percent."""
        return self.percent("uas")

    @property
    def las(self) -> float:
        """Words with the right head and relation, in percent."""
        return self.percent("las")

    @property
    def complete(self) -> float:
        """Sentences whose heads are all right, in percent."""
        return self.percent("complete")

    @property
    def upos(self) -> float:
        """Words with the right universal tag, in percent."""
        return self.percent("upos")

    def percent(self, figure: str) -> float:
        """The percentage of one of `ATTACHMENT_FIGURES`."""
        right, whole = self.parts(figure)
        return float(100.0 * right.sum() / whole.sum())

    def parts(self, figure: str) -> tuple[IntArray, IntArray]:
        """Numbers of right items and of all items, in each sentence."""
        if figure == "complete":
            return (self.n_heads == self.n_words).astype(np.int64), np.ones_like(self.n_words)
        right = {"uas": self.n_heads, "las": self.n_labelled, "upos": self.n_tags}[figure]
        return right, self.n_words

    def interval(
        self,
        figure: str,
        *,
        level: float = 0.95,
        n_samples: int = N_BOOTSTRAP_SAMPLES,
        seed: int = 0,
    ) -> tuple[float, float]:
        """Bootstrap interval of a percentage: sentences are resampled with replacement."""
        right, whole = self.parts(figure)
        drawn = [100.0 * (w @ right) / (w @ whole) for w in _resamples(len(right), n_samples, seed)]
        low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __repr__(self) -> str:
        return f"<AttachmentScores: UAS {self.uas:.2f}, LAS {self.las:.2f}>"

    def as_dict(self) -> dict[str, float | int]:
        """Percentages and counts, by name."""
        figures: dict[str, float | int] = {
            figure: self.percent(figure) for figure in ATTACHMENT_FIGURES
        }
        return figures | {"sentences": len(self.n_words), "tokens": int(self.n_words.sum())}


def attachment(gold: ArcBankLike, predicted: ArcBankLike) -> AttachmentScores:
    """Score predicted dependency trees, sentence by sentence.

    Parameters
    ----------
    gold, predicted
        As many sentences with the same words: banks, lists of `Arcs`, or paths of CoNLL-U.

    Examples
    --------
    >>> from sapwood.dependency.data.bank import Arcs
    >>> gold = [Arcs(["dogs", "bark", "now"], [2, 0, 2], ["nsubj", "root", "advmod:tmod"])]
    >>> found = [Arcs(["dogs", "bark", "now"], [2, 0, 1], ["obj", "root", "advmod"])]
    >>> scores = attachment(gold, found)
    >>> round(scores.uas, 1), round(scores.las, 1), scores.complete
    (66.7, 33.3, 0.0)
    """
    right, found = as_arc_bank(gold), as_arc_bank(predicted)
    _check_words(right, found)
    has_head = right.head == found.head
    has_relation = _numbers(_universal, right.relations, found.relations)
    has_tag = _numbers(str, right.upos_names, found.upos_names)
    labelled = has_relation[0][right.relation] == has_relation[1][found.relation]
    tagged = has_tag[0][right.upos] == has_tag[1][found.upos]
    per_sentence = (
        np.add.reduceat(column.astype(np.int64), right.offsets[:-1])
        for column in (np.ones_like(has_head), has_head, has_head & labelled, tagged)
    )
    return AttachmentScores(*per_sentence)


def _universal(relation: str) -> str:
    return relation.split(":", 1)[0]


def _numbers(name: Callable[[str], str], *tables: tuple[str, ...]) -> list[npt.NDArray[np.int64]]:
    """Common numbers of the entries of several tables: equal names, equal numbers."""
    known: dict[str, int] = {}
    return [
        np.array([known.setdefault(name(entry), len(known)) for entry in table], np.int64)
        for table in tables
    ]


def _check_words(gold: ArcBank, predicted: ArcBank) -> None:
    hint = "predict on the tokens of the gold file, and keep the order of its sentences"
    if len(gold) != len(predicted):
        counts = f"{count(len(predicted), 'sentence')} predicted, but {len(gold):,} gold ones"
        raise CorpusError(counts, hint=hint)
    sizes = np.diff(gold.offsets), np.diff(predicted.offsets)
    if len(wrong := np.flatnonzero(sizes[0] != sizes[1])):
        at = int(wrong[0])
        msg = f"sentence {at + 1} has {count(sizes[1][at], 'word')}, but {sizes[0][at]} in gold"
        raise CorpusError(msg, hint=hint)
    ours, theirs = _numbers(str, gold.words, predicted.words)
    if len(wrong := np.flatnonzero(ours[gold.word] != theirs[predicted.word])):
        row = int(wrong[0])
        at = int(np.searchsorted(gold.offsets, row, "right"))
        words = predicted.words[predicted.word[row]], gold.words[gold.word[row]]
        msg = f"sentence {at} has the word {words[0]!r}, but {words[1]!r} in gold"
        raise CorpusError(msg, hint=hint)


@dataclass(frozen=True)
class Difference:
    """The difference of a percentage between two parsers.

    Attributes
    ----------
    points
        The difference in percentage points.
    low, high
        Its bootstrap interval of 95 %.
    p_value
        By approximate randomisation, two-sided: how often a difference as large occurs when the two
        outputs of each sentence are exchanged at random.
    """

    points: float
    low: float
    high: float
    p_value: float

    def as_dict(self) -> dict[str, float]:
        """The numbers of the comparison, by name."""
        return asdict(self)


def compare_attachment(
    scores: AttachmentScores,
    other: AttachmentScores,
    figure: str = "uas",
    *,
    n_samples: int = N_BOOTSTRAP_SAMPLES,
    seed: int = 0,
) -> Difference:
    """Test whether a parser is better than another on the same sentences.

    Parameters
    ----------
    scores, other
        Scores of two outputs for the same gold trees; the difference is the first minus the second.
    figure
        One of `ATTACHMENT_FIGURES`.
    n_samples
        Samples of the bootstrap, and of the randomisation.

    Examples
    --------
    >>> one, words = np.array([3, 4, 5, 4]), np.array([5, 5, 6, 5])
    >>> scores = AttachmentScores(words, one, one, one)
    >>> same = compare_attachment(scores, scores)
    >>> same.points, same.p_value
    (0.0, 1.0)
    """
    right, whole = scores.parts(figure)
    theirs, _ = other.parts(figure)
    gain = (right - theirs).astype(np.float64)
    points = 100.0 * gain.sum() / whole.sum()
    drawn = [100.0 * (w @ gain) / (w @ whole) for w in _resamples(len(gain), n_samples, seed)]
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    rng = np.random.default_rng(seed)
    n_beyond = 0
    for size in _chunks(n_samples):
        signs = rng.integers(0, 2, (size, len(gain))) * 2.0 - 1.0
        # counts are whole numbers, so that equal sums are equal
        n_beyond += int((np.abs(signs @ gain) >= abs(gain.sum())).sum())
    return Difference(float(points), float(low), float(high), (1 + n_beyond) / (1 + n_samples))


def _resamples(n: int, n_samples: int, seed: int) -> Iterator[FloatArray]:
    """How often each sample draws each of n sentences, `_CHUNK` samples at a time."""
    rng = np.random.default_rng(seed)
    for size in _chunks(n_samples):
        drawn = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.float64)


def _chunks(n_samples: int) -> list[int]:
    whole, rest = divmod(n_samples, _CHUNK)
    return [_CHUNK] * whole + [rest] * bool(rest)
