"""Programs of the tests that fork, run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_program(module: str, *options: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the `main` of a module with --json, after some code has changed what it works on."""
    program = f"{code}\nfrom {module} import main\nraise SystemExit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "--json", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=7200,
    )
