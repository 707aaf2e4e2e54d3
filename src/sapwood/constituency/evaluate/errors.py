"""Which brackets are wrong, and why: every missing and every extra bracket in exactly one kind.

Notation
--------
    G, P       brackets of the gold and of the predicted tree, as EVALB counts them (multisets)
    missing    G - P, what recall lacks;  extra    P - G, what precision lacks
    right      a bracket of both trees, or a word

The kinds, in the order in which they are tried:

1. **wrong label**: a missing and an extra bracket over the same words.
2. **unary level**: the other tree has brackets over exactly the same words, but one fewer.
3. **shifted edge**: a missing and an extra bracket with the same label share one edge and differ at
   the other by the words D. The pairs with the shortest D are made first.
4. **unary level** again: of those left, a bracket over one word or over the whole sentence.
5. **misplaced bracket**: all others. D are the children of the bracket.

For 3 and 5 the cause is looked for in D. A conjunction in D makes it *coordination*, and for 5 also
one next to the bracket that the other tree joins with a part of it. Else a phrase (or adverb) of D
that is right, and whose parents in the two trees span different words, names the kind: *PP
attachment*, *clause attachment* and so on. For 3 it must lie next to the shorter bracket. For 5 it
is the first such child besides the head, roughly; one that the other tree has parted from the head
goes before others. Without such a phrase, 3 is *span boundary*, and 5 is *NP structure* in or as a
noun phrase, else *other structure*.

So an attachment is only blamed on a phrase that both trees have. Kummerfeld et al. (2012) also
type errors by what moved, but search for edits that turn one tree into the other; here no edit is
made, and each bracket is explained by the two trees as they are. Words go by their gold tags.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Final, NamedTuple

from sapwood.constituency.evaluate.bracketing import (
    Bracket,
    ScoredBrackets,
    percent,
    scored_brackets,
)
from sapwood.corpora.tree import ROOT, Tree

WRONG_LABEL: Final = "wrong label"
UNARY: Final = "unary level"
COORDINATION: Final = "coordination"
BOUNDARY: Final = "span boundary"
NP_STRUCTURE: Final = "NP structure"
OTHER_STRUCTURE: Final = "other structure"
OTHER_ATTACHMENT: Final = "other attachment"

NOMINAL: Final = frozenset({"NP", "NX", "NAC", "QP", "WHNP", "WNP", "NUMP"})
CLAUSAL: Final = frozenset({"S", "SBAR", "SBARQ", "SINV", "SQ", "RRC", "IP", "CP"})
_ADVERBS: Final = frozenset({"RB", "RBR", "RBS"})  # the only words that move by themselves
_MODIFIERS: Final = _ADVERBS | {"ADVP", "ADJP", "WHADVP", "WHADJP", "WADVP", "WADJP"}
_MOVED: Final = {
    "PP attachment": frozenset({"PP", "WHPP", "WPP"}), "NP attachment": NOMINAL,
    "clause attachment": CLAUSAL, "modifier attachment": _MODIFIERS,
    "VP attachment": frozenset({"VP"}),
}  # fmt: skip
_KIND_OF_MOVED: Final = {label: kind for kind, labels in _MOVED.items() for label in labels}
_CONJUNCTIONS: Final = frozenset({"CC", "CONJ", "CONJP"})
KINDS: Final = (
    WRONG_LABEL, UNARY, *_MOVED, OTHER_ATTACHMENT, COORDINATION,
    BOUNDARY, NP_STRUCTURE, OTHER_STRUCTURE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BracketError:
    """One wrong bracket, or a missing and an extra one that explain each other.

    Attributes
    ----------
    missing, extra
        The brackets; at least one is there. Positions count the scored words.
    phrase
        The phrase that moved, else the wrong bracket itself.
    gold_parent, predicted_parent
        The bracket above the phrase in each tree, or above each tree's own wrong bracket where two
        are paired; `TOP` for the whole sentence.
    """

    kind: str
    sentence: int
    missing: Bracket | None
    extra: Bracket | None
    phrase: Bracket
    gold_parent: Bracket
    predicted_parent: Bracket


class _Side:
    """Brackets of one tree with their parents; nodes are numbered, -1 is the root.

    `others` maps brackets to the same brackets of the other tree, where it has them.
    """

    def __init__(self, brackets: Sequence[Bracket], tags: Sequence[str]) -> None:
        self.brackets = brackets
        self.tags = tags
        self.root: Bracket = (ROOT, 0, len(tags))
        self.parent: list[int] = []
        self.word_parent = [-1] * len(tags)
        self.children: defaultdict[int, list[_Constituent]] = defaultdict(list)
        self.spans: dict[tuple[int, int], int] = {}  # innermost bracket
        self.others: dict[int, int] = {}
        opened: list[int] = []
        for node, (label, i, j) in enumerate(brackets):
            while opened and brackets[opened[-1]][2] <= i:
                opened.pop()
            self.parent.append(opened[-1] if opened else -1)
            opened.append(node)
            self.spans[i, j] = node
            self.word_parent[i:j] = [node] * (j - i)  # in pre-order, so the innermost stays
            self.children[self.parent[node]].append(_Constituent(label, i, j, node))
        for k, node in enumerate(self.word_parent):
            self.children[node].append(_Constituent(tags[k], k, k + 1, None))

    def bracket(self, node: int) -> Bracket:
        """A bracket by its number."""
        return self.root if node < 0 else self.brackets[node]

    def parent_of(self, part: _Constituent) -> Bracket:
        """The bracket above a bracket or word."""
        node = self.word_parent[part.start] if part.node is None else self.parent[part.node]
        return self.bracket(node)

    def has_span(self, i: int, j: int) -> bool:
        """Whether some bracket has exactly these words."""
        return (i, j) in self.spans

    def has_unit(self, i: int, j: int) -> bool:
        """Whether these are one word or the sentence, which every tree has."""
        return j - i == 1 or (i, j) == self.root[1:]

    def around(self, i: int, j: int) -> Bracket:
        """The smallest bracket that contains these words."""
        node = self.word_parent[i]
        while node >= 0 and self.brackets[node][2] < j:
            node = self.parent[node]
        return self.bracket(node)

    def cuts_conjunct(self, i: int, j: int) -> bool:
        """Whether a conjunction next to these words is joined with some of them, but not all."""
        for k in (i - 1, j):
            if 0 <= k < len(self.tags) and self.tags[k] in _CONJUNCTIONS:
                _, start, end = self.around(k, k + 1)
                if i < start < j or i < end < j:
                    return True
        return False

    def parts(self, node: int) -> list[_Constituent]:
        """The children of a bracket from left to right; a chain over the same words has one set."""
        bottom = self.spans[self.brackets[node][1:]]
        return sorted(self.children[bottom], key=lambda part: part.start)


class _Constituent(NamedTuple):
    """A bracket with its number, or a word with none."""

    label: str
    start: int
    end: int
    node: int | None

    @property
    def bracket(self) -> Bracket:
        return self.label, self.start, self.end


class _Blame(NamedTuple):
    """A kind of error with the phrase that moved; None when it is the bracket itself."""

    kind: str
    moved: _Constituent | None = None


class _Sentence:
    """The wrong brackets of one sentence, explained one after another.

    Cost: O(n d) for n words and depth d, and O(e^2) for e wrong brackets.
    """

    def __init__(self, number: int, pair: ScoredBrackets) -> None:
        self.number = number
        self.gold = _Side(pair.gold, pair.gold_tags)
        self.predicted = _Side(pair.predicted, pair.gold_tags)  # conjunctions are those of gold
        # Equal brackets are paired, outermost first: as many as the multiset intersection has.
        waiting: defaultdict[Bracket, list[int]] = defaultdict(list)
        for node in reversed(range(len(pair.predicted))):
            waiting[pair.predicted[node]].append(node)
        for node, bracket in enumerate(pair.gold):
            if waiting[bracket]:
                other = self.gold.others[node] = waiting[bracket].pop()
                self.predicted.others[other] = node
        self.missing, self.extra = _wrong_nodes(self.gold), _wrong_nodes(self.predicted)

    def errors(self) -> Iterator[BracketError]:
        """Every missing and every extra bracket once."""
        if not self.missing and not self.extra:
            return
        yield from self._wrong_labels()
        yield from self._unary_levels(_Side.has_span)
        yield from self._shifted_edges()
        yield from self._unary_levels(_Side.has_unit)
        for wrong, side, other in self._sides():
            for node in wrong:
                yield self._single(node, side, other, self._misplacement(node, side, other))

    def _sides(self) -> Iterator[tuple[list[int], _Side, _Side]]:
        """The wrong brackets of each tree, that tree, and the other tree."""
        yield self.missing, self.gold, self.predicted
        yield self.extra, self.predicted, self.gold

    def _wrong_labels(self) -> Iterator[BracketError]:
        found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for node in reversed(self.extra):
            found[self.predicted.brackets[node][1:]].append(node)
        for node in list(self.missing):
            if others := found[self.gold.brackets[node][1:]]:
                yield self._pair(node, others.pop(), _Blame(WRONG_LABEL))

    def _unary_levels(self, is_there: Callable[[_Side, int, int], bool]) -> Iterator[BracketError]:
        for wrong, side, other in self._sides():
            for node in list(wrong):
                if is_there(other, *side.brackets[node][1:]):
                    wrong.remove(node)
                    yield self._single(node, side, other, _Blame(UNARY))

    def _shifted_edges(self) -> Iterator[BracketError]:
        """Pair same labels that share an edge, the smallest difference first."""
        pairs = []
        for node, other in product(self.missing, self.extra):
            (a, i, j), (b, k, l_) = self.gold.brackets[node], self.predicted.brackets[other]
            if a == b and (i == k or j == l_):
                # The same key from both sides, so that swapping them pairs the same brackets.
                key = (abs(i - k) + abs(j - l_), i != k, min(i, k), max(j, l_), a)
                pairs.append((key, node, other))
        for _, node, other in sorted(pairs):
            if node in self.missing and other in self.extra:
                yield self._pair(node, other, self._shift(node, other))

    def _shift(self, node: int, other: int) -> _Blame:
        """The kind of a shifted edge, by the words between the two edges."""
        (_, i, j), (_, k, l_) = self.gold.brackets[node], self.predicted.brackets[other]
        start, end = (min(j, l_), max(j, l_)) if i == k else (min(i, k), max(i, k))
        units = list(self._right_units(start, end))
        if any(unit.label in _CONJUNCTIONS for unit in units):
            return _Blame(COORDINATION)
        nearest = units[0 if i == k else -1]
        if _can_move(nearest) and self._hangs_elsewhere(nearest):
            return _Blame(_kind(nearest), nearest)
        return _Blame(BOUNDARY)

    def _hangs_elsewhere(self, unit: _Constituent) -> bool:
        here = self.gold.parent_of(unit)
        there = self.predicted.parent_of(self._counterpart(unit, self.gold))
        return here[1:] != there[1:]

    def _right_units(self, start: int, end: int) -> Iterator[_Constituent]:
        """The largest right brackets between two fenceposts, and the words beside them."""
        while start < end:
            fitting = [
                _Constituent(*self.gold.brackets[node], node)
                for node in self.gold.others
                if self.gold.brackets[node][1] == start and self.gold.brackets[node][2] <= end
            ]
            word = _Constituent(self.gold.tags[start], start, start + 1, None)
            unit = max(fitting, key=lambda part: part.end, default=word)
            yield unit
            start = unit.end

    def _counterpart(self, part: _Constituent, side: _Side) -> _Constituent:
        """The same bracket or word in the other tree."""
        return part if part.node is None else part._replace(node=side.others[part.node])

    def _misplacement(self, node: int, side: _Side, other: _Side) -> _Blame:
        """For a bracket without a partner, blame the part of it that hangs elsewhere."""
        label, i, j = side.brackets[node]
        parts = side.parts(node)
        if any(part.label in _CONJUNCTIONS for part in parts) or other.cuts_conjunct(i, j):
            return _Blame(COORDINATION)
        head = _head(label, parts)
        # The bracket is not in the other tree, so each part has a parent over other words there.
        moved = [
            self._counterpart(part, side)
            for part in parts
            if part is not head and _can_move(part) and _is_right(part, side)
        ]
        if moved:
            home = (
                other.parent_of(self._counterpart(head, side))
                if _is_right(head, side)
                else other.around(head.start, head.end)
            )  # the bracket that holds the head in the other tree
            apart = (part for part in moved if other.parent_of(part)[1:] != home[1:])
            first = next(apart, moved[0])
            return _Blame(_kind(first), self._counterpart(first, other))
        inside_np = label in NOMINAL or other.around(i, j)[0] in NOMINAL
        return _Blame(NP_STRUCTURE if inside_np else OTHER_STRUCTURE)

    def _pair(self, node: int, other: int, blame: _Blame) -> BracketError:
        self.missing.remove(node)
        self.extra.remove(other)
        gold, predicted = self.gold.brackets[node], self.predicted.brackets[other]
        phrase, above = gold, self.gold.bracket(self.gold.parent[node])
        above_too = self.predicted.bracket(self.predicted.parent[other])
        if blame.moved:
            phrase = blame.moved.bracket
            above = self.gold.parent_of(blame.moved)
            above_too = self.predicted.parent_of(self._counterpart(blame.moved, self.gold))
        return BracketError(blame.kind, self.number, gold, predicted, phrase, above, above_too)

    def _single(self, node: int, side: _Side, other: _Side, blame: _Blame) -> BracketError:
        bracket = phrase = side.brackets[node]
        here, there = side.bracket(side.parent[node]), other.around(*bracket[1:])
        if blame.moved:
            phrase = blame.moved.bracket
            here = side.parent_of(blame.moved)
            there = other.parent_of(self._counterpart(blame.moved, side))
        if side is self.gold:
            return BracketError(blame.kind, self.number, bracket, None, phrase, here, there)
        return BracketError(blame.kind, self.number, None, bracket, phrase, there, here)


def _wrong_nodes(side: _Side) -> list[int]:
    return [node for node in range(len(side.brackets)) if node not in side.others]


def _is_right(part: _Constituent, side: _Side) -> bool:
    return part.node is None or part.node in side.others


def _can_move(part: _Constituent) -> bool:
    return part.node is not None or part.label in _ADVERBS


def _kind(part: _Constituent) -> str:
    return _KIND_OF_MOVED.get(part.label, OTHER_ATTACHMENT)


def _head(label: str, parts: Sequence[_Constituent]) -> _Constituent:
    """The part that carries a bracket: its own label again, or a clause's VP, or the first word."""
    wanted = "VP" if label in CLAUSAL else label
    for part in parts:
        if part.node is not None and part.label == wanted:
            return part
    words = (part for part in parts if part.node is None and part.label not in _ADVERBS)
    return next(words, parts[0])


