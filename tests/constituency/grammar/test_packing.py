"""Weights in 16 bits: what comes back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.ensemble import (
    CODES_PER_HALVING,
    MANY_ZEROS,
    pack_weights,
    unpack_weights,
)
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.core.errors import ModelFormatError

METHODS = ("em", "spectral", "cluster")
STEP = 2 ** (0.5 / CODES_PER_HALVING) - 1  # the largest relative error of rounding a logarithm


@pytest.fixture(params=METHODS)
def grammar(request: pytest.FixtureRequest, learn: Any) -> LatentGrammar:
    found = learn(request.param)
    assert not found.is_plain
    return found


def weights_of(grammar: LatentGrammar) -> tuple[np.ndarray, np.ndarray]:
    return grammar.rule_weights, grammar.lexicon.weights


def test_weights_come_back_to_three_digits(grammar: LatentGrammar) -> None:
    for before, after in zip(weights_of(grammar), weights_of(grammar.rounded()), strict=True):
        # small shares of a block come back as 0
        is_large = np.abs(before) > np.abs(before).max() * 2**-20
        # twice: probabilities are divided by their sum after rounding
        np.testing.assert_allclose(after[is_large], before[is_large], rtol=2.1 * STEP)
        assert (np.sign(after) * np.sign(before) >= 0).all()
        np.testing.assert_allclose(after, before, atol=1e-3 * np.abs(before).max())


def test_what_was_packed_once_stays_the_same(grammar: LatentGrammar) -> None:
    once = grammar.rounded()
    first, again = pack_weights(grammar), pack_weights(once)
    assert first.keys() == again.keys()
    for name, codes in first.items():
        assert codes.tobytes() == again[name].tobytes()
    for one, two in zip(weights_of(once), weights_of(once.rounded()), strict=True):
        assert one.tobytes() == two.tobytes()


def test_probabilities_sum_to_one_without_a_scale(learn: Any) -> None:
    """The grammar's own check of its sums would refuse it otherwise."""
    assert pack_weights(learn("em")).keys() <= {
        "rule_codes", "rule_kept", "lexicon_codes", "lexicon_kept",
    }  # fmt: skip
    assert learn("em").rounded().is_probabilistic


def test_a_number_takes_two_bytes_and_zeros_a_bit(grammar: LatentGrammar) -> None:
    packed, written = pack_weights(grammar), grammar.rounded()
    names = {"rule": written.rule_weights, "lexicon": written.lexicon.weights}
    for name, weights in names.items():
        zeros = (weights == 0).mean()
        assert (f"{name}_kept" in packed) == (zeros > MANY_ZEROS)
        n_codes = (weights != 0).sum() if zeros > MANY_ZEROS else len(weights)
        assert packed[f"{name}_codes"].nbytes == 2 * n_codes
    assert (written.rule_weights == 0).any() or not written.is_probabilistic


def test_zeros_and_blocks_of_zeros(learn: Any) -> None:
    spectral = learn("spectral")
    weights, lexicon = spectral.rule_weights.copy(), spectral.lexicon
    start, stop = spectral.tensor_start[:2]
    weights[start:stop] = 0.0
    emissions = lexicon.weights.copy()
    emissions[lexicon.weight_start[0] : lexicon.weight_start[1]] = 0.0
    holes = replace(spectral, rule_weights=weights, lexicon=replace(lexicon, weights=emissions))
    found = holes.rounded()
    assert (found.rule_weights[start:stop] == 0.0).all()
    assert (found.lexicon.weights[: lexicon.weight_start[1]] == 0.0).all()


BROKEN = {
    "a code too few": ("rule_codes", lambda codes: codes[1:]),
    "other codes": ("lexicon_codes", lambda codes: codes.astype(np.int64)),
    "a scale too few": ("lexicon_scale", lambda scale: scale[1:]),
    "another scale": ("rule_scale", lambda scale: scale.astype(np.float64)),
    "bits too few": ("rule_kept", lambda bits: bits[1:]),
    "other bits": ("rule_kept", lambda bits: bits.astype(np.int64)),
    "more bits": ("rule_kept", lambda bits: bits | 255),
    "states of other symbols": ("n_states", lambda states: states[:3]),
    "rules of unknown symbols": ("rules", lambda rules: rules + 10_000),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_does_not_fit_is_refused(what: str, learn: Any) -> None:
    name, spoil = BROKEN[what]
    grammar = learn("spectral" if "scale" in name else "em")
    arrays = grammar.to_file().arrays | pack_weights(grammar)
    with pytest.raises(ModelFormatError, match=r"packed weights|scales of type"):
        unpack_weights(
            arrays | {name: spoil(arrays[name])}, grammar.n_phrases,
            is_probabilistic=grammar.is_probabilistic,
        )  # fmt: skip


def test_features_too_large_for_a_half_are_cut(learn: Any) -> None:
    crf = sw.SpanCRF(passes=1).fit(sw.bundled_treebank("dev")[:20]).model_
    weights = crf.feature_weights.copy()
    weights[0] = 1e9
    found = replace(crf, feature_weights=weights).rounded()
    assert found.feature_weights[0] == np.finfo(np.float16).max
    np.testing.assert_allclose(found.feature_weights[1:], weights[1:], rtol=1e-3, atol=1e-7)
