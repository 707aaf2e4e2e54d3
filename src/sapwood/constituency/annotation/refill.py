"""Refilling a tree after an edit: what was set by hand, what the parser says now, what was shown.

**Requests that the model can meet.** A grammar of few trees has not seen every rule: for some
phrases that an annotator adds it has no tree at all, or only odd ones, whose other phrases are odd
too. So a request R is kept only where the model finds it possible beside those kept before:

    log P(R, kept | sentence) - log P(kept | sentence) >= LEAST_LOG_PROB

Whoever shows the tree puts what was left out into it.

**Implicit approval.** An annotator who edits one phrase has seen the others. With p(b) the
posterior of a bracket given the kept requests, and y(b) whether b is in the tree that was shown,
the new tree has the highest expected F1 among all trees over the words under

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

STAY = 0.4
LEAST_LOG_PROB = -2.3  # one in ten
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
        ordered = sorted(self.spans, key=lambda one: (one[0] - one[1], one[0]))
        yield from (Requests(spans=(span,)) for span in ordered)
        yield from (Requests(tags=(tag,)) for tag in self.tags)
        yield from (Requests(forbidden=(span,)) for span in self.forbidden)

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


NO_REQUESTS = Requests()


def parse_feasible(
    parser: Parser,
    words: Sequence[str],
    requests: Requests,
    kept: Requests = NO_REQUESTS,
    before: Parse | None = None,
) -> tuple[Parse, Requests]:
    """Parse with the requests that the model finds possible, see the notation of this module.

    Parameters
    ----------
    requests
        New requests; labels and tags are those of the model.
    kept
        Requests that the model found possible before.
    before
        The parse with these, where it is known.

    Returns
    -------
    The parse, and the requests that it satisfies, the kept ones among them.

    Notes
    -----
    Cost: a parse where all are possible together, besides that of what was kept; else one more
    for each request.

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
    before = kept.parse(parser, words) if before is None else before
    if not requests:
        return before, kept
    if found := _possible(parser, words, kept.plus(requests), before):
        return found, kept.plus(requests)
    each = list(requests.each())
    for one in each if len(each) > 1 else []:
        if found := _possible(parser, words, kept.plus(one), before):
            before, kept = found, kept.plus(one)
    return before, kept


def _possible(
    parser: Parser, words: Sequence[str], requests: Requests, before: Parse
) -> Parse | None:
    """The parse with all requests; None where the model finds them impossible."""
    found = requests.parse(parser, words)
    if found.is_fallback:
        return None
    if before.is_fallback:
        return found
    if parser.reads_together:  # networks know how probable requests are, and not the sentence
        change = found.constraint_log_prob - before.constraint_log_prob
    else:  # log P(R, sentence) - log P(sentence), of trees that survive pruning
        change = found.sentence_log_prob - before.sentence_log_prob
    return found if change >= LEAST_LOG_PROB else None


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
