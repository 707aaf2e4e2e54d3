"""Limits of requests, and the errors that clients get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapwood.core.errors import CorpusError, SapwoodError, count

MEGABYTE = 1 << 20
BRACKETS_A_WORD = 20  # of a tree, on average: no treebank has half as many
CHARACTERS_A_WORD = 500  # of a tree, on average, with brackets, labels and blanks
LONGEST_WORD = 2_000  # characters


class Refusal(Exception):  # noqa: N818 - the request is at fault, not the server
    """A request that is refused, with the HTTP status and the message of the answer.

    Parameters
    ----------
    status
        HTTP status code.
    hint
        What the client can do about it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"error": self.message, "hint": self.hint}


def explain(error: SapwoodError) -> dict[str, Any]:
    """The JSON body for an error of Sapwood, with line and column where there are any."""
    told: dict[str, Any] = {"error": str(error), "hint": error.hint}
    if isinstance(error, CorpusError):
        told |= {"error": error.message, "line": error.line, "column": error.column}
    return told


@dataclass(frozen=True)
class Limits:
    """The limits of a server, which are options of `sapwood serve`.

    Attributes
    ----------
    body
        Bytes of a request's body.
    words, sentences
        Words of one sentence, and sentences of one request.
    k
        Trees of a list of the best.
    seconds
        Seconds that a request may take, waiting included, and that its body may take to arrive.
    workers, queue
        Requests that are worked on at once, and those that may wait.
    training
        Seconds that a training may take.
    memory
        Bytes of address space of the process that answers a heavy request.
    """

    body: int = 8 * MEGABYTE
    words: int = 150
    sentences: int = 500
    k: int = 50
    seconds: float = 20.0
    workers: int = 2
    queue: int = 32
    training: float = 3600.0
    memory: int = 1024 * MEGABYTE

    def check_words(self, words: Sequence[str]) -> None:
        """Refuse a sentence that is too long or has no words."""
        if not words:
            raise Refusal(422, "the sentence has no words", "give at least one")
        if len(words) > self.words:
            msg = f"a sentence of {len(words):,} words; at most {self.words:,} are taken"
            raise Refusal(422, msg, "cut it, or start the server with a larger --max-words")
        longest = max(map(len, words))
        if longest > LONGEST_WORD:
            msg = f"a word of {longest:,} characters; at most {LONGEST_WORD:,} are taken"
            raise Refusal(422, msg, "separate words by blanks")

    def check_brackets(self, text: str) -> None:
        """Refuse a tree that must be too large, before it is read."""
        for n, most, what in (
            (text.count("("), BRACKETS_A_WORD * self.words, "brackets"),
            (len(text), CHARACTERS_A_WORD * self.words, "characters"),
        ):
            if n > most:
                msg = f"a tree of {n:,} {what}; at most {most:,} are taken"
                raise Refusal(422, msg, "cut it, or start the server with a larger --max-words")

    def check_sentences(self, n: int) -> None:
        """Refuse too many sentences."""
        if n > self.sentences:
            msg = f"{count(n, 'sentence')} in one request; at most {self.sentences:,} are taken"
            raise Refusal(422, msg, "send fewer, or start the server with a larger --max-sentences")

    def check_k(self, k: int) -> None:
        """Refuse a list that is too long."""
        if k > self.k:
            msg = f"a list of {k:,} trees; at most {self.k:,} are given"
            raise Refusal(422, msg, "ask for fewer, or start the server with a larger --max-k")

    def as_dict(self) -> dict[str, Any]:
        """The limits that the page shows."""
        return {
            "body": self.body, "words": self.words, "sentences": self.sentences, "k": self.k,
            "seconds": self.seconds, "training": self.training,
        }  # fmt: skip
