"""`sapwood audit`: which annotations of a treebank are probably wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.audit_outputs import Apply, apply_file, require_files, write_report
from sapwood.cli.console import echo
from sapwood.cli.inputs import check_files
from sapwood.core.errors import count

if TYPE_CHECKING:
    from sapwood.auditing.findings import Audit, Finding, Trust

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
N_PRINTED = 20  # findings that are printed unless --top or --expect says otherwise
N_WORDS = 12  # of a finding that are printed


def audit_files(  # noqa: PLR0913 - every option of the command is an argument
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
        show_default=f"{N_PRINTED} on a terminal, all in files",
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
        help="CPU time for learning, all folds together, such as 30m or 2h. What is learnt in a "
        "measured time depends on the machine. Not with --fast.",
        show_default="by the size of the treebank",
    ),
    fast: bool = typer.Option(
        False,
        "--fast",
        help="Learn grammars only, in minutes. Not for the last audit before a release: networks "
        "find more.",
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
        help="Fraction of brackets and tags that are assumed to be wrong. Expected precisions are "
        "proportional to it.",
        show_default="estimated from repeated passages",
    ),
    work: Path | None = typer.Option(
        None,
        "--work",
        metavar="FOLDER",
        help="Keep finished folds in this folder; the same command goes on there after an "
        "interruption. Not needed with -o, which keeps them beside the output until it is done.",
    ),
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

    Trees are cut into folds of whole documents. Each fold is judged by models that were learnt from
    the others, and each place where annotation and models differ gets a score, which is learnt from
    errors planted in copies of the same trees. One sentence is one finding.
    """
    from sapwood.constituency.audit.corrections import BracketCorrector

    correct = BracketCorrector(format)
    if apply is not None:
        apply_file(apply, correct, out, encoding=encoding, force=force)
        return
    sources = require_files(sources)
    if fast and budget is not None:
        raise typer.BadParameter("a fast audit has no budget", param_hint="--budget")
    check_files(*sources, out=out, force=force)
    from sapwood.auditing.html import draw_brackets
    from sapwood.cli.console import data_on_stdout
    from sapwood.constituency.audit.run import AuditSettings
    from sapwood.treebank_audit import audit

    settings = AuditSettings(
        folds=folds, fast=fast, budget=None if budget is None else opt.parse_duration(budget),
        seed=seed, error_rate=error_rate,
    )  # fmt: skip
    left_out = list[str]()
    with _hold_folds(work, out) as folder:
        with (
            data_on_stdout(out, sources[0]),
            opt.open_engine("processes", None, jobs) as engine,
        ):
            found = audit(
                sources, engine=engine, format=format, encoding=encoding, skip_bad=skip_bad,
                left_out=left_out, work=folder, **asdict(settings),
            )  # fmt: skip
        if left_out:
            echo(f"{count(len(left_out), 'file')} of folders hold no trees and were left out")
        shown = select(found, top, expect)
        if out is not None and not as_json:
            write_report(
                out, shown, draw_brackets, correct, encoding=encoding, top=top, force=force
            )
        show_audit(shown, found, out, as_json=as_json, trust=trust, top=top, force=force)


@contextmanager
def _hold_folds(work: Path | None, out: Path | None) -> Iterator[Path | None]:
    """The folder of finished folds, which no other audit may use: where asked, or beside a file.

    A folder beside an output is removed when the block ends well.
    """
    from sapwood.auditing.finished import remove_folds
    from sapwood.core.outputs import find_target, hold_output

    target = None if out is None else find_target(out)
    if work is not None:
        work.absolute().parent.mkdir(parents=True, exist_ok=True)
        with hold_output(work):
            yield work
    elif target is None or target.is_stream:
        yield None
    else:
        folder = target.path.with_name(f"{target.path.name}.folds")
        with hold_output(target.path):
            yield folder
            remove_folds(folder)


def select(found: Audit, top: int | None, expect: float) -> Audit:
    """The first findings, down to an expected precision."""
    from dataclasses import replace

    kept = [one for one in found.findings if not one.expected_precision < expect]
    return replace(found, findings=tuple(kept[:top]))


def show_audit(
    shown: Audit,
    found: Audit,
    out: Path | None,
    *,
    as_json: bool,
    trust: bool,
    top: int | None,
    force: bool = False,
) -> None:
    """Print findings, or what planted errors showed, for people or as JSON."""
    from sapwood.core.outputs import open_output
    from sapwood.report import to_json

    if as_json:
        with open_output(out, force=force) as file:
            file.write(to_json(shown.as_dict(), indent=2) + "\n")
    elif trust:
        print("\n".join(trust_lines(found.trust)))
    elif out is None or top is not None:
        for one in shown.findings[: top or N_PRINTED]:
            print("\n".join(finding_lines(one)))
    for note in found.trust.notes:
        echo(f"note: {note}")
    echo(f"{count(len(found.findings), 'finding')} in {count(found.trust.trees, 'tree')}")


def finding_lines(one: Finding) -> list[str]:
    """A finding as lines for people."""
    words = list(one.words)
    low, high = max(0, one.start - N_WORDS // 2), min(len(words), one.end + N_WORDS // 2)
    marked = [
        *words[low : one.start],
        "[",
        *words[one.start : one.end],
        "]",
        *words[one.end : high],
    ]
    head = f"{one.rank:>4}  {one.file}:{one.line}  tree {one.tree}"
    lines = [
        f"{head}  {one.kind}: {one.annotated or 'nothing'} ({one.p_annotated:.3f}) -> "
        f"{one.suggested or 'nothing'} ({one.p_suggested:.3f})  "
        f"expected precision {one.expected_precision:.2f}",
        "      " + " ".join(marked),
    ]
    lines += [
        f"      also {part.kind}: {part.annotated or 'nothing'} -> {part.suggested or 'nothing'} "
        f"over {' '.join(words[part.start : part.end])}"
        for part in one.parts[1:]
    ]
    return lines


def trust_lines(trust: Trust) -> list[str]:
    """What planted errors showed, as lines for people."""
    rows: list[tuple[str, Any]] = [
        ("trees", f"{trust.trees:,}"),
        ("words", f"{trust.words:,}"),
        ("documents", f"{trust.documents:,}"),
        ("folds", trust.folds),
        ("errors planted", f"{trust.planted:,} ({trust.planted_rate:.0%} of brackets and tags)"),
        ("precision among the first 100", _percent(trust.precision_at_100)),
        *((f"recall: {kind}", _percent(value)) for kind, value in trust.recall.items()),
        ("assumed error rate", f"{trust.error_rate:.2%}"),
    ]
    return [f"{name:<32}{value}" for name, value in rows]


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"
