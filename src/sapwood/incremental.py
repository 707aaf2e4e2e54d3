"""`surprisal`: how unexpected each word of a sentence is, for grammars and language models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import (
    SapwoodError,
    SapwoodValueError,
    as_count,
    as_items,
    as_sentence,
    count,
    describe,
    join_words,
)
from sapwood.lm.data.ngrams import refuse_reserved_words
from sapwood.lm.model.language_model import LanguageModel

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model

UNITS = {"bits": log(2.0), "nats": 1.0}
END = "</s>"
MEASURES = ("surprisal", "syntactic", "lexical", "tag_entropy", "word_entropy")
N_SUMS = 3  # columns that add up over the tokens of a unit


@dataclass(frozen=True)
class Surprisal:
    """The surprisal of each word of a sentence, and of the sentence's end.

    Arrays have one number for each word and, last, one for the end of the sentence; a model of a
    stream of words has no ends. Numbers that a model does not have are NaN.

    Attributes
    ----------
    words
        The words, and `</s>` for the end.
    unit
        `bits` or `nats`.
    surprisal
        -log P(word | words before). Infinite for a word that the grammar cannot derive here, and
        NaN for all words behind it.
    syntactic, lexical
        The two parts of a grammar's surprisal: the derivations up to the tag of the word, and the
        word given them (Roark and others 2009).
    tag_entropy, word_entropy
        Entropy of the prediction before the word was read, over tags and over words; the end of the
        sentence counts as a tag and as a word.
    """

    words: tuple[str, ...]
    unit: str
    surprisal: FloatArray
    syntactic: FloatArray
    lexical: FloatArray
    tag_entropy: FloatArray
    word_entropy: FloatArray

    @property
    def total(self) -> float:
        """The surprisal of the whole sentence: -log P(sentence)."""
        return float(np.nansum(self.surprisal))

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary for each word, numbered from 1; None for numbers that are NaN."""
        columns = [getattr(self, name) for name in MEASURES]
        for number, (word, *values) in enumerate(zip(self.words, *columns, strict=True), 1):
            cells = (None if np.isnan(value) else float(value) for value in values)
            yield {"number": number, "word": word} | dict(zip(MEASURES, cells, strict=True))


def join_tokens(found: Surprisal, sizes: Sequence[int], names: Sequence[str]) -> Surprisal:
    """The surprisal of units of several tokens each: words of an experiment, or regions.

    Surprisals add up over the tokens of a unit; entropies are those before its first token. A unit
    without tokens, such as a region that one condition leaves out, has NaN everywhere.

    Parameters
    ----------
    sizes
        Number of tokens of each unit; together all words of the sentence, without its end.
    names
        The units, as they are to be called.

    Raises
    ------
    SapwoodError
        If there are not as many names as sizes, or the sizes do not add up to the words.

    Examples
    --------
    >>> import sapwood as sw
    >>> found = sw.surprisal(sw.bundled_grammar(), ["they", "sleep", "."])
    >>> joined = join_tokens(found, [1, 2], ["they", "sleep."])
    >>> joined.words, round(joined.total - found.total, 9)
    (('they', 'sleep.', '</s>'), 0.0)
    """
    ends = found.words[-1:] if found.words[-1:] == (END,) else ()
    sizes = _check_units(sizes, names, len(found.words) - len(ends))
    stops = np.cumsum([*sizes, *[1] * len(ends)])
    table = np.full((len(MEASURES), len(stops)), np.nan)
    for unit, (start, stop) in enumerate(pairwise([0, *stops.tolist()])):
        if start == stop:
            continue
        for column, name in enumerate(MEASURES):
            part = getattr(found, name)[start:stop]
            table[column, unit] = part.sum() if column < N_SUMS else part[0]
        if np.isinf(found.surprisal[start:stop]).any():  # what follows in the unit is NaN
            table[0, unit] = np.inf
    return Surprisal((*names, *ends), found.unit, *table)


def _check_units(sizes: Sequence[int], names: Sequence[str], n_words: int) -> list[int]:
    """The sizes of units of a sentence of `n_words` words, refused where they do not fit."""
    counts = [
        as_count(size, f"size {place}")
        for place, size in enumerate(as_items(sizes, "a list of sizes"), 1)
    ]
    names = list(as_items(names, "a list of names"))
    if len(counts) != len(names):
        msg = f"{count(len(counts), 'size')} and {count(len(names), 'name')} of units"
        raise SapwoodValueError(msg, hint="give one name for each unit")
    if (total := sum(counts)) != n_words:
        msg = (
            f"the units have {count(total, 'token')}, and the sentence has {count(n_words, 'word')}"
        )
        hint = "sizes add up to the words of the sentence, without its end"
        raise SapwoodValueError(msg, hint=hint)
    return counts


