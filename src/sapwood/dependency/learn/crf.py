"""`ArcCRF`: a log-linear model of dependency trees given their sentences.

1. A tagger, a chain of the same kind, is learnt; the tags that the parser learns from are those of
   taggers that have not seen the sentence (jackknifing), as they will be for new sentences.
2. A pruner, heads of words one by one, leaves each word a few heads; the right one is always kept.
3. AdaGrad follows the gradient of log p(right tree | sentence, arcs), sentence by sentence, and the
   weights are averaged over the last half of the passes.
4. Relations are learnt for the arcs of the right trees.

Trees that are not projective are lifted first: the parser knows none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError
from sapwood.core.info import Info, PhaseClock
from sapwood.core.learner import (
    ANYTHING,
    Domain,
    Estimator,
    between,
    maybe,
    parameter,
    positional,
    whole,
)  # fmt: skip
from sapwood.core.log_linear import Table, learn
from sapwood.core.signals import undisturbed
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.word_properties import COLUMN, Words, hash_of
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.data.projective import LIFTED, lift
from sapwood.dependency.learn.encoder import learn_encoder
from sapwood.dependency.learn.memory import require_parser_memory
from sapwood.dependency.learn.word_clusters import cluster_words
from sapwood.dependency.model.arc_model import ArcMember, ArcModel, EncoderMember
from sapwood.dependency.model.kernels.arc_layout import Templates
from sapwood.dependency.model.tables import FeatureTable, TagLexicon, WordClusters
from sapwood.dependency.parse import arc_templates
from sapwood.dependency.parse.features import sentence_rows
from sapwood.dependency.parse.forests import ArcForest, IntArray, PartFeatures
from sapwood.dependency.parse.steps import (
    TagForest,
    all_arcs,
    best_tags,
    head_posteriors,
    label_features,
    label_posteriors,
    likely_arcs,
    tag_forest,
)  # fmt: skip
from sapwood.dependency.parse.words import WordRows
from sapwood.execute import Engine
from sapwood.networks.network import Network
from sapwood.networks.training import NetworkPlan
from sapwood.progress import counted

FAMILIAR = 2  # words seen so often are features themselves
SETTLED = 10  # words seen so often have no tags but those seen with them
RARE = 3  # words seen at most so often show which tags unknown words have
OPEN = 64  # tags that unknown words may have, at most: time grows with the square of it
BLOCK = 25  # sentences that stand together are held out together: texts are of one kind
# weights a word of the treebank, and the most, as a power of two
TAGGER_ROOM, PRUNER_ROOM, LABEL_ROOM, MEMBER_ROOM = (64, 24), (4, 22), (64, 24), (64, 24)
OnPass = Callable[[str, int, float], None]


def table_bits(n_tokens: int, room: tuple[int, int]) -> int:
    """How large a table is made.

    >>> table_bits(200_000, (16, 24)), table_bits(10, (16, 24)), table_bits(10**8, (16, 24))
    (22, 12, 24)
    """
    a_word, most = room
    return min(most, max(12, (n_tokens * a_word).bit_length()))


class ArcEstimator(Estimator):
    """An estimator of dependency parsers: learns from arcs, and parses with what it has learnt."""

    folds: int = parameter(
        5, whole(2, 100), "Taggers that each leave out a share of the sentences and tag it."
    )
    seed: int = parameter(0, whole(0), "Of the order of sentences.")
    embeddings: Eigenwords | None = parameter(
        None,
        maybe(Domain("Eigenwords", lambda value: isinstance(value, Eigenwords))),
        "Vectors of words, as of much plain text; words in the same places share features.",
    )
    on_pass: OnPass | None = parameter(
        None, ANYTHING, "Called with (what, pass, log-likelihood) after passes over all sentences.",
        changes_model=False,
    )  # fmt: skip


class ArcCRF(ArcEstimator):
    """A dependency parser: features of arcs, siblings and heads of heads, scored as a CRF.

    Attributes
    ----------
    model_ : ArcModel
    info_ : Info
    """

    order: int = positional(
        default=2,
        domain=whole(1, 2),
        words="1 scores single arcs; 2 also siblings, and heads with their own heads.",
        kw_only=False,
    )
    passes: int = parameter(5, whole(1), "Over the training sentences.")
    rate: float = parameter(0.02, between(0, 1, "(]"), "Of AdaGrad.")

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        self._check_parameters()
        clock = PhaseClock()
        lesson = Lesson.prepare(
            as_arc_bank(bank), self._engine(), self.folds, self.seed, self.embeddings
        )
        clock.tick("tags and arcs")
        self.info_ = Info()
        plan = MemberPlan(self.order, usual_templates(self.order), self.passes, self.rate)
        member = lesson.member(plan, self.seed, self._note)
        clock.tick("passes")
        labels = lesson.labels(self.seed)
        clock.tick("relations")
        self.info_.seconds = clock.seconds
        record = lesson.record(
            ("first", "second")[self.order - 1], iterations=self.passes, seed=self.seed,
            log_likelihood=self.info_.log_likelihoods[-1],
        )  # fmt: skip
        self.model_ = lesson.model((member,), labels, record)
        return self

    def _note(self, done: int, likelihood: float) -> None:
        self.info_.history.append({"log_likelihood": likelihood})
        if self.on_pass is not None:
            self.on_pass("order " + str(self.order), done, likelihood)


def usual_templates(order: int) -> Templates:
    """The templates of a member of an order."""
    return arc_templates.FIRST if order == 1 else arc_templates.SECOND


@dataclass(frozen=True)
class MemberPlan:
    """How to train a scorer of trees."""

    order: int
    templates: Templates
    passes: int
    rate: float


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training sentences with jackknifed tags, and the parts of a parser that all members share.

    Attributes
    ----------
    heads : [n_tokens]
        Of projective trees.
    tag : [n_tokens]
        Numbers among `tags`, by taggers that have not seen the sentence.
    rows
        Properties of words, with tags; see `sentence_rows`.
    arcs
        Of each sentence, those that the pruner leaves and the right ones.
    """

    bank: ArcBank
    heads: IntArray
    tags: tuple[tuple[str, str], ...]
    tag: npt.NDArray[np.int64]
    familiar: npt.NDArray[np.uint32]
    clusters: WordClusters | None
    lexicon: TagLexicon
    tagger: FeatureTable
    rows: Words
    pruner: FeatureTable
    arcs: list[IntArray]

    @classmethod
    def prepare(
        cls,
        bank: ArcBank,
        engine: Engine,
        folds: int,
        seed: int,
        embeddings: Eigenwords | None = None,
    ) -> Lesson:
        """Learn tags and which arcs are worth scoring."""
        _check(bank)
        require_parser_memory(bank, engine, 1 << table_bits(bank.n_tokens, MEMBER_ROOM))
        clusters = None if embeddings is None else cluster_words(embeddings)
        course = _TagCourse(bank, clusters)
        of_words = course.word_rows.of_forms(bank.words)[bank.word]
        lexicon, tagger = course.learn_all(of_words, seed)
        jackknifed = course.jackknife(of_words, engine, folds, seed)
        course.word_rows.put_tags(of_words, jackknifed)
        bare = cls(
            bank, lift(bank).head, course.tags, jackknifed, course.word_rows.familiar, clusters,
            lexicon, tagger, sentence_rows(of_words, bank.offsets), tagger, [],
        )  # fmt: skip
        return bare._with_arcs(seed)

    def part(self, is_in: npt.NDArray[np.bool_], seed: int) -> Lesson:
        """Some of the sentences, with the tags that they have here; others teach no arcs."""
        bank, of_token = self.bank.select(is_in), np.repeat(is_in, np.diff(self.bank.offsets))
        word_rows = WordRows(familiar_words(bank), self.tags, self.clusters)
        of_words = word_rows.of_forms(bank.words)[bank.word]
        word_rows.put_tags(of_words, self.tag[of_token])
        bare = replace(
            self, bank=bank, heads=self.heads[of_token], tag=self.tag[of_token],
            familiar=word_rows.familiar, rows=sentence_rows(of_words, bank.offsets),
        )  # fmt: skip
        return bare._with_arcs(seed)

    def _with_arcs(self, seed: int) -> Lesson:
        pruner = self._learn_pruner(seed)
        arcs = [
            undisturbed(likely_arcs, self.sentence(s), pruner, right=self.right(s))
            for s in counted(range(len(self.bank)), "likely arcs", unit="sentence")
        ]
        return replace(self, pruner=pruner, arcs=arcs)

    @property
    def tagged(self) -> ArcBank:
        """The sentences with the tags that are learnt from."""
        columns = [sorted({pair[k] for pair in self.tags}) for k in range(2)]
        numbers = [np.array([names.index(pair[k]) for pair in self.tags], np.int32)[self.tag]
                   for k, names in enumerate(columns)]  # fmt: skip
        return replace(
            self.bank, upos_names=tuple(columns[0]), upos=numbers[0],
            xpos_names=tuple(columns[1]), xpos=numbers[1], texts=(),
        )  # fmt: skip

    def _bits(self, room: tuple[int, int]) -> int:
        return table_bits(self.bank.n_tokens, room)

    def sentence(self, s: int) -> Words:
        """The rows of a sentence."""
        return self.rows[self.bank.offsets[s] + 4 * s : self.bank.offsets[s + 1] + 4 * (s + 1)]

    def right(self, s: int) -> IntArray:
        """The heads of a sentence, behind that of the root."""
        heads = self.heads[self.bank.offsets[s] : self.bank.offsets[s + 1]]
        return np.concatenate([np.zeros(1, np.int32), heads])

    def _learn_pruner(self, seed: int) -> FeatureTable:
        """Heads of words one by one."""
        templates = arc_templates.PRUNER
        table = Table.of_size(1 << self._bits(PRUNER_ROOM), name="likely arcs")
        frame = FeatureTable(templates, table.weights)

        def step(s: int, rate: float) -> float:
            rows, heads = self.sentence(s), self.right(s)[1:]
            n = len(heads)
            parts = all_arcs(n)
            features = PartFeatures.of(parts, rows, frame)
            share = head_posteriors(n, features.scores(table.weights))
            right = share[heads, np.arange(n)]
            share[heads, np.arange(n)] -= 1.0
            features.adagrad_step(-share[parts[:, 1], parts[:, 2] - 1], table, rate)
            return float(np.log(np.maximum(right, 1e-300)).sum())

        rng = np.random.default_rng([seed, 1])
        return FeatureTable.of(templates, learn(table, len(self.bank), step, 2, 0.02, rng))

    def member(
        self, plan: MemberPlan, seed: int, on_pass: Callable[[int, float], None] | None = None
    ) -> ArcMember:
        """A scorer of trees."""
        templates = self._templates(plan.templates)
        table = Table.of_size(1 << self._bits(MEMBER_ROOM), name="parser")
        frame = FeatureTable(templates, table.weights)

        def step(s: int, rate: float) -> float:
            forest = ArcForest(len(self.right(s)) - 1, self.arcs[s][0], self.arcs[s][1], plan.order)
            features = PartFeatures.of(forest.parts, self.sentence(s), frame)
            scores, right = features.scores(table.weights), forest.right(self.right(s))
            total, expected = forest.posteriors(scores)
            features.adagrad_step(right - expected, table, rate)
            return float(scores @ right - total)

        rng = np.random.default_rng([seed, 2])
        weights = learn(table, len(self.bank), step, plan.passes, plan.rate, rng, on_pass)
        return ArcMember(plan.order, 1.0, FeatureTable.of(templates, weights))

    def _templates(self, templates: Templates) -> Templates:
        return templates if self.clusters is None else arc_templates.with_clusters(templates)

    @cached_property
    def _relations(self) -> tuple[tuple[str, ...], IntArray]:
        """Names of relations, and the number of each word's."""
        names = sorted({name.split(LIFTED)[0] for name in self.bank.relations})
        number = {name: place for place, name in enumerate(names)}
        of = np.array([number[name.split(LIFTED)[0]] for name in self.bank.relations], np.int32)
        return tuple(names), of[self.bank.relation]

    def labels(self, seed: int, passes: int = 4, rate: float = 0.1) -> FeatureTable:
        """The relations of the arcs of right trees."""
        names, relation = self._relations
        templates = self._templates(arc_templates.LABELS)
        table = Table.of_size((1 << self._bits(LABEL_ROOM)) + len(names), name="relations")
        frame = FeatureTable(templates, table.weights, len(names))

        def step(s: int, rate: float) -> float:
            from sapwood.core.kernels.adagrad import adagrad_labels

            right = relation[self.bank.offsets[s] : self.bank.offsets[s + 1]]
            features = label_features(self.right(s), self.sentence(s), frame)
            share = label_posteriors(features, table.weights, len(names))
            word = np.arange(len(right))
            likelihood = np.log(np.maximum(share[word, right], 1e-30)).sum()
            share[word, right] -= 1.0
            adagrad_labels(features, -share, table.weights, table.squares, rate)
            return float(likelihood)

        rng = np.random.default_rng([seed, 3])
        weights = learn(table, len(self.bank), step, passes, rate, rng)
        return FeatureTable.of(templates, weights, len(names))

    def record(self, method: str, **more: float) -> dict[str, object]:
        """How a model was made."""
        return {
            "method": method, "sentences": len(self.bank), "tokens": self.bank.n_tokens, **more,
        }  # fmt: skip

    def encoder(
        self, plan: NetworkPlan, jobs: int, on_pass: Callable[[int, float], None] | None = None
    ) -> Network:
        """A network that reads sentences."""
        pairs = zip(self.bank.upos.tolist(), self.bank.xpos.tolist(), strict=True)
        names, number = self.bank, {pair: k for k, pair in enumerate(self.tags)}
        tag = [number[names.upos_names[u], names.xpos_names[x]] for u, x in pairs]
        relations, relation = self._relations
        return learn_encoder(
            self.bank,
            (len(self.tags), np.array(tag)),
            (len(relations), relation.astype(np.int64)),
            plan, jobs, on_pass,
        )  # fmt: skip

    def model(
        self,
        members: tuple[ArcMember, ...],
        labels: FeatureTable,
        record: dict[str, object],
        encoder: EncoderMember | None = None,
    ) -> ArcModel:
        """Everything that was learnt."""
        return ArcModel(
            tags=self.tags, relations=self._relations[0], familiar=self.familiar,
            lexicon=self.lexicon, tagger=self.tagger, pruner=self.pruner, labels=labels,
            members=members, clusters=self.clusters, encoder=encoder, record=record,
        )  # fmt: skip


