"""Corrections in the text of a treebank: brackets and tags change, every other character stays.

A tree of the file is read again with the position of each bracket. Cleaning (`corpora.tree`) drops
empty elements, cuts labels and joins `X -> X`, so each node of the cleaned tree knows the brackets
of the file that it stands for. Its brackets are then kept, renamed or removed, and new ones put in:
labels over the same words are aligned, and what remains of a label behind its dash, `-SBJ-1`, stays
with it; also where a bracket of the same label moves. Traces and codes stay where they are. What
was made is read again and must be the suggested tree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import NamedTuple

from sapwood.auditing.decisions import Decision, Replacement, line_starts, replace_in
from sapwood.constituency.audit.accepted import accepted_brackets
from sapwood.core.errors import CorpusError
from sapwood.corpora.formats import N_PEEKED_CHARACTERS, recognise
from sapwood.corpora.formats.brackets import (
    BRACKET_LEAF,
    CODES,
    FLORESTA,
    MARKS,
    MEANT,
    one_word,
    psd_form,
)
from sapwood.corpora.tree import (
    ROOT,
    ROOT_LABELS,
    Tree,
    clean,
    clean_label,
    clean_tag,
    is_empty,
)

_BLANK = r" \t\r\n\f\v"
_TOKEN = re.compile(rf"\([{_BLANK}]*([^{_BLANK}()]*)|(\))|([^{_BLANK}()]+)")
_BLOCK = re.compile(r"(?m)^[ \t]*/(~?)\*.*?(?:\*\1/|\Z)", re.DOTALL)
BRACKETED = ("penn", "psd", "psd-lemmas", "joined", "cess", "floresta", "discbracket")

Bracket = tuple[str, int, int]


class _Label(NamedTuple):
    """The position of a label in a text."""

    start: int
    end: int


@dataclass
class _Node:
    """A bracket of a file, or several that cleaning makes one."""

    label: str  # cleaned
    open: int  # where its outermost bracket starts
    close: int  # after the end of that
    labels: list[_Label]
    kids: list[_Node] = field(default_factory=list)
    word: str | None = None
    inner: list[tuple[int, int]] = field(default_factory=list)  # its other brackets, likewise
    start: int = 0
    end: int = 0

    @property
    def brackets(self) -> list[tuple[int, int]]:
        return [(self.open, self.close), *self.inner]


@dataclass
class _Unit:
    """A tree of a file: its cleaned nodes, and where it starts and ends."""

    open: int
    close: int
    root: _Node | None
    has_root: bool  # whether the file has a bracket for the root

    def words(self) -> list[str]:
        return [node.word for node in self.nodes() if node.word is not None]

    def nodes(self) -> list[_Node]:
        """All nodes in pre-order, without the root."""
        found, stack = list[_Node](), list(reversed(self.root.kids if self.root else []))
        while stack:
            node = stack.pop()
            found.append(node)
            stack.extend(reversed(node.kids))
        return found


class BracketCorrector:
    """Gives the replacements of decisions in the texts of treebanks.

    Parameters
    ----------
    format
        How the trees are written, a name of `sapwood.corpora.formats`; None recognises it.
    """

    def __init__(self, format: str | None = None) -> None:
        self.format = format
        self._text: str | None = None  # the last one, as it was prepared
        self._readable, self._format = "", ""
        self._starts: list[int] = []

    def __call__(self, text: str, decision: Decision) -> list[Replacement]:
        """The replacements that make the annotated tree of a decision the suggested one."""
        if "\t" in decision.annotated_tree:
            hint = "`sapwood depend audit --apply` corrects these"
            raise decision.refuse("is about a dependency tree", hint)
        if text is not self._text:
            self._prepare(text, decision)
        unit = self._find_tree(decision)
        wanted = accepted_brackets(decision)
        made = _Correction(text, unit, _nodes_of(wanted), self._format).replacements()
        if wanted.words() != unit.words() or not _is_made(text, unit, made, wanted, self._format):
            msg = f"the tree of decision {decision.id} cannot be written in brackets of this file"
            raise CorpusError(
                msg, file=decision.file, line=decision.line, hint="correct it by hand"
            )
        return made

    def _prepare(self, text: str, decision: Decision) -> None:
        found = recognise(text[:N_PEEKED_CHARACTERS].removeprefix("\ufeff"))
        chosen = self.format or (found.name if found else "penn")
        if chosen not in BRACKETED:
            msg = f"trees in the format {chosen} cannot be corrected"
            hint = f"only brackets can ({', '.join(BRACKETED)}); correct this file by hand"
            raise CorpusError(msg, file=decision.file, line=decision.line, hint=hint)
        self._text, self._format = text, chosen
        self._readable, self._starts = _readable(text, chosen), [*line_starts(text), len(text)]

    def _find_tree(self, decision: Decision) -> _Unit:
        """The tree that starts on the line of a decision and is annotated as it says."""
        annotated = Tree.parse(decision.annotated_tree)
        if 0 < decision.line < len(self._starts):
            at, end = self._starts[decision.line - 1 : decision.line + 1]
            expected, words = _nodes_of(annotated), annotated.words()
            for unit in read_units(self._readable, at, end, self._format):
                if [_key(node) for node in unit.nodes()] == expected and unit.words() == words:
                    return unit
        msg = f"no tree here is annotated as decision {decision.id} says"
        raise CorpusError(msg, file=decision.file, line=decision.line, hint="run the audit again")


def _is_made(text: str, unit: _Unit, made: list[Replacement], wanted: Tree, format: str) -> bool:
    """Whether replacements lead to the wanted tree, by reading what they make."""
    moved = [Replacement(a - unit.open, b - unit.open, new) for a, b, new in made]
    result = _readable(replace_in(text[unit.open : unit.close], moved), format)
    units = list(read_units(result, 0, len(result), format))
    if len(units) != 1 or units[0].words() != unit.words():
        return False
    return [_key(node) for node in units[0].nodes()] == _nodes_of(wanted)


def _key(node: _Node) -> Bracket:
    return node.label, node.start, node.end


def _nodes_of(tree: Tree) -> list[Bracket]:
    """The nodes of a cleaned tree in pre-order, without the root."""
    cleaned = clean(tree)
    return cleaned.spans()[1:] if cleaned is not None else []


# -- reading with positions -----------------------------------------------------------------------


def _readable(text: str, format: str) -> str:
    """A text with everything but trees blanked: blocks of comments, brackets that are words.

    Positions stay what they were.
    """
    if format.startswith("psd"):
        return _BLOCK.sub(lambda match: re.sub(r"[^\r\n]", " ", match[0]), text)
    if format in {"cess", "floresta"}:
        return BRACKET_LEAF.sub(lambda leaf: MARKS[leaf[1]], text)
    return text


@dataclass
class _Open:
    """A bracket that is read."""

    start: int
    label: _Label
    kids: list[_Node] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    has_brackets: bool = False


def read_units(text: str, at: int, end: int, format: str) -> Iterator[_Unit]:
    """The trees that start between two positions of a text; text outside trees is skipped.

    Each is read in one pass with a stack, so that depth is no limit.
    """
    stack: list[_Open] = []
    for match in _TOKEN.finditer(text, at):
        if not stack and match.start() >= end:
            return
        if match.lastindex == 1:
            if stack:
                stack[-1].has_brackets = True
            stack.append(_Open(match.start(), _Label(*match.span(1))))
        elif stack and match.lastindex == 3:
            stack[-1].parts.append(match[3])
        elif stack:
            one = stack.pop()
            node = _node(text, one, match.end(), format)
            if stack:
                stack[-1].kids.extend(node)
            else:
                yield _unit(one.start, match.end(), node)


def _node(text: str, one: _Open, end: int, format: str) -> list[_Node]:
    """The cleaned node of a bracket; empty where nothing is left of it."""
    label = text[one.label.start : one.label.end]
    if not one.has_brackets:
        return _leaf(one, end, label, format)
    if not one.kids or (format.startswith("psd") and label in CODES):
        return []
    label = clean_label(_plain(label, format))
    if len(one.kids) == 1 and one.kids[0].label == label:
        kid = one.kids[0]
        kid.inner = [(kid.open, kid.close), *kid.inner]
        kid.labels = [one.label, *kid.labels]
        kid.open, kid.close = one.start, end
        return [kid]
    return [_Node(label, one.start, end, [one.label], one.kids)]


def _leaf(one: _Open, end: int, label: str, format: str) -> list[_Node]:
    parts = one.parts
    if format == "cess" and len(parts) == 2:
        parts = parts[:1]
    elif format in {"joined", "psd", "psd-lemmas", "floresta"} and parts:
        parts = ["_".join(parts)]
    is_mark = label in MEANT and format in {"cess", "floresta"}
    found = MEANT[label] if is_mark else one_word(label, parts)
    if found is None or (format.startswith("psd") and (label in CODES or not label)):
        return []
    tag, word = found
    if format == "psd-lemmas":
        word = psd_form(word)
    elif format == "discbracket":
        word = word.partition("=")[2]
    tag = _plain(tag, format)
    if is_empty(tag, word):
        return []
    return [_Node(clean_tag(tag), one.start, end, [one.label], word=word)]


def _plain(label: str, format: str) -> str:
    match = FLORESTA.fullmatch(label) if format == "floresta" else None
    return match["form"] if match else label


def _unit(start: int, end: int, nodes: list[_Node]) -> _Unit:
    """A tree with the words of its nodes; roots of the file become one."""
    has_root = False
    node = nodes[0] if nodes else None
    while node is not None and node.label in ROOT_LABELS and node.word is None:
        has_root = True
        if len(node.kids) != 1:
            break
        if node.kids[0].label not in ROOT_LABELS or node.kids[0].word is not None:
            break
        node = node.kids[0]
    if node is None:
        return _Unit(start, end, None, has_root)
    root = node if has_root else _Node(ROOT, start, end, [], [node])
    _count_words(root)
    return _Unit(start, end, root, has_root)


def _count_words(root: _Node) -> None:
    """Set where nodes start and end, in words."""
    order, stack = list[_Node](), [root]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(node.kids))
    n_words = 0
    for node in order:
        node.start = n_words
        n_words += node.word is not None
    for node in reversed(order):
        node.end = node.kids[-1].end if node.kids else node.start + 1


# -- replacements ---------------------------------------------------------------------------------


class _Correction:
    """The replacements that make a tree of a text the wanted one.

    Parameters
    ----------
    wanted
        Nodes of the tree in pre-order, without the root, tags among them.
    """

    def __init__(self, text: str, unit: _Unit, wanted: Sequence[Bracket], format: str) -> None:
        self.text, self.unit, self.wanted, self.format = text, unit, wanted, format
        self.found: list[Replacement] = []
        self.of_wanted: dict[int, _Node] = {}
        self.removed: list[_Node] = []

    def replacements(self) -> list[Replacement]:
        """All replacements; insertions at one position keep their order."""
        self._align()
        self._keep_outermost()
        for number, node in self.of_wanted.items():
            if node.label != self.wanted[number][0]:
                self._rename(node, self.wanted[number][0])
        self._insert()
        for node in self.removed:
            for bracket in node.brackets:
                self._remove(*bracket)
        return self.found

    def _align(self) -> None:
        """Give nodes of the file to wanted nodes over the same words, in order."""
        theirs = defaultdict[tuple[int, int], list[int]](list)
        ours = defaultdict[tuple[int, int], list[_Node]](list)
        for number, (_, start, end) in enumerate(self.wanted):
            theirs[start, end].append(number)
        for node in self.unit.nodes():
            ours[node.start, node.end].append(node)
        for span, nodes in ours.items():
            numbers = theirs[span]
            if nodes[-1].word is not None:  # the lowest is the tag in both
                self.of_wanted[numbers.pop()] = nodes.pop()
            old, new = [n.label for n in nodes], [self.wanted[k][0] for k in numbers]
            matcher = SequenceMatcher(None, old, new, autojunk=False)
            for _, i, i_end, j, j_end in matcher.get_opcodes():
                both = min(i_end - i, j_end - j)
                self.of_wanted.update(zip(numbers[j : j + both], nodes[i : i + both], strict=True))
                self.removed += nodes[i + both : i_end]

    def _keep_outermost(self) -> None:
        """Rename the outermost bracket of a file without roots to the root, if it would go."""
        if self.unit.has_root:
            return
        for node in self.removed:
            if node.open == self.unit.open:
                self.removed.remove(node)
                self._rename(node, ROOT)
                return

    def _rename(self, node: _Node, label: str) -> None:
        for start, end in node.labels:
            old = self.text[start:end]
            if node.word is not None and self.text[end : node.close].strip(" \t\r\n\f\v)") == "":
                new = f"{label} {old}"  # punctuation that is its own tag, (,)
            elif start == end:
                new = label if self.text[end].isspace() else f"{label} "
            else:
                new = self._with_rest(old, node.label, label)
            self.found.append(Replacement(start, end, new))

    def _with_rest(self, old: str, plain: str, label: str) -> str:
        """A label with the function tags and indices of an old one."""
        match = FLORESTA.fullmatch(old) if self.format == "floresta" else None
        if match:
            return f"{match['function']}+{label}"
        return label + old[len(plain) :] if old.startswith(plain) else label

    def _insert(self) -> None:
        """Put in the brackets that are new, each around its children."""
        extents: list[tuple[int, int]] = []  # of finished nodes whose parent is to come
        spans: list[Bracket] = []
        opened, closed = list[Replacement](), list[Replacement]()
        for number in range(len(self.wanted) - 1, -1, -1):
            label, start, end = self.wanted[number]
            kids = list[tuple[int, int]]()
            while spans and start <= spans[-1][1] and spans[-1][2] <= end:
                spans.pop()
                kids.append(extents.pop())
            node = self.of_wanted.get(number)
            if node is not None:
                extent = node.open, node.close
            else:
                extent = kids[0][0], kids[-1][1]
                opened.append(Replacement(extent[0], extent[0], f"({self._label(number)} "))
                closed.append(Replacement(extent[1], extent[1], ")"))
            spans.append((label, start, end))
            extents.append(extent)
        # children came first: the outermost bracket opens first at its place
        # what ends at a place ends before what starts there
        self.found += closed + opened[::-1]

    def _label(self, number: int) -> str:
        """The label of a new bracket, with the function tags of a removed one that it replaces."""
        label, start, end = self.wanted[number]
        for node in self.removed:
            is_near = node.start < end and start < node.end
            if node.label == label and is_near and node.labels:
                at = node.labels[0]
                node.labels = []  # so that none is used twice
                return self._with_rest(self.text[at.start : at.end], label, label)
        return f"x+{label}" if self.format == "floresta" else label

    def _remove(self, start: int, end: int) -> None:
        """Remove both ends of a bracket, and the blanks between each and what it holds."""
        match = _TOKEN.match(self.text, start)
        assert match is not None
        inside = match.end()
        while self.text[inside].isspace() and self.text[inside] in " \t\r\n\f\v":
            inside += 1
        close = end - 1
        while self.text[close - 1] in " \t\r\n\f\v":
            close -= 1
        self.found += [Replacement(start, inside, ""), Replacement(close, end, "")]
