"""`ArcParser`: words in, a dependency tree out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from sapwood.core.arguments import as_items, describe
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodTypeError, SapwoodValueError
from sapwood.corpora.word_properties import COLUMN, Words
from sapwood.dependency.data.bank import UNPARSED, ArcBank, Arcs
from sapwood.dependency.model.arc_model import ArcModel
from sapwood.dependency.parse.encoder import ArcEncoder, ReadSentence
from sapwood.dependency.parse.forests import ArcForest, IntArray, PartFeatures
from sapwood.dependency.parse.latent import arc_posteriors
from sapwood.dependency.parse.steps import (
    best_tags,
    keep_likely,
    label_features,
    label_posteriors,
    likely_arcs,
    tag_forest,
    tag_posteriors,
)  # fmt: skip
from sapwood.dependency.parse.words import WordRows, one_sentence
from sapwood.execute.engine import Engine, as_engine
from sapwood.execute.remote import stream_results
from sapwood.networks.network_inputs import blas_of_one_thread, one_blas_thread

Sentence = Sequence[str] | Arcs


@dataclass(frozen=True)
class ScoredArcs:
    """A tree of a list of best ones.

    Attributes
    ----------
    score
        The log-probability of the tree given the sentence, where there is one member; of several,
        the number of arcs that are expected to be right.
    """

    arcs: Arcs
    score: float


class ArcParse:
    """A parsed sentence.

    Attributes
    ----------
    arcs
        The tree with the most expected right arcs, with tags and relations.
    """

    def __init__(
        self,
        parser: ArcParser,
        arcs: Arcs,
        rows: Words,
        scored: _Scored,
        read: ReadSentence | None = None,
    ) -> None:
        self.arcs, self._parser, self._rows, self._scored = arcs, parser, rows, scored
        self._read = read

    @cached_property
    def posteriors(self) -> FloatArray:
        """Posterior of the head of each word, shape [n, n + 1]; heads in columns, the root first.

        Zero where the pruner left no arc.
        """
        n = len(self.arcs)
        out = np.zeros((n, n + 1))
        out[self._scored.modifier - 1, self._scored.head] = self._scored.posterior
        return out

    @property
    def head_posteriors(self) -> list[float]:
        """Posterior of each word's arc in the tree."""
        found = self.posteriors[np.arange(len(self.arcs)), list(self.arcs.heads)]
        return [float(share) for share in found]

    def k_best(self, k: int) -> list[ScoredArcs]:
        """The k best trees, or as many as there are over the arcs that the pruner left.

        For one member by log-probability, whose first tree need not be `arcs`, which has the most
        expected right arcs; for several, by that number.
        """
        scores, heads = self.k_best_heads(k)
        return [
            ScoredArcs(self.with_heads(tree), score)
            for score, tree in zip(scores.tolist(), heads, strict=True)
        ]

    def k_best_heads(self, k: int) -> tuple[FloatArray, IntArray]:
        """Scores, and heads of each word, of the k best trees, without relations."""
        forest, scores, total = self._scored.ranking()
        found, heads = forest.k_best(scores, k)
        return found - total, heads[:, 1:]

    def with_heads(self, heads: IntArray) -> Arcs:
        """The sentence with another tree, and the likeliest relations of its arcs."""
        heads = np.append(np.int32(0), heads)
        return self._parser.name_arcs(self.arcs, heads, self._rows, self._read)


@dataclass(frozen=True)
class _Scored:
    """The arcs of a sentence with their mean posteriors, and what the only member made of them."""

    n: int
    head: IntArray
    modifier: IntArray
    posterior: FloatArray
    forest: ArcForest | None
    scores: FloatArray | None

    def ranking(self) -> tuple[ArcForest, FloatArray, float]:
        """A forest, scores that rank its trees, and what they exceed log-probabilities by."""
        if self.forest is None or self.scores is None:
            return ArcForest(self.n, self.head, self.modifier), self.posterior, 0.0
        return self.forest, self.scores, self.forest.posteriors(self.scores)[0]


