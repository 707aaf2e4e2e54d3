"""The drawings of the concept pages: `python -m tools.pictures` writes docs/images/concepts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.pictures.canvas import Canvas

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "concepts"


def pictures() -> dict[str, Callable[[], Canvas]]:
    """Return the functions that draw, by the names of their files."""
    from tools.pictures import learners, mixes, others, trees

    modules = (trees, learners, mixes, others)
    return {
        name.replace("_", "-"): draw
        for module in modules
        for name, draw in vars(module).items()
        if getattr(draw, "__module__", "") == module.__name__
        and name[0].islower()
        and name[0] != "_"
    }
