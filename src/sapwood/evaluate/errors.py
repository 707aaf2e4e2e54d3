"""Reports of wrong brackets and tags: scores by label, kinds of errors, examples.

`sapwood.evaluate.diagnosis` explains the brackets of one sentence; here they are added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from sapwood.corpus.tree import Tree
from sapwood.evaluate.bracketing import Bracket, ScoredBrackets, scored_brackets
from sapwood.evaluate.diagnosis import KINDS, WRONG_LABEL, BracketError, explain


@dataclass(frozen=True, slots=True)
class LabelScore:
    """Brackets of one label."""

    label: str
    gold: int
    predicted: int
    matched: int

    @property
    def missing(self) -> int:
        """Gold brackets that were not predicted."""
        return self.gold - self.matched

    @property
    def extra(self) -> int:
        """Predicted brackets that are not gold."""
        return self.predicted - self.matched

    @property
    def recall(self) -> float:
        """Matched brackets in percent of the gold ones; 0 without any."""
        return 100.0 * self.matched / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Matched brackets in percent of the predicted ones; 0 without any."""
        return 100.0 * self.matched / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Twice the matched brackets in percent of both sides' brackets."""
        return 200.0 * self.matched / (self.gold + self.predicted)


class KindCount(NamedTuple):
    """How many brackets one kind of error explains, in how many places."""

    kind: str
    places: int
    missing: int
    extra: int

    @property
    def brackets(self) -> int:
        """Missing and extra brackets."""
        return self.missing + self.extra


@dataclass(frozen=True)
class ErrorReport:
    """What `diagnose` found.

    Attributes
    ----------
    errors
        Every error, sentence by sentence.
    labels
        Scores by label, the commonest gold label first.
    tags
        How often (gold tag, predicted tag) were confused.
    words
        The scored words of every sentence that has an error, by its number.
    sentences, dropped
        Sentences that were compared, and those that EVALB drops.
    """

    errors: list[BracketError] = field(repr=False)
    labels: list[LabelScore]
    tags: Counter[tuple[str, str]]
    words: dict[int, list[str]] = field(repr=False)
    sentences: int
    dropped: int

    @property
    def missing(self) -> int:
        """All gold brackets that were not predicted."""
        return sum(error.missing is not None for error in self.errors)

    @property
    def extra(self) -> int:
        """All predicted brackets that are not gold."""
        return sum(error.extra is not None for error in self.errors)

    @cached_property
    def kinds(self) -> list[KindCount]:
        """The kinds that occur, the one with the most brackets first.

        `places` counts a phrase once, however many brackets its move has changed.
        """
        rows = []
        for kind in KINDS:
            found = [error for error in self.errors if error.kind == kind]
            places = {(error.sentence, error.phrase) for error in found}
            missing = sum(error.missing is not None for error in found)
            extra = sum(error.extra is not None for error in found)
            if found:
                rows.append(KindCount(kind, len(places), missing, extra))
        return sorted(rows, key=lambda row: -row.brackets)

    @cached_property
    def wrong_labels(self) -> Counter[tuple[str, str]]:
        """How often (gold label, predicted label) stand over the same words."""
        found = [error for error in self.errors if error.kind == WRONG_LABEL]
        return Counter((e.missing[0], e.extra[0]) for e in found if e.missing and e.extra)

    def examples(self, kind: str, n: int) -> list[BracketError]:
        """The first n errors of a kind, each about another phrase."""
        found: dict[tuple[int, Bracket], BracketError] = {}
        for error in self.errors:
            if error.kind == kind:
                found.setdefault((error.sentence, error.phrase), error)
        return list(found.values())[:n]

    def phrase_words(self, sentence: int, bracket: Bracket) -> str:
        """The scored words of a bracket."""
        return " ".join(self.words[sentence][bracket[1] : bracket[2]])

    def as_dict(self, examples: int = 2) -> dict[str, Any]:
        """Plain counts and lists, with so many examples of each kind."""
        figures = ("gold", "predicted", "matched", "missing", "extra", "recall", "precision", "f1")
        return {
            "sentences": self.sentences,
            "dropped": self.dropped,
            "missing": self.missing,
            "extra": self.extra,
            "labels": {row.label: {x: getattr(row, x) for x in figures} for row in self.labels},
            "kinds": {
                row.kind: {"places": row.places, "missing": row.missing, "extra": row.extra}
                | {"examples": [self._example(e) for e in self.examples(row.kind, examples)]}
                for row in self.kinds
            },
            "wrong_labels": _pair_rows(self.wrong_labels),
            "wrong_tags": _pair_rows(self.tags),
        }

    def _example(self, error: BracketError) -> dict[str, Any]:
        names = ("missing", "extra", "phrase", "gold_parent", "predicted_parent")
        brackets = {name: getattr(error, name) for name in names}
        return {"sentence": error.sentence} | {
            name: bracket
            and {"label": bracket[0], "words": self.phrase_words(error.sentence, bracket)}
            for name, bracket in brackets.items()
        }


def diagnose(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> ErrorReport:
    """Explain every missing and every extra bracket of EVALB by one kind of error.

    Parameters
    ----------
    gold, predicted, raw
        As for `sapwood.evaluate.bracketing`. Sentences that EVALB drops are only counted.

    Returns
    -------
    ErrorReport
        `missing` and `extra` are the numbers behind EVALB's recall and precision.

    Notes
    -----
    Cost: as of `bracketing`, and O(e^2) for a sentence of e wrong brackets. What the kinds mean:
    `sapwood.evaluate.diagnosis`.

    Examples
    --------
    >>> gold = Tree.parse("(S (VP (VB eat) (NP (NP (NN pie)) (PP (IN on) (NP (NN ice))))))")
    >>> flat = Tree.parse("(S (VP (VB eat) (NP (NN pie)) (PP (IN on) (NP (NN ice)))))")
    >>> diagnose([gold], [flat]).kinds
    [KindCount(kind='PP attachment', places=1, missing=1, extra=0)]
    """
    errors: list[BracketError] = []
    words: dict[int, list[str]] = {}
    counts = _Counts()
    n_dropped = 0
    for row, pair in scored_brackets(gold, predicted, raw=raw):
        if pair is None:
            n_dropped += 1
            continue
        counts.add(pair)
        if found := explain(row.number, pair):
            errors += found
            words[row.number] = pair.words
    return ErrorReport(errors, counts.labels(), counts.tags, words, counts.sentences, n_dropped)


class _Counts:
    """Brackets by label and confused tags, added up over sentences."""

    def __init__(self) -> None:
        self.gold: Counter[str] = Counter()
        self.predicted: Counter[str] = Counter()
        self.matched: Counter[str] = Counter()
        self.tags: Counter[tuple[str, str]] = Counter()
        self.sentences = 0

    def add(self, pair: ScoredBrackets) -> None:
        matched = Counter(pair.gold) & Counter(pair.predicted)
        self.gold.update(label for label, _, _ in pair.gold)
        self.predicted.update(label for label, _, _ in pair.predicted)
        self.matched.update(label for label, _, _ in matched.elements())
        tagged = zip(pair.gold_tags, pair.predicted_tags, strict=True)
        self.tags.update((a, b) for a, b in tagged if a != b)
        self.sentences += 1

    def labels(self) -> list[LabelScore]:
        gold, predicted = self.gold, self.predicted
        names = sorted(gold | predicted, key=lambda x: (-gold[x], -predicted[x], x))
        return [LabelScore(x, gold[x], predicted[x], self.matched[x]) for x in names]


def _pair_rows(pairs: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"gold": a, "predicted": b, "count": n} for (a, b), n in pairs.most_common()]
