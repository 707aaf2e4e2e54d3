"""`ArcParser`: words in, a dependency tree out.

Members and the encoder give posteriors of arcs, which are averaged. A latent member then sums over
all projective trees and all states,

    p(tree | words)  ~  prod over arcs of w[head, word]  *  p(words | tree)

with powers of the averaged posteriors for w, 0 where an arc was pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, Int32Array
from sapwood.core.errors import (
    SapwoodError,
    SapwoodTypeError,
    SapwoodValueError,
    as_items,
    describe,
)
from sapwood.corpora.vocabulary import COLUMN, Words
from sapwood.dependency.data.bank import UNPARSED, ArcBank, Arcs
from sapwood.dependency.model.arc_model import ArcModel
from sapwood.dependency.model.latent import LatentArcs
from sapwood.dependency.parse.constraints import (
    ROOT_RELATION,
    ArcConstraints,
    PartialArcs,
    TagRequest,
    constrain_arcs,
)
from sapwood.dependency.parse.scoring import (
    ScoredForest,
    Tagger,
    WordRows,
    keep_allowed,
    label_posteriors,
    pruner_posteriors,
    score_forest,
    score_likely,
    score_members,
)
from sapwood.execute.engine import Engine, as_engine
from sapwood.execute.processes import stream_results
from sapwood.networks.network import one_blas_thread, with_one_blas_thread
from sapwood.networks.scores import ArcEncoder, ReadSentence

Sentence = Sequence[str] | Arcs


@dataclass(frozen=True)
class ScoredArcs:
    """A tree of a k-best list.

    Attributes
    ----------
    score
        The log-probability of the tree given the sentence where there is one member; the expected
        number of right arcs where there are several.
    """

    arcs: Arcs
    score: float


class ArcParse:
    """A parsed sentence, with posteriors and k-best trees.

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
        scored: ScoredForest,
        read: ReadSentence | None = None,
        constraints: ArcConstraints | None = None,
    ) -> None:
        self.arcs, self._parser, self._rows, self._scored = arcs, parser, rows, scored
        self._read, self._constraints = read, constraints

    @cached_property
    def posteriors(self) -> FloatArray:
        """Posterior of the head of each word, shape [n, n + 1]; heads in columns, the root first.

        Zero where the arc was pruned.
        """
        n = len(self.arcs)
        out = np.zeros((n, n + 1))
        out[self._scored.modifier - 1, self._scored.head] = self._scored.posterior
        return out

    @cached_property
    def relation_posteriors(self) -> FloatArray:
        """Posteriors of the relation of each arc of the tree, shape [n, n_relations]."""
        return self.relation_posteriors_of(self.arcs.heads)

    def relation_posteriors_of(self, heads: Sequence[int]) -> FloatArray:
        """Posteriors of the relation of each word to any given head, shape [n, n_relations]."""
        given = np.append(np.int32(0), np.array(heads, np.int32))
        found = self._parser._relation_posteriors(given, self._rows, self._read)
        return np.asarray(found, np.float64)

    @cached_property
    def tag_posteriors(self) -> FloatArray:
        """Posteriors of the tags of each word, in the order of `model.tags`, from its words alone.

        Given tags are not read, as if there were none. Shape [n, n_tags].
        """
        return self._parser._tag_posteriors(self.arcs.words, self._read)

    @property
    def head_posteriors(self) -> list[float]:
        """Posterior of each word's arc in the tree."""
        return posteriors_in_tree(self.posteriors, self.arcs)

    def k_best(self, k: int) -> list[ScoredArcs]:
        """The k best trees, or as many as there are over the arcs that the pruner kept.

        Trees of one member are ranked by log-probability, so the first need not be `arcs`, which
        has the most expected right arcs. Trees of several members are ranked by expected right
        arcs.
        """
        scores, heads = self.k_best_heads(k)
        return [
            ScoredArcs(self.with_heads(tree), score)
            for score, tree in zip(scores.tolist(), heads, strict=True)
        ]

    def k_best_heads(self, k: int) -> tuple[FloatArray, Int32Array]:
        """Scores, and heads of each word, of the k best trees, without relations."""
        scores, heads = self._scored.k_best(k)
        return scores, heads[:, 1:]

    def with_heads(self, heads: Int32Array) -> Arcs:
        """The sentence with another tree, and the most probable relations of its arcs."""
        given = None if self._constraints is None else self._constraints.relations
        relations = self._parser.name_relations(
            np.append(np.int32(0), heads), self._rows, self._read, given
        )
        return replace(self.arcs, heads=tuple(heads.tolist()), relations=relations)

    @cached_property
    def constraint_log_prob(self) -> float:
        """Log-probability of the given heads and relations, given the sentence; 0 without any.

        The probability of heads is the weighted mean over the members: an exact sum over the trees
        on the arcs that were kept or, for a network, a product over words. The probability of
        relations is conditional on the tree that was found. Both are conditional on the given tags.
        """
        if self._constraints is None:
            return 0.0
        return self._parser.constraint_log_prob(
            self._constraints, self.arcs, self._rows, self._read
        )


