"""Streams that networks read in batches: the parses of sentences one by one, in order, at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.constraints import PartialSentence
from sapwood.constituency.learn.encoder import SpanEncoder
from sapwood.constituency.parse import posteriors
from sapwood.constituency.parse.parser import Parse
from sapwood.core.errors import SapwoodError
from sapwood.execute import Engine, Processes, Threads, processes
from sapwood.execute.engine import WINDOW

KINDS = ["one thread", "threads", "processes", pytest.param("cluster", marks=pytest.mark.dask)]


@pytest.fixture(scope="module")
def parser(small_bank: sw.Treebank) -> sw.Parser:
    network = SpanEncoder(passes=2, width=12, hidden=10).fit(small_bank).model_
    plain = sw.PCFG().fit(small_bank).model_
    made = sw.Parser(sw.Ensemble.of([plain, network, network]))
    list(made.parse_many([["the", "dog", "sleeps", "."]] * 3))  # kernels are compiled
    return made


@pytest.fixture(scope="module")
def sentences(dev: sw.Treebank) -> list[list[str]]:
    rng = np.random.default_rng(0)
    words = [dev.words(k) for k in range(40)]
    return [*words, *([*rng.choice(words[0], 1)] for _ in range(3)), *words[:30]]


@pytest.fixture(scope="module")
def expected(parser: sw.Parser, sentences: list[list[str]]) -> list[Parse]:
    """The parses of the sentences one by one."""
    return [parser.parse_compiled(words) for words in sentences]


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(processes, "ALONE", -1.0)  # all windows but the first one are sent off
    if request.param == "cluster":
        cluster: Engine = request.getfixturevalue("cluster")
        return cluster
    return {"one thread": Threads(1), "threads": Threads(3), "processes": Processes(2)}[
        request.param
    ]


def assert_same(found: list[Parse], expected: list[Parse]) -> None:
    """The same trees, and posteriors to the last bit."""
    assert [parse.words for parse in found] == [parse.words for parse in expected]
    assert [parse.tree for parse in found] == [parse.tree for parse in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.marginals == other.marginals


@pytest.mark.parametrize("is_list", [True, False])
def test_engines_and_windows_change_nothing(
    parser: sw.Parser,
    sentences: list[list[str]],
    expected: list[Parse],
    engine: Engine,
    is_list: bool,
) -> None:
    before = parser.stats.sentences
    found = list(parser.parse_many(sentences if is_list else iter(sentences), jobs=engine))
    assert parser.stats.sentences - before == len(sentences)
    assert_same(found, expected)


@pytest.mark.parametrize("most", [1, 30, 100_000])
def test_the_size_of_a_batch_changes_nothing(
    parser: sw.Parser,
    sentences: list[list[str]],
    expected: list[Parse],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posteriors, "BATCH_WORDS", most)
    assert_same(list(parser.parse_together(sentences)), expected)


def test_networks_read_batches_of_like_length(
    parser: sw.Parser, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []
    whole = posteriors.SentenceEncoder.encode

    def watch(self: posteriors.SentenceEncoder, given: list[list[str]], **kwargs: object) -> object:
        batches.append([len(words) for words in given])
        return whole(self, given, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(posteriors.SentenceEncoder, "encode", watch)
    list(parser.parse_together(sentences))
    assert sum(map(len, batches)) == 2 * len(sentences)  # two networks, each sentence once
    assert max(map(sum, batches)) <= posteriors.BATCH_WORDS
    joined = [n for batch in batches[: len(batches) // 2] for n in batch]
    assert joined == sorted(joined, reverse=True)


def test_constraints_hold_in_a_batch(parser: sw.Parser, sentences: list[list[str]]) -> None:
    tags = [*parser.known_labels.tags][:1]
    asked: list[list[str] | PartialSentence] = []
    for k, words in enumerate(sentences[:20]):
        n = len(words)
        if k % 3 == 0:
            asked.append(PartialSentence(words, tags=tags + [None] * (n - 1)))
        elif k % 3 == 1 and n > 2:
            asked.append(PartialSentence(words, spans=[(0, 2, None)]))
        else:
            asked.append(words)
    expected = [parser.parse_compiled(one) for one in asked]
    found = list(parser.parse_together(asked))
    assert_same(found, expected)
    for k in range(0, 20, 3):
        assert found[k].tree.tags()[0] == tags[0]


def test_an_error_comes_in_its_place(
    parser: sw.Parser, sentences: list[list[str]], engine: Engine
) -> None:
    wrong = PartialSentence(sentences[0], tags=["NO-SUCH-TAG"] * len(sentences[0]))
    stream = parser.parse_many([*sentences[:9], wrong, *sentences], jobs=engine)
    assert [next(stream).words for _ in range(9)] == sentences[:9]
    with pytest.raises(SapwoodError, match="NO-SUCH-TAG"):
        next(stream)


def test_a_sentence_that_comes_alone_waits_for_no_other(
    parser: sw.Parser, sentences: list[list[str]], engine: Engine
) -> None:
    answered = threading.Event()

    def source() -> Iterator[list[str]]:
        for words in sentences[:5]:
            answered.clear()
            yield words
            assert answered.wait(60)

    found = []
    for parse in parser.parse_many(source(), jobs=engine):
        found.append(parse.words)
        answered.set()
    assert found == sentences[:5]


def test_few_sentences_are_read_ahead(parser: sw.Parser, sentences: list[list[str]]) -> None:
    n_read = 0

    def source() -> Iterator[list[str]]:
        nonlocal n_read
        for k in range(10_000):
            n_read += 1
            yield sentences[k % len(sentences)][:3]

    stream = parser.parse_many(source())
    for _ in range(2 * WINDOW):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert n_read <= 5 * WINDOW


def test_a_sentence_too_long_for_the_limit_is_flat_and_others_are_not(
    parser: sw.Parser, sentences: list[list[str]]
) -> None:
    small = sw.Parser(parser.model, memory_limit_mb=parser._megabytes(20))
    long = sentences[0] * 10
    kinds = [parse.kind for parse in small.parse_many([sentences[0], long, sentences[1]])]
    assert kinds[1] == "flat"
    assert kinds[0] == kinds[2] == "parsed"
