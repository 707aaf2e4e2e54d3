"""Methods and parameters of estimators on the command line: their names, options and misuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer

from sapwood.constituency.learn.registry import METHODS, Learner, Settings
from sapwood.constituency.learn.treebank_learner import OnPlainGrammar
from sapwood.core.learner import MAX_STATES, Parameter
from sapwood.core.registry import Method

__all__ = ["MAX_STATES", "METHODS", "Learner", "Settings"]  # for the commands that train

SEED = OnPlainGrammar.parameters()["seed"]
# option: the parameters that it sets; others are the same for all methods
OPTIONS = {
    "--states": ("n_states",), "--budget": ("budget",), "--iterations": ("iterations", "passes"),
    "--patience": ("patience",), "--checkpoint": ("checkpoint",),
}  # fmt: skip


def known_method_of(methods: Mapping[str, Method]) -> Callable[[str], str]:
    """A check of a method's name: the name itself, or a usage error that lists what exists."""

    def known_method(name: str) -> str:
        if name not in methods:
            msg = f"{name!r} is not one of the methods: {', '.join(methods)}"
            raise typer.BadParameter(msg)
        return name

    return known_method


known_method = known_method_of(METHODS)


def describe_methods(methods: Mapping[str, Method]) -> str:
    """The methods with what they do, for help texts."""
    return "; ".join(f"{name} ({method.summary})" for name, method in methods.items())


def option(default: object, declared: Parameter, more: str = "", **how: Any) -> Any:
    """An option that sets a parameter: range and help are those declared, and `more` words."""
    domain = declared.domain
    text = f"{declared.words} {more}".strip()
    return typer.Option(default, min=domain.least, max=domain.most, help=text, **how)


def refuse_what_does_not_apply(
    methods: Mapping[str, Method],
    options: Mapping[str, tuple[str, ...]],
    method: str,
    given: Mapping[str, Any],
) -> None:
    """A usage error for an option that the method has no parameter for, or not with this value.

    Parameters
    ----------
    options
        The parameters that each option sets, where a method has them.
    given
        Values of options; None for those that were left out.
    """
    for name in [name for name, value in given.items() if value is not None]:
        users = [x for x in methods if any(methods[x].has(y) for y in options[name])]
        if method not in users:
            msg = f"it does not apply to --method {method}; it applies to {', '.join(users)}"
            raise typer.BadParameter(msg, param_hint=name)
        for parameter in filter(methods[method].has, options[name]):
            domain = methods[method].estimator.parameters()[parameter].domain
            if isinstance(given[name], int) and given[name] not in domain:
                msg = f"it must be {domain.words.removeprefix('None or ')} for --method {method}"
                raise typer.BadParameter(msg, param_hint=name)
