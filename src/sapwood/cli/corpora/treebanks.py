"""`sapwood stats`, `split` and `words`: treebanks counted, cut into parts, and as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import TreeReading, check_files, input_files
from sapwood.cli.reports import fact_lines, more_line, name_some, show, table_lines
from sapwood.core.errors import CorpusError, count
from sapwood.core.outputs import check_output, hold_output, open_output
from sapwood.core.progress import step
from sapwood.report import split_report, treebank_report

if TYPE_CHECKING:
    from sapwood.constituency.data.statistics import TreeCounts
    from sapwood.corpora.tree import Tree


BAR = 40  # columns of the longest bar

STATS_EPILOG = """\b
Examples:
  sapwood stats trees.mrg
  sapwood stats dev.mrg --against train.mrg
  sapwood stats 'wsj/**/*.mrg' --json | jq .tags
"""


def show_statistics(
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
    check_files(*treebanks, against)
    reading = TreeReading(format, encoding, skip_bad=skip_bad)
    known = _count([against], reading) if against else None
    found = treebank_report(_count(treebanks, reading), known)
    reading.echo_skipped()
    report: dict[str, Any] = {"treebanks": treebanks, **found}
    if against:
        report["against"] = {"treebank": against, **report["against"]}
    show(report, partial(_statistics_lines, top=top), as_json=as_json)


def _count(treebanks: list[str], reading: TreeReading) -> TreeCounts:
    from sapwood.constituency.data.statistics import TreeCounts
    from sapwood.corpora.formats import read_trees

    with step("reading"):
        counts = TreeCounts.of(read_trees(treebanks, **reading.options()))
    if not counts.lengths:
        msg = f"{', '.join(treebanks)}: no tree with a word found"
        raise CorpusError(msg, hint="is the file empty, or are all its trees empty?")
    return counts


def _statistics_lines(report: dict[str, Any], top: int) -> Iterator[str]:
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
            yield from _count_table(title, report[key], report.get(unit), top)
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


def _count_table(title: str, rows: dict[str, int], whole: int | None, top: int) -> Iterator[str]:
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


By = Literal["tree", "file", "order"]
PART_ENDING = ".mrg"
SPLIT_EPILOG = """\b
Examples:
  sapwood split trees.mrg -o my-
  sapwood split 'wsj/**/*.mrg' --by file --dev 5% --test 500 -o parts/
  zcat trees.gz | sapwood split - --test 0 --seed 7 -o my-
"""


def split_treebank(  # noqa: PLR0913 - every option of the command is an argument
    treebanks: opt.Treebanks,
    *,
    prefix: str = typer.Option(
        ...,
        "--out",
        "-o",
        metavar="PREFIX",
        help="What the names of the files start with: `my-` writes my-train.mrg, my-dev.mrg "
        "and my-test.mrg, `parts/` writes parts/train.mrg and so on.",
    ),
    dev: str = typer.Option(
        "10%", metavar="SIZE", help="Of all trees, as 10%, or a number; 0 for none."
    ),
    test: str = typer.Option(
        "10%", metavar="SIZE", help="Of all trees, as 10%, or a number; 0 for none."
    ),
    by: By = typer.Option(
        "tree",
        help="tree draws trees at random. file draws whole files, so that no document is in "
        "two parts: choose it where files are documents. order cuts without drawing: train, "
        "then dev, then test; choose it where documents follow each other in one file.",
    ),
    seed: int = typer.Option(0, min=0, metavar="N", help="Another number draws others."),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Cut a treebank into train, dev and test.

    Each tree is in exactly one part, one tree a line as it was written, in the order of the
    treebank. The same trees and seed give the same parts. Trees of one document resemble each
    other: where they are spread over the parts, scores flatter.
    """
    from sapwood.constituency.data.statistics import PARTS, part_size, split_trees

    check_files(*treebanks)
    reading = TreeReading(format, encoding, skip_bad=skip_bad)
    paths = {name: Path(f"{prefix}{name}{PART_ENDING}") for name in PARTS}
    for path in paths.values():
        others = [other for other in paths.values() if other != path]
        check_output(path, inputs=input_files(*treebanks), others=others, force=force)
    with hold_output(paths["train"]):  # the parts of two runs must not be mixed
        trees, files = _read_with_files(treebanks, reading)
        reading.echo_skipped()
        sizes = (part_size(size, len(trees)) for size in (dev, test))
        parts = split_trees(files, *sizes, by=by, seed=seed)
        written = {
            name: [tree for tree, part in zip(trees, parts, strict=True) if part == number]
            for number, name in enumerate(PARTS)
        }
        written = {name: some for name, some in written.items() if some}
        with ExitStack() as stack:  # all appear, or none
            targets = {
                name: stack.enter_context(open_output(paths[name], force=force)) for name in written
            }
            for name, some in written.items():
                targets[name].writelines(f"{tree}\n" for tree in some)
    rows = [
        {"part": row["part"], "file": str(paths[row["part"]])} | row
        for row in split_report(written)
    ]
    show(rows, _part_lines, as_json=as_json)


def _read_with_files(treebanks: list[str], reading: TreeReading) -> tuple[list[Tree], list[int]]:
    """All trees, and the number of the file that each is from."""
    from sapwood.corpora.files import TREE_BYTES, require_reading_memory
    from sapwood.corpora.formats import read_trees, treebank_files

    trees: list[Tree] = []
    files: list[int] = []
    sources = treebank_files(treebanks, reading.encoding, reading.left_out)
    require_reading_memory(sources, TREE_BYTES)
    for number, source in enumerate(sources):
        trees += read_trees(source, **reading.options())
        files += [number] * (len(trees) - len(files))
    return trees, files


def _part_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(len(row["file"]) for row in rows)
    columns = {"part": "<7", "file": f"<{width}", "trees": ">10,", "words": ">11,"}
    head, *lines = table_lines(columns, ([row[name] for name in columns] for row in rows))
    yield head
    for line, row in zip(lines, rows, strict=True):
        also = row["also_in_train"]
        yield line + (f"  {also:,} also in train" if also else "")


WORDS_EPILOG = """\b
Examples:
  sapwood words gold.mrg > sentences.txt
  sapwood words 'wsj/**/*.mrg' -o sentences.txt
  sapwood words en_ewt-ud-dev.conllu | sapwood parse model.sapwood
"""


def write_words(
    treebanks: opt.Treebanks,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="OUT",
        help="Write here instead of to stdout (-); the file appears when it is complete.",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    force: opt.Force = False,
) -> None:
    """Write the sentences of a treebank, one a line, words with blanks between them.

    Empty elements are left out, as in training. A tree of nothing else gives an empty line, so that
    lines stay aligned with trees. CoNLL-U is read too: of its words, the column FORM.
    """
    from sapwood.corpora.sentences import read_tree_words

    check_files(*treebanks, out=out, force=force, may_stream=True)
    reading = TreeReading(format, encoding, skip_bad=skip_bad)
    n_sentences = n_words = 0
    with open_output(out, force=force) as target:
        for sentence in read_tree_words(
            treebanks,
            format=format,
            encoding=encoding,
            skipped=reading.skipped if skip_bad else None,
            left_out=reading.left_out,
        ):
            target.write(" ".join(sentence) + "\n")
            n_sentences += bool(sentence)
            n_words += len(sentence)
    reading.echo_skipped()
    echo(f"{count(n_sentences, 'sentence')}  {count(n_words, 'word')}")
