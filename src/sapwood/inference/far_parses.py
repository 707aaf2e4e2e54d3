"""Parses that are made by other processes, and come back without what both sides have."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.execute import Engine
    from sapwood.inference.parser import Parse, Parser, ParserStats


def parse_far_away(
    parser: Parser, sentences: Iterable[Sequence[str]], engine: Engine
) -> Iterator[Parse]:
    """Parse a stream in order wherever an engine runs."""
    for packed, stats in engine.stream(_parse, sentences, parser):
        parser.stats.merge(stats)
        yield unpack_with(packed, _shared(parser))


def _parse(words: Sequence[str], parser: Parser) -> tuple[bytes, ParserStats]:
    alone = parser.recount()
    return pack_without(alone.parse_compiled(words), _shared(parser)), alone.stats


def _shared(parser: Parser) -> list[object]:
    """What all parses of a parser refer to."""
    mixer = parser._mixer
    return [mixer, *(x for group in mixer.groups for x in group.members)]


def pack_without(item: object, shared: Sequence[object]) -> bytes:
    """Pickle something, and of the shared objects in it only their places.

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
    """What was packed, with the shared objects of this side in their places."""
    return _Unpickler(BytesIO(packed), shared).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.place = {id(item): place for place, item in enumerate(shared)}

    def persistent_id(self, item: object) -> int | None:
        return self.place.get(id(item))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, place: int) -> object:
        return self.shared[place]
