"""`LatentArcCRF`: a dependency parser whose words have hidden states.

1. A CRF of single arcs, or of second order, is learnt; it tags, prunes and names relations.
2. EM learns a latent dependency model of the tags, or words, of the same trees.
3. For a sentence, all projective trees over the arcs that are left are summed with all states:

       p(tree | words)  ~  prod over arcs of posterior^trust  *  p(words | tree)

   and the tree with the most expected right arcs is given.

The paper scores lists of another parser's trees instead and leaves this for later work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from sapwood.core.info import Info, PhaseClock
from sapwood.core.learner import (
    FLAG,
    at_least,
    between,
    one_of,
    parameter,
    positional,
    whole,
)
from sapwood.dependency.data.bank import ArcBankLike, as_arc_bank
from sapwood.dependency.learn.crf import ArcCRF, ArcEstimator
from sapwood.dependency.learn.em import EMDependency
from sapwood.dependency.learn.observe import MAX_STATES, SEEN
from sapwood.dependency.model.arc_model import LatentMember
from sapwood.dependency.model.dependency import TAG_COLUMNS


class LatentArcCRF(ArcEstimator):
    """A dependency parser with hidden states of words on the arcs that a CRF leaves.

    Attributes
    ----------
    model_ : ArcModel
        With a latent member.
    info_ : Info
        `log_likelihoods` are those of the CRF.
    """

    n_states: int = positional(
        default=16, domain=whole(1, MAX_STATES), words="Hidden states of a word.", kw_only=False
    )
    seen: str = parameter(
        "tags", one_of(SEEN), "What the states show of a word: tags, words or both."
    )
    tag_column: str = parameter(
        "auto",
        one_of(("auto", *TAG_COLUMNS)),
        "Which tags: universal ones, or those of the language, which `auto` takes where there are "
        "any.",
    )
    valence: bool = parameter(
        False, FLAG, "Whether the states show numbers of children too, see `EMDependency`."
    )
    order: int = parameter(1, whole(1, 2), "Of the CRF whose posteriors are the prior of arcs.")
    passes: int = parameter(5, whole(1), "Of the CRF over the training sentences.")
    iterations: int = parameter(60, whole(1), "The most EM iterations.")
    trust: float = parameter(
        1.0,
        at_least(0),
        "The posteriors of the CRF, to this power, are the prior weights of arcs.",
    )
    share: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Of the latent posteriors in the mean with those of the CRF; 1 for nothing else.",
    )

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        self._check_parameters()
        clock = PhaseClock()
        bank = as_arc_bank(bank)
        base = ArcCRF(
            self.order, passes=self.passes, folds=self.folds, seed=self.seed,
            embeddings=self.embeddings, on_pass=self.on_pass, n_jobs=self.n_jobs,
            engine=self.engine,
        ).fit(bank)  # fmt: skip
        clock.tick("CRF")
        column = self.tag_column
        if column == "auto":
            column = "xpos" if len(bank.xpos_names) > 1 else "upos"
        states = EMDependency(
            self.n_states, seen=self.seen, tag_column=column, valence=self.valence,
            iterations=self.iterations, seed=self.seed, n_jobs=self.n_jobs, engine=self.engine,
        ).fit(bank)  # fmt: skip
        clock.tick("states")
        self.info_: Info = base.info_
        self.info_.seconds = clock.seconds
        record = dict(base.model_.record) | {"method": "latent", "states": self.n_states}
        latent = LatentMember(states.model_, self.trust, self.share)
        self.model_ = replace(base.model_, latent=latent, record=record)
        return self
