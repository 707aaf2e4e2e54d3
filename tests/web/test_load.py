"""Many clients at once, of which none is told anything but answers and when to come back."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from tests.web.servers import BENCHMARKS


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = spec_from_file_location("page_benchmark", BENCHMARKS / "page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_64_clients_for_a_minute(page: ModuleType) -> None:
    rows = dict(page.measure_load(64, 60.0))
    print(rows)
    assert rows["other errors"] == "0"
    memory = [float(number) for number in re.findall(r"\d+", rows[page.MEMORY])]
    assert memory[2] < 1.05 * memory[1] + 5  # MB: flat, once everything was used
