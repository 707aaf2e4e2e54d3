"""Text so short that some orders have no n-grams: names, queries, answers of one word."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Run

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.lm.data.counting import CountSettings, count_sentence_ngrams, count_text
from sapwood.lm.data.ngrams import NOTHING, START, UNKNOWN, Rows
from sapwood.lm.learn import LM_METHODS
from sapwood.lm.model.ngram_model import arpa_lines, read_arpa

TEXTS = {
    "answers": [["yes"], ["no"], ["yes"], ["no"]],
    "one word": [["yes"]],
    "a pair": [["yes", "no"], ["no"]],
}
CONTEXTS: tuple[list[str], ...] = ([], ["yes"], ["no", "yes"], ["yes", "zz", "no", "yes"])


def orders(method: str) -> list[int]:
    """The orders that a method can be asked for; 2 where it has none."""
    if not LM_METHODS[method].has("order"):
        return [2]
    return list(range({"mix": 3, "kn-latent": 2}.get(method, 1), 6))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("method", LM_METHODS)
@pytest.mark.parametrize("is_stream", [False, True], ids=["sentences", "stream"])
def test_every_method_learns_every_order(
    method: str, text: str, is_stream: bool, tmp_path: Path
) -> None:
    kind, path = LM_METHODS[method], tmp_path / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in TEXTS[text]))
    for order in orders(method):
        counts = count_text(path, CountSettings(max(order, 2), is_stream))
        learner = kind.estimator(**kind.fixed, **kind.pick({"order": order, "n_states": 2}))
        if is_stream and text == "one word" and kind.has("n_states"):  # hidden states need pairs
            with pytest.raises(SapwoodError, match="no word follows another"):
                learner.fit(counts)
            continue
        model = learner.fit(counts).model_
        for context in CONTEXTS:
            p = np.exp(model.next_log_probs(context))
            assert p.sum() == pytest.approx(1, abs=1e-6)
        assert np.isfinite(model.log_prob(["no", "yes", "no", "yes", "no"]))
        model.save(tmp_path / "model.lm")
        again = sw.load(tmp_path / "model.lm")
        for context in CONTEXTS:
            p = np.exp(again.next_log_probs(context))
            expected = np.exp(model.next_log_probs(context))
            np.testing.assert_allclose(p, expected, rtol=1e-3)  # states are kept in half precision


def test_orders_that_do_not_occur_change_nothing() -> None:
    """With no n-grams of an order to look up, backing off gives what the order below has."""
    rows: Rows = np.array([[4, 5, 4, 5, 4], [5, 4, 5, 4, 5], [2, 4, 1, 0, 0]], np.uint32)
    found = [sw.KneserNey(order).fit(TEXTS["answers"]).model_ for order in (3, 5)]
    np.testing.assert_allclose(*(model.log_probs(rows) for model in found), rtol=1e-12)


def test_arpa_files_may_have_empty_orders() -> None:
    model = sw.KneserNey(4).fit(TEXTS["answers"]).model_
    again = read_arpa(io.StringIO("\n".join(arpa_lines(model)) + "\n"), "model.arpa")
    for sentence in TEXTS["a pair"]:
        assert again.log_prob(sentence) == pytest.approx(model.log_prob(sentence), abs=1e-4)


@pytest.mark.parametrize("method", ["kn-mod", "mix"])
def test_commands_take_orders_that_do_not_occur(cli: Run, tmp_path: Path, method: str) -> None:
    text, out = tmp_path / "answers.txt", tmp_path / "model.lm"
    text.write_text("yes\nno\nyes\nno\n")
    states = ["--states", "2"] if method == "mix" else []
    learn = ["lm", "train", text, "-o", out, "--method", method, "--order", "4", *states]
    assert cli(*learn).status == 0
    report = json.loads(cli("lm", "evaluate", out, text, "--json").out)
    assert 1 < report["perplexity"] < 4
    assert "yes" in cli("lm", "next", out, "no").out


@pytest.mark.parametrize("method", ["em", "pivot-em", "kn-latent"])
def test_held_out_text_of_unknown_words_ends_nothing(method: str) -> None:
    """There is nothing to choose an iteration by, so that the last one is taken."""
    counts = count_sentence_ngrams([["a", "b"], ["b", "a"]] * 5, 3)
    unknown: Rows = np.array([[UNKNOWN, START, NOTHING]], np.uint32)
    held = replace(counts, rows=unknown, counts=np.ones(1, np.int64))
    model = LM_METHODS[method].estimator(2, iterations=3).fit(counts, held).model_
    assert np.exp(model.next_log_probs(["a"])).sum() == pytest.approx(1, abs=1e-6)
