"""Reranking the k best trees of a parser.

The sparse features are hashed triples of tags, the paper's two (DEP, section 4.3), which parsers of
single arcs do not see:

    nearest left modifier, head, nearest right modifier        of each word as a head
    modifier with its side, head, head of the head             of each word as a modifier
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.model.arc_model import ArcModel, ArcRerankModel, LatentScorer
from sapwood.dependency.parse.constraints import ArcConstraints, PartialArcs, TagRequest
from sapwood.dependency.parse.parser import (
    ArcParse,
    ArcParser,
    ScoredArcs,
    Sentence,
    posteriors_in_tree,
    shared_objects,
)
from sapwood.execute.engine import Engine, as_engine
from sapwood.execute.processes import stream_results

Hashes = npt.NDArray[np.uint64]
N_TRIPLES = 2  # of each word
_NONE, _ROOT = 1, 2  # tags of positions without a word
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, Knuth's multiplier


def tag_triples(bank: ArcBank, column: str, bits: int) -> npt.NDArray[np.uint32]:
    """Two features of each word, numbers below 2^bits, shape [n_tokens, N_TRIPLES].

    Examples
    --------
    >>> from sapwood.dependency.data.bank import Arcs
    >>> trees = [Arcs(["a", "b", "c"], heads, upos=list("XYX")) for heads in ([2, 0, 2], [2, 0, 1])]
    >>> one, other = tag_triples(ArcBank.of(trees), "upos", 20).reshape(2, 3, 2)
    >>> (one == other).tolist()
    [[False, True], [False, True], [True, False]]
    """
    shards = [_of_shard(shard, column, bits) for shard in bank.shards()]
    return np.concatenate([np.empty((0, N_TRIPLES), np.uint32), *shards])


def _of_shard(bank: ArcBank, column: str, bits: int) -> npt.NDArray[np.uint32]:
    names = getattr(bank, f"{column}_names")
    # by name, because another bank numbers its tags otherwise
    hashed = np.array([crc32(name.encode()) + 3 for name in names], np.uint64)
    tag = np.append(hashed[getattr(bank, column)], np.array([_NONE, _ROOT], np.uint64))
    none, root = len(bank.head), len(bank.head) + 1
    word = np.arange(len(bank.head))
    first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
    up = np.where(bank.head > 0, first + bank.head - 1, root)
    left, right = _nearest(word, up, none)
    above = np.append(up, [none, none])
    side = (word > up).astype(np.uint64)
    as_head = _hash(np.uint64(1), tag[left], tag[:none], tag[right])
    as_modifier = _hash(np.uint64(2) + side, tag[:none], tag[up], tag[above[up]])
    features = np.stack([as_head, as_modifier], axis=1) >> np.uint64(64 - bits)
    return features.astype(np.uint32)


def _nearest(word: IntArray, up: IntArray, none: int) -> tuple[IntArray, IntArray]:
    """The nearest modifier of each word, on the left and on the right."""
    left, right = np.full(none + 2, -1), np.full(none + 2, none)
    np.maximum.at(left, up[word < up], word[word < up])
    np.minimum.at(right, up[word > up], word[word > up])
    left[left < 0] = none
    return left[:none], right[:none]


def _hash(kind: Hashes | np.uint64, *tags: Hashes) -> Hashes:
    mixed = np.broadcast_to(kind, tags[0].shape).astype(np.uint64) * _MIX
    for tag in tags:
        mixed = (mixed ^ tag) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed * _MIX, np.uint64)


def choose_trees(model: ArcRerankModel, lists: CandidateLists) -> IntArray:
    """Index of the best tree of each list, among all trees, shape [n_lists]."""
    return lists.best(rerank_scores(model, lists))


def rerank_scores(model: ArcRerankModel, lists: CandidateLists) -> FloatArray:
    """The reranker's score of each tree, shape [n_trees]; comparable within a list only."""
    features = tag_triples(lists.bank, model.column, model.bits)
    of_triples = np.add.reduceat(
        model.weights[features].ravel(), N_TRIPLES * lists.bank.offsets[:-1]
    )
    return np.asarray(dense_features(lists, model.latent) @ model.dense + of_triples)


def dense_features(lists: CandidateLists, latent: Sequence[LatentScorer]) -> FloatArray:
    """Features of each tree by lists and latent models, shape [n_trees, 2 + 3 n_latent].

    The parser's score less the best of the list; the expected number of right heads; and the
    features of each latent model less their mean over the list.
    """
    best = np.maximum.reduceat(lists.score, lists.starts[:-1])
    sizes = np.diff(lists.starts)
    columns = [lists.score - np.repeat(best, sizes), expected_heads(lists)]
    for model in latent:
        features = model.features(lists.bank)
        means = np.add.reduceat(features, lists.starts[:-1], axis=0) / sizes[:, None]
        columns.extend((features - np.repeat(means, sizes, axis=0)).T)
    return np.stack(columns, axis=1)


