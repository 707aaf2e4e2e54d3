"""Reports on language models: next words, surprise word by word, and states as classes of words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.lm.learn.texts import some_text

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.model.latent_models import BigramModel
from sapwood.lm.model.ngram_model import NgramModel
from sapwood.lm.report import class_report, next_report, surprise_report, unknown_words

SENTENCE = ["a", "unheard", "b", "a"]


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return sw.KneserNey(3).fit(count_sentence_ngrams(some_text(60), 3)).model_


def test_the_perplexity_is_the_inverse_geometric_mean_of_probabilities(model: NgramModel) -> None:
    report = surprise_report(model, SENTENCE)
    assert report["bits"] == pytest.approx(-model.log_prob(SENTENCE) / math.log(2))
    assert report["bits"] == pytest.approx(sum(row["bits"] for row in report["words"]))
    n = len(SENTENCE) + 1  # the end is a word
    assert report["perplexity"] == pytest.approx(math.exp(-model.log_prob(SENTENCE) / n))
    assert [row["known"] for row in report["words"]] == [True, False, True, True, True]
    assert unknown_words(model, [*SENTENCE, "unheard"]) == ["unheard"]


def test_ranks_count_the_likelier_words(model: NgramModel) -> None:
    for k, row in enumerate(surprise_report(model, SENTENCE, top=2)["words"]):
        p = np.exp(model.next_log_probs(SENTENCE[:k]))
        assert row["rank"] == 1 + int((p > 2.0 ** -row["bits"] * (1 + 1e-9)).sum())
        assert [one["p"] for one in row["instead"]] == sorted(p, reverse=True)[:2]
        assert row["instead"] == next_report(model, SENTENCE[:k], 2)
        assert row["states"] == []


def test_a_check_can_stop_the_report(model: NgramModel) -> None:
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        surprise_report(model, SENTENCE, check=check)
    assert len(calls) == 3


@pytest.fixture
def classes() -> BigramModel:
    """Two states: one stands after `a` and predicts `b`, the other the other way round."""
    words = ("<nothing>", "<s>", "</s>", "<unk>", "a", "b")
    r = np.full((6, 2), 0.5, np.float32)
    r[4], r[5] = (0.9, 0.1), (0.005, 0.995)
    s = np.array([[0, 0], [0, 0], [0.2, 0.2], [0.1, 0.1], [0.1, 0.5], [0.6, 0.2]], np.float32)
    u = np.array([0, 0, 0.2, 0.1, 0.5, 0.2])
    return BigramModel(words, r, s, u, np.full(6, 0.1))


def test_classes_have_the_words_before_and_those_made_likelier(classes: BigramModel) -> None:
    first, second = class_report(classes, 1)
    assert (first["state"], first["after"], first["then"]) == (0, ["a"], ["b"])
    assert (second["state"], second["after"]) == (1, ["b"])
    weight = classes.u @ classes.r
    assert [first["share"], second["share"]] == pytest.approx(weight / weight.sum())
    assert [row["state"] for row in class_report(classes, 1, "b")] == [1]
    with pytest.raises(SapwoodError, match="does not know 'c'"):
        class_report(classes, 1, "c")


def test_states_behind_a_word_come_likeliest_first(classes: BigramModel) -> None:
    a, b, _ = surprise_report(classes, ["a", "b"])["words"]
    assert [row["state"] for row in a["states"]] == [0, 1]
    assert [row["p"] for row in a["states"]] == pytest.approx([0.9, 0.1])
    assert [row["state"] for row in b["states"]] == [1]  # not those below one in a hundred
