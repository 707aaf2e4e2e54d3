"""Suggestions of dependency trees: the parser fills in what was not set by hand.

A parser's trees are projective, and it knows some tags and relations. What it cannot be asked for
is put into its tree afterwards, so that every suggestion has all that was set by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
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
from sapwood.dependency.annotation.given import (
    ROOT_RELATION,
    GivenArcs,
    chain,
    obeying,
    tag_column,
    unparsed,
)
from sapwood.dependency.data.bank import EMPTY, Arcs
from sapwood.dependency.model.arc_model import ArcModel, ArcRerankModel
from sapwood.dependency.parse.constraints import ArcConstraintError
from sapwood.dependency.parse.parser import ArcParser

if TYPE_CHECKING:
    from sapwood.dependency.parse.parser import ArcParse


class ArcSuggester:
    """Makes dependency trees of sentences by a model, with all that was set by hand.

    Parameters
    ----------
    names
        Relations and tags of the model, and what they are called in the project; others stay.
    """

    def __init__(self, model: ArcModel | ArcRerankModel, names: Mapping[str, str]) -> None:
        own = model.parser if isinstance(model, ArcRerankModel) else model
        assert isinstance(own, ArcModel)
        self.parser, self._names = ArcParser(own), dict(names)
        self._relations = {self._named(name): name for name in own.relations}
        column = 0 if any(pair[0] != EMPTY for pair in own.tags) else 1
        tags = sorted({pair[column] for pair in own.tags} - {EMPTY})
        self._tags = {self._named(tag): tag for tag in tags}
        self._column = column

    def _named(self, name: str) -> str:
        return self._names.get(name, name)

    @property
    def relations(self) -> set[str]:
        """The relations that the model may suggest."""
        return set(self._relations)

    @property
    def tags(self) -> set[str]:
        """The tags that the model may suggest."""
        return set(self._tags)

    def parse(self, words: Sequence[str]) -> Arcs:
        """The tree of a sentence of which nothing is known."""
        return self._project_arcs(self.parser.parse(unparsed(words)).arcs, None)

    def expected_errors(self, words: Sequence[str]) -> float:
        """The number of words that probably have another head than in the tree of the model."""
        parse = self.parser.parse(unparsed(words))
        return sum(max(1.0 - p, 0.0) for p in parse.head_posteriors)

    def suggest(self, state: SentenceState) -> Suggestion:
        """The tree of a sentence with all that was set by hand, and alternatives."""
        given = GivenArcs.of(state)
        base = None if state.base is None else Arcs.parse(state.base)
        if len(state.words) > MOST_PARSED_WORDS:
            found = obeying(base or chain(state.words), given)
            return Suggestion(str(found), arc_rows(found, given), is_fallback=True)
        wanted = given if base is None else _with_base(given, base)
        parse, is_whole = self._parse(state.words, wanted)
        if base is not None and not given.open:
            current = obeying(base, given)
        else:
            current = obeying(self._project_arcs(parse.arcs, base), wanted)
        if base is not None and not given.open:
            parse, is_whole = self._parse(state.words, given)
        alternatives = self._alternatives(current, given, parse, base)
        return Suggestion(
            str(current), arc_rows(current, given, parse), alternatives, is_fallback=not is_whole
        )

    def complete(self, state: SentenceState, place: Mapping[str, Any]) -> list[Label]:
        """Relations of a word to a head, or tags of a word, the most probable first."""
        if len(state.words) > MOST_PARSED_WORDS:
            return []
        parse, _ = self._parse(state.words, GivenArcs.of(state))
        word = int(place["word"])
        if place.get("head") is None:
            names = [self._named(pair[self._column]) for pair in self.parser.model.tags]
            row = parse.tag_posteriors[word]
        else:
            heads = list(parse.arcs.heads)
            heads[word] = int(place["head"])
            names = [self._named(name) for name in self.parser.model.relations]
            row = parse.relation_posteriors_of(heads)[word]
        total: dict[str, float] = {}
        for name, p in zip(names, row.tolist(), strict=True):
            if name != EMPTY:
                total[name] = min(total.get(name, 0.0) + p, 1.0)
        return [Label(*row) for row in sorted(total.items(), key=lambda row: (-row[1], row[0]))]

    def _parse(self, words: Sequence[str], given: GivenArcs) -> tuple[ArcParse, bool]:
        """Parse with what the parser can be asked for, and whether this is all that was given."""
        heads, relations = (
            list(given.heads),
            [None if name is None else self._relations.get(name) for name in given.relations],
        )
        for word, head in enumerate(heads):
            if head is not None and head > 0 and relations[word] == ROOT_RELATION:
                relations[word] = None
        tags = [None if tag is None else self._tags.get(tag) for tag in given.tags]
        sentence, is_whole = unparsed(words), True
        while True:
            try:
                return self.parser.parse(
                    sentence, tags=tags, heads=heads, relations=relations
                ), is_whole
            except ArcConstraintError as error:  # heads that are in no projective tree
                places = [word - 1 for word in error.words]
                place = max(places, key=lambda k: (heads[k] is not None, k), default=None)
                if place is None:
                    return self.parser.parse(sentence), False
                if heads[place] is None and relations[place] is None:
                    return self.parser.parse(sentence), False
                heads[place] = relations[place] = None
                is_whole = False

    def _project_arcs(self, arcs: Arcs, base: Arcs | None) -> Arcs:
        """A tree of the model under the project's names, with the other columns of the base."""
        found = replace(
            arcs,
            relations=tuple(map(self._named, arcs.relations)),
            upos=tuple(map(self._named, arcs.upos)), xpos=tuple(map(self._named, arcs.xpos)),
        )  # fmt: skip
        return found if base is None else replace(found, comments=base.comments, rows=base.rows)

    def _alternatives(
        self, current: Arcs, given: GivenArcs, parse: ArcParse, base: Arcs | None
    ) -> list[Alternative]:
        """The current tree and the best others; weights are products of the heads' posteriors."""
        listed = {str(current): current}
        for one in parse.k_best(N_LISTED_TREES):
            arcs = obeying(self._project_arcs(one.arcs, base), given)
            listed.setdefault(str(arcs), arcs)
        posterior = parse.posteriors
        weights = {
            text: sum(
                log(max(float(posterior[word, head]), LEAST_PROBABILITY))
                for word, head in enumerate(arcs.heads)
            )
            for text, arcs in listed.items()
        }
        top = max(weights.values())
        total = sum(exp(weight - top) for weight in weights.values())
        others = sorted((text for text in listed if text != str(current)), key=weights.__getitem__)
        shown = [str(current), *others[::-1][: N_ALTERNATIVES - 1]]
        shares = {text: exp(weights[text] - top) / total for text in shown}
        return [
            Alternative(text, shares[text], n_arc_changes(current, listed[text])) for text in shown
        ]


