"""The E-step and the M-step of EM on treebank trees, and the grammar of estimated probabilities.

Notation
--------
    rules   t(a -> b c, p, q | a, h), tensors [m(a), m(b), m(c)] one after the other
    words   q(x | a, h) for the pairs (a, x) of tag and word of the training trees, [m(a)] each
    root    pi(a, h), [m(a)] each

    e(a, x, h)    expected count of tag a in state h with word x        q(x | a)   plain lexicon
    P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u)
    q(x | a, h) = q(x | a) P(h | a, x) / P(h | a)

EM has parameters only for the pairs of tag and word in the training trees. The final grammar
accepts any word: the plain lexicon gives the probability of a word with a tag, and P(h | a, x)
divides that probability among the states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.learn.features import NodeTable
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import FieldSums, FloatArray, IntArray, ranges, starts_of, sum_rows
from sapwood.core.errors import SapwoodError
from sapwood.execute import Placed

NODES_PER_STATE = 20  # a label gets at most its count divided by this many states
CLASS_STRENGTH = 5.0  # u above: pseudo-counts from the class of a word


@dataclass(frozen=True, eq=False)
class LatentParameters:
    """Probabilities, or expected counts, per symbol and state; see the notation of this module."""

    n_states: IntArray  # [n_symbols]
    symbols_of: IntArray  # [n_rules, 3]: symbols a, b, c of each rule
    symbol_of_pair: IntArray  # [n_pairs]: the tag symbol of each pair of tag and word
    # probabilities, flat
    root: FloatArray
    rules: FloatArray
    words: FloatArray
    # offsets of the states of each symbol, the tensor of each rule and the vector of each pair
    state_start: IntArray = field(init=False, repr=False)
    rule_start: IntArray = field(init=False, repr=False)
    word_start: IntArray = field(init=False, repr=False)
    # the three offsets, if they are known
    starts: InitVar[tuple[IntArray, ...] | None] = field(default=None, kw_only=True)

    def __post_init__(self, starts: tuple[IntArray, ...] | None) -> None:
        if starts is None:
            m = self.n_states
            sizes = m, m[self.symbols_of].prod(axis=1), m[self.symbol_of_pair]
            starts = tuple(map(starts_of, sizes))
        for name, start in zip(("state_start", "rule_start", "word_start"), starts, strict=True):
            object.__setattr__(self, name, start)

    def with_numbers(
        self, root: FloatArray, rules: FloatArray, words: FloatArray
    ) -> LatentParameters:
        """Return other numbers for the same symbols and states."""
        starts = self.state_start, self.rule_start, self.word_start
        return replace(self, root=root, rules=rules, words=words, starts=starts)

    @cached_property
    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Sums of the rules, and of the words, of each state."""
        m, n = self.n_states[self.symbols_of], int(self.state_start[-1])
        first = self.state_start[self.symbols_of[:, 0]]
        length = np.repeat(m[:, 1] * m[:, 2], m[:, 0])  # length of each row [h] of each tensor
        starts = np.cumsum(length) - length
        rows = np.add.reduceat(self.rules, starts) if len(starts) else np.empty(0)
        by_rules = np.bincount(ranges(first, first + m[:, 0]), rows, n)
        first = self.state_start[self.symbol_of_pair]
        of_word = ranges(first, first + self.n_states[self.symbol_of_pair])
        return np.asarray(by_rules), np.asarray(np.bincount(of_word, self.words, n))

    def state_totals(self) -> FloatArray:
        """Sums of the rules and words of each state: its count, if the numbers are counts."""
        by_rules, by_words = self.totals
        return np.asarray(by_rules + by_words)

    def tensors(self) -> Iterator[tuple[list[int], FloatArray]]:
        """Iterate over the symbols and the tensor of every rule."""
        for symbols, (first, last) in zip(
            self.symbols_of.tolist(), pairwise(self.rule_start.tolist()), strict=True
        ):
            yield symbols, self.rules[first:last].reshape(self.n_states[symbols])

    def emissions(self) -> Iterator[tuple[int, FloatArray]]:
        """Iterate over the tag symbol and the vector of every pair of tag and word."""
        for symbol, (first, last) in zip(
            self.symbol_of_pair.tolist(), pairwise(self.word_start.tolist()), strict=True
        ):
            yield symbol, self.words[first:last]

    def roots(self) -> Iterator[tuple[int, FloatArray]]:
        """Iterate over the symbols and their root vectors."""
        for symbol, (first, last) in enumerate(pairwise(self.state_start.tolist())):
            yield symbol, self.root[first:last]


