"""From EM's probabilities to a grammar that reads any word.

Notation
--------
    e(a, x, h)    expected count of tag a in state h with word x        q(x | a)   plain lexicon
    P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u)
    q(x | a, h) = q(x | a) P(h | a, x) / P(h | a)

The plain lexicon says how probable a word is with a tag, known or not; the states only share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.arrays import starts_of
from sapwood.estimators.training_data import TrainingData
from sapwood.models.latent_grammar import LatentGrammar, Lexicon
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CLASS_STRENGTH = 5.0  # u above: pseudo-tokens of the class behind the states of each word


def latent_grammar(
    data: TrainingData,
    pairs: IntArray,
    parameters: LatentParameters,
    counts: ExpectedCounts,
    record: dict[str, Any],
) -> LatentGrammar:
    """Make a grammar of estimated probabilities, with the lexicon of the plain grammar behind it.

    Parameters
    ----------
    pairs
        Codes `tag * n_words + word` of the pairs in `parameters.words`.
    counts
        Expected counts under the parameters.
    """
    plain = data.grammar
    sizes = np.diff(parameters.rule_start)
    return LatentGrammar(
        plain.phrases, plain.tags, parameters.n_states, parameters.root, plain.rules,
        parameters.rules[np.repeat(data.counts.rules > 0, sizes)],
        _lexicon(data, pairs, parameters, counts), plain.coarse, plain.transform, record=record,
    )  # fmt: skip


def _lexicon(
    data: TrainingData, pairs: IntArray, parameters: LatentParameters, counts: ExpectedCounts
) -> Lexicon:
    lexicon, n_phrases = data.grammar.lexicon, data.grammar.n_phrases
    m = int(parameters.n_states.max())
    tag, word = np.divmod(pairs, len(data.inventory.words))
    expected = np.zeros((len(pairs), m))  # zeros behind the states of each tag
    expected[np.arange(m) < parameters.n_states[n_phrases + tag][:, None]] = counts.words
    states = _state_shares(data, expected, tag, word)
    entry_tag = lexicon.entry_tag.astype(np.int64)
    joint = states * lexicon.weights[:, None]
    per_tag = np.zeros((len(data.grammar.tags), m))
    np.add.at(per_tag, entry_tag, joint)
    joint /= np.where(per_tag > 0, per_tag, 1.0)[entry_tag]
    sizes = parameters.n_states[n_phrases + entry_tag]
    kept = np.arange(m) < sizes[:, None]
    return replace(lexicon, weights=joint[kept], weight_start=starts_of(sizes))


def _state_shares(
    data: TrainingData, expected: FloatArray, tag: IntArray, word: IntArray
) -> FloatArray:
    """P(h | a, x) for every entry of the lexicon, shape [n_entries, m]."""
    classes, lexicon = data.classes, data.grammar.lexicon
    n_entries, m = len(lexicon.entry_tag), expected.shape[1]
    by_tag = np.zeros((len(data.grammar.tags), m))
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
    entry_row = lexicon.entry_row
    own_class = np.full(lexicon.n_rows, -1)  # the class behind each rare word's row
    rare = (classes.own_row >= 0) & (class_row >= 0)
    own_class[classes.own_row[rare]] = class_row[rare]
    behind_entry = lexicon.find_entries(own_class[entry_row], entry_tag)
    behind = np.where((behind_entry >= 0)[:, None], of_class[behind_entry], prior[entry_tag])
    is_class = (entry_row >= len(lexicon.words))[:, None]
    return np.where(is_class, of_class, shares(classes.own_row[word], behind))
