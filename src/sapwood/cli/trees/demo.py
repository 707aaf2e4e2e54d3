"""`sapwood demo`: the whole story on bundled data."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, echo, is_colourful
from sapwood.cli.tables import table_lines
from sapwood.errors import count
from sapwood.report import to_json
from sapwood.report.meter import Meter

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.evaluate.scores import BracketingReport
    from sapwood.models.latent_grammar import LatentGrammar

N_STATES = 8
WIDTH = 100  # columns; wider drawings wrap in most terminals

EPILOG = """\b
Examples:
  sapwood demo
  sapwood demo --seed 3
"""


def demo(
    as_json: opt.Json = False,
    seed: int = typer.Option(0, min=0, metavar="N", help="Another number shows another sentence."),
) -> None:
    """Learn bundled trees without and with hidden states, beside the grammar they were drawn from.

    That grammar has hidden states, which the trees do not show: the plain PCFG cannot have them,
    the spectral grammar has to find them. Takes a few seconds; the first run also compiles the
    kernels, once, which takes up to a minute.
    """
    meter = Meter()
    contest = _contest(Phases(6))
    example = contest.example(seed)
    if as_json:
        print(to_json(contest.report(example) | meter.as_dict(), indent=2))
        return
    print("\n".join([*contest.scores_text(), *contest.example_text(example)]))
    for line in _NEXT:
        echo(line)


_NEXT = (
    "",
    "What to try next:",
    "  sapwood sample bundled -n 3 --words | sapwood parse bundled   draw sentences, parse them",
    "  sapwood inspect bundled --label VP --top 3                    what the hidden states do",
    "  sapwood data list                                             open treebanks to train on",
    "  sapwood train TREES.mrg -o my.sapwood --method spectral       a parser of your own",
    "  sapwood inspect my.sapwood --label NP                         what it has found",
)


def _contest(phases: Phases) -> _Contest:
    """Train on the bundled trees and parse the bundled dev sentences with all three grammars."""
    from sapwood.corpus.treebank import bundled_treebank
    from sapwood.estimators.pcfg import PCFG
    from sapwood.estimators.spectral import SpectralLPCFG
    from sapwood.models.from_text import bundled_grammar

    with phases.phase("reading bundled trees") as notes:
        bank = bundled_treebank("train")
        gold = list(bundled_treebank("dev").trees())
        notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
    with phases.phase("training a plain PCFG") as notes:
        plain = PCFG().fit(bank).model_
        notes += [count(plain.n_symbols, "symbol"), count(len(plain.rules), "rule")]
    with phases.phase("training a spectral grammar") as notes:
        spectral = SpectralLPCFG(N_STATES, n_jobs=0).fit(bank).model_
        notes.append(f"{N_STATES} states")
    return _Contest(
        gold,
        _Contestant.run(phases, "parsing dev with the plain PCFG", plain, gold),
        _Contestant.run(phases, "parsing dev with the spectral grammar", spectral, gold),
        _Contestant.run(phases, "parsing dev with the true grammar", bundled_grammar(), gold),
    )


@dataclass(frozen=True)
class _Contestant:
    """A grammar's trees for the dev sentences, and how good they are."""

    trees: list[Tree]
    report: BracketingReport
    states: int

    @classmethod
    def run(cls, phases: Phases, name: str, model: LatentGrammar, gold: list[Tree]) -> _Contestant:
        from sapwood.evaluate.bracketing import bracketing
        from sapwood.inference.parser import Parser

        with phases.phase(name) as notes:
            parses = Parser(model).parse_many((tree.words() for tree in gold), jobs=0)
            trees = [parse.tree for parse in parses]
            notes.append(count(len(trees), "sentence"))
        return cls(trees, bracketing(gold, trees), int(model.n_states.max()))

    def is_complete(self, i: int) -> bool:
        """Whether all brackets of a sentence are right, whatever its tags."""
        return self.report.sentences[i].is_complete

    def as_dict(self) -> dict[str, Any]:
        return {"states": self.states, **self.report.as_dict()["all"]}


@dataclass(frozen=True)
class _Contest:
    """Three grammars over the same sentences: without states, with learnt ones, and the truth."""

    gold: list[Tree]
    plain: _Contestant
    spectral: _Contestant
    true: _Contestant

    def report(self, example: int) -> dict[str, Any]:
        grammars = {"pcfg": self.plain, "spectral": self.spectral, "true": self.true}
        trees = {name: str(one.trees[example]) for name, one in grammars.items()}
        report: dict[str, Any] = {name: one.as_dict() for name, one in grammars.items()}
        return report | {"example": {"gold": str(self.gold[example])} | trees}

    def example(self, seed: int) -> int:
        """A sentence that hidden states get right and the plain PCFG does not, and that fits."""
        order = list(range(len(self.gold)))
        random.Random(seed).shuffle(order)

        def cost(i: int) -> tuple[bool, bool, bool, int]:
            tree = self.gold[i]
            # A wrong tag alone makes no picture: some bracket must differ.
            is_telling = self.true.trees[i] == tree and not self.plain.is_complete(i)
            is_learnt = self.spectral.trees[i] == tree
            width = max(map(len, tree.draw(width=None).splitlines()))
            return not is_telling, not is_learnt, width > WIDTH, abs(len(tree.words()) - 9)

        # Among the telling ones any of a readable length will do: the seed decides.
        for i in order:
            *flaws, length = cost(i)
            if not any(flaws) and length <= 3:
                return i
        return min(order, key=cost)

    def scores_text(self) -> Iterator[str]:
        plain, spectral, true = self.plain, self.spectral, self.true
        columns = {
            "": "<18",
            "plain PCFG": ">12.2f",
            "spectral": ">12.2f",
            "true grammar": ">14.2f",
        }
        states = (f"{plain.states}", f"up to {spectral.states}", f"up to {true.states}")
        figures = {
            "F1": "f1", "complete match": "complete_match", "tagging accuracy": "tagging_accuracy",
        }  # fmt: skip
        yield from table_lines(
            columns,
            [
                ("states a symbol", *states),
                *(
                    (title, *(getattr(one.report.all, name) for one in (plain, spectral, true)))
                    for title, name in figures.items()
                ),
            ],
        )
        yield ""
        yield "All three know the same labels; what lies between them is the hidden states:"
        yield "none, learnt from the trees alone, and those that the trees were drawn with."

    def example_text(self, example: int) -> Iterator[str]:
        gold = self.gold[example]
        yield from ("", f"For example: {' '.join(gold.words())}", "")
        yield gold[0].draw(colour=is_colourful(sys.stdout))
        is_learnt = self.spectral.trees[example] == gold
        finders = (
            "The spectral grammar and the true one find" if is_learnt else "The true one finds"
        )
        missed, invented = _differences(gold, self.plain.trees[example])
        yield from ("", f"{finders} this tree. The plain PCFG")
        yield from (f"  misses  {text}" for text in missed)
        yield from (f"  invents {text}" for text in invented)


def _differences(gold: Tree, wrong: Tree) -> tuple[list[str], list[str]]:
    words = gold.words()
    ours, theirs = gold.spans(), wrong.spans()

    def said(spans: list[tuple[str, int, int]], others: list[tuple[str, int, int]]) -> list[str]:
        return [f"{a}: {' '.join(words[i:j])}" for a, i, j in spans if (a, i, j) not in others]

    return said(ours, theirs), said(theirs, ours)
