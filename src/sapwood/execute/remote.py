"""Streams whose results come back from other processes without the objects that both sides hold.

A parse refers to the parser that made it, and so to a whole model. When a worker process sends a
parse back, the model would be pickled with every sentence, although the process that asked has the
same model. Here the shared objects are pickled as their positions in a list that both sides make.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

from sapwood.execute.engine import Engine, Threads

R = TypeVar("R")
P = TypeVar("P")


def stream_results(
    engine: Engine,
    task: Callable[[Any, P], R],
    items: Iterable[Any],
    parser: P,
    shared: Callable[[P], Sequence[object]],
) -> Iterator[R]:
    """Results of `task(item, parser)` in the order of the items, wherever the engine runs.

    Parameters
    ----------
    shared
        Lists the large objects of a parser that results refer to, always in the same order. They
        do not travel with the results: each result refers to those of the parser given here.
    """
    if type(engine) is Threads:  # which share memory
        return engine.stream(task, items, parser)
    objects = shared(parser)
    found = engine.stream(partial(_pack_result, task, shared), items, parser)
    return (unpack_with(packed, objects) for packed in found)


def _pack_result(
    task: Callable[[Any, P], R], shared: Callable[[P], Sequence[object]], item: Any, parser: P
) -> bytes:
    return pack_without(task(item, parser), shared(parser))


def pack_without(item: object, shared: Sequence[object]) -> bytes:
    """Pickle an object, with the shared objects in it replaced by their positions.

    Examples
    --------
    >>> table, copy = list(range(1000)), list(range(1000))
    >>> packed = pack_without(["row 7 of", table], [table])
    >>> unpack_with(packed, [copy])[1] is copy
    True
    """
    file = BytesIO()
    _Pickler(file, shared).dump(item)
    return file.getvalue()


def unpack_with(packed: bytes, shared: Sequence[object]) -> Any:
    """Unpickle what `pack_without` pickled; positions become the shared objects of this side."""
    return _Unpickler(BytesIO(packed), shared).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.position = {id(item): position for position, item in enumerate(shared)}

    def persistent_id(self, item: object) -> int | None:
        return self.position.get(id(item))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, position: int) -> object:
        return self.shared[position]
