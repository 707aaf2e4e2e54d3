"""Sentences of running text as CoNLL-U: the comment `text`, and the offsets of each word."""

from __future__ import annotations

import re
from typing import Any

from sapwood.corpora.running_text import TextSentence
from sapwood.dependency.data.bank import EMPTY, MISC, N_CONLLU_COLUMNS, UNPARSED, Arcs

TEXT_COMMENT = "# text = "
_RANGE = re.compile(r"(?:^|\|)TokenRange=(\d+):(\d+)(?:\||$)")


def arcs_of_text(sentence: TextSentence) -> Arcs:
    """A sentence of running text before parsing: its text, and the offsets of its words.

    Examples
    --------
    >>> found = arcs_of_text(TextSentence(["It", "'s"], [(3, 5), (5, 7)], "It's", 3))
    >>> found.comments, [row[-1] for row in found.rows]
    (("# text = It's",), ['SpaceAfter=No|TokenRange=3:5', 'SpaceAfter=No|TokenRange=5:7'])
    """
    rows = []
    behind = sentence.start + len(sentence.text)
    following = [*(start for start, _ in sentence.offsets[1:]), behind]
    for (start, end), next_start in zip(sentence.offsets, following, strict=True):
        row = [EMPTY] * N_CONLLU_COLUMNS
        joined = "SpaceAfter=No|" if next_start <= end else ""
        row[MISC] = f"{joined}TokenRange={start}:{end}"
        rows.append(tuple(row))
    unparsed = (UNPARSED,) * len(sentence.words)
    comment = TEXT_COMMENT + " ".join(sentence.text.split())
    return Arcs(tuple(sentence.words), unparsed, comments=(comment,), rows=tuple(rows))


def text_fields(arcs: Arcs) -> dict[str, Any]:
    """`text`, `char_start` and `char_end` of each word; empty where the last column has no offsets.

    Examples
    --------
    >>> text_fields(arcs_of_text(TextSentence(["Go", "!"], [(0, 2), (2, 3)], "Go!", 0)))
    {'text': 'Go!', 'char_start': [0, 2], 'char_end': [2, 3]}
    """
    words = [row for row in arcs.rows if row[0].isdecimal() or row[0] == EMPTY]
    found = [match for row in words if (match := _RANGE.search(row[MISC]))]
    if not found or len(found) < len(arcs):
        return {}
    texts = (one for one in arcs.comments if one.startswith(TEXT_COMMENT))
    return {
        "text": next(texts, TEXT_COMMENT).removeprefix(TEXT_COMMENT),
        "char_start": [int(match[1]) for match in found],
        "char_end": [int(match[2]) for match in found],
    }
