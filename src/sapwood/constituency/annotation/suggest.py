"""Suggestions of phrase trees: the parser fills in what was not set by hand.

Labels of a project need not be those of the model: one that the model does not have is asked for as
a phrase of any label, and put into the tree then. So every tree that is suggested has all that was
set by hand, whatever the model knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite, log
from typing import TYPE_CHECKING, Any

from sapwood.annotation.kinds import (
    LEAST_PROBABILITY,
    MOST_PARSED_WORDS,
    N_ALTERNATIVES,
    N_LISTED_TREES,
    Alternative,
    Label,
    Suggestion,
)
from sapwood.annotation.state import SentenceState
from sapwood.constituency.annotation.given import (
    SHOWN,
    GivenPhrases,
    Phrase,
    Span,
    TreeLayout,
    spans_cross,
)
from sapwood.constituency.annotation.refill import Requests, parse_feasible, settle
from sapwood.constituency.grammar.constraints import has_labels
from sapwood.corpora.tree import Tree

if TYPE_CHECKING:
    from sapwood.constituency.parse.parser import Parse, Parser

MOST_REQUESTS = 10  # that are tried one by one where they are impossible together
LEAST_TAGS = 0.05  # least ratio to the current tree of one that differs in tags alone
Node = tuple[
    str, int, int, bool
]  # label, first word, the position after the last, whether it is a tag


class Suggester:
    """Makes trees of sentences by a model, with all that was set by hand."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.labels, self.tags = parser.known_labels

    def suggest(self, state: SentenceState, flat: TreeLayout) -> Suggestion:
        """The tree of a sentence with all that was set by hand, and alternatives.

        Parameters
        ----------
        flat
            The words with their usual tags, for a sentence that is too long to parse.
        """
        given = GivenPhrases.of(state)
        base = None if state.base is None else TreeLayout.of(Tree.parse(state.base))
        if len(state.words) > MOST_PARSED_WORDS:
            layout = (base or flat).obeying(given)
            return Suggestion(str(layout.tree()), node_rows(layout, given), is_fallback=True)
        if base is None:
            parse, is_whole = self._refill(state.words, given)
            tree = parse.tree
            if SHOWN in state.constraints:
                tree = settle(self.parser, parse, Tree.parse(state.constraints[SHOWN]))
            layout = TreeLayout.of(tree).obeying(given)
        else:
            wanted = keep_base(base, given)
            parse = self._parse(state.words, wanted or given)
            is_whole = not parse.is_fallback
            layout = base.obeying(given)
            if wanted is not None:
                found = TreeLayout.of(parse.tree).obeying(wanted)
                layout = without_extras(found, base, given)
        probability = self._probabilities(parse)
        alternatives = self._alternatives(layout, given, parse, probability)
        return Suggestion(
            str(layout.tree()), node_rows(layout, given, probability), alternatives,
            is_fallback=not is_whole,
        )  # fmt: skip

    def complete(self, state: SentenceState, place: Mapping[str, Any]) -> list[Label]:
        """Labels for a phrase over some words, or tags of a word, the most probable first.

        The probabilities are those given what was set by hand, and that there is some phrase.
        """
        if len(state.words) > MOST_PARSED_WORDS:
            return []
        given = GivenPhrases.of(state)
        is_tag = place.get("word") is not None
        start = place["word"] if is_tag else place["start"]
        end = start + 1 if is_tag else place["end"]
        if is_tag:
            given = given.with_tag(start, None)
        else:
            rest = [one for one in given.spans if not spans_cross(one[:2], (start, end))]
            rest = [one for one in rest if one[:2] != (start, end)]
            given = replace(given.with_open_phrase((start, end)), spans=tuple(rest))
        any_at = None if is_tag else (start, end)
        found = self._probabilities(self._parse(state.words, given, any_at))
        weights = {
            label: p
            for (label, i, j, tag), p in found.items()
            if (i, j, tag) == (start, end, is_tag)
        }
        total = sum(weights.values()) if is_tag else max(sum(weights.values()), 1.0)
        known = self.tags if is_tag else self.labels
        rows = ((name, weights.get(name, 0.0) / total if total else 0.0) for name in known)
        return [Label(*row) for row in sorted(rows, key=lambda row: (-row[1], row[0]))]

    def _refill(self, words: Sequence[str], given: GivenPhrases) -> tuple[Parse, bool]:
        """Parse with what the model finds possible of what was set by hand; whether that is all."""
        asked = self._requests(given)
        if len(asked.spans) + len(asked.forbidden) + len(asked.tags) > MOST_REQUESTS:
            parse = asked.parse(self.parser, words)
            return parse, not parse.is_fallback
        parse, done = parse_feasible(self.parser, words, asked)
        return parse, done == asked and not parse.is_fallback

    def _parse(
        self, words: Sequence[str], given: GivenPhrases, any_at: Span | None = None
    ) -> Parse:
        """Parse with what the model can be asked for, and some phrase over a span."""
        asked = self._requests(given)
        if any_at is not None:
            asked = asked._replace(spans=(*asked.spans, (*any_at, None)))
        return asked.parse(self.parser, words)

    def _requests(self, given: GivenPhrases) -> Requests:
        """What was set by hand, as far as the model knows the labels."""
        spans: list[tuple[int, int, str | None]] = []
        for (i, j), chain in given.chains().items():
            labels = [label for label in chain if label in self.labels]
            spans += [(i, j, label) for label in labels] or [(i, j, None)]
        forbidden = [one for one in given.forbidden if one[2] is None or one[2] in self.labels]
        tags = [(k, tag) for k, tag in enumerate(given.tags) if tag in self.tags]
        return Requests(tuple(spans), tuple(forbidden), tuple((k, str(tag)) for k, tag in tags))

    def _probabilities(self, parse: Parse) -> dict[Node, float]:
        """Posteriors of phrases and tags."""
        columns = parse.posterior_columns(LEAST_PROBABILITY)
        found: dict[Node, float] = {}
        rows = (columns.label, columns.start, columns.end, columns.is_tag, columns.p)
        for number, i, j, is_tag, p in zip(*(row.tolist() for row in rows), strict=True):
            found[columns.names[number], i, j, bool(is_tag)] = min(p, 1.0)
        return found

    # -- alternatives -----------------------------------------------------------------------------

    def _alternatives(
        self,
        current: TreeLayout,
        given: GivenPhrases,
        parse: Parse,
        probability: Mapping[Node, float],
    ) -> list[Alternative]:
        """The current tree and the best others; probabilities are shared out among those listed.

        The weight of a tree is its probability where the model has one, else the product of the
        posteriors of its phrases and tags.
        """
        listed: dict[str, tuple[TreeLayout, float]] = {}
        scored = parse.k_best(N_LISTED_TREES)
        is_exact = self.parser.model.can.probabilities and all(
            isfinite(one.log_prob) for one in scored
        )
        for one in scored:
            layout = TreeLayout.of(one.tree).obeying(given)
            weight = one.log_prob if is_exact else _log_product(layout, probability)
            listed.setdefault(str(layout.tree()), (layout, weight))
        text = str(current.tree())
        if text not in listed and is_exact:
            listed = {
                name: (layout, _log_product(layout, probability))
                for name, (layout, _) in listed.items()
            }
        own = listed.pop(text, (current, _log_product(current, probability)))
        top = max([own[1], *(weight for _, weight in listed.values())])
        total = sum(exp(weight - top) for _, weight in [own, *listed.values()])
        others = sorted(listed.items(), key=lambda row: -row[1][1])
        shown = [
            (name, (layout, weight))
            for name, (layout, weight) in others
            if layout.chains != current.chains or weight > own[1] + log(LEAST_TAGS)
        ]
        return [
            Alternative(name, exp(weight - top) / total, n_tree_changes(current, layout))
            for name, (layout, weight) in [(text, own), *shown[: N_ALTERNATIVES - 1]]
        ]


