"""From cleaned trees to the trees of the model, and back.

The models know two kinds of nodes only: an in-terminal with exactly two children, and a
pre-terminal with one word. Three reversible steps get there:

- **collapse**: a unary chain becomes one *joint* symbol (`S|VP`, `NP|NN`);
- **annotate**: labels carry their `vertical - 1` nearest ancestors (`NP^S`);
- **binarise**: longer productions are built through intermediate symbols (`@VP:>PP`) that remember
  their `horizontal` next children.

A `Symbol` keeps these parts apart, so going back never has to take a label to pieces, whatever
characters the treebank's own labels contain. Binary nodes are then packed as rows of numbers, whose
columns `sapwood.constituency.data.treebank` explains.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain as concatenate
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np

from sapwood.core.arrays import Int32Array
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.tree import HEAD_RULES, ROOT, Tree, choose_head_rule

COLUMNS = ("label", "rule", "left", "right", "parent", "word", "start", "end")  # of rows
_N_SAMPLED = 1000  # trees by which the label set is recognised
BINARISATIONS = ("head", "right", "left")
HEADS = ("auto", "penn", "generic")


class Symbol(NamedTuple):
    """One label of the model."""

    # its treebank labels, outermost first; an intermediate symbol names its parent
    chain: tuple[str, ...]
    ancestors: tuple[str, ...] = ()  # the labels above it that it remembers, nearest first
    # for an intermediate symbol, the children it must produce next with their side; else None
    context: tuple[str, ...] | None = None

    @property
    def is_intermediate(self) -> bool:
        """Whether the symbol vanishes when a tree is restored."""
        return self.context is not None

    def __str__(self) -> str:
        name = "|".join(self.chain) + "".join("^" + label for label in self.ancestors)
        if self.context is None:
            return name
        return f"@{name}:{','.join(self.context)}" if self.context else f"@{name}"


@dataclass(frozen=True)
class Transform:
    """How cleaned trees become binary ones.

    Parameters
    ----------
    binarise
        `head` grows each phrase outward from its head child, `right` and `left` branch to one side.
    horizontal
        How many of its next children an intermediate symbol remembers.
    vertical
        1 keeps plain labels, 2 adds the parent to phrase labels, 3 the grandparent too.
    tag_parents
        Whether tags carry their ancestors too (from `vertical` 2 on).
    heads
        `penn` uses the table for Penn English, `generic` a rule for any labels, `auto` decides by
        the labels of the treebank.
    """

    binarise: str = "head"
    horizontal: int = 1
    vertical: int = 1
    tag_parents: bool = False
    heads: str = "auto"

    def __post_init__(self) -> None:
        _check_choice("binarise", self.binarise, BINARISATIONS)
        _check_choice("heads", self.heads, HEADS)
        for name, least in (("horizontal", 0), ("vertical", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise SapwoodError(f"{name} must be a whole number from {least} up, not {value!r}")

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain data, for model files."""
        return asdict(self)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SapwoodError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


class Step(NamedTuple):
    """One binary node of a binarised production.

    `left` and `right` are child positions when >= 0; -1 means the node built by the step
    before. `head` is the side of the production's head child, 0 left or 1 right.
    """

    symbol: Symbol
    left: int
    right: int
    head: int


def binarise(
    transform: Transform, chain: tuple[str, ...], ancestors: tuple[str, ...], kids: Sequence[str]
) -> list[Step]:
    """Build a production of two or more children as binary nodes, innermost first."""
    head = HEAD_RULES[transform.heads](chain[-1], kids)
    n = len(kids)
    # child positions from the innermost to the outermost
    order = {
        "right": [*range(n - 1, -1, -1)], "left": [*range(n)],
        "head": [head, *range(head + 1, n), *range(head - 1, -1, -1)],
    }[transform.binarise]  # fmt: skip
    above = child_ancestors(transform, chain[:-1], ancestors)
    steps: list[Step] = []
    low = high = order[0]
    for place, index in enumerate(order[1:], 1):
        left, right = (index, low) if index < low else (low, index)
        head_side = int(index > low) if index == head else int(low <= head <= high and index < low)
        low, high = min(low, index), max(high, index)
        if place > 1:
            left, right = (index, -1) if index == low else (-1, index)
        if place == len(order) - 1:
            symbol = Symbol(chain, ancestors)
        else:
            recent = order[max(1, place + 1 - transform.horizontal) : place + 1]
            # the outermost children so far, with their side: what this symbol will produce next
            context = [("<" if at < order[0] else ">") + kids[at] for at in reversed(recent)]
            symbol = Symbol(chain[-1:], above, tuple(context))
        steps.append(Step(symbol, left, right, head_side))
    return steps


def child_ancestors(
    transform: Transform, chain: tuple[str, ...], ancestors: tuple[str, ...]
) -> tuple[str, ...]:
    """Ancestors that the children of a node remember."""
    return (chain[::-1] + ancestors)[: transform.vertical - 1]


