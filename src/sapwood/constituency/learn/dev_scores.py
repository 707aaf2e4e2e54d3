"""Scores on dev trees, for a model, the iterations of EM, and mixes of an ensemble's members.

Expected F1 depends only on the bracket posteriors of the members. `MixScorer` therefore runs
each member over the dev sentences once, and decodes any mix of members from these posteriors.

Notation
--------
    P[k, c]    posterior of bracket c of a sentence under member k

Mixes of grammars are decoded in the chart of the first grammar. Mixes with a network are decoded
over all trees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import restore_words
from sapwood.constituency.evaluate.bracketing import SentenceScore, add_up, bracketing
from sapwood.constituency.grammar.ensemble import shares_chart
from sapwood.constituency.parse.charts import ForestPosteriors, posteriors, pruned_forests
from sapwood.constituency.parse.decoders import (
    Gains,
    Nodes,
    bracket_gains,
    forest_tree,
    unconstrained_tree,
)
from sapwood.constituency.parse.parser import BEAM, THRESHOLD, Parser
from sapwood.constituency.parse.posteriors import (
    NO_BRACKETS,
    BracketPosteriors,
    ItemLabels,
    LabelTable,
    average_brackets,
    item_labels,
    label_table,
    sharpen,
    split_codes,
    sum_by_bracket,
    unary_chains,
)
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted
from sapwood.corpora.tree import Tree, clean
from sapwood.execute import ordered_map
from sapwood.networks.network import with_one_blas_thread

if TYPE_CHECKING:
    from sapwood.constituency.evaluate.bracketing import BracketingReport
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import Member
    from sapwood.execute import Engine

WEIGHT_STEPS, WEIGHT_RATE = 300, 5.0  # gradient steps on weights: converged to the third digit
LEAST_PROBABILITY = 1e-4  # probabilities are clipped to this distance from 0 and 1 in the loss


def clean_dev_trees(gold: Sequence[Tree]) -> list[Tree]:
    """Clean dev trees as a treebank would; raise an error when none remains."""
    trees = [tree for tree in map(clean, gold) if tree is not None]
    if not trees:
        msg = "no dev tree is left after cleaning"
        raise SapwoodError(msg, hint="give trees with words, in Penn brackets")
    return trees


def pruned_charts(
    member: Member, trees: Sequence[Tree], jobs: int
) -> list[ForestPosteriors | None]:
    """Return the pruned charts of the trees' sentences; None for one word, and without a parse."""
    prepared = prepare(member)

    def chart(tree: Tree) -> ForestPosteriors | None:
        words = tree.words()
        if len(words) == 1:
            return None
        return next(pruned_forests(prepared, words, THRESHOLD, BEAM), None)

    charts = ordered_map(chart, trees, jobs=jobs)
    return list(counted(charts, "dev charts", total=len(trees), unit="sentence"))


class DevSet:
    """Dev trees with the charts of their sentences, which score the iterations of EM.

    Parameters
    ----------
    gold
        Trees that are not in the training data.
    plain
        The plain grammar; scored grammars must share its symbols, rules and lexicon rows.
    jobs
        Threads; 0 means all cores.
    """

    def __init__(self, gold: Sequence[Tree], plain: LatentGrammar, jobs: int = 1) -> None:
        self.gold = clean_dev_trees(gold)
        self.jobs = jobs
        self.charts = pruned_charts(plain, self.gold, jobs)

    def parse(self, model: LatentGrammar) -> list[Tree]:
        """Parse the dev sentences with a model."""
        parser = Parser(model)

        def tree(pair: tuple[Tree, ForestPosteriors | None]) -> Tree:
            gold, chart = pair
            if chart is None:
                return parser.parse(gold.words()).tree
            return parser.parse_pruned([chart]).tree

        pairs = zip(self.gold, self.charts, strict=True)
        trees = ordered_map(tree, pairs, jobs=self.jobs)
        return list(counted(trees, "dev trees", total=len(self.gold), unit="sentence"))

    def f1(self, model: LatentGrammar) -> float:
        """EVALB's F1 of a model, in percent."""
        return bracketing(self.gold, self.parse(model)).f1


