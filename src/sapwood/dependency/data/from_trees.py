"""Dependencies from phrase-structure trees, by tables of heads.

The head word of a phrase is that of its head child (`sapwood.constituency.data.transform`). The
head words of
its other children hang on it, with the function of the child as relation (`SBJ` of `NP-SBJ`), or
its label where it has none (`NP`). Such trees are projective.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from sapwood.core.errors import CorpusError
from sapwood.corpora.file_memory import PACKED_ARCS, require_reading_memory
from sapwood.corpora.files import COMPRESSED, Reading, Source, lines_of, open_text, source_name
from sapwood.corpora.formats import read_lines, treebank_files
from sapwood.corpora.heads import PUNCTUATION, HeadRule, head_rule, uses_penn_tags
from sapwood.corpora.sentences import peek_conllu
from sapwood.corpora.tree import Tree, clean_all, clean_label, clean_tag
from sapwood.dependency.data.bank import NOTHING, ArcBank, ArcPacker, Arcs
from sapwood.dependency.data.reader import SUFFIXES, read_sentences

N_PEEKED = 1000  # trees that are looked at to recognise the label set
_PENN_TAGS = {
    "ADJ": "JJ JJR JJS AFX", "ADP": "IN RP", "ADV": "RB RBR RBS WRB", "AUX": "MD", "CCONJ": "CC",
    "DET": "DT PDT WDT", "INTJ": "UH", "NOUN": "NN NNS", "NUM": "CD", "PART": "POS TO",
    "PRON": "EX PRP PRP$ WP WP$", "PROPN": "NNP NNPS", "PUNCT": ", . : `` '' -LRB- -RRB- HYPH NFP",
    "SYM": "$ # SYM", "VERB": "VB VBD VBG VBN VBP VBZ", "X": "FW LS ADD GW XX",
}  # fmt: skip
_UNIVERSAL = {tag: name for name, tags in _PENN_TAGS.items() for tag in tags.split()}


def tree_arcs(tree: Tree, rule: HeadRule, *, has_universal_tags: bool = True) -> Arcs:
    """The dependencies of one clean tree, with or without function tags in its labels.

    Parameters
    ----------
    rule
        Which child of a phrase is its head.
    has_universal_tags
        Whether tags are Penn's English ones, of which universal tags are known.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))")
    >>> arcs = tree_arcs(tree, head_rule("penn"))
    >>> arcs.heads, arcs.relations
    ((2, 3, 0, 3), ('DT', 'SBJ', 'root', 'punct'))
    """
    words, tags = tree.words(), tree.tags()
    heads, relations = [0] * len(words), ["root"] * len(words)
    place = len(words)
    done: list[tuple[int, str]] = []  # head word and label of phrases still without a parent
    for node in reversed(list(tree.nodes())):
        if node.is_preterminal:
            done.append((place, node.label))
            place -= 1
            continue
        kids = done[: -len(node.children) - 1 : -1]
        del done[-len(node.children) :]
        head, _ = kids[rule(node.label, [label for _, label in kids])]
        for word, label in kids:
            if word != head:
                heads[word - 1], relations[word - 1] = head, _relation(label)
        done.append((head, node.label))
    upos = [_UNIVERSAL.get(clean_tag(tag), "X") if has_universal_tags else NOTHING for tag in tags]
    return Arcs(tuple(words), tuple(heads), tuple(relations), tuple(upos), tuple(tags))


def _relation(label: str) -> str:
    """The function of a phrase, or else its label."""
    if label in PUNCTUATION:
        return "punct"
    plain = clean_label(label)
    return label[len(plain) :].strip("-=") or plain


def read_as_arcs(
    sources: Source | Iterable[Source],
    *,
    heads: str = "auto",
    format: str | None = None,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> ArcBank:
    """Read phrase-structure trees as dependencies, and CoNLL-U as it is.

    Parameters
    ----------
    sources
        One or several of: path (also `.gz`, `.xz`, `.bz2`), glob, folder, `-`, open text file.
    heads
        `penn` for the table of Penn English, `generic` for the rule that reads labels alone, `auto`
        for the table where the tags are Penn's.
    format, encoding, skipped, left_out
        As `read_trees` takes them; CoNLL-U is recognised.

    Examples
    --------
    >>> import io
    >>> read_as_arcs(io.StringIO("(S (NP (NNS dogs)) (VP (VBP bark)))"), heads="penn")[0].heads
    (2, 0)
    """
    packer = ArcPacker()
    files = treebank_files(sources, encoding, left_out, also=SUFFIXES)
    require_reading_memory(files, PACKED_ARCS)
    for source in files:
        reading = Reading(source_name(source), skipped)
        with open_text(source, encoding) as file:
            is_conllu, lines = peek_conllu(lines_of(file, reading.name))
            if format is None and (is_conllu or _is_named_so(reading.name)):
                for sentence in read_sentences(lines, reading):
                    packer.add(*sentence)
                continue
            trees = read_lines(lines, reading.name, format, skipped=skipped, keep_functions=True)
            for arcs in _arcs_of_all(clean_all(trees, keep_functions=True), heads):
                packer.add(arcs.words, arcs.upos, arcs.xpos, arcs.heads, arcs.relations)
    if not packer.sizes:
        msg = "no tree found"
        raise CorpusError(msg, hint="is the file empty, or are all its trees broken?")
    return packer.bank()


def _is_named_so(name: str) -> bool:
    """Whether a name has an ending of CoNLL-U, under which only that is looked for."""
    endings = tuple(suffix + more for suffix in SUFFIXES for more in ("", *COMPRESSED))
    return name.lower().endswith(endings)


def _arcs_of_all(trees: Iterable[Tree], heads: str) -> Iterable[Arcs]:
    rest = iter(trees)
    peeked = list(islice(rest, N_PEEKED))
    is_penn = uses_penn_tags({clean_tag(tag) for tree in peeked for tag in tree.tags()})
    rule = head_rule(("penn" if is_penn else "generic") if heads == "auto" else heads)
    for part in (peeked, rest):
        for tree in part:
            yield tree_arcs(tree, rule, has_universal_tags=is_penn)
