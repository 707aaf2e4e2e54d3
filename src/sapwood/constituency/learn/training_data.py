"""`TrainingData`: a treebank counted for all learners, with its plain grammar and lexicon.

The lexicon gives P(word | tag) for any word.

Notation
--------
    a      a tag symbol of the model (`NN`, `NP|NN`)   B(a)   its base, the treebank's tag (`NN`)
    x      a word                                      s      a class of unknown words
    n(x)   count of a word     T(a)   number of distinct words seen with a

Joint and annotated tags are sparse, so their emissions back off to the base tag (Witten-Bell):

    q(x | a) = (n(a, x) + k T(a) q(x | B)) / (n(a) + k T(a))

The base distribution q(x | B) comes from soft counts n(x) P(B | x). The tag distribution of a word
seen n(x) times is smoothed with that of its class:

    P(B | x) = (n(B, x) + u P(B | s(x))) / (n(x) + u)

Classes are estimated from rare words, and each class is smoothed towards the next more general
class. As in the Good-Turing estimate, the expected number of unknown words is that of words seen
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array

from sapwood.constituency.data.transform import Inventory
from sapwood.constituency.data.treebank import SHARD_NODES, StoredTreebank, Treebank
from sapwood.constituency.grammar.latent_grammar import CoarseWeights, LatentGrammar, Lexicon
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.corpora.tree import uses_penn_tags
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary, signatures
from sapwood.execute import Engine

if TYPE_CHECKING:
    from sapwood.constituency.learn.features import Features, FeatureSettings, NodeProjection
    from sapwood.execute import Placed

Rows = npt.NDArray[np.int64]
RARE = 2  # words seen at most this often also count as unknown words of their class
FREQUENT = 100  # words seen more often get only the tags they were seen with
NEGLIGIBLE = 1e-3  # tags with a lower probability in a class are left out of the class
CUT = 1e-4  # minimum ratio to the word's most frequent tag; rarer entries only slow the chart
CLASS_SMOOTHING = 3.0  # pseudo-counts from the next more general class


@dataclass(frozen=True, eq=False)
class TreebankCounts:
    """Counts of rules, symbols, roots and words in trees; `+` joins shards."""

    rules: FloatArray  # [n_rules]
    symbols: FloatArray  # [n_symbols]
    roots: FloatArray  # [n_symbols]
    # distinct codes `(tag * n_words + word) * 2 + is_first`, sorted; tags are counted from 0
    lexical: npt.NDArray[np.int64]
    lexical_count: FloatArray  # count of each code

    @property
    def pairs(self) -> npt.NDArray[np.int64]:
        """Distinct codes `tag * n_words + word`, sorted."""
        return np.unique(self.lexical // 2)

    @classmethod
    def zero(cls, inventory: Inventory) -> TreebankCounts:
        """Return counts of 0."""
        n_symbols = len(inventory.symbols)
        return cls(
            np.zeros(len(inventory.rules)), np.zeros(n_symbols), np.zeros(n_symbols),
            np.empty(0, np.int64), np.empty(0),
        )  # fmt: skip

    @classmethod
    def of(cls, bank: Treebank) -> TreebankCounts:
        """Count a treebank, or a shard of one."""
        inventory = bank.inventory
        n_symbols = len(inventory.phrases) + len(inventory.tags)
        leaf = bank.word >= 0
        tag = bank.label[leaf].astype(np.int64) - len(inventory.phrases)
        codes = (tag * len(inventory.words) + bank.word[leaf]) * 2 + (bank.start[leaf] == 0)
        lexical, count = np.unique(codes, return_counts=True)
        return cls(
            np.bincount(bank.rule[~leaf], minlength=len(inventory.rules)).astype(float),
            np.bincount(bank.label, minlength=n_symbols).astype(float),
            np.bincount(bank.label[bank.offsets[1:] - 1], minlength=n_symbols).astype(float),
            lexical,
            count.astype(float),
        )

    def __add__(self, other: TreebankCounts) -> TreebankCounts:
        codes = np.concatenate([self.lexical, other.lexical])
        lexical, inverse = np.unique(codes, return_inverse=True)
        count = np.bincount(
            inverse, np.concatenate([self.lexical_count, other.lexical_count]), len(lexical)
        )
        return TreebankCounts(
            self.rules + other.rules,
            self.symbols + other.symbols,
            self.roots + other.roots,
            lexical,
            count.astype(float),
        )


@dataclass(frozen=True)
class LexiconSettings:
    """How words are generalised.

    Parameters
    ----------
    rare_count
        Maximum count of the words from which the classes of unknown words are estimated.
    class_count
        Minimum number of rare tokens of a class; rarer classes are not used.
    sharing
        k above: how strongly joint tags back off to their base tag.
    class_weight
        u above: pseudo-counts from the class of a word.
    style
        `english`, `generic`, or `auto` to decide by the tags.
    """

    rare_count: int = 5
    class_count: int = 5
    sharing: float = 4.0
    class_weight: float = 1.0
    style: str = "auto"


def estimate_lexicon(
    counts: TreebankCounts, inventory: Inventory, settings: LexiconSettings
) -> Lexicon:
    """Build the lexicon of a plain grammar from lexical counts.

    Returns
    -------
    Lexicon
        The lexicon with one weight per entry; the weights of each tag sum to 1 over words and
        classes.
    """
    table = _LexicalTable(counts, inventory, settings)
    classes = _Classes(table)
    soft = _soft_base_counts(table, classes)
    weights = _share(table, soft)
    return _pack(table, classes, weights)


class _LexicalTable:
    """Lexical counts as sparse matrices: words x tags and words x base tags."""

    def __init__(
        self, counts: TreebankCounts, inventory: Inventory, settings: LexiconSettings
    ) -> None:
        self.settings = settings
        self.words = inventory.words
        n_words, n_tags = len(inventory.words), len(inventory.tags)
        bases = [symbol.chain[-1] for symbol in inventory.tags]
        number = {name: place for place, name in enumerate(dict.fromkeys(bases))}
        self.n_bases = len(number)
        self.base_of = np.array([number[name] for name in bases])
        style = settings.style
        self.style = style if style != "auto" else "english" if uses_penn_tags(bases) else "generic"
        pair, self.is_first = np.divmod(counts.lexical, 2)
        self.tag, self.word = np.divmod(pair, n_words)
        self.count = counts.lexical_count
        self.by_tag = _sparse(self.count, self.word, self.tag, (n_words, n_tags))
        base = self.base_of[self.tag]
        self.by_base = _sparse(self.count, self.word, base, (n_words, self.n_bases))
        self.word_count = np.asarray(self.by_tag.sum(axis=1)).ravel()


def _sparse(
    values: FloatArray, rows: IntArray, columns: IntArray, shape: tuple[int, int]
) -> csr_array:
    matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
    matrix.sum_duplicates()
    return matrix


class _Classes:
    """P(B | class) and the expected count of every class of unknown words."""

    def __init__(self, table: _LexicalTable) -> None:
        rare = np.flatnonzero(table.word_count[table.word] <= table.settings.rare_count)
        tags_of: dict[str, FloatArray] = {UNKNOWN: np.zeros(table.n_bases)}
        chains = []
        for token in rare:
            word, is_first = table.words[table.word[token]], bool(table.is_first[token])
            chains.append(signatures(word, is_first=is_first, style=table.style))
            base, count = table.base_of[table.tag[token]], table.count[token]
            for name in chains[-1]:
                tags_of.setdefault(name, np.zeros(table.n_bases))[base] += count
        least = table.settings.class_count
        self.tags_of = {x: n for x, n in tags_of.items() if x == UNKNOWN or n.sum() >= least}
        # tags with more distinct words are more likely tags of new words
        openness = np.asarray((table.by_base > 0).sum(axis=0), dtype=float).ravel()
        self.prior = openness / openness.sum()
        self.names = sorted(self.tags_of)
        self.share: dict[tuple[str, ...], FloatArray] = {}
        number = {name: place for place, name in enumerate(self.names)}
        # a class without words seen once may occur too
        self.expected = np.full(len(self.names), 0.1)
        for token, chain in zip(rare, chains, strict=True):
            if table.word_count[table.word[token]] == 1:
                self.expected[number[self.known(chain)[0]]] += 1.0

    def known(self, chain: Iterable[str]) -> tuple[str, ...]:
        """Return the known classes of a chain, the most specific first."""
        return tuple(name for name in chain if name in self.tags_of)

    def tag_share(self, chain: tuple[str, ...]) -> FloatArray:
        """Return P(B | class), smoothed towards more general classes, without negligible tags."""
        if chain not in self.share:
            p = self.prior
            for name in reversed(chain):
                seen = self.tags_of[name]
                p = (seen + CLASS_SMOOTHING * p) / (seen.sum() + CLASS_SMOOTHING)
            p = np.where(p >= NEGLIGIBLE * p.max(), p, 0.0)
            self.share[chain] = p / p.sum()
        return self.share[chain]


def _soft_base_counts(table: _LexicalTable, classes: _Classes) -> csr_array:
    """Return n(x) P(B | x) for words, then for classes; shape [n_words + n_classes, n_bases]."""
    u = table.settings.class_weight
    mixed = np.flatnonzero((table.word_count <= FREQUENT) & (table.word_count > 0))
    chains = [signatures(table.words[x], is_first=False, style=table.style) for x in mixed]
    chains += [_plainer(name) for name in classes.names]
    n_words = len(table.words)
    places = [*mixed.tolist(), *range(n_words, n_words + len(classes.names))]
    factors = [*[u] * len(mixed), *classes.expected]
    rows, columns, values = [], [], []
    for place, chain, factor in zip(places, chains, factors, strict=True):
        share = classes.tag_share(classes.known(chain))
        base = np.flatnonzero(share)
        rows.append(np.full(len(base), place))
        columns.append(base)
        values.append(factor * share[base])
    shape = (n_words + len(classes.names), table.n_bases)
    added = _sparse(np.concatenate(values), np.concatenate(rows), np.concatenate(columns), shape)
    seen = table.by_base.copy()
    seen.resize(shape)
    total = seen + added
    keep = np.ones(shape[0])
    keep[mixed] = table.word_count[mixed] / (table.word_count[mixed] + u)
    return total.multiply(keep[:, None]).tocsr()


def _plainer(name: str) -> tuple[str, ...]:
    """Return a class and its more general classes: `<unk-a-b>`, `<unk-a>`, `<unk>`."""
    chain, inner = [name], name[1:-1]
    while "-" in inner:
        inner = inner.rsplit("-", 1)[0]
        chain.append(f"<{inner}>")
    return tuple(dict.fromkeys(chain))


def _share(table: _LexicalTable, soft: csr_array) -> csr_array:
    """Return q(x | a) from soft base counts; shape [n_rows, n_tags], columns sum to 1."""
    n_rows, n_tags = soft.shape[0], len(table.base_of)
    base_total = np.asarray(soft.sum(axis=0)).ravel()
    q_base = (soft.multiply(1.0 / np.maximum(base_total, 1e-300)[None, :])).tocsr()
    spread = csr_array(
        (np.ones(n_tags), (table.base_of, np.arange(n_tags))), shape=(table.n_bases, n_tags)
    )
    own = table.by_tag.copy()
    own.resize((n_rows, n_tags))
    total = np.asarray(own.sum(axis=0)).ravel()
    types = np.asarray((own > 0).sum(axis=0), dtype=float).ravel()
    k = table.settings.sharing * types
    q = (own + (q_base @ spread).multiply(k[None, :])).multiply(
        1.0 / np.maximum(total + k, 1e-300)[None, :]
    )
    return _without_negligible(q.tocsr(), total)


def _without_negligible(q: csr_array, tag_count: FloatArray) -> csr_array:
    """Drop entries far below their word's most frequent tag, and normalise each tag again."""
    joint = q.multiply(tag_count[None, :]).tocsr()
    largest = joint.max(axis=1).toarray().ravel()
    row = np.repeat(np.arange(q.shape[0]), np.diff(joint.indptr))
    kept = joint.data >= CUT * largest[row]
    q = _sparse(q.data[kept], row[kept], q.indices[kept], q.shape)
    sums = np.asarray(q.sum(axis=0)).ravel()
    return q.multiply(1.0 / np.where(sums > 0, sums, 1.0)[None, :]).tocsr()


