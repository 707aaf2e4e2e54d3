"""`EMLPCFG`: latent-variable PCFGs by expectation maximisation on treebank trees.

Two starts:

- **split** (Petrov et al. 2006): begin with one state a symbol; split every state in two with 1 %
  noise, run EM, and so on to 2, 4, 8, 16, ... states. States are pulled towards their siblings'
  mean after every step. If wanted, the splits that gained least are undone after each round.
- **matsuzaki** (Matsuzaki et al. 2005): all states at once, treebank frequencies times exp(u) with
  u uniform between -ln 3 and ln 3.
"""

from __future__ import annotations

from typing import Self

from sapwood.constituency.data.treebank import TreebankLike
from sapwood.constituency.learn.em_steps import Stage, TrainingTrees, run_treebank_em
from sapwood.constituency.learn.pcfg import Trainable, TrainingData
from sapwood.constituency.learn.treebank_learner import (
    OnPlainGrammar,
    TreebankEstimator,
    WithEM,
    dev_trees,
)
from sapwood.core.learner import WithStates, between, one_of, parameter, whole

STARTS = ("split", "matsuzaki")


class EMLPCFG(WithStates, WithEM, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG by EM, with true probabilities.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        See `run_treebank_em`.
    """

    start: str = parameter(
        "split",
        one_of(STARTS),
        "`split` doubles the states level by level, `matsuzaki` starts with all of them.",
    )
    iterations: int = parameter(
        20, whole(1), "EM iterations at each level of `split`, or in all for `matsuzaki`."
    )
    merge: float = parameter(
        0.0,
        between(0, 1, "[)"),
        "Share of the splits of each level that are undone, those that gained least, before half "
        "as many iterations more; 0 keeps all.",
    )
    tolerance: float = parameter(
        0.0,
        between(0, 1, "[)"),
        "A level ends early when an iteration raises the log-likelihood by less than this share of "
        "what the level has raised it so far; 0 for never.",
    )

    def fit(self, bank: Trainable, held: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        held
            Trees apart from the treebank; the iteration of the last level that parses them best is
            kept.
        """
        data = self._prepare(bank)
        start = TrainingTrees(data).plain_parameters()
        settings = self.em_settings(self.seed, merge=self.merge, tolerance=self.tolerance)
        record = {
            "method": "em", "n_states": self.n_states, "start": self.start, "seed": self.seed,
            **data.sizes,
        }  # fmt: skip
        self.model_, self.info_ = run_treebank_em(
            data, start, self.schedule(), settings, dev_trees(held), record
        )
        return self

    def memory_needed(self, data: TrainingData) -> float:
        """Bytes that learning takes at most, about, besides the packed trees."""
        from sapwood.constituency.learn import memory as tree_memory

        return tree_memory.em_bytes(data, self.n_states)

    def schedule(self) -> list[Stage]:
        """The stages of a training: doubled states level by level, or all at once."""
        if self.start == "matsuzaki":
            return [Stage("matsuzaki", self.n_states, self.iterations)]
        doubled = [2**k for k in range(1, 9) if 2**k < self.n_states]
        stages = []
        for m in [*doubled, self.n_states]:
            stages.append(Stage("split", m, self.iterations))
            if self.merge > 0.0:
                stages.append(Stage("merge", m, (self.iterations + 1) // 2))
        return stages
