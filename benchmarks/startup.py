"""How long it takes to start: import, help, the first tree, with compiled kernels and without."""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import machine

COLD = {
    "train --method pcfg": "train {trees} -o {out} --method pcfg",
    "train --method spectral": "train {trees} -o {out} --method spectral --states 4",
    "train --method em": "train {trees} -o {out} --method em --states 4 --iterations 2",
    "train --method crf": "train {trees} -o {out} --method crf",
    "train --method best": "train {trees} -o {out} --method best --budget 1s",
    "demo": "demo",
}
SNIPPET = """
import sapwood as sw
model = sw.SpectralLPCFG(n_states=8).fit(sw.bundled_treebank("train")).model_
print(sw.Parser(model).parse("the girl saw a dog in the garden .".split()).tree)
"""
SENTENCE = "The company said that it expects higher sales .\n"
LONGER = SENTENCE.replace(".", "in the second half of the year than in the first .")
PYTHON = (sys.executable,)
COMMANDS = {
    "python -c pass": (*PYTHON, "-c", "pass"),
    "import numpy": (*PYTHON, "-c", "import numpy"),
    "import sapwood": (*PYTHON, "-c", "import sapwood"),
    "import sapwood, numba": (*PYTHON, "-c", "import sapwood, numba"),
    "sapwood --help": (*PYTHON, "-m", "sapwood", "--help"),
}


def run_once(
    command: tuple[str, ...], cache: str | None = None, text: str = SENTENCE
) -> tuple[float, float]:
    """CPU and wall seconds of a fresh process."""
    paths = [str(machine.ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if environment.pop("PYTHONDONTWRITEBYTECODE", ""):  # nobody's ordinary case: compiled each time
        environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "sapwood-byte-code")
    if cache:
        environment["NUMBA_CACHE_DIR"] = cache
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, check=False
    )
    wall = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def row(name: str, times: list[tuple[float, float]]) -> tuple[str, str, str]:
    """Least and median of CPU and wall seconds."""
    cpu, wall = (machine.summary(column) for column in zip(*times, strict=True))
    return name, str(cpu), str(wall)


def train_model(folder: str) -> Path:
    """A plain grammar of the bundled treebank in a file."""
    import sapwood as sw

    path = Path(folder) / "bundled.sapwood"
    sw.PCFG().fit(sw.bundled_treebank("train")).model_.save(path)
    return path


def parse_rows(repeats: int, n_cold: int) -> list[tuple[str, str, str]]:
    """One sentence through `sapwood parse`, kernels compiled before or not."""
    with tempfile.TemporaryDirectory() as folder:
        model = train_model(folder)
        command = (*PYTHON, "-m", "sapwood", "parse", str(model), "--jobs", "1")
        caches = [str(Path(folder) / f"cache{place}") for place in range(n_cold)]
        cold = [run_once(command, cache) for cache in caches]
        warm = [run_once(command, caches[-1]) for _ in range(repeats)]
        longer = run_once(command, str(Path(folder) / "longer"), LONGER)
        doctor = (*PYTHON, "-m", "sapwood", "doctor", "--warm")
        rows = [
            row("sapwood parse, one sentence, compiled kernels", warm),
            row("sapwood parse, one sentence, no kernel compiled yet", cold),
            row("sapwood parse, one sentence of 20 words, no kernel compiled yet", [longer]),
        ]
        if "--warm" in _help_of("doctor"):
            first, second = (run_once(doctor, str(Path(folder) / "all")) for _ in range(2))
            rows.append(row("sapwood doctor --warm: compile every kernel", [first]))
            rows.append(row("sapwood doctor --warm: load every kernel", [second]))
    return rows


def model_rows(models: list[Path], repeats: int) -> list[tuple[str, str, str]]:
    """One sentence through `sapwood parse` with models of one's own, kernels compiled."""
    rows = []
    for model in models:
        command = (*PYTHON, "-m", "sapwood", "parse", str(model))
        run_once(command)
        times = [run_once(command) for _ in range(repeats)]
        rows.append(row(f"sapwood parse {model.name}, one sentence", times))
    return rows


def cold_rows() -> list[tuple[str, str, str]]:
    """Commands that find no kernel compiled, and the same again."""
    from sapwood.constituency.data.treebank import sample_path

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in COLD.items():
            values = {"trees": sample_path("dev"), "out": Path(folder) / "out.sapwood"}
            command = (*PYTHON, "-m", "sapwood", *arguments.format(**values).split())
            cache = str(Path(folder) / name.replace(" ", "-"))
            cold, warm = run_once(command, cache), run_once(command, cache)
            rows.append(row(f"sapwood {name}, no kernel compiled yet", [cold]))
            rows.append(row(f"sapwood {name}, compiled kernels", [warm]))
    return rows


def snippet_rows() -> list[tuple[str, str, str]]:
    """The README's Python snippet with no kernel compiled, then twice more."""
    command = (*PYTHON, "-c", SNIPPET)
    with tempfile.TemporaryDirectory() as cache:
        cold, *warm = (run_once(command, cache) for _ in range(3))
    return [
        row("README's snippet, no kernel compiled yet", [cold]),
        row("README's snippet, again", warm),
    ]


def _help_of(command: str) -> str:
    arguments = (*PYTHON, "-m", "sapwood", command, "--help")
    environment = {**os.environ, "PYTHONPATH": str(machine.ROOT / "src"), "NO_COLOR": "1"}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--cold", type=int, default=2, help="parses with an empty kernel cache")
    options.add_argument("--models", nargs="+", type=Path, default=[], help="only these are parsed")
    options.add_argument("--snippet", action="store_true", help="only the README's snippet")
    given = options.parse_args()
    machine.print_facts("Start")
    has_cli = importlib.util.find_spec("sapwood.cli.main") is not None
    rows = []
    for name, command in ({} if given.snippet else COMMANDS).items():
        if command[1] == "-m" and not has_cli:
            continue
        run_once(command)  # byte code written, files in the system's cache
        rows.append(row(name, [run_once(command) for _ in range(given.repeats)]))
    if given.snippet:
        rows += snippet_rows()
    elif given.models:
        rows += model_rows(given.models, given.repeats)
    elif has_cli:
        rows += parse_rows(given.repeats, given.cold) + cold_rows() + snippet_rows()
    else:
        print("The command line is not there (sapwood.cli.main): its rows are left out.\n")
    machine.print_table(("process", "CPU s (least / median)", "wall s (least / median)"), rows)


if __name__ == "__main__":
    main()
