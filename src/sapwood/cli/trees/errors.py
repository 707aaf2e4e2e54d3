"""What `sapwood evaluate --errors` and `--reliability` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from sapwood.cli.tables import more_line, table_lines
from sapwood.errors import count

if TYPE_CHECKING:
    from sapwood.evaluate.bracketing import Bracket
    from sapwood.evaluate.diagnosis import BracketError
    from sapwood.evaluate.errors import ErrorReport
    from sapwood.evaluate.reliability import Bin, Reliability

WIDTH = 96
N_LABELS = 20  # rows of the table by label
N_PAIRS = 10  # confused labels and tags
N_KINDS = 6  # kinds that are shown with examples


def errors_text(report: ErrorReport, examples: int) -> Iterator[str]:
    """The tables by label and by kind, the confused labels and tags, and examples."""
    yield from _label_table(report)
    if not report.errors and not report.tags:
        yield ""
        yield "No wrong bracket, no wrong tag."
        return
    yield ""
    yield from _kind_table(report)
    if report.wrong_labels or report.tags:
        yield ""
        yield from _pair_tables(report)
    for row in report.kinds[:N_KINDS] if examples else ():
        yield ""
        yield f"Examples: {row.kind}"
        for error in report.examples(row.kind, examples):
            yield from _example(report, error)


def _label_table(report: ErrorReport) -> Iterator[str]:
    columns = {
        "label": "<12", "gold": ">8,", "recall": ">9.2f", "precision": ">11.2f", "F1": ">9.2f",
        "missing": ">9,", "extra": ">7,",
    }  # fmt: skip
    rows = (
        # Without a gold (a predicted) bracket there is no recall (precision) to speak of.
        (x.label, x.gold, x.recall if x.gold else "-", x.precision if x.predicted else "-", x.f1,
         x.missing, x.extra)
        for x in report.labels[:N_LABELS]
    )  # fmt: skip
    yield from table_lines(columns, rows)
    yield from more_line(len(report.labels), N_LABELS, "rarer label", see="--json")


def _kind_table(report: ErrorReport) -> Iterator[str]:
    columns = {
        "kind of error": "<22", "places": ">8,", "missing": ">9,", "extra": ">7,", "share": ">9",
    }  # fmt: skip
    everything = report.missing + report.extra
    rows = [(*row, f"{100 * row.brackets / everything:.1f} %") for row in report.kinds]
    places = sum(row.places for row in report.kinds)
    yield from table_lines(columns, [*rows, ("all", places, report.missing, report.extra, "")])
    if report.dropped:
        yield f"Without {count(report.dropped, 'sentence')} that EVALB drops."


def _pair_tables(report: ErrorReport) -> Iterator[str]:
    """Confused labels on the left, confused tags on the right."""
    labels = list(_pairs("wrong labels: gold -> predicted", report.wrong_labels))
    tags = list(_pairs("wrong tags: gold -> predicted", report.tags))
    for left, right in zip_longest(labels, tags, fillvalue=""):
        yield f"{left:<42}{right}".rstrip()


def _pairs(title: str, pairs: Counter[tuple[str, str]]) -> Iterator[str]:
    yield title
    for (gold, predicted), n in pairs.most_common(N_PAIRS):
        yield f"  {gold + ' -> ' + predicted:<24}{n:>6,}"
    if len(pairs) > N_PAIRS:
        rest = pairs.total() - sum(n for _, n in pairs.most_common(N_PAIRS))
        yield f"  {'others':<24}{rest:>6,}"


def _example(report: ErrorReport, error: BracketError) -> Iterator[str]:
    """The phrase, and what each tree makes of it."""

    def words(bracket: Bracket, room: int) -> str:
        return _shortened(report.phrase_words(error.sentence, bracket), room)

    moved = error.phrase not in (error.missing, error.extra)
    name = f"{error.phrase[0]}: " if moved else ""
    yield f"{error.sentence:>6}  {name}{words(error.phrase, WIDTH - 8 - len(name))}"
    for side, bracket, parent in (
        ("gold", error.missing, error.gold_parent),
        ("predicted", error.extra, error.predicted_parent),
    ):
        if moved:
            what = ""
        elif bracket is None:
            what = f"no such {error.phrase[0]}, "
        elif bracket[1:] == error.phrase[1:]:
            what = f"{bracket[0]} "
        else:
            what = f'{bracket[0]} "{words(bracket, WIDTH // 2)}" '
        start = f"        {side:<9}  {what}in {parent[0]}: "
        yield start + words(parent, max(WIDTH - len(start), 20))


def _shortened(text: str, room: int) -> str:
    """A text with its middle left out where it is too long.

    Examples
    --------
    >>> _shortened("one two three four five six", 18)
    'one two … five six'
    """
    words = text.split(" ")
    if len(text) <= room:
        return text
    left, right = [words[0]], [words[-1]]
    rest = words[1:-1]
    while rest and len(" ".join([*left, "…", *right])) + 1 + len(rest[0]) <= room:
        left.append(rest.pop(0))
        if rest and len(" ".join([*left, "…", *right])) + 1 + len(rest[-1]) <= room:
            right.insert(0, rest.pop())
    return " ".join([*left, "…", *right])


# -- reliability ----------------------------------------------------------------------------------


def reliability_text(found: Reliability) -> Iterator[str]:
    """The bins and the two figures."""
    columns = {
        "probability": "<14", "phrases": ">9,", "mean": ">8.3f", "correct": ">9.3f", "gap": ">8",
    }  # fmt: skip
    rows = [_cells(f"{one.low:.1f} to {one.high:.1f}", one) for one in found.bins]
    yield "Reliability of the predicted phrases (tags apart; gap = correct - mean)"
    yield from table_lines(columns, [*rows, _cells("all", found)])
    yield ""
    yield (
        f"Expected calibration error {found.ece:.4f} (a calibrated parser: about "
        f"{found.chance:.4f}), Brier score {found.brier:.4f}"
    )


def _cells(name: str, one: Bin | Reliability) -> Sequence[object]:
    p, correct = one.probability, one.correct
    if p is None or correct is None:
        return name, 0, "-", "-", "-"
    return name, one.count, p, correct, f"{correct - p:+.3f}"
