"""What both commands that audit write: the report for browsers, and accepted corrections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import echo
from sapwood.core.errors import count

if TYPE_CHECKING:
    from sapwood.auditing.decisions import Correct
    from sapwood.auditing.findings import Audit

MOST_IN_REPORT = 1000  # findings of a report unless --top says otherwise: about 16 kB each

Apply = Annotated[
    Path | None,
    typer.Option(
        "--apply",
        metavar="DECISIONS",
        help="Correct the trees that were accepted in a report, by the file that it saves, and "
        "leave every other byte as it is: in the files themselves, or in copies at --out. Takes "
        "no files. Refused where a file has changed since the audit.",
    ),
]


def write_report(
    out: Path,
    shown: Audit,
    draw: Callable[[str], str],
    correct: Correct,
    *,
    encoding: str = "utf-8",
    top: int | None = None,
    force: bool = False,
) -> None:
    """Write the findings as one HTML file.

    Parameters
    ----------
    draw, correct
        Draws a tree of a finding, and gives the replacements that correct it in its file.
    top
        How many findings were asked for; None for as many as a browser shows easily.
    """
    from sapwood.auditing.decisions import with_patches
    from sapwood.auditing.html import draw_findings, report_html
    from sapwood.core.outputs import open_output

    data: dict[str, Any] = shown.as_dict()
    findings = data["findings"][: top or MOST_IN_REPORT]
    if len(findings) < len(data["findings"]):
        rest = len(data["findings"]) - len(findings)
        echo(f"the report has the first {len(findings):,}, not {rest:,} more; --top N sets that")
    rows = with_patches(findings, correct, encoding=encoding)
    page = report_html(data | {"findings": rows, "drawings": draw_findings(rows, draw)})
    with open_output(out, force=force) as file:
        file.write(page)
    echo(f"wrote {out}: open it in a browser")


def apply_file(
    decisions: Path, correct: Correct, out: Path | None, *, encoding: str, force: bool
) -> None:
    """Correct the files of a decisions file, and say which."""
    from sapwood.auditing.decisions import apply_decisions, read_decisions

    files, made = read_decisions(decisions)
    done = apply_decisions(files, made, correct, out=out, encoding=encoding, force=force)
    for one in done:
        where = "" if one.out == one.file else f" into {one.out}"
        echo(f"{one.file}: {count(one.corrections, 'tree')} corrected{where}")
    if not done:
        echo(f"nothing is accepted in {decisions}: no file was changed")


def require_files(sources: list[str] | None) -> list[str]:
    """The files of an audit, which may be missing only beside --apply."""
    if not sources:
        raise typer.BadParameter("name at least one file", param_hint="TREEBANK")
    return sources
