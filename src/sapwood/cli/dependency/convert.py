"""`sapwood depend convert`: arcs of phrase-structure trees; arcs lifted and lowered."""

from __future__ import annotations

from typing import Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.dependency.reading import ArcReading, Out, SkipBad
from sapwood.cli.inputs import claim_stdin, input_files
from sapwood.core.errors import count
from sapwood.core.outputs import check_output, open_output

EPILOG = """\b
Examples:
  sapwood depend convert train.mrg -o train.conllu
  sapwood depend convert train.conllu --lift -o projective.conllu
  sapwood depend convert predicted.conllu --lower > predicted.lowered.conllu
"""


def convert(  # noqa: PLR0913 - every option of the command is an argument
    files: list[str] = typer.Argument(
        ...,
        metavar="FILES",
        help="Phrase-structure trees or CoNLL-U, each recognised: files (also .gz, .xz, .bz2), "
        "quoted globs, folders, or - for stdin.",
    ),
    *,
    out: Out = None,
    heads: Literal["auto", "penn", "generic"] = typer.Option(
        "auto",
        help="Which child of a phrase is its head: by the table of Penn English, or by a rule that "
        "reads labels alone; auto takes the table where the tags are Penn's.",
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
    skip_bad: SkipBad = False,
    force: opt.Force = False,
) -> None:
    """Write trees as CoNLL-U: phrase-structure trees as arcs, arcs lifted or lowered.

    Of a phrase, the head word of its head child is the head; the others hang on it, with their
    function (SBJ) or label (NP) as relation. Traces go. CoNLL-U stays as it is but for the arcs.
    """
    from sapwood.dependency.data import projective
    from sapwood.dependency.data.reader import write_arcs

    if lift and lower:
        msg = "undoes --lift: choose one of them"
        raise typer.BadParameter(msg, param_hint="--lower")
    claim_stdin(*files)
    if out is not None:
        check_output(out, inputs=input_files(*files), force=force, may_stream=True)
    reading = ArcReading(format, encoding, skip_bad=skip_bad)
    bank = reading.as_arcs(files, heads)
    n_crossing = int((~projective.projective_sentences(bank)).sum())
    if lift:
        bank = projective.lift(bank)
    elif lower:
        bank = projective.lower(bank)
    with open_output(out, force=force) as file:
        write_arcs(bank, file)
    reading.tell()
    n_words = count(bank.n_tokens, "word")
    crossing = f"{n_crossing:,} not projective" + (", lifted" if lift and n_crossing else "")
    echo(f"{count(len(bank), 'sentence')}  {n_words}  {crossing}" + (f": {out}" if out else ""))
