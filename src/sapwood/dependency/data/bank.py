"""`Arcs`, the dependency tree that people see, and `ArcBank`, all trees as packed arrays.

Notation
--------
A word of a sentence is a row; the rows of a sentence are contiguous, in the order of its words.

    word, upos, xpos   numbers of the word, the universal tag, the tag of the treebank
    head               position of the head in the sentence, from 1 on; 0 for the root; -1 in
                       sentences without a parse
    relation           number of the relation to the head
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import Int32Array, IntArray, RaggedBank, shard_cuts
from sapwood.core.errors import (
    CorpusError,
    SapwoodError,
    SapwoodTypeError,
    SapwoodValueError,
    as_items,
    count,
    describe,
)

if TYPE_CHECKING:
    import conllu

# the argument of `as_arc_bank`: sentences, names of files, or the name of one file or folder
ArcBankLike = Iterable[Any] | str | Path
# words, universal tags, tags of the treebank, heads, relations, and the CoNLL-U lines or nothing
SentenceColumns = tuple[
    Sequence[str], Sequence[str], Sequence[str], Sequence[int], Sequence[str], str
]
EMPTY = "_"  # an empty column
N_CONLLU_COLUMNS = 10
ID, FORM, LEMMA, UPOS, XPOS, FEATURES, HEAD, RELATION, DEPS, MISC = range(N_CONLLU_COLUMNS)
UNPARSED = -1
# Shards are cut by the size of the data, so sums are the same on any number of workers.
SHARD_TOKENS = 25_000


@dataclass(frozen=True)
class Arcs:
    r"""One sentence with the head of each word.

    Parameters
    ----------
    words
        They may contain blanks.
    heads
        Position of each word's head, from 1 on; 0 for the root. All -1 before parsing.
    relations, upos, xpos
        One for each word; by default `dep` (`root` for the root) and `_`.
    comments
        The lines before the sentence, each with its `#`.
    rows
        All ten columns of all rows of the CoNLL-U file, with multiword tokens and empty nodes; the
        other fields override them.

    Examples
    --------
    >>> arcs = Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])
    >>> print(str(arcs).replace("\t", " "))
    1 dogs _ NOUN _ _ 2 nsubj _ _
    2 bark _ VERB _ _ 0 root _ _
    >>> Arcs.parse(str(arcs)) == arcs
    True
    >>> arcs.is_projective()
    True
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...] = ()
    upos: tuple[str, ...] = ()
    xpos: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("words", "heads", "relations", "upos", "xpos", "comments", "rows"):
            given = as_items(getattr(self, name), f"a list of {name}")
            object.__setattr__(self, name, tuple(given))
        object.__setattr__(self, "heads", tuple(int(head) for head in self.heads))
        blank = (EMPTY,) * len(self.words)
        named = tuple("root" if head == 0 else "dep" for head in self.heads)
        usual = {"relations": named if self.is_parsed else blank, "upos": blank, "xpos": blank}
        for name, column in usual.items():
            if not getattr(self, name):
                object.__setattr__(self, name, column)
        self._check()

    def _check(self) -> None:
        n = len(self.words)
        if not n:
            msg = "an empty sentence has no dependency tree"
            raise SapwoodValueError(msg, hint="give at least one word")
        for name in ("heads", "relations", "upos", "xpos"):
            if len(getattr(self, name)) != n:
                msg = f"{count(n, 'word')} with {len(getattr(self, name))} {name}"
                raise SapwoodValueError(msg, hint=f"give {name} for each word")
        for name in ("words", "relations", "upos", "xpos"):
            for text in getattr(self, name):
                check_cell(text, name)
        if self.is_parsed and (problem := heads_problem(self.heads)) is not None:
            raise SapwoodValueError(problem.message, hint=problem.hint)

    @classmethod
    def parse(cls, text: str) -> Arcs:
        """Read exactly one sentence of CoNLL-U; any other text is a `CorpusError`."""
        from sapwood.dependency.data.reader import parse_conllu

        return parse_conllu(text)

    @classmethod
    def from_tokens(cls, tokens: conllu.TokenList) -> Arcs:
        """Convert from the `TokenList` of the library conllu."""
        return cls.parse(tokens.serialize())

    def to_tokens(self) -> conllu.TokenList:
        """Convert to the `TokenList` of the library conllu, with features as dictionaries."""
        try:
            from conllu import parse
        except ImportError as error:
            msg = "to_tokens makes objects of the package conllu, which is not installed"
            raise SapwoodError(msg, hint="pip install conllu, or use str(arcs)") from error
        return parse(f"{self}\n\n")[0]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def is_parsed(self) -> bool:
        """Whether words have heads."""
        return not self.heads or self.heads[0] != UNPARSED

    def is_projective(self) -> bool:
        """Whether every word and all its descendants are contiguous."""
        from sapwood.dependency.data.transform import is_projective

        return is_projective(self.heads)

    def __str__(self) -> str:
        """The lines of CoNLL-U, without the blank line that ends a sentence."""
        return "\n".join([*self.comments, *("\t".join(row) for row in self.all_rows())])

    def all_rows(self) -> list[list[str]]:
        """The rows of CoNLL-U, ten columns each."""
        columns = zip(self.words, self.upos, self.xpos, self.heads, self.relations, strict=True)
        own = iter(enumerate(columns, 1))
        rows = [list(row) for row in self.rows] or [[EMPTY] * N_CONLLU_COLUMNS for _ in self.words]
        for row in rows:
            if not row[ID].isdecimal() and row[ID] != EMPTY:
                continue  # a multiword token or an empty node
            place, (word, upos, xpos, head, relation) = next(own)
            row[ID], row[FORM], row[UPOS], row[XPOS] = str(place), word, upos, xpos
            row[HEAD] = EMPTY if head == UNPARSED else str(head)
            row[RELATION] = relation
        return rows

    def draw(self, *, colour: bool = False) -> str:
        """Draw the tree as lines of text: one word per line, heads as bars beside their dependents.

        Parameters
        ----------
        colour
            Whether to mark lines and relations with ANSI colours.
        """
        from sapwood.dependency.data.draw import arcs_text

        return arcs_text(self, colour=colour)

    def to_svg(self) -> str:
        """Draw the tree as a self-contained SVG document, arcs over the words."""
        from sapwood.dependency.data.draw import arcs_svg

        return arcs_svg(self)

    def _repr_svg_(self) -> str | None:
        """The drawing for a notebook; None for a sentence that is not parsed."""
        return self.to_svg() if self.is_parsed else None

    def to_latex(self) -> str:
        """The tree as an environment of the LaTeX package tikz-dependency."""
        from sapwood.dependency.data.draw import arcs_latex

        return arcs_latex(self)


