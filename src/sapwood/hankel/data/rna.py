"""RNA secondary structures: dot-bracket text, and trees that grammars learn from.

    >name                     (P (QG (OG G) (S (U A) (S (U A) (U A)))) (CC C))
    GAAAC
    (...)

Trees are binary. A pair is `P`, of `QG` and the closing base; `QG` is the opening base, a G, and
all that the pair encloses. What stands side by side is `S`, right-branching. Tags of paired bases
name them too, `OG` and `CC`: so one rule, P -> QG CC, says which two bases are paired, and features
of trees, which look at labels, see it.

The brackets alone tell the pairs: of a pair node, the right child is a base, the left child is not,
and the left child's left child is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sapwood.core.errors import CorpusError
from sapwood.corpora.tree import Tree
from sapwood.hankel.data.bracketed import Bracketed, bracket

HINT = "a record is a line >NAME, the bases, and a line of ( ) and . of the same length"
OPEN, CLOSE, FREE = "()."


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
        For a record that is cut short, of two lengths, with other signs, or unbalanced.

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
            raise CorpusError(msg, file=file, line=number, hint=HINT)
        if len(record) == 3:
            name, bases, pairs = record
            yield _check(Structure(name[1:], bases, pairs.split()[0]), file, number)
            record = []
    if record:
        msg = f"the record {record[0][:40]} ends after {len(record)} of its 3 lines"
        raise CorpusError(msg, file=file, line=number, hint=HINT)


def _check(found: Structure, file: str | None, line: int) -> Structure:
    odd = next((column for column, base in enumerate(found.bases) if not base.isalpha()), None)
    if odd is not None:
        msg = f"{found.bases[odd]!r} is no base"
        raise CorpusError(msg, file=file, line=line - 1, column=odd + 1, hint=HINT)
    if len(found.bases) != len(found.pairs):
        msg = f"{len(found.bases)} bases with {len(found.pairs)} signs of pairs"
        raise CorpusError(msg, file=file, line=line, hint=HINT)
    depth = 0
    for column, sign in enumerate(found.pairs, 1):
        if sign not in (OPEN, CLOSE, FREE):
            msg = f"the sign {sign!r} stands for no pair"
            hint = "only ( ) and . are read; leave pseudoknots out"
            raise CorpusError(msg, file=file, line=line, column=column, hint=hint)
        depth += (sign == OPEN) - (sign == CLOSE)
        if depth < 0:
            msg = "a closing bracket without an opening one"
            raise CorpusError(msg, file=file, line=line, column=column, hint=HINT)
    if depth:
        msg = f"{depth} opening brackets are not closed"
        raise CorpusError(msg, file=file, line=line, hint=HINT)
    return found


def structure_tree(bases: str, pairs: str) -> Tree:
    """The tree of a structure; two bases paired side by side enclose nothing, and are left free.

    Examples
    --------
    >>> print(structure_tree("GAC", "(.)"))
    (P (QG (OG G) (U A)) (CC C))
    """
    opened: list[list[Tree]] = [[]]  # what stands side by side, at each depth
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
    """Bases and dot-brackets of a tree; labels are not looked at.

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
    signs = [FREE] * len(found.words)
    split = {(i, j): k for i, k, j in found.splits}
    for i, k, j in found.splits:
        # (Q C) with Q = (O inside): the right child is a base, the left one begins with one
        if j - k == 1 and k - i > 1 and split[i, k] == i + 1:
            signs[i], signs[j - 1] = OPEN, CLOSE
    return "".join(found.words), "".join(signs)
