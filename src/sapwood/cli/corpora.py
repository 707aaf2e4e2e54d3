"""`sapwood stats`, `split`, `words` and `data`: what is in treebanks, their parts, open corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import TreeReading, check_files, input_files, stream_lines
from sapwood.cli.reports import fact_lines, more_line, name_some, show, table_lines
from sapwood.core.errors import CorpusError, count
from sapwood.core.outputs import check_output, hold_output, open_output
from sapwood.core.progress import step
from sapwood.report import split_report, to_json, treebank_report

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
        help="Also report what TRAIN lacks (words, tags, labels, rules), and which trees are in "
        "both.",
    ),
    top: int = typer.Option(12, min=1, metavar="N", help="Rows of each list; JSON lists all."),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Show what is in a treebank: sizes, lengths, labels, tags, rules, empty elements.

    Counts are of the trees as they are learnt: without empty elements, function tags and indices.
    --against compares with the training trees of a model.
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
        help="Prefix of the file names: `my-` writes my-train.mrg, my-dev.mrg and my-test.mrg, "
        "`parts/` writes parts/train.mrg and so on.",
    ),
    dev: str = typer.Option(
        "10%",
        metavar="SIZE",
        help="Fraction of all trees, such as 10%, or their number; 0 for none.",
    ),
    test: str = typer.Option(
        "10%",
        metavar="SIZE",
        help="Fraction of all trees, such as 10%, or their number; 0 for none.",
    ),
    by: By = typer.Option(
        "tree",
        help="tree draws trees at random. file draws whole files, so that no document is in "
        "two parts: choose it where files are documents. order cuts without drawing: train, "
        "then dev, then test; choose it where documents follow each other in one file.",
    ),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random numbers."),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Cut a treebank into train, dev and test.

    Each tree is in exactly one part, one tree per line, unchanged and in the order of the treebank.
    The same trees and seed give the same parts. Trees of one document resemble each other: if a
    document is in several parts, scores are too high.
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
    """Write the sentences of a treebank, one per line, words with blanks between them.

    Empty elements are left out, as in training. A tree with nothing else gives an empty line, so
    that lines stay aligned with trees. Of CoNLL-U, the column FORM is read.
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


LIST_EPILOG = """\b
Example:
  sapwood data list --json | jq -r '.[].name'
"""
CONVERT_EPILOG = """\b
Examples:
  sapwood data convert tiger.xml -o tiger.mrg --skip-bad
  sapwood data convert cess/ -o cess.mrg --encoding latin-1
  sapwood data convert corpus.export --from export --clean | head
  sapwood data convert rna structures.dbn -o structures.mrg
"""
FETCH_EPILOG = """\b
Example:
  sapwood data fetch ptb-sample
"""

RNA = "rna"  # the word that asks for the conversion of structures

