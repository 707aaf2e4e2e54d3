"""Parameters that several estimators have; each of these classes adds its own to an estimator.

No NumPy here: the command line reads these declarations for its help.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.estimators.base import Estimator
from sapwood.estimators.parameters import (
    ANYTHING,
    Domain,
    at_least,
    between,
    maybe,
    one_of,
    parameter,
    positional,
    whole,
)

if TYPE_CHECKING:
    from sapwood.estimators.em_steps import EMSettings
    from sapwood.estimators.pcfg import PCFG

MAX_STATES = 256  # of a label: beyond, a single tensor holds more numbers than a treebank words
REFINEMENTS = ("none", "moments", "em")


def _is_pcfg(value: object) -> bool:
    from sapwood.estimators.pcfg import PCFG

    return isinstance(value, PCFG)


class OnPlainGrammar(Estimator):
    """Learns on top of the plain grammar of a treebank."""

    plain: PCFG | None = parameter(
        None,
        maybe(Domain("a PCFG estimator", _is_pcfg)),
        "The estimator of the plain grammar and lexicon behind it.",
    )
    seed: int = parameter(0, maybe(whole(0)), "Of the random numbers that are drawn, if any.")


class WithStates(Estimator):
    """Learns hidden states of labels."""

    n_states: int = positional(
        default=16,
        domain=whole(1, MAX_STATES),
        words="Hidden states of a label with enough data; rare labels get fewer.",
        kw_only=False,
    )


class WithEM(Estimator):
    """Runs EM iterations."""

    iterations: int = parameter(0, whole(0), "EM iterations from where it begins; 0 for none.")
    rule_smoothing: float = parameter(
        0.03,
        between(0, 1, "[)"),
        "How far the rule weights of a label's states are pulled towards their mean after each "
        "M-step; 0, for words too, gives plain EM, whose likelihood never falls.",
    )
    word_smoothing: float = parameter(
        0.1, between(0, 1, "[)"), "The same for the probabilities of words."
    )
    patience: int | None = parameter(
        None,
        maybe(whole(1)),
        "With dev trees, end when no EM iteration of the last level has parsed them better for so "
        "many iterations; the best one is kept.",
    )
    checkpoint: str | Path | None = parameter(
        None,
        ANYTHING,
        "A file that is written after every EM iteration and, when it is there, continued from.",
        changes_model=False,
    )
    on_iteration: Callable[[int, int, float], None] | None = parameter(
        None,
        ANYTHING,
        "Called with (iteration, states, log-likelihood) after every E-step.",
        changes_model=False,
    )

    def em_settings(self, seed: int, *, merge: float = 0.0, tolerance: float = 0.0) -> EMSettings:
        """What EM itself asks for."""
        from sapwood.estimators.em_steps import EMSettings

        return EMSettings(
            self.decisions(), self.rule_smoothing, self.word_smoothing, merge, tolerance,
            self.patience, seed, self.checkpoint, self.on_iteration,
        )  # fmt: skip


class WithinBudget(Estimator):
    """Trains several grammars as long as there is time."""

    budget: float | None = positional(
        default=None,
        domain=maybe(Domain("a number of seconds above 0", between(0, inf, "(]").test)),
        words="Seconds on the clock for training, choosing and grading, without those for "
        "compiling or loading kernels; a candidate is not begun when it would hardly end in time, "
        "and is stopped where it can be when it does not. The first one is trained in any case. "
        "None trains all.",
        kw_only=False,
    )
    n_states: int = parameter(
        32,
        whole(1, MAX_STATES),
        "The most states of a candidate; larger ones are cut down to it.",
    )
    spent: float = parameter(
        0.0, at_least(0), "Seconds of the budget that are gone before `fit`, for reading."
    )


class OfHiddenTrees(Estimator):
    """Learns from sentences without trees: a closed form of short ones, then a refinement."""

    refine: str = parameter(
        "none",
        one_of(REFINEMENTS),
        "`none` for the closed form from short sentences; `moments` or `em` to go on from there "
        "with all lengths.",
    )
    max_length: int = parameter(10, whole(3, 60), "Longest sentences that the refinement reads.")
    iterations: int = parameter(500, whole(1), "The most EM iterations.")
