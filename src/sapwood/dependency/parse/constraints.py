"""What a user already knows about a dependency tree: tags, heads and relations of some words.

A word whose head is given keeps a single arc. The trees over the remaining arcs are exactly the
trees that satisfy the constraints, so sums over their forest are conditional on the constraints.

Some sets of heads are in no projective tree with one root. Two heads clash where

    a word has a head outside the sentence, or is its own head
    two words have the head 0
    words depend on each other in a cycle
    two arcs cross, or one passes over the word at the root (it crosses the arc of the root)
    an arc (h, m) passes over g, and the arc (g, h) is given too

If no two heads clash, there is a tree, and `_complete` builds one: a word without a head that no
arc passes over becomes the root; the other words without a head depend on it, or on the head of
the shortest arc that passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sapwood.core.arrays import BoolArray, FloatArray, Int32Array, starts_of
from sapwood.core.errors import SapwoodError, count, describe, join_words, nearest_names
from sapwood.dependency.data.bank import EMPTY, UNPARSED, Arcs
from sapwood.dependency.model.arc_model import TagLexicon

T = TypeVar("T")
TagPair = tuple[str, str]  # universal tag, tag of the treebank; `_` for any
TagRequest = str | TagPair | Mapping[Any, float] | None  # keys are tags or pairs
ROOT_RELATION = "root"
CONLLU_TAG_COLUMNS = ("UPOS", "XPOS")


class PartialArcs(NamedTuple):
    """A sentence with tags, heads and relations that are given; see `ArcParser.parse`."""

    sentence: Sequence[str] | Arcs
    tags: Sequence[TagRequest] | None = None
    heads: Sequence[int | None] | None = None
    relations: Sequence[str | None] | None = None


class ArcConstraintError(SapwoodError):
    """A constraint that a parser cannot satisfy; `words` has its words' numbers, from 1 on."""

    def __init__(self, message: str, *, words: tuple[int, ...] = (), hint: str) -> None:
        super().__init__(message, hint=hint)
        self.words = words


class _TagOption(NamedTuple):
    """A tag that a word may have: the numbers of its pairs of tags, and its probability."""

    numbers: tuple[int, ...]
    probability: float


