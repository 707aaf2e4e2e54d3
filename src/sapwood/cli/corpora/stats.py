"""`sapwood stats`: what is in a treebank, and what of it another one has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import Reading, claim_stdin
from sapwood.cli.tables import fact_lines, more_line, name_some, show, table_lines
from sapwood.core.errors import CorpusError, count
from sapwood.progress import step
from sapwood.report import treebank_report

if TYPE_CHECKING:
    from sapwood.constituency.data.statistics import TreeCounts

BAR = 40  # columns of the longest bar

EPILOG = """\b
Examples:
  sapwood stats trees.mrg
  sapwood stats dev.mrg --against train.mrg
  sapwood stats 'wsj/**/*.mrg' --json | jq .tags
"""


def stats(
    treebanks: opt.Treebanks,
    against: str | None = typer.Option(
        None,
        metavar="TRAIN",
        help="Tell also what of these trees TRAIN has not: words, tags, labels, rules; and "
        "which trees it has too.",
    ),
    top: int = typer.Option(12, min=1, metavar="N", help="Rows of each list; JSON lists all."),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Show what is in a treebank: sizes, lengths, labels, tags, rules, empty elements.

    Everything is counted on the trees that are learnt: without empty elements, function tags and
    indices. --against compares with the trees that a model is trained on.
    """
    claim_stdin(*treebanks, *([against] if against else []))
    reading = Reading(format, encoding, skip_bad=skip_bad)
    known = _count([against], reading) if against else None
    found = treebank_report(_count(treebanks, reading), known)
    reading.tell()
    report: dict[str, Any] = {"treebanks": treebanks, **found}
    if against:
        report["against"] = {"treebank": against, **report["against"]}
    show(report, partial(_text, top=top), as_json=as_json)


def _count(treebanks: list[str], reading: Reading) -> TreeCounts:
    from sapwood.constituency.data.statistics import TreeCounts
    from sapwood.corpora.formats import read_trees

    with step("reading"):
        counts = TreeCounts.of(read_trees(treebanks, **reading.options()))
    if not counts.lengths:
        msg = f"{', '.join(treebanks)}: no tree with a word found"
        raise CorpusError(msg, hint="is the file empty, or are all its trees empty?")
    return counts


def _text(report: dict[str, Any], top: int) -> Iterator[str]:
    yield from fact_lines(_facts(report), 15)
    yield ""
    yield "words a sentence"
    yield from _bars(report["lengths"])
    yield ""
    yield "children a phrase"
    yield from _bars(report["children"])
    for title, key, unit in (
        ("labels", "labels", "phrases"),
        ("tags", "tags", "words"),
        ("unary chains", "unary_chains", "phrases"),
        ("empty elements", "empty_elements", ""),
    ):
        if report[key]:
            yield ""
            yield from _table(title, report[key], report.get(unit), top)
    if "against" in report:
        yield ""
        yield from _against_text(report["against"], report, top)


def _facts(report: dict[str, Any]) -> dict[str, str]:
    r = report
    empty = f", {r['empty_trees']:,} of them without words" if r["empty_trees"] else ""
    repeated = f", {r['repeated_trees']:,} repeat another" if r["repeated_trees"] else ""
    ambiguous = _share(r["ambiguous_tokens"], r["words"])
    chains = f"{count(r['unary_nodes'], 'node')}, the longest of {r['longest_unary_chain']}"
    return {
        "trees": f"{r['trees']:,}{empty}{repeated}",
        "words": f"{r['words']:,}, {r['vocabulary']:,} different, "
        f"{r['words_seen_once']:,} seen once",
        "length": _spread(r, "length") + " words",
        "depth": _spread(r, "depth") + " nodes",
        "labels": f"{len(r['labels']):,} of {count(r['phrases'], 'phrase')}, "
        f"{count(len(r['tags']), 'tag')}",
        "tags a word": f"{r['tags_per_word']:.2f}; {ambiguous} of the text are words with several",
        "rules": f"{r['rules']:,}, {r['rules_seen_once']:,} seen once",
        "children": f"mean {r['children_mean']:.2f}, at most {r['children_max']}",
        "unary chains": chains,
        "empty elements": f"{sum(r['empty_elements'].values()):,}",
    }


def _spread(report: dict[str, Any], name: str) -> str:
    least, middle, mean, most = (
        report[f"{name}_{key}"] for key in ("min", "median", "mean", "max")
    )
    return f"{least} to {most}, median {middle:g}, mean {mean:.1f}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"


def _bars(rows: dict[str, int]) -> Iterator[str]:
    most = max(rows.values())
    for name, n in rows.items():
        yield f"  {name:>7}{n:>9,}  {'#' * -(-n * BAR // most if most else 0)}".rstrip()


def _table(title: str, rows: dict[str, int], whole: int | None, top: int) -> Iterator[str]:
    shown = list(rows.items())[:top]
    width = max([len(title), *(len(name) + 2 for name, _ in shown)]) + 2
    columns = {title: f"<{width}", "count": ">9,"} | ({"share": ">9.2%"} if whole else {})
    cells = ((f"  {name}", n, *([n / whole] if whole else [])) for name, n in shown)
    yield from table_lines(columns, cells)
    yield from more_line(len(rows), top, indent="  ")


def _against_text(seen: dict[str, Any], report: dict[str, Any], top: int) -> Iterator[str]:
    n_nodes = sum(report["children"].values())
    words = _share(seen["unknown_tokens"], report["words"])
    nodes = _share(seen["unseen_rule_nodes"], n_nodes)
    yield f"against {seen['treebank']}, {count(seen['trees'], 'tree')}"
    rows = {
        "unknown words": f"{seen['unknown_words']:,} different, {words} of the text",
        "new tags": f"{seen['known_words_with_new_tags']:,} known words of the text have tags that "
        "they have not there",
        "unknown tags": name_some(seen["unknown_tags"], top, " ") or "none",
        "unknown labels": name_some(seen["unknown_labels"], top, " ") or "none",
        "unseen rules": f"{seen['unseen_rules']:,} different, {nodes} of all nodes, in "
        f"{count(seen['trees_with_unseen_rules'], 'tree')}",
        "shared": f"{count(seen['shared_trees'], 'tree')}, "
        f"{count(seen['shared_sentences'], 'sentence')}",
    }
    yield from fact_lines(rows, 16, indent="  ")
