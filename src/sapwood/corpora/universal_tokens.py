"""Words of English as treebanks of Universal Dependencies write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sapwood.corpora.tokenize import PennTokenizer, Token

# Prefixes that stay with their word.
_PREFIXES = (
    "anti bi co counter de e ex extra inter intra macro mega meta micro mid mini multi non "
    "post pre pro pseudo quasi re semi sub super trans tri ultra un uni vice x"
)
_SIGNS = ["/", "=", "<", ">", "+", "*", "~", "|", "^", "[", "]", "{", "}"]
# What no rule for words comes apart at, tried in this order.
_UNITS = (
    r"(?i:(?:mailto:)?[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",  # mail
    r"(?i:(?:https?://|www\.)[^\s\"<>]*[\w/=#&])",  # pages
    r"(?i:[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov)(?:/[^\s\"<>]*[\w/])?(?![\w@-]))",
    r"(?i:[\w#&]+(?:[.-][\w#]+)*\.(?:docx?|xlsx?|pdf|txt|html?|jpe?g|gif|png|pptx?)\b)",  # files
    r"\d{1,2}/\d{1,2}(?:/\d{2,4})?(?![\w/])",  # dates and fractions
    r"\d{1,2}-\d{1,2}-\d{4}(?![\w-])|\^_\^",
    r"(?:\d{1,4}-)?(?:\d{3}-)+\d{4}(?![\w-])",  # numbers of telephones
    r"(?<!\w)(?:[:;=]['-]?(?:[()DPp|/\\]|\){2,}|\({2,})|<3+)(?!\w)",  # faces
    r"([!?])[!?.]*[!?](?!\w)|\.{2,}|…+",  # runs of marks
    r"(?:(?<!\w)|(?<=\w)(?=..))(?P<same>[=*~_#+<>-])(?P=same)+",
    r"[=*~_{}<>|^-]{4,}",  # rules across the page
)


class UniversalTokenizer(PennTokenizer):
    """Splits the text of one sentence into words, as English treebanks of UD do.

    Words stand as they are in the text: brackets, quotes and dashes keep their spelling, and an
    abbreviation at the end has no second period. Words come apart at hyphens and slashes, except
    behind prefixes; runs of a mark, faces, dates and addresses stay whole. Contractions come apart
    as in Penn treebanks.

    Examples
    --------
    >>> " ".join(UniversalTokenizer()('The "state-of-the-art" plan (re-made in the U.S.)... :)'))
    'The " state - of - the - art " plan ( re-made in the U.S. ) ... :)'
    """

    def __init__(self) -> None:
        super().__init__(["the", "of", *_SIGNS])
        self._splits_hyphens = True
        self._affixes = frozenset(f"{prefix}-" for prefix in _PREFIXES.split())
        units = "|".join(_UNITS)
        self._piece = re.compile(f"(?P<unit>{units})|{self._piece.pattern}", re.DOTALL)

    def respell(self, words: Iterable[str]) -> list[str]:
        """The words of another tokenizer, which stay as they are."""
        return list(words)

    def tokens(self, text: str) -> list[Token]:
        """The words of one sentence with their offsets in the text."""
        found: list[Token] = []
        for _, start, end in super().tokens(text):
            if not found or start >= found[-1].end:  # no second period behind an abbreviation
                found.append(Token(text[start:end], start, end))
        return found
