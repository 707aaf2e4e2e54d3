"""`sapwood depend score`: log-probabilities of dependency trees under a latent model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.dependency.reading import ArcReading, Encoding, SkipBad
from sapwood.cli.inputs import as_kind, load_any
from sapwood.core.errors import SapwoodError, count
from sapwood.progress import step
from sapwood.report import to_json

if TYPE_CHECKING:
    from sapwood.dependency.model.dependency import DependencyModel

EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o latent.sapwood --method spectral
  sapwood depend score latent.sapwood dev.conllu > log-probs.txt
  sapwood depend score latent.sapwood dev.conllu --json
"""


def score(
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="A file written by `sapwood depend train --method spectral`, em or latent.",
    ),
    file: str = typer.Argument("-", metavar="[FILE]", help="CoNLL-U; - for stdin."),
    *,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Print the natural logarithm of the probability of what each tree shows, given its arcs.

    One a line. A spectral model has weights instead of probabilities, and some are negative: each
    line is then the logarithm of the absolute weight, TAB, and its sign (+, - or 0). Tags that the
    model has never seen have the probability of half a training word.
    """
    from sapwood.dependency.report import tree_scores

    found = _load_latent(model)
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    with step("reading"):
        bank = reading.arcs([file])
    with step("scoring"):
        report = tree_scores(found, bank)
    if as_json:
        print(to_json(report, indent=2))
    else:
        marks = {1: "\t+", -1: "\t-", 0: "\t0"}
        for log, sign in zip(report["log_probs"], report["signs"], strict=True):
            print(f"{log:.6f}{'' if found.is_probabilistic else marks[sign]}")
    reading.tell()
    name = "log-probability" if found.is_probabilistic else "log-weight of the positive trees"
    parts = [count(len(bank), "tree"), count(bank.n_tokens, "word")]
    echo("  ".join([*parts, f"{name} {report['log_prob']:,.2f}"]))
    if report["unknown_tags"]:
        echo(f"{count(report['unknown_tags'], 'word')} with a tag that the model has never seen")
    if not found.is_probabilistic:
        echo(f"this model holds weights, not probabilities: {report['negative']:,} are negative")


def _load_latent(name: str) -> DependencyModel:
    """The latent model of a file, or the one inside a parser."""
    from sapwood.dependency.model.arc_model import ArcModel
    from sapwood.dependency.model.dependency import DependencyModel

    hint = "train one: `sapwood depend train --method spectral`, em or latent; "
    hint += "parsers score their trees by `depend parse --n-best`"
    found: DependencyModel | ArcModel = as_kind(
        load_any(name),
        DependencyModel | ArcModel,
        name,
        "a latent model of arcs",
        hint,
        "dependency",
    )
    if isinstance(found, DependencyModel):
        return found
    if found.latent is None:
        msg = f"{name}: this parser has no hidden states, expected a latent model of arcs"
        raise SapwoodError(msg, hint=hint)
    return found.latent.model
