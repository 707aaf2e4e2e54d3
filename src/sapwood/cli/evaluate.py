"""`sapwood evaluate`: EVALB's figures for a file of predicted trees."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import count, echo, print_json
from sapwood.cli.inputs import JsonOption, claim_stdin
from sapwood.errors import CorpusError, SapwoodError

if TYPE_CHECKING:
    from sapwood.corpus.files import Source
    from sapwood.corpus.tree import Tree
    from sapwood.evaluate.scores import BracketingReport, SentenceScore

EPILOG = """\b
Where PREDICTED has one tree a line but fewer trees than GOLD, its empty lines
are missing trees: error sentences for EVALB, all wrong for the strict total.

\b
Examples:
  sapwood evaluate dev.mrg predicted.mrg
  sapwood parse model.sapwood dev.txt | sapwood evaluate dev.mrg - --json
"""


def evaluate(
    gold: Annotated[
        str,
        typer.Argument(metavar="GOLD", help="The right trees; - for stdin.", show_default=False),
    ],
    predicted: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTED", help="A parser's trees, in order; - for stdin.", show_default=False
        ),
    ],
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Score the trees as they are, as EVALB does, without cleaning both sides first. "
            "Not for a gold side with traces and function tags.",
        ),
    ] = False,
    per_sentence: Annotated[
        bool, typer.Option("--per-sentence", help="A row for each sentence, laid out as EVALB's.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score predicted trees: recall, precision, F1, complete match, tagging accuracy.

    The numbers are EVALB's with COLLINS.prm, for all sentences and for those of at most 40 words.
    EVALB drops a sentence whose words differ; the strict total drops none.
    """
    claim_stdin(gold, predicted)
    from sapwood.corpus.penn import read_trees
    from sapwood.evaluate.bracketing import bracketing

    gold_trees = list(read_trees(gold))
    if not gold_trees:
        msg = "no tree found"
        raise CorpusError(msg, file=gold, hint="is the file empty?")
    predicted_trees = read_predicted(predicted, len(gold_trees))
    if len(predicted_trees) != len(gold_trees):
        msg = (
            f"{predicted} has {count(len(predicted_trees), 'tree')}, "
            f"but {gold} has {len(gold_trees):,}"
        )
        raise SapwoodError(msg, hint="there must be one tree, or an empty line, a gold tree")
    report = bracketing(gold_trees, predicted_trees, raw=raw)
    _warn(report)
    if as_json:
        print_json(_as_dict(report, per_sentence=per_sentence))
    else:
        print(report.evalb_table() + "\n" + report.text() if per_sentence else report.text())


def read_predicted(source: str, n_gold: int) -> list[Tree | None]:
    """The predicted trees, None where an empty line stands for a missing one.

    Parameters
    ----------
    source
        File, folder, glob or `-`.
    n_gold
        How many trees there should be. When the trees alone are as many, empty lines are only
        there to look at.
    """
    from sapwood.corpus.files import expand
    from sapwood.corpus.penn import SUFFIXES

    items = [item for file in expand(source, SUFFIXES) for item in _read_file(file)]
    trees = [item for item in items if item is not None]
    return list(trees) if len(trees) == n_gold else items


def _read_file(source: Source) -> Iterator[Tree | None]:
    from sapwood.corpus.files import open_text, source_name
    from sapwood.corpus.penn import read_trees

    with open_text(source) as file:
        text = io.StringIO(file.read())
    text.name = source_name(source)  # what error messages show
    trees = read_trees(text)
    lines = text.getvalue().split("\n")
    if lines[-1] == "":
        lines.pop()  # the end of the last line is not an empty line
    kinds = [_kind(line) for line in lines]
    if "part" in kinds:
        yield from trees
        return
    for kind in kinds:
        if kind == "tree":
            yield next(trees)
        elif kind == "empty":
            yield None


def _kind(line: str) -> str:
    """Whether a line is one whole tree, empty, a comment, or part of something else."""
    line = line.strip()
    if not line:
        return "empty"
    if line.startswith(("#", "%", ";", "*x*")):
        return "comment"
    depth = 0
    for place, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return "tree" if place == len(line) - 1 and place else "part"
    return "part"


def _warn(report: BracketingReport) -> None:
    dropped = [row for row in report.sentences if row.status]
    if dropped:
        first = dropped[0]
        echo(
            f"EVALB drops {count(len(dropped), 'sentence')}; "
            f"the first is number {first.number}: {first.problem}"
        )


def _as_dict(report: BracketingReport, *, per_sentence: bool) -> dict[str, Any]:
    out: dict[str, Any] = dict(report.as_dict())
    if per_sentence:
        out["sentences"] = [_row(row) for row in report.sentences]
    return out


def _row(row: SentenceScore) -> dict[str, Any]:
    figures = ("recall", "precision", "tag_accuracy")
    return asdict(row) | {name: getattr(row, name) for name in figures}
