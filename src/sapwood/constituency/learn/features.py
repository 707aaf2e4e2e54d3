"""Features of tree nodes: templates, numbering, scaling and projection.

A template gives every node one value, an integer that depends on the tree alone. Inside templates
look at the subtree below a node, outside templates at the rest of the tree. The value -1 means
"absent" and is a feature too. Templates are pure functions of a `NodeTable`, so that all shards
have the same values. Every feature is combined with the label of the node later; a template need
not include the label. The list follows Cohen et al. (2013). Users can add functions of their own;
see `SpectralLPCFG`.

Notation
--------
    M(a)       nodes with label a          n(f)   nodes with feature f
    phi_f = sqrt(M(a) / (n(f) + kappa))    value of an active feature; kappa shrinks rare ones
    phi, psi   inside and outside features of a node
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'; m(a) states of a
    y, z       U' phi and V' psi of a node; Y, Z those of the nodes of a shard, one row each

The features of one label have contiguous numbers: each label has its own block. Spectral, cluster
and pivot learning begin with the projection, which is step 0 of SPECTRAL, Figure 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.pcfg import KERNEL_BYTES
from sapwood.constituency.learn.training_data import TrainingData, WordClasses
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.execute import Placed
from sapwood.linalg.svd import BlockSVD, block_svd

Column = npt.NDArray[np.int64]
LEFT_CHILD, RIGHT_CHILD, TREE_ROOT = 0, 1, 2


class NodeTable:
    """Columns of a treebank with rows numbered over all its trees; -1 means "none".

    Attributes
    ----------
    label, rule, word, start, end
        As in `Treebank`.
    left, right, parent
        Rows of the children and of the parent.
    """

    def __init__(self, bank: Treebank, row_of_word: npt.NDArray[np.int64] | None = None) -> None:
        self.bank = bank
        self.inventory = bank.inventory
        first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
        self.label = bank.label.astype(np.int64)
        self.rule = bank.rule.astype(np.int64)
        self.left, self.right, self.parent = (
            np.where(column >= 0, column + first, -1)
            for column in (bank.left, bank.right, bank.parent)
        )
        self.start, self.end = bank.start.astype(np.int64), bank.end.astype(np.int64)
        self.word = bank.word.astype(np.int64)
        if row_of_word is not None:  # rare words are replaced by their classes
            self.word = np.where(self.word >= 0, row_of_word[self.word], -1)

    def __len__(self) -> int:
        return len(self.label)

    def at(self, column: Column, rows: Column) -> Column:
        """Return the values of a column at other rows; -1 for row -1."""
        return np.where(rows >= 0, column[rows], -1)

    @cached_property
    def side(self) -> Column:
        """Whether a node is a left child, a right child, or a root."""
        side = np.full(len(self), TREE_ROOT, dtype=np.int64)
        side[self.left[self.left >= 0]] = LEFT_CHILD
        side[self.right[self.right >= 0]] = RIGHT_CHILD
        return side

    @cached_property
    def n_words(self) -> Column:
        """Length of each node's sentence."""
        bank = self.bank
        return np.repeat(bank.end[bank.offsets[1:] - 1], np.diff(bank.offsets)).astype(np.int64)

    @cached_property
    def base_tag(self) -> Column:
        """For each symbol of the inventory, the number of its treebank tag."""
        bases = [symbol.chain[-1] for symbol in self.inventory.phrases + self.inventory.tags]
        number = {name: place for place, name in enumerate(dict.fromkeys(bases))}
        return np.array([number[name] for name in bases], dtype=np.int64)

    @property
    def head(self) -> Column:
        """Tag of each node's head word."""
        return self._heads[0]

    @property
    def head_above(self) -> Column:
        """First head tag above each node that differs from its own."""
        return self._heads[1]

    @cached_property
    def _heads(self) -> tuple[Column, Column]:
        from sapwood.constituency.learn.kernels.node_features import head_tags, heads_above

        heads = self.inventory.rule_heads
        own = np.asarray(
            head_tags(self.label, self.rule, self.left, self.right, heads, self.base_tag)
        )
        return own, np.asarray(heads_above(own, self.parent))


Template = Callable[[NodeTable], Column]


