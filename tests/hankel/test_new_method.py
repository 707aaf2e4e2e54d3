"""A new method of learning from strings is a class and an entry of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.contract.toys import SUMMARY, check_contract, registered

import sapwood as sw
from sapwood.cli.options import describe_methods
from sapwood.core.learner import Method, parameter, whole
from sapwood.hankel.learn import BRACKET_METHODS, STRING_METHODS
from sapwood.hankel.learn.em_wcfg import EMWCFG

STRINGS = "a b\na a b b\na b\na a a b b b\na a b b\n" * 8


class ToyWCFG(EMWCFG):
    """EM under another name."""

    salt: int = parameter(0, whole(0), "A number that only this learner has.")


@pytest.fixture(params=[STRING_METHODS, BRACKET_METHODS], ids=["strings", "brackets"])
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Method]:
    method = Method(SUMMARY, ToyWCFG, "strings", fixed={"salt": 3, "iterations": 4})
    # the names of methods are those of strings
    with registered(monkeypatch, method, STRING_METHODS, request.param):
        yield method


@pytest.mark.parametrize("options", [(), ("--states", 2, "--seed", 5)])
def test_the_command_takes_it(
    toy: Method, options: tuple[object, ...], tmp_path: Path, cli: Run
) -> None:
    text, out = tmp_path / "strings.txt", tmp_path / "toy.sapwood"
    text.write_text(STRINGS, encoding="utf-8")
    done = cli("hankel", "learn", text, "-o", out, "--method", "toy", *options, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["states"] == (2 if options else 4)
    assert report["iterations"] <= 5
    assert sw.load(out).is_probabilistic
    refused = cli("hankel", "learn", text, "-o", out, "--method", "toy", "--basis", 0.1)
    assert refused.status == 2
    assert "--basis: --method toy chooses no basis" in refused.err
    assert "toy (a toy of this test)" in describe_methods(STRING_METHODS)


def test_the_contract_tests_take_it(toy: Method) -> None:
    check_contract(toy)
    assert toy.make().get_params()["salt"] == 3
    assert toy.make_smallest().get_params()["n_states"] == 2
