"""Weights of hashed features, clusters of words, and the lexicon of tags.

Files name the words and properties of a template by their letters (`PLACES`, `PROPERTIES`), so that
a later version may order columns differently. Files of versions up to 0.2 have column numbers
instead, which are read with the letters of that time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import place_among, starts_of
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.vocabulary import N_WORD_PROPERTIES, PROPERTIES, hash_of
from sapwood.dependency.kernels.arc_layout import (
    BETWEEN,
    N_ATOMS,
    N_BETWEEN,
    PART_KINDS,
    PLACES,
    Templates,
)

# The letters that column numbers in files of versions up to 0.2 count; these must never change.
PLACES_OF_NUMBERS, PROPERTIES_OF_NUMBERS = "hmslrfeot", "FL12345abcdHWXPCKJ"
_BETWEEN_LETTER, _UNUSED = ord("b"), 0  # in place of the letter of a word
N_CLUSTERINGS = 2
MAX_TABLE_SIZE = 1 << 26  # 256 MB, four times the largest table that is learnt
FEW_CLUSTERS, MANY_CLUSTERS = 48, 512  # few are like tags, many like topics
N_KMEANS_ROUNDS = 12  # features hardly change after that
DENSE_FRACTION = 1 / 3  # of nonzero weights: above it, indices would take more room than zeros


class FeatureTable(NamedTuple):
    """Weights of the features that some templates make.

    Attributes
    ----------
    weights
        A power of two of them, and `spare` more; all are float16 numbers, as in files.
    """

    templates: Templates
    weights: npt.NDArray[np.float32]
    spare: int = 0

    @classmethod
    def of(
        cls, templates: Templates, weights: npt.NDArray[np.float32], spare: int = 0
    ) -> FeatureTable:
        """A table with weights rounded as in its file."""
        rounded = np.clip(weights, -60000.0, 60000.0).astype(np.float16)
        return cls(templates, rounded.astype(np.float32), spare)

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a file; sparse if most weights are zero."""
        arrays: dict[str, npt.NDArray[Any]] = {
            f"{name}.letters": _letters_of(self.templates.atoms, PLACES, PROPERTIES),
            f"{name}.bounds": self.templates.bounds,
            f"{name}.size": np.array([len(self.weights), self.spare], np.int64),
        }
        values, places = self.weights.astype(np.float16), np.flatnonzero(self.weights)
        if len(places) < DENSE_FRACTION * len(values):
            arrays[f"{name}.places"] = places.astype(np.uint32)
            values = values[places]
        return arrays | {f"{name}.values": values}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The table of a file, which may be damaged."""
        bounds = arrays[f"{name}.bounds"]
        require_type(bounds, f"{name}.bounds", np.int32, 1)
        require_type(arrays[f"{name}.values"], f"{name}.values", np.float16, 1)
        atoms = _atoms_of_file(name, arrays, bounds)
        values = arrays[f"{name}.values"].astype(np.float32)
        size, spare = (int(number) for number in arrays[f"{name}.size"])
        n_hashed = size - spare
        is_power = n_hashed >= 16 and not n_hashed & (n_hashed - 1)
        if not is_power or n_hashed > MAX_TABLE_SIZE or not 0 <= spare <= MAX_TABLE_SIZE:
            expected = f"expected a power of two from 16 to {MAX_TABLE_SIZE:,}"
            raise ModelFormatError(f"{name} has {n_hashed} weights and {spare} more, {expected}")
        if not np.isfinite(values).all():
            raise ModelFormatError(f"{name} has weights that are not finite")
        places = arrays.get(f"{name}.places")
        if places is not None:
            require_type(places, f"{name}.places", np.uint32, 1)
            if len(places) != len(values) or (len(places) and places.max() >= size):
                msg = f"{name} has {len(values)} weights for {len(places)} places below {size}"
                raise ModelFormatError(msg)
            values, some = np.zeros(size, np.float32), values
            values[places] = some
        if len(values) != size:
            raise ModelFormatError(f"{name} has {len(values)} weights, expected {size}")
        return cls(Templates(atoms, np.array(bounds)), values, spare)


def _letters_of(
    atoms: npt.NDArray[np.int32], places: str, properties: str
) -> npt.NDArray[np.uint8]:
    """Letters of a word, its shift by 0 to 4, and letters of a property; shape [n, N_ATOMS, 3].

    Properties of the material between two words are digits. Unused atoms are zeros.
    """
    place, column = atoms[..., 0], atoms[..., 1]
    is_between = place == BETWEEN
    word = _codes(places)[np.where((place < 0) | is_between, 0, place // 5)]
    of_word = _codes(properties)[np.where((place < 0) | is_between, 0, column)]
    letters = np.stack(
        [
            np.where(is_between, _BETWEEN_LETTER, word),
            np.where(is_between, 0, place % 5),
            np.where(is_between, ord("0") + column, of_word),
        ],
        axis=-1,
    )
    letters[place < 0] = _UNUSED
    return letters.astype(np.uint8)


def _atoms_of_file(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], bounds: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Atoms as kernels read them, from letters or, in older files, from column numbers."""
    if f"{name}.letters" in arrays:
        letters = arrays[f"{name}.letters"]
        require_type(letters, f"{name}.letters", np.uint8, 3)
        if letters.shape[1:] != (N_ATOMS, 3):
            expected = f"expected {N_ATOMS} x 3 for each template"
            raise ModelFormatError(f"{name}.letters has the shape {letters.shape}, {expected}")
    else:
        numbers = arrays[f"{name}.atoms"]
        require_type(numbers, f"{name}.atoms", np.int32, 3)
        _check_templates(name, numbers, bounds)
        letters = _letters_of(numbers, PLACES_OF_NUMBERS, PROPERTIES_OF_NUMBERS)
    word, shift, of_word = (letters[..., k].astype(np.int32) for k in range(3))
    is_unused, is_between = word == _UNUSED, word == _BETWEEN_LETTER
    row, column = _index_of_codes(PLACES)[word], _index_of_codes(PROPERTIES)[of_word]
    is_unknown = (row < 0) | (column < 0) | (shift > 4)
    if (is_unknown & ~is_unused & ~is_between).any():
        first = bytes(letters[is_unknown & ~is_unused & ~is_between][0])
        message = f"{name} has a template of {first!r}, expected a word of {PLACES}, a shift up to "
        raise ModelFormatError(f"{message}4, and a property of {PROPERTIES}")
    place = np.where(is_between, BETWEEN, 5 * row + shift)
    column = np.where(is_between, of_word - ord("0"), column)
    atoms = np.where(is_unused[..., None], -1, np.stack([place, column], axis=-1)).astype(np.int32)
    _check_templates(name, atoms, bounds)
    return atoms