def _pack(table: _LexicalTable, classes: _Classes, weights: csr_array) -> Lexicon:
    seen = np.flatnonzero(table.word_count)  # words of other parts of the treebank are unknown
    weights = weights[np.concatenate([seen, np.arange(len(table.words), weights.shape[0])])]
    weights.sort_indices()
    return Lexicon(
        Vocabulary(tuple(table.words[x] for x in seen.tolist()), tuple(classes.names), table.style),
        row_start=weights.indptr.astype(np.uint32),
        entry_tag=weights.indices.astype(np.uint32),
        weights=weights.data.astype(np.float64),
        weight_start=np.arange(len(weights.data) + 1, dtype=np.int64),
    )


class WordClasses(NamedTuple):
    """Counts of words, and their rows in the lexicon."""

    seen: FloatArray  # [n_words]: count of each word
    # [n_words]: for features, the row of a word, or of its class if it was seen once
    row_of_word: Rows
    # [n_words]: the row of each word, -1 for words that are not in the lexicon
    own_row: Rows
    # [2, n_words]: the row of each rare word's class, inside a sentence and at its start; -1 for
    # frequent words
    class_of_word: Rows

    @classmethod
    def of(cls, counts: TreebankCounts, inventory: Inventory, lexicon: Lexicon) -> WordClasses:
        """Look up every word of the inventory."""
        words, vocabulary = inventory.words, lexicon.vocabulary
        word = counts.lexical // 2 % len(words)
        count = np.asarray(np.bincount(word, counts.lexical_count, len(words)), float)
        number = {word: row for row, word in enumerate(vocabulary.words)}
        own = np.array([number.get(word, -1) for word in words])
        classes = np.full((2, len(words)), -1)
        for x in np.flatnonzero((count > 0) & (count <= RARE)).tolist():
            for is_first in (0, 1):
                classes[is_first, x] = vocabulary.class_row(words[x], is_first=bool(is_first))
        once = (count <= 1) & (classes[0] >= 0)
        return cls(count, np.where(once, classes[0], own), own, classes)


