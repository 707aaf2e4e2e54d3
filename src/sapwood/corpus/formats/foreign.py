"""What people bring that holds no trees Sapwood can read, by name: nobody should have to guess."""

from __future__ import annotations

import re
from typing import NamedTuple

_ROW = re.compile(r"\d+(?:[-.]\d+)?\t[^\t\n]*(?:\t[^\t\n]*){6,}")
_COLUMNS = re.compile(r"\S+(?:\t[^\t\n]*){2,}")


class Kind(NamedTuple):
    """What a text seems to be, and what to do with it."""

    title: str
    hint: str


_DEPENDENCIES = Kind(
    "CoNLL-U", "dependencies are no phrase-structure trees; `sapwood words` takes its sentences"
)
_TABLE = Kind("a table of words", "bring the trees in brackets, or in the export format")
_JSON = Kind("JSON", "write the trees in brackets, one a line")
_XML = Kind("XML, but not TIGER-XML", "export it as TIGER-XML, NEGRA export or Penn brackets")
_BINARY = Kind("a binary file", "name the treebank itself; .gz, .xz and .bz2 may stay compressed")
_SENTENCES = Kind("plain sentences", "trees are expected here; `sapwood parse` takes sentences")


def kind_of(head: str) -> Kind | None:
    r"""What the beginning of a text that holds no trees seems to be; None when it is empty.

    Examples
    --------
    >>> kind_of("# sent_id = 1\n1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_").title
    'CoNLL-U'
    >>> kind_of('{"tree": "(S (X a))"}').title
    'JSON'
    """
    text = head.strip()
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not lines or text.startswith("("):
        return None
    if "\0" in text:
        return _BINARY
    if _ROW.match(lines[0]):
        return _DEPENDENCIES
    if text.startswith(("{", "[")):
        return _JSON
    if text.startswith("<"):
        return _XML
    return _TABLE if _COLUMNS.match(lines[0]) else _SENTENCES
