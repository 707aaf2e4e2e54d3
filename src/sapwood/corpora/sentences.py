"""Sentences of plain text, one per line, and of treebanks in any format; and what a text holds.

The first lines of a text show whether it holds trees, CoNLL-U, JSON or sentences; in doubt it holds
sentences, which may start with a bracket, a number or `#`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from sapwood.core.errors import CorpusError, count
from sapwood.corpora.files import MAX_CHARACTERS, Source, open_lines, source_name
from sapwood.corpora.formats import is_graph_format, read_lines, treebank_files
from sapwood.corpora.tokenize import ABBREVIATIONS, PennTokenizer
from sapwood.corpora.tree import clean

SENTENCES, TREEBANK, CONLLU, JSON_LINES = "sentences", "trees", "conllu", "json"

N_CHARACTERS = 100_000  # that are looked at; a tree cut off there is still recognised
N_LINES = 100  # that are looked at for CoNLL-U: comments may come first
_BLANKS = " \t\r\n\f\v"  # only these separate words in trees; \s matches the same with re.ASCII
_COMMENT = re.compile(r"#\s*(sent_id|text|newdoc|newpar|global\.columns)\b")
_ROW = re.compile(r"\d+([-.]\d+)?(\t[^\t]+){3}")  # four columns, the first of them a number
_ROOT_ALONE = re.compile(r"\([^\s()]*", re.ASCII)
_NESTED = re.compile(r"\([^\s()]*\s*\([^\s()]+(\s+[^\s()]+\s*\)|\s*\(|$)", re.ASCII)
_LEAF = re.compile(r"\([^\s()]+\s+[^\s()]+\s*(\)|$)", re.ASCII)
# Possessive: a blank could stand behind its bracket or alone, so that backtracking over n empty
# brackets would try 2^n matches.
_BRACKETS = re.compile(r"(\s|\(\s*+[^\s()]*+|\))*+", re.ASCII)
N_LOOKED_AT = 20  # lines with words; what a text holds shows in its first ones
_WORD = re.compile(r"[^ \t\r\n\f\v]+")  # only ASCII blanks separate, as in the treebank readers
_OTHER_KINDS = {
    "trees": ("bracketed trees", "`sapwood words {}` writes the words of the trees as sentences"),
    "conllu": ("CoNLL-U", "`sapwood words {}` writes its words as sentences"),
    "json": (
        "JSON",
        "give the sentences themselves; `sapwood evaluate` reads the output of `parse --json`",
    ),
}
_ENDED = re.compile(r"[.!?。！？]|.*[a-z]{2}[.!?]")  # noqa: RUF001 - marks of wide scripts
_UNCOUNTED = re.compile(r"\d+[-.]\d+")  # a token of several words, an empty node


def kind_of(lines: Sequence[str]) -> str | None:
    r"""The kind of text of the first lines; None where more lines are needed.

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
    if _is_json(last):
        return JSON_LINES
    if is_graph_format(last):
        return TREEBANK
    is_nested = _NESTED.match(text) and _BRACKETS.fullmatch(_LEAF.sub(" ", text))
    return TREEBANK if is_nested else SENTENCES


def peek_conllu(lines: Iterator[str]) -> tuple[bool, Iterator[str]]:
    r"""Whether lines are CoNLL-U, by the first conclusive one; and all lines from the start.

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


def find_untokenised(words: Sequence[str], tokenizer: PennTokenizer) -> list[tuple[str, str]]:
    """Words joined to a mark or ending that the vocabulary has as a word: `dog.`, `don't`.

    Examples
    --------
    >>> tokenizer = PennTokenizer(["the", "dog", "barks", ".", ",", "Mr."])
    >>> find_untokenised("Mr. Lee, the dog barks.".split(), tokenizer)
    [('Lee,', ','), ('barks.', '.')]
    >>> find_untokenised("Mr. Lee , the dog barks .".split(), tokenizer)
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


def split_words(line: str) -> list[str]:
    r"""The words of a tokenised line.

    Examples
    --------
    >>> split_words(" The  dog\u00a0s barks .")
    ['The', 'dog\xa0s', 'barks', '.']
    """
    return _WORD.findall(line)


