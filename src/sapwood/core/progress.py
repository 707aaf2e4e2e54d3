"""Progress of long work: the steps that run, how far each is, and their listener.

Work that may take longer than a second is a *step*, and steps may lie inside each other:

    with step("EM", total=40, unit="iteration") as advance:
        for k in range(40):
            ...
            advance(k + 1)

A listener is called with an `Event` whenever a step moves on:

    with listening(show):
        estimator.fit(bank)

Without a listener, a step costs nothing worth measuring. An event has no times: the code that shows
it decides how to estimate the remaining time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Event(NamedTuple):
    """How far a step is.

    Attributes
    ----------
    what
        The step in words; empty for parts of the step around it.
    done, total
        Number of parts that are done, and of all; None where that is unknown. Parts of unequal
        length may be measured in any unit of work, such as expected seconds.
    unit
        The name of one part, such as `pass` or `sentence`; empty where a part has no name.
    outer
        The step that this one is a part of.
    size
        Size of the part in work, in units of `total`; steps inside belong to this part.
    is_over
        Whether the step has ended, so that the outer one is in work again.
    depth
        Number of the step and of all outer steps.
    facts
        What a training has just found out inside of `outer`; empty in events of progress. After an
        iteration or a pass `iteration`, counted from 1, `states` and `log_likelihood`, for
        dependency parsers `member` instead of `states`; `iteration` and `dev_f1` after parsing the
        dev trees; `trial` when the outcome of a candidate of an ensemble is known.
    """

    what: str
    done: float = 0.0
    total: float | None = None
    unit: str = ""
    outer: Event | None = None
    size: float = 1.0
    is_over: bool = False
    depth: int = 1
    facts: Mapping[str, Any] = MappingProxyType({})

    @property
    def path(self) -> tuple[Event, ...]:
        """The event and the events of all outer steps, outermost first."""
        return (self,) if self.outer is None else (*self.outer.path, self)

    @property
    def share(self) -> float | None:
        """Fraction done of the outermost step whose total is known; None without any.

        Numbered parts of a step without a total do not count, since the step may go through them
        more than once.

        Examples
        --------
        >>> members = Event("members", done=10, total=40, size=20)
        >>> Event("network", 3, 4, "pass", outer=members).share
        0.625
        """
        known = [event for event in self.path if event.total]
        if known and known[0].unit and not known[0].what:
            return None
        inside = 0.0
        for event in reversed(known):
            assert event.total
            inside = min((event.done + event.size * inside) / event.total, 1.0)
        return inside if known else None


# A network that is told its passes takes an answer: the number of passes there is time for in all.
Listener = Callable[[Event], Any]
# the listener, and the innermost step that is running
_state: ContextVar[tuple[Listener, Advance | None] | None] = ContextVar("progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function with every `Event` of the steps inside, those in other threads included.

    Examples
    --------
    >>> seen = []
    >>> with listening(seen.append):
    ...     for word in counted(["a", "b"], "reading", unit="word"):
    ...         pass
    >>> [(event.what, event.done, event.total) for event in seen if not event.is_over]
    [('reading', 0, 2), ('reading', 1, 2), ('reading', 2, 2)]
    """
    before = _state.get()
    _state.set((listener, None))
    try:
        yield
    finally:
        _state.set(before)


@contextmanager
def also_listening(*listeners: Listener) -> Iterator[None]:
    """Call functions with every `Event` of the steps inside, besides the listener that is there.

    The first answer that is not None is that of all.
    """
    before = _state.get()
    outer, innermost = ((), None) if before is None else ((before[0],), before[1])

    def call_all(event: Event) -> Any:
        answers = [listener(event) for listener in (*outer, *listeners)]
        return next((answer for answer in answers if answer is not None), None)

    if listeners:
        _state.set((call_all, innermost))
    try:
        yield
    finally:
        _state.set(before)


def tell(**facts: Any) -> Any:
    """Call the listener with facts about a training; returns its answer.

    Examples
    --------
    >>> seen = []
    >>> with listening(seen.append), step("EM"):
    ...     tell(iteration=1, states=2, log_likelihood=-7.5)
    >>> [dict(event.facts) for event in seen if event.facts]
    [{'iteration': 1, 'states': 2, 'log_likelihood': -7.5}]
    """
    state = _state.get()
    if state is None:
        return None
    outer = None if state[1] is None else state[1].event
    depth = 1 if outer is None else outer.depth + 1
    return _send(Event("", outer=outer, is_over=True, depth=depth, facts=facts))


def _send(event: Event) -> Any:
    """Call the listener, if there is one; returns its answer."""
    state = _state.get()
    return None if state is None else state[0](event)


class Advance:
    """Reports how far one step is."""

    def __init__(self, event: Event, outer: Advance | None) -> None:
        # `outer` may move on meanwhile, when this step runs in another thread
        self._event, self.outer, self.depth = event, outer, event.depth

    @property
    def event(self) -> Event:
        """How far the step and all outer steps are now."""
        return self._event._replace(outer=None if self.outer is None else self.outer.event)

    def __call__(
        self, done: float, *, what: str | None = None, total: float | None = None, size: float = 1.0
    ) -> None:
        """Report the number of parts done, and the size of the next one; `what` may change."""
        state = _state.get()
        if state is None:
            return
        words = self._event.what if what is None else what
        total = self._event.total if total is None else total
        self._event = self._event._replace(done=done, what=words, total=total, size=size)
        _state.set((state[0], self))
        _send(self.event)


@contextmanager
def step(
    what: str, *, total: float | None = None, unit: str = "", size: float = 1.0
) -> Iterator[Advance]:
    """Announce a step; call the `Advance` it gives with the number of parts that are done."""
    state = _state.get()
    outer = None if state is None else state[1]
    depth = 1 if outer is None else outer.depth + 1
    advance = Advance(Event(what, 0, total, unit, size=size, depth=depth), outer)
    advance(0, size=size)
    try:
        yield advance
    finally:
        if state is not None:
            _state.set(state)
            _send(advance.event._replace(is_over=True))


def counted(
    items: Iterable[T], what: str = "", *, total: float | None = None, unit: str = ""
) -> Iterator[T]:
    """Yield the items, each a part of one step; the total is their number if they have one."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with step(what, total=total, unit=unit) as advance:
        for n_done, item in enumerate(items, 1):
            yield item
            advance(n_done)


def note(done: float, total: float | None, unit: str) -> None:
    """Report how many parts of the step in work are done, where no `Advance` is at hand."""
    state = _state.get()
    if state is not None and state[1] is not None:
        _send(Event("", done, total, unit, state[1].event, depth=state[1].depth + 1))
