"""`Parser`: sentences in, trees out. Every sentence gets a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.constituency.grammar.ensemble import Model
from sapwood.constituency.parse.brackets import LabelledForest, normalise_tags, split_codes
from sapwood.constituency.parse.charts import SMALLEST, ForestPosteriors
from sapwood.constituency.parse.decoders import (
    DECODERS,
    Decoded,
    best_trees,
    decode,
    join_pieces,
    root_label,
)
from sapwood.constituency.parse.prepared_ensemble import (
    PreparedEnsemble,
    Pruning,
    SentencePosteriors,
)
from sapwood.constituency.parse.scores import derivation_log_probs, signed_log_probs
from sapwood.constituency.parse.unconstrained_trees import free_tree
from sapwood.core.arguments import as_count, as_items, as_sentence, describe
from sapwood.core.arrays import FloatArray, SignedLog
from sapwood.core.cold import short_work
from sapwood.core.errors import SapwoodError, SapwoodTypeError
from sapwood.core.signals import undisturbed
from sapwood.corpora.tokenize import PennTokenizer, Tokenizer
from sapwood.corpora.tree import ROOT, Tree
from sapwood.execute import Engine, Threads, as_engine
from sapwood.execute.remote import stream_results
from sapwood.networks.network_inputs import blas_of_one_thread, one_blas_thread

if TYPE_CHECKING:
    from sapwood.constituency.parse.prepared import PreparedGrammar

BEAM = 1e-3  # as for the threshold: dev F1 stays the same, and the chart is filled twice as fast
THRESHOLD = 1e-3  # dev F1 is flat from 1e-5 to 1e-3 and falls behind that
MIDDLE = 1e-4  # what the smallest member of an ensemble finds less probable, the others skip
# For `Parser.fast`; what it costs in F1 and what it gains is printed by benchmarks/parsing.py.
FAST = {"threshold": 3e-3, "beam": 3e-3, "middle": 1e-2}
MEMORY_LIMIT_MB = 2000.0
AT_ONCE = 15  # words of a sentence that is parsed without waiting for the compiler
UNASKED = Pruning(THRESHOLD, BEAM, 0.0)  # of charts that parsing did not need
SHORT = 60  # words; Ctrl-C waits for the end of such a sentence, not only of each kernel


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
    """What happened so far, counted over all threads; fallbacks are joined or flat trees."""

    sentences: int = 0
    fallbacks: int = 0
    joined: int = 0
    too_long: int = 0
    negative_items: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def add(self, kind: str, *, too_long: bool, negative_items: int) -> None:
        """Count one sentence."""
        self.merge(ParserStats(1, kind != "parsed", kind == "joined", too_long, negative_items))

    def merge(self, other: ParserStats) -> None:
        """Count what somebody else has counted too."""
        with self._lock:
            self.sentences += other.sentences
            self.fallbacks += other.fallbacks
            self.joined += other.joined
            self.too_long += other.too_long
            self.negative_items += other.negative_items


@dataclass(frozen=True, eq=False, repr=False)
class Parse:
    """One parsed sentence.

    Attributes
    ----------
    words
        The sentence.
    tree
        Its tree, with `TOP` on top.
    kind
        `parsed`; `joined` where the grammar had no parse and the tree is made of the best pieces;
        `flat` where the sentence was too long to chart.
    """

    words: list[str]
    tree: Tree
    kind: str
    _prepared: PreparedEnsemble = field(repr=False)
    _decoder: str = field(repr=False)
    _found: SentencePosteriors | None = field(default=None, repr=False)
    _best: Decoded | None = field(default=None, repr=False)
    _pruning: Pruning = field(default=UNASKED, repr=False)

    def __repr__(self) -> str:
        return f"<{self.kind if self.is_fallback else 'Parse'}: {self.tree}>"

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.tree.svg()

    @property
    def is_fallback(self) -> bool:
        """Whether the tree is not one of the grammar's: joined from pieces, or flat."""
        return self.kind != "parsed"

    @cached_property
    def _forest(self) -> LabelledForest | None:
        """The forest of other trees; charted now where the best one needed no chart."""
        if self._found is None or self._found.forest is not None:
            return None if self._found is None else self._found.forest
        return self._prepared.forest(self.words, self._found.brackets, self._pruning)

    @cached_property
    def sentence_log_prob(self) -> float:
        """Log-probability of the sentence, summed over the trees that survived pruning.

        It is -inf when there is none. `LatentGrammar.log_prob` sums over all trees. Of an ensemble,
        the weighted mean over its members; of a network, that of its plain grammar.
        """
        if self._found is None:
            return -inf
        return self._prepared.sentence_log_prob(self.words, self._found, self._pruning)

    @property
    def log_prob(self) -> float:
        """Log-probability of the tree together with its words; -inf for a fallback tree.

        Of a spectral model, whose weights are no probabilities, the log of the absolute weight.
        """
        return self._weight.log

    @property
    def sign(self) -> int:
        """Sign of the tree's weight: 1, of a spectral model perhaps -1, 0 for a fallback tree."""
        return self._weight.sign

    @cached_property
    def _weight(self) -> SignedLog:
        if self._best is None:
            return SignedLog(-inf, 0)
        logs, signs = self._log_probs({self.tree: self._best})
        return SignedLog(float(logs[0]), int(signs[0]))

    @cached_property
    def marginals(self) -> list[Constituent]:
        """Posteriors of the constituents and tags that survived pruning, left to right.

        The tags of each word sum to 1. Where weights may be negative (spectral models), what came
        out below 0 or above 1 is cut off, and a constituent's number says how sure the model is
        rather than how often it would be right.
        """
        if self._found is None:
            return []
        brackets, names = self._found.brackets, self._prepared.labels
        label, start, end, is_tag = split_codes(brackets.code, len(self.words))
        p = normalise_tags(np.clip(brackets.p, 0.0, 1.0), start, is_tag)
        rows = zip(*(column.tolist() for column in (label, start, end, p)), strict=True)
        found: dict[tuple[str, int, int], float] = {}
        for number, i, j, share in rows:  # a tag may be named like a phrase
            key = (names[number], i, j)
            found[key] = min(found.get(key, 0.0) + share, 1.0)
        constituents = (Constituent(*key, p) for key, p in found.items())
        return sorted(constituents, key=lambda c: (c.start, -c.end, -c.probability, c.label))

    def k_best(self, k: int) -> list[ScoredTree]:
        """The k best different trees, the parse first; fewer when the pruned forest holds fewer.

        Scored by what the decoder maximises; for `viterbi`, that is the log-probability of the
        tree's likeliest derivation, hidden states included.
        """
        k = as_count(k, "k")
        if k < 1:
            return []
        if self._best is None:
            return [ScoredTree(self.tree, 0.0, -inf)]
        out = {self.tree: self._best}
        if k > 1 and self._forest is not None:
            out = best_trees(self._forest, self._decoder, self.tree, self._best, k)
        logs, _ = self._log_probs(out)
        return [
            ScoredTree(tree, found.score, log_prob)
            for (tree, found), log_prob in zip(out.items(), logs.tolist(), strict=True)
        ]

    def _log_probs(self, trees: Mapping[Tree, Decoded]) -> tuple[FloatArray, FloatArray]:
        if not all(found.nodes for found in trees.values()):
            return signed_log_probs(self._prepared.ensemble, list(trees))
        assert self._forest is not None
        symbols = self._forest.posteriors.prepared.grammar.symbols
        nodes = [found.nodes for found in trees.values()]
        return derivation_log_probs(self._prepared.ensemble, symbols, self.words, nodes)


