"""Converters: from the formats that corpora are published in to those that Sapwood reads."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator

from sapwood.corpus.penn import read_trees
from sapwood.corpus.tree import Tree
from sapwood.errors import CorpusError

Skipped = list[CorpusError]
Convert = Callable[[str, str, Skipped], Iterator[str]]


def convert_penn(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Penn brackets over any number of lines; a word with an inner blank is joined with `_`."""
    for tree in _read(text, name, skipped, join_words=True):
        yield f"{tree}\n"


def convert_lemmatised(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Brackets with leaves `(tag word lemma)` or, for punctuation, `(,)`; the lemma goes."""
    text = re.sub(r"(?m)^#.*", "", text)
    text = re.sub(r"\(([^\s()])\)", r"(\1 \1)", text)
    text = re.sub(r"\(([^\s()]+)\s+([^\s()]+)\s+[^\s()]+\s*\)", r"(\1 \2)", text)
    for tree in _read(text, name, skipped, join_words=False):
        yield f"{tree}\n"


def convert_psd(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Penn-historical brackets: wrappers, codes, comment blocks and lemmas go, empties stay.

    Examples
    --------
    >>> text = "( (IP-MAT (NP-SBJ *con*) (VBDI kom-koma) (. .-.)) (ID 1150.X,.1))"
    >>> print(*convert_psd(text, "x.psd", []), end="")
    (IP-MAT (NP-SBJ *con*) (VBDI kom) (. .))
    """
    # As many line breaks stay as went, so that errors name the right line.
    text = _PSD_COMMENT.sub(lambda block: "\n" * block.group().count("\n"), text)
    for tree in _read(text, name, skipped, join_words=True):
        kept = _without_codes(tree)
        if kept is not None:
            wrapped = kept.label == "" and len(kept) == 1
            yield f"{kept[0] if wrapped else kept}\n"


def convert_dp(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Lines `word tag head` and blank lines between sentences become CoNLL-U without labels."""
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if position:
                yield "\n"
            position = 0
            continue
        fields = line.strip().split("\t" if "\t" in line.strip() else None)
        if len(fields) != 3 or not _HEAD.fullmatch(fields[2].strip()):
            msg = f"expected word, tag and head, found {line.strip()[:80]!r}"
            raise CorpusError(msg, file=name, line=number)
        word, tag, head = (field.strip() for field in fields)
        position += 1
        relation = "root" if int(head) == 0 else "dep"
        yield f"{position}\t{word}\t_\t{tag}\t{tag}\t_\t{int(head)}\t{relation}\t_\t_\n"
    if position:
        yield "\n"


def convert_tagged(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """One sentence a line, `word/tag`; only the blanks around and between them are made even."""
    return (" ".join(line.split()) + "\n" for line in text.split("\n") if line.strip())


def convert_conllu(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """CoNLL-U stays as it is."""
    yield text


FORMATS: dict[str, tuple[Convert, str]] = {
    "penn": (convert_penn, ".mrg"),
    "lemmatised": (convert_lemmatised, ".mrg"),
    "psd": (convert_psd, ".mrg"),
    "dp": (convert_dp, ".conllu"),
    "conllu": (convert_conllu, ".conllu"),
    "tagged": (convert_tagged, ".tagged"),
}

_HEAD = re.compile(r"\d{1,9}")  # int() refuses digits by the thousand
_PSD_COMMENT = re.compile(r"^[ \t]*(?:/~\*.*?\*~/|/\*.*?\*/)", re.DOTALL | re.MULTILINE)
_PSD_CODES = frozenset({"CODE", "ID", "META", "METADATA"})
_PSD_EMPTY = re.compile(r"0|\*([^*]*\*)?(-.*)?")


def _read(text: str, name: str, skipped: Skipped, *, join_words: bool) -> Iterator[Tree]:
    file = io.StringIO(text.removeprefix("\ufeff"))
    file.name = name  # what error messages call it
    return read_trees(file, skipped=skipped, join_words=join_words)


def _without_codes(node: Tree) -> Tree | None:
    """The tree without nodes that are no language, leaves cut to their forms; None when empty."""
    if node.label in _PSD_CODES:
        return None
    if node.is_preterminal:
        return Tree(node.label, psd_form(node.word)) if node.label else None
    kept = [kid for child in node if (kid := _without_codes(child)) is not None]
    return Tree(node.label, kept) if kept else None


def psd_form(leaf: str) -> str:
    """Cut a leaf `form-lemma` to its form.

    The last hyphen separates, except where form and lemma are the same and hold hyphens themselves
    (`---` is a hyphen with its lemma). Empty categories have no lemma.

    Examples
    --------
    >>> [psd_form(leaf) for leaf in ("$nar-hinn", ",-,", "---", "*T*-1", "0", "a-b-a-b")]
    ['$nar', ',', '-', '*T*-1', '0', 'a-b']
    """
    half = _half(leaf)
    if half:
        return half
    if _PSD_EMPTY.fullmatch(leaf) or not leaf.strip("-"):
        return leaf
    form = leaf.rpartition("-")[0] or leaf
    # A few quotation marks carry their lemma twice ("-"-").
    return form if any(map(str.isalnum, form)) else _half(form) or form


def _half(text: str) -> str | None:
    """The word of which `text` is `word-word`."""
    middle = len(text) // 2
    same = text[:middle] == text[middle + 1 :] and text[middle : middle + 1] == "-"
    return text[:middle] if same and middle else None
