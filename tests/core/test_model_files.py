"""Every kind of model file comes back as its class; those of version 0.1 still do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.feature_grammar import FeatureGrammar
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.core import model_files as kinds
from sapwood.core.model_files import HOMES, FileContents, SavedModel, class_of

KEPT = Path(__file__).parents[1] / "data" / "models-0.1"
CLASSES = {
    "plain": LatentGrammar,
    "em": LatentGrammar,
    "spectral": LatentGrammar,
    "crf": FeatureGrammar,
    "ensemble": sw.Ensemble,
}


def test_every_kind_is_a_class_of_that_name() -> None:
    for kind in HOMES:
        found = class_of(kind)
        assert found.__name__ == kind
        assert issubclass(found, SavedModel)
        assert not found.__abstractmethods__


def test_there_is_a_kept_file_of_each_kind_of_0_1() -> None:
    assert {path.stem for path in KEPT.glob("*.sapwood")} == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_files_of_0_1_parse_as_they_did(name: str) -> None:
    """Written, and parsed with, by version 0.1 of Sapwood."""
    model = sw.load(KEPT / f"{name}.sapwood")
    assert type(model) is CLASSES[name]
    parser = sw.Parser(model)
    for row in json.loads((KEPT / "expected.json").read_text(encoding="utf-8"))[name]:
        parse = parser.parse(row["words"].split())
        assert str(parse.tree) == row["tree"]
        if name != "ensemble":  # where members of the first chart only were counted
            assert parse.sentence_log_prob == pytest.approx(row["sentence"], rel=1e-12)
        assert parse.log_prob == pytest.approx(row["log_prob"], rel=1e-12)


def test_an_old_ensemble_has_members_of_both_kinds() -> None:
    members = sw.load(KEPT / "ensemble.sapwood").members
    assert [type(member) for member in members] == [LatentGrammar] * 2 + [FeatureGrammar] + [
        LatentGrammar
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_saved_again_only_names_of_kinds_change(name: str, tmp_path: Path) -> None:
    path = tmp_path / "again.sapwood"
    sw.load(KEPT / f"{name}.sapwood").save(path)
    (old, old_header), (new, header) = (
        kinds.read_tensors(file) for file in (KEPT / f"{name}.sapwood", path)
    )
    assert header["kind"] == CLASSES[name].__name__
    packed = {
        key for key in old if key.endswith(("rule_weights", "lexicon_weights", "feature_weights"))
    }
    packed = packed if name == "ensemble" else set()  # whose weights took 32 or 64 bits
    assert old.keys() - packed <= new.keys()
    assert packed or old.keys() == new.keys()
    for key, array in [pair for pair in old.items() if pair[0] not in packed]:
        assert array.dtype == new[key].dtype
        assert array.tobytes() == new[key].tobytes()
    for member in header["model"].get("members", ()):
        assert member.pop("kind") in HOMES
    assert header["model"] == old_header["model"]


class Coin(SavedModel):
    """A model that nobody had thought of."""

    def __init__(self, heads: float) -> None:
        self.heads = heads

    def to_file(self) -> FileContents:
        return FileContents({"heads": np.array([self.heads])}, {"metal": "copper"})

    @classmethod
    def from_file(cls, contents: FileContents) -> Any:
        return cls(float(contents.arrays["heads"][0]))


def test_a_new_kind_is_a_class_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "coin.sapwood"
    Coin(0.25).save(path)
    with pytest.raises(sw.ModelFormatError, match="holds a 'Coin', which this version"):
        sw.load(path)
    monkeypatch.setitem(HOMES, "Coin", __name__)
    monkeypatch.setattr(kinds, "import_module", lambda name: __import__("sys").modules[name])
    assert sw.load(path).heads == 0.25
