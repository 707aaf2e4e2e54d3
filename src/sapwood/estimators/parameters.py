"""Parameters of estimators: each is declared once, and everything else follows from that.

    class SpectralLPCFG(TreebankEstimator):
        shrinkage: float = parameter(20.0, at_least(0), "C of the smoothing of tensors.")

The constructor, what `help()` says, the check before fitting and its message, and the options of
the command line are made of these declarations. Nothing here imports NumPy, so that `--help` can
read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from inspect import Parameter as Argument
from inspect import Signature, cleandoc, get_annotations
from numbers import Real
from textwrap import indent, wrap
from typing import Any, Literal, Self, TypeVar, cast, dataclass_transform

from sapwood.errors import SapwoodError

T = TypeVar("T")
DOC_WIDTH = 92  # of the words in a docstring, before it is indented


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may have.

    Attributes
    ----------
    words
        The values in words, which complete "must be".
    test
        Whether a value is one of them.
    least, most
        Bounds of whole numbers, where there are any.
    """

    words: str
    test: Callable[[Any], bool]
    least: int | None = None
    most: int | None = None

    def __contains__(self, value: object) -> bool:
        return bool(self.test(value))


ANYTHING = Domain("anything", lambda _: True)  # whoever uses the value says what is wrong with it
FLAG = Domain("True or False", lambda value: value in (True, False))


