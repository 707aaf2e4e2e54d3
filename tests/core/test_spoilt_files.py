"""Model files with wrong values under a right checksum are refused when they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz import seeds
from tests.fuzz.tensor_files import pack, unpack

import sapwood as sw
from sapwood.lm.data.plain_text import END
from sapwood.lm.model.normalisation import _find

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
