"""The sentences of treebanks: trees in any format, or CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from sapwood.corpus.clean import clean
from sapwood.corpus.files import MAX_CHARACTERS, Source, lines_of, open_text, source_name
from sapwood.corpus.formats import read_lines, treebank_files
from sapwood.corpus.recognise import peek_conllu
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError

_UNCOUNTED = re.compile(r"\d+[-.]\d+")  # a token of several words, an empty node


def read_sentences(
    sources: Source | Iterable[Source],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[list[str]]:
    r"""Stream the words of each tree, in order.

    Of trees, the words without empty elements; none where nothing else is there, so that
    sentences stay aligned with trees. Of CoNLL-U, which is recognised by its first lines, the words
    that carry the tree: `1` and `2` of a token `1-2`, and no empty nodes `1.1`; a blank
    inside a word becomes `_`.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    format, encoding, skipped, left_out
        As `read_trees` takes them.

    Examples
    --------
    >>> import io
    >>> list(read_sentences(io.StringIO("(S (NP (NN dogs)) (VP (VB bark) (NP (-NONE- *))))")))
    [['dogs', 'bark']]
    >>> list(read_sentences(io.StringIO("1\tdogs\t_\t_\n2\tbark\t_\t_\n\n")))
    [['dogs', 'bark']]
    """
    for source in treebank_files(sources, encoding, left_out, also=(".conllu",)):
        name = source_name(source)
        with open_text(source, encoding) as file:
            is_conllu, lines = peek_conllu(lines_of(file, name))
            if is_conllu and format is None:
                yield from _conllu_words(lines, name)
            else:
                yield from map(_words, read_lines(lines, name, format, skipped=skipped))


def _words(tree: Tree) -> list[str]:
    kept = clean(tree)
    return kept.words() if kept is not None else []


def _conllu_words(lines: Iterable[str], name: str) -> Iterator[list[str]]:
    """The column FORM; by hand, because the package `conllu` cannot say where a file is broken."""
    words: list[str] = []
    n_characters = 0
    for number, line in enumerate(chain(lines, ["\n"]), 1):
        columns = line.rstrip("\r\n").split("\t", 2)
        n_characters += len(line)
        if not line.strip():
            if words:
                yield words
            words, n_characters = [], 0
        elif n_characters > MAX_CHARACTERS:
            msg = f"a sentence of more than {MAX_CHARACTERS:,} characters, the most that is read"
            hint = "an empty line ends a sentence: is the file what it claims?"
            raise CorpusError(msg, file=name, line=number, hint=hint)
        elif len(columns) > 1 and columns[0].isdigit() and columns[1].strip():
            words.append("_".join(columns[1].split()))
        elif not (line.startswith("#") or _UNCOUNTED.fullmatch(columns[0])):
            msg = f"expected a line of CoNLL-U, found {line.strip()[:40]!r}"
            hint = "a word is a line of columns with tabs between them, number and form first"
            raise CorpusError(msg, file=name, line=number, hint=hint)
