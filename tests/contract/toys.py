"""Puts a toy method into the registries for the time of a test, as a new method would be added."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, cast

import pytest
from tests.contract import subjects, test_estimators

from sapwood.core.learner import Method

SUMMARY = "a toy of this test"
CONTRACT = (
    test_estimators.test_every_estimator_has_data_to_learn_from,
    test_estimators.test_parameters_come_and_go,
    test_estimators.test_fit_refuses_a_bad_parameter_and_names_it,
    test_estimators.test_fit_returns_the_estimator_with_its_parameters_as_they_were,
)


@contextmanager
def registered(
    monkeypatch: pytest.MonkeyPatch, method: Method, *registries: Any
) -> Iterator[Method]:
    """Give a method the name `toy` in registries, and its class to the contract tests."""
    for registry in registries:
        monkeypatch.setitem(cast("MutableMapping[str, Method]", registry), "toy", method)
    monkeypatch.setitem(subjects.ESTIMATORS, method.estimator.__name__, method.estimator)
    subjects.fitted.cache_clear()
    yield method
    subjects.fitted.cache_clear()


def check_contract(method: Method) -> None:
    """Run the contract tests of learners on the class of a method."""
    name = method.estimator.__name__
    assert subjects.all_estimators()[name] is method.estimator
    for check in CONTRACT:
        check(name)