def _check(bank: ArcBank) -> None:
    if not len(bank):
        msg = "no sentence to learn from"
        raise CorpusError(msg, hint="give CoNLL-U with at least one sentence")
    if (bank.head < 0).any():
        msg = "sentences without heads: there is nothing to learn from"
        raise CorpusError(msg, hint="column 7 of CoNLL-U holds the heads of training sentences")


def familiar_words(bank: ArcBank) -> npt.NDArray[np.uint32]:
    """Numbers of the lower-case words that are features themselves, sorted."""
    seen: Counter[str] = Counter()
    for word, n in enumerate(np.bincount(bank.word, minlength=len(bank.words)).tolist()):
        seen[bank.words[word].lower()] += n
    return np.array(sorted({hash_of(w) for w, n in seen.items() if n >= FAMILIAR}), np.uint32)


class _TagCourse:
    """Learns tags of a bank's words."""

    def __init__(self, bank: ArcBank, clusters: WordClusters | None) -> None:
        self.bank = bank
        pairs, self.tag = np.unique(np.stack([bank.upos, bank.xpos]), axis=1, return_inverse=True)
        self.tag = self.tag.ravel()
        names = [(bank.upos_names[u], bank.xpos_names[x]) for u, x in pairs.T.tolist()]
        self.tags: tuple[tuple[str, str], ...] = tuple(names)
        self.lower = [word.lower() for word in bank.words]
        self.word_rows = WordRows(familiar_words(bank), self.tags, clusters)
        self.templates = arc_templates.TAGGER
        if clusters is not None:
            self.templates = arc_templates.with_clusters(self.templates)

    def _tokens(self, sentences: npt.NDArray[np.int64]) -> list[int]:
        starts = self.bank.offsets
        return [row for s in sentences.tolist() for row in range(starts[s], starts[s + 1])]

    def _lexicon(self, sentences: npt.NDArray[np.int64]) -> TagLexicon:
        tags: dict[str, Counter[int]] = {}
        for row in self._tokens(sentences):
            word = self.lower[self.bank.word[row]]
            tags.setdefault(word, Counter())[int(self.tag[row])] += 1
        of_rare = Counter(t for found in tags.values() if found.total() <= RARE for t in found)
        common = [t for t, n in of_rare.most_common(OPEN) if n > 1]
        open_tags = set(common) or set(of_rare) or set(self.tag)
        allowed = {
            hash_of(word): sorted(found if found.total() >= SETTLED else open_tags | set(found))
            for word, found in tags.items()
        }
        return TagLexicon.of(allowed, sorted(open_tags))

    def learn_all(self, of_words: Words, seed: int) -> tuple[TagLexicon, FeatureTable]:
        """The tagger of all sentences."""
        return self._learn(np.arange(len(self.bank)), of_words, seed)

    def _learn(
        self, sentences: npt.NDArray[np.int64], of_words: Words, seed: int
    ) -> tuple[TagLexicon, FeatureTable]:
        lexicon = self._lexicon(sentences)
        table = Table.of_size(1 << table_bits(self.bank.n_tokens, TAGGER_ROOM), name="tagger")
        frame = FeatureTable(self.templates, table.weights)
        types = lexicon.types(of_words[:, COLUMN["L"]])
        rows, starts = sentence_rows(of_words, self.bank.offsets), self.bank.offsets
        sizes = np.diff(lexicon.starts)

        def step(place: int, rate: float) -> float:
            s = sentences[place]
            here = slice(int(starts[s]), int(starts[s + 1]))
            forest = tag_forest(
                rows[here.start + 4 * s : here.stop + 4 * (s + 1)], types[here], lexicon, frame
            )
            right = self._right_parts(forest, self.tag[here], sizes[types[here]])
            return _tag_step(forest, right, table, rate)

        rng = np.random.default_rng([seed, 0])
        weights = learn(table, len(sentences), step, 4, 0.1, rng)
        return lexicon, FeatureTable.of(self.templates, weights)

    @staticmethod
    def _right_parts(
        forest: TagForest, tags: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int64]:
        """The nodes of the right tags, then their pairs."""
        word = np.repeat(np.arange(len(tags)), sizes)
        node = np.flatnonzero(forest.tag[:-1] == tags[word])
        first = np.cumsum(sizes) - sizes
        before = np.concatenate([[0], (node - first)[:-1]])
        return np.concatenate([node, len(forest.tag) - 1 + forest.starts[node] + before])

    def jackknife(
        self, of_words: Words, engine: Engine, folds: int, seed: int
    ) -> npt.NDArray[np.int64]:
        """The tag of each word, by a tagger that has not seen its sentence."""
        fold = np.arange(len(self.bank)) // BLOCK % folds
        if len(self.bank) < BLOCK * folds:
            fold = np.arange(len(self.bank)) % folds
        found = engine.stream(partial(_tag_fold, self, of_words, fold, seed), range(folds), ahead=1)
        out = self.tag.copy()
        for rows, tags in counted(found, "taggers of folds", total=folds, unit="fold"):
            out[rows] = tags
        return out


