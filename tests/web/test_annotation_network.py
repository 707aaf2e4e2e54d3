"""A project at the desk learns with a network, where the page asks for one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.test_annotation import CONLLU, Desk

import sapwood as sw
from sapwood.annotation.project import NETWORK
from sapwood.constituency.annotation.teacher import TreeTeacher
from sapwood.web.guard import BYTES

SHORT = [str(tree) for tree in sw.bundled_treebank("train") if len(tree.words()) < 9][:110]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(TreeTeacher, "measure", lambda *_: None)  # the curve takes long
    files = tmp_path / "files"
    files.mkdir()
    made = Desk(tmp_path / "project", files)
    made.state.project.networks.passes = 1
    yield made
    made.state.stop()


def model(desk: Desk) -> dict[str, Any]:
    return dict(desk.get().json()["model"])


def wait_for(desk: Desk, state: str) -> dict[str, Any]:
    for _ in range(2_400):
        found = model(desk)
        if found["network"]["state"] == state:
            return found
        time.sleep(0.05)
    raise AssertionError(model(desk))


def test_a_network_is_trained_mixed_in_and_kept(desk: Desk, tmp_path: Path) -> None:
    made = desk.make(text="", treebank="\n".join(SHORT), as_accepted=True)
    assert made["can_network"]
    assert made["model"]["network"] == {"state": "none", "message": None}
    assert desk.post("/learn", network=True).status_code == 200
    began = model(desk)
    assert began["state"] == "learning"
    if began["network"]["state"] == "running":
        assert "A network is trained on 90 trees: 0 of 1 passes" in began["message"]
        assert began["network"]["seconds_left"] >= 0.0
    found = wait_for(desk, "ready")
    learning = desk.state.project.desk.learning
    assert learning is not None
    learning.wait(120)
    found = model(desk)
    assert found["name"] == "the project's own trees, with a network"
    assert "A network of 90 trees has a weight of " in found["message"]
    annotator: Any = desk.state.project.desk.annotator
    own = annotator.suggester.parser.model
    network = next(one for one in own.members if one.record["method"] == "encoder")
    assert len(network.record["held_out"]) == 20
    words = ["the", "man", "in", "the", "garden", "sees", "the", "dog", "with", "a", "hat", "."]
    desk.post("/import", format="raw", content=" ".join(words))
    view = desk.view("s111")
    assert len(view["alternatives"]) > 1
    assert all(0.0 <= row["probability"] <= 1.0 for row in view["nodes"])
    view = desk.edit(view, type="add", start=0, end=len(words) - 1, label="NEW").json()
    assert any(row["label"] == "NEW" for row in view["nodes"])
    assert desk.edit(view, type="accept", tree=view["tree"]).status_code == 200
    desk.state.stop()
    again = Desk(tmp_path / "project", tmp_path / "files")
    try:
        assert again.post("/learn").status_code == 200
        learning = again.state.project.desk.learning
        assert learning is not None
        learning.wait(120)
        kept = model(again)  # the network is as it was, the grammars have one more tree
        assert kept["n_trees"] == 111
        assert "A network of 90 trees has a weight of " in kept["message"]
        (tmp_path / "project" / NETWORK).write_bytes(b"no model")
        again.post("/learn")
        learning.wait(120)
        assert "network" not in model(again)["message"]
    finally:
        again.state.stop()


def test_a_network_that_is_trained_can_be_ended(desk: Desk, tmp_path: Path) -> None:
    desk.state.project.networks.passes = 30
    desk.make(text="", treebank="\n".join(SHORT), as_accepted=True)
    desk.post("/learn", network=True)
    assert model(desk)["network"]["state"] == "running"
    ended = desk.post("/learn", network=True).json()
    assert ended["network"]["state"] == "cancelled"
    assert "was ended" in ended["message"]
    desk.post("/learn", network=True)
    desk.state.stop()
    process = desk.state.project.networks._process
    assert process is not None
    assert process.poll() is not None
    assert not (tmp_path / "project" / NETWORK).exists()
    for _ in range(200):
        if not list((tmp_path / "files").glob("network-*")):
            return
        time.sleep(0.05)
    raise AssertionError("files of the training are left")


def test_too_few_trees_for_a_network_are_counted(desk: Desk) -> None:
    desk.make(text="", treebank="\n".join(SHORT[:12]), as_accepted=True)
    answer = desk.post("/learn", network=True)
    assert answer.status_code == 422
    assert answer.json()["error"] == "a network needs 100 accepted trees; there are 12"
    assert answer.json()["hint"] == "accept 88 more"


def test_networks_are_not_offered_for_dependencies(desk: Desk) -> None:
    made = desk.make(kind="dependencies", treebank=CONLLU, format="conllu")
    assert not made["can_network"]
    answer = desk.post("/learn", network=True)
    assert answer.status_code == 422
    assert "phrase trees alone" in answer.json()["error"]


def test_a_large_treebank_is_imported_as_bytes(desk: Desk) -> None:
    """In JSON, it may have more commas and brackets than a request may have."""
    trees = [str(tree) for tree in sw.bundled_treebank("train")[:2_000]]
    trees[7] = f"(TOP (S {'(, ,) ' * 119}(. .)))"
    trees += trees[7:8] * 900
    text = "\n".join(trees)
    desk.make(text="")
    refused = desk.post("/import", format="brackets", content=text)
    assert refused.status_code == 422, refused.text
    assert "commas and brackets" in refused.json()["error"]
    answer = desk.client.post(
        "/api/project/import", params={"format": "brackets", "document": "a.mrg"},
        content=text.encode(), headers={"Content-Type": BYTES},
    )  # fmt: skip
    assert answer.json()["added"] == 2_900
    assert desk.get().json()["counts"]["sentences"] == 2_900
    assert desk.view("s2000")["tree"] == trees[1_999]
