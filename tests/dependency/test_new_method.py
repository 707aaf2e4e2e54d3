"""A new method of dependency trees is a class and an entry of the registry; the rest finds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from tests import arc_toys
from tests.contract.toys import SUMMARY, check_contract, registered

import sapwood as sw
from sapwood.cli.options import describe_methods
from sapwood.core.learner import Method, parameter, positional, whole
from sapwood.dependency.data.bank import ArcBankLike
from sapwood.dependency.learn import ARC_METHODS, ARC_TASK, train_arc_method
from sapwood.dependency.learn.crf import ArcCRF, ArcEstimator
from sapwood.dependency.report import score_on_arcs


class ToyParser(ArcEstimator):
    """The parser of `ArcCRF` under another name, whose passes are called states."""

    n_states: int = positional(
        default=1, domain=whole(1, 8), words="Passes over the sentences.", kw_only=False
    )
    salt: int = parameter(0, whole(0), "A number that is added to the seed.")

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        crf = ArcCRF(
            1, passes=self.n_states, folds=self.folds, seed=self.seed + self.salt,
            embeddings=self.embeddings, n_jobs=self.n_jobs, engine=self.engine,
        ).fit(bank)  # fmt: skip
        self.model_, self.info_ = crf.model_, crf.info_
        return self


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Method]:
    method = Method(SUMMARY, ToyParser, task=ARC_TASK, fixed={"salt": 3, "folds": 2})
    with registered(monkeypatch, method, ARC_METHODS):
        yield method


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.conllu"
    sw.write_arcs(arc_toys.bank(30), path)
    return path


def test_the_command_takes_it_with_its_options_alone(
    toy: Method, train: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    out = tmp_path / "toy.sapwood"
    arguments = ("depend", "train", train, "-o", out, "--method", "toy", "--jobs", 1)
    done = cli(*arguments, "--states", 2, "--dev", train, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    found = report["method"], report["iterations"], report["members"], report["sentences"]
    assert found == ("toy", 2, 1, 30)
    assert report["dev"]["uas"] > 50
    assert "2/4 training  toy  1 member" in done.err
    model = sw.load(out)
    assert isinstance(model, sw.ArcModel)
    assert model.record["treebanks"] == [str(train)]
    refused = cli(*arguments, "--force", "--passes", 2)
    assert refused.status == 2
    assert "does not apply to --method toy; it applies to best, second" in " ".join(
        refused.err.replace("│", " ").split()
    )
    beyond = cli(*arguments, "--force", "--states", 9)
    assert beyond.status == 2
    assert "a whole number from 1 to 8" in " ".join(beyond.err.replace("│", " ").split())


def test_help_and_refusals_name_it(toy: Method, train: Path, cli: Callable[..., Any]) -> None:
    assert describe_methods(ARC_METHODS).endswith("; toy (a toy of this test)")
    refused = cli("depend", "train", train, "-o", "out.sapwood", "--method", "tou")
    assert refused.status == 2
    assert "spectral, em, toy" in " ".join(refused.err.replace("│", " ").split())


def test_python_trains_it_by_the_driver_of_the_command(toy: Method) -> None:
    bank = arc_toys.bank(30)
    values = {"n_states": 2, "seed": 5, "passes": 9, "salt": 7}  # two that it has no option for
    learner, report = train_arc_method("toy", values, bank)
    assert isinstance(learner, ToyParser)
    assert (learner.salt, learner.n_states, learner.seed) == (3, 2, 5)
    assert (report["seed"], report["iterations"], report["tokens"]) == (5, 2, bank.n_tokens)
    assert list(report["phases"]) == ["tags and arcs", "passes", "relations"]
    by_hand = ArcCRF(1, passes=2, folds=2, seed=8).fit(bank).model_
    scores = [score_on_arcs(model, bank) for model in (learner.model_, by_hand)]
    assert scores[0]["las"] == scores[1]["las"] > 50


def test_the_contract_tests_take_it(toy: Method) -> None:
    check_contract(toy)


def test_it_can_be_warmed_up(toy: Method) -> None:
    few = toy.make_smallest().get_params()
    assert (few["n_states"], few["salt"]) == (2, 3)
