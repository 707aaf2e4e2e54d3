"""What trainings tell of themselves: the seconds of their phases, and their passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter


class PhaseClock:
    """Wall time between ticks."""

    def __init__(self) -> None:
        self.last = perf_counter()
        self.seconds: dict[str, float] = {}

    def tick(self, phase: str) -> None:
        """The phase that ends now."""
        now = perf_counter()
        self.seconds[phase] = round(now - self.last, 3)
        self.last = now


@dataclass
class PassInfo:
    """What happened in a training of several passes over all trees.

    Attributes
    ----------
    log_likelihoods
        Of what is right given the sentences, summed, during each pass.
    seconds
        Wall-clock seconds by phase.
    """

    log_likelihoods: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """Passes."""
        return len(self.log_likelihoods)
