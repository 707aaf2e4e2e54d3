"""How many samples Theorem 8 of SPECTRAL asks for, and how far that is from what is needed.

Notation (SPECTRAL, section 8)
------------------------------
    m       hidden states of a label                   n       words
    N       binary rules of the trees that are bounded |N|     labels, phrases and tags together
    sigma   min over a of the m-th singular value of Omega[a] = E[phi psi' | a]
    xi      min over a of the m-th singular value of I[a] = E[phi | a, h], [d, m]
    gamma   min over rules and states of t(a -> b c, h2, h3 | a, h1)
    L       log((2 |N| + 1) / delta)

    in-terminals    N_a >= C1 L N^2 m^2 / (gamma^2 epsilon^2 xi^4 sigma^4)
    pre-terminals   N_a >= C2 L N^2 m^2 n / (epsilon^2 sigma^4)
    in-terminals    M_a >= C3 L N^2 m^2 / (gamma^2 epsilon^2 xi^4 sigma^2)
    pre-terminals   M_a >= C4 L N^2 m^2 / (epsilon^2 sigma^2)
    roots           R   >= C5 L N^2 m^3 / (epsilon^2 sigma^2)

N_a samples of label a estimate the tensors, M_a others the singular vectors. Then, with probability
1 - delta, the absolute errors over all trees with N binary rules sum up to at most epsilon. The
paper proves that constants C1 to C5 exist and does not say what they are. xi and gamma belong to
the hidden model that made the data: a spectral model, known up to a change of basis, has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf, log
from typing import Protocol

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.errors import SapwoodError
from sapwood.models.latent_grammar import LatentGrammar

NO_STATE = 1e-13  # eigenvalues of a Gram matrix this much below the largest are rounding
Constants = tuple[float, float, float, float, float]


class _Info(Protocol):
    @property
    def singular_values(self) -> FloatArray: ...


class Fitted(Protocol):
    """What is read from a fitted spectral estimator."""

    @property
    def info_(self) -> _Info:
        """The singular values found, [n_symbols, m]."""

    @property
    def model_(self) -> LatentGrammar:
        """The grammar learnt."""


@dataclass(frozen=True)
class BoundInputs:
    """What Theorem 8 depends on; see the notation of this module.

    Attributes
    ----------
    n_states
        m; where labels differ, the largest.
    n_phrases, n_tags
        In-terminals and pre-terminals.
    n_words
        n, the distinct words.
    n_binary
        N, the binary rules of the trees whose probabilities are bounded: words less one.
    epsilon, delta
        Error allowed, and probability that it is larger.
    sigma, xi, gamma
        How well the features tell states apart, and the rarest step of the hidden model.
    """

    n_states: int
    n_phrases: int
    n_tags: int
    n_words: int
    n_binary: int
    epsilon: float
    delta: float
    sigma: float
    xi: float
    gamma: float

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if not value >= _LEAST.get(part.name, 0.0):
                msg = f"{part.name} must be {_LEAST.get(part.name, 0.0):g} or more, not {value!r}"
                raise SapwoodError(msg)
        if not 0 < self.delta < 1 or not self.epsilon > 0:
            msg = (
                "delta must be between 0 and 1 and epsilon positive, "
                f"not {self.delta!r} and {self.epsilon!r}"
            )
            raise SapwoodError(msg)


_LEAST = {"n_states": 1, "n_phrases": 1, "n_tags": 1, "n_words": 1, "n_binary": 1}


@dataclass(frozen=True)
class SampleBounds:
    """Samples that are enough, label by label; `inf` where the theorem promises nothing.

    Attributes
    ----------
    phrase_nodes, tag_nodes
        N_a: samples of each in-terminal and of each pre-terminal for the tensors.
    phrase_nodes_svd, tag_nodes_svd
        M_a: further samples of each for the singular vectors.
    roots
        R: samples that are roots.
    inputs
        What they were computed from.
    constants
        C1 to C5 as assumed; the paper leaves them open.
    """

    phrase_nodes: float
    tag_nodes: float
    phrase_nodes_svd: float
    tag_nodes_svd: float
    roots: float
    inputs: BoundInputs
    constants: Constants

    @property
    def trees(self) -> float:
        """Trees that this takes when each gives one sample, as the theorem has it."""
        a, t = self.inputs.n_phrases, self.inputs.n_tags
        first = max(a * self.phrase_nodes + t * self.tag_nodes, self.roots)
        return first + a * self.phrase_nodes_svd + t * self.tag_nodes_svd

    def text(self, *, n_trees: int | None = None) -> str:
        """The bounds in words, with a warning on how loose they are.

        Parameters
        ----------
        n_trees
            Trees that are at hand, to compare with.
        """
        i = self.inputs
        lines = [
            f"Theorem 8 (SPECTRAL) for m = {i.n_states}, {i.n_phrases} phrases, {i.n_tags} tags, "
            f"{i.n_words} words,",
            f"trees of {i.n_binary} binary rules, epsilon = {i.epsilon:g}, delta = {i.delta:g},",
            f"sigma = {i.sigma:.3g}, xi = {i.xi:.3g}, gamma = {i.gamma:.3g}:",
            f"  samples of each phrase   {_number(self.phrase_nodes)} for tensors, "
            f"{_number(self.phrase_nodes_svd)} for singular vectors",
            f"  samples of each tag      {_number(self.tag_nodes)} for tensors, "
            f"{_number(self.tag_nodes_svd)} for singular vectors",
            f"  samples of roots         {_number(self.roots)}",
            f"  trees, one sample each   {_number(self.trees)}",
        ]
        return "\n".join([*lines, *self._comparison(n_trees), *_CAVEATS])

    def _comparison(self, n_trees: int | None) -> list[str]:
        if self.trees == inf:
            none = [name for name in ("sigma", "xi", "gamma") if getattr(self.inputs, name) == 0]
            return [f"The theorem promises nothing here, since {' and '.join(none)} = 0."]
        if n_trees is None:
            return []
        return [f"At hand: {n_trees:,} trees, 1 / {_number(self.trees / n_trees)} of that."]


# These numbers are checked in tests/identify/test_bounds.py and tests/theorems/test_spectral.py.
_CAVEATS = (
    "C1 to C5 are unknown; the numbers above take them as given. The bounds are enough, but far",
    "from necessary: on random grammars of 2 states and 8 words they ask for more than 1e28 trees",
    "for an error of 0.1, where 10,000 are enough. Of the bundled grammar they promise nothing,",
    "two of its states being alike (xi = 0), but 3,000 of its trees teach a parser well.",
)


def sample_bounds(inputs: BoundInputs, constants: Constants = (1.0,) * 5) -> SampleBounds:
    """Sizes that Theorem 8 asks for.

    Parameters
    ----------
    inputs
        See `BoundInputs`.
    constants
        C1 to C5. The theorem says that there are such constants, not which.

    Reference: SPECTRAL, Theorem 8.
    """
    i = inputs
    L = log((2 * (i.n_phrases + i.n_tags) + 1) / i.delta)  # noqa: N806
    common = L * i.n_binary**2 * i.n_states**2 / i.epsilon**2
    hidden = i.gamma**2 * i.xi**4
    c1, c2, c3, c4, c5 = constants
    return SampleBounds(
        phrase_nodes=c1 * _over(common, hidden * i.sigma**4),
        tag_nodes=c2 * _over(common * i.n_words, i.sigma**4),
        phrase_nodes_svd=c3 * _over(common, hidden * i.sigma**2),
        tag_nodes_svd=c4 * _over(common, i.sigma**2),
        roots=c5 * _over(common * i.n_states, i.sigma**2),
        inputs=inputs,
        constants=constants,
    )


def _over(value: float, divisor: float) -> float:
    return value / divisor if divisor > 0 else inf


def _number(value: float) -> str:
    if value == inf:
        return "infinitely many"
    return f"{value:.2g}" if value >= 1e6 else f"{value:,.0f}"


# -- what can be observed, and what only the truth tells --------------------------------------


@dataclass(frozen=True)
class HiddenConstants:
    """xi and gamma of a probabilistic latent grammar.

    Attributes
    ----------
    xi
        As above, for the features that `hidden_constants` describes.
    gamma
        The least positive probability of a step.
    n_impossible
        Steps of seen rules that some state never takes. The theorem's own gamma is 0 if there is
        one; leaving them out is the kinder reading.
    indistinct
        Labels with states that these features cannot tell apart; xi is 0 if there is one.
    by_label
        The m-th singular value of I[a] of each label.
    """

    xi: float
    gamma: float
    n_impossible: int
    indistinct: tuple[str, ...]
    by_label: Mapping[str, float] = field(repr=False)


def hidden_constants(truth: LatentGrammar, *, depth: int = 1) -> HiddenConstants:
    """Compute xi and gamma of the grammar that made the data.

    Parameters
    ----------
    truth
        A grammar of probabilities.
    depth
        phi tells the inside tree of a node down to so many rules: 1 is the rule or word at the
        node, 2 adds those of its children, and so on.

    Singular values come from Gram matrices, which need no list of features:

        (I' I)[a][h, g] = sum over a -> b c of  C[h] C[g] contracted with (I' I)[b] and (I' I)[c]

    Cost: depth times rules times m^4.
    """
    if not truth.is_probabilistic:
        msg = "xi and gamma belong to probabilities; this model holds weights in an unknown basis"
        raise SapwoodError(msg, hint="give the grammar that made the data, or xi and gamma")
    gram = [np.ones((m, m)) for m in truth.n_states.tolist()]  # depth 0: only the label is known
    for _ in range(depth):
        gram = _deeper(truth, gram)
    names = [str(symbol) for symbol in truth.symbols]
    values = {name: _least_singular(g) for name, g in zip(names, gram, strict=True)}
    weights = truth.rule_weights
    return HiddenConstants(
        xi=min(values.values()),
        gamma=float(weights[weights > 0].min(initial=1.0)),
        n_impossible=int((weights == 0).sum()),
        indistinct=tuple(name for name, value in values.items() if value == 0.0),
        by_label=values,
    )


def _deeper(truth: LatentGrammar, gram: list[FloatArray]) -> list[FloatArray]:
    """Gram matrices of features that see one rule more."""
    out = [np.zeros_like(g) for g in gram]
    for r, (a, b, c) in enumerate(truth.rules.tolist()):
        tensor = truth.tensor(r)
        half = np.einsum("hpq,ps,qt->hst", tensor, gram[b], gram[c], optimize=True)
        out[a] += np.einsum("hst,gst->hg", half, tensor)
    lexicon = truth.lexicon
    for entry, tag in enumerate(lexicon.entry_tag.tolist()):
        first, last = lexicon.weight_start[entry : entry + 2].tolist()
        emission = lexicon.weights[first:last]
        out[truth.n_phrases + tag] += np.outer(emission, emission)
    return out


def _least_singular(gram: FloatArray) -> float:
    values = np.linalg.eigvalsh(gram)
    return float(np.sqrt(values[0])) if values[0] > NO_STATE * values[-1] else 0.0


def observed_sigma(learner: Fitted, *, feature_norm: float = 1.0) -> float:
    """Estimate sigma: the least over labels of the m(a)-th singular value found.

    Parameters
    ----------
    feature_norm
        The largest product of the lengths of phi and psi. The theorem wants both to be at most 1:
        the singular values are divided by it.
    """
    m = learner.model_.n_states
    values = learner.info_.singular_values[np.arange(len(m)), m - 1]
    return float(values.min()) / feature_norm


def estimate_bound_inputs(  # noqa: PLR0913 - what a theorem needs, each by its name
    learner: Fitted,
    *,
    n_binary: int = 1,
    epsilon: float = 0.1,
    delta: float = 0.05,
    truth: LatentGrammar | None = None,
    xi: float | None = None,
    gamma: float | None = None,
    feature_norm: float = 1.0,
) -> BoundInputs:
    """Collect the inputs of Theorem 8 from a fitted `SpectralLPCFG`.

    sigma is estimated; xi and gamma cannot be: they must be given, or computed from the grammar
    that made the data.

    Parameters
    ----------
    learner
        A fitted spectral estimator.
    n_binary, epsilon, delta
        See `BoundInputs`.
    truth
        The grammar that made the data; gives whichever of xi and gamma is None.
    feature_norm
        See `observed_sigma`. At 1 no correction is made, and scaled features, which are longer,
        make the bounds look smaller than they are.

    Raises
    ------
    SapwoodError
        When xi or gamma is neither given nor computable.
    """
    if truth is not None and (xi is None or gamma is None):
        hidden = hidden_constants(truth)
        xi = hidden.xi if xi is None else xi
        gamma = hidden.gamma if gamma is None else gamma
    if xi is None or gamma is None:
        missing = " and ".join(name for name, v in (("xi", xi), ("gamma", gamma)) if v is None)
        msg = f"{missing} cannot be observed: a spectral model says nothing on the hidden states"
        raise SapwoodError(msg, hint="pass them, or pass truth=, the grammar that made the data")
    model = learner.model_
    return BoundInputs(
        n_states=int(model.n_states.max()),
        n_phrases=model.n_phrases,
        n_tags=len(model.tags),
        n_words=len(model.lexicon.words),
        n_binary=n_binary,
        epsilon=epsilon,
        delta=delta,
        sigma=observed_sigma(learner, feature_norm=feature_norm),
        xi=xi,
        gamma=gamma,
    )
