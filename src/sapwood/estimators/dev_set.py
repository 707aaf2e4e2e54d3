"""`DevSet`: dev trees whose charts are pruned once and parsed again with every new grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sapwood.corpus.clean import clean
from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError
from sapwood.evaluate.bracketing import bracketing
from sapwood.execute import ordered_map
from sapwood.inference.charts import PrunedChart, pruned_charts
from sapwood.inference.parser import BEAM, THRESHOLD, Parser

if TYPE_CHECKING:
    from sapwood.models.latent_grammar import LatentGrammar


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
        self.gold = [tree for tree in map(clean, gold) if tree is not None]
        if not self.gold:
            msg = "no dev tree is left after cleaning"
            raise SapwoodError(msg, hint="give trees with words, in Penn brackets")
        self.jobs = jobs
        self.plain = plain
        _ = (plain.coarse_rules, plain.pair_table, plain.entry_share)  # once, before threads start
        words = (tree.words() for tree in self.gold)
        self.charts = list(ordered_map(self._chart, words, jobs=jobs))

    def _chart(self, words: list[str]) -> PrunedChart | list[str]:
        """The pruned chart of a sentence, or its words when it has none."""
        if len(words) == 1:
            return words
        return next(pruned_charts(self.plain, words, THRESHOLD, BEAM), words)

    def parse(self, model: LatentGrammar) -> list[Tree]:
        """The trees that a model gives the sentences."""
        parser = Parser(model)

        def tree(chart: PrunedChart | list[str]) -> Tree:
            if isinstance(chart, PrunedChart):
                return parser.parse_pruned([chart]).tree
            return parser.parse(chart).tree

        return list(ordered_map(tree, self.charts, jobs=self.jobs))

    def f1(self, model: LatentGrammar) -> float:
        """EVALB's F1 of a model, in percent."""
        return bracketing(self.gold, self.parse(model)).f1
