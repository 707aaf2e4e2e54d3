"""What every estimator keeps to."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.subjects import (
    DATA,
    ESTIMATORS,
    OF_TREES,
    bank,
    contents,
    data_for,
    fitted,
    make,
    subclasses,
)

import sapwood
import sapwood as sw
from sapwood.constituency.data import treebank
from sapwood.constituency.learn.pcfg import TreebankEstimator
from sapwood.core.errors import NotFittedError, SapwoodError
from sapwood.core.learner import Estimator
from sapwood.dependency.learn.crf import ArcEstimator

ODD = (None, "odd", -1, 0, 0.5, float("nan"), [], object())
OF_MEMBERS = {"ArcReranker", "EnsembleLPCFG"}  # states are those of members, if any has them
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


# -- the lists are complete -----------------------------------------------------------------------


def test_every_estimator_is_public_and_asked() -> None:
    for module in pkgutil.walk_packages(sapwood.__path__, "sapwood."):
        if ".learn." in module.name:
            importlib.import_module(module.name)
    can_learn = {
        kind.__name__
        for kind in subclasses(Estimator)
        if kind.__module__.startswith("sapwood.")
        and hasattr(kind, "fit")
        and not inspect.isabstract(kind)
    }
    assert can_learn == set(ESTIMATORS)
    assert can_learn <= set(sw.__all__)


@every_estimator
def test_every_estimator_has_data_to_learn_from(name: str) -> None:
    assert sum(issubclass(ESTIMATORS[name], base) for base in DATA) == 1


# -- parameters -----------------------------------------------------------------------------------


@every_estimator
def test_parameters_come_and_go(name: str) -> None:
    kind = ESTIMATORS[name]
    assert list(kind().get_params()) == list(inspect.signature(kind).parameters)
    small = make(name)
    other = kind()
    assert other.set_params(**small.get_params()) is other
    assert other.get_params() == small.get_params()
    with pytest.raises(SapwoodError, match="colour"):
        other.set_params(colour="green")


@every_estimator
def test_clones_and_copies_are_equal_and_apart(name: str) -> None:
    base = pytest.importorskip("sklearn.base")
    small = make(name)
    for made in (base.clone(small), copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
        assert made.get_params() == small.get_params()
        made.set_params(n_jobs=3)
        assert small.n_jobs == 1


@every_estimator
def test_its_repr_makes_it_again(name: str) -> None:
    assert repr(ESTIMATORS[name]()) == f"{name}()"
    small = make(name)
    again = eval(repr(small), {each: getattr(sw, each) for each in sw.__all__})
    assert type(again) is type(small)
    assert again.get_params() == small.get_params()


@every_estimator
def test_fit_refuses_a_bad_parameter_and_names_it(name: str) -> None:
    for parameter, declared in ESTIMATORS[name].parameters().items():
        odd = next((value for value in ODD if value not in declared.domain), ODD)
        if odd is not ODD:
            with pytest.raises(SapwoodError) as caught:
                make(name).set_params(**{parameter: odd}).fit(data_for(name))
            assert str(caught.value).startswith(f"{name}: {parameter} must be ")
            assert "\n" not in str(caught.value)


@every_estimator
def test_a_strange_number_of_threads_is_refused(name: str) -> None:
    for jobs in (-1, "two", 1.5):
        with pytest.raises(SapwoodError):
            make(name, n_jobs=jobs).fit(data_for(name))


# -- before and after learning --------------------------------------------------------------------


@every_estimator
def test_before_fit_there_is_nothing(name: str) -> None:
    unfitted = make(name)
    assert not hasattr(unfitted, "model_")
    with pytest.raises(NotFittedError, match=f"this {name} has not been fitted") as caught:
        _ = unfitted.model_
    assert "call fit" in str(caught.value.hint)
    with pytest.raises(AttributeError, match="no attribute 'n_stats'"):
        _ = unfitted.n_stats


@every_estimator
def test_fit_returns_the_estimator_with_its_parameters_as_they_were(name: str) -> None:
    estimator = make(name)
    before = estimator.get_params()
    assert estimator.fit(data_for(name)) is estimator
    after = estimator.get_params()
    assert all(after[key] is value for key, value in before.items())
    added = set(vars(estimator)) - set(before)
    assert "model_" in added
    assert all(key.endswith("_") for key in added if not key.startswith("_"))


@every_estimator
def test_to_fit_again_is_to_fit_once(name: str, tmp_path: Path) -> None:
    once = fitted(name)
    again = copy.deepcopy(once).fit(data_for(name))
    assert contents(again.model_, tmp_path) == contents(once.model_, tmp_path)


@every_estimator
def test_a_fitted_one_can_be_pickled(name: str, tmp_path: Path) -> None:
    known = fitted(name)
    again = pickle.loads(pickle.dumps(known))
    assert contents(again.model_, tmp_path) == contents(known.model_, tmp_path)
    assert again.get_params() == known.get_params()


@every_estimator
def test_threads_change_no_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(treebank, "SHARD_NODES", 300)
    assert len(bank().shards()) > 3
    found = (make(name, n_jobs=jobs).fit(data_for(name)).model_ for jobs in (1, 3, 0))
    assert len({contents(model, tmp_path) for model in found}) == 1


@every_estimator
def test_only_its_own_seed_counts(name: str, tmp_path: Path) -> None:
    state = np.random.get_state()  # noqa: NPY002 - the one that nobody here may read
    try:
        np.random.seed(17)  # noqa: NPY002
        found = make(name).fit(data_for(name))
        assert np.random.random() == np.random.RandomState(17).random()  # noqa: NPY002
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert contents(found.model_, tmp_path) == contents(fitted(name).model_, tmp_path)


@pytest.mark.parametrize("name", ["EMLPCFG", "ClusterLPCFG", "EnsembleLPCFG"])
def test_another_seed_gives_another_model(name: str, tmp_path: Path) -> None:
    found = make(name, seed=1).fit(data_for(name))
    assert contents(found.model_, tmp_path) != contents(fitted(name).model_, tmp_path)


@every_estimator
def test_its_model_says_how_it_was_made(name: str) -> None:
    """What a card needs: method, states, how much was learnt from, seed of what is drawn."""
    known = fitted(name)
    record, given = known.model_.record, known.get_params()
    assert record["method"]
    assert any(record.get(size, 0) > 0 for size in ("trees", "sentences", "strings", "tokens"))
    if given.get("n_states") is not None and name not in OF_MEMBERS:
        assert given["n_states"] in {record.get("states"), record.get("n_states")}
    if not isinstance(known, TreebankEstimator | ArcEstimator) and "seed" in given:
        assert record["seed"] == given["seed"]
    if (iterations := getattr(known, "iterations_", None)) is not None:
        assert record["iterations"] == iterations
    assert json.loads(json.dumps(dict(record), allow_nan=False)) == record


# -- what it learns from --------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("nothing", [None, 3, [], [None], {"train": 1}], ids=repr)
def test_what_is_no_data_is_refused(name: str, nothing: Any) -> None:
    with pytest.raises(SapwoodError) as caught:
        make(name).fit(nothing)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OF_TREES)
@pytest.mark.parametrize("source", [None, 3, b"trees.mrg", {"train": 1}], ids=repr)
def test_what_is_no_treebank_is_refused_with_what_would_do(name: str, source: Any) -> None:
    with pytest.raises(sw.CorpusError, match="expected a treebank") as caught:
        make(name).fit(source)
    assert "path" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, "paths") for name in OF_TREES),
     ("PCFG", "path"), ("PCFG", "name of a file"), ("PCFG", "trees"), ("EnsembleLPCFG", "trees")],
)  # fmt: skip
def test_a_treebank_in_any_form(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    sw.write_trees(bank(), path)
    source: Any = {
        "path": path, "name of a file": str(path), "paths": [path], "trees": list(bank()),
    }[form]  # fmt: skip
    found = make(name).fit(source)
    assert contents(found.model_, tmp_path) == contents(fitted(name).model_, tmp_path)


@pytest.mark.parametrize("name", OF_TREES)
def test_it_parses_with_what_it_has_learnt(name: str) -> None:
    few = bank()[:4]
    known = fitted(name)
    trees = known.predict(few)
    assert trees == known.predict([tree.words() for tree in few])
    assert [tree.words() for tree in trees] == [tree.words() for tree in few]
    assert known.score(few) == sw.evaluate.bracketing(few, trees).f1
    with pytest.raises(NotFittedError, match="has not been fitted"):
        make(name).predict(few)
