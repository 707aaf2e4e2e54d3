"""The border of compiled code: caches that fail, parts, constants, and what kernels may return."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapwood.core import compiling
from sapwood.core.jit import OPTIONS, Kernel

SOURCE = Path(__file__).parents[2] / "src"
DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24  # root's power to write where it may not

pytestmark = pytest.mark.compiled

# A module as those of kernels, and a program that says what became of it
MODULE = """
from sapwood.core.jit import kernel, part

@part
def _power(x, exponent):
    out = 1
    for _ in range(exponent):
        out *= x
    return out

@kernel
def add_powers(x):
    return _power(x, 2) + _power(x, 3)
"""
PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import powers
    from sapwood.core.compiling import compile_watchers
    words = {True: "compiling", False: "ready"}
    compile_watchers.append(lambda name, is_start: print(words[is_start], name))
    print(powers.add_powers(3), powers._power(2, 5))
    powers.add_powers(4)
print("parts", [tuple(map(str, types)) for types in powers._power.signatures])
for warning in caught:
    print("warning:", warning.message)
"""


def obey_permissions() -> None:
    if os.getuid() == 0:
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, DAC_OVERRIDE, 0, 0, 0) == 0


def run(folder: Path, **environment: str) -> list[str]:
    """The lines that the program prints, apart from those of the compiler."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False,
        preexec_fn=obey_permissions, cwd="/",
        env=os.environ | {"PYTHONPATH": f"{folder}:{SOURCE}"} | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


COMPILED = ["compiling powers.add_powers", "ready powers.add_powers"]
ANSWER = ["36 32"]
ONE_PART = ["parts [('int64', 'int64')]"]
NO_PART = ["parts []"]  # it lies inside the kernel that was loaded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "powers.py").write_text(MODULE)
    return tmp_path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the module, with a cache of its compiled code; nobody may change it."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "powers.py").write_text(MODULE)
    cache = str(folder / "cache")
    assert run(folder, NUMBA_CACHE_DIR=cache) == COMPILED + ANSWER + ONE_PART
    return folder


def test_a_kernel_is_compiled_once_and_kept(compiled: Path) -> None:
    assert run(compiled, NUMBA_CACHE_DIR=str(compiled / "cache")) == ANSWER + NO_PART


@pytest.mark.parametrize("damage", ["nothing", "half", "noise"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_cache_is_made_anew(
    compiled: Path, kind: str, damage: str, tmp_path: Path
) -> None:
    folder, cache = compiled, shutil.copytree(compiled / "cache", tmp_path / "cache")
    (path,) = cache.rglob(f"*.{kind}")
    whole = path.read_bytes()
    path.write_bytes({"nothing": b"", "half": whole[: len(whole) // 2], "noise": b"?" * 99}[damage])
    assert run(folder, NUMBA_CACHE_DIR=str(cache)) == COMPILED + ANSWER + ONE_PART
    if damage == "half":  # what is made anew does not depend on what was there
        assert run(folder, NUMBA_CACHE_DIR=str(cache)) == ANSWER + NO_PART


def test_a_home_can_be_shared_by_two_kinds_of_machine(compiled: Path, tmp_path: Path) -> None:
    """Each loads its own code: what the other compiled may have instructions that it lacks."""
    cache = str(shutil.copytree(compiled / "cache", tmp_path / "cache"))
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert run(compiled, NUMBA_CACHE_DIR=cache, **other) == COMPILED + ANSWER + ONE_PART
    assert run(compiled, NUMBA_CACHE_DIR=cache) == ANSWER + NO_PART
    assert run(compiled, NUMBA_CACHE_DIR=cache, **other) == ANSWER + NO_PART


# -- nothing can be written -----------------------------------------------------------------------


@pytest.fixture
def locked(folder: Path) -> Path:
    """A folder that the program may read and not write."""
    if sys.platform != "linux":
        pytest.skip("root cannot give up its powers here")
    folder.chmod(0o555)
    return folder


def run_locked(locked: Path, **environment: str) -> list[str]:
    nowhere = {"HOME": str(locked), "XDG_CACHE_HOME": str(locked), "NUMBA_CACHE_DIR": ""}
    return run(locked, **nowhere | environment)


def test_kernels_are_kept_in_a_temporary_folder(
    locked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    temporary.chmod(0o777)
    lines = run_locked(locked, TMPDIR=str(temporary))
    (made,) = temporary.iterdir()
    lasting = "set NUMBA_CACHE_DIR to a lasting folder"
    told = f"warning: compiled kernels are kept in {made} only; {lasting}"
    assert lines == [*COMPILED, *ANSWER, *ONE_PART, told]
    assert made.stat().st_mode & 0o777 == 0o700
    assert run_locked(locked, TMPDIR=str(temporary)) == [*ANSWER, *NO_PART, told]


def test_a_folder_that_others_can_write_is_not_trusted(
    locked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What lies there is run: somebody else may have put it there."""
    temporary = tmp_path_factory.mktemp("temporary")
    temporary.chmod(0o777)
    run_locked(locked, TMPDIR=str(temporary))
    (made,) = temporary.iterdir()
    made.chmod(0o777)
    told = "warning: compiled kernels cannot be kept: no folder can be written; set NUMBA_CACHE_DIR"
    assert run_locked(locked, TMPDIR=str(temporary)) == [*COMPILED, *ANSWER, *ONE_PART, told]


