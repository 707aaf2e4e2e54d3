"""One exact moment of a model with uniform trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.identify.model.families import Family, moments


def moment(
    family: Family, parameters: Mapping[str, Any], length: int, positions: tuple[int, ...]
) -> Any:
    """Joint distribution of the words at some positions, counted from 1."""
    return moments(family, parameters, length, [positions])[0]
