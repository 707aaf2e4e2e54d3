"""Fixtures for the command line: runs that must fail, processes, and small models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Learn, Result, Run

import sapwood as sw
from sapwood.cli.warming import warm_up
from sapwood.constituency.data.treebank import sample_path
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn import crf
from sapwood.constituency.learn import ensemble as ensemble_module
from sapwood.constituency.learn.ensemble_budget import Candidate

SOURCE = Path(sw.__file__).parents[1]
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n"


@pytest.fixture
def fails(cli: Run) -> Run:
    """Run a command that must fail with status 1 and one or two lines."""

    def run(*args: object, stdin: str = "") -> Result:
        result = cli(*args, stdin=stdin)
        lines = result.err.splitlines()
        assert result.status == 1, result
        assert "Traceback" not in result.err
        assert [line.split(":")[0] for line in lines[-2:]] in (["error", "hint"], ["error"])
        return result

    return run


@pytest.fixture
def misused(cli: Run) -> Run:
    """Run a command that must end as a usage error: one line and a hint."""

    def run(*args: object, stdin: str = "") -> Result:
        result = cli(*args, stdin=stdin)
        assert result.status == 2, result
        first, last = result.err.splitlines()
        assert first.startswith("error: ")
        assert last.startswith("hint: `sapwood")
        assert result.out == ""
        return result

    return run


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """What a process of its own needs to find this very Sapwood, with its kernels compiled."""
    warm_up()  # or commands would say that they compile
    return os.environ | {"PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}


@pytest.fixture
def start(environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Start `python -m sapwood` with pipes on all sides."""

    def run(*args: object, **options: bool) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sapwood", *map(str, args)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, **options
        )

    return run


@pytest.fixture(scope="session")
def dev() -> Path:
    """The bundled dev trees."""
    return Path(str(sample_path("dev")))


@pytest.fixture(scope="session")
def model(plain: LatentGrammar, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain PCFG of the bundled dev trees."""
    path = tmp_path_factory.mktemp("models") / "dev.sapwood"
    plain.save(path)
    return path


@pytest.fixture(scope="session")
def spectral(learn: Learn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spectral grammar of the bundled dev trees."""
    path = tmp_path_factory.mktemp("models") / "spectral.sapwood"
    learn("spectral").save(path)
    return path


@pytest.fixture(scope="session")
def ensemble(learn: Learn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three grammars of the bundled dev trees; one was made from other binary trees."""
    path = tmp_path_factory.mktemp("models") / "ensemble.sapwood"
    members = [learn("spectral"), learn("pcfg"), learn("cluster", binarise="right")]
    members[1] = replace(members[1], record=dict(members[1].record) | {"dev_f1": 91.25})
    record = {"method": "best", "dev_f1": 93.5, "trees": 300, "trials": [{"name": "em"}]}
    replace(sw.Ensemble.of(members, [3, 2, 1]), record=record).save(path)
    return path


@pytest.fixture
def short_plan(monkeypatch: pytest.MonkeyPatch) -> tuple[Candidate, ...]:
    """Three candidates for `best`: all of them take long. The table of `crf` is a small one."""
    monkeypatch.setattr(crf, "TABLE_BITS", 18)
    plan = (Candidate("spectral", 4), Candidate("cluster", 3, "right"), Candidate("crf"))
    monkeypatch.setattr(ensemble_module, "PLAN", plan)
    return plan


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first of the bundled dev trees."""
    path = tmp_path_factory.mktemp("trees") / "few.mrg"
    sw.write_trees(sw.bundled_treebank("dev")[:60], path)
    return path


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """The same short tree five times."""
    path = tmp_path / "trees.mrg"
    path.write_text(TREE * 5)
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A file without anything in it."""
    path = tmp_path / "empty"
    path.touch()
    return path
