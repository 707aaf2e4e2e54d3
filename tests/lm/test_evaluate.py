"""Perplexities of a text: what is counted, against log-probabilities of its sentences."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.lm.learn.texts import some_text

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.lm import evaluate
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.data.ngrams import END, UNKNOWN
from sapwood.lm.evaluate import perplexity
from sapwood.lm.model.ngram_model import NgramModel

TEXT = [["a", "b"], ["a", "unheard", "b", "c"], ["a", "b"], ["c"]]


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return sw.KneserNey(3).fit(count_sentence_ngrams(some_text(60), 3)).model_


def ngrams(model: NgramModel, text: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of a text and how often each is there."""
    seen = Counter(tuple(row) for line in text for row in model.rows_of(line).tolist())
    return np.array(list(seen), np.uint32), np.array(list(seen.values()))


@pytest.mark.parametrize("at_once", [2, 1 << 17])
def test_words_ends_and_unknown_words_are_counted_apart(
    model: NgramModel, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(evaluate, "ROWS_AT_ONCE", at_once)
    rows, counts = ngrams(model, TEXT)
    found, with_unknown = (perplexity(model, rows, counts, count_unknown=c) for c in (False, True))
    assert (found.tokens, found.unknown, found.ends) == (8, 1, 4)
    assert (with_unknown.tokens, with_unknown.unknown, with_unknown.ends) == (9, 1, 4)
    every = np.concatenate([model.rows_of(line) for line in TEXT])
    bits = model.log_probs(every) / np.log(2)
    is_end, is_unknown = every[:, 0] == END, every[:, 0] == UNKNOWN
    assert found.log2_prob == pytest.approx(bits[~is_end & ~is_unknown].sum())
    assert with_unknown.log2_prob == pytest.approx(bits[~is_end].sum())
    assert found.ends_log2_prob == pytest.approx(bits[is_end].sum())
    assert found.perplexity == pytest.approx(2 ** -bits[~is_end & ~is_unknown].mean())
    total = sum(map(model.log_prob, TEXT)) / np.log(2)
    assert with_unknown.perplexity_with_ends == pytest.approx(2 ** (-total / 13))


def test_a_text_without_known_words_is_refused(model: NgramModel) -> None:
    with pytest.raises(SapwoodError, match="no word that the model knows"):
        perplexity(model, *ngrams(model, [["unheard"]]))
