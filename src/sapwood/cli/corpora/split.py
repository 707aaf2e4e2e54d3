"""`sapwood split`: a treebank into parts to train on, to choose with, and to report on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import Reading, claim_stdin, input_files
from sapwood.cli.tables import show, table_lines
from sapwood.core.outputs import check_output, hold_output, open_output
from sapwood.report import split_report

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree

By = Literal["tree", "file", "order"]
ENDING = ".mrg"
EPILOG = """\b
Examples:
  sapwood split trees.mrg -o my-
  sapwood split 'wsj/**/*.mrg' --by file --dev 5% --test 500 -o parts/
  zcat trees.gz | sapwood split - --test 0 --seed 7 -o my-
"""


def split(  # noqa: PLR0913 - every option of the command is an argument
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
    from sapwood.constituency.data.split import PARTS, part_size, split_trees

    claim_stdin(*treebanks)
    reading = Reading(format, encoding, skip_bad=skip_bad)
    paths = {name: Path(f"{prefix}{name}{ENDING}") for name in PARTS}
    for path in paths.values():
        others = [other for other in paths.values() if other != path]
        check_output(path, inputs=input_files(*treebanks), others=others, force=force)
    with hold_output(paths["train"]):  # the parts of two runs must not be mixed
        trees, files = _read(treebanks, reading)
        reading.tell()
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
    show(rows, _text, as_json=as_json)


def _read(treebanks: list[str], reading: Reading) -> tuple[list[Tree], list[int]]:
    """All trees, and the number of the file that each is from."""
    from sapwood.corpora.file_memory import TREES, require_reading_memory
    from sapwood.corpora.formats import read_trees, treebank_files

    trees: list[Tree] = []
    files: list[int] = []
    sources = treebank_files(treebanks, reading.encoding, reading.left_out)
    require_reading_memory(sources, TREES)
    for number, source in enumerate(sources):
        trees += read_trees(source, **reading.options())
        files += [number] * (len(trees) - len(files))
    return trees, files


def _text(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(len(row["file"]) for row in rows)
    columns = {"part": "<7", "file": f"<{width}", "trees": ">10,", "words": ">11,"}
    head, *lines = table_lines(columns, ([row[name] for name in columns] for row in rows))
    yield head
    for line, row in zip(lines, rows, strict=True):
        also = row["also_in_train"]
        yield line + (f"  {also:,} also in train" if also else "")
