"""Sentences for requests that do not fit the schema, in place of the validator's own text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

N_SHOWN = 60  # characters of a wrong value that are repeated
_KINDS = {
    "string": "a text", "int": "a whole number", "float": "a number", "list": "a list",
    "bool": "true or false", "model": "an object", "model_attributes": "an object",
    "dict": "an object",
}  # fmt: skip


def _bound(words: str, key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda context: f"{words} {context[key]:,}"


# What the validator's error types ask for; "{field} is {value}, expected ..." goes around it.
_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than_equal": _bound("a number of at least", "ge"),
    "greater_than": _bound("a number above", "gt"),
    "less_than_equal": _bound("a number of at most", "le"),
    "less_than": _bound("a number below", "lt"),
    "too_short": _bound("a list of at least", "min_length"),
    "too_long": _bound("a list of at most", "max_length"),
    "string_too_long": _bound("a text whose length in characters is at most", "max_length"),
    "literal_error": lambda context: f"one of {context['expected'].replace(' or ', ', ')}",
    "int_from_float": lambda _: "a whole number",
    "finite_number": lambda _: "a finite number",
    "string_unicode": lambda _: "a text that can be written as UTF-8",
}


def explain_invalid(errors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The first error of a validator, as what was wrong, what was found and what was expected.

    Parameters
    ----------
    errors
        As `RequestValidationError.errors` gives them.

    Returns
    -------
    dict
        `error` and `hint`.

    Examples
    --------
    >>> found = {"type": "less_than_equal", "loc": ("body", "words"), "input": 9, "ctx": {"le": 6}}
    >>> explain_invalid([found])["error"]
    '"words" is 9, expected a number of at most 6'
    """
    first = errors[0]
    kind, context = str(first["type"]), first.get("ctx") or {}
    field = ".".join(str(part) for part in first["loc"] if part != "body")[:80]
    name = f'"{field}"' if field else "the request"
    hint = "/docs on this server lists the fields of every question"
    if kind == "missing":
        return {"error": f"{name} is missing", "hint": hint}
    if kind == "extra_forbidden":
        return {"error": f"{name} is not a field of this question", "hint": hint}
    if kind == "json_invalid":
        return {"error": "the body of the request is not JSON", "hint": hint}
    if kind == "value_error":  # raised by our own checks, in our own words
        return {"error": str(first["msg"]).removeprefix("Value error, ")[:300], "hint": hint}
    return {
        "error": f"{name} is {_shown(first.get('input'))}, expected {_expected(kind, context)}",
        "hint": hint,
    }


def _expected(kind: str, context: Mapping[str, Any]) -> str:
    if kind in _EXPECTED:
        return _EXPECTED[kind](context)
    for suffix in ("_type", "_parsing", "_parsing_size"):
        if kind.removesuffix(suffix) in _KINDS:
            return _KINDS[kind.removesuffix(suffix)]
    return "something else"


def _shown(value: Any) -> str:
    """A wrong value in a few characters."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= N_SHOWN else f"{text[:N_SHOWN]}…"