def maximise_tree_counts(
    layout: LatentParameters,
    counts: Any,
    rules: float = 0.0,
    words: float = 0.0,
) -> LatentParameters:
    """Do the M-step: divide counts by the total of their state, then smooth, in one pass.

    Parameters
    ----------
    layout
        Parameters with the same symbols and states.
    counts
        Expected counts `root`, `rules` and `words` in that layout.
    rules, words
        How strongly states are shrunk towards their mean; see `smooth_states`.
    """
    counted = layout.with_numbers(counts.root, counts.rules, counts.words)
    return _mix(counted, rules, words, _divisors(counted.state_totals()))


def normalise(parameters: LatentParameters) -> LatentParameters:
    """Return the numbers normalised to probabilities."""
    return maximise_tree_counts(parameters, parameters)


def smooth_states(parameters: LatentParameters, rules: float, words: float) -> LatentParameters:
    """Shrink the states of each symbol towards their mean (Petrov et al. 2006)."""
    return _mix(parameters, rules, words, np.ones(int(parameters.state_start[-1])))


def _mix(
    given: LatentParameters, rules: float, words: float, before: FloatArray
) -> LatentParameters:
    """Divide each state by `before`, shrink states towards their mean, and normalise."""
    from sapwood.constituency.learn.kernels.treebank_em import mix_states

    m, m_tag = given.n_states[given.symbols_of], given.n_states[given.symbol_of_pair]
    parents = np.ascontiguousarray(m[:, 0])  # always the same array type: the kernel compiles once
    by_rules, by_words = given.totals
    # the totals of mixed numbers are the mixed totals
    after = _pull_to_mean(given, by_rules / before, rules) + _pull_to_mean(
        given, by_words / before, words
    )
    new_rules, new_words = np.empty_like(given.rules), np.empty_like(given.words)
    mix_states(
        given.rule_start[:-1], given.state_start[given.symbols_of[:, 0]], parents,
        m[:, 1] * m[:, 2], before, rules, _divisors(after), given.rules, new_rules,
    )  # fmt: skip
    mix_states(
        given.word_start[:-1], given.state_start[given.symbol_of_pair], m_tag,
        np.ones_like(m_tag), before, words, _divisors(after), given.words, new_words,
    )  # fmt: skip
    return given.with_numbers(given.root / given.root.sum(), new_rules, new_words)


def _pull_to_mean(given: LatentParameters, total: FloatArray, amount: float) -> FloatArray:
    """Shrink the totals of all states towards the mean over the states of their symbol."""
    mean = np.add.reduceat(total, given.state_start[:-1]) / given.n_states
    return np.asarray((1.0 - amount) * total + amount * np.repeat(mean, given.n_states))


def _divisors(total: FloatArray) -> FloatArray:
    """Return the totals, with those of unused states replaced by 1."""
    return np.where(total >= np.finfo(float).tiny, total, 1.0)


class Groups(NamedTuple):
    """Nodes of phrases grouped by rule, with the offsets of the groups.

    No node of a group is a descendant of another, unless a group holds all nodes of a rule.
    """

    nodes: IntArray
    starts: IntArray


class SortedTrees:
    """Trees with their nodes sorted for the kernels; sorted once, and used in every iteration."""

    def __init__(self, bank: Treebank, pairs: IntArray) -> None:
        """Sort the nodes of a shard."""
        from sapwood.constituency.learn.kernels.treebank_em import heights_and_depths

        table = NodeTable(bank)
        self.label, self.rule = table.label, table.rule
        self.left, self.right = table.left, table.right
        self.roots = bank.offsets[1:] - 1
        is_leaf = table.word >= 0
        self.leaves = np.flatnonzero(is_leaf)
        height, depth = heights_and_depths(bank.offsets, table.left, table.right, table.parent)
        phrases = np.flatnonzero(~is_leaf)
        self.up = _grouped(phrases, self.rule[phrases], height[phrases])
        self.down = _grouped(phrases, self.rule[phrases], depth[phrases])
        self.by_rule = Groups(
            phrases[np.argsort(self.rule[phrases], kind="stable")],
            starts_of(np.bincount(self.rule[phrases], minlength=len(bank.inventory.rules))),
        )
        n_words, n_phrases = len(bank.inventory.words), len(bank.inventory.phrases)
        codes = (self.label[self.leaves] - n_phrases) * n_words + table.word[self.leaves]
        self.pair = np.full(len(self.label), -1)
        self.pair[self.leaves] = np.searchsorted(pairs, codes)


def _grouped(nodes: IntArray, rule: IntArray, level: IntArray) -> Groups:
    """Group nodes by level and rule."""
    order = np.lexsort((rule, level))
    rule, level = rule[order], level[order]
    is_first = np.ones(len(nodes), bool)
    is_first[1:] = (rule[1:] != rule[:-1]) | (level[1:] != level[:-1])
    return Groups(nodes[order], np.append(np.flatnonzero(is_first), len(nodes)))