@dataclass(frozen=True, slots=True)
class LabelScore:
    """Brackets of one label."""

    label: str
    gold: int
    predicted: int
    matched: int

    @property
    def missing(self) -> int:
        """Gold brackets that were not predicted."""
        return self.gold - self.matched

    @property
    def extra(self) -> int:
        """Predicted brackets that are not gold."""
        return self.predicted - self.matched

    @property
    def recall(self) -> float:
        """Matched brackets in percent of the gold ones."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Matched brackets in percent of the predicted ones."""
        return percent(self.matched, self.predicted)

    @property
    def f1(self) -> float:
        """Twice the matched brackets in percent of both sides' brackets."""
        return 200.0 * self.matched / (self.gold + self.predicted)


class KindCount(NamedTuple):
    """How many brackets one kind of error explains, in how many places."""

    kind: str
    places: int
    missing: int
    extra: int

    @property
    def brackets(self) -> int:
        """Missing and extra brackets."""
        return self.missing + self.extra


@dataclass(frozen=True)
class ErrorReport:
    """Errors of predicted trees by kind, as `diagnose` explains them.

    Attributes
    ----------
    labels
        Scores by label, the commonest gold label first.
    tags
        How often (gold tag, predicted tag) were confused.
    words
        The scored words of every sentence that has an error, by its number.
    sentences, dropped
        Sentences that were compared, and those that EVALB drops.
    """

    errors: list[BracketError] = field(repr=False)
    labels: list[LabelScore]
    tags: Counter[tuple[str, str]]
    words: dict[int, list[str]] = field(repr=False)
    sentences: int
    dropped: int

    @property
    def missing(self) -> int:
        """All gold brackets that were not predicted."""
        return sum(error.missing is not None for error in self.errors)

    @property
    def extra(self) -> int:
        """All predicted brackets that are not gold."""
        return sum(error.extra is not None for error in self.errors)

    @cached_property
    def kinds(self) -> list[KindCount]:
        """The kinds that occur, the one with the most brackets first.

        `places` counts a phrase once, however many brackets its move has changed.
        """
        rows = []
        for kind in KINDS:
            found = [error for error in self.errors if error.kind == kind]
            places = {(error.sentence, error.phrase) for error in found}
            missing = sum(error.missing is not None for error in found)
            extra = sum(error.extra is not None for error in found)
            if found:
                rows.append(KindCount(kind, len(places), missing, extra))
        return sorted(rows, key=lambda row: -row.brackets)

    @cached_property
    def wrong_labels(self) -> Counter[tuple[str, str]]:
        """How often (gold label, predicted label) are over the same words."""
        found = [error for error in self.errors if error.kind == WRONG_LABEL]
        return Counter((e.missing[0], e.extra[0]) for e in found if e.missing and e.extra)

    def examples(self, kind: str, n: int) -> list[BracketError]:
        """The first n errors of a kind, each about another phrase."""
        found: dict[tuple[int, Bracket], BracketError] = {}
        for error in self.errors:
            if error.kind == kind:
                found.setdefault((error.sentence, error.phrase), error)
        return list(found.values())[:n]

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from sapwood.corpora.draw import table_html

        rows = {row.kind: f"{row.missing} missing, {row.extra} extra" for row in self.kinds}
        return table_html(f"Errors in {self.sentences:,} sentences", rows)

    def phrase_words(self, sentence: int, bracket: Bracket) -> str:
        """The scored words of a bracket."""
        return " ".join(self.words[sentence][bracket[1] : bracket[2]])

    def as_dict(self, examples: int = 2) -> dict[str, Any]:
        """Counts and lists as plain data, with a number of examples of each kind."""
        figures = ("gold", "predicted", "matched", "missing", "extra", "recall", "precision", "f1")
        return {
            "sentences": self.sentences,
            "dropped": self.dropped,
            "missing": self.missing,
            "extra": self.extra,
            "labels": {row.label: {x: getattr(row, x) for x in figures} for row in self.labels},
            "kinds": {
                row.kind: {"places": row.places, "missing": row.missing, "extra": row.extra}
                | {"examples": [self._example(e) for e in self.examples(row.kind, examples)]}
                for row in self.kinds
            },
            "wrong_labels": _pair_rows(self.wrong_labels),
            "wrong_tags": _pair_rows(self.tags),
        }

    def _example(self, error: BracketError) -> dict[str, Any]:
        names = ("missing", "extra", "phrase", "gold_parent", "predicted_parent")
        brackets = {name: getattr(error, name) for name in names}
        return {"sentence": error.sentence} | {
            name: bracket
            and {"label": bracket[0], "words": self.phrase_words(error.sentence, bracket)}
            for name, bracket in brackets.items()
        }


