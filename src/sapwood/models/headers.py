"""What the header of a model file may say besides its arrays.

A label that is no text would be noticed only when a tree is written: it is refused where the file
is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sapwood.arguments import describe
from sapwood.corpus.transform import Symbol, Transform
from sapwood.corpus.words import STYLES
from sapwood.errors import ModelFormatError


def read_symbols(value: Any, kind: str) -> tuple[Symbol, ...]:
    """The symbols of a header: rows of chain, ancestors and context."""
    symbols = []
    for row in _a_list(value, kind):
        if not isinstance(row, list) or len(row) != 3 or not row[0]:
            msg = f"one of the {kind} is {describe(row)}, expected labels, ancestors and context"
            raise ModelFormatError(msg)
        chain, ancestors = (read_names(part, kind) for part in row[:2])
        context = None if row[2] is None else read_names(row[2], kind)
        symbols.append(Symbol(chain, ancestors, context))
    return tuple(symbols)


def read_names(value: Any, kind: str) -> tuple[str, ...]:
    """A list of strings."""
    names = _a_list(value, kind)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        msg = f"one of the {kind} is {describe(wrong[0])}, expected a string"
        raise ModelFormatError(msg)
    return tuple(names)


def read_style(value: Any) -> str:
    """How unknown words are classed."""
    if value not in STYLES:
        known = ", ".join(STYLES)
        msg = f"the style of unknown words is {describe(value)}, expected one of {known}"
        raise ModelFormatError(msg)
    return str(value)


def read_flag(value: Any, name: str) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        msg = f"{name} is {describe(value)}, expected true or false"
        raise ModelFormatError(msg)
    return value


def read_transform(value: Any) -> Transform:
    """How trees are made binary."""
    if not isinstance(value, dict) or not value.keys() <= Transform().as_dict().keys():
        msg = f"the transform is {describe(value)}, expected settings"
        raise ModelFormatError(msg)
    read_flag(value.get("tag_parents", False), "tag_parents")
    return Transform(**value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _is_table(value: Any, is_item: Callable[[Any], bool]) -> bool:
    """Whether it is an object of lists of such items."""
    return isinstance(value, dict) and all(
        isinstance(row, list) and all(map(is_item, row)) for row in value.values()
    )


# what reports read out of a training record; everything else in it is shown as it is
_RECORD: dict[str, Callable[[Any], bool]] = {
    "method": lambda value: isinstance(value, str),
    "iterations": lambda value: isinstance(value, int),
    "dev_f1": lambda value: value is None or _is_number(value),
    "pivots": lambda value: _is_table(value, lambda item: isinstance(item, str)),
    "spectrum": lambda value: _is_table(value, _is_number),
}


def read_record(value: Any) -> dict[str, Any]:
    """How a model was made."""
    if not isinstance(value, dict):
        msg = f"the training record is {describe(value)}, expected an object"
        raise ModelFormatError(msg)
    for name, is_right in _RECORD.items():
        if name in value and not is_right(value[name]):
            msg = f"the training record cannot have {describe(value[name])} as its {name}"
            raise ModelFormatError(msg)
    return value


def _a_list(value: Any, kind: str) -> list[Any]:
    if not isinstance(value, list):
        msg = f"the {kind} are {describe(value)}, expected a list"
        raise ModelFormatError(msg)
    return value
