"""What unmixing estimators share: counted sentences, proper tables, diagnostics, refinement."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sapwood.arguments import as_items
from sapwood.arrays import FloatArray
from sapwood.corpus.words import as_sentence
from sapwood.errors import NotIdentifiableError, SapwoodError, SapwoodWarning
from sapwood.estimators.moment_fit import fit_moments
from sapwood.estimators.uniform_em import FLOOR, em, smooth
from sapwood.estimators.uniform_families import uniform_family
from sapwood.identify.check import check, remedy
from sapwood.identify.families import family_of, moments
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts
from sapwood.moments.uniform_counts import UniformCounts

# Relative error of the eigenvectors, to first order, above which they mean little.
UNSURE = 0.3
LARGEST_REPORT = 8  # states of the report on a pcfg: a second, and more states look the same
CLIPPED = 0.1  # mass of negative probabilities, of a table's total, that is worth a warning


@dataclass
class UnmixInfo:
    """What was found on the way, and how far it can be trusted.

    Attributes
    ----------
    n_sentences
        By length; infinite for exact moments.
    gap
        Smallest distance between two eigenvalues that had to be told apart.
    noise_gain
        How much noise in the moments is multiplied, to first order.
    clipped
        Largest share of a table that was negative and was set to 0.
    moment_error, moment_noise
        Mean L1 distance of the observed pair moments from the model's, at the lengths that were
        unmixed, and what sampling noise alone would make of it.
    refined
        `moments` or `em`, where that was asked for.
    iterations
        Of the refinement.
    log_likelihood
        Of the sentences given their lengths, after EM.
    warnings
        Reasons to doubt the estimate.
    """

    n_sentences: dict[int, float] = field(default_factory=dict)
    gap: float = np.nan
    noise_gain: float = np.nan
    clipped: float = 0.0
    moment_error: float = np.nan
    moment_noise: float = 0.0
    refined: str = "none"
    iterations: int = 0
    log_likelihood: float | None = None
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Keep a reason for doubt, and show it."""
        self.warnings.append(text)
        warnings.warn(text, SapwoodWarning, stacklevel=2)


class Corpus(NamedTuple):
    """Distinct sentences with the words that their numbers stand for, commonest first."""

    vocabulary: tuple[str, ...]
    counts: SentenceCounts


def count_sentences(sentences: Iterable[Sequence[str]], max_words: int) -> Corpus:
    """Number the words of sentences, lists of strings, and count the sentences."""
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
        msg = f"all words are {vocabulary[0]!r}: one type of word tells nothing apart"
        raise SapwoodError(msg, hint="check how the sentences were split into words")
    number = {word: place for place, word in enumerate(vocabulary)}
    ids = ([number[word] for word in words] for words in kept)
    return Corpus(vocabulary, SentenceCounts.of(ids, len(vocabulary)))


def clip_columns(table: FloatArray) -> tuple[FloatArray, float]:
    """Columns as distributions, negative entries set to 0; and the largest share so removed."""
    clipped = np.maximum(table, 0.0)
    total = clipped.sum(axis=0)
    mass = np.abs(table).sum(axis=0)
    removed = float(np.max(1 - total / np.where(mass > 0, mass, 1.0)))
    # A column without any positive entry says nothing: every outcome is as likely.
    safe = np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1.0 / len(table))
    return safe, removed


def check_conditioning(info: UnmixInfo, n: float) -> None:
    """Warn where the noise of n sentences is multiplied to the size of what is looked for."""
    if np.isfinite(n) and info.noise_gain / np.sqrt(n) > UNSURE:
        needed = (info.noise_gain / UNSURE) ** 2
        info.warn(
            f"ill-conditioned: noise is multiplied by {info.noise_gain:.3g}; too few short "
            f"sentences for the closed form: {n:,.0f}, where {_roughly(needed)} would do"
        )
    if info.clipped > CLIPPED:
        info.warn(
            f"{info.clipped:.0%} of a table was negative and was set to 0: too few sentences, "
            "or sentences that this family cannot have made"
        )


