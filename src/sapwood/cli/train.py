"""`sapwood train`: a treebank in, a model file out."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from sapwood.cli.console import print_json
from sapwood.cli.inputs import (
    ForceOption,
    JobsOption,
    JsonOption,
    TreebanksArgument,
    claim_stdin,
    input_files,
)
from sapwood.cli.methods import (
    Settings,
    describe_methods,
    known_method,
    option,
    refuse_what_does_not_apply,
)
from sapwood.cli.reading import (
    EncodingOption,
    FormatOption,
    KeepFunctionsOption,
    Reading,
    SkipBadOption,
)
from sapwood.cli.training import Run, dev_text, iteration_line, show_trial
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithEM, WithStates
from sapwood.outputs import check_output

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
EPILOG = """\b
Examples:
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood train train.mrg -o model.sapwood --method spectral --states 16
  sapwood train 'wsj/**/*.mrg' -o model.sapwood --dev dev.mrg.gz --budget 10m
  zcat trees.gz | sapwood train - -o model.sapwood --json > report.json
"""


class Binarise(StrEnum):
    """Values of `--binarise`."""

    head = "head"
    right = "right"
    left = "left"


class Heads(StrEnum):
    """Values of `--heads`."""

    auto = "auto"
    penn = "penn"
    generic = "generic"


class Signatures(StrEnum):
    """Values of `--signatures`."""

    auto = "auto"
    english = "english"
    generic = "generic"


def seconds_text(text: str | None) -> str | None:
    """A time as it was given; a usage error when it is none."""
    if text is not None:
        seconds_of(text)
    return text


def seconds_of(text: str) -> float | None:
    """Seconds of a time such as `90s`, `5m` or `1.5h`; None for `none`.

    Examples
    --------
    >>> seconds_of("90s"), seconds_of("5m"), seconds_of("none")
    (90.0, 300.0, None)
    """
    if text == "none":
        return None
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < inf:
        msg = f"{text!r} is no time: give a number with s, m or h, such as 90s, or none"
        raise typer.BadParameter(msg)
    return seconds


def train(  # noqa: PLR0913 - every option of the command is an argument
    treebanks: TreebanksArgument,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="MODEL", help="The model file.", show_default=False),
    ],
    force: ForceOption = False,
    method: Annotated[
        str,
        typer.Option(callback=known_method, metavar="METHOD", help=f"{describe_methods()}."),
    ] = "best",
    budget: Annotated[
        str | None,
        typer.Option(
            callback=seconds_text,
            metavar="TIME",
            help="How long best may take in all, as 90s, 5m, 1h, or none. Not below 30s for more "
            "than a few thousand trees: little more than one grammar is trained then.",
            show_default=f"{Settings.budget:g}s",
        ),
    ] = None,
    states: Annotated[
        int | None,
        option(
            WithStates.parameters()["n_states"],
            "For best, the most of any member. More than 32 only for tens of thousands of trees. "
            "Not for pcfg and crf.",
            metavar="M",
            show_default=f"{Settings.states}, or for best {Settings.most_states}",
        ),
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Parse these trees' sentences with the new model and print its scores. For best, "
            "these trees also choose members and weights, so that the scores flatter a little. Not "
            "for trees that are also in the training data.",
        ),
    ] = None,
    binarise: Annotated[
        Binarise,
        typer.Option(
            help="Grow phrases outward from their head child, or branch one way. Leave it at head "
            "unless the label set has no useful heads."
        ),
    ] = Binarise.head,
    horizontal: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="H",
            help="Sisters that a half-built phrase remembers. More than 2 makes rules sparse.",
        ),
    ] = 1,
    vertical: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="V",
            help="1 keeps plain labels, 2 adds the parent's label, 3 the grandparent's too. Not "
            "above 1 with hidden states, which learn the same and more.",
        ),
    ] = 1,
    tag_parents: Annotated[
        bool,
        typer.Option(
            "--tag-parents/--no-tag-parents",
            help="Let tags carry their ancestors too; without effect at --vertical 1. Not for "
            "treebanks below some ten thousand trees.",
        ),
    ] = False,
    heads: Annotated[
        Heads,
        typer.Option(
            help="Head table: Penn English, a rule for any labels, or decided by the tags."
        ),
    ] = Heads.auto,
    rare_count: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Words seen at most N times teach what unknown words look like. Not above 10 on "
            "small treebanks.",
        ),
    ] = 5,
    signatures: Annotated[
        Signatures,
        typer.Option(
            help="Classes of unknown words: English suffixes, last letters of any alphabet, or "
            "decided by the tags. Not english for another language."
        ),
    ] = Signatures.auto,
    format: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    keep_functions: KeepFunctionsOption = False,
    skip_bad: SkipBadOption = False,
    iterations: Annotated[
        int | None,
        option(
            WithEM.parameters()["iterations"],
            "For em, those at each level: not below 10, levels need time. For crf, passes over the "
            "trees.",
            metavar="N",
            show_default="the method's own",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        option(
            WithEM.parameters()["patience"],
            "The dev scores then flatter: report others.",
            metavar="N",
            show_default="off",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        option(WithEM.parameters()["checkpoint"], "Delete it to start again.", metavar="FILE"),
    ] = None,
    seed: Annotated[int, option(OnPlainGrammar.parameters()["seed"], metavar="N")] = 0,
    jobs: JobsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a grammar from a treebank and write it to a model file.

    Traces, function tags and coindexation are cut from the trees first; --keep-functions leaves
    NP-SBJ as it is, though scores are of labels without functions. The report has the figures of
    reading, training and writing; parsing the --dev trees is timed apart, except for best, whose
    budget covers it.
    """
    given = {
        "--states": states, "--budget": budget, "--iterations": iterations,
        "--patience": patience, "--checkpoint": checkpoint,
    }  # fmt: skip
    refuse_what_does_not_apply(method, given)
    sources = [*treebanks, *([dev] if dev else [])]
    claim_stdin(*sources)
    others = [checkpoint] if checkpoint else []
    for file, rest in ((out, others), *((other, [out]) for other in others)):
        check_output(file, inputs=input_files(*sources), others=rest, force=force, is_model=True)
    if patience and not dev:
        msg = "it needs trees to grade on"
        raise typer.BadParameter(msg + ": add --dev FILE", param_hint="--patience")
    from sapwood.corpus.transform import Transform

    run = Run(
        treebanks=treebanks,
        out=out,
        force=force,
        dev=dev,
        method=method,
        transform=Transform(binarise.value, horizontal, vertical, tag_parents, heads.value),
        settings=Settings(
            rare_count=rare_count,
            signatures=signatures.value,
            seed=seed,
            jobs=jobs,
            states=states or Settings.states,
            most_states=states or Settings.most_states,
            iterations=iterations,
            patience=patience,
            checkpoint=checkpoint,
            on_iteration=iteration_line(),
            budget=Settings.budget if budget is None else seconds_of(budget),
            on_trial=show_trial,
        ),
        reading=Reading(format, encoding, keep_functions, skip_bad),
    )
    report = run.report()
    if as_json:
        print_json(report)
    elif "dev" in report:
        print(dev_text(report["dev"]))
