"""Disks that fail."""

from __future__ import annotations

import os
from typing import Any


class FaultyDisk:
    """The module `os`, of which one call that changes the disk fails."""

    CALLS = ("open", "fchmod", "fsync", "replace", "setxattr")

    def __init__(self, place: int, number: int) -> None:
        self.place, self.number, self.n_calls = place, number, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(real) if name in self.CALLS else real

    def _counted(self, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.n_calls += 1
            if self.n_calls == self.place:
                raise OSError(self.number, os.strerror(self.number))
            return real(*args, **options)

        return call

    @property
    def has_failed(self) -> bool:
        return self.n_calls >= self.place
