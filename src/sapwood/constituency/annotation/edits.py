"""Edits of a phrase tree: each becomes what was set by hand, and the parser fills in the rest.

An edit looks at the tree that is shown, and either adds to what was set by hand so that every tree
with all of it is as was asked, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sapwood.annotation.actions import (
    STATUS_ACTIONS,
    WITH_TREE,
    change_status,
    find_action,
    join_words_at,
    open_again,
    span_of,
    split_word,
    text_field,
    whole_number,
)
from sapwood.annotation.state import Action, SentenceState
from sapwood.constituency.annotation.given import (
    SHOWN,
    GivenPhrases,
    Phrase,
    Span,
    TreeLayout,
    check_new_label,
    describe_phrase,
    shifted,
)
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree, clean

Edit = Callable[[GivenPhrases, TreeLayout, Action], GivenPhrases]


def edit_tree(state: SentenceState, action: Action, shown: str) -> SentenceState:
    """The state of a sentence after an action.

    Parameters
    ----------
    shown
        The tree that the window shows, in brackets.

    Raises
    ------
    SapwoodError
        Where the action has no meaning, or contradicts what was set by hand.

    Examples
    --------
    >>> state = SentenceState(0, "new", ("dogs", "bark"))
    >>> action = {"type": "add", "start": 0, "end": 1, "label": "NP"}
    >>> edit_tree(state, action, "(TOP (X dogs) (X bark))").constraints
    {'spans': [[0, 1, 'NP']], 'shown': '(TOP (X dogs) (X bark))'}
    """
    kind = str(action.get("type"))
    if kind in STATUS_ACTIONS:
        tree = checked_tree(state, str(action.get("tree") or shown)) if kind in WITH_TREE else shown
        return change_status(state, action, tree)
    if kind in {"split", "join"}:
        return _recut(open_again(state), action)
    change: Edit = find_action(action, TREE_EDITS)
    opened = open_again(state)
    found = change(GivenPhrases.of(opened), TreeLayout.of(Tree.parse(shown)), action)
    kept = {} if kind == "free" else {SHOWN: shown}
    return replace(opened, constraints=found.as_dict() | kept)


def checked_tree(state: SentenceState, text: str) -> str:
    """A tree in brackets over the words of a sentence, as the project keeps it.

    Raises
    ------
    SapwoodError
        Where it is no tree, or has other words.
    """
    tree = Tree.parse(text)
    words = tuple(tree.words())
    if words != state.words:
        cleaned = clean(tree, keep_functions=True)
        if cleaned is not None and tuple(cleaned.words()) == state.words:
            tree = cleaned
        else:
            msg = f"the tree has the words {' '.join(words)!r:.200}"
            hint = f"the sentence is {' '.join(state.words)!r:.200}; split and join change words"
            raise SapwoodError(msg, hint=hint)
    layout = TreeLayout.of(tree)
    for *_, label in layout.phrases():
        check_new_label(label)
    for tag in layout.tags:
        check_new_label(tag, "a word")
    return str(layout.tree())


# -- phrases and tags -----------------------------------------------------------------------------


def _add(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    start, end = span_of(action, len(layout.words))
    label, above = check_new_label(text_field(action, "label")), None
    if action.get("above") is not None:
        above = check_new_label(text_field(action, "above"))
        _must_have(layout, (start, end, above))
    return given.with_phrase((start, end, label), above)


def _remove(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    phrase = _phrase(layout, action)
    return _ban(given.without_phrase(phrase), layout, phrase)


def _ban(given: GivenPhrases, layout: TreeLayout, phrase: Phrase) -> GivenPhrases:
    """Forbid a phrase, with any label where it stands alone over its words."""
    start, end, label = phrase
    is_alone = set(layout.chains[start, end]) == {label}
    return given.with_ban((start, end, None if is_alone else label))


def _relabel(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    phrase = _phrase(layout, action)
    start, end, label = phrase
    new = check_new_label(text_field(action, "to"))
    if new == label:
        return given.with_phrase(phrase)
    kept = given.without_phrase(phrase).with_phrase((start, end, new), _above(layout, phrase))
    return kept.with_ban((start, end, label))


def _above(layout: TreeLayout, phrase: Phrase) -> str | None:
    """The label right below a phrase over the same words; None without one."""
    start, end, label = phrase
    chain = layout.chains[start, end]
    rest = chain[chain.index(label) + 1 :]
    return rest[0] if rest else None


def _retag(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    word = whole_number(action, "word", 0, len(layout.words) - 1)
    return given.with_tag(word, check_new_label(text_field(action, "tag"), "a word"))


def _free(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    """Let the parser decide again over some words, or about the tag of a word."""
    if action.get("word") is not None:
        word = whole_number(action, "word", 0, len(layout.words) - 1)
        return _open(given.with_tag(word, None), (word, word + 1))
    span = span_of(action, len(layout.words))
    given = given.with_open_phrase(span)
    return _open(replace(given, spans=tuple(one for one in given.spans if one[:2] != span)), span)


def _open(given: GivenPhrases, span: Span) -> GivenPhrases:
    return replace(given, open=tuple(dict.fromkeys((*given.open, span))))


def _phrase(layout: TreeLayout, action: Action, last: str = "") -> Phrase:
    """A phrase of the tree that is shown, which an action names."""
    names = [f"{last}{name}" for name in ("start", "end", "label")]
    start, end = span_of(action, len(layout.words), *names[:2])
    phrase = (start, end, text_field(action, names[2]))
    _must_have(layout, phrase)
    return phrase


def _must_have(layout: TreeLayout, phrase: Phrase) -> None:
    start, end, label = phrase
    chain = layout.chains.get((start, end), ())
    if label not in chain:
        found = f"there is {' over '.join(chain)}" if chain else "no phrase ends there"
        msg = f"the tree has no {describe_phrase(phrase)}"
        raise SapwoodError(msg, hint=f"{found}; look at the tree again, it may have changed")


# -- moving a phrase ------------------------------------------------------------------------------


def _move(given: GivenPhrases, layout: TreeLayout, action: Action) -> GivenPhrases:
    """Attach a phrase to a parent: the spans that make it so are required.

    Upwards, the phrases between are cut down to the words beside the moved phrase. Sidewards, the
    parent grows over the words of the phrase, which must stand beside it, and so do the phrases
    above the parent up to the first one that has both.
    """
    moved = _phrase(layout, action)
    parent = _phrase(layout, action, "to_")
    x, p = moved[:2], parent[:2]
    if x == p:
        raise SapwoodError(
            f"{describe_phrase(moved)} has the same words as {describe_phrase(parent)}",
            hint="choose a parent with other words, or relabel",
        )
    if x[0] <= p[0] and p[1] <= x[1]:
        raise SapwoodError(
            f"{describe_phrase(parent)} is within {describe_phrase(moved)}",
            hint="a phrase cannot be attached to a part of itself",
        )
    if p[0] <= x[0] and x[1] <= p[1]:
        return _raise_phrase(given, layout, moved, parent)
    return _attach_beside(given, layout, moved, parent)


def _raise_phrase(
    given: GivenPhrases, layout: TreeLayout, moved: Phrase, parent: Phrase
) -> GivenPhrases:
    (s, e), p = moved[:2], parent[:2]
    between = [
        (i, j, label)
        for i, j, label in layout.phrases()
        if i <= s and e <= j and (i, j) not in {(s, e), p} and p[0] <= i and j <= p[1]
    ]
    cut: list[Phrase] = []
    for i, j, label in between:
        if i < s and e < j:
            msg = (
                f"{describe_phrase(moved)} stands in the middle of {describe_phrase((i, j, label))}"
            )
            raise SapwoodError(msg, hint="remove that phrase, or attach the words behind it first")
        cut.append((i, s, label) if i < s else (e, j, label))
    for phrase in between:
        given = given.without_phrase(phrase).with_ban((*phrase[:2], None))
    given = replace(
        given,
        spans=tuple(one for one in given.spans if one[:2] not in {b[:2] for b in between}),
    )
    for phrase in (parent, *reversed(cut), moved):
        if phrase[:2] not in {b[:2] for b in between}:
            given = given.with_phrase(phrase)
    return given


def _attach_beside(
    given: GivenPhrases, layout: TreeLayout, moved: Phrase, parent: Phrase
) -> GivenPhrases:
    (s, e), (i, j) = moved[:2], parent[:2]
    if s != j and e != i:
        msg = f"words stand between {describe_phrase(moved)} and {describe_phrase(parent)}"
        raise SapwoodError(msg, hint="a phrase can only be attached to one that stands beside it")
    grown = [
        (a, b, label)
        for a, b, label in layout.phrases()
        if a <= i and j <= b and not (a <= s and e <= b)
    ]
    for phrase in grown:
        given = given.without_phrase(phrase)
    for a, b, label in reversed(grown):
        given = given.with_phrase((min(a, s), max(b, e), label))
    return given.with_phrase(moved)


TREE_EDITS: dict[str, Edit] = {
    "add": _add, "remove": _remove, "relabel": _relabel, "retag": _retag, "move": _move,
    "free": _free,
}  # fmt: skip


# -- words ----------------------------------------------------------------------------------------


def _recut(state: SentenceState, action: Action) -> SentenceState:
    """Split a word in two, or join it with the next one; phrases keep their other words."""
    n = len(state.words)
    if action["type"] == "split":
        place = whole_number(action, "word", 0, n - 1)
        longest = max(len(state.words[place]) - 1, 1)
        words, by = split_word(state.words, place, whole_number(action, "at", 1, longest)), 1
    else:
        if n < 2:
            raise SapwoodError("the sentence has one word", hint="there is none to join it with")
        place = whole_number(action, "word", 0, n - 2)
        words, by = join_words_at(state.words, place), -1
    given, base = GivenPhrases.of(state), None
    here = (place, place + 1 + (by > 0))
    moved: dict[str, tuple[Any, ...]] = {
        name: tuple(
            (*new, *one[2:])
            for one, new in zip(
                rows, shifted([row[:2] for row in rows], place, by), strict=True
            )
            if new is not None
        )
        for name, rows in (
            ("spans", given.spans), ("forbidden", given.forbidden), ("open", given.open),
        )
    }  # fmt: skip
    tags = [*given.tags[:place], *[None] * (here[1] - place), *given.tags[here[1] - by :]]
    if state.base is not None:
        base = str(_recut_layout(TreeLayout.of(Tree.parse(state.base)), words, place, by).tree())
        moved["open"] = tuple(dict.fromkeys((*moved["open"], here)))
    found = GivenPhrases(moved["spans"], moved["forbidden"], tuple(tags), moved["open"])
    return replace(state, words=words, constraints=found.as_dict(), base=base)


def _recut_layout(layout: TreeLayout, words: tuple[str, ...], place: int, by: int) -> TreeLayout:
    spans = list(layout.chains)
    chains: dict[Span, tuple[str, ...]] = {}
    for old, new in zip(spans, shifted(spans, place, by), strict=True):
        if new is not None:
            chains[new] = chains.get(new, ()) + layout.chains[old]
    tags = layout.tags
    cut = (
        (*tags[: place + 1], *tags[place:]) if by > 0 else (*tags[: place + 1], *tags[place + 2 :])
    )
    return TreeLayout(words, cut, chains)
