"""`sapwood depend audit`: which heads, relations and tags of a treebank are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sapwood.cli import options as opt
from sapwood.cli.audit import select, show_audit
from sapwood.cli.audit_outputs import Apply, apply_file, require_files, write_report
from sapwood.cli.dependency.reading import Encoding
from sapwood.cli.inputs import check_files

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
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="FILE",
        help="Write a report to be read, with decisions, in a browser: one HTML file. With --json, "
        "the JSON goes there.",
    ),
    top: int | None = typer.Option(
        None,
        "--top",
        min=1,
        metavar="N",
        help="Only the first N findings.",
        show_default="20 on a terminal, all in JSON",
    ),
    expect: float = typer.Option(
        0.0,
        "--expect",
        min=0.0,
        max=1.0,
        metavar="P",
        help="Stop the list where fewer than this fraction of the findings above are expected to "
        "be real errors. Not above 0.9 for a first look.",
    ),
    folds: int = typer.Option(
        5,
        "--folds",
        min=2,
        max=50,
        metavar="N",
        help="Parts of the treebank, of whole documents; each is judged by models learnt from the "
        "others. More than 5 takes longer and helps only small treebanks.",
    ),
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
        help="Learn parsers by features of single arcs only. Not for the last audit before a "
        "release: networks find more.",
    ),
    trust: bool = typer.Option(
        False,
        "--trust",
        help="Print what planted errors showed of this audit on these trees, instead of findings.",
    ),
    error_rate: float | None = typer.Option(
        None,
        "--error-rate",
        min=0.0,
        max=0.5,
        metavar="P",
        help="Fraction of arcs and tags that are assumed to be wrong. Expected precisions are "
        "proportional to it.",
        show_default="estimated from repeated passages",
    ),
    apply: Apply = None,
    encoding: Encoding = "utf-8",
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

    Sentences are cut into folds of whole documents. Each fold is judged by parsers that were learnt
    from the others, and each word where annotation and parsers differ gets a score, which is learnt
    from errors planted in copies of the same trees. One sentence is one finding.
    """
    from sapwood.dependency.audit.corrections import ArcCorrector

    correct = ArcCorrector()
    if apply is not None:
        apply_file(apply, correct, out, encoding=encoding, force=force)
        return
    sources = require_files(sources)
    if fast and budget is not None:
        raise typer.BadParameter("a fast audit has no budget", param_hint="--budget")
    check_files(*sources, out=out, force=force)
    from sapwood.cli.console import data_on_stdout
    from sapwood.dependency.audit.located import read_located
    from sapwood.dependency.audit.run import ArcAuditSettings, audit_sentences
    from sapwood.dependency.data.bank import Arcs

    settings = ArcAuditSettings(
        folds=folds, fast=fast, budget=None if budget is None else opt.parse_duration(budget),
        seed=seed, error_rate=error_rate,
    )  # fmt: skip
    with (
        data_on_stdout(out, sources[0]),
        opt.open_engine("processes", None, jobs) as engine,
    ):
        located = read_located(sources, encoding=encoding, skip_bad=skip_bad)
        found = audit_sentences(located, settings, engine)
    shown = select(found, top, expect)
    if out is not None and not as_json:
        write_report(
            out, shown, lambda text: Arcs.parse(text).to_svg(), correct, encoding=encoding,
            top=top, force=force,
        )  # fmt: skip
    show_audit(shown, found, out if as_json else None, as_json=as_json, trust=trust, top=top)
