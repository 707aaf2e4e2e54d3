"""Span networks and ensembles with a pretrained encoder: training, files, and what they need."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.learn import ensemble
from sapwood.constituency.learn.ensemble_budget import Budget
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_card import model_card
from sapwood.networks.pretrained import source as sources
from sapwood.networks.pretrained.trial import TrialSplit

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"
SENTENCE = ["the", "dog", "sees", "a", "cat"]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "_open", {})
    monkeypatch.setattr(sources, "_places", [])
    monkeypatch.delenv(sources.PLACE, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ENCODERS / "bert", tmp_path / "tiny"))


@pytest.fixture(scope="module")
def bank() -> sw.Treebank:
    return sw.bundled_treebank("dev")[:60]


def learn(bank: sw.Treebank, encoder: object) -> SpanNetwork:
    return sw.SpanEncoder(passes=1, width=6, hidden=5, encoder=encoder).fit(bank).model_


def test_a_model_file_names_the_encoder_and_needs_it(
    bank: sw.Treebank, folder: Path, tmp_path: Path
) -> None:
    model = learn(bank, folder)
    expected = sw.Parser(model).parse(SENTENCE)
    assert not np.array_equal(
        model.network.weights["tag.W"], learn(bank, None).network.weights["tag.W"]
    )
    model.save(tmp_path / "m.sapwood")
    again = sw.load(tmp_path / "m.sapwood")
    assert sw.Parser(again).parse(SENTENCE).tree == expected.tree
    card = model_card(again, "m.sapwood")
    assert "tiny (licence apache-2.0; SHA-256" in card["training"]["pretrained"]
    assert any("licence binds it too" in limit for limit in card["limits"])
    sources._open.clear()
    shutil.rmtree(folder)
    with pytest.raises(ModelFormatError, match="needs the encoder tiny"):
        sw.Parser(sw.load(tmp_path / "m.sapwood")).parse(SENTENCE)
    shutil.copytree(ENCODERS / "distilbert", folder)
    with pytest.raises(ModelFormatError, match="holds another one"):
        sw.Parser(sw.load(tmp_path / "m.sapwood")).parse(SENTENCE)


def test_sentences_have_the_same_numbers_alone_and_in_a_batch(
    bank: sw.Treebank, folder: Path
) -> None:
    reader = learn(bank, folder).reader({name: k for k, name in enumerate(names_of(bank, folder))})
    sentences = [(SENTENCE, None), (["a"], None), (SENTENCE[:3], None)]
    for one, among in zip(sentences, reader.read_many(sentences), strict=True):
        for found, expected in zip(among, reader.read(*one), strict=True):
            np.testing.assert_array_equal(found, expected)


def names_of(bank: sw.Treebank, folder: Path) -> list[str]:
    symbols = learn(bank, folder).grammar.symbols
    return sorted({name for symbol in symbols for name in symbol.chain})


@pytest.mark.parametrize("bits", [8, 16])
def test_a_file_can_hold_the_encoder_once_for_all_networks(
    bank: sw.Treebank, folder: Path, tmp_path: Path, bits: int
) -> None:
    encoder = sw.PretrainedEncoder.of_folder(folder, bits=bits)
    networks = [
        sw.SpanEncoder(passes=1, width=6, hidden=5, seed=seed, encoder=encoder).fit(bank).model_
        for seed in (0, 1)
    ]
    mix = sw.Ensemble.of([sw.PCFG().fit(bank).model_, *networks])
    expected = sw.Parser(mix).parse(SENTENCE).tree
    mix.save(tmp_path / "m.sapwood")
    shutil.rmtree(folder)
    again = sw.load(tmp_path / "m.sapwood")
    assert sw.Parser(again).parse(SENTENCE).tree == expected
    one, other = (member.network.given.held for member in again.members[1:])
    assert one is other
    assert one is not None
    np.testing.assert_array_equal(one.read(SENTENCE), encoder.read(SENTENCE))
    names = again.to_file().arrays
    assert sum(name.endswith("pretrained.tokenizer") for name in names) == 1
    again.save(tmp_path / "again.sapwood")
    assert (tmp_path / "again.sapwood").read_bytes() == (tmp_path / "m.sapwood").read_bytes()


def test_static_vectors_are_read_by_the_same_input(bank: sw.Treebank, tmp_path: Path) -> None:
    path = tmp_path / "words.vec"
    path.write_text("the 1 0 0\ndog 0 1 0\nsees 0 0 1\n", encoding="utf-8")
    model = learn(bank, sw.StaticVectors.of_file(path, bits=16))
    model.save(tmp_path / "m.sapwood")
    path.unlink()
    again = sw.load(tmp_path / "m.sapwood")
    assert sw.Parser(again).parse(SENTENCE).tree == sw.Parser(model).parse(SENTENCE).tree
    assert again.network.given.record.kind == "vectors"


def test_an_ensemble_leaves_an_encoder_out_that_does_not_help(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny encoder is random; without its layers, a file of constants is less than that."""
    bank, facts = sw.bundled_treebank("dev"), []
    plan = [sw.Candidate("spectral", 2), sw.Candidate("encoder")]
    constant = sw.PretrainedEncoder.of_folder(folder)
    monkeypatch.setattr(constant, "read", lambda words: np.ones((len(words), 16), np.float16))
    learner = sw.EnsembleLPCFG(plan=plan, encoder=constant)
    monkeypatch.setattr(Budget, "passes", lambda *_: 1)
    monkeypatch.setattr(ensemble, "PASSES", 1)
    learner.listen = lambda event: facts.append(event.facts.get("encoder_trial"))
    learner.fit(bank)
    trial = learner.info_.extra["encoder"]
    assert trial in facts
    assert not trial["is_taken"]
    assert abs(trial["f1_with"] - trial["f1_without"]) < 20
    networks = [one for one in learner.model_.members if not one.has_rules]
    assert all(one.network.given is None for one in networks)
    assert "pretrained" not in learner.model_.record


def test_a_trial_holds_out_runs_of_neighbours_from_everywhere() -> None:
    split = TrialSplit.of([25] * 3000)
    assert split is not None
    held, train = set(split.held.tolist()), set(split.train.tolist())
    assert not held & train
    assert 140 <= len(held) <= 170
    assert 590 <= len(train) <= 610
    assert min(held) < 1000
    assert max(held) > 2000
    runs = {k // 10 for k in held}
    assert len(runs) <= len(held) / 10 + 2
