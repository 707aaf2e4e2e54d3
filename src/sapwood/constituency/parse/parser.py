"""`Parser`: sentences in, trees out. Every sentence gets a tree."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Never

import numpy as np

from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.grammar.constraints import (
    Constraints,
    KnownLabels,
    PartialSentence,
    constrain,
)
from sapwood.constituency.grammar.ensemble import Model
from sapwood.constituency.parse.charts import SMALLEST, ForestPosteriors, Pruning
from sapwood.constituency.parse.decoders import (
    DECODERS,
    Decoded,
    decode,
    join_pieces,
    root_label,
    unconstrained_tree,
)
from sapwood.constituency.parse.k_best import best_trees
from sapwood.constituency.parse.posteriors import (
    BracketPosteriors,
    LabelledForest,
    PreparedEnsemble,
    SentencePosteriors,
    normalise_tags,
    split_codes,
)
from sapwood.constituency.parse.prepared import derivation_log_probs
from sapwood.core.arrays import BoolArray, FloatArray, IntArray, SignedLog
from sapwood.core.compiling import short_work
from sapwood.core.errors import (
    SapwoodError,
    SapwoodTypeError,
    as_count,
    as_items,
    as_sentence,
    describe,
    join_words,
)
from sapwood.corpora.conventions import PENN, convention_of, make_tokenizer
from sapwood.corpora.running_text import Splitter, TextSentence, one_sentence, sentences_of
from sapwood.corpora.tokenize import PennTokenizer, Tokenizer
from sapwood.corpora.tree import ROOT, Tree
from sapwood.execute import Engine, Threads, Windows, as_engine
from sapwood.execute.processes import stream_results
from sapwood.networks.network import one_blas_thread, with_one_blas_thread

if TYPE_CHECKING:
    from sapwood.constituency.parse.prepared import PreparedGrammar

BEAM = 1e-3  # as for the threshold: dev F1 stays the same, and the chart is filled twice as fast
THRESHOLD = 1e-3  # dev F1 is flat from 1e-5 to 1e-3 and falls for larger thresholds
MIDDLE = 1e-4
# For `Parser.fast`; its cost in F1 and its gain in speed are printed by benchmarks/parsing.py.
FAST = {"threshold": 3e-3, "beam": 3e-3, "middle": 1e-2}
MEMORY_LIMIT_MB = 2000.0
_INTERPRETED_WORDS = 15  # longest sentence that is parsed without waiting for the compiler
WINDOWS_AHEAD = 2  # windows of sentences a thread that are read and not yet parsed
_NONE: tuple[()] = ()  # no constraints
_counting = Lock()


class Constituent(NamedTuple):
    """A labelled span with its posterior probability."""

    label: str
    start: int
    end: int
    probability: float


class PosteriorColumns(NamedTuple):
    """Posteriors of the brackets and tags of a sentence, as columns of equal length."""

    names: Sequence[str]  # of labels, by number
    label: IntArray
    start: IntArray
    end: IntArray
    is_tag: BoolArray
    p: FloatArray


class ScoredTree(NamedTuple):
    """A tree with the decoder's score and its log-probability."""

    tree: Tree
    score: float
    log_prob: float


@dataclass
class ParserStats:
    """Numbers of sentences by outcome, over all threads; fallbacks are joined or flat trees."""

    sentences: int = 0
    fallbacks: int = 0
    joined: int = 0
    too_long: int = 0
    negative_items: int = 0

    def merge(self, other: ParserStats) -> None:
        """Add the counts of other sentences."""
        with _counting:
            for name, value in vars(other).items():
                setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True, eq=False, repr=False)
