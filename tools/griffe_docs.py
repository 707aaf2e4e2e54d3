"""Docstrings of learners as they are at run time, for the API reference.

Parameters of learners are declared once, with their domains and words; their part of the docstring
is made from that when a class is defined, and no reader of sources alone can see it.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe


class RunTimeDocstrings(griffe.Extension):
    """Takes the docstring of a class that declares parameters from the class itself."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Look at a class that was read."""
        if not cls.path.startswith("sapwood.estimators.") or cls.docstring is None:
            return
        found = griffe.dynamic_import(cls.path)
        if found.__doc__:
            text = inspect.cleandoc(found.__doc__)
            # a parameter of any type has a default all the same
            text = re.sub(r"^(\w+) : default ", r"\1 : object, default ", text, flags=re.MULTILINE)
            cls.docstring.value = text
