"""Every bound of the server: the value at the bound is accepted, one more is refused."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.web.servers import Client, guarded

from sapwood.cli.serve import serve_page
from sapwood.web import guard, models, processes, schemas, server
from sapwood.web.guard import MEGABYTE, Limits, Pool, Refusal
from sapwood.web.models import ModelStore
from sapwood.web.processes import check_treebank

JSON = {"Content-Type": "application/json"}


def test_the_options_have_the_defaults_of_the_limits() -> None:
    default = {
        name: option.default.default
        for name, option in inspect.signature(serve_page).parameters.items()
    }
    assert Limits() == Limits(
        body=int(default["max_body"] * MEGABYTE), words=default["max_words"],
        sentences=default["max_sentences"], k=default["max_k"], seconds=default["max_seconds"],
        workers=default["workers"], queue=default["queue"], training=default["max_training"],
        memory=int(default["max_memory"] * MEGABYTE),
    )  # fmt: skip
    assert Limits() == Limits(
        body=8_388_608, words=150, sentences=500, k=50, seconds=20.0, workers=2, queue=32,
        training=3600.0, memory=1_073_741_824,
    )  # fmt: skip


def test_constants_that_bound_what_a_request_may_take() -> None:
    assert (guard.BRACKETS_A_WORD, guard.CHARACTERS_A_WORD, guard.LONGEST_WORD) == (
        20, 500, 2_000,
    )  # fmt: skip
    assert (guard.N_BODIES, guard.MOST_NAMES, guard.MOST_MARKS) == (8, 32, 200_000)
    assert guard.MOST_RETRY_SECONDS == 60
    assert (
        models.N_KEPT,
        processes.N_ERRORS,
        processes.EXCERPT,
        processes.LEAST_UPLOAD_TREES,
    ) == (8, 20, 160, 2)


# -- limits ---------------------------------------------------------------------------------------


def refused(check: Any, value: Any) -> bool:
    try:
        check(value)
    except Refusal as refusal:
        return refusal.status == 422 and bool(refusal.hint)
    return False


def test_words_sentences_and_lists() -> None:
    few = Limits(words=3, sentences=4, k=5)
    assert not refused(few.check_words, ["a"])
    assert refused(few.check_words, [])
    assert not refused(few.check_words, ["a"] * 3)
    assert refused(few.check_words, ["a"] * 4)
    assert not refused(few.check_words, ["a", "x" * guard.LONGEST_WORD])
    assert refused(few.check_words, ["a", "x" * (guard.LONGEST_WORD + 1)])
    assert not refused(few.check_sentences, 4)
    assert refused(few.check_sentences, 5)
    assert not refused(few.check_k, 5)
    assert refused(few.check_k, 6)


def test_trees_are_measured_before_they_are_read() -> None:
    few = Limits(words=3)
    assert not refused(few.check_brackets, "(" * (3 * guard.BRACKETS_A_WORD))
    assert refused(few.check_brackets, "(" * (3 * guard.BRACKETS_A_WORD + 1))
    assert not refused(few.check_brackets, "x" * (3 * guard.CHARACTERS_A_WORD))
    assert refused(few.check_brackets, "x" * (3 * guard.CHARACTERS_A_WORD + 1))


# -- questions ------------------------------------------------------------------------------------

TEXT, NAME = 1_000_000, 200
SENTENCE: dict[str, Any] = {"sentence": "a"}
IDENTIFY: dict[str, Any] = {"family": "dep-i", "words": 2, "length": 2}
TABLE: dict[str, Any] = {"words": 2, "states": 2, "length": 2}
SPAN = (0, 1, None)
TAGS = {f"t{k}": 1.0 for k in range(1_000)}
BOUNDS: list[tuple[type[schemas.RequestBody], dict[str, Any], str, Any, Any]] = [
    (schemas.SentenceRequest, {}, "sentence", "x" * TEXT, "x" * (TEXT + 1)),
    (schemas.SentenceRequest, {}, "words", ["a"] * 100_000, ["a"] * 100_001),
    (schemas.ConstrainedRequest, {}, "tags", [None] * 100_000, [None] * 100_001),
    (schemas.ConstrainedRequest, {}, "tags", [TAGS], [TAGS | {"t": 1.0}]),
    (schemas.ConstrainedRequest, {}, "spans", [SPAN] * 10_000, [SPAN] * 10_001),
    (schemas.ConstrainedRequest, {}, "forbidden", [SPAN] * 10_000, [SPAN] * 10_001),
    (schemas.ConstrainedRequest, {}, "spans", [(0, 100_000, None)], [(0, 100_001, None)]),
    (schemas.ConstrainedRequest, {}, "spans", [(0, 1, "x" * 200)], [(0, 1, "x" * 201)]),
    (schemas.DependRequest, SENTENCE, "tags", [None] * 100_000, [None] * 100_001),
    (schemas.DependRequest, SENTENCE, "heads", [None] * 100_000, [None] * 100_001),
    (schemas.DependRequest, SENTENCE, "heads", [100_000], [100_001]),
    (schemas.DependRequest, SENTENCE, "relations", [None] * 100_000, [None] * 100_001),
    (schemas.SurprisalRequest, SENTENCE, "restart", 0.0, -0.01),
    (schemas.SurprisalRequest, SENTENCE, "restart", 0.5, 0.51),
    (schemas.ParseRequest, SENTENCE, "model", "x" * NAME, "x" * (NAME + 1)),
    (schemas.ParseRequest, SENTENCE, "k", 1, 0),
    (schemas.ParseRequest, SENTENCE, "k", 100_000, 100_001),
    (schemas.ScoreRequest, {}, "sentences", ["a"] * 100_000, ["a"] * 100_001),
    (schemas.SampleRequest, {}, "seed", 0, -1),
    (schemas.SampleRequest, {}, "seed", 2**32 - 1, 2**32),
    (schemas.InspectRequest, {}, "top", 1, 0),
    (schemas.InspectRequest, {}, "top", 100, 101),
    (schemas.InspectRequest, {}, "member", 1, 0),
    (schemas.InspectRequest, {}, "member", 10_000, 10_001),
    (schemas.StatesRequest, {"label": "a"}, "member", 10_000, 10_001),
    (schemas.StateRequest, {"symbol": "a"}, "state", 0, -1),
    (schemas.StateRequest, {"symbol": "a"}, "state", 100_000, 100_001),
    (schemas.StateRequest, {"symbol": "a"}, "member", 10_000, 10_001),
    (schemas.WordRequest, {"word": "a"}, "member", 10_000, 10_001),
    (schemas.CompareRequest, SENTENCE, "models", ["a", "b"], ["a"]),
    (schemas.CompareRequest, SENTENCE, "models", ["a", "b"], ["a", "b", "c"]),
    (schemas.DifferenceRequest, {}, "trees", ["a", "b"], ["a"]),
    (schemas.DifferenceRequest, {}, "trees", ["a", "b"], ["a", "b", "c"]),
    (schemas.IdentifyRequest, IDENTIFY, "words", 1, 0),
    (schemas.IdentifyRequest, IDENTIFY, "words", 6, 7),
    (schemas.IdentifyRequest, IDENTIFY, "length", 1, 0),
    (schemas.IdentifyRequest, IDENTIFY, "length", 6, 7),
    (schemas.IdentifyRequest, IDENTIFY, "states", 1, 0),
    (schemas.IdentifyRequest, IDENTIFY, "states", 5, 6),
    (schemas.TableRequest, TABLE, "words", 2, 1),
    (schemas.TableRequest, TABLE, "words", 6, 7),
    (schemas.TableRequest, TABLE, "states", 2, 1),
    (schemas.TableRequest, TABLE, "states", 5, 6),
    (schemas.TableRequest, TABLE, "length", 2, 1),
    (schemas.TableRequest, TABLE, "length", 6, 7),
    (schemas.NextRequest, {}, "top", 1, 0),
    (schemas.NextRequest, {}, "top", 1000, 1001),
    (schemas.ClassesRequest, {}, "top", 1, 0),
    (schemas.ClassesRequest, {}, "top", 100, 101),
    (schemas.TrainRequest, {}, "states", 1, 0),
    (schemas.TrainRequest, {}, "states", 64, 65),
    (schemas.TrainRequest, {}, "budget", 0.001, 0),
    (schemas.TrainRequest, {}, "budget", 86_400, 86_401),
    (schemas.TrainRequest, {}, "iterations", 1, 0),
    (schemas.TrainRequest, {}, "iterations", 1000, 1001),
]


@pytest.mark.parametrize(
    ("kind", "others", "name", "good", "bad"), BOUNDS,
    ids=[f"{kind.__name__}-{name}-{str(bad)[:8]}" for kind, _, name, _, bad in BOUNDS],
)  # fmt: skip
def test_questions(
    kind: type[schemas.RequestBody], others: dict[str, Any], name: str, good: Any, bad: Any
) -> None:
    found = kind.model_validate_json(json.dumps(others | {name: good}))
    assert getattr(found, name) == good
    with pytest.raises(ValidationError):
        kind.model_validate_json(json.dumps(others | {name: bad}))


def test_every_bound_of_a_question_is_in_the_table() -> None:
    told = {(kind, name) for kind, _, name, _, _ in BOUNDS}
    for kind in vars(schemas).values():
        if not isinstance(kind, type) or not issubclass(kind, schemas.RequestBody):
            continue
        for name, facts in kind.model_json_schema().get("properties", {}).items():
            kinds = [facts, *facts.get("anyOf", ())]
            is_number = any(set(one) & {"minimum", "exclusiveMinimum", "maxItems"} for one in kinds)
            inherited = any((parent, name) in told for parent in kind.__mro__)
            shared = name in {"k", "words", "n", "seed"}
            assert not is_number or inherited or shared, (kind.__name__, name)


# -- bodies ---------------------------------------------------------------------------------------


def padded(size: int) -> bytes:
    body = b'{"sentence": "they sleep ."}'
    return body + b" " * (size - len(body))


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413)])
def test_bodies_with_and_without_a_length(store: ModelStore, size: int, status: int) -> None:
    client = Client(guarded(store, Limits(body=1000)))
    assert client.post("/api/parse", content=padded(size), headers=JSON).status_code == status

    async def parts() -> AsyncIterator[bytes]:
        yield padded(size)[:900]
        yield padded(size)[900:]

    assert client.post("/api/parse", content=parts(), headers=JSON).status_code == status


def test_a_client_that_does_not_finish_the_head_of_its_request_is_dropped(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)

    async def main() -> bytes:
        bound = server.ListenAddress().bind()
        made = server.make_server(store, server.ListenAddress(), Limits(), None)
        serving = asyncio.ensure_future(made.serve(sockets=[bound]))
        reader, writer = await asyncio.open_connection(*bound.getsockname()[:2])
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
        try:
            return await asyncio.wait_for(reader.read(), timeout=5)
        finally:
            writer.close()
            made.should_exit = True
            await serving

    assert asyncio.run(main()) == b""


def test_names_and_items_of_a_body(client: Client) -> None:
    def ask(body: bytes) -> tuple[int, str]:
        answer = client.post("/api/parse", content=body, headers=JSON)
        return answer.status_code, answer.json()["error"]

    def names(n: int) -> bytes:
        return json.dumps({f"k{k}": 1 for k in range(n)}).encode()

    assert "names" not in ask(names(guard.MOST_NAMES))[1]
    assert ask(names(guard.MOST_NAMES + 1)) == (422, "the body has 33 names, at most 32 are taken")
    commas = guard.MOST_MARKS - 1  # besides one bracket
    assert "commas" not in ask(b'{"x": "' + b"," * commas + b'"}')[1]
    status, error = ask(b'{"x": "' + b"," * (commas + 1) + b'"}')
    assert (status, "commas" in error) == (422, True)
    assert ask(b'{"words": ["a", 1]}') == (422, 'item 2 of "words" is 1, expected a text')
    assert ask(b'{"words": {"a": 1}}')[0] == 422
    assert ask(b'{"words": ["\\ud800"]}')[0] == 400
    assert ask(b'{"budget": 1e999}')[0] == 400
    assert ask(b'{"budget": Infinity}')[0] == 400
    assert ask(b'{"words": [1,}')[1].startswith("the body is no JSON: Expecting value: line 1")
    assert ask(b'{"words": ["\\ud800"]}')[1] == "the body is no JSON"


@pytest.mark.parametrize(
    "body",
    [b"{" + b",".join(b'"k%d":1' % k for k in range(600_000)) + b"}",
     b'{"words":[' + b",".join([b"[]"] * 2_000_000) + b"]}"],
    ids=["names", "items"],
)  # fmt: skip
def test_a_body_of_very_many_items_does_not_hold_up_the_loop(client: Client, body: bytes) -> None:
    began = time.process_time()
    assert client.post("/api/parse", content=body, headers=JSON).status_code == 422
    assert time.process_time() - began < 0.5  # seconds; to read it all takes more than one


def test_bodies_of_all_requests_together(store: ModelStore) -> None:
    size = 1000
    application = guarded(store, Limits(body=size))
    client = Client(application)

    async def main() -> list[int]:
        halves = asyncio.Event()

        async def half() -> AsyncIterator[bytes]:
            yield padded(size)[:900]
            await halves.wait()
            yield padded(size)[900:]

        async def ask(content: Any) -> int:
            answer = await client.asker.post("/api/parse", content=content, headers=JSON)
            return answer.status_code

        waiting = [asyncio.ensure_future(ask(half())) for _ in range(guard.N_BODIES)]
        while application.held < guard.N_BODIES * 900:
            await asyncio.sleep(0.001)
        found = [await ask(padded(guard.N_BODIES * 100)), await ask(padded(801))]
        halves.set()
        return [*found, *await asyncio.gather(*waiting)]

    assert asyncio.run(main()) == [200, 503, *[200] * guard.N_BODIES]
    assert application.held == 0
    for wrong in (b"{", b"x" * 1001):  # refused ones are not held either
        client.post("/api/parse", content=wrong, headers=JSON)
    assert application.held == 0


# -- the pool -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "queue"), [(1, 0), (2, 1)])
def test_places_of_the_pool(workers: int, queue: int) -> None:
    async def main() -> None:
        own, stop = Pool(Limits(workers=workers, queue=queue, seconds=5)), threading.Event()
        tasks = [asyncio.ensure_future(own.run(lambda _: stop.wait(5)))
                 for _ in range(workers + queue)]  # fmt: skip
        await asyncio.sleep(0.05)
        assert own.n_busy == workers + queue
        with pytest.raises(Refusal) as refusal:
            await own.run(lambda _: None)
        assert refusal.value.status == 503
        stop.set()
        assert all(await asyncio.gather(*tasks))
        own.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("mean", "wait"), [(0.05, "1"), (1.0, "1"), (1.1, "2"), (60.0, "60"), (61.0, "60")]
)
def test_when_to_come_back(mean: float, wait: str) -> None:
    own = Pool(Limits(workers=1, queue=0))
    own.mean, own.n_busy = mean, 1
    with pytest.raises(Refusal) as refusal:
        asyncio.run(own.run(lambda _: None))
    assert refusal.value.headers == {"Retry-After": wait}
    own.stop()


def test_work_that_ends_in_time_is_answered() -> None:
    async def main() -> Any:
        own = Pool(Limits(seconds=0.5))
        try:
            return await own.run(lambda check: [time.sleep(0.2), check(), 7][-1])
        finally:
            own.stop()

    assert asyncio.run(main()) == 7


def test_work_is_given_up_when_the_server_stops() -> None:
    async def main() -> None:
        own = Pool(Limits(seconds=30))
        ended = threading.Event()

        def work(check: Any) -> None:
            try:
                while True:
                    check()
                    time.sleep(0.01)
            finally:
                ended.set()

        task = asyncio.ensure_future(own.run(work))
        await asyncio.sleep(0.05)
        own.stop()
        with pytest.raises(Refusal):  # and not after the 30 s
            await asyncio.wait_for(task, 10)
        assert ended.wait(5)

    asyncio.run(main())


def test_work_that_was_given_up_does_not_complain_later() -> None:
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        own, ended = Pool(Limits(seconds=0.05)), threading.Event()

        def work(check: Any) -> None:
            try:
                while True:
                    check()
                    time.sleep(0.01)
            finally:
                ended.set()

        with pytest.raises(Refusal) as refusal:
            await own.run(work)
        assert refusal.value.status == 408
        del refusal  # its traceback holds what the pool knows of the work
        while own.n_busy:
            await asyncio.sleep(0.01)
        assert ended.is_set()
        await asyncio.sleep(0.01)  # what the thread tells the loop is heard
        gc.collect()
        own.stop()

    asyncio.run(main())
    assert complaints == []


# -- treebanks ------------------------------------------------------------------------------------


def test_errors_of_a_treebank_that_are_shown() -> None:
    bad = b"(S (X a)) )\n" * (processes.N_ERRORS + 1)
    report, _ = check_treebank(bad)
    assert report["n_errors"] == processes.N_ERRORS + 1
    assert len(report["errors"]) == processes.N_ERRORS


@pytest.mark.parametrize(("n", "name"), [(1, None), (2, "treebank-1")])
def test_trees_of_a_treebank_that_is_kept(tmp_path: Path, n: int, name: str | None) -> None:
    from sapwood.web.processes import check_upload

    own = ModelStore(tmp_path)
    found = own.upload("", b"(S (X a))\n" * n, lambda _, files: check_upload(**files))
    assert found["treebank"] == name
    assert len(list(tmp_path.iterdir())) == (name is not None)


def test_old_treebanks_and_their_files_go_first(tmp_path: Path) -> None:
    from sapwood.web.processes import check_upload

    own = ModelStore(tmp_path)
    for _ in range(models.N_KEPT + 2):
        own.upload("", b"(S (X a))\n" * 2, lambda _, files: check_upload(**files))
    names = [f"treebank-{k + 1}" for k in range(2, models.N_KEPT + 2)]
    assert [*own.treebanks] == names
    assert sorted(tmp_path.iterdir()) == sorted(own.find_treebank(name) for name in names)
