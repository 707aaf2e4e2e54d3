"""The first short sentence on a new machine: parsed at once, and no other than after compiling."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.core import cold

pytestmark = pytest.mark.compiled

CODE = """
import json, sys
import sapwood as sw
from sapwood.core.jit import all_kernels

parser = sw.Parser(sw.bundled_grammar())
words = "the dog saw a cat in the garden .".split()
found = parser.parse_compiled(words) if "compiled" in sys.argv else parser.parse(words)
compiled = [kernel.name for kernel in all_kernels if kernel.overloads]
print(json.dumps([str(found.tree), compiled]))
"""


def run(folder: Path, *arguments: str, environment: dict[str, str]) -> tuple[list[object], str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True,
        env=environment | {"NUMBA_CACHE_DIR": str(folder)},
    )  # fmt: skip
    return json.loads(done.stdout), done.stderr


def test_nothing_is_compiled_for_one_short_sentence(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tree, compiled), err = run(tmp_path, environment=environment)
    assert (compiled, err) == ([], "")
    assert tree == (
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat)) "
        "(PP (IN in) (NP (DT the) (NN garden)))) (. .)))"
    )


@pytest.mark.slow
def test_the_parse_is_the_same_and_compiling_is_told_of_in_python(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    cold_parse, err = run(tmp_path, environment=environment)
    assert (cold_parse[1], err) == ([], "")
    warm_parse, err = run(tmp_path, "compiled", environment=environment)
    assert cold_parse[0] == warm_parse[0]
    assert "coarse.fill" in str(warm_parse[1])
    assert err == "sapwood: compiling kernels, once for this machine, up to a minute ...\n"
    again, err = run(tmp_path, environment=environment)
    assert again == warm_parse  # loaded, not interpreted
    assert err == ""


def test_interpreting_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(cold, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cold, "_spent", 0.0)
    seen = []
    for _ in range(4):
        with cold.short_work():
            seen.append(cold.is_interpreted())
            cold.count_call()
            now[0] += 0.9
    assert seen == [True, True, True, False]
    assert not cold.is_interpreted()


def test_long_work_and_compiled_kernels_take_none_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(cold, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cold, "_spent", 0.0)
    with cold.short_work(is_short=False):
        assert not cold.is_interpreted()
    with cold.short_work():  # every kernel is loaded: none is interpreted
        now[0] += 100.0
    with cold.short_work():
        assert cold.is_interpreted()
