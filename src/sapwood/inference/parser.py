"""`Parser`: sentences in, trees out. Every sentence gets a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from sapwood.corpus.clean import ROOT
from sapwood.corpus.transform import restore
from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError
from sapwood.execute import ordered_map
from sapwood.inference.charts import ParseForest, one_word_forest, parse_forest
from sapwood.inference.decoders import (
    DECODERS,
    Gains,
    Nodes,
    best_tree,
    derivation_gains,
    goodman_gains,
    k_best_trees,
    max_rule_gains,
    viterbi_tree,
)

if TYPE_CHECKING:
    from sapwood.models.latent_grammar import LatentGrammar

BEAM = 1e-3  # as for the threshold: dev F1 stays the same, and the chart is filled twice as fast
THRESHOLD = 1e-3  # dev F1 is flat from 1e-5 to 1e-3 and falls behind that
MEMORY_LIMIT_MB = 2000.0
MAX_DUPLICATES = 1000  # derivations of trees already listed that k_best looks past before it stops


class Constituent(NamedTuple):
    """A labelled span with its posterior probability."""

    label: str
    start: int
    end: int
    probability: float


class ScoredTree(NamedTuple):
    """A tree with the decoder's score and its log-probability."""

    tree: Tree
    score: float
    log_prob: float


@dataclass
class ParserStats:
    """What happened so far, counted over all threads."""

    sentences: int = 0
    fallbacks: int = 0
    too_long: int = 0
    negative_items: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, *, fallback: bool, too_long: bool, negative_items: int) -> None:
        """Count one sentence."""
        with self._lock:
            self.sentences += 1
            self.fallbacks += fallback
            self.too_long += too_long
            self.negative_items += negative_items


@dataclass(frozen=True, eq=False)
class Parse:
    """One parsed sentence.

    Attributes
    ----------
    words
        The sentence.
    tree
        Its tree, with `TOP` on top.
    sentence_log_prob
        Log-probability of the sentence, summed over the trees that survived pruning; -inf when it
        has no parse. `LatentGrammar.log_prob` sums over all trees.
    is_fallback
        Whether the grammar had no parse and the tree is a flat one.
    """

    words: list[str]
    tree: Tree
    sentence_log_prob: float
    is_fallback: bool
    _grammar: LatentGrammar = field(repr=False)
    _decoder: str = field(repr=False)
    _forest: ParseForest | None = field(repr=False)

    @cached_property
    def log_prob(self) -> float:
        """Log-probability of the tree together with its words; -inf for a fallback tree."""
        return -inf if self.is_fallback else self._grammar.log_prob(self.tree)

    @cached_property
    def marginals(self) -> list[Constituent]:
        """Posteriors of the constituents and tags that survived pruning, left to right."""
        if self._forest is None:
            return []
        total: dict[tuple[str, int, int], float] = {}
        forest = self._forest.forest
        columns = (forest.symbol, forest.start, forest.end, self._forest.items)
        for number, start, end, p in zip(*(column.tolist() for column in columns), strict=True):
            symbol = self._grammar.symbols[number]
            if not symbol.is_intermediate:
                for label in set(symbol.chain):
                    total[label, start, end] = total.get((label, start, end), 0.0) + p
        found = (Constituent(*key, min(max(p, 0.0), 1.0)) for key, p in total.items())
        return sorted(found, key=lambda c: (c.start, -c.end, -c.probability, c.label))

    def k_best(self, k: int) -> list[ScoredTree]:
        """The k best different trees, best first; fewer when the pruned forest holds fewer.

        Scored as the parse was decoded; for `viterbi`, by the probability of the derivation under
        the plain grammar, or under a latent one by its rule posteriors.
        """
        if self._forest is None:
            return [ScoredTree(self.tree, 0.0, self.log_prob)] if k > 0 else []
        gains = _gains(self._grammar, self._decoder, self.words, self._forest)
        out: dict[Tree, float] = {}
        duplicates = 0
        for score, nodes in k_best_trees(self._forest, gains):
            tree = _restored(self._grammar, self.words, nodes)
            if tree in out:
                duplicates += 1
            else:
                out[tree] = score
            if len(out) >= k or duplicates > MAX_DUPLICATES:
                break
        return [
            ScoredTree(tree, score, self._grammar.log_prob(tree))
            for tree, score in islice(out.items(), k)
        ]