class Parse:
    """A parsed sentence: its tree, other trees, probabilities.

    Attributes
    ----------
    words
        The sentence.
    tree
        Its tree, with `TOP` on top.
    kind
        `parsed`; `joined` where the grammar had no parse and the tree is made of the best pieces;
        `flat` where the sentence was too long to chart.
    source
        The sentence as it is written in a text, with the offsets of its words; None for a sentence
        that was given as words.
    """

    words: list[str]
    tree: Tree
    kind: str
    _prepared: PreparedEnsemble = field(repr=False)
    _decoder: str = field(repr=False)
    _found: SentencePosteriors | None = field(default=None, repr=False)
    _best: Decoded | None = field(default=None, repr=False)
    _pruning: Pruning = field(default=Pruning(THRESHOLD, BEAM, 0.0), repr=False)
    _constraints: Constraints | None = field(default=None, repr=False)
    source: TextSentence | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<{self.kind if self.is_fallback else 'Parse'}: {self.tree}>"

    def _repr_svg_(self) -> str:
        """The picture that a notebook shows."""
        return self.tree.svg()

    @property
    def offsets(self) -> list[tuple[int, int]] | None:
        """Start and end of each word in the text; None for a sentence that was given as words.

        Examples
        --------
        >>> import sapwood as sw
        >>> parse = sw.Parser(sw.bundled_grammar()).parse_text("The dog sleeps.")
        >>> parse.offsets
        [(0, 3), (4, 7), (8, 14), (14, 15)]
        """
        return None if self.source is None else self.source.offsets

    def located(self, source: TextSentence) -> Parse:
        """The same parse of a sentence as it is written in a text."""
        return replace(self, source=source)

    @property
    def is_fallback(self) -> bool:
        """Whether the tree is not one of the grammar's: joined from pieces, or flat."""
        return self.kind != "parsed"

    @cached_property
    def _forest(self) -> LabelledForest | None:
        """The forest of other trees; charted now where the best tree needed no chart."""
        found = self._found
        if found is None or found.forest is not None:
            return None if found is None else found.forest
        return self._prepared.forest(self.words, found.brackets, self._pruning, self._constraints)

    @cached_property
    def sentence_log_prob(self) -> float:
        """Log-probability of the sentence, summed over the trees that survived pruning.

        It is -inf when there is none. `LatentGrammar.log_prob` sums over all trees. An ensemble
        has the weighted mean over its members, a network the log-probability of its plain grammar.
        """
        if self._found is None:
            return -inf
        return self._prepared.sentence_log_prob(
            self.words, self._found, self._pruning, self._constraints
        )

    @cached_property
    def constraint_log_prob(self) -> float:
        """Log-probability that the sentence's tree satisfies the constraints; 0 without any.

        The weighted mean of the members' probabilities given the sentence: exact for grammars and
        networks, over the pruned forests for a `crf`. Soft tags count by their probabilities.
        """
        if self._constraints is None:
            return 0.0
        return self._prepared.constraint_log_prob(self.words, self._constraints, self._pruning)

    def unmet(self, tree: Tree) -> str | None:
        """The first constraint that another tree does not satisfy, in words; None without one."""
        return None if self._constraints is None else self._constraints.unmet(tree)

    @property
    def log_prob(self) -> float:
        """Log-probability of the tree together with its words; -inf for a fallback tree.

        The weights of a spectral model are no probabilities: the log of the absolute weight.
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
        logs, signs = self._log_probs([self._best])
        return SignedLog(float(logs[0]), int(signs[0]))

    @cached_property
    def marginals(self) -> list[Constituent]:
        """Posteriors of the constituents and tags that survived pruning, left to right.

        The tags of each word sum to 1. Where weights may be negative (spectral models), posteriors
        are clipped to [0, 1], and tell how sure the model is rather than how often it is right.
        """
        if self._found is None:
            return []
        brackets, names = self._found.brackets, self._prepared.labels
        label, start, end, is_tag = split_codes(brackets.code, len(self.words))
        p = normalise_tags(np.clip(brackets.p, 0.0, 1.0), start, is_tag)
        rows = zip(*(column.tolist() for column in (label, start, end, p)), strict=True)
        posterior: dict[tuple[str, int, int], float] = {}
        for number, i, j, part in rows:  # a tag may be named like a phrase
            key = (names[number], i, j)
            posterior[key] = min(posterior.get(key, 0.0) + part, 1.0)
        constituents = (Constituent(*key, p) for key, p in posterior.items())
        return sorted(constituents, key=lambda c: (c.start, -c.end, -c.probability, c.label))

    def posterior_columns(self, least: float = 0.0) -> PosteriorColumns:
        """Posteriors of brackets and tags as columns, without those below a least posterior.

        A tag and a phrase of the same name stay apart, unlike in `marginals`; the numbers of labels
        are indices of `names`.
        """
        names = self._prepared.labels
        if self._found is None:
            none = np.empty(0, np.int64)
            return PosteriorColumns(names, none, none, none, np.empty(0, np.bool_), np.empty(0))
        brackets = self._found.brackets
        label, start, end, is_tag = split_codes(brackets.code, len(self.words))
        p = normalise_tags(np.clip(brackets.p, 0.0, 1.0), start, is_tag)
        kept = p >= least
        return PosteriorColumns(names, label[kept], start[kept], end[kept], is_tag[kept], p[kept])

    def k_best(self, k: int) -> list[ScoredTree]:
        """The k best different trees, the parse first; fewer when the pruned forest holds fewer.

        Scores are those that the decoder maximises; `viterbi` maximises the log-probability of
        the tree's likeliest derivation, hidden states included.
        """
        k = as_count(k, "k")
        if k < 1:
            return []
        if self._best is None:
            return [ScoredTree(self.tree, 0.0, -inf)]
        trees, decoded = [self.tree], [self._best]
        if k > 1 and self._forest is not None:
            trees, decoded = best_trees(self._forest, self._decoder, self.tree, self._best, k)
        logs, _ = self._log_probs(decoded)
        scores = (one.score for one in decoded)
        return [ScoredTree(*row) for row in zip(trees, scores, logs.tolist(), strict=True)]

    def _log_probs(self, decoded: list[Decoded]) -> tuple[FloatArray, FloatArray]:
        symbols: Sequence[Symbol] = ()
        if any(one.symbols is None for one in decoded):
            assert self._forest is not None
            symbols = self._forest.posteriors.prepared.grammar.symbols
        return derivation_log_probs(self._prepared.ensemble, symbols, self.words, decoded)


class Parser:
    """Parses sentences with a grammar.

    Parameters
    ----------
    model
        Any latent grammar, plain or spectral, a network, or an ensemble of some.
    decoder
        `f1` maximises expected F1, `goodman` expected correct constituents of the binary tree,
        `max-rule` the product of rule posteriors, `viterbi` the probability of one derivation. In
        an ensemble, only `f1` uses networks, and members with another binarisation.
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
            raise SapwoodError(f"decoder must be one of {', '.join(DECODERS)}, not {decoder!r}")
        for name, value in (("threshold", threshold), ("beam", beam), ("middle", middle)):
            if not isinstance(value, (int, float)) or not 0.0 <= value < 1.0:
                raise SapwoodError(
                    f"{name} must be a number of at least 0 and below 1, not {value!r}"
                )
        self.model = model
        self.decoder = decoder
        self.memory_limit_mb = memory_limit_mb
        self._prepared = PreparedEnsemble(model)
        self._first = self._prepared.ensemble.grammars[0]  # output trees use its symbols
        if decoder == "viterbi" and len(self._prepared.ensemble.members) > 1:
            raise SapwoodError(
                "the viterbi decoder follows one grammar, and this model is an ensemble of several",
                hint="use the decoder f1, goodman or max-rule",
            )
        if decoder != "f1" and not self._prepared.groups:
            raise SapwoodError(
                f"the decoder {decoder} follows the rules of a grammar, and this is a network",
                hint="use the decoder f1",
            )
        # an item of posterior 0 can never be part of a tree
        self._pruning = Pruning(max(threshold, SMALLEST), beam, middle)
        self.stats = ParserStats()

    def __repr__(self) -> str:
        return f"<Parser by {self.decoder}: {self.model!r}>"

    @classmethod
    def fast(cls, model: Model, **settings: Any) -> Parser:
        """A parser that trades a little F1 for speed.

        It prunes more, and uses only the first groups of an ensemble, which together have more
        than half of the weight. Settings of `Parser` that are given here override its own.
        """
        return cls(model.heaviest_groups(), **(FAST | settings))

    def parse(
        self,
        words: Sequence[str],
        *,
        tags: Sequence[str | Mapping[str, float] | None] | None = None,
        spans: Iterable[tuple[int, int, str | None]] = _NONE,
        forbidden: Iterable[tuple[int, int, str | None]] = _NONE,
    ) -> Parse:
        """Parse one sentence, given as a list of words, with optional constraints on its tree.

        The tree satisfies all constraints, and posteriors, k-best trees and log-probabilities are
        those given the constraints; `Parse.constraint_log_prob` tells how probable these are. Where
        no kernel was compiled yet, a short sentence is interpreted: see `short_work`.

        Parameters
        ----------
        words
            The sentence.
        tags
            For each word None (free), a tag, or a dictionary of tags with probabilities, by which
            the model's own are multiplied.
        spans
            Phrases that the tree must have: first word, counted from 0, the position after the
            last, and a label or None for any. Other labels may be above or below it over these
            words; of several over the same words, the first is the outermost. A request that is
            repeated counts once.
        forbidden
            Phrases that the tree must not have, likewise; None forbids every phrase over the words.

        Raises
        ------
        SapwoodError
            If the model does not know a label, or two constraints contradict each other.

        Examples
        --------
        >>> import sapwood as sw
        >>> parser = sw.Parser(sw.bundled_grammar())
        >>> words = "the man sees the dog with a hat .".split()
        >>> ("NP", 3, 8) in parser.parse(words).tree.spans()
        False
        >>> ("NP", 3, 8) in parser.parse(words, spans=[(3, 8, "NP")]).tree.spans()
        True
        """
        words, constraints = as_sentence(words), None
        if tags is not None or spans is not _NONE or forbidden is not _NONE:
            constraints = constrain(len(words), self.known_labels, tags, spans, forbidden)
        with short_work(is_short=len(words) <= _INTERPRETED_WORDS):
            return self._parse(words, constraints)

    @cached_property
    def known_labels(self) -> KnownLabels:
        """The labels of phrases and tags that constraints may name."""
        grammars = self._prepared.ensemble.grammars
        return KnownLabels.of(
            [symbol for grammar in grammars for symbol in grammar.phrases],
            [symbol for grammar in grammars for symbol in grammar.tags],
        )

    def parse_compiled(self, sentence: Sequence[str] | PartialSentence) -> Parse:
        """Parse one of many sentences: kernels are compiled first."""
        return self._parse(*self._resolve(sentence))

    def _resolve(
        self, sentence: Sequence[str] | PartialSentence
    ) -> tuple[list[str], Constraints | None]:
        """The words of a sentence and its constraints."""
        if not isinstance(sentence, PartialSentence):
            return as_sentence(sentence), None
        words, tags, spans, forbidden = sentence
        words = as_sentence(words)
        return words, constrain(len(words), self.known_labels, tags, spans, forbidden)

    def parse_together(
        self, sentences: Sequence[Sequence[str] | PartialSentence]
    ) -> Iterator[Parse]:
        """Parse some sentences that are all there: networks read them in batches of similar length.

        The parses are those of `parse`, to the last bit. A sentence that cannot be parsed raises
        its error when its turn comes.
        """
        resolved: list[tuple[list[str], Constraints | None]] = []
        failure: Exception | None = None
        for sentence in sentences:
            try:
                resolved.append(self._resolve(sentence))
            except Exception as error:  # items may be anything: their errors wait for their turn
                failure = error
                break
        places = [k for k, (words, _) in enumerate(resolved) if not self._is_too_long(len(words))]
        with one_blas_thread():
            read = self._prepared.read_many([resolved[k] for k in places])
        found = dict(zip(places, read, strict=True))
        for k, (words, constraints) in enumerate(resolved):
            yield self._parse(words, constraints, found.pop(k, None))
        if failure is not None:
            raise failure

    def _is_too_long(self, n: int) -> bool:
        return n > 1 and self._megabytes(n) > self.memory_limit_mb

    def _parse(
        self,
        words: list[str],
        constraints: Constraints | None = None,
        read: Sequence[BracketPosteriors] | None = None,
    ) -> Parse:
        n = len(words)
        too_long = self._is_too_long(n)
        if too_long:
            result = self._flat(words)
            if constraints is not None:
                result = self._pieces(words, constraints, result.tree)
        else:
            with one_blas_thread() if self._prepared.readers else nullcontext():
                result = self._chart(words, constraints, read)
        forest, kind = result._found.forest if result._found else None, result.kind
        negative = forest.posteriors.n_negative if forest else 0
        counts = ParserStats(1, kind != "parsed", kind == "joined", too_long, negative)
        self.stats.merge(counts)
        return result

    def parse_text(
        self,
        text: str,
        *,
        tokenize: Tokenizer | None = None,
        tags: Sequence[str | Mapping[str, float] | None] | None = None,
        spans: Iterable[tuple[int, int, str | None]] = (),
        forbidden: Iterable[tuple[int, int, str | None]] = (),
    ) -> Parse:
        """Parse one sentence of plain text, with optional constraints on its tree.

        Parameters
        ----------
        text
            One sentence; `parse_document` splits text into sentences.
        tokenize
            A function from the text to its words; by default the one for the model's treebank.
        tags, spans, forbidden
            As in `parse`; they count the words that the tokenizer makes, `sleeps` and `.` in
            `sleeps.`.

        Examples
        --------
        >>> import sapwood as sw
        >>> parser = sw.Parser(sw.bundled_grammar())
        >>> print(parser.parse_text("The dog sleeps.").tree)
        (TOP (S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)))
        """
        source = one_sentence(text, tokenize or self.tokenizer)
        parse = self.parse(source.words, tags=tags, spans=spans, forbidden=forbidden)
        return parse.located(source)

    def parse_document(
        self,
        text: str,
        *,
        tokenize: Tokenizer | None = None,
        split: Splitter | None = None,
        jobs: Engine | int | None = 1,
    ) -> Iterator[Parse]:
        """Parse the sentences of running text, in order, with the places of their words.

        Parameters
        ----------
        text
            Paragraphs of any number of sentences.
        tokenize
            A function from a sentence to its words; by default the one for the model's treebank.
        split
            A function from a paragraph to its sentences; by default that of
            `sapwood.corpora.running_text`.
        jobs
            As in `parse_many`.

        Examples
        --------
        >>> import sapwood as sw
        >>> parser = sw.Parser(sw.bundled_grammar())
        >>> for parse in parser.parse_document("The dog sleeps. A girl saw it."):
        ...     print(parse.source.text, parse.offsets[0])
        The dog sleeps. (0, 3)
        A girl saw it. (16, 17)
        """
        waiting: deque[TextSentence] = deque()

        def words() -> Iterator[list[str]]:
            for sentence in sentences_of(text, tokenize or self.tokenizer, split):
                waiting.append(sentence)
                yield sentence.words

        for parse in self.parse_many(words(), jobs=jobs):
            yield parse.located(waiting.popleft())

    @cached_property
    def tokenizer(self) -> PennTokenizer:
        """The function from a sentence to its words, as the model's treebank has them."""
        return make_tokenizer(convention_of(self.model, PENN), self._first.lexicon.words)

    def parse_many(
        self,
        sentences: Iterable[Sequence[str] | PartialSentence],
        *,
        jobs: Engine | int | None = 1,
        **given: Never,
    ) -> Iterator[Parse]:
        """Parse a stream in order, with bounded memory, on a number of threads or on an engine.

        A sentence with constraints is a `PartialSentence(words, tags, spans, forbidden)`, of
        `sapwood.constituency.grammar.constraints`; there are none for all sentences. Networks read
        sentences that are there together, in batches of similar length; a sentence that comes alone
        waits for no other. Parses depend neither on batches nor on engines.

        Threads wait for each other wherever no kernel runs, which in short sentences is most of
        the time; `sapwood.execute.Processes` do not.
        """
        if given:
            msg = f"parse_many takes no {join_words(given)}: each sentence has its own"
            hint = "put a PartialSentence(words, tags, spans, forbidden) among the sentences"
            raise SapwoodTypeError(msg, hint=hint)
        items = as_items(sentences, "a list of sentences, each a list of words")
        engine = as_engine(jobs)
        if self._prepared.readers:
            return with_one_blas_thread(self._parse_windows(items, engine))
        if type(engine) is Threads:
            return engine.stream(self.parse_compiled, items)
        return self._add_statistics(
            stream_results(engine, _parse_and_count, items, self, _shared_objects)
        )

    def _parse_windows(
        self, items: Iterable[Sequence[str] | PartialSentence], engine: Engine
    ) -> Iterator[Parse]:
        """Parse windows of a stream; on one thread, one parse is in memory at a time."""
        with closing(Windows(items)) as some:
            if type(engine) is Threads and engine.jobs == 1:
                for window in some:
                    yield from self.parse_together(window)
                return
            found = stream_results(
                engine, _parse_window, some, self, _shared_objects, ahead=WINDOWS_AHEAD
            )
            for parses, stats, failure in found:
                self.stats.merge(stats)
                yield from parses
                if failure is not None:
                    raise failure

    def _add_statistics(self, found: Iterator[tuple[Parse, ParserStats]]) -> Iterator[Parse]:
        for parse, stats in found:
            self.stats.merge(stats)
            yield parse

    @property
    def reads_together(self) -> bool:
        """Whether sentences are parsed faster together: where networks are among the members."""
        return bool(self._prepared.readers)

    @property
    def needs_charts(self) -> bool:
        """Whether grammars are among the members that parse, so that charts are filled."""
        return bool(self._prepared.groups)

    def recount(self) -> Parser:
        """A copy of the parser with statistics of its own, for a worker that returns them."""
        alone = copy(self)
        alone.stats = ParserStats()
        return alone

    def _megabytes(self, n: int) -> float:
        """Memory of the largest chart of n words; groups are charted one after the other."""
        charts = [chart_megabytes(group.members[0], n) for group in self._prepared.groups]
        return max(charts + [reader.megabytes(n) for reader, _ in self._prepared.readers])

    def parse_pruned(self, forests: Sequence[ForestPosteriors]) -> Parse:
        """Parse a sentence from pruned charts, one for each group of members.

        The sentence is charted again where the pruned charts have no parse.
        """
        words, pairs = forests[0].pruned.words, zip(self._prepared.groups, forests, strict=True)
        found = [group.read_pruned(plain) for group, plain in pairs]
        return self._decode(words, self._prepared.average(words, found)) or self.parse(words)

    def _chart(
        self,
        words: list[str],
        constraints: Constraints | None = None,
        read: Sequence[BracketPosteriors] | None = None,
    ) -> Parse:
        """Parse by charts; where they have no parse, join the best pieces side by side."""
        # A second time without the middle pruning where that has left no whole tree.
        for pruning in dict.fromkeys((self._pruning, self._pruning._replace(middle=0.0))):
            found = self._prepared.bracket_posteriors(words, pruning, constraints, read)
            result = self._decode(words, found, constraints)
            if result is not None and (constraints is None or not constraints.unmet(result.tree)):
                return result
        weaker = None if constraints is None else constraints.weaken(self.known_labels)
        if constraints is not None and weaker is not None:
            # The tree with the same brackets under any labels has most of the right ones.
            return self._pieces(words, constraints, self._chart(words, weaker).tree)
        tree = join_pieces(self._prepared.first_group.members[0], words)
        if constraints is not None:
            return self._pieces(words, constraints, tree)
        return Parse(words, tree, "joined", self._prepared, self.decoder)

    def _pieces(self, words: list[str], constraints: Constraints, tree: Tree) -> Parse:
        """The required phrases, where no member has a tree with them, and what goes with them.

        Phrases and tags of a tree that was made without constraints stay where they are allowed.
        """
        prepared, n = self._prepared, len(words)
        numbers = {label: number for number, label in enumerate(prepared.labels)}
        codes = set()
        for node, (label, i, j) in zip(tree.nodes(), tree.spans(), strict=True):
            if node.is_preterminal or (label != ROOT and constraints.allows(i, j, (label,))):
                codes.add((2 * numbers[label] + node.is_preterminal, i, j))
        code = np.sort(np.array([(a * (n + 1) + i) * (n + 1) + j for a, i, j in codes]))
        brackets = BracketPosteriors(code, np.ones(len(code)))
        tree, _ = unconstrained_tree(brackets, words, prepared.labels, prepared.chains, constraints)
        return Parse(words, tree, "joined", prepared, self.decoder, _constraints=constraints)

    def _decode(
        self,
        words: list[str],
        found: SentencePosteriors | None,
        constraints: Constraints | None = None,
    ) -> Parse | None:
        """The decoder's tree; None without a forest, or when pruning left no whole tree."""
        if found is None:
            return None
        prepared, decoded = self._prepared, None
        if self.decoder == "f1" and prepared.readers:
            decoded = unconstrained_tree(
                found.brackets, words, prepared.labels, prepared.chains, constraints
            )
        elif found.forest is not None:
            decoded = decode(found.forest, self.decoder)
        if decoded is None:
            return None
        tree, best = decoded
        pruning = self._pruning._replace(middle=0.0)
        return Parse(
            words, tree, "parsed", prepared, self.decoder, found, best, pruning, constraints
        )

    def _flat(self, words: list[str]) -> Parse:
        """The most probable tag of each word under one root, for a sentence too long to chart."""
        leaves = [Tree(self._likeliest_tag(word, i == 0), word) for i, word in enumerate(words)]
        tree = Tree(ROOT, [Tree(root_label(self._first), leaves)])
        return Parse(words, tree, "flat", self._prepared, self.decoder)

    def _likeliest_tag(self, word: str, is_first: bool) -> str:
        lexicon = self._first.lexicon
        entries = lexicon.entries(lexicon.vocabulary.row(word, is_first=is_first))
        if entries.start == entries.stop:
            return self._first.tags[0].chain[-1]
        ratio = self._prepared.first_group.members[0].plain.entry_ratio[entries]
        best = entries.start + int(ratio.argmax())
        return self._first.tags[int(lexicon.entry_tag[best])].chain[-1]


