"""`SpanNetwork`: a network that gives spans of words their labels, beside a plain grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy.typing as npt

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.member import BracketReader, Can, Member
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import FileContents, read_names
from sapwood.networks.network import Network, Shapes
from sapwood.networks.spans import SpanSizes

_NAME = "network"  # what its arrays in files start with


@dataclass(frozen=True, eq=False, repr=False)
class SpanNetwork(Member):
    """Weights of a network that reads sentences and labels their spans.

    It knows trees given their sentences, and all trees over the words, whatever a grammar would
    allow; probabilities of trees and sentences are those of the plain grammar beside it.

    Attributes
    ----------
    grammar
        The plain grammar of the same treebank.
    network
        Its weights.
    labels
        Labels of a span, outermost first where several cover the same words.
    tags
        Tags of words.
    record
        How the model was made.
    """

    grammar: LatentGrammar
    network: Network
    labels: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.grammar.is_plain:
            msg = "the grammar beside a network has hidden states, expected a plain one"
            raise SapwoodError(msg)
        for name, n, known in (
            ("label.b", len(self.labels), self.network.weights["label.b"]),
            ("tag.b", len(self.tags), self.network.weights["tag.b"]),
        ):
            if known.shape != (n,):
                msg = f"{n} names for the network's {name}, which has {len(known)} numbers"
                raise SapwoodError(msg)
        symbols = self.grammar.symbols
        known_labels = {label for symbol in symbols for label in symbol.chain}
        used = {label for chain in self.labels for label in chain} | set(self.tags)
        if unknown := sorted(used - known_labels):
            msg = f"the network has the label {unknown[0]!r}, which its grammar does not have"
            raise SapwoodError(msg)

    def __repr__(self) -> str:
        n = self.n_weights - self.grammar.n_weights
        method = self.record.get("method", "of unknown origin")
        return f"<SpanNetwork ({method}): {n:,} weights beside {self.grammar!r}>"

    @property
    def can(self) -> Can:
        """What the network can do: it labels spans, without rules and derivations."""
        is_known = self.grammar.is_probabilistic
        return Can(sample=False, probabilities=is_known, rules=False, derivations=False)

    @property
    def chart_grammar(self) -> LatentGrammar:
        """The plain grammar."""
        return self.grammar

    @property
    def n_weights(self) -> int:
        """How many weights the network and the rules of the plain grammar have."""
        arrays = self.network.to_arrays("").values()
        return self.grammar.n_weights + sum(array.size for array in arrays)

    def reader(self, label_numbers: Mapping[str, int]) -> BracketReader:
        """What reads sentences with the network."""
        from sapwood.constituency.parse.spans import NetworkReader

        return NetworkReader(self, label_numbers)

    @property
    def transform(self) -> Any:
        """How treebank trees become trees of the plain grammar."""
        return self.grammar.transform

    def to_file(self) -> FileContents:
        """The plain grammar, the weights, and the names of labels and tags."""
        arrays, header = self.grammar.to_file()
        names = {"span_labels": [list(chain) for chain in self.labels], "span_tags": [*self.tags]}
        own = {"record": dict(self.record)} | names
        return FileContents(arrays | self.network.to_arrays(_NAME), header | own)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        grammar, said = LatentGrammar.from_file(contents), contents.header
        labels = said["span_labels"]
        if not isinstance(labels, list) or not all(labels):
            msg = "the labels of spans are no list of lists of names"
            raise ModelFormatError(msg)
        chains = tuple(read_names(chain, "labels of spans") for chain in labels)
        tags = read_names(said["span_tags"], "tags of spans")

        def head_shapes(arrays: Mapping[str, npt.NDArray[Any]], n_states: int) -> Shapes:
            return SpanSizes(len(arrays["span.b"])).shapes(n_states, len(chains))

        network = Network.from_arrays(_NAME, contents.arrays, len(tags), head_shapes)
        return cls(grammar, network, chains, tags, grammar.record)
