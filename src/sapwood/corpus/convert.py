"""Converters: from the formats that corpora are published in to those that Sapwood reads."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator

from sapwood.corpus import formats
from sapwood.corpus.formats import read_lines
from sapwood.errors import CorpusError

Skipped = list[CorpusError]
Convert = Callable[[str, str, Skipped], Iterator[str]]


def convert_trees(format: str) -> Convert:
    """A converter of one of `sapwood.corpus.formats` to brackets, one tree a line."""

    def convert(text: str, name: str, skipped: Skipped) -> Iterator[str]:
        for tree in read_lines(io.StringIO(text), name, format, skipped=skipped):
            yield f"{tree}\n"

    return convert


def convert_dp(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Lines `word tag head` and blank lines between sentences become CoNLL-U without labels."""
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if position:
                yield "\n"
            position = 0
            continue
        fields = line.strip().split("\t" if "\t" in line.strip() else None)
        if len(fields) != 3 or not _HEAD.fullmatch(fields[2].strip()):
            msg = f"expected word, tag and head, found {line.strip()[:80]!r}"
            raise CorpusError(msg, file=name, line=number)
        word, tag, head = (field.strip() for field in fields)
        position += 1
        relation = "root" if int(head) == 0 else "dep"
        yield f"{position}\t{word}\t_\t{tag}\t{tag}\t_\t{int(head)}\t{relation}\t_\t_\n"
    if position:
        yield "\n"


def convert_tagged(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """One sentence a line, `word/tag`; only the blanks around and between them are made even."""
    return (" ".join(line.split()) + "\n" for line in text.split("\n") if line.strip())


def convert_conllu(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """CoNLL-U stays as it is."""
    yield text


_HEAD = re.compile(r"\d{1,9}")  # int() refuses digits by the thousand

FORMATS: dict[str, tuple[Convert, str]] = {
    name: (convert_trees(name), ".mrg") for name in formats.FORMATS
} | {
    "dp": (convert_dp, ".conllu"),
    "conllu": (convert_conllu, ".conllu"),
    "tagged": (convert_tagged, ".tagged"),
}