class Parser:
    """Parses sentences with a grammar.

    Parameters
    ----------
    model
        Any latent grammar, plain or spectral, a network, or an ensemble of some.
    decoder
        `f1` maximises expected F1, `goodman` expected correct constituents of the binary tree,
        `max-rule` the product of rule posteriors, `viterbi` the probability of one derivation. For
        an ensemble, only `f1` listens to networks, and to members whose trees were made binary in
        another way.
    threshold
        Labelled spans with a lower posterior under the plain grammar are dropped.
    beam
        While the chart is filled, phrases much less probable than the best over their span are
        dropped; 0 fills the full chart, for exact sentence probabilities.
    middle
        In an ensemble, labelled spans with a lower posterior under the smallest member of a group
        are dropped for the others.
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
        model: Model,
        *,
        decoder: str = "f1",
        threshold: float = THRESHOLD,
        beam: float = BEAM,
        middle: float = MIDDLE,
        memory_limit_mb: float = MEMORY_LIMIT_MB,
    ) -> None:
        _check_model(model)
        if decoder not in DECODERS:
            msg = f"decoder must be one of {', '.join(DECODERS)}, not {decoder!r}"
            raise SapwoodError(msg)
        shares: dict[str, Any] = {"threshold": threshold, "beam": beam, "middle": middle}
        for name, value in shares.items():
            if not isinstance(value, (int, float)) or not 0.0 <= value < 1.0:
                msg = f"{name} must be a number of at least 0 and below 1, not {value!r}"
                raise SapwoodError(msg)
        self.model = model
        self.decoder = decoder
        self.memory_limit_mb = memory_limit_mb
        self._prepared = PreparedEnsemble(model)
        self._first = self._prepared.ensemble.grammars[0]  # whose symbols the trees are made of
        if decoder == "viterbi" and len(self._prepared.ensemble.members) > 1:
            msg = (
                "the viterbi decoder follows one grammar, and this model is an ensemble of several"
            )
            raise SapwoodError(msg, hint="use the decoder f1, goodman or max-rule")
        if decoder != "f1" and not self._prepared.groups:
            msg = f"the decoder {decoder} follows the rules of a grammar, and this is a network"
            raise SapwoodError(msg, hint="use the decoder f1")
        # an item of posterior 0 can never be part of a tree
        self._pruning = Pruning(max(threshold, SMALLEST), beam, middle)
        self.stats = ParserStats()

    def __repr__(self) -> str:
        return f"<Parser by {self.decoder}: {self.model!r}>"

    @classmethod
    def fast(cls, model: Model, **settings: Any) -> Parser:
        """A parser that gives away a little F1 for speed.

        It prunes more, and asks only the first groups of an ensemble: those that together hold
        more than half of the weight. Settings are those of `Parser`; the ones given here count.
        """
        return cls(model.heaviest_groups(), **(FAST | settings))

    def parse(self, words: Sequence[str]) -> Parse:
        """Parse one sentence, given as a list of words.

        A short sentence is parsed at once where no kernel was compiled yet: see `kernels.cold`.
        """
        words = as_sentence(words)
        with short_work(is_short=len(words) <= AT_ONCE):
            return self.parse_compiled(words)

    def parse_compiled(self, words: Sequence[str]) -> Parse:
        """The same, one of many: kernels are compiled first."""
        words = as_sentence(words)
        n = len(words)
        too_long = n > 1 and self._megabytes(n) > self.memory_limit_mb
        if n == 1:
            result = self._one_word(words)
        elif too_long:
            result = self._flat(words)
        elif self._prepared.readers:
            with blas_of_one_thread():
                result = self._by_chart_of_length(words)
        else:
            result = self._by_chart_of_length(words)
        forest = result._found.forest if result._found else None
        negative = forest.posteriors.n_negative if forest else 0
        self.stats.add(result.kind, too_long=too_long, negative_items=negative)
        return result

    def parse_text(self, text: str, *, tokenize: Tokenizer | None = None) -> Parse:
        """Parse one sentence as people write it.

        Parameters
        ----------
        text
            One sentence; nothing looks for the ends of sentences.
        tokenize
            A function from the text to its words; by default `PennTokenizer` with the model's
            vocabulary.

        Examples
        --------
        >>> import sapwood as sw
        >>> parser = sw.Parser(sw.bundled_grammar())
        >>> print(parser.parse_text("The dog sleeps.").tree)
        (TOP (S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)))
        """
        return self.parse((tokenize or self._tokenizer)(text))

    @cached_property
    def _tokenizer(self) -> PennTokenizer:
        return PennTokenizer(self._first.lexicon.words)

    def parse_many(
        self, sentences: Iterable[Sequence[str]], *, jobs: Engine | int | None = 1
    ) -> Iterator[Parse]:
        """Parse a stream in order, with bounded memory: on so many threads, or on an engine.

        Threads wait for each other wherever a kernel does not run, which in short sentences is most
        of the time; `sapwood.execute.Processes` do not.
        """
        items, engine = (
            as_items(sentences, "a list of sentences, each a list of words"),
            as_engine(jobs),
        )
        if type(engine) is Threads:
            found = engine.stream(self.parse_compiled, items)
        else:
            found = self._add_statistics(
                stream_results(engine, _parse_and_count, items, self, _shared_objects)
            )
        return one_blas_thread(found) if self._prepared.readers else found

    def _add_statistics(self, found: Iterator[tuple[Parse, ParserStats]]) -> Iterator[Parse]:
        for parse, stats in found:
            self.stats.merge(stats)
            yield parse

    def recount(self) -> Parser:
        """The same parser with statistics of its own, for work whose results are brought home."""
        alone = copy(self)
        alone.stats = ParserStats()
        return alone

    def _megabytes(self, n: int) -> float:
        """Memory of the largest chart of a sentence; groups are charted one after the other."""
        charts = [chart_megabytes(group.members[0], n) for group in self._prepared.groups]
        return max(charts + [reader.megabytes(n) for reader, _ in self._prepared.readers])

    def parse_pruned(self, forests: Sequence[ForestPosteriors]) -> Parse:
        """Parse a sentence whose charts, one for each group of members, were pruned before.

        Where nothing is found in them, the sentence is charted anew.
        """
        words, pairs = forests[0].pruned.words, zip(self._prepared.groups, forests, strict=True)
        found = [group.read_pruned(plain) for group, plain in pairs]
        return self._decode(words, self._prepared.average(words, found)) or self.parse(words)

    def _by_chart_of_length(self, words: list[str]) -> Parse:
        """Parse by charts; while a short sentence is parsed, signals wait for its end."""
        if len(words) <= SHORT:
            return undisturbed(self._by_chart, words)
        return self._by_chart(words)

    def _by_chart(self, words: list[str]) -> Parse:
        # Once more without the middle pruning where that has left no whole tree.
        for pruning in dict.fromkeys((self._pruning, self._pruning._replace(middle=0.0))):
            result = self._decode(words, self._prepared.bracket_posteriors(words, pruning))
            if result is not None:
                return result
        return self._joined(words)

    def _decode(self, words: list[str], found: SentencePosteriors | None) -> Parse | None:
        """The decoder's tree; None without a forest, or when pruning left no whole tree."""
        if found is None:
            return None
        prepared, decoded = self._prepared, None
        if self.decoder == "f1" and prepared.readers:
            decoded = free_tree(found.brackets, words, prepared.labels, prepared.chains)
        elif found.forest is not None:
            decoded = decode(found.forest, self.decoder)
        if decoded is None:
            return None
        tree, best = decoded
        pruning = self._pruning._replace(middle=0.0)
        return Parse(words, tree, "parsed", prepared, self.decoder, found, best, pruning)

    def _one_word(self, words: list[str]) -> Parse:
        """The best tag of a word that is a whole sentence."""
        found = self._prepared.bracket_posteriors(words, self._pruning)
        return self._decode(words, found) or self._joined(words)

    def _joined(self, words: list[str]) -> Parse:
        """The best pieces side by side, for a sentence without a parse."""
        tree = join_pieces(self._prepared.first_group.members[0], words)
        return Parse(words, tree, "joined", self._prepared, self.decoder)

    def _flat(self, words: list[str]) -> Parse:
        """The most probable tag of each word under one root, for a sentence too long to chart."""
        leaves = [
            Tree(self._likeliest_tag(word, place == 0), word) for place, word in enumerate(words)
        ]
        tree = Tree(ROOT, [Tree(root_label(self._first), leaves)])
        return Parse(words, tree, "flat", self._prepared, self.decoder)

    def _likeliest_tag(self, word: str, is_first: bool) -> str:
        lexicon = self._first.lexicon
        entries = lexicon.entries(lexicon.vocabulary.row(word, is_first=is_first))
        if entries.start == entries.stop:
            return self._first.tags[0].chain[-1]
        share = self._prepared.first_group.members[0].plain.entry_share[entries]
        best = entries.start + int(share.argmax())
        return self._first.tags[int(lexicon.entry_tag[best])].chain[-1]


