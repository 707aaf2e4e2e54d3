"""`sapwood lm convert`: models to and from ARPA files."""

from __future__ import annotations

from pathlib import Path

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import claim_stdin
from sapwood.cli.lm import options as lm_opt
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import check_output, open_output

EPILOG = """\b
Examples:
  sapwood lm convert kn.lm -o kn.arpa
  sapwood lm convert lm.arpa.gz -o lm.lm
"""
_START = 1 << 12


def convert(
    source: str = typer.Argument(
        ...,
        metavar="MODEL|ARPA",
        help="A Kneser-Ney model of Sapwood, or an ARPA file (also compressed).",
    ),
    *,
    out: Path = typer.Option(
        ...,
        "--out",
        "-o",
        metavar="FILE",
        help="An ARPA file (- for stdout) for a model, a model for an ARPA file.",
    ),
    force: opt.Force = False,
) -> None:
    """Write a Kneser-Ney model as an ARPA file, or an ARPA file as a model.

    KenLM and most other tools read ARPA files. Models with hidden states have no such form.
    """
    claim_stdin(source)
    from sapwood.core.model_card import PURPOSES, describe_model
    from sapwood.corpora.files import open_text, source_name
    from sapwood.lm.model.ngram_model import NgramModel, arpa_lines, read_arpa

    if _is_arpa(source):
        check_output(out, inputs=lm_opt.text_files(source), force=force, is_model=True)
        with open_text(source) as file:
            model = read_arpa(file, source_name(source))
        model.save(out, force=force)
        echo(f"{out}: {describe_model(model)}")
        return
    check_output(out, inputs=lm_opt.text_files(source), force=force, may_stream=True)
    loaded = lm_opt.load_language_model(source)
    if not isinstance(loaded, NgramModel):
        what = PURPOSES[type(loaded).__name__].what
        msg = f"{source}: {what}, which is more than n-grams"
        raise SapwoodError(msg, hint="ARPA files are for --method kn and kn-mod")
    with open_output(out, force=force) as target:
        for line in arpa_lines(loaded):
            print(line, file=target)


def _is_arpa(source: str) -> bool:
    """Whether a file is text, rather than a model."""
    path = Path(source)
    if source == "-" or path.suffix.lower() in {".gz", ".xz", ".bz2"} or not path.is_file():
        return source == "-" or path.is_file()
    with path.open("rb") as file:
        start = file.read(_START)
    return b"\0" not in start
