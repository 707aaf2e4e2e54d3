"""`Member`: a new kind of member is one class, and nobody asks which kind a model is."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from tests.conftest import Learn

import sapwood as sw
from sapwood.constituency.grammar.ensemble import Ensemble, generative_part
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.member import BracketReader, Can, Member
from sapwood.core.errors import SapwoodError
from sapwood.core.model_files import FileContents

SOURCE = Path(sw.__file__).parent
WORDS = ["the", "dog", "sleeps", "."]


class FlatReader:
    """Knows one bracket: the whole sentence under the first label."""

    def read(self, words: list[str], constraints: Any = None) -> tuple[Any, Any]:
        return np.array([len(words)]), np.array([1.0])

    def read_many(self, sentences: Any) -> list[tuple[Any, Any]]:
        return [self.read(*sentence) for sentence in sentences]

    def log_ratio(self, words: list[str], constraints: Any) -> float:
        return 0.0

    def megabytes(self, n: int) -> float:
        return 8e-6


@dataclass(frozen=True, eq=False)
class FlatModel(Member):
    """A kind of member that the library does not know."""

    grammar: LatentGrammar
    record: Mapping[str, Any] = field(default_factory=lambda: {"method": "flat"})
    has_rules: ClassVar[bool] = False

    @property
    def can(self) -> Can:
        return Can(sample=False, probabilities=True, rules=self.has_rules, derivations=False)

    @property
    def chart_grammar(self) -> LatentGrammar:
        return self.grammar

    @property
    def n_weights(self) -> int:
        return 0

    def reader(self, label_numbers: Mapping[str, int]) -> BracketReader:
        assert label_numbers
        return FlatReader()

    def to_file(self) -> FileContents:
        raise NotImplementedError

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        raise NotImplementedError


@pytest.fixture(scope="module")
def flat(learn: Learn) -> FlatModel:
    return FlatModel(learn("pcfg"))


def test_a_new_kind_of_member_is_mixed_by_its_weight(flat: FlatModel) -> None:
    label = flat.grammar.symbols[0].chain[0]
    alone, plain = (sw.Parser(model).parse(WORDS) for model in (flat, flat.grammar))
    assert [c[:3] for c in alone.marginals] == [(label, 0, len(WORDS))]
    mix = Ensemble.of([flat.grammar, flat], [3, 1])
    found = {c[:3]: c.probability for c in sw.Parser(mix).parse(WORDS).marginals}
    for c in plain.marginals:
        if c.end - c.start > 1:
            expected = 0.75 * c.probability + 0.25 * (c[:3] == (label, 0, len(WORDS)))
            assert found[c[:3]] == pytest.approx(expected, abs=1e-12)
    tree = sw.Parser(mix).parse(WORDS).tree
    assert mix.log_prob(tree) == pytest.approx(flat.grammar.log_prob(tree), abs=1e-9)


def test_what_a_new_kind_cannot_do_is_refused(flat: FlatModel) -> None:
    for refused in (
        lambda: sw.Parser(flat, decoder="max-rule"),
        lambda: flat.sample(1),
        lambda: generative_part(flat),
    ):
        with pytest.raises(SapwoodError):
            refused()
    mix = Ensemble.of([flat.grammar, flat])
    assert mix.can == Can(sample=True, probabilities=True, rules=True, derivations=False)
    assert generative_part(mix).members == (flat.grammar,)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("pcfg", Can(sample=True, probabilities=True, rules=True, derivations=True)),
        ("cluster", Can(sample=True, probabilities=True, rules=True, derivations=True)),
        ("spectral", Can(sample=False, probabilities=False, rules=True, derivations=False)),
        ("crf", Can(sample=False, probabilities=True, rules=True, derivations=False)),
    ],
)
def test_members_do_what_they_can(learn: Learn, method: str, expected: Can) -> None:
    model = learn(method)
    assert model.can == expected
    for is_able, attempt in (
        (expected.sample, lambda: model.sample(1)),
        (expected.derivations, lambda: sw.Parser(model, decoder="viterbi").parse(WORDS)),
        (expected.rules, lambda: sw.Parser(model, decoder="goodman").parse(WORDS)),
    ):
        if is_able:
            attempt()
        else:
            with pytest.raises(SapwoodError):
                attempt()


def test_nobody_asks_which_kind_a_member_is() -> None:
    """But for the borders, where anything may come in: parser, ensemble, and the page's models."""
    kinds = {"LatentGrammar", "FeatureGrammar", "SpanNetwork", "Ensemble", "Member", "Model"}
    asked = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                named = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)}
                asked += [f"{path.name}:{node.lineno}"] if named & kinds else []
    assert len(asked) <= 4, asked