def _log_product(layout: TreeLayout, probability: Mapping[Node, float]) -> float:
    nodes: list[Node] = [(label, i, j, False) for i, j, label in layout.phrases()]
    nodes += [(tag, k, k + 1, True) for k, tag in enumerate(layout.tags)]
    return sum(log(max(probability.get(node, 0.0), LEAST_PROBABILITY)) for node in nodes)


def n_tree_changes(current: TreeLayout, other: TreeLayout) -> int:
    """Number of phrases and tags of one tree that another has not."""
    theirs, mine = other.phrases(), current.phrases()
    n_tags = sum(a != b for a, b in zip(current.tags, other.tags, strict=True))
    return n_tags + len(set(theirs) - set(mine)) + len(set(mine) - set(theirs))


# -- a tree that is kept --------------------------------------------------------------------------


def keep_base(base: TreeLayout, given: GivenPhrases) -> GivenPhrases | None:
    """What the parser is asked for so that a tree is kept wherever it can be.

    None where all of the tree can be kept, and the parser has nothing to fill in.
    """
    holes = _holes(base, given)
    if not holes:
        return None
    chains, phrases = given.chains(), list[Phrase]()
    for i, j, label in base.phrases():
        if _is_kept((i, j), holes, given) and not has_labels(
            tuple(chains.get((i, j), ())), (label,)
        ):
            phrases.append((i, j, label))
    banned = set(given.forbidden)
    phrases = [one for one in phrases if one not in banned and (*one[:2], None) not in banned]
    tags = tuple(
        hand or (None if any(i <= k < j for i, j in holes) else tag)
        for k, (hand, tag) in enumerate(zip(given.tags, base.tags, strict=True))
    )
    return replace(given, spans=(*given.spans, *phrases), tags=tags)


