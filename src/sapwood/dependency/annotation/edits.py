"""Edits of a dependency tree: each becomes what was set by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sapwood.annotation.actions import (
    STATUS_ACTIONS,
    WITH_TREE,
    change_status,
    find_action,
    join_words_at,
    open_again,
    split_word,
    text_field,
    whole_number,
)
from sapwood.annotation.state import Action, SentenceState
from sapwood.core.errors import SapwoodError
from sapwood.dependency.annotation.given import GivenArcs
from sapwood.dependency.data.bank import EMPTY, Arcs

Edit = Callable[[GivenArcs, Action], GivenArcs]
COMMENT_ID = "# sent_id"


def edit_arcs(state: SentenceState, action: Action, shown: str) -> SentenceState:
    """The state of a sentence after an action.

    Parameters
    ----------
    shown
        The tree that the window shows, in CoNLL-U.

    Raises
    ------
    SapwoodError
        Where the action has no meaning, or contradicts what was set by hand.
    """
    kind = str(action.get("type"))
    if kind in STATUS_ACTIONS:
        tree = checked_arcs(state, str(action.get("tree") or shown)) if kind in WITH_TREE else shown
        return change_status(state, action, tree)
    if kind in {"split", "join"}:
        return _recut(open_again(state), action)
    change: Edit = find_action(action, ARC_EDITS)
    opened = open_again(state)
    return replace(opened, constraints=change(GivenArcs.of(opened), action).as_dict())


def checked_arcs(state: SentenceState, text: str) -> str:
    """A tree in CoNLL-U over the words of a sentence, as the project keeps it.

    Raises
    ------
    SapwoodError
        Where it is no tree, or has other words.
    """
    arcs = Arcs.parse(text)
    if arcs.words != state.words:
        msg = f"the tree has the words {' '.join(arcs.words)!r:.200}"
        hint = f"the sentence is {' '.join(state.words)!r:.200}; split and join change words"
        raise SapwoodError(msg, hint=hint)
    if not arcs.is_parsed:
        raise SapwoodError("the sentence has no heads", hint="give a head for each word")
    return str(without_id(arcs))


def without_id(arcs: Arcs) -> Arcs:
    """The tree without the comment that has its id, which the project writes itself."""
    kept = tuple(one for one in arcs.comments if not one.startswith(COMMENT_ID))
    return replace(arcs, comments=kept)


def _head(given: GivenArcs, action: Action) -> GivenArcs:
    n = len(given.heads)
    word, head = whole_number(action, "word", 0, n - 1), whole_number(action, "head", 0, n)
    if head == word + 1:
        raise SapwoodError(f"word {head} would be its own head", hint="the root has the head 0")
    return given.with_head(word, head)


def _relation(given: GivenArcs, action: Action) -> GivenArcs:
    word = whole_number(action, "word", 0, len(given.heads) - 1)
    return given.with_relation(word, _cell(action, "relation"))


def _retag(given: GivenArcs, action: Action) -> GivenArcs:
    word = whole_number(action, "word", 0, len(given.heads) - 1)
    return given.with_tag(word, _cell(action, "tag"))


def _cell(action: Action, name: str) -> str:
    """A field of an action that can stand in a column of CoNLL-U."""
    value = text_field(action, name)
    if any(sign.isspace() for sign in value) or value == EMPTY:
        msg = f"the {name} {value!r} cannot stand in a column of CoNLL-U"
        raise SapwoodError(msg, hint="give a name without blanks")
    return value


def _free(given: GivenArcs, action: Action) -> GivenArcs:
    return given.freed(whole_number(action, "word", 0, len(given.heads) - 1))


ARC_EDITS: dict[str, Edit] = {"head": _head, "relation": _relation, "retag": _retag, "free": _free}


# -- words ----------------------------------------------------------------------------------------


def _recut(state: SentenceState, action: Action) -> SentenceState:
    """Split a word in two, or join it with the next one; other words keep what they have."""
    n = len(state.words)
    if action["type"] == "split":
        place = whole_number(action, "word", 0, n - 1)
        longest = max(len(state.words[place]) - 1, 1)
        words = split_word(state.words, place, whole_number(action, "at", 1, longest))
    else:
        if n < 2:
            raise SapwoodError("the sentence has one word", hint="there is none to join it with")
        place = whole_number(action, "word", 0, n - 2)
        words = join_words_at(state.words, place)
    by, given = len(words) - n, GivenArcs.of(state)
    new = 1 + (by > 0)

    def cut(column: tuple[object, ...]) -> list[object]:
        return [*column[:place], *[None] * new, *column[place + new - by :]]

    heads = [
        None if head is None else moved_head(int(str(head)), place, by) for head in cut(given.heads)
    ]
    opened = {k if k <= place else max(k + by, place) for k in given.open}
    base = None
    if state.base is not None:
        base = str(_recut_arcs(Arcs.parse(state.base), words, place))
        opened |= set(range(place, place + new))
    found: dict[str, object] = {
        "heads": heads, "relations": cut(given.relations), "tags": cut(given.tags),
    }  # fmt: skip
    found = {name: column for name, column in found.items() if any(x is not None for x in column)}  # type: ignore[attr-defined]
    if opened:
        found["open"] = sorted(opened)
    return replace(state, words=words, constraints=found, base=base)


def moved_head(head: int, place: int, by: int) -> int:
    """The number of a head behind a word that was split (`by` 1) or joined with the next (-1)."""
    return head + by if head > place + 1 else head


def _recut_arcs(arcs: Arcs, words: tuple[str, ...], place: int) -> Arcs:
    """A tree over other words: both parts of a word, or one word for two."""
    by, heads, is_below = len(words) - len(arcs), list(arcs.heads), False
    if by > 0:
        heads = [moved_head(head, place, by) for head in heads]
        heads.insert(place + 1, place + 1)
    else:
        second = heads.pop(place + 1)
        is_below = _is_below(arcs.heads, place, place + 1)
        heads[place] = second if is_below else heads[place]
        heads = [moved_head(head, place, by) for head in heads]

    def cut(column: tuple[str, ...]) -> tuple[str, ...]:
        if by > 0:
            return (*column[: place + 1], column[place], *column[place + 1 :])
        return (*column[: place + 1], *column[place + 2 :])

    relations = [*cut(arcs.relations)]
    if by > 0:
        relations[place + 1] = "dep"
    elif is_below:
        relations[place] = arcs.relations[place + 1]
    rows = tuple(row for row in arcs.rows if row[0].isdecimal())
    return Arcs(
        words, tuple(heads), tuple(relations), cut(arcs.upos), cut(arcs.xpos), arcs.comments,
        cut(rows) if rows else (),  # type: ignore[arg-type]
    )  # fmt: skip


def _is_below(heads: tuple[int, ...], word: int, other: int) -> bool:
    """Whether a word depends on another one, over any number of arcs."""
    at = heads[word]
    while at > 0 and at != other + 1:
        at = heads[at - 1]
    return at == other + 1
