"""`Network`: its weights, as a file has them, and its encoder of sentences.

The encoder maps each word of a sentence to a state, and predicts tags between its two layers:

word vector, sum of the vectors of its affixes, given vector -> BiLSTM -> tags
                                                  BiLSTM's outputs, expected vector of the tag
                                                                   -> BiLSTM -> states

A third BiLSTM may stand above the second; its outputs are added to those that it reads (a residual
connection), and the sums are the states.

A familiar word has a vector of its own; all words share vectors of their affixes and shapes, which
hashes choose. Vectors may also be given, by a pretrained encoder or a file of word vectors
(`sapwood.networks.pretrained`): standardised, and projected to few numbers by a learnt matrix.

Each backward pass follows its forward pass: it takes the gradient of the loss with respect to the
outputs (`d_outputs`), writes that of the weights into G, and returns that of the inputs.

Rows of a batch are ordered by time step: the first words of all sentences, then the second words of
the sentences that have one, and so on. Sentences are sorted longest first, so the rows of a step
belong to the first sentences, a step is a range of rows, and no row is padding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.core.compiling import kernel_calls
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.corpora.vocabulary import N_OF_FORM, PROPERTIES, form_properties, hash_of

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from sapwood.networks.pretrained.source import GivenVectors

T = TypeVar("T")
Real = npt.NDArray[Any]  # float32 in use, float64 in tests of gradients
Shapes = dict[str, tuple[int, ...]]
LAYER_1, LAYER_2, LAYER_3 = LAYERS = "first", "second", "third"  # names of the encoder's layers
GIVEN_W, GIVEN_B = "given.W", "given.b"  # the projection of given vectors
N_SPECIAL = 2  # special word vectors come first: the root, the unknown word
# the properties of a word's letters whose hashes choose form vectors
FORM_PROPERTIES = np.frombuffer(PROPERTIES[:N_OF_FORM].encode(), np.uint8)
# A Hangul syllable has two or three letters: Korean stems and endings often meet inside one.
LETTER_ENDINGS = (1, 3, 4, 6)  # letters of the endings that networks of Korean read besides
_LETTERS_OF_HANGUL = b"6789"  # these endings among the properties of a file
HANGUL_PROPERTIES = np.append(FORM_PROPERTIES, np.frombuffer(_LETTERS_OF_HANGUL, np.uint8))
_HANGUL = re.compile("[\uac00-\ud7a3]")


class Parameters(dict[str, Real]):
    """Arrays by name, concatenated in one vector.

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
    """Sizes of the vectors of words, of their forms and of tags, and of an LSTM's state.

    Given vectors have `given` numbers, 0 for none, and are projected to `projected`. There are two
    or three `layers` of LSTMs.
    """

    word: int = 100
    form: int = 100
    tag: int = 50
    state: int = 200
    given: int = 0
    projected: int = 128
    layers: int = 2

    def shapes(self, n_tags: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all arrays but the tables of word and form vectors."""
        h = self.state
        shapes: dict[str, tuple[int, ...]] = {}
        first = self.word + self.form
        if self.given:
            first += self.projected
            shapes |= {GIVEN_W: (self.given, self.projected), GIVEN_B: (self.projected,)}
        widths = first, 2 * h + self.tag, 2 * h
        for layer, width in zip(LAYERS[: self.layers], widths, strict=False):
            for direction in ("forwards", "backwards"):
                name = f"{layer}.{direction}"
                shapes |= {f"{name}.W": (width, 4 * h), f"{name}.U": (h, 4 * h)}
                shapes |= {f"{name}.b": (4 * h,)}
        return shapes | {
            "tag.W": (2 * h, n_tags), "tag.b": (n_tags,), "tag.E": (n_tags, self.tag),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Network:
    """Weights of a network that reads sentences, rounded as in its file.

    Matrices have 8 bits a number and a scale for each row, as `sapwood.networks.rounding` says, or
    16 bits (float16); vectors have 16 bits in any case.
    """

    familiar: npt.NDArray[np.uint32]  # sorted hashes of lower-case words with a vector
    word_vectors: npt.NDArray[np.float32]  # of the root, unknown words, familiar words
    form_vectors: npt.NDArray[np.float32]  # of affixes and shapes; 2^k of them
    weights: Parameters
    bits: int = 16
    given: GivenVectors | None = None
    splits_hangul: bool = False  # whether forms are also endings by letters of Hangul

    @property
    def rows(self) -> VectorRows:
        """Finds the rows of words and of their forms in the tables of vectors."""
        n_forms = len(self.form_vectors)
        return VectorRows(self.familiar, n_forms, splits_hangul=self.splits_hangul)

    @property
    def properties(self) -> npt.NDArray[np.uint8]:
        """The letters of the properties whose hashes choose form vectors."""
        return HANGUL_PROPERTIES if self.splits_hangul else FORM_PROPERTIES

    @property
    def tables(self) -> dict[str, Real]:
        """All arrays of numbers by name: the two tables of vectors, and the weights."""
        return {"words": self.word_vectors, "forms": self.form_vectors} | dict(self.weights)

    @property
    def n_weights(self) -> int:
        """Numbers in its file in 16 bits, hashes of words included."""
        n_hashes = self.familiar.size + self.properties.size
        return n_hashes + sum(table.size for table in self.tables.values())

    def rounded(self, bits: int = 16) -> Network:
        """The network with weights rounded to a number of bits, 8 or 16."""
        from sapwood.networks.rounding import round_rows

        rounded = {
            key: round_rows(table) if bits == 8 and table.ndim == 2
            else _half(table).astype(np.float32)
            for key, table in self.tables.items()
        }  # fmt: skip
        weights = self.weights.empty_like()
        for key, table in weights.items():
            table[:] = rounded[key]
        words, forms = rounded["words"], rounded["forms"]
        return replace(
            self, word_vectors=words, form_vectors=forms, weights=weights, bits=bits
        )  # fmt: skip

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a model file, their names after the network's."""
        from sapwood.networks.rounding import encode_rows

        arrays: dict[str, npt.NDArray[Any]] = {
            f"{name}.familiar": self.familiar, f"{name}.properties": self.properties,
        }  # fmt: skip
        for key, table in self.tables.items():
            if self.bits == 8 and table.ndim == 2:
                arrays |= encode_rows(f"{name}.{key}", table)
            else:
                arrays[f"{name}.{key}"] = _half(table)
        if self.given is not None:
            arrays |= {f"{name}.{key}": array for key, array in self.given.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, npt.NDArray[Any]],
        n_tags: int,
        head_shapes: Callable[[Mapping[str, npt.NDArray[Any]], int], Shapes],
        given: GivenVectors | dict[str, Any] | None = None,
    ) -> Network:
        """The network of a model file, after a check of its arrays.

        `head_shapes` gives the shapes of the weights above the encoder; `given` is the record of
        the source of given vectors in the file's header, or vectors that another network of the
        file has as well, or None for no such vectors.
        """
        found = {
            key.removeprefix(f"{name}."): table
            for key, table in arrays.items()
            if key.startswith(f"{name}.")
        }
        if given is not None:
            from sapwood.networks.pretrained.source import GivenVectors

            if not isinstance(given, GivenVectors):
                given = GivenVectors.from_arrays(given, found)
        familiar, properties = found.pop("familiar"), found.pop("properties")
        splits_hangul = np.array_equal(properties, HANGUL_PROPERTIES)
        if not splits_hangul and not np.array_equal(properties, FORM_PROPERTIES):
            msg = "the network reads words by other affixes than this version of Sapwood"
            raise ModelFormatError(msg, hint="train it again")
        require_type(familiar, f"{name}.familiar", np.uint32, 1)
        found, bits = _decode(name, found, len(familiar) + N_SPECIAL)
        words, forms = found.pop("words"), found.pop("forms")
        state = len(found["first.forwards.U"])
        sizes = EncoderSizes(words.shape[-1], forms.shape[-1], found["tag.E"].shape[-1], state)
        if given is not None:
            sizes = sizes._replace(given=len(given.mean), projected=found[GIVEN_W].shape[-1])
        if f"{LAYER_3}.forwards.W" in found:
            sizes = sizes._replace(layers=3)
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
        words, forms = words.astype(np.float32, copy=False), forms.astype(np.float32, copy=False)
        return cls(familiar, words, forms, weights, bits, given, splits_hangul)


