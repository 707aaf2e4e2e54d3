"""`VectorStore`: the vectors of a treebank's sentences, made once and kept on disk in 16 bits.

A source has a folder, and in it files of some thousand words each, written whole or not at all:
an interrupted run continues after the last file. Sentences are found by a hash of their words, so
that folds, other networks and later trainings share them. Files that were damaged are made again.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.outputs import explain_disk_errors, replacing
from sapwood.core.progress import step
from sapwood.corpora.fetch import default_folder
from sapwood.networks.network import one_blas_thread
from sapwood.networks.pretrained.source import HalfArray, WordSource

FILE_BYTES = 32e6  # of vectors in one file
RESIDENT_BYTES = 128e6  # of vectors that are in memory at once
_KEY_BYTES, _SUFFIX = 16, ".vectors"
_MAGIC = b"sapwood vectors 1\n"


class _Mapped:
    """The vectors of a file, mapped into memory, of which only what is used stays there."""

    def __init__(self, path: Path, start: int, shape: tuple[int, int]) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        found = np.frombuffer(self._map, np.float16, shape[0] * shape[1], start)
        self.vectors: HalfArray = found.reshape(shape)

    def release(self) -> None:
        """Give back the memory of what was read; it is read again where it is asked for."""
        if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
            self._map.madvise(mmap.MADV_DONTNEED)


class _Place(NamedTuple):
    file: _Mapped
    start: int
    end: int

    @property
    def vectors(self) -> HalfArray:
        return self.file.vectors[self.start : self.end]


class VectorStore:
    """Vectors of sentences by a source, on disk.

    Parameters
    ----------
    folder
        None for a folder in the cache of Sapwood, which `SAPWOOD_HOME` moves.
    """

    def __init__(self, source: WordSource, folder: Path | None = None) -> None:
        self.source = source
        home = default_folder() / "vectors" if folder is None else folder
        self.folder = home / blake2b(source.record.key.encode(), digest_size=12).hexdigest()
        self._places: dict[bytes, _Place] = {}

    def sentences(self, sentences: Sequence[Sequence[str]], jobs: int = 1) -> StoredVectors:
        """The vectors of sentences; those that are not on disk are made and kept."""
        keys = [_key_of(words) for words in sentences]
        self._read_files()
        new = {key: k for k, key in enumerate(keys) if key not in self._places}
        if new:
            self._make([(key, sentences[k]) for key, k in new.items()], jobs)
        return StoredVectors([self._places[key] for key in keys])

    def _read_files(self) -> None:
        """Find the sentences of all files; a damaged file has none."""
        paths = sorted(self.folder.glob(f"*{_SUFFIX}")) if self.folder.is_dir() else []
        for path in paths:
            self._places |= _read_file(path, self.source.width)

    def _make(self, sentences: list[tuple[bytes, Sequence[str]]], jobs: int) -> None:
        with explain_disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        most = max(1, int(FILE_BYTES / (2 * self.source.width)))
        with (
            one_blas_thread(),
            ThreadPoolExecutor(max(jobs, 1)) as pool,
            step("vectors", total=len(sentences), unit="sentence") as advance,
        ):
            done = 0
            for part in _cut([len(words) for _, words in sentences], most):
                chosen = sentences[part]
                found = []
                for vectors in pool.map(self.source.read, [words for _, words in chosen]):
                    found.append(vectors)
                    done += 1
                    advance(done)
                path = _write_file(self.folder, [key for key, _ in chosen], found)
                self._places |= _read_file(path, self.source.width)


class StoredVectors:
    """Vectors of some sentences, read from disk on demand.

    The memory of vectors that were read is released after every `RESIDENT_BYTES` of them.
    """

    def __init__(self, places: list[_Place]) -> None:
        self._places, self._n_read = places, 0
        self._files = {id(place.file): place.file for place in places}
        self._release()

    def of(self, k: int) -> HalfArray:
        """Vectors of the words of a sentence, [n, width]."""
        found = self._places[k].vectors
        self._n_read += found.nbytes
        if self._n_read > RESIDENT_BYTES:
            self._release()
        return found

    def _release(self) -> None:
        self._n_read = 0
        for file in self._files.values():
            file.release()

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means of the numbers of all words' vectors, and of their squares."""
        n, total, squares = 0, 0.0, 0.0
        for k in range(len(self._places)):
            one = self.of(k).astype(np.float64)
            n += len(one)
            total, squares = total + one.sum(axis=0), squares + (one * one).sum(axis=0)
        return np.asarray(total / max(n, 1)), np.asarray(squares / max(n, 1))


def _key_of(words: Sequence[str]) -> bytes:
    text = "\x1f".join(words).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_KEY_BYTES).digest()


def _cut(lengths: list[int], most: int) -> Iterator[slice]:
    """Runs of sentences with a limited number of words.

    >>> list(_cut([3, 4, 9, 1], 7))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, n = 0, 0
    for k, length in enumerate(lengths):
        if n and n + length > most:
            yield slice(first, k)
            first, n = k, 0
        n += length
    if lengths:
        yield slice(first, len(lengths))


def _write_file(folder: Path, keys: list[bytes], found: list[HalfArray]) -> Path:
    """Write a file of vectors, whole or not at all: sizes, keys, lengths, checksum, vectors."""
    vectors = np.concatenate(found)
    sizes = np.array([len(keys), *vectors.shape], "<i8").tobytes()
    lengths = np.array([len(one) for one in found], "<i8").tobytes()
    head = _MAGIC + sizes + b"".join(keys) + lengths
    check = np.array([zlib.crc32(vectors.data, zlib.crc32(head))], "<u4").tobytes()
    path = folder / (blake2b(b"".join(keys), digest_size=8).hexdigest() + _SUFFIX)
    with replacing(path) as part, part.open("wb") as file:
        file.write(head + check)
        file.write(vectors.data)
    return path


def _read_file(path: Path, width: int) -> dict[bytes, _Place]:
    """Places of the sentences of a file by their keys; none where the file is damaged."""
    start = len(_MAGIC) + 24
    try:
        with path.open("rb") as file:
            head = file.read(start)
            n, n_words, found_width = np.frombuffer(head[len(_MAGIC) :], "<i8").tolist()
            bytes_behind = 4 + 2 * n_words * found_width
            size = path.stat().st_size
            is_right = head.startswith(_MAGIC) and found_width == width and min(n, n_words) >= 0
            if not is_right or size != start + n * (_KEY_BYTES + 8) + bytes_behind:
                return {}
            rest = file.read(n * (_KEY_BYTES + 8))
            check = int.from_bytes(file.read(4), "little")
        ends = np.cumsum(np.frombuffer(rest[n * _KEY_BYTES :], "<i8")).tolist()
        mapped = _Mapped(path, start + len(rest) + 4, (n_words, width))
    except (OSError, ValueError):
        return {}
    found = zlib.crc32(mapped.vectors.data, zlib.crc32(head + rest))
    mapped.release()
    if (ends or [0])[-1] != n_words or found != check:
        return {}
    keys = [rest[k * _KEY_BYTES : (k + 1) * _KEY_BYTES] for k in range(n)]
    places = zip([0, *ends], ends, strict=False)
    return {key: _Place(mapped, *place) for key, place in zip(keys, places, strict=True)}
