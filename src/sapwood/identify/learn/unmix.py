"""Models with hidden trees from plain sentences, in closed form: PCFG-IE and DEP-IES.

`UnmixPCFGIE` (IDENT, section 5.2)
----------------------------------
    pi, T, O    root, child and word tables of the PCFG-IE          [k], [k, k], [d, k]
    A = O T     word below a parent of some state                   [d, k]
    mu_123(eta) = E[x_1 (x) x_2 (eta . x_3)] for sentences of three words; others permute 1, 2, 3
    Psi(eta)    = A diag(pi) T' diag(A' eta) A' = mu_123(eta) + mu_132(eta) - mu_231(eta)

1. Unmix Psi(1), and Psi(tau) for random directions tau.
2. DECOMPOSE(Psi(1)', Psi(tau)') gives the columns of A, which sum to 1.
3. pi = A+ Psi(1) 1;  T = A+ Psi(1)' (A+)' diag(pi)^-1;  O = A T^-1.
4. Refine with sentences of all lengths, optionally.

Left and right children are drawn alike, so that mu_132(eta) + mu_231(eta) - mu_123(eta), which is
Psi(eta)', is a second estimate; their mean is taken.

`UnmixDEPIES` (IDENT, section 5.3)
----------------------------------
    pi, A     words, and argument given its head; A pi = pi          [d], [d, d]
    D         diag(pi)
    mu_1      E[x] = pi, at every position of every length
    mu_12, mu_13   E[x_1 (x) x_2], E[x_1 (x) x_3] for sentences of three words
    mu~_12    E[x_1 (x) x_2] for sentences of two words, (D A' + A D) / 2

1. A A + A = [7 (mu_13 - mu_12) + 2 mu~_12] D^-1.
2. Each eigenvalue lam of A is one of two roots of lam^2 + lam = c; the choice that fits mu_12,
   mu_13 and mu~_12 best is taken, conjugate pairs together.
3. Both margins of A D, argument and head, are pi, which all words of all sentences count: A D is
   scaled to have them.
4. Refine with sentences of all lengths, optionally.

Trees are counted alike from both ends, so that pairs (i, j) and (n + 1 - j, n + 1 - i) are
transposes: their mean is taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import (
    NotIdentifiableError,
    SapwoodError,
    as_items,
    as_sentence,
    require_memory,
)
from sapwood.core.learner import HiddenTreeParameters, Info, maybe, parameter, positional, whole
from sapwood.execute import Engine
from sapwood.identify.check import check, remedy
from sapwood.identify.learn.uniform import (
    DEP_IES,
    FLOOR,
    PCFG_IE,
    UNIFORM_FAMILIES,
    UniformFamily,
    em,
    fit_moments,
    mix_with_uniform,
)
from sapwood.identify.model.families import family_of, moments
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformCounts, UniformTreeModel
from sapwood.linalg.diagonalise import Roots, decompose, stochastic_root

MOST_WORDS_PCFG_IE = 2000  # matrices are words x words
Contract = Callable[[FloatArray], FloatArray]
BALANCE_TOLERANCE = 1e-13
MOST_ROUNDS = 1000  # of balancing; 20 are usually enough
MOST_WORDS_DEP_IES = 300  # a root is chosen for every eigenvalue of words x words
# Nearer roots move with the square root of the noise instead of linearly.
NEAR_ROOTS = 1e-2
# Largest relative error of the eigenvectors, to first order, without a warning.
LARGEST_ERROR = 0.3
LARGEST_REPORT = 8  # most states of the report on a pcfg: it takes a second
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
LIBRARY_BYTES, KERNEL_BYTES, MATRICES, TOKEN_MEMORY = 60e6, 100e6, 16, 100
CUBES = 7  # arrays of words by words by words, for the closed form of dep-ies
CLIPPED = 0.1  # a warning is given where more of a table's mass is negative


class _Unmix(HiddenTreeParameters, ABC):
    """Unmixing of any family: count, apply the closed form, refine, check the fit."""

    _family: ClassVar[UniformFamily]
    _most_words: ClassVar[int]

    def fit(self, sentences: Iterable[Sequence[str]]) -> Self:
        """Learn from lists of words, some of them as short as the closed form needs."""
        vocabulary, counts = index_sentences(sentences, self._most_words)
        self._check_words(len(vocabulary))
        self._family.require_lengths(counts)
        return self._learn(counts, vocabulary)

    def fit_counts(self, counts: SentenceCounts, vocabulary: Sequence[str] | None = None) -> Self:
        """Learn from sentences that are counted already."""
        self._check_parameters()
        return self._learn(counts, vocabulary)

    def _learn(self, counts: SentenceCounts, vocabulary: Sequence[str] | None) -> Self:
        require_memory(
            self.memory_needed(counts),
            f"unmixing {counts.n_words:,} types of words",
            "write one sign for all rare words, give fewer sentences, or a smaller --max-length",
        )
        info = unmix_info({n: float(seen.sum()) for n, seen in counts.counts.items()})
        start = self._model(self._unmix_counts(counts, info), counts.n_words, vocabulary)
        if self.refine == "none":
            found = start
        else:
            found = refine(start, counts, info, vars(self), self._engine())
        self.model_ = replace(found, tables=self._arrange(found), record=self._record(info))
        check_fit(info, self.model_, counts)
        self.info_ = info
        return self

    def memory_needed(self, counts: SentenceCounts) -> float:
        """Bytes of matrices of words by words, and of the charts of EM, about."""
        tokens = sum(rows.size for rows in counts.rows.values())
        kernels = 0 if self.refine == "none" else KERNEL_BYTES
        matrices = 8 * MATRICES * counts.n_words**2
        return LIBRARY_BYTES + kernels + matrices + TOKEN_MEMORY * tokens

    @abstractmethod
    def _unmix_counts(self, counts: SentenceCounts, info: Info) -> dict[str, FloatArray]:
        """The tables of the closed form; warns where counts are too few or ill-conditioned."""

    def _check_words(self, n_words: int) -> None:
        """Refuse vocabularies that are too small for the family."""

    def _arrange(self, model: UniformTreeModel) -> Mapping[str, FloatArray]:
        """The tables in the order in which they are kept."""
        return model.tables

    def _record(self, info: Info) -> dict[str, Any]:
        """The provenance of the model."""
        given, n = vars(self), sum(info.extra["n_sentences"].values())
        record = {
            "method": "unmix", "states": given.get("n_states"), "seed": given.get("seed"),
            "sentences": int(n) if np.isfinite(n) else None, "refine": info.extra["refined"],
            "iterations": info.extra["iterations"], "log_likelihood": info.extra["log_likelihood"],
        }  # fmt: skip
        return {name: value for name, value in record.items() if value is not None}

    def _model(
        self, tables: dict[str, FloatArray], d: int, vocabulary: Sequence[str] | None
    ) -> UniformTreeModel:
        return UniformTreeModel(self._family.name, tuple(vocabulary or map(str, range(d))), tables)


class UnmixPCFGIE(_Unmix):
    """PCFG-IE from sentences, without trees.

    Attributes
    ----------
    model_ : UniformTreeModel
        States in falling order of their probability at the root.
    info_ : Info
        See `unmix_info`.
    """

    n_states: int = positional(
        default=2,
        domain=whole(1),
        words="Hidden states; at most as many as there are words.",
        kw_only=False,
    )
    n_draws: int = parameter(
        20, whole(1), "Random directions tried; the one with the widest eigengap is kept."
    )
    seed: int = parameter(0, maybe(whole(0)), "Seed of the random directions.")
    _family, _most_words = PCFG_IE, MOST_WORDS_PCFG_IE

    def _unmix_counts(self, counts: SentenceCounts, info: Info) -> dict[str, FloatArray]:
        tables = self._unmix(lambda eta: psi_of_counts(counts, eta), counts.n_words, info)
        check_conditioning(info, info.extra["n_sentences"].get(3, 0.0))
        return tables

    def fit_moments(self, mu_123: FloatArray, vocabulary: Sequence[str] | None = None) -> Self:
        """Learn from the exact distribution of three words, P(x_1, x_2, x_3), [d, d, d]."""
        self._check_parameters()
        d = len(mu_123)
        self._check_words(d)
        self.info_ = unmix_info({3: np.inf})
        tables = self._unmix(lambda eta: psi_of_tensor(mu_123, eta), d, self.info_)
        found = self._model(tables, d, vocabulary)
        self.model_ = replace(found, tables=self._arrange(found), record=self._record(self.info_))
        return self

    def _check_words(self, n_words: int) -> None:
        if self.n_states > n_words:
            msg = f"{self.n_states} states, but only {n_words} types of words"
            raise SapwoodError(msg, hint=f"ask for at most {n_words} states")

    def _arrange(self, model: UniformTreeModel) -> Mapping[str, FloatArray]:
        """The tables with states in falling order of their probability at the root."""
        t = model.tables
        order = np.argsort(-t["root"], kind="stable")
        return {
            "root": t["root"][order], "child": t["child"][np.ix_(order, order)],
            "words": t["words"][:, order],
        }  # fmt: skip

    def _unmix(self, psi: Contract, d: int, info: Info) -> dict[str, FloatArray]:
        rng = np.random.default_rng(self.seed)
        whole = psi(np.ones(d))
        found = decompose(whole.T, lambda tau: psi(tau).T, self.n_states, rng, n_draws=self.n_draws)
        info.extra["gap"] = found.gap
        info.extra["noise_gain"] = float(1 / (found.singular_values[self.n_states - 1] * found.gap))
        if self.n_states == 1:
            info.extra["noise_gain"] = 1.0
        if not found.is_real:
            info.warn("no direction had real eigenvalues: too few sentences, or too many states")
        return _tables(found.M1, whole, info)


def psi_of_counts(counts: SentenceCounts, eta: FloatArray) -> FloatArray:
    """Psi(eta) of counted sentences, [d, d]."""
    places = (((1, 2), 3), ((1, 3), 2), ((2, 3), 1))
    return _mean_psi(*(counts.contract(3, pair, third, eta) for pair, third in places))


def psi_of_tensor(mu_123: FloatArray, eta: FloatArray) -> FloatArray:
    """Psi(eta) of a joint distribution, [d, d]."""
    forms = ("abc,c->ab", "abc,b->ac", "abc,a->bc")
    return _mean_psi(*(np.einsum(form, mu_123, eta) for form in forms))


def _mean_psi(mu_123: FloatArray, mu_132: FloatArray, mu_231: FloatArray) -> FloatArray:
    psi = mu_123 + mu_132 - mu_231
    mirrored = mu_132 + mu_231 - mu_123
    return np.asarray((psi + mirrored.T) / 2)


def _tables(M1: FloatArray, whole: FloatArray, info: Info) -> dict[str, FloatArray]:  # noqa: N803
    """Step 3: pi, T and O from the columns of A and Psi(1)."""
    A = M1 / M1.sum(axis=0)  # noqa: N806 - a matrix
    inverse = np.linalg.pinv(A)
    root, removed = clip_columns((inverse @ whole.sum(axis=1))[:, None])
    # A state that is never at the root leaves its column of T open.
    pi = np.maximum(root[:, 0], 1e-9)
    child, from_child = clip_columns(inverse @ whole.T @ inverse.T / pi)
    words, from_words = clip_columns(A @ np.linalg.pinv(child))
    info.extra["clipped"] = max(removed, from_child, from_words)
    return {"root": root[:, 0], "child": child, "words": words}


class PairMoments(NamedTuple):
    """The moments of section 5.3, each [d, d]."""

    mu_12: FloatArray
    mu_13: FloatArray
    two: FloatArray


class UnmixDEPIES(_Unmix):
    """DEP-IES from sentences, without trees.

    Attributes
    ----------
    model_ : UniformTreeModel
    info_ : Info
        See `unmix_info`.
    roots_ : Roots
        The choice of eigenvalues.
    """

    _family, _most_words = DEP_IES, MOST_WORDS_DEP_IES

    def memory_needed(self, counts: SentenceCounts) -> float:
        """Also bytes of the errors of all eigenvectors: words by words by words."""
        return super().memory_needed(counts) + 8 * CUBES * counts.n_words**3

    def _unmix_counts(self, counts: SentenceCounts, info: Info) -> dict[str, FloatArray]:
        pairs = PairMoments(
            _mean_of_ends(counts.joint(3, (1, 2)), counts.joint(3, (2, 3))),
            _mean_of_ends(counts.joint(3, (1, 3)), counts.joint(3, (1, 3))),
            _mean_of_ends(counts.joint(2, (1, 2)), counts.joint(2, (1, 2))),
        )
        tables = self._unmix(pairs, counts.words(), info)
        check_conditioning(info, min(counts.n_sentences(2), counts.n_sentences(3)))
        if self.roots_.runner_up < 1.5 * self.roots_.mismatch:
            info.warn(
                "two choices of eigenvalues fit the pairs of words about equally well "
                f"({self.roots_.mismatch:.3g} and {self.roots_.runner_up:.3g}): more sentences of "
                "two and three words, or EM, would decide"
            )
        return tables

    def fit_moments(
        self,
        mu_12: FloatArray,
        mu_13: FloatArray,
        two: FloatArray,
        vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Learn from exact distributions of pairs of words, [d, d] each.

        `mu_12`, `mu_13` are those of the first two, and of the first and last word of three-word
        sentences; `two` is that of two-word sentences.
        """
        self._check_parameters()
        self.info_ = unmix_info({2: np.inf, 3: np.inf})
        tables = self._unmix(PairMoments(mu_12, mu_13, two), two.sum(axis=1), self.info_)
        found = self._model(tables, len(two), vocabulary)
        self.model_ = replace(found, record=self._record(self.info_))
        return self

    def _unmix(self, pairs: PairMoments, pi: FloatArray, info: Info) -> dict[str, FloatArray]:
        if (pi <= 0).any():
            msg = f"word number {int(np.argmin(pi))} never occurs, so nothing is known below it"
            raise SapwoodError(msg, hint="leave it out of the vocabulary")
        self.roots_ = find_root(pairs, pi)
        info.extra["gap"] = self.roots_.gap
        info.extra["noise_gain"] = _noise_gain(self.roots_, pi)
        argument, info.extra["clipped"] = clip_columns(_with_pairs(self.roots_.A, pairs, pi))
        return {"root": pi, "argument": _balance(argument * pi, pi) / pi}


