r"""What a text holds, by its first lines: sentences, or something that was given by mistake.

Only what is plain to see is named. A sentence may start with a bracket, a number or `#`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain

from sapwood.corpus.formats import export, tigerxml
from sapwood.corpus.tokenize import PennTokenizer

SENTENCES, TREES, CONLLU, JSON = "sentences", "trees", "conllu", "json"

N_CHARACTERS = 100_000  # that are looked at: a tree that is cut off there is one still
N_LINES = 100  # that are looked at for CoNLL-U: comments may come first
_BLANKS = " \t\r\n\f\v"  # only these separate words in trees; re.ASCII says the same of \s
_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc|newpar|global\.columns)\b")
_ROW = re.compile(r"\d+([-.]\d+)?(\t[^\t]+){3}")  # four columns, the first of them a number
_ROOT_ALONE = re.compile(r"\([^\s()]*", re.ASCII)
_NESTED = re.compile(r"\([^\s()]*\s*\([^\s()]+(\s+[^\s()]+\s*\)|\s*\(|$)", re.ASCII)
_LEAF = re.compile(r"\([^\s()]+\s+[^\s()]+\s*(\)|$)", re.ASCII)
# Nothing is given back: a blank could stand behind its bracket or alone, so that a text of n empty
# brackets would be tried in 2^n ways.
_BRACKETS = re.compile(r"(\s|\(\s*+[^\s()]*+|\))*+", re.ASCII)


def kind_of(lines: Sequence[str]) -> str | None:
    r"""What the first lines hold; None where more of them must be seen.

    Examples
    --------
    >>> kind_of(["the dog ( of a king ) barks .\n"]), kind_of(["(S (NP (DT the) (NN dog))\n"])
    ('sentences', 'trees')
    >>> kind_of(["# text = Dogs bark.\n"])
    >>> kind_of(["# text = Dogs bark.\n", "1\tDogs\tdog\tNOUN\n"])
    'conllu'
    >>> kind_of(["#FORMAT 4\n"])
    'trees'
    """
    last = lines[-1].strip(_BLANKS) if lines else ""
    if not last or _COMMENT.match(last):
        return None
    if _ROW.match(last):
        return CONLLU
    text = " ".join(lines).strip(_BLANKS)[:N_CHARACTERS]
    if _ROOT_ALONE.fullmatch(text):
        return None
    if export.is_like(last) or tigerxml.is_like(last):
        return TREES
    if _NESTED.match(text) and _BRACKETS.fullmatch(_LEAF.sub(" ", text)):
        return TREES
    return JSON if _is_json(last) else SENTENCES


def peek_conllu(lines: Iterator[str]) -> tuple[bool, Iterator[str]]:
    r"""Whether lines are CoNLL-U, by the first that tells; and all lines from the start.

    Examples
    --------
    >>> peek_conllu(iter(["# text = Dogs bark.\n", "1\tDogs\tdog\tNOUN\n"]))[0]
    True
    """
    head: list[str] = []
    for line in lines:
        head.append(line)
        if kind_of([line]) or len(head) == N_LINES:
            break
    return bool(head) and kind_of(head[-1:]) == CONLLU, chain(head, lines)


def _is_json(line: str) -> bool:
    try:
        return line.startswith("{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def untokenised(words: Sequence[str], tokenizer: PennTokenizer) -> list[tuple[str, str]]:
    """Words with a mark or ending that is a word of the vocabulary: `dog.`, `don't`; and that.

    Examples
    --------
    >>> tokenizer = PennTokenizer(["the", "dog", "barks", ".", ",", "Mr."])
    >>> untokenised("Mr. Lee, the dog barks.".split(), tokenizer)
    [('Lee,', ','), ('barks.', '.')]
    >>> untokenised("Mr. Lee , the dog barks .".split(), tokenizer)
    []
    """
    found = []
    for place, word in enumerate(words):
        pieces = tokenizer.pieces(word, words[place + 1] if place + 1 < len(words) else "")
        marks = (tokenizer.spell(p) for p in pieces if not p[0].isalnum() or p == "n't")
        known = [mark for mark in marks if mark in tokenizer.vocabulary]
        if len(pieces) > 1 and known:
            found.append((word, known[0]))
    return found
