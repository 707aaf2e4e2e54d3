"""Labelled bracketing scores: the numbers of EVALB, and a total that drops no sentence.

**EVALB** (Sekine and Collins), with the conventions of its `COLLINS.prm`:

- Words tagged as comma, colon, full stop, opening or closing quotes, `-NONE-` or `TOP` are deleted
  on each side by that side's own tags; a phrase over nothing else is no bracket.
- `TOP` is no bracket, nor is any other customary root label at the root; phrase labels end before
  their first `-` or `=`; `ADVP` and `PRT` are the same label.
- Brackets match as multisets: a bracket that occurs twice must be found twice.
- A sentence whose remaining words differ in number or in spelling is an error (status 1), and one
  with no predicted words left is skipped (status 2). Neither enters any figure.
- The length of a sentence, for the cut-off, counts punctuation but not `-NONE-`.

**Strict**: one mistagged comma makes EVALB drop the whole sentence, so two parsers may be scored on
different sentences. The strict total deletes by the gold tag at each position, on both sides, and
drops nothing: where the words themselves differ, every gold bracket is missed and every predicted
bracket and tag is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import Final, NamedTuple

from sapwood.constituency.evaluate.scores import (
    COUNTS,
    CUTOFF,
    ERROR,
    OK,
    SKIPPED,
    BracketingReport,
    SentenceScore,
    Totals,
)
from sapwood.core.errors import SapwoodError
from sapwood.corpora.formats import as_trees
from sapwood.corpora.tree import ROOT_LABELS, Tree, as_tree, clean

DELETED: Final = frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."})
EQUAL_LABELS: Final = {"PRT": "ADVP"}

Bracket = tuple[str, int, int]  # label, start, end; half-open


def bracketing(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> BracketingReport:
    """Score predicted trees against gold trees, sentence by sentence, as EVALB does.

        recall = matched / gold,  precision = matched / predicted,  f1 = their harmonic mean

    Parameters
    ----------
    gold, predicted
        Trees of the same sentences in the same order, read once. None stands for a missing tree.
    raw
        Whether to score the trees as they are. Otherwise both sides are first cleaned
        (`sapwood.corpora.tree`), so that treebanks with traces and function tags can be given; this
        also collapses `X -> X`, which EVALB would count twice.

    Returns
    -------
    BracketingReport
        EVALB's rows and totals, and the strict total. A tree that is missing, or of which cleaning
        leaves nothing, makes its sentence an error.

    Notes
    -----
    Cost: O(n d) time for a sentence of n words and depth d; memory for the rows only.

    Examples
    --------
    >>> gold = Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP run) (PRT (RP away))) (. .)))")
    >>> flat = Tree.parse("(TOP (S (NP (NNS dogs)) (VP (VBP run)) (ADVP (RB away)) (. .)))")
    >>> report = bracketing([gold], [flat])
    >>> report.f1, report.all.tagging_accuracy.__round__(2)
    (75.0, 66.67)
    """
    rows: list[SentenceScore] = []
    strict_rows: list[SentenceScore] = []
    for number, (left, right) in enumerate(_pairs(gold, predicted), 1):
        a, b = _flatten(left, raw), _flatten(right, raw)
        row = _score(number, a, b)
        rows.append(row)
        strict_rows.append(_strict(number, a, b, row))
    short = [row for row in rows if row.length <= CUTOFF]
    strict = add_up(strict_rows, drop=False)
    return BracketingReport(add_up(rows), add_up(short), strict, rows, strict_rows)


class ScoredBrackets(NamedTuple):
    """What EVALB compares in one sentence: the words that are left, their tags, the brackets."""

    words: list[str]  # the scored words; brackets count over them
    # one for each word
    gold_tags: list[str]
    predicted_tags: list[str]
    # brackets in pre-order: of two over the same words the outer one comes first
    gold: list[Bracket]
    predicted: list[Bracket]


def scored_brackets(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None], *, raw: bool = False
) -> Iterator[tuple[SentenceScore, ScoredBrackets | None]]:
    """EVALB's row of every sentence with the brackets behind it, as `bracketing` counts them.

    Yields
    ------
    The row, and None in place of brackets where EVALB drops the sentence.
    """
    for number, (left, right) in enumerate(_pairs(gold, predicted), 1):
        a, b = _flatten(left, raw), _flatten(right, raw)
        row = _score(number, a, b)
        if a is None or b is None or row.status != OK:
            yield row, None
            continue
        kept, kept_too = a.kept(), b.kept()
        tags = [_tag_class(tag) for tag in _select(a.tags, kept)]
        tags_too = [_tag_class(tag) for tag in _select(b.tags, kept_too)]
        brackets = _project(a.brackets, kept), _project(b.brackets, kept_too)
        yield row, ScoredBrackets(_select(a.words, kept), tags, tags_too, *brackets)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Words, tags and phrases without the empty leaves; punctuation is still there."""

    words: list[str]
    tags: list[str]
    brackets: list[Bracket]

    def kept(self) -> list[bool]:
        """For each word, whether its own tag lets it be scored."""
        return [tag not in DELETED for tag in self.tags]


