"""Bracketed strings, and RNA secondary structures as trees whose brackets grammars learn from.

RNA structures are dot-bracket text:

    >name                     (P (QG (OG G) (S (U A) (S (U A) (U A)))) (CC C))
    GAAAC
    (...)

Trees are binary. The node `P` of a pair of bases has two children: `QG`, which holds the opening
base, a G, and everything that the pair encloses, and the closing base. Neighbours at one depth are
joined by `S`, right-branching. Tags of paired bases have the base in their names, `OG` and `CC`, so
the rule P -> QG CC names the two bases of the pair, and features of labels see it.

The pairs can be read off the brackets without labels: the right child of a pair node is a base, its
left child is not a base, and the left child of that is a base.

Constraints on the pairs of a string are written in the same notation, with more signs:

    ( )    these two are a pair           |    in some pair
    x      in no pair                     <    in a pair with a later symbol
    .      nothing is known               >    in a pair with an earlier symbol
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, count
from sapwood.corpora.tree import Tree

LABEL = "X"  # of every node of a tree without labels
RECORD_HINT = "a record is a line >NAME, the bases, and a line of ( ) and . of the same length"
OPEN, CLOSE, FREE = "()."
UNPAIRED, PAIRED, PAIRED_LATER, PAIRED_EARLIER = "x|<>"
SIGNS_HINT = (
    "one sign a symbol: ( ) a pair, x in no pair, . free, | in some pair, < with a later symbol, "
    "> with an earlier one"
)


class Bracketed(NamedTuple):
    """A string with its binary brackets."""

    words: tuple[str, ...]  # the string
    # nodes with two children as (start, split, end), children before parents; one less than words
    splits: tuple[tuple[int, int, int], ...]

    def tree(self) -> Tree:
        """The tree, all of whose labels are the same.

        Examples
        --------
        >>> print(Bracketed(("a", "b", "c"), ((1, 2, 3), (0, 1, 3))).tree())
        (X (X a) (X (X b) (X c)))
        """
        done = {(i, i + 1): Tree(LABEL, word) for i, word in enumerate(self.words)}
        for i, k, j in self.splits:
            done[i, j] = Tree(LABEL, (done.pop((i, k)), done.pop((k, j))))
        return done[0, len(self.words)]


def bracket(tree: Tree) -> tuple[Bracketed, int]:
    """The binary brackets of a tree without its labels, and the number of its wide nodes.

    Nodes with one child are dropped; nodes with more than two are wide, and split to the right.

    Examples
    --------
    >>> bracket(Tree.parse("(S (A a) (B (C b) (D c)))"))[0].splits
    ((1, 2, 3), (0, 1, 3))
    >>> bracket(Tree.parse("(S (A a) (B b) (C c))"))
    (Bracketed(words=('a', 'b', 'c'), splits=((1, 2, 3), (0, 1, 3))), 1)
    """
    words = [node.word for node in tree.preterminals()]
    splits: list[tuple[int, int, int]] = []
    n_wide, position = 0, len(words)
    done: list[int] = []  # starts of finished nodes, the leftmost last
    for node in reversed(list(tree.nodes())):
        if node.is_preterminal:
            position -= 1
            done.append(position)
            continue
        n_kids = len(node.children)
        starts = done[: -n_kids - 1 : -1]  # of its children, from left to right
        end = done[-n_kids - 1] if len(done) > n_kids else len(words)
        n_wide += n_kids > 2
        splits += [(starts[c - 1], starts[c], end) for c in range(n_kids - 1, 0, -1)]
        del done[len(done) - n_kids + 1 :]
        done[-1] = starts[0]
    return Bracketed(tuple(words), tuple(splits)), n_wide


def from_splits(words: Sequence[str], split_of: dict[tuple[int, int], int]) -> Bracketed:
    """The bracketed string whose span [i, j) is split at `split_of[i, j]`."""
    splits, waiting = [], [(0, len(words))]
    while waiting:
        i, j = waiting.pop()
        if j - i > 1:
            k = split_of[i, j]
            splits.append((i, k, j))
            waiting += [(i, k), (k, j)]
    return Bracketed(tuple(words), tuple(reversed(splits)))


def right_branching(words: Sequence[str]) -> Bracketed:
    """The right-branching brackets of a string."""
    n = len(words)
    return Bracketed(tuple(words), tuple((i, i + 1, n) for i in range(n - 2, -1, -1)))


class Structure(NamedTuple):
    """A sequence of bases with its pairs in dot-bracket form."""

    name: str
    bases: str
    pairs: str


def read_structures(lines: Iterable[str], file: str | None = None) -> Iterator[Structure]:
    """Records of three lines: `>name`, bases, dots and brackets.

    Raises
    ------
    CorpusError
        For a record that is incomplete, unbalanced, has two lengths, or has other signs.

    Examples
    --------
    >>> list(read_structures([">x", "GAAAC", "(...)"]))
    [Structure(name='x', bases='GAAAC', pairs='(...)')]
    """
    record: list[str] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record.append(line.strip())
        if len(record) == 1 and not record[0].startswith(">"):
            msg = f"expected a name such as >x, found {record[0][:40]!r}"
            raise CorpusError(msg, file=file, line=number, hint=RECORD_HINT)
        if len(record) == 3:
            name, bases, pairs = record
            yield _check(Structure(name[1:], bases, pairs.split()[0]), file, number)
            record = []
    if record:
        msg = f"the record {record[0][:40]} ends after {len(record)} of its 3 lines"
        raise CorpusError(msg, file=file, line=number, hint=RECORD_HINT)


def _check(found: Structure, file: str | None, line: int) -> Structure:
    odd = next((column for column, base in enumerate(found.bases) if not base.isalpha()), None)
    if odd is not None:
        msg = f"{found.bases[odd]!r} is no base"
        raise CorpusError(msg, file=file, line=line - 1, column=odd + 1, hint=RECORD_HINT)
    if len(found.bases) != len(found.pairs):
        msg = f"{len(found.bases)} bases with {len(found.pairs)} signs of pairs"
        raise CorpusError(msg, file=file, line=line, hint=RECORD_HINT)
    depth = 0
    for column, sign in enumerate(found.pairs, 1):
        if sign not in (OPEN, CLOSE, FREE):
            msg = f"the sign {sign!r} stands for no pair"
            hint = "only ( ) and . are read; leave pseudoknots out"
            raise CorpusError(msg, file=file, line=line, column=column, hint=hint)
        depth += (sign == OPEN) - (sign == CLOSE)
        if depth < 0:
            msg = "a closing bracket without an opening one"
            raise CorpusError(msg, file=file, line=line, column=column, hint=RECORD_HINT)
    if depth:
        msg = f"{depth} opening brackets are not closed"
        raise CorpusError(msg, file=file, line=line, hint=RECORD_HINT)
    return found


def structure_tree(bases: str, pairs: str) -> Tree:
    """The tree of a structure; neighbouring bases that are paired count as unpaired.

    Examples
    --------
    >>> print(structure_tree("GAC", "(.)"))
    (P (QG (OG G) (U A)) (CC C))
    """
    opened: list[list[Tree]] = [[]]  # neighbouring trees, at each depth
    starts: list[int] = []
    for place, (base, sign) in enumerate(zip(bases, pairs, strict=True)):
        if sign == OPEN:
            opened.append([])
            starts.append(place)
        elif sign == FREE:
            opened[-1].append(Tree("U", base))
        else:
            inner, first = opened.pop(), bases[starts.pop()]
            if inner:
                left = Tree(f"Q{first}", (Tree(f"O{first}", first), _sequence(inner)))
                opened[-1].append(Tree("P", (left, Tree(f"C{base}", base))))
            else:
                opened[-1] += [Tree("U", first), Tree("U", base)]
    return _sequence(opened[0])


def _sequence(items: Sequence[Tree]) -> Tree:
    tree = items[-1]
    for item in reversed(items[:-1]):
        tree = Tree("S", (item, tree))
    return tree


def tree_structure(tree: Tree | Bracketed) -> tuple[str, str]:
    """Bases and dot-brackets of a tree, from its brackets without labels.

    Raises
    ------
    CorpusError
        For a word that is no base.

    Examples
    --------
    >>> tree_structure(structure_tree("AGAACA", ".(..)."))
    ('AGAACA', '.(..).')
    """
    found = tree if isinstance(tree, Bracketed) else bracket(tree)[0]
    for word in found.words:
        if len(word) != 1 or not word.isalpha():
            msg = f"the word {word[:40]!r} of a tree is no base"
            raise CorpusError(msg, hint="a base is one letter: is it the tree of a structure?")
    return "".join(found.words), pair_signs(found)


def pair_signs(found: Bracketed) -> str:
    """The pairs of a bracketed string, a sign for each symbol.

    Examples
    --------
    >>> pair_signs(Bracketed(("G", "A", "C"), ((0, 1, 2), (0, 2, 3))))
    '(.)'
    """
    signs = [FREE] * len(found.words)
    split = {(i, j): k for i, k, j in found.splits}
    for i, k, j in found.splits:
        # (Q C) with Q = (O inside): the right child is a base, the left one begins with one
        if j - k == 1 and k - i > 1 and split[i, k] == i + 1:
            signs[i], signs[j - 1] = OPEN, CLOSE
    return "".join(signs)


class PairConstraints(NamedTuple):
    """Which symbols of a string may be a pair, and which must be in one.

    Attributes
    ----------
    signs
        The notation; see the top of this module.
    ok : [n, n]
        1 where the first and the second symbol may be a pair, else 0.
    free : [n]
        1 where a symbol may be in no pair, else 0.
    """

    signs: str
    ok: npt.NDArray[np.float64]
    free: npt.NDArray[np.float64]

    @classmethod
    def parse(cls, text: str, n: int) -> PairConstraints:
        """The constraints of some signs for a string of n symbols, blanks between signs left out.

        Raises
        ------
        CorpusError
            For another number of signs, other signs, brackets that do not match, and pairs of
            neighbours; it knows the column.

        Examples
        --------
        >>> PairConstraints.parse("(.x)", 4).free.tolist()
        [0.0, 1.0, 1.0, 0.0]
        """
        columns = [column for column, sign in enumerate(text, 1) if not sign.isspace()]
        signs = "".join(text.split())
        for column, sign in zip(columns, signs, strict=True):
            if sign not in (OPEN, CLOSE, FREE, UNPAIRED, PAIRED, PAIRED_LATER, PAIRED_EARLIER):
                msg = f"the sign {sign!r} says nothing about pairs"
                raise CorpusError(msg, column=column, hint=SIGNS_HINT)
        if len(signs) != n:
            column = columns[n] if len(signs) > n else len(text.rstrip()) + 1
            msg = f"{count(len(signs), 'sign')} for a string of {count(n, 'symbol')}"
            raise CorpusError(msg, column=column, hint=SIGNS_HINT)
        ok, free = np.triu(np.ones((n, n)), 2), np.ones(n)
        for place, sign in enumerate(signs):
            free[place] = sign in (FREE, UNPAIRED)
            if sign in (UNPAIRED, PAIRED_EARLIER):
                ok[place] = 0.0
            if sign in (UNPAIRED, PAIRED_LATER):
                ok[:, place] = 0.0
        for first, last in _match_brackets(signs, columns):
            ok[[first, last]] = 0.0
            ok[:, [first, last]] = 0.0
            ok[first, last] = 1.0
        return cls(signs, ok, free)

    def requests(self) -> list[PairRequest]:
        """What the signs say of each symbol or pair.

        Examples
        --------
        >>> print(*PairConstraints.parse("(<.)", 4).requests(), sep="; ")
        symbol 2 (<) in a pair with a later one; the pair of symbols 1 and 4
        """
        alone = [
            PairRequest(place, place, sign)
            for place, sign in enumerate(self.signs)
            if sign in _MEANING
        ]
        columns = range(1, len(self.signs) + 1)
        return alone + [PairRequest(i, j, OPEN) for i, j in _match_brackets(self.signs, columns)]

    def only(self, requests: Iterable[PairRequest]) -> PairConstraints:
        """The constraints of some of the requests alone."""
        signs = [FREE] * len(self.signs)
        for first, last, sign in requests:
            signs[last] = CLOSE
            signs[first] = sign
        return PairConstraints.parse("".join(signs), len(signs))


_MEANING = {
    UNPAIRED: "in no pair", PAIRED: "in some pair", PAIRED_LATER: "in a pair with a later one",
    PAIRED_EARLIER: "in a pair with an earlier one",
}  # fmt: skip


class PairRequest(NamedTuple):
    """A constraint on one symbol, or that two symbols are a pair; positions count from 0."""

    first: int
    last: int
    sign: str

    def __str__(self) -> str:
        if self.sign == OPEN:
            return f"the pair of symbols {self.first + 1} and {self.last + 1}"
        return f"symbol {self.first + 1} ({self.sign}) {_MEANING[self.sign]}"


def _match_brackets(signs: str, columns: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Positions of matching brackets; `columns` are the columns for messages."""
    opened: list[int] = []
    for place, sign in enumerate(signs):
        if sign == OPEN:
            opened.append(place)
        elif sign == CLOSE:
            if not opened:
                msg = "a closing bracket without an opening one"
                raise CorpusError(msg, column=columns[place], hint=SIGNS_HINT)
            first = opened.pop()
            if place == first + 1:
                msg = "neighbours cannot be a pair: a pair encloses at least one symbol"
                raise CorpusError(msg, column=columns[first], hint="put other signs there")
            yield first, place
    if opened:
        msg = "an opening bracket that is not closed"
        raise CorpusError(msg, column=columns[opened[-1]], hint=SIGNS_HINT)
