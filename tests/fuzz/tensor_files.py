"""Spoiling model files and checkpoints so that the damage gets past the checksum."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
from safetensors.numpy import load, save
from tests.fuzz.mutate import dump_json, spoil_array, spoil_bytes, spoil_json

from sapwood.core import model_files as kinds

Tensors = dict[str, np.ndarray]
WEIGHTS = (0.0, 1.0, 0.5, 1e-5, 1e-200, 5e-324, 1e30, 1e200, 1e308, -1.0, -1e-9, -1e200)
DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "F4", "C64", "X")


def spoil_file(rng: random.Random, data: bytes, n_edits: int) -> bytes:
    """Change a file in one of four ways: its contents, its numbers, its bytes, its outer header."""
    kind = rng.random()
    if kind < 0.4:
        return _spoil_contents(rng, data, n_edits)
    if kind < 0.8:
        return _spoil_numbers(rng, data, n_edits)
    for _ in range(n_edits):
        data = spoil_bytes(rng, data) if kind < 0.9 else spoil_outer(rng, data)
    return data


def spoil_outer(rng: random.Random, data: bytes) -> bytes:
    """Another header of the safetensors file itself: types, shapes and places of tensors."""
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        if rng.random() < 0.3:
            holder = rng.choice([value for value in header.values() if "dtype" in value])
            holder["dtype"] = rng.choice(DTYPES)
        else:
            header = spoil_json(rng, header)
        text = dump_json(header).encode("utf-8", "replace")
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError, struct.error):
        return data  # spoilt so much already that it is no header
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def _spoil_contents(rng: random.Random, data: bytes, n_edits: int) -> bytes:
    tensors, header = unpack(data)
    if rng.random() < 0.5:
        _loosen(header)
    for _ in range(n_edits):
        if rng.random() < 0.5 and tensors:
            _spoil_tensor(rng, tensors)
        elif rng.random() < 0.9 and (part := _signed_part(header)):
            header[part] = spoil_json(rng, header[part])
        else:
            header = spoil_json(rng, header)
    return pack(tensors, header)


def _spoil_numbers(rng: random.Random, data: bytes, n_edits: int) -> bytes:
    """Other weights and nothing else: most of these files are taken, and used."""
    tensors, header = unpack(data)
    _loosen(header)
    weights = [name for name, array in tensors.items() if array.dtype.kind == "f" and array.size]
    for _ in range(n_edits):
        array = tensors[rng.choice(weights)].reshape(-1)
        for place in rng.choices(range(array.size), k=rng.choice((1, 1, 3, array.size))):
            with np.errstate(over="ignore"):  # of smaller types: infinite then
                array[place] = rng.choice(WEIGHTS)
    return pack(tensors, header)


def unpack(data: bytes) -> tuple[Tensors, dict[str, Any]]:
    """The tensors of a file, and its header."""
    size = struct.unpack("<Q", data[:8])[0]
    outer = json.loads(data[8 : 8 + size])
    tensors = {name: array.copy() for name, array in sorted(load(data).items())}
    return tensors, json.loads(outer["__metadata__"]["sapwood"])


def pack(tensors: Tensors, header: dict[str, Any]) -> bytes:
    """A file with the right checksum, as far as there is anything to sign."""
    part = _signed_part(header)
    if part:
        header["sha256"] = kinds.digest_of(tensors, header[part])
    text = dump_json(header).encode("utf-8", "replace").decode()  # without lone surrogates
    return save(tensors, metadata={"sapwood": text})


def _signed_part(header: Any) -> str | None:
    """What the checksum covers besides the tensors: a model, or the state of a training."""
    names = ("model", "state") if isinstance(header, dict) else ()
    return next((name for name in names if isinstance(header.get(name), dict)), None)


def _loosen(header: dict[str, Any]) -> None:
    """Claim weights instead of probabilities, so that wrong numbers get further."""
    model = header.get("model", {})
    for description in (model, *model.get("members", ())):
        if "is_probabilistic" in description:
            description["is_probabilistic"] = False


def _spoil_tensor(rng: random.Random, tensors: Tensors) -> None:
    name = rng.choice(sorted(tensors))
    kind = rng.randrange(12)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[rng.choice(("x", "rule_rank", "feature_weights", "0.rules"))] = tensors[name]
    elif kind == 2:
        tensors[name] = tensors[rng.choice(sorted(tensors))].copy()
    else:
        tensors[name] = np.ascontiguousarray(spoil_array(rng, tensors[name]))
