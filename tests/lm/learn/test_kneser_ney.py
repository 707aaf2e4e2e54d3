"""Kneser-Ney, alone and over hidden states, against its definition."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lm.learn.texts import ARPA, TEXT, log_prob, some_text, write
from tests.reference.ngrams import KneserNeyTwin

import sapwood as sw
from sapwood.core.errors import CorpusError, ModelFormatError
from sapwood.execute import Threads
from sapwood.lm.data.counting import CountSettings, count_sentence_ngrams, count_text
from sapwood.lm.data.ngrams import NOTHING, NgramCounts
from sapwood.lm.learn.bigram_em import (
    BigramStates,
    EngineEStep,
    cut_pairs,
    maximise_states,
    random_states,
)
from sapwood.lm.learn.kneser_ney import (
    KneserNey,
    _held_pairs,
    adjusted_counts,
    pair_discounts,
)
from sapwood.lm.model.latent_models import LatentNgramModel, pair_mix
from sapwood.lm.model.ngram_model import NgramModel, arpa_lines, read_arpa

words = st.sampled_from("abcde")
texts = st.lists(st.lists(words, min_size=1, max_size=7), min_size=2, max_size=12)


@given(texts, st.integers(1, 4), st.booleans(), st.booleans())
def test_it_equals_its_definition(
    tmp_path_factory: pytest.TempPathFactory,
    sentences: list[list[str]],
    order: int,
    is_modified: bool,
    is_stream: bool,
) -> None:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in sentences))
    counts = count_text(path, CountSettings(order, is_stream))
    model = sw.KneserNey(order, is_modified=is_modified).fit(counts).model_
    known = {w for line in sentences for w in line} | {"<unk>"}
    twin = KneserNeyTwin(sentences, order, known, is_modified=is_modified, is_stream=is_stream)
    for context in ([], ["a"], ["b", "a"], ["a", "b", "c", "a"], ["e", "zz"]):
        seen = ["<unk>" if w not in known else w for w in context]
        before = seen if is_stream else ["<s>", *seen]
        expected = [
            twin.p(word, before) if allowed else 0.0
            for word, allowed in zip(model.words, model.can_follow, strict=True)
        ]
        np.testing.assert_allclose(np.exp(model.next_log_probs(context)), expected, atol=1e-12)


@pytest.mark.parametrize("is_modified", [False, True])
def test_it_is_a_distribution_after_any_context(is_modified: bool) -> None:
    text = some_text()
    model = sw.KneserNey(3, is_modified=is_modified).fit(count_sentence_ngrams(text, 3)).model_
    for context in ([], ["a"], ["h", "g"], ["x", "a"], ["a", "x"], ["a", "b", "c"]):
        assert np.exp(model.next_log_probs(context)).sum() == pytest.approx(1, abs=1e-9)


def test_arpa_files_come_back() -> None:
    model = sw.KneserNey(3).fit(count_sentence_ngrams(some_text(), 3)).model_
    again = read_arpa(io.StringIO("\n".join(arpa_lines(model)) + "\n"), "model.arpa")
    for sentence in some_text(20, seed=1):
        assert again.log_prob(sentence) == pytest.approx(model.log_prob(sentence), abs=1e-4)


@pytest.mark.parametrize("is_stream", [False, True])
def test_arpa_files_have_an_end_of_sentences_where_the_text_has_any(
    tmp_path: Path, *, is_stream: bool
) -> None:
    counts = count_text(write(tmp_path, TEXT), CountSettings(2, is_stream))
    lines = list(arpa_lines(sw.KneserNey(2).fit(counts).model_))
    assert any("\t</s>" in line for line in lines) is not is_stream
    assert not any("<nothing>" in line for line in lines)


def test_kenlm_gives_the_same_scores(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    model = sw.KneserNey(4).fit(count_sentence_ngrams(some_text(), 4)).model_
    path = tmp_path / "model.arpa"
    path.write_text("\n".join(arpa_lines(model)) + "\n")
    theirs = kenlm.Model(str(path))
    for sentence in [*some_text(40, seed=1), ["a", "unheard", "b"]]:
        expected = theirs.score(" ".join(sentence)) * np.log(10)
        assert model.log_prob(sentence) == pytest.approx(expected, abs=1e-4)


def test_an_arpa_file_is_read_as_it_says() -> None:
    model = read_arpa(io.StringIO(ARPA), "x.arpa")
    assert isinstance(model, NgramModel)
    logs = model.log_probs(model.rows_of(["a", "a"])) / np.log(10)
    np.testing.assert_allclose(logs, [-0.1, -0.2 - 0.6, -0.2], atol=1e-9)


def test_models_of_other_tools_may_sum_to_less_than_1(tmp_path: Path) -> None:
    """They are kept and loaded as they are; a model of ours with such sums is damaged."""
    model = read_arpa(io.StringIO(ARPA), "x.arpa")
    assert np.exp(model.next_log_probs(["a"])).sum() < 0.98
    model.save(tmp_path / "theirs.lm")
    again = sw.load(tmp_path / "theirs.lm")
    assert again.log_prob(["a"]) == pytest.approx(model.log_prob(["a"]), abs=1e-5)
    replace(model, record={"method": "kn"}).save(tmp_path / "ours.lm")
    with pytest.raises(ModelFormatError, match="sum to"):
        sw.load(tmp_path / "ours.lm")


@pytest.mark.parametrize(
    ("old", "new", "match", "line"),
    [
        ("-0.5 </s>", "minus </s>", "expected a log-probability", 8),
        ("-0.1 <s> a", "-0.1 <s>", "expected a log-probability", 12),
        ("\\end\\", "", "ends before", 15),
        ("ngram 1=4", "ngram 1=5", "5 n-grams of order 1 announced, 4 found", None),
        ("\\2-grams:", "\\3-grams:", "expected .2-grams:", 11),
        ("\\data\\\nngram 1=4", "hello", "expected .data.", 1),
        ("-0.1 <s> a", "-0.1 <s> b", "'b' is in n-grams of order 2", None),
    ],
)
def test_a_bad_arpa_file_is_refused(old: str, new: str, match: str, line: int | None) -> None:
    with pytest.raises(CorpusError, match=match) as caught:
        read_arpa(io.StringIO(ARPA.replace(old, new)), "x.arpa")
    assert caught.value.line == line


def test_missing_suffixes_are_backed_off_to() -> None:
    pruned = ARPA.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace(
        "\\end\\", "\\3-grams:\n-0.05 <s> a a\n\n\\end\\"
    )
    model = read_arpa(io.StringIO(pruned), "x.arpa")
    logs = model.log_probs(model.rows_of(["a", "a", "a"])) / np.log(10)
    np.testing.assert_allclose(logs, [-0.1, -0.05, -0.2 - 0.6, -0.2], atol=1e-9)


def test_ngrams_that_were_held_out_are_as_if_never_seen(tmp_path: Path) -> None:
    """Their rows stay with a count of 0, and the probabilities are those of the rest."""
    kept, held = some_text(60), some_text(30, seed=1)
    both = count_sentence_ngrams([*kept, *held], 3)
    path = tmp_path / "held.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in held))
    less = count_text(path, CountSettings(3), words=both.words)
    taken = {tuple(row): n for row, n in zip(less.rows, less.counts, strict=True)}
    rest = both.counts - [taken.get(tuple(row), 0) for row in both.rows]
    assert (rest == 0).sum() > 5
    model = sw.KneserNey(3).fit(replace(both, counts=rest)).model_
    twin = KneserNeyTwin(kept, 3, both.words[3:], is_modified=True, is_stream=False)
    for context in ([], ["a"], ["b", "a"], *(line[:2] for line in held)):
        expected = [
            twin.p(word, ["<s>", *context]) if allowed else 0.0
            for word, allowed in zip(model.words, model.can_follow, strict=True)
        ]
        np.testing.assert_allclose(np.exp(model.next_log_probs(context)), expected, atol=1e-12)


CONTEXTS = ([], ["a"], ["h", "g"], ["x", "a"], ["a", "x"], ["a", "b", "c"])


@pytest.fixture(scope="module")
def counts() -> NgramCounts:
    return count_sentence_ngrams(some_text(400), 3)


def with_states(counts: NgramCounts, start: BigramStates, weight: float) -> LatentNgramModel:
    """A bigram model over given states."""
    everywhere = np.full(len(counts.words), weight)
    single = np.exp(KneserNey(1).model_of(counts).p[0])
    ngrams = KneserNey(2).model_of(
        counts, lambda x, y: (1 - weight) * pair_mix(*start, x, y) + weight * single[y]
    )
    return LatentNgramModel(ngrams, *start, everywhere)


def m_step(counts: NgramCounts, start: BigramStates, n: int = 1) -> BigramStates:
    """Iterations of EM over what is taken off pairs, without a prior."""
    plain = KneserNey(2)
    plain.model_of(counts)
    source = EngineEStep(Threads(1), cut_pairs(pair_discounts(counts, plain.discounts_[1]), float))
    for _ in range(n):
        after, before, _ = source.expect(start)
        nobody = np.zeros(len(counts.words))
        start = BigramStates(*maximise_states(after, before * start.s, nobody, 0.0))
    return start


@pytest.mark.parametrize("order", [2, 3])
def test_frequencies_of_words_are_kept(counts: NgramCounts, order: int) -> None:
    """sum over x of A(x) p(y | x) = sum over x of a(x y), after any M-step: Kneser-Ney's aim."""
    counts = counts.shorten(order)
    n = len(counts.words)
    u = np.full(n, 1 / n)
    start = m_step(counts, random_states(u, 3, np.random.default_rng(0), float))
    model = with_states(counts, start, 0.0)
    rows, a = adjusted_counts(counts, 1)
    before = np.bincount(rows[:, 1], a, n)
    found = np.zeros(n)
    for x in np.flatnonzero(before):
        every = np.stack([np.arange(n), np.full(n, x)], axis=1).astype(np.uint32)
        found += before[x] * np.exp(model.log_probs(every))
    np.testing.assert_allclose(found, np.bincount(rows[:, 0], a, n), atol=1e-6 * before.sum())


