"""Labelled bracketing scores: the numbers of EVALB, and a total that drops no sentence.

**EVALB** (Sekine and Collins), with the conventions of its `COLLINS.prm`:

- Words tagged as comma, colon, full stop, opening or closing quotes, `-NONE-` or `TOP` are deleted
  on each side by that side's own tags; a phrase over nothing else is no bracket.
- `TOP` is no bracket, nor is any other customary root label at the root; phrase labels end before
  their first `-` or `=`; `ADVP` and `PRT` are the same label.
- Brackets match as multisets: a bracket that occurs twice must be found twice.
- A sentence whose remaining words differ in number or in spelling is an error (status 1), and one
  with no predicted words left is skipped (status 2). Neither enters any figure.
- The length of a sentence, for the cut-off, counts punctuation but not `-NONE-`.

**Strict**: one mistagged comma makes EVALB drop the whole sentence, so two parsers may be scored on
different sentences. The strict total deletes by the gold tag at each position, on both sides, and
drops nothing: where the words themselves differ, every gold bracket is missed and every predicted
bracket and tag is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import Final, NamedTuple

from sapwood.core.errors import SapwoodError
from sapwood.corpora.formats import as_trees
from sapwood.corpora.tree import ROOT_LABELS, Tree, as_tree, clean

CUTOFF = 40
# Totals over the rows of sentences.
COUNTS = ("matched", "gold_brackets", "predicted_brackets", "crossing", "words", "correct_tags")
OK, ERROR, SKIPPED = 0, 1, 2  # EVALB's column "Stat."

# EVALB's layout, with its spelling, so that scripts which read EVALB's output read ours.
_RULE = "=" * 76
_HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + _RULE
)
_SUMMARY = (
    ("sentences", "Number of sentence", "d"),
    ("errors", "Number of Error sentence", "d"),
    ("skipped", "Number of Skip  sentence", "d"),
    ("valid", "Number of Valid sentence", "d"),
    ("recall", "Bracketing Recall", ".2f"),
    ("precision", "Bracketing Precision", ".2f"),
    ("f1", "Bracketing FMeasure", ".2f"),
    ("complete_match", "Complete match", ".2f"),
    ("average_crossing", "Average crossing", ".2f"),
    ("no_crossing", "No crossing", ".2f"),
    ("two_or_less_crossing", "2 or less crossing", ".2f"),
    ("tagging_accuracy", "Tagging accuracy", ".2f"),
)


class _Rates:
    """Percentages of the counts."""

    __slots__ = ()
    matched: int
    gold_brackets: int
    predicted_brackets: int

    @property
    def recall(self) -> float:
        """Matched brackets in percent of the gold ones."""
        return percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Matched brackets in percent of the predicted ones."""
        return percent(self.matched, self.predicted_brackets)


@dataclass(frozen=True, slots=True)
class SentenceScore(_Rates):
    """One row of EVALB's table.

    `length` counts all words of the gold sentence, `words` only those that are scored. `status` is
    0 for a scored sentence, 1 for an error, 2 for a skipped one; `problem` says why. As in EVALB,
    all counts of a dropped sentence are 0.
    """

    number: int
    length: int
    status: int = OK
    matched: int = 0
    gold_brackets: int = 0
    predicted_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    problem: str = ""

    @property
    def tag_accuracy(self) -> float:
        """Correct tags in percent of the scored words."""
        return percent(self.correct_tags, self.words)

    @property
    def is_complete(self) -> bool:
        """Whether both trees have the same brackets."""
        same = self.matched == self.gold_brackets == self.predicted_brackets
        return same and self.status == OK


@dataclass(frozen=True, slots=True)
class Totals(_Rates):
    """One block of EVALB's summary: counts as fields, what EVALB prints from them as properties."""

    sentences: int
    errors: int
    skipped: int
    matched: int
    gold_brackets: int
    predicted_brackets: int
    crossing: int
    words: int
    correct_tags: int
    n_complete: int
    n_no_crossing: int
    n_two_or_less_crossing: int

    @property
    def valid(self) -> int:
        """Sentences that are scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 where EVALB prints `nan`."""
        recall, precision = self.recall, self.precision
        # EVALB's order of operations, so that rounding to two digits agrees.
        return 2 * precision * recall / (precision + recall) if self.matched else 0.0

    @property
    def complete_match(self) -> float:
        """Sentences with exactly the gold brackets, in percent."""
        return percent(self.n_complete, self.valid)

    @property
    def average_crossing(self) -> float:
        """Predicted brackets that cross a gold one, per sentence."""
        return self.crossing / self.valid if self.valid else 0.0

    @property
    def no_crossing(self) -> float:
        """Sentences without a crossing bracket, in percent."""
        return percent(self.n_no_crossing, self.valid)

    @property
    def two_or_less_crossing(self) -> float:
        """Sentences with at most two crossing brackets, in percent."""
        return percent(self.n_two_or_less_crossing, self.valid)

    @property
    def tagging_accuracy(self) -> float:
        """Correct tags in percent of the scored words."""
        return percent(self.correct_tags, self.words)

    def as_dict(self) -> dict[str, int | float]:
        """Every figure of the summary in EVALB's order, then the counts behind them, unrounded."""
        names = [name for name, _, _ in _SUMMARY]
        return {name: getattr(self, name) for name in (*names, *COUNTS)}