def _roughly(n: float) -> str:
    """A number of which only the first digits are known.

    Examples
    --------
    >>> _roughly(5.81e7), _roughly(12.0), _roughly(np.inf)
    ('about 58,000,000', 'about 12', 'over a billion')
    """
    if n > 1e9:
        return "over a billion"
    return f"about {int(float(f'{n:.1e}')):,}"


def check_fit(info: UnmixInfo, model: UniformTreeModel, counts: SentenceCounts) -> None:
    """Compare pair moments of short sentences with the model's.

    The closed forms add and subtract moments, so that their own errors come to a multiple of the
    noise; after a refinement only the noise is left.
    """
    family = family_of(model.family)
    errors, noises = [], []
    for length in (2, 3):
        n = counts.n_sentences(length)
        if not n:
            continue
        pairs = list(combinations(range(1, length + 1), 2))
        for pair, found in zip(pairs, moments(family, model.tables, length, pairs), strict=True):
            mu = np.asarray(found)
            errors.append(float(np.abs(counts.joint(length, pair) - mu).sum()))
            noises.append(float(np.sqrt(2 * np.maximum(mu * (1 - mu), 0.0) / (np.pi * n)).sum()))
    info.moment_error, info.moment_noise = float(np.mean(errors)), float(np.mean(noises))
    multiple = 1 if info.refined != "none" else uniform_family(model.family).noise
    if info.moment_error > 3 * multiple * info.moment_noise:
        info.warn(
            f"the model's pairs of words are {info.moment_error:.3f} (L1) away from those counted, "
            f"where sampling alone would make it {info.moment_noise:.3f}: the estimate is poor, or "
            "the sentences are not from this family"
        )


def refine(
    model: UniformTreeModel, counts: SentenceCounts, info: UnmixInfo, settings: dict[str, Any]
) -> UniformTreeModel:
    """The unmixed estimate as the start of a fit to all sentences, if wanted."""
    how, longest = settings["refine"], settings["max_length"]
    info.refined = how
    if how == "moments":
        fit = fit_moments(model, counts, longest)
        info.iterations = fit.evaluations
        if fit.max_length < min(longest, counts.lengths[-1]):
            info.warn(f"moments of sentences above {fit.max_length} words are too many: left out")
        return fit.model
    if how == "em":
        run = em(
            _better_start(model, counts, longest),
            counts.up_to(longest),
            iterations=settings["iterations"],
            n_jobs=settings["n_jobs"],
        )
        info.iterations = run.n_steps
        info.log_likelihood = run.log_likelihoods[-1]
        if not run.has_converged:
            info.warn(f"EM was still climbing after {info.iterations} iterations")
        return run.model
    return model


def _better_start(
    model: UniformTreeModel, counts: SentenceCounts, max_length: int
) -> UniformTreeModel:
    """The unmixed estimate or the moment fit from there, whichever is the likelier."""
    try:
        fitted = fit_moments(model, counts, max_length).model
    except SapwoodError:  # too many words for that
        return model
    read = counts.up_to(max_length)
    found = [UniformCounts.of(read, smooth(one, FLOOR)) for one in (model, fitted)]
    gains = found[1].log_likelihood > found[0].log_likelihood
    return fitted if gains else model


def refuse_family(family: str, n_states: int | None) -> None:
    """Say why a family cannot be unmixed.

    Raises
    ------
    NotIdentifiableError
        Where no sentences determine the parameters; its report is that of `identify`.
    SapwoodError
        Where they do, but no closed form is known; or for a name that is no family.
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
    # As many words as states: the fewest that show what any number of words does.
    size = min(k, LARGEST_REPORT)
    report = check(family, words=size, states=size, length=3, moments="all", n_points=0)
    msg = (
        f"no sentences determine a pcfg with {k} states: a change of basis of its hidden states "
        f"moves its parameters in {k * (k - 1)} dimensions and changes no probability"
    )
    hint = "unmix pcfg-ie instead: its children are independent and drawn alike, which fixes them"
    raise NotIdentifiableError(msg, report=replace(report, hint=remedy(report)), hint=hint)
