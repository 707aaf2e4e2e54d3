"""Choosing among the trees that a parser proposes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.model.arc_model import ArcModel
from sapwood.dependency.model.reranker import ArcRerankModel, LatentScorer
from sapwood.dependency.parse.arc_triples import N_KINDS, tag_triples
from sapwood.dependency.parse.parser import (
    ArcParse,
    ArcParser,
    ScoredArcs,
    Sentence,
    shared_objects,
)
from sapwood.execute.engine import Engine, as_engine
from sapwood.execute.remote import stream_results


def choose_trees(model: ArcRerankModel, lists: CandidateLists) -> IntArray:
    """The number of the best tree of each list, among all trees, shape [n_lists]."""
    return lists.best(rerank_scores(model, lists))


def rerank_scores(model: ArcRerankModel, lists: CandidateLists) -> FloatArray:
    """The reranker's score of each tree, shape [n_trees]; only those of one list compare."""
    features = tag_triples(lists.bank, model.column, model.bits)
    of_triples = np.add.reduceat(model.weights[features].ravel(), N_KINDS * lists.bank.offsets[:-1])
    return np.asarray(dense_features(lists, model.latent) @ model.dense + of_triples)


def dense_features(lists: CandidateLists, latent: Sequence[LatentScorer]) -> FloatArray:
    """What lists and latent models say of each tree, shape [n_trees, 2 + 3 n_latent].

    The parser's score below the best of the list; how many heads are expected to be right where the
    list is all there is; and the features of each latent model, about their mean over the list.
    """
    best = np.maximum.reduceat(lists.score, lists.starts[:-1])
    sizes = np.diff(lists.starts)
    columns = [lists.score - np.repeat(best, sizes), expected_heads(lists)]
    for model in latent:
        said = model.features(lists.bank)
        means = np.add.reduceat(said, lists.starts[:-1], axis=0) / sizes[:, None]
        columns.extend((said - np.repeat(means, sizes, axis=0)).T)
    return np.stack(columns, axis=1)


def expected_heads(lists: CandidateLists) -> FloatArray:
    """Expected number of right heads of each tree, about its mean over the list.

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
        # mass[word, head] = share of trees with that arc
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
        self.arcs = self._named(int(scores.argmax()))

    def _named(self, tree: int) -> Arcs:
        return self._parse.with_heads(self._lists.heads(0)[tree])

    @property
    def posteriors(self) -> FloatArray:
        """Posterior of the head of each word by the parser behind the list, shape [n, n + 1]."""
        return self._parse.posteriors

    @property
    def head_posteriors(self) -> list[float]:
        """Posterior of each word's arc in the tree, likewise."""
        found = self.posteriors[np.arange(len(self.arcs)), list(self.arcs.heads)]
        return [float(share) for share in found]

    def k_best(self, k: int) -> list[ScoredArcs]:
        """The k best trees by the reranker's scores, as far as the list goes."""
        order = np.argsort(-self._scores, kind="stable")[:k].tolist()
        return [ScoredArcs(self._named(tree), float(self._scores[tree])) for tree in order]


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

    def parse(self, sentence: Sentence) -> RerankedParse:
        """Parse one sentence: words, or arcs whose words are parsed."""
        parse = self._parser.parse(sentence)
        lists = propose_trees([parse], self.model.n_best)
        return RerankedParse(parse, lists, rerank_scores(self.model, lists))

    def parse_many(
        self, sentences: Iterable[Sentence], *, jobs: Engine | int | None = 1
    ) -> Iterator[RerankedParse]:
        """Parse a stream of sentences in order, on so many threads or on an engine."""
        return stream_results(as_engine(jobs), _parse, sentences, self, _shared_objects)


def _shared_objects(parser: RerankingParser) -> list[object]:
    return shared_objects(parser._parser)


def _parse(sentence: Sentence, parser: RerankingParser) -> RerankedParse:
    return parser.parse(sentence)


def propose_trees(parses: Iterable[ArcParse], n: int) -> CandidateLists:
    """The n best trees of parsed sentences, as lists."""
    tagged, heads, scores = [], [], []
    for parse in parses:
        tagged.append(parse.arcs)
        found = parse.k_best_heads(n)
        scores.append(found[0])
        heads.append(found[1])
    return CandidateLists.of_heads(ArcBank.of(tagged), heads, scores)


def arc_parser(
    model: ArcModel | ArcRerankModel, *, use_tags: bool = False
) -> ArcParser | RerankingParser:
    """What parses with a model, whichever it is."""
    if isinstance(model, ArcRerankModel):
        return RerankingParser(model, use_tags=use_tags)
    return ArcParser(model, use_tags=use_tags)