def posteriors_in_tree(posteriors: FloatArray, arcs: Arcs) -> list[float]:
    """Posterior of the head of each word in a tree, from [n, n + 1]."""
    return [float(p) for p in posteriors[np.arange(len(arcs)), list(arcs.heads)]]


class ArcParser:
    """Parses sentences with a model.

    Parameters
    ----------
    model
        The model of a fitted `ArcCRF`, `LatentArcCRF` or `ArcEnsemble`.
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
            hint = "give the model_ of a fitted ArcCRF, or sapwood.load(path); "
            raise SapwoodTypeError(
                msg, hint=f"{hint}sapwood.Parser is for models of phrase-structure trees"
            )
        self.model, self.use_tags = model, use_tags
        self._word_rows = WordRows(model.familiar, model.tags, model.clusters)
        self._tagger = Tagger(model.lexicon, model.tagger)
        self._encoder = None if model.encoder is None else ArcEncoder(*model.encoder.networks)
        universal = [name.split(":")[0] for name in model.relations]
        kinds = sorted(set(universal))
        self._universal = np.array([[x == y for y in kinds] for x in universal], np.float32)

    def parse(
        self,
        sentence: Sentence | PartialArcs,
        *,
        tags: Sequence[TagRequest] | None = None,
        heads: Sequence[int | None] | None = None,
        relations: Sequence[str | None] | None = None,
    ) -> ArcParse:
        """Parse one sentence, and keep the tags, heads and relations that are given.

        The tree has all given tags, heads and relations; posteriors, k-best trees and their
        log-probabilities are conditional on them. `ArcParse.constraint_log_prob` is the
        log-probability of the given heads and relations.

        Parameters
        ----------
        sentence
            Words; or arcs, whose words are parsed and whose tags, heads and relations are not read;
            or `PartialArcs`, which have words and the other arguments.
        tags
            For each word None (free), a tag, a pair of universal tag and tag of the treebank, or a
            dictionary of tags with probabilities. A network's probabilities of tags are multiplied
            by these; scorers by features read the one tag that is then the most probable.
        heads
            For each word None (free) or the position of its head, from 1 on; 0 is the root.
        relations
            For each word None (free) or its relation.

        Raises
        ------
        SapwoodError
            If the model does not know a name, or two heads are in no projective tree with one root.

        Examples
        --------
        >>> import sapwood as sw
        >>> dogs = sw.Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])
        >>> parser = sw.ArcParser(sw.ArcCRF(passes=2, folds=2).fit([dogs] * 20).model_)
        >>> parser.parse(["dogs", "bark"], heads=[0, None]).arcs.heads
        (0, 1)
        """
        if isinstance(sentence, PartialArcs):
            sentence, tags, heads, relations = sentence
        given, asked = self._as_arcs(sentence), None
        if any(some is not None for some in (tags, heads, relations)):
            asked = self.constrain(PartialArcs(given, tags, heads, relations))
        return self._parse(given, asked)

    def constrain(self, partial: PartialArcs) -> ArcConstraints | None:
        """Check the given tags, heads and relations of a sentence; None where nothing is given."""
        sentence, tags, heads, relations = partial
        names = self.model.tags, self.model.relations
        return constrain_arcs(len(sentence), *names, tags, heads, relations)

    def _parse(self, given: Arcs, asked: ArcConstraints | None) -> ArcParse:
        rows = self._word_rows.of_sentence(given.words)
        read = None
        if self._encoder is not None:
            factors = None if asked is None else asked.tag_factors(len(self.model.tags))
            with one_blas_thread():
                read = self._encoder.read(given.words, factors)
        upos, xpos = self._tag(given, rows, read, asked)
        arcs = None
        if asked is not None and asked.has_arcs:
            arcs, is_allowed = self._constrained_arcs(rows, read, asked)
            arcs = np.ascontiguousarray(arcs[:, is_allowed])
        scored = self._score(rows, read, arcs, None if asked is None else asked.allowed)
        if self.model.latent is not None:
            scored = self._weigh_states(scored, replace(given, upos=upos, xpos=xpos))
        heads = scored.best()
        names = self.name_relations(heads, rows, read, None if asked is None else asked.relations)
        tree = replace(
            given, upos=upos, xpos=xpos, heads=tuple(heads[1:].tolist()), relations=names
        )
        return ArcParse(self, tree, rows, scored, read, asked)

    def parse_many(
        self, sentences: Iterable[Sentence | PartialArcs], *, jobs: Engine | int | None = 1
    ) -> Iterator[ArcParse]:
        """Parse a stream of sentences in order, on a number of threads or on an engine."""
        parses = stream_results(as_engine(jobs), _parse, sentences, self, shared_objects)
        return parses if self._encoder is None else with_one_blas_thread(parses)

    def _as_arcs(self, sentence: Sentence) -> Arcs:
        if isinstance(sentence, Arcs):
            return sentence
        words = tuple(as_items(sentence, "a list of words"))
        if not words:
            msg = "an empty sentence has no dependency tree"
            raise SapwoodValueError(msg, hint="give at least one word")
        return Arcs(words, (UNPARSED,) * len(words))

    def _tag(
        self,
        given: Arcs,
        rows: Words,
        read: ReadSentence | None,
        asked: ArcConstraints | None = None,
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Write tags into the rows; returns their names, universal tags first."""
        of_words, is_constrained = rows[2:-2], asked is not None and asked.tags is not None
        if self.use_tags and not is_constrained:
            self._word_rows.put_named_tags(of_words, given.upos, given.xpos)
            return given.upos, given.xpos
        model, tagger, logs = self.model, self._tagger, None
        types = model.lexicon.types(of_words[:, COLUMN["L"]])
        if asked is not None and asked.tags is not None:
            lexicon, logs = asked.tag_candidates(types, model.lexicon, len(model.tags))
            types, tagger = np.arange(len(types), dtype=np.int32), Tagger(lexicon, model.tagger)
        if read is None or model.encoder is None:
            tags = tagger.best(rows, types, logs)
        else:
            tags = self._mean_tag_posteriors(tagger, rows, types, read, logs).argmax(axis=1)
        upos, xpos = zip(*(model.tags[tag] for tag in tags.tolist()), strict=True)
        if asked is not None and asked.tags is not None:
            upos, xpos = asked.keep_names(upos, xpos)
            self._word_rows.put_named_tags(of_words, upos, xpos)
        else:
            self._word_rows.put_tags(of_words, tags)
        return upos, xpos

    def _mean_tag_posteriors(
        self,
        tagger: Tagger,
        rows: Words,
        types: Int32Array,
        read: ReadSentence | None,
        logs: FloatArray | None = None,
    ) -> FloatArray:
        """Posteriors of the tags of each word by a tagger and the network, [n, n_tags]."""
        posterior = tagger.posteriors(rows, types, len(self.model.tags), logs)
        if read is not None and self.model.encoder is not None:
            posterior *= 1 - self.model.encoder.weight
            posterior += self.model.encoder.weight * read.tags
        return posterior

    def _tag_posteriors(self, words: Sequence[str], read: ReadSentence | None) -> FloatArray:
        """Posteriors of the tags of each word, [n, n_tags]."""
        rows = self._word_rows.of_sentence(words)
        types = self.model.lexicon.types(rows[2:-2, COLUMN["L"]])
        return self._mean_tag_posteriors(self._tagger, rows, types, read)

    def _constrained_arcs(
        self, rows: Words, read: ReadSentence | None, asked: ArcConstraints
    ) -> tuple[Int32Array, npt.NDArray[np.bool_]]:
        """The arcs to keep, and whether the constraints allow each of them."""
        return keep_allowed(self._head_posteriors(rows, read), asked.allowed, asked.tree)

    def _head_posteriors(self, rows: Words, read: ReadSentence | None) -> npt.NDArray[Any]:
        """Posteriors of heads that decide which arcs are kept, [n + 1, n]."""
        return pruner_posteriors(rows, self.model.pruner) if read is None else read.heads.T

    def constraint_log_prob(
        self, asked: ArcConstraints, found: Arcs, rows: Words, read: ReadSentence | None
    ) -> float:
        """Log-probability of constraints; see `ArcParse.constraint_log_prob`."""
        total = 0.0
        if asked.has_arcs:
            total = float(np.log(self._arc_probability(asked, found, rows, read)))
        words = np.flatnonzero(asked.relations >= 0)
        if len(words):
            heads = np.append(np.int32(0), np.array(found.heads, np.int32))
            of_relations = self._relation_posteriors(heads, rows, read)
            with np.errstate(divide="ignore"):
                total += float(np.log(of_relations[words, asked.relations[words]]).sum())
        return min(total, 0.0)

    def _arc_probability(
        self, asked: ArcConstraints, found: Arcs, rows: Words, read: ReadSentence | None
    ) -> float:
        """The probability of the trees whose arcs are all allowed."""
        model, n = self.model, len(found)
        arcs, is_allowed = self._constrained_arcs(rows, read, asked)
        allowed = np.ascontiguousarray(arcs[:, is_allowed])
        p, weights = 0.0, sum(member.weight for member in model.members)
        for member in model.members:
            logs = []
            for some in (allowed, arcs):
                forest, scores, _ = score_forest(n, some, rows, member.order, member.table)
                logs.append(forest.posteriors(scores)[0])
            p += member.weight / weights * float(np.exp(logs[0] - logs[1]))
        if read is not None and model.encoder is not None:
            of_network = float(np.prod((read.heads * asked.asked.T).sum(axis=1), dtype=float))
            p = (1 - model.encoder.weight) * p + model.encoder.weight * of_network
        if model.latent is not None:
            everything = self._score(rows, read, arcs)
            prior = np.zeros((n + 1, n))
            prior[arcs[0], arcs[1] - 1] = everything.posterior**model.latent.trust
            log_all, sign, _ = self._latent_posteriors(prior, found)
            log_some, _, _ = self._latent_posteriors(prior * asked.allowed, found)
            if sign:
                of_latent = float(np.exp(log_some - log_all))
                p = (1 - model.latent.weight) * p + model.latent.weight * of_latent
        return p

    def _score(
        self,
        rows: Words,
        read: ReadSentence | None,
        arcs: Int32Array | None = None,
        allowed: npt.NDArray[np.bool_] | None = None,
    ) -> ScoredForest:
        """Mean posteriors of the members over given arcs, or over the arcs that the pruner keeps.

        A network's are normalised over the allowed heads of each word, [n + 1, n].
        """
        model = self.model
        if arcs is None:
            scored = score_likely(model.members, rows, self._head_posteriors(rows, read))
        else:
            scored = score_members(model.members, rows, arcs)
        if read is None or model.encoder is None:
            return scored
        heads = read.heads if allowed is None else read.allowed_heads(allowed)
        return scored.mix(heads[scored.modifier - 1, scored.head], model.encoder.weight)

    def _weigh_states(self, scored: ScoredForest, tagged: Arcs) -> ScoredForest:
        """Average the posteriors with those of the latent member, which takes them as its prior."""
        latent = self.model.latent
        assert latent is not None  # the caller has checked
        arcs = np.zeros((scored.n + 1, scored.n))
        arcs[scored.head, scored.modifier - 1] = scored.posterior**latent.trust
        _, sign, posterior = self._latent_posteriors(arcs, tagged)
        if not sign:  # no tree over these arcs has a weight
            return scored
        return scored.mix(posterior[scored.head, scored.modifier - 1], latent.weight)

    def _latent_posteriors(self, arcs: FloatArray, tagged: Arcs) -> tuple[float, int, FloatArray]:
        """`arc_posteriors` of the latent member for a tagged sentence."""
        latent = self.model.latent
        assert latent is not None  # the caller has checked
        n = len(tagged)
        bank = ArcBank.of([replace(tagged, heads=(UNPARSED,) * n, relations=(), rows=())])
        model, symbols = latent.model, latent.model.seen.of(bank).seen
        return arc_posteriors(model.arcs, symbols, arcs, model.seen.valence_rows)

    def name_relations(
        self,
        heads: Int32Array,
        rows: Words,
        read: ReadSentence | None = None,
        given: Int32Array | None = None,
    ) -> tuple[str, ...]:
        """The most probable relation of each arc of a tree: first that of UD, then its subtype.

        Numbers of relations that are `given`, -1 for none, are kept; `root` is then left to the
        word at the root, since given heads may move the root away from the likely word.
        """
        model = self.model
        posterior = self._relation_posteriors(heads, rows, read)
        if given is not None and ROOT_RELATION in model.relations and len(model.relations) > 1:
            posterior[heads[1:] > 0, model.relations.index(ROOT_RELATION)] = 0.0
        # first the relation up to its colon, whose probability is the sum over its subtypes
        best = (posterior @ self._universal).argmax(axis=1)
        posterior *= self._universal[:, best].T
        labels = posterior.argmax(axis=1)
        if given is not None:
            labels = np.where(given >= 0, given, labels)
        return tuple(model.relations[label] for label in labels.tolist())

    def _relation_posteriors(
        self, heads: Int32Array, rows: Words, read: ReadSentence | None
    ) -> npt.NDArray[np.float32]:
        """Posteriors of the relations of each arc of a tree, shape [n, n_relations]."""
        model = self.model
        posterior, _ = label_posteriors(heads, rows, model.labels, len(model.relations))
        if read is not None and model.encoder is not None:
            posterior *= 1 - model.encoder.weight
            posterior += model.encoder.weight * read.relations(heads[1:].astype(np.int64))
        return posterior


