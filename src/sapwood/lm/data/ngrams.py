"""`NgramCounts`: a table of n-grams with their counts, the vocabulary, and Parquet files.

An n-gram is counted for every word of the text, with as many words before it as there are, up to
order - 1; missing ones are `NOTHING`. Rows are sorted by their last word, then by the one before,
and so on: all n-grams with a common ending lie together, so that one pass over the table gives the
counts of every lower order, and how many different words an ending follows.

Notation
--------
    w[i, j]     word j places before the last of n-gram i               [n, order]
    c[i]        how often it was seen                                   [n]
    key         w[i, 0], w[i, 1], ... as the digits of a number, most significant first

Parquet files are read by DuckDB, Polars, pandas and Spark. Columns w1 .. wN are the words of an
n-gram as they are read, null where the text has none there; `count` is how often it was seen. The
counts of words, and all lower orders, follow from the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.outputs import replacing

if TYPE_CHECKING:
    from sapwood.lm.data.counting import SortedRuns

# The first words of every vocabulary; NOTHING stands where there is no word.
NOTHING, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<nothing>", "<s>", "</s>", "<unk>")
RESERVED = frozenset(SPECIAL[:UNKNOWN])  # no text may have these as words
RESERVED_HINT = "leave it out: one sentence per line has its start and end by itself"
Words = npt.NDArray[np.uint32]  # [n]: words of a text by their numbers
Rows = npt.NDArray[np.uint32]  # [n, order]: n-grams, the last word first
MAX_ORDER = 5
Keys = npt.NDArray[np.uint64]  # [n, 1 or 2]
Counts = npt.NDArray[np.int64]
COUNTS_FORMAT = 1
_KEY = b"sapwood_counts"
MAX_GROUP = 1 << 20  # rows that are compressed together
# Fraction and largest number of occurrences to hold out where no held-out text is given: a larger
# sample would not change the decisions, and EM scores the sample after every iteration.
HELD_FRACTION, MOST_HELD = 0.05, 2_000_000


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """How often n-grams occur in a text.

    Attributes
    ----------
    words : [V]
        Special words first, then those of the text, commonest first.
    word_counts : [V]
        How often each occurs.
    rows : [n, order]
        Words of each n-gram, the last one first; sorted.
    counts : [n]
    is_stream
        Whether the text is one stream of words, rather than sentences with starts and ends.
    """

    words: tuple[str, ...]
    word_counts: Counts
    rows: Rows
    counts: Counts
    is_stream: bool = False
    n_words: int = field(init=False)  # different words of the text, special ones not counted
    n_tokens: int = field(init=False)  # words of the text, without starts and ends of sentences

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_words", len(self.words) - len(SPECIAL))
        object.__setattr__(self, "n_tokens", int(self.word_counts[UNKNOWN:].sum()))

    @property
    def order(self) -> int:
        """The most words of an n-gram."""
        return int(self.rows.shape[1])

    def __repr__(self) -> str:
        return (
            f"<NgramCounts: {len(self.rows):,} {self.order}-grams of {self.n_tokens:,} tokens, "
            f"{self.n_words:,} words>"
        )

    def portions(self) -> Iterable[tuple[Rows, Counts]]:
        """All rows with their counts, in order."""
        return [(self.rows, self.counts)]

    def cut_words(self, min_count: int) -> NgramCounts:
        """The same text with words below a count as the unknown word.

        Examples
        --------
        >>> from sapwood.lm.data.counting import count_sentence_ngrams
        >>> counts = count_sentence_ngrams([["a", "b"], ["a", "c"]], order=2)
        >>> counts.cut_words(2).words
        ('<nothing>', '<s>', '</s>', '<unk>', 'a')
        """
        n_kept = len(SPECIAL) + int((self.word_counts[len(SPECIAL) :] >= min_count).sum())
        if n_kept == len(self.words):
            return self
        # Words come commonest first, so that those cut off are the last.
        rows = np.where(self.rows >= n_kept, np.uint32(UNKNOWN), self.rows)
        word_counts = self.word_counts[:n_kept].copy()
        word_counts[UNKNOWN] += self.word_counts[n_kept:].sum()
        table = merge_rows(rows, self.counts, n_kept)
        return NgramCounts(self.words[:n_kept], word_counts, *table, self.is_stream)

    def shorten(self, order: int) -> NgramCounts:
        """The same text in n-grams of a lower order."""
        if order > self.order:
            msg = f"the counts are of order {self.order}, expected at least {order}"
            raise SapwoodError(msg, hint=f"count again with --order {order}")
        if order == self.order:
            return self
        rows = self.rows[:, :order]
        firsts = first_of_runs(rows)
        return NgramCounts(
            self.words, self.word_counts, np.ascontiguousarray(rows[firsts]),
            np.add.reduceat(self.counts, firsts) if len(firsts) else self.counts, self.is_stream,
        )  # fmt: skip

    def hold_out(self, seed: int) -> tuple[NgramCounts, NgramCounts]:
        """Split into training and held-out n-grams; each occurrence is drawn independently."""
        drawn = draw_held(self.counts, seed)
        if not drawn.any():  # a few sentences: there is nothing to spare
            return self, self
        # An n-gram all of whose occurrences are held out stays with a count of 0, since longer
        # n-grams begin with it.
        held = replace(self, rows=self.rows[drawn > 0], counts=drawn[drawn > 0])
        return replace(self, counts=self.counts - drawn), held


def draw_held(counts: Counts, seed: int) -> Counts:
    """Number of held-out occurrences of each item; each occurrence is drawn independently."""
    fraction = min(HELD_FRACTION, MOST_HELD / max(1, int(counts.sum())))
    return np.random.default_rng(seed).binomial(counts, fraction)


class KnownWords(dict[bytes, int]):
    """Numbers of words and of starts and ends of sentences; any other word is the unknown one."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__((word.encode(), i) for i, word in enumerate(words) if i != NOTHING)
        self.bits = bits_for(len(words))  # of a word's number

    def __missing__(self, word: bytes) -> int:
        return UNKNOWN


