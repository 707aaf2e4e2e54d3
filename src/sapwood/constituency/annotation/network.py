"""A network beside the grammars of a project: trained when asked, and kept in the project's folder.

The network is trained on most of the accepted trees. The others are *held out*: they tell the
weight v of the network beside the model m of grammars. For brackets b of held-out sentences,

    n(b), m(b)   posteriors of the network and of the grammars learnt without these trees
    y(b)         1 if b is right, else 0
    v = argmin over v of  sum over b of (v n(b) + (1 - v) m(b) - y(b))^2        cut to [0, 1]

The weight is found once for each network. The grammars go on learning beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.constituency.annotation.grammar import (
    AnnotationGrammar,
    Bracket,
    blend,
    bracket_posteriors,
    mixing_weight,
    spread,
    tree_brackets,
)
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.parse.parser import Parser
from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.member import Member

FEWEST_HELD_OUT, MOST_HELD_OUT = 20, 80  # of the accepted trees, a tenth between these
EVEN_SHARE = 0.5  # the weight before any tree is seen
HELD_OUT, PROJECT_TREES = "held_out", "project_trees"  # in the record of a network


class KeptNetwork(NamedTuple):
    """A network that a project keeps.

    Attributes
    ----------
    n_trees
        Number of trees that it was trained on.
    held_out
        Ids of sentences that it was not trained on.
    """

    model: Member
    n_trees: int
    held_out: tuple[str, ...]


def hold_out(ids: Sequence[str]) -> list[str]:
    """The sentences that a network is not trained on, at equal distances.

    >>> hold_out([f"s{k}" for k in range(1, 101)])[:3]
    ['s1', 's6', 's11']
    """
    return spread(ids, min(max(len(ids) // 10, FEWEST_HELD_OUT), MOST_HELD_OUT))


def keep_network(trained: Path, kept: Path, n_trees: int, held_out: Sequence[str]) -> None:
    """Write a trained network to the file of a project, with what it was trained on."""
    model: Any = _read(trained)
    record = {**model.record, PROJECT_TREES: n_trees, HELD_OUT: list(held_out)}
    replace(model, record=record).save(kept, force=True)


def kept_network(file: Path) -> KeptNetwork | None:
    """The network of a project; None where the file is none that can be read."""
    try:
        model = _read(file)
    except (SapwoodError, OSError):  # it is a cache: another network can be trained
        return None
    n_trees, held_out = model.record.get(PROJECT_TREES), model.record.get(HELD_OUT)
    if not isinstance(n_trees, int) or not isinstance(held_out, list):
        return None
    return KeptNetwork(model, n_trees, tuple(map(str, held_out)))


def _read(file: Path) -> Any:
    from sapwood.core.model_files import load

    return load(file)


def network_weight(
    grammar: AnnotationGrammar, network: Model, held_out: Sequence[int], start_weight: float
) -> float:
    """The weight of a network beside the grammars and the start model, see this module."""
    known = [key for key in held_out if key in grammar]
    if not known or len(known) == len(grammar):
        return EVEN_SHARE
    own, theirs = Parser(grammar.fold_model(known)), Parser(network)

    def rows() -> Iterator[tuple[dict[Bracket, float], dict[Bracket, float], set[Bracket]]]:
        for key in known:
            words, right = grammar.trees[key].words(), set(tree_brackets(grammar.trees[key]))
            grammars = bracket_posteriors(own, words)
            if start_weight > 0.0:
                grammars = blend(grammar.start_posteriors(key), grammars, start_weight)
            yield bracket_posteriors(theirs, words), grammars, right

    return mixing_weight(rows(), EVEN_SHARE)


def with_network(model: Model, network: Member, weight: float) -> Ensemble:
    """A model and a network in one; trees are made of the symbols of the heavier one."""
    one = model.as_ensemble()
    if weight <= 0.0:
        return one
    rows = [
        (member, (1.0 - weight) * w)
        for member, w in zip(one.members, one.weights.tolist(), strict=True)
    ]
    rows = [row for row in rows if row[1] > 0.0]
    rows = [(network, weight), *rows] if weight > 0.5 else [*rows, (network, weight)]
    mixed = Ensemble.of([member for member, _ in rows], [w for _, w in rows])
    return replace(mixed, record={**one.record, "network_weight": round(weight, 4)})