def _parse(sentence: Sentence | PartialArcs, parser: ArcParser) -> ArcParse:
    return parser.parse(sentence)


def shared_objects(parser: ArcParser) -> list[object]:
    """The parser and the weights of its networks, which all parses of a parser refer to."""
    encoder = parser.model.encoder
    networks = () if encoder is None else encoder.networks
    return [parser, *(network.weights for network in networks)]


def arc_posteriors(
    model: LatentArcs, seen: Any, arcs: FloatArray, valence: tuple[slice, slice] | None = None
) -> tuple[float, int, FloatArray]:
    """Log and sign of the weight of all projective trees, and the posterior of each arc.

    Parameters
    ----------
    model
        In the basis of its states; numbers may be negative.
    seen : [n, n_columns]
        Symbols of the words of a sentence, -1 for none.
    arcs : [n + 1, n]
        Weight of each arc, by its head (0 is the root, then the words) and its word.
    valence
        Symbols that count left and right children, of the form that EM gives them; None where
        numbers of children do not count.

    Returns
    -------
    log, sign, and [n + 1, n]
        Posteriors of the heads of a word sum to 1; all are 0 where no tree has a weight.

    Cost: O(arcs n k^2).
    """
    from sapwood.dependency.kernels.latent_eisner import arc_sums

    if model.product is not None:
        msg = "sums over all trees need a model in the basis of its states"
        raise SapwoodError(msg, hint="learn with EMDependency, start='spectral'")
    emission, log = _emissions(model, np.asarray(seen))
    # the largest weight of a word's arcs is made 1, so that long sentences do not underflow
    top = arcs.max(axis=0)
    if (top <= 0).any():
        return -np.inf, 0, np.zeros_like(arcs)
    scaled = arcs / top
    arc_of, weight, heads, words = _number_arcs(scaled)
    through_root, through = np.zeros(len(emission)), np.zeros(len(weight))
    total = arc_sums(
        emission, np.ascontiguousarray(scaled[0]), arc_of, weight, model.root, model.steps,
        *_valences(model, valence), through_root, through,
    )  # fmt: skip
    posterior = np.zeros_like(arcs)
    posterior[0] = through_root
    posterior[heads + 1, words] = through
    if total == 0.0:
        return -np.inf, 0, posterior
    return float(np.log(abs(total)) + log + np.log(top).sum()), int(np.sign(total)), posterior