def _tag_step(forest: TagForest, right: npt.NDArray[np.int64], table: Table, rate: float) -> float:
    from sapwood.dependency.parse.kernels.arc_forest import posteriors

    scores = forest.features.scores(table.weights)
    total, expected = posteriors(forest.starts, forest.edges, scores)
    residue = -expected
    residue[right] += 1.0
    forest.features.adagrad_step(residue, table, rate)
    return float(scores[right].sum() - total)


def _tag_fold(
    course: _TagCourse, of_words: Words, fold: npt.NDArray[np.int64], seed: int, k: int
) -> tuple[list[int], list[int]]:
    """Tag the sentences of one fold with what the others teach."""
    others, own = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
    if not len(others) or not len(own):
        return [], []
    lexicon, tagger = course._learn(others, of_words, seed)
    types = lexicon.types(of_words[:, COLUMN["L"]])
    rows, starts = sentence_rows(of_words, course.bank.offsets), course.bank.offsets
    tags: list[int] = []
    for s in own.tolist():
        here = slice(int(starts[s]), int(starts[s + 1]))
        forest = tag_forest(
            rows[here.start + 4 * s : here.stop + 4 * (s + 1)], types[here], lexicon, tagger
        )
        tags += undisturbed(best_tags, forest, tagger.weights).tolist()
    return course._tokens(own), tags