def _decode(
    name: str, found: Mapping[str, npt.NDArray[Any]], n_words: int
) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """The arrays of a file as numbers, after a check of each, and the bits of its matrices."""
    from sapwood.networks.rounding import CODES, KEPT, SCALES, decode_rows

    parts = tuple(f".{part}" for part in (CODES, SCALES, KEPT))
    whole = {key: table for key, table in found.items() if not key.endswith(parts)}
    for key, table in whole.items():
        require_type(table, f"{name}.{key}", np.float16, table.ndim)
        if not np.isfinite(table).all():
            raise ModelFormatError(f"{name}.{key} has numbers that are not finite")
    in_8_bits = {key.rpartition(".")[0] for key in found.keys() - whole}
    coded = {key: decode_rows(key, found, n_words if key == "words" else None)
             for key in sorted(in_8_bits)}  # fmt: skip
    if (coded and any(table.ndim == 2 for table in whole.values())) or whole.keys() & coded.keys():
        raise ModelFormatError(f"{name} has some matrices in 8 bits and others in 16")
    return whole | coded, 8 if coded else 16


def _half(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    return np.clip(array, -60000, 60000).astype(np.float16)


_lock = Lock()
_limits: list[Any] = []  # one for each thread inside; all of them are that of the first


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread while any of several threads is inside.

    The products of a sentence are small: with more threads, most of the processor time is spent
    waiting. The first thread to enter sets the limit and the last to leave restores the old number;
    if each restored the number that it found, the second of two overlapping threads would restore
    the limit of the first.
    """
    with _lock:
        calls_blas = not kernel_calls.is_only_one
        _limits.append(_limits[0] if _limits else _blas(calls_blas=calls_blas).limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def _blas(*, calls_blas: bool) -> ThreadpoolController:
    """The BLAS of NumPy and that of compiled kernels; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    if calls_blas:
        import_module("scipy.linalg.cython_blas")  # what kernels call; only loaded ones are found
    return ThreadpoolController().select(user_api="blas")


def with_one_blas_thread(results: Iterable[T]) -> Iterator[T]:
    """Yield the results; matrix products use one thread while they are computed.

    Examples
    --------
    >>> list(with_one_blas_thread(iter([1, 2])))
    [1, 2]
    """
    with one_blas_thread():
        yield from results


Mask = Real | float  # of dropout; 1.0 without
ROOT_ROW, UNKNOWN_ROW = 0, 1  # word vectors before those of familiar words
_ODD = np.uint64(0x9E3779B97F4A7C15)  # odd, of 64 bits: products with it fill the upper bits
_CACHED_FORMS = 30_000  # about 0.5 kB each


def glorot_uniform(array: Real, rng: np.random.Generator) -> None:
    """Fill a matrix with random numbers in the interval of Glorot and Bengio (2010)."""
    limit = (6 / (array.shape[-2] + array.shape[-1])) ** 0.5
    array[:] = rng.uniform(-limit, limit, array.shape)


def init_encoder(
    shapes: Mapping[str, tuple[int, ...]],
    rng: np.random.Generator,
    dtype: npt.DTypeLike = np.float32,
) -> Parameters:
    """Parameters with random weights: orthogonal recurrent matrices, forget gates open."""
    P = Parameters(shapes, dtype)
    for name, array in P.items():
        if name.endswith(".U") and name.startswith(LAYERS):
            h = len(array)
            for k in range(4):
                array[:, k * h : (k + 1) * h] = np.linalg.qr(rng.normal(size=(h, h)))[0]
        elif name.endswith(".E"):
            array[:] = 0.1 * rng.normal(size=array.shape)
        elif name.endswith(".b") and name.startswith(LAYERS):
            array[len(array) // 4 : len(array) // 2] = 1
        elif array.ndim > 1:
            glorot_uniform(array, rng)
    return P


class VectorRows:
    """Finds the rows of words and of their forms in the tables of vectors.

    `familiar` are sorted hashes of lower-case words with a vector of their own; the table of forms
    has `n_forms` rows, a power of two. With `splits_hangul`, forms of Korean words are also their
    endings by letters.
    """

    def __init__(
        self, familiar: npt.NDArray[np.uint32], n_forms: int, *, splits_hangul: bool = False
    ) -> None:
        self.familiar, self.bits = familiar, n_forms.bit_length() - 1
        self.splits_hangul = splits_hangul
        self.n_properties = N_OF_FORM + splits_hangul * len(LETTER_ENDINGS)
        self._cache: dict[str, tuple[int, IntArray]] = {}

    def rows(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Row of each word, [n], and its rows in the table of forms, [n, n_properties].

        Rows are -1 for properties that a word has not.
        """
        cache = self._cache
        missing = [word for word in dict.fromkeys(words) if word not in cache]
        if len(cache) + len(missing) > _CACHED_FORMS:
            cache.clear()
            missing = list(dict.fromkeys(words))
        if missing:
            properties, index = form_properties(missing, self.familiar)
            word = np.where(index >= 0, index + N_SPECIAL, UNKNOWN_ROW).tolist()
            if self.splits_hangul:
                properties = np.concatenate([properties, letter_endings(missing)], axis=1)
            mixed = (properties << np.uint64(4)) | np.arange(self.n_properties, dtype=np.uint64)
            forms = ((mixed * _ODD) >> np.uint64(64 - self.bits)).astype(np.int64)
            forms[properties == 0] = -1
            cache.update(zip(missing, zip(word, forms, strict=True), strict=True))
        found = [cache[word] for word in words]
        word_rows = np.array([word for word, _ in found], np.int64)
        forms = np.array([forms for _, forms in found], np.int64)
        return word_rows, forms.reshape(-1, self.n_properties)


def has_hangul(word: str) -> bool:
    """Whether a word is written in syllables of Hangul, at least in part.

    >>> has_hangul("먹었다"), has_hangul("eat")
    (True, False)
    """
    return _HANGUL.search(word) is not None


def letter_endings(words: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hashes of the endings of words by letters of Hangul, [n, 4]; 0 for words without Hangul.

    Examples
    --------
    >>> eats, saw = letter_endings(["갔다", "봤다"])  # both end in the letters of "ㅆ다"
    >>> (eats == saw).tolist()
    [True, True, False, False]
    """
    found = np.zeros((len(words), len(LETTER_ENDINGS)), np.uint64)
    for k, word in enumerate(words):
        if has_hangul(word):
            letters = normalize("NFD", word)
            found[k] = [hash_of(letters[-length:]) for length in LETTER_ENDINGS]
    return found


class SentenceRows(NamedTuple):
    """Rows of the vectors of sentences, each of which starts with the root."""

    starts: IntArray  # first word of each sentence, [n_sentences + 1]
    word: IntArray  # [n]
    forms: IntArray  # [n, n_properties]

    @classmethod
    def of(
        cls, rows: VectorRows, sentences: Sequence[Sequence[str]], *, has_end: bool = False
    ) -> SentenceRows:
        """Look up sentences; `has_end` also marks their ends by the root."""
        word, forms = rows.rows([word for sentence in sentences for word in sentence])
        starts = np.cumsum([0, *(len(sentence) + 1 + has_end for sentence in sentences)])
        is_word = np.ones(starts[-1], bool)
        is_word[starts[:-1]] = False
        if has_end:
            is_word[starts[1:] - 1] = False
        out = np.full(len(is_word), ROOT_ROW), np.full((len(is_word), forms.shape[1]), -1)
        out[0][is_word], out[1][is_word] = word, forms
        return cls(starts, *out)


class RowSums(NamedTuple):
    """The rows of a table that each word takes, [n, n_each]; negative numbers stand for none.

    Its product with the table is that of a sparse matrix, bit for bit; SciPy's takes longer to load
    than a sentence to read.

    >>> RowSums(np.array([[0, 2], [1, -1]])) @ np.array([[1.0], [2.0], [4.0]])
    array([[5.],
           [2.]])
    """

    rows: IntArray

    def __matmul__(self, table: Real) -> Real:
        total = np.zeros((len(self.rows), table.shape[1]), table.dtype)
        for column in self.rows.T:
            np.add(total, table[column], out=total, where=(column >= 0)[:, None])
        return total


class Lookup(NamedTuple):
    """The vectors of a batch: each word takes a sum of some rows of a table."""

    # RowSums, or for gradients a sparse matrix, [n, n_vectors]: how often a word takes a vector
    words: Any
    vectors: Real  # [n_vectors, width]


def look_up(table: Real, rows: IntArray) -> tuple[Lookup, IntArray]:
    """The vectors of a table that words use, and their rows in it.

    `rows`, [n, n_each], are those of each word; negative numbers stand for none.
    """
    import scipy.sparse as sp

    distinct, column = np.unique(rows, return_inverse=True)
    column = column.reshape(rows.shape)
    counts = np.ones(rows.shape, table.dtype)
    if len(distinct) and distinct[0] < 0:
        counts[rows < 0] = 0
        distinct[0] = distinct[-1] if len(distinct) > 1 else 0  # any row: it is taken 0 times
    starts = np.arange(0, rows.size + 1, rows.shape[1])
    shape = (len(rows), len(distinct))
    words = sp.csr_array((counts.ravel(), column.ravel(), starts), shape=shape)
    return Lookup(words, table[distinct]), distinct


class Packing(NamedTuple):
    """The order of the rows of a batch of sentences."""

    starts: IntArray  # first row of each step, [n_steps + 1]
    row: IntArray  # row of each word, sentence after sentence, [n]
    sentence: IntArray  # sentence of each row, [n]
    # row of the word as far from the end as this row's word is from the start, [n]
    reverse: IntArray
    before: IntArray  # row of the previous word, for rows of all steps but the first


def pack_sentences(lengths: IntArray) -> Packing:
    """Order the rows of a batch of sentences, longest first.

    Examples
    --------
    >>> packing = pack_sentences(np.array([3, 1]))
    >>> packing.starts.tolist(), packing.row.tolist(), packing.reverse.tolist()
    ([0, 2, 3, 4], [0, 2, 3, 1], [3, 1, 2, 0])
    """
    assert (np.diff(lengths) <= 0).all()
    steps = np.arange(int(lengths[0]) if len(lengths) else 0)
    starts = np.append(0, np.cumsum((lengths[None] > steps[:, None]).sum(axis=1)))
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    time = np.arange(len(sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = starts[time] + sentence
    of_row, reverse, before = (np.empty_like(row) for _ in range(3))
    of_row[row] = sentence
    reverse[row] = starts[lengths[sentence] - 1 - time] + sentence
    before[row] = starts[np.maximum(time - 1, 0)] + sentence
    return Packing(starts, row, of_row, reverse, before[len(lengths) :])


class Dropout(NamedTuple):
    """Draws dropout masks for a batch: 0, or the factor that keeps the expected value."""

    rng: np.random.Generator
    rate: float  # probability that a unit is dropped
    word_rate: float  # likewise, of a word's vector, and of the vector of its form
    packing: Packing

    def sentence_mask(self, width: int) -> Real:
        """One mask for each sentence, repeated for its words, [n, width] (variational dropout)."""
        n = int(self.packing.starts[1])
        kept = self.rng.random((n, width), np.float32) >= self.rate
        mask = kept * np.float32(1 / (1 - self.rate))
        return mask[self.packing.sentence]

    def word_masks(self) -> tuple[Real, Real]:
        """Masks of word and form vectors, [n, 1]: where one is dropped the other counts twice."""
        word, form = self.rng.random((2, len(self.packing.row), 1), np.float32) >= self.word_rate
        scale = (2 / np.maximum(1, word.astype(np.float32) + form)).astype(np.float32)
        return word * scale, form * scale


class LSTMTrace(NamedTuple):
    """What the backward pass of an LSTM needs."""

    inputs: Real
    gates: Real  # [n, 4 h]: input, forget and output gate, candidate values of the cells
    cells: Real
    outputs: Real


def lstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> LSTMTrace:
    """Run an LSTM over sentences from their starts.

    i, f, o = sigmoid, g = tanh of  x W + h' U + b;   c = f c' + i g;   h = o tanh(c)
    """
    from sapwood.networks.kernels.lstm import lstm_steps, row_products

    U = P[name + ".U"]
    gates = row_products(inputs, P[name + ".W"])
    cells, outputs = np.empty((2, len(inputs), len(U)), U.dtype)
    lstm_steps(gates, U, P[name + ".b"], packing.starts, cells, outputs)
    return LSTMTrace(inputs, gates, cells, outputs)


def lstm_backward(
    P: Parameters, G: Parameters, name: str, trace: LSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of an LSTM's weights into G; return that of its inputs."""
    from sapwood.networks.kernels.lstm import lstm_steps_backward

    W, U = P[name + ".W"], P[name + ".U"]
    d_outputs, d_z = np.ascontiguousarray(d_outputs), np.empty_like(trace.gates)
    lstm_steps_backward(trace.gates, trace.cells, d_outputs, U, packing.starts, d_z)
    np.matmul(trace.inputs.T, d_z, out=G[name + ".W"])
    later = d_z[packing.starts[1] :]
    np.matmul(trace.outputs[packing.before].T, later, out=G[name + ".U"])
    np.sum(d_z, axis=0, out=G[name + ".b"])
    d_inputs: Real = d_z @ W.T
    return d_inputs


class BiLSTMTrace(NamedTuple):
    """What the backward pass of a BiLSTM needs; its outputs stand side by side."""

    forwards: LSTMTrace
    backwards: LSTMTrace
    outputs: Real


def bilstm(P: Parameters, name: str, inputs: Real, packing: Packing) -> BiLSTMTrace:
    """Run one LSTM from the starts of sentences and another from their ends."""
    forwards = lstm(P, name + ".forwards", inputs, packing)
    backwards = lstm(P, name + ".backwards", inputs[packing.reverse], packing)
    outputs = np.concatenate([forwards.outputs, backwards.outputs[packing.reverse]], axis=1)
    return BiLSTMTrace(forwards, backwards, outputs)


def bilstm_backward(
    P: Parameters, G: Parameters, name: str, trace: BiLSTMTrace, packing: Packing, d_outputs: Real
) -> Real:
    """Write the gradient of a BiLSTM's weights into G; return that of its inputs."""
    h = d_outputs.shape[1] // 2
    d_forwards, d_backwards = d_outputs[:, :h], d_outputs[packing.reverse, h:]
    d_inputs = lstm_backward(P, G, name + ".forwards", trace.forwards, packing, d_forwards)
    reverse = lstm_backward(P, G, name + ".backwards", trace.backwards, packing, d_backwards)
    d_inputs += reverse[packing.reverse]
    return d_inputs


class Encoding(NamedTuple):
    """The encoder's outputs for a batch, and what its backward pass needs."""

    words: Lookup
    forms: Lookup
    given: Real | None
    vector_masks: tuple[Mask, Mask]
    masks: tuple[Mask, Mask, Mask, Mask]
    first: BiLSTMTrace
    tag_inputs: Real
    tags: Real  # posteriors, [n, n_tags]
    second: BiLSTMTrace
    third: BiLSTMTrace | None
    states: Real  # the outputs of the second layer, plus those of the third, [n, 2 * state]


def encode(
    P: Parameters,
    words: Lookup,
    forms: Lookup,
    packing: Packing,
    dropout: Dropout | None = None,
    tag_factors: tuple[IntArray, Real] | None = None,
    given: Real | None = None,
) -> Encoding:
    """Run the encoder over a batch of sentences, whose outputs do not depend on their batch.

    Parameters
    ----------
    given : [n, given]
        Standardised vectors of the words from a pretrained encoder; 0 for marks.
    tag_factors : [n_known], [n_known, n_tags]
        Constraints on the tags of some rows: tag probabilities are multiplied by them and
        normalised.
    """
    from sapwood.networks.kernels.lstm import row_products

    vector_masks: tuple[Mask, Mask] = (1.0, 1.0)
    masks: tuple[Mask, Mask, Mask, Mask] = (1.0, 1.0, 1.0, 1.0)
    has_third = f"{LAYER_3}.forwards.W" in P
    if dropout is not None:
        vector_masks = dropout.word_masks()
        masked = f"{LAYER_1}.forwards.W", "tag.W", f"{LAYER_2}.forwards.W"
        a, b, c = (dropout.sentence_mask(len(P[name])) for name in masked)
        masks = a, b, c, 1.0
        if has_third:
            masks = a, b, c, dropout.sentence_mask(len(P[f"{LAYER_3}.forwards.W"]))
    vectors = [
        looked.words @ looked.vectors * mask
        for looked, mask in zip((words, forms), vector_masks, strict=True)
    ]
    if given is not None:
        vectors.append(row_products(given, P[GIVEN_W]) + P[GIVEN_B])
    first = bilstm(P, LAYER_1, np.concatenate(vectors, axis=1) * masks[0], packing)
    tag_inputs = first.outputs * masks[1]
    tags = row_products(tag_inputs, P["tag.W"]) + P["tag.b"]
    tags = np.exp(tags - tags.max(axis=1, keepdims=True))
    tags /= tags.sum(axis=1, keepdims=True)
    if tag_factors is not None:
        known, factors = tag_factors
        weighted = np.maximum(tags[known], np.finfo(tags.dtype).tiny) * factors
        tags[known] = weighted / weighted.sum(axis=1, keepdims=True)
    inputs = np.concatenate([first.outputs, row_products(tags, P["tag.E"])], axis=1)
    second = bilstm(P, LAYER_2, inputs * masks[2], packing)
    third, states = None, second.outputs
    if has_third:
        third = bilstm(P, LAYER_3, second.outputs * masks[3], packing)
        states = second.outputs + third.outputs
    drawn = vector_masks, masks
    return Encoding(words, forms, given, *drawn, first, tag_inputs, tags, second, third, states)


def encode_backward(
    P: Parameters,
    G: Parameters,
    encoding: Encoding,
    packing: Packing,
    d_states: Real,
    d_tags: Real,
) -> tuple[Real, Real]:
    """Write the gradient of the encoder's weights into G; return those of word and form vectors.

    `d_tags`, [n, n_tags], is the gradient of the tag scores; the gradient through the states is
    added.
    """
    n_outputs = encoding.first.outputs.shape[1]
    if encoding.third is not None:
        d_third = bilstm_backward(P, G, LAYER_3, encoding.third, packing, d_states)
        d_states = d_states + d_third * encoding.masks[3]
    d_inputs = bilstm_backward(P, G, LAYER_2, encoding.second, packing, d_states)
    d_inputs = d_inputs * encoding.masks[2]
    d_outputs, d_vectors = d_inputs[:, :n_outputs], d_inputs[:, n_outputs:]
    np.matmul(encoding.tags.T, d_vectors, out=G["tag.E"])
    p, d_p = encoding.tags, d_vectors @ P["tag.E"].T
    d_scores = d_tags + p * (d_p - (p * d_p).sum(axis=1, keepdims=True))
    np.matmul(encoding.tag_inputs.T, d_scores, out=G["tag.W"])
    np.sum(d_scores, axis=0, out=G["tag.b"])
    d_outputs = d_outputs + d_scores @ P["tag.W"].T * encoding.masks[1]
    d_inputs = bilstm_backward(P, G, LAYER_1, encoding.first, packing, d_outputs)
    d_inputs = d_inputs * encoding.masks[0]
    n_word = encoding.words.vectors.shape[1]
    n_own = n_word + encoding.forms.vectors.shape[1]
    if encoding.given is not None:
        np.matmul(encoding.given.T, d_inputs[:, n_own:], out=G[GIVEN_W])
        np.sum(d_inputs[:, n_own:], axis=0, out=G[GIVEN_B])
    d_word = d_inputs[:, :n_word] * encoding.vector_masks[0]
    d_form = d_inputs[:, n_word:n_own] * encoding.vector_masks[1]
    return encoding.words.words.T @ d_word, encoding.forms.words.T @ d_form


class SentenceEncoder:
    """Encodes sentences, alone or in batches, with the weights of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._rows = network.rows
        # resolved now: a missing encoder is reported before the first sentence
        self._source = None if network.given is None else network.given.source()

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        has_end: bool = False,
        tag_factors: Sequence[Real | None] | None = None,
    ) -> tuple[Encoding, Packing, IntArray]:
        """The encoding of sentences, each after its root, the packing, and their starts and ends.

        Sentences are sorted longest first; each has the same numbers as when it is encoded alone.

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
        # rows of vectors are in the order of the packing
        order = np.empty(len(packing.row), np.int64)
        order[packing.row] = np.arange(len(order))
        word = Lookup(RowSums(rows.word[order, None]), self.network.word_vectors)
        form = Lookup(RowSums(rows.forms[order]), self.network.form_vectors)
        given = self._given(sentences, packing, rows.starts)
        known = None
        if tag_factors is not None and any(one is not None for one in tag_factors):
            some = [(k, one) for k, one in enumerate(tag_factors) if one is not None]
            places = [packing.row[rows.starts[k] : rows.starts[k + 1]] for k, _ in some]
            known = np.concatenate(places), np.concatenate([one for _, one in some])
        encoding = encode(self.network.weights, word, form, packing, tag_factors=known, given=given)
        return encoding, packing, rows.starts

    def _given(
        self, sentences: Sequence[Sequence[str]], packing: Packing, starts: IntArray
    ) -> Real | None:
        """Standardised vectors of a batch, by rows of the packing; None where none are taken."""
        vectors, source = self.network.given, self._source
        if vectors is None or source is None:
            return None
        found = np.zeros((len(packing.row), source.width), np.float32)
        for words, start in zip(sentences, starts.tolist(), strict=False):
            rows = packing.row[start + 1 : start + 1 + len(words)]
            found[rows] = vectors.standardised(source.vectors(words))
        return found
