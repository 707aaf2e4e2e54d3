"""`sapwood depend audit`: which heads, relations and tags of a treebank are probably wrong."""

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

AUDIT_ARCS_EPILOG = """\b
Examples:
  sapwood depend audit train.conllu --fast -o report.html
  sapwood depend audit train.conllu dev.conllu --top 50
  sapwood depend audit train.conllu --fast --expect 0.5 --json > findings.json
  sapwood depend audit train.conllu --fast --trust
  sapwood depend audit --apply decisions.json
"""
Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="CoNLL-U: files (also .gz, .xz, .bz2), quoted globs, folders, or - for stdin. "
        "Comments `# newdoc` mark documents.",
        show_default=False,
    ),
]


def audit_arc_files(  # noqa: PLR0913 - every option of the command is an argument
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
        help="CPU time for learning, all folds together, such as 30m or 2h. Not with --fast.",
        show_default="as much as is needed",
    ),
    fast: bool = typer.Option(
        False,
        "--fast",
        help="Train first-order parsers only, in minutes. Not for the last audit before a "
        "release: networks find more.",
    ),
    trust: ShowTrust = False,
    error_rate: ErrorRate = None,
    work: Work = None,
    apply: Apply = None,
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: bool = typer.Option(
        False,
        "--skip-bad",
        help="Report sentences that cannot be read as findings, instead of stopping at the first.",
    ),
    force: opt.Force = False,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 0,
    as_json: opt.Json = False,
) -> None:
    """List heads, relations and universal tags that are probably wrong, best first.

    Sentences are divided into folds of whole documents. Each fold is parsed by parsers that were
    learnt from the other folds. Each word where annotation and parsers differ gets a score, which
    is learnt from errors planted in copies of the same trees. One sentence is one finding.
    """
    from sapwood.dependency.audit.corrections import ArcCorrector

    correct = ArcCorrector()
    if apply is not None:
        apply_file(apply, correct, out, encoding=encoding, force=force)
        return
    sources = require_sources(sources, out, budget, fast=fast, force=force)
    from sapwood.dependency.data.bank import Arcs
    from sapwood.treebank_audit import audit_arcs

    judge = partial(
        audit_arcs, sources, encoding=encoding, skip_bad=skip_bad, folds=folds, fast=fast,
        budget=None if budget is None else opt.parse_duration(budget), seed=seed,
        error_rate=error_rate,
    )  # fmt: skip
    run_audit(
        Asked(sources[0], out, top, expect, trust, as_json, encoding, force), judge,
        work=work, jobs=jobs, noun="CoNLL-U", draw=lambda text: Arcs.parse(text).to_svg(),
        correct=correct,
    )  # fmt: skip