def whole(least: int, most: int | None = None) -> Domain:
    """Whole numbers.

    Examples
    --------
    >>> whole(1, 256).words, 256 in whole(1, 256), 0 in whole(1), True in whole(1)
    ('a whole number from 1 to 256', True, False, False)
    """
    words = f"a whole number from {least} " + ("up" if most is None else f"to {most}")

    def test(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and least <= value and (most is None or value <= most)

    return Domain(words, test, least, most)


def at_least(low: float) -> Domain:
    """Numbers from a bound up."""
    return Domain(f"{low:g} or more", lambda value: _is_number(value) and value >= low)


def between(low: float, high: float, ends: str = "[]") -> Domain:
    """Numbers of an interval; a round bracket excludes its end.

    Examples
    --------
    >>> between(0, 1, "[)").words, 1 in between(0, 1, "[)"), 1 in between(0, 1)
    ('at least 0 and below 1', False, True)
    """
    lower = f"{'at least' if ends[0] == '[' else 'above'} {low:g}"
    upper = f"{'at most' if ends[1] == ']' else 'below'} {high:g}"

    def test(value: Any) -> bool:
        is_within = _is_number(value) and low <= value <= high
        return is_within and (ends[0] == "[" or value > low) and (ends[1] == "]" or value < high)

    return Domain(f"{lower} and {upper}", test)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # NumPy's are Real too


def one_of(names: Iterable[str]) -> Domain:
    """One of some words."""
    known = tuple(names)
    return Domain(f"one of {', '.join(known)}", lambda value: value in known)


def maybe(domain: Domain) -> Domain:
    """A domain, or None."""
    return replace(
        domain, words=f"None or {domain.words}", test=lambda value: value is None or value in domain
    )


@dataclass(frozen=True, eq=False)
class Parameter:
    """What is known about one parameter.

    Attributes
    ----------
    default
        Its value when none is given.
    domain
        The values that it may have; checked when fitting.
    words
        What it does.
    is_positional
        Whether it can be given without its name.
    changes_model
        Whether what is learnt depends on it.
    """

    default: Any
    domain: Domain
    words: str
    is_positional: bool = False
    changes_model: bool = True

    def __get__(self, instance: object, owner: type) -> Any:
        """The declaration for a class, the default for an instance that has no value of its own."""
        return self if instance is None else self.default


def parameter(default: T, domain: Domain, words: str, *, changes_model: bool = True) -> T:
    """Declare a parameter in the body of an estimator's class."""
    return cast("T", Parameter(default, domain, words, changes_model=changes_model))


def positional(*, default: T, domain: Domain, words: str, kw_only: Literal[False]) -> T:
    """Declare the parameter that can be given without its name.

    Type checkers learn that from `default` and `kw_only` in the call.
    """
    return cast("T", Parameter(default, domain, words, is_positional=not kw_only))


def parameters_of(cls: type) -> dict[str, Parameter]:
    """Parameters that a class declares or inherits.

    Its own come before inherited ones, since they say more about it; the positional one comes
    first, and those that change no model last.
    """
    found: dict[str, Parameter] = {}
    for kind in cls.__mro__:
        for name, value in vars(kind).items():
            if isinstance(value, Parameter):
                found.setdefault(name, value)
    return dict(
        sorted(found.items(), key=lambda x: (not x[1].is_positional, not x[1].changes_model))
    )


def constructor(cls: type) -> Callable[..., None]:
    """A function `__init__` with the class's parameters for arguments, which only stores them."""
    types: dict[str, Any] = {}
    for kind in reversed(cls.__mro__):
        types |= get_annotations(kind)
    arguments = [Argument("self", Argument.POSITIONAL_OR_KEYWORD)]
    for name, declared in parameters_of(cls).items():
        how = Argument.POSITIONAL_OR_KEYWORD if declared.is_positional else Argument.KEYWORD_ONLY
        arguments.append(
            Argument(
                name, how, default=declared.default, annotation=types.get(name, Argument.empty)
            )
        )
    signature = Signature(arguments, return_annotation=None)

    def __init__(*given: Any, **named: Any) -> None:  # noqa: N807 - this is one
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            msg = f"{cls.__name__}: {error}; its parameters are {', '.join(parameters_of(cls))}"
            raise TypeError(msg) from None
        bound.apply_defaults()
        vars(bound.arguments.pop("self")).update(bound.arguments)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    vars(__init__)["__signature__"] = signature
    return __init__


def with_parameters(doc: str, parameters: dict[str, Parameter]) -> str:
    """A class's docstring with a section on its parameters, before any other section.

    Examples
    --------
    >>> rate = Parameter(0.5, at_least(0), "Of learning.")
    >>> with_parameters("Learns.", {"rate": rate}).splitlines()[-2:]
    ['rate : 0 or more, default 0.5', '    Of learning.']
    """
    section = "Parameters\n----------"
    if section in cleandoc(doc) or not parameters:
        return doc
    for name, declared in parameters.items():
        allowed = "" if declared.domain is ANYTHING else f"{declared.domain.words}, "
        section += f"\n{name} : {allowed}default {declared.default!r}\n"
        section += indent("\n".join(wrap(declared.words, DOC_WIDTH)), "    ")
    before, *behind = re.split(r"\n\n(?=\w+\n---)", cleandoc(doc), maxsplit=1)
    return "\n\n".join([before, section, *behind])


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(positional,))
class Parametrised:
    """Has parameters: attributes of its class made by `parameter`; the constructor follows.

    The constructor only stores what it is given. `get_params` and `set_params` are those of
    scikit-learn.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in vars(cls):
            cls.__init__ = constructor(cls)  # type: ignore[method-assign]
        if cls.__doc__:
            cls.__doc__ = with_parameters(cls.__doc__, cls.parameters())

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """What is declared about each parameter, in the order of the constructor's arguments."""
        return parameters_of(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name (`deep` is there for scikit-learn)."""
        return {name: getattr(self, name) for name in self.parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments by name."""
        known = self.parameters()
        for name, value in params.items():
            if name not in known:
                msg = f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                raise SapwoodError(msg)
            setattr(self, name, value)
        return self

    def _check_parameters(self) -> None:
        for name, declared in self.parameters().items():
            value = getattr(self, name)
            if value not in declared.domain:
                expected = declared.domain.words
                msg = f"{type(self).__name__}: {name} must be {expected}, not {value!r}"
                raise SapwoodError(msg)

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={value!r}"
            for name, declared in self.parameters().items()
            if (value := getattr(self, name)) is not declared.default and value != declared.default
        )
        return f"{type(self).__name__}({given})"
