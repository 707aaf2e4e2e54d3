"""`sapwood demo`: a real sentence, one with two readings, and how a grammar is learnt."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, echo, is_colourful
from sapwood.cli.reports import table_lines
from sapwood.core.errors import count
from sapwood.core.model_names import ENGLISH
from sapwood.execute.engine import Meter
from sapwood.report import to_json

if TYPE_CHECKING:
    from sapwood.constituency.evaluate.bracketing import BracketingReport
    from sapwood.corpora.tree import Tree


DEMO_STATES = 8
DEMO_FIGURES = {
    "F1": "f1",
    "complete match": "complete_match",
    "tagging accuracy": "tagging_accuracy",
}
DRAWING_WIDTH = 100  # columns; wider drawings wrap in most terminals

DEMO_EPILOG = """\b
Examples:
  sapwood demo
  sapwood demo --seed 3
"""


def show_demo(
    as_json: opt.Json = False,
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed that selects the sentence to show."),
) -> None:
    """Parse English, show probabilities of phrases, and learn a grammar from bundled trees.

    First the model `english` parses two sentences, one of which has two readings. Then a plain
    PCFG and a spectral grammar are learnt from trees of a grammar with hidden states. The trees do
    not show the states; the spectral grammar has to find them. Takes a few seconds; the first run
    also compiles kernels, for some fifteen seconds of processor time.
    """
    meter = Meter()
    phases = Phases(7)
    english = _parse_english(phases)
    if not as_json:
        print("\n".join(_english_text(english)), flush=True)
    gold, grammars = _run(phases)
    example = _choose_example(gold, grammars, seed)
    if as_json:
        trees = {name: str(one.trees[example]) for name, one in grammars.items()}
        report: dict[str, Any] = {name: one.as_dict() for name, one in grammars.items()}
        report["example"] = {"gold": str(gold[example])} | trees
        report["english"] = [reading.as_dict() for reading in english]
        print(to_json(report | meter.as_dict(), indent=2))
        return
    print("\n".join(["", "How such a model is learnt, from trees that come with Sapwood:", ""]))
    print("\n".join([*_scores_text(grammars), *_example_text(gold[example], grammars, example)]))
    for line in _NEXT:
        echo(line)


_NEXT = (
    "",
    "What to try next:",
    "  echo 'A sentence of your own.' | sapwood parse english --raw  any English text",
    "  sapwood serve --open                                          a page to look at trees",
    "  sapwood inspect bundled --label VP --top 3                    what the hidden states do",
    "  sapwood data list                                             open treebanks to train on",
    "  sapwood train TREES.mrg -o my.sapwood --method spectral       a parser of your own",
    "  sapwood inspect my.sapwood --label NP                         what it has found",
)


CERTAIN = "She was born in Vienna in 1897 and moved to London with her family."
AMBIGUOUS, CONTESTED = "The girl saw the boy with the telescope.", "the boy with the telescope"


@dataclass(frozen=True)
class _Reading:
    """The tree of a sentence, and how probable it is that some of its words are one phrase."""

    sentence: str
    tree: Tree
    phrase: str
    probability: float

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "tree": str(self.tree)}


def _parse_english(phases: Phases) -> list[_Reading]:
    """Parse a plain sentence and an ambiguous one with the model that comes with Sapwood."""
    from sapwood.constituency.parse.parser import Parser
    from sapwood.core.model_files import load

    with phases.phase(f"parsing with {ENGLISH}") as notes:
        parser = Parser(load(ENGLISH))
        readings = []
        for sentence, phrase in ((CERTAIN, CERTAIN), (AMBIGUOUS, CONTESTED)):
            parse = parser.parse_text(sentence)
            words, wanted = parse.tree.words(), parser.tokenizer(phrase)
            start = next(i for i in range(len(words)) if words[i : i + len(wanted)] == wanted)
            span = (start, start + len(wanted))
            known = [c.probability for c in parse.marginals if c[1:3] == span]
            readings.append(_Reading(sentence, parse.tree, phrase, max(known, default=0.0)))
        notes.append(count(len(readings), "sentence"))
    return readings


def _english_text(readings: list[_Reading]) -> Iterator[str]:
    plain, ambiguous = readings
    yield from (f"The model `{ENGLISH}` reads: {plain.sentence}", "")
    yield plain.tree[0].draw(colour=is_colourful(sys.stdout))
    yield from ("", f"Some sentences have two readings: {ambiguous.sentence}", "")
    yield ambiguous.tree[0].draw(colour=is_colourful(sys.stdout))
    yield from ("", "Who has the telescope? The model says how probable each reading is:")
    yield f"  {1 - ambiguous.probability:4.0%}  The girl saw (the boy) (with the telescope)"
    yield f"  {ambiguous.probability:4.0%}  The girl saw (the boy with the telescope)"


@dataclass(frozen=True)
class _Contestant:
    """A grammar's trees for the dev sentences, and how good they are."""

    trees: list[Tree]
    report: BracketingReport
    states: int

    def as_dict(self) -> dict[str, Any]:
        return {"states": self.states, **self.report.as_dict()["all"]}