def test_states_that_are_not_trusted_are_kneser_ney(counts: NgramCounts) -> None:
    n = len(counts.words)
    start = random_states(np.full(n, 1 / n), 3, np.random.default_rng(0))
    model, plain = with_states(counts, start, 1.0), KneserNey(2).model_of(counts)
    for context in CONTEXTS:
        np.testing.assert_allclose(
            model.next_log_probs(context), plain.next_log_probs(context), atol=1e-6
        )


def test_a_state_for_each_word_is_no_smoothing(counts: NgramCounts) -> None:
    """What was taken off a pair goes back to it: relative frequencies."""
    counts = counts.shorten(2)
    n = len(counts.words)
    start = m_step(counts, BigramStates(np.eye(n) + 1e-13, np.full((n, n), 1 / n)))
    model = with_states(counts, start, 0.0)
    rows = counts.rows[counts.rows[:, 1] != NOTHING]
    share = counts.counts / np.bincount(rows[:, 1], counts.counts, n)[rows[:, 1]]
    np.testing.assert_allclose(np.exp(model.log_probs(rows)), share, atol=1e-6)


def test_one_state_is_the_words_that_follow_most(counts: NgramCounts) -> None:
    """With one discount, one state has the shares of different words before: Kneser-Ney's own."""
    counts = counts.shorten(2)
    n = len(counts.words)
    d = pair_discounts(counts, np.array([0.0, 0.7, 0.7, 0.7]))
    source = EngineEStep(Threads(1), cut_pairs(d, float))
    start = BigramStates(np.ones((n, 1)), np.full((n, 1), 1 / n))
    after, before, _ = source.expect(start)
    _, s = maximise_states(after, before * start.s, np.zeros(n), 0.0)
    pairs = counts.rows[counts.rows[:, 1] != NOTHING]
    different = np.bincount(pairs[:, 0], minlength=n)
    np.testing.assert_allclose(s[:, 0], different / different.sum(), atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_states_keep_a_distribution_after_any_context(order: int) -> None:
    model = sw.LatentKneserNey(3, order=order, n_blocks=1).fit(some_text(200)).model_
    for context in CONTEXTS:
        assert np.exp(model.next_log_probs(context)).sum() == pytest.approx(1, abs=1e-5)


def test_states_help_where_pairs_are_rare(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Words of two kinds that alternate: what follows is known by kind before it is by pair."""
    rng = np.random.default_rng(0)

    def text(n: int) -> list[list[str]]:
        return [[f"{'ab'[i % 2]}{rng.integers(60)}" for i in range(12)] for _ in range(n)]

    train = count_sentence_ngrams(text(120), 2)
    path = tmp_path_factory.mktemp("held") / "held.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in text(120)))
    held = count_text(path, CountSettings(2), words=train.words)
    latent = sw.LatentKneserNey(2, order=2, n_blocks=1).fit(train, held)
    plain = sw.KneserNey(2).fit(train)
    assert log_prob(latent.model_, held) > log_prob(plain.model_, held) + 0.2
    assert latent.iterations_ == len(latent.climbs_[0].values) > 0


def test_held_pairs_know_what_kneser_ney_gives_without_backing_off() -> None:
    """The share of the discounted count, and the back-off weight times the single word."""
    text = count_sentence_ngrams(some_text(30), 2)
    pairs = sw.KneserNey(2).fit(text).model_
    held = _held_pairs(pairs, text)
    rows = np.stack([held.after, held.before], axis=1).astype(np.uint32)
    found = held.known + held.backoff * held.u[held.after]
    np.testing.assert_allclose(found, np.exp(pairs.log_probs(rows)), rtol=1e-6)
    assert (held.known > 0.01).mean() > 0.5
