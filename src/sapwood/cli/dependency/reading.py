"""Arguments and options of the commands about dependency trees, and their reader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.inputs import TreeReading
from sapwood.core.errors import CorpusError, join_words

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from sapwood.dependency.data.bank import ArcBank, Arcs
    from sapwood.dependency.data.reader import CandidateLists
    from sapwood.dependency.parse.constraints import PartialArcs
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="CoNLL-U: files (also .gz, .xz, .bz2), quoted globs, folders, or - for stdin.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        help="Write here instead of to stdout (-); the file appears when it is complete.",
        show_default="stdout",
    ),
]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Of the files, such as latin-1.")]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Count and skip sentences that cannot be read, instead of stopping at the first. Not "
        "before you have looked at one.",
    ),
]


def _partial_heads(cells: list[str], lines: list[int]) -> list[int | None]:
    """The heads of a column whose cells may be empty."""
    from sapwood.dependency.data.bank import EMPTY

    heads: list[int | None] = []
    for word, (cell, line) in enumerate(zip(cells, lines, strict=True), 1):
        if cell != EMPTY and not (cell.isdecimal() and cell.isascii() and len(cell) < 9):
            msg = f"word {word} has the head {cell!r}, expected a number, or _ where it is free"
            raise CorpusError(msg, line=line, hint="column 7 is the place of the head, 0 the root")
        heads.append(None if cell == EMPTY else int(cell))
    return heads


@dataclass(frozen=True)
class ArcReading(TreeReading):
    """Reads dependency trees, and collects the sentences and files that were skipped."""

    def _arc_options(self) -> dict[str, Any]:
        """Options of all readers of CoNLL-U."""
        skipped = self.skipped if self.skip_bad else None
        return {"encoding": self.encoding, "skipped": skipped, "left_out": self.left_out}

    def arcs(self, sources: list[str], *, may_be_empty: bool = False) -> ArcBank:
        """The sentences of CoNLL-U files; where there is none, an error unless that is allowed."""
        from sapwood.dependency.data.reader import read_arcs

        with self.explain(sources):
            return read_arcs(sources, may_be_empty=may_be_empty, **self._arc_options())

    def stream(self, source: str) -> Iterator[Arcs]:
        """The sentences of CoNLL-U one by one, without their heads."""
        from sapwood.dependency.data.reader import stream_arcs

        with self.explain([source]):
            yield from stream_arcs(source, has_heads=False, **self._arc_options())

    def partial(
        self, source: str, constrain: Callable[[PartialArcs], object], *, tags: bool, tree: bool
    ) -> Generator[PartialArcs, None, None]:
        """The sentences of CoNLL-U one by one, with the cells that are filled in.

        Parameters
        ----------
        constrain
            Raises an `ArcConstraintError` where the parser cannot keep what is given.
        tags, tree
            What is kept: tags; heads and relations.
        """
        from sapwood.dependency.data.bank import EMPTY
        from sapwood.dependency.data.reader import stream_partial_arcs
        from sapwood.dependency.parse.constraints import ArcConstraintError, PartialArcs

        def checked(
            arcs: Arcs, heads: list[str], relations: list[str], lines: list[int]
        ) -> PartialArcs:
            asked = PartialArcs(
                arcs,
                list(zip(arcs.upos, arcs.xpos, strict=True)) if tags else None,
                _partial_heads(heads, lines) if tree else None,
                [None if name == EMPTY else name for name in relations] if tree else None,
            )
            try:
                constrain(asked)
            except ArcConstraintError as error:
                *others, word = sorted(error.words) or [1]
                numbers = join_words(str(lines[other - 1]) for other in others) if others else ""
                where = f" (see line{'s' * (len(others) > 1)} {numbers})" if numbers else ""
                raise CorpusError(
                    f"{error.message}{where}", line=lines[word - 1], hint=error.hint
                ) from error
            return asked

        with self.explain([source]):
            yield from stream_partial_arcs(source, checked, **self._arc_options())

    def lists(self, sources: list[str]) -> CandidateLists:
        """CoNLL-U with a list of candidate trees for each sentence; an empty file has none."""
        from sapwood.dependency.data.reader import read_lists

        with self.explain(sources):
            return read_lists(sources, may_be_empty=True, **self._arc_options())

    def as_arcs(self, sources: list[str], heads: str) -> ArcBank:
        """The sentences of CoNLL-U files, or of phrase-structure trees turned into arcs."""
        from sapwood.dependency.data.transform import read_as_arcs

        with self.explain(sources):
            return read_as_arcs(sources, heads=heads, format=self.format, **self._arc_options())
