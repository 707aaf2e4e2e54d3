"""Methods and parameters of estimators on the command line: their names, options and misuse."""

from __future__ import annotations

from typing import Any

import typer

from sapwood.estimators.base import MAX_STATES, OnPlainGrammar, Parameter
from sapwood.estimators.registry import Learner, Settings, methods_of

__all__ = ["MAX_STATES", "METHODS", "Learner", "Settings"]  # for the commands that train

METHODS = methods_of("trees")
SEED = OnPlainGrammar.parameters()["seed"]
# option: the parameters that it sets; others are the same for all methods
OPTIONS = {
    "--states": ("n_states",), "--budget": ("budget",), "--iterations": ("iterations", "passes"),
    "--patience": ("patience",), "--checkpoint": ("checkpoint",),
}  # fmt: skip


def known_method(name: str) -> str:
    """The name itself; a usage error that lists what exists when there is no such method."""
    if name not in METHODS:
        msg = f"{name!r} is not a method; there are: {', '.join(METHODS)}"
        raise typer.BadParameter(msg)
    return name


def describe_methods() -> str:
    """The methods with what they do, for help texts."""
    return "; ".join(f"{name} ({method.summary})" for name, method in METHODS.items())


def option(default: object, declared: Parameter, more: str = "", **how: Any) -> Any:
    """An option that sets a parameter: range and help are those declared, and `more` words."""
    domain = declared.domain
    text = f"{declared.words} {more}".strip()
    return typer.Option(default, min=domain.least, max=domain.most, help=text, **how)


def refuse_what_does_not_apply(method: str, given: dict[str, Any]) -> None:
    """A usage error for an option that the method has no parameter for."""
    for name in [name for name, value in given.items() if value is not None]:
        users = [x for x in METHODS if any(METHODS[x].has(y) for y in OPTIONS[name])]
        if method not in users:
            msg = f"it does not apply to --method {method}; it applies to {', '.join(users)}"
            raise typer.BadParameter(msg, param_hint=name)
