"""Commands that hold their whole input in memory refuse a file that is too large for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Run

TREE = "(S (NP (NNS dogs)) (VP (VBP bark)))\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("train TREES -o OUT --method pcfg", "--on-disk"),
        ("evaluate TREES TREES", "fewer trees"),
        ("split TREES -o OUT", "fewer trees"),
        ("hankel learn TREES -o OUT --supervised", "fewer trees"),
        ("hankel learn TEXT -o OUT", "fewer sentences"),
        ("unmix dep-ies TEXT", "fewer sentences"),
    ],
)
def test_a_command_refuses_a_file_that_does_not_fit(
    line: str, hint: str, fails: Run, tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    trees, text = tmp_path / "trees.mrg", tmp_path / "text.txt"
    trees.write_text(TREE * 100)
    text.write_text("dogs bark\n" * 1000)
    limit_memory(10_000)
    known = {"TREES": trees, "TEXT": text, "OUT": tmp_path / "out"}
    result = fails(*(known.get(word, word) for word in line.split()))
    assert ": reading 0 MB of" in result.err
    assert "0.0 GB are free" in result.err
    assert hint in result.err.splitlines()[-1]
    assert not list(tmp_path.glob("out*"))
