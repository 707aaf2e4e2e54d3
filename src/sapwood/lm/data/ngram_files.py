"""Counts of n-grams in Parquet files, which DuckDB, Polars, pandas and Spark read.

Columns w1 .. wN are the words of an n-gram as they are read, null where the text has none there;
`count` is how often it was seen. Every word of the text ends exactly one n-gram, so that the counts
of words, and all lower orders, follow from the table. Rows are sorted by the last word, the one
before it, and so on; words by how common they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.core.arguments import describe
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.outputs import explain, find_place, new_file
from sapwood.execute import Engine
from sapwood.lm.data.ngrams import (
    Counts,
    CountSettings,
    NgramCounts,
    Runs,
    bits_for,
    count_sentences,
    count_text,
    merge_runs,
    pack,
    table_of,
    unpack,
)
from sapwood.lm.data.plain_text import NOTHING, SPECIAL, KnownWords, Rows

FORMAT = 1
_KEY = b"sapwood_counts"
MAX_GROUP = 1 << 20  # rows that are compressed together


def save_counts(counts: NgramCounts | Runs, path: Path) -> int:
    """Write counts, whole or not at all; how many n-grams there are."""
    pa, pq = _pyarrow()
    if isinstance(counts, Runs):
        order, is_stream = counts.settings.order, counts.settings.is_stream
        parts: Iterable[tuple[Rows, Counts]] = counts.merged()
    else:
        order, is_stream = counts.order, counts.is_stream
        parts = [(counts.rows, counts.counts)]
    words = pa.array(counts.words, pa.string())
    said = json.dumps({"format": FORMAT, "order": order, "is_stream": is_stream}).encode()
    text = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field(f"w{k}", text) for k in range(1, order + 1)]
    schema = pa.schema([*fields, pa.field("count", pa.int64())], metadata={_KEY: said})
    n_rows = 0
    with (
        explain(path),
        new_file(find_place(path)) as part,
        part.open("wb") as raw,  # by Python, which takes names that are not UTF-8
        pq.ParquetWriter(raw, schema, compression="zstd") as writer,
    ):
        for rows, seen in _portions(parts, order):
            columns = [_text_column(pa, words, rows[:, j]) for j in reversed(range(order))]
            table = pa.Table.from_arrays([*columns, pa.array(seen)], schema=schema)
            writer.write_table(table, row_group_size=MAX_GROUP)
            n_rows += len(rows)
    return n_rows


def _portions(parts: Iterable[tuple[Rows, Counts]], order: int) -> Iterator[tuple[Rows, Counts]]:
    """The same rows in portions that do not depend on how they came, each good until the next."""
    rows, seen = np.empty((MAX_GROUP, order), np.uint32), np.empty(MAX_GROUP, np.int64)
    filled = 0
    for part in parts:
        start = 0
        while start < len(part[0]):
            n = min(len(part[0]) - start, MAX_GROUP - filled)
            rows[filled : filled + n] = part[0][start : start + n]
            seen[filled : filled + n] = part[1][start : start + n]
            start, filled = start + n, filled + n
            if filled == MAX_GROUP:
                yield rows, seen
                filled = 0
    if filled:
        yield rows[:filled], seen[:filled]


def _text_column(pa: Any, words: Any, numbers: Any) -> Any:
    """Numbers as words, with those of a portion alone in its dictionary."""
    is_used = np.zeros(len(words), bool)
    is_used[numbers] = True
    used, new = np.flatnonzero(is_used), np.cumsum(is_used, dtype=np.int32) - 1
    nothing = numbers == NOTHING if is_used[NOTHING] else None
    indices = pa.array(new[numbers], pa.int32(), mask=nothing)
    return pa.DictionaryArray.from_arrays(indices, words.take(pa.array(used)))


def load_counts(path: Path) -> NgramCounts:
    """Read a file of counts.

    Raises
    ------
    ModelFormatError
        For a file that is damaged, foreign, or of another version.
    """
    pa, pq = _pyarrow()
    try:
        with path.open("rb") as raw:
            return _read_counts(pq.ParquetFile(raw), path)
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        pa.ArrowException,
    ) as error:
        msg = f"{path}: not a complete file of counts ({' '.join(str(error).split())[:80]})"
        raise ModelFormatError(msg, hint="name a file that `sapwood lm count` wrote") from error


def _read_counts(file: Any, path: Path) -> NgramCounts:
    said = json.loads((file.schema_arrow.metadata or {}).get(_KEY, b"null"))
    if not isinstance(said, dict):
        msg = f"{path}: no counts of Sapwood"
        raise ModelFormatError(msg, hint="name a file that `sapwood lm count` wrote")
    if said.get("format") != FORMAT:
        msg = f"{path}: counts of format {said.get('format')!r}; this version reads {FORMAT}"
        raise ModelFormatError(msg, hint="count the text again")
    return _table(file, int(said["order"]), bool(said["is_stream"]))


def _table(file: Any, order: int, is_stream: bool) -> NgramCounts:
    """All rows, in words numbered by how common they are."""
    numbers: dict[str, int] = {}
    parts = []
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        rows = np.empty((len(table), order), np.uint32)
        for k in range(order):
            column = table.column(f"w{k + 1}").combine_chunks()
            given = column.dictionary.to_pylist()
            own = [numbers.setdefault(word, len(SPECIAL) + len(numbers)) for word in given]
            lookup = np.array([NOTHING, *own], np.uint32)  # index -1, no word, comes first
            index = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            rows[:, order - 1 - k] = lookup[index + 1]
        parts.append((rows, table.column("count").to_numpy()))
    rows = np.concatenate([rows for rows, _ in parts])
    seen = np.concatenate([seen for _, seen in parts])
    if (seen <= 0).any():
        msg = "counts below 1"
        raise ValueError(msg)
    return _by_count(list(numbers), rows, seen, is_stream=is_stream)


def _by_count(names: list[str], rows: Rows, seen: Counts, *, is_stream: bool) -> NgramCounts:
    """The same table with words as `NgramCounts` numbers them."""
    special = {name: i for i, name in enumerate(SPECIAL)}
    first = len(SPECIAL)
    times = np.bincount(rows[:, 0], seen, first + len(names))[first:]
    order = sorted(
        (i for i, name in enumerate(names) if name not in special),
        key=lambda i: (-times[i], names[i].encode()),
    )
    words = (*SPECIAL, *(names[i] for i in order))
    new = np.zeros(first + len(names), np.uint32)
    number = KnownWords(words)
    new[first:] = [number[name.encode()] for name in names]
    bits = bits_for(len(words))
    keys, counts = merge_runs([(pack(new[rows], bits), seen)])
    return table_of(words, unpack(keys, rows.shape[1], bits), counts, is_stream=is_stream)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        msg = "files of counts need pyarrow"
        raise SapwoodError(msg, hint="pip install pyarrow") from error
    return pa, pq


CountsLike = NgramCounts | str | Path | Iterable[Iterable[str]]


def as_counts(source: CountsLike, order: int, engine: Engine | None = None) -> NgramCounts:
    """Counts of an order: given as such, as files of counts or text, or as sentences.

    Examples
    --------
    >>> as_counts([["the", "dog"], ["the", "cat"]], 2)
    <NgramCounts: 5 2-grams of 4 tokens, 3 words>
    """
    if isinstance(source, NgramCounts):
        return source.shorten(order)
    if isinstance(source, (str, Path)):
        if is_parquet(source):
            return load_counts(Path(source)).shorten(order)
        return count_text(source, CountSettings(order=order), engine=engine)
    hint = "give counts, the path of a text, or sentences as lists of words"
    found = list(source) if isinstance(source, Iterable) and not isinstance(source, dict) else None
    if not found or not all(_is_sentence(item) for item in found):
        msg = f"expected counts or text, found {describe(source)}"
        raise SapwoodError(msg, hint=hint)
    return count_sentences(found, order)


def _is_sentence(item: object) -> bool:
    return isinstance(item, (list, tuple)) and all(
        isinstance(word, str) and len(word.split()) == 1 for word in item
    )


def is_parquet(path: str | Path) -> bool:
    """Whether a file starts as those of Parquet do."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"
