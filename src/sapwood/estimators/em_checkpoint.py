"""Checkpoints of EM: everything a training needs to go on as if it had never stopped."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.errors import SapwoodError
from sapwood.models.latent_parameters import LatentParameters

IntArray = npt.NDArray[np.int64]
CHECKPOINT = "EM checkpoint"  # the kind of file, as its header says
_ARRAYS = ("n_states", "root", "rules", "words")


@dataclass
class EMInfo:
    """What happened in a training.

    Attributes
    ----------
    log_likelihoods, states
        Log-likelihood before every M-step, and the most states of a symbol then.
    dev_f1
        Pairs of the number of iterations done and the F1 then, where dev trees were given.
    seconds
        Wall-clock seconds of training, and of the grading on dev trees within it.
    grading_cpu_seconds
        Processor seconds of that grading, over all threads.
    """

    log_likelihoods: list[float] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    dev_f1: list[tuple[int, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    grading_cpu_seconds: float = 0.0

    @property
    def iterations(self) -> int:
        """E-steps taken."""
        return len(self.log_likelihoods)

    @property
    def best_iteration(self) -> int | None:
        """After how many iterations dev F1 was highest, the first time; None without dev trees."""
        return max(self.dev_f1, key=lambda pair: pair[1])[0] if self.dev_f1 else None


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a training stands.

    Attributes
    ----------
    stage, iteration
        Which stage of the schedule, and how many of its iterations are done.
    origin
        The state before the last split that each state comes from; empty when nothing was split.
    best
        The parameters with the highest dev F1 so far.
    """

    parameters: LatentParameters
    stage: int
    iteration: int
    origin: IntArray
    rng: np.random.Generator
    info: EMInfo
    best: LatentParameters | None = None


def save(path: Path, progress: Progress, settings: dict[str, Any]) -> None:
    """Write a checkpoint, whole or not at all."""
    from sapwood.models.files import write_atomically

    tensors = {name: getattr(progress.parameters, name) for name in _ARRAYS}
    tensors["origin"] = progress.origin
    if progress.best is not None:
        tensors |= {f"best_{name}": getattr(progress.best, name) for name in _ARRAYS}
    header = {
        "kind": CHECKPOINT, "settings": settings, "stage": progress.stage,
        "iteration": progress.iteration, "rng": progress.rng.bit_generator.state,
        "info": asdict(progress.info),
    }  # fmt: skip
    write_atomically(path, tensors, header)


def resume(path: Path, plain: LatentParameters, settings: dict[str, Any]) -> Progress | None:
    """What a checkpoint holds; None when there is no such file.

    Parameters
    ----------
    plain
        Parameters of the same trees: rules and pairs of tag and word are taken from them.
    settings
        Of this training; a checkpoint of another one is refused.
    """
    if not path.exists():
        return None
    tensors, header = _read(path)
    if header.get("settings") != settings:
        msg = f"{path}: belongs to a training with other settings or other trees"
        raise SapwoodError(msg, hint="remove the file, or use the settings it was made with")
    rng = np.random.default_rng()
    rng.bit_generator.state = header["rng"]
    best = {name: tensors[f"best_{name}"] for name in _ARRAYS if f"best_{name}" in tensors}
    info = EMInfo(**header["info"])
    info.dev_f1 = [(int(done), float(f1)) for done, f1 in info.dev_f1]
    return Progress(
        replace(plain, **{name: tensors[name] for name in _ARRAYS}),
        header["stage"], header["iteration"], tensors["origin"], rng, info,
        replace(plain, **best) if best else None,
    )  # fmt: skip


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from sapwood.models.files import read_tensors

    try:
        tensors, header = read_tensors(path)
        _require_checkpoint(header)
    except (OSError, ValueError) as error:
        msg = f"{path}: not an EM checkpoint ({error})"
        raise SapwoodError(msg, hint="remove the file to start again") from error
    return tensors, header


def _require_checkpoint(header: dict[str, Any]) -> None:
    kind = header.get("kind")
    if kind != CHECKPOINT:
        msg = f"its header says {kind}"
        raise ValueError(msg)
