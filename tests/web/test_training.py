"""Training in a process of its own: to the end, cancelled, broken treebanks."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.servers import Client

import sapwood as sw
from sapwood.web.apart import check_upload
from sapwood.web.app import ServerState, make_app
from sapwood.web.guard import Guard
from sapwood.web.limits import Limits
from sapwood.web.loaded_models import LoadedModel
from sapwood.web.model_store import N_KEPT, ModelStore, check_treebank
from sapwood.web.worker import Order, train

BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def server_state(tmp_path: Path) -> Iterator[ServerState]:
    folder = tmp_path / "server_state"
    folder.mkdir()
    server_state = ServerState(ModelStore(folder), Limits(training=100))
    server_state.store.add(LoadedModel("bundled", sw.bundled_grammar))
    yield server_state
    server_state.stop()
    assert not folder.exists()


@pytest.fixture
def own(server_state: ServerState) -> Client:
    return Client(Guard(make_app(server_state), server_state.limits))


def wait(client: Client, seconds: float = 60.0) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run: dict[str, Any] = client.get("/api/train").json()
        if run["state"] != "running":
            return run
        time.sleep(0.05)
    pytest.fail("the training did not end")


def test_from_upload_to_parse_and_download(own: Client, bank: sw.Treebank) -> None:
    text = "\n".join(str(tree) for tree in bank[:80]) + "\n(S (NP oops\n"
    checked = own.post(
        "/api/treebanks?title=../../mine.mrg", content=text.encode(), headers=BYTES
    ).json()
    assert (checked["trees"], checked["n_errors"], checked["treebank"]) == (80, 1, "treebank-1")
    error = checked["errors"][0]
    assert error["line"] == 81
    assert error["excerpt"] == "(S (NP oops"
    wish = {"treebank": "treebank-1", "dev": "hold-out", "method": "pcfg"}
    assert own.post("/api/train", json=wish).status_code == 202
    again = own.post("/api/train", json=wish)
    assert (again.status_code, again.json()["hint"]) == (
        409,
        "cancel it, or wait until it has ended",
    )
    run = wait(own)
    assert run["state"] == "done", run
    assert [phase["name"] for phase in run["phases"]] == [
        "reading",
        "training",
        "saving",
        "parsing dev",
    ]
    assert run["read"] == {"trees": 72, "words": run["read"]["words"], "dev": 8}
    assert run["report"]["dev"]["sentences"] == 8
    parse = own.post("/api/parse", json={"sentence": "they sleep .", "model": run["model"]})
    assert parse.json()["tree"].startswith("(TOP")
    file = own.get(f"/api/models/{run['model']}/file")
    assert file.headers["content-disposition"] == f'attachment; filename="{run["model"]}.sapwood"'
    assert own.get("/api/models/bundled/file").status_code == 404
    assert own.post("/api/examples", json={"label": "NP", "model": run["model"]}).status_code == 200


def test_cancel(own: Client, server_state: ServerState) -> None:
    assert own.delete("/api/train").status_code == 404
    own.post("/api/train", json={"method": "em", "states": 32, "dev": "none"})
    process = server_state.trainings._process
    assert process is not None
    assert own.delete("/api/train").json()["state"] == "cancelled"
    assert process.wait(10) < 0
    assert wait(own)["state"] == "cancelled"
    assert not list(server_state.store.folder.iterdir())


@pytest.mark.slow
def test_a_server_that_stops_ends_its_training(server_state: ServerState) -> None:
    wish = {"treebank": "bundled", "dev": "none", "method": "em", "states": 32, "budget": 60.0,
            "iterations": None, "seed": 0}  # fmt: skip
    server_state.trainings.start(wish)
    process = server_state.trainings._process
    assert process is not None
    server_state.stop()
    assert process.poll() is not None


def told(**order: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def tell(event: str, **facts: Any) -> None:
        events.append({"event": event} | json.loads(json.dumps(facts)))

    train(Order(**order), tell)
    return events


def test_likelihood_and_dev_f1_come_live(tmp_path: Path, bank: sw.Treebank) -> None:
    trees = tmp_path / "trees.mrg"
    sw.write_trees(bank[:60], trees)
    events = told(
        trees=str(trees), dev=None, every=10, method="em", states=2, budget=5.0, iterations=3,
        seed=0, out=str(tmp_path / "m.sapwood"), folder=str(tmp_path),
        memory=1 << 32,
    )  # fmt: skip
    likelihoods = [event["log"] for event in events if event["event"] == "iteration"]
    assert len(likelihoods) == 3
    assert likelihoods == sorted(likelihoods)
    grades = [event for event in events if event["event"] == "grade"]
    assert len(grades) == 4  # before each iteration, and at the end
    assert 0 <= grades[-1]["f1"] <= 100
    done = events[-1]
    assert done["report"]["dev"]["sentences"] == 6
    assert sw.load(tmp_path / "m.sapwood").record["method"] == "em"


def test_treebanks_are_checked() -> None:
    report, trees = check_treebank("\ufeff(S (NP (NN dogs)) (VP (VB bark)))\r\n(S (X\r\n".encode())
    assert (report["trees"], report["n_errors"], len(trees)) == (1, 1, 1)
    for data, why in ((b"", "no tree"), (b"\x1f\x8bxx", "compressed"), (b"(S (X \xff))", "UTF-8")):
        with pytest.raises(sw.SapwoodError, match=why):
            check_treebank(data)
    long = b"(S (X " + b"y" * 1000 + b") (Z"
    place = check_treebank(long)[0]["errors"][0]
    assert len(place["excerpt"]) <= 160
    assert 0 <= place["at"] <= 160


def test_old_uploads_and_models_go(server_state: ServerState) -> None:
    for _ in range(N_KEPT + 3):
        server_state.store.upload(
            "x", b"(S (X a)) (S (X b))", lambda _, files: check_upload(**files)
        )
    assert (
        len(server_state.store.treebanks)
        == len(list(server_state.store.folder.iterdir()))
        == N_KEPT
    )
    for number in range(N_KEPT + 2):
        file = server_state.store.folder / f"m{number}"
        file.touch()
        server_state.store.add(LoadedModel(f"m{number}", io.StringIO, file=file))
    assert sum(one.file is not None for one in server_state.store.models.values()) == N_KEPT
    assert "bundled" in server_state.store.models
