"""From EM's probabilities to a grammar that reads any word.

Notation
--------
    e(a, x, h)    expected count of tag a in state h with word x        q(x | a)   plain lexicon
    P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u)
    q(x | a, h) = q(x | a) P(h | a, x) / P(h | a)

The plain lexicon says how probable a word is with a tag, known or not; the states only share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.arrays import starts_of
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.word_classes import WordClasses
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.latent_parameters import LatentParameters
from sapwood.models.lexicon import Lexicon
from sapwood.moments.expected_counts import ExpectedCounts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CLASS_STRENGTH = 5.0  # u above: pseudo-tokens of the class behind the states of each word


def latent_grammar(
    parameters: LatentParameters,
    counts: ExpectedCounts,
    plain: PCFG,
    pairs: IntArray,
    record: dict[str, Any],
) -> LatentGrammar:
    """Make a grammar of estimated probabilities, with the lexicon of the plain grammar behind it.

    Parameters
    ----------
    counts
        Expected counts under the parameters.
    pairs
        Codes `tag * n_words + word` of the pairs in `parameters.words`.
    """
    grammar = plain.model_
    seen = (
        np.bincount(plain.bank_.rule[plain.bank_.rule >= 0], minlength=len(parameters.symbols_of))
        > 0
    )
    sizes = np.diff(parameters.rule_start)
    return LatentGrammar(
        grammar.phrases, grammar.tags, parameters.n_states, parameters.root, grammar.rules,
        parameters.rules[np.repeat(seen, sizes)],
        _lexicon(parameters, counts, plain, pairs), grammar.coarse, grammar.transform,
        record=record,
    )  # fmt: skip


def _lexicon(
    parameters: LatentParameters, counts: ExpectedCounts, plain: PCFG, pairs: IntArray
) -> Lexicon:
    lexicon, n_phrases = plain.model_.lexicon, plain.model_.n_phrases
    n_words = len(plain.bank_.inventory.words)
    m = int(parameters.n_states.max())
    tag, word = pairs // n_words, pairs % n_words
    expected = _padded(counts.words, parameters.n_states[n_phrases + tag], m)
    states = _state_shares(lexicon, plain, expected, tag, word)
    entry_tag = lexicon.entry_tag.astype(np.int64)
    joint = states * lexicon.weights[:, None]
    per_tag = np.zeros((len(plain.model_.tags), m))
    np.add.at(per_tag, entry_tag, joint)
    joint /= np.where(per_tag > 0, per_tag, 1.0)[entry_tag]
    sizes = parameters.n_states[n_phrases + entry_tag]
    kept = np.arange(m) < sizes[:, None]
    return Lexicon(
        lexicon.words, lexicon.classes, lexicon.style, lexicon.row_start, lexicon.entry_tag,
        joint[kept], starts_of(sizes),
    )  # fmt: skip


def _state_shares(
    lexicon: Lexicon, plain: PCFG, expected: FloatArray, tag: IntArray, word: IntArray
) -> FloatArray:
    """P(h | a, x) for every entry of the lexicon, shape [n_entries, m]."""
    classes = WordClasses.of(plain.bank_, lexicon)
    n_entries, m = len(lexicon.entry_tag), expected.shape[1]
    by_tag = np.zeros((len(plain.model_.tags), m))
    np.add.at(by_tag, tag, expected)
    prior = by_tag / np.maximum(by_tag.sum(axis=1, keepdims=True), 1e-300)
    entry_tag = lexicon.entry_tag.astype(np.int64)

    def shares(rows: IntArray, behind: FloatArray) -> FloatArray:
        """Expected states of the pairs that fall into each entry, over a prior."""
        entry = lexicon.find_entries(rows, tag)
        total = np.zeros((n_entries, m))
        np.add.at(total, entry[entry >= 0], expected[entry >= 0])
        n = total.sum(axis=1, keepdims=True)
        return np.asarray((total + CLASS_STRENGTH * behind) / (n + CLASS_STRENGTH))

    class_row = classes.class_of_word[0]
    of_class = shares(class_row[word], prior[entry_tag])
    entry_row = np.repeat(np.arange(lexicon.n_rows), np.diff(lexicon.row_start))
    own_class = _class_of_rows(lexicon, classes)
    behind_entry = lexicon.find_entries(own_class[entry_row], entry_tag)
    behind = np.where((behind_entry >= 0)[:, None], of_class[behind_entry], prior[entry_tag])
    is_class = (entry_row >= len(lexicon.words))[:, None]
    return np.where(is_class, of_class, shares(classes.own_row[word], behind))


def _class_of_rows(lexicon: Lexicon, classes: WordClasses) -> IntArray:
    """The class row behind each word's row; -1 for frequent words and for classes."""
    out = np.full(lexicon.n_rows, -1)
    rare = (classes.own_row >= 0) & (classes.class_of_word[0] >= 0)
    out[classes.own_row[rare]] = classes.class_of_word[0][rare]
    return out


def _padded(flat: FloatArray, sizes: IntArray, m: int) -> FloatArray:
    """Ragged rows as a matrix, zeros behind."""
    out = np.zeros((len(sizes), m))
    out[np.arange(m) < sizes[:, None]] = flat
    return out
