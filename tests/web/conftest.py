"""A model of every kind, asked without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.web.browsers import launched
from tests.web.servers import Client, Server, guarded, running

import sapwood as sw
from sapwood.corpora.heads import head_rule
from sapwood.dependency.data.from_trees import tree_arcs
from sapwood.lm.data.ngrams import count_sentences
from sapwood.web.loaded_models import ARCS, TEXT, TREES, LoadedModel
from sapwood.web.model_store import ModelStore

Learn = Callable[..., Any]


def _arcs(bank: sw.Treebank) -> sw.ArcModel:
    rule = head_rule("penn")
    return sw.ArcCRF(passes=1, folds=2, order=1).fit([tree_arcs(t, rule) for t in bank[:60]]).model_


def _text(bank: sw.Treebank) -> Any:
    counts = count_sentences([tree.words() for tree in bank], order=2)
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
