"""`DevSet`: dev trees whose charts are pruned once and parsed again with every new grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from sapwood.corpus.clean import clean
from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError
from sapwood.evaluate.bracketing import bracketing
from sapwood.execute import ordered_map
from sapwood.inference.charts import ParseForest, pruned_forests
from sapwood.inference.parser import BEAM, THRESHOLD, Parser
from sapwood.inference.prepared import prepare
from sapwood.kernels.signals import undisturbed

if TYPE_CHECKING:
    from sapwood.evaluate.scores import BracketingReport
    from sapwood.execute import Engine
    from sapwood.models.ensemble import Member, Model
    from sapwood.models.latent_grammar import LatentGrammar


def cleaned(gold: Sequence[Tree]) -> list[Tree]:
    """Dev trees as a treebank would have them; an error when none is left."""
    trees = [tree for tree in map(clean, gold) if tree is not None]
    if not trees:
        msg = "no dev tree is left after cleaning"
        raise SapwoodError(msg, hint="give trees with words, in Penn brackets")
    return trees


def pruned_by(member: Member, trees: Sequence[Tree], jobs: int) -> list[ParseForest | None]:
    """Charts of the trees' sentences; None for one word, and where nothing is found."""
    prepared = prepare(member)

    def chart(tree: Tree) -> ParseForest | None:
        words = tree.words()
        if len(words) == 1:
            return None
        return next(pruned_forests(prepared, words, THRESHOLD, BEAM), None)

    return list(ordered_map(chart, trees, jobs=jobs))


class DevSet:
    """Gold trees and the charts of their sentences.

    Parameters
    ----------
    gold
        Trees that are not in the training data.
    plain
        The plain grammar; grammars that are graded must share its symbols, rules and lexicon rows.
    jobs
        Threads; 0 means all cores.
    """

    def __init__(self, gold: Sequence[Tree], plain: LatentGrammar, jobs: int = 1) -> None:
        self.gold = cleaned(gold)
        self.jobs = jobs
        self.charts = pruned_by(plain, self.gold, jobs)

    def parse(self, model: LatentGrammar) -> list[Tree]:
        """The trees that a model gives the sentences."""
        parser = Parser(model)

        def tree(pair: tuple[Tree, ParseForest | None]) -> Tree:
            gold, chart = pair
            if chart is None:
                return parser.parse(gold.words()).tree
            return undisturbed(parser.parse_pruned, [chart]).tree

        pairs = zip(self.gold, self.charts, strict=True)
        return list(ordered_map(tree, pairs, jobs=self.jobs))

    def f1(self, model: LatentGrammar) -> float:
        """EVALB's F1 of a model, in percent."""
        return bracketing(self.gold, self.parse(model)).f1


@dataclass(frozen=True, eq=False)
class Grades:
    """How well a model parses, as `sapwood parse` and `sapwood evaluate` would say.

    Attributes
    ----------
    report
        EVALB's figures.
    fallbacks
        Sentences without a parse.
    seconds, cpu_seconds
        Of parsing, on the clock and of all threads together.
    """

    report: BracketingReport
    fallbacks: int
    seconds: float
    cpu_seconds: float

    @property
    def f1(self) -> float:
        """EVALB's F1, in percent."""
        return self.report.f1

    @property
    def n_trees(self) -> int:
        """How many trees were graded."""
        return self.report.all.sentences


def grade(model: Model, gold: Sequence[Tree], jobs: Engine | int = 1) -> Grades:
    """Parse the sentences of gold trees and compare."""
    parser = Parser(model)
    wall, cpu = perf_counter(), process_time()
    predicted = [p.tree for p in parser.parse_many((tree.words() for tree in gold), jobs=jobs)]
    wall, cpu = perf_counter() - wall, process_time() - cpu
    return Grades(bracketing(gold, predicted), parser.stats.fallbacks, wall, cpu)