def _run(phases: Phases) -> tuple[list[Tree], dict[str, _Contestant]]:
    """Train on the bundled trees; the dev trees, and what three grammars make of their sentences.

    Without hidden states, with learnt ones, and the truth.
    """
    from sapwood.constituency.data.treebank import bundled_treebank
    from sapwood.constituency.evaluate.bracketing import bracketing
    from sapwood.constituency.grammar.from_text import bundled_grammar
    from sapwood.constituency.learn.pcfg import PCFG
    from sapwood.constituency.learn.spectral import SpectralLPCFG
    from sapwood.constituency.parse.parser import Parser

    with phases.phase("reading bundled trees") as notes:
        bank = bundled_treebank("train")
        gold = list(bundled_treebank("dev").trees())
        notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
    with phases.phase("training a plain PCFG") as notes:
        plain = PCFG().fit(bank).model_
        notes += [count(plain.n_symbols, "symbol"), count(len(plain.rules), "rule")]
    with phases.phase("training a spectral grammar") as notes:
        spectral = SpectralLPCFG(DEMO_STATES, n_jobs=0).fit(bank).model_
        notes.append(f"{DEMO_STATES} states")
    grammars = {}
    for name, title, model in (
        ("pcfg", "plain PCFG", plain),
        ("spectral", "spectral grammar", spectral),
        ("true", "true grammar", bundled_grammar()),
    ):
        with phases.phase(f"parsing dev with the {title}") as notes:
            parses = Parser(model).parse_many((tree.words() for tree in gold), jobs=0)
            trees = [parse.tree for parse in parses]
            notes.append(count(len(trees), "sentence"))
        grammars[name] = _Contestant(trees, bracketing(gold, trees), int(model.n_states.max()))
    return gold, grammars


def _choose_example(gold: list[Tree], grammars: dict[str, _Contestant], seed: int) -> int:
    """A sentence that hidden states get right and the plain PCFG does not, and that fits."""
    plain, spectral, true = grammars.values()
    order = list(range(len(gold)))
    random.Random(seed).shuffle(order)

    def cost(i: int) -> tuple[bool, bool, bool, int]:
        tree = gold[i]
        # A wrong tag alone makes no picture: some bracket must differ.
        is_telling = true.trees[i] == tree and not plain.report.sentences[i].is_complete
        is_learnt = spectral.trees[i] == tree
        width = max(map(len, tree.draw(width=None).splitlines()))
        return not is_telling, not is_learnt, width > DRAWING_WIDTH, abs(len(tree.words()) - 9)

    # Among the telling ones any of a readable length will do: the seed decides.
    for i in order:
        *flaws, length = cost(i)
        if not any(flaws) and length <= 3:
            return i
    return min(order, key=cost)


def _scores_text(grammars: dict[str, _Contestant]) -> Iterator[str]:
    plain, spectral, true = grammars.values()
    columns = {"": "<18", "plain PCFG": ">12.2f", "spectral": ">12.2f", "true grammar": ">14.2f"}
    rows: list[tuple[object, ...]] = [
        ("states a symbol", str(plain.states), f"up to {spectral.states}", f"up to {true.states}")
    ]
    for title, name in DEMO_FIGURES.items():
        rows.append((title, *(getattr(one.report.all, name) for one in grammars.values())))
    yield from table_lines(columns, rows)
    yield ""
    yield "All three know the same labels; what lies between them is the hidden states:"
    yield "none, learnt from the trees alone, and those that the trees were drawn with."


def _example_text(gold: Tree, grammars: dict[str, _Contestant], example: int) -> Iterator[str]:
    words, wrong = gold.words(), grammars["pcfg"].trees[example]
    yield from ("", f"For example: {' '.join(words)}", "")
    yield gold[0].draw(colour=is_colourful(sys.stdout))
    is_learnt = grammars["spectral"].trees[example] == gold
    finders = "The spectral grammar and the true one find" if is_learnt else "The true one finds"
    yield from ("", f"{finders} this tree. The plain PCFG")
    for verb, tree, other in (("misses ", gold, wrong), ("invents", wrong, gold)):
        others = other.spans()
        for label, i, j in tree.spans():
            if (label, i, j) not in others:
                yield f"  {verb} {label}: {' '.join(words[i:j])}"
