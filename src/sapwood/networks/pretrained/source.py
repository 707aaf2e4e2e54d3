"""`WordSource`: a source of word vectors that were learnt elsewhere.

`PretrainedEncoder` reads whole sentences by a frozen Transformer; `StaticVectors` has one vector
for each word. A model file names its source by a `SourceRecord`, and may hold it. Vectors are of 16
bits everywhere: in training, on disk and when sentences are parsed.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import ModelFormatError, SapwoodError, SapwoodTypeError, describe
from sapwood.networks.pretrained.folder import (
    EncoderParts,
    build_transformer,
    encoder_family,
    read_config,
    read_folder,
)
from sapwood.networks.pretrained.pieces import PieceReader, windows

HalfArray = npt.NDArray[np.float16]
Arrays = dict[str, npt.NDArray[Any]]
LARGEST_HALF = 60_000.0  # of a number of 16 bits
N_JOINED = 4  # layers that are joined unless the user names some
BITS = (32, 16, 8)  # of the weights of an encoder
_CACHED_BYTES = 64e6  # of the vectors of sentences that were read last
_CODES = 127  # largest code of 8 bits
HELD = "pretrained."  # before the names of arrays of a source in a model file
_SCALE = ".scale"  # behind the name of an array of 8 bits, whose rows it multiplies


@dataclass(frozen=True)
class SourceRecord:
    """What a model file says of the source of its vectors.

    Attributes
    ----------
    kind
        `encoder` or `vectors`.
    name, licence, sha256
        Of the folder or file; the licence is empty where it is not known.
    layers
        Layers of an encoder whose hidden states are joined.
    bits
        Bits of a weight of the encoder that the vectors are made with.
    path
        Where the source was when the model was trained.
    """

    kind: str
    name: str
    sha256: str
    licence: str = ""
    layers: tuple[int, ...] = ()
    bits: int = 32
    path: str = ""

    @property
    def key(self) -> str:
        """A key of everything that the vectors depend on."""
        return f"{self.sha256}-{'.'.join(map(str, self.layers))}-{self.bits}"

    @property
    def description(self) -> str:
        """The source for model cards and reports: name, licence, checksum, layers and bits."""
        parts = [f"licence {self.licence}" if self.licence else "licence not known"]
        parts.append(f"SHA-256 {self.sha256}")
        if self.layers:
            parts.append(f"layers {', '.join(map(str, self.layers))}")
        parts.append(f"{self.bits} bits a weight" + (", in this file" if self.bits < 32 else ""))
        return f"{self.name} ({'; '.join(parts)})"

    @property
    def title(self) -> str:
        """The source in words, for messages."""
        what = "encoder" if self.kind == "encoder" else "word vectors"
        return f"{what} {self.name} (SHA-256 {self.sha256[:12]})"

    def as_header(self) -> dict[str, Any]:
        """The record as an entry of a file's header."""
        return asdict(self) | {"layers": list(self.layers)}

    @classmethod
    def from_header(cls, value: Any) -> Self:
        """The record of a file's header, which may be damaged."""
        if not isinstance(value, dict) or value.get("kind") not in ("encoder", "vectors"):
            raise ModelFormatError(f"the source of vectors is {describe(value)}")
        texts = {
            name: value.get(name, "") for name in ("kind", "name", "sha256", "licence", "path")
        }
        layers, bits = value.get("layers", []), value.get("bits", 32)
        is_right = all(isinstance(text, str) for text in texts.values()) and bits in BITS
        is_right = is_right and isinstance(layers, list)
        if not is_right or not all(type(k) is int and 0 <= k < 1000 for k in layers):
            raise ModelFormatError("the record of the source of vectors has impossible entries")
        return cls(**texts, layers=tuple(layers), bits=bits)


