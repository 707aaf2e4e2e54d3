"""Model files: one safetensors file, everything else in its JSON header. Never pickle.

The header's metadata has one entry, `sapwood`, a JSON object:

    format    version of this layout         kind      class of the model
    sha256    of all tensors and of the rest  model     symbols, words, transform, training record

A file is written under a temporary name and renamed, so a model on disk is always whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.arguments import as_path
from sapwood.arrays import starts_of
from sapwood.errors import ModelFormatError, SapwoodError
from sapwood.models import contents
from sapwood.models.ensemble import Ensemble
from sapwood.models.feature_grammar import FeatureGrammar
from sapwood.models.latent_grammar import CoarseWeights, LatentGrammar
from sapwood.models.lexicon import Lexicon
from sapwood.outputs import write_bytes

FORMAT = 1
GRAMMAR, ENSEMBLE = "LatentGrammar", "Ensemble"
_TENSORS = (
    "n_states", "root", "rules", "rule_weights", "lexicon_row_start", "lexicon_entry_tag",
    "lexicon_weights", "coarse_root", "coarse_rules", "coarse_lexical",
)  # fmt: skip
# what members of an ensemble that share a chart have in common
_SHARED = (
    "rules", "lexicon_row_start", "lexicon_entry_tag", "coarse_root", "coarse_rules",
    "coarse_lexical",
)  # fmt: skip
_SHARED_WORDS = ("phrases", "tags", "words", "classes", "style", "transform")


def save_grammar(grammar: LatentGrammar, path: str | Path, *, force: bool = False) -> None:
    """Write a grammar, whole or not at all."""
    _save(path, GRAMMAR, _tensors(grammar), _description(grammar), force=force)


def save_ensemble(ensemble: Ensemble, path: str | Path, *, force: bool = False) -> None:
    """Write an ensemble, whole or not at all; what members have in common is written once.

    Tensors of latent rules are written in single precision: their rounding is far below what
    members disagree about, and the file is half as large.
    """
    tensors: dict[str, np.ndarray] = {"weights": ensemble.weights}
    members = []
    for place, member in enumerate(ensemble.members):
        like = next(g[0] for g in ensemble.groups if place in g)
        own, description = _tensors(member), _description(member)
        if like != place:
            shared = _tensors(ensemble.members[like])
            own = {k: v for k, v in own.items() if k not in _SHARED or k not in shared}
            description = {k: v for k, v in description.items() if k not in _SHARED_WORDS}
        if not member.is_plain:
            own["rule_weights"] = own["rule_weights"].astype(np.float32)
        tensors |= {f"{place}.{name}": array for name, array in own.items()}
        members.append({"like": like} | description)
    model = {
        "members": members, "combine": ensemble.combine,
        "sharpness": ensemble.sharpness, "record": dict(ensemble.record),
    }  # fmt: skip
    _save(path, ENSEMBLE, tensors, model, force=force)


def _description(grammar: LatentGrammar) -> dict[str, Any]:
    """Everything about a grammar that is not an array."""
    return {
        "phrases": [list(symbol) for symbol in grammar.phrases],
        "tags": [list(symbol) for symbol in grammar.tags],
        "words": list(grammar.lexicon.words),
        "classes": list(grammar.lexicon.classes),
        "style": grammar.lexicon.style,
        "transform": grammar.transform.as_dict(),
        "is_probabilistic": grammar.is_probabilistic,
        "record": dict(grammar.record),
    }


def _save(
    path: str | Path,
    kind: str,
    tensors: dict[str, np.ndarray],
    model: dict[str, Any],
    *,
    force: bool,
) -> None:
    header = {"format": FORMAT, "kind": kind, "sha256": digest_of(tensors, model), "model": model}
    write_atomically(as_path(path, "a model file"), tensors, header, force=force)


def write_atomically(
    path: Path, tensors: dict[str, np.ndarray], header: dict[str, Any], *, force: bool = False
) -> None:
    """Write a safetensors file, whole or not at all; only one of ours is replaced without force."""
    from safetensors.numpy import save

    data = save(tensors, metadata={"sapwood": json.dumps(header, ensure_ascii=False)})
    write_bytes(path, data, force=force, is_model=True)


def load(path: str | Path) -> LatentGrammar | Ensemble:
    """Read a model file, of a grammar or of an ensemble, and check it.

    Raises
    ------
    ModelFormatError
        For a file that is truncated, foreign, newer than this version, or was changed.
    """
    name = str(path)
    tensors, header = _read(as_path(path, "a model file"))
    if header.get("format") != FORMAT:
        found = header.get("format")
        msg = f"{name}: model format {found!r}; this version of Sapwood reads format {FORMAT}"
        raise ModelFormatError(msg, hint="upgrade Sapwood, or train the model again")
    kind = header.get("kind")
    if kind not in (GRAMMAR, ENSEMBLE):
        msg = f"{name}: holds a {kind!r}, expected a {GRAMMAR} or an {ENSEMBLE}"
        raise ModelFormatError(msg)
    model = header.get("model")
    if not isinstance(model, dict) or header.get("sha256") != digest_of(tensors, model):
        msg = f"{name}: its contents do not match its checksum: it was changed after it was saved"
        raise ModelFormatError(msg, hint="copy it again from where it came, or train it again")
    try:
        return _grammar(tensors, model) if kind == GRAMMAR else _ensemble(tensors, model)
    except (LookupError, TypeError, ValueError, SapwoodError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        msg = f"{name}: not a valid model: {what}"
        raise ModelFormatError(msg, hint="train the model again") from error


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    hint = "a Sapwood model is a file written by `sapwood train` or model.save()"
    try:
        return read_tensors(path)
    except FileNotFoundError as error:
        msg = f"{path}: no such model file"
        raise ModelFormatError(msg, hint=hint) from error
    except (OSError, ValueError) as error:
        msg = f"{path}: not a complete Sapwood model ({error})"
        raise ModelFormatError(msg, hint=hint) from error


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and header of a file of ours, a model or a checkpoint.

    Raises
    ------
    OSError, ValueError
        For a file that cannot be read, is not one of ours, or claims more than memory can hold.
    """
    from safetensors import SafetensorError, safe_open

    _refuse_oversize(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("sapwood", "null"))
            if not isinstance(header, dict):
                msg = "a safetensors file, but not of Sapwood"
                raise ValueError(msg)
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except (SafetensorError, RecursionError, AttributeError, TypeError) as error:
        # the last two: a type of numbers that NumPy does not have
        raise ValueError(str(error)) from error
    except MemoryError as error:
        msg = f"its {path.stat().st_size:,} bytes do not fit into memory"
        raise ValueError(msg) from error


