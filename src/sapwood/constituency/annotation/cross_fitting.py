"""Cross-fitting of a project's grammar: counts for the learning curve.

The trees are cut into folds of neighbours, so that no document is in two. Models learn from some of
the trees of the other folds, drawn once: smaller draws are parts of larger ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from sapwood.annotation.curve import CrossFitted, LearningCurve, curve_sizes, learning_curve
from sapwood.constituency.annotation.grammar import (
    AnnotationGrammar,
    mix_models,
    spread,
    tree_brackets,
)
from sapwood.constituency.parse.parser import Parser
from sapwood.core.arrays import FloatArray
from sapwood.corpora.tree import Tree

N_FOLDS, MANY_TREES, FEW_FOLDS = 4, 400, 2  # folds, and fewer of them from many trees on
JUDGED = 200  # trees that are parsed, over all folds
RUN = 5  # neighbours that count as one document where documents are not known
LEAST_TREES = 16  # fewer make no curve


def cross_fit(
    grammar: AnnotationGrammar,
    documents: Sequence[str] | None = None,
    *,
    start_weight: float = 0.0,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> CrossFitted:
    """Judge models of several numbers of trees on trees of other folds.

    Parameters
    ----------
    documents
        The document of each tree, in the order of the keys; without, runs of neighbours.
    start_weight
        Weight of the start model in all of the models.
    check
        Called between models; may raise, to stop.

    Notes
    -----
    Cost: about six times that of learning, and parses of `JUDGED` trees by each model.
    """
    keys, trees = grammar.keys, grammar.trees
    n_folds = N_FOLDS if len(keys) < MANY_TREES else FEW_FOLDS
    groups = _runs(len(keys)) if documents is None else _numbers(documents)
    folds = _assign(groups, n_folds)
    sizes = curve_sizes(len(keys) - max(Counter(folds).values()))
    rows, document = [], []
    words = np.zeros(len(sizes))
    for fold in range(n_folds):
        held = [k for k in range(len(keys)) if folds[k] == fold]
        judged: list[int] = spread(held, JUDGED // n_folds)
        others = [k for k in range(len(keys)) if folds[k] != fold]
        drawn = np.random.default_rng([seed, fold]).permutation(others)
        found = []
        for place, size in enumerate(sizes):
            check()
            used = {keys[k] for k in drawn[:size].tolist()}
            words[place] += sum(len(trees[key].words()) for key in used) / n_folds
            model = mix_models(
                grammar.start, grammar.members(without=set(keys) - used), start_weight
            )
            found.append(_judge(Parser(model), [trees[keys[k]] for k in judged]))
        rows.append(np.stack(found, axis=1))
        document += [groups[k] for k in judged]
    counts = np.concatenate(rows)
    return CrossFitted(
        np.array(sizes), words.round().astype(np.int64), np.array(document),
        counts[..., 0], counts[..., 1],
    )  # fmt: skip


def grammar_curve(
    grammar: AnnotationGrammar,
    documents: Sequence[str] | None = None,
    *,
    more_trees: int = 100,
    start_weight: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> LearningCurve | None:
    """The learning curve of a project; None while there are too few trees.

    Examples
    --------
    >>> import sapwood as sw
    >>> grammar = AnnotationGrammar()
    >>> for number, tree in enumerate(sw.bundled_treebank("dev")[:40]):
    ...     grammar.add(number, tree)
    >>> curve = grammar_curve(grammar)
    >>> [point.trees for point in curve.points], curve.gain >= 0
    ([10, 12, 16, 19, 24, 30], True)
    """
    if len(grammar) < LEAST_TREES:
        return None
    counts = cross_fit(grammar, documents, start_weight=start_weight, check=check)
    return learning_curve(counts, len(grammar), more_trees)


def _judge(parser: Parser, trees: Sequence[Tree]) -> FloatArray:
    """Brackets found in each tree, and the mean of those that are right and those said."""
    rows = []
    for tree in trees:
        right = Counter(tree_brackets(tree))
        said = Counter(tree_brackets(parser.parse(tree.words()).tree))
        rows.append(((right & said).total(), (right.total() + said.total()) / 2))
    return np.array(rows, float).reshape(-1, 2)


def _runs(n: int) -> list[int]:
    return [k // RUN for k in range(n)]


def _numbers(documents: Sequence[str]) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(name, len(known)) for name in documents]


def _assign(groups: Sequence[int], n_folds: int) -> list[int]:
    """The fold of each tree: documents go to the fold with the fewest trees, largest first."""
    sizes = Counter(groups)
    if len(sizes) < n_folds:  # few documents: neighbours are cut
        return [k * n_folds // len(groups) for k in range(len(groups))]
    filled, fold = [0] * n_folds, dict[int, int]()
    for group, n in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        fold[group] = filled.index(min(filled))
        filled[fold[group]] += n
    return [fold[group] for group in groups]
