"""`StaticVectors`: one vector for each word, from a file of word2vec, fastText, GloVe or arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, ModelFormatError
from sapwood.core.model_files import read_safetensors
from sapwood.core.outputs import sha256
from sapwood.core.progress import counted
from sapwood.corpora.files import open_text
from sapwood.networks.pretrained.pieces import plain_word
from sapwood.networks.pretrained.source import (
    Arrays,
    HalfArray,
    SourceRecord,
    WordSource,
    as_half,
)

MOST_STATIC_WORDS = 2_000_000  # the rest of a file, whose words are rarer, is not read
_MOST_WIDTH = 4_096


class StaticVectors(WordSource):
    """Vectors of words, looked up as they are spelt, else in lower case.

    All other words have the mean of all vectors.
    """

    def __init__(self, record: SourceRecord, words: Sequence[str], table: HalfArray) -> None:
        if table.ndim != 2 or len(table) != len(words) or not table.size:
            msg = f"vectors of shape {table.shape} for {len(words):,} words"
            raise ModelFormatError(f"{msg}, expected one for each word")
        if not np.isfinite(table).all():
            raise ModelFormatError("word vectors with numbers that are not finite")
        super().__init__(record, table.shape[1])
        self.words, self.table = tuple(words), table
        self._row = {word: row for row, word in reversed(list(enumerate(words)))}
        self._mean = as_half(table.mean(axis=0, dtype=np.float64))

    @classmethod
    def of_file(cls, path: str | Path, bits: int = 32) -> Self:
        """The vectors of a file: text with one word and its numbers per line, or safetensors.

        With fewer than 32 bits, the files of models that read them hold them.
        """
        path = Path(path)
        if path.suffix == ".safetensors":
            words, table = _of_tensors(path)
        else:
            words, table = _of_text(path)
        record = SourceRecord(
            "vectors",
            path.name,
            sha256(path),
            bits=min(bits, 16) if bits < 32 else 32,
            path=str(path.absolute()),
        )
        return cls(record, words, table)

    def read(self, words: Sequence[str]) -> HalfArray:
        """Vectors of the words of a sentence, [n, width]."""
        found = np.empty((len(words), self.width), np.float16)
        for k, word in enumerate(map(plain_word, words)):
            row = self._row.get(word)
            row = self._row.get(word.lower()) if row is None else row
            found[k] = self._mean if row is None else self.table[row]
        return found

    @property
    def n_bytes(self) -> int:
        """Bytes of the table."""
        return self.table.nbytes

    def to_arrays(self) -> Arrays:
        """Arrays of a model file: the table, and words with line ends between them."""
        text = "\n".join(self.words).encode("utf-8", "replace")
        return {"table": self.table, "words": np.frombuffer(text, np.uint8)}

    @classmethod
    def from_arrays(cls, record: SourceRecord, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The vectors that a model file holds."""
        words = arrays["words"].tobytes().decode("utf-8", "replace").split("\n")
        return cls(record, words, as_half(arrays["table"]))


def _of_tensors(path: Path) -> tuple[list[str], HalfArray]:
    """Words and vectors of a safetensors file with `words` (text of bytes) and a matrix."""
    hint = "it has a matrix of vectors, and `words` as bytes of UTF-8 with line ends between them"
    try:
        tensors = read_safetensors(path)
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{path}: no safetensors file ({error})", hint=hint) from error
    words = tensors.pop("words", None)
    tables = [array for array in tensors.values() if array.ndim == 2 and array.dtype.kind == "f"]
    if words is None or words.dtype != np.uint8 or len(tables) != 1:
        raise ModelFormatError(f"{path}: no file of word vectors", hint=hint)
    return words.tobytes().decode("utf-8", "replace").split("\n"), as_half(tables[0])


def _of_text(path: Path) -> tuple[list[str], HalfArray]:
    """Words and vectors of a text file, whose first line may have the sizes."""
    words: list[str] = []
    rows: list[HalfArray] = []
    width = 0
    with open_text(path) as lines:
        numbered = enumerate(islice(_after_sizes(lines), MOST_STATIC_WORDS), 1)
        for number, line in counted(numbered, "word vectors", unit="word"):
            parts = line.rstrip().split(" ")
            width = width or len(parts) - 1
            if len(parts) <= width or not 1 <= width <= _MOST_WIDTH:
                msg = f"{path}, vector {number}: {len(parts) - 1} numbers, expected {width or 1}"
                raise CorpusError(msg, hint="each line has a word and its numbers, as fastText, "
                                  "GloVe and word2vec write them as text")  # fmt: skip
            words.append(" ".join(parts[:-width]))  # words of some files have blanks
            rows.append(_numbers(parts[-width:], f"{path}, vector {number}"))
    if not words:
        raise CorpusError(f"{path}: no word vectors", hint="give a file with one word per line")
    return words, np.stack(rows)


def _numbers(parts: list[str], place: str) -> HalfArray:
    try:
        row = np.array(parts, np.float32)
    except ValueError as error:
        hint = "each line has a word and its numbers with blanks between them"
        raise CorpusError(f"{place}: {error}", hint=hint) from error
    return as_half(row)


def _after_sizes(lines: Iterable[str]) -> Iterator[str]:
    """Lines with vectors: the first line of word2vec and fastText has two sizes instead."""
    for number, line in enumerate(lines):
        parts = line.split()
        is_sizes = number == 0 and len(parts) == 2 and all(part.isdigit() for part in parts)
        if not is_sizes and line.strip():
            yield line
