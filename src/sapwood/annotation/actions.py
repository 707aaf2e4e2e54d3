"""Actions that mean the same for every kind of tree, and checks of what an action holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sapwood.annotation.state import ACCEPTED, NEW, SKIPPED, STARTED, Action, SentenceState
from sapwood.core.errors import SapwoodError, describe

LONGEST_NAME = 100  # characters of a label, tag or relation
WORD_CHARACTERS = 2_000  # characters


def change_status(state: SentenceState, action: Action, tree: str) -> SentenceState:
    """The state after an action that every kind of tree has.

    Parameters
    ----------
    tree
        The tree that the action is about: the one that is accepted, chosen, or put in place.
    """
    kind = action["type"]
    if kind == "accept":
        return replace(state, status=ACCEPTED, tree=tree, base=tree)
    if kind == "skip":
        return replace(open_again(state), status=SKIPPED)
    if kind == "clear":
        return replace(state, status=NEW, constraints={}, tree=None, base=None)
    if kind == "reopen":
        if state.status not in {ACCEPTED, SKIPPED}:
            msg = f"the sentence is {state.status}, neither accepted nor skipped"
            raise SapwoodError(msg, hint="it can be edited as it is")
        return replace(open_again(state), status=STARTED)
    if kind == "choose":
        kept = {name: value for name, value in state.constraints.items() if name != OPEN}
        return replace(state, status=STARTED, constraints=kept, tree=None, base=tree)
    if kind == "replace":
        return replace(state, status=STARTED, constraints={}, tree=None, base=tree)
    msg = f"no action is called {kind!r:.60}"
    raise SapwoodError(msg, hint="/docs on this server lists the actions")


OPEN = "open"  # the constraint that names where the base is not kept
STATUS_ACTIONS = frozenset({"accept", "skip", "clear", "reopen", "choose", "replace"})
WITH_TREE = frozenset({"accept", "choose", "replace"})  # those that are about a tree


def open_again(state: SentenceState) -> SentenceState:
    """The state of a sentence that is edited: not accepted, its accepted tree as the base."""
    if state.tree is None:
        return replace(state, status=STARTED)
    return replace(state, status=STARTED, tree=None, base=state.tree)


def find_action(action: Action, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The function of an action's type; refused where there is none."""
    found = known.get(str(action.get("type")))
    if found is None:
        names = ", ".join(sorted({*known, *STATUS_ACTIONS}))
        msg = f"no action is called {action.get('type')!r:.60}"
        raise SapwoodError(msg, hint=f"the actions are {names}")
    return found


def whole_number(action: Action, name: str, least: int, most: int) -> int:
    """A field of an action that is a whole number within bounds."""
    value = action.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f'"{name}" is {describe(value)}, expected a whole number'
        raise SapwoodError(msg, hint=f"give one of {least} to {most}")
    if not least <= value <= most:
        msg = f'"{name}" is {value}'
        raise SapwoodError(msg, hint=f"give a number of {least} to {most}")
    return value


def span_of(action: Action, n: int, first: str = "start", last: str = "end") -> tuple[int, int]:
    """The words of an action, first word and the one after the last."""
    start = whole_number(action, first, 0, n - 1)
    return start, whole_number(action, last, start + 1, n)


def text_field(action: Action, name: str, longest: int = LONGEST_NAME) -> str:
    """A field of an action that is a text without blanks at its ends, and not empty."""
    value = action.get(name)
    if not isinstance(value, str) or not value.strip():
        msg = f'"{name}" is {describe(value)}, expected a name'
        raise SapwoodError(msg, hint="give a text that is not empty")
    value = value.strip()
    if len(value) > longest:
        msg = f'"{name}" has {len(value):,} characters'
        raise SapwoodError(msg, hint=f"give at most {longest}")
    return value


def split_word(words: tuple[str, ...], place: int, at: int) -> tuple[str, ...]:
    """The words where one of them is split in two, at a number of characters."""
    word = words[place]
    if len(word) < 2:
        msg = f"word {place + 1}, {word!r}, has one character, which cannot be split"
        raise SapwoodError(msg, hint="split a longer word")
    if not 1 <= at < len(word):
        msg = f"word {place + 1} has {len(word)} characters, and cannot be split at {at}"
        raise SapwoodError(msg, hint=f"give a number of 1 to {len(word) - 1}")
    parts = (word[:at], word[at:])
    if not all(part.strip() for part in parts):
        msg = f"one part of word {place + 1} would be blank"
        raise SapwoodError(msg, hint="split it elsewhere")
    return (*words[:place], *parts, *words[place + 1 :])


def join_words_at(words: tuple[str, ...], place: int) -> tuple[str, ...]:
    """The words where one of them is joined with the next."""
    joined = words[place] + words[place + 1]
    if len(joined) > WORD_CHARACTERS:
        msg = f"the word would have {len(joined):,} characters"
        raise SapwoodError(msg, hint=f"a word has at most {WORD_CHARACTERS:,}")
    return (*words[:place], joined, *words[place + 2 :])
