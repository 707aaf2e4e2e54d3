"""Random requests drawn from the API's own schema: none is a fault of the server."""

from __future__ import annotations

import random
import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from tests.web.servers import BENCHMARKS, Client, guarded

from sapwood.web.limits import Limits
from sapwood.web.model_store import ModelStore


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = spec_from_file_location("page_hours", BENCHMARKS / "page_hours.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


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


def test_some_requests_by_schema(hours: ModuleType, store: ModelStore) -> None:
    seen = check(hours, store, 40, seed=0)
    assert seen[200] > 5
    assert seen[422] > 5


@pytest.mark.slow
def test_four_thousand_requests_by_schema(hours: ModuleType, store: ModelStore) -> None:
    print(sorted(check(hours, store, 4000, seed=1).items()))