def find_root(pairs: PairMoments, pi: FloatArray) -> Roots:
    """Steps 1 and 2: A A + A from the moments, and its root that fits them."""
    C = (7 * (pairs.mu_13 - pairs.mu_12) + 2 * pairs.two) / pi  # noqa: N806 - a matrix

    def mismatch(A: FloatArray) -> float:  # noqa: N803
        """L1 distance of the three moments, plus the negative mass of A D."""
        down = A * pi  # A D
        far = A @ down  # A A D
        two = (down + down.T) / 2
        mu_12 = (2 * down + 3 * down.T + far.T + down @ A.T) / 7
        mu_13 = (2 * down + 2 * down.T + far + far.T + down @ A.T) / 7
        found = (pairs.mu_12 - mu_12, pairs.mu_13 - mu_13, pairs.two - two)
        return float(sum(np.abs(part).sum() for part in found) - np.minimum(down, 0).sum())

    return stochastic_root(C, mismatch)


def _with_pairs(A: FloatArray, pairs: PairMoments, pi: FloatArray) -> FloatArray:  # noqa: N803
    """A with the symmetric part of A D replaced by mu~_12, which is counted directly."""
    down = A * pi
    return np.asarray(((down - down.T) / 2 + pairs.two) / pi)


def _balance(down: FloatArray, pi: FloatArray) -> FloatArray:
    """The nearest table, in relative entropy, whose rows and columns both sum to pi.

    Rows and columns are scaled in turn (Sinkhorn and Knopp 1967). A small multiple of the table of
    independent words, which has the right margins, is added, so that zeros do not stop it.
    """
    down = (1 - BALANCE_TOLERANCE) * down + BALANCE_TOLERANCE * np.outer(pi, pi)
    for _ in range(MOST_ROUNDS):
        rows = down.sum(axis=1)
        if np.abs(rows - pi).max() < BALANCE_TOLERANCE:
            break
        down = down * (pi / rows)[:, None]
        down = down * (pi / down.sum(axis=0))
    return down


