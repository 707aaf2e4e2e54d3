"""The pivots behind a model of method `pivot` or `pivot-em`, for `sapwood inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# What a template says about a node: inside features about what stands below it, outside ones about
# what stands above and around it, its own place in brackets. The training record keeps an example
# with each pivot; "as in" marks templates that an example does not tell in full.
WORDS = {
    "word": "word {}",
    "rule": "rule {}",
    "left_label": "left child {left}",
    "right_label": "right child {right}",
    "left_rule": "rule below the left child, as in {}",
    "right_rule": "rule below the right child, as in {}",
    "head": "head tag, as in {}",
    "length": "number of words, as in {}",
}
OUTSIDE = {
    "rule_above": "rule above {}",
    "two_rules_above": "rules above {}",
    "three_rules_above": "rules above {}",
    "parent": "parent, as in {}",
    "grandparent": "parent and grandparent, as in {}",
    "head_above": "head tag above, as in {}",
    "words_before": "number of words before, as in {}",
    "words_behind": "number of words behind, as in {}",
}


def pivot_of(name: str, *, is_phrase: bool) -> dict[str, str]:
    """A pivot of the training record, `template: example`, in words.

    Examples
    --------
    >>> pivot_of("right_label: S -> NP VP|VBZ", is_phrase=True)["feature"]
    'right child VP|VBZ'
    """
    template, _, example = name.partition(": ")
    text = (WORDS | OUTSIDE).get(template, template + ", as in {}")
    _, _, right_side = example.partition(" -> ")
    left, _, right = right_side.partition(" ")
    if template in WORDS and is_phrase == (template == "word"):
        # Tags have no children and one word, phrases no word of their own: all nodes have this.
        text = "any rule" if is_phrase else "any word"
    feature = text.format(example, left=left, right=right)
    return {"template": template, "example": example, "feature": feature}


def pivot_note(symbols: Iterable[Mapping[str, Any]], record: Mapping[str, Any]) -> Iterator[str]:
    """What the pivots of some symbols are, and whether EM has changed the states since."""
    yield "pivot: the feature that a state was made from, taken to occur in no other state"
    if any(pivot["template"] == "word" for row in symbols for pivot in row["pivots"]):
        yield "a word seen only once stands for its class of unknown words"
    n = record.get("iterations", 0)
    if n:
        yield f"EM has changed the states since ({n} iterations): pivots say where they came from"


def missing_note(symbols: Iterable[str], record: Mapping[str, Any]) -> Iterator[str]:
    """Which of some symbols have fewer states than wanted, for want of pivots."""
    for symbol in symbols:
        if symbol in record.get("missing_pivots", {}):
            found, wanted = record["missing_pivots"][symbol]
            yield f"fewer pivots than states for {symbol}: {found} found, {wanted} wanted"


def pivots_text(
    symbols: list[dict[str, Any]], record: Mapping[str, Any], top: int
) -> Iterator[str]:
    """The pivots of the commonest labels, one line a state."""
    rows = [row for row in symbols if "pivots" in row]
    yield f"pivots of the states of {len(rows):,} symbols"
    yield from (f"  {line}" for line in pivot_note(rows, record))
    missing = list(missing_note(record.get("missing_pivots", {}), record))
    yield from (f"  {line}" for line in missing[:top])
    if len(missing) > top:
        yield f"  ... and for {len(missing) - top:,} more (--top, --json)"
    for row in rows[:top]:
        yield f"  {row['symbol']}"
        for state, pivot in enumerate(row["pivots"]):
            yield f"    state {state:<3} {pivot['feature']}"
    if len(rows) > top:
        yield f"  ... and {len(rows) - top:,} more (--top, --label, --json)"
