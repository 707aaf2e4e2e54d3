"""`AnnotationGrammar`: the model of a treebank that is being annotated, learnt again and again.

The trees are kept as sums of counts (`GrowingTreebank`), one for each way of making them binary.
The members of the model depend on the number of trees. Which members are best was measured on folds
of train parts by `benchmarks/annotation.py grammars`:

    few trees      intermediate symbols that remember nothing; clusters, and a spectral grammar
    more trees     both ways of making trees binary
    many trees     intermediate symbols that remember one child

A start model, such as `english` or one that was learnt from another treebank, suggests trees before
there are any of the project's own. Its weight w beside the grammar of the project is found by
cross-validation. For brackets b of sentences that neither has seen,

    s(b), o(b)   posteriors of the start model and of the grammar
    y(b)         1 if b is right, else 0
    w = argmin over w of  sum over b of (w s(b) + (1 - w) o(b) - y(b))^2
      = sum of (s - o)(y - o) / sum of (s - o)^2                          cut to [0, 1]

Both sums are additive. Where the labels of the start model are not those of the project, its
brackets are wrong and w falls to 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from time import process_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from sapwood.constituency.annotation.growing import GrowingTreebank, Key, key_order
from sapwood.constituency.data.transform import Transform
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.learn.cluster import ClusterLPCFG
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.constituency.parse.parser import Parser
from sapwood.core.errors import SapwoodError, SapwoodValueError
from sapwood.corpora.tree import ROOT, Tree, clean

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.member import Member
    from sapwood.constituency.learn.training_data import TrainingData

N_FOLDS = 4
FOLD_TREES = 80  # trees of a fold, at most, that are parsed
ONE_FOLD_TREES = 300  # with this many trees or more, one fold is enough to find the weight
PRIOR = 3.0  # brackets that count for the start model before any tree is there
LEAST_TREES = 4  # fewer trees than this do not make folds
Bracket = tuple[str, int, int]
T = TypeVar("T")


class GrammarPlan(NamedTuple):
    """A member of the model: its method, its states, and what intermediate symbols remember."""

    method: str  # `pcfg`, `cluster` or `spectral`
    n_states: int
    horizontal: int


class Plan(NamedTuple):
    """The members of the model from a number of trees on."""

    least_trees: int
    members: tuple[GrammarPlan, ...]


PLANS = (
    Plan(1, (GrammarPlan("pcfg", 1, 0),)),
    Plan(10, (GrammarPlan("cluster", 4, 0), GrammarPlan("spectral", 8, 0))),
    Plan(
        100,
        (
            GrammarPlan("cluster", 4, 0), GrammarPlan("spectral", 8, 0),
            GrammarPlan("cluster", 4, 1), GrammarPlan("spectral", 8, 1),
        ),
    ),
    Plan(800, (GrammarPlan("cluster", 4, 1), GrammarPlan("spectral", 8, 1))),
)  # fmt: skip


def plan_of(n_trees: int, plans: Sequence[Plan] = PLANS) -> Plan:
    """The plan for a number of trees.

    Examples
    --------
    >>> [member.method for member in plan_of(3).members], len(plan_of(5000).members)
    (['pcfg'], 2)
    """
    return [plan for plan in plans if plan.least_trees <= max(1, n_trees)][-1]


@dataclass(frozen=True)
class LearntModel:
    """The model that `AnnotationGrammar.learn` returns, with facts about it.

    Attributes
    ----------
    model
        What `Parser` takes.
    n_trees
        Number of trees of the project that it has learnt from.
    start_weight
        Weight of the start model; 0 where there is none.
    seconds
        CPU seconds that learning took.
    message
        One sentence for the annotator: what the model is made of.
    """

    model: Model
    n_trees: int
    start_weight: float
    seconds: float
    message: str


class AnnotationGrammar:
    """A grammar to which trees are added, and from which they are removed, one at a time.

    What is learnt depends on the trees and their keys alone, byte for byte, and not on the order in
    which they were added, nor on trees that were removed or replaced.

    Parameters
    ----------
    start
        A model that suggests trees before there are enough of the project's own, with the
        project's labels (`sapwood.constituency.annotation.start`); None for none.
    heads
        Which rules find the heads of phrases, `penn` or `generic`. None takes those of the start
        model, or `generic`.
    keep_functions
        Whether function tags stay in the labels, as in `NP-SBJ`.
    plans
        The members of the model by the number of trees.
    seed
        Seed of the random numbers of learners.

    Examples
    --------
    >>> import sapwood as sw
    >>> grammar = AnnotationGrammar()
    >>> for number, tree in enumerate(sw.bundled_treebank("dev")[:30]):
    ...     grammar.add(number, tree)
    >>> grammar.remove(7)
    >>> learnt = grammar.learn()
    >>> learnt.n_trees, len(learnt.model.members)
    (29, 2)
    >>> sw.Parser(learnt.model).parse("the dog sleeps .".split()).kind
    'parsed'
    """

    def __init__(
        self,
        start: Model | None = None,
        *,
        heads: str | None = None,
        keep_functions: bool = False,
        plans: Sequence[Plan] = PLANS,
        seed: int = 0,
    ) -> None:
        self.start, self.keep_functions, self.plans, self.seed = start, keep_functions, plans, seed
        self.heads = heads or _heads_of(start)
        remembered = {member.horizontal for plan in plans for member in plan.members}
        self._banks = {
            h: GrowingTreebank(Transform(horizontal=h, heads=self.heads)) for h in remembered
        }
        self._trees: dict[Key, Tree] = {}
        self._suggested: dict[Key, dict[Bracket, float]] = {}  # of the start model
        self._starter = None if start is None else Parser(start)

    def __len__(self) -> int:
        return len(self._trees)

    def __contains__(self, key: object) -> bool:
        return key in self._trees

    def add(self, key: Key, tree: Tree) -> None:
        """Add a tree under a key that tells its place in the text; a tree of that key is replaced.

        Parameters
        ----------
        key
            A number or a text; keys of one project are of one kind. Learners and folds take trees
            in the order of their keys.
        """
        kept = clean(tree, keep_functions=self.keep_functions)
        if kept is None:
            raise SapwoodValueError(
                f"the tree of sentence {key!r} has no words", hint="skip the sentence instead"
            )
        for bank in self._banks.values():
            bank.add(key, kept)
        self._trees[key] = kept
        self._suggested.pop(key, None)

    def remove(self, key: Key) -> None:
        """Remove a tree, without reading the others."""
        for bank in self._banks.values():
            bank.remove(key)
        del self._trees[key]
        self._suggested.pop(key, None)

    def update(self, trees: Mapping[Key, Tree]) -> int:
        """Make the trees those of a mapping; only what differs is touched. Returns how many did."""
        gone = [key for key in self._trees if key not in trees]
        for key in gone:
            self.remove(key)
        changed = [key for key, tree in trees.items() if not self._has(key, tree)]
        for key in changed:
            self.add(key, trees[key])
        return len(gone) + len(changed)

    def _has(self, key: Key, tree: Tree) -> bool:
        own = self._trees.get(key)
        return own is not None and own == clean(tree, keep_functions=self.keep_functions)

    @property
    def trees(self) -> Mapping[Key, Tree]:
        """The cleaned trees by key."""
        return MappingProxyType(self._trees)

    @property
    def keys(self) -> list[Key]:
        """The keys of the trees, in order."""
        return sorted(self._trees, key=key_order)

    def learn(self) -> LearntModel:
        """Learn the model of the trees that are there now."""
        began, n = process_time(), len(self)
        if not n:
            if self.start is None:
                raise SapwoodError(
                    "there is nothing to learn from: no tree was accepted, and there is no start "
                    "model",
                    hint="accept a tree, or start from a model such as english",
                )
            return LearntModel(self.start, 0, 1.0, 0.0, "The start model alone: no tree yet.")
        own = self.members()
        w = 0.0 if self.start is None else self.start_weight()
        model = replace(mix_models(self.start, own, w), record=self._record(own, w))
        seconds = process_time() - began
        return LearntModel(model, n, w, seconds, _message(n, len(own), w))

    def members(self, without: Iterable[Key] = ()) -> list[Member]:
        """The members that are learnt from the trees, but for those of some keys."""
        left_out = set(without)
        plan = plan_of(len(self) - len(left_out), self.plans)
        prepared: dict[int, TrainingData] = {}
        found = []
        for member in plan.members:
            if member.horizontal not in prepared:
                bank = self._banks[member.horizontal].bank(left_out)
                prepared[member.horizontal] = PCFG().prepare(bank, PCFG()._engine())
            found.append(_estimator(member, self.seed).fit(prepared[member.horizontal]).model_)
        return found

    def fold_model(self, without: Iterable[Key]) -> Model:
        """The model without the trees of some keys, with no start model in it."""
        return Ensemble.of(self.members(without))

    def start_weight(self) -> float:
        """The weight of the start model, see the notation of this module."""

        def rows() -> Iterator[tuple[dict[Bracket, float], dict[Bracket, float], set[Bracket]]]:
            for fold in self._folds():
                parser = Parser(self.fold_model(fold))
                for key in spread(fold, FOLD_TREES):
                    right = set(tree_brackets(self._trees[key]))
                    own = bracket_posteriors(parser, self._trees[key].words())
                    yield self.start_posteriors(key), own, right

        return mixing_weight(rows())

    def _folds(self) -> list[list[Key]]:
        """Runs of neighbours that are parsed by what was learnt from the others."""
        keys = self.keys
        if len(keys) < LEAST_TREES:
            return []
        cuts = np.linspace(0, len(keys), N_FOLDS + 1).astype(int).tolist()
        folds = [keys[a:b] for a, b in pairwise(cuts)]
        return folds if len(keys) < ONE_FOLD_TREES else folds[-1:]

    def start_posteriors(self, key: Key) -> dict[Bracket, float]:
        """Posteriors of the phrases of a tree's words under the start model."""
        assert self._starter is not None
        if key not in self._suggested:
            self._suggested[key] = bracket_posteriors(self._starter, self._trees[key].words())
        return self._suggested[key]

    def _record(self, own: Sequence[Member], w: float) -> dict[str, Any]:
        record: dict[str, Any] = {"method": "annotation", "seed": self.seed}
        record |= {name: own[0].record[name] for name in ("trees", "tokens")}
        return record | {"start_weight": round(w, 4)}