def _mean_of_ends(pair: FloatArray, mirrored: FloatArray) -> FloatArray:
    return np.asarray((pair + mirrored.T) / 2)


def _noise_gain(roots: Roots, pi: FloatArray) -> float:
    """Amplification of noise, to first order: rarest word, eigenvalue with the nearest roots."""
    slope = float(np.min(np.abs(2 * roots.eigenvalues + 1)))
    return 7 * float(np.sqrt(2)) / (float(np.sqrt(pi.min())) * max(slope, NEAR_ROOTS))


def unmix_info(n_sentences: dict[int, float]) -> Info:
    """The `Info` of an estimate before unmixing.

    `n_sentences` is the number of sentences of each length, infinite for exact moments; `gap` the
    smallest distance between two eigenvalues; `noise_gain` the factor, to first order, by which
    noise in the moments is multiplied; `clipped` the largest fraction of a table that was negative
    and was set to 0; `moment_error` the mean L1 distance of the observed pair moments from the
    model's, at the lengths that were unmixed, and `moment_noise` its expectation under sampling
    noise; `refined` the refinement, `none`, `moments` or `em`, with the number of its `iterations`;
    `log_likelihood` the log-likelihood of the sentences given their lengths, after EM.
    """
    return Info(
        extra={
            "n_sentences": n_sentences, "gap": np.nan, "noise_gain": np.nan, "clipped": 0.0,
            "moment_error": np.nan, "moment_noise": 0.0, "refined": "none", "iterations": 0,
            "log_likelihood": None,
        }
    )  # fmt: skip