def _codes(letters: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(letters.encode("ascii"), np.uint8)


def _index_of_codes(letters: str) -> npt.NDArray[np.int32]:
    """Index of each letter by its code; -1 for codes that are no letters."""
    index = np.full(256, -1, np.int32)
    index[_codes(letters)] = np.arange(len(letters))
    return index


def _check_templates(
    name: str, atoms: npt.NDArray[np.int32], bounds: npt.NDArray[np.int32]
) -> None:
    """Refuse templates that would read outside a sentence: kernels do not check."""
    n = len(atoms)
    is_right: Any = atoms.shape[1:] == (N_ATOMS, 2) and len(bounds) == len(PART_KINDS) + 1
    is_right = is_right and bounds[0] == 0 and bounds[-1] == n and (np.diff(bounds) >= 0).all()
    place, column = atoms[..., 0], atoms[..., 1]
    used = place >= 0
    between = place == BETWEEN
    is_right = is_right and ((place < 5 * len(PLACES)) | between)[used].all()
    is_right = is_right and (column[used] >= 0).all() and (column[used] < N_WORD_PROPERTIES).all()
    is_right = is_right and (column[between] < N_BETWEEN).all()
    if not is_right:
        raise ModelFormatError(f"{name} has templates that no part of a sentence fits")


class WordClusters(NamedTuple):
    """Clusters of words, where vectors of words were given.

    Attributes
    ----------
    words : [n_words]
        Hashes of forms and of lower-case words, sorted.
    cluster : [n_words, N_CLUSTERINGS]
        Cluster of each word, among few and among many.
    """

    words: npt.NDArray[np.uint32]
    cluster: npt.NDArray[np.int32]

    def check(self) -> None:
        """Refuse clusters that do not go with their words."""
        require_type(self.words, "clusters.words", np.uint32, 1)
        require_type(self.cluster, "clusters.cluster", np.int32, 2)
        is_right = self.cluster.shape == (len(self.words), N_CLUSTERINGS)
        is_right = is_right and bool((np.diff(self.words.astype(np.int64)) > 0).all())
        if not is_right or (len(self.words) and self.cluster.min() < 0):
            msg = f"clusters of shape {self.cluster.shape} for {len(self.words)} words, expected "
            raise ModelFormatError(msg + "two for each, and words in the order of their numbers")

    def of(self, forms: npt.NDArray[Any], lower: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Clusters of words, from 1 on, by their forms or else their small letters; 0 for others.

        >>> known = WordClusters(np.array([2, 5], np.uint32), np.array([[0, 3], [1, 7]], np.int32))
        >>> known.of(np.array([9, 2, 8]), np.array([5, 5, 8])).tolist()
        [[2, 8], [1, 4], [0, 0]]
        """
        place = place_among(forms, self.words)
        place = np.where(place >= 0, place, place_among(lower, self.words))
        padded = np.vstack([self.cluster + 1, np.zeros((1, N_CLUSTERINGS), np.int32)])
        return padded[place].astype(np.int64)


class TagLexicon(NamedTuple):
    """Which tags a word may have.

    Attributes
    ----------
    words : [n_words]
        Hashes of lower-case words, sorted.
    starts, candidates : [n_words + 2], ...
        Tags of unknown words first, then of each word.
    """

    words: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int32]
    candidates: npt.NDArray[np.int32]

    @classmethod
    def of(cls, tags: Mapping[int, Sequence[int]], of_unknown: Sequence[int]) -> TagLexicon:
        """A lexicon from the tags of words, which are given by their hashes."""
        words = sorted(tags)
        rows = [of_unknown, *(tags[word] for word in words)]
        return cls(
            np.array(words, np.uint32),
            starts_of([len(row) for row in rows]).astype(np.int32),
            np.array([tag for row in rows for tag in row], np.int32),
        )

    def types(self, words: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Row of each word, given by its hash; 0 for unknown ones."""
        return (place_among(words, self.words) + 1).astype(np.int32)

    def check(self, n_tags: int) -> None:
        """Refuse a lexicon with tags that do not exist, or words without tags."""
        require_type(self.words, "lexicon.words", np.uint32, 1)
        require_type(self.starts, "lexicon.starts", np.int32, 1)
        require_type(self.candidates, "lexicon.candidates", np.int32, 1)
        starts, found = self.starts, self.candidates
        is_right = len(starts) == len(self.words) + 2 and starts[0] == 0
        is_right = is_right and starts[-1] == len(found) and bool((np.diff(starts) > 0).all())
        is_right = is_right and bool((np.diff(self.words.astype(np.int64)) > 0).all())
        if not is_right or found.min() < 0 or found.max() >= n_tags:
            raise ModelFormatError("the lexicon of tags does not give every word tags that exist")


def cluster_words(vectors: Eigenwords, seed: int = 0) -> WordClusters:
    """Two clusterings of the words that have vectors of their own, by k-means of directions.

    Few words make fewer clusters: four words to each, or two. A word that is only known with
    capitals stands for its small letters too.

    Examples
    --------
    >>> import sapwood as sw
    >>> text = [["the", "dog", "eats"], ["the", "cat", "eats"], ["a", "car", "stops"]] * 5
    >>> clusters = cluster_words(sw.WordEmbedding(2).fit(text).model_)
    >>> hashes = np.array([hash_of(word) for word in ("dog", "cat", "a")])
    >>> dog, cat, a = clusters.of(hashes, hashes)[:, 0]
    >>> dog == cat, dog == a
    (np.True_, np.False_)
    """
    words = vectors.vocabulary.words
    points = vectors.vectors[: len(words)] * vectors.strengths
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    sizes = ((FEW_CLUSTERS, 4), (MANY_CLUSTERS, 2))
    both = [_k_means(points, min(k, -(-len(words) // n)), seed) for k, n in sizes]
    rows = np.stack(both, axis=1)
    of_word = {hash_of(word.lower()): row for word, row in zip(words, rows, strict=True)}
    of_word |= {hash_of(word): row for word, row in zip(words, rows, strict=True)}
    hashes = sorted(of_word)
    clusters = np.array([of_word[number] for number in hashes], np.int32)
    return WordClusters(np.array(hashes, np.uint32), clusters.reshape(-1, 2))


def _k_means(points: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Cluster of each point."""
    from scipy.cluster.vq import kmeans2

    unlike = np.unique(points, axis=0)
    k = min(k, len(unlike))
    starts = np.random.default_rng(seed).choice(len(unlike), k, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster does no harm
        return np.asarray(kmeans2(points, unlike[starts], iter=N_KMEANS_ROUNDS, minit="matrix")[1])
