"""`Network`: weights of an encoder of sentences and of what is built on it, as a file has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.corpora.word_properties import PROPERTIES
from sapwood.networks.encoder import EncoderSizes
from sapwood.networks.parameters import Parameters

Shapes = dict[str, tuple[int, ...]]
# what is read off the letters of words, whose hashes choose form vectors
OF_FORM = np.frombuffer(PROPERTIES[: PROPERTIES.index("W")].encode(), np.uint8)
N_SPECIAL = 2  # rows of word vectors before those of familiar words: the root's, unknown words'


@dataclass(frozen=True, eq=False)
class Network:
    """Weights of a network that reads sentences; numbers that float16 has, as files hold those.

    Attributes
    ----------
    familiar
        Hashes of lower-case words with a vector of their own, sorted.
    word_vectors
        Of the root, of unknown words, of familiar ones.
    form_vectors
        By hashes of affixes and such; as many as a power of two.
    weights
        Everything else.
    """

    familiar: npt.NDArray[np.uint32]
    word_vectors: npt.NDArray[np.float32]
    form_vectors: npt.NDArray[np.float32]
    weights: Parameters

    @property
    def form_bits(self) -> int:
        """The power of two that form vectors are."""
        return len(self.form_vectors).bit_length() - 1

    def rounded(self) -> Network:
        """The same with numbers that float16 has."""
        weights = self.weights.zeros()
        weights.flat[:] = _half(self.weights.flat)
        words, forms = _half(self.word_vectors), _half(self.form_vectors)
        return Network(self.familiar, words.astype(np.float32), forms.astype(np.float32), weights)

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a file."""
        tables = {"words": self.word_vectors, "forms": self.form_vectors} | dict(self.weights)
        arrays: dict[str, npt.NDArray[Any]] = {
            f"{name}.familiar": self.familiar, f"{name}.properties": OF_FORM,
        }  # fmt: skip
        return arrays | {f"{name}.{key}": _half(table) for key, table in tables.items()}

    @classmethod
    def from_arrays(
        cls,
        name: str,
        arrays: Mapping[str, npt.NDArray[Any]],
        n_tags: int,
        head_shapes: Callable[[Mapping[str, npt.NDArray[Any]], int], Shapes],
    ) -> Network:
        """The network of a file.

        Parameters
        ----------
        head_shapes
            Shapes of what is built on the encoder, given the arrays and the length of states.
        """
        found = {
            key.removeprefix(f"{name}."): table
            for key, table in arrays.items()
            if key.startswith(f"{name}.")
        }
        familiar, properties = found.pop("familiar"), found.pop("properties")
        if not np.array_equal(properties, OF_FORM):
            msg = "the network reads words by other affixes than this version of Sapwood"
            raise ModelFormatError(msg, hint="train it again")
        require_type(familiar, f"{name}.familiar", np.uint32, 1)
        for key, table in found.items():
            require_type(table, f"{name}.{key}", np.float16, table.ndim)
            if not np.isfinite(table).all():
                msg = f"{name}.{key} has numbers that are not finite"
                raise ModelFormatError(msg)
        words, forms = found.pop("words"), found.pop("forms")
        state = len(found["first.forwards.U"])
        sizes = EncoderSizes(words.shape[-1], forms.shape[-1], found["tag.E"].shape[-1], state)
        shapes = sizes.shapes(n_tags) | head_shapes(found, 2 * state)
        if lacking := shapes.keys() - found:
            msg = f"the network has no {name}.{min(lacking)}, which this version of Sapwood reads"
            raise ModelFormatError(msg, hint="train it again")
        wrong = [key for key in {*shapes, *found} if shapes.get(key) != _shape(found.get(key))]
        if words.shape != (len(familiar) + N_SPECIAL, sizes.word):
            wrong.append("words")
        if (np.diff(familiar.astype(np.int64)) <= 0).any():
            msg = f"{name}.familiar is not sorted"
            raise ModelFormatError(msg)
        if forms.ndim != 2 or len(forms) < 2 or len(forms) & (len(forms) - 1):
            wrong.append("forms")
        if wrong:
            msg = f"the network's {name}.{min(wrong)} has a shape that does not fit the others"
            raise ModelFormatError(msg)
        weights = Parameters(shapes)
        for key, table in found.items():
            weights[key][:] = table
        return cls(familiar, words.astype(np.float32), forms.astype(np.float32), weights)


def _half(array: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    return np.clip(array, -60000, 60000).astype(np.float16)


def _shape(array: npt.NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if array is None else array.shape
