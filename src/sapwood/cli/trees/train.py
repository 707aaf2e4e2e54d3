"""`sapwood train`: a treebank in, a model file out."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.engines import open_engine, open_folder
from sapwood.cli.inputs import claim_stdin, input_files
from sapwood.cli.methods import (
    METHODS,
    SEED,
    Settings,
    describe_methods,
    known_method,
    option,
    refuse_what_does_not_apply,
)
from sapwood.cli.reading import Reading
from sapwood.cli.tables import fact_lines
from sapwood.cli.trees.training import Run, iteration_line, show_trial
from sapwood.estimators.base import WithEM, WithStates
from sapwood.outputs import check_output
from sapwood.report import to_json

_OF_STATES, _OF_EM = WithStates.parameters(), WithEM.parameters()
Binarise = Literal["head", "right", "left"]
Heads = Literal["auto", "penn", "generic"]
Signatures = Literal["auto", "english", "generic"]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
EPILOG = """\b
Examples:
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood train train.mrg -o model.sapwood --method spectral --states 16
  sapwood train 'wsj/**/*.mrg' -o model.sapwood --dev dev.mrg.gz --budget 10m
  zcat trees.gz | sapwood train - -o model.sapwood --json > report.json
"""


def check_time(text: str | None) -> str | None:
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
    treebanks: opt.Treebanks,
    *,
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="MODEL", help="The model file.", show_default=False
    ),
    force: opt.Force = False,
    method: str = typer.Option(
        "best", callback=known_method, metavar="METHOD", help=f"{describe_methods()}."
    ),
    budget: str | None = typer.Option(
        None,
        callback=check_time,
        metavar="TIME",
        help="How long best may take in all, as 90s, 5m, 1h, or none. Not below 30s for more "
        "than a few thousand trees: little more than one grammar is trained then.",
        show_default=f"{Settings.budget:g}s",
    ),
    states: int | None = option(
        None,
        _OF_STATES["n_states"],
        "For best, the most of any member. More than 32 only for tens of thousands of trees. "
        "Not for pcfg and crf.",
        metavar="M",
        show_default=f"{Settings.states}, or for best {Settings.most_states}",
    ),
    dev: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Parse these trees' sentences with the new model and print its scores. For best, "
        "these trees also choose members and weights, so that the scores flatter a little. Not "
        "for trees that are also in the training data.",
    ),
    binarise: Binarise = typer.Option(
        "head",
        help="Grow phrases outward from their head child, or branch one way. Leave it at head "
        "unless the label set has no useful heads.",
    ),
    horizontal: int = typer.Option(
        1,
        min=0,
        metavar="H",
        help="Sisters that a half-built phrase remembers. More than 2 makes rules sparse.",
    ),
    vertical: int = typer.Option(
        1,
        min=1,
        metavar="V",
        help="1 keeps plain labels, 2 adds the parent's label, 3 the grandparent's too. Not "
        "above 1 with hidden states, which learn the same and more.",
    ),
    tag_parents: bool = typer.Option(
        False,
        "--tag-parents/--no-tag-parents",
        help="Let tags carry their ancestors too; without effect at --vertical 1. Not for "
        "treebanks below some ten thousand trees.",
    ),
    heads: Heads = typer.Option(
        "auto", help="Head table: Penn English, a rule for any labels, or decided by the tags."
    ),
    rare_count: int = typer.Option(
        5,
        min=1,
        metavar="N",
        help="Words seen at most N times teach what unknown words look like. Not above 10 on "
        "small treebanks.",
    ),
    signatures: Signatures = typer.Option(
        "auto",
        help="Classes of unknown words: English suffixes, last letters of any alphabet, or "
        "decided by the tags. Not english for another language.",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    iterations: int | None = option(
        None,
        _OF_EM["iterations"],
        "For em, those at each level: not below 10, levels need time. For crf, passes over the "
        "trees.",
        metavar="N",
        show_default="the method's own",
    ),
    patience: int | None = option(
        None,
        _OF_EM["patience"],
        "The dev scores then flatter: report others.",
        metavar="N",
        show_default="off",
    ),
    checkpoint: Path | None = option(
        None, _OF_EM["checkpoint"], "Delete it to start again.", metavar="FILE"
    ),
    seed: int = option(0, SEED, metavar="N"),
    jobs: opt.Jobs = 0,
    engine: opt.Engine = None,
    scheduler: opt.Scheduler = None,
    on_disk: opt.OnDisk = None,
    as_json: opt.Json = False,
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
    if on_disk is not None and not METHODS[method].is_additive:
        users = ", ".join(name for name, known in METHODS.items() if known.is_additive)
        msg = f"it does not apply to --method {method}; it applies to {users}"
        raise typer.BadParameter(msg, param_hint="--on-disk")
    sources = [*treebanks, *([dev] if dev else [])]
    claim_stdin(*sources)
    others = [checkpoint] if checkpoint else []
    for file, rest in ((out, others), *((other, [out]) for other in others)):
        check_output(file, inputs=input_files(*sources), others=rest, force=force, is_model=True)
    if patience and not dev:
        msg = "it needs trees to grade on"
        raise typer.BadParameter(msg + ": add --dev FILE", param_hint="--patience")
    from sapwood.corpus.transform import Transform

    with (
        open_folder(on_disk) as folder,
        open_engine(engine, scheduler, jobs, spill=folder) as where,
    ):
        run = Run(
            treebanks=treebanks,
            out=out,
            force=force,
            folder=folder,
            dev=dev,
            method=method,
            transform=Transform(binarise, horizontal, vertical, tag_parents, heads),
            settings=Settings(
                rare_count=rare_count,
                signatures=signatures,
                seed=seed,
                engine=where,
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
        print(to_json(report, indent=2))
    elif "dev" in report:
        print("\n".join(_dev_text(report["dev"])))


def _dev_text(dev: dict[str, Any]) -> Iterator[str]:
    """Scores on dev trees, one a line."""
    rows = {
        "F1 (EVALB)": f"{dev['f1']:.2f}",
        "F1 (strict)": f"{dev['strict_f1']:.2f}",
        "Tagging accuracy": f"{dev['tagging_accuracy']:.2f}",
        "Sentences": f"{dev['sentences']:,}",
        "Without a parse": f"{dev['fallbacks']:,}",
        "Sentences/s": f"{dev['sentences_per_second']:,}",
    }
    return fact_lines({title: f"{value:>9}" for title, value in rows.items()}, 18)
