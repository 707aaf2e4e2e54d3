"""The contract of learners: parameters that are declared once, `fit(data, held)`, and one `Info`.

    class SpectralLPCFG(TreebankEstimator):
        shrinkage: float = parameter(20.0, at_least(0), "C of the smoothing of tensors.")

The constructor, the text of `help()`, the check before fitting with its message, and the options of
the command line are made from these declarations. A `Method` is the entry of a learner in the
registry of its family, for commands, the page, ensembles and benchmarks; its class is imported when
it is used. Nothing here imports NumPy, so that `--help` can read all of it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature, cleandoc, get_annotations, signature
from math import inf
from numbers import Real
from textwrap import indent, wrap
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform

from sapwood.core.errors import NotFittedError, SapwoodError, SapwoodWarning
from sapwood.core.progress import Event, Listener, also_listening

if TYPE_CHECKING:
    from sapwood.execute import Engine

T = TypeVar("T")
DOC_WIDTH = 92  # columns of a parameter's description, before it is indented
MAX_STATES = 256  # of a label: beyond, a single tensor holds more numbers than a treebank words
REFINEMENTS = ("none", "moments", "em")


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may have."""

    words: str  # the values in words, which complete "must be"
    test: Callable[[Any], bool]
    least: int | None = None  # bounds of whole numbers
    most: int | None = None

    def __contains__(self, value: object) -> bool:
        return bool(self.test(value))


ANYTHING = Domain("anything", lambda _: True)  # the code that uses the value checks it
FLAG = Domain("True or False", lambda value: value in (True, False))