def _pairs(
    gold: Iterable[Tree | None], predicted: Iterable[Tree | None]
) -> Iterator[tuple[Tree | None, Tree | None]]:
    """Walk both sides together, and count on when one of them ends early."""
    end = object()
    counts = [0, 0]
    sides = (as_trees(side) for side in (gold, predicted))
    for pair in zip_longest(*sides, fillvalue=end):
        for side in (0, 1):
            counts[side] += pair[side] is not end
        if counts[0] == counts[1]:
            yield pair
    if counts[0] != counts[1]:
        msg = f"expected one predicted tree a gold tree, found {counts[1]:,} for {counts[0]:,}"
        raise SapwoodError(msg, hint="give one tree, or None, for every gold sentence")


def _flatten(tree: Tree | None, raw: bool) -> _Sentence | None:
    """Read words, tags and brackets off a tree; None when there is no tree."""
    if tree is None or (tree := as_tree(tree) if raw else clean(as_tree(tree))) is None:
        return None
    leaves: list[Tree] = []
    brackets: list[Bracket] = []
    for node, (label, start, end) in zip(tree.nodes(), tree.spans(), strict=True):
        if node.is_preterminal:
            leaves.append(node)
        elif (name := _bracket_label(label)) is not None and not (
            node is tree and label in ROOT_LABELS
        ):
            brackets.append((name, start, end))
    filled = [leaf.label != "-NONE-" for leaf in leaves]
    leaves = [leaf for leaf, full in zip(leaves, filled, strict=True) if full]
    words, tags = [leaf.word for leaf in leaves], [leaf.label for leaf in leaves]
    return _Sentence(words, tags, _project(brackets, filled))


@lru_cache(maxsize=4096)
def _bracket_label(label: str) -> str | None:
    """The label that EVALB compares, or None for a phrase that is no bracket."""
    name = re.split("[-=]", label, maxsplit=1)[0]
    return None if name in DELETED else _tag_class(name)


def _tag_class(label: str) -> str:
    # EVALB applies its equal labels to tags as well.
    return EQUAL_LABELS.get(label, label)


def _project(brackets: Sequence[Bracket], kept: Sequence[bool]) -> list[Bracket]:
    """Renumber the brackets over the kept words; brackets over no kept word go."""
    if all(kept):
        return list(brackets)
    at = list(accumulate(kept, initial=0))
    return [(label, at[i], at[j]) for label, i, j in brackets if at[i] < at[j]]


def _score(number: int, gold: _Sentence | None, predicted: _Sentence | None) -> SentenceScore:
    """EVALB's row: each side is deleted by its own tags."""
    length = len(gold.words) if gold else 0
    if gold is None or predicted is None:
        side = "gold" if gold is None else "predicted"
        return SentenceScore(number, length, ERROR, problem=f"No {side} tree")
    kept, kept_too = gold.kept(), predicted.kept()
    if not any(kept_too):
        return SentenceScore(number, length, SKIPPED, problem="No predicted words")
    problem = _unmatch(_select(gold.words, kept), _select(predicted.words, kept_too))
    if problem:
        return SentenceScore(number, length, ERROR, problem=problem)
    return _compare(number, gold, predicted, kept, kept_too)