def _holes(base: TreeLayout, given: GivenPhrases) -> list[Span]:
    """The words over which a tree cannot be kept, or should not be."""
    required = given.chains()
    crossed = [span for span in base.chains if any(spans_cross(span, one) for one in required)]
    return [*given.open, *crossed]


def _is_kept(span: Span, holes: Sequence[Span], given: GivenPhrases) -> bool:
    inside = any(i <= span[0] and span[1] <= j for i, j in given.open)
    return not inside and not any(spans_cross(span, one) for one in given.chains())


def without_extras(layout: TreeLayout, base: TreeLayout, given: GivenPhrases) -> TreeLayout:
    """A tree without phrases that neither the kept tree has nor what the parser had to fill in."""
    holes, required = _holes(base, given), given.chains()
    chains = {
        span: chain
        for span, chain in layout.chains.items()
        if span in base.chains
        or span in required
        or any(span[0] < j and i < span[1] for i, j in holes)
    }
    return replace(layout, chains=chains)


# -- rows for the page ----------------------------------------------------------------------------


def suggest_flat(state: SentenceState, flat: TreeLayout) -> Suggestion:
    """What was kept and what was set by hand, over words without other phrases."""
    given = GivenPhrases.of(state)
    layout = flat if state.base is None else TreeLayout.of(Tree.parse(state.base))
    layout = layout.obeying(given)
    text = str(layout.tree())
    return Suggestion(text, node_rows(layout, given), [Alternative(text, None, 0)])


def node_rows(
    layout: TreeLayout, given: GivenPhrases, probability: Mapping[Node, float] | None = None
) -> list[dict[str, Any]]:
    """The phrases and tags of a tree for the page, parents before children.

    A row has `label`, `start`, `end`, `parent` (the place of its row, -1 at the top), `level` (the
    number of phrases above it), `is_tag`, `is_given` and `probability`.
    """
    hand = set(given.spans)
    places = enumerate(layout.phrases())
    nodes = [(i, -j, False, rank, label) for rank, (i, j, label) in places]
    nodes += [(k, -k - 1, True, 0, tag) for k, tag in enumerate(layout.tags)]
    rows: list[dict[str, Any]] = []
    opened: list[int] = []
    for number, (start, minus_end, is_tag, _, label) in enumerate(sorted(nodes)):
        end = -minus_end
        while opened and rows[opened[-1]]["end"] <= start:
            opened.pop()
        is_given = given.tags[start] is not None if is_tag else (start, end, label) in hand
        known = None if probability is None else probability.get((label, start, end, is_tag), 0.0)
        rows.append({
            "label": label, "start": start, "end": end, "parent": opened[-1] if opened else -1,
            "level": len(opened), "probability": known, "is_given": is_given, "is_tag": is_tag,
        })  # fmt: skip
        if not is_tag:
            opened.append(number)
    return rows
