"""Refilling a tree after an edit: what was set by hand, what the parser makes of it, what was shown.

**Feasible requests.** A grammar of few trees has not seen every rule: for some phrases that an
annotator adds, it has no tree at all. One such phrase must not take away what the parser makes of
the others. So requests are tried one after the other, and one that leaves no tree is weakened, or
left out. Whoever shows the tree puts what was left out into it.

**Implicit approval.** An annotator who edits one phrase has seen the others. With p(b) the posterior
of a bracket given all requests, and y(b) whether b is in the tree that was shown, the new tree has
the highest expected F1 among all trees over the words under

    q(b) = (1 - STAY) p(b) + STAY y(b)

so that a phrase is taken away only where p(b) falls well below one half, and a new one is put in
only where it rises well above. STAY = 0 is the parser's own tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sapwood.constituency.parse.decoders import unconstrained_tree
from sapwood.constituency.parse.posteriors import BracketPosteriors, unary_chains
from sapwood.corpora.tree import ROOT

if TYPE_CHECKING:
    from sapwood.constituency.parse.parser import Parse, Parser
    from sapwood.corpora.tree import Tree

STAY = 0.3  # benchmarks/annotation.py actions: fewest actions on folds of one treebank
Span = tuple[int, int, str | None]


class Requests(NamedTuple):
    """What was set by hand, as `Parser.parse` takes it."""

    spans: tuple[Span, ...] = ()
    forbidden: tuple[Span, ...] = ()
    tags: tuple[tuple[int, str], ...] = ()  # a word and its tag

    def __bool__(self) -> bool:
        return bool(self.spans or self.forbidden or self.tags)

    def plus(self, other: Requests) -> Requests:
        """All requests of both."""
        return Requests(
            self.spans + other.spans, self.forbidden + other.forbidden, self.tags + other.tags
        )

    def each(self) -> Iterable[Requests]:
        """One request after the other: phrases, largest first, then tags, then what is none."""
        for span in sorted(self.spans, key=lambda one: (one[0] - one[1], one[0])):
            yield Requests(spans=(span,))
        yield from (Requests(tags=(tag,)) for tag in self.tags)
        yield from (Requests(forbidden=(span,)) for span in self.forbidden)

    @property
    def weaker(self) -> Requests:
        """The same phrases, of any label."""
        return Requests(spans=tuple((i, j, None) for i, j, _ in self.spans))

    def parse(self, parser: Parser, words: Sequence[str]) -> Parse:
        """Parse with all of the requests."""
        if not self:
            return parser.parse(words)
        known = dict(self.tags)
        return parser.parse(
            words,
            tags=[known.get(k) for k in range(len(words))] if known else None,
            spans=self.spans,
            forbidden=self.forbidden,
        )


def parse_feasible(
    parser: Parser, words: Sequence[str], requests: Requests, kept: Requests = Requests()
) -> tuple[Parse, Requests]:
    """Parse with the requests that the model has a tree for.

    Parameters
    ----------
    requests
        New requests; labels and tags are those of the model.
    kept
        Requests that the model has a tree for.

    Returns
    -------
    The parse, and the requests that it satisfies, the kept ones among them.

    Notes
    -----
    Cost: one parse where there is a tree for all; else one or two more for each request.

    Examples
    --------
    >>> import sapwood as sw
    >>> parser = sw.Parser(sw.bundled_grammar())
    >>> words = "the man sees the dog with a hat .".split()
    >>> asked = Requests(spans=((3, 8, "NP"), (1, 3, "PP")))
    >>> parse, done = parse_feasible(parser, words, asked)
    >>> parse.is_fallback, done.spans
    (False, ((3, 8, 'NP'),))
    """
    whole = kept.plus(requests)
    parse = whole.parse(parser, words)
    if not parse.is_fallback or not requests:
        return parse, whole
    parse = None
    for one in requests.each():
        for option in (one, one.weaker) if one.spans else (one,):
            tried = kept.plus(option).parse(parser, words)
            if not tried.is_fallback:
                kept, parse = kept.plus(option), tried
                break
    return kept.parse(parser, words) if parse is None else parse, kept


def settle(parser: Parser, parse: Parse, shown: Tree, stay: float = STAY) -> Tree:
    """The tree between what the parser says now and what was shown, see the notation above.

    Parameters
    ----------
    parse
        A parse with the requests; that of a fallback tree changes nothing that was shown.
    shown
        The tree before the edit, over the same words. Labels that the model does not know are left
        out.

    Examples
    --------
    >>> import sapwood as sw
    >>> parser = sw.Parser(sw.bundled_grammar())
    >>> words = "the man sees the dog with a hat .".split()
    >>> shown = parser.parse(words)
    >>> now = parser.parse(words, spans=[(3, 8, "NP")])
    >>> settle(parser, now, shown.tree) == now.tree
    True
    """
    if parse.is_fallback or stay <= 0.0:
        return parse.tree
    columns, n = parse.posterior_columns(), len(parse.words)
    numbers = {name: number for number, name in enumerate(columns.names)}
    score: dict[int, float] = {}

    def code(label: int, start: int, end: int, is_tag: bool) -> int:
        return ((2 * label + is_tag) * (n + 1) + start) * (n + 1) + end

    rows = (columns.label, columns.start, columns.end, columns.is_tag, columns.p)
    for a, i, j, is_tag, p in zip(*(row.tolist() for row in rows), strict=True):
        score[code(a, i, j, is_tag)] = (1.0 - stay) * p
    for node, (label, i, j) in zip(shown.nodes(), shown.spans(), strict=True):
        if label in numbers and label != ROOT:
            key = code(numbers[label], i, j, node.is_preterminal)
            score[key] = score.get(key, 0.0) + stay
    codes = sorted(score)
    brackets = BracketPosteriors(np.array(codes), np.array([score[key] for key in codes]))
    chains = unary_chains(parser.model.as_ensemble().grammars)
    return unconstrained_tree(brackets, parse.words, columns.names, chains)[0]
