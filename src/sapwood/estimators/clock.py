"""`PhaseClock`: how long the phases of a training took."""

from __future__ import annotations

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