class WordSource(ABC):
    """Maps the words of a sentence to vectors of 16 bits; the latest sentences are cached."""

    def __init__(self, record: SourceRecord, width: int) -> None:
        self.record, self.width = record, width
        self.is_held = record.bits < 32  # whether the files of models that read it hold it
        self._cache: OrderedDict[tuple[str, ...], HalfArray] = OrderedDict()
        self._cached_words, self._lock = 0, Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A source is sent to another process as a model file holds it."""
        return _rebuild, (type(self), self.record, self.to_arrays())

    @abstractmethod
    def read(self, words: Sequence[str]) -> HalfArray:
        """Vectors of the words of a sentence, [n, width]; they do not depend on other sentences."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Bytes of the numbers of the source in memory."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """The arrays of a model file that holds the source."""

    def vectors(self, words: Sequence[str]) -> HalfArray:
        """The result of `read`, cached for another network that reads the same sentence."""
        key = tuple(words)
        with self._lock:
            found = self._cache.get(key)
            if found is not None:
                self._cache.move_to_end(key)
                return found
        found = self.read(words)
        with self._lock:
            if key not in self._cache:
                self._cache[key] = found
                self._cached_words += len(found)
            while self._cached_words * self.width * 2 > _CACHED_BYTES and len(self._cache) > 1:
                self._cached_words -= len(self._cache.popitem(last=False)[1])
        return found


def _rebuild(kind: Any, record: SourceRecord, arrays: Arrays) -> WordSource:
    found: WordSource = kind.from_arrays(record, arrays)
    return found


def as_half(array: npt.NDArray[Any]) -> HalfArray:
    """Round numbers to 16 bits."""
    half: HalfArray = np.clip(array, -LARGEST_HALF, LARGEST_HALF).astype(np.float16)
    return half