def _pair(first: Column, second: Column) -> Column:
    """Hash two values to a number of 48 bits; the product of all values would overflow.

    Two of a million pairs share a number with a probability of 0.2 %.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is meant
        mixed = (first.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) + second.astype(np.uint64) + np.uint64(1)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(16)).astype(np.int64)


def _bucket(counts: Column) -> Column:
    """Return the class of each length: 0 to 5 each, then up to 8, 12, 20, 30, and above."""
    return np.minimum(counts, 5) + np.searchsorted([5, 8, 12, 20, 30], counts)


def word(t: NodeTable) -> Column:
    """The word of a tag: a -> x."""
    return t.word


def left_label(t: NodeTable) -> Column:
    """A -> b *."""
    return t.at(t.label, t.left)


def right_label(t: NodeTable) -> Column:
    """A -> * c."""
    return t.at(t.label, t.right)


def rule(t: NodeTable) -> Column:
    """A -> b c."""
    return t.rule


def left_rule(t: NodeTable) -> Column:
    """A -> (b -> ..) c."""
    return _pair(t.rule, t.at(t.rule, t.left))


def right_rule(t: NodeTable) -> Column:
    """A -> b (c -> ..)."""
    return _pair(t.rule, t.at(t.rule, t.right))


def head(t: NodeTable) -> Column:
    """Tag of the head word."""
    return t.head


def length(t: NodeTable) -> Column:
    """Number of words covered, in classes."""
    return _bucket(t.end - t.start)


def _rule_above(t: NodeTable, rows: Column) -> Column:
    """Return the rule above each of the given rows, combined with the side of the row."""
    above = t.at(t.rule, t.at(t.parent, rows))
    return _pair(above, t.at(t.side, rows))


def rule_above(t: NodeTable) -> Column:
    """The rule above, with the side of the node."""
    return _rule_above(t, np.arange(len(t)))


def two_rules_above(t: NodeTable) -> Column:
    """The two rules above."""
    return _pair(rule_above(t), _rule_above(t, t.parent))


def three_rules_above(t: NodeTable) -> Column:
    """The three rules above."""
    return _pair(two_rules_above(t), _rule_above(t, t.at(t.parent, t.parent)))


def parent(t: NodeTable) -> Column:
    """Label of the parent, with the side."""
    return _pair(t.at(t.label, t.parent), t.side)


def grandparent(t: NodeTable) -> Column:
    """Labels of parent and grandparent, with both sides."""
    above = _pair(t.at(t.label, t.at(t.parent, t.parent)), t.at(t.side, t.parent))
    return _pair(parent(t), above)


def head_above(t: NodeTable) -> Column:
    """First head tag above that differs from the node's own."""
    return t.head_above


def words_before(t: NodeTable) -> Column:
    """Number of words to the left, in classes."""
    return _bucket(t.start)


def words_behind(t: NodeTable) -> Column:
    """Number of words to the right, in classes."""
    return _bucket(t.n_words - t.end)


INSIDE: dict[str, Template] = {
    f.__name__: f
    for f in (word, left_label, right_label, rule, left_rule, right_rule, head, length)
}
OUTSIDE: dict[str, Template] = {
    f.__name__: f
    for f in (
        rule_above, two_rules_above, three_rules_above, parent, grandparent, head_above,
        words_before, words_behind,
    )
}  # fmt: skip


def feature_keys(
    bank: Treebank, templates: Sequence[Template], row_of_word: Column | None = None
) -> Iterator[Column]:
    """Return, for each template, one number for the label and value of every node.

    `row_of_word` replaces the numbers of words; None keeps them.
    """
    table = NodeTable(bank, row_of_word)
    n_symbols = len(table.inventory.phrases) + len(table.inventory.tags)
    for template in templates:
        yield (template(table) + 1) * n_symbols + table.label


Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class FeatureCounts:
    """Sorted keys of features and their counts, for each template; `+` joins shards."""

    keys: tuple[Column, ...]
    counts: tuple[FloatArray, ...]

    def __add__(self, other: FeatureCounts) -> FeatureCounts:
        keys, counts = [], []
        for columns in zip(self.keys, other.keys, self.counts, other.counts, strict=True):
            joined, inverse = np.unique(np.concatenate(columns[:2]), return_inverse=True)
            keys.append(joined)
            total = np.bincount(inverse, np.concatenate(columns[2:]), len(joined))
            counts.append(total.astype(float))
        return FeatureCounts(tuple(keys), tuple(counts))