def ngrams_of(found: Words, order: int, n_lead: int = 0) -> Rows:
    """The n-gram that ends at each of some words, except starts of sentences and the lead.

    Examples
    --------
    >>> ngrams_of(np.array([START, 4, 5, END], np.uint32), 3).tolist()
    [[4, 1, 0], [5, 4, 1], [2, 5, 4]]
    """
    place = np.arange(len(found))
    age = place - np.maximum.accumulate(np.where(found == START, place, 0))
    rows = np.zeros((len(found), order), np.uint32)
    for j in range(min(order, len(found))):
        rows[j:, j] = np.where(age[j:] >= j, found[: len(found) - j], NOTHING)
    kept: Rows = rows[(found != START) & (place >= n_lead)]
    return kept


def refuse_reserved_words(words: Sequence[str]) -> None:
    """Refuse a sentence that has a reserved symbol such as `</s>` among its words."""
    if not RESERVED.isdisjoint(words):
        place = next(i for i, word in enumerate(words) if word in RESERVED)
        raise SapwoodError(
            f"word {place + 1} of the sentence is {words[place]!r}, a symbol that is reserved "
            "for the start or end of a sentence",
            hint=RESERVED_HINT,
        )


def first_of_runs(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Indices of the rows of a sorted table that differ from the row before."""
    if not len(rows):
        return np.zeros(0, np.int64)
    differs = (rows[1:] != rows[:-1]).any(axis=1)
    return np.concatenate([[0], 1 + np.flatnonzero(differs)])


def bits_for(n_words: int) -> int:
    """The number of bits of a word's number."""
    return max(1, (n_words - 1).bit_length())


def pack_rows(rows: Rows, bits: int) -> Keys:
    """Numbers that sort as the rows do, in one column of 64 bits or two.

    Examples
    --------
    >>> pack_rows(np.array([[1, 2], [3, 0]], np.uint32), 4).ravel().tolist()
    [18, 48]
    """
    n_a_column = 64 // bits
    columns = []
    for start in range(0, rows.shape[1], n_a_column):
        key = np.zeros(len(rows), np.uint64)
        for j in range(start, min(start + n_a_column, rows.shape[1])):
            key = (key << np.uint64(bits)) | rows[:, j].astype(np.uint64)
        columns.append(key)
    return np.stack(columns, axis=1)


def unpack_rows(keys: Keys, order: int, bits: int) -> Rows:
    """The rows that were packed."""
    n_a_column, mask = 64 // bits, np.uint64((1 << bits) - 1)
    rows = np.empty((len(keys), order), np.uint32)
    for start in range(0, order, n_a_column):
        stop, key = min(start + n_a_column, order), keys[:, start // n_a_column]
        for j in range(start, stop):
            rows[:, j] = (key >> np.uint64(bits * (stop - 1 - j))) & mask
    return rows


def merge_keys(runs: Iterable[tuple[Keys, npt.NDArray[Any]]]) -> tuple[Keys, Counts]:
    """Sorted keys, every one once, with their counts of any integer type summed."""
    keys, counts = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    # Stable sorting finds runs that are sorted already.
    order = (
        np.argsort(keys[:, 0], kind="stable")
        if keys.shape[1] == 1
        else np.lexsort(tuple(keys[:, j] for j in reversed(range(keys.shape[1]))))
    )
    keys = keys[order]
    firsts = first_of_runs(keys)
    seen = counts[order]
    total = np.add.reduceat(seen, firsts, dtype=np.int64) if len(firsts) else seen
    return keys[firsts], total


def merge_runs(
    runs: Iterable[tuple[Keys, npt.NDArray[Any]]], order: int, bits: int
) -> tuple[Rows, Counts]:
    """The sorted rows of some keys, every one once, with their counts summed."""
    keys, total = merge_keys(runs)
    return unpack_rows(keys, order, bits), total


def merge_rows(rows: Rows, counts: Counts, n_words: int) -> tuple[Rows, Counts]:
    """Sorted rows, every one once, with their counts summed."""
    bits = bits_for(n_words)
    return merge_runs([(pack_rows(rows, bits), counts)], rows.shape[1], bits)


def count_ngram_keys(found: Words, n_lead: int, order: int, bits: int) -> tuple[Keys, Counts]:
    """Sorted keys of the distinct n-grams of `ngrams_of`, and their counts."""
    keys = pack_rows(ngrams_of(found, order, n_lead), bits)
    if keys.shape[1] > 1:
        return merge_keys([(keys, np.ones(len(keys), np.int64))])
    column = np.sort(keys[:, 0])[:, None]  # sorting values is several times as fast as places
    firsts = first_of_runs(column)
    return column[firsts], np.diff(firsts, append=len(column))


def table_of(words: tuple[str, ...], rows: Rows, counts: Counts, *, is_stream: bool) -> NgramCounts:
    """Counts of n-grams with counts of words: each occurrence of a word ends one n-gram."""
    seen = np.bincount(rows[:, 0], counts, len(words)).astype(np.int64)
    seen[END] = 0
    return NgramCounts(words, seen, rows, counts, is_stream)


def share_seen(counts: NgramCounts, others: NgramCounts) -> float:
    """Fraction of the n-grams of one text that also occur in another with the same vocabulary."""
    bits = bits_for(len(counts.words))
    mine, theirs = pack_rows(counts.rows, bits), pack_rows(others.shorten(counts.order).rows, bits)
    both = np.concatenate([mine, theirs])
    _, seen = merge_keys([(both, np.ones(len(both), np.int64))])
    return float((seen > 1).sum() / max(1, len(mine)))


def save_counts(counts: NgramCounts | SortedRuns, path: Path) -> int:
    """Write counts to a Parquet file, whole or not at all; returns the number of n-grams."""
    pa, pq = _pyarrow()
    order = counts.order
    words = pa.array(counts.words, pa.string())
    header = json.dumps(
        {"format": COUNTS_FORMAT, "order": order, "is_stream": counts.is_stream}
    ).encode()
    text = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field(f"w{k}", text) for k in range(1, order + 1)]
    schema = pa.schema([*fields, pa.field("count", pa.int64())], metadata={_KEY: header})
    n_rows = 0
    with (
        replacing(path) as part,
        part.open("wb") as raw,  # by Python, which takes names that are not UTF-8
        pq.ParquetWriter(raw, schema, compression="zstd") as writer,
    ):
        for rows, seen in _row_groups(counts.portions(), order):
            columns = [_text_column(pa, words, rows[:, j]) for j in reversed(range(order))]
            table = pa.Table.from_arrays([*columns, pa.array(seen)], schema=schema)
            writer.write_table(table, row_group_size=MAX_GROUP)
            n_rows += len(rows)
    return n_rows


def _row_groups(parts: Iterable[tuple[Rows, Counts]], order: int) -> Iterator[tuple[Rows, Counts]]:
    """Regroup rows into portions of a fixed size; each is valid until the next one is drawn."""
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


def load_counts(path: Path, order: int | None = None, min_count: int = 1) -> NgramCounts:
    """Read a file of counts, perhaps in a lower order and with rarer words as the unknown word.

    Raises
    ------
    ModelFormatError
        For a file that is damaged, foreign, or of another version.
    """
    pa, pq = _pyarrow()
    try:
        with path.open("rb") as raw:
            counts = _read_counts(pq.ParquetFile(raw), path)
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
    return counts.shorten(order or counts.order).cut_words(min_count)


def _read_counts(file: Any, path: Path) -> NgramCounts:
    header = json.loads((file.schema_arrow.metadata or {}).get(_KEY, b"null"))
    if not isinstance(header, dict):
        msg = f"{path}: no counts of Sapwood"
        raise ModelFormatError(msg, hint="name a file that `sapwood lm count` wrote")
    if header.get("format") != COUNTS_FORMAT:
        msg = (
            f"{path}: counts of format {header.get('format')!r}; this version reads {COUNTS_FORMAT}"
        )
        raise ModelFormatError(msg, hint="count the text again")
    return _table(file, int(header["order"]), bool(header["is_stream"]))


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
        raise ValueError("counts below 1")
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
    number = {word: i for i, word in enumerate(words) if i != NOTHING}
    new[first:] = [number.get(name, UNKNOWN) for name in names]
    return table_of(words, *merge_rows(new[rows], seen, len(words)), is_stream=is_stream)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise SapwoodError("files of counts need pyarrow", hint="pip install pyarrow") from error
    return pa, pq
