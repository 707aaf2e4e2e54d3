"""The tool that counts short helpers called once tells them from others."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = """
def total(xs):
    return _add(xs) + _twice(xs) + _twice(xs)

def _add(xs):
    return sum(xs)

def _twice(xs):
    return 2 * len(xs)

def refined(xs):
    return xs

class Table:
    def _once(self):
        return self._once
"""


def test_short_helpers_and_participles_are_named(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "confetti.py"))
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "sums.py").write_text(SOURCE, encoding="utf-8")
    helpers = tool["read_helpers"](tmp_path)
    assert {helper.room for helper in helpers} == {"room"}
    assert [helper.name for helper in helpers if helper.is_confetti] == ["_add", "_once"]
    assert [helper.name for helper in helpers if helper.is_participle] == ["refined"]
