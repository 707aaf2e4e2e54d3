"""`sapwood data`: list the open corpora, fetch one, and convert one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import TreeReading, check_files, stream_lines
from sapwood.cli.reports import show, table_lines
from sapwood.core.errors import CorpusError, count
from sapwood.core.outputs import open_output
from sapwood.report import to_json

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
    name: str = typer.Argument(..., metavar="NAME", help="As in `sapwood data list`."),
    folder: Path | None = typer.Option(
        None,
        metavar="DIR",
        help="Where corpora are kept. Not needed when SAPWOOD_HOME names the folder.",
        show_default="SAPWOOD_HOME, else the user's cache folder",
    ),
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Download a corpus, check it, and write one file for each split; what is there is kept."""
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
        help=f"How FILES are written: {', '.join(opt.FORMAT_NAMES)}. Not needed for most: it is "
        "recognised, for each file, from its beginning.",
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
    """Write trees of any format as Penn brackets, UTF-8, one a line.

    Lemmas, codes and numbers go. Labels stay; of formats that keep categories and functions apart,
    functions go too, unless --keep-functions puts them behind the category.

    The word `rna` before FILES (write ./rna for a file of that name) turns RNA structures in
    dot-bracket form into trees, and trees into dot-brackets.
    """
    from sapwood.corpora.formats import read_trees, write_trees
    from sapwood.corpora.tree import clean_all

    if files[0] == RNA and len(files) > 1:
        from sapwood.cli.corpora.data import convert_rna

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
    """The table of corpora, one corpus a line."""
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
    """Write RNA structures as trees, one a line, or trees as records of dot-brackets."""
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
