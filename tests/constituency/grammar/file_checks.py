"""Checks of model files: two models are the same, a changed file is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.core import model_files as kinds
from sapwood.core.errors import ModelFormatError


def arrays(model: LatentGrammar) -> list[np.ndarray]:
    lexicon, coarse = model.lexicon, model.coarse
    return [
        model.n_states, model.root, model.rules, model.rule_weights, lexicon.row_start,
        lexicon.entry_tag, lexicon.weights, lexicon.weight_start, coarse.root, coarse.rules,
        coarse.lexical,
    ]  # fmt: skip


def assert_same(one: LatentGrammar, other: LatentGrammar) -> None:
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert (one.phrases, one.tags, one.transform) == (other.phrases, other.tags, other.transform)
    assert (one.lexicon.words, one.lexicon.vocabulary.classes) == (
        other.lexicon.words,
        other.lexicon.vocabulary.classes,
    )
    assert one.is_probabilistic == other.is_probabilistic
    assert dict(one.record) == dict(other.record)


def assert_refused(path: Path, match: str) -> None:
    with pytest.raises(ModelFormatError, match=match) as caught:
        sw.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the JSON of a model file, tensors untouched."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    ours = json.loads(header["__metadata__"]["sapwood"])
    change(ours)
    header["__metadata__"]["sapwood"] = json.dumps(ours)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def resigned(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the model and make the checksum right again, as a careless tool might."""
    tensors, _ = kinds._read(path)

    def both(ours: dict[str, Any]) -> None:
        change(ours["model"])
        ours["sha256"] = kinds.digest_of(tensors, ours["model"])

    rewritten(path, both)
