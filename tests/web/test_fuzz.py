"""Random and spoilt requests, one by one and by many clients: none is a fault of the server."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tests.web.servers import Client, guarded

from sapwood.web.guard import Limits
from sapwood.web.models import ModelStore

RIGHT: dict[str, dict[str, Any]] = {
    "parse": {"sentence": "they sleep .", "k": 2, "decoder": "f1", "model": "bundled"},
    "sentences": {"text": "They sleep. They sleep."},
    "parse-text": {"text": "They sleep. They sleep.", "decoder": "f1"},
    "k-best": {"words": ["they", "sleep", "."], "k": 2, "spans": [[0, 2, None]]},
    "posteriors": {
        "sentence": "they sleep .",
        "tags": ["PRP", None, {".": 1.0}],
        "forbidden": [[1, 3, "VP"]],
    },
    "draw": {"sentence": "(S (NP (PRP they)) (VP (VBP sleep)))"},
    "tree": {"tree": "(S (NP (PRP they)) (VP (VBP sleep)))"},
    "members": {"tree": "(S (NP (PRP they)) (VP (VBP sleep)))"},
    "score": {"sentences": ["they sleep ."]},
    "sample": {"n": 1, "seed": 3},
    "inspect": {"label": "NN", "top": 2},
    "labels": {},
    "surprisal": {"sentence": "they sleep .", "unit": "nats", "restart": 0.1},
    "state": {"symbol": "NN", "state": 0},
    "word": {"word": "saw"},
    "compare": {"models": ["bundled", "bundled"], "sentence": "they sleep ."},
    "difference": {"trees": ["(S (X a))", "(S (Y a))"]},
    "identify": {"family": "dep-i", "words": 2, "length": 2, "moments": "12"},
    "arcs": {"conllu": "1\ta\t_\t_\t_\t_\t0\troot\t_\t_"},
    "train": {"treebank": "nowhere", "dev": "none"},
}
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, "", " ", "\x00", "(", ")", "((((", "é\u202e", "x" * 300, [], {},
    ["a"], [[]], {"a": 1}, "\n\n", "1\t2", "../../etc/passwd", "\u2028",
    [""], [" "], ["a b"], [None], "\U0001f333", [[0, 1, "NP"]], [[0, 9, None]], [{"NN": 2}],
)  # fmt: skip


def spoilt(rng: random.Random) -> tuple[str, bytes]:
    """A path and a body of which something is wrong."""
    path, question = rng.choice(list(RIGHT.items()))
    body = dict(question)
    how = rng.randrange(5)
    if how == 0 and body:
        body.pop(rng.choice(list(body)))
    elif how == 1 and body:
        body[rng.choice(list(body))] = rng.choice(VALUES)
    elif how == 2:
        body[rng.choice(("x", "model", "k", "sentence", "words", "member", "spans", "tags"))] = (
            rng.choice(VALUES)
        )
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode()
    if how >= 3:
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            piece = rng.choice(
                (b"", b"\x00", b"\xff", b'"', b"{", b"]", b"9" * 50, b"\\ud800", b",")
            )
            text = text[:at] + piece + text[at + rng.randrange(3) :]
    return path, text


def check_spoilt(store: ModelStore, n: int, seed: int) -> set[int]:
    client = Client(guarded(store, Limits(seconds=60.0)))
    rng, seen = random.Random(seed), set()
    for number in range(n):
        path, body = spoilt(rng)
        kind = {"Content-Type": rng.choice(("application/json",) * 9 + ("text/plain",))}
        answer = client.post(f"/api/{path}", content=body, headers=kind)
        assert answer.status_code < 500, (number, path, body, answer.text)
        assert answer.status_code < 300 or answer.json()["error"], (number, path, body)
        seen.add(answer.status_code)
    return seen


def test_some_spoilt_bodies(store: ModelStore) -> None:
    assert {200, 400, 404, 415, 422} <= check_spoilt(store, 200, seed=1)


@pytest.mark.slow
def test_ten_thousand_spoilt_bodies(store: ModelStore) -> None:
    check_spoilt(store, 10_000, seed=2)


def check(hours: ModuleType, store: ModelStore, n: int, seed: int) -> Counter[int]:
    client = Client(guarded(store, Limits(seconds=2.0)))  # heavy ones are given up soon
    openapi = client.get("/api/openapi.json").json()
    texts, seen = [*store.models, *hours.TEXTS], Counter[int]()
    draw = hours.BySchema(openapi, random.Random(seed), texts)
    for _ in range(n):
        asked = draw.request()
        answer = client.request(
            asked.method, asked.path, content=asked.content, headers=asked.headers
        )
        assert answer.status_code in asked.statuses, (asked, answer.text)
        if answer.status_code >= 300:
            assert answer.json()["error"], asked
        seen[answer.status_code] += 1
    return seen


def test_some_requests_by_schema(benchmark: Callable[[str], ModuleType], store: ModelStore) -> None:
    hours = benchmark("page_hours")
    seen = check(hours, store, 40, seed=3)
    assert seen[200] > 5
    assert seen[422] > 5


@pytest.mark.slow
def test_four_thousand_requests_by_schema(
    benchmark: Callable[[str], ModuleType], store: ModelStore
) -> None:
    hours = benchmark("page_hours")
    print(sorted(check(hours, store, 4000, seed=1).items()))


@pytest.mark.slow
def test_64_clients_for_a_minute(benchmark: Callable[[str], ModuleType]) -> None:
    page = benchmark("page")
    rows = dict(page.measure_load(64, 60.0))
    print(rows)
    assert rows["other errors"] == "0"
    memory = [float(number) for number in re.findall(r"\d+", rows[page.MEMORY])]
    assert memory[2] < 1.05 * memory[1] + 5  # MB: flat, once everything was used
