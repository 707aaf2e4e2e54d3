"""`sapwood evaluate`: EVALB's figures for predicted trees, their errors, their reliability."""

from __future__ import annotations

from pathlib import Path

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo, warn
from sapwood.cli.inputs import claim_stdin
from sapwood.cli.plots import check_plot, plot_reliability
from sapwood.cli.reading import Reading
from sapwood.cli.trees.errors import errors_text, reliability_text
from sapwood.errors import CorpusError, SapwoodError, count
from sapwood.report import Evaluation, evaluate_trees, to_json

N_EXAMPLES = 2

EPILOG = """\b
Where PREDICTED has one tree a line but fewer trees than GOLD, its empty lines
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


def evaluate(  # noqa: PLR0913 - every option of the command is an argument
    gold: str = typer.Argument(
        ..., metavar="GOLD", help="The right trees; - for stdin.", show_default=False
    ),
    predicted: str = typer.Argument(
        ...,
        metavar="PREDICTED",
        help="A parser's trees, in order, or the output of `sapwood parse --json`; - for stdin.",
        show_default=False,
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
        help="Also say which labels, attachments and tags are wrong, how often, and where. "
        "Not for test data that must stay unseen.",
    ),
    examples: int | None = typer.Option(
        None,
        min=0,
        metavar="N",
        help="Show N errors of each common kind. Not without --errors.",
        show_default=str(N_EXAMPLES),
    ),
    reliability: bool = typer.Option(
        False,
        "--reliability",
        help="Also say how far the probabilities of the predicted phrases can be believed. "
        "Not for a PREDICTED without them: it takes the output of `sapwood parse --json`.",
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

    The numbers are EVALB's with COLLINS.prm, for all sentences and for those of at most 40 words.
    EVALB drops a sentence whose words differ; the strict total drops none. Phrases are compared
    without function tags. --format, --encoding, --keep-functions and --skip-bad are about GOLD.
    """
    if examples is not None and not errors:
        msg = "goes with --errors"
        raise typer.BadParameter(msg, param_hint="--examples")
    if plot is not None and not reliability:
        msg = "goes with --reliability"
        raise typer.BadParameter(msg, param_hint="--plot")
    claim_stdin(gold, predicted)
    if plot is not None:
        check_plot(plot, [gold, predicted], force=force)
    from sapwood.corpus.overlap import doubt_comparison
    from sapwood.evaluate.predicted import read_predicted

    reading = Reading(format, encoding, keep_functions, skip_bad)
    gold_trees = reading.trees(gold)
    reading.tell()
    items = read_predicted(predicted, len(gold_trees), has_phrases=reliability)
    if len(items) != len(gold_trees):
        msg = f"{predicted} has {count(len(items), 'tree')}, but {gold} has {len(gold_trees):,}"
        raise SapwoodError(msg, hint="there must be one tree, or an empty line, a gold tree")
    found = evaluate_trees(gold_trees, items, raw=raw, errors=errors, reliability=reliability)
    warn(doubt_comparison(gold, predicted))
    _tell(found)
    if reliability and found.reliability is None:
        msg = "no phrase with a probability in the sentences of the gold trees"
        raise CorpusError(msg, file=predicted, hint="are both files of the same sentences?")
    examples = N_EXAMPLES if examples is None else examples
    if as_json:
        print(to_json(found.as_dict(per_sentence=per_sentence, examples=examples), indent=2))
    else:
        _print(found, examples, per_sentence=per_sentence)
    if plot and found.reliability:  # last: the report is out, whatever becomes of the figure
        plot_reliability(plot, found.reliability.as_dict())


def _tell(found: Evaluation) -> None:
    """Say what was left out."""
    dropped = [row for row in found.brackets.sentences if row.status]
    if dropped:
        first = dropped[0]
        echo(
            f"EVALB drops {count(len(dropped), 'sentence')}; "
            f"the first is number {first.number}: {first.problem}"
        )
    if found.n_other:
        n_other = count(found.n_other, "sentence")
        echo(f"reliability: without {n_other} whose words differ or are missing")
    if found.n_unknown:
        echo(f"reliability: without {count(found.n_unknown, 'phrase')} of no known probability")


def _print(found: Evaluation, examples: int, *, per_sentence: bool) -> None:
    if per_sentence:
        print(found.brackets.evalb_table())
    print(found.brackets.text())
    if found.errors:
        print("\n" + "\n".join(errors_text(found.errors, examples)))
    if found.reliability:
        print("\n" + "\n".join(reliability_text(found.reliability)))
