"""`sapwood depend evaluate`, `convert` and `draw`: commands that need no model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo, is_colourful
from sapwood.cli.inputs import ArcReading, check_files
from sapwood.cli.reports import show, table_lines
from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.core.outputs import open_output
from sapwood.core.progress import counted, step

EVALUATE_ARCS_EPILOG = """\b
Examples:
  sapwood depend evaluate dev.conllu predicted.conllu
  sapwood depend evaluate dev.conllu predicted.conllu --json
  sapwood depend evaluate dev.conllu second.conllu --against first.conllu
"""

ATTACHMENT_TITLES = {
    "uas": "UAS", "las": "LAS", "complete": "complete trees", "upos": "universal tags",
}  # fmt: skip


def evaluate_arcs(
    gold: str = typer.Argument(..., metavar="GOLD", help="The gold trees in CoNLL-U; - for stdin."),
    predicted: str = typer.Argument(
        ..., metavar="PREDICTED", help="A parser's trees for the same words, in order; - for stdin."
    ),
    *,
    against: str | None = typer.Option(
        None,
        metavar="OTHER",
        help="Also compare with another parser's trees: the difference of the scores, its "
        "confidence interval, and the probability of such a difference by chance.",
    ),
    encoding: opt.ArcEncoding = "utf-8",
    as_json: opt.Json = False,
) -> None:
    """Score predicted arcs: heads (UAS), heads with relations (LAS), complete trees, tags.

    The figures are those of the CoNLL 2018 script on gold tokens, in percent: words are matched by
    position, punctuation counts, and relations are compared up to their colon. A tree is complete
    when all its heads are right.
    """
    from sapwood.dependency.evaluate import attachment, compare_attachment

    sources = [gold, predicted, *([against] if against else [])]
    check_files(*sources)
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
                name: compare_attachment(ours, theirs, name).as_dict() for name in ATTACHMENT_TITLES
            }
        report["against"] = theirs.as_dict() | {"differences": differences}
    show(report, _score_lines, as_json=as_json)


def _score_lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"{count(report['sentences'], 'sentence')}  {count(report['tokens'], 'word')}"
    other = report.get("against")
    if other is None:
        rows = [(title, report[name]) for name, title in ATTACHMENT_TITLES.items()]
        yield from table_lines({"percent": "<16", "": ">8.2f"}, rows)
        return
    compared = []
    for name, title in ATTACHMENT_TITLES.items():
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


CONVERT_ARCS_EPILOG = """\b
Examples:
  sapwood depend convert train.mrg -o train.conllu
  sapwood depend convert train.conllu --lift -o projective.conllu
  sapwood depend convert predicted.conllu --lower > predicted.lowered.conllu
"""


def convert_to_arcs(  # noqa: PLR0913 - every option of the command is an argument
    files: list[str] = typer.Argument(
        ...,
        metavar="FILES",
        help="Phrase-structure trees or CoNLL-U, each recognised: files (also .gz, .xz, .bz2), "
        "quoted globs, folders, or - for stdin.",
    ),
    *,
    out: opt.Out = None,
    heads: Literal["auto", "penn", "generic"] = typer.Option(
        "auto",
        help="How the head child of a phrase is found: by the table of Penn English, or by a rule "
        "that reads only labels; auto takes the table where the tags are Penn's.",
    ),
    lift: bool = typer.Option(
        False,
        "--lift",
        help="Make every tree projective; relations of lifted words say how to undo it.",
    ),
    lower: bool = typer.Option(
        False, "--lower", help="Undo --lift. Not together with it, and not for other files."
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    force: opt.Force = False,
) -> None:
    """Write trees as CoNLL-U: convert phrase-structure trees, or lift and lower arcs.

    The head word of a phrase is that of its head child; the head words of the other children depend
    on it, with their function (SBJ) or label (NP) as relation. Traces are dropped. CoNLL-U keeps
    everything but its arcs.
    """
    from sapwood.dependency.data import transform
    from sapwood.dependency.data.reader import write_arcs

    if lift and lower:
        raise typer.BadParameter("undoes --lift: choose one of them", param_hint="--lower")
    check_files(*files, out=out, force=force, may_stream=True)
    reading = ArcReading(format, encoding, skip_bad=skip_bad)
    bank = reading.as_arcs(files, heads)
    n_crossing = int((~transform.projective_sentences(bank)).sum())
    if lift:
        bank = transform.lift(bank)
    elif lower:
        bank = transform.lower(bank)
    with open_output(out, force=force) as file:
        write_arcs(bank, file)
    reading.echo_skipped()
    n_words = count(bank.n_tokens, "word")
    crossing = f"{n_crossing:,} not projective" + (", lifted" if lift and n_crossing else "")
    echo(f"{count(len(bank), 'sentence')}  {n_words}  {crossing}" + (f": {out}" if out else ""))


DRAW_EPILOG = """\b
Examples:
  sapwood depend draw predicted.conllu | less -R
  sapwood depend draw dev.conllu --sentence 3 --as svg -o tree.svg
  sapwood depend draw dev.conllu --sentence 3 --as latex
"""


def draw_arc_trees(
    files: opt.ArcFiles,
    *,
    sentence: int | None = typer.Option(
        None, min=1, metavar="N", help="Draw only sentence N, counted from 1.", show_default="all"
    ),
    kind: Literal["text", "svg", "latex"] = typer.Option(
        "text",
        "--as",
        help="Text with one word per line; an SVG document, of one sentence; or an environment of "
        "the LaTeX package tikz-dependency.",
    ),
    out: opt.Out = None,
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    force: opt.Force = False,
) -> None:
    """Draw sentences with their arcs."""
    check_files(*files, out=out, force=force, may_stream=True)
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    bank = reading.arcs(files)
    if sentence is not None:
        if sentence > len(bank):
            msg = f"there is no sentence {sentence}: {count(len(bank), 'sentence')} were read"
            raise SapwoodError(msg, hint=f"--sentence takes 1 to {len(bank)}")
        bank = bank[sentence - 1 : sentence]
    elif kind == "svg" and len(bank) > 1:
        msg = "an SVG document is of one sentence; choose it with --sentence N"
        raise typer.BadParameter(msg, param_hint="--as")
    colour = out is None and is_colourful(sys.stdout)
    with open_output(out, force=force) as file:
        for number, arcs in enumerate(bank):
            if kind == "text":
                picture = arcs.draw(colour=colour)
            else:
                picture = arcs.to_svg() if kind == "svg" else arcs.to_latex()
            file.write(("\n" if number else "") + picture + "\n")
    reading.echo_skipped()