def _number_arcs(
    arcs: FloatArray,
) -> tuple[npt.NDArray[Any], FloatArray, npt.NDArray[Any], npt.NDArray[Any]]:
    """Numbers of the arcs between words that have a weight, as [n, n]; weights, heads, words."""
    between = arcs[1:] * ~np.eye(arcs.shape[1], dtype=bool)
    heads, words = np.nonzero(between)
    arc_of = np.full(between.shape, -1)
    arc_of[heads, words] = np.arange(len(heads))
    return arc_of, between[heads, words], heads, words


def _valences(
    model: LatentArcs, valence: tuple[slice, slice] | None
) -> tuple[FloatArray, FloatArray]:
    """Weights of a further child and of stopping, for first and later children, [2, 2, k]."""
    shape = (2, 2, model.n_states)
    if valence is None:
        return np.ones(shape), np.ones(shape)
    stop = np.empty(shape)
    for side, rows in enumerate(valence):
        p = model.symbols[rows]
        some = 1 - p[0]
        stop[side] = p[0], np.where(some > 0, p[1] / np.where(some > 0, some, 1.0), 1.0)
    return 1 - stop, stop


def _emissions(model: LatentArcs, seen: npt.NDArray[Any]) -> tuple[FloatArray, float]:
    """Weight of each word's symbols by state, scaled to maximum 1, and the log of the scales."""
    padded = np.vstack([model.symbols, np.ones(model.n_states)])  # the last row, -1: no symbol
    emission = np.ones((len(seen), model.n_states))
    for column in seen.T:
        emission = emission * padded[column]
    top = np.abs(emission).max(axis=1)
    if (top == 0).any():
        return np.zeros_like(emission), 0.0
    return np.ascontiguousarray(emission / top[:, None]), float(np.log(top).sum())