def _strict(
    number: int, gold: _Sentence | None, predicted: _Sentence | None, row: SentenceScore
) -> SentenceScore:
    """The row that is never dropped: both sides are deleted by the gold tags."""
    gold, predicted = gold or _Sentence([], [], []), predicted or _Sentence([], [], [])
    kept = gold.kept()
    problem = _unmatch(gold.words, predicted.words)
    if not problem:
        if row.status == OK and kept == predicted.kept():
            return row  # the common case: nothing was mistagged into or out of punctuation
        return _compare(number, gold, predicted, kept, kept)
    n_predicted = len(_project(predicted.brackets, predicted.kept()))
    return SentenceScore(
        number,
        len(gold.words),
        ERROR,
        gold_brackets=len(_project(gold.brackets, kept)),
        predicted_brackets=n_predicted,
        crossing=n_predicted,  # no bracket can be placed, so none is given the benefit of the doubt
        words=sum(kept),
        problem=problem,
    )


def _compare(
    number: int,
    gold: _Sentence,
    predicted: _Sentence,
    kept: Sequence[bool],
    kept_too: Sequence[bool],
) -> SentenceScore:
    """Count brackets and tags over the same words."""
    left, right = _project(gold.brackets, kept), _project(predicted.brackets, kept_too)
    tags = zip(_select(gold.tags, kept), _select(predicted.tags, kept_too), strict=True)
    n_words = sum(kept)
    return SentenceScore(
        number,
        len(gold.words),
        matched=_n_matches(left, right),
        gold_brackets=len(left),
        predicted_brackets=len(right),
        crossing=_crossing(left, right, n_words),
        words=n_words,
        correct_tags=sum(_tag_class(a) == _tag_class(b) for a, b in tags),
    )


def _n_matches(gold: Iterable[Bracket], predicted: Iterable[Bracket]) -> int:
    """Size of the multiset intersection."""
    return (Counter(gold) & Counter(predicted)).total()


def _crossing(gold: Iterable[Bracket], predicted: Iterable[Bracket], n_words: int) -> int:
    """Predicted brackets that overlap some gold bracket without containing it or lying in it.

    A gold bracket crosses `[i, j)` exactly when it starts strictly inside and ends behind `j`, or
    ends strictly inside and starts before `i`; so the widest one at each fencepost decides.
    """
    spans = {(i, j) for _, i, j in gold}
    furthest = [0] * (n_words + 1)  # largest end of a gold bracket that starts here
    earliest = [n_words] * (n_words + 1)  # smallest start of one that ends here
    for i, j in spans:
        furthest[i] = max(furthest[i], j)
        earliest[j] = min(earliest[j], i)
    return sum(
        any(furthest[k] > j or earliest[k] < i for k in range(i + 1, j))
        for _, i, j in predicted
        if (i, j) not in spans  # brackets of one tree never cross each other
    )


def _unmatch(gold: Sequence[str], predicted: Sequence[str]) -> str:
    """EVALB's message for two sentences that differ, or nothing."""
    if len(gold) != len(predicted):
        return f"Length unmatch ({len(gold)}|{len(predicted)})"
    if gold == predicted:
        return ""
    a, b = next((a, b) for a, b in zip(gold, predicted, strict=True) if a != b)
    return f"Words unmatch ({a}|{b})"


def _select(items: Sequence[str], kept: Sequence[bool]) -> list[str]:
    return [item for item, keep in zip(items, kept, strict=True) if keep]


def add_up(rows: Sequence[SentenceScore], *, drop: bool = True) -> Totals:
    """Sum rows; `drop` leaves out errors and skipped sentences, as EVALB does."""
    fine = [row for row in rows if row.status == OK]
    counted = fine if drop else rows
    return Totals(
        sentences=len(rows),
        errors=sum(row.status == ERROR for row in rows) if drop else 0,
        skipped=sum(row.status == SKIPPED for row in rows) if drop else 0,
        **{name: sum(getattr(row, name) for row in counted) for name in COUNTS},
        n_complete=sum(row.is_complete for row in fine),
        n_no_crossing=sum(row.crossing == 0 for row in fine),
        n_two_or_less_crossing=sum(row.crossing <= 2 for row in fine),
    )
