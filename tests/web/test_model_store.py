"""The models and treebanks of the page: names, kinds, refusals, and places of errors in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.web import models, processes
from sapwood.web.guard import Refusal
from sapwood.web.models import (
    ARCS,
    TEXT,
    TREES,
    LoadedModel,
    ModelStore,
    bundled_models,
    bundled_trees,
    models_from_files,
)
from sapwood.web.processes import check_treebank


def own_store(tmp_path: Path) -> ModelStore:
    own = ModelStore(tmp_path)
    for loaded in bundled_models():
        own.add(loaded)
    return own


def test_bundled_models_say_what_they_are_before_they_are_made() -> None:
    rows = {loaded.name: (loaded._kind, loaded.has_trees) for loaded in bundled_models()}
    assert rows == {
        "bundled": (TREES, True), "bundled-cluster": (TREES, True),
        "bundled-spectral": (TREES, True), "bundled-mix": (TREES, True),
        "bundled-arcs": (ARCS, False), "bundled-text": (TEXT, False),
    }  # fmt: skip
    traits = {loaded.name: loaded._traits for loaded in bundled_models() if loaded._traits}
    assert {name: tuple(found.values()) for name, found in traits.items()} == {
        "bundled": ("hand-written", 0, True), "bundled-spectral": ("spectral", 0, False),
        "bundled-mix": ("mix", 3, True), "bundled-arcs": ("first", 0, False),
        "bundled-text": ("em", 0, False),
    }  # fmt: skip
    assert not any(loaded.is_loaded for loaded in bundled_models())
    assert not any(loaded.file for loaded in bundled_models())


def test_bundled_models_have_the_states_that_they_are_said_to_have() -> None:
    told = [loaded for loaded in bundled_models() if "eight states" in loaded.about.lower()]
    assert [loaded.name for loaded in told] == [
        "bundled-cluster",
        "bundled-spectral",
        "bundled-text",
    ]
    assert [int(np.max(loaded.model.n_states)) for loaded in told] == [8, 8, 8]


def test_models_of_files_have_names_of_their_own() -> None:
    grammar = sw.bundled_grammar()
    names = ["a/x.sapwood", "b/x.sapwood", "y", "c/x.sapwood", "bundled"]
    found = list(models_from_files(names, lambda _: grammar, None))
    assert [loaded.name for loaded in found] == ["x", "x-2", "y", "x-4", "bundled"]
    assert {loaded.kind for loaded in found} == {TREES}
    assert all(loaded.model is grammar for loaded in found)
    assert [loaded.has_trees for loaded in found] == [False] * 4 + [True]
    assert found[4]._trees is bundled_trees
    (given,) = models_from_files(["z"], lambda _: grammar, lambda: ())
    assert given.has_trees


def test_a_model_is_made_once_and_when_it_is_used() -> None:
    made: list[int] = []
    loaded = LoadedModel("own", lambda: made.append(1) or sw.bundled_grammar())
    assert not loaded.is_loaded
    assert loaded.kind == TREES
    assert loaded.model is loaded.model
    assert loaded.is_loaded
    assert made == [1]
    assert loaded.trees == ()
    assert not loaded.as_dict()["can_download"]
    assert loaded.parser() is loaded.parser("f1")
    assert loaded.parser() is not loaded.parser("viterbi")


def test_models_are_found_by_name_or_kind(tmp_path: Path) -> None:
    own = own_store(tmp_path)
    assert own.get(None, TREES).name == "bundled"
    assert own.get(None, TEXT).name == "bundled-text"
    assert own.get("bundled-arcs", ARCS).name == "bundled-arcs"
    with pytest.raises(Refusal, match="there is no model 'nobody' here") as caught:
        own.get("nobody", TREES)
    assert caught.value.status == 404
    assert caught.value.hint is not None
    assert "bundled-mix" in caught.value.hint
    with pytest.raises(Refusal, match="is a model of dependencies, one of text") as caught:
        own.get("bundled-arcs", TEXT)
    assert (caught.value.status, caught.value.hint) == (422, "there are bundled-text")
    with pytest.raises(Refusal, match="no model of trees") as caught:
        ModelStore(tmp_path).get(None, TREES)
    assert caught.value.status == 404
    with pytest.raises(Refusal, match="there is no treebank 'x'") as caught:
        own.find_treebank("x")
    assert caught.value.status == 404


def test_models_without_a_file_are_never_dropped(tmp_path: Path) -> None:
    own = own_store(tmp_path)
    for k in range(models.N_KEPT + 2):
        file = tmp_path / f"{k}.sapwood"
        file.touch()
        own.add(LoadedModel(own.fresh_name("model"), sw.bundled_grammar, kind=TREES, file=file))
    kept = [name for name in own.models if not name.startswith("bundled")]
    assert kept == [f"model-{k + 1}" for k in range(2, models.N_KEPT + 2)]
    assert len(own.models) == 6 + models.N_KEPT
    assert len(list(tmp_path.iterdir())) == models.N_KEPT


@pytest.mark.parametrize(("column", "first"), [(1, 0), (81, 0), (82, 1), (200, 119)])
def test_an_error_is_shown_in_the_middle_of_its_excerpt(column: int, first: int) -> None:
    line = "".join(chr(ord("a") + k % 26) for k in range(400))
    error = CorpusError("wrong", line=2, column=column, hint="do it")
    found = processes.show_error(error, ["", line + "\r"])
    assert found["excerpt"] == line[first : first + 160]
    assert found["at"] == column - 1 - first
    assert (found["error"], found["hint"], found["line"]) == ("wrong", "do it", 2)
    beyond = processes.show_error(CorpusError("wrong", line=3), ["", line])
    assert (beyond["excerpt"], beyond["at"]) == ("", 0)
    assert processes.show_error(CorpusError("wrong", line=2), ["", line])["excerpt"] == line[:160]


def test_what_a_treebank_holds_is_counted() -> None:
    text = "\ufeff(S (NP (NN dogs)) (VP (VB bark) (ADVP (RB now))))\n(NP (NN cats))\n"
    report, trees = check_treebank(text.encode())
    assert (report["trees"], report["words"], report["labels"]) == (2, 4, 5)  # TOP is added
    assert (report["n_errors"], report["errors"], len(trees)) == (0, [], 2)
    with pytest.raises(CorpusError, match="byte 0xff") as caught:
        check_treebank(b"(S (X a))\n(S (X \xff))\n")
    assert caught.value.line == 2
    with pytest.raises(CorpusError, match="no tree found"):
        check_treebank(b"\n")
    with pytest.raises(sw.SapwoodError, match="a compressed file"):
        check_treebank(b"\x1f\x8b\x08")
    broken = check_treebank("\ufeff(S (NP (NN dogs)) (VP (VB bark)))\r\n(S (X\r\n".encode())
    assert (broken[0]["trees"], broken[0]["n_errors"], len(broken[1])) == (1, 1, 1)
