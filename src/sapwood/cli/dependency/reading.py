"""What the commands about arcs share: arguments, options, and how sentences are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sapwood.cli.inputs import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sapwood.dependency.data.bank import ArcBank, Arcs
    from sapwood.dependency.data.lists import CandidateLists

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


@dataclass(frozen=True)
class ArcReading(Reading):
    """How arcs are read, and what was passed over on the way."""

    def arcs(self, sources: list[str], *, has_heads: bool = True) -> ArcBank:
        """CoNLL-U; without any sentence, the error says in which files, and why."""
        from sapwood.dependency.data.reader import read_arcs

        with self.explain(sources):
            return read_arcs(
                sources,
                has_heads=has_heads,
                encoding=self.encoding,
                skipped=self.skipped if self.skip_bad else None,
                left_out=self.left_out,
            )

    def stream(self, source: str) -> Iterator[Arcs]:
        """The sentences of CoNLL-U one by one, without their heads."""
        from sapwood.dependency.data.reader import stream_arcs

        with self.explain([source]):
            yield from stream_arcs(
                source,
                has_heads=False,
                encoding=self.encoding,
                skipped=self.skipped if self.skip_bad else None,
                left_out=self.left_out,
            )

    def lists(self, sources: list[str]) -> CandidateLists:
        """Several trees a sentence."""
        from sapwood.dependency.data.lists import read_lists

        with self.explain(sources):
            return read_lists(
                sources,
                encoding=self.encoding,
                skipped=self.skipped if self.skip_bad else None,
                left_out=self.left_out,
            )

    def as_arcs(self, sources: list[str], heads: str) -> ArcBank:
        """CoNLL-U, or phrase-structure trees as arcs."""
        from sapwood.dependency.data.from_trees import read_as_arcs

        with self.explain(sources):
            return read_as_arcs(
                sources,
                heads=heads,
                format=self.format,
                encoding=self.encoding,
                skipped=self.skipped if self.skip_bad else None,
                left_out=self.left_out,
            )
