"""Kinds of model files: what a class gives to have one, and which class reads which kind.

A new kind of model is a `SavedModel` and a line in `HOMES`; nothing else knows the kinds there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.errors import ModelFormatError

# A kind is the name of a class, here with its module: loaded when a file of it is read.
HOMES = {
    "Ensemble": "sapwood.models.ensemble",
    "FeatureGrammar": "sapwood.models.feature_grammar",
    "LatentGrammar": "sapwood.models.latent_grammar",
    "UniformTreeModel": "sapwood.models.uniform_trees",
}


class FileContents(NamedTuple):
    """What a model says of itself in a file.

    Attributes
    ----------
    arrays
        By name; all numbers that are many.
    header
        Everything else, as JSON has it.
    """

    arrays: dict[str, npt.NDArray[Any]]
    header: dict[str, Any]


class SavedModel(ABC):
    """A model that has files; its kind is the name of its class, which `HOMES` lists."""

    @abstractmethod
    def to_file(self) -> FileContents:
        """What a file must hold to make this model again."""

    @classmethod
    @abstractmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file, whose contents may be damaged in any way.

        Raises
        ------
        LookupError, TypeError, ValueError, SapwoodError
            For what is missing, of another type, or cannot be so.
        """

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write one safetensors file, whole or not at all.

        Parameters
        ----------
        force
            Whether a file may be replaced that is no model of Sapwood.
        """
        from sapwood.models.files import save

        save(self, path, force=force)


def read_model(kind: object, contents: FileContents) -> Any:
    """The model of a kind with such contents."""
    # Version 0.1 called a FeatureGrammar a LatentGrammar, which its weights give away.
    if kind == "LatentGrammar" and "feature_weights" in contents.arrays:
        kind = "FeatureGrammar"
    return class_of(kind).from_file(contents)


def class_of(kind: object) -> type[SavedModel]:
    """The class that reads a kind of file."""
    if not isinstance(kind, str) or kind not in HOMES:
        msg = f"holds a {kind!r}, which this version of Sapwood does not know"
        hint = f"upgrade Sapwood, if it is newer; this one reads {', '.join(HOMES)}"
        raise ModelFormatError(msg, hint=hint)
    found: type[SavedModel] = getattr(import_module(HOMES[kind]), kind)
    return found


def require_type(array: npt.NDArray[Any], name: str, kind: npt.DTypeLike, n_axes: int) -> None:
    """Refuse an array of another type or number of axes: kernels are compiled for these."""
    if array.dtype != kind:
        msg = f"{name} is of type {array.dtype}, not {np.dtype(kind)}"
        raise ModelFormatError(msg)
    if array.ndim != n_axes:
        msg = f"{name} has {array.ndim} axes, not {n_axes}"
        raise ModelFormatError(msg)
