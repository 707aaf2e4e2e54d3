"""Kneser-Ney: equal to a slow implementation, a distribution, and what KenLM makes of it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lm.learn.texts import ARPA, some_text
from tests.reference.ngrams import KneserNeyTwin

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.lm.data.ngrams import CountSettings, count_sentences, count_text
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
    model = sw.KneserNey(3, is_modified=is_modified).fit(count_sentences(text, 3)).model_
    for context in ([], ["a"], ["h", "g"], ["x", "a"], ["a", "x"], ["a", "b", "c"]):
        assert np.exp(model.next_log_probs(context)).sum() == pytest.approx(1, abs=1e-9)


def test_arpa_files_come_back() -> None:
    model = sw.KneserNey(3).fit(count_sentences(some_text(), 3)).model_
    again = read_arpa(io.StringIO("\n".join(arpa_lines(model)) + "\n"), "model.arpa")
    for sentence in some_text(20, seed=1):
        assert again.log_prob(sentence) == pytest.approx(model.log_prob(sentence), abs=1e-4)


def test_kenlm_gives_the_same_scores(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    model = sw.KneserNey(4).fit(count_sentences(some_text(), 4)).model_
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
    both = count_sentences([*kept, *held], 3)
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
