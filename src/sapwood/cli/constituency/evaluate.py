"""`sapwood evaluate`: EVALB's figures for predicted trees, their errors, their reliability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo, warn
from sapwood.cli.inputs import TreeReading, check_files, input_files
from sapwood.cli.reports import check_plot, more_line, plot_reliability, table_lines
from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.core.progress import step
from sapwood.report import Evaluation, evaluate_trees, to_json

if TYPE_CHECKING:
    from sapwood.constituency.evaluate.bracketing import Bracket
    from sapwood.constituency.evaluate.errors import BracketError, ErrorReport
    from sapwood.constituency.evaluate.reliability import Bin, Reliability
    from sapwood.corpora.tree import Tree


EXAMPLES_SHOWN = 2

EVALUATE_EPILOG = """\b
Where PREDICTED has one tree per line but fewer trees than GOLD, its empty lines
are missing trees: error sentences for EVALB, all wrong for the strict total.
A PREDICTED that starts with { is taken for what `sapwood parse --json` writes.

\b
Examples:
  sapwood evaluate dev.mrg predicted.mrg
  sapwood evaluate dev.mrg predicted.mrg --errors --examples 5
  sapwood parse model.sapwood dev.txt | sapwood evaluate dev.mrg - --json
  sapwood parse model.sapwood dev.txt --json > parsed.jsonl
  sapwood evaluate dev.mrg parsed.jsonl --reliability --plot reliability.png
"""


def evaluate_predicted(  # noqa: PLR0913 - every option of the command is an argument
    gold: str = typer.Argument(..., metavar="GOLD", help="The gold trees; - for stdin."),
    predicted: str = typer.Argument(
        ...,
        metavar="PREDICTED",
        help="A parser's trees, in order, or the output of `sapwood parse --json`; - for stdin.",
    ),
    *,
    raw: bool = typer.Option(
        False,
        "--raw",
        help="Score the trees as they are, as EVALB does, without cleaning both sides first. "
        "Not for a gold side with traces and function tags.",
    ),
    per_sentence: bool = typer.Option(
        False, "--per-sentence", help="A row for each sentence, laid out as EVALB's."
    ),
    errors: bool = typer.Option(
        False,
        "--errors",
        help="Also report which labels, attachments and tags are wrong, how often, and where. Not "
        "for test trees, which must stay unseen.",
    ),
    examples: int | None = typer.Option(
        None,
        min=0,
        metavar="N",
        help="Show N errors of each common kind. Not without --errors.",
        show_default=str(EXAMPLES_SHOWN),
    ),
    reliability: bool = typer.Option(
        False,
        "--reliability",
        help="Also report whether the probabilities of predicted phrases are calibrated. "
        "PREDICTED must be the output of `sapwood parse --json`.",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    plot: Path | None = typer.Option(
        None,
        metavar="FILE",
        help=f"Draw the reliability diagram ({opt.FIGURE_NAMES}). Not without --reliability "
        "and Matplotlib: pip install matplotlib.",
    ),
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Score predicted trees: recall, precision, F1, complete match, tagging accuracy.

    The figures are EVALB's with COLLINS.prm, for all sentences and for those of at most 40 words.
    EVALB drops a sentence whose words differ; the strict total drops none. Phrases are compared
    without function tags. --format, --encoding, --keep-functions and --skip-bad are about GOLD.
    """
    if examples is not None and not errors:
        raise typer.BadParameter("goes with --errors", param_hint="--examples")
    if plot is not None and not reliability:
        raise typer.BadParameter("goes with --reliability", param_hint="--plot")
    check_files(gold, predicted)
    if plot is not None:
        check_plot(plot, input_files(gold, predicted), force=force)
    from sapwood.constituency.data.statistics import doubt_comparison
    from sapwood.constituency.evaluate.reliability import read_predicted

    reading = TreeReading(format, encoding, keep_functions, skip_bad)
    with step("reading the right trees"):
        gold_trees = reading.trees(gold)
    reading.echo_skipped()
    with step("reading the predicted trees"):
        items = read_predicted(predicted, len(gold_trees), has_phrases=reliability)
    if len(items) != len(gold_trees):
        msg = f"{predicted} has {count(len(items), 'tree')}, but {gold} has {len(gold_trees):,}"
        raise SapwoodError(msg, hint="there must be one tree, or an empty line, a gold tree")
    found = evaluate_trees(gold_trees, items, raw=raw, errors=errors, reliability=reliability)
    warn(doubt_comparison(gold, predicted))
    _echo_dropped(found, gold_trees, [item.tree for item in items])
    if reliability and found.reliability is None:
        msg = "no phrase with a probability in the sentences of the gold trees"
        raise CorpusError(msg, file=predicted, hint="are both files of the same sentences?")
    examples = EXAMPLES_SHOWN if examples is None else examples
    if as_json:
        print(to_json(found.as_dict(per_sentence=per_sentence, examples=examples), indent=2))
    else:
        if per_sentence:
            print(found.brackets.evalb_table())
        print(found.brackets.text())
        if found.errors:
            print("\n" + "\n".join(errors_text(found.errors, examples)))
        if found.reliability:
            print("\n" + "\n".join(reliability_text(found.reliability)))
    if plot and found.reliability:  # last: the report is out, whatever becomes of the figure
        plot_reliability(plot, found.reliability.as_dict())


def _echo_dropped(found: Evaluation, gold: list[Tree], predicted: list[Tree | None]) -> None:
    """Write how many sentences and phrases were left out."""
    dropped = [row for row in found.brackets.sentences if row.status]
    if dropped:
        first = dropped[0]
        why = _tagged_apart(gold[first.number - 1], predicted[first.number - 1])
        echo(
            f"EVALB drops {count(len(dropped), 'sentence')}; "
            f"the first is number {first.number}: {first.problem}{why}"
        )
    if found.n_other:
        n_other = count(found.n_other, "sentence")
        echo(f"reliability: without {n_other} whose words differ or are missing")
    if found.n_unknown:
        echo(f"reliability: without {count(found.n_unknown, 'phrase')} of no known probability")


def _tagged_apart(gold: Tree, predicted: Tree | None) -> str:
    """Why EVALB finds different words in two trees of the same words; empty for other words."""
    from sapwood.constituency.evaluate.bracketing import DELETED
    from sapwood.corpora.tree import clean

    one, two = clean(gold), clean(predicted) if predicted is not None else None
    if one is None or two is None or one.words() != two.words():
        return ""
    for word, tag, other in zip(one.words(), one.tags(), two.tags(), strict=True):
        if (tag in DELETED) != (other in DELETED):
            return (
                f", because {word!r} is tagged {tag} in the gold tree and {other} in the "
                "predicted one, and EVALB leaves out words with a tag of punctuation; "
                "the strict total counts such sentences"
            )
    return ""


EXAMPLE_WIDTH = 96
LABELS_SHOWN = 20  # rows of the table by label
PAIRS_SHOWN = 10  # confused labels and tags
KINDS_SHOWN = 6  # kinds that are shown with examples


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
        labels = _pairs("wrong labels: gold -> predicted", report.wrong_labels)
        tags = _pairs("wrong tags: gold -> predicted", report.tags)
        for left, right in zip_longest(labels, tags, fillvalue=""):
            yield f"{left:<42}{right}".rstrip()
    for row in report.kinds[:KINDS_SHOWN] if examples else ():
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
        for x in report.labels[:LABELS_SHOWN]
    )  # fmt: skip
    yield from table_lines(columns, rows)
    yield from more_line(len(report.labels), LABELS_SHOWN, "rarer label", see="--json")


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


