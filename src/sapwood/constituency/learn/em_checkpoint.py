"""Checkpoints of EM: everything a training needs to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.constituency.learn.em_steps import LatentParameters
from sapwood.core.arrays import IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import MAX_STATES, Info

CHECKPOINT = "EM checkpoint"  # the kind of file, as its header says
_ARRAYS = ("n_states", "root", "rules", "words")


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a training by EM between two iterations."""

    parameters: LatentParameters
    # which stage of the schedule, and how many of its iterations are done
    stage: int
    iteration: int
    # the state before the last split that each state comes from; empty when nothing was split
    origin: IntArray
    rng: np.random.Generator
    info: Info
    best: LatentParameters | None = None  # the parameters with the highest dev F1 so far


def save_checkpoint(path: Path, progress: Progress, settings: dict[str, Any]) -> None:
    """Write a checkpoint atomically: the whole file, or none."""
    from sapwood.core.model_files import digest_of, write_atomically

    tensors = {name: getattr(progress.parameters, name) for name in _ARRAYS}
    tensors["origin"] = progress.origin
    if progress.best is not None:
        tensors |= {f"best_{name}": getattr(progress.best, name) for name in _ARRAYS}
    state = {
        "settings": settings, "stage": progress.stage, "iteration": progress.iteration,
        "rng": progress.rng.bit_generator.state,
        "info": {
            "log_likelihoods": progress.info.log_likelihoods,
            "states": [row["states"] for row in progress.info.history],
            "dev_f1": progress.info.extra["dev_f1"],
        },
    }  # fmt: skip
    header = {"kind": CHECKPOINT, "sha256": digest_of(tensors, state), "state": state}
    write_atomically(path, tensors, header)


def load_checkpoint(
    path: Path,
    plain: LatentParameters,
    schedule: Sequence[tuple[str, int, int]],
    settings: dict[str, Any],
) -> Progress | None:
    """Read the state of a training from a checkpoint; None when there is no such file.

    Parameters
    ----------
    plain
        Parameters of the same trees: rules and pairs of tag and word are taken from them.
    settings
        Of this training; a checkpoint of another one is refused.
    """
    if not path.exists():
        return None
    tensors, state = _read(path)
    if state.get("settings") != settings:
        msg = f"{path}: belongs to a training with other settings or other trees"
        raise SapwoodError(
            msg,
            hint="remove the file, or use the settings it was made with",
        )
    try:
        return _progress(tensors, state, plain, schedule)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        msg = f"{path}: not an EM checkpoint that can be used ({error})"
        raise SapwoodError(
            msg,
            hint="remove the file to start again",
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the arrays and the state of a checkpoint, and check the checksum."""
    from sapwood.core.model_files import digest_of, read_tensors

    try:
        tensors, header = read_tensors(path)
        _require(header.get("kind") == CHECKPOINT, f"its header says {header.get('kind')}")
        state = header.get("state")
        is_whole = isinstance(state, dict) and header.get("sha256") == digest_of(tensors, state)
        _require(is_whole, "its contents do not match its checksum")
    except (OSError, ValueError) as error:
        msg = f"{path}: not an EM checkpoint ({error})"
        raise SapwoodError(msg, hint="remove the file to start again") from error
    return tensors, header["state"]


def _require(condition: bool | np.bool_, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _progress(
    tensors: dict[str, Any],
    state: dict[str, Any],
    plain: LatentParameters,
    schedule: Sequence[tuple[str, int, int]],
) -> Progress:
    """Build the state of a training, with all sizes and numbers checked."""
    stage, iteration = state["stage"], state["iteration"]
    whole = isinstance(stage, int) and isinstance(iteration, int)
    _require(whole and stage in range(len(schedule)), f"there is no stage {stage}")
    _require(iteration in range(schedule[stage][2] + 1), f"there is no iteration {iteration}")
    parameters, origin = _parameters(tensors, "", plain), tensors["origin"]
    n_states = int(parameters.n_states.sum())
    n_origins = n_states if schedule[stage][0] == "split" else 0
    _require(origin.dtype == np.int64 and origin.shape == (n_origins,), "wrong origins")
    rng = np.random.default_rng()
    rng.bit_generator.state = state["rng"]
    saved = state["info"]
    history = [
        {"states": int(m), "log_likelihood": float(value)}
        for m, value in zip(saved["states"], saved["log_likelihoods"], strict=True)
    ]
    # lists come back from JSON in the place of tuples
    info = Info(history, extra={"dev_f1": [(int(done), float(f1)) for done, f1 in saved["dev_f1"]]})
    # a level that settled early counts as finished, so that not all need be there
    _require(info.iterations >= min(iteration, 2), "iterations without a likelihood")
    best = _parameters(tensors, "best_", plain) if "best_root" in tensors else None
    _require(best is None or len(info.extra["dev_f1"]) > 0, "best parameters without a dev F1")
    return Progress(parameters, stage, iteration, origin, rng, info, best)


def _parameters(tensors: dict[str, Any], prefix: str, plain: LatentParameters) -> LatentParameters:
    n_states = tensors[f"{prefix}n_states"]
    fits = n_states.dtype == np.int64 and n_states.shape == plain.n_states.shape
    _require(fits, f"{prefix}n_states are not one whole number for each symbol")
    _require(n_states.min() >= 1, "a symbol has no state")
    _require(n_states.max() <= MAX_STATES, f"a symbol has {n_states.max()} states")
    found = replace(plain, **{name: tensors[f"{prefix}{name}"] for name in _ARRAYS})
    sizes = {"root": found.state_start, "rules": found.rule_start, "words": found.word_start}
    for name, starts in sizes.items():
        numbers, size = getattr(found, name), int(starts[-1])
        fits = numbers.dtype == np.float64 and numbers.shape == (size,)
        _require(fits, f"expected {size:,} numbers of {prefix}{name}")
        _require(np.isfinite(numbers).all(), f"{prefix}{name} are not all finite")
        _require((numbers >= 0.0).all(), f"{prefix}{name} are not all probabilities")
    return found
