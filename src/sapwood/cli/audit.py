"""`sapwood audit`: which annotations of a treebank are probably wrong."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from sapwood.cli import options as opt
from sapwood.cli.audit_outputs import (
    Apply,
    Asked,
    ErrorRate,
    Expect,
    Folds,
    Out,
    ShowTrust,
    Top,
    Work,
    apply_file,
    require_sources,
    run_audit,
)

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TREEBANK",
        help="Trees in Penn brackets or another --format: files (also .gz, .xz, .bz2), quoted "
        "globs, folders, or - for stdin.",
        show_default=False,
    ),
]
AUDIT_EPILOG = """\b
Examples:
  sapwood audit train.mrg --fast -o report.html
  sapwood audit 'wsj/**/*.mrg' --top 50
  sapwood audit train.mrg --fast --expect 0.5 --json > findings.json
  sapwood audit train.mrg --fast --trust
  sapwood audit --apply decisions.json
"""


def audit_files(  # noqa: PLR0913 - every option of the command is an argument
    sources: Sources = None,
    *,
    out: Out = None,
    top: Top = None,
    expect: Expect = 0.0,
    folds: Folds = 5,
    budget: str | None = typer.Option(
        None,
        "--budget",
        metavar="TIME",
        help="CPU time for learning, all folds together, such as 30m or 2h. The result then "
        "depends on the speed of the machine. Not with --fast.",
        show_default="by the size of the treebank",
    ),
    fast: bool = typer.Option(
        False,
        "--fast",
        help="Train grammars only, in minutes. Not for the last audit before a release: networks "
        "find more.",
    ),
    trust: ShowTrust = False,
    error_rate: ErrorRate = None,
    work: Work = None,
    apply: Apply = None,
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: bool = typer.Option(
        False,
        "--skip-bad",
        help="Report trees that cannot be read as findings, instead of stopping at the first.",
    ),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 0,
    as_json: opt.Json = False,
) -> None:
    """List annotations of a treebank that are probably wrong, best first.

    Trees are divided into folds of whole documents. Each fold is parsed by models that were learnt
    from the other folds. Each place where annotation and models differ gets a score, which is
    learnt from errors planted in copies of the same trees. One sentence is one finding.
    """
    from sapwood.constituency.audit.corrections import BracketCorrector

    correct = BracketCorrector(format)
    if apply is not None:
        apply_file(apply, correct, out, encoding=encoding, force=force)
        return
    sources = require_sources(sources, out, budget, fast=fast, force=force)
    from sapwood.auditing.html import draw_brackets
    from sapwood.treebank_audit import audit

    judge = partial(
        audit, sources, format=format, encoding=encoding, skip_bad=skip_bad, folds=folds,
        fast=fast, budget=None if budget is None else opt.parse_duration(budget), seed=seed,
        error_rate=error_rate,
    )  # fmt: skip
    run_audit(
        Asked(sources[0], out, top, expect, trust, as_json, encoding, force), judge,
        work=work, jobs=jobs, noun="trees", draw=draw_brackets, correct=correct,
    )  # fmt: skip
