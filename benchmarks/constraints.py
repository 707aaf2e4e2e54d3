"""Parsing with what is known: given tags, and brackets that a simulated annotator gives.

python benchmarks/constraints.py model.sapwood --corpus ptb
python benchmarks/constraints.py model.sapwood --corpus craft --limit 300 --tables annotator

Tags: the dev sentences are parsed without tags, with the gold ones, and with gold tags of which
some are replaced by another, drawn by how often tags occur. A hard tag excludes all others; a soft
one has a probability of 0.9, and the others share the rest.

The annotator looks at the tree of a sentence and gives the first gold bracket that the tree lacks,
from left to right, outer ones first; where none is lacking, it forbids the first bracket that is
not gold. Then the sentence is parsed again, until all brackets are right. Beside it stand the edits
that the tree without constraints would need: brackets to add, to remove, or to give another label.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import machine
import numpy as np

import sapwood as sw
from sapwood.constituency.evaluate.bracketing import bracketing

NOISE = (0.01, 0.03, 0.10)
SURE = 0.9  # probability of a soft tag
Bracket = tuple[int, int, str]


def table_of_tags(parser: sw.Parser, gold: Sequence[sw.Tree], seed: int) -> None:
    """F1 with predicted, gold and noisy tags, hard and soft."""
    known = sorted(parser.known_labels.tags)
    right = [[tag if tag in known else None for tag in tree.tags()] for tree in gold]
    n_words, n_free = sum(map(len, right)), sum(tags.count(None) for tags in right)
    own, row = row_of_tags("predicted", parser, gold, [None] * len(gold))
    given, row_of_gold = row_of_tags("gold", parser, gold, right)
    rows = [row, row_of_gold]
    options = {"gold, soft": [soften(tags, known) for tags in right]}
    for share in NOISE:
        noisy = replace_some(right, share, np.random.default_rng(seed))
        options[f"{share:.0%} wrong"] = noisy
        options[f"{share:.0%} wrong, soft"] = [soften(tags, known) for tags in noisy]
    rows += [row_of_tags(name, parser, gold, tags)[1] for name, tags in options.items()]
    print(f"{len(gold)} sentences, {n_words:,} words; {n_free} with tags unknown to the model\n")
    machine.print_table(("tags", "F1", "complete", "tagging accuracy", "joined", "CPU s"), rows)
    print_effect_of_gold_tags(gold, own, given)


def print_effect_of_gold_tags(
    gold: Sequence[sw.Tree], own: Sequence[Any], given: Sequence[Any]
) -> None:
    """Print how many sentences gold tags help, and F1 without those that had to be joined."""
    triples = list(zip(gold, own, given, strict=True))
    pairs = [(f1_of([row[:2]]), f1_of([(row[0], row[2])])) for row in triples]
    n_better, n_worse = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    whole = [row for row in triples if not row[2].is_fallback]
    old, new = f1_of([row[:2] for row in whole]), f1_of([(row[0], row[2]) for row in whole])
    print(f"with gold tags {n_better} sentences are better and {n_worse} worse; F1 of the")
    print(f"{len(whole)} that were not joined: {old:.2f} without tags, {new:.2f} with gold tags\n")


def f1_of(pairs: Sequence[tuple[sw.Tree, Any]]) -> float:
    """F1 of gold trees and parses."""
    trees = [with_tags(parse.tree, right) for right, parse in pairs]
    return bracketing([right for right, _ in pairs], trees).f1


def row_of_tags(
    name: str, parser: sw.Parser, gold: Sequence[sw.Tree], tags: Sequence[Any]
) -> tuple[list[Any], tuple[str, ...]]:
    """Parses with some tags, and the scores of their trees."""
    with machine.Clock() as clock:
        parses = [
            parser.parse(tree.words(), tags=given) for tree, given in zip(gold, tags, strict=True)
        ]
    trees = [parse.tree for parse in parses]
    pairs = [
        pair for tree, right in zip(trees, gold, strict=True)
        for pair in zip(tree.tags(), right.tags(), strict=True)
    ]  # fmt: skip
    accuracy = 100 * mean(found == right for found, right in pairs)
    # EVALB leaves punctuation out by its tags, which have to be the same in both trees.
    scores = bracketing(gold, [with_tags(*pair) for pair in zip(trees, gold, strict=True)])
    joined = sum(parse.is_fallback for parse in parses)
    return parses, (
        name, f"{scores.f1:.2f}", f"{scores.all.complete_match:.2f}", f"{accuracy:.2f}",
        str(joined), f"{clock.thread:.1f}",
    )  # fmt: skip


def with_tags(tree: sw.Tree, right: sw.Tree) -> sw.Tree:
    """A tree with the tags of another."""
    tags = iter(right.tags())

    def copy(node: sw.Tree) -> sw.Tree:
        if node.is_preterminal:
            return sw.Tree(next(tags), node.word)
        return sw.Tree(node.label, [copy(kid) for kid in node])

    return copy(tree)


def replace_some(
    tags: Sequence[Sequence[str | None]], share: float, rng: np.random.Generator
) -> list[list[str | None]]:
    """Replace a share of the tags by another one, drawn by how often tags occur."""
    counts = Counter(tag for some in tags for tag in some if tag is not None)
    names, weights = list(counts), np.array(list(counts.values()), float)
    noisy = []
    for some in tags:
        new = list(some)
        for place, tag in enumerate(some):
            if tag is not None and rng.random() < share:
                p = np.where(np.array(names) == tag, 0.0, weights)
                new[place] = str(rng.choice(names, p=p / p.sum()))
        noisy.append(new)
    return noisy


def soften(tags: Sequence[str | None], known: Sequence[str]) -> list[dict[str, float] | None]:
    """Each tag with a probability, and the others with equal parts of the rest."""
    rest = (1.0 - SURE) / (len(known) - 1)
    return [None if tag is None else dict.fromkeys(known, rest) | {tag: SURE} for tag in tags]


class Effort(NamedTuple):
    """What a sentence took until its brackets were right."""

    given: int
    forbidden: int
    edits: int
    brackets: int
    is_joined: bool  # whether the last tree was one that no member of the model has


def table_of_annotator(parser: sw.Parser, gold: Sequence[sw.Tree]) -> None:
    """Brackets that must be given until sentences are right, against edits of the first tree."""
    known = parser.known_labels.phrases
    usable = [tree for tree in gold if {label for *_, label in brackets_of(tree)} <= known]
    with machine.Clock() as clock:
        efforts = [annotate(parser, tree) for tree in usable]
    n = len(efforts)
    asked = [one.given + one.forbidden for one in efforts]
    print(f"{n} of {len(gold)} sentences; the others have labels that the model does not know\n")
    rows = [
        ("gold brackets", *_of(one.brackets for one in efforts)),
        ("edits of the first tree", *_of(one.edits for one in efforts)),
        ("brackets given", *_of(one.given for one in efforts)),
        ("brackets forbidden", *_of(one.forbidden for one in efforts)),
        ("given and forbidden", *_of(asked)),
    ]
    machine.print_table(("of all sentences", "sum", "per sentence"), rows)
    rows = [
        (str(most), f"{100 * sum(one.edits <= most for one in efforts) / n:.1f}",
         f"{100 * sum(one <= most for one in asked) / n:.1f}")
        for most in (0, 1, 2, 3, 5, 10)
    ]  # fmt: skip
    machine.print_table(("at most", "% right by edits", "% right by brackets asked"), rows)
    joined = sum(one.is_joined for one in efforts)
    print(f"The right tree is none of the model's in {joined} sentences. {clock.thread:.0f} CPU s.")


def _of(numbers: Any) -> tuple[str, str]:
    found = list(numbers)
    return f"{sum(found):,}", f"{mean(found):.2f}"


def annotate(parser: sw.Parser, gold: sw.Tree) -> Effort:
    """Ask for brackets until those of the tree are the gold ones."""
    words, right = gold.words(), brackets_of(gold)
    given: set[int] = set()
    forbidden: list[Bracket] = []
    parse = parser.parse(words)
    edits = count_edits(right, brackets_of(parse.tree))
    while True:
        found = brackets_of(parse.tree)
        lacking = first_lacking(right, found, given)
        extra = next(iter((Counter(found) - Counter(right)).keys()), None)
        if lacking is not None:
            given.add(lacking)
        elif extra is not None:
            forbidden.append(extra)
        else:
            return Effort(len(given), len(forbidden), edits, len(right), parse.is_fallback)
        asked = [right[place] for place in sorted(given)]  # outer ones first
        parse = parser.parse(words, spans=asked, forbidden=forbidden)


def first_lacking(right: list[Bracket], found: list[Bracket], given: set[int]) -> int | None:
    """The place of the first gold bracket that a tree lacks."""
    left = Counter(found)
    for place, bracket in enumerate(right):
        if not left[bracket] and place not in given:
            return place
        left[bracket] -= 1
    return None


def count_edits(right: Sequence[Bracket], found: Sequence[Bracket]) -> int:
    """Brackets to add, to remove, or to give another label."""
    missing = Counter(one[:2] for one in (Counter(right) - Counter(found)).elements())
    extra = Counter(one[:2] for one in (Counter(found) - Counter(right)).elements())
    return sum(max(missing[span], extra[span]) for span in missing.keys() | extra.keys())


def brackets_of(tree: sw.Tree) -> list[Bracket]:
    """Spans and labels of the phrases below the root, from left to right, outer ones first."""
    nodes = zip(tree.nodes(), tree.spans(), strict=True)
    return [(i, j, label) for node, (label, i, j) in nodes
            if not node.is_preterminal and label != "TOP"]  # fmt: skip


TABLES = ("tags", "annotator")


def main() -> None:
    """Print the tables of one model and corpus."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path)
    options.add_argument("--corpus", default="ptb")
    options.add_argument("--limit", type=int, help="the first dev sentences")
    options.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    parser = sw.Parser(sw.load(given.model))
    parser.parse(gold[0].words(), spans=[(0, 1, None)])  # kernels loaded
    if "tags" in given.tables:
        table_of_tags(parser, gold, given.seed)
    if "annotator" in given.tables:
        table_of_annotator(parser, gold)


if __name__ == "__main__":
    main()
