"""How commands read trees, and what they tell about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from sapwood.cli.console import echo
from sapwood.cli.tables import name_some
from sapwood.errors import CorpusError, count

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import StoredTreebank, Treebank

N_NAMED = 5  # files left out that are listed


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

        with self.explain(sources):
            return read_treebank(sources, transform, **self.options())

    def stored_bank(
        self, sources: list[str], folder: Path, transform: Transform | None = None
    ) -> StoredTreebank:
        """The same in files of a folder."""
        from sapwood.corpus.treebank import StoredTreebank

        with self.explain(sources):
            return StoredTreebank.read(sources, folder, transform, **self.options())

    @contextmanager
    def explain(self, sources: list[str]) -> Iterator[None]:
        """Name the files in an error about all of them, and why each tree was bad."""
        try:
            yield
        except CorpusError as error:
            if error.file is None:
                error.file = ", ".join(sources)
                error.hint = self._why(error.hint)
            raise

    def trees(self, source: str) -> list[Tree]:
        """The trees of a file as they are written; an error when there is none."""
        from sapwood.corpus.formats import read_trees

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
        from sapwood.corpus.formats import read_trees
        from sapwood.corpus.tree import clean_all

        trees = read_trees(source, **self.options())
        return self._some(clean_all(trees, keep_functions=self.keep_functions), source)

    def _some(self, trees: Iterable[Tree], source: str) -> list[Tree]:
        found = list(trees)
        self.check(len(found), source)
        return found

    def check(self, n_trees: int, source: str) -> None:
        """Refuse a source without any tree."""
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
            names = name_some((PurePath(path).name for path in self.left_out), N_NAMED)
            echo(f"{count(len(self.left_out), 'file')} skipped: {names}")
