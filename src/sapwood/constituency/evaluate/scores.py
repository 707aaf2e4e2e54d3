"""Scores of sentences and totals over them, printed as EVALB prints them."""

from __future__ import annotations

from dataclasses import dataclass

CUTOFF = 40
# What the rows of sentences add up to.
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
    """Percentages of what was counted."""

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
    """What `bracketing` found.

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
        """What a notebook shows."""
        from sapwood.corpora.markup import table_html

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
    """A share as EVALB counts it: in its order of operations, and 0 of an empty whole."""
    return 100.0 * part / whole if whole else 0.0