def _check_model(model: object) -> None:
    if not isinstance(model, Model):
        hint = "give estimator.fit(treebank).model_, or sapwood.load(path)"
        if isinstance(model, (str, Path)):
            hint = f"load it first: sapwood.Parser(sapwood.load({str(model)!r}))"
        elif hasattr(model, "fit"):
            hint = "fit the estimator and give its model: sapwood.Parser(estimator.model_)"
        raise SapwoodTypeError(f"a parser needs a model, not {describe(model)}", hint=hint)


def chart_megabytes(prepared: PreparedGrammar, n: int) -> float:
    """Memory of the charts of an n-word sentence: it grows with the square of the length."""
    rules, n_phrases = prepared.plain.rules, prepared.grammar.n_phrases
    slots = len(rules.left_of) + len(rules.right_of)
    cells = n * (n + 1) // 2
    # inside, outside, posterior and list of phrases by cell; inside and outside by start and end
    numbers = 3 * cells * n_phrases + 2 * (n + 1) * (n + 1) * slots
    return (8 * numbers + 4 * cells * n_phrases) / 1e6


def _parse_and_count(words: Sequence[str], parser: Parser) -> tuple[Parse, ParserStats]:
    """A parse with the statistics of this sentence alone, which the calling process adds."""
    alone = parser.recount()
    return alone.parse_compiled(words), alone.stats


def _parse_window(
    window: Sequence[Sequence[str] | PartialSentence], parser: Parser
) -> tuple[list[Parse], ParserStats, Exception | None]:
    """Parses of a window, with their statistics, and the error of the first one that failed."""
    alone, parses = parser.recount(), []
    try:
        for parse in alone.parse_together(window):
            parses.append(parse)  # noqa: PERF402 - those before an error stay
    except Exception as error:  # raised again after the parses before it
        return parses, alone.stats, error
    return parses, alone.stats, None


def _shared_objects(parser: Parser) -> list[object]:
    """The prepared model of a parser, which all of its parses refer to."""
    prepared = parser._prepared
    return [prepared, *(member for group in prepared.groups for member in group.members)]