def diagnose(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> ErrorReport:
    """Explain every missing and every extra bracket of EVALB by one kind of error.

    Parameters
    ----------
    gold, predicted, raw
        As for `sapwood.constituency.evaluate.bracketing`. Sentences that EVALB drops are only
        counted.

    Notes
    -----
    Cost: as of `bracketing`, and O(e^2) for a sentence of e wrong brackets. What the kinds mean:
    `sapwood.constituency.evaluate.errors`.

    Examples
    --------
    >>> gold = Tree.parse("(S (VP (VB eat) (NP (NP (NN pie)) (PP (IN on) (NP (NN ice))))))")
    >>> flat = Tree.parse("(S (VP (VB eat) (NP (NN pie)) (PP (IN on) (NP (NN ice)))))")
    >>> diagnose([gold], [flat]).kinds
    [KindCount(kind='PP attachment', places=1, missing=1, extra=0)]
    """
    errors, words = list[BracketError](), dict[int, list[str]]()
    wanted, found, matched = Counter[str](), Counter[str](), Counter[str]()
    tags = Counter[tuple[str, str]]()
    n_sentences = n_dropped = 0
    for row, pair in scored_brackets(gold, predicted, raw=raw):
        if pair is None:
            n_dropped += 1
            continue
        n_sentences += 1
        wanted.update(label for label, _, _ in pair.gold)
        found.update(label for label, _, _ in pair.predicted)
        both = Counter(pair.gold) & Counter(pair.predicted)
        matched.update(label for label, _, _ in both.elements())
        tagged = zip(pair.gold_tags, pair.predicted_tags, strict=True)
        tags.update((a, b) for a, b in tagged if a != b)
        if explained := list(_Sentence(row.number, pair).errors()):
            errors += explained
            words[row.number] = pair.words
    names = sorted(wanted | found, key=lambda x: (-wanted[x], -found[x], x))
    labels = [LabelScore(x, wanted[x], found[x], matched[x]) for x in names]
    return ErrorReport(errors, labels, tags, words, n_sentences, n_dropped)


def _pair_rows(pairs: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"gold": a, "predicted": b, "count": n} for (a, b), n in pairs.most_common()]
