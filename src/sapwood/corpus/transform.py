"""From cleaned trees to the trees of the model, and back.

The models know two kinds of nodes only: an in-terminal with exactly two children, and a
pre-terminal with one word. Three reversible steps get there:

- **collapse**: a unary chain becomes one *joint* symbol (`S|VP`, `NP|NN`);
- **annotate**: labels carry their `vertical - 1` nearest ancestors (`NP^S`);
- **binarise**: longer productions are built through intermediate symbols (`@VP:>PP`) that remember
  their `horizontal` next children.

A `Symbol` keeps these parts apart, so going back never has to take a label to pieces, whatever
characters the treebank's own labels contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sapwood.corpus.clean import ROOT
from sapwood.corpus.heads import head_rule
from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError

BINARISATIONS = ("head", "right", "left")
HEADS = ("auto", "penn", "generic")


class Symbol(NamedTuple):
    """One label of the model.

    Attributes
    ----------
    chain
        The treebank labels it stands for, outermost first; an intermediate symbol names its parent.
    ancestors
        The labels above it that it remembers, nearest first.
    context
        For an intermediate symbol, the children it must produce next with their side; else None.
    """

    chain: tuple[str, ...]
    ancestors: tuple[str, ...] = ()
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
        `head` grows each phrase outward from its head child, `right` and `left` branch one way.
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
                msg = f"{name} must be a whole number from {least} up, not {value!r}"
                raise SapwoodError(msg)

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain data, for model files."""
        return asdict(self)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        msg = f"{name} must be one of {', '.join(choices)}, not {value!r}"
        raise SapwoodError(msg)


class Step(NamedTuple):
    """One binary node of a binarised production.

    `left` and `right` are child positions when >= 0; -1 stands for the node built by the step
    before. `head` is the side of the production's head child, 0 left or 1 right.
    """

    symbol: Symbol
    left: int
    right: int
    head: int


def binarise(
    transform: Transform, chain: tuple[str, ...], ancestors: tuple[str, ...], kids: Sequence[str]
) -> list[Step]:
    """Build a production of two or more children as binary nodes, innermost first.

    Parameters
    ----------
    transform
        The settings, with `heads` already decided.
    chain, ancestors
        Of the node whose production this is.
    kids
        The outermost label of each child.
    """
    head = head_rule(transform.heads)(chain[-1], kids)
    order = _attachment_order(transform, head, len(kids))
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


def _attachment_order(transform: Transform, head: int, n: int) -> list[int]:
    """Child positions from the innermost to the outermost."""
    if transform.binarise == "right":
        return list(range(n - 1, -1, -1))
    if transform.binarise == "left":
        return list(range(n))
    return [head, *range(head + 1, n), *range(head - 1, -1, -1)]


def child_ancestors(
    transform: Transform, chain: tuple[str, ...], ancestors: tuple[str, ...]
) -> tuple[str, ...]:
    """What the children of a node remember of what is above them."""
    return (chain[::-1] + ancestors)[: transform.vertical - 1]


def restore(symbols: Sequence[Symbol], nodes: Iterable[tuple[int, int, int, str | None]]) -> Tree:
    """Rebuild the cleaned tree from the nodes of a binary one, children before parents.

    Parameters
    ----------
    symbols
        The symbol behind each symbol number.
    nodes
        `(symbol, left, right, word)`; left and right are places in this sequence, the word is None
        for an in-terminal.

    Returns
    -------
    Tree
        With `TOP` on top, as `clean` leaves it.
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
    return Tree._trusted(ROOT, (top,) if isinstance(top, Tree) else _gather(done, *top))


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


def root_chain(symbol: Symbol) -> tuple[str, ...]:
    """The labels from the root of the restored tree down to the last one of a symbol on top of it.

    Examples
    --------
    >>> root_chain(Symbol(("S", "VP"))), root_chain(Symbol(("TOP", "S")))
    (('TOP', 'S', 'VP'), ('TOP', 'S'))
    """
    if symbol.is_intermediate:
        return (ROOT,)
    return symbol.chain if symbol.chain[0] == ROOT else (ROOT, *symbol.chain)


def _expand(chain: tuple[str, ...], kids: tuple[Any, ...]) -> Tree:
    node = Tree._trusted(chain[-1], kids)
    for label in reversed(chain[:-1]):
        node = Tree._trusted(label, (node,))
    return node
