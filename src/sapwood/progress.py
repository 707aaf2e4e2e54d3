"""Progress of long work, for programs that show it: steps and their listeners."""

from sapwood.core.progress import (
    Advance,
    Event,
    Listener,
    also_listening,
    counted,
    listening,
    note,
    step,
    tell,
)

__all__ = [
    "Advance",
    "Event",
    "Listener",
    "also_listening",
    "counted",
    "listening",
    "note",
    "step",
    "tell",
]