def expected_heads(lists: CandidateLists) -> FloatArray:
    """Expected number of right heads of each tree, less its mean over the list.

        expected[t] = sum over words of  sum over trees u with the same head there of  p(u)

    where p is proportional to exp(score).

    Examples
    --------
    >>> from sapwood.dependency.data.bank import ArcBank, Arcs
    >>> tagged = ArcBank.of([Arcs(["a", "b", "c"], [0, 1, 1])])
    >>> heads, scores = np.array([[0, 1, 1], [0, 1, 2]]), np.log([0.75, 0.25])
    >>> expected_heads(CandidateLists.of_heads(tagged, [heads], [scores])).round(6).tolist()
    [0.25, -0.25]
    """
    out = np.empty(len(lists.bank))
    for index in range(len(lists)):
        heads, here = lists.heads(index), slice(lists.starts[index], lists.starts[index + 1])
        p = np.exp(lists.score[here] - lists.score[here].max())
        p /= p.sum()
        n = heads.shape[1]
        # mass[word, head] = posterior of that arc in the list
        cell = heads + np.arange(n) * (n + 1)
        mass = np.bincount(cell.ravel(), np.repeat(p, n), n * (n + 1))
        expected = mass[cell].sum(axis=1)
        out[here] = expected - expected.mean()
    return out


class RerankedParse:
    """A parsed sentence whose tree was chosen among the parser's best.

    Attributes
    ----------
    arcs
        The tree that was chosen, with tags and relations.
    """

    def __init__(self, parse: ArcParse, lists: CandidateLists, scores: FloatArray) -> None:
        self._parse, self._lists, self._scores = parse, lists, scores
        self.arcs = self._tree(int(scores.argmax()))

    def _tree(self, tree: int) -> Arcs:
        return self._parse.with_heads(self._lists.heads(0)[tree])

    @property
    def posteriors(self) -> FloatArray:
        """Posterior of the head of each word by the parser behind the list, shape [n, n + 1]."""
        return self._parse.posteriors

    @property
    def head_posteriors(self) -> list[float]:
        """Posterior of each word's arc in the tree, likewise."""
        return posteriors_in_tree(self.posteriors, self.arcs)

    @property
    def constraint_log_prob(self) -> float:
        """Log-probability of the given heads and relations by the parser behind the list."""
        return self._parse.constraint_log_prob

    def k_best(self, k: int) -> list[ScoredArcs]:
        """The k best trees by the reranker's scores, as far as the list goes."""
        order = np.argsort(-self._scores, kind="stable")[:k].tolist()
        return [ScoredArcs(self._tree(tree), float(self._scores[tree])) for tree in order]


class RerankingParser:
    """Parses sentences with a parser and a reranker of its best trees.

    Parameters
    ----------
    model
        What `ArcReranker` has learnt.
    use_tags
        Whether tags are taken from sentences that have them instead of being predicted.
    """

    def __init__(self, model: ArcRerankModel, *, use_tags: bool = False) -> None:
        if not isinstance(model.parser, ArcModel):
            msg = "this reranker has no parser of its own"
            raise SapwoodError(msg, hint="`sapwood depend rerank` takes lists of another parser")
        self.model = model
        self._parser = ArcParser(model.parser, use_tags=use_tags)

    def parse(
        self,
        sentence: Sentence | PartialArcs,
        *,
        tags: Sequence[TagRequest] | None = None,
        heads: Sequence[int | None] | None = None,
        relations: Sequence[str | None] | None = None,
    ) -> RerankedParse:
        """Parse one sentence, and keep the tags, heads and relations given; see `ArcParser.parse`.

        All trees of the list have the given tags, heads and relations.
        """
        parse = self._parser.parse(sentence, tags=tags, heads=heads, relations=relations)
        lists = propose_trees([parse], self.model.n_best)
        return RerankedParse(parse, lists, rerank_scores(self.model, lists))

    def constrain(self, partial: PartialArcs) -> ArcConstraints | None:
        """Check the given tags, heads and relations of a sentence; None where nothing is given."""
        return self._parser.constrain(partial)

    def parse_many(
        self, sentences: Iterable[Sentence | PartialArcs], *, jobs: Engine | int | None = 1
    ) -> Iterator[RerankedParse]:
        """Parse a stream of sentences in order, on a number of threads or on an engine."""
        return stream_results(as_engine(jobs), _parse, sentences, self, _shared_by_parses)


def _shared_by_parses(parser: RerankingParser) -> list[object]:
    return shared_objects(parser._parser)


def _parse(sentence: Sentence | PartialArcs, parser: RerankingParser) -> RerankedParse:
    return parser.parse(sentence)


def propose_trees(parses: Iterable[ArcParse], n: int) -> CandidateLists:
    """The n best trees of parsed sentences, as lists."""
    kept = [(parse.arcs, *parse.k_best_heads(n)) for parse in parses]
    tagged, scores, heads = zip(*kept, strict=True) if kept else ((), (), ())
    return CandidateLists.of_heads(ArcBank.of(tagged), heads, scores)


def arc_parser(
    model: ArcModel | ArcRerankModel, *, use_tags: bool = False
) -> ArcParser | RerankingParser:
    """The parser of a model of either kind."""
    if isinstance(model, ArcRerankModel):
        return RerankingParser(model, use_tags=use_tags)
    return ArcParser(model, use_tags=use_tags)
