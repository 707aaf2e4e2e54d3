"""`sapwood data`: list the open corpora, and fetch one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapwood.corpus.registry import CorpusEntry

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

    files = fetch(entry, folder, base_url=base_url, progress=progress)
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