def _pairs(title: str, pairs: Counter[tuple[str, str]]) -> Iterator[str]:
    yield title
    for (gold, predicted), n in pairs.most_common(PAIRS_SHOWN):
        yield f"  {gold + ' -> ' + predicted:<24}{n:>6,}"
    if len(pairs) > PAIRS_SHOWN:
        rest = pairs.total() - sum(n for _, n in pairs.most_common(PAIRS_SHOWN))
        yield f"  {'others':<24}{rest:>6,}"


def _example(report: ErrorReport, error: BracketError) -> Iterator[str]:
    """The phrase, and its analysis in each tree."""

    def words(bracket: Bracket, room: int) -> str:
        return shorten_text(report.phrase_words(error.sentence, bracket), room)

    moved = error.phrase not in (error.missing, error.extra)
    name = f"{error.phrase[0]}: " if moved else ""
    yield f"{error.sentence:>6}  {name}{words(error.phrase, EXAMPLE_WIDTH - 8 - len(name))}"
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
            what = f'{bracket[0]} "{words(bracket, EXAMPLE_WIDTH // 2)}" '
        start = f"        {side:<9}  {what}in {parent[0]}: "
        yield start + words(parent, max(EXAMPLE_WIDTH - len(start), 20))


def shorten_text(text: str, room: int) -> str:
    """The text, with an ellipsis in its middle where it is too long.

    Examples
    --------
    >>> shorten_text("one two three four five six", 18)
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
