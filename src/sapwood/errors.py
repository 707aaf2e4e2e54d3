"""Errors and warnings of Sapwood, for programs that catch or filter them."""

from sapwood.core.errors import (
    CorpusError,
    FewDataWarning,
    ModelFormatError,
    NotFittedError,
    NotIdentifiableError,
    SapwoodError,
    SapwoodTypeError,
    SapwoodValueError,
    SapwoodWarning,
)

__all__ = [
    "CorpusError",
    "FewDataWarning",
    "ModelFormatError",
    "NotFittedError",
    "NotIdentifiableError",
    "SapwoodError",
    "SapwoodTypeError",
    "SapwoodValueError",
    "SapwoodWarning",
]