@dataclass(frozen=True, eq=False)
class NodeKeys:
    """Values of all templates at every node of a shard, before features are numbered."""

    shard: Treebank
    counts: FeatureCounts  # the distinct keys of each template
    key_of_node: tuple[Ids, ...]  # for each template, the index of each node's key

    @classmethod
    def of(
        cls, shard: Treebank, templates: Sequence[Template], row_of_word: Column | None = None
    ) -> NodeKeys:
        """Evaluate the templates at all nodes of a shard."""
        keys, counts, key_of_node = [], [], []
        for values in feature_keys(shard, templates, row_of_word):
            key, index, n = np.unique(values, return_inverse=True, return_counts=True)
            keys.append(key)
            counts.append(n.astype(float))
            key_of_node.append(index.astype(np.uint32))
        return cls(shard, FeatureCounts(tuple(keys), tuple(counts)), tuple(key_of_node))


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """The features of one side, inside or outside, over all shards."""

    templates: tuple[Template, ...]
    keys: tuple[Column, ...]  # sorted keys of each template's features
    number: tuple[Column, ...]  # the number of each of those features
    weight: FloatArray  # [n_features]: value of a feature where it is active
    count: FloatArray  # [n_features]: how many nodes have it
    start: Column  # [n_symbols + 1]: where the block of each label starts

    @classmethod
    def build(
        cls,
        templates: Sequence[Template],
        keys: Sequence[Column],
        counts: Sequence[FloatArray],
        symbol_count: FloatArray,
        kappa: float,
        *,
        scaled: bool = True,
    ) -> FeatureSpace:
        """Number and scale the features counted over all shards."""
        n_symbols = len(symbol_count)
        all_keys, all_counts = np.concatenate(keys), np.concatenate(counts)
        label = all_keys % n_symbols
        order = np.argsort(label, kind="stable")
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        count, label = all_counts[order], label[order]
        weight = np.sqrt(symbol_count[label] / (count + kappa)) if scaled else np.ones(len(order))
        cuts = np.cumsum([len(k) for k in keys])[:-1]
        start = np.searchsorted(label, np.arange(n_symbols + 1))
        return cls(
            tuple(templates), tuple(keys), tuple(np.split(number, cuts)), weight, count, start
        )

    def rows(self, keys: Sequence[Column], key_of_node: Sequence[Ids]) -> Ids:
        """Return the feature numbers of every node, shape [n_nodes, n_templates]."""
        ids = np.empty((len(key_of_node[0]), len(self.templates)), np.uint32)
        for t, (key, index) in enumerate(zip(keys, key_of_node, strict=True)):
            ids[:, t] = self.number[t][np.searchsorted(self.keys[t], key)][index]
        return ids


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The nodes of a shard: their features, and the instances of rules, roots and words."""

    # [n_nodes, n_templates]: feature numbers
    inside: Ids
    outside: Ids
    label: IntArray  # [n_nodes]
    # [n_instances]: instances of rules: their rows, rules, and rows of the children
    parent: IntArray
    rule: IntArray
    left: IntArray
    right: IntArray
    roots: IntArray  # [n_trees]: rows
    # [n_leaves]: rows, and numbers of words
    leaf: IntArray
    word: IntArray
    # [2, n_leaves]: entries of the lexicon that a leaf is an instance of, for its word and its
    # class; or -1
    entry: IntArray

    @classmethod
    def of(
        cls,
        nodes: NodeKeys,
        inside: FeatureSpace,
        outside: FeatureSpace,
        classes: WordClasses,
        lexicon: Lexicon,
    ) -> FeatureRows:
        """Number the features of the nodes of a shard."""
        shard, n_inside = nodes.shard, len(inside.templates)
        keys, index = nodes.counts.keys, nodes.key_of_node
        parent, leaf = np.flatnonzero(shard.rule >= 0), np.flatnonzero(shard.word >= 0)
        first = np.repeat(shard.offsets[:-1], np.diff(shard.offsets))[parent]  # of each node's tree
        word, is_first = shard.word[leaf].astype(np.int64), (shard.start[leaf] == 0).astype(int)
        tag = shard.label[leaf].astype(np.int64) - len(shard.inventory.phrases)
        lexical_rows = classes.own_row[word], classes.class_of_word[is_first, word]
        return cls(
            inside=inside.rows(keys[:n_inside], index[:n_inside]),
            outside=outside.rows(keys[n_inside:], index[n_inside:]),
            label=shard.label.astype(np.int64),
            parent=parent,
            rule=shard.rule[parent].astype(np.int64),
            left=shard.left[parent] + first,
            right=shard.right[parent] + first,
            roots=shard.offsets[1:] - 1,
            leaf=leaf,
            word=word,
            entry=np.stack([lexicon.find_entries(row, tag) for row in lexical_rows]),
        )

    def pairs(self, known: IntArray, n_phrases: int, n_words: int) -> IntArray:
        """Return the index of each leaf in the sorted codes `tag * n_words + word`."""
        return np.searchsorted(known, (self.label[self.leaf] - n_phrases) * n_words + self.word)


Templates = Sequence[str | Template] | None


class FeatureSettings(NamedTuple):
    """Templates of the features of nodes, and how features are scaled."""

    inside: tuple[Template, ...] = tuple(INSIDE.values())
    outside: tuple[Template, ...] = tuple(OUTSIDE.values())
    scaled: bool = True
    kappa: float = 5.0

    @classmethod
    def of(cls, inside: Templates, outside: Templates, scaled: bool, kappa: float) -> Self:
        """Look up the templates given by name; None takes all templates of a side."""
        return cls(_chosen(inside, INSIDE), _chosen(outside, OUTSIDE), scaled, kappa)


def _chosen(wanted: Templates, known: dict[str, Template]) -> tuple[Template, ...]:
    if wanted is None:
        return tuple(known.values())
    chosen = [known.get(item) if isinstance(item, str) else item for item in wanted]
    missing = [item for item, found in zip(wanted, chosen, strict=True) if found is None]
    if missing or not chosen:
        msg = f"no feature template {missing[0]!r}" if missing else "no feature template was given"
        raise SapwoodError(msg, hint=f"templates on this side: {', '.join(known)}")
    return tuple(template for template in chosen if template is not None)


@dataclass(frozen=True, eq=False)
class Features:
    """The features of all nodes of a treebank."""

    inside: FeatureSpace
    outside: FeatureSpace
    rows: Placed  # `FeatureRows` of every shard, in the workers that hold the shards


def node_features(data: TrainingData, settings: FeatureSettings) -> Features:
    """Count and number the features of all nodes; cached in the training data."""
    if settings in data.features:
        return data.features[settings]
    engine, n_inside = data.engine, len(settings.inside)
    templates = settings.inside + settings.outside
    nodes = engine.map(NodeKeys.of, data.shards, templates, data.classes.row_of_word)
    counts: FeatureCounts = engine.total(attrgetter("counts"), nodes)
    inside, outside = (
        FeatureSpace.build(
            templates[side], counts.keys[side], counts.counts[side], data.counts.symbols,
            settings.kappa, scaled=settings.scaled,
        )
        for side in (slice(n_inside), slice(n_inside, None))
    )  # fmt: skip
    rows = engine.map(FeatureRows.of, nodes, inside, outside, data.classes, data.grammar.lexicon)
    data.features[settings] = Features(inside, outside, rows)
    return data.features[settings]


FEW, ENOUGH = 10, 100  # nodes of a label: one state up to FEW, all states from ENOUGH on
LEAST_VALUE = 0.01  # smaller singular values are noise
# For the estimate of memory: bytes of a node's features, and distinct features for each node.
FEATURE_NODE_BYTES, FEATURES_PER_NODE = 900, 1.5


def gather_vectors(ids: Ids, weight: FloatArray, matrix: FloatArray) -> FloatArray:
    """For each node, sum the rows of a matrix over the node's features, scaled by their weights."""
    from sapwood.constituency.learn.kernels.node_features import gather

    out = np.empty((len(ids), matrix.shape[1]))
    gather(ids, weight, matrix, out)
    return out