def check_cell(text: object, name: str) -> None:
    """Refuse a text that cannot be a cell of CoNLL-U."""
    if not isinstance(text, str):
        raise SapwoodTypeError(f"{name} are strings, not {describe(text)}")
    if not text or "\t" in text or "\n" in text or "\r" in text:
        msg = f"{text!r} cannot stand among the {name}: it is empty, or holds a tab or a line end"
        raise SapwoodValueError(msg, hint="an empty column is written _")


@dataclass(frozen=True)
class HeadsProblem:
    """Why heads are no tree: the position of a word, from 1 on, a message and a hint."""

    place: int
    message: str
    hint: str


def heads_problem(heads: Sequence[int]) -> HeadsProblem | None:
    """The first reason why heads are no tree with one root; None for a tree.

    Examples
    --------
    >>> heads_problem([2, 0]) is None
    True
    >>> heads_problem([2, 1, 0]).message
    'words 1 and 2 depend on each other in a cycle'
    """
    n = len(heads)
    root = 0
    for place, head in enumerate(heads, 1):
        if not 0 <= head <= n:
            msg = f"word {place} has the head {head}, but the sentence has {count(n, 'word')}"
            return HeadsProblem(
                place, msg, "heads are positions of words, from 1 on; 0 is the root"
            )
        if head == place:
            msg = f"word {place} is its own head"
            return HeadsProblem(place, msg, "the root of the sentence has the head 0")
        if head == 0 and root:
            msg = f"two roots: words {root} and {place} have the head 0"
            return HeadsProblem(place, msg, "let one of them depend on the other")
        root = place if head == 0 else root
    # Walk up from each word to a word visited before; one of the same walk closes a cycle.
    walk = [0] * (n + 1)
    walk[0] = -1
    for start in range(1, n + 1):
        place = start
        while not walk[place]:
            walk[place] = start
            place = heads[place - 1]
        if walk[place] == start and place:
            a, b = sorted((place, heads[place - 1]))
            msg = f"words {a} and {b} depend on each other in a cycle"
            return HeadsProblem(place, msg, "each word must lead up to the root")
    return None