def _with_base(given: GivenArcs, base: Arcs) -> GivenArcs:
    """What was set by hand, and for the other words what a kept tree has."""
    kept = [k not in given.open for k in range(len(base))]
    tags = getattr(base, tag_column(base))

    def fill(own: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(own, other, kept, strict=True)
        return tuple(x if x is not None or not keep else y for x, y, keep in pairs)

    wanted = obeying(base, given)
    return replace(
        given, heads=fill(given.heads, wanted.heads),
        relations=fill(given.relations, wanted.relations),
        tags=tuple(None if tag == EMPTY else tag for tag in fill(given.tags, tags)),
    )  # fmt: skip


def n_arc_changes(current: Arcs, other: Arcs) -> int:
    """Number of words with another head, relation or tag."""
    columns = [(one.heads, one.relations, one.upos, one.xpos) for one in (current, other)]
    rows = zip(zip(*columns[0], strict=True), zip(*columns[1], strict=True), strict=True)
    return sum(one != two for one, two in rows)


def suggest_chain(state: SentenceState) -> Suggestion:
    """What was kept and what was set by hand, the other words each below the one before."""
    given = GivenArcs.of(state)
    arcs = obeying(Arcs.parse(state.base) if state.base else chain(state.words), given)
    return Suggestion(str(arcs), arc_rows(arcs, given), [Alternative(str(arcs), None, 0)])


def arc_rows(arcs: Arcs, given: GivenArcs, parse: ArcParse | None = None) -> list[dict[str, Any]]:
    """The arcs for the page: `word` (from 0 on), `head`, `relation`, `tag` and `probability`.

    `is_given` tells whether the head or relation was set by hand, `is_tag_given` whether the tag
    was.
    """
    tags = getattr(arcs, tag_column(arcs))
    rows = []
    for k in range(len(arcs)):
        head = arcs.heads[k]
        known = None if parse is None else min(float(parse.posteriors[k, head]), 1.0)
        rows.append({
            "word": k, "head": head, "relation": arcs.relations[k], "tag": tags[k],
            "probability": known,
            "is_given": given.heads[k] is not None or given.relations[k] is not None,
            "is_tag_given": given.tags[k] is not None,
        })  # fmt: skip
    return rows
