"""Model files: kinds, writing and reading. A model is one safetensors file, and never a pickle.

A new kind of model is a `SavedModel` and a line in `HOMES`; nothing else lists the kinds.
Everything but arrays is in the file's JSON header, whose metadata has one entry, `sapwood`:

    format    version of this layout         kind      class of the model
    sha256    of all tensors and of the rest  model     symbols, words, transform, training record

A file is written under a temporary name and renamed, so a model on disk is always whole. It is read
into memory: later changes of the file do not change a loaded model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError, SapwoodError, SapwoodTypeError, describe
from sapwood.core.model_names import find_model
from sapwood.core.outputs import write_bytes

# Characters that end a label in brackets, and control characters of terminals.
_NO_LABEL = re.compile(r"[\s()\x00-\x1f\x7f-\x9f]")

# A kind is the name of a class, here with its module, which is imported to read such a file.
HOMES = {
    "ArcRerankModel": "sapwood.dependency.model.arc_model",
    "DependencyModel": "sapwood.dependency.model.dependency",
    "Eigenwords": "sapwood.corpora.eigenwords",
    "ArcModel": "sapwood.dependency.model.arc_model",
    "BigramModel": "sapwood.lm.model.latent_models",
    "Ensemble": "sapwood.constituency.grammar.ensemble",
    "FeatureGrammar": "sapwood.constituency.grammar.discriminative",
    "HiddenMarkovModel": "sapwood.dependency.model.dependency",
    "LatentGrammar": "sapwood.constituency.grammar.latent_grammar",
    "SpanNetwork": "sapwood.constituency.grammar.discriminative",
    "SequenceModel": "sapwood.hankel.model.string_model",
    "LatentNgramModel": "sapwood.lm.model.latent_models",
    "LatentTrigramModel": "sapwood.lm.model.latent_models",
    "MixtureModel": "sapwood.lm.model.latent_models",
    "NgramModel": "sapwood.lm.model.ngram_model",
    "UniformTreeModel": "sapwood.identify.model.uniform_trees",
    "WeightedGrammar": "sapwood.hankel.model.weighted_grammar",
}


class FileContents(NamedTuple):
    """The arrays of a model file, and the header of the model."""

    arrays: dict[str, npt.NDArray[Any]]
    header: dict[str, Any]


# Checks a value of a header, whose name is given for messages, and returns it as models have it.
HeaderReader = Callable[..., Any]


class SavedModel(ABC):
    """A model that has files; its kind is the name of its class, which `HOMES` lists.

    Attributes
    ----------
    HEADER
        How entries of the header of a file are read, before `from_file` is given them; `from_file`
        decides what may be missing.
    """

    HEADER: ClassVar[dict[str, HeaderReader]] = {}

    @abstractmethod
    def to_file(self) -> FileContents:
        """The contents of a file from which this model can be made again."""

    @classmethod
    @abstractmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file, whose contents may be damaged, except the entries of `HEADER`.

        Raises
        ------
        LookupError, TypeError, ValueError, SapwoodError
            For contents that are missing, of another type, or impossible.
        """

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write one safetensors file, whole or not at all."""
        arrays, header = self.to_file()
        kind, digest = type(self).__name__, digest_of(arrays, header)
        whole = {"format": FORMAT, "kind": kind, "sha256": digest, "model": header}
        write_atomically(_model_path(path), arrays, whole, force=force)


def _model_path(path: object) -> Path:
    if isinstance(path, (str, os.PathLike)):
        return Path(path)
    msg = f"expected the path of a model file, not {describe(path)}"
    raise SapwoodTypeError(msg, hint="give a string or a pathlib.Path")


def read_model(kind: object, contents: FileContents) -> Any:
    """Make the model of a kind from the contents of its file, whose header is checked here."""
    # Version 0.1 called a FeatureGrammar a LatentGrammar, which its weights give away.
    if kind == "LatentGrammar" and "feature_weights" in contents.arrays:
        kind = "FeatureGrammar"
    header: object = contents.header  # anything, in a damaged file
    if not isinstance(header, dict):
        raise ModelFormatError(f"the model's header is {describe(header)}, expected an object")
    read_record(contents.header.get("record", {}))
    home = class_of(kind)
    checked = {
        name: read(header[name], name) for name, read in home.HEADER.items() if name in header
    }
    return home.from_file(FileContents(contents.arrays, header | checked))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _is_table(value: Any, is_item: Callable[[Any], bool]) -> bool:
    """Whether a value is an object of lists of such items."""
    return isinstance(value, dict) and all(
        isinstance(row, list) and all(map(is_item, row)) for row in value.values()
    )


# the entries of a training record that reports read; all others are shown as they are
_RECORD: dict[str, Callable[[Any], bool]] = {
    "method": lambda value: isinstance(value, str),
    "iterations": lambda value: isinstance(value, int),
    "tokenisation": lambda value: value in ("penn", "ud"),
    "dev_f1": lambda value: value is None or _is_number(value),
    "pivots": lambda value: _is_table(value, lambda item: isinstance(item, str)),
    "spectrum": lambda value: _is_table(value, _is_number),
}


def read_record(value: Any) -> dict[str, Any]:
    """Check that a training record has the types that reports need, and return it."""
    if not isinstance(value, dict):
        raise ModelFormatError(f"the training record is {describe(value)}, expected an object")
    for name, is_right in _RECORD.items():
        if name in value and not is_right(value[name]):
            msg = f"the training record cannot have {describe(value[name])} as its {name}"
            raise ModelFormatError(msg)
    return value


def class_of(kind: object) -> type[SavedModel]:
    """The class of a kind of model."""
    if not isinstance(kind, str) or kind not in HOMES:
        msg = f"holds a {kind!r}, which this version of Sapwood does not know"
        hint = "upgrade Sapwood, if the file is newer, or train the model again"
        raise ModelFormatError(msg, hint=hint)
    found: type[SavedModel] = getattr(import_module(HOMES[kind]), kind)
    return found


def require_type(array: npt.NDArray[Any], name: str, kind: npt.DTypeLike, n_axes: int) -> None:
    """Refuse an array of another type or number of axes than kernels are compiled for."""
    if array.dtype != kind:
        raise ModelFormatError(f"{name} is of type {array.dtype}, not {np.dtype(kind)}")
    if array.ndim != n_axes:
        raise ModelFormatError(f"{name} has {array.ndim} axes, not {n_axes}")


FORMAT = 1
Array = npt.NDArray[Any]
_NUMBERS = re.compile(r"([FIU])(8|16|32|64)")  # how safetensors names them


def write_atomically(
    path: Path, tensors: dict[str, Array], header: dict[str, Any], *, force: bool = False
) -> None:
    """Write a safetensors file, whole or not at all; a foreign file is replaced only by force."""
    from safetensors.numpy import save as serialise

    whole = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # JSON writes characters that UTF-8 does not have (in names of files, by Python) as escapes
    text = json.dumps(header, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    data = serialise(whole, metadata={"sapwood": text})
    write_bytes(path, data, force=force, is_model=True)


def load(path: str | Path, *, verify: bool = True) -> Any:
    """Read a model file of any kind, and check it.

    Returns a model of the class that was saved: `LatentGrammar`, `Ensemble`, ...

    Parameters
    ----------
    path
        A file, or the name of a model that comes with Sapwood, such as `english`. A file of that
        name in the working folder is taken first, with a warning.
    verify
        Whether the checksum is compared, which takes longest. The structure of the model, the range
        of all indices, and that weights are finite are checked in any case.

    Raises
    ------
    ModelFormatError
        For a file that is truncated, foreign, newer than this version, or was changed.
    """
    return load_found(find_model(path), str(path), verify=verify)


def load_found(file: Path | None, name: str, *, verify: bool = True) -> Any:
    """The model of a file that `find_model` has found; None is the hand-written grammar."""
    if file is None:
        return import_module("sapwood.constituency.grammar.from_text").bundled_grammar()
    tensors, header = _read(file)
    if header.get("format") != FORMAT:
        found = header.get("format")
        msg = f"{name}: model format {found!r}; this version of Sapwood reads format {FORMAT}"
        raise ModelFormatError(msg, hint="upgrade Sapwood, or train the model again")
    kind, model = header.get("kind"), header.get("model")
    try:
        class_of(kind)
    except ModelFormatError as error:
        raise ModelFormatError(f"{name}: {error}", hint=error.hint) from error
    digest = header.get("sha256")
    if not isinstance(model, dict) or (verify and digest != digest_of(tensors, model)):
        msg = f"{name}: its contents do not match its checksum: it was changed after it was saved"
        raise ModelFormatError(msg, hint="copy it again from where it came, or train it again")
    try:
        return read_model(kind, FileContents(tensors, model))
    except (
        LookupError, TypeError, ValueError, OverflowError, AttributeError, MemoryError,
        RecursionError, SapwoodError,
    ) as error:  # fmt: skip
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        msg = f"{name}: not a valid model: {reason}"
        raise ModelFormatError(msg, hint="train the model again") from error


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    hint = "a Sapwood model is a file written by model.save(), or by a command such as `sapwood "
    hint += "train`, `depend train`, `lm train` or `hankel learn`"
    try:
        return read_tensors(path)
    except (OSError, ValueError) as error:
        msg = f"{path}: not a complete Sapwood model ({error})"
        raise ModelFormatError(msg, hint=hint) from error


def read_tensors(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and header of a model or a checkpoint.

    Raises
    ------
    OSError, ValueError
        For a file that cannot be read, is foreign, or claims more than memory can hold.
    """
    return _read_safetensors(path, is_ours=True)


