"""What every learner tells about its training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from sapwood.core.errors import SapwoodWarning


class PhaseClock:
    """Wall time between ticks."""

    def __init__(self) -> None:
        self.last = perf_counter()
        self.seconds: dict[str, float] = {}

    def tick(self, phase: str) -> None:
        """End a phase, and note its seconds."""
        now = perf_counter()
        self.seconds[phase] = round(now - self.last, 3)
        self.last = now


@dataclass
class Info:
    """What happened in a training.

    Everything in `extra`, and every column of `history`, can also be read as an attribute; an
    attribute that is set goes into `extra`.

    Attributes
    ----------
    history
        One row for every iteration of EM or pass over the data: its log-likelihood, and more.
    seconds
        Wall-clock seconds by phase; processor seconds where a learner has a budget of those.
    warnings
        Reasons to doubt the model.
    extra
        What only this learner has to tell; its docstring names the keys.

    Examples
    --------
    >>> info = Info([{"log_likelihood": -7.0}, {"log_likelihood": -5.0}], extra={"n_inside": 12})
    >>> info.iterations, info.log_likelihoods, info.n_inside
    (2, [-7.0, -5.0], 12)
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """Iterations or passes; of a learner without a history, those that it counted otherwise."""
        return int(self.extra.get("iterations", len(self.history)))

    @property
    def log_likelihoods(self) -> list[float]:
        """The log-likelihood of each row of the history."""
        return [row["log_likelihood"] for row in self.history]

    @property
    def best_iteration(self) -> int | None:
        """After how many iterations dev F1 was highest, the first time; None without dev trees."""
        scores: list[tuple[int, float]] = self.extra.get("dev_f1", [])
        return max(scores, key=lambda pair: pair[1])[0] if scores else None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):  # copy and pickle ask before there are any fields
            if name in self.extra:
                return self.extra[name]
            if self.history and name in self.history[0]:
                return [row[name] for row in self.history]
        msg = f"this training has no {name!r} to tell"
        raise AttributeError(msg)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dataclass_fields__:
            super().__setattr__(name, value)
        else:
            self.extra[name] = value

    def warn(self, text: str, stacklevel: int = 1) -> None:
        """Keep a reason for doubt, and show it."""
        self.warnings.append(text)
        warnings.warn(text, SapwoodWarning, stacklevel=stacklevel + 1)
