"""`sapwood data`: list the open corpora, fetch one, and convert one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sapwood.cli.console import count, echo, print_json
from sapwood.cli.inputs import ForceOption, JsonOption, claim_stdin, input_files
from sapwood.cli.reading import (
    FORMAT_NAMES,
    EncodingOption,
    KeepFunctionsOption,
    Reading,
    SkipBadOption,
    known_format,
)
from sapwood.outputs import check_output, open_output

if TYPE_CHECKING:
    from sapwood.corpus.registry import CorpusEntry

LIST_EPILOG = """\b
Example:
  sapwood data list --json | jq -r '.[].name'
"""
CONVERT_EPILOG = """\b
Examples:
  sapwood data convert tiger.xml -o tiger.mrg --skip-bad
  sapwood data convert cess/ -o cess.mrg --encoding latin-1
  sapwood data convert corpus.export --from export --clean | head
"""
FETCH_EPILOG = """\b
Example:
  sapwood data fetch ptb-sample
"""

app = typer.Typer(
    help="List open treebanks, fetch them, and convert your own to Penn brackets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", epilog=LIST_EPILOG)
def list_command(as_json: JsonOption = False) -> None:
    """List the open corpora that can be fetched; needs no network."""
    from sapwood.corpus.registry import list_corpora

    entries = list_corpora()
    if as_json:
        print_json([entry.as_dict() for entry in entries])
    else:
        print(list_text(entries))


@app.command("fetch", epilog=FETCH_EPILOG)
def fetch_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As in `sapwood data list`.", show_default=False)
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where corpora are kept. Not needed when SAPWOOD_HOME names the folder.",
            show_default="SAPWOOD_HOME, else the user's cache folder",
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Download a corpus, check it, and write one file for each split; what is there is kept."""
    files = run_fetch(name, folder, echo, force=force)
    if as_json:
        print_json({"name": name, "files": {split: str(path) for split, path in files.items()}})


@app.command("convert", epilog=CONVERT_EPILOG)
def convert_command(  # noqa: PLR0913 - every option of the command is an argument
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help="Trees: files (also .gz, .xz, .bz2), quoted globs, folders, or - for stdin.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT", help="The new file.", show_default="stdout"),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--format",
            callback=known_format,
            metavar="FORMAT",
            help=f"How FILES are written: {', '.join(FORMAT_NAMES)}. Not needed for most: it is "
            "recognised, for each file, from its beginning.",
            show_default="recognised",
        ),
    ] = None,
    encoding: EncodingOption = "utf-8",
    keep_functions: KeepFunctionsOption = False,
    skip_bad: SkipBadOption = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="Also cut traces, function tags and coindexation, as training does. Not needed "
            "for Sapwood, which does so when it reads them.",
        ),
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write trees of any format as Penn brackets, UTF-8, one a line.

    Lemmas, codes and numbers go. Labels stay; of formats that keep categories and functions apart,
    functions go too, unless --keep-functions puts them behind the category.
    """
    from sapwood.corpus.clean import clean_all
    from sapwood.corpus.penn import read_trees, write_trees

    claim_stdin(*files)
    if out is not None:
        check_output(out, inputs=input_files(*files), force=force, may_stream=True)
    elif as_json:
        msg = "needs --out, because stdout takes the trees"
        raise typer.BadParameter(msg, param_hint="--json")
    reading = Reading(format, encoding, keep_functions, skip_bad)
    trees = read_trees(files, **reading.options())
    with open_output(out, force=force) as file:
        n_trees = write_trees(
            clean_all(trees, keep_functions=keep_functions) if clean else trees, file
        )
        reading.check(n_trees, ", ".join(files))
    reading.tell()
    echo(f"{count(n_trees, 'tree')}: {out}" if out else count(n_trees, "tree"))
    if as_json:
        skipped = [str(error) for error in reading.skipped]
        report = {"trees": n_trees, "skipped": skipped, "left_out": reading.left_out}
        print_json({"file": str(out)} | report)


_HEADER = ("name", "kind", "size", "splits", "licence", "what")


def list_text(entries: Iterable[CorpusEntry]) -> str:
    """A table of corpora, one a line, for people; `CorpusEntry.as_dict` is for machines."""
    entries = list(entries)
    rows = [_HEADER, *(_row(entry) for entry in entries)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER) - 1)]
    lines = []
    for *cells, last in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join([*padded, last]))
    notes = [f"{entry.name}: {entry.note}" for entry in entries if entry.note]
    return "\n".join([*lines, "", *notes] if notes else lines)


def run_fetch(
    name: str,
    folder: str | Path | None,
    echo: Callable[[str], None],
    *,
    base_url: str | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Fetch one corpus, say how far it is, and return the files by split.

    Parameters
    ----------
    name
        As in the list.
    folder
        Where corpora are kept; None means the default folder.
    echo
        Takes one line at a time; these lines are for people, on stderr.
    base_url
        Another address for the same files.
    force
        Whether files may be replaced that Sapwood did not write.
    """
    from sapwood.corpus.fetch import fetch
    from sapwood.corpus.registry import find_corpus

    entry = find_corpus(name)
    echo(f"{entry.name}: {size_text(entry.size)} in {len(entry.files)} files, {entry.licence}")
    if entry.note:
        echo(f"note: {entry.note}")

    def progress(n_done: int, n_files: int, path: str) -> None:
        # About ten lines for any corpus: one for each of a hundred files would be noise.
        if n_done * 10 // n_files > (n_done - 1) * 10 // n_files:
            echo(f"1/2 download  {n_done:,}/{n_files:,} files")
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


def _row(entry: CorpusEntry) -> tuple[str, ...]:
    splits = "/".join(entry.splits)
    return entry.name, entry.kind, size_text(entry.size), splits, entry.licence, entry.title
