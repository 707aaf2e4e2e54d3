"""The routes of the annotation desk: a project from its making to its export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.web.servers import Client

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.web.app import ServerState, make_app
from sapwood.web.guard import BYTES, Guard, Limits
from sapwood.web.models import ModelStore, bundled_models

TEXT = "The man sees the dog with a hat. They sleep."
GOLD = [str(tree) for tree in sw.bundled_treebank("dev")[:12]]
CONLLU = "1\tdogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"


class Desk:
    """A server with a folder for a project, in this process."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.store = ModelStore(files)
        for loaded in bundled_models():
            self.store.add(loaded)
        limits = Limits(seconds=120.0)  # kernels may be compiled, and other tests may run
        self.state = ServerState(self.store, limits, folder)
        self.client = Client(Guard(make_app(self.state), limits))

    def get(self, path: str = "", **fields: Any) -> httpx.Response:
        return self.client.get(f"/api/project{path}", params=fields)

    def post(self, path: str, **fields: Any) -> httpx.Response:
        return self.client.post(f"/api/project{path}", json=fields)

    def make(self, **fields: Any) -> dict[str, Any]:
        answer = self.post("/create", **({"title": "Hats", "text": TEXT} | fields))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def view(self, name: str = "s1") -> dict[str, Any]:
        return dict(self.get("/sentence", id=name).json())

    def edit(self, view: dict[str, Any], **action: Any) -> httpx.Response:
        return self.post(
            "/edit", id=view["id"], revision=view["revision"], window="one", action=action
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    files = tmp_path / "files"
    files.mkdir()
    made = Desk(tmp_path / "project", files)
    yield made
    made.state.stop()


def test_a_project_is_made_edited_and_exported(desk: Desk, tmp_path: Path) -> None:
    assert desk.get().json() == {"exists": False, "folder_name": "project"}
    assert desk.get("/sentence", id="s1").status_code == 404
    made = desk.make(start={"model": "bundled"})
    assert made["counts"]["sentences"] == 2
    assert made["model"]["name"] == "bundled"
    view = desk.view()
    assert view["words"] == ["The", "man", "sees", "the", "dog", "with", "a", "hat", "."]
    assert 1 < len(view["alternatives"]) <= 4
    view = desk.edit(view, type="add", start=3, end=8, label="NP").json()
    assert next(row for row in view["nodes"] if row["is_given"])["start"] == 3
    assert view["given"]["spans"] == [[3, 8, "NP"]]
    assert view["project"]["undo"] == {"can": True, "label": "add NP"}
    accepted = desk.edit(view, type="accept", tree=view["tree"]).json()
    assert accepted["status"] == "accepted"
    assert (tmp_path / "project" / "trees.mrg").read_text() == f"{view['tree']}\n"
    assert desk.get("/export", format="brackets").text == f"{view['tree']}\n"
    assert desk.get("/next", after="s1").json()["id"] == "s2"
    undone = desk.post("/undo", window="one").json()
    assert (undone["status"], undone["revision"]) == ("started", 3)
    assert (tmp_path / "project" / "trees.mrg").read_text() == ""
    assert desk.post("/redo", window="one").json()["status"] == "accepted"
    rows = desk.get("/sentences", status="accepted").json()
    assert [row["id"] for row in rows["rows"]] == ["s1"]
    assert desk.get("/sentences", query="SLEEP").json()["total"] == 1


def test_the_project_is_as_before_when_the_server_starts_again(desk: Desk, tmp_path: Path) -> None:
    desk.make(start={"model": "bundled"})
    view = desk.edit(desk.view(), type="retag", word=1, tag="NOM").json()
    desk.state.stop()
    again = Desk(tmp_path / "project", tmp_path / "files")
    try:
        found = again.view()
        assert found["tree"] == view["tree"]
        assert found["revision"] == view["revision"]
        assert again.post("/undo", window="another").json()["given"]["tags"] == [None] * 9
    finally:
        again.state.stop()


def test_the_second_window_sees_a_conflict_and_the_state_as_it_is(desk: Desk) -> None:
    desk.make(start={"model": "bundled"})
    view = desk.view()
    desk.edit(view, type="add", start=3, end=8, label="NP")
    answer = desk.edit(view, type="add", start=0, end=3, label="NP")
    assert answer.status_code == 409
    body = answer.json()
    assert "another window" in body["error"]
    assert body["hint"]
    assert body["sentence"]["given"]["spans"] == [[3, 8, "NP"]]
    assert body["sentence"]["revision"] == 1


def test_what_is_accepted_is_what_the_window_shows(desk: Desk) -> None:
    """The model may have been learnt again since the window was drawn."""
    desk.make(start={"model": "bundled"})
    view = desk.view()
    other = view["alternatives"][1]["tree"]
    annotator: Any = desk.state.project.desk.annotator
    annotator.suggester = None  # another model meanwhile
    kept = desk.edit(view, type="accept", tree=other).json()
    assert kept["tree"] == other
    assert desk.edit(desk.view("s2"), type="accept", tree=view["tree"]).status_code == 422


def test_a_file_is_imported_as_bytes(desk: Desk) -> None:
    desk.make()
    trees = "\n".join([*GOLD, "(S (X broken"])
    answer = desk.client.post(
        "/api/project/import", params={"format": "brackets", "as_accepted": "true"},
        content=trees.encode(), headers={"Content-Type": BYTES},
    )  # fmt: skip
    assert answer.json()["added"] == 12
    assert answer.json()["messages"]
    assert desk.get().json()["counts"]["accepted"] == 12
    assert desk.get("/export").text == "".join(f"{tree}\n" for tree in GOLD)
    for one in desk.get().json()["formats"]:
        answer = desk.get("/export", format=one["name"])
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-disposition"].endswith(f'trees{one["suffix"]}"')
        assert len(answer.text) > 300
    assert desk.get("/export", format="music").status_code == 422
    answer = desk.client.post(
        "/api/project/import", params={"format": "brackets"}, content=b"\xff\xfe",
        headers={"Content-Type": BYTES},
    )  # fmt: skip
    assert answer.status_code == 422
    assert "UTF-8" in answer.json()["error"]


def test_learning_starts_by_itself(desk: Desk) -> None:
    desk.make(text="", sentences=[" ".join(sw.Tree.parse(tree).words()) for tree in GOLD])
    assert desk.get("/learning").json()["state"] == "none"
    assert desk.post("/learn").status_code == 422
    for number, tree in enumerate(GOLD[:7], 1):
        assert desk.edit(desk.view(f"s{number}"), type="accept", tree=tree).status_code == 200
    learning = desk.state.project.desk.learning
    assert learning is not None
    learning.wait(120)
    found = desk.get("/learning").json()
    assert found["state"] == "ready"
    assert found["n_trees"] >= 5
    assert desk.view("s9")["nodes"][0]["label"] == "S"
    assert {"NP", "VP"} <= set(desk.get().json()["labels"])


def accept(desk: Desk, name: str, tree: str) -> dict[str, Any]:
    answer = desk.edit(desk.view(name), type="accept", tree=tree)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_same_words_annotated_otherwise_are_warned_of(desk: Desk) -> None:
    desk.make(text="", sentences=["the old dog sleeps ."] * 2)
    first = "(TOP (S (NP (D the) (J old) (N dog)) (VP (V sleeps)) (. .)))"
    accept(desk, "s1", first)
    assert desk.view("s2")["warnings"]
    view = desk.edit(desk.view("s2"), type="replace", tree=first).json()
    assert view["warnings"] == []
    view = desk.edit(view, type="retag", word=1, tag="N").json()
    (warning,) = view["warnings"]
    assert (warning["start"], warning["end"]) == (1, 2)
    assert "'old' is N here" in warning["text"]
    assert warning["examples"][0]["id"] == "s1"
    assert warning["examples"][0]["label"] == "J"
    desk.edit(desk.view("s1"), type="reopen")
    assert desk.view("s2")["warnings"] == []


def test_a_guideline_shows_what_a_label_was(desk: Desk) -> None:
    desk.make(treebank="\n".join(GOLD), as_accepted=True)
    found = desk.get("/guideline", label="NP", id="s1").json()
    assert found["n"] > 5
    one = found["examples"][0]
    words = one["text"].split(" ")[one["start"] : one["end"]]
    assert " ".join(words) == one["words"]
    assert desk.get("/guideline", label="NN", is_tag="true").json()["n"] > 5
    assert desk.get("/guideline", label="NOBODY").json() == {
        "label": "NOBODY", "n": 0, "examples": [], "states": [],
    }  # fmt: skip


def test_the_next_sentence_is_explained(desk: Desk) -> None:
    words = [" ".join(sw.Tree.parse(tree).words()) for tree in GOLD]
    desk.make(text="", sentences=words, start={"model": "bundled"})
    assert desk.get("/next").json()["id"] == "s1"
    assert desk.get().json()["orders"] == ["document", "random", "learn"]
    seen = set()
    for order in ("random", "learn"):
        assert desk.post("/settings", order=order).json()["order"] == order
        after = ""
        for _ in range(4):
            found = desk.get("/next", after=after).json()
            assert found["id"] != after
            assert found["why"]["order"] == order
            after = found["id"]
            seen.add(after)
    assert len(seen) > 2
    assert "errors expected" in found["why"]["parts"][0]["text"]
    assert found["why"]["score"] > 0.0
    for number, tree in enumerate(GOLD, 1):
        accept(desk, f"s{number}", tree)
    assert desk.get("/next", after="s1").json() == {"id": None, "why": None}


def test_the_learning_curve_is_measured(desk: Desk) -> None:
    trees = [str(tree) for tree in sw.bundled_treebank("dev")[:24]]
    desk.make(text="", treebank="\n".join(trees), as_accepted=True)
    learning = desk.state.project.desk.learning
    assert learning is not None
    learning.wait(240)
    found = desk.get("/learning").json()
    assert found["measure"] == "F1"
    sizes = [point["trees"] for point in found["points"]]
    assert sizes == sorted(set(sizes))
    assert len(sizes) > 1
    assert all(point["low"] <= point["score"] <= point["high"] for point in found["points"])


def test_dependencies(desk: Desk, tmp_path: Path) -> None:
    desk.make(
        kind="dependencies", start={"model": "bundled-arcs"}, treebank=CONLLU, format="conllu"
    )
    view = desk.view()
    assert [arc["word"] for arc in view["arcs"]][:2] == [0, 1]
    view = desk.edit(view, type="head", word=5, head=5).json()
    assert view["arcs"][5]["head"] == 5
    assert view["arcs"][5]["is_given"]
    assert desk.edit(view, type="accept", tree=view["tree"]).status_code == 200
    text = (tmp_path / "project" / "trees.conllu").read_text()
    assert text.startswith("# sent_id = s1\n1\tThe\t")
    assert sw.Arcs.parse(text).heads[5] == 5
    names = desk.post("/labels", id="s1", word=1, head=3).json()["labels"]
    assert {"label", "probability"} <= set(names[0])
    assert desk.get("/guideline", label=view["arcs"][0]["relation"]).json()["n"] >= 1
    assert desk.get("/guideline", label=view["arcs"][0]["tag"], is_tag="true").json()["n"] >= 1
    assert desk.post("/settings", order="learn").status_code == 200
    assert desk.get("/next").json()["why"]["parts"]
    imported = desk.view("s3")
    assert [arc["head"] for arc in imported["arcs"]] == [2, 0]


def test_another_treebank_with_its_labels_mapped(desk: Desk) -> None:
    start = {"treebank": "\n".join(GOLD), "label_map": {"NP": "GN", "VP": None}}
    made = desk.make(start=start)
    assert made["model"]["name"] == "a treebank"
    assert "GN" in made["labels"]
    assert not {"NP", "VP"} & set(made["labels"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": ""}, "a title of 0 characters"),
        ({"kind": "music"}, '"kind" is'),
        ({"start": {"model": "nobody"}}, "there is no model"),
        ({"start": {"treebank": "no tree"}}, "to start a tree"),
        ({"start": {"model": "bundled-arcs"}}, "is a model of dependencies"),
        ({"treebank": "words", "format": "bark"}, "trees are not read from 'bark'"),
        ({"start": {"model": "bundled", "label_map": {"NP": 7}}}, "label_map"),
    ],
)
def test_a_project_that_cannot_be_made_leaves_nothing(
    desk: Desk, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    answer = desk.post("/create", **({"title": "Hats", "text": TEXT} | fields))
    assert answer.status_code in {404, 422}
    assert message in answer.json()["error"]
    assert not (tmp_path / "project").exists()
    assert desk.make()["exists"]


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("/edit", {"id": "s1", "revision": 0, "action": {"type": "add", "start": 0, "end": 1,
                                                         "label": "N P"}}, 422),
        ("/edit", {"id": "s1", "revision": 0, "action": {}}, 422),
        ("/edit", {"id": "s1", "revision": 0, "action": []}, 422),
        ("/edit", {"id": "s1", "revision": 0, "action": {"type": {"type": {}}}}, 422),
        ("/edit", {"id": "s1", "revision": 0, "action": {f"f{k}": k for k in range(40)}}, 422),
        ("/edit", {"id": "s99", "revision": 0, "action": {"type": "skip"}}, 422),
        ("/edit", {"id": "s1", "revision": 7, "action": {"type": "skip"}}, 409),
        ("/edit", {"id": "s1", "revision": -1, "action": {"type": "skip"}}, 422),
        ("/edit", {"id": "s1", "revision": 0, "action": {"type": "replace", "tree": "(" * 50_000}},
         422),
        ("/edit", {"id": "s1", "revision": 0, "action": {"type": "accept", "tree": "(S " * 10**6}},
         422),
        ("/labels", {"id": "s1"}, 422),
        ("/labels", {"id": "s1", "start": 5, "end": 2}, 422),
        ("/labels", {"id": "s1", "start": 0, "end": 99}, 422),
        ("/labels", {"id": "s1", "word": 99}, 422),
        ("/import", {"format": "text", "content": ""}, 422),
        ("/import", {"format": "findings", "content": "[]"}, 422),
        ("/import", {"format": "brackets", "content": "no tree at all"}, 200),
        ("/settings", {"direction": "up"}, 422),
        ("/settings", {"order": "by magic"}, 422),
        ("/undo", {"window": "x" * 1_000}, 422),
        ("/undo", {}, 422),
    ],
)  # fmt: skip
def test_hostile_requests_are_refused_with_a_hint(
    desk: Desk, path: str, fields: dict[str, Any], status: int
) -> None:
    desk.make()
    answer = desk.post(path, **fields)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.json()["error"]
        assert answer.json()["hint"]
    assert desk.view()["revision"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "word " * 200_000, "x" * 1_000_000, f"{'Hat' * 200} is long.", "שלום עולם. مرحبا بالعالم.",
        "😀 👨‍👩‍👧 \u202e\u0301 e\u0301.", "(((", "\x00 \x07", "*T*-1 0 -NONE-",
    ],
)  # fmt: skip
def test_any_text_is_imported_or_left_out_with_a_message(desk: Desk, text: str) -> None:
    desk.make()
    answer = desk.client.post(
        "/api/project/import", params={"format": "text"}, content=text.encode(),
        headers={"Content-Type": BYTES},
    )  # fmt: skip
    assert answer.status_code in {200, 422}, answer.text
    if answer.status_code == 422:
        assert answer.json()["hint"]
        return
    found = answer.json()
    assert found["added"] or found["messages"]
    if found["added"]:
        view = desk.view("s3")
        kept = desk.edit(view, type="accept", tree=view["tree"])
        assert kept.status_code == 200, kept.text
        words = sw.Tree.parse(desk.get("/export").text.strip("\n")).words()
        assert words == view["words"]