class ArcParser:
    """Parses sentences with a model.

    Parameters
    ----------
    model
        What `ArcCRF` or `ArcEnsemble` has learnt.
    use_tags
        Whether tags are taken from sentences that have them instead of being predicted.

    Examples
    --------
    >>> import sapwood as sw
    >>> dogs = sw.Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])
    >>> model = sw.ArcCRF(passes=2, folds=2).fit([dogs] * 20).model_
    >>> parse = sw.ArcParser(model).parse(["dogs", "bark"])
    >>> parse.arcs.heads, parse.arcs.relations
    ((2, 0), ('nsubj', 'root'))
    """

    def __init__(self, model: ArcModel, *, use_tags: bool = False) -> None:
        if not isinstance(cast("object", model), ArcModel):
            msg = f"expected a dependency parser's model, not {describe(model)}"
            hint = (
                "give the model_ of a fitted ArcCRF, or sapwood.load(path); sapwood.Parser is for "
            )
            raise SapwoodTypeError(msg, hint=f"{hint}models of phrase-structure trees")
        self.model, self.use_tags = model, use_tags
        self._word_rows = WordRows(model.familiar, model.tags, model.clusters)
        self._encoder = None if model.encoder is None else ArcEncoder(model.encoder.network)
        universal = [name.split(":")[0] for name in model.relations]
        kinds = sorted(set(universal))
        self._universal = np.array([[x == y for y in kinds] for x in universal], np.float32)

    def parse(self, sentence: Sentence) -> ArcParse:
        """Parse one sentence: words, or arcs whose words are parsed."""
        given = self._as_arcs(sentence)
        of_words = self._word_rows.of_forms(given.words)
        read = None
        if self._encoder is not None:
            with blas_of_one_thread():
                read = self._encoder.read(given.words)
        given = self._put_tags(given, of_words, read)
        rows = one_sentence(of_words)
        scored = self._score(rows, read)
        if self.model.latent is not None:
            scored = self._weigh_states(scored, given)
        heads = ArcForest(scored.n, scored.head, scored.modifier).best(scored.posterior)
        return ArcParse(self, self.name_arcs(given, heads, rows, read), rows, scored, read)

    def parse_many(
        self, sentences: Iterable[Sentence], *, jobs: Engine | int | None = 1
    ) -> Iterator[ArcParse]:
        """Parse a stream of sentences in order, on so many threads or on an engine."""
        found = stream_results(as_engine(jobs), _parse, sentences, self, shared_objects)
        return found if self._encoder is None else one_blas_thread(found)

    def _as_arcs(self, sentence: Sentence) -> Arcs:
        if isinstance(sentence, Arcs):
            return sentence
        words = tuple(as_items(sentence, "a list of words"))
        if not words:
            msg = "an empty sentence has no dependency tree"
            raise SapwoodValueError(msg, hint="give at least one word")
        return Arcs(words, (UNPARSED,) * len(words))

    def _put_tags(self, given: Arcs, of_words: Words, read: ReadSentence | None) -> Arcs:
        """Tags into the rows, and the sentence with them."""
        if self.use_tags:
            self._word_rows.put_named_tags(of_words, given.upos, given.xpos)
            return given
        model = self.model
        types = model.lexicon.types(of_words[:, COLUMN["L"]])
        forest = tag_forest(one_sentence(of_words), types, model.lexicon, model.tagger)
        if read is None or model.encoder is None:
            tags = best_tags(forest, model.tagger.weights)
        else:
            sizes = np.diff(model.lexicon.starts)[types]
            share = tag_posteriors(forest, model.tagger.weights, sizes, len(model.tags))
            share *= 1 - model.encoder.weight
            share += model.encoder.weight * read.tags
            tags = share.argmax(axis=1)
        self._word_rows.put_tags(of_words, tags)
        names = [model.tags[tag] for tag in tags.tolist()]
        upos, xpos = zip(*names, strict=True)
        return replace(given, upos=upos, xpos=xpos)

    def _score(self, rows: Words, read: ReadSentence | None) -> _Scored:
        """Mean posteriors of the members."""
        model, n = self.model, len(rows) - 4
        head, modifier = (
            likely_arcs(rows, model.pruner) if read is None else keep_likely(read.heads.T)
        )
        posterior = np.zeros(len(head))
        for member in model.members:
            forest = ArcForest(n, head, modifier, member.order)
            features = PartFeatures.of(forest.parts, rows, member.table)
            scores = features.scores(member.table.weights)
            posterior += member.weight * forest.arc_posteriors(scores)
        posterior /= sum(member.weight for member in model.members)
        if read is not None and model.encoder is not None:
            posterior *= 1 - model.encoder.weight
            posterior += model.encoder.weight * read.heads[modifier - 1, head]
        if len(model.members) > 1 or read is not None:
            return _Scored(n, head, modifier, posterior, None, None)
        return _Scored(n, head, modifier, posterior, forest, scores)

    def _weigh_states(self, scored: _Scored, tagged: Arcs) -> _Scored:
        """Posteriors mixed with those of the latent member, whose prior they are."""
        latent = self.model.latent
        assert latent is not None  # whoever calls has looked
        arcs = np.zeros((scored.n + 1, scored.n))
        arcs[scored.head, scored.modifier - 1] = scored.posterior**latent.trust
        bank = ArcBank.of([replace(tagged, heads=(UNPARSED,) * scored.n, relations=(), rows=())])
        seen = latent.model.seen.of(bank).seen
        _, sign, found = arc_posteriors(
            latent.model.arcs, seen, arcs, latent.model.seen.valence_rows
        )
        if not sign:  # no tree over these arcs has a weight
            return scored
        own = found[scored.head, scored.modifier - 1]
        mean = (1 - latent.weight) * scored.posterior + latent.weight * own
        return replace(scored, posterior=mean, forest=None, scores=None)

    def name_arcs(
        self, tagged: Arcs, heads: IntArray, rows: Words, read: ReadSentence | None = None
    ) -> Arcs:
        """A tree with the likeliest relation of each arc: that of UD, then its subtype."""
        model = self.model
        features = label_features(heads, rows, model.labels)
        share = label_posteriors(features, model.labels.weights, len(model.relations))
        if read is not None and model.encoder is not None:
            share *= 1 - model.encoder.weight
            share += model.encoder.weight * read.relations(heads[1:].astype(np.int64))
        # first the relation up to its colon, which may be spread over several
        best = (share @ self._universal).argmax(axis=1)
        share *= self._universal[:, best].T
        names = tuple(model.relations[label] for label in share.argmax(axis=1).tolist())
        return replace(tagged, heads=tuple(heads[1:].tolist()), relations=names)


def _parse(sentence: Sentence, parser: ArcParser) -> ArcParse:
    return parser.parse(sentence)


def shared_objects(parser: ArcParser) -> list[object]:
    """The parser and the network, which all parses of a parser refer to."""
    encoder = parser.model.encoder
    return [parser] if encoder is None else [parser, encoder.network]
