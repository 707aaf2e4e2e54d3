"""`sapwood identify bounds`: how many trees a theorem asks for, of which models, and misuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.theorems.spectral_toys import random_lpcfg

import sapwood as sw
from sapwood.constituency.evaluate.sample_bounds import hidden_constants


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of two states whose labels can all be told apart."""
    path = tmp_path_factory.mktemp("models") / "toy.sapwood"
    random_lpcfg(0, 2).grammar(is_probabilistic=True).save(path)
    return path


def ask(cli, *args: object) -> dict:
    result = cli("identify", "bounds", *args, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_the_numbers_are_those_of_the_theorem(cli, toy: Path) -> None:
    report = ask(cli, toy, "--length", 4)
    hidden = hidden_constants(sw.load(toy))
    assert (report["sigma"], report["xi"]) == pytest.approx((hidden.sigma, hidden.xi))
    assert (report["states"], report["length"], report["depth"]) == (2, 4, 1)
    # R = L N^2 m^3 / (epsilon^2 sigma^2), with N = 3 binary rules for 4 words
    labels = report["phrases"] + report["tags"]
    share = np.log((2 * labels + 1) / 0.05) * 3**2 * 2**3 / 0.1**2
    assert report["roots"] == pytest.approx(share / hidden.sigma**2)
    assert report["trees"] > report["phrase_nodes"] > 1e20
    assert [row["xi"] for row in report["labels"]] == sorted(hidden.by_label.values())


def test_longer_sentences_and_smaller_errors_ask_for_more(cli, toy: Path) -> None:
    plain = ask(cli, toy)["trees"]
    assert ask(cli, toy, "--length", 39)["trees"] == pytest.approx(4 * plain)  # (38 / 19)^2
    assert ask(cli, toy, "--epsilon", 0.01)["trees"] == pytest.approx(100 * plain)
    assert ask(cli, toy, "--delta", 0.01)["trees"] > plain


def test_features_that_tell_more_need_fewer_trees(cli) -> None:
    near, far = (ask(cli, "bundled", "--depth", depth)["labels"] for depth in (1, 2))
    assert sum(not row["xi"] for row in far) < sum(not row["xi"] for row in near)


def test_the_text_says_how_loose_it_is(cli, toy: Path) -> None:
    result = cli("identify", "bounds", toy)
    assert result.status == 0
    assert "Enough, but far from necessary" in result.out
    assert "trees of 20 words" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    nothing = cli("identify", "bounds", "bundled").out
    assert "The theorem promises nothing here, since sigma and xi = 0" in nothing
    assert "trees        none promised" in nothing


def test_states_alike_are_null_in_json(cli) -> None:
    report = ask(cli, "bundled")
    assert (report["trees"], report["xi"]) == (None, 0.0)
    assert report["impossible"] > 0


def test_models_without_probabilities_are_refused(fails, spectral: Path, tmp_path: Path) -> None:
    result = fails("identify", "bounds", spectral)
    assert "holds weights, not probabilities of hidden states (method spectral)" in result.err
    assert "hint: give a grammar of method pcfg, em" in result.err
    crf = tmp_path / "crf.sapwood"
    sw.SpanCRF(passes=1).fit(sw.bundled_treebank("dev")[:20]).model_.save(crf)
    assert "(method crf)" in fails("identify", "bounds", crf).err


def test_one_grammar_of_an_ensemble(cli, fails, ensemble: Path) -> None:
    assert "--member K takes one" in fails("identify", "bounds", ensemble).err
    assert ask(cli, ensemble, "--member", 2)["states"] == 1
    assert "has no member 9" in fails("identify", "bounds", ensemble, "--member", 9).err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bounds",), "MODEL: missing"),
        (("bounds", "bundled", "--words", 3), "bounds are about a model"),
        (("bounds", "bundled", "--max-words", 3), "it is for `sapwood identify table`"),
        (("bounds", "bundled", "--epsilon", 0), "--epsilon"),
        (("bounds", "bundled", "--delta", 1), "--delta"),
        (("pcfg", "bundled"), "it is for `sapwood identify bounds`"),
        (("table", "--depth", 2), "it is for `sapwood identify bounds`"),
    ],
)
def test_misuse(misused, args: tuple[object, ...], message: str) -> None:
    assert message in misused("identify", *args).err