def test_the_findings_of_an_audit_are_imported(desk: Desk) -> None:
    desk.make()
    trees = [tree.replace("(NP", "(VP", 1) for tree in GOLD]
    rows = [
        {
            "annotated_tree": tree,
            "suggested_tree": gold,
            "kind": "label",
            "file": "a.mrg",
            "line": 3,
        }
        for tree, gold in zip(trees, GOLD, strict=True)
    ]
    broken = {"annotated_tree": "(S", "kind": "label"}
    found = desk.post(
        "/import", format="findings", content=json.dumps({"findings": [*rows, broken]})
    )
    assert found.json()["added"] == 12
    assert "finding 13 was left out" in found.json()["messages"][0]
    view = desk.view("s3")
    assert view["tree"] == trees[0]
    assert view["note"]["suggested_tree"] == GOLD[0]
    assert desk.get("/sentences").json()["rows"][2]["reason"] == "label"
    kept = desk.edit(view, type="accept", tree=GOLD[0])
    assert kept.json()["tree"] == GOLD[0]


def test_right_to_left_is_seen(desk: Desk) -> None:
    desk.make(text="שלום עולם.")
    assert desk.view()["direction"] == "rtl"
    desk.post("/settings", direction="ltr")
    assert desk.view()["direction"] == "ltr"


