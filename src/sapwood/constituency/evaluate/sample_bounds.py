"""The number of samples of Theorem 8 of SPECTRAL, and its distance from the number needed.

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

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.random_trees import state_visits
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError

NO_STATE = 1e-13  # eigenvalues of a Gram matrix this much below the largest are rounding
Constants = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class BoundInputs:
    """What Theorem 8 depends on; see the notation of this module."""

    n_states: int  # m; where labels differ, the largest
    # in-terminals and pre-terminals
    n_phrases: int
    n_tags: int
    n_words: int  # n, the distinct words
    # N, the binary rules of the trees whose probabilities are bounded: words less one
    n_binary: int
    # error allowed, and probability that it is larger
    epsilon: float
    delta: float
    # how well the features tell states apart, and the rarest step of the hidden model
    sigma: float
    xi: float
    gamma: float

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if not value >= _LEAST.get(part.name, 0.0):
                raise SapwoodError(
                    f"{part.name} must be {_LEAST.get(part.name, 0.0):g} or more, not {value!r}"
                )
        if not 0 < self.delta < 1 or not self.epsilon > 0:
            raise SapwoodError(
                "delta must be between 0 and 1 and epsilon positive, "
                f"not {self.delta!r} and {self.epsilon!r}"
            )


_LEAST = {"n_states": 1, "n_phrases": 1, "n_tags": 1, "n_words": 1, "n_binary": 1}


@dataclass(frozen=True)
class SampleBounds:
    """Samples that are enough, label by label; `inf` where the theorem promises nothing."""

    # N_a: samples of each in-terminal and of each pre-terminal for the tensors
    phrase_nodes: float
    tag_nodes: float
    # M_a: further samples of each for the singular vectors
    phrase_nodes_svd: float
    tag_nodes_svd: float
    roots: float  # R: samples that are roots
    inputs: BoundInputs
    constants: Constants  # C1 to C5 as assumed; the paper leaves them open

    @property
    def trees(self) -> float:
        """Trees that this takes when each gives one sample, as the theorem has it."""
        a, t = self.inputs.n_phrases, self.inputs.n_tags
        first = max(a * self.phrase_nodes + t * self.tag_nodes, self.roots)
        return first + a * self.phrase_nodes_svd + t * self.tag_nodes_svd


def sample_bounds(inputs: BoundInputs, constants: Constants = (1.0,) * 5) -> SampleBounds:
    """Sizes that Theorem 8 asks for.

    Parameters
    ----------
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


@dataclass(frozen=True)
class HiddenConstants:
    """sigma, xi and gamma of a probabilistic latent grammar."""

    # as above, for the features that `hidden_constants` describes
    sigma: float
    xi: float
    gamma: float  # the least positive probability of a step
    # steps of seen rules that some state never takes. The theorem's own gamma is 0 if there is
    # one; leaving them out is the kinder reading
    n_impossible: int
    # labels with states that these features cannot tell apart; xi is 0 if there is one
    indistinct: tuple[str, ...]
    # the m-th singular values of I[a] and of Omega[a] of each label
    by_label: Mapping[str, float] = field(repr=False)
    sigma_by_label: Mapping[str, float] = field(repr=False)


def hidden_constants(truth: LatentGrammar, *, depth: int = 1) -> HiddenConstants:
    """Compute sigma, xi and gamma of the grammar that made the data.

    Parameters
    ----------
    truth
        A grammar of probabilities.
    depth
        phi encodes the inside tree of a node down to this depth: 1 is the rule or word at the
        node, 2 adds those of its children, and so on. psi tells the rule above and the side.

    Singular values come from Gram matrices, which need no list of features. With P(psi | a, h) in
    J[a] and P(h | a) in the diagonal D[a],

        (I' I)[a][h, g] = sum over a -> b c of  C[h] C[g] contracted with (I' I)[b] and (I' I)[c]
        Omega[a] = I[a] D[a] J[a]',  whose singular values are those of (I' I)^1/2 D (J' J)^1/2

    Cost: depth times rules times m^4.
    """
    if not truth.is_probabilistic:
        raise SapwoodError(
            "xi and gamma belong to probabilities; this model holds weights in an unknown basis",
            hint="give the grammar that made the data",
        )
    gram = [np.ones((m, m)) for m in truth.n_states.tolist()]  # depth 0: only the label is known
    for _ in range(depth):
        gram = _deeper(truth, gram)
    names = [str(symbol) for symbol in truth.symbols]
    squares = {name: np.linalg.eigvalsh(g) for name, g in zip(names, gram, strict=True)}
    values = {
        name: float(np.sqrt(s[0])) if s[0] > NO_STATE * s[-1] else 0.0
        for name, s in squares.items()
    }
    joint = _sigmas(truth, gram)
    weights = truth.rule_weights
    return HiddenConstants(
        sigma=min(joint),
        xi=min(values.values()),
        gamma=float(weights[weights > 0].min(initial=1.0)),
        n_impossible=int((weights == 0).sum()),
        indistinct=tuple(name for name, value in values.items() if value == 0.0),
        by_label=values,
        sigma_by_label=dict(zip(names, joint, strict=True)),
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


def _sigmas(truth: LatentGrammar, inside: list[FloatArray]) -> list[float]:
    """The m-th singular value of Omega[a] for every label; 0 for one that no tree has."""
    start, rules = np.concatenate([[0], np.cumsum(truth.n_states)]), truth.rules.tolist()
    tensors = [truth.tensor(r) for r in range(len(rules))]
    visits = np.split(state_visits(start, truth.root, truth.rules, tensors), start[1:-1])
    # visits times P(psi | a, h), for psi the root, then for each rule above and side
    outside = [np.outer(root, root) for root in np.split(truth.root, start[1:-1])]
    for (a, b, c), tensor in zip(rules, tensors, strict=True):
        below = np.tensordot(visits[a], tensor, axes=1)  # [p, q]
        for child, k in ((b, below.sum(axis=1)), (c, below.sum(axis=0))):
            outside[child] += np.outer(k, k)
    sigmas = []
    for v, gram, above in zip(visits, inside, outside, strict=True):
        # D (J' J) D = (visits P)(visits P)' / (sum of visits)^2
        total = v.sum()
        product = _root(gram) @ _root(above / total**2) if total > 0 else np.zeros((1, 1))
        singular = np.linalg.svd(product, compute_uv=False)
        sigmas.append(float(singular[-1]) if singular[-1] > NO_STATE**0.5 * singular[0] else 0.0)
    return sigmas


def _root(gram: FloatArray) -> FloatArray:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)
