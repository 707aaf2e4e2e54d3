"""The methods of learning by name: what commands, ensembles and benchmarks choose from.

A new method is a line in `METHODS`; dependencies and text have tables of their own (`methods.py`
in their folders). Estimators are imported when they are wanted, so that `--help` can list all of
them without NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from sapwood.core.learner import WithinBudget, WithStates

if TYPE_CHECKING:
    from sapwood.constituency.data.stored import StoredTreebank
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.learn.choice import Choice
    from sapwood.constituency.learn.ensemble import Trial
    from sapwood.constituency.learn.pcfg import LexiconSettings
    from sapwood.core.info import Info
    from sapwood.core.learner import Estimator
    from sapwood.corpora.tree import Tree
    from sapwood.execute import Engine


class Learner(Protocol):
    """What every estimator offers once it is fitted, and `fit` itself."""

    @property
    def model_(self) -> Model:
        """What was learnt."""
        ...

    @property
    def info_(self) -> Info:
        """What happened in the training."""
        ...

    def fit(self, data: Any, held: Any = None) -> Self:
        """Learn from data; held-out data chooses between iterations or candidates, if any."""
        ...


@dataclass(frozen=True)
class Settings:
    """What is asked of a training, whatever the method; each takes what it has parameters for."""

    rare_count: int = 5
    signatures: str = "auto"
    seed: int = 0
    jobs: int = 0
    engine: Engine | None = None
    states: int = WithStates.parameters()["n_states"].default
    # of EM, or passes over the trees; None for the method's own number
    iterations: int | None = None
    patience: int | None = None
    checkpoint: Path | None = None
    on_iteration: Callable[[int, int, float], None] | None = None
    on_grade: Callable[[int, float], None] | None = None
    # the most states of a candidate of `best`
    most_states: int = WithinBudget.parameters()["n_states"].default
    budget: float | str | None = "auto"
    spent: float = 0.0  # CPU seconds of the budget that are gone when training starts
    on_trial: Callable[[Trial], None] | None = None
    # what the treebank may decide, and what it has decided
    open: Sequence[str] = ("horizontal", "binarise", "vertical")
    choice: Choice | None = None

    @property
    def lexicon(self) -> LexiconSettings:
        """How words are generalised."""
        from sapwood.constituency.learn.pcfg import LexiconSettings

        return LexiconSettings(rare_count=self.rare_count, style=self.signatures)

    def choose(self, method: str, bank: Treebank | StoredTreebank) -> Settings:
        """The same with what is open chosen on the treebank, for a method."""
        from sapwood.constituency.learn.choice import LEAST_BUDGET, Choice, choose_settings
        from sapwood.execute import as_engine

        is_short = isinstance(self.budget, int | float) and self.budget < LEAST_BUDGET
        if is_short and METHODS[method].has("budget"):
            return replace(self, choice=Choice(reason=f"the budget is below {LEAST_BUDGET:g} s"))
        engine = as_engine(self.jobs if self.engine is None else self.engine)
        choice = choose_settings(
            bank, method, names=self.open, lexicon=self.lexicon, seed=self.seed, engine=engine
        )
        return replace(self, choice=choice, spent=self.spent + choice.seconds)

    def values_for(self, method: Method) -> dict[str, Any]:
        """Values of those of a method's parameters that are set here."""
        from sapwood.constituency.learn.pcfg import PCFG

        ways = self.choice.settings if self.choice is not None else {}
        values: dict[str, Any] = {
            "n_states": self.most_states if method.has("budget") else self.states,
            "lexicon": self.lexicon, **ways,
            "plain": PCFG(lexicon=self.lexicon, n_jobs=self.jobs, **ways),
            "seed": self.seed, "n_jobs": self.jobs, "engine": self.engine,
            "patience": self.patience, "checkpoint": self.checkpoint,
            "on_iteration": self.on_iteration, "on_grade": self.on_grade,
            "budget": self.budget, "spent": self.spent, "on_trial": self.on_trial,
        }  # fmt: skip
        if self.iterations is not None:
            values |= {"iterations": self.iterations, "passes": self.iterations}
        return method.pick(values)


@dataclass(frozen=True)
class Method:
    """One way to learn."""

    summary: str
    place: tuple[str, str]
    task: str = "trees"  # what it learns from: `trees`, `arcs` or `text`
    # defaults that the name brings, where they are not those of the class
    usual: Mapping[str, Any] = field(default_factory=dict)
    # parameters that the name decides, which nobody can set
    fixed: Mapping[str, Any] = field(default_factory=dict)
    decides_on_held: bool = (
        True  # whether held-out data, where the class takes any, decides a thing
    )

    @property
    def estimator(self) -> type[Estimator]:
        """The class of its estimators."""
        module, name = self.place
        found: type[Estimator] = getattr(import_module(f"sapwood.{module}"), name)
        return found

    def has(self, parameter: str) -> bool:
        """Whether a parameter can be set."""
        return parameter in self.estimator.parameters() and parameter not in self.fixed

    def pick(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Those of some values that it has parameters for."""
        return {name: value for name, value in values.items() if self.has(name)}

    def make(self, **values: Any) -> Any:
        """An estimator.

        Examples
        --------
        >>> METHODS["pivot-em"].make(n_states=8)
        PivotLPCFG(n_states=8, iterations=10)
        """
        return self.estimator(**{**self.usual, **values, **self.fixed})

    def fit(
        self, settings: Settings, bank: Treebank | StoredTreebank, dev: Sequence[Tree] | None = None
    ) -> Learner:
        """A fitted estimator; dev trees choose between iterations or candidates, if any.

        What the treebank itself has decided, see `Settings.choose`, is told in the model's record.
        """
        learner: Any = self.make(**settings.values_for(self))
        fitted: Any = learner.fit(bank, dev if dev and self.uses_held else None)
        if settings.choice is not None and settings.choice.grades:
            told = {"choice": settings.choice.as_record()}
            fitted.model_ = replace(fitted.model_, record=dict(fitted.model_.record) | told)
        learnt: Learner = fitted
        return learnt

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
        """Whether it learns from sums over shards alone, and holds nothing of all trees."""
        return not self.has_candidates and not self.has("passes")


METHODS: Mapping[str, Method] = {
    "best": Method(
        "a mix of the others within --budget", ("constituency.learn.ensemble", "EnsembleLPCFG")
    ),
    "pcfg": Method("relative frequencies, no hidden states", ("constituency.learn.pcfg", "PCFG")),
    "spectral": Method(
        "hidden states by singular value decomposition, no iterations",
        ("constituency.learn.spectral", "SpectralLPCFG"),
    ),
    "em": Method(
        "probabilities by EM, states split in two level by level",
        ("constituency.learn.em", "EMLPCFG"),
    ),
    "cluster": Method(
        "states are clusters of tree nodes, counted", ("constituency.learn.cluster", "ClusterLPCFG")
    ),
    "pivot": Method(
        "probabilities by pivot features and convex EM",
        ("constituency.learn.pivot", "PivotLPCFG"),
        fixed={"iterations": 0, "patience": None, "checkpoint": None},
        decides_on_held=False,
    ),
    "pivot-em": Method(
        "ten EM iterations from the pivot estimate",
        ("constituency.learn.pivot", "PivotLPCFG"),
        usual={"iterations": 10},
    ),
    "crf": Method(
        "features of spans, scored discriminatively", ("constituency.learn.crf", "SpanCRF")
    ),
    "encoder": Method(
        "a small network that reads sentences and labels their spans",
        ("constituency.learn.encoder", "SpanEncoder"),
    ),
}