def test_a_server_without_a_folder_says_what_to_do(tmp_path: Path) -> None:
    state = ServerState(ModelStore(tmp_path), Limits())
    client = Client(Guard(make_app(state), Limits()))
    assert client.get("/api/project").json() == {"exists": False, "folder_name": None}
    answer = client.post("/api/project/create", json={"title": "Hats"})
    assert answer.status_code == 422
    assert "--project" in answer.json()["hint"]
    state.stop()


def test_a_project_whose_start_model_is_gone_opens(desk: Desk, tmp_path: Path) -> None:
    desk.make(start={"model": "bundled-cluster"})
    desk.state.stop()
    state = ServerState(ModelStore(tmp_path / "files"), Limits(), tmp_path / "project")
    try:
        found = state.project.summary()
        assert found["counts"]["sentences"] == 2
        assert "there is no start model" in found["messages"][0]
    finally:
        state.stop()


@pytest.mark.parametrize("is_file", [True, False])
def test_a_folder_that_holds_no_project_is_refused(tmp_path: Path, *, is_file: bool) -> None:
    place = tmp_path / "thesis"
    if is_file:
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
    with pytest.raises(SapwoodError) as caught:
        ServerState(ModelStore(tmp_path), Limits(), place)
    assert caught.value.hint


def test_the_routes_are_documented(desk: Desk) -> None:
    paths = json.loads(desk.client.get("/api/openapi.json").text)["paths"]
    names = "create import export sentences next sentence edit undo redo labels guideline learning"
    wanted = {f"/api/project/{name}" for name in [*names.split(), "learn", "settings"]}
    assert {"/api/project", *wanted} <= set(paths)
