"""Words as a network sees them: the word itself where it is familiar, and hashes of its form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sapwood.core.arrays import place_among, starts_of
from sapwood.corpora.word_properties import COLUMN, N_OF_FORM, form_properties
from sapwood.networks.encoder import Lookup
from sapwood.networks.network import N_SPECIAL
from sapwood.networks.parameters import Real

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Places = npt.NDArray[np.int64]
T = TypeVar("T")
ROOT, UNKNOWN = 0, 1  # rows of the table of word vectors before those of familiar words
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, of 64 bits: products with it fill the upper bits
_KEPT = 30_000  # forms that are remembered, about 0.5 kB each


class WordPlaces:
    """Where the vectors of words and of their forms lie in tables.

    Parameters
    ----------
    familiar
        Hashes of lower-case words with a vector of their own, sorted.
    bits
        The table of forms has two to this power rows.
    """

    def __init__(self, familiar: npt.NDArray[np.uint32], bits: int) -> None:
        self.familiar, self.bits = familiar, bits
        self._known: dict[str, tuple[int, Places]] = {}

    def of(self, forms: Sequence[str]) -> tuple[Places, Places]:
        """Row of each word among words, and its rows among forms, shape [n, N_OF_FORM]."""
        known = self._known
        missing = [form for form in dict.fromkeys(forms) if form not in known]
        if len(known) + len(missing) > _KEPT:
            known.clear()
            missing = list(dict.fromkeys(forms))
        if missing:
            properties = form_properties(missing)
            places = place_among(properties[:, COLUMN["L"]], self.familiar)
            word = np.where(places >= 0, places + N_SPECIAL, UNKNOWN).tolist()
            known.update(zip(missing, zip(word, self._hash(properties), strict=True), strict=True))
        found = [known[form] for form in forms]
        words = np.array([word for word, _ in found], np.int64)
        return words, np.array([rows for _, rows in found], np.int64).reshape(-1, N_OF_FORM)

    def _hash(self, properties: npt.NDArray[np.uint64]) -> Places:
        mixed = (properties << np.uint64(4)) | np.arange(N_OF_FORM, dtype=np.uint64)
        places: Places = ((mixed * _SPREAD) >> np.uint64(64 - self.bits)).astype(np.int64)
        return places


class SentenceWords(NamedTuple):
    """Places of the vectors of the words of sentences, each behind the root.

    A sentence may have a second root behind it, which marks its end.

    Attributes
    ----------
    starts : [n_sentences + 1]
        First row of each sentence.
    word : [n]
    forms : [n, n_each]
    """

    starts: Places
    word: Places
    forms: Places

    @classmethod
    def of(
        cls, places: WordPlaces, sentences: Sequence[Sequence[str]], *, has_end: bool = False
    ) -> SentenceWords:
        """Of sentences of words."""
        word, forms = places.of([form for sentence in sentences for form in sentence])
        starts = starts_of([len(sentence) + 1 + has_end for sentence in sentences])
        is_word = np.ones(starts[-1], bool)
        is_word[starts[:-1]] = False
        if has_end:
            is_word[starts[1:] - 1] = False
        out = np.full(len(is_word), ROOT), np.full((len(is_word), forms.shape[1]), -1)
        out[0][is_word], out[1][is_word] = word, forms
        return cls(starts, *out)


def one_blas_thread(results: Iterable[T]) -> Iterator[T]:
    """The same results; while they are made, matrix products take one thread each: ours are more.

    Examples
    --------
    >>> list(one_blas_thread(iter([1, 2])))
    [1, 2]
    """
    with blas_of_one_thread():
        yield from results


class _BlasLimit:
    """Limits matrix products to one thread while any of several threads is inside.

    Setting the limit on the way in and the old number on the way out is wrong for overlapping
    users: the second would restore the limit of the first. The first in sets it, the last out
    restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._restore: Callable[[], None] | None = None

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        """The libraries of NumPy and of the kernels; finding them takes milliseconds."""
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


_LIMIT = _BlasLimit()


def blas_of_one_thread() -> AbstractContextManager[None]:
    """A context in which matrix products use one thread each, those of kernels too.

    The products of a sentence are small: with more threads, most of the processor time goes into
    waiting for each other. Any number of threads may be inside at once.
    """
    return _LIMIT


def look_up(table: Real, places: Places) -> tuple[Lookup, Places]:
    """Rows of a table that words take, and their numbers.

    Parameters
    ----------
    places : [n, n_each]
        Rows of each word; negative numbers for none.
    """
    rows, column = np.unique(places, return_inverse=True)
    column = column.reshape(places.shape)
    counted = np.ones(places.shape, table.dtype)
    if len(rows) and rows[0] < 0:
        counted[places < 0] = 0
        rows[0] = rows[-1] if len(rows) > 1 else 0  # of no effect: taken 0 times
    starts = np.arange(0, places.size + 1, places.shape[1])
    words = sp.csr_array((counted.ravel(), column.ravel(), starts), shape=(len(places), len(rows)))
    return Lookup(words, table[rows]), rows
