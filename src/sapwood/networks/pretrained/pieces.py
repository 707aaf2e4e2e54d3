"""Words of a treebank as pieces of an encoder, word by word, and long sentences in windows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.core.errors import ModelFormatError, SapwoodError

_CACHED_WORDS = 100_000
_LONGEST_WORD = 10_000  # letters; the rest of a longer word is not read
_PENN = re.compile(r"-(LRB|RRB|LSB|RSB|LCB|RCB)-|``|''|\\([/*])")
_BRACKETS = {"LRB": "(", "RRB": ")", "LSB": "[", "RSB": "]", "LCB": "{", "RCB": "}"}


def plain_word(word: str) -> str:
    r"""The spelling of a word in ordinary text, without the escapes of Penn treebanks.

    >>> [plain_word(word) for word in ("-LRB-", "``", "''", "and\\/or", "dog")]
    ['(', '"', '"', 'and/or', 'dog']
    """
    return _PENN.sub(lambda m: _BRACKETS.get(m[1], m[2] or '"'), word) if word else word


class Window(NamedTuple):
    """A range of pieces that an encoder reads at once, and the part of it that is kept."""

    start: int
    end: int
    first_kept: int
    end_kept: int


def windows(n: int, room: int) -> list[Window]:
    """Windows of some pieces at most that overlap by half; each piece is kept from one of them.

    Where two windows overlap, each piece is kept from the window in which it is farther from the
    edge.

    Examples
    --------
    >>> [tuple(window) for window in windows(7, 4)]
    [(0, 4, 0, 3), (2, 6, 3, 5), (3, 7, 5, 7)]
    """
    if n <= room:
        return [Window(0, n, 0, n)]
    starts = [*range(0, n - room, max(room // 2, 1)), n - room]
    cuts = [0, *((b + a + room + 1) // 2 for a, b in pairwise(starts)), n]
    return [
        Window(start, start + room, first, end)
        for start, first, end in zip(starts, cuts[:-1], cuts[1:], strict=True)
    ]


class PieceReader:
    """Cuts words into pieces by a tokenizer.json.

    Each word is cut alone, so that pieces belong to words by construction. No piece crosses
    a blank, so the pieces are those of the whole sentence.

    Attributes
    ----------
    before, behind
        Special pieces around a sentence.
    """

    def __init__(self, text: str, n_pieces: int) -> None:
        self._tokenizer, self._n_pieces = _load_tokenizer(text), n_pieces
        self._cache: dict[str, tuple[int, ...]] = {}
        self._lock = Lock()
        with_marks = self._encode("a", has_marks=True)
        is_mark = np.array(with_marks.special_tokens_mask, bool)
        text_at = np.flatnonzero(~is_mark)
        if not len(text_at):
            raise ModelFormatError("the encoder's tokenizer.json gives the letter a no piece")
        ids = self._checked(with_marks.ids)
        self.before, self.behind = ids[: text_at[0]], ids[text_at[-1] + 1 :]
        # byte-level tokenizers have other pieces for a word after a blank than for a bare one
        self._blank = " " if self._encode(" a").ids != self._encode("a").ids else ""
        self._unknown = self._unknown_piece()

    def _encode(self, word: str, *, has_marks: bool = False) -> Any:
        try:
            return self._tokenizer.encode(word, add_special_tokens=has_marks)
        except BaseException as error:
            raise _tokenizer_error(error) from error

    def _checked(self, ids: Sequence[int]) -> tuple[int, ...]:
        if ids and max(ids) >= self._n_pieces:
            msg = f"the encoder's tokenizer.json has piece {max(ids)}, but there are vectors of "
            raise ModelFormatError(f"{msg}{self._n_pieces:,} pieces: it belongs to another model")
        return tuple(ids)

    def _unknown_piece(self) -> tuple[int, ...]:
        """The piece that stands for words which have none, such as control characters."""
        for name in ("[UNK]", "<unk>", "<|unk|>"):
            found = self._tokenizer.token_to_id(name)
            if found is not None:
                return self._checked([found])
        return self.before[:1] or self._checked(self._encode(f"{self._blank}a").ids[:1])

    def pieces_of(self, word: str) -> tuple[int, ...]:
        """Numbers of the pieces of a word, at least one."""
        found = self._cache.get(word)
        if found is None:
            text = plain_word(word)[:_LONGEST_WORD].encode("utf-8", "replace").decode()
            found = self._checked(self._encode(self._blank + text).ids) or self._unknown
            with self._lock:
                if len(self._cache) >= _CACHED_WORDS:
                    self._cache.clear()
                self._cache[word] = found
        return found

    def read(self, words: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Pieces of a sentence without marks, and the first piece of each word, [n + 1]."""
        pieces = [self.pieces_of(word) for word in words]
        starts = np.cumsum([0, *map(len, pieces)])
        return np.array([number for word in pieces for number in word], np.int64), starts


def _load_tokenizer(text: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        msg = "pretrained encoders need the package tokenizers, which is not installed"
        raise SapwoodError(msg, hint="pip install 'sapwood[encoder]'") from error
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except BaseException as error:
        raise _tokenizer_error(error) from error
    return tokenizer


def _tokenizer_error(error: BaseException) -> BaseException:
    """The error to raise in place of one of the package, whose panics are no `Exception`."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        return error
    msg = f"the encoder's tokenizer.json cannot be used ({error})"
    return ModelFormatError(msg, hint="copy it again from where it came")
