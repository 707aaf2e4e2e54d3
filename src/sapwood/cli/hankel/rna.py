"""`sapwood data convert rna`: RNA structures between dot-brackets and trees."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from sapwood.cli.console import echo
from sapwood.cli.inputs import claim_stdin, input_files, read_lines
from sapwood.core.errors import CorpusError, count
from sapwood.core.outputs import check_output, open_output

NAME = "# name = "  # starts the comment before a tree that keeps the name of its structure


def convert_rna(files: list[str], out: Path | None, *, force: bool) -> None:
    """Write RNA structures as trees, one a line, or trees as records of dot-brackets."""
    from sapwood.corpora.files import peek_line
    from sapwood.corpora.formats import read_trees
    from sapwood.hankel.data.rna import read_structures, structure_tree, tree_structure

    claim_stdin(*files)
    if out is not None:
        check_output(out, inputs=input_files(*files), force=force, may_stream=True)
    n = 0
    with open_output(out, force=force) as target:
        for file in files:
            first, lines = peek_line(read_lines(file))
            if not first.lstrip().startswith(("(", "#")):  # as trees do; a record starts with >
                for found in read_structures(lines, file):
                    # a comment, which readers of trees pass over
                    target.write(f"{NAME}{found.name}\n" if found.name else "")
                    target.write(f"{structure_tree(found.bases, found.pairs)}\n")
                    n += 1
                continue
            whole = list(lines)
            names, n_before = _names(whole), n
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


def _names(lines: list[str]) -> dict[int, str]:
    """The names in comments of trees that start a line, by the number of the tree, from 1."""
    names: dict[int, str] = {}
    n = 0
    for line in lines:
        if line.startswith(NAME):
            names[n + 1] = line.removeprefix(NAME).strip()
        n += line.startswith("(")
    return names
