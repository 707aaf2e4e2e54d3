"""Heavy questions and trainings in processes of their own: parses are answered meanwhile."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.web.servers import Client

import sapwood as sw
from sapwood.core.outputs import STALE_SECONDS, lock
from sapwood.web import processes, server
from sapwood.web.app import ServerState, static_files
from sapwood.web.guard import MEGABYTE, Guard, Limits
from sapwood.web.models import N_KEPT, TREES, LoadedModel, ModelStore
from sapwood.web.processes import TrainingOrder, check_upload, train_on_page
from sapwood.web.runs import TrainingRun, Trainings
from sapwood.web.server import LOCK, PREFIX, ListenAddress, sweep

BYTES = {"Content-Type": "application/octet-stream"}
LONG = b"(S (NP oops\n" * 300_000  # to check it takes many seconds


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The processes that were started for heavy questions."""
    found: list[subprocess.Popen[str]] = []
    start = processes.start_process

    def start_and_note(*order: Any, **options: Any) -> subprocess.Popen[str]:
        found.append(start(*order, **options))
        return found[-1]

    monkeypatch.setattr(processes, "start_process", start_and_note)
    return found


def test_parses_do_not_wait_for_heavy_questions(server_state: ServerState, own: Client) -> None:
    async def main() -> None:
        stop = threading.Event()
        places = server_state.limits.workers + server_state.limits.queue
        heavy = [asyncio.ensure_future(server_state.heavy.run(lambda _: stop.wait(5)))
                 for _ in range(places)]  # fmt: skip
        await asyncio.sleep(0.02)
        full = await own.asker.post("/api/score", json={"sentences": ["they sleep ."]})
        assert full.status_code == 503
        parsed = await own.asker.post("/api/parse", json={"sentence": "they sleep ."})
        assert parsed.status_code == 200
        stop.set()
        await asyncio.wait(heavy)

    own.post("/api/score", json={"sentences": ["they sleep ."]})  # the model is loaded
    asyncio.run(main())


def test_a_model_is_loaded_apart_from_parses(server_state: ServerState, own: Client) -> None:
    loading = threading.Event()

    def load() -> Any:
        loading.wait(5)
        return sw.bundled_grammar()

    server_state.store.add(LoadedModel("slow", load, kind=TREES))

    async def main() -> None:
        question = {"sentence": "they sleep ."}
        other = question | {"model": "slow"}
        slow = [asyncio.ensure_future(own.asker.post("/api/parse", json=other))
                for _ in range(server_state.limits.workers)]  # fmt: skip
        await asyncio.sleep(0.05)
        quick = await own.asker.post("/api/parse", json=question)
        assert quick.status_code == 200
        assert not any(one.done() for one in slow)
        loading.set()
        assert [(await one).status_code for one in slow] == [200] * len(slow)

    own.post("/api/parse", json={"sentence": "they sleep ."})
    asyncio.run(main())


def test_the_process_behind_a_408_is_gone(
    own: Client, server_state: ServerState, started: list[subprocess.Popen[str]]
) -> None:
    server_state.heavy.limits = Limits(seconds=1.5)
    answer = own.post("/api/treebanks", content=LONG, headers=BYTES)
    assert answer.status_code == 408
    end = time.monotonic() + 2.0
    while server_state.heavy.n_busy and time.monotonic() < end:
        time.sleep(0.01)
    assert [process.poll() is not None for process in started] == [True]
    assert server_state.heavy.n_busy == 0
    assert not list(server_state.store.folder.iterdir())


def test_the_process_of_a_client_that_left_is_gone(
    own: Client, server_state: ServerState, started: list[subprocess.Popen[str]]
) -> None:
    async def main() -> None:
        gone = asyncio.Event()
        asked = {"words": 6, "states": 5, "length": 6}
        work = server_state.heavy.run(
            lambda check: server_state.processes.ask("identify/table", asked, check), gone
        )
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.3)
        gone.set()
        await asyncio.wait([task])
        assert task.exception() is not None
        await asyncio.sleep(0.3)
        assert [process.poll() is not None for process in started] == [True]

    asyncio.run(main())


