"""`sapwood depend evaluate`: attachment scores, and whether two outputs differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.dependency.reading import ArcReading, Encoding
from sapwood.cli.inputs import claim_stdin
from sapwood.cli.tables import show, table_lines
from sapwood.core.errors import CorpusError, count
from sapwood.progress import counted, step

EPILOG = """\b
Examples:
  sapwood depend evaluate dev.conllu predicted.conllu
  sapwood depend evaluate dev.conllu predicted.conllu --json
  sapwood depend evaluate dev.conllu second.conllu --against first.conllu
"""

TITLES = {
    "uas": "UAS", "las": "LAS", "complete": "complete trees", "upos": "universal tags",
}  # fmt: skip


def evaluate(
    gold: str = typer.Argument(
        ..., metavar="GOLD", help="The right trees in CoNLL-U; - for stdin."
    ),
    predicted: str = typer.Argument(
        ..., metavar="PREDICTED", help="A parser's trees for the same words, in order; - for stdin."
    ),
    *,
    against: str | None = typer.Option(
        None,
        metavar="OTHER",
        help="Also say how far PREDICTED is from another parser's trees, with an interval and the "
        "probability of such a difference by chance.",
    ),
    encoding: Encoding = "utf-8",
    as_json: opt.Json = False,
) -> None:
    """Score predicted arcs: heads (UAS), heads with relations (LAS), complete trees, tags.

    The numbers are those of the CoNLL 2018 script on gold tokens, in percent: words are matched by
    their place, punctuation counts, and relations are compared up to their colon. A tree is
    complete when all its heads are right.
    """
    from sapwood.dependency.evaluate import attachment, compare_attachment

    sources = [gold, predicted, *([against] if against else [])]
    claim_stdin(*sources)
    reading = ArcReading(None, encoding)
    right, *found = [reading.arcs([x]) for x in counted(sources, "reading", unit="file")]
    scores = []
    for source, bank in zip(sources[1:], found, strict=True):
        try:
            scores.append(attachment(right, bank))
        except CorpusError as error:
            error.file = source
            raise
    report: dict[str, Any] = dict(scores[0].as_dict())
    if against:
        ours, theirs = scores
        with step("comparing"):
            differences = {
                name: compare_attachment(ours, theirs, name).as_dict() for name in TITLES
            }
        report["against"] = theirs.as_dict() | {"differences": differences}
    show(report, _lines, as_json=as_json)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{count(report['sentences'], 'sentence')}  {count(report['tokens'], 'word')}"
    other = report.get("against")
    if other is None:
        rows = [(title, report[name]) for name, title in TITLES.items()]
        yield from table_lines({"percent": "<16", "": ">8.2f"}, rows)
        return
    compared = []
    for name, title in TITLES.items():
        gain = other["differences"][name]
        interval = f"{gain['low']:+.2f} to {gain['high']:+.2f}"
        compared.append(
            (title, report[name], other[name], f"{gain['points']:+.2f}", interval, gain["p_value"])
        )
    columns = {
        "percent": "<16", "predicted": ">10.2f", "other": ">10.2f", "difference": ">12",
        "95 % interval": ">18", "p": ">9.4f",
    }  # fmt: skip
    yield from table_lines(columns, compared)