class SingularVectors(NamedTuple):
    """Singular vectors of all labels, which project the features of nodes."""

    # [n_features]: scales of the features of either side
    inside: FloatArray
    outside: FloatArray
    # [n_features, m]
    U: FloatArray
    V: FloatArray
    m: IntArray  # [n_symbols]: dimensions used for each label

    def vectors(self, rows: FeatureRows) -> tuple[FloatArray, FloatArray]:
        """Step 1 of Figure 7: y and z of all nodes of a shard; zero beyond m of their label."""
        Y = gather_vectors(rows.inside, self.inside, self.U)
        Z = gather_vectors(rows.outside, self.outside, self.V)
        beyond = np.arange(self.U.shape[1]) >= self.m[rows.label][:, None]
        Y[beyond] = Z[beyond] = 0.0
        return Y, Z


def covariance_product(
    rows: FeatureRows,
    scales: tuple[FloatArray, FloatArray],
    X: FloatArray,
    side: int,
) -> FloatArray:
    """Return one shard's summand of Omega X, [n_inside, k], or of Omega' X for side 1.

    Omega = sum over nodes of phi psi', block-diagonal by label, is not stored: it has an entry for
    every pair of features that occur at the same node.

    Parameters
    ----------
    scales
        Scales of the inside and outside features, [n_features] each.
    """
    from sapwood.constituency.learn.kernels.node_features import scatter

    ids = rows.inside, rows.outside
    mixed = gather_vectors(ids[1 - side], scales[1 - side], X)
    out = np.zeros((len(scales[side]), X.shape[1]))
    scatter(ids[side], scales[side], mixed, out)
    return out


