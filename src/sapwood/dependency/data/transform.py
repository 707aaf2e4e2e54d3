"""Dependencies from phrase-structure trees, and pseudo-projective lifting, which can be undone.

A tree is projective when every word and all its descendants are contiguous. Where an arc crosses a
word that is not below its head, its dependent is lifted to the head's head, the shortest such arc
first, until the tree is projective (Nivre and Nilsson, 2005, the encoding "head"). The relation of
a lifted word then names its old head:

    obl^acl      the relation is obl, and the old head is the first candidate with the relation acl
    obl^acl^2    the relation is obl, and the old head is the second candidate with that relation

with the arrow `LIFTED` for `^`. Candidates are searched breadth first from the current head of the
lifted word, then from the root; descendants of the lifted word are no candidates. The number, which
the paper does not have, makes lowering exact. Lifting moves a word to an ancestor of its old head,
so lowering never closes a cycle. Relations that a parser predicted may name a head that would close
a cycle, or that does not exist: the word then keeps its head.

A phrase-structure tree becomes projective dependencies by a table of heads: the head word of a
phrase is that of its head child, and the head words of its other children depend on it. Their
relation is the function of the child (`SBJ` of `NP-SBJ`), or its label where it has none (`NP`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import Int32Array
from sapwood.core.errors import CorpusError
from sapwood.corpora.files import (
    COMPRESSED,
    FEWER_TREES,
    PACKED_ARC_BYTES,
    Reading,
    Source,
    lines_of,
    open_text,
    source_name,
)
from sapwood.corpora.formats import read_lines, treebank_files
from sapwood.corpora.sentences import peek_conllu
from sapwood.corpora.tree import (
    HEAD_RULES,
    PUNCTUATION,
    HeadRule,
    Tree,
    clean_all,
    clean_label,
    clean_tag,
    uses_penn_tags,
)
from sapwood.dependency.data.bank import EMPTY, ArcBank, Arcs, SentenceColumns
from sapwood.dependency.data.reader import CONLLU_SUFFIXES, read_conllu

Step = Callable[[Sequence[int], Sequence[str]], tuple[list[int], list[str]]]
# heads, relations, and names of relations of all words of a bank
Columns = tuple[Int32Array, Int32Array, tuple[str, ...]]
LIFTED = "\u2191"  # an arrow up; in no relation of Universal Dependencies


def is_projective(heads: Sequence[int]) -> bool:
    """Whether every word of a tree and all its descendants are contiguous.

    Examples
    --------
    >>> is_projective([2, 0, 2]), is_projective([3, 0, 2])
    (True, False)
    """
    n = len(heads)
    size = [1] * (n + 1)
    low, high = list(range(n + 1)), list(range(n + 1))
    for word in reversed(top_down(heads)):
        if high[word] - low[word] + 1 != size[word]:
            return False
        head = heads[word - 1]
        size[head] += size[word]
        low[head], high[head] = min(low[head], low[word]), max(high[head], high[word])
    return True


def _children(heads: Sequence[int]) -> list[list[int]]:
    """The dependents of each word, from left to right; of the root first."""
    below: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, 1):
        below[head].append(word)
    return below


def top_down(heads: Sequence[int], start: int = 0) -> list[int]:
    """The descendants of a word, breadth first, each level from left to right."""
    below = _children(heads)
    order = list(below[start])
    for word in order:  # which grows meanwhile
        order.extend(below[word])
    return order


def projective_sentences(bank: ArcBank) -> npt.NDArray[np.bool_]:
    """Whether each sentence of a bank is projective, shape [n_sentences]."""
    ends = bank.offsets.tolist()
    heads = bank.head.tolist()
    found = [is_projective(heads[first:end]) for first, end in pairwise(ends)]
    return np.array(found, dtype=np.bool_)


def lift_arcs(heads: Sequence[int], relations: Sequence[str]) -> tuple[list[int], list[str]]:
    """Heads of a projective tree, and relations that say how to undo the lifting.

    Examples
    --------
    >>> heads, relations = lift_arcs([3, 0, 2], ["obl", "root", "acl"])
    >>> heads, is_projective(heads)
    ([2, 0, 2], True)
    >>> lower_arcs(heads, relations)
    ([3, 0, 2], ['obl', 'root', 'acl'])
    """
    up = lift_heads(heads)
    names = list(relations)
    for word, (old, new) in enumerate(zip(heads, up, strict=True), 1):
        if old != new:
            wanted = relations[old - 1]
            rank = 1 + list(_candidates(up, relations, word, wanted)).index(old)
            names[word - 1] += f"{LIFTED}{wanted}" + (f"{LIFTED}{rank}" if rank > 1 else "")
    return up, names


def lift_heads(heads: Sequence[int]) -> list[int]:
    """Heads of a projective tree: dependents of arcs that cross others hang on a head higher up.

    Examples
    --------
    >>> lift_heads([3, 0, 2]), lift_heads([2, 0, 2])
    ([2, 0, 2], [2, 0, 2])
    """
    up = list(heads)
    if not is_projective(heads):
        while (word := _shortest_jump(up)) is not None:
            up[word - 1] = up[up[word - 1] - 1]
    return up


def _shortest_jump(heads: Sequence[int]) -> int | None:
    """The dependent of the shortest arc over a word that is not below its head; the leftmost."""
    # A word is below another when its visit lies between the other's arrival and departure.
    arrival, departure = [0] * (len(heads) + 1), [0] * (len(heads) + 1)
    below = _children(heads)
    stack, time = [(0, True)], 0
    while stack:
        word, is_arrival = stack.pop()
        time += 1
        if is_arrival:
            arrival[word] = time
            stack.append((word, False))
            stack.extend((kid, True) for kid in below[word])
        else:
            departure[word] = time
    arcs = sorted((abs(head - word), word, head) for word, head in enumerate(heads, 1) if head)
    for _, word, head in arcs:
        between = range(min(word, head) + 1, max(word, head))
        if any(not arrival[head] < arrival[w] < departure[head] for w in between):
            return word
    return None


def _candidates(
    heads: Sequence[int], relations: Sequence[str], lifted: int, wanted: str
) -> Iterator[int]:
    """The possible old heads of a lifted word, in the order in which they are counted."""
    barred = {lifted, *top_down(heads, lifted)}
    for start in (heads[lifted - 1], 0):
        for word in top_down(heads, start):
            if word not in barred and relations[word - 1].partition(LIFTED)[0] == wanted:
                barred.add(word)  # each word once
                yield word


def lower_arcs(heads: Sequence[int], relations: Sequence[str]) -> tuple[list[int], list[str]]:
    """Undo `lift_arcs`: the old heads that the relations name, and plain relations.

    Relations that a parser predicted always give a tree: see the top of this module.
    """
    down = list(heads)
    for word, relation in enumerate(relations, 1):
        _, _, suffix = relation.partition(LIFTED)
        if not suffix:
            continue
        wanted, _, rank = suffix.partition(LIFTED)
        found = list(_candidates(heads, relations, word, wanted))
        place = int(rank or 1) if (rank or "1").isdecimal() else 1
        head = found[min(place, len(found)) - 1] if found else heads[word - 1]
        if head != word and head not in top_down(down, word):
            down[word - 1] = head
    return down, [relation.partition(LIFTED)[0] for relation in relations]


def lift(bank: ArcBank) -> ArcBank:
    """Make all trees projective; relations of lifted words record how to undo it.

    Raises
    ------
    CorpusError
        When relations hold the arrow that marks a lifted one.
    """
    head, relation, relations = lift_columns(bank)
    return replace(bank, head=head, relation=relation, relations=relations)


def lift_columns(bank: ArcBank) -> Columns:
    """Heads, relations and their names after every tree was made projective; see `lift`."""
    if marked := [name for name in bank.relations if LIFTED in name]:
        msg = f"the relation {marked[0]!r} holds the arrow that marks lifted words"
        raise CorpusError(msg, hint="is the treebank lifted already? `--lower` undoes it")
    return _change(bank, np.flatnonzero(~projective_sentences(bank)), lift_arcs)


def lower(bank: ArcBank) -> ArcBank:
    """Undo `lift`: the old trees and relations."""
    marked = np.array([LIFTED in name for name in bank.relations], dtype=np.bool_)
    rows = np.flatnonzero(marked[bank.relation])
    sentences = np.unique(np.searchsorted(bank.offsets, rows, "right") - 1)
    head, relation, relations = _change(bank, sentences, lower_arcs)
    return replace(bank, head=head, relation=relation, relations=relations)


def _change(bank: ArcBank, sentences: npt.NDArray[np.int64], step: Step) -> Columns:
    """Heads, relations and their names after a step has changed some sentences."""
    head, relation = bank.head.copy(), bank.relation.copy()
    numbers = {name: number for number, name in enumerate(bank.relations)}
    for sentence in sentences.tolist():
        rows = slice(int(bank.offsets[sentence]), int(bank.offsets[sentence + 1]))
        names = [bank.relations[number] for number in bank.relation[rows].tolist()]
        heads, names = step(head[rows].tolist(), names)
        head[rows] = heads
        relation[rows] = [numbers.setdefault(name, len(numbers)) for name in names]
    return head, relation, tuple(numbers)


PEEKED_TREES = 1000  # that are read to recognise the label set
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
        Whether tags are those of Penn's English treebanks, which have universal tags here.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))")
    >>> arcs = tree_arcs(tree, HEAD_RULES["penn"])
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
    upos = [_UNIVERSAL.get(clean_tag(tag), "X") if has_universal_tags else EMPTY for tag in tags]
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
        `penn` for the table of Penn English, `generic` for the rule that reads only labels, `auto`
        for the table where the tags are Penn's.
    format, encoding, skipped, left_out
        As `read_trees` takes them; CoNLL-U is recognised.

    Examples
    --------
    >>> import io
    >>> read_as_arcs(io.StringIO("(S (NP (NNS dogs)) (VP (VBP bark)))"), heads="penn")[0].heads
    (2, 0)
    """
    memory = PACKED_ARC_BYTES, FEWER_TREES
    files = treebank_files(sources, encoding, left_out, also=CONLLU_SUFFIXES, memory=memory)

    def columns() -> Iterator[SentenceColumns]:
        for source in files:
            reading = Reading(source_name(source), skipped)
            with open_text(source, encoding) as file:
                is_conllu, lines = peek_conllu(lines_of(file, reading.name))
                if format is None and (is_conllu or _has_conllu_name(reading.name)):
                    yield from (sentence[:-1] for sentence in read_conllu(lines, reading))
                    continue
                trees = read_lines(
                    lines, reading.name, format, skipped=skipped, keep_functions=True
                )
                for arcs in _arcs_of_all(clean_all(trees, keep_functions=True), heads):
                    yield arcs.words, arcs.upos, arcs.xpos, arcs.heads, arcs.relations, ""

    bank = ArcBank.pack(columns())
    if not bank.n_sentences:
        raise CorpusError("no tree found", hint="is the file empty, or are all its trees broken?")
    return bank


def _has_conllu_name(name: str) -> bool:
    """Whether a file name has an ending of CoNLL-U."""
    endings = tuple(suffix + more for suffix in CONLLU_SUFFIXES for more in ("", *COMPRESSED))
    return name.lower().endswith(endings)


def _arcs_of_all(trees: Iterable[Tree], heads: str) -> Iterable[Arcs]:
    rest = iter(trees)
    peeked = list(islice(rest, PEEKED_TREES))
    is_penn = uses_penn_tags({clean_tag(tag) for tree in peeked for tag in tree.tags()})
    rule = HEAD_RULES[("penn" if is_penn else "generic") if heads == "auto" else heads]
    for part in (peeked, rest):
        for tree in part:
            yield tree_arcs(tree, rule, has_universal_tags=is_penn)
