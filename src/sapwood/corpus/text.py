"""Sentences of plain text, one a line: their words, and what was given by mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from sapwood.corpus.recognise import SENTENCES, kind_of, untokenised
from sapwood.corpus.tokenize import PennTokenizer, Tokenizer
from sapwood.errors import CorpusError

N_LOOKED_AT = 20  # lines with words; what a text holds shows in its first ones
_WORD = re.compile(r"[^ \t\r\n\f\v]+")  # only ASCII blanks separate, as in the treebank readers
_OTHER_KINDS = {
    "trees": (
        "bracketed trees",
        "--trees parses the words of the trees; --sentences takes the lines as they are",
    ),
    "conllu": ("CoNLL-U", "`sapwood words {}` writes its words as sentences"),
    "json": (
        "JSON",
        "give the sentences themselves; `sapwood evaluate` reads the output of `parse --json`",
    ),
}


def split_words(line: str) -> list[str]:
    r"""The words of a tokenised line.

    Examples
    --------
    >>> split_words(" The  dog\u00a0s barks .")
    ['The', 'dog\xa0s', 'barks', '.']
    """
    return _WORD.findall(line)


def tokenise_lines(
    lines: Iterable[str], tokenize: Tokenizer, name: str | None = None
) -> Iterator[list[str]]:
    r"""The words that a tokenizer makes of each line; an error names the line where it makes none.

    Examples
    --------
    >>> list(tokenise_lines(["The dog isn't here.\n"], PennTokenizer()))
    [['The', 'dog', 'is', "n't", 'here', '.']]
    """
    for number, line in enumerate(lines, 1):
        words = tokenize(line.strip())
        if isinstance(words, str) or not all(
            isinstance(word, str) and split_words(word) == [word] for word in words
        ):
            msg = f"the tokenizer returned {words!r}, expected a list of words without blanks"
            hint = "a tokenizer takes the text of one sentence and returns its words"
            raise CorpusError(msg, file=name, line=number, hint=hint)
        yield list(words)


def refuse_other_kinds(lines: Iterable[str], source: str, name: str) -> Iterator[str]:
    """Pass sentences on as they come; raise an error at trees, CoNLL-U and JSON.

    Parameters
    ----------
    source, name
        Where the lines come from, for a command and for a message.
    """
    held: list[str] = []  # lines that do not tell what they are
    n_seen = 0
    for number, line in enumerate(lines, 1):
        if n_seen == N_LOOKED_AT:
            yield line
            continue
        held.append(line)
        kind = kind_of(held)
        if kind is None and line.strip() and len(held) < N_LOOKED_AT:
            continue
        if kind not in {None, SENTENCES}:
            found, hint = _OTHER_KINDS[str(kind)]
            msg = f"expected one sentence a line, found {found}"
            raise CorpusError(msg, file=name, line=number, hint=hint.format(source))
        n_seen += kind is not None
        yield from held
        held.clear()
    yield from held


def doubt_tokenising(
    sentences: Iterable[list[str]], vocabulary: Sequence[str], tell: Callable[[str, str], None]
) -> Iterator[list[str]]:
    """Pass sentences on; tell, once, when most of the first ones seem not to be tokenised.

    Parameters
    ----------
    vocabulary
        Words of the treebank.
    tell
        Takes the message, and what to do about it.
    """
    tokenizer = PennTokenizer(vocabulary)
    found: list[tuple[str, str]] = []
    n_seen = n_untokenised = 0

    def judge() -> None:
        if 2 * n_untokenised > n_seen:
            word, inside = found[0]
            tell(
                f"the text seems not to be tokenised: {word!r} is one word here, while the "
                f"model's treebank has {inside!r} as a word of its own",
                "--raw tokenises; --sentences takes the lines as they are, without this warning",
            )

    for words in sentences:
        if words and n_seen < N_LOOKED_AT:
            here = untokenised(words, tokenizer)
            n_seen += 1
            n_untokenised += bool(here)
            found += here
            if n_seen == N_LOOKED_AT:
                judge()
        yield words
    if n_seen < N_LOOKED_AT:
        judge()