@dataclass(frozen=True, eq=False)
class NodeProjection:
    """The features of all nodes, and the singular vectors that project them."""

    features: Features
    vectors: SingularVectors
    m: IntArray  # [n_symbols]: states of each label
    singular_values: FloatArray  # [n_symbols, n_states]


def project_nodes(
    data: TrainingData, n_states: int, settings: FeatureSettings | None = None, *, seed: int = 0
) -> NodeProjection:
    """Step 0 of Figure 7 for all labels at once; cached in the training data."""
    settings = settings or FeatureSettings()
    key = settings, n_states, seed
    if key not in data.projections:
        features = node_features(data, settings)
        svd = _decompose(data, features, n_states, seed)
        # unscaled singular values have no common unit: divide by the largest of each label
        values = svd.s if settings.scaled else svd.s / np.maximum(svd.s[:, :1], 1e-300)
        m = states_by_label(values, data.counts.symbols, n_states)
        scales = features.inside.weight, features.outside.weight
        vectors = SingularVectors(*scales, svd.U, svd.V, m)
        data.projections[key] = NodeProjection(features, vectors, m, svd.s)
    return data.projections[key]


def _decompose(data: TrainingData, features: Features, n_states: int, seed: int) -> BlockSVD:
    """Return the singular vectors of Omega^a (Figure 8), from products summed over shards."""
    sides = features.inside, features.outside
    scales = sides[0].weight, sides[1].weight
    per_node = 1.0 / np.maximum(data.counts.symbols, 1.0)  # Omega is a mean over M(a) nodes
    shares = [np.repeat(per_node, np.diff(side.start))[:, None] for side in sides]

    def times(side: int, X: FloatArray) -> FloatArray:
        total = data.engine.total(covariance_product, features.rows, scales, X, side)
        return total * shares[side]

    return block_svd(
        partial(times, 0), partial(times, 1), sides[0].start, sides[1].start, n_states,
        rng=np.random.default_rng(seed),
    )  # fmt: skip


def states_by_label(values: FloatArray, count: FloatArray, m: int) -> IntArray:
    """Return the number of states of each label, fewer for rare labels and small singular values.

    A label with up to 10 nodes has 1 state, a label with 100 nodes or more has m states; the number
    is linear in between.
    """
    share = np.clip((count - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    by_count = 1 + np.floor(share * (m - 1)).astype(np.int64)
    by_value = (values > LEAST_VALUE).sum(axis=1)
    return np.asarray(np.maximum(1, np.minimum(by_count, by_value)))


def projection_bytes(data: TrainingData, n_states: int) -> float:
    """Estimate the bytes of the features of all nodes and of their singular vectors."""
    n = data.n_nodes_here
    return KERNEL_BYTES + FEATURE_NODE_BYTES * n + 8 * 6 * FEATURES_PER_NODE * n * n_states
