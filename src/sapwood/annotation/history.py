"""What can be undone and done again, by whom; follows from the entries of the journal alone."""

from __future__ import annotations

from collections.abc import Iterable

from sapwood.annotation.journal import REDO, UNDO, Entry


class History:
    """The actions that can be undone, and those that were undone, in order.

    A window undoes its own last action; where it has none, the last action of all. A new action
    makes those that were undone by the same window, or on the same sentence, impossible to do
    again.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[int, Entry] = {}
        self._done: list[int] = []
        self._undone: list[tuple[int, str]] = []  # with the window that has undone it
        for entry in entries:
            self.record(entry)

    def record(self, entry: Entry) -> None:
        """Take note of a new entry."""
        about, kind = entry.about, entry.action["type"]
        if kind == UNDO:
            self._done.remove(about)
            self._undone.append((about, entry.window))
        elif kind == REDO:
            self._undone = [pair for pair in self._undone if pair[0] != about]
            self._done.append(about)
        else:
            self._entries[entry.n] = entry
            self._done.append(entry.n)
            self._undone = [
                (n, window)
                for n, window in self._undone
                if window != entry.window and self._entries[n].sentence != entry.sentence
            ]

    def next_undo(self, window: str) -> Entry | None:
        """The action that a window undoes next; None where there is none."""
        own = (n for n in reversed(self._done) if self._entries[n].window == window)
        n = next(own, self._done[-1] if self._done else None)
        return None if n is None else self._entries[n]

    def next_redo(self, window: str) -> Entry | None:
        """The action that a window does again next; None where there is none."""
        own = (n for n, who in reversed(self._undone) if who == window)
        n = next(own, self._undone[-1][0] if self._undone else None)
        return None if n is None else self._entries[n]
