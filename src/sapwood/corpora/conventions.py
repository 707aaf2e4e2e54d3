"""The conventions of tokens that a model expects: those of Penn treebanks, or of UD treebanks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.corpora.tokenize import PennTokenizer

PENN, UD = "penn", "ud"
CONVENTIONS = (PENN, UD)
ENTRY = "tokenisation"  # the entry of a model's record that names its convention
_ONLY_PENN = frozenset({"-LRB-", "-RRB-", "``", "''"})


def convention_of(model: Any, default: str) -> str:
    """The convention that a model's record names; older files name none and have that of the kind.

    Parameters
    ----------
    model
        Of any kind.
    default
        The convention of models of its kind.
    """
    return str(getattr(model, "record", {}).get(ENTRY, default))


def recognise_convention(sentences: Iterable[Iterable[str]]) -> str:
    """The convention of tokenised sentences, by the spelling of brackets and quotes.

    Examples
    --------
    >>> recognise_convention([["-LRB-", "yes", "-RRB-"]]), recognise_convention([["(", "yes", ")"]])
    ('penn', 'ud')
    """
    is_penn = any(not _ONLY_PENN.isdisjoint(words) for words in sentences)
    return PENN if is_penn else UD


def make_tokenizer(convention: str, vocabulary: Collection[str] = ()) -> PennTokenizer:
    """The tokenizer of a convention; the Penn one asks the vocabulary where treebanks differ.

    Examples
    --------
    >>> make_tokenizer("ud")("(Yes)"), make_tokenizer("penn")("(Yes)")
    (['(', 'Yes', ')'], ['-LRB-', 'Yes', '-RRB-'])
    """
    if convention == UD:
        from sapwood.corpora.universal_tokens import UniversalTokenizer

        return UniversalTokenizer()
    if convention != PENN:
        msg = f"no convention of tokens is called {convention!r}"
        raise SapwoodError(msg, hint=f"give one of {', '.join(CONVENTIONS)}")
    from sapwood.corpora.tokenize import PennTokenizer

    return PennTokenizer(vocabulary)
