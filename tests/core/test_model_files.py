"""Kinds of model files, and files that are damaged in every way."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Run
from tests.fuzz import seeds
from tests.fuzz.tensor_files import pack, unpack

import sapwood as sw
from sapwood.constituency.grammar.discriminative import FeatureGrammar
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.core import model_files as kinds
from sapwood.core.model_files import HOMES, FileContents, SavedModel, class_of
from sapwood.lm.data.ngrams import END
from sapwood.lm.model.ngram_model import _find

KEPT = Path(__file__).parents[1] / "data" / "models-0.1"
CLASSES = {
    "plain": LatentGrammar,
    "em": LatentGrammar,
    "spectral": LatentGrammar,
    "crf": FeatureGrammar,
    "ensemble": sw.Ensemble,
}
KEPT_0_2 = KEPT.parent / "models-0.2"
ANSWERS = json.loads((KEPT_0_2 / "expected.json").read_text(encoding="utf-8"))
NUMBER = re.compile(r"-?\d+\.\d+")


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


def test_there_is_a_kept_file_of_each_kind_of_0_2(tmp_path: Path) -> None:
    found = {type(sw.load(_unzip(path, tmp_path))) for path in KEPT_0_2.glob("*.gz")}
    assert found == {class_of(kind) for kind in HOMES}


@pytest.mark.parametrize("row", ANSWERS, ids=lambda row: " ".join(row["command"]))
def test_files_of_0_2_answer_as_they_did(
    row: dict[str, Any], cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written, and asked by these commands, by version 0.2.0; one heading has other words now."""
    name = next(word for word in row["command"] if word.endswith(".sapwood"))
    _unzip(KEPT_0_2 / f"{name}.gz", tmp_path)
    monkeypatch.chdir(tmp_path)
    result = cli(*row["command"], stdin=row["stdin"])
    assert result.status == 0, result.err
    assert NUMBER.sub("#", result.out) == NUMBER.sub("#", row["out"])
    new, old = ([float(each) for each in NUMBER.findall(text)] for text in (result.out, row["out"]))
    assert new == pytest.approx(old, rel=1e-6, abs=1.01e-4)  # the last decimal that is printed


def _unzip(path: Path, folder: Path) -> Path:
    out = folder / path.stem
    out.write_bytes(gzip.decompress(path.read_bytes()))
    return out


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


Change = Callable[[dict[str, np.ndarray], dict[str, Any]], object]


def put(name: str, at: Any, value: float) -> Change:
    """Another number in a tensor."""

    def change(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> None:
        tensors[name][at] = value

    return change


def said(*path: Any, value: Any) -> Change:
    """Another value in the header."""

    def change(tensors: dict[str, np.ndarray], model: Any) -> None:
        *places, last = path
        for place in places:
            model = model[place]
        model[last] = value

    return change


CASES: list[tuple[str, Change, str]] = [
    ("kn", put("p_1", 5, 0.5), "a probability above 1"),
    ("kn", put("p_1", 5, -0.01), "probabilities of the next word sum to"),
    ("kn", put("p_2", 2, -0.001), "probabilities of the next word sum to"),
    ("kn", put("p_3", 1, -9.0), "probabilities of the next word sum to"),
    ("kn", put("b_1", 5, 3.0), "probabilities of the next word sum to"),
    ("kn", put("b_2", 3, 7.0), "probabilities of the next word sum to|weights above 1"),
    ("kn", said("order", value=2**70), "order"),
    ("kn-latent", put("r", (5, 0), 0.9), "r sums to"),
    ("kn-latent", put("lift", (5, 1), 50.0), "lift times u"),
    ("kn-latent", put("lift", (5, 1), -1.0), "lift times u"),
    ("kn-latent", put("weight", 5, 1.5), "weight has values outside of 0 to 1"),
    ("mixture", put("weights", (3, 0), 2.0), "weights sums to"),
    ("mixture", put("weights", (3, 0), np.nan), "not numbers"),
    ("em", said("phrases", 0, 0, 0, value="N\nP"), "expected no blank, bracket or control"),
    ("em", said("tags", 0, 0, 0, value="\x1b[31mNN"), "expected no blank, bracket or control"),
    ("em", said("phrases", 0, 0, 0, value="(NP"), "expected no blank, bracket or control"),
    ("spectral", put("rule_weights", 0, 1e200), "beyond 1e\\+30"),
    ("spectral", put("coarse_rules", 0, 1e200), "beyond 1e\\+30"),
    ("ensemble", put("0.n_states", 0, 2**40), "numbers of states, rules or ranks"),
    ("ensemble", said("sharpness", value=1e300), "sharpness"),
    ("network", said("span_labels", 0, value=["ELSEWHERE"]), "which its grammar does not have"),
    ("network", said("span_tags", 0, value="ELSEWHERE"), "which its grammar does not have"),
    ("rerank", said("parts", 0, "said", value=3), "expected an object"),
    ("rerank", said("n_best", value=2**70), "n_best"),
    ("dependency.spectral", put("symbols", (0, 0), 1e200), "beyond 1e\\+30"),
    ("wfa", put("steps", (0, 0, 0), 1e200), "beyond 1e\\+30"),
]


@pytest.mark.parametrize(("kind", "change", "match"), CASES)
def test_values_that_no_model_has_are_refused(
    kind: str, change: Change, match: str, tmp_path: Path
) -> None:
    tensors, header = unpack(seeds.model_files()[kind])
    change(tensors, header["model"])
    path = tmp_path / "model.sapwood"
    path.write_bytes(pack(tensors, header))
    with pytest.raises(sw.ModelFormatError, match=match):
        sw.load(path)


def test_contexts_without_a_next_word_hand_everything_on(tmp_path: Path) -> None:
    tensors, header = unpack(seeds.model_files()["kn"])
    weights = tensors["b_1"] = tensors["b_1"].copy()
    free = [row for row in np.flatnonzero(weights == 0) if row != END]
    assert free
    weights[free[0]] = -1.0  # the probabilities behind it then sum to exp(-1)
    path = tmp_path / "model.sapwood"
    path.write_bytes(pack(tensors, header))
    with pytest.raises(sw.ModelFormatError, match="b_1 has weights that are not 1"):
        sw.load(path)


def test_keys_outside_of_a_table_are_not_found() -> None:
    table = np.array([3, 5, 8], np.uint64)
    assert _find(table, np.array([1, 3, 6, 8, 9], np.uint64)).tolist() == [-1, 0, -1, 2, -1]
    assert _find(table[:0], table).tolist() == [-1, -1, -1]


def test_tables_of_hashed_weights_have_bounded_sizes(tmp_path: Path) -> None:
    tensors, header = unpack(seeds.model_files()["arcs"])
    name = next(name for name in sorted(tensors) if name.endswith(".size"))
    for size in ([2**30, 0], [2**40 + 16, 2**40]):
        tensors[name] = np.array(size)
        path = tmp_path / "model.sapwood"
        path.write_bytes(pack(tensors, header))
        with pytest.raises(sw.ModelFormatError, match="expected a power of two from 16 to"):
            sw.load(path)


@pytest.mark.parametrize("kind", ["kn", "kn-latent", "mixture", "em", "ensemble", "network"])
def test_files_as_they_were_written_are_taken(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.sapwood"
    path.write_bytes(pack(*unpack(seeds.model_files()[kind])))
    assert sw.load(path)
