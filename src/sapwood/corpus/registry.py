"""The open corpora that can be fetched: their files, checksums, licences and splits.

The facts stand in `registry_data/`: `corpora.tsv` has one line for each corpus, and `NAME.tsv` the
files of one corpus with path, SHA-256, bytes and split. Nothing here touches the network; that is
`sapwood.corpus.fetch`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sapwood.errors import CorpusError, SapwoodError

WHOLE = "all"  # the split of a corpus that comes without one
RAW = "raw"  # the only "split" of a corpus that is unpacked as it is
_ORDER = ("train", "dev", "test", WHOLE, RAW)
_DAMAGED = "Sapwood is not installed as it should be: install it again"
_COLUMNS = (
    "name", "title", "kind", "format", "encoding", "members", "ranges", "licence", "source",
    "base_url", "note",
)  # fmt: skip
_ABSENT = "-"  # an empty field of corpora.tsv


@dataclass(frozen=True)
class RemoteFile:
    """One file of a corpus.

    Parameters
    ----------
    path
        Where it lies below the base address.
    sha256
        The checksum in hexadecimal digits.
    size
        Its length in bytes.
    split
        The split that it belongs to; an archive, whose members are split by name, says `all`.
    """

    path: str
    sha256: str
    size: int
    split: str = WHOLE


@dataclass(frozen=True)
class SplitRange:
    """The members of an archive in one split: stems from `first` to `last`, both included."""

    split: str
    first: str
    last: str

    def __contains__(self, stem: str) -> bool:
        return self.first <= stem <= self.last


@dataclass(frozen=True)
class CorpusEntry:
    """One corpus that can be fetched.

    Parameters
    ----------
    name, title
        What the user types, and what it is.
    kind
        `trees`, `dependencies` or `text`.
    format
        How the originals are written: a key of `sapwood.corpus.fetch.FORMATS`, or `raw`.
    base_url
        The address that the paths of `files` continue.
    files
        Everything that is downloaded.
    licence, source
        The terms of use, and a page for people.
    members
        When the files are zip archives: the pattern of the members that are wanted.
    ranges
        How those members are split; empty when there is no split.
    encoding
        The encoding of the originals.
    note
        What else one should know before fetching.
    """

    name: str
    title: str
    kind: str
    format: str
    base_url: str
    files: tuple[RemoteFile, ...]
    licence: str = ""
    source: str = ""
    members: str = ""
    ranges: tuple[SplitRange, ...] = ()
    encoding: str = "utf-8"
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes to be downloaded."""
        return sum(file.size for file in self.files)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, train first."""
        if self.format == RAW:
            return (RAW,)
        parts: Iterable[RemoteFile | SplitRange] = self.ranges or self.files
        splits = {part.split for part in parts}
        usual = [split for split in _ORDER if split in splits]
        return (*usual, *sorted(splits.difference(usual)))

    def split_of(self, stem: str) -> str | None:
        """The split of an archive's member; None when it belongs to none."""
        if not self.ranges:
            return WHOLE
        return next((part.split for part in self.ranges if stem in part), None)

    def as_dict(self) -> dict[str, Any]:
        """Everything a listing needs, ready for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "bytes": self.size,
            "n_files": len(self.files),
            "splits": list(self.splits),
            "licence": self.licence,
            "source": self.source,
            "note": self.note,
        }


def list_corpora() -> list[CorpusEntry]:
    """All corpora of the registry, in its order.

    Examples
    --------
    >>> [entry.name for entry in list_corpora() if entry.kind == "text"]
    ['brown']
    """
    return list(_registry())


def find_corpus(name: str, entries: Iterable[CorpusEntry] | None = None) -> CorpusEntry:
    """The corpus of that name; capitals and the kind of dash do not matter.

    Parameters
    ----------
    name
        As in `sapwood data list`.
    entries
        Another registry to look in.

    Raises
    ------
    SapwoodError
        When there is none; the message names the nearest ones.

    Examples
    --------
    >>> find_corpus("UD_French_Sequoia").splits
    ('train', 'dev', 'test')
    """
    known = {_plain(entry.name): entry for entry in (_registry() if entries is None else entries)}
    entry = known.get(_plain(name))
    if entry is not None:
        return entry
    keys = difflib.get_close_matches(_plain(name), known, n=3, cutoff=0.5)
    near = [known[key].name for key in keys]
    names = near or [entry.name for entry in known.values()]
    lead = "did you mean" if near else "known are"
    msg = f"no corpus is called {name!r}; {lead} {', '.join(names)}{'?' if near else ''}"
    raise SapwoodError(msg, hint="`sapwood data list` shows all corpora")


@cache
def _registry() -> tuple[CorpusEntry, ...]:
    return tuple(_entry(row) for row in _rows("corpora", len(_COLUMNS)))


def _entry(row: list[str]) -> CorpusEntry:
    facts: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    facts = {name: "" if field == _ABSENT else field for name, field in facts.items()}
    facts["ranges"] = tuple(map(_range, facts["ranges"].split()))
    return CorpusEntry(**facts, files=tuple(_file(file) for file in _rows(facts["name"], 4)))


def _file(row: list[str]) -> RemoteFile:
    path, sha256, size, split = row
    if not (size.isascii() and size.isdecimal()):
        msg = f"{path} has {size!r} bytes, expected a number"
        raise CorpusError(msg, hint=_DAMAGED)
    return RemoteFile(path, sha256, int(size), WHOLE if split == "*" else split)


def _range(text: str) -> SplitRange:
    """Read `train:wsj_0001..wsj_0159`."""
    split, _, stems = text.partition(":")
    first, _, last = stems.partition("..")
    return SplitRange(split, first, last)


def _rows(name: str, n_fields: int) -> Iterator[list[str]]:
    file = f"{name}.tsv"
    try:
        table = files("sapwood.corpus").joinpath("registry_data", file)
        text = table.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        msg = f"a table of the registry cannot be read: {error}"
        raise CorpusError(msg, file=file, hint=_DAMAGED) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("#"):
            row = line.split("\t")
            if len(row) != n_fields:
                msg = f"expected {n_fields} fields, found {len(row)}"
                raise CorpusError(msg, file=file, line=number, hint=_DAMAGED)
            yield row


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