@dataclass(frozen=True, slots=True)
class BracketingReport:
    """Scores of predicted trees, as `bracketing` computes them.

    Attributes
    ----------
    all, len40
        EVALB's two totals: all sentences, and those of at most 40 words.
    strict
        The total over all sentences that drops none.
    strict_sentences
        The rows behind `strict`; status 1 marks those whose words differ.
    """

    all: Totals
    len40: Totals
    strict: Totals
    sentences: list[SentenceScore]
    strict_sentences: list[SentenceScore]

    @property
    def recall(self) -> float:
        """EVALB's recall over all sentences."""
        return self.all.recall

    @property
    def precision(self) -> float:
        """EVALB's precision over all sentences."""
        return self.all.precision

    @property
    def f1(self) -> float:
        """EVALB's F-measure over all sentences."""
        return self.all.f1

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from sapwood.corpora.draw import table_html

        names = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
        rows = {name.replace("_", " "): f"{getattr(self.all, name):.2f}" for name in names}
        return table_html(f"{self.all.sentences:,} sentences, as EVALB scores them", rows)

    def as_dict(self) -> dict[str, dict[str, int | float]]:
        """The three totals as plain numbers."""
        totals = {"all": self.all, "len40": self.len40, "strict": self.strict}
        return {name: total.as_dict() for name, total in totals.items()}

    def text(self) -> str:
        """Write the summary in EVALB's order, the strict total beside EVALB's two."""
        lines = [f"{'':<24}{'EVALB':>9}{f'len<={CUTOFF}':>9}{'strict':>9}"]
        for name, title, form in _SUMMARY:
            cells = (format(getattr(t, name), form) for t in (self.all, self.len40, self.strict))
            lines.append(f"{title:<24}" + "".join(f"{cell:>9}" for cell in cells))
        return "\n".join(lines)

    def evalb_table(self) -> str:
        """Write what EVALB itself prints: a row for each sentence, the total row, the summary."""
        total = self.all
        rows = [
            _HEAD,
            *(
                f"{row.number:4d}  {row.length:3d}    {row.status:d}"
                f"  {row.recall:6.2f} {row.precision:6.2f}   {row.matched:3d}"
                f"    {row.gold_brackets:3d}  {row.predicted_brackets:3d}    {row.crossing:3d}"
                f"   {row.words:4d}  {row.correct_tags:4d}   {row.tag_accuracy:6.2f}"
                for row in self.sentences
            ),
            _RULE,
            f"{'':16}{total.recall:6.2f} {total.precision:6.2f} {total.matched:6d}"
            f" {total.gold_brackets:5d} {total.predicted_brackets:5d}  {total.crossing:5d}"
            f"  {total.words:5d} {total.correct_tags:5d}   {total.tagging_accuracy:6.2f}",
            "=== Summary ===",
        ]
        for title, totals in (("All", self.all), (f"len<={CUTOFF}", self.len40)):
            rows += ["", f"-- {title} --"]
            rows += [f"{t:<26}= {getattr(totals, name):6{form}}" for name, t, form in _SUMMARY]
        return "\n".join(rows) + "\n"


def percent(part: int, whole: int) -> float:
    """A percentage in EVALB's order of operations; 0 of an empty whole."""
    return 100.0 * part / whole if whole else 0.0


DELETED: Final = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
EQUAL_LABELS: Final = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]  # label, start, end; half-open


