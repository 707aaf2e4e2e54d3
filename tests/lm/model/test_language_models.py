"""Language models in numbers: rows of sentences, samples, formulas, and files that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.lm.learn.texts import some_text

import sapwood as sw
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import FileContents
from sapwood.lm.data.counting import CountSettings, count_sentence_ngrams, count_text
from sapwood.lm.data.ngrams import END, NOTHING, SPECIAL, START, UNKNOWN
from sapwood.lm.model.language_model import require_words
from sapwood.lm.model.latent_models import (
    N_CONTEXT_BINS,
    N_PAIR_BINS,
    N_WORD_BINS,
    BigramModel,
    ContextBins,
    LatentNgramModel,
    MixtureModel,
    pair_mix,
)
from sapwood.lm.model.ngram_model import NgramModel, find_ngrams


@pytest.fixture(scope="module")
def sentences() -> NgramModel:
    return sw.KneserNey(3).fit(count_sentence_ngrams(some_text(60), 3)).model_


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> NgramModel:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(" ".join(line) for line in some_text(60)))
    return sw.KneserNey(3).fit(count_text(path, CountSettings(3, is_stream=True))).model_


def test_rows_of_a_sentence_begin_at_its_start_and_end_at_its_end(
    sentences: NgramModel, stream: NgramModel
) -> None:
    a, b = (sentences.words.index(word) for word in "ab")
    expected = [[a, START, NOTHING], [UNKNOWN, a, START], [b, UNKNOWN, a], [END, b, UNKNOWN]]
    assert sentences.rows_of(["a", "unheard", "b"]).tolist() == expected
    a, b = (stream.words.index(word) for word in "ab")
    expected = [[a, NOTHING, NOTHING], [UNKNOWN, a, NOTHING], [b, UNKNOWN, a]]
    assert stream.rows_of(["a", "unheard", "b"]).tolist() == expected


def test_only_words_that_can_follow_have_a_probability(
    sentences: NgramModel, stream: NgramModel
) -> None:
    for model, impossible in ((sentences, {NOTHING, START}), (stream, {NOTHING, START, END})):
        logs = model.next_log_probs(["a", "b"])
        assert set(np.flatnonzero(np.isneginf(logs))) == impossible
        assert np.exp(logs).sum() == pytest.approx(1, abs=1e-9)


def test_the_probability_of_a_sentence_is_that_of_its_words(sentences: NgramModel) -> None:
    words, total = ["a", "c", "b"], 0.0
    for k, word in enumerate([*words, "</s>"]):
        total += sentences.next_log_probs(words[:k])[sentences.words.index(word)]
    assert sentences.log_prob(words) == pytest.approx(total, rel=1e-12)


def test_samples_end_with_the_sentence_and_streams_with_their_length(
    sentences: NgramModel, stream: NgramModel
) -> None:
    drawn = list(sentences.sample(300, np.random.default_rng(0)))
    assert len(drawn) == 300
    assert "</s>" not in {word for words in drawn for word in words}
    lengths = np.array([len(words) for words in drawn])
    assert lengths.mean() == pytest.approx(np.mean([len(x) for x in some_text(60)]), rel=0.3)
    assert max(lengths) > 2
    assert all(len(x) <= 2 for x in sentences.sample(50, np.random.default_rng(0), max_length=2))
    assert [len(x) for x in stream.sample(3, np.random.default_rng(0), max_length=7)] == [7] * 3
    first = np.bincount([sentences.words.index(x[0]) for x in drawn if x], minlength=12)
    p = np.exp(sentences.next_log_probs([]))
    assert np.abs(first / 300 - p).max() < 0.1


def test_an_ngram_model_backs_off_by_its_weights() -> None:
    """Four words, two pairs, one triple, with numbers that can be followed."""
    words = tuple(SPECIAL)
    pairs = np.array([2 * 4 + 3, 3 * 4 + 1], np.uint64)  # unk END, START unk: suffix * V + first
    triple = np.array([0 * 4 + 1], np.uint64)  # START before the first pair
    p = (np.log([1e-9, 1e-9, 0.25, 0.75]), np.log([0.5, 0.9]), np.log([0.125]))
    b = (np.log([1.0, 0.5, 1.0, 0.25]), np.log([1.0, 0.0625]))
    model = NgramModel(words, (pairs, triple), p, b)
    rows = np.array([[2, 3, 1], [2, 3, 3], [2, 1, 0], [3, 3, 1], [3, 1, 0], [3, 2, 2]], np.uint32)
    expected = [
        0.125,  # the triple
        0.5,  # the pair; its context of two words was not seen
        0.5 * 0.25,  # single words, by the weight of the start
        0.0625 * 0.25 * 0.75,  # by the weights of both contexts
        0.9,  # the pair
        1.0 * 0.75,
    ]
    np.testing.assert_allclose(np.exp(model.log_probs(rows)), expected, rtol=1e-6)
    assert model.rows(3).tolist() == [[2, 3, 1]]
    assert model.rows(2).tolist() == [[2, 3], [3, 1]]
    assert model.order == 3
    nobody = np.array([[NOTHING, 2, 3], [2, NOTHING, 1], [2, 3, 2]], np.uint32)
    found = find_ngrams(model.keys, 4, nobody)
    assert [places.tolist() for places in found] == [[-1, 2, 2], [-1, -1, 0], [-1, -1, -1]]


def test_states_inside_kneser_ney_are_backed_off_to(stream: NgramModel) -> None:
    n = len(stream.words)
    rng = np.random.default_rng(0)
    r, s = (rng.dirichlet(np.ones(2), n).astype(np.float32) for _ in range(2))
    model = LatentNgramModel(stream, r, s, np.linspace(0.1, 0.9, n))
    single = np.exp(stream.p[0].astype(float))
    first = np.array([[4, NOTHING, NOTHING]], np.uint32)  # nothing before: single words alone
    assert np.exp(model.log_probs(first))[0] == pytest.approx(single[4])
    unseen = np.array([[5, UNKNOWN, UNKNOWN]], np.uint32)
    w = model.weight[UNKNOWN]
    mixed = (1 - w) * pair_mix(r, s, np.array([UNKNOWN]), np.array([5]))[0] + w * single[5]
    np.testing.assert_allclose(
        model.log_probs(unseen), stream.log_probs_above(unseen, np.log([mixed])), rtol=1e-9
    )
    assert model.bigram.order == 2
    np.testing.assert_allclose(model.bigram.u, single)


def test_a_mixture_names_the_sizes_of_its_members_and_no_classes(stream: NgramModel) -> None:
    n = len(stream.words)
    states = np.full((n, 3), 1 / 3, np.float32)
    hidden = BigramModel(
        stream.words, states, states, np.full(n, 1 / n), np.full(n, 0.5), is_stream=True
    )
    bins = ContextBins.of(np.zeros((1, 2), np.uint32), np.ones(1, np.int64), n)
    mixture = MixtureModel((stream, hidden), bins, np.full((N_CONTEXT_BINS, 2), 0.5))
    sizes = " + ".join(str(len(p)) for p in stream.p)
    assert repr(mixture) == (f"<MixtureModel of 2: order 3, {sizes} n-grams; 3 states, {n} words>")


def test_text_in_sentences_and_streams_are_not_mixed(sentences: NgramModel) -> None:
    other = replace(sentences, is_stream=True)
    bins = ContextBins.of(np.zeros((1, 2), np.uint32), np.ones(1, np.int64), len(sentences.words))
    weights = np.full((N_CONTEXT_BINS, 2), 0.5)
    MixtureModel((sentences, sentences), bins, weights)
    for wrong in (other, replace(sentences, words=sentences.words[::-1])):
        with pytest.raises(SapwoodError, match="same words"):
            MixtureModel((sentences, wrong), bins, weights)


@pytest.mark.parametrize(
    "words",
    ["abcd", ["a", "b", "c", "d"], [*SPECIAL, "a", "a"], [*SPECIAL, 7], list(SPECIAL[:2]), None],
    ids=str,
)
def test_words_of_damaged_files_are_refused(words: object) -> None:
    assert require_words([*SPECIAL, "a"]) == (*SPECIAL, "a")
    with pytest.raises(ModelFormatError):
        require_words(words)


def spoil(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[FileContents], None]:
    def spoilt(contents: FileContents) -> None:
        contents.arrays[name] = change(contents.arrays[name])

    return spoilt


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys_2", lambda x: x[::-1].copy()),
        ("keys_3", lambda x: np.append(x[:-1], x[-2])),
        ("keys_2", lambda x: np.append(x[:-1], np.uint64(1 << 40))),
        ("keys_2", lambda x: x.astype(np.int64)),
        ("p_2", lambda x: x[:-1]),
        ("b_1", lambda x: np.append(x, x[:1])),
        ("p_1", lambda x: x.astype(np.float64)),
        ("p_3", lambda x: np.append(x[:-1], np.float32(np.nan))),
    ],
)
def test_ngrams_of_damaged_files_are_refused(
    sentences: NgramModel, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    contents = sentences.to_file()
    NgramModel.from_file(contents)
    spoil(name, change)(contents)
    with pytest.raises(ModelFormatError):
        NgramModel.from_file(contents)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda x: x[:-1]),
        ("word_bins", lambda x: np.full_like(x, N_WORD_BINS)),
        ("pair_bins", lambda x: np.full_like(x, N_PAIR_BINS)),
        ("pairs", lambda x: x[:-1]),
        ("word_bins", lambda x: x.astype(np.int64)),
    ],
)
def test_mixtures_of_damaged_files_are_refused(
    name: str, change: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    model = sw.LanguageMixture(2, iterations=1).fit(some_text(60)).model_
    contents = model.to_file()
    again = type(model).from_file(contents)
    assert again.members[1] is again.members[2].bigram  # written once
    assert again.order == 3
    spoil(name, change)(contents)
    with pytest.raises(ModelFormatError):
        type(model).from_file(contents)
