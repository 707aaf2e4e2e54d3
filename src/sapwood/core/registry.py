"""The registry entry of a method of learning, for commands, the page, ensembles and benchmarks.

Learners are imported when they are used, so that `--help` can list all of them without NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from sapwood.core.learner import Domain, Estimator


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

    def has(self, parameter: str) -> bool:
        """Whether a parameter can be set."""
        return self.domain(parameter) is not None

    def pick(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the method has parameters for."""
        return {name: value for name, value in values.items() if self.has(name)}

    def make(self, **values: Any) -> Any:
        """Make an estimator with the given parameters.

        >>> method = Method("pivots", ("constituency.learn.pivot", "PivotLPCFG"), fixed={"seed": 3})
        >>> method.make(n_states=8)
        PivotLPCFG(n_states=8, seed=3)
        """
        return self.estimator(**{**self.usual, **values, **self.fixed})

    def fit(self, settings: Any, bank: Any, dev: Any = None) -> Any:
        """Fit an estimator; dev trees, if any, choose between iterations or candidates.

        Settings that the treebank itself has chosen (`Settings.choose`) go into the model's record.
        """
        learner: Any = self.make(**settings.values_for(self))
        fitted: Any = learner.fit(bank, dev if dev and self.uses_held else None)
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