def read_safetensors(path: Path) -> dict[str, Array]:
    """Arrays of a safetensors file of any program; errors are those of `read_tensors`."""
    return _read_safetensors(path, is_ours=False)[0]


def _read_safetensors(path: Path, *, is_ours: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    _refuse_oversize(path)
    try:
        with safe_open(path, framework="numpy") as file:  # which checks the places of all tensors
            header = json.loads((file.metadata() or {}).get("sapwood", "null"))
        if is_ours and not isinstance(header, dict):
            raise ValueError("a safetensors file, but not of Sapwood")
        return _tensors(path), header
    except (SafetensorError, RecursionError, LookupError, TypeError, AttributeError) as error:
        # all but the first: a header that two readers of JSON understand in two ways
        raise ValueError(str(error)) from error
    except MemoryError as error:
        raise ValueError(f"its {path.stat().st_size:,} bytes do not fit into memory") from error


def _tensors(path: Path) -> dict[str, Array]:
    """The tensors of a safetensors file that was checked: views of a private copy of the file.

    The file is read, not mapped: another program may write over it while the model is in use, and
    a process that touches a page of a file that has become shorter is ended by the system.
    """
    data = np.fromfile(path, np.uint8)
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    places = json.loads(data[8:start].tobytes())
    places.pop("__metadata__", None)
    tensors = {}
    for name, place in places.items():
        first, last = place["data_offsets"]
        numbers = data[start:][first:last].view(_number_type(place["dtype"]))
        if place["dtype"] == "BF16":  # the upper half of a number of 32 bits
            numbers = (numbers.astype("<u4") << 16).view("<f4")
        if place["dtype"] == "BOOL":  # a byte that is neither 0 nor 1 is no flag of NumPy
            numbers = numbers != 0
        tensors[name] = np.require(numbers.reshape(place["shape"]), requirements="A")
    return tensors


def _number_type(name: str) -> str:
    """NumPy's name of a type of safetensors; booleans and short floats are read as bytes."""
    if name in ("BOOL", "BF16"):
        return "u1" if name == "BOOL" else "<u2"
    found = _NUMBERS.fullmatch(name)
    if found is None or name == "F8":
        raise ValueError(f"numbers of type {name}, which NumPy does not have")
    return f"<{found[1].lower()}{int(found[2]) // 8}"


def _refuse_oversize(path: Path) -> None:
    """Refuse a file, which may be sparse on disk, that is larger than this machine's memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    size = path.stat().st_size
    if size > memory:
        msg = f"its {size:,} bytes do not fit into the {memory:,} bytes of memory of this machine"
        raise ValueError(msg)


def digest_of(tensors: dict[str, Array], model: dict[str, Any]) -> str:
    """A checksum of arrays, with names and types, and of the model's header."""
    digest = hashlib.sha256(json.dumps(model, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read_names(value: Any, kind: str) -> tuple[str, ...]:
    """Check that a header's value is a list of strings, and return it as a tuple."""
    wrong = [name for name in read_list(value, kind) if not isinstance(name, str)]
    if wrong:
        raise ModelFormatError(f"one of the {kind} is {describe(wrong[0])}, expected a string")
    return tuple(value)


def read_labels(value: Any, kind: str) -> tuple[str, ...]:
    """Check that a header's value is a list of labels that could stand in a file of trees."""
    names = read_names(value, kind)
    for name in names:
        if _NO_LABEL.search(name):
            msg = f"one of the {kind} is {name[:40]!r}, expected no blank, bracket or control sign"
            raise ModelFormatError(msg)
    return names


def read_symbols(value: Any, kind: str) -> tuple[tuple[Any, ...], ...]:
    """Check that a header's value is a list of symbols: labels, ancestors and context of each."""
    symbols = []
    for row in read_list(value, kind):
        if not isinstance(row, list) or len(row) != 3 or not row[0]:
            raise ModelFormatError(
                f"one of the {kind} is {describe(row)}, expected labels, ancestors and context"
            )
        chain, ancestors = (read_labels(part, kind) for part in row[:2])
        context = None if row[2] is None else read_labels(row[2], kind)
        symbols.append((chain, ancestors, context))
    return tuple(symbols)


def read_chains(value: Any, kind: str) -> tuple[tuple[str, ...], ...]:
    """Check that a header's value is a list of lists of names, none of which is empty."""
    if not isinstance(value, list) or not all(value):
        raise ModelFormatError(f"the {kind} are no list of lists of names")
    return tuple(read_names(chain, kind) for chain in value)


def called(words: str, read: HeaderReader) -> HeaderReader:
    """A reader whose messages call the value by other words than the header."""
    return lambda value, _: read(value, words)


def choice_reader(kind: str, choices: Sequence[str]) -> HeaderReader:
    """A reader of one of some strings."""

    def read(value: Any, _: str = "") -> str:
        if value not in choices:
            known = ", ".join(choices)
            raise ModelFormatError(f"the {kind} is {describe(value)}, expected one of {known}")
        return str(value)

    return read


def settings_reader(kind: type) -> HeaderReader:
    """A reader of the settings of a dataclass, of which the flags must be true or false."""
    types = {each.name: each.type for each in fields(kind)}

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, dict) or not value.keys() <= types.keys():
            raise ModelFormatError(f"the {name} is {describe(value)}, expected settings")
        for setting, given in value.items():
            if types[setting] in (bool, "bool"):
                read_flag(given, setting)
        return kind(**value)

    return read


def read_flag(value: Any, name: str) -> bool:
    """Check that a header's value is true or false, and return it."""
    if not isinstance(value, bool):
        raise ModelFormatError(f"{name} is {describe(value)}, expected true or false")
    return value


def read_list(value: Any, kind: str) -> list[Any]:
    """Check that a header's value is a list, and return it."""
    if not isinstance(value, list):
        raise ModelFormatError(f"the {kind} are {describe(value)}, expected a list")
    return value