@dataclass(frozen=True, eq=False)
class DevScores:
    """Scores of a model on dev trees, equal to those of `sapwood parse` and `sapwood evaluate`."""

    report: BracketingReport  # scores as computed by EVALB
    fallbacks: int  # sentences without a parse
    # of parsing: wall time, and CPU time of all threads together
    seconds: float
    cpu_seconds: float

    @property
    def f1(self) -> float:
        """EVALB's F1, in percent."""
        return self.report.f1

    @property
    def n_trees(self) -> int:
        """Number of trees that were parsed."""
        return self.report.all.sentences


def score_on_dev(model: Model, gold: Sequence[Tree], jobs: Engine | int = 1) -> DevScores:
    """Parse the sentences of gold trees, and return the scores of the parses."""
    parser = Parser(model)
    wall, cpu = perf_counter(), process_time()
    found = parser.parse_many((tree.words() for tree in gold), jobs=jobs)
    found = counted(found, "parsing dev trees", total=len(gold), unit="sentence")
    predicted = [parse.tree for parse in found]
    wall, cpu = perf_counter() - wall, process_time() - cpu
    return DevScores(bracketing(gold, predicted), parser.stats.fallbacks, wall, cpu)


@dataclass(eq=False)
class _Sentence:
    """A dev sentence in the chart of the first member.

    Attributes
    ----------
    chart
        None for a sentence of one word, or without a parse.
    rows
        The labels of the chart's items.
    brackets
        P[k] of each member.
    scores
        EVALB scores of every tree that a mix has predicted for the sentence. Most mixes predict the
        same tree, so that few trees are scored.
    """

    gold: Tree
    words: list[str]
    chart: ForestPosteriors | None
    rows: ItemLabels | None
    brackets: list[BracketPosteriors] = field(default_factory=list)
    scores: dict[Hashable, SentenceScore] = field(default_factory=dict)

    def mix(self, weights: FloatArray, sharpness: float) -> BracketPosteriors:
        """Return the bracket posteriors of a mix; members without a parse are left out."""
        voting = [k for k, one in enumerate(self.brackets) if weights[k] > 0 and len(one.code)]
        if not voting:
            return NO_BRACKETS
        parts = weights[voting] / weights[voting].sum()
        joint = average_brackets([self.brackets[k] for k in voting], parts.tolist())
        return joint._replace(p=sharpen(joint.p, sharpness))


class _Charts(NamedTuple):
    """The charts that a group of members has in common, and the seconds it took to compute them."""

    owner: LatentGrammar
    charts: list[ForestPosteriors | None]
    seconds: float


