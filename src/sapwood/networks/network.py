"""`Network`: the weights of an encoder and of the scores built on it, as a file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.corpora.vocabulary import N_OF_FORM, PROPERTIES

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Real = npt.NDArray[Any]  # float32 in use, float64 in tests of gradients
Shapes = dict[str, tuple[int, ...]]
LAYER_1, LAYER_2 = "first", "second"  # names of the encoder's layers
N_SPECIAL = 2  # word vectors before those of familiar words: of the root, of unknown words
# the properties of a word's letters whose hashes choose form vectors
FORM_PROPERTIES = np.frombuffer(PROPERTIES[:N_OF_FORM].encode(), np.uint8)


class Parameters(dict[str, Real]):
    """Arrays by name, one behind the other in a vector.

    Examples
    --------
    >>> P = Parameters({"W": (2, 3), "b": (3,)})
    >>> P["b"][:] = 1
    >>> P.flat.tolist(), P["W"].shape
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], (2, 3))
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtype: npt.DTypeLike = np.float32,
        make: Callable[..., Real] = np.zeros,
    ) -> None:
        self.shapes = dict(shapes)
        self.flat = make(sum(map(prod, self.shapes.values())), dtype)
        start = 0
        for name, shape in self.shapes.items():
            self[name] = self.flat[start : start + prod(shape)].reshape(shape)
            start += prod(shape)

    def empty_like(self) -> Parameters:
        """Arrays of the same shapes, not initialised."""
        return Parameters(self.shapes, self.flat.dtype, make=np.empty)


class EncoderSizes(NamedTuple):
    """Sizes of the vectors of words, of their forms and of tags, and of an LSTM's state."""

    word: int = 100
    form: int = 100
    tag: int = 50
    state: int = 200

    def shapes(self, n_tags: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all arrays but the tables of word and form vectors."""
        h = self.state
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, width in ((LAYER_1, self.word + self.form), (LAYER_2, 2 * h + self.tag)):
            for direction in ("forwards", "backwards"):
                name = f"{layer}.{direction}"
                shapes |= {f"{name}.W": (width, 4 * h), f"{name}.U": (h, 4 * h)}
                shapes |= {f"{name}.b": (4 * h,)}
        return shapes | {
            "tag.W": (2 * h, n_tags), "tag.b": (n_tags,), "tag.E": (n_tags, self.tag),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Network:
    """Weights of a network that reads sentences, with values of float16 as in its file."""

    familiar: npt.NDArray[np.uint32]  # sorted hashes of lower-case words with a vector
    word_vectors: npt.NDArray[np.float32]  # of the root, unknown words, familiar words
    form_vectors: npt.NDArray[np.float32]  # of affixes and shapes; 2^k of them
    weights: Parameters

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


_lock = Lock()
_limits: list[Any] = []  # one for each thread inside; all of them are that of the first


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread while any of several threads is inside.

    The products of a sentence are small: with more threads, most of the processor time goes into
    waiting. The first thread in sets the limit and the last one out restores the old number; were
    each to restore what it found, the second of two that overlap would restore the first's limit.
    """
    with _lock:
        _limits.append(_limits[0] if _limits else _blas().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of NumPy and that of the kernels; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg.cython_blas")  # what kernels call; only loaded ones are found
    return ThreadpoolController().select(user_api="blas")


def with_one_blas_thread(results: Iterable[T]) -> Iterator[T]:
    """Yield the results; while they are computed, matrix products take one thread each.

    Examples
    --------
    >>> list(with_one_blas_thread(iter([1, 2])))
    [1, 2]
    """
    with one_blas_thread():
        yield from results
