"""`sapwood serve`: what is served, where, and what is refused before anything listens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw
from sapwood.web import server
from sapwood.web.guard import Limits
from sapwood.web.models import ModelStore
from sapwood.web.server import ListenAddress

Run = Callable[..., Any]


class Idle:
    """A server that ends at once."""

    def run(self, sockets: list[Any]) -> None:
        for one in sockets:
            one.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server would have been made of."""
    found: list[Any] = []

    def make(
        store: ModelStore,
        address: ListenAddress,
        limits: Limits,
        token: str | None,
        project: Path | None,
    ) -> Idle:
        assert project is None
        found.append((store, address, limits, token))
        return Idle()

    monkeypatch.setattr(server, "make_server", make)
    monkeypatch.setattr(server, "_warm", lambda store: None)
    return found


def test_files_and_their_trees(cli: Run, made: list[Any], tmp_path: Path, plain: Any) -> None:
    plain.save(tmp_path / "a.sapwood")
    (tmp_path / "b").mkdir()
    plain.save(tmp_path / "b" / "a.sapwood")
    trees = tmp_path / "trees.mrg"
    sw.write_trees(sw.bundled_treebank("dev")[:3], trees)
    models = [tmp_path / "a.sapwood", tmp_path / "b" / "a.sapwood", "bundled"]
    done = cli("serve", *models, "--trees", trees, "--max-words", 7, "--max-body", 2)
    assert done.status == 0
    assert done.out.startswith("http://127.0.0.1:")
    store, place, limits, token = made[0]
    assert list(store.models) == ["a", "a-2", "bundled"]
    assert [len(loaded.trees) for loaded in store.models.values()] == [3, 3, 3000]
    assert (place.host, token, limits.words, limits.body) == (None, None, 7, 2 << 20)
    assert not store.folder.exists()


def test_without_a_model_the_bundled_ones(cli: Run, made: list[Any]) -> None:
    assert cli("serve").status == 0
    store = made[0][0]
    assert {loaded.kind for loaded in store.models.values()} == {"trees", "arcs", "text"}
    assert store.models["bundled"].model.n_symbols > 50


def test_others_need_a_token_and_a_warning(cli: Run, made: list[Any]) -> None:
    done = cli("serve", "--host", "0.0.0.0")
    assert "warning: other machines can reach this server" in done.err
    token = made[0][3]
    assert done.out.strip().endswith(f"?token={token}")
    assert len(token) >= 20
    done = cli("serve", "--host", "localhost")
    assert "warning" not in done.err
    assert made[1][3] is None


def test_what_is_refused(cli: Run, made: list[Any], tmp_path: Path) -> None:
    missing = cli("serve", tmp_path / "missing")
    assert (missing.status, "no such model file" in missing.err) == (1, True)
    assert cli("serve", "--trees", "x").status == 2
    assert cli("serve", "--port", "70000").status == 2
    nowhere = cli("serve", "--host", "no.such.host.invalid")
    assert nowhere.status == 1
    assert "cannot listen on no.such.host.invalid" in nowhere.err
    assert not made
