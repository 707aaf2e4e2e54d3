"""What was set by hand about a phrase tree, and trees that have all of it.

Notation
--------
    span     (first word, the position after the last), words counted from 0
    chain    the labels over a span, outermost first
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sapwood.annotation.state import SentenceState
from sapwood.constituency.grammar.constraints import has_labels
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import ROOT, ROOT_LABELS, Tree

Span = tuple[int, int]
Phrase = tuple[int, int, str]
SHOWN = "shown"  # in what was set by hand: the tree that was shown when it was edited last
UNKNOWN_TAG = "X"  # of a word whose tag nobody knows


@dataclass(frozen=True)
class GivenPhrases:
    """Phrases and tags that were set by hand, and phrases that were removed by hand.

    Attributes
    ----------
    spans
        Phrases that the tree must have; of those over the same words, the outermost first.
    forbidden
        Phrases that the tree must not have; None for any label.
    tags
        For each word its tag, or None.
    open
        Words over which a tree that is kept otherwise is not kept.
    """

    spans: tuple[Phrase, ...]
    forbidden: tuple[tuple[int, int, str | None], ...]
    tags: tuple[str | None, ...]
    open: tuple[Span, ...] = ()

    @classmethod
    def of(cls, state: SentenceState) -> Self:
        """What was set by hand in a state."""
        found = state.constraints
        return cls(
            tuple((i, j, label) for i, j, label in found.get("spans", ())),
            tuple((i, j, label) for i, j, label in found.get("forbidden", ())),
            tuple(found.get("tags") or (None,) * len(state.words)),
            tuple((i, j) for i, j in found.get("open", ())),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the state; what is empty is left out."""
        found: dict[str, Any] = {
            "spans": [list(one) for one in self.spans],
            "forbidden": [list(one) for one in self.forbidden],
            "open": [list(one) for one in self.open],
        }
        found = {name: value for name, value in found.items() if value}
        return found | ({"tags": [*self.tags]} if any(self.tags) else {})

    def chains(self) -> dict[Span, list[str]]:
        """The labels that are required over each span, outermost first."""
        found: dict[Span, list[str]] = {}
        for i, j, label in self.spans:
            found.setdefault((i, j), []).append(label)
        return found

    def with_phrase(self, phrase: Phrase, above: str | None = None) -> Self:
        """The same with one more phrase, over all others on its words or right above one of them.

        Raises
        ------
        SapwoodError
            Where a phrase that was set by hand crosses it.
        """
        start, end, label = phrase
        for other in self.spans:
            if spans_cross((start, end), other[:2]):
                msg = f"{describe_phrase(phrase)} crosses {describe_phrase(other)}, "
                msg += "which was set by hand"
                raise SapwoodError(msg, hint="remove or free the other one first")
        spans = [one for one in self.spans if one != phrase]
        if above is not None and above != label and (start, end, above) not in spans:
            spans.append((start, end, above))
        over = [k for k, one in enumerate(spans) if one[:2] == (start, end)]
        place = over[0] if over else len(spans)
        if above is not None and above != label:
            place = spans.index((start, end, above))
        spans.insert(place, phrase)
        freed = self._without_ban(phrase)
        if above is not None:
            freed = freed._without_ban((start, end, above))
        return replace(freed, spans=tuple(spans))

    def _without_ban(self, phrase: Phrase) -> Self:
        """The same where a phrase is not forbidden."""
        start, end, _ = phrase
        banned = (one for one in self.forbidden if one not in {phrase, (start, end, None)})
        return replace(self, forbidden=tuple(banned))

    def with_open_phrase(self, span: Span) -> Self:
        """The same where no label over some words is forbidden."""
        return replace(self, forbidden=tuple(one for one in self.forbidden if one[:2] != span))

    def without_phrase(self, phrase: Phrase) -> Self:
        """The same without a phrase among those that are required."""
        return replace(self, spans=tuple(one for one in self.spans if one != phrase))

    def with_ban(self, phrase: tuple[int, int, str | None]) -> Self:
        """The same where a phrase is forbidden; one of any label takes the place of the others."""
        start, end, label = phrase
        if (start, end, None) in self.forbidden or phrase in self.forbidden:
            return self
        kept = [one for one in self.forbidden if label is not None or one[:2] != (start, end)]
        return replace(self, forbidden=(*kept, phrase))

    def with_tag(self, word: int, tag: str | None) -> Self:
        """The same with another tag of a word."""
        return replace(self, tags=(*self.tags[:word], tag, *self.tags[word + 1 :]))