def _check_model(model: object) -> None:
    if not isinstance(model, Model):
        msg = f"a parser needs a model, not {describe(model)}"
        hint = "give estimator.fit(treebank).model_, or sapwood.load(path)"
        if isinstance(model, (str, Path)):
            hint = f"load it first: sapwood.Parser(sapwood.load({str(model)!r}))"
        elif hasattr(model, "fit"):
            hint = "fit the estimator and give its model: sapwood.Parser(estimator.model_)"
        raise SapwoodTypeError(msg, hint=hint)


def chart_megabytes(prepared: PreparedGrammar, n: int) -> float:
    """Memory of the charts of an n-word sentence: it grows with the square of the length."""
    rules, n_phrases = prepared.plain.rules, prepared.grammar.n_phrases
    slots = len(rules.left_of) + len(rules.right_of)
    cells = n * (n + 1) // 2
    # inside, outside, posterior and list of phrases by cell; inside and outside by start and end
    numbers = 3 * cells * n_phrases + 2 * (n + 1) * (n + 1) * slots
    return (8 * numbers + 4 * cells * n_phrases) / 1e6


def _parse_and_count(words: Sequence[str], parser: Parser) -> tuple[Parse, ParserStats]:
    """A parse with the statistics of this sentence alone, which the asking process adds up."""
    alone = parser.recount()
    return alone.parse_compiled(words), alone.stats


def _shared_objects(parser: Parser) -> list[object]:
    """The prepared model of a parser, which all of its parses refer to."""
    prepared = parser._prepared
    return [prepared, *(member for group in prepared.groups for member in group.members)]