def whole(least: int, most: int | None = None) -> Domain:
    """The domain of whole numbers between two bounds.

    >>> whole(1, 256).words, 256 in whole(1, 256), 0 in whole(1), True in whole(1)
    ('a whole number from 1 to 256', True, False, False)
    """
    words = f"a whole number from {least} " + ("up" if most is None else f"to {most}")

    def test(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and least <= value and (most is None or value <= most)

    return Domain(words, test, least, most)


def at_least(low: float) -> Domain:
    """The domain of numbers from a bound up."""
    return Domain(f"{low:g} or more", lambda value: _is_number(value) and value >= low)


def between(low: float, high: float, ends: str = "[]") -> Domain:
    """The domain of numbers of an interval; a round bracket excludes its end.

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
    """The domain of some words."""
    known = tuple(names)
    return Domain(f"one of {', '.join(known)}", lambda value: value in known)


def maybe(domain: Domain) -> Domain:
    """The values of a domain, and None."""
    words = f"None or {domain.words}"
    return replace(domain, words=words, test=lambda value: value is None or value in domain)


@dataclass(frozen=True, eq=False)
class Parameter:
    """The declaration of one parameter."""

    default: Any
    domain: Domain  # checked when fitting
    words: str  # the description, for docstrings and options
    is_positional: bool = False
    changes_model: bool = True  # whether the learnt model depends on it

    def __get__(self, instance: object, owner: type) -> Any:
        """The declaration for a class, the default for an instance that has no value of its own."""
        return self if instance is None else self.default


def parameter(default: T, domain: Domain, words: str, *, changes_model: bool = True) -> T:
    """Declare a parameter in the body of an estimator's class."""
    return cast("T", Parameter(default, domain, words, changes_model=changes_model))


def positional(*, default: T, domain: Domain, words: str, kw_only: Literal[False]) -> T:
    """Declare the parameter that can be given without its name; `kw_only` is for type checkers."""
    return cast("T", Parameter(default, domain, words, is_positional=not kw_only))


def _constructor(cls: type[Parametrised]) -> Callable[..., None]:
    """A function `__init__` that takes the class's parameters and only stores them."""
    types: dict[str, Any] = {}
    for kind in reversed(cls.__mro__):
        types |= get_annotations(kind)
    arguments = [Argument("self", Argument.POSITIONAL_OR_KEYWORD)]
    for name, declared in cls.parameters().items():
        how = Argument.POSITIONAL_OR_KEYWORD if declared.is_positional else Argument.KEYWORD_ONLY
        type_ = types.get(name, Argument.empty)
        arguments.append(Argument(name, how, default=declared.default, annotation=type_))
    signature = Signature(arguments, return_annotation=None)

    def __init__(*given: Any, **named: Any) -> None:  # noqa: N807 - this is one
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            msg = f"{cls.__name__}: {error}; its parameters are {', '.join(cls.parameters())}"
            raise TypeError(msg) from None
        bound.apply_defaults()
        vars(bound.arguments.pop("self")).update(bound.arguments)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    vars(__init__)["__signature__"] = signature
    return __init__


def _with_parameters(doc: str, parameters: dict[str, Parameter]) -> str:
    """A class's docstring with a section on its parameters, before any other section.

    >>> rate = Parameter(0.5, at_least(0), "Learning rate.")
    >>> _with_parameters("Learns.", {"rate": rate}).splitlines()[-2:]
    ['rate : 0 or more, default 0.5', '    Learning rate.']
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
    """A class whose attributes made by `parameter` are its parameters.

    The constructor is made from them and only stores its arguments. `get_params` and `set_params`
    are those of scikit-learn.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in vars(cls):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        if cls.__doc__:
            cls.__doc__ = _with_parameters(cls.__doc__, cls.parameters())

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Declarations that the class has or inherits, in the order of the constructor's arguments.

        The positional one comes first, then the class's own, and those that change no model last.
        """
        found: dict[str, Parameter] = {}
        for kind in cls.__mro__:
            found |= {name: x for name, x in vars(kind).items() if isinstance(x, Parameter)} | found
        order = sorted(
            found.items(), key=lambda x: (not x[1].is_positional, not x[1].changes_model)
        )
        return dict(order)

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
            if isinstance(value, Parametrised):
                value._check_parameters()

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={value!r}"
            for name, declared in self.parameters().items()
            if (value := getattr(self, name)) is not declared.default and value != declared.default
        )
        return f"{type(self).__name__}({given})"


@dataclass
class PhaseClock:
    """Measures the wall time of the phases of a training."""

    last: float = field(default_factory=perf_counter)
    seconds: dict[str, float] = field(default_factory=dict)

    def tick(self, phase: str) -> None:
        """End a phase, and record its seconds."""
        now = perf_counter()
        self.seconds[phase] = round(now - self.last, 3)
        self.last = now


@dataclass
class Info:
    """The record of a training, the same for every learner.

    Everything in `extra`, and every column of `history`, can also be read as an attribute.

    >>> info = Info([{"log_likelihood": -7.0}, {"log_likelihood": -5.0}], extra={"n_inside": 12})
    >>> info.iterations, info.log_likelihoods, info.n_inside
    (2, [-7.0, -5.0], 12)
    """

    # one row for every iteration of EM or pass over the data: its log-likelihood, and more
    history: list[dict[str, Any]] = field(default_factory=list)
    # wall-clock seconds by phase; CPU seconds where a learner has a budget of those
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # reasons to doubt the model
    # values that only this learner has; its docstring names the keys
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """Number of iterations or passes; a learner without a history sets it in `extra`."""
        return int(self.extra.get("iterations", len(self.history)))

    @property
    def log_likelihoods(self) -> list[float]:
        """The log-likelihood of each row of the history."""
        return [row["log_likelihood"] for row in self.history]

    @property
    def best_iteration(self) -> int | None:
        """The first iteration with the highest F1 on dev trees; None without dev trees."""
        scores: list[tuple[int, float]] = self.extra.get("dev_f1", [])
        return max(scores, key=lambda pair: pair[1])[0] if scores else None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):  # copy and pickle ask before there are any fields
            if name in self.extra:
                return self.extra[name]
            if self.history and name in self.history[0]:
                return [row[name] for row in self.history]
        raise AttributeError(f"this training has no {name!r} to tell")

    def warn(self, text: str, stacklevel: int = 1) -> None:
        """Record a reason to doubt the model, and show it as a warning."""
        self.warnings.append(text)
        warnings.warn(text, SapwoodWarning, stacklevel=stacklevel + 1)


# former callbacks of learners: the facts of an event that each is called with
FORMER_CALLBACKS = {
    "on_iteration": ("iteration", "states", "log_likelihood"),
    "on_grade": ("iteration", "dev_f1"),
    "on_pass": ("member", "iteration", "log_likelihood"),
    "on_trial": ("trial",),
}


def former_callback(name: str) -> Any:
    """Declare a callback whose work `listen` does now; it still works, with a warning."""
    facts = ", ".join(FORMER_CALLBACKS[name])
    words = f"Deprecated: `listen` is called with the same facts. Called with ({facts})."
    return parameter(None, ANYTHING, words, changes_model=False)


def _listeners(learner: Estimator) -> Iterator[Listener]:
    """The function that listens to a learner, and its former callbacks."""
    if learner.listen is not None:
        yield learner.listen
    for name, facts in FORMER_CALLBACKS.items():
        if (callback := vars(learner).get(name)) is not None:
            text = f"{name}= is now listen=, called with an event whose facts have {list(facts)}"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            yield partial(_call_back, callback, facts)


def _call_back(callback: Callable[..., Any], names: tuple[str, ...], event: Event) -> Any:
    """Call a former callback if the event has its facts."""
    if all(name in event.facts for name in names):
        return callback(*(event.facts[name] for name in names))
    return None


OLD_NAMES = ("dev", "held_out")  # former names of `held`, in calls of `fit`


def _keep_contract(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an estimator's own `fit` into `fit(data, held=None)`, with `listen` and `info_`."""

    @wraps(fit)
    def learn(self: Any, *given: Any, **named: Any) -> Any:
        for old in [name for name in OLD_NAMES if name in named]:
            text = f"fit({old}=...) is now fit(held=...)"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            named["held"] = named.pop(old)
        if len(given) > 1:
            # learners from strings used to take n by its position
            second = "n" if _is_number(given[1]) and "n" in signature(fit).parameters else "held"
            if second == "n":
                text = "give the number of strings by its name: fit(strings, n=...)"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
            given, named[second] = (given[0], *given[2:]), given[1]
        if not self.uses_held and named.pop("held", None) is not None:
            msg = f"{type(self).__name__} does not use held-out data"
            raise SapwoodError(msg, hint="leave it out, or evaluate the model on it afterwards")
        self._check_parameters()
        if not self.uses_engine:
            self._engine()  # refuses a wrong number of threads
            self._refuse_engine("leave it out: this learner works in one process")
        vars(self).pop("info_", None)
        with also_listening(*_listeners(self)):
            fit(self, *given, **named)
        vars(self).setdefault("info_", Info())
        return self

    return learn


class Estimator(Parametrised):
    """A learner with declared parameters, which are checked when fitting.

    Follows scikit-learn's contract (`get_params`, `set_params`, fitted values end in `_`) without
    importing it.

    >>> class Mean(Estimator):
    ...     '''The mean of some numbers.'''
    ...
    ...     prior: float = parameter(0.0, at_least(0), "Numbers 1 that are added first.")
    ...
    ...     def fit(self, numbers):
    ...         self.mean_ = (sum(numbers) + self.prior) / (len(numbers) + self.prior)
    ...         return self
    >>> Mean(prior=2).fit([4, 6]).mean_, Mean(prior=2)
    (3.0, Mean(prior=2))
    >>> Mean(prior=-1).fit([4, 6])
    Traceback (most recent call last):
    sapwood.core.errors.SapwoodError: Mean: prior must be 0 or more, not -1
    """

    uses_held: ClassVar[bool] = False  # whether `fit` takes held-out data
    uses_engine: ClassVar[bool] = True  # whether `fit` has work for other processes or machines
    n_jobs: int = parameter(
        1,
        ANYTHING,
        "Threads; 0 means all cores. The result does not depend on it.",
        changes_model=False,
    )
    engine: Engine | None = parameter(
        None,
        maybe(Domain("an Engine", lambda value: hasattr(value, "total"))),
        "Where training runs, see `sapwood.execute`; None for `n_jobs` threads of this process. "
        "The result does not depend on it.",
        changes_model=False,
    )

    listen: Listener | None = parameter(
        None,
        ANYTHING,
        "Called with an `Event` of `sapwood.progress` at each step of progress, with facts such "
        "as the log-likelihood of an iteration.",
        changes_model=False,
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls):
            cls.fit = _keep_contract(vars(cls)["fit"])  # type: ignore[attr-defined]

    def _refuse_engine(self, reason: str) -> None:
        """Refuse an engine of other processes or machines; the reason is the hint."""
        from sapwood.execute import Threads

        if self.engine is not None and not isinstance(self.engine, Threads):
            msg = f"{type(self).__name__} has no work for the engine {type(self.engine).__name__}"
            raise SapwoodError(msg, hint=reason)

    def _engine(self) -> Engine:
        from sapwood.execute import Threads

        return self.engine if self.engine is not None else Threads(self.n_jobs)

    def decisions(self) -> dict[str, Any]:
        """The class and the parameters that decide which model is learnt, for JSON.

        >>> from sapwood.constituency.learn.pcfg import PCFG
        >>> PCFG(vertical=2, n_jobs=8).decisions()["vertical"]
        '2'
        >>> PCFG(n_jobs=8).decisions() == PCFG().decisions()
        True
        """
        found: dict[str, Any] = {"class": type(self).__name__}
        for name, declared in self.parameters().items():
            if declared.changes_model:
                value = getattr(self, name)
                found[name] = value.decisions() if isinstance(value, Estimator) else repr(value)
        return found

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains the missing value, such as one that `fit` would set."""
        if name.endswith("_") and not name.startswith("_"):
            msg = f"this {type(self).__name__} has not been fitted, so it has no {name}"
            raise NotFittedError(msg, hint="call fit(treebank) first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class StateParameters(Estimator):
    """The parameters of learners of hidden states."""

    n_states: int = positional(
        default=16,
        domain=whole(1, MAX_STATES),
        words="Hidden states of a label with enough data; rare labels get fewer.",
        kw_only=False,
    )


_ABOVE_0 = between(0, inf, "(]")
_BUDGET = Domain("a number of seconds above 0, or 'auto'", lambda x: x == "auto" or x in _ABOVE_0)


class BudgetParameters(Estimator):
    """The parameters of learners that train several grammars within a budget of time."""

    budget: float | str | None = positional(
        default=None,
        domain=maybe(_BUDGET),
        words="CPU seconds of this process for training, choosing and scoring, without compiling "
        "or loading kernels. A candidate that would not finish in time is skipped, and one "
        "that does not is stopped, or makes fewer passes if it is a network. The first one "
        "is always trained. None trains all; `auto` depends on the size of the treebank.",
        kw_only=False,
    )
    n_states: int = parameter(
        32, whole(1, MAX_STATES), "The most states of a candidate; larger ones are cut down to it."
    )
    spent: float = parameter(
        0.0, at_least(0), "Seconds of the budget that were used before `fit`, such as for reading."
    )


class HiddenTreeParameters(Estimator):
    """The parameters of learners from sentences without trees: closed form, then a refinement."""

    refine: str = parameter(
        "none",
        one_of(REFINEMENTS),
        "`none` for the closed form from short sentences; `moments` or `em` to improve on it with "
        "sentences of all lengths.",
    )
    max_length: int = parameter(
        10, whole(3, 60), "Length of the longest sentences that the refinement uses."
    )
    iterations: int = parameter(500, whole(1), "The most EM iterations.")


@dataclass(frozen=True)
class Method:
    """One method of learning."""

    summary: str
    place: tuple[str, str] | type[Estimator]  # the class, or its module and its name
    task: str = "trees"  # the data it learns from: `trees`, `arcs` or `text`
    usual: Mapping[str, Any] = field(default_factory=dict)  # defaults other than the class's
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters that cannot be set
    # the method, with its parameters, that chooses the binarisation; None for no choice
    judge: tuple[str, Mapping[str, Any]] | None = None
    smallest: Mapping[str, Any] = field(default_factory=dict)  # parameters that warm all kernels up
    is_exact: bool = True  # whether it learns the same numbers with every build of BLAS
    decides_on_held: bool = True  # whether held-out data, where the class takes any, is used

    @property
    def estimator(self) -> type[Estimator]:
        """The class of the method's estimators."""
        if isinstance(self.place, type):
            return self.place
        module, name = self.place
        return cast("type[Estimator]", getattr(import_module(f"sapwood.{module}"), name))

    def domain(self, parameter: str) -> Domain | None:
        """The values that a parameter may have; None for one that cannot be set."""
        declared = self.estimator.parameters().get(parameter)
        return None if declared is None or parameter in self.fixed else declared.domain

    def domains(self, parameters: Iterable[str]) -> list[Domain]:
        """The values of those of some parameters that can be set."""
        return [domain for name in parameters if (domain := self.domain(name)) is not None]

    def has(self, parameter: str) -> bool:
        """Whether a parameter can be set."""
        return self.domain(parameter) is not None

    def pick(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the method has parameters for."""
        return {name: value for name, value in values.items() if self.has(name)}

    def usual_value(self, parameter: str) -> Any:
        """The value of a parameter that is not given; None for one that the method has not."""
        declared = {name: x.default for name, x in self.estimator.parameters().items()}
        return {**declared, **self.usual, **self.fixed}.get(parameter)

    def make(self, **values: Any) -> Any:
        """Make an estimator with the given parameters.

        >>> method = Method("pivots", ("constituency.learn.pivot", "PivotLPCFG"), fixed={"seed": 3})
        >>> method.make(n_states=8)
        PivotLPCFG(n_states=8, seed=3)
        """
        return self.estimator(**{**self.usual, **values, **self.fixed})

    def train(self, values: Mapping[str, Any], data: Any, held: Any = None) -> Any:
        """Make an estimator and fit it; every command and the page train with this function.

        Parameters
        ----------
        values
            Parameters; those that the method has not, or has fixed, are left out.
        held
            Held-out data, for methods that decide something by it.
        """
        learner = self.make(**self.pick(values))
        return learner.fit(data, held) if held and self.uses_held else learner.fit(data)

    def fit(self, settings: Any, bank: Any, dev: Any = None) -> Any:
        """Fit an estimator; dev trees, if any, choose between iterations or candidates.

        Settings that the treebank itself has chosen (`Settings.choose`) go into the model's record.
        """
        fitted: Any = self.train(settings.values_for(self), bank, dev)
        if settings.choice is not None and settings.choice.grades:
            record = dict(fitted.model_.record) | {"choice": settings.choice.as_record()}
            fitted.model_ = replace(fitted.model_, record=record)
        return fitted

    def make_smallest(self) -> Any:
        """An estimator that learns next to nothing, but runs all kernels of the method."""
        few = {"n_states": 2, "iterations": 1, "passes": 1}
        return self.make(**self.pick(few), **self.smallest)

    def as_dict(self) -> dict[str, Any]:
        """The entries of the method in the page's form."""
        return {
            "summary": self.summary.replace(" --budget", " a budget"),
            "has_states": self.has_states, "has_budget": self.has_candidates,
        }  # fmt: skip

    @property
    def uses_held(self) -> bool:
        """Whether held-out data decides something: an iteration, candidates, smoothing."""
        return self.decides_on_held and self.estimator.uses_held

    @property
    def has_states(self) -> bool:
        """Whether labels have hidden states."""
        return self.has("n_states")

    @property
    def has_candidates(self) -> bool:
        """Whether it trains several grammars, within a budget."""
        return self.has("budget")

    @property
    def is_additive(self) -> bool:
        """Whether it learns from sums over shards alone, and never holds all trees."""
        return not self.has_candidates and not self.has("passes")