def spans_cross(one: Span, other: Span) -> bool:
    """Whether two spans share words and neither is within the other."""
    (a, b), (i, j) = sorted((one, other))
    return a < i < b < j


def describe_phrase(phrase: Sequence[Any]) -> str:
    """A phrase in a message, its words counted from 1."""
    start, end, label = phrase
    words = f"word {end}" if end == start + 1 else f"words {start + 1} to {end}"
    return f"{label or 'a phrase'} over {words}"


def check_new_label(label: str, what: str = "a phrase") -> str:
    """A label that brackets can write, refused where it is none."""
    if label in ROOT_LABELS:
        msg = f"the label of {what} is {label!r}, that of the root, which every tree has"
        raise SapwoodError(msg, hint="give another label")
    try:
        Tree(label, "x")
    except SapwoodError as error:
        raise SapwoodError(str(error), hint="give a label without blanks and brackets") from None
    return label


@dataclass(frozen=True)
class TreeLayout:
    """A tree as its labelled spans: tags of words, and chains of labels over spans."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    chains: Mapping[Span, tuple[str, ...]]

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """The layout of a tree; labels of the root at the top are no phrases."""
        chains: dict[Span, list[str]] = {}
        tags = []
        pairs = zip(tree.spans(), tree.nodes(), strict=True)
        for place, ((label, start, end), node) in enumerate(pairs):
            if node.is_preterminal:
                tags.append(label)
            elif place or label not in ROOT_LABELS:
                chains.setdefault((start, end), []).append(label)
        return cls(tuple(tree.words()), tuple(tags), {span: tuple(c) for span, c in chains.items()})

    @classmethod
    def flat(cls, words: Sequence[str], tags: Sequence[str]) -> Self:
        """The layout of a sentence without phrases."""
        return cls(tuple(words), tuple(tags), {})

    def phrases(self) -> list[Phrase]:
        """All phrases, parents before children."""
        order = sorted(self.chains, key=lambda span: (span[0], -span[1]))
        return [(*span, label) for span in order for label in self.chains[span]]

    def tree(self) -> Tree:
        """The tree, under one root."""
        opened: list[tuple[int, str, list[Tree]]] = [(len(self.words), ROOT, [])]
        waiting = iter(self.phrases())
        following = next(waiting, None)
        for place, (word, tag) in enumerate(zip(self.words, self.tags, strict=True)):
            while following is not None and following[0] == place:
                opened.append((following[1], following[2], []))
                following = next(waiting, None)
            opened[-1][2].append(Tree(tag, word))
            while len(opened) > 1 and opened[-1][0] == place + 1:
                _, label, children = opened.pop()
                opened[-1][2].append(Tree(label, children))
        return Tree(ROOT, opened[0][2])

    def obeying(self, given: GivenPhrases) -> Self:
        """The layout that is nearest and has all that was set by hand."""
        required = given.chains()
        chains = {
            span: chain
            for span, chain in self.chains.items()
            if not any(spans_cross(span, other) for other in required)
        }
        for span, labels in required.items():
            if not has_labels(chains.get(span, ()), tuple(labels)):
                chains[span] = tuple(labels)
        for i, j, label in given.forbidden:
            kept = tuple(
                one for one in chains.get((i, j), ()) if label is not None and one != label
            )
            chains[i, j] = kept
        tags = tuple(new or old for new, old in zip(given.tags, self.tags, strict=True))
        return replace(self, tags=tags, chains={s: c for s, c in chains.items() if c})

    def unmet(self, given: GivenPhrases) -> str | None:
        """What was set by hand and the tree has not, in words; None where it has all."""
        for span, labels in given.chains().items():
            if not has_labels(self.chains.get(span, ()), tuple(labels)):
                return f"no {describe_phrase((*span, ' over '.join(labels)))}"
        for i, j, label in given.forbidden:
            chain = self.chains.get((i, j), ())
            if chain and (label is None or label in chain):
                return describe_phrase((i, j, label))
        for place, (asked, tag) in enumerate(zip(given.tags, self.tags, strict=True), 1):
            if asked is not None and asked != tag:
                return f"the tag {tag} of word {place}"
        return None


def shifted(spans: Iterable[Span], place: int, by: int) -> list[Span | None]:
    """Spans behind a word that was split (`by` 1) or joined with the next (`by` -1).

    A span that starts or ends within the joined word is None.
    """
    found: list[Span | None] = []
    for start, end in spans:
        if by < 0 and place + 1 in (start, end):
            found.append(None)
            continue
        found.append((start + by * (start > place), end + by * (end > place)))
    return found