def usual_layers(n_layers: int) -> tuple[int, ...]:
    """The layers whose hidden states are joined by default: some from the middle one to the last.

    Examples
    --------
    >>> usual_layers(6), usual_layers(12), usual_layers(2)
    ((3, 4, 5, 6), (6, 8, 10, 12), (1, 2))
    """
    spread = np.linspace(max(n_layers // 2, min(1, n_layers)), n_layers, N_JOINED)
    return tuple(np.unique(spread.round().astype(int)).tolist())


class PretrainedEncoder(WordSource):
    """A frozen Transformer: a word's vector is the mean of its pieces' hidden states.

    Parameters
    ----------
    layers
        Layers whose hidden states are joined, 0 for the vectors of pieces; None for `usual_layers`.
    bits
        Bits of a weight: 32 as the folder has them; 16 or 8, and model files hold the encoder.
    path
        Where the parts were read.
    is_rounded
        Whether the weights of the parts are rounded to these bits already.
    """

    def __init__(
        self,
        parts: EncoderParts,
        layers: Sequence[int] | None = None,
        bits: int = 32,
        path: str = "",
        *,
        is_rounded: bool = False,
    ) -> None:
        self.transformer, tensors = build_transformer(parts.config, parts.tensors)
        if bits < 32 and not is_rounded:
            tensors = unpack_tensors(pack_tensors(tensors, bits))
            self.transformer, tensors = build_transformer(parts.config, tensors)
        self.parts = parts = parts._replace(tensors=tensors)
        n_layers = len(self.transformer.blocks)
        chosen = usual_layers(n_layers) if layers is None else tuple(sorted(set(layers)))
        if not chosen or not 0 <= chosen[0] <= chosen[-1] <= n_layers:
            msg = f"the encoder has the layers 0 to {n_layers}, not {describe(layers)}"
            raise SapwoodError(msg, hint="give some of them")
        record = SourceRecord(
            "encoder", parts.name, parts.sha256, parts.licence, chosen, bits, path
        )  # fmt: skip
        super().__init__(record, self.transformer.width * len(chosen))
        self.pieces = PieceReader(parts.tokenizer, len(self.transformer.pieces))
        n_marks = len(self.pieces.before) + len(self.pieces.behind)
        self._room = self.transformer.most - n_marks
        if self._room < 1:
            raise ModelFormatError("the encoder has no positions for the pieces of a word")

    @classmethod
    def of_folder(
        cls, folder: str | Path, layers: Sequence[int] | None = None, bits: int = 32
    ) -> Self:
        """The encoder of a folder as the Hugging Face hub has it."""
        return cls(read_folder(Path(folder)), layers, bits, str(Path(folder).absolute()))

    def read(self, words: Sequence[str]) -> HalfArray:
        """Vectors of the words of a sentence, [n, width]."""
        if not words:
            return np.zeros((0, self.width), np.float16)
        ids, starts = self.pieces.read(words)
        before, behind = self.pieces.before, self.pieces.behind
        states = []
        for window in windows(len(ids), self._room):
            read = np.concatenate([before, ids[window.start : window.end], behind]).astype(np.int64)
            hidden = self.transformer.hidden_states(read, self.record.layers)
            first = len(before) - window.start
            states.append(hidden[first + window.first_kept : first + window.end_kept])
        sums = np.add.reduceat(np.concatenate(states), starts[:-1], axis=0)
        return as_half(sums / np.diff(starts)[:, None].astype(np.float32))

    @property
    def n_bytes(self) -> int:
        """Bytes of all weights in single precision."""
        return sum(4 * tensor.size for tensor in self.parts.tensors.values())

    def to_arrays(self) -> Arrays:
        """Arrays of the weights in the encoder's bits, and of its other files."""
        packed = pack_tensors(self.parts.tensors, self.record.bits)
        texts = {"config": json.dumps(self.parts.config), "tokenizer": self.parts.tokenizer}
        as_bytes = {k: np.frombuffer(text.encode(), np.uint8) for k, text in texts.items()}
        return {f"weights.{k}": v for k, v in packed.items()} | as_bytes

    @classmethod
    def from_arrays(cls, record: SourceRecord, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The encoder that a model file holds."""
        start = "weights."
        tensors = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
        config = read_config(arrays["config"].tobytes(), "the config.json in the model file")
        encoder_family(config)
        parts = EncoderParts(
            record.name, record.licence, record.sha256, config,
            arrays["tokenizer"].tobytes().decode("utf-8", "replace"), unpack_tensors(tensors),
        )  # fmt: skip
        return cls(parts, record.layers, record.bits, record.path, is_rounded=True)


def pack_tensors(tensors: Mapping[str, npt.NDArray[Any]], bits: int) -> Arrays:
    """Weights in 32 or 16 bits; or matrices in 8 with a scale for each row, and vectors in 16.

    Weights that were packed and unpacked are packed into the same numbers again.
    """
    packed: Arrays = {}
    for name, array in tensors.items():
        if bits == 32:
            packed[name] = array
        elif bits == 8 and array.ndim == 2 and array.size:
            largest = np.abs(array.astype(np.float32)).max(axis=1, keepdims=True)
            scale = as_half(np.maximum(largest / _CODES, np.float32(1e-7)))
            codes = np.rint(array / scale.astype(np.float32))
            packed[name] = np.clip(codes, -_CODES, _CODES).astype(np.int8)
            packed[name + _SCALE] = scale
        else:
            packed[name] = as_half(array)
    return packed


def unpack_tensors(packed: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """The weights of packed arrays, in single precision."""
    tensors: Arrays = {}
    for name, array in packed.items():
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in packed:
            continue
        if array.dtype == np.int8:
            scale = packed[name + _SCALE]
            if scale.shape != (len(array), 1):
                raise ModelFormatError(f"the scale of the encoder's {name} does not fit it")
            tensors[name] = array.astype(np.float32) * scale.astype(np.float32)
        else:
            tensors[name] = array.astype(np.float32)
    return tensors


def standardisation(mean: FloatArray, mean_square: FloatArray) -> tuple[Any, Any]:
    """Means and factors, [width], that give vectors mean 0 and variance 1; 0 for constant ones."""
    deviation = np.sqrt(np.maximum(mean_square - mean**2, 0))
    scale = np.where(deviation > 1e-4, 1 / np.maximum(deviation, 1e-4), 0)
    return mean.astype(np.float32), scale.astype(np.float32)


PLACE = "SAPWOOD_ENCODER"  # the environment variable that names an encoder's folder
_places: list[Path] = []  # folders and files that may have what a model needs, the last first
_open: dict[str, WordSource] = {}  # by key: sources that were read
_held: WeakValueDictionary[str, WordSource] = WeakValueDictionary()  # by digest: of model files


def use_encoder(path: str | Path) -> None:
    """Register the folder of an encoder, or a file of word vectors, for models that need it.

    A model file says which encoder it was trained with. Sapwood looks for it where it was then; if
    it is elsewhere on this machine, call this before the first sentence is parsed, or name it by
    the environment variable SAPWOOD_ENCODER.

    Raises
    ------
    ModelFormatError
        If nothing is at the path.
    """
    if not Path(path).exists():
        raise ModelFormatError(f"{path}: no such folder or file", hint="name an encoder's folder")
    _places.insert(0, Path(path).absolute())


def open_source(
    path: str | Path, layers: Sequence[int] | None = None, bits: int = 32
) -> WordSource:
    """The encoder of a folder, or the vectors of a file."""
    from sapwood.networks.pretrained.static import StaticVectors

    if Path(path).is_file():
        source: WordSource = StaticVectors.of_file(path, bits)
    else:
        source = PretrainedEncoder.of_folder(path, layers, bits)
    return _open.setdefault(source.record.key, source)


def as_source(value: WordSource | str | Path | None) -> WordSource | None:
    """The source that a parameter names: itself, a folder, a file, or none."""
    if value is None or isinstance(value, WordSource):
        return value
    if not isinstance(cast("object", value), (str, Path)):
        msg = f"the encoder is {describe(value)}, expected a folder or a source of vectors"
        raise SapwoodTypeError(msg, hint="give the path, or PretrainedEncoder.of_folder(path)")
    return open_source(value)


def find_source(record: SourceRecord) -> WordSource:
    """The source that a model was trained with.

    Raises
    ------
    ModelFormatError
        If it is not found, or another one is in its place.
    """
    if record.key in _open:
        return _open[record.key]
    hint = "give it by --encoder or the environment variable SAPWOOD_ENCODER, in Python by "
    hint += "sapwood.use_encoder, or train with --include-encoder, so that the model file holds it"
    named = [*_places, *([Path(os.environ[PLACE])] if os.environ.get(PLACE) else [])]
    places = named or ([Path(record.path)] if record.path else [])
    for path in places:
        is_kind = path.is_dir() if record.kind == "encoder" else path.is_file()
        if is_kind:
            found = open_source(path, record.layers or None, record.bits)
            if found.record.key == record.key:
                return found
            msg = f"the model was trained with the {record.title}, but {path} holds another one"
            raise ModelFormatError(f"{msg} (SHA-256 {found.record.sha256[:12]})", hint=hint)
    where = f", which is not at {places[0]}" if places else ""
    raise ModelFormatError(f"the model needs the {record.title}{where}", hint=hint)


def held_source(record: SourceRecord, arrays: Arrays) -> WordSource:
    """The source that a model file holds; one for all networks that hold the same arrays.

    Networks of an ensemble then read each sentence once.
    """
    from sapwood.networks.pretrained.static import StaticVectors

    digest = hashlib.sha256(record.key.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    key = digest.hexdigest()
    found = _held.get(key)
    if found is None:
        kind: Any = PretrainedEncoder if record.kind == "encoder" else StaticVectors
        found = _held.setdefault(key, kind.from_arrays(record, arrays))
    return found


@dataclass(frozen=True, eq=False)
class GivenVectors:
    """The source of a network's vectors, and how they are standardised.

    Attributes
    ----------
    mean, scale : [width]
        Subtracted from vectors, and multiplied with the differences.
    held
        The source, where a model file holds it; None where it must be found.
    """

    record: SourceRecord
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    held: WordSource | None = None

    def source(self) -> WordSource:
        """The source, which is looked for when sentences are first read."""
        found = self.held if self.held is not None else find_source(self.record)
        if found.width != len(self.mean):
            msg = f"the {self.record.title} gives {found.width} numbers a word, and the network "
            raise ModelFormatError(f"{msg}takes {len(self.mean)}")
        return found

    def standardised(self, vectors: HalfArray) -> npt.NDArray[np.float32]:
        """Vectors with mean 0 and variance 1 over the training words."""
        return (vectors.astype(np.float32) - self.mean) * self.scale

    def to_arrays(self) -> Arrays:
        """Arrays of a model file."""
        held = {} if self.held is None else self.held.to_arrays()
        own = {"given_mean": self.mean, "given_scale": self.scale}
        return own | {f"{HELD}{name}": array for name, array in held.items()}

    @classmethod
    def from_arrays(cls, header: Any, arrays: Arrays) -> Self:
        """The vectors of a model file; takes their arrays from the others."""
        record = SourceRecord.from_header(header)
        mean, scale = arrays.pop("given_mean"), arrays.pop("given_scale")
        for array in (mean, scale):
            if array.dtype != np.float32 or array.shape != (mean.size,):
                raise ModelFormatError("the means and scales of given vectors are no vectors")
            if not np.isfinite(array).all():
                raise ModelFormatError("the means or scales of given vectors are not finite")
        inside = [name for name in arrays if name.startswith(HELD)]
        held = {name.removeprefix(HELD): arrays.pop(name) for name in inside}
        return cls(record, mean, scale, held_source(record, held) if held else None)