class TrainingData:
    """A treebank counted for all learners: trees in shards, counts, and the plain grammar.

    Attributes
    ----------
    shards
        The trees, in the workers where the engine has placed them.
    counts : TreebankCounts
        Counts of rules, symbols, roots and words.
    grammar : LatentGrammar
        The plain grammar of relative frequencies.
    sizes
        Numbers of trees and tokens, for the record of a model.
    n_nodes_here
        Number of nodes in memory at the same time.
    classes : WordClasses
        The lexicon rows of each word.
    sorted_trees, features, projections
        Caches that the learners fill: trees sorted for EM, features of all nodes by their settings,
        and projections by settings, number of states and seed.
    """

    def __init__(
        self, bank: Treebank | StoredTreebank, lexicon: LexiconSettings, engine: Engine
    ) -> None:
        self.inventory, self.engine = bank.inventory, engine
        self.shards = engine.place(bank.shards())
        self.counts = engine.total(TreebankCounts.of, self.shards)
        self.n_trees = int(self.counts.roots.sum())
        self.sizes = {"trees": self.n_trees, "tokens": int(self.counts.lexical_count.sum())}
        n_nodes = int(self.counts.symbols.sum())
        is_whole = engine.has_shards_here
        self.n_nodes_here = n_nodes if is_whole else min(n_nodes, engine.jobs_here * SHARD_NODES)
        record = {"method": "pcfg", **self.sizes}
        self.grammar = relative_frequency_grammar(self.counts, self.inventory, lexicon, record)
        self.classes = WordClasses.of(self.counts, self.inventory, self.grammar.lexicon)
        self.sorted_trees: Placed | None = None
        self.features: dict[FeatureSettings, Features] = {}
        self.projections: dict[tuple[FeatureSettings, int, int], NodeProjection] = {}

    def digest(self) -> str:
        """Return a checksum of the trees, of their order and of the numbering of symbols."""
        parts = self.engine.gather(self.engine.map(Treebank.digest, self.shards))
        return sha256("".join(parts).encode()).hexdigest()


def relative_frequency_grammar(
    counts: TreebankCounts, inventory: Inventory, settings: LexiconSettings, record: dict[str, Any]
) -> LatentGrammar:
    """Return the plain grammar whose weights are the relative frequencies of counts.

    w(a -> b c) = n(a -> b c) / n(a),    root(a) = n(root = a) / n(trees)
    """
    seen = counts.rules > 0  # the inventory of a part of a treebank may have more rules
    rules = inventory.rules[seen]
    weights = counts.rules[seen] / counts.symbols[rules[:, 0]]
    root = counts.roots / counts.roots.sum()
    lexicon = estimate_lexicon(counts, inventory, settings)
    return LatentGrammar(
        phrases=inventory.phrases,
        tags=inventory.tags,
        n_states=np.ones(len(root), dtype=np.int64),
        root=root,
        rules=rules,
        rule_weights=weights,
        lexicon=lexicon,
        coarse=CoarseWeights(root, weights, lexicon.weights),
        transform=inventory.transform,
        record=record,
    )