def bracketing(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> BracketingReport:
    """Score predicted trees against gold trees, sentence by sentence, as EVALB does.

        recall = matched / gold,  precision = matched / predicted,  f1 = their harmonic mean

    Parameters
    ----------
    gold, predicted
        Trees of the same sentences in the same order, read once. None means a missing tree.
    raw
        Whether to score the trees as they are. Otherwise both sides are first cleaned
        (`sapwood.corpora.tree`), so that treebanks with traces and function tags can be given; this
        also collapses `X -> X`, which EVALB would count twice.

    Returns
    -------
    BracketingReport
        EVALB's rows and totals, and the strict total. A tree that is missing, or of which cleaning
        leaves nothing, makes its sentence an error.

    Notes
    -----
    Cost: O(n d) time for a sentence of n words and depth d; memory for the rows only.

    Examples
    --------
    >>> gold = Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP run) (PRT (RP away))) (. .)))")
    >>> flat = Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP run)) (ADVP (RB away)) (. .)))")
    >>> report = bracketing([gold], [flat])
    >>> report.f1, report.all.tagging_accuracy.__round__(2)
    (75.0, 66.67)
    """
    rows: list[SentenceScore] = []
    strict_rows: list[SentenceScore] = []
    for number, (left, right) in enumerate(_pairs(gold, predicted), 1):
        a, b = _flatten(left, raw), _flatten(right, raw)
        row = _score(number, a, b)
        rows.append(row)
        strict_rows.append(_strict(number, a, b, row))
    short = [row for row in rows if row.length <= CUTOFF]
    strict = add_up(strict_rows, drop=False)
    return BracketingReport(add_up(rows), add_up(short), strict, rows, strict_rows)


class ScoredBrackets(NamedTuple):
    """The scored words of a sentence, their tags, and the brackets over them, as EVALB compares."""

    words: list[str]
    gold_tags: list[str]
    predicted_tags: list[str]
    # brackets in pre-order: of two over the same words the outer one comes first
    gold: list[Bracket]
    predicted: list[Bracket]


def scored_brackets(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> Iterator[tuple[SentenceScore, ScoredBrackets | None]]:
    """EVALB's row of every sentence with the brackets behind it, as `bracketing` counts them.

    Yields
    ------
    The row, and None in place of brackets where EVALB drops the sentence.
    """
    for number, (left, right) in enumerate(_pairs(gold, predicted), 1):
        a, b = _flatten(left, raw), _flatten(right, raw)
        row = _score(number, a, b)
        if a is None or b is None or row.status != OK:
            yield row, None
            continue
        kept, kept_too = a.kept(), b.kept()
        tags = [_tag_class(tag) for tag in _select(a.tags, kept)]
        tags_too = [_tag_class(tag) for tag in _select(b.tags, kept_too)]
        brackets = _project(a.brackets, kept), _project(b.brackets, kept_too)
        yield row, ScoredBrackets(_select(a.words, kept), tags, tags_too, *brackets)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Words, tags and phrases without the empty leaves; punctuation is still there."""

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]

    def kept(self) -> list[bool]:
        """For each word, whether its own tag lets it be scored."""
        return [tag not in DELETED for tag in self.tags]


def _pairs(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None]
) -> Iterator[tuple[Tree | None, Tree | None]]:
    """Pairs of trees; an error where one side has fewer trees than the other."""
    end = object()
    counts = [0, 0]
    sides = (as_trees(side) for side in (gold, predicted))
    for pair in zip_longest(*sides, fillvalue=end):
        for side in (0, 1):
            counts[side] += pair[side] is not end
        if counts[0] == counts[1]:
            yield pair
    if counts[0] != counts[1]:
        raise SapwoodError(
            f"expected one predicted tree a gold tree, found {counts[1]:,} for {counts[0]:,}",
            hint="give one tree, or None, for every gold sentence",
        )


def _flatten(tree: Tree | None, raw: bool) -> _Sentence | None:
    """Read words, tags and brackets off a tree; None when there is no tree."""
    if tree is None or (tree := as_tree(tree) if raw else clean(as_tree(tree))) is None:
        return None
    leaves: list[Tree] = []
    brackets: list[Bracket] = []
    for node, (label, start, end) in zip(tree.nodes(), tree.spans(), strict=True):
        if node.is_preterminal:
            leaves.append(node)
        elif (name := _bracket_label(label)) is not None and not (
            node is tree and label in ROOT_LABELS
        ):
            brackets.append((name, start, end))
    filled = [leaf.label != "-NONE-" for leaf in leaves]
    leaves = [leaf for leaf, full in zip(leaves, filled, strict=True) if full]
    words, tags = [leaf.word for leaf in leaves], [leaf.label for leaf in leaves]
    return _Sentence(words, tags, _project(brackets, filled))


@lru_cache(maxsize=4096)
def _bracket_label(label: str) -> str | None:
    """The label that EVALB compares, or None for a phrase that is no bracket."""
    name = re.split("[-=]", label, maxsplit=1)[0]
    return None if name in DELETED else _tag_class(name)


def _tag_class(label: str) -> str:
    # EVALB applies its equal labels to tags as well.
    return EQUAL_LABELS.get(label, label)


def _project(brackets: Sequence[Bracket], kept: Sequence[bool]) -> list[Bracket]:
    """Renumber the brackets over the kept words; brackets over no kept word go."""
    if all(kept):
        return list(brackets)
    at = list(accumulate(kept, initial=0))
    return [(label, at[i], at[j]) for label, i, j in brackets if at[i] < at[j]]


def _score(number: int, gold: _Sentence | None, predicted: _Sentence | None) -> SentenceScore:
    """EVALB's row: each side is deleted by its own tags."""
    length = len(gold.words) if gold else 0
    if gold is None or predicted is None:
        side = "gold" if gold is None else "predicted"
        return SentenceScore(number, length, ERROR, problem=f"No {side} tree")
    kept, kept_too = gold.kept(), predicted.kept()
    if not any(kept_too):
        return SentenceScore(number, length, SKIPPED, problem="No predicted words")
    problem = _unmatch(_select(gold.words, kept), _select(predicted.words, kept_too))
    if problem:
        return SentenceScore(number, length, ERROR, problem=problem)
    return _compare(number, gold, predicted, kept, kept_too)


def _strict(
    number: int, gold: _Sentence | None, predicted: _Sentence | None, row: SentenceScore
) -> SentenceScore:
    """The row that is never dropped: both sides are deleted by the gold tags."""
    gold, predicted = gold or _Sentence([], [], []), predicted or _Sentence([], [], [])
    kept = gold.kept()
    problem = _unmatch(gold.words, predicted.words)
    if not problem:
        if row.status == OK and kept == predicted.kept():
            return row  # the common case: nothing was mistagged into or out of punctuation
        return _compare(number, gold, predicted, kept, kept)
    n_predicted = len(_project(predicted.brackets, predicted.kept()))
    return SentenceScore(
        number,
        len(gold.words),
        ERROR,
        gold_brackets=len(_project(gold.brackets, kept)),
        predicted_brackets=n_predicted,
        crossing=n_predicted,  # no bracket can be placed, so none is given the benefit of the doubt
        words=sum(kept),
        problem=problem,
    )


def _compare(
    number: int,
    gold: _Sentence,
    predicted: _Sentence,
    kept: Sequence[bool],
    kept_too: Sequence[bool],
) -> SentenceScore:
    """Count brackets and tags over the same words."""
    left, right = _project(gold.brackets, kept), _project(predicted.brackets, kept_too)
    tags = zip(_select(gold.tags, kept), _select(predicted.tags, kept_too), strict=True)
    n_words = sum(kept)
    return SentenceScore(
        number,
        len(gold.words),
        matched=_n_matches(left, right),
        gold_brackets=len(left),
        predicted_brackets=len(right),
        crossing=_crossing(left, right, n_words),
        words=n_words,
        correct_tags=sum(_tag_class(a) == _tag_class(b) for a, b in tags),
    )


def _n_matches(gold: Iterable[Bracket], predicted: Iterable[Bracket]) -> int:
    """Size of the multiset intersection."""
    return (Counter(gold) & Counter(predicted)).total()


def _crossing(gold: Iterable[Bracket], predicted: Iterable[Bracket], n_words: int) -> int:
    """Predicted brackets that overlap some gold bracket without containing it or lying in it.

    A gold bracket crosses `[i, j)` exactly when it starts strictly inside and ends after `j`, or
    ends strictly inside and starts before `i`; so the widest one at each fencepost decides.
    """
    spans = {(i, j) for _, i, j in gold}
    furthest = [0] * (n_words + 1)  # largest end of a gold bracket that starts here
    earliest = [n_words] * (n_words + 1)  # smallest start of one that ends here
    for i, j in spans:
        furthest[i] = max(furthest[i], j)
        earliest[j] = min(earliest[j], i)
    return sum(
        any(furthest[k] > j or earliest[k] < i for k in range(i + 1, j))
        for _, i, j in predicted
        if (i, j) not in spans  # brackets of one tree never cross each other
    )


def _unmatch(gold: Sequence[str], predicted: Sequence[str]) -> str:
    """EVALB's message for two sentences that differ, or nothing."""
    if len(gold) != len(predicted):
        return f"Length unmatch ({len(gold)}|{len(predicted)})"
    if gold == predicted:
        return ""
    a, b = next((a, b) for a, b in zip(gold, predicted, strict=True) if a != b)
    return f"Words unmatch ({a}|{b})"


def _select(items: Sequence[str], kept: Sequence[bool]) -> list[str]:
    return [item for item, keep in zip(items, kept, strict=True) if keep]


def add_up(rows: Sequence[SentenceScore], *, drop: bool = True) -> Totals:
    """Sum rows; `drop` leaves out errors and skipped sentences, as EVALB does."""
    fine = [row for row in rows if row.status == OK]
    counted = fine if drop else rows
    return Totals(
        sentences=len(rows),
        errors=sum(row.status == ERROR for row in rows) if drop else 0,
        skipped=sum(row.status == SKIPPED for row in rows) if drop else 0,
        **{name: sum(getattr(row, name) for row in counted) for name in COUNTS},
        n_complete=sum(row.is_complete for row in fine),
        n_no_crossing=sum(row.crossing == 0 for row in fine),
        n_two_or_less_crossing=sum(row.crossing <= 2 for row in fine),
    )
