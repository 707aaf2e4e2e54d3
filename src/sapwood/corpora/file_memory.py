"""Memory that the trees and words of files need, estimated from the sizes of the files.

The factors are measured: `benchmarks/memory_estimates.py --only read` prints estimates and peaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sapwood.core.memory import require_memory
from sapwood.corpora.files import COMPRESSED, Source

# Bytes of memory for each byte of text: trees as objects and as packed arrays, dependency trees as
# packed arrays with their text, and words as lists.
TREES, PACKED_TREES, PACKED_ARCS, WORDS = 20.0, 11.0, 2.5, 3.0
EXPANSION = 4  # bytes of text for each byte of a compressed file: of plain text, the least measured
FEWER_TREES = "give fewer trees at a time"
FEWER_SENTENCES = "give fewer sentences at a time"


def require_reading_memory(
    files: Iterable[Source], factor: float, hint: str = FEWER_TREES, what: str = "trees"
) -> None:
    """Refuse to read files into memory where what they hold would not fit.

    Parameters
    ----------
    files
        Files that are there; stdin, pipes and open files have no known size and are not counted.
    factor
        Bytes of memory for each byte of text, one of the constants of this module.
    hint
        What the user can do instead.
    what
        The contents of the files, for the message.

    Raises
    ------
    SapwoodError
        With the size of the files, the memory that they need, and the memory that is free.
    """
    sizes = {source: text_bytes(source) for source in files}
    size = sum(sizes.values())
    largest = max(sizes, key=lambda source: sizes[source], default="")
    named = f"{largest}: " if len(sizes) == 1 else f"{largest} and others: "
    require_memory(factor * size, f"{named}reading {size / 1e6:,.0f} MB of {what}", hint)


def text_bytes(source: Source) -> int:
    """Bytes of the text of a file, estimated for a compressed one; 0 for other sources."""
    path = Path(source).expanduser() if isinstance(source, (str, Path)) else None
    if path is None or not path.is_file():
        return 0
    size = path.stat().st_size
    return size * EXPANSION if path.suffix.lower() in COMPRESSED else size