def surprisal(
    model: Model | LanguageModel,
    words: Sequence[str],
    *,
    unit: str = "bits",
    restart: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Surprisal:
    """How unexpected each word of a sentence is, given the words before it.

        surprisal of word k  =  -log P(w1 ... wk) + log P(w1 ... wk-1)

    For a grammar, P(w1 ... wk) is the probability of all sentences that begin with these words, by
    exact sums over trees and hidden states. A mix of grammars takes the members that have
    probabilities, by their weights.

    Parameters
    ----------
    model
        A grammar with probabilities (pcfg, em, cluster, pivot, pivot-em), a mix with one of them,
        or a language model of any kind.
    words
        A tokenised sentence. An unknown word counts as its class (grammars) or as the unknown word
        (language models).
    unit
        `bits` or `nats`.
    restart
        For grammars: the probability, at each word, that the derivation is broken off and a new
        fragment begins. With a small value such as 1e-4 no word is impossible; 0 gives
        the exact surprisal of the grammar. Language models have no derivation to break off.
    check
        Called after each word of a grammar's sentence; raises an error to give up.

    Raises
    ------
    SapwoodError
        If the model has no probabilities of prefixes, as spectral models and networks, or one of
        the words is a reserved symbol such as `</s>`.

    Examples
    --------
    >>> import sapwood as sw
    >>> found = sw.surprisal(sw.bundled_grammar(), "the dog sees the man .".split())
    >>> found.words[1], round(float(found.surprisal[1]), 2)
    ('dog', 5.85)
    >>> log_prob = sw.bundled_grammar().log_prob(found.words[:-1])
    >>> bool(abs(found.total * np.log(2) + log_prob) < 1e-9)
    True
    """
    if unit not in UNITS:
        raise SapwoodError(f"unit is {unit!r}, expected bits or nats")
    if not 0.0 <= restart < 1.0:
        raise SapwoodError(f"restart is {restart}, expected a probability below 1")
    sentence = as_sentence(words)
    refuse_reserved_words(sentence)
    if isinstance(model, LanguageModel):
        if restart:
            raise SapwoodError(
                f"restart is {restart:g}, and a language model has no derivation to break off",
                hint="leave it out: a language model gives every word a probability",
            )
        return _by_language_model(model, sentence, unit)
    return _by_grammars(model, sentence, unit, restart, check)


def members_with_prefixes(model: Any) -> Model:
    """The part of a mix of trees' models whose members have prefix probabilities.

    Raises
    ------
    SapwoodError
        If no member has them, or the model is not one of trees.
    """
    from sapwood.constituency.grammar.ensemble import generative_part
    from sapwood.constituency.parse.prefixes import NO_PREFIXES

    if not hasattr(model, "can"):  # models of trees say what they can do
        msg = f"surprisal needs a grammar or a language model, not {describe(model)}"
        raise SapwoodError(msg, hint=NO_PREFIXES)
    try:
        return generative_part(model)
    except SapwoodError as error:
        methods = join_words(dict.fromkeys(member.method for member in model.members))
        raise SapwoodError(
            f"no surprisal by {methods}: there are no probabilities of prefixes", hint=NO_PREFIXES
        ) from error


def _by_language_model(model: LanguageModel, words: list[str], unit: str) -> Surprisal:
    found = -model.log_probs(model.rows_of(words)) / UNITS[unit]
    missing = np.full(len(found), np.nan)
    names = tuple(words) if model.is_stream else (*words, END)
    return Surprisal(names, unit, found, missing, missing, missing, missing)


def _by_grammars(
    model: Any, words: list[str], unit: str, restart: float, check: Callable[[], None]
) -> Surprisal:
    from sapwood.constituency.parse.prefixes import mix_predictions

    usable = members_with_prefixes(model)
    table = np.full((len(words) + 1, 4), np.nan)
    for k, found in enumerate(mix_predictions(usable.grammars, usable.weights, words, restart)):
        with np.errstate(divide="ignore"):
            table[k, :2] = 0.0 - np.log(found[:2])
        table[k, 2:] = found[2:]
        check()
    table /= UNITS[unit]
    surprise, syntactic, tag_entropy, word_entropy = table.T
    lexical = surprise - np.where(np.isinf(syntactic), np.nan, syntactic)
    return Surprisal((*words, END), unit, surprise, syntactic, lexical, tag_entropy, word_entropy)
