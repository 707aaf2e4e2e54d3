"""Dependency parsers in a few megabytes: the network in 8 bits, and few weights of features.

Where a network reads the sentence, features add little: the largest weights of each table do. A
table of hashed features is also folded: weights whose hashes agree in fewer bits are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapwood.core.errors import SapwoodError
from sapwood.dependency.model.arc_model import ArcModel, FeatureTable
from sapwood.dependency.model.compact import round_weights
from sapwood.networks.rounding import drop_rare

_FEWEST = 16  # weights of a table


@dataclass(frozen=True)
class ArcCompression:
    """What is dropped from a parser, besides bits.

    Parameters
    ----------
    least_word_vectors, least_forms
        How often a word, or a row of the table of forms, has to be seen to keep its vector.
    table_bits
        Tables of features are folded to 2 to this power.
    tagger, labels, members
        Weights that stay in the table of each, the largest ones.
    """

    least_word_vectors: int = 2
    least_forms: int = 2
    table_bits: int = 22
    tagger: int = 1 << 18
    labels: int = 1 << 18
    members: int = 1 << 19


def compress_arcs(
    model: ArcModel, sentences: Iterable[Sequence[str]], settings: ArcCompression | None = None
) -> ArcModel:
    """A parser with a network in a compact form, whose file is smaller.

    Its pruner goes: the network prunes. `sentences` are those that it was trained on.
    """
    settings = settings or ArcCompression()
    if model.encoder is None:
        msg = "a parser without a network has nothing but its features, which cannot be dropped"
        raise SapwoodError(msg, hint="train it with --method best")
    sentences = list(sentences)
    least = settings.least_word_vectors, settings.least_forms
    first, *others = (
        drop_rare(network, sentences, *least).rounded(bits=8) for network in model.encoder.networks
    )
    bits = settings.table_bits
    members = tuple(
        member._replace(table=fewer_weights(member.table, bits, settings.members))
        for member in model.members
    )
    return replace(
        model,
        encoder=model.encoder._replace(network=first, others=tuple(others)),
        tagger=fewer_weights(model.tagger, bits, settings.tagger),
        labels=fewer_weights(model.labels, bits, settings.labels),
        pruner=fewer_weights(model.pruner, 0, 0),
        members=members,
        is_compact=True,
    )


def fewer_weights(table: FeatureTable, bits: int, n_kept: int) -> FeatureTable:
    """A table folded to 2^bits weights, of which the largest stay, rounded as in compact files."""
    spare = table.spare
    hashed, behind = np.split(table.weights, [len(table.weights) - spare])
    size = min(len(hashed), max(1 << bits, _FEWEST))
    folded = hashed.reshape(-1, size).sum(axis=0, dtype=np.float32)
    weights = np.concatenate([folded, behind])
    magnitude = np.abs(weights)
    if n_kept < len(weights):
        order = np.argsort(-magnitude, kind="stable")  # of equal ones the first stay
        weights[order[n_kept:]] = 0
    return table._replace(weights=round_weights(weights))
