"""How commands read trees: the options that all of them share, and what they tell about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import count, echo

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.errors import CorpusError

N_NAMED = 5  # files left out that are listed

# Written out, because the table itself takes longer to import than --help may take.
FORMAT_NAMES = (
    "penn", "joined", "psd", "psd-lemmas", "cess", "floresta", "sinica", "export", "tigerxml",
    "discbracket",
)  # fmt: skip


def known_format(name: str | None) -> str | None:
    """The name of a format, or None; a usage error when there is none of that name."""
    if name is not None and name not in FORMAT_NAMES:
        msg = f"{name!r} is not one of {', '.join(FORMAT_NAMES)}"
        raise typer.BadParameter(msg)
    return name


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        callback=known_format,
        metavar="NAME",
        help=f"How the trees are written: {', '.join(FORMAT_NAMES)}. Not needed for most: it is "
        "recognised, for each file, from its beginning.",
        show_default="recognised",
    ),
]
EncodingOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Of the trees' files, such as latin-1 or gb18030. Not needed for XML that names it.",
    ),
]
KeepFunctionsOption = Annotated[
    bool,
    typer.Option(
        "--keep-functions",
        help="Keep function tags: NP-SBJ stays apart from NP. Not for small treebanks, which then "
        "have too few trees for each label.",
    ),
]
SkipBadOption = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Count and skip trees that cannot be read, instead of stopping at the first. Not "
        "before you have looked at one.",
    ),
]


@dataclass(frozen=True)
class Reading:
    """How trees are read, and what was passed over on the way.

    Attributes
    ----------
    format, encoding, keep_functions, skip_bad
        The options of the command line.
    skipped, left_out
        The errors of broken trees, and the files of folders that are no treebanks, so far.
    """

    format: str | None = None
    encoding: str = "utf-8"
    keep_functions: bool = False
    skip_bad: bool = False
    skipped: list[CorpusError] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def options(self) -> dict[str, Any]:
        """What `read_trees` and `read_treebank` take."""
        return {
            "format": self.format,
            "encoding": self.encoding,
            "keep_functions": self.keep_functions,
            "skipped": self.skipped if self.skip_bad else None,
            "left_out": self.left_out,
        }

    def bank(self, sources: list[str], transform: Transform | None = None) -> Treebank:
        """A treebank; without any tree, the error says in which files, and why if all were bad."""
        from sapwood.corpus.treebank import read_treebank
        from sapwood.errors import CorpusError

        try:
            return read_treebank(sources, transform, **self.options())
        except CorpusError as error:
            if error.file is None:
                error.file = ", ".join(sources)
                error.hint = self._why(error.hint)
            raise

    def trees(self, source: str) -> list[Tree]:
        """The trees of a file as they are written; an error when there is none."""
        from sapwood.corpus.penn import read_trees

        return self._some(read_trees(source, **self.options()), source)

    def trees_of(self, lines: Iterable[str], source: str) -> Iterator[Tree]:
        """The trees of lines that are read already from a source."""
        from sapwood.corpus.files import source_name
        from sapwood.corpus.formats import read_lines

        return read_lines(
            lines,
            source_name(source),
            self.format,
            skipped=self.skipped if self.skip_bad else None,
            keep_functions=self.keep_functions,
        )

    def clean_trees(self, source: str) -> list[Tree]:
        """The cleaned trees of a file; an error when there is none."""
        from sapwood.corpus.clean import clean_all
        from sapwood.corpus.penn import read_trees

        trees = read_trees(source, **self.options())
        return self._some(clean_all(trees, keep_functions=self.keep_functions), source)

    def _some(self, trees: Iterable[Tree], source: str) -> list[Tree]:
        found = list(trees)
        self.check(len(found), source)
        return found

    def check(self, n_trees: int, source: str) -> None:
        """Refuse a source without any tree."""
        from sapwood.errors import CorpusError

        if not n_trees:
            msg = "no tree found"
            raise CorpusError(msg, file=source, hint=self._why("is the file empty?"))

    def _why(self, hint: str | None) -> str | None:
        if not self.skipped:
            return hint
        return f"{count(len(self.skipped), 'tree')} skipped; the first: {self.skipped[0]}"

    def tell(self) -> None:
        """Say what was passed over."""
        if self.skipped:
            n_trees = count(len(self.skipped), "broken tree")
            echo(f"skipped {n_trees}; the first: {self.skipped[0]}")
        if self.left_out:
            echo(f"{count(len(self.left_out), 'file')} skipped: {name_some(self.left_out)}")


def name_some(paths: list[str]) -> str:
    """The names of the first files.

    Examples
    --------
    >>> name_some(["x/a.doc", "x/b.doc"]), name_some([f"{n}.doc" for n in range(9)])
    ('a.doc, b.doc', '0.doc, 1.doc, 2.doc, 3.doc, 4.doc, ...')
    """
    names = [PurePath(path).name for path in paths[:N_NAMED]]
    return ", ".join([*names, "..."] if len(paths) > N_NAMED else names)