@dataclass(frozen=True, eq=False)
class ExpectedCounts(FieldSums):
    """Expected counts in the layout of the parameters; `+` joins shards."""

    # expected counts of `LatentParameters.rules`, `.words` and `.root`
    rules: FloatArray
    words: FloatArray
    root: FloatArray
    log_likelihood: float  # of the trees, under the parameters of the E-step

    @classmethod
    def of(cls, shard: SortedTrees, parameters: LatentParameters) -> ExpectedCounts:
        """Do the E-step on one shard."""
        from sapwood.constituency.learn.kernels import treebank_em as kernel

        g, t = parameters, shard
        beta, alpha, down, log_likelihood, root = inside_outside_vectors(shard, parameters)
        rules = np.empty_like(g.rules)
        kernel.rule_counts(
            *t.by_rule, t.label, t.left, t.right, g.n_states, g.rule_start, g.rules,
            beta, down, alpha, rules,
        )  # fmt: skip
        words = np.zeros_like(g.words)
        leaf = _leaf_starts(shard, parameters)
        kernel.leaf_sums(t.leaves, t.label, g.n_states, leaf, beta, alpha, words)
        return cls(rules, words, root, log_likelihood)


def _leaf_starts(shard: SortedTrees, parameters: LatentParameters) -> IntArray:
    return np.where(shard.pair >= 0, parameters.word_start[shard.pair], -1)


def inside_outside_vectors(
    shard: SortedTrees, parameters: LatentParameters
) -> tuple[FloatArray, FloatArray, FloatArray, float, FloatArray]:
    """Return inside and outside vectors of all nodes, scales, log-likelihood and root counts."""
    from sapwood.constituency.learn.kernels import treebank_em as kernel

    g, t = parameters, shard
    m = int(g.n_states.max())
    if m > kernel.MAX_STATES:
        msg = f"a symbol has {m} states, and EM takes at most {kernel.MAX_STATES}"
        raise SapwoodError(msg, hint="train with fewer states")
    beta, alpha = np.empty((len(t.label), m)), np.empty((len(t.label), m))
    down = np.empty(len(t.label))
    leaf = _leaf_starts(shard, parameters)
    kernel.inside_leaves(t.leaves, t.label, g.n_states, leaf, g.words, beta, down)
    kernel.inside(
        *t.up, t.label, t.rule, t.left, t.right, g.n_states, g.rule_start, g.rules, beta, down
    )
    root = np.zeros_like(g.root)
    log_likelihood = float(np.log(down).sum()) + kernel.outside_roots(
        t.roots, t.label, g.n_states, g.state_start, g.root, beta, alpha, root
    )
    kernel.outside(
        *t.down, t.label, t.rule, t.left, t.right, g.n_states, g.rule_start, g.rules,
        beta, down, alpha,
    )  # fmt: skip
    return beta, alpha, down, log_likelihood, root


def state_merge_losses(
    shard: SortedTrees, parameters: LatentParameters, pairs: IntArray, fraction: FloatArray
) -> FloatArray:
    """Estimate the loss of log-likelihood of one shard for each pair of states, joined alone.

    Parameters
    ----------
    pairs : [n_pairs, 3]
        Symbol and two of its states, in the order of the symbols.
    fraction : [n_pairs]
        Relative frequency of the first state, given that the state is one of the two.
    """
    from sapwood.constituency.learn.kernels import treebank_em as kernel

    beta, alpha, *_ = inside_outside_vectors(shard, parameters)
    symbol, first, second = np.ascontiguousarray(pairs.T)
    start = np.searchsorted(symbol, np.arange(len(parameters.n_states) + 1))
    loss = np.zeros(len(pairs))
    kernel.merge_losses(shard.label, start, first, second, fraction, alpha, beta, loss)
    return loss


