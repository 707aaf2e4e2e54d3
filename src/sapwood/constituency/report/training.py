"""Reports on training runs: sizes, times, memory, candidates, dev scores, and the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.core.learner import StateParameters

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import StoredTreebank, Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.learn.dev_scores import DevScores
    from sapwood.constituency.learn.ensemble import EnsembleLPCFG
    from sapwood.constituency.learn.registry import Learner, Settings
    from sapwood.constituency.learn.settings_search import ChosenSettings
    from sapwood.corpora.tree import Tree
    from sapwood.execute import Engine


USUAL_STATES = StateParameters.parameters()["n_states"].default
PACKAGES = ("numpy", "scipy", "numba", "safetensors", "typer", "rich", "pooch")
MISSING = "missing"


def train_method(
    name: str,
    settings: Settings,
    bank: Treebank | StoredTreebank,
    held: Sequence[Tree] | None = None,
    on_choice: Callable[[ChosenSettings], None] | None = None,
) -> tuple[Learner, dict[str, Any]]:
    """Train a method by its name: choose open settings, learn, and report; for commands and page.

    Parameters
    ----------
    held
        Trees apart from the treebank, for methods that choose by them.
    on_choice
        Called with the settings that the treebank has chosen, before the long part.
    """
    from sapwood.constituency.learn.registry import METHODS

    settings = settings.choose(name, bank) if settings.choice is None else settings
    assert settings.choice is not None
    if on_choice is not None:
        on_choice(settings.choice)
    method = METHODS[name]
    learner: Learner = method.fit(settings, bank, held)
    report = training_report(
        learner, bank, method=name, seed=settings["seed"], choice=settings.choice,
        states=(settings["n_states"] or USUAL_STATES) if method.has_states else 1,
    )  # fmt: skip
    return learner, report


def training_report(
    learner: Learner,
    bank: Treebank | StoredTreebank,
    *,
    method: str,
    states: int = 1,
    seed: int = 0,
    choice: ChosenSettings | None = None,
) -> dict[str, Any]:
    """Sizes of the model, the seconds of its steps, and the settings that the treebank has chosen.

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.bundled_treebank("dev")
    >>> report = training_report(sw.PCFG().fit(bank), bank, method="pcfg")
    >>> report["trees"], report["most_states"], report["iterations"]
    (300, 1, 0)
    """
    members, grammars = learner.model_.members, learner.model_.grammars
    first = grammars[0]
    return {
        "method": method,
        "states": states,
        "most_states": max(int(grammar.n_states.max()) for grammar in grammars),
        "members": len(members),
        "iterations": sum(int(member.record.get("iterations", 0)) for member in members),
        "trees": bank.n_trees,
        "tokens": bank.n_tokens,
        "symbols": first.n_symbols,
        "rules": len(first.rules),
        "words": len(first.lexicon.words),
        "seed": seed,
        "phases": dict(learner.info_.seconds),
        "choice": None if choice is None else choice.as_dict(),
    }


def budget_report(learner: EnsembleLPCFG, cpu_seconds: float) -> dict[str, Any]:
    """How an ensemble kept its budget, what became of its candidates, and its scores, if any."""
    info = learner.info_
    report = {
        "budget": info.extra["budget"],
        "budget_seconds": round(cpu_seconds - info.seconds.get("warming up", 0.0), 3),
        "seconds_for_all": info.extra["for_all"],
        "trials": [asdict(trial) for trial in info.extra["trials"]],
    }
    return (
        report
        if info.extra["grades"] is None
        else report | {"dev": dev_report(info.extra["grades"])}
    )


def score_on(model: Model, gold: Sequence[Tree], jobs: Engine | int = 1) -> dict[str, Any]:
    """Parse the sentences of gold trees and compare; see `dev_report`."""
    from sapwood.constituency.learn.dev_scores import score_on_dev

    return dev_report(score_on_dev(model, gold, jobs))


def dev_report(grades: DevScores) -> dict[str, Any]:
    """EVALB's figures in percent, the strict F1 that drops no sentence, and the speed."""
    names = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
    speed = round(grades.n_trees / grades.seconds, 1) if grades.seconds else None
    return {name: getattr(grades.report.all, name) for name in names} | {
        "strict_f1": grades.report.strict.f1,
        "sentences": grades.n_trees,
        "errors": grades.report.all.errors,
        "fallbacks": grades.fallbacks,
        "seconds": round(grades.seconds, 3),
        "cpu_seconds": round(grades.cpu_seconds, 3),
        "sentences_per_second": speed,
    }


def comparison_row(
    method: str,
    bank: Treebank,
    gold: Sequence[Tree],
    *,
    states: int = 1,
    seed: int = 0,
    jobs: Engine | int = 1,
    choice: ChosenSettings | None = None,
) -> dict[str, Any]:
    """Train a method, parse the sentences of gold trees, and tell how well and how fast.

    Parameters
    ----------
    gold
        Trees to score on; methods with iterations or candidates choose among them by these.
    jobs
        Threads, or the engine where the work runs; `cpu_seconds` are those of this process.
    choice
        The binarisation, where it was chosen on the treebank; not part of the seconds.

    Returns
    -------
    dict
        F1 and tagging accuracy in percent, iterations (`best_iteration` where dev trees chose one),
        `seconds` and `cpu_seconds` of training without scoring, speed of parsing, peak memory.
    """
    from sapwood.constituency.learn.registry import METHODS, Settings
    from sapwood.execute import as_engine
    from sapwood.execute.engine import Meter, peak_memory_mb, reset_peak_memory

    chosen = METHODS[method]
    engine = as_engine(jobs)
    parameters = {"seed": seed, "engine": engine, "n_states": states}
    settings = Settings(parameters, choice=choice)
    reset_peak_memory()
    meter = Meter()
    learner = chosen.fit(settings, bank, gold)
    model, training = learner.model_, meter.as_dict()
    info = learner.info_
    grading = info.extra.get("grading_cpu_seconds", 0.0)
    dev = score_on(model, gold, engine)
    cpu = dev["cpu_seconds"]
    return {
        "method": method,
        "states": states if chosen.has_states else 1,
        "f1": dev["f1"],
        "strict_f1": dev["strict_f1"],
        "tagging_accuracy": dev["tagging_accuracy"],
        "iterations": int(model.record.get("iterations", 0)),
        "best_iteration": info.best_iteration,
        "seconds": training["seconds"],
        "cpu_seconds": round((training["cpu_seconds"] or 0.0) - grading, 3),
        "parse_cpu_seconds": cpu,
        "sentences_per_cpu_second": round(dev["sentences"] / cpu, 1) if cpu else None,
        "peak_memory_mb": peak_memory_mb(),
        "sentences": dev["sentences"],
        "fallbacks": dev["fallbacks"],
    }


def checkup() -> dict[str, Any]:
    """Report the versions, threads and folders that Sapwood runs with, for `sapwood doctor`."""
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
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return MISSING


def _kernel_cache() -> Path | None:
    """The cache folder of Numba; None where it is unknown."""
    try:
        from sapwood.constituency.parse.kernels import coarse
    except ImportError:
        return None
    stats = getattr(coarse.fill, "stats", None)  # absent when compiling is switched off
    return Path(stats.cache_path) if stats and stats.cache_path else None


def _data_folder() -> Path | None:
    try:
        from sapwood.corpora.fetch import default_folder

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
