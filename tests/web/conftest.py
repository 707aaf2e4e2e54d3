"""A model of every kind, asked without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.web.browsers import launched
from tests.web.servers import BENCHMARKS, Client, Server, guarded, running

import sapwood as sw
from sapwood.corpora.tree import HEAD_RULES
from sapwood.dependency.data.transform import tree_arcs
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.web.app import ServerState, make_app
from sapwood.web.guard import Guard, Limits
from sapwood.web.models import ARCS, TEXT, TREES, LoadedModel, ModelStore

Learn = Callable[..., Any]


def _arcs(bank: sw.Treebank) -> sw.ArcModel:
    rule = HEAD_RULES["penn"]
    return sw.ArcCRF(passes=1, folds=2, order=1).fit([tree_arcs(t, rule) for t in bank[:60]]).model_


def _text(bank: sw.Treebank) -> Any:
    counts = count_sentence_ngrams([tree.words() for tree in bank], order=2)
    return sw.EMBigram(4, iterations=3).fit(counts).model_


def _mix(learn: Learn) -> sw.Ensemble:
    return sw.Ensemble.of([learn("pcfg"), learn("spectral")])


@pytest.fixture(scope="session")
def store(bank: sw.Treebank, learn: Learn, tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    """A model of every kind; learnt when first used."""
    store = ModelStore(tmp_path_factory.mktemp("serve"))
    trees = partial(list, bank)
    for loaded in (
        LoadedModel("bundled", sw.bundled_grammar, kind=TREES, trees=trees),
        LoadedModel("spectral", partial(learn, "spectral"), kind=TREES, trees=trees),
        LoadedModel("mix", partial(_mix, learn), kind=TREES),
        LoadedModel("arcs", partial(_arcs, bank), kind=ARCS),
        LoadedModel("text", partial(_text, bank), kind=TEXT),
    ):
        store.add(loaded)
    return store


@pytest.fixture(autouse=True)
def _folder_of_the_store(request: pytest.FixtureRequest) -> None:
    """Make the folder of the shared store again: a server that stops removes it."""
    if "store" in request.fixturenames:
        request.getfixturevalue("store").folder.mkdir(exist_ok=True)


@pytest.fixture(scope="session")
def client(store: ModelStore) -> Client:
    """Asks the application in this process."""
    return Client(guarded(store))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`sapwood serve` with the bundled models."""
    with running(folder=tmp_path_factory.mktemp("serve")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium, gone before the next file: its loop would be in the way of others."""
    with launched() as browser:
        yield browser


@pytest.fixture
def server_state(tmp_path: Path) -> Iterator[ServerState]:
    """The state of a server of its own, whose folder is gone when it stops."""
    folder = tmp_path / "server_state"
    folder.mkdir()
    state = ServerState(ModelStore(folder), Limits(training=100))
    state.store.add(LoadedModel("bundled", sw.bundled_grammar, kind=TREES))
    yield state
    state.stop()
    assert not folder.exists()


@pytest.fixture
def own(server_state: ServerState) -> Client:
    """Asks the application of that server."""
    return Client(Guard(make_app(server_state), server_state.limits))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a benchmark of the page by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module