class TrainingTrees:
    """Training trees sorted for the kernels of EM, with numbered pairs of tag and word.

    Attributes
    ----------
    pairs : [n_pairs]
        Sorted codes `tag * n_words + word` of the pairs of tag and word.
    symbol_of_pair : [n_pairs]
    limit : [n_symbols]
        Largest number of states of each label, which depends on its number of nodes.
    """

    def __init__(self, data: TrainingData) -> None:
        self.engine, self.inventory, self.counts = data.engine, data.inventory, data.counts
        self.pairs = data.counts.pairs
        n_words, n_phrases = len(data.inventory.words), len(data.inventory.phrases)
        self.symbol_of_pair = n_phrases + self.pairs // n_words
        self.limit = np.maximum(1, data.counts.symbols // NODES_PER_STATE).astype(np.int64)
        if data.sorted_trees is None:
            data.sorted_trees = self.engine.map(SortedTrees, data.shards, self.pairs)
        self.shards: Placed = data.sorted_trees

    def plain_parameters(self) -> LatentParameters:
        """Return relative frequencies, with one state for each symbol."""
        counts, pair = self.counts, np.searchsorted(self.pairs, self.counts.lexical // 2)
        return normalise(
            LatentParameters(
                np.ones(len(counts.symbols), np.int64), self.inventory.rules.astype(np.int64),
                self.symbol_of_pair, counts.roots, counts.rules,
                np.bincount(pair, counts.lexical_count, len(self.pairs)).astype(float),
            )
        )  # fmt: skip

    def expect(self, parameters: LatentParameters) -> ExpectedCounts:
        """Do the E-step over all shards."""
        return self.engine.total(ExpectedCounts.of, self.shards, parameters)

    def merge_losses(
        self, parameters: LatentParameters, pairs: IntArray, fraction: FloatArray
    ) -> FloatArray:
        """Estimate the loss of log-likelihood over all shards; see `state_merge_losses`."""
        return self.engine.total(state_merge_losses, self.shards, parameters, pairs, fraction)


def latent_grammar(
    data: TrainingData,
    pairs: IntArray,
    parameters: LatentParameters,
    counts: ExpectedCounts,
    record: dict[str, Any],
) -> LatentGrammar:
    """Return the grammar of estimated probabilities, with a lexicon for any word.

    `pairs` are codes `tag * n_words + word` of the pairs in `parameters.words`.
    """
    plain = data.grammar
    sizes = np.diff(parameters.rule_start)
    return LatentGrammar(
        plain.phrases, plain.tags, parameters.n_states, parameters.root, plain.rules,
        parameters.rules[np.repeat(data.counts.rules > 0, sizes)],
        _lexicon(data, pairs, parameters, counts), plain.coarse, plain.transform, record=record,
    )  # fmt: skip


def _lexicon(
    data: TrainingData, pairs: IntArray, parameters: LatentParameters, counts: ExpectedCounts
) -> Lexicon:
    lexicon, n_phrases = data.grammar.lexicon, data.grammar.n_phrases
    m = int(parameters.n_states.max())
    tag, word = np.divmod(pairs, len(data.inventory.words))
    expected = np.zeros((len(pairs), m))  # zeros after the states of each tag
    expected[np.arange(m) < parameters.n_states[n_phrases + tag][:, None]] = counts.words
    states = _state_posteriors(data, expected, tag, word)
    entry_tag = lexicon.entry_tag.astype(np.int64)
    joint = states * lexicon.weights[:, None]
    per_tag = sum_rows(joint, entry_tag, len(data.grammar.tags))
    joint /= np.where(per_tag > 0, per_tag, 1.0)[entry_tag]
    sizes = parameters.n_states[n_phrases + entry_tag]
    kept = np.arange(m) < sizes[:, None]
    return replace(lexicon, weights=joint[kept], weight_start=starts_of(sizes))


def _state_posteriors(
    data: TrainingData, expected: FloatArray, tag: IntArray, word: IntArray
) -> FloatArray:
    """Return P(h | a, x) for every entry of the lexicon, shape [n_entries, m]."""
    classes, lexicon = data.classes, data.grammar.lexicon

    by_tag = sum_rows(expected, tag, len(data.grammar.tags))
    tag_prior = by_tag / np.maximum(by_tag.sum(axis=1, keepdims=True), 1e-300)
    entry_tag = lexicon.entry_tag.astype(np.int64)

    def posteriors(rows: IntArray, prior: FloatArray) -> FloatArray:
        """Sum the expected states of each entry's pairs, and smooth them towards a prior."""
        entry = lexicon.find_entries(rows, tag)
        total = sum_rows(expected[entry >= 0], entry[entry >= 0], len(lexicon.entry_tag))
        n = total.sum(axis=1, keepdims=True)
        return np.asarray((total + CLASS_STRENGTH * prior) / (n + CLASS_STRENGTH))

    class_row = classes.class_of_word[0]
    of_class = posteriors(class_row[word], tag_prior[entry_tag])
    entry_row = lexicon.entry_row
    own_class = np.full(lexicon.n_rows, -1)  # for the row of each rare word, its class
    rare = (classes.own_row >= 0) & (class_row >= 0)
    own_class[classes.own_row[rare]] = class_row[rare]
    class_entry = lexicon.find_entries(own_class[entry_row], entry_tag)
    prior = np.where((class_entry >= 0)[:, None], of_class[class_entry], tag_prior[entry_tag])
    is_class = (entry_row >= len(lexicon.words))[:, None]
    return np.where(is_class, of_class, posteriors(classes.own_row[word], prior))
