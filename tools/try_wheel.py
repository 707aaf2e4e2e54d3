"""Install a wheel where nothing of this repository is, and see that it works.

python tools/try_wheel.py dist            a fresh environment, the models, the demo, a parse, types
python tools/try_wheel.py dist --offline  packages of this environment are used, none is fetched
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

# What a user's program might be; the reveals are what a type checker must find.
SCRIPT = """
import sapwood as sw

bank = sw.bundled_treebank("dev")
model = sw.PCFG().fit(bank).model_
parse = sw.Parser(model).parse(["the", "dog", "sleeps", "."])
tree: sw.Tree = parse.tree
words: list[str] = tree.words()
print(tree)
"""
# The models in the wheel are those of their cards, and each of their sources is named.
MODELS = """
import hashlib, importlib.metadata as metadata
import sapwood as sw
from sapwood.core.model_names import model_file, model_notice

cards = sw.list_models()
assert {"english", "english-ud"} <= {card["name"] for card in cards}, cards
for card in cards:
    data = model_file(card["name"]).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (card["bytes"], card["sha256"]), card
    assert len(data) <= 8_000_000, len(data)
    assert card["licence"] == "CC BY-SA 4.0" and card["training_data"], card
    for corpus in card["training_data"]:
        assert corpus["licence"] and corpus["attribution"], corpus
        assert corpus["commit"] in model_notice(), corpus["name"]
kept = {path.name for path in metadata.files("sapwood") if "licenses" in path.parts}
assert {"LICENSE", "NOTICE.md"} <= kept, kept
print(sw.Parser(sw.load("english")).parse_text("The girl saw the boy with the telescope.").tree)
"""
WRONG = "import sapwood as sw\nsw.Tree.parse(3)\nsw.SpectralLPCFG(n_sates=3)\n"


def run(*command: str | Path, cwd: Path, **options: str) -> str:
    """What a command prints; it ends the program where it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False,
        env=environment | options,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def install(wheel: Path, home: Path, *, is_offline: bool) -> Path:
    """The Python of a fresh environment with the wheel."""
    venv.create(home, with_pip=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if is_offline:
        own = run(
            python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=home
        )
        outside = Path(own.strip()) / "outside.pth"  # behind what is installed in the environment
        packages = os.environ.get("SAPWOOD_PACKAGES", sysconfig.get_paths()["purelib"])
        outside.write_text(packages + "\n", encoding="utf-8")
        run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=home)
    else:
        run(python, "-m", "pip", "install", f"{wheel}", "mypy", cwd=home)
    return python


def check_types(python: Path, folder: Path) -> None:
    """The wheel's own types are found, a right program passes, and a wrong one does not."""
    (folder / "right.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    mypy = (python, "-m", "mypy", "--strict", "--follow-imports", "silent")
    run(*mypy, "right.py", cwd=folder)
    found = subprocess.run(
        [*map(str, mypy), "wrong.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    if found.returncode == 0 or "n_sates" not in found.stdout or "arg-type" not in found.stdout:
        sys.exit(f"a wrong program passed:\n{found.stdout}{found.stderr}")


def main() -> None:
    """Try the only wheel of a folder."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--offline", action="store_true")
    given = options.parse_args()
    (wheel,) = given.folder.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        python = install(wheel, folder / "fresh", is_offline=given.offline)
        where = run(python, "-c", "import sapwood; print(sapwood.__file__)", cwd=folder).strip()
        if "fresh" not in where:
            sys.exit(f"sapwood was imported from {where}, not from the wheel")
        print(run(python, "-m", "sapwood", "--version", cwd=folder).strip())
        (folder / "program.py").write_text(SCRIPT, encoding="utf-8")
        print(run(python, "program.py", cwd=folder).strip())
        (folder / "models.py").write_text(MODELS, encoding="utf-8")
        print(run(python, "models.py", cwd=folder).strip())
        check_types(python, folder)
        print(run(python, "-m", "sapwood", "demo", cwd=folder).splitlines()[-1])
    print(f"{wheel.name} installs and works")


if __name__ == "__main__":
    main()