class MixScorer:
    """The bracket posteriors of every member on the dev trees, from which any mix can be scored.

    Parameters
    ----------
    gold
        Trees that are not in the training data.
    first
        The member whose symbols and charts the output trees use. It has to be added like any other.
    jobs
        Threads; 0 means all cores.
    """

    def __init__(self, gold: Sequence[Tree], first: Member, jobs: int = 1) -> None:
        self.gold = clean_dev_trees(gold)
        self.jobs = jobs
        self.first = first
        self.numbers: dict[str, int] = {}
        self.n_members = 0
        self._is_network: list[bool] = []
        self._grammars: list[LatentGrammar] = []
        self.f1_seconds = 0.0  # seconds of scoring the slowest mix so far
        self._groups: list[_Charts] = []
        self._member_seconds: list[tuple[int, float]] = []  # group and seconds of each member
        table = self._table(first)

        def sentence(tree: Tree, chart: ForestPosteriors | None) -> _Sentence:
            words = tree.words()
            rows = item_labels(chart.pruned.forest, len(words), table) if chart else None
            return _Sentence(tree, words, chart, rows)

        charts = self._groups[self._group_of(first)].charts
        self.sentences = [sentence(tree, c) for tree, c in zip(self.gold, charts, strict=True)]

    def _table(self, member: Member) -> LabelTable:
        grammar = member.chart_grammar
        for symbol in grammar.symbols:
            for name in symbol.chain:
                self.numbers.setdefault(name, len(self.numbers))
        return label_table(grammar.symbols, grammar.n_phrases, self.numbers)

    def _group_of(self, member: Member) -> int:
        """Return the index of the group of members that have the same plain grammar."""
        grammar = member.chart_grammar
        for place, group in enumerate(self._groups):
            if shares_chart(group.owner, grammar):
                return place
        began = process_time()
        charts = pruned_charts(grammar, self.gold, self.jobs)
        self._groups.append(_Charts(grammar, charts, process_time() - began))
        return len(self._groups) - 1

    def seconds_of(self, members: Sequence[int]) -> float:
        """Seconds spent on the members' charts and posteriors; parsing takes no longer."""
        asked = [self._member_seconds[k] for k in members]
        charts = sum(self._groups[k].seconds for k in {place for place, _ in asked if place >= 0})
        return charts + sum(seconds for _, seconds in asked)

    def seconds_of_one_more(self, *, has_charts: bool) -> float:
        """Expected seconds to add one more member; fewer if its group has charts already."""
        posteriors = float(np.mean([seconds for _, seconds in self._member_seconds]))
        charts = float(np.mean([group.seconds for group in self._groups]))
        return posteriors if has_charts else posteriors + charts

    def add(self, member: Member) -> None:
        """Add a member: compute its posteriors of all brackets of the dev sentences."""
        table, place = self._table(member), -1
        if member.has_rules:
            place = self._group_of(member)
            posteriors_of = self._chart_reader(member, place, table)
        else:
            reader = member.reader(self.numbers)
            posteriors_of = lambda k: BracketPosteriors(*reader.read(self.sentences[k].words))  # noqa: E731
        began = process_time()
        found = ordered_map(posteriors_of, range(len(self.sentences)), jobs=self.jobs)
        found = counted(
            with_one_blas_thread(found), "dev trees", total=len(self.gold), unit="sentence"
        )
        for sentence, brackets in zip(self.sentences, found, strict=True):
            sentence.brackets.append(brackets)
        self._member_seconds.append((place, process_time() - began))
        self._is_network.append(place < 0)
        self._grammars.append(member.chart_grammar)
        self.n_members += 1

    def _chart_reader(
        self, member: Member, place: int, table: LabelTable
    ) -> Callable[[int], BracketPosteriors]:
        charts, prepared = self._groups[place].charts, prepare(member)

        def look(k: int) -> BracketPosteriors:
            chart = charts[k]
            parsed = posteriors(prepared, chart) if chart is not None else None
            if parsed is None or chart is None:
                return NO_BRACKETS
            rows = item_labels(chart.pruned.forest, len(chart.pruned.words), table)
            return sum_by_bracket(rows, np.clip(parsed.items, 0.0, 1.0))

        return look

    def f1_of(
        self,
        members: Sequence[int],
        weights: FloatArray | None = None,
        sharpness: float = 1.0,
    ) -> float:
        """F1 of a mix of some members, with equal weights unless weights are given."""
        everyone = np.zeros(self.n_members)
        everyone[list(members)] = 1.0 if weights is None else weights
        return self.f1(everyone, sharpness)

    def likely_weights(self, members: Sequence[int]) -> FloatArray:
        """Return the ensemble weights that minimise the log-loss of the dev brackets.

        The log-loss of all brackets of all dev sentences is a convex function of the weights. It is
        minimised by exponentiated gradient steps.
        """
        everything, is_right = self._all_brackets()
        posterior = everything[list(members)]
        w = np.full(len(posterior), 1.0 / len(posterior))
        for _ in range(WEIGHT_STEPS if len(is_right) else 0):
            p = np.clip(w @ posterior, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
            slope = np.where(is_right, -1.0 / p, 1.0 / (1.0 - p))
            gradient = posterior @ slope / len(p)
            w = w * np.exp(-WEIGHT_RATE * (gradient - w @ gradient))
            w /= w.sum()
        return w

    def likely_sharpness(self, members: Sequence[int], weights: FloatArray) -> float:
        """Return the sharpness that minimises the log-loss of the dev brackets; see `Ensemble`."""
        from scipy.optimize import minimize_scalar

        everything, is_right = self._all_brackets()
        if not len(is_right):
            return 1.0
        mean = weights @ everything[list(members)]

        def loss(sharpness: float) -> float:
            p = np.clip(sharpen(mean, sharpness), LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
            return float(-np.log(np.where(is_right, p, 1.0 - p)).mean())

        return float(minimize_scalar(loss, bounds=(0.5, 3.0), method="bounded").x)

    def _all_brackets(self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """P of all brackets, [n_members, n_brackets], and whether each one is in the gold trees."""
        columns, right = [np.empty((self.n_members, 0))], [np.empty(0, np.bool_)]
        for sentence, tree in zip(self.sentences, self.gold, strict=True):
            if sentence.rows is None:
                continue
            code = np.unique(np.concatenate([part.code for part in sentence.brackets]))
            code = code[~split_codes(code, len(sentence.words))[3]]
            columns.append(np.array([part.of(code) for part in sentence.brackets]))
            right.append(np.isin(code, self._gold_codes(tree, len(sentence.words))))
        return np.concatenate(columns, axis=1), np.concatenate(right)

    def _gold_codes(self, tree: Tree, n: int) -> list[int]:
        nodes = zip(tree.nodes(), tree.spans(), strict=True)
        spans = (span for node, span in nodes if not node.is_preterminal)
        known = ((self.numbers.get(x), i, j) for x, i, j in spans)
        return [(2 * x * (n + 1) + i) * (n + 1) + j for x, i, j in known if x is not None]

    def f1(self, weights: Sequence[float] | FloatArray, sharpness: float = 1.0) -> float:
        """EVALB's F1, in percent, of a mix of the members with these weights.

        The score equals that of a parser without the intermediate pruning (`Parser(mix,
        middle=0)`).
        """
        began, weights = process_time(), np.asarray(weights, float) / np.sum(weights)
        has_network = bool(weights[self._is_network].any())
        f1 = add_up(self.scores(weights, sharpness, is_unconstrained=has_network)).f1
        self.f1_seconds = max(self.f1_seconds, process_time() - began)
        return f1

    def scores(
        self, weights: FloatArray, sharpness: float = 1.0, *, is_unconstrained: bool
    ) -> list[SentenceScore]:
        """EVALB's scores of every dev sentence, parsed by a mix.

        Parameters
        ----------
        weights
            The ensemble weight of each member; they sum to 1.
        is_unconstrained
            Whether the mix is decoded over all trees, as with a network, or over the trees in the
            chart of the first member.
        """
        names, chains = (
            tuple(self.numbers),
            unary_chains(self._grammars) if is_unconstrained else {},
        )
        symbols = self.first.chart_grammar.symbols
        parser = Parser(self.first.chart_grammar if is_unconstrained else self.first)

        def score(sentence: _Sentence) -> SentenceScore:
            mix, words = sentence.mix(weights, sharpness), sentence.words
            nodes = None if is_unconstrained else _best_nodes(sentence, mix)
            tree = unconstrained_tree(mix, words, names, chains)[0] if is_unconstrained else None
            key = tree or tuple(nodes or ())
            if key not in sentence.scores:
                if tree is None:
                    tree = (
                        restore_words(symbols, words, nodes) if nodes else parser.parse(words).tree
                    )
                sentence.scores[key] = bracketing([sentence.gold], [tree]).sentences[0]
            return sentence.scores[key]

        return list(ordered_map(score, self.sentences, jobs=self.jobs))


def _best_nodes(sentence: _Sentence, mix: BracketPosteriors) -> Nodes | None:
    """Return the tree of highest expected F1 under a mix; None for one word, or without a parse."""
    chart, rows = sentence.chart, sentence.rows
    if chart is None or rows is None:
        return None
    gains = bracket_gains(rows, mix.of(rows.code), len(chart.items))
    pruned = chart.pruned
    none = np.zeros(len(pruned.forest.head))
    best = forest_tree(pruned, Gains(gains, none, np.zeros(len(pruned.roots))))
    return best.nodes if best is not None else None
