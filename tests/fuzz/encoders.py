"""Folders of pretrained encoders, in one file of which something is spoilt."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.fuzz.mutate import dump_json, spoil_bytes, spoil_json
from tests.fuzz.tensor_files import spoil_outer

from sapwood.networks.pretrained.source import PretrainedEncoder
from sapwood.networks.pretrained.static import StaticVectors

TINY = Path(__file__).parents[1] / "data" / "encoders"
FILES = ("config.json", "tokenizer.json", "model.safetensors")
VECTORS = "4 2\nthe 1 0.5\nDog 2 -1\ndog 3e-2 -2\nnew york 4 0\n"
WORDS = ["The", "dogs", "-LRB-", "\u0301", "x" * 90]


def spoilt_folder(family: str) -> Callable[[random.Random, int], bytes]:
    """The number of a file and its contents; JSON is mostly still JSON."""
    originals = [(TINY / family / name).read_bytes() for name in FILES]

    def make(rng: random.Random, n_edits: int) -> bytes:
        kind = rng.randrange(3)
        data = originals[kind]
        is_whole = rng.random() < 0.8
        if kind < 2 and is_whole:
            value = json.loads(data)
            for _ in range(n_edits):
                value = spoil_json(rng, value)
            data = dump_json(value).encode("utf-8", "surrogatepass")
        else:
            for _ in range(n_edits):
                data = spoil_outer(rng, data) if is_whole else spoil_bytes(rng, data)
        return bytes([kind]) + data

    return make


def read_encoder(data: bytes, folder: Path, family: str) -> None:
    """Read the folder; an encoder that is taken gives every word finite numbers."""
    own = folder / "encoder"
    shutil.copytree(TINY / family, own, dirs_exist_ok=True)
    (own / FILES[data[0] % 3 if data else 0]).write_bytes(data[1:])
    with np.errstate(all="ignore"):  # strange weights overflow
        encoder = PretrainedEncoder.of_folder(own)
        found = encoder.read(WORDS)
    if found.shape != (len(WORDS), encoder.width):
        raise AssertionError(f"vectors of shape {found.shape} for {len(WORDS)} words")


def read_static_vectors(data: bytes, folder: Path) -> None:
    """Read a file of word vectors and look words up."""
    path = folder / "words.vec"
    path.write_bytes(data)
    found = StaticVectors.of_file(path).read(WORDS)
    if not np.isfinite(found).all():
        raise AssertionError("vectors with numbers that are not finite")