def spread(keys: Sequence[T], most: int) -> list[T]:
    """At most the given number of keys, at equal distances.

    >>> spread([1, 2, 3, 4, 5, 6], 3)
    [1, 3, 5]
    """
    if len(keys) <= most:
        return list(keys)
    return [keys[k * len(keys) // most] for k in range(most)]


def tree_brackets(tree: Tree) -> list[Bracket]:
    """The labelled phrases of a tree, without its tags and its root `TOP`.

    >>> tree_brackets(Tree.parse("(TOP (S (NP (NN dogs)) (VP (VB bark))))"))
    [('S', 0, 2), ('NP', 0, 1), ('VP', 1, 2)]
    """
    pairs = zip(tree.nodes(), tree.spans(), strict=True)
    return [
        (label, i, j) for node, (label, i, j) in pairs if not node.is_preterminal and label != ROOT
    ]


def bracket_posteriors(
    parser: Parser, words: Sequence[str], least: float = 1e-3
) -> dict[Bracket, float]:
    """Posteriors of labelled phrases under a model; those of a fallback tree are 0."""
    return brackets_of(parser.parse(list(words)), least)


def mixing_weight(
    rows: Iterable[tuple[Mapping[Bracket, float], Mapping[Bracket, float], Set[Bracket]]],
    before: float = 1.0,
) -> float:
    """The weight of one model beside another, by least squares; see the notation of this module.

    Parameters
    ----------
    rows
        For each sentence, the posteriors of one model, those of the other, and what is right.
    before
        The weight without any sentence, which counts as much as `PRIOR` brackets.

    Examples
    --------
    >>> right = {("NP", 0, 2)}
    >>> mixing_weight([({("NP", 0, 2): 1.0}, {("VP", 0, 2): 1.0}, right)] * 100)
    1.0
    """
    numerator, denominator = before * PRIOR, PRIOR
    for one, other, right in rows:
        for bracket in right | set(one) | set(other):
            s, o = one.get(bracket, 0.0), other.get(bracket, 0.0)
            numerator += (s - o) * ((bracket in right) - o)
            denominator += (s - o) ** 2
    return float(np.clip(numerator / denominator, 0.0, 1.0))


def blend(
    one: Mapping[Bracket, float], other: Mapping[Bracket, float], weight: float
) -> dict[Bracket, float]:
    """The weighted mean of two sets of posteriors.

    >>> blend({("NP", 0, 1): 1.0}, {("NP", 0, 1): 0.5}, 0.5)
    {('NP', 0, 1): 0.75}
    """
    return {
        bracket: weight * one.get(bracket, 0.0) + (1.0 - weight) * other.get(bracket, 0.0)
        for bracket in {**one, **other}
    }


def brackets_of(parse: Any, least: float = 1e-3) -> dict[Bracket, float]:
    """Posteriors of the labelled phrases of a parse, without tags and the root."""
    columns = parse.posterior_columns(least)
    keep = ~columns.is_tag
    rows = zip(
        *(part[keep].tolist() for part in (columns.label, columns.start, columns.end, columns.p)),
        strict=True,
    )
    return {(columns.names[a], i, j): p for a, i, j, p in rows if columns.names[a] != ROOT}


def _heads_of(start: Model | None) -> str:
    return "generic" if start is None else start.as_ensemble().transform.heads


def _estimator(member: GrammarPlan, seed: int) -> Any:
    if member.method == "pcfg":
        return PCFG()
    if member.method == "cluster":
        return ClusterLPCFG(member.n_states, seed=seed)
    return SpectralLPCFG(member.n_states, seed=seed)


def mix_models(start: Model | None, own: Sequence[Member], w: float) -> Ensemble:
    """Both models in one; trees are made of the symbols of the heavier one."""
    ours = [(member, (1.0 - w) / len(own)) for member in own]
    theirs: list[tuple[Member, float]] = []
    if start is not None and w > 0.0:
        one = start.as_ensemble()
        theirs = [
            (member, w * v)
            for member, v in zip(one.members, one.weights.tolist(), strict=True)
            if v > 0.0
        ]
    ours = ours if w < 1.0 else []
    both = [*theirs, *ours] if w > 0.5 else [*ours, *theirs]
    return Ensemble.of([member for member, _ in both], [v for _, v in both])


def _message(n: int, n_members: int, w: float) -> str:
    trees = f"{n:,} tree" if n == 1 else f"{n:,} trees"
    parts = "one grammar" if n_members == 1 else f"{n_members} grammars"
    text = f"Learnt from {trees}: a mix of {parts}" if n_members > 1 else f"Learnt from {trees}"
    return f"{text}, with a weight of {w:.0%} for the start model." if w > 0 else f"{text}."
