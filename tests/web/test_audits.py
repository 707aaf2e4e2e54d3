"""Audits from the page: one at a time, in a process of their own, with the names of the client."""

from __future__ import annotations

import gzip
import time
from typing import Any

import pytest
from tests.arc_toys import bank as arc_bank
from tests.web.servers import Client

import sapwood as sw
from sapwood.web.app import ServerState
from sapwood.web.audits import AuditRun

BYTES = {"Content-Type": "application/octet-stream"}


def wait_for_audit(client: Client, seconds: float = 300.0) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run: dict[str, Any] = client.get("/api/audit").json()
        if run["state"] != "running":
            return run
        time.sleep(0.05)
    pytest.fail("the audit did not end")


def test_from_upload_to_findings(own: Client, server_state: ServerState) -> None:
    assert own.get("/api/audit").json() == {"state": None}
    assert own.get("/api/audit/report").status_code == 404
    text = "".join(f"{arcs}\n\n" for arcs in arc_bank(40, seed=5))
    address = "/api/audit?title=..%2F..%2Fmine.conllu&folds=2"
    assert own.post(address, content=text.encode(), headers=BYTES).status_code == 202
    again = own.post(address, content=text.encode(), headers=BYTES)
    assert (again.status_code, "one at a time" in again.json()["error"]) == (409, True)
    run = wait_for_audit(own)
    assert (run["state"], run["error"]) == ("done", None)
    assert run["title"] == "mine.conllu"
    assert run["report"]["trees"] == 40
    report = own.get("/api/audit/report").json()
    assert list(report["files"]) == ["mine.conllu"]
    for one in report["findings"]:
        assert one["file"] == "mine.conllu"
        assert all("<svg" in drawing for drawing in report["drawings"][one["id"]])
        assert one["patch"]["old"] != one["patch"]["new"]
    folder = server_state.audits.report().parent
    assert folder.parent == server_state.store.folder


@pytest.mark.slow
def test_brackets_are_audited(own: Client, bank: sw.Treebank) -> None:
    text = "\n".join(map(str, bank[:60])) + "\n(S (NP oops\n"
    own.post("/api/audit?title=a.mrg&folds=2", content=text.encode(), headers=BYTES)
    run = wait_for_audit(own)
    assert run["state"] == "done", run["error"]
    report = own.get("/api/audit/report").json()
    assert report["findings"][-1]["kind"] == "unreadable"
    assert report["findings"][0]["patch"]


def test_refusals(own: Client) -> None:
    packed = own.post("/api/audit", content=gzip.compress(b"(S (X a))"), headers=BYTES)
    assert (packed.status_code, "compressed" in packed.json()["error"]) == (422, True)
    assert own.post("/api/audit?folds=1", content=b"", headers=BYTES).status_code == 422
    assert own.delete("/api/audit").status_code == 404


def test_errors_and_cancelled_audits_leave_no_file(own: Client, server_state: ServerState) -> None:
    own.post("/api/audit?title=a.mrg", content=b"(S (X a))\n", headers=BYTES)
    run = wait_for_audit(own)
    assert (run["state"], "at least 10 trees" in run["error"]) == ("failed", True)
    own.post("/api/audit?is_fast=false", content=b"", headers=BYTES)
    process = server_state.audits._process
    assert process is not None
    assert own.delete("/api/audit").json()["state"] == "cancelled"
    assert process.wait(10) < 0
    for _ in range(200):
        if not list(server_state.store.folder.iterdir()):
            break
        time.sleep(0.05)
    assert not list(server_state.store.folder.iterdir())


def test_progress_is_part_of_the_record(tmp_path: Any) -> None:
    run = AuditRun("audit-1", "a.mrg", {"is_fast": True, "folds": 5}, tmp_path)
    run.add_event({"event": "progress", "steps": ["folds"], "fraction": 0.5})
    run.add_event({"event": "of another version"})
    run.add_event({"event": "memory"})
    found = run.as_dict()
    assert found["progress"] == {"steps": ["folds"], "fraction": 0.5}
    assert found["error"] == "the audit needs more memory than it may take"
