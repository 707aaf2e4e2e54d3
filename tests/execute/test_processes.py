"""Forks of this process, and results that come back without the objects that both sides hold."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.dependency.parse.reranking import RerankingParser
from sapwood.execute import Processes, Threads, Traffic, processes

pytestmark = pytest.mark.skipif(not processes.CAN_FORK, reason="threads do the work here")
WAIT = 60  # seconds, on a crowded machine


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send everything but the first item off."""
    monkeypatch.setattr(processes, "ALONE", -1.0)


def own_id(item: int) -> tuple[int, int]:
    return item, os.getpid()


def test_few_items_need_no_process() -> None:
    assert list(Processes(2).stream(own_id, range(3))) == [(k, os.getpid()) for k in range(3)]


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.usefixtures("at_once")
def test_results_come_in_order_from_all_processes(jobs: int) -> None:
    def task(item: int, pause: float) -> tuple[int, int]:
        time.sleep(pause * (item % 3))
        return own_id(item)

    found = list(Processes(jobs).stream(task, range(120), 0.001))
    assert [item for item, _ in found] == list(range(120))
    workers = {pid for _, pid in found[1:]}
    assert len(workers) == jobs
    assert os.getpid() not in workers
    for pid in workers:  # all are gone, and were waited for
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.usefixtures("at_once")
def test_a_lost_process_is_an_error_behind_what_came_before() -> None:
    def task(item: int) -> int:
        if item == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    found: list[int] = []
    with pytest.raises(SapwoodError, match="has ended unexpectedly") as caught:
        found.extend(Processes(2).stream(task, range(100)))
    assert found == list(range(len(found)))  # but for what travelled with the item
    assert 1 <= len(found) <= 20
    assert "--jobs" in (caught.value.hint or "")


@pytest.mark.usefixtures("at_once")
def test_closing_early_ends_everything_whatever_it_is_doing() -> None:
    before, n_read = threading.active_count(), 0

    def source() -> Iterator[int]:
        nonlocal n_read
        for item in range(100_000):
            n_read += 1
            yield item

    def task(item: int) -> int:
        time.sleep(WAIT if item > 2 else 0.0)
        return os.getpid()

    stream = Processes(2).stream(task, source())
    workers = [next(stream) for _ in range(3)][1:]
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < WAIT / 2
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    while threading.active_count() > before:
        assert time.monotonic() - started < WAIT
        time.sleep(0.005)
    assert n_read <= 2 * processes.BATCH_ITEMS


@pytest.mark.usefixtures("at_once")
def test_workers_let_go_of_files_and_of_ctrl_c() -> None:
    reading, writing = os.pipe()

    def task(item: int) -> str:
        os.kill(os.getpid(), signal.SIGINT)  # which is not for workers
        with suppress(OSError):
            os.write(writing, b"x")
        return "alive"

    with Processes(2) as engine:
        stream = engine.stream(lambda item: task(item) if item else "here", range(5))
        assert [next(stream) for _ in range(5)] == ["here", *["alive"] * 4]
        os.close(writing)
        assert os.read(reading, 1) == b""  # the other end is closed though workers live
        stream.close()
    os.close(reading)


SENTENCES = [
    words.split() for words in ("the dog sleeps .", "the cat sees a dog .", "blorp", "a a a")
]


@pytest.mark.dask
def test_parses_of_a_cluster_are_whole(cluster) -> None:
    model = sw.Ensemble.of([sw.bundled_grammar(), sw.bundled_grammar()])
    here, there = sw.Parser(model), sw.Parser(model)
    cluster.traffic = Traffic()
    found = list(there.parse_many(SENTENCES * 3, jobs=cluster))
    for far, near in zip(found, here.parse_many(SENTENCES * 3), strict=True):
        assert far.words == near.words
        assert far.tree == near.tree
        assert far.kind == near.kind
        assert far.log_prob == near.log_prob
        assert far.marginals == near.marginals
        assert far.k_best(3) == near.k_best(3)
    assert repr(there.stats) == repr(here.stats)
    assert there.stats.sentences == 12
    assert there.stats.fallbacks > 0
    # all twelve together take less room than the model alone
    assert cluster.traffic.returned < len(pickle.dumps(model)) / 2
    assert found[0]._prepared is there._prepared


def test_statistics_are_merged() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    alone = parser.recount()
    alone.parse(SENTENCES[0])
    assert parser.stats.sentences == 0
    parser.stats.merge(alone.stats)
    parser.stats.merge(alone.stats)
    assert parser.stats.sentences == 2


# -- bytes that come back -------------------------------------------------------------------------


class Counting(Threads):
    """Pickles every result as processes do, and counts the bytes."""

    returned = 0

    def stream(
        self, task: Callable[..., Any], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[Any]:
        for item in items:
            packed = pickle.dumps(task(item, *common))
            self.returned += len(packed)
            yield pickle.loads(packed)


@pytest.fixture(scope="module")
def arc_model() -> sw.ArcModel:
    """A parser with a network, whose parses refer to the network too."""
    return sw.ArcEnsemble(members=1, passes=1, folds=2, encoder_passes=1).fit(bank()).model_


def parsers(arc_model: sw.ArcModel) -> dict[str, Any]:
    reranker = sw.ArcReranker(2, latent="none", passes=1, folds=2, list_folds=2, n_best=3)
    return {
        "trees": sw.Parser(sw.bundled_grammar()),
        "arcs": sw.ArcParser(arc_model),
        "reranked arcs": RerankingParser(reranker.fit(bank(40)).model_),
    }


def test_parses_come_back_without_the_model(arc_model: sw.ArcModel) -> None:
    for name, parser in parsers(arc_model).items():
        engine = Counting(1)
        found = list(parser.parse_many(SENTENCES[:2] * 2, jobs=engine))
        size = len(pickle.dumps(parser.model))
        assert engine.returned < min(size / 2, 4 * 60_000), name
        for there, here in zip(found, parser.parse_many(SENTENCES[:2] * 2), strict=True):
            assert there.k_best(3) == here.k_best(3)


def test_arcs_of_processes_are_whole(arc_model: sw.ArcModel) -> None:
    parser = sw.ArcParser(arc_model)
    sentences = [arcs.words for arcs in bank(60, 1)]
    with Processes(2) as engine:
        found = list(parser.parse_many(sentences, jobs=engine))
    for there, here in zip(found, parser.parse_many(sentences), strict=True):
        assert there.arcs == here.arcs
        np.testing.assert_array_equal(there.posteriors, here.posteriors)
        assert there.k_best(3) == here.k_best(3)
    assert all(parse._parser is parser for parse in found)