@dataclass(frozen=True, eq=False)
class ArcConstraints:
    """Tags, heads and relations of one sentence; made by `constrain_arcs`.

    Attributes
    ----------
    tags
        For each word None, or the tags that it may have; None where no word has any.
    names
        The universal tag and the tag of the treebank that are kept for each word; `_` for neither.
    heads : [n]
        -1 where the head is free.
    relations : [n]
        Number of the relation, -1 where it is free.
    asked, allowed : [n + 1, n]
        The heads that the user leaves to each word, and those of them that some tree with all
        constraints may have.
    tree : [n + 1]
        The heads of one such tree, behind that of the root.
    """

    tags: tuple[tuple[_TagOption, ...] | None, ...] | None
    names: tuple[TagPair, ...]
    heads: Int32Array
    relations: Int32Array
    asked: BoolArray = field(repr=False)
    allowed: BoolArray = field(repr=False)
    tree: Int32Array = field(repr=False)

    @property
    def has_arcs(self) -> bool:
        """Whether some head of some word is excluded."""
        n = len(self.heads)
        return int(self.asked.sum()) < n * n

    def tag_factors(self, n_tags: int) -> FloatArray | None:
        """The factor of each tag's probability for each word, [n, n_tags], the largest 1."""
        if self.tags is None:
            return None
        factors = np.ones((len(self.tags), n_tags))
        for word, options in enumerate(self.tags):
            if options is not None:
                factors[word] = 0.0
                for numbers, p in options:
                    factors[word, list(numbers)] += p
                factors[word] /= factors[word].max()
        return factors

    def tag_candidates(
        self, types: Int32Array, lexicon: TagLexicon, n_tags: int
    ) -> tuple[TagLexicon, FloatArray]:
        """A lexicon with a row for each word of the sentence, and the log of each entry's factor.

        A requested tag allows those of its pairs that the lexicon lists for the word, or all of its
        pairs where the lexicon lists none.
        """
        assert self.tags is not None
        rows: list[list[int]] = []
        for kind, options in zip(types.tolist(), self.tags, strict=True):
            listed = lexicon.candidates[lexicon.starts[kind] : lexicon.starts[kind + 1]].tolist()
            if options is not None:
                own = [[x for x in numbers if x in listed] or numbers for numbers, _ in options]
                listed = sorted({x for numbers in own for x in numbers})
            rows.append(listed)
        sizes = [len(row) for row in rows]
        candidates = np.array([x for row in rows for x in row], np.int32)
        found = TagLexicon(lexicon.words, starts_of(sizes).astype(np.int32), candidates)
        factors = self.tag_factors(n_tags)
        assert factors is not None
        return found, np.log(factors[np.repeat(np.arange(len(rows)), sizes), candidates])

    def keep_names(
        self, upos: Sequence[str], xpos: Sequence[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tags of the words; given tags replace predicted tags."""
        rows = zip(self.names, upos, xpos, strict=True)
        kept = [(u if u != EMPTY else a, x if x != EMPTY else b) for (u, x), a, b in rows]
        universal, own = zip(*kept, strict=True)
        return universal, own


def constrain_arcs(
    n: int,
    tag_names: Sequence[TagPair],
    relation_names: Sequence[str],
    tags: Sequence[TagRequest] | None = None,
    heads: Sequence[int | None] | None = None,
    relations: Sequence[str | None] | None = None,
) -> ArcConstraints | None:
    """Check the constraints on a sentence of n words; None if nothing is constrained.

    A word with the relation `root` has the head 0, and no other may be given. A word with another
    relation has not, where another word can be the root.

    Parameters
    ----------
    tag_names, relation_names
        The pairs of tags and the relations of the model.
    tags
        For each word None, a tag, a pair of tags, or a dictionary of tags with probabilities.
    heads
        For each word None or the place of its head, from 1 on; 0 is the root.
    relations
        For each word None or its relation.

    Raises
    ------
    ArcConstraintError
        If a name is unknown, or two requests contradict each other: the message names both.
    """
    options, names = _check_tags(n, tuple(tag_names), tags)
    numbers = _check_relations(n, relation_names, relations)
    given = _check_heads(n, heads)
    for place, number in enumerate(numbers.tolist(), 1):
        if number >= 0 and relation_names[number] == ROOT_RELATION:
            _refuse_second_root(place, given)
            given[place - 1] = 0
    _refuse_clashes(given)
    if options is None and (given < 0).all() and (numbers < 0).all():
        return None
    asked = np.ones((n + 1, n), bool)
    asked[np.arange(1, n + 1), np.arange(n)] = False
    for word in np.flatnonzero(given >= 0).tolist():
        asked[:, word] = False
        asked[given[word], word] = True
    tops = _possible_roots(given)
    if ROOT_RELATION in relation_names:
        is_below = (numbers >= 0) & (numbers != relation_names.index(ROOT_RELATION)) & (given < 0)
        others = [word for word in tops if not is_below[word - 1]]
        if others:
            tops = others
            asked[0, is_below] = False
    allowed = asked & _compatible(given)
    return ArcConstraints(options, names, given, numbers, asked, allowed, _complete(given, tops))


# -- tags and relations ---------------------------------------------------------------------------


def _check_tags(
    n: int, known: tuple[TagPair, ...], tags: Sequence[TagRequest] | None
) -> tuple[tuple[tuple[_TagOption, ...] | None, ...] | None, tuple[TagPair, ...]]:
    """The tags that each word may have, and the given tags, which are kept."""
    names = [(EMPTY, EMPTY)] * n
    entries = _entries(n, tags, "tags")
    options: list[tuple[_TagOption, ...] | None] = []
    for place, entry in enumerate(entries, 1):
        if entry is None or entry == (EMPTY, EMPTY):
            options.append(None)
            continue
        soft = entry if isinstance(entry, Mapping) else {entry: 1.0}
        found = []
        for tag, p in soft.items():
            if not isinstance(p, (int, float)) or not 0.0 <= p < np.inf:
                raise ArcConstraintError(
                    f"the probability of {tag} for word {place} is {describe(p)}",
                    words=(place,), hint="give a number of at least 0",
                )  # fmt: skip
            pair = _tag_pair(tag, known, place)
            found.append(_TagOption(_matching(pair, known), float(p)))
            if soft is not entry:
                names[place - 1] = pair
        if not sum(option.probability for option in found) > 0.0:
            raise ArcConstraintError(
                f"word {place} has no tag of positive probability",
                words=(place,), hint="give None for a word that is free",
            )  # fmt: skip
        options.append(tuple(option for option in found if option.probability > 0.0))
    if all(option is None for option in options):
        return None, tuple(names)
    return tuple(options), tuple(names)


def _entries(n: int, given: Sequence[T | None] | None, name: str) -> Sequence[T | None]:
    """One entry for each word; None for words without a constraint."""
    if given is None:
        return [None] * n
    is_list = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    if not is_list or len(given) != n:
        found = f"{len(given)} {name}" if is_list else describe(given)
        raise ArcConstraintError(
            f"found {found} for a sentence of {count(n, 'word')}",
            hint="give one entry for each word; None leaves a word free",
        )
    return given


def _tag_pair(tag: object, known: tuple[TagPair, ...], place: int) -> TagPair:
    """The pair of tags of a name or a pair; a name in both columns is a universal tag."""
    columns = _names_of(known)
    if isinstance(tag, tuple) and len(tag) == 2:
        pair = tuple(EMPTY if name is None else name for name in tag)
        for name, column, names in zip(pair, CONLLU_TAG_COLUMNS, columns, strict=True):
            if name != EMPTY and name not in names:
                raise _unknown(f"{column} of word {place}", name, names, place)
        return pair[0], pair[1]
    if tag in columns[0]:
        return str(tag), EMPTY
    if tag in columns[1]:
        return EMPTY, str(tag)
    raise _unknown(f"the tag of word {place}", tag, columns[0] | columns[1], place)


def _unknown(what: str, name: object, known: set[str], place: int) -> ArcConstraintError:
    found = name if isinstance(name, str) else describe(name)
    hint = f"the nearest that it has: {nearest_names(str(name), known)}"
    if not known:
        hint = "the model was learnt from a treebank whose column is empty: leave it out"
    msg = f"{what} is {found}, which the model has never seen"
    return ArcConstraintError(msg, words=(place,), hint=hint)


@lru_cache(maxsize=8)
def _names_of(known: tuple[TagPair, ...]) -> tuple[set[str], set[str]]:
    """The universal tags of pairs, and the tags of the treebank."""
    return {upos for upos, _ in known} - {EMPTY}, {xpos for _, xpos in known} - {EMPTY}


@lru_cache(maxsize=4096)
def _matching(pair: TagPair, known: tuple[TagPair, ...]) -> tuple[int, ...]:
    """Numbers of the pairs with these tags; for an unseen pair, of the pairs with either tag."""
    fits = [
        [asked in (EMPTY, name) for asked, name in zip(pair, names, strict=True)] for names in known
    ]
    both = tuple(number for number, fit in enumerate(fits) if all(fit))
    return both or tuple(number for number, fit in enumerate(fits) if any(fit))


def _check_relations(
    n: int, known: Sequence[str], relations: Sequence[str | None] | None
) -> Int32Array:
    """Numbers of relations, -1 for none."""
    numbers = np.full(n, -1, np.int32)
    for place, name in enumerate(_entries(n, relations, "relations"), 1):
        if name is not None and name != EMPTY:
            if name not in known:
                raise _unknown(f"the relation of word {place}", name, set(known), place)
            numbers[place - 1] = known.index(name)
    return numbers


# -- heads ----------------------------------------------------------------------------------------


def _check_heads(n: int, heads: Sequence[int | None] | None) -> Int32Array:
    """Heads, -1 for none; they are numbers of the sentence."""
    found = np.full(n, UNPARSED, np.int32)
    for place, head in enumerate(_entries(n, heads, "heads"), 1):
        if head is None:
            continue
        if not isinstance(head, (int, np.integer)) or not 0 <= head <= n:
            name = head if isinstance(head, (int, np.integer)) else describe(head)
            raise ArcConstraintError(
                f"word {place} has the head {name}, but the sentence has {count(n, 'word')}",
                words=(place,), hint="heads are positions of words, from 1 on; 0 is the root",
            )  # fmt: skip
        if head == place:
            raise ArcConstraintError(
                f"word {place} is its own head",
                words=(place,), hint="the root of the sentence has the head 0",
            )  # fmt: skip
        found[place - 1] = head
    return found


def _refuse_second_root(word: int, heads: Int32Array) -> None:
    """Refuse a word with the relation of the root that has a head, or where another is the root."""
    others = [other for other in (np.flatnonzero(heads == 0) + 1).tolist() if other != word]
    if (head := int(heads[word - 1])) > 0:
        msg = f"word {word} has the relation {ROOT_RELATION}, and its head is {head}, not 0"
        hint = "give it the head 0, or another relation"
        raise ArcConstraintError(msg, words=(word,), hint=hint)
    if others:
        msg = f"words {others[0]} and {word} are both the root, by head 0 or relation "
        raise _clash(f"{msg}{ROOT_RELATION}, and a tree has one root", others[0], word)


def _refuse_clashes(heads: Int32Array) -> None:
    """Refuse heads that are in no projective tree with one root."""
    words = (np.flatnonzero(heads >= 0) + 1).tolist()
    roots = [word for word in words if heads[word - 1] == 0]
    if len(roots) > 1:
        msg = f"words {roots[0]} and {roots[1]} both have the head 0, and a tree has one root"
        raise _clash(msg, roots[0], roots[1])
    if circle := _find_circle(heads):
        names = join_words([str(word) for word in sorted(circle)])
        raise _clash(f"words {names} depend on each other in a cycle", *circle)
    low, high = (
        np.minimum(heads, np.arange(1, len(heads) + 1)),
        np.maximum(heads, np.arange(1, len(heads) + 1)),
    )
    for word in words:
        i, j = low[word - 1], high[word - 1]
        crosses = (heads >= 0) & (
            ((low < i) & (i < high) & (high < j)) | ((i < low) & (low < j) & (j < high))
        )
        if crosses.any():
            other = int(np.flatnonzero(crosses)[0]) + 1
            raise _clash(_crossing(word, other, heads), word, other)
        head = int(heads[word - 1])
        above = int(heads[head - 1]) if head else UNPARSED
        if i < above < j:
            msg = f"the arc {_arc(word, heads)} passes over word {above}, the head of word {head}"
            raise _clash(f"{msg}: no projective tree has both", word, head)


def _clash(message: str, *words: int) -> ArcConstraintError:
    return ArcConstraintError(message, words=words, hint="leave one of them out")


def _arc(word: int, heads: Int32Array) -> str:
    return f"from {int(heads[word - 1])} to {word}"


def _crossing(one: int, other: int, heads: Int32Array) -> str:
    for root, word in ((one, other), (other, one)):
        if heads[root - 1] == 0:
            msg = f"the arc {_arc(word, heads)} passes over word {root}, which is the root"
            return f"{msg}: no projective tree has both"
    return (
        f"the arcs {_arc(one, heads)} and {_arc(other, heads)} cross, and this parser's trees are "
        "projective"
    )


def _find_circle(heads: Int32Array) -> tuple[int, ...]:
    """The words of the first cycle of heads; empty without a cycle."""
    walk = np.zeros(len(heads) + 1, np.int64)
    for start in range(1, len(heads) + 1):
        word = start
        while word > 0 and not walk[word]:
            walk[word] = start
            word = int(heads[word - 1])
        if word > 0 and walk[word] == start:
            circle = [word]
            while (word := int(heads[word - 1])) != circle[0]:
                circle.append(word)
            return tuple(circle)
    return ()


def _compatible(heads: Int32Array) -> BoolArray:
    """Which arcs clash with no given arc, [n + 1, n]; other heads of given words are not looked at.

    An arc is left out that crosses a given one, that passes over the head of its head, or whose
    head has a given arc that passes over the arc's own; and a second arc of the root.
    """
    n = len(heads)
    above, below = np.arange(n + 1)[:, None], np.arange(1, n + 1)
    low, high = np.minimum(above, below), np.maximum(above, below)
    out = np.ones((n + 1, n), bool)
    for word in (np.flatnonzero(heads >= 0) + 1).tolist():
        head = int(heads[word - 1])
        i, j = min(head, word), max(head, word)
        out &= ~((low < i) & (i < high) & (high < j)) & ~((i < low) & (low < j) & (j < high))
        if head:
            out[i + 1 : j, head - 1] = False  # the head's own head is not below this arc
            is_over = (low[word] < head) & (head < high[word])
            out[word, is_over] = False  # nor does an arc of the word pass over its head
        else:
            out[0] = below == word
    return out


def _possible_roots(heads: Int32Array) -> list[int]:
    """The word at the root, or all words without a head that no given arc passes over."""
    if (heads == 0).any():
        return [int(np.flatnonzero(heads == 0)[0]) + 1]
    place = np.arange(1, len(heads) + 1)
    low = np.where(heads >= 0, np.minimum(heads, place), 0)
    high = np.where(heads >= 0, np.maximum(heads, place), 0)
    free = (np.flatnonzero(heads < 0) + 1).tolist()
    return [word for word in free if not ((low < word) & (word < high)).any()]


def _complete(heads: Int32Array, tops: Sequence[int]) -> Int32Array:
    """The heads of a projective tree with all given arcs and one of some words at the root.

    Examples
    --------
    >>> _complete(np.array([-1, -1, 5, -1, 2, -1], np.int32), [1, 2, 6])[1:].tolist()
    [0, 1, 5, 5, 2, 1]
    """
    n, root = len(heads), tops[0]
    place = np.arange(1, n + 1)
    low, high = np.minimum(heads, place), np.maximum(heads, place)
    tree = np.append(np.int32(0), heads).astype(np.int32)
    tree[root] = 0
    for word in (np.flatnonzero(tree < 0)).tolist():
        over = np.flatnonzero((heads > 0) & (low < word) & (word < high))
        tree[word] = heads[over[np.argmin((high - low)[over])]] if len(over) else root
    return tree