def index_sentences(
    sentences: Iterable[Sequence[str]], max_words: int
) -> tuple[tuple[str, ...], SentenceCounts]:
    """The words of sentences, most frequent first, and counts of the sentences."""
    given = as_items(sentences, "sentences")
    kept = [as_sentence(words) for words in given if not isinstance(words, Sized) or len(words)]
    frequency = Counter(word for words in kept for word in words)
    vocabulary = tuple(sorted(frequency, key=lambda word: (-frequency[word], word)))
    if not vocabulary:
        msg = "no sentences: nothing can be learnt"
        raise SapwoodError(msg, hint="give one tokenised sentence a line")
    if len(vocabulary) > max_words:
        msg = (
            f"{len(vocabulary):,} types of words; this family is unmixed with at most {max_words:,}"
        )
        raise SapwoodError(msg, hint="write one sign for all rare words, or their tags for words")
    if len(vocabulary) == 1:
        msg = f"all words are {vocabulary[0]!r}, and one type of word shows no structure"
        raise SapwoodError(msg, hint="check how the sentences were split into words")
    number = {word: place for place, word in enumerate(vocabulary)}
    ids = ([number[word] for word in words] for words in kept)
    return vocabulary, SentenceCounts.of(ids, len(vocabulary))


def clip_columns(table: FloatArray) -> tuple[FloatArray, float]:
    """Columns as distributions, negative entries set to 0; and the largest fraction so removed."""
    clipped = np.maximum(table, 0.0)
    total = clipped.sum(axis=0)
    mass = np.abs(table).sum(axis=0)
    removed = float(np.max(1 - total / np.where(mass > 0, mass, 1.0)))
    # A column without any positive entry becomes uniform.
    safe = np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1.0 / len(table))
    return safe, removed


