"""A new method of learning from text is a class and an entry of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.contract import subjects
from tests.contract.toys import SUMMARY, check_contract, registered

import sapwood as sw
from sapwood.cli.options import describe_methods
from sapwood.core.learner import Method, parameter, whole
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.data.ngrams import NgramCounts
from sapwood.lm.learn import EMBEDDING_METHODS, LM_METHODS
from sapwood.lm.learn.kneser_ney import KneserNey

TEXT = "the dog barks\nthe cat sleeps\na dog sleeps\nthe dog sees a cat\n" * 20


class ToyNgrams(KneserNey):
    """N-grams under another name."""

    salt: int = parameter(0, whole(0), "A number that is kept in the record.")

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> ToyNgrams:
        """Learn n-grams, and take note of the salt."""
        super().learn(counts, held)
        self.model_.record["salt"] = self.salt
        return self


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Method]:
    method = Method(SUMMARY, ToyNgrams, "text", fixed={"salt": 3})
    with registered(monkeypatch, method, LM_METHODS):
        yield method


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_the_commands_take_it(toy: Method, text: Path, tmp_path: Path, cli: Run) -> None:
    out = tmp_path / "toy.lm"
    done = cli("lm", "train", text, "-o", out, "--method", "toy", "--order", 2, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert (report["method"], report["order"], report["states"]) == ("toy", 2, None)
    model = sw.load(out)
    assert (model.order, model.record["salt"]) == (2, 3)
    scored = cli("lm", "evaluate", out, text, "--json")
    assert json.loads(scored.out)["perplexity"] < 10
    assert "toy (a toy of this test)" in describe_methods(LM_METHODS)


def test_options_that_it_lacks_are_refused(
    toy: Method, text: Path, tmp_path: Path, cli: Run
) -> None:
    out = tmp_path / "toy.lm"
    refused = cli("lm", "train", text, "-o", out, "--method", "toy", "--states", 3)
    assert refused.status == 2
    assert "--states: it does not apply to --method toy" in refused.err
    other = cli("lm", "train", text, "-o", out, "--method", "em", "--order", 3)
    assert other.err.splitlines()[0].endswith("kn-latent, toy")


def test_python_trains_it_and_leaves_out_what_it_has_no_use_for(toy: Method) -> None:
    counts = count_sentence_ngrams([line.split() for line in TEXT.splitlines()], order=3)
    learner = toy.train({"order": 2, "n_states": 9, "salt": 7}, counts, held=counts)
    assert (learner.order, learner.salt) == (2, 3)
    assert "held_out_tokens" not in learner.model_.record
    learner = LM_METHODS["em"].train({"n_states": 2, "iterations": 1}, counts, held=counts)
    assert learner.model_.record["held_out_tokens"] == counts.n_tokens
    usual = [toy.usual_value(name) for name in ("order", "salt", "n_states")]
    assert usual == [3, 3, None]


def test_the_contract_tests_take_it(toy: Method) -> None:
    check_contract(toy)
    assert subjects.fitted("ToyNgrams").model_.order == 3


def test_vectors_of_words_have_new_methods_too(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path, cli: Run
) -> None:
    fixed = {"method": "cca", "iterations": 5, "window": 1}
    method = Method(SUMMARY, ("lm.learn.eigenwords", "WordEmbedding"), fixed=fixed)
    monkeypatch.setitem(EMBEDDING_METHODS, "toy", method)
    out = tmp_path / "toy.sapwood"
    small = ("--dimension", 2, "--min-count", 1, "--json")
    done = cli("embed", text, "-o", out, "--method", "toy", *small)
    assert done.status == 0, done.err
    assert json.loads(done.out)["method"] == "toy"
    assert sw.load(out).dimension == 2
