"""Registry of the learning methods by name, for commands, ensembles and benchmarks.

To add a method, add a line to `METHODS`. Dependency parsing and language models have tables of
their own (`methods.py` in their folders). Estimators are imported on demand, so that `--help` lists
all methods without importing NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from sapwood.core.learner import (
    ANYTHING,
    Estimator,
    Method,
    between,
    former_callback,
    maybe,
    parameter,
    whole,
)

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import StoredTreebank, Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.learn.settings_search import ChosenSettings
    from sapwood.constituency.learn.training_data import LexiconSettings
    from sapwood.core.learner import Info


class Learner(Protocol):
    """The methods and attributes that every estimator has."""

    @property
    def model_(self) -> Model:
        """The model that `fit` has trained."""
        ...

    @property
    def info_(self) -> Info:
        """The history, times and warnings of the training."""
        ...

    def fit(self, data: Any, held: Any = None) -> Self:
        """Train on data; held-out data, if given, selects iterations or members."""
        ...


class EMParameters(Estimator):
    """Parameters of learners that run EM iterations."""

    uses_held: ClassVar[bool] = True
    iterations: int = parameter(
        0, whole(0), "EM iterations from the initial grammar of this learner."
    )
    rule_smoothing: float = parameter(
        0.03,
        between(0, 1, "[)"),
        "How strongly the rule weights of a label's states are shrunk towards their mean after "
        "each M-step; 0, for words too, gives plain EM, whose likelihood never falls.",
    )
    word_smoothing: float = parameter(
        0.1, between(0, 1, "[)"), "The same for the probabilities of words."
    )
    patience: int | None = parameter(
        None,
        maybe(whole(1)),
        "Early stopping: with dev trees, end when dev F1 has not risen for this many EM iterations "
        "of the last level; the best iteration is kept.",
    )
    checkpoint: str | Path | None = parameter(
        None,
        ANYTHING,
        "File to which the state is saved after every EM iteration; if it exists, training "
        "resumes from it.",
        changes_model=False,
    )
    on_iteration: Callable[..., Any] | None = former_callback("on_iteration")
    on_grade: Callable[..., Any] | None = former_callback("on_grade")


# defaults of the training commands
USUAL = {"seed": 0, "n_jobs": 0, "budget": "auto", "spent": 0.0}


@dataclass(frozen=True)
class Settings:
    """Settings of a training run; each method picks the parameters that it declares."""

    # by parameter name; missing parameters default to `USUAL`, then to the learner's defaults
    parameters: Mapping[str, Any] = field(default_factory=dict)
    lexicon: LexiconSettings | None = None  # settings of the lexicon; None for the defaults
    # settings that may be chosen on the treebank, and the settings chosen on it
    open: Sequence[str] = ("horizontal", "binarise", "vertical")
    choice: ChosenSettings | None = None

    def __getitem__(self, name: str) -> Any:
        """Return the value of a parameter; None for the default of the learner."""
        return self.parameters.get(name, USUAL.get(name))

    def replace_parameters(self, **values: Any) -> Settings:
        """Return a copy with other values of some parameters."""
        return replace(self, parameters={**self.parameters, **values})

    def choose(self, method: str, bank: Treebank | StoredTreebank) -> Settings:
        """Return a copy in which open settings are chosen on the treebank for a method."""
        from sapwood.constituency.learn.settings_search import (
            LIMITS,
            ChosenSettings,
            choose_settings,
        )
        from sapwood.execute import as_engine

        least, budget, engine = LIMITS.least_budget, self["budget"], self["engine"]
        is_short = isinstance(budget, int | float) and budget < least
        if is_short and METHODS[method].has("budget"):
            return replace(self, choice=ChosenSettings(reason=f"the budget is below {least:g} s"))
        choice = choose_settings(
            bank, method, names=self.open, lexicon=self._lexicon(), seed=self["seed"],
            engine=as_engine(self["n_jobs"] if engine is None else engine),
        )  # fmt: skip
        settings = self.replace_parameters(spent=self["spent"] + choice.seconds)
        return replace(settings, choice=choice)

    def values_for(self, method: Method) -> dict[str, Any]:
        """Return the values of the method's parameters that are set here."""
        from sapwood.constituency.learn.pcfg import PCFG

        chosen = self.choice.settings if self.choice is not None else {}
        shared = {"lexicon": self._lexicon(), **chosen}
        plain = PCFG(n_jobs=self["n_jobs"], **shared)
        return method.pick({**USUAL, **self.parameters, **shared, "plain": plain})

    def _lexicon(self) -> LexiconSettings:
        from sapwood.constituency.learn.training_data import LexiconSettings

        return self.lexicon or LexiconSettings()


# Grammars with hidden states need other settings than a plain grammar; spectral learning with few
# states takes a second.
SPECTRAL_JUDGE = ("spectral", {"n_states": 8})
METHODS: dict[str, Method] = {
    "best": Method(
        "a mix of the others within --budget",
        ("constituency.learn.ensemble", "EnsembleLPCFG"),
        judge=SPECTRAL_JUDGE,
    ),
    "pcfg": Method(
        "relative frequencies, no hidden states",
        ("constituency.learn.pcfg", "PCFG"),
        judge=("pcfg", {}),
    ),
    "spectral": Method(
        "hidden states by singular value decomposition, no iterations",
        ("constituency.learn.spectral", "SpectralLPCFG"),
        judge=SPECTRAL_JUDGE,
    ),
    "em": Method(
        "probabilities by EM, states split in two level by level",
        ("constituency.learn.em", "EMLPCFG"),
        judge=SPECTRAL_JUDGE,
        smallest={"merge": 0.5},
    ),
    "cluster": Method(
        "states are clusters of tree nodes, counted",
        ("constituency.learn.cluster", "ClusterLPCFG"),
        judge=SPECTRAL_JUDGE,
    ),
    "pivot": Method(
        "probabilities by pivot features and convex EM",
        ("constituency.learn.pivot", "PivotLPCFG"),
        fixed={"iterations": 0, "patience": None, "checkpoint": None},
        judge=SPECTRAL_JUDGE,
        decides_on_held=False,
    ),
    "pivot-em": Method(
        "ten EM iterations from the pivot estimate",
        ("constituency.learn.pivot", "PivotLPCFG"),
        usual={"iterations": 10},
        judge=SPECTRAL_JUDGE,
    ),
    "crf": Method(
        "features of spans, scored discriminatively", ("constituency.learn.crf", "SpanCRF")
    ),
    "encoder": Method(
        "a small network that reads sentences and labels their spans",
        ("constituency.learn.encoder", "SpanEncoder"),
        smallest={"width": 4, "hidden": 4},
        is_exact=False,
    ),
}
