"""How much memory there is, and the refusal of work that needs more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sapwood.core.errors import SapwoodError
from sapwood.core.memory import available_memory, require_memory


def test_the_least_of_all_limits_counts(limit_memory, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(3 << 30)
    assert available_memory() == 3 << 30
    monkeypatch.setattr("sapwood.core.memory._process_memory", lambda: 1 << 20)
    assert available_memory() == 1 << 20
    monkeypatch.setattr("sapwood.core.memory._container_memory", lambda: -5)
    assert available_memory() == 0


def test_a_refusal_has_both_numbers(limit_memory) -> None:
    limit_memory(2_000_000_000)
    require_memory(2e9, "counting", "count less")
    with pytest.raises(SapwoodError, match=r"counting needs about 20\.6 GB .* 2\.0 GB are free"):
        require_memory(20.6e9, "counting", "count less")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_limit_of_the_process_is_known() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from sapwood.core.memory import available_memory; print(available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 100_000_000 < int(done.stdout) < 1 << 30