app = typer.Typer(
    help="List open treebanks, fetch them, and convert your own to Penn brackets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog=LIST_EPILOG)
def list_command(as_json: opt.Json = False) -> None:
    """List the open corpora that can be fetched; needs no network."""
    from sapwood.corpora.fetch import list_corpora

    show([entry.as_dict() for entry in list_corpora()], list_text, as_json=as_json)


@app.command("fetch", epilog=FETCH_EPILOG)
def fetch_command(
    name: str = typer.Argument(..., metavar="NAME", help="A name from `sapwood data list`."),
    folder: Path | None = typer.Option(
        None,
        metavar="DIR",
        help="Where corpora are kept. Not needed when SAPWOOD_HOME names the folder.",
        show_default="SAPWOOD_HOME, else the user's cache folder",
    ),
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Download a corpus, check it, and write one file for each split; existing files are kept."""
    files = run_fetch(name, folder, echo, force=force)
    if as_json:
        report = {"name": name, "files": {split: str(path) for split, path in files.items()}}
        print(to_json(report, indent=2))


@app.command("convert", epilog=CONVERT_EPILOG)
def convert_command(  # noqa: PLR0913 - every option of the command is an argument
    files: list[str] = typer.Argument(
        ...,
        metavar="FILES",
        help="Trees: files (also .gz, .xz, .bz2), quoted globs, folders, or - for stdin.",
    ),
    *,
    out: Path | None = typer.Option(
        None, "--out", "-o", metavar="OUT", help="The new file.", show_default="stdout"
    ),
    format: str | None = typer.Option(
        None,
        "--from",
        "--format",
        callback=opt.check_format,
        metavar="FORMAT",
        help=f"Notation of FILES: {', '.join(opt.FORMAT_NAMES)}. Rarely needed: the notation is "
        "recognised from the beginning of each file.",
        show_default="recognised",
    ),
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    clean: bool = typer.Option(
        False,
        "--clean",
        help="Also cut traces, function tags and coindexation, as training does. Not needed "
        "for Sapwood, which does so when it reads them.",
    ),
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Write trees of any format as Penn brackets, UTF-8, one per line.

    Lemmas, codes and numbers are removed. Labels stay. Formats that keep functions apart from
    categories lose the functions, unless --keep-functions appends them to the category.

    The word `rna` before FILES (write ./rna for a file of that name) turns RNA structures in
    dot-bracket form into trees, and trees into dot-brackets.
    """
    from sapwood.corpora.formats import read_trees, write_trees
    from sapwood.corpora.tree import clean_all

    if files[0] == RNA and len(files) > 1:
        convert_rna(files[1:], out, force=force)
        return
    check_files(*files, out=out, force=force, may_stream=True)
    if as_json and out is None:
        raise typer.BadParameter("needs --out, because stdout takes the trees", param_hint="--json")
    reading = TreeReading(format, encoding, keep_functions, skip_bad)
    trees = read_trees(files, **reading.options())
    with open_output(out, force=force) as file:
        n_trees = write_trees(
            clean_all(trees, keep_functions=keep_functions) if clean else trees, file
        )
        reading.check(n_trees, ", ".join(files))
    reading.echo_skipped()
    echo(f"{count(n_trees, 'tree')}: {out}" if out else count(n_trees, "tree"))
    if as_json:
        skipped = [str(error) for error in reading.skipped]
        report = {"trees": n_trees, "skipped": skipped, "left_out": reading.left_out}
        print(to_json({"file": str(out)} | report, indent=2))


def list_text(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The table of corpora, one corpus per line."""
    rows = [
        (x["name"], x["kind"], size_text(x["bytes"]), "/".join(x["splits"]), x["licence"])
        for x in entries
    ]
    titles = ("name", "kind", "size", "splits", "licence")
    widths = [max(map(len, column)) + 2 for column in zip(titles, *rows, strict=True)]
    columns = {title: f"<{width}" for title, width in zip(titles, widths, strict=True)}
    whole = ((*row, entry["title"]) for row, entry in zip(rows, entries, strict=True))
    yield from table_lines(columns | {"what": "<1"}, whole)
    notes = [f"{entry['name']}: {entry['note']}" for entry in entries if entry["note"]]
    yield from ["", *notes] if notes else []


def run_fetch(
    name: str,
    folder: str | Path | None,
    echo: Callable[[str], None],
    *,
    base_url: str | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Fetch a corpus, report progress by `echo`, and return its files by split."""
    from sapwood.corpora.fetch import fetch, find_corpus

    entry = find_corpus(name)
    echo(
        f"{entry.name}: {size_text(entry.size)} in {count(len(entry.files), 'file')}, "
        f"{entry.licence}"
    )
    if entry.note:
        echo(f"note: {entry.note}")

    def progress(n_done: int, n_files: int, path: str) -> None:
        # About ten lines for any corpus: one for each of a hundred files would be noise.
        if n_done * 10 // n_files > (n_done - 1) * 10 // n_files:
            echo(f"1/2 download  {n_done:,}/{count(n_files, 'file')}")
        if n_done == n_files:
            echo("2/2 write")

    files = fetch(entry, folder, base_url=base_url, progress=progress, force=force)
    for split, path in files.items():
        echo(f"{split}: {path}")
    return files


def size_text(n_bytes: int) -> str:
    """Bytes in decimal units, as download pages show them.

    Examples
    --------
    >>> size_text(457429), size_text(3314357)
    ('457 kB', '3.3 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1_000_000 else f"{n_bytes / 1e3:.0f} kB"


NAME_COMMENT = "# name = "  # starts the comment before a tree that keeps the name of its structure


def convert_rna(files: list[str], out: Path | None, *, force: bool) -> None:
    """Write RNA structures as trees, one per line, or trees as records of dot-brackets."""
    from sapwood.corpora.files import peek_line
    from sapwood.corpora.formats import read_trees
    from sapwood.hankel.data import read_structures, structure_tree, tree_structure

    check_files(*files, out=out, force=force, may_stream=True)
    n = 0
    with open_output(out, force=force) as target:
        for file in files:
            first, lines = peek_line(stream_lines(file))
            if not first.lstrip().startswith(("(", "#")):  # as trees do; a record starts with >
                for found in read_structures(lines, file):
                    # a comment, which readers of trees pass over
                    target.write(f"{NAME_COMMENT}{found.name}\n" if found.name else "")
                    target.write(f"{structure_tree(found.bases, found.pairs)}\n")
                    n += 1
                continue
            whole = list(lines)
            names, n_before = _structure_names(whole), n
            text = StringIO("".join(whole))
            text.name = file  # for messages
            for n, tree in enumerate(read_trees(text), n + 1):  # noqa: B020
                try:
                    bases, pairs = tree_structure(tree)
                except CorpusError as error:
                    msg = f"tree {n}: {error.message}"
                    raise CorpusError(msg, file=file, hint=error.hint) from error
                target.write(f">{names.get(n - n_before) or n}\n{bases}\n{pairs}\n")
        if not n:
            msg = f"{', '.join(files)}: no structure found, and no tree"
            raise CorpusError(msg, hint="is the file empty?")
    echo(f"{count(n, 'structure')}: {out}" if out else count(n, "structure"))


def _structure_names(lines: list[str]) -> dict[int, str]:
    """The names in comments of trees that start a line, by the number of the tree, from 1."""
    names: dict[int, str] = {}
    n = 0
    for line in lines:
        if line.startswith(NAME_COMMENT):
            names[n + 1] = line.removeprefix(NAME_COMMENT).strip()
        n += line.startswith("(")
    return names
