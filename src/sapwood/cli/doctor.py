"""`sapwood doctor`: versions, threads, folders, and compiling the kernels ahead of time."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import FAILED, echo, print_json, transient
from sapwood.cli.inputs import JsonOption

if TYPE_CHECKING:
    from sapwood.models.latent_grammar import LatentGrammar

PACKAGES = ("numpy", "scipy", "numba", "safetensors", "typer", "rich", "pooch", "conllu")
MISSING = "missing"

EPILOG = """\b
Examples:
  sapwood doctor
  sapwood doctor --warm      so that the first parse starts at once
"""

# Two of everything that the kernels tell apart: phrases and tags on either side, states, chains.
_TINY = """
root S[a] 1
root S[b] 1
root NP|NN 1
S[a] -> NP[x] VP 1
S[b] -> NN[x] VP 1
S[b] -> NP[x] VB 1
S[b] -> NN[y] VB 1
NP[x] -> DT NN[x] 1
NP[y] -> DT NN[y] 1
VP -> VB NP[y] 1
VP -> VB NN[y] 1
DT : the a
NN[x] NN[y] NP|NN : dog cat
VB : sees hears
"""


def doctor(
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Compile all kernels now and keep them, instead of at the first parse; up to a "
            "minute the first time.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what Sapwood runs on: versions, threads, where kernels and corpora are kept.

    Exits with 1 when a package that Sapwood needs is missing.
    """
    report = checkup()
    is_healthy = MISSING not in report["packages"].values()
    if warm and is_healthy:
        with transient("compiling ..."):
            report["warm_seconds"] = round(warm_up(), 3)
    if as_json:
        print_json(report)
    else:
        print(_text(report))
    if not is_healthy:
        echo("error: a package is missing")
        echo("hint: pip install --force-reinstall sapwood")
        raise typer.Exit(FAILED)


def checkup() -> dict[str, Any]:
    """Everything the command reports, as plain data."""
    from sapwood import __version__
    from sapwood.execute import resolve_jobs

    return {
        "sapwood": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "threads": resolve_jobs(None),
        "cores": os.cpu_count(),
        "kernel_cache": _folder(_kernel_cache()),
        "data": _folder(_data_folder()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return MISSING


def _kernel_cache() -> Path | None:
    """Where Numba keeps what it compiled; None where it cannot say."""
    try:
        from sapwood.kernels import coarse
    except ImportError:
        return None
    stats = getattr(coarse.inside, "stats", None)  # absent when compiling is switched off
    return Path(stats.cache_path) if stats and stats.cache_path else None


def _data_folder() -> Path | None:
    try:
        from sapwood.corpus.fetch import default_folder

        return default_folder()
    except ImportError:
        return None


def _folder(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {"folder": None, "exists": False, "writable": False}
    nearest = next((p for p in (path, *path.parents) if p.exists()), path)
    return {
        "folder": str(path),
        "exists": path.is_dir(),
        "writable": nearest.is_dir() and os.access(nearest, os.W_OK),
    }


def warm_up() -> float:
    """Run every kernel once, on plain, latent and spectral grammars; return the seconds it took."""
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.estimators.pcfg import PCFG
    from sapwood.estimators.spectral import SpectralLPCFG
    from sapwood.models.from_text import grammar_from_text

    started = perf_counter()
    tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))")
    bank = Treebank.from_trees([tree])
    learnt = (learner.fit(bank).model_ for learner in (PCFG(), SpectralLPCFG(2)))
    for model in (*learnt, grammar_from_text(_TINY)):
        _run_kernels(model)
    return perf_counter() - started


def _run_kernels(model: LatentGrammar) -> None:
    from sapwood.inference.decoders import DECODERS
    from sapwood.inference.parser import Parser

    words = ["the", "dog", "sees", "a", "cat"]
    for decoder in DECODERS:
        parse = Parser(model, decoder=decoder).parse(words)
        parse.k_best(2)
    model.log_prob(parse.tree)
    model.log_prob(words)


def _text(report: dict[str, Any]) -> str:
    lines = [f"sapwood       {report['sapwood']}"]
    lines.append(f"python        {report['python']}  ({report['platform']})")
    lines += [f"{name:<14}{found}" for name, found in report["packages"].items()]
    lines.append(f"threads       {report['threads']} of {report['cores']} cores")
    lines.append(f"kernel cache  {_folder_text(report['kernel_cache'])}")
    lines.append(f"data folder   {_folder_text(report['data'])}")
    if "warm_seconds" in report:
        lines.append(f"kernels       ready after {report['warm_seconds']:.1f} s")
    return "\n".join(lines)


def _folder_text(folder: dict[str, Any]) -> str:
    if folder["folder"] is None:
        return "unknown"
    state = "writable" if folder["writable"] else "NOT writable: nothing can be kept there"
    return f"{folder['folder']}  ({state}{'' if folder['exists'] else ', not made yet'})"
