"""Files of feature tables: templates by letters, and by column numbers in older files."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.core.errors import ModelFormatError
from sapwood.dependency.model import arc_model
from sapwood.dependency.model.arc_model import FeatureTable
from sapwood.dependency.parse.templates import FIRST, SECOND


def make_table(templates=SECOND) -> FeatureTable:
    return FeatureTable(templates, np.arange(16, dtype=np.float32))


def as_numbers(table: FeatureTable) -> dict[str, np.ndarray]:
    """The arrays of a file of version 0.2."""
    arrays = table.to_arrays("t")
    del arrays["t.letters"]
    return arrays | {"t.atoms": table.templates.atoms}


@pytest.mark.parametrize("templates", [FIRST, SECOND], ids=["first", "second"])
def test_letters_and_numbers_are_read(templates) -> None:
    table = make_table(templates)
    for arrays in (table.to_arrays("t"), as_numbers(table)):
        found = FeatureTable.from_arrays("t", arrays)
        np.testing.assert_array_equal(found.templates.atoms, table.templates.atoms)
        np.testing.assert_array_equal(found.templates.bounds, table.templates.bounds)
        np.testing.assert_array_equal(found.weights, table.weights)


def test_columns_may_stand_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    files = [table.to_arrays("t"), as_numbers(table)]
    places, properties = arc_model.PLACES, arc_model.PROPERTIES
    monkeypatch.setattr(arc_model, "PLACES", places[::-1])
    monkeypatch.setattr(arc_model, "PROPERTIES", properties[::-1])
    place, column = table.templates.atoms[..., 0], table.templates.atoms[..., 1]
    is_word = (place >= 0) & (place != arc_model.BETWEEN)
    for arrays in files:
        atoms = FeatureTable.from_arrays("t", arrays).templates.atoms
        moved = (len(places) - 1 - place // 5) * 5 + place % 5
        np.testing.assert_array_equal(atoms[..., 0], np.where(is_word, moved, place))
        moved = len(properties) - 1 - column
        np.testing.assert_array_equal(atoms[..., 1], np.where(is_word, moved, column))


@pytest.mark.parametrize(
    ("at", "value"), [(0, ord("?")), (1, 5), (2, ord("?"))], ids=["word", "shift", "property"]
)
def test_unknown_letters_are_refused(at: int, value: int) -> None:
    arrays = make_table().to_arrays("t")
    arrays["t.letters"][0, 0, at] = value
    with pytest.raises(ModelFormatError, match="t has a template of"):
        FeatureTable.from_arrays("t", arrays)


def test_letters_of_another_shape_are_refused() -> None:
    arrays = make_table().to_arrays("t")
    arrays["t.letters"] = arrays["t.letters"][:, :3]
    with pytest.raises(ModelFormatError, match="expected 6 x 3"):
        FeatureTable.from_arrays("t", arrays)
