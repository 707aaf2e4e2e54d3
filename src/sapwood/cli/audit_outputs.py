"""What both commands that audit share: options, findings in lines, reports, corrections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.inputs import check_files
from sapwood.core.errors import count

if TYPE_CHECKING:
    from sapwood.auditing.decisions import Correct
    from sapwood.auditing.findings import Audit, Finding, Trust

N_PRINTED = 20  # findings that are printed unless --top or --expect says otherwise
N_WORDS = 12  # of a finding that are printed
N_ELSEWHERE = 3  # other places of a finding that are printed

MOST_IN_REPORT = 1000  # findings of a report unless --top says otherwise: about 16 kB each

Apply = Annotated[
    Path | None,
    typer.Option(
        "--apply",
        metavar="DECISIONS",
        help="Apply the decisions that a report saved: correct the accepted trees, in the files "
        "themselves or in copies at --out, and leave every other byte unchanged. Takes no "
        "files. Refused if a file has changed since the audit.",
    ),
]


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write the report as one HTML file, to read and decide in a browser. With --json, "
        "write the JSON there.",
    ),
]
Top = Annotated[
    int | None,
    typer.Option(
        "--top",
        min=1,
        metavar="N",
        help="Only the first N findings.",
        show_default=f"{N_PRINTED} on a terminal, all in files",
    ),
]
Expect = Annotated[
    float,
    typer.Option(
        "--expect",
        min=0.0,
        max=1.0,
        metavar="P",
        help="Stop the list where fewer than this fraction of the findings above are expected to "
        "be real errors. Not above 0.9 for a first look.",
    ),
]
Folds = Annotated[
    int,
    typer.Option(
        "--folds",
        min=2,
        max=50,
        metavar="N",
        help="Number of parts of the treebank, made of whole documents; each is judged by models "
        "learnt from the others. More than 5 takes longer and helps only small treebanks.",
    ),
]
ShowTrust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Print how well this audit finds errors planted in these trees, instead of findings.",
    ),
]
ErrorRate = Annotated[
    float | None,
    typer.Option(
        "--error-rate",
        min=0.0,
        max=0.5,
        metavar="P",
        help="Fraction of annotations (brackets, or arcs, and tags) that are assumed to be wrong. "
        "Expected precisions rise with it.",
        show_default="estimated from repeated passages",
    ),
]
Work = Annotated[
    Path | None,
    typer.Option(
        "--work",
        metavar="FOLDER",
        help="Keep finished folds in this folder, so that the same command continues an "
        "interrupted run. Not needed with -o, which keeps them beside the output until it is "
        "done.",
    ),
]


class Asked(NamedTuple):
    """What a user asks of the findings: where they go, and how many."""

    source: str  # the first of the files
    out: Path | None
    top: int | None
    expect: float
    trust: bool
    as_json: bool
    encoding: str
    force: bool


def run_audit(
    asked: Asked,
    audit: Callable[..., Audit],
    *,
    work: Path | None,
    jobs: int,
    noun: str,
    draw: Callable[[str], str],
    correct: Correct,
) -> None:
    """Audit files, then write the report or print the findings.

    Parameters
    ----------
    audit
        Reads and judges the files, given `engine`, `work` and `left_out`.
    noun
        What the files of folders that are left out do not hold.
    draw, correct
        Draws a tree of a finding, and gives the replacements that correct it in its file.
    """
    left_out = list[str]()
    with hold_folds(work, asked.out) as folder:
        with (
            data_on_stdout(asked.out, asked.source),
            opt.open_engine("processes", None, jobs) as engine,
        ):
            found = audit(engine=engine, work=folder, left_out=left_out)
        if left_out:
            echo(f"{count(len(left_out), 'file')} of folders hold no {noun} and were left out")
        shown = select(found, asked.top, asked.expect)
        if asked.out is not None and not asked.as_json:
            write_report(asked, asked.out, shown, draw, correct)
        show_audit(asked, shown, found)


def require_sources(
    sources: list[str] | None, out: Path | None, budget: str | None, *, fast: bool, force: bool
) -> list[str]:
    """The files of an audit, which may be missing only beside --apply; and its other arguments."""
    if not sources:
        raise typer.BadParameter("name at least one file", param_hint="TREEBANK")
    if fast and budget is not None:
        raise typer.BadParameter("a fast audit has no budget", param_hint="--budget")
    check_files(*sources, out=out, force=force)
    return sources


def write_report(
    asked: Asked, out: Path, shown: Audit, draw: Callable[[str], str], correct: Correct
) -> None:
    """Write the findings as one HTML file; as many as a browser shows easily, unless asked."""
    from sapwood.auditing.decisions import with_patches
    from sapwood.auditing.html import draw_findings, report_html
    from sapwood.core.outputs import open_output

    data: dict[str, Any] = shown.as_dict()
    findings = data["findings"][: asked.top or MOST_IN_REPORT]
    if len(findings) < len(data["findings"]):
        rest = len(data["findings"]) - len(findings)
        echo(f"the report has the first {len(findings):,}, not {rest:,} more; --top N sets that")
    rows = with_patches(findings, correct, encoding=asked.encoding)
    page = report_html(data | {"findings": rows, "drawings": draw_findings(rows, draw)})
    with open_output(out, force=asked.force) as file:
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


@contextmanager
def hold_folds(work: Path | None, out: Path | None) -> Iterator[Path | None]:
    """The folder of finished folds, which no other audit may use: where asked, or beside a file.

    A folder beside an output is removed when the block ends well.
    """
    from sapwood.auditing.folds import remove_folds
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


def show_audit(asked: Asked, shown: Audit, found: Audit) -> None:
    """Print findings, or what planted errors showed, for people or as JSON."""
    from sapwood.core.outputs import open_output
    from sapwood.report import to_json

    if asked.as_json:
        with open_output(asked.out, force=asked.force) as file:
            file.write(to_json(shown.as_dict(), indent=2) + "\n")
    elif asked.trust:
        print("\n".join(trust_lines(found.trust)))
    elif asked.out is None or asked.top is not None:
        for one in shown.findings[: asked.top or N_PRINTED]:
            print("\n".join(finding_lines(one)))
    for note in (*found.trust.notes, *_unread_note(shown, found)):
        echo(f"note: {note}")
    echo(f"{count(len(found.findings), 'finding')} in {count(found.trust.trees, 'tree')}")


def _unread_note(shown: Audit, found: Audit) -> list[str]:
    """That the last findings are trees that could not be read, where the list ends before them."""
    unread = [one for one in found.findings if one.kind == "unreadable"]
    if not unread or unread[0] in shown.findings:
        return []
    first = f"the first in {unread[0].file}:{unread[0].line}"
    return [f"{count(len(unread), 'tree')} could not be read ({first}); these findings come last."]


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
    places = [f"{p.annotation} at {p.file}:{p.line}" for p in one.elsewhere[:N_ELSEWHERE]]
    return lines + ([f"      the same words elsewhere: {', '.join(places)}"] if places else [])


def trust_lines(trust: Trust) -> list[str]:
    """What planted errors showed, as lines for people."""
    rows: list[tuple[str, Any]] = [
        ("trees", f"{trust.trees:,}"),
        ("words", f"{trust.words:,}"),
        ("documents", f"{trust.documents:,}"),
        ("folds", trust.folds),
        ("errors planted", f"{trust.planted:,} ({trust.planted_rate:.0%} of all annotations)"),
        ("precision among the first 100", _percent(trust.precision_at_100)),
        *((f"recall: {kind}", _percent(value)) for kind, value in trust.recall.items()),
        ("assumed error rate", f"{trust.error_rate:.2%}"),
    ]
    return [f"{name:<32}{value}" for name, value in rows]


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"