def refuse_other_kinds(
    lines: Iterable[str], source: str, hints: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Pass sentences on as they come; raise an error at trees, CoNLL-U and JSON.

    `source` is the argument that the user gave; `hints` replace the standard hint for a kind.
    """
    pending: list[str] = []  # lines whose kind is not known yet
    n_seen = 0
    for number, line in enumerate(lines, 1):
        if n_seen == N_LOOKED_AT:
            yield line
            continue
        pending.append(line)
        kind = kind_of(pending)
        if kind is None and line.strip() and len(pending) < N_LOOKED_AT:
            continue
        if kind not in {None, SENTENCES}:
            found, hint = _OTHER_KINDS[str(kind)]
            msg = f"expected one sentence per line, found {found}"
            hint = (hints or {}).get(str(kind), hint.format(source))
            raise CorpusError(msg, file=source_name(source), line=number, hint=hint)
        n_seen += kind is not None
        yield from pending
        pending.clear()
    yield from pending


def _look_at_first(
    sentences: Iterable[list[str]],
    look: Callable[[int, list[str]], None],
    judge: Callable[[], None],
) -> Iterator[list[str]]:
    """Pass sentences on; look at the first `N_LOOKED_AT` that are not empty, then judge once."""
    n_seen = 0
    for number, words in enumerate(sentences, 1):
        if words and n_seen < N_LOOKED_AT:
            look(number, words)
            n_seen += 1
            if n_seen == N_LOOKED_AT:
                judge()
        yield words
    if n_seen < N_LOOKED_AT:
        judge()


def doubt_tokenising(
    sentences: Iterable[list[str]],
    vocabulary: Sequence[str],
    warn: Callable[[str, str], None],
    hint: str,
) -> Iterator[list[str]]:
    """Pass sentences on; warn, once, with a hint, when most of the first seem not tokenised."""
    tokenizer = PennTokenizer(vocabulary)
    found: list[list[tuple[str, str]]] = []  # untokenised words of each sentence

    def judge() -> None:
        if 2 * sum(map(bool, found)) > len(found):
            word, inside = next(filter(None, found))[0]
            warn(
                f"the text seems not to be tokenised: {word!r} is one word here, while the "
                f"model's treebank has {inside!r} as a word of its own",
                hint,
            )

    return _look_at_first(
        sentences, lambda _, words: found.append(find_untokenised(words, tokenizer)), judge
    )


def has_several_sentences(words: Sequence[str]) -> bool:
    """Whether a mark that ends a sentence stands inside, before a word with a capital letter.

    Examples
    --------
    >>> has_several_sentences("The dog barks . It is late .".split())
    True
    >>> has_several_sentences("The dog barks. It is late.".split())
    True
    >>> has_several_sentences("Mr. Lee of the U.S. Army met J. P. Morgan .".split())
    False
    """
    return any(
        _ENDED.fullmatch(one) and one not in ABBREVIATIONS and (two[:1].isupper() or one > "~")
        for one, two in pairwise(words)
    )


def doubt_sentences(
    sentences: Iterable[list[str]], warn: Callable[[str, str], None]
) -> Iterator[list[str]]:
    """Pass sentences on; warn, once, when some of the first lines seem to hold several."""
    seen: list[tuple[bool, int]] = []  # of each line, whether it holds several, and its number

    def judge() -> None:
        several = [number for is_several, number in seen if is_several]
        if several and 5 * len(several) >= len(seen):
            warn(
                f"a line is taken for one sentence, but {len(several)} of the first "
                f"{count(len(seen), 'line')} seem to hold several (line {several[0]} is the first)",
                "write one sentence on each line, or let --raw find sentences and words",
            )

    return _look_at_first(
        sentences, lambda number, words: seen.append((has_several_sentences(words), number)), judge
    )


def read_tree_words(
    sources: Source | Iterable[Source],
    *,
    format: str | None = None,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> Iterator[list[str]]:
    r"""Stream the words of each tree, in order; parameters are those of `read_trees`.

    Trees give their words without empty elements, also where none are left, so that sentences stay
    aligned with trees. CoNLL-U, which is recognised by its first lines, gives the words that carry
    the tree: `1` and `2` of a token `1-2`, and no empty nodes `1.1`; a blank in a word becomes `_`.

    Examples
    --------
    >>> import io
    >>> list(read_tree_words(io.StringIO("(S (NP (NN dogs)) (VP (VB bark) (NP (-NONE- *))))")))
    [['dogs', 'bark']]
    >>> list(read_tree_words(io.StringIO("1\tdogs\t_\t_\n2\tbark\t_\t_\n\n")))
    [['dogs', 'bark']]
    """
    for source in treebank_files(sources, encoding, left_out, also=(".conllu",)):
        with open_lines(source, encoding) as (name, opened):
            is_conllu, lines = peek_conllu(opened)
            if is_conllu and format is None:
                yield from _conllu_words(lines, name)
            else:
                for tree in read_lines(lines, name, format, skipped=skipped):
                    kept = clean(tree)
                    yield kept.words() if kept is not None else []


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