def restore(symbols: Sequence[Symbol], nodes: Iterable[tuple[int, int, int, str | None]]) -> Tree:
    """Rebuild the cleaned tree, with `TOP` on top, from binary nodes, children before parents.

    Nodes are `(symbol, left, right, word)`; left and right are indices of nodes, the word is None
    for an in-terminal.
    """
    done: list[Tree | tuple[int, int]] = []  # half-built phrases are pairs, put together once
    for number, left, right, word in nodes:
        symbol = symbols[number]
        if symbol.is_intermediate:
            done.append((left, right))
        else:
            kids = _gather(done, left, right) if word is None else (word,)
            done.append(_expand(symbol.chain, kids))
    top = done[-1]
    if isinstance(top, Tree) and top.label == ROOT:
        return top
    return _expand((ROOT,), (top,) if isinstance(top, Tree) else _gather(done, *top))


def restore_words(
    symbols: Sequence[Symbol], words: Sequence[str], nodes: Iterable[tuple[int, int, int, int]]
) -> Tree:
    """Rebuild a tree over words from nodes `(symbol, left, right, start)`; leaves have left -1."""
    return restore(symbols, ((a, b, c, words[i] if b < 0 else None) for a, b, c, i in nodes))


def _gather(done: Sequence[Tree | tuple[int, int]], left: int, right: int) -> tuple[Tree, ...]:
    """The children below two places, through half-built phrases of any depth."""
    kids: list[Tree] = []
    ahead = [right, left]
    while ahead:
        node = done[ahead.pop()]
        if isinstance(node, Tree):
            kids.append(node)
        else:
            ahead.extend(reversed(node))
    return tuple(kids)


def _expand(chain: tuple[str, ...], kids: tuple[Any, ...]) -> Tree:
    node = Tree._trusted(chain[-1], kids)
    for label in reversed(chain[:-1]):
        node = Tree._trusted(label, (node,))
    return node


@dataclass(frozen=True)
class Inventory:
    """Symbols, words and rules behind the numbers of a treebank; shared by all its shards."""

    # the symbols of in-terminals and of pre-terminals; a tag's number follows the last phrase's
    phrases: tuple[Symbol, ...]
    tags: tuple[Symbol, ...]
    words: tuple[str, ...]
    rules: Int32Array  # `(a, b, c)` behind each rule number, shape [n_rules, 3]
    transform: Transform
    # on which side the head of each rule lies, 0 left or 1 right, shape [n_rules]
    rule_heads: Int32Array
    symbols: tuple[Symbol, ...] = field(init=False, compare=False)  # in the order of their numbers

    def __post_init__(self) -> None:
        vars(self)["symbols"] = self.phrases + self.tags


class _Template(NamedTuple):
    """A production seen before: its binary nodes as numbers, innermost first."""

    label: tuple[int, ...]
    rule: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]


class _Open(NamedTuple):
    """A phrase whose children are being packed: each as row, symbol number and outermost label."""

    chain: tuple[str, ...]
    ancestors: tuple[str, ...]
    n_kids: int
    kids: list[tuple[int, int, str]]