def check_conditioning(info: Info, n: float) -> None:
    """Warn where the amplified noise of n sentences is as large as the parameters."""
    noise_gain, clipped = info.extra["noise_gain"], info.extra["clipped"]
    if np.isfinite(n) and noise_gain / np.sqrt(n) > LARGEST_ERROR:
        needed = (noise_gain / LARGEST_ERROR) ** 2
        info.warn(
            f"ill-conditioned: noise is multiplied by {noise_gain:.3g}; too few short "
            f"sentences for the closed form: {n:,.0f}, where {_roughly(needed)} would do"
        )
    if clipped > CLIPPED:
        info.warn(
            f"{clipped:.0%} of a table was negative and was set to 0: too few sentences, "
            "or sentences that this family cannot have made"
        )


def _roughly(n: float) -> str:
    """A number rounded to its first two digits, in words.

    Examples
    --------
    >>> _roughly(5.81e7), _roughly(12.0), _roughly(np.inf)
    ('about 58,000,000', 'about 12', 'over a billion')
    """
    if n > 1e9:
        return "over a billion"
    return f"about {int(float(f'{n:.1e}')):,}"


def check_fit(info: Info, model: UniformTreeModel, counts: SentenceCounts) -> None:
    """Compare pair moments of short sentences with the model's.

    The closed forms add and subtract moments, so that their own errors come to a multiple of the
    noise; after a refinement only the noise is left.
    """
    family = family_of(model.family)
    errors, noises = [], []
    for length in (2, 3):
        n = info.extra["n_sentences"].get(length)
        if not n:
            continue
        pairs = list(combinations(range(1, length + 1), 2))
        for pair, found in zip(pairs, moments(family, model.tables, length, pairs), strict=True):
            mu = np.asarray(found)
            errors.append(float(np.abs(counts.joint(length, pair) - mu).sum()))
            noises.append(float(np.sqrt(2 * np.maximum(mu * (1 - mu), 0.0) / (np.pi * n)).sum()))
    error, noise = float(np.mean(errors)), float(np.mean(noises))
    info.extra |= {"moment_error": error, "moment_noise": noise}
    multiple = 1 if info.extra["refined"] != "none" else UNIFORM_FAMILIES[model.family].noise
    if error > 3 * multiple * noise:
        info.warn(
            f"the model's pairs of words are {error:.3f} (L1) away from those counted, "
            f"where sampling alone would make it {noise:.3f}: the estimate is poor, or "
            "the sentences are not from this family"
        )


