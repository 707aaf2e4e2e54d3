"""`import sapwood` stays cheap: the heavy libraries come with the first call that needs them."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numba", "scipy", "typer", "rich")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_leaves_the_heavy_libraries_unloaded() -> None:
    assert loaded_after("import sapwood").isdisjoint(HEAVY)


def test_listing_the_public_names_loads_nothing_heavy() -> None:
    assert loaded_after("import sapwood; dir(sapwood)").isdisjoint(HEAVY)


def test_the_check_can_fail() -> None:
    assert "scipy" in loaded_after("import scipy")


def test_modules_of_the_command_line_are_not_searched_for_garbage_and_later_objects_are() -> None:
    code = (
        "import atexit, gc, sys\nfrom sapwood.__main__ import main\n"
        "sys.argv = ['sapwood', '--version']\n"
        "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000))\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True True"