class Packer:
    """Collects the rows of a stream of cleaned trees; binarised productions are cached.

    Collected rows may be taken away before the end, see `StoredTreebank`.
    """

    def __init__(self, trees: Iterable[Tree], transform: Transform | None = None) -> None:
        self.trees = iter(trees)
        self.transform = transform or Transform()
        self.phrases: dict[Symbol, int] = {}
        self.tags: dict[Symbol, int] = {}
        self.word_numbers: dict[str, int] = {}
        self.rules: dict[tuple[int, int, int], int] = {}
        self.rule_heads: list[int] = []
        self.templates: dict[tuple[Any, ...], _Template] = {}
        self.columns = {name: array("i") for name in COLUMNS}
        self.offsets = array("q", [0])

    def fill(self, n_rows: float = inf) -> bool:
        """Append the rows of trees up to a number of rows; whether there may be more trees.

        The first trees decide between the rules for heads.
        """
        if len(self.offsets) == 1:
            sampled = list(islice(self.trees, _N_SAMPLED))
            if not sampled:
                raise CorpusError(
                    "no tree found", hint="is the file empty, or are all its trees empty?"
                )
            if self.transform.heads == "auto":
                self.transform = replace(self.transform, heads=choose_head_rule(sampled))
            self.trees = concatenate(sampled, self.trees)
        for tree in self.trees:
            self._add(tree)
            if len(self.columns["label"]) >= n_rows:
                return True
        return False

    def take_rows(self) -> dict[str, Int32Array]:
        """The rows collected since they were last taken; tags are numbered -1, -2, ..."""
        taken = {name: np.array(column, dtype=np.int32) for name, column in self.columns.items()}
        self.columns = {name: array("i") for name in COLUMNS}
        return taken

    def _add(self, tree: Tree) -> None:
        """Append the rows of a tree, with a stack instead of recursion, so that depth is no limit.

        Tags are numbered -1, -2, ... until the number of phrases is known.
        """
        transform, labels = self.transform, self.columns["label"]
        self.first, self.position = len(labels), 0
        ahead: list[tuple[Any, tuple[str, ...]]] = [(tree, ())]  # the next node last
        opened: list[_Open] = []
        while ahead:
            node, ancestors = ahead.pop()
            names, kids = [node.label], node.children
            while len(kids) == 1 and not isinstance(kids[0], str):  # nodes over the same words
                names.append(kids[0].label)
                kids = kids[0].children
            if names[0] == ROOT and len(names) > 1 and not opened:
                del names[0]
            chain = tuple(names)
            if not isinstance(kids[0], str):
                below = (
                    child_ancestors(transform, chain, ancestors) if transform.vertical > 1 else ()
                )
                opened.append(_Open(chain, ancestors, len(kids), []))
                ahead.extend([(child, below) for child in kids[::-1]])
                continue
            done = self._leaf(chain, ancestors, kids[0]), labels[-1], chain[0]
            while opened:
                production = opened[-1]
                production.kids.append(done)
                if len(production.kids) < production.n_kids:
                    break
                opened.pop()
                row = self._production(production.chain, production.ancestors, production.kids)
                done = row, labels[-1], production.chain[0]
        self.offsets.append(self.offsets[-1] + len(labels) - self.first)

    def _leaf(self, chain: tuple[str, ...], ancestors: tuple[str, ...], word: str) -> int:
        if len(chain) == 1 and not self.transform.tag_parents:
            ancestors = ()
        tags, words = self.tags, self.word_numbers
        tag = tags.setdefault(Symbol(chain, ancestors), -len(tags) - 1)
        number = words.setdefault(word, len(words))
        self.position += 1
        return self._append(tag, -1, -1, -1, number, self.position - 1)

    def _append(self, label: int, rule: int, left: int, right: int, word: int, start: int) -> int:
        columns = self.columns
        row = len(columns["label"]) - self.first
        columns["label"].append(label)
        columns["rule"].append(rule)
        columns["left"].append(left)
        columns["right"].append(right)
        columns["parent"].append(-1)
        columns["word"].append(word)
        columns["start"].append(start)
        columns["end"].append(self.position)
        return row

    def _production(
        self,
        chain: tuple[str, ...],
        ancestors: tuple[str, ...],
        kids: list[tuple[int, int, str]],
    ) -> int:
        key = (chain, ancestors, *[symbol for _, symbol, _ in kids])
        template = self.templates.get(key)
        if template is None:
            template = self.templates[key] = self._template(chain, ancestors, kids)
        rows = [row for row, _, _ in kids]
        starts, ends, parents = self.columns["start"], self.columns["end"], self.columns["parent"]
        built = -1
        for label, rule, left, right in zip(*template, strict=True):
            b = built if left < 0 else rows[left]
            c = built if right < 0 else rows[right]
            built = self._append(label, rule, b, c, -1, starts[self.first + b])
            ends[self.first + built] = ends[self.first + c]
            parents[self.first + b] = parents[self.first + c] = built
        return built

    def _template(
        self, chain: tuple[str, ...], ancestors: tuple[str, ...], kids: list[tuple[int, int, str]]
    ) -> _Template:
        steps = binarise(self.transform, chain, ancestors, [label for _, _, label in kids])
        numbers = [symbol for _, symbol, _ in kids]
        phrases = self.phrases
        labels = [phrases.setdefault(step.symbol, len(phrases)) for step in steps]
        rules = []
        for place, (step, a) in enumerate(zip(steps, labels, strict=True)):
            b, c = (labels[place - 1] if at < 0 else numbers[at] for at in (step.left, step.right))
            rules.append(self.rules.setdefault((a, b, c), len(self.rules)))
            if rules[-1] == len(self.rule_heads):
                self.rule_heads.append(step.head)
        return _Template(
            tuple(labels), tuple(rules), tuple(s.left for s in steps), tuple(s.right for s in steps)
        )

    def inventory(self) -> Inventory:
        """The symbols, words and rules that were numbered."""
        rules = np.array(list(self.rules), dtype=np.int32).reshape(-1, 3)
        return Inventory(
            phrases=tuple(self.phrases),
            tags=tuple(self.tags),
            words=tuple(self.word_numbers),
            rules=number_tags(rules, len(self.phrases)),
            transform=self.transform,
            rule_heads=np.array(self.rule_heads, dtype=np.int32),
        )


def number_tags(labels: Int32Array, n_phrases: int) -> Int32Array:
    """Give tags, numbered -1, -2, ... while reading, the numbers after the last phrase."""
    return np.where(labels < 0, n_phrases - 1 - labels, labels).astype(np.int32)


def pack_binary_trees(trees: Iterable[Tree], transform: Transform | None = None) -> tuple[Any, ...]:
    """Cleaned trees as rows in memory: the arguments of `Treebank`."""
    packer = Packer(trees, transform)
    packer.fill()
    columns = packer.take_rows()
    columns["label"] = number_tags(columns["label"], len(packer.phrases))
    return packer.inventory(), np.array(packer.offsets, dtype=np.int64), *columns.values()