def refine(
    model: UniformTreeModel,
    counts: SentenceCounts,
    info: Info,
    settings: dict[str, Any],
    engine: Engine,
) -> UniformTreeModel:
    """The fit to all sentences, by moments or EM, that starts from the unmixed estimate."""
    how, longest = settings["refine"], settings["max_length"]
    info.extra["refined"] = how
    if how == "moments":
        fit = fit_moments(model, counts, longest)
        info.extra["iterations"] = fit.evaluations
        if fit.max_length < min(longest, counts.lengths[-1]):
            info.warn(f"moments of sentences above {fit.max_length} words are too many: left out")
        return fit.model
    run = em(
        _better_start(model, counts, longest),
        counts.up_to(longest),
        iterations=settings["iterations"],
        engine=engine,
    )
    info.extra["iterations"] = run.n_expectations
    info.extra["log_likelihood"] = run.values[-1]
    if not run.has_converged:
        info.warn(f"EM was still climbing after {info.iterations} iterations")
    return run.parameters


def _better_start(
    model: UniformTreeModel, counts: SentenceCounts, max_length: int
) -> UniformTreeModel:
    """The unmixed estimate or the moment fit from there, whichever has the higher likelihood."""
    try:
        fitted = fit_moments(model, counts, max_length).model
    except SapwoodError:  # too many words for the fit
        return model
    read = counts.up_to(max_length)
    found = [UniformCounts.of(read, mix_with_uniform(one, FLOOR)) for one in (model, fitted)]
    gains = found[1].log_likelihood > found[0].log_likelihood
    return fitted if gains else model


def refuse_family(family: str, n_states: int | None) -> None:
    """Raise the reason why a family cannot be unmixed.

    NotIdentifiableError, with the report of `identify`, where no sentences determine the
    parameters; SapwoodError where no closed form is known, or for a name that is no family.
    """
    found = family_of(family)
    k = 2 if n_states is None else n_states
    if family != "pcfg":
        other = "pcfg-ie" if found.has_states else "dep-ies"
        msg = f"no closed form is known for {family}, though sentences determine its parameters"
        raise SapwoodError(msg, hint=f"unmix {other} instead, its restriction")
    if k == 1:
        msg = "a pcfg with 1 state is unmixed as the pcfg-ie that it is"
        raise SapwoodError(msg, hint="unmix pcfg-ie with 1 state instead")
    # With as many words as states the report is the same as with more words.
    size = min(k, LARGEST_REPORT)
    report = check(family, words=size, states=size, length=3, moments="all", n_points=0)
    msg = (
        f"no sentences determine a pcfg with {k} states: a change of basis of its hidden states "
        f"moves its parameters in {k * (k - 1)} dimensions and changes no probability"
    )
    hint = "unmix pcfg-ie instead: its children are independent and drawn alike, which fixes them"
    raise NotIdentifiableError(msg, report=replace(report, hint=remedy(report)), hint=hint)
