"""`Network`: the weights of an encoder and of the scores built on it, as a file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.corpora.vocabulary import N_OF_FORM, PROPERTIES
from sapwood.networks.encoder import (
    N_SPECIAL,
    EncoderSizes,
    Encoding,
    SentenceRows,
    VectorRows,
    encode,
    look_up,
)
from sapwood.networks.layers import Packing, Parameters, Real, pack_sentences

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Shapes = dict[str, tuple[int, ...]]
# the properties of a word's letters whose hashes choose form vectors
FORM_PROPERTIES = np.frombuffer(PROPERTIES[:N_OF_FORM].encode(), np.uint8)


@dataclass(frozen=True, eq=False)
class Network:
    """Weights of a network that reads sentences, with values of float16 as in its file."""

    familiar: npt.NDArray[np.uint32]  # sorted hashes of lower-case words with a vector
    word_vectors: npt.NDArray[np.float32]  # of the root, unknown words, familiar words
    form_vectors: npt.NDArray[np.float32]  # of affixes and shapes; 2^k of them
    weights: Parameters

    @property
    def form_bits(self) -> int:
        """Base-2 logarithm of the number of form vectors."""
        return len(self.form_vectors).bit_length() - 1

    def rounded(self) -> Network:
        """The network with weights rounded to float16."""
        weights = self.weights.empty_like()
        weights.flat[:] = _half(self.weights.flat)
        words, forms = _half(self.word_vectors), _half(self.form_vectors)
        return Network(self.familiar, words.astype(np.float32), forms.astype(np.float32), weights)

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a model file, their names after the network's."""
        tables = {"words": self.word_vectors, "forms": self.form_vectors} | dict(self.weights)
        arrays: dict[str, npt.NDArray[Any]] = {
            f"{name}.familiar": self.familiar, f"{name}.properties": FORM_PROPERTIES,
        }  # fmt: skip
        return arrays | {f"{name}.{key}": _half(table) for key, table in tables.items()}

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, npt.NDArray[Any]],
        n_tags: int,
        head_shapes: Callable[[Mapping[str, npt.NDArray[Any]], int], Shapes],
    ) -> Network:
        """The network of a model file, after a check of its arrays.

        `head_shapes` gives the shapes of the weights above the encoder.
        """
        found = {
            key.removeprefix(f"{name}."): table
            for key, table in arrays.items()
            if key.startswith(f"{name}.")
        }
        familiar, properties = found.pop("familiar"), found.pop("properties")
        if not np.array_equal(properties, FORM_PROPERTIES):
            msg = "the network reads words by other affixes than this version of Sapwood"
            raise ModelFormatError(msg, hint="train it again")
        require_type(familiar, f"{name}.familiar", np.uint32, 1)
        for key, table in found.items():
            require_type(table, f"{name}.{key}", np.float16, table.ndim)
            if not np.isfinite(table).all():
                raise ModelFormatError(f"{name}.{key} has numbers that are not finite")
        words, forms = found.pop("words"), found.pop("forms")
        state = len(found["first.forwards.U"])
        sizes = EncoderSizes(words.shape[-1], forms.shape[-1], found["tag.E"].shape[-1], state)
        shapes = sizes.shapes(n_tags) | head_shapes(found, 2 * state)
        if lacking := shapes.keys() - found:
            msg = f"the network has no {name}.{min(lacking)}, which this version of Sapwood reads"
            raise ModelFormatError(msg, hint="train it again")
        actual = {key: table.shape for key, table in found.items()}
        wrong = [key for key in {*shapes, *actual} if shapes.get(key) != actual.get(key)]
        if words.shape != (len(familiar) + N_SPECIAL, sizes.word):
            wrong.append("words")
        if (np.diff(familiar.astype(np.int64)) <= 0).any():
            raise ModelFormatError(f"{name}.familiar is not sorted")
        if forms.ndim != 2 or len(forms) < 2 or len(forms) & (len(forms) - 1):
            wrong.append("forms")
        if wrong:
            msg = f"the network's {name}.{min(wrong)} has a shape that does not fit the others"
            raise ModelFormatError(msg)
        weights = Parameters(shapes)
        for key, table in found.items():
            weights[key][:] = table
        return cls(familiar, words.astype(np.float32), forms.astype(np.float32), weights)


def _half(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    return np.clip(array, -60000, 60000).astype(np.float16)


class SentenceEncoder:
    """Encodes sentences, alone or in batches, with the weights of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._rows = VectorRows(network.familiar, network.form_bits)

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        has_end: bool = False,
        tag_factors: Sequence[Real | None] | None = None,
    ) -> tuple[Encoding, Packing, IntArray]:
        """The encoding of sentences behind their roots, its packing, and their starts and ends.

        Sentences stand longest first; the numbers of each are those that it has alone.

        Parameters
        ----------
        has_end
            Whether the ends of sentences are marked by the root too.
        tag_factors
            For each sentence None, or factors of the probabilities of tags in each of its rows,
            [n, n_tags].
        """
        rows = SentenceRows.of(self._rows, sentences, has_end=has_end)
        packing = pack_sentences(np.diff(rows.starts))
        # rows of vectors stand in the order of the packing
        order = np.empty(len(packing.row), np.int64)
        order[packing.row] = np.arange(len(order))
        word = look_up(self.network.word_vectors, rows.word[order, None])[0]
        form = look_up(self.network.form_vectors, rows.forms[order])[0]
        known = None
        if tag_factors is not None and any(one is not None for one in tag_factors):
            given = [(k, one) for k, one in enumerate(tag_factors) if one is not None]
            places = [packing.row[rows.starts[k] : rows.starts[k + 1]] for k, _ in given]
            known = np.concatenate(places), np.concatenate([one for _, one in given])
        encoding = encode(self.network.weights, word, form, packing, tag_factors=known)
        return encoding, packing, rows.starts


class _OneBlasThread:
    """Limits matrix products to one thread while any of several threads is inside.

    The products of a sentence are small: with more threads, most of the processor time goes into
    waiting. The first thread in sets the limit and the last one out restores the old number; were
    each to restore what it found, the second of two that overlap would restore the first's limit.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._restore: Callable[[], None] | None = None

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        """The BLAS of NumPy and that of the kernels; finding them takes milliseconds."""
        from threadpoolctl import ThreadpoolController

        import_module("scipy.linalg.cython_blas")  # what kernels call; only loaded ones are found
        return ThreadpoolController().select(user_api="blas")

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._restore = self._libraries.limit(limits=1).restore_original_limits
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._restore is not None:
                self._restore()


one_blas_thread = _OneBlasThread()


def with_one_blas_thread(results: Iterable[T]) -> Iterator[T]:
    """Yield the results; while they are computed, matrix products take one thread each.

    Examples
    --------
    >>> list(with_one_blas_thread(iter([1, 2])))
    [1, 2]
    """
    with one_blas_thread:
        yield from results
