"""Declarations of parameters, and what is made of them: constructors, checks, help."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import (
    ANYTHING,
    FLAG,
    Domain,
    Estimator,
    Parametrised,
    at_least,
    between,
    maybe,
    one_of,
    parameter,
    positional,
    whole,
)

ESTIMATORS: tuple[type[Estimator], ...] = (
    sw.PCFG, sw.SpectralLPCFG, sw.EMLPCFG, sw.ClusterLPCFG, sw.PivotLPCFG, sw.SpanCRF,
    sw.SpanEncoder, sw.EnsembleLPCFG, sw.UnmixPCFGIE, sw.UnmixDEPIES,
)  # fmt: skip
DECLARED = [(kind, name) for kind in ESTIMATORS for name in kind.parameters()]
# parameters that change no model
RUNNING = {"n_jobs", "engine", "listen", "checkpoint", "on_iteration", "on_grade", "on_trial"}
ODD = (None, True, "a", -1, 0, 1, 10**9, 0.5, float("nan"), [], object())
numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers()


COMMON = {"n_jobs": 1, "engine": None, "listen": None}  # parameters of every estimator


class Toy(Estimator):
    """Learns nothing."""

    size: int = positional(default=3, domain=whole(1), words="Its size.", kw_only=False)
    rate: float = parameter(0.5, between(0, 1), "Its rate.")
    note: str = parameter("a", one_of("ab"), "Its note.", changes_model=False)

    def fit(self) -> None:
        self._check_parameters()


class Child(Toy):
    """Learns less.

    Attributes
    ----------
    less_
    """

    rate: float = parameter(0.25, between(0, 1), "Another rate.")
    depth: int | None = parameter(None, maybe(whole(1)), "Its depth.")


# -- domains --------------------------------------------------------------------------------------


@given(numbers, st.integers(-5, 5), st.integers(0, 5))
def test_whole_numbers(value: float, least: int, width: int) -> None:
    wanted = isinstance(value, int)
    assert (value in whole(least)) == (wanted and value >= least)
    assert (value in whole(least, least + width)) == (wanted and least <= value <= least + width)


@given(numbers, st.sampled_from(["[]", "[)", "(]", "()"]))
def test_intervals(value: float, ends: str) -> None:
    for x in (value, 0, 1, 0.0, 1.0, 0.5):
        inside = x > 0 if ends[0] == "(" else x >= 0
        inside = inside and (x < 1 if ends[1] == ")" else x <= 1)
        assert (x in between(0, 1, ends)) == inside
    assert (value in at_least(2)) == (value >= 2)


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (whole(0), "a whole number from 0 up"),
        (whole(1, 256), "a whole number from 1 to 256"),
        (at_least(0), "0 or more"),
        (between(0, 1, "[)"), "at least 0 and below 1"),
        (between(0, 1, "(]"), "above 0 and at most 1"),
        (one_of(("a", "b")), "one of a, b"),
        (maybe(whole(1)), "None or a whole number from 1 up"),
        (FLAG, "True or False"),
    ],
)
def test_a_domain_in_words(domain: Domain, words: str) -> None:
    assert domain.words == words


@pytest.mark.parametrize("domain", [whole(0), at_least(0), between(0, 1), one_of("ab"), FLAG])
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_no_value_is_too_odd_to_be_asked_about(domain: Domain, value: object) -> None:
    assert (value in domain) in (True, False)
    assert (value in maybe(domain)) == (value is None or value in domain)


def test_bounds_for_the_command_line() -> None:
    assert (maybe(whole(1, 9)).least, maybe(whole(1, 9)).most) == (1, 9)
    assert (whole(2).least, whole(2).most) == (2, None)


# -- what is declared -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), DECLARED)
def test_every_parameter_is_declared_in_full(kind: type[Estimator], name: str) -> None:
    declared = kind.parameters()[name]
    assert declared.default in declared.domain
    assert declared.words.endswith(".")
    assert declared.words[0].isupper() or declared.words.startswith("`")
    assert declared.changes_model == (name not in RUNNING)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_argument_of_a_public_estimator_is_explained(kind: type[Estimator]) -> None:
    arguments = inspect.signature(kind).parameters
    shown = " ".join(inspect.getdoc(kind).split())
    assert list(arguments) == list(kind.parameters()) == list(kind().get_params())
    assert shown.count("Parameters ------") == shown.count("Attributes ------") == 1
    assert shown.index("Parameters ------") < shown.index("Attributes ------")
    for name, argument in arguments.items():
        declared = kind.parameters()[name]
        assert argument.default is declared.default
        assert argument.annotation is not inspect.Parameter.empty
        assert f"default {declared.default!r} {declared.words}" in shown
        assert declared.domain is ANYTHING or f"{name} : {declared.domain.words}," in shown


def test_defaults_and_domains_are_those_on_record(request: pytest.FixtureRequest) -> None:
    """Users rely on every default and bound: a change must show in `tests/golden`."""
    kinds = [getattr(sw, name) for name in sw.__all__]
    lines = [
        f"{kind.__name__}.{name} = {declared.default!r}: {declared.domain.words}"
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, Parametrised)
        for name, declared in kind.parameters().items()
    ]
    path = Path(__file__).parents[1] / "golden" / "parameters.txt"
    if request.config.getoption("--renew-golden"):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_only_the_first_parameter_needs_no_name(kind: type[Estimator]) -> None:
    kinds = [argument.kind for argument in inspect.signature(kind).parameters.values()]
    assert inspect.Parameter.POSITIONAL_OR_KEYWORD not in kinds[1:]
    has_first = kind not in (sw.PCFG, sw.SpanCRF, sw.SpanEncoder, sw.UnmixDEPIES)
    assert (kinds[0] == inspect.Parameter.POSITIONAL_OR_KEYWORD) == has_first


# -- constructors ---------------------------------------------------------------------------------


def test_a_constructor_stores_what_it_is_given() -> None:
    note = "".join(["x", "y"])
    toy = Toy(7, note=note)
    assert vars(toy) == {"size": 7, "rate": 0.5, "note": "xy"} | COMMON
    assert toy.note is note  # clones of scikit-learn insist
    assert repr(toy) == "Toy(size=7, note='xy')"
    assert Toy(size=7).get_params() == Toy(7).get_params()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: Toy(1, 2), "too many positional arguments"),
        (lambda: Toy(sise=1), "unexpected keyword argument 'sise'"),
        (lambda: Toy(1, size=1), "multiple values for argument 'size'"),
    ],
)
def test_wrong_arguments_are_told_with_the_right_ones(
    call: Callable[[], Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint) as caught:
        call()
    assert str(caught.value).startswith("Toy: ")
    assert str(caught.value).endswith("its parameters are size, rate, note, n_jobs, engine, listen")


def test_a_class_declares_anew_what_it_inherits() -> None:
    assert list(Child.parameters()) == ["size", "rate", "depth", "note", *COMMON]
    assert (Child().rate, Toy().rate) == (0.25, 0.5)
    assert inspect.signature(Child).parameters["size"].default == 3
    text = inspect.getdoc(Child)
    assert "rate : at least 0 and at most 1, default 0.25\n    Another rate." in text
    assert text.endswith("\n\nAttributes\n----------\nless_")
    assert "Its rate." in Toy.__doc__


def test_a_constructor_of_ones_own_is_kept() -> None:
    class Own(Toy):
        def __init__(self, size: int) -> None:
            super().__init__(size, rate=1.0)

    assert Own(2).get_params() == {"size": 2, "rate": 1.0, "note": "a"} | COMMON


def test_an_older_pickle_gets_the_default_of_a_newer_parameter() -> None:
    old = Toy.__new__(Toy)
    old.__setstate__({"size": 4}) if hasattr(old, "__setstate__") else vars(old).update(size=4)
    assert old.get_params() == {"size": 4, "rate": 0.5, "note": "a"} | COMMON


# -- checks ---------------------------------------------------------------------------------------


def test_a_value_outside_the_domain_is_refused() -> None:
    Toy(1, rate=1).fit()
    with pytest.raises(SapwoodError) as caught:
        Toy(rate=1.5).fit()
    assert str(caught.value) == "Toy: rate must be at least 0 and at most 1, not 1.5"


@pytest.mark.parametrize(("kind", "name"), DECLARED)
def test_what_is_odd_is_refused_in_words(kind: type[Estimator], name: str) -> None:
    domain = kind.parameters()[name].domain
    for value in ODD:
        if value not in domain:
            with pytest.raises(SapwoodError, match=f"{kind.__name__}: {name} must be"):
                kind(**{name: value})._check_parameters()


def test_decisions_are_the_parameters_that_change_the_model() -> None:
    assert Toy(note="b", n_jobs=4).decisions() == {"class": "Toy", "size": "3", "rate": "0.5"}
    for kind in ESTIMATORS:
        assert kind().decisions().keys() == {"class"} | (kind.parameters().keys() - RUNNING)
    behind = sw.EMLPCFG(plain=sw.PCFG(vertical=2, n_jobs=3)).decisions()["plain"]
    assert behind["vertical"] == "2"
    assert "n_jobs" not in behind


# -- type checkers --------------------------------------------------------------------------------

CALLS = """
import sapwood as sw
sw.SpectralLPCFG(16, shrinkage=3.0, seed=1, n_jobs=2, plain=sw.PCFG(vertical=2))
sw.EnsembleLPCFG(60.0, n_states=3)
sw.SpectralLPCFG(16, 3.0)
sw.SpectralLPCFG(shrinkage="much")
sw.SpanCRF(n_states=3)
"""


@pytest.mark.slow
def test_type_checkers_know_the_constructors(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(tmp_path / "calls.py")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in complaints} == {5, 6, 7}, done.stdout