def test_the_memory_of_a_heavy_question_is_bounded(server_state: ServerState, own: Client) -> None:
    server_state.processes.limits = Limits(memory=160 * MEGABYTE)
    answer = own.post("/api/treebanks", content=b"(" * 8_000_000, headers=BYTES)
    assert answer.status_code == 422
    assert "the 160 MB of memory that a request may take" in answer.json()["error"]
    assert "--max-memory" in answer.json()["hint"]


def test_errors_of_a_process_keep_their_place(own: Client) -> None:
    answer = own.post("/api/treebanks", content=b"(S (X a))\n(S (X \xff))", headers=BYTES)
    assert (answer.status_code, answer.json()["line"]) == (422, 2)
    wrong = own.post("/api/identify", json={"family": "nonsense", "words": 2, "length": 3})
    assert wrong.status_code == 422
    assert set(wrong.json()) == {"error", "hint"}


def test_a_stopped_server_starts_no_process(own: Client, server_state: ServerState) -> None:
    server_state.processes.stop()
    asked = {"family": "dep-i", "words": 2, "length": 2}
    assert own.post("/api/identify", json=asked).status_code == 503


def test_a_process_that_runs_ends_when_the_server_stops(
    server_state: ServerState, started: list[subprocess.Popen[str]]
) -> None:
    own, faults = server_state.processes, list[Exception]()

    def ask() -> None:
        try:
            own.ask("identify/table", {"words": 6, "states": 5, "length": 6}, lambda: None)
        except Exception as error:
            faults.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    end = time.monotonic() + 10
    while not started and time.monotonic() < end:
        time.sleep(0.01)
    own.stop()
    assert [process.poll() for process in started] == [-signal.SIGKILL]
    thread.join(10)
    assert len(faults) == 1  # who asked is told


# -- faults ---------------------------------------------------------------------------------------