class Parser:
    """Parses sentences with a grammar.

    Parameters
    ----------
    model
        Any latent grammar, plain or spectral.
    decoder
        `goodman` maximises expected correct constituents, `max-rule` the product of rule
        posteriors, `viterbi` the probability of one derivation.
    threshold
        Labelled spans with a lower posterior under the plain grammar are dropped.
    beam
        While the chart is filled, phrases much less probable than the best over their span are
        dropped; 0 fills the full chart, for exact sentence probabilities.
    memory_limit_mb
        A sentence whose charts would need more memory gets a flat tree; with several threads each
        may need this much.

    Examples
    --------
    >>> import sapwood as sw
    >>> parser = sw.Parser(sw.bundled_grammar())
    >>> print(parser.parse("the dog sleeps .".split()).tree)
    (TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))
    """

    def __init__(
        self,
        model: LatentGrammar,
        *,
        decoder: str = "goodman",
        threshold: float = THRESHOLD,
        beam: float = BEAM,
        memory_limit_mb: float = MEMORY_LIMIT_MB,
    ) -> None:
        if decoder not in DECODERS:
            msg = f"decoder must be one of {', '.join(DECODERS)}, not {decoder!r}"
            raise SapwoodError(msg)
        if not 0.0 <= threshold < 1.0:
            msg = f"threshold must be at least 0 and below 1, not {threshold}"
            raise SapwoodError(msg)
        if not 0.0 <= beam < 1.0:
            msg = f"beam must be at least 0 and below 1, not {beam}"
            raise SapwoodError(msg)
        self.model = model
        self.decoder = decoder
        self.threshold = max(
            threshold, 5e-324
        )  # an item of posterior 0 can never be part of a tree
        self.beam = beam
        self.memory_limit_mb = memory_limit_mb
        self.stats = ParserStats()

    def parse(self, words: Sequence[str]) -> Parse:
        """Parse one sentence, given as a list of words."""
        if isinstance(words, str):
            msg = "a sentence is a list of words, not a string"
            raise SapwoodError(msg, hint="use sentence.split()")
        words = list(words)
        if not words:
            msg = "an empty sentence has no tree"
            raise SapwoodError(msg, hint="give at least one word")
        n = len(words)
        too_long = n > 1 and chart_megabytes(self.model, n) > self.memory_limit_mb
        if n == 1:
            result = self._one_word(words)
        elif too_long:
            result = self._fallback(words)
        else:
            result = self._by_chart(words)
        negative = result._forest.n_negative if result._forest else 0
        self.stats.add(fallback=result.is_fallback, too_long=too_long, negative_items=negative)
        return result

    def parse_many(
        self, sentences: Iterable[Sequence[str]], *, jobs: int | None = 1
    ) -> Iterator[Parse]:
        """Parse a stream in order, on several threads, with bounded memory."""
        self._prepare()
        return ordered_map(self.parse, sentences, jobs=jobs)

    def _prepare(self) -> None:
        """Arrange the rules before threads start, so that it happens once."""
        _ = (self.model.coarse_rules, self.model.pair_table, self.model.entry_share)

    def _by_chart(self, words: list[str]) -> Parse:
        parsed = parse_forest(self.model, words, self.threshold, self.beam)
        if parsed is None:
            return self._fallback(words)
        if self.decoder == "viterbi":
            nodes = viterbi_tree(self.model, words, parsed)
        else:
            nodes = best_tree(parsed, _gains(self.model, self.decoder, words, parsed))
        if nodes is None:
            return self._fallback(words)
        tree = _restored(self.model, words, nodes)
        return Parse(words, tree, parsed.log_prob, False, self.model, self.decoder, parsed)

    def _one_word(self, words: list[str]) -> Parse:
        parsed = one_word_forest(self.model, words[0])
        if parsed is None:
            return self._fallback(words)
        best = int(parsed.forest.symbol[int(parsed.items.argmax())])
        tree = _restored(self.model, words, [(best, -1, -1, 0)])
        return Parse(words, tree, parsed.log_prob, False, self.model, self.decoder, parsed)

    def _fallback(self, words: list[str]) -> Parse:
        """A flat tree over the most probable tag of each word."""
        tags = [self._likeliest_tag(word, place == 0) for place, word in enumerate(words)]
        leaves = [Tree(tag, word) for tag, word in zip(tags, words, strict=True)]
        kids = [Tree(self._root_label, leaves)] if len(words) > 1 else leaves
        return Parse(words, Tree(ROOT, kids), -inf, True, self.model, self.decoder, None)

    def _likeliest_tag(self, word: str, is_first: bool) -> str:
        lexicon = self.model.lexicon
        entries = lexicon.entries(lexicon.row(word, is_first=is_first))
        if entries.start == entries.stop:
            return self.model.tags[0].chain[-1]
        best = entries.start + int(self.model.entry_share[entries].argmax())
        return self.model.tags[int(lexicon.entry_tag[best])].chain[-1]

    @cached_property
    def _root_label(self) -> str:
        roots = self.model.coarse.root[: self.model.n_phrases]
        if not len(roots):
            return "X"
        return self.model.phrases[int(roots.argmax())].chain[-1]


def chart_megabytes(model: LatentGrammar, n: int) -> float:
    """Memory of the charts of an n-word sentence: it grows with the square of the length."""
    rules = model.coarse_rules
    slots = len(rules.left_of) + len(rules.right_of)
    cells = n * (n + 1) // 2
    # inside, outside, posterior and list of phrases by cell; inside and outside by start and end
    numbers = 3 * cells * model.n_phrases + 2 * (n + 1) * (n + 1) * slots
    return (8 * numbers + 4 * cells * model.n_phrases) / 1e6


def _gains(model: LatentGrammar, decoder: str, words: list[str], parsed: ParseForest) -> Gains:
    if decoder == "goodman":
        return goodman_gains(parsed)
    if decoder == "viterbi" and model.is_plain and len(words) > 1:
        return derivation_gains(model, words, parsed)
    return max_rule_gains(parsed)


def _restored(model: LatentGrammar, words: list[str], nodes: Nodes) -> Tree:
    spelled = [(a, b, c, words[i] if b < 0 else None) for a, b, c, i in nodes]
    return restore(model.symbols, spelled)