def test_a_full_disk_stops_no_computation(folder: Path, tmp_path: Path) -> None:
    full = (
        MODULE
        + """
from sapwood.core import jit
def fail(*_): raise OSError(28, "No space left on device")
jit.FunctionCache.save_overload = fail
"""
    )
    (folder / "powers.py").write_text(full)
    *lines, warning = run(folder, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert lines == COMPILED + ANSWER + ONE_PART
    assert warning.startswith("warning: compiled kernels cannot be kept in ")
    assert warning.endswith("(No space left on device)")


def test_interpreted_kernels_overflow_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def triple(x: np.uint64) -> np.uint64:
        return x * np.uint64(3)

    monkeypatch.setattr(compiling, "_spent", 0.0)
    made = Kernel(triple, {}, OPTIONS)
    with compiling.short_work():
        assert made(np.uint64(1 << 63)) == 1 << 63
    assert not made.overloads


# -- signals --------------------------------------------------------------------------------------

INTERRUPTED = """
import ctypes
import numpy as np

raise_signal = ctypes.CDLL(None)["raise"]
raise_signal.argtypes, raise_signal.restype = [ctypes.c_int], ctypes.c_int

def work(number):
    if number:
        raise_signal(number)
    return np.zeros(2), np.ones(1)

def interrupt(Kernel, options):
    kernel, ends = Kernel(work, {}, options), []
    for number in (2, 0, 2, 2):
        try:
            ends.append([len(array) for array in kernel(number)])
        except BaseException as error:
            ends.append(type(error).__name__)
    return ends
"""
RAN_BEFORE = """
from numba import njit
njit(lambda: np.zeros(1))()
from sapwood.core.jit import OPTIONS, Kernel
print(interrupt(Kernel, OPTIONS))
"""
ENDS = ["KeyboardInterrupt", [2, 1], "KeyboardInterrupt", "KeyboardInterrupt"]


def test_an_interrupt_in_a_kernel_arrives_after_it() -> None:
    """While its arrays become objects, an exception would end in a SystemError of Numba."""
    module: dict[str, Any] = {"__name__": __name__}
    exec(INTERRUPTED, module)
    assert module["interrupt"](Kernel, OPTIONS) == ENDS


@pytest.mark.slow
def test_an_interrupt_arrives_after_a_kernel_where_numba_ran_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED + RAN_BEFORE], capture_output=True, text=True,
        check=False, env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert done.stdout == f"{ENDS}\n", done.stderr


# -- all kernels ----------------------------------------------------------------------------------

ALL = """
from sapwood.cli.warming import every_kernel, warm_up
kernels = every_kernel()
warm_up()
for kernel in kernels:
    print(kernel.name, len(kernel.signatures))
    for overload in kernel.overloads.values():
        whole = overload.signature.return_type
        print("returns", *(type(part).__name__ for part in (whole, *getattr(whole, "types", ()))))
"""


def test_warming_runs_every_kernel_and_none_returns_a_named_tuple() -> None:
    """A named tuple is made by calling a class: Python code, which a signal can interrupt."""
    done = subprocess.run(
        [sys.executable, "-c", ALL], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "NamedTuple" not in done.stdout
    assert "NamedUniTuple" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("returns")]
    assert len(rows) >= 30
    assert [name for name, n_compiled in rows if n_compiled == "0"] == []