def test_faults_are_logged_with_their_traceback(
    server_state: ServerState, own: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Any:
        msg = "the store broke"
        raise RuntimeError(msg)

    server_state.store.add(LoadedModel("broken", fail, kind=TREES))
    answer = own.post("/api/parse", json={"sentence": "a", "model": "broken"})
    assert answer.status_code == 500
    assert "logged" in answer.json()["error"]
    told = capfd.readouterr().err
    assert "error: POST '/api/parse'" in told
    assert "Traceback" in told
    assert "RuntimeError: the store broke" in told


def test_a_fault_of_the_application_itself_is_answered(capfd: pytest.CaptureFixture[str]) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    assert Client(Guard(broken, Limits())).get("/x").status_code == 500
    assert "ZeroDivisionError" in capfd.readouterr().err


# -- what a server keeps --------------------------------------------------------------------------


def test_names_that_do_not_exist_are_not_remembered(own: Client) -> None:
    before = own.get("/static/main.js")
    assert before.status_code == 200
    for number in range(20):
        assert own.get(f"/static/{'x' * 1000}{number}.js").status_code == 404
    assert static_files.cache_info().currsize == 1


def test_answers_are_sent_at_once() -> None:
    async def main() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def note(_: Any, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            found.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with ListenAddress().bind() as bound:
            async with await asyncio.start_server(note, sock=bound):
                _, writer = await asyncio.open_connection(*bound.getsockname())
                value = await found
                writer.close()
        return value

    assert asyncio.run(main())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_folders_of_dead_servers_are_swept(tmp_path: Path) -> None:
    def folder(name: str, age: float) -> Path:
        made = tmp_path / f"{PREFIX}{name}"
        made.mkdir()
        (made / LOCK).touch()
        os.utime(made / LOCK, (time.time() - age,) * 2)
        return made

    dead, young, held = (
        folder("dead", STALE_SECONDS + 5),
        folder("young", 0.0),
        folder("held", STALE_SECONDS + 5),
    )
    (dead / "treebank-1.mrg").touch()
    foreign = tmp_path / f"{PREFIX}foreign"
    foreign.mkdir()
    with (held / LOCK).open("rb") as file:
        assert lock(file.fileno())
        sweep(tmp_path)
    assert not dead.exists()
    assert all(one.exists() for one in (young, held, foreign))


def wait_for_training(client: Client, seconds: float = 60.0) -> dict[str, Any]:
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
    expected = (409, "cancel it, or wait until it has ended")
    assert (again.status_code, again.json()["hint"]) == expected
    run = wait_for_training(own)
    assert run["state"] == "done", run
    expected = ["reading", "training", "saving", "parsing dev"]
    assert [phase["name"] for phase in run["phases"]] == expected
    assert run["read"] == {"trees": 72, "words": run["read"]["words"], "dev": 8}
    assert run["report"]["dev"]["sentences"] == 8
    (model,) = (
        one for one in own.get("/api/models").json()["models"] if one["name"] == run["model"]
    )
    assert model["about"] == "pcfg, trained here on 72 trees"
    parse = own.post("/api/parse", json={"sentence": "they sleep .", "model": run["model"]})
    assert parse.json()["tree"].startswith("(TOP")
    file = own.get(f"/api/models/{run['model']}/file")
    assert file.headers["content-disposition"] == f'attachment; filename="{run["model"]}.sapwood"'
    assert own.get("/api/models/bundled/file").status_code == 404
    assert own.post("/api/examples", json={"label": "NP", "model": run["model"]}).status_code == 200


def test_events_of_a_training_are_its_record(tmp_path: Path) -> None:
    run = TrainingRun("trained", {"method": "em"}, tmp_path / "trained.sapwood")
    run.began -= 1.2344
    for event in (
        {"event": "phase", "name": "training"},
        {"event": "iteration", "n": 3, "states": 2, "log": -1.5},
        {"event": "grade", "n": 3, "f1": 90.5},
        {"event": "trial", "method": "em", "f1": 80.0},
        {"event": "read", "trees": 7},
        {"event": "done", "answer": {"trees": 7}},
        {"event": "of another version"},
    ):
        run.add_event(event)
    assert run.as_dict() | {"phases": [], "seconds": 0} == {
        "training": "trained", "method": "em", "phases": [], "read": {"trees": 7},
        "iterations": [[3, 2, -1.5]], "grades": [[3, 90.5]],
        "trials": [{"method": "em", "f1": 80.0}], "report": {"trees": 7}, "model": None,
        "error": None, "hint": None, "state": "running", "seconds": 0,
    }  # fmt: skip
    (phase,) = run.record["phases"]
    assert phase["name"] == "training"
    assert phase["at"] == round(phase["at"], 2) == pytest.approx(1.23, abs=0.05)
    run.add_event({"event": "failed", "error": "no trees", "hint": "give some"})
    assert (run.record["error"], run.record["hint"]) == ("no trees", "give some")
    run.add_event({"event": "memory"})
    assert "more memory" in run.record["error"]
    assert "--max-memory" in run.record["hint"]


def test_only_trees_that_are_to_be_judged_are_held_out(server_state: ServerState) -> None:
    path = server_state.store.folder / "out"
    wish = {
        "treebank": "bundled",
        "method": "em",
        "states": 2,
        "budget": 1.0,
        "iterations": 1,
        "seed": 0,
    }
    orders = [
        TrainingOrder(**server_state.trainings._order(wish | {"dev": dev}, path))
        for dev in ("bundled", "none", "hold-out")
    ]
    every, none, most = (order.read() for order in orders)
    assert len(every[0]) == len(none[0]) == len(most[0]) + len(most[1])
    assert [len(dev) > 0 for _, dev in (every, none, most)] == [True, False, True]


def test_a_training_that_ends_without_a_model_leaves_no_file(tmp_path: Path) -> None:
    trainings = Trainings(ModelStore(tmp_path), Limits())
    run = TrainingRun("trained", {"treebank": "bundled"}, tmp_path / "trained.sapwood")
    run.out.touch()
    code = [sys.executable, "-c", "raise SystemExit(3)"]
    trainings._listen(run, subprocess.Popen(code, stdout=subprocess.PIPE, text=True))
    assert run.as_dict()["state"] == "failed"
    assert run.record["error"] == "the process ended with status 3"
    assert not run.out.exists()
    assert not trainings.store.models


def test_cancel(own: Client, server_state: ServerState) -> None:
    assert own.delete("/api/train").status_code == 404
    own.post("/api/train", json={"method": "em", "states": 32, "dev": "none"})
    process = server_state.trainings._process
    assert process is not None
    assert own.delete("/api/train").json()["state"] == "cancelled"
    assert process.wait(10) < 0
    assert wait_for_training(own)["state"] == "cancelled"
    assert not list(server_state.store.folder.iterdir())


def test_a_server_that_stops_ends_all_that_it_began(
    server_state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"pool", "heavy", "processes", "trainings", "audits"}
    stopped: list[str] = []
    for name in parts:
        part = getattr(server_state, name)
        stop = part.stop
        monkeypatch.setattr(
            part, "stop", lambda name=name, stop=stop: (stopped.append(name), stop())
        )
    server_state.stop()
    assert {*stopped} == parts


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

    report = train_on_page(TrainingOrder(**order), tell)
    return [*events, {"report": report}]


def test_likelihood_and_dev_f1_come_live(tmp_path: Path, bank: sw.Treebank) -> None:
    trees = tmp_path / "trees.mrg"
    sw.write_trees(bank[:60], trees)
    events = told(
        trees=str(trees), dev=None, every=10, method="em", states=2, budget=5.0, iterations=3,
        seed=0, out=str(tmp_path / "m.sapwood"),
    )  # fmt: skip
    likelihoods = [event["log"] for event in events[:-1] if event["event"] == "iteration"]
    assert len(likelihoods) == 3
    assert likelihoods == sorted(likelihoods)
    grades = [event for event in events[:-1] if event["event"] == "grade"]
    assert len(grades) == 4  # before each iteration, and at the end
    assert 0 <= grades[-1]["f1"] <= 100
    done = events[-1]
    assert done["report"]["dev"]["sentences"] == 6
    assert sw.load(tmp_path / "m.sapwood").record["method"] == "em"


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


# -- the server around them -------------------------------------------------------------------


def test_a_server_has_the_models_that_were_named(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar, seen, told = sw.bundled_grammar(), [], []

    class Server:
        def run(self, sockets: list[socket.socket]) -> None:
            (bound,) = sockets
            assert told == [f"http://127.0.0.1:{bound.getsockname()[1]}/"]
            assert seen[0].folder.is_dir()

    monkeypatch.setattr(server, "_warm", lambda store: None)
    monkeypatch.setattr(server, "make_server", lambda store, *_: seen.append(store) or Server())
    for names, expected in ((["x.sapwood", "y"], {"x", "y"}), ([], {"bundled", "bundled-mix"})):
        seen.clear()
        told.clear()
        address = ListenAddress("127.0.0.1", 0)
        server.run_server(names, lambda _: grammar, None, address, Limits(), told.append)
        (store,) = seen
        assert expected <= store.models.keys()
        assert not store.folder.exists()


def test_answers_do_not_name_the_software_and_requests_are_not_logged(tmp_path: Path) -> None:
    address, store = ListenAddress("127.0.0.1", 0), ModelStore(tmp_path)
    config = server.make_server(store, address, Limits(), None).config
    assert not config.server_header
    assert not config.access_log
    config.load()
    assert b"server" not in dict(config.encoded_headers)


@pytest.mark.parametrize(
    ("host", "is_named", "is_open"),
    [(None, False, False), ("0.0.0.0", False, True), ("tree.example", True, True)],
)
def test_a_server_answers_for_its_own_name(
    host: str | None, is_named: bool, is_open: bool, tmp_path: Path
) -> None:
    """All addresses are no name; where other machines can come, their numbers are taken."""
    made = server.make_server(ModelStore(tmp_path), ListenAddress(host, 0), Limits(), None)
    guard = made.config.app
    assert isinstance(guard, Guard)
    assert (host in guard.names) == is_named
    assert guard.takes_numbers == is_open
    assert socket.gethostname().lower() in guard.names


def test_a_process_whose_server_is_gone_ends_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server").mkdir()
    statuses: list[int] = []
    monkeypatch.setattr(processes.os, "_exit", statuses.append)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    processes.end_with_server(str(tmp_path / "server"))
    assert statuses == [processes.ORPHANED]
    assert not any(tmp_path.iterdir())


def test_a_server_ends_by_the_signal_after_it_has_cleaned_up() -> None:
    code = (
        "import signal\n"
        "from sapwood.web.server import _cleanup_on_sigterm\n"
        "with _cleanup_on_sigterm():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    finally:\n"
        "        print('cleaned up', flush=True)\n"
        "print('went on', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "cleaned up\n")
    before = signal.getsignal(signal.SIGTERM)
    with server._cleanup_on_sigterm():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
