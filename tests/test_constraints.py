"""constraints.txt pins every package that the tests and the documentation are made with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {canonicalize_name(name): version for name, _, version in (x.partition("==") for x in LINES)}


def required(extra: str) -> list[Requirement]:
    """The packages of an extra, those of the extras that it names included."""
    found = []
    for line in PYPROJECT["optional-dependencies"][extra]:
        one = Requirement(line)
        found += (
            [x for e in sorted(one.extras) for x in required(e)] if one.name == "sapwood" else [one]
        )
    return found


WANTED = [*map(Requirement, PYPROJECT["dependencies"]), *required("dev"), *required("docs")]


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: one.name)
def test_every_direct_dependency_is_pinned_to_a_version_that_it_allows(wanted: Requirement) -> None:
    assert wanted.specifier.contains(PINS[canonicalize_name(wanted.name)])


def test_lines_are_names_and_versions_and_nothing_else() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*", line) for line in LINES)
    assert len(PINS) == len(LINES)
    assert not {"torch", "sapwood", "pip"} & PINS.keys()


def test_ci_installs_with_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for extra in ("dev", "docs"):
        assert f"install -e '.[{extra}]' $(CONSTRAINTS)" in makefile
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        for line in file.read_text(encoding="utf-8").splitlines():
            assert "pip install -e" not in line or "-c constraints.txt" in line, file.name
