"""Constraints on the tree of a sentence: its tags, phrases, and spans that are no phrase.

`Constraints` hold for every member of an ensemble. A grammar leaves the symbols out of its chart
that the constraints exclude, so that everything made from the chart (posteriors, k-best trees,
probabilities of the sentence) is given the constraints. A network does the same with its spans.

A required phrase over the words [i, j) excludes every symbol over a span that crosses [i, j), and
over [i, j) itself every symbol with other labels or with none. In a binary tree without
a span that crosses [i, j), the span [i, j) is a node: so no tree without the phrase is left.

Notation
--------
    chain    the labels of a symbol over its span, outermost first: `("NP",)`, `("S", "VP")`; `()`
             for a word with no phrase over it alone; None for an intermediate symbol
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, cell
from sapwood.core.errors import SapwoodError, as_items, count, describe, nearest_names
from sapwood.corpora.tree import ROOT, ROOT_LABELS, Tree
from sapwood.corpora.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Symbol
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar

Chain = tuple[str, ...] | None
Tags = Mapping[str, float]  # probabilities by tag
SURE = 0.9  # probability of a tag that turned out to be impossible; its alternatives have the rest
_SPANS = "a list of (first word, position after the last, label or None)"
_SPAN_HINT = "give (first word, position after the last, label or None), counted from 0"
FREE, CLOSED = 0, 1  # classes of cells: everything allowed, nothing allowed


class ConstrainedPhrase(NamedTuple):
    """Labels over the words [start, end), outermost first; no label means any phrase."""

    start: int
    end: int
    labels: tuple[str, ...]

    def __str__(self) -> str:
        name = " over ".join(self.labels) or "a phrase"
        return f"{name} over {_words(self.start, self.end)}"


def _words(start: int, end: int) -> str:
    """The words [start, end) in a message, counted from 1."""
    return f"word {end}" if end == start + 1 else f"words {start + 1} to {end}"


@dataclass(frozen=True)
class Constraints:
    """Tags, phrases and excluded phrases of one sentence; made by `constrain`.

    Attributes
    ----------
    n
        Number of words.
    tags
        For each word None, or the tags it may have with their probabilities.
    required
        Phrases that the tree must have; at most one for each span.
    forbidden
        Phrases that the tree must not have: any of the labels, or any phrase where there is none.
    is_strict
        Whether a word has only the tags that the lexicon lists for it, as its probability needs.
    """

    n: int
    tags: tuple[Tags | None, ...]
    required: tuple[ConstrainedPhrase, ...] = ()
    forbidden: tuple[ConstrainedPhrase, ...] = ()
    is_strict: bool = False

    def allows(self, start: int, end: int, chain: Chain) -> bool:
        """Whether a symbol with a chain may cover a span."""
        for i, j, labels in self.required:
            if _cross((start, end), (i, j)):
                return False
            if (start, end) == (i, j) and not (chain and has_labels(chain, labels)):
                return False
        for i, j, labels in self.forbidden:
            if (start, end) == (i, j) and chain and (not labels or set(labels) & set(chain)):
                return False
        return True

    def weaken(self, known: KnownLabels) -> Constraints | None:
        """Constraints that are easier to meet: brackets of any label, else tags that may be wrong.

        None where neither labels nor tags are given, or all tags are uncertain already.
        """
        if any(phrase.labels for phrase in self.required):
            return replace(self, required=tuple(one._replace(labels=()) for one in self.required))
        if all(tags is None or len(tags) == len(known.tags) for tags in self.tags):
            return None
        rest = dict.fromkeys(known.tags, (1.0 - SURE) / len(known.tags))
        return replace(
            self,
            tags=tuple(
                None if tags is None else rest | {tag: SURE * p for tag, p in tags.items()}
                for tags in self.tags
            ),
        )

    def tags_alone(self) -> Constraints:
        """The constraints on tags, without those on phrases."""
        return replace(self, required=(), forbidden=())

    def required_labels(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """The labels of the required phrases, by their spans."""
        return {(phrase.start, phrase.end): phrase.labels for phrase in self.required}

    def cell_classes(self, chains: Sequence[Chain]) -> CellClasses:
        """Which of some symbols are allowed over each span.

        Parameters
        ----------
        chains
            The chain of each symbol.
        """
        n = self.n
        start, last = np.triu_indices(n)  # in the order of the cells
        end = last + 1
        of_cell = np.full(len(start), FREE, np.int64)
        for i, j, _ in self.required:
            is_left = (start < i) & (i < end) & (end < j)
            is_right = (i < start) & (start < j) & (j < end)
            of_cell[is_left | is_right] = CLOSED
        rows = [np.ones(len(chains), bool), np.zeros(len(chains), bool)]
        for (i, j), own in sorted(self._by_span().items()):
            if of_cell[cell(i, j, n)] == FREE:
                of_cell[cell(i, j, n)] = len(rows)
                rows.append(np.array([own.allows(i, j, chain) for chain in chains], bool))
        return CellClasses(of_cell, np.array(rows))

    def _by_span(self) -> dict[tuple[int, int], Constraints]:
        """The phrases over each span alone, so that a long list is not searched for each."""
        found: dict[tuple[int, int], Constraints] = {}
        for phrase in self.required:
            found[phrase[:2]] = Constraints(self.n, (), (phrase,))
        for phrase in self.forbidden:
            above = found.get(phrase[:2])
            found[phrase[:2]] = Constraints(self.n, (), above.required if above else (), (phrase,))
        return found

    def unmet(self, tree: Tree) -> str | None:
        """The first constraint that a tree does not satisfy, in words; None where it has none."""
        over: dict[tuple[int, int], list[str]] = {}
        tags: list[str] = []
        for label, start, end in _labelled_spans(tree, tags):
            over.setdefault((start, end), []).append(label)
        for place, allowed in enumerate(self.tags):
            if allowed is not None and not allowed.get(tags[place], 0.0) > 0.0:
                return f"the tag {tags[place]} of word {place + 1}"
        for phrase in self.required:
            found = tuple(over.get(phrase[:2], ()))
            if not (found and has_labels(found, phrase.labels)):
                return f"no {phrase}"
        for phrase in self.forbidden:
            labels = over.get(phrase[:2], [])
            if labels and (not phrase.labels or set(labels) & set(phrase.labels)):
                return str(phrase)
        return None


class CellClasses(NamedTuple):
    """The symbols that are allowed over each span, spans with the same symbols in one class."""

    of_cell: IntArray  # [n_cells]: the class of each span
    allowed: npt.NDArray[np.bool_]  # [n_classes, n_symbols]


NO_CLASSES = CellClasses(np.empty(0, np.int64), np.empty((0, 0), bool))
NO_FACTORS: FloatArray = np.empty(0)


def _labelled_spans(tree: Tree, tags: list[str]) -> Iterator[tuple[str, int, int]]:
    """Labels and spans of all phrases but the root, outermost first; tags are appended."""
    for place, ((label, start, end), node) in enumerate(
        zip(tree.spans(), tree.nodes(), strict=True)
    ):
        if node.is_preterminal:
            tags.append(label)
        elif place or label != ROOT:
            yield label, start, end


def has_labels(chain: tuple[str, ...], labels: tuple[str, ...]) -> bool:
    """Whether a chain has some labels in this order, perhaps with others between them."""
    rest = iter(chain)
    return all(label in rest for label in labels)


def _cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
    (a, b), (i, j) = sorted((one, other))
    return a < i < b < j


class PartialSentence(NamedTuple):
    """A sentence with constraints on its tree; the arguments of `Parser.parse`."""

    words: Sequence[str]
    tags: Sequence[str | Tags | None] | None = None
    spans: Sequence[tuple[int, int, str | None]] = ()
    forbidden: Sequence[tuple[int, int, str | None]] = ()


class KnownLabels(NamedTuple):
    """The labels of a model, which requests are checked against."""

    phrases: frozenset[str]
    tags: frozenset[str]

    @classmethod
    def of(cls, symbols: Iterable[Symbol], tags: Iterable[Symbol]) -> KnownLabels:
        """The treebank labels of symbols."""
        tag_chains = [tag.chain for tag in tags]
        above = {label for chain in tag_chains for label in chain[:-1]}
        phrases = {x for s in symbols if s.context is None for x in s.chain} | above
        return cls(frozenset(phrases - {ROOT}), frozenset(chain[-1] for chain in tag_chains))


def constrain(
    n: int,
    known: KnownLabels,
    tags: Sequence[str | Tags | None] | None = None,
    spans: Iterable[tuple[int, int, str | None]] = (),
    forbidden: Iterable[tuple[int, int, str | None]] = (),
) -> Constraints | None:
    """Check the constraints on a sentence of n words; None without constraints.

    Parameters
    ----------
    tags
        For each word None, a tag, or a dictionary of tags with probabilities.
    spans, forbidden
        Phrases that must be there, and that must not: first word, counted from 0, the position
        after the last, and a label or None. Several labels over one span are given outermost
        first; a repeated label is one request.

    Raises
    ------
    SapwoodError
        If a label is unknown, a span is none of the sentence's, or two requests contradict each
        other: the message names both.
    """
    by_word = _check_tags(n, known, tags)
    asked: dict[tuple[int, int], list[str]] = {}
    for start, end, label in (_check_span(n, known, span) for span in as_items(spans, _SPANS)):
        found = asked.setdefault((start, end), [])
        if label is not None and found[-1:] != [label]:
            found.append(label)
    required = tuple(
        ConstrainedPhrase(*span, tuple(labels)) for span, labels in sorted(asked.items())
    )
    banned: dict[tuple[int, int], list[str | None]] = {}
    for start, end, label in (_check_span(n, known, span) for span in as_items(forbidden, _SPANS)):
        banned.setdefault((start, end), []).append(label)
    excluded = tuple(
        ConstrainedPhrase(
            *span, () if None in labels else tuple(dict.fromkeys(x for x in labels if x))
        )
        for span, labels in sorted(banned.items())
    )
    _refuse_clashes(required, excluded, known.phrases)
    if not required and not excluded and all(tag is None for tag in by_word):
        return None
    return Constraints(n, by_word, required, excluded)


def _check_tags(
    n: int, known: KnownLabels, tags: Sequence[str | Tags | None] | None
) -> tuple[Tags | None, ...]:
    if tags is None:
        return (None,) * n
    is_list = isinstance(tags, (Sequence, np.ndarray)) and not isinstance(tags, str)
    if not is_list or len(tags) != n:
        found = f"{len(tags)} tags" if is_list else describe(tags)
        raise SapwoodError(
            f"found {found} for a sentence of {n} words",
            hint="give one entry for each word; None leaves a word free",
        )
    found_tags: list[Tags | None] = []
    for place, entry in enumerate(tags):
        if not (entry is None or isinstance(entry, (str, Mapping))):
            raise SapwoodError(
                f"the tag of word {place + 1} is {describe(entry)}",
                hint="give a tag, a dictionary of tags with probabilities, or None",
            )
        soft = {entry: 1.0} if isinstance(entry, str) else entry
        for tag, p in () if soft is None else soft.items():
            check_label(tag, known.tags, f"the tag of word {place + 1}")
            if not isinstance(p, (int, float, np.floating)) or not 0.0 <= p < np.inf:
                raise SapwoodError(
                    f"the probability of {tag} for word {place + 1} is {describe(p)}",
                    hint="give a number of at least 0",
                )
        if soft is not None and not sum(soft.values()) > 0.0:
            raise SapwoodError(
                f"word {place + 1} has no tag of positive probability",
                hint="give None for a word that is free",
            )
        found_tags.append(soft)
    return tuple(found_tags)


def _check_span(
    n: int, known: KnownLabels, span: tuple[int, int, str | None]
) -> tuple[int, int, str | None]:
    """A request for a phrase, its words as whole numbers; it is refused where it is none."""
    if not isinstance(span, (Sequence, np.ndarray)) or isinstance(span, str) or len(span) != 3:
        raise SapwoodError(f"{describe(span)} is no span", hint=_SPAN_HINT)
    start, end, label = span
    for place in (start, end):
        if not isinstance(place, (int, np.integer)) or isinstance(place, bool):
            msg = f"the span {_short(span)} holds {describe(place)}, expected a whole number"
            raise SapwoodError(msg, hint=_SPAN_HINT)
    if not 0 <= start < end <= n:
        problem = "has no words" if 0 <= end <= start <= n else f"must be within 0 and {n}"
        msg = f"({start}, {end}) is no span of a sentence of {count(n, 'word')}: it {problem}"
        raise SapwoodError(msg, hint=_SPAN_HINT)
    if label is not None:
        _refuse_root_and_tags(label, known, _words(start, end))
        check_label(label, known.phrases, f"the label over {_words(start, end)}")
    return int(start), int(end), label


def _short(span: object) -> str:
    shown = repr(span)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _refuse_root_and_tags(label: object, known: KnownLabels, words: str) -> None:
    """Refuse the labels of a tree that are no phrases: of its root, and of its words."""
    if not isinstance(label, str) or label in known.phrases:
        return
    if label in ROOT_LABELS:
        raise SapwoodError(
            f"the label over {words} is {label!r}, that of the root, which every tree has",
            hint="leave it out; None stands for any phrase",
        )
    if label in known.tags:
        raise SapwoodError(
            f"the label over {words} is {label!r}, a tag, which stands right over one word",
            hint="ask for tags by tags=, a list with one entry for each word",
        )


def check_label(label: object, known: Collection[str], what: str) -> None:
    """Refuse a label that a model does not have; the message lists the nearest ones.

    >>> check_label("NPP", ["NP", "VP", "PP"], "the label")
    Traceback (most recent call last):
    ...
    sapwood.core.errors.SapwoodError: the label is NPP, which the model does not have
    hint: the nearest that it has: 'NP', 'PP', 'VP'
    """
    if isinstance(label, str) and label in known:
        return
    raise SapwoodError(
        f"{what} is {label if isinstance(label, str) else describe(label)}, which the model does "
        "not have",
        hint=f"the nearest that it has: {nearest_names(str(label), known)}",
    )


def _refuse_clashes(
    required: Sequence[ConstrainedPhrase],
    forbidden: Sequence[ConstrainedPhrase],
    known: frozenset[str],
) -> None:
    for k, one in enumerate(required):
        for other in required[k + 1 :]:
            if _cross(one[:2], other[:2]):
                raise SapwoodError(
                    f"{one} and {other} cross, and no tree has both",
                    hint="leave one of them out",
                )
        for other in forbidden:
            if one[:2] != other[:2]:
                continue
            if not other.labels or set(one.labels) & set(other.labels):
                both = tuple(label for label in other.labels if label in one.labels)
                raise SapwoodError(
                    f"{one} is required, and {other._replace(labels=both)} is forbidden",
                    hint="leave one of them out",
                )
            if known <= set(other.labels):
                raise SapwoodError(
                    f"{one} is required, and every label that the model has is forbidden there",
                    hint="leave one of them out",
                )


def phrase_classes(grammar: LatentGrammar, constraints: Constraints) -> CellClasses:
    """The phrases of a grammar that constraints allow over each span."""
    if not (constraints.required or constraints.forbidden):
        return NO_CLASSES
    chains = [None if symbol.is_intermediate else symbol.chain for symbol in grammar.phrases]
    return constraints.cell_classes(chains)


def constrained_words(constraints: Constraints) -> list[int]:
    """The words whose tags or one-word phrases are constrained."""
    alone = {one.start for one in constraints.required + constraints.forbidden
             if one.end == one.start + 1}  # fmt: skip
    return [k for k in range(constraints.n) if k in alone or constraints.tags[k] is not None]


def word_entries(
    grammar: LatentGrammar, word: str, place: int, constraints: Constraints
) -> tuple[IntArray, FloatArray]:
    """The entries of the lexicon that a word may have, and the factors of their weights.

    A tag that the lexicon does not list for the word is taken from the word's class, else from
    unknown words, else from the word for which it is most probable; next to tags that are listed,
    it counts a tenth of the least probable of them.
    """
    lexicon, tags = grammar.lexicon, constraints.tags[place]
    factor = np.zeros(len(grammar.tags))
    for number, symbol in enumerate(grammar.tags):
        *above, tag = symbol.chain
        weight = 1.0 if tags is None else tags.get(tag, 0.0)
        if weight > 0.0 and constraints.allows(place, place + 1, tuple(above)):
            factor[number] = weight
    entries, factors = np.empty(0, np.int64), np.empty(0)
    missing = {grammar.tags[k].chain[-1] for k in np.flatnonzero(factor).tolist()}
    for source in _entry_sources(grammar, word, place):
        numbers = lexicon.entry_tag[source].astype(np.int64)
        labels = [grammar.tags[number].chain[-1] for number in numbers.tolist()]
        kept = (factor[numbers] > 0.0) & np.array([label in missing for label in labels], bool)
        if kept.any():
            found, scale = source[kept], 1.0
            if len(entries):
                listed = grammar.coarse.lexical[entries] * factors
                scale = 0.1 * float(listed.min() / grammar.coarse.lexical[found].max())
            entries = np.append(entries, found)
            factors = np.append(factors, factor[numbers[kept]] * scale)
            missing -= {label for label, is_kept in zip(labels, kept, strict=True) if is_kept}
            if tags is None:  # only phrases are asked for, and some tag of the word has them
                break
        if not missing or constraints.is_strict:
            break
    return entries, factors


def _entry_sources(grammar: LatentGrammar, word: str, place: int) -> Iterator[IntArray]:
    """Entries of a word, then of its class, of unknown words, and of each tag's likeliest word."""
    lexicon, is_first = grammar.lexicon, place == 0
    vocabulary = lexicon.vocabulary
    for row in (
        vocabulary.row(word, is_first=is_first), vocabulary.class_row(word, is_first=is_first),
        vocabulary.numbers[UNKNOWN],
    ):  # fmt: skip
        entries = lexicon.entries(row)
        yield np.arange(entries.start, entries.stop)
    best = grammar.likeliest_entries
    yield best[best >= 0]
