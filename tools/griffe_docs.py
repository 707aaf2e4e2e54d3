"""Docstrings as the API reference needs them.

Parameters of learners are declared once, with their domains and words; their part of the docstring
is made from that when a class is defined, and no reader of sources alone can see it.

Parameters that share their words (`epsilon, delta`) stand on one line. Griffe would give the type
and the default of the first to all of them.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

SHARED = re.compile(
    r"^(?P<names>\w+(?:, \w+)+)(?P<type>(?: : .*)?)\n(?P<words>(?:(?: +.*)?(?:\n|\Z))+)",
    re.MULTILINE,
)


class RunTimeDocstrings(griffe.Extension):
    """Takes the docstring of a class that declares parameters from the class itself."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Look at a class that was read."""
        if ".learn." not in cls.path or cls.docstring is None:
            return
        found = griffe.dynamic_import(cls.path)
        if found.__doc__:
            text = inspect.cleandoc(found.__doc__)
            # a parameter of any type has a default all the same
            text = re.sub(r"^(\w+) : default ", r"\1 : object, default ", text, flags=re.MULTILINE)
            cls.docstring.value = text


class OneParameterALine(griffe.Extension):
    """Gives parameters that share their words a line each."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at anything that was read."""
        if obj.docstring is not None:
            obj.docstring.value = one_a_line(obj.docstring.value)


def one_a_line(docstring: str) -> str:
    r"""A docstring whose parameters have a line each.

    Examples
    --------
    >>> one_a_line("Parameters\n----------\na, b : [n]\n    All.\nc, d\n    More.").splitlines()[2:]
    ['a : [n]', '    All.', 'b : [n]', '    All.', 'c', '    More.', 'd', '    More.']
    """
    head, title, rest = docstring.partition("Parameters\n----------\n")
    end = re.search(r"^\w+\n-+$", rest, re.MULTILINE)
    ours, others = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    return head + title + SHARED.sub(_each, ours) + others


def _each(shared: re.Match[str]) -> str:
    words = shared["words"].rstrip("\n")
    entries = [f"{name}{shared['type']}\n{words}" for name in shared["names"].split(", ")]
    return "\n".join(entries) + shared["words"][len(words) :]