def _refuse_oversize(path: Path) -> None:
    """Refuse a file larger than the memory of this machine, before anything is allocated.

    The numbers of a model are as large as its file; but a file with holes takes no room on disk,
    whatever it claims to hold.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    size = path.stat().st_size
    if size > memory:
        msg = f"its {size:,} bytes do not fit into the {memory:,} bytes of memory of this machine"
        raise ValueError(msg)


def digest_of(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> str:
    """A checksum of arrays, with names and types, and of what is said about them."""
    digest = hashlib.sha256(json.dumps(model, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _tensors(grammar: LatentGrammar) -> dict[str, np.ndarray]:
    lexicon, coarse = grammar.lexicon, grammar.coarse
    arrays = (
        grammar.n_states, grammar.root, grammar.rules, grammar.rule_weights, lexicon.row_start,
        lexicon.entry_tag, lexicon.weights, coarse.root, coarse.rules, coarse.lexical,
    )  # fmt: skip
    tensors = {
        name: np.ascontiguousarray(array) for name, array in zip(_TENSORS, arrays, strict=True)
    }
    if grammar.rule_rank.any():
        tensors["rule_rank"] = grammar.rule_rank
    if isinstance(grammar, FeatureGrammar):
        tensors["feature_weights"] = grammar.feature_weights
        tensors["is_familiar"] = grammar.is_familiar
    # A plain grammar is its own coarse grammar: do not store it twice. A spectral one of single
    # states is not: its weights may have any sign.
    if grammar.is_plain and grammar.is_probabilistic:
        for name in ("coarse_root", "coarse_rules", "coarse_lexical"):
            del tensors[name]
    return tensors


def _grammar(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> LatentGrammar:
    phrases, tags = (contents.read_symbols(model[kind], kind) for kind in ("phrases", "tags"))
    words, classes = (contents.read_names(model[kind], kind) for kind in ("words", "classes"))
    n_states, entry_tag = tensors["n_states"], tensors["lexicon_entry_tag"]
    sizes = n_states[len(phrases) + entry_tag.astype(np.int64)]
    lexicon = Lexicon(
        words, classes, contents.read_style(model["style"]), tensors["lexicon_row_start"],
        entry_tag, tensors["lexicon_weights"],
        starts_of(sizes),
    )  # fmt: skip
    own = (tensors["root"], tensors["rule_weights"], tensors["lexicon_weights"])
    coarse = CoarseWeights(
        *(tensors.get(f"coarse_{part}", alternative)
          for part, alternative in zip(("root", "rules", "lexical"), own, strict=True))
    )  # fmt: skip
    parts = (
        phrases, tags, n_states, tensors["root"], tensors["rules"], tensors["rule_weights"],
        lexicon, coarse, contents.read_transform(model["transform"]),
        contents.read_flag(model["is_probabilistic"], "is_probabilistic"),
        contents.read_record(model["record"]), tensors.get("rule_rank", np.empty(0, np.int64)),
    )  # fmt: skip
    if "feature_weights" in tensors:
        return FeatureGrammar(*parts, tensors["feature_weights"], tensors["is_familiar"])
    return LatentGrammar(*parts)


def _ensemble(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> Ensemble:
    members: list[LatentGrammar] = []
    for place, description in enumerate(model["members"]):
        start = f"{place}."
        own = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
        like = description["like"]
        if like != place:
            first = f"{like}."
            shared = {k: tensors[first + k] for k in _SHARED if first + k in tensors}
            own, words = shared | own, model["members"][like]
            description = {k: words[k] for k in _SHARED_WORDS} | description  # noqa: PLW2901
        own["rule_weights"] = own["rule_weights"].astype(np.float64, copy=False)
        members.append(_grammar(own, description))
    return Ensemble(
        tuple(members),
        tensors["weights"],
        model["combine"],
        model.get("sharpness", 1.0),
        contents.read_record(model["record"]),
    )