@dataclass(frozen=True, eq=False, repr=False)
class ArcBank(RaggedBank[Arcs]):
    """Packed dependency trees; slices are views and copy nothing.

    For people it is a sequence of sentences: `bank[0]` is an `Arcs`, `bank[:100]` and
    `bank[[3, 5, 8]]` are banks, and a loop over it gives its sentences.

    Attributes
    ----------
    words, upos_names, xpos_names, relations
        Names of the numbers in the columns, in the order in which they were first seen.
    offsets
        Row of the first word of each sentence, and the number of rows at the end.
    word, upos, xpos, head, relation
        One number per word; see the notation of this module.
    texts
        The CoNLL-U lines of each sentence, for features that have no column here; empty if there
        are none. Columns override them.
    n_tokens
        Number of words, counted with repetition.

    Examples
    --------
    >>> bank = ArcBank.of([Arcs(["dogs", "bark"], [2, 0])])
    >>> bank.offsets.tolist(), bank.head.tolist(), bank.words
    ([0, 2], [2, 0], ('dogs', 'bark'))
    >>> bank[0].relations
    ('dep', 'root')
    >>> bank
    <ArcBank: 1 sentence, 2 words; 2 relations>
    """

    words: tuple[str, ...]
    upos_names: tuple[str, ...]
    xpos_names: tuple[str, ...]
    relations: tuple[str, ...]
    offsets: npt.NDArray[np.int64]
    word: Int32Array
    upos: Int32Array
    xpos: Int32Array
    head: Int32Array
    relation: Int32Array
    texts: tuple[str, ...] = ()
    n_sentences: int = field(init=False)
    n_tokens: int = field(init=False)  # number of words, counted with repetition

    COLUMNS: ClassVar[tuple[str, ...]] = ("word", "upos", "xpos", "head", "relation")
    NAME: ClassVar[str] = "bank"
    ITEM: ClassVar[str] = "sentence"

    @classmethod
    def of(cls, sentences: Iterable[Arcs]) -> ArcBank:
        """Pack some sentences into a bank."""

        def columns() -> Iterator[SentenceColumns]:
            for arcs in as_items(sentences, "several sentences of arcs"):
                if not isinstance(arcs, Arcs):
                    msg = f"expected Arcs, not {describe(arcs)}"
                    raise SapwoodTypeError(msg, hint="files are read by sapwood.read_arcs(path)")
                text = str(arcs) if arcs.rows or arcs.comments else ""
                yield arcs.words, arcs.upos, arcs.xpos, arcs.heads, arcs.relations, text

        return cls.pack(columns())

    @classmethod
    def pack(cls, sentences: Iterable[SentenceColumns]) -> ArcBank:
        """Number the names in the columns of sentences that were checked, and pack them."""
        names: dict[str, dict[str, int]] = {key: {} for key in ("word", "upos", "xpos", "relation")}
        columns = {key: array("i") for key in cls.COLUMNS}
        offsets, texts = array("q", [0]), []
        for words, upos, xpos, heads, relations, text in sentences:
            for key, cells in zip(names, (words, upos, xpos, relations), strict=True):
                numbers = names[key]
                columns[key].extend([numbers.setdefault(cell, len(numbers)) for cell in cells])
            columns["head"].extend(heads)
            offsets.append(offsets[-1] + len(words))
            texts.append(text)
        fields = ("words", "upos_names", "xpos_names", "relations")
        packed: dict[str, Any] = dict(zip(fields, map(tuple, names.values()), strict=True))
        packed |= {key: np.array(column, np.int32) for key, column in columns.items()}
        packed["texts"] = tuple(texts) if any(texts) else ()
        return cls(offsets=np.array(offsets, np.int64), **packed)

    def __post_init__(self) -> None:
        n_tokens = int(self.offsets[-1] - self.offsets[0])
        vars(self).update(n_sentences=len(self.offsets) - 1, n_tokens=n_tokens)

    def __repr__(self) -> str:
        sizes = f"{count(len(self), 'sentence')}, {count(self.n_tokens, 'word')}"
        return f"<ArcBank: {sizes}; {count(len(self.relations), 'relation')}>"

    def _cut(
        self, offsets: IntArray, rows: slice | IntArray, items: slice | IntArray, **more: Any
    ) -> Self:
        if isinstance(items, slice):
            texts = self.texts[items]
        else:
            texts = tuple(self.texts[item] for item in items.tolist()) if self.texts else ()
        return super()._cut(offsets, rows, items, texts=texts, **more)

    def shards(self, n: int | None = None) -> list[ArcBank]:
        """Cut into at most n parts with about equally many words, without their texts."""
        n = -(-self.n_tokens // SHARD_TOKENS) if n is None else n
        bare = replace(self, texts=())
        return [bare.run(first, last) for first, last in shard_cuts(self.offsets, n)]

    def digest(self) -> str:
        """A hash of all trees, their order and their numbering."""
        return self._digest([self.words, self.upos_names, self.xpos_names, self.relations])

    def arcs(self, index: int) -> Arcs:
        """One sentence, the same as `bank[index]`."""
        return self.item(index)

    def item(self, index: int) -> Arcs:
        """One sentence, with the comments and columns of its file."""
        rows = self.rows(index)
        comments, cells = cells_of(self.texts[index]) if self.texts else ((), ())
        return Arcs(
            _names(self.words, self.word[rows]), tuple(self.head[rows].tolist()),
            _names(self.relations, self.relation[rows]), _names(self.upos_names, self.upos[rows]),
            _names(self.xpos_names, self.xpos[rows]), comments, cells,
        )  # fmt: skip

    def sentence(self, index: int) -> list[str]:
        """The words of one sentence."""
        return list(_names(self.words, self.word[self.rows(index)]))

    def sentences(self) -> list[list[str]]:
        """The words of each sentence."""
        words = [self.words[number] for number in self.word.tolist()]
        return [words[first:end] for first, end in pairwise(self.offsets.tolist())]


def _names(names: Sequence[str], numbers: Int32Array) -> tuple[str, ...]:
    return tuple(names[number] for number in numbers.tolist())


def cells_of(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The comments and the cells of the CoNLL-U lines of a sentence."""
    lines = text.split("\n") if text else []
    comments = tuple(line for line in lines if line.startswith("#"))
    return comments, tuple(tuple(line.split("\t")) for line in lines[len(comments) :])


def as_arc_bank(source: ArcBankLike) -> ArcBank:
    """A bank from a bank, from sentences, or from names of files."""
    from sapwood.dependency.data.reader import read_arcs

    if isinstance(source, ArcBank):
        return source
    if isinstance(source, (str, Path)):
        return read_arcs(source)
    if isinstance(source, Iterable) and not isinstance(source, (bytes, Arcs)):
        items = list(source)
        if items and all(isinstance(item, (str, Path)) for item in items):
            return read_arcs(items)
        return ArcBank.of(items)
    msg = f"expected dependency trees, not {describe(source)}"
    raise CorpusError(msg, hint="give an ArcBank, a list of Arcs, or the path of a file or folder")
