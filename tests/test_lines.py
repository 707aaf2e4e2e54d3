"""The tool that counts lines knows the files of later features, and no others."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tool() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "tools" / "lines.py"))


def test_every_line_is_counted_once(tool: dict) -> None:
    sizes = tool["sizes_now"]()
    assert sizes["models/kinds.py"] == len(
        (ROOT / "src/sapwood/models/kinds.py").read_text("utf-8").splitlines()
    )
    assert sum(tool["by_room"](sizes).values()) == sum(sizes.values())


@pytest.mark.parametrize(
    ("file", "feature"),
    [
        ("estimators/arcs/em.py", "dependency trees"),
        ("moments/ngrams.py", "language models"),
        ("cli/strings/identify.py", None),  # older than its folder
        ("estimators/spectral.py", None),
    ],
)
def test_later_features_are_told_from_older_ones(
    tool: dict, file: str, feature: str | None
) -> None:
    assert (ROOT / "src/sapwood" / file).exists()
    assert tool["feature_of"](file) == feature
