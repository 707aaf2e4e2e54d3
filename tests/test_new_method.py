"""A new method is a class and an entry of the registry: everything else finds it there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract import subjects
from tests.contract.toys import SUMMARY, check_contract, registered
from tests.web.servers import Client, guarded

import sapwood as sw
from sapwood.cli.options import describe_methods
from sapwood.constituency.learn.ensemble import estimator_of
from sapwood.constituency.learn.ensemble_budget import Candidate
from sapwood.constituency.learn.pcfg import PCFG, Trainable
from sapwood.constituency.learn.registry import METHODS, Settings
from sapwood.constituency.report.training import train_method
from sapwood.core.learner import Method, StateParameters, parameter, whole
from sapwood.web.models import ModelStore
from sapwood.web.processes import TrainingOrder, train_on_page
from sapwood.web.schemas import TrainRequest


class ToyPCFG(StateParameters, PCFG):
    """Relative frequencies under another name."""

    salt: int = parameter(0, whole(0), "A number that is kept in the record.")

    def fit(self, bank: Trainable) -> ToyPCFG:
        """Learn the plain grammar."""
        super().fit(bank)
        return self


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Method]:
    with registered(monkeypatch, Method(SUMMARY, ToyPCFG, fixed={"salt": 3}), METHODS) as method:
        yield method


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "few.mrg"
    sw.write_trees(list(sw.bundled_treebank("dev"))[:40], path)
    return path


def test_the_commands_take_it(
    toy: Method, trees: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    out = tmp_path / "toy.sapwood"
    done = cli("train", trees, "-o", out, "--method", "toy", "--states", 2, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert (report["method"], report["states"]) == ("toy", 2)
    assert isinstance(sw.load(out), sw.LatentGrammar)
    refused = cli("train", trees, "-o", out, "--force", "--method", "toy", "--budget", "9s")
    assert refused.status == 2
    assert "toy (a toy of this test)" in describe_methods(METHODS)
    rows = cli("compare", trees, trees, "--methods", "pcfg,toy", "--states", "2,3", "--json")
    assert rows.status == 0, rows.err
    found = [(row["method"], row["states"]) for row in json.loads(rows.out)]
    assert found == [("pcfg", 1), ("toy", 2), ("toy", 3)]


def test_the_page_has_it_in_its_form_and_trains_it(
    toy: Method, trees: Path, tmp_path: Path
) -> None:
    client = Client(guarded(ModelStore(tmp_path)))
    form = client.get("/api/models").json()["methods"]
    assert form["toy"] == {
        "summary": "a toy of this test", "has_states": True, "has_budget": False,
    }  # fmt: skip
    assert list(form) == list(METHODS)
    assert form["best"]["has_budget"]
    assert not form["encoder"]["has_states"]
    assert TrainRequest(method="toy").method == "toy"
    assert TrainRequest(method="encoder").method == "encoder"
    out = tmp_path / "toy.sapwood"
    order = TrainingOrder(str(trees), "", 0, "toy", 2, 30.0, None, 0, str(out))
    assert train_on_page(order, lambda *_, **__: None)["method"] == "toy"
    assert sw.load(out)


def test_a_method_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    client = Client(guarded(ModelStore(tmp_path)))
    answer = client.post("/api/train", json={"method": "toy"})
    assert answer.status_code == 422
    assert "'pivot-em'" in answer.json()["error"]


def test_python_and_ensembles_take_it(toy: Method) -> None:
    bank = sw.bundled_treebank("dev")[:40]
    learner, report = train_method("toy", Settings({"n_states": 2, "seed": 5}), bank)
    assert isinstance(learner, ToyPCFG)
    assert (learner.salt, learner.n_states, report["seed"]) == (3, 2, 5)
    with pytest.raises(sw.SapwoodError, match="is not a kind of candidate"):
        estimator_of(Candidate("toy"))  # it does not learn on top of a plain grammar


def test_the_contract_tests_take_it(toy: Method) -> None:
    check_contract(toy)
    assert subjects.fitted("ToyPCFG").info_.iterations == 0


def test_it_can_be_warmed_up(toy: Method) -> None:
    assert toy.make_smallest().get_params()["n_states"] == 2
    assert METHODS["encoder"].make_smallest().get_params()["width"] == 4
