"""`sapwood score`, `sapwood sample`, `sapwood inspect`: commands that look into a model."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

import sapwood as sw

SENTENCE = "the dog sleeps ."
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"


# -- score ----------------------------------------------------------------------------------------


def test_score_of_sentences(cli, model: Path) -> None:
    result = cli("score", model, "-", stdin=f"{SENTENCE}\n\ndog\n")
    first, nothing, last = result.out.split("\n")[:-1]
    grammar = sw.load(model)
    assert float(first) == pytest.approx(grammar.log_prob(SENTENCE.split()), abs=1e-6)
    assert float(last) == pytest.approx(grammar.log_prob(["dog"]), abs=1e-6)
    assert nothing == ""
    assert result.err.startswith("2 sentences  5 words  log-probability ")
    assert "perplexity" in result.err
    assert "1 empty line" in result.err


def test_score_of_trees(cli, model: Path) -> None:
    result = cli("score", model, stdin=f"\n  {TREE}\n{TREE}")
    expected = sw.load(model).log_prob(sw.Tree.parse(TREE))
    assert [float(line) for line in result.out.splitlines()] == pytest.approx(
        [expected] * 2, abs=1e-6
    )
    assert result.err.startswith("2 trees  8 words  ")


def test_score_as_json(cli, model: Path) -> None:
    text = f"{TREE}\n(FOO (BAR dog) (BAZ cat))\n"
    report = json.loads(cli("score", model, "--json", stdin=text).out)
    assert (report["kind"], report["scored"], report["impossible"]) == ("trees", 1, 1)
    assert report["log_probs"][1] is None
    assert report["perplexity"] == pytest.approx(math.exp(-report["log_prob"] / 4))


def test_impossible_items_are_told(cli, model: Path) -> None:
    result = cli("score", model, stdin="(FOO (BAR dog) (BAZ cat))")
    assert result.out == "-inf\n"
    assert "1 impossible, left out" in result.err


def test_what_the_file_holds_can_be_said(cli, model: Path) -> None:
    assert len(cli("score", model, "--sentences", stdin="( the dog )\n").out.splitlines()) == 1
    assert cli("score", model, "--trees", stdin="the dog\n").status == 1


def test_score_of_the_bundled_grammar(cli) -> None:
    tree, sentence = (float(cli("score", "bundled", stdin=s).out) for s in (TREE, SENTENCE))
    assert tree <= sentence < 0


def test_score_without_input(cli, model: Path, empty: Path) -> None:
    result = cli("score", model, empty)
    assert (result.status, result.out) == (0, "")


def test_score_fails(fails, model: Path, tmp_path: Path) -> None:
    assert "<stdin>:1:1" in fails("score", model, stdin="(S (NP").err
    assert "No such file" in fails("score", model, tmp_path / "none").err
    assert "directory" in fails("score", model, tmp_path).err
    fails("score", tmp_path / "none", stdin=TREE)


# -- sample ---------------------------------------------------------------------------------------


def test_sample(cli, model: Path) -> None:
    result = cli("sample", model, "-n", 5, "--seed", 3)
    trees = [sw.Tree.parse(line) for line in result.out.splitlines()]
    assert trees == sw.load(model).sample(5, seed=3)
    assert result.err == ""


def test_sample_words(cli) -> None:
    trees = cli("sample", "bundled", "-n", 4).out.splitlines()
    words = cli("sample", "bundled", "-n", 4, "--words").out.splitlines()
    assert words == [" ".join(sw.Tree.parse(tree).words()) for tree in trees]


def test_seeds_differ(cli) -> None:
    one, other = (cli("sample", "bundled", "-n", 4, "--seed", seed).out for seed in (1, 2))
    assert one != other


def test_many_are_drawn_in_chunks(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli("sample", "bundled", "-n", 7).out
    monkeypatch.setattr("sapwood.cli.sample.CHUNK", 2)
    assert cli("sample", "bundled", "-n", 7).out == whole


def test_sample_nothing(cli) -> None:
    assert cli("sample", "bundled", "-n", 0) == (0, "", "")


def test_sample_misuse(misused, fails, empty: Path) -> None:
    misused("sample", "bundled", "-n", "-1")
    misused("sample")
    fails("sample", empty)


# -- inspect --------------------------------------------------------------------------------------


def test_inspect_tells_what_is_in_it(cli, model: Path) -> None:
    text = cli("inspect", model).out
    for expected in (
        "method     pcfg",
        "binarise=head",
        "trees 300",
        "<unk-",
        "NP ",
        "1 to 1 a symbol",
    ):
        assert expected in text


def test_inspect_as_json(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--json", "--top", 3).out)
    grammar = sw.load(model)
    assert report["method"] == "pcfg"
    assert report["sizes"]["rules"] == len(grammar.rules)
    assert len(report["symbols"]) == grammar.n_symbols
    assert sum(row["share"] for row in report["symbols"]) == pytest.approx(1)
    for row in report["unknown_words"]:
        assert 0 < sum(tag["probability"] for tag in row["tags"]) <= 1 + 1e-9


def test_rules_of_a_phrase(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--label", "NP", "--top", 500, "--json").out)
    (symbol,) = report["symbols"]
    (row,) = symbol["rows"]
    assert sum(rule["probability"] for rule in row["rules"]) == pytest.approx(1)
    assert row["rules"][0]["rule"] == "DT NN"


def test_words_of_a_tag(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--label", "DT", "--top", 5000, "--json").out)
    words = report["symbols"][0]["rows"][0]["words"]
    assert sum(word["probability"] for word in words) == pytest.approx(1)
    assert words[0]["word"] == "the"
    assert "DT -> the" in cli("inspect", model, "--label", "DT").out


@pytest.mark.parametrize("label", ["NP", "NN"])
def test_states_have_rows_of_their_own(cli, label: str) -> None:
    report = json.loads(cli("inspect", "bundled", "--label", label, "--top", 5000, "--json").out)
    symbol = report["symbols"][0]
    assert symbol["states"] > 1
    assert [row["state"] for row in symbol["rows"]] == [None, *range(symbol["states"])]
    for row in symbol["rows"]:
        assert sum(
            item["probability"] for item in row.get("rules") or row["words"]
        ) == pytest.approx(1)
    assert "state 1" in cli("inspect", "bundled", "--label", label).out


def test_a_label_inside_chains_is_found(cli, model: Path) -> None:
    assert cli("inspect", model, "--label", "PRP").out.startswith("NP|PRP  tag")


def test_symbols_as_the_model_writes_them(cli, model: Path) -> None:
    names = [row["symbol"] for row in json.loads(cli("inspect", model, "--json").out)["symbols"]]
    for name in names:
        assert cli("inspect", model, "--label", name).out.startswith(f"{name}  ")


def test_unknown_label_offers_near_ones(fails, model: Path) -> None:
    error = fails("inspect", model, "--label", "NPP").err
    assert re.search("no label 'NPP'; it has, among others, .*NP", error)
    fails("inspect", model, "--label", "")


def test_inspect_fails(fails, misused, empty: Path, tmp_path: Path) -> None:
    fails("inspect", empty)
    fails("inspect", tmp_path)
    fails("inspect", tmp_path / "none")
    misused("inspect", "bundled", "--top", 0)
