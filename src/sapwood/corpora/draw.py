"""The canvas of all drawings, and drawings of constituency trees: text, SVG, LaTeX.

The canvas measures and escapes texts and writes the frame of an SVG document; dependency trees are
drawn on it too (`sapwood.dependency.data.draw`).

Text and SVG of a tree have the same layout. Words stand on the bottom line, tags right above them,
and every phrase one level above its highest child; each node has a range of columns of its own, so
that nothing can overlap however wide the tree. All steps are loops.

A tree wider than the page is cut into rows of words, drawn one below the other. A row is itself a
tree: the part of each phrase over the row's words. A phrase that continues in another row has `…`
on that side; such phrases above one another have one label, `…S / VP`. Rows end where few phrases
are cut.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple
from xml.sax.saxutils import escape

from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

Measure = Callable[[str, str], int]

ELLIPSIS, LABEL_SEPARATOR = "…", " / "
MAX_LABELS = 4  # of a shared label
LEAST_FILLED = 0.5  # of a row, before a better end is looked for
TEXT_WIDTH = 100  # columns of most terminals
SVG_WIDTH = 1200  # pixels that fit a page
MAX_PICTURE_WORDS = 2000  # of a drawing that a reader can still take in
MAX_LEVELS = 1000
NO_LABEL = "·"  # drawn for an empty label, so that its lines still meet somewhere
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
FONT_SIZE = 15
MARGIN = 16
_LEVEL = 48  # pixels from one level to the next
_GAP = 18  # pixels between neighbours
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_NONCHARACTERS = frozenset("\ufffe\uffff")  # not allowed in XML
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_ANSI = {
    "phrase": "\x1b[1;36m", "relation": "\x1b[36m", "tag": "\x1b[32m", "line": "\x1b[2m",
}  # fmt: skip
# Colours on light pages, and on dark ones. The background comes along, so that a drawing is
# readable on any page.
LIGHT = {
    "paper": "#ffffff", "line": "#9aa1ad", "tip": "#9aa1ad", "phrase": "#1f4fa3",
    "relation": "#1f4fa3", "tag": "#1e7045", "word": "#1a1c20",
}  # fmt: skip
_DARK = {
    "paper": "#16181d", "line": "#6f7785", "tip": "#6f7785", "phrase": "#8ab8ff",
    "relation": "#8ab8ff", "tag": "#7fd1a0", "word": "#eceef2",
}  # fmt: skip
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{char: "\\" + char for char in "&%$#_{}"},
}  # fmt: skip


def printable(text: str) -> str:
    """Replace what would break a line, command a terminal or be forbidden in XML."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if char in _NONCHARACTERS or unicodedata.category(char) in _UNPRINTABLE else char
        for char in text
    )


def text_columns(text: str) -> int:
    """Terminal columns of a text: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return max(1, len(text))
    return max(1, sum(_char_columns(char) for char in text))


@lru_cache(maxsize=4096)
def _char_columns(char: str) -> int:
    if unicodedata.category(char) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pixels(text: str, kind: str) -> int:
    """Width of a text, rather too wide than too narrow: the reader's font is not known."""
    bold = 1.08 if kind == "phrase" else 1.0
    return max(8, round(FONT_SIZE * bold * sum(_em(char) for char in text)))


@lru_cache(maxsize=4096)
def _em(char: str) -> float:
    if not char.isascii():
        return (0.0, 0.75, 1.05)[_char_columns(char)]
    if char in "mwMW@%":
        return 0.95
    if char in "fijlrtI.,:;'`!|()[]-*":
        return 0.45
    return 0.74 if char.isupper() else 0.62


def runs_leftwards(words: Sequence[str]) -> bool:
    """Whether a sentence is written from right to left, by its first letter.

    Examples
    --------
    >>> runs_leftwards(["dogs", "bark"]), runs_leftwards(["(", "\u05db\u05dc\u05d1"])
    (False, True)
    """
    letters = (unicodedata.bidirectional(char) for word in words for char in word)
    return next((kind in {"R", "AL"} for kind in letters if kind in {"L", "R", "AL"}), False)


def ansi(text: str, kind: str, *, colour: bool) -> str:
    """Colour a text by its kind with ANSI codes, if colours are on and the kind has one."""
    return f"{_ANSI[kind]}{text}\x1b[0m" if colour and kind in _ANSI and text.strip() else text


def svg_document(
    name: str, kinds: Iterable[str], words: Sequence[str], size: tuple[int, int], body: list[str]
) -> str:
    """A self-contained SVG document with a background, for light and dark pages.

    Its class is `name`, those of its elements are `kinds`, its title is the sentence.
    """
    across, down = size
    rules = [
        f" .{name} .{kind} {{ {'stroke' if kind == 'line' else 'fill'}: {_DARK[kind]} }}"
        for kind in ("paper", "line", *kinds)
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img"'
        f' width="{across}" height="{down}" viewBox="0 0 {across} {down}">',
        f"<title>{escape(printable(' '.join(words)))}</title>",
        f"<style>@media (prefers-color-scheme: dark) {{{''.join(rules)} }}</style>",
        f'<rect class="paper" width="{across}" height="{down}" rx="8" fill="{LIGHT["paper"]}"/>',
    ]
    return "\n".join([*lines, *body, "</g>", "</svg>"])


def table_html(caption: str, rows: Mapping[str, object]) -> str:
    """Names and values as a small HTML table, in the colours of the page around it.

    Examples
    --------
    >>> table_html("A <b>", {"words": 3})
    '<table><caption>A &lt;b&gt;</caption><tr><th>words</th><td>3</td></tr></table>'
    """
    lines = (
        f"<tr><th>{escape(str(name))}</th><td>{escape(printable(str(value)))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(printable(caption))}</caption>{''.join(lines)}</table>"


def latex_text(text: str) -> str:
    r"""A text with the special characters of LaTeX escaped.

    Examples
    --------
    >>> print(latex_text("PRP$ & 5 %"))
    PRP\$ \& 5 \%
    """
    return "".join(_LATEX.get(char, char) for char in printable(text))


# -- trees ----------------------------------------------------------------------------------------


def wrap(tree: Tree, measure: Measure, gap: int, width: int) -> list[Tree]:
    """Cut a tree into rows of a width that only a single word, or a cut phrase's label, may exceed.

    `measure` gives the width of a text of a kind (phrase, tag, word), `gap` is that between
    neighbours.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat))))")
    >>> for row in wrap(tree, lambda text, kind: len(text), 2, 12):
    ...     print(row)
    (S… (NP (D the) (N dog)))
    (…S (VP (V saw) (NP (D a) (N cat))))
    """
    nodes, spans = list(tree.nodes()), tree.spans()
    steps = [0] * (spans[0][2] + 1)  # their running sum: phrases cut before each word
    for _, first, last in spans:
        if last - first > 1:
            steps[first + 1] += 1
            steps[last] -= 1
    widths = _word_widths(nodes, spans, measure, gap)
    ends = _row_ends(widths, list(accumulate(steps)), width + gap)
    return [
        _row_tree(nodes, spans, start, end) for start, end in zip([0, *ends], ends, strict=False)
    ]


def _word_widths(
    nodes: list[Tree], spans: list[tuple[str, int, int]], measure: Measure, gap: int
) -> list[int]:
    """The width of each word with its tag and the phrases over it alone."""
    widths = [0] * spans[0][2]
    for node, (label, start, end) in zip(nodes, spans, strict=True):
        if end - start == 1:
            kind = "tag" if node.is_preterminal else "phrase"
            widths[start] = max(widths[start], measure(label, kind) + gap)
        if node.is_preterminal:
            widths[start] = max(widths[start], measure(node.word, "word") + gap)
    return widths


def _row_ends(widths: list[int], n_cut: list[int], width: int) -> list[int]:
    """Ends of rows: each row is as long as fits, or shorter to cut fewer phrases."""
    ends: list[int] = []
    start = 0
    while start < len(widths):
        end = start + max(1, sum(room <= width for room in accumulate(widths[start:])))
        if end < len(widths):
            first = max(start + 1, start + int(LEAST_FILLED * (end - start)))
            end = min(range(end, first - 1, -1), key=lambda k: n_cut[k])
        ends.append(end)
        start = end
    return ends


class _CutPhrase(NamedTuple):
    """The part of a phrase in a row, and whether it goes on to the left and right of the row."""

    labels: tuple[str, ...]
    kids: tuple[Tree, ...]
    goes_left: bool
    goes_right: bool

    def tree(self) -> Tree:
        labels = self.labels
        if len(labels) > MAX_LABELS:
            labels = (*labels[:2], ELLIPSIS, *labels[2 - MAX_LABELS :])
        before, behind = ELLIPSIS * self.goes_left, ELLIPSIS * self.goes_right
        return Tree._trusted(before + LABEL_SEPARATOR.join(labels) + behind, self.kids)


def _row_tree(nodes: list[Tree], spans: list[tuple[str, int, int]], start: int, end: int) -> Tree:
    """The part of a tree over the words from `start` to `end`."""
    done: list[Tree | _CutPhrase | None] = []
    for node, (label, first, last) in zip(reversed(nodes), reversed(spans), strict=True):
        if node.is_preterminal:
            done.append(node if start <= first < end else None)
            continue
        n_kids = len(node.children)
        kids = [kid for kid in reversed(done[-n_kids:]) if kid is not None]
        del done[-n_kids:]
        goes = first < start, last > end
        if not kids or not any(goes):
            done.append(node if kids else None)
        elif len(kids) == 1 and isinstance(below := kids[0], _CutPhrase):
            done.append(_CutPhrase((label, *below.labels), below.kids, *goes))
        else:
            trees = tuple(kid.tree() if isinstance(kid, _CutPhrase) else kid for kid in kids)
            done.append(_CutPhrase((label,), trees, *goes))
    whole = done[0]
    assert whole is not None  # a row has words
    return whole.tree() if isinstance(whole, _CutPhrase) else whole


def tree_text(tree: Tree, *, colour: bool = False, width: int | None = TEXT_WIDTH) -> str:
    """Draw a tree as lines of text.

    Examples
    --------
    >>> print(tree_text(Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now))))")))
         S
     ┌───┴────┐
     │        VP
     │     ┌──┴──┐
     NP    │    ADVP
     │     │     │
    NNS   VBP    RB
     │     │     │
    dogs  bark  now
    """
    drawn = []
    for items in _layouts(tree, lambda text, kind: text_columns(text), 2, width):
        rows, top = defaultdict[int, list[tuple[int, str, str]]](list), items[0].height
        for item in items:
            at, kids = 2 * (top - item.height), [items[kid] for kid in item.kids]
            rows[at].append((item.first, item.text, item.kind))
            if kids:
                bar = _bar(item.centre, [kid.centre for kid in kids])
                rows[at + 1].append((kids[0].centre, bar, "line"))
            for kid in kids:
                for row in range(at + 2, 2 * (top - kid.height)):
                    rows[row].append((kid.centre, "│", "line"))
        drawn.append("\n".join(_row(rows[n], colour=colour) for n in range(2 * top + 1)))
    return "\n\n".join(drawn)


def tree_svg(tree: Tree, *, width: int | None = SVG_WIDTH) -> str:
    """Draw a tree as a self-contained SVG document, the same bytes for the same tree.

    Unless the tree is cut into rows, `data-node` of a text is the number of its node in pre-order.
    """
    rows = _layouts(tree, pixels, _GAP, None if width is None else width - 2 * MARGIN)
    if runs_leftwards(tree.words()):
        for items in rows:
            for item in items:
                item.centre = items[0].extent - item.centre
    lines: list[str] = []
    labels: list[str] = []
    down = 0  # pixels above the row
    for items in rows:
        floor = down + items[0].height * _LEVEL
        lines += [_branches(item, [items[k] for k in item.kids], floor) for item in items]
        # rows of a cut tree have nodes that are not in the tree, so they get no numbers
        labels += [_label(item, floor, is_numbered=len(rows) == 1) for item in items]
        down = floor + FONT_SIZE + 2 * MARGIN
    across = max(items[0].extent for items in rows) + 2 * MARGIN
    body = [
        f'<path class="line" d="{" ".join(filter(None, lines))}" fill="none"'
        f' stroke="{LIGHT["line"]}" stroke-width="1.5" stroke-linejoin="round"/>',
        f'<g font-family="{FONT}" font-size="{FONT_SIZE}" text-anchor="middle">',
        *labels,
    ]
    kinds = ("phrase", "tag", "word")
    return svg_document("sapwood-tree", kinds, tree.words(), (across, down), body)


def tree_latex(tree: Tree) -> str:
    r"""Draw a tree as an environment of the LaTeX package forest, words on one line.

    Examples
    --------
    >>> print(tree_latex(Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")))
    \begin{forest}
    where n children=0{tier=word}{}
    [{S} [{NP} [{NNS} [{dogs}]]] [{VP} [{VBP} [{bark}]]]]
    \end{forest}
    """
    parts: list[str] = []
    stack: list[Tree | str | None] = [tree]
    while stack:
        item = stack.pop()
        if item is None:
            parts.append("]")
            continue
        label, kids = (item, ()) if isinstance(item, str) else (item.label, item.children)
        parts.append(f" [{{{latex_text(label or NO_LABEL)}}}")
        stack.append(None)
        stack.extend(reversed(kids))
    whole = "".join(parts)[1:]
    return f"\\begin{{forest}}\nwhere n children=0{{tier=word}}{{}}\n{whole}\n\\end{{forest}}"


@dataclass(slots=True)
class _Item:
    """A label or a word, with its position.

    The item and all below it own the `extent` columns from `left` on; lines meet it at `centre`.
    """

    text: str
    kind: str  # phrase, tag or word
    node: int  # its number in pre-order; a word has that of its tag
    kids: list[int] = field(default_factory=list)
    height: int = 0
    size: int = 0
    extent: int = 0
    centre: int = 0
    left: int = 0

    @property
    def first(self) -> int:
        """The first column of the text itself."""
        return self.centre - (self.size - 1) // 2


def _layouts(tree: Tree, measure: Measure, gap: int, width: int | None) -> list[list[_Item]]:
    """The positions of all labels and words, for each row of the given width."""
    items = _layout(tree, measure=measure, gap=gap)
    n_words = sum(item.kind == "word" for item in items)
    if n_words > MAX_PICTURE_WORDS or items[0].height > MAX_LEVELS:
        msg = f"too large to draw: {n_words:,} words, {items[0].height:,} levels"
        most = f"{MAX_PICTURE_WORDS:,} words and {MAX_LEVELS:,} levels"
        hint = f"draw a part of at most {most}: tree[0]"
        raise SapwoodError(msg, hint=hint)
    if width is None or items[0].extent <= width:
        return [items]
    return [_layout(row, measure=measure, gap=gap) for row in wrap(tree, measure, gap, width)]


def _layout(tree: Tree, *, measure: Measure, gap: int) -> list[_Item]:
    items = _items(tree)
    for item in reversed(items):  # children come after parents, so this is bottom-up
        item.size = measure(item.text, item.kind)
        _arrange(item, [items[kid] for kid in item.kids], gap)
    for item in items:  # so far places count from the parent's own
        for kid in item.kids:
            items[kid].left += item.left
            items[kid].centre += item.left
    return items


def _items(tree: Tree) -> list[_Item]:
    """All labels and words in pre-order."""
    items: list[_Item] = []
    n_nodes = 0
    stack: list[tuple[Tree | str, int]] = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        if parent >= 0:
            items[parent].kids.append(len(items))
        if isinstance(node, str):
            items.append(_Item(printable(node), "word", n_nodes - 1))
            continue
        kind = "tag" if node.is_preterminal else "phrase"
        kids: tuple[Tree | str, ...] = node.children
        stack.extend((child, len(items)) for child in reversed(kids))
        items.append(_Item(printable(node.label) or NO_LABEL, kind, n_nodes))
        n_nodes += 1
    return items


def _arrange(item: _Item, kids: list[_Item], gap: int) -> None:
    """Set the children side by side and the item over their middle, from the item's left on."""
    if not kids:
        item.extent, item.centre = item.size, (item.size - 1) // 2
        return
    item.height = 1 + max(kid.height for kid in kids)
    right = -gap
    for kid in kids:
        kid.left = right + gap
        kid.centre += kid.left
        right = kid.left + kid.extent
    item.centre = (kids[0].centre + kids[-1].centre) // 2
    overhang = max(0, -item.first)  # of a label wider than everything below it
    for kid in kids:
        kid.left += overhang
        kid.centre += overhang
    item.centre += overhang
    item.extent = max(right + overhang, item.first + item.size)


def _bar(centre: int, ends: list[int]) -> str:
    if len(ends) == 1:
        return "│"
    bar = ["─"] * (ends[-1] - ends[0] + 1)
    for end in ends:
        bar[end - ends[0]] = "┬"
    bar[0], bar[-1] = "┌", "┐"
    bar[centre - ends[0]] = "┼" if centre in ends else "┴"
    return "".join(bar)


def _row(pieces: list[tuple[int, str, str]], *, colour: bool) -> str:
    """A line of texts, each with its start column and its kind."""
    line, column = "", 0
    for at, text, kind in sorted(pieces):
        line += " " * (at - column) + ansi(text, kind, colour=colour)
        column = at + text_columns(text)
    return line


def _branches(item: _Item, kids: list[_Item], floor: int) -> str:
    """Path data: down from the item, along to each child, down to it."""
    start = _baseline(item, floor) + 5
    middle = start + (_LEVEL - FONT_SIZE - 8) // 2
    x = item.centre + MARGIN
    parts = [f"M{x} {start}V{middle}"] if len(kids) > 1 else []
    for kid in kids:
        end = _baseline(kid, floor) - FONT_SIZE - 1
        along = f"M{x} {middle}H{kid.centre + MARGIN}" if len(kids) > 1 else f"M{x} {start}"
        parts.append(f"{along}V{end}")
    return "".join(parts)


def _baseline(item: _Item, floor: int) -> int:
    """Where the text of an item stands, over words that stand `floor` below the first label."""
    return MARGIN + FONT_SIZE - 2 + floor - item.height * _LEVEL


def _label(item: _Item, floor: int, *, is_numbered: bool) -> str:
    weight = ' font-weight="600"' if item.kind == "phrase" else ""
    number = f' data-node="{item.node}"' if is_numbered else ""
    return (
        f'<text class="{item.kind}"{number} x="{item.centre + MARGIN}" y="{_baseline(item, floor)}"'
        f' fill="{LIGHT[item.kind]}"{weight}>{escape(item.text)}</text>'
    )
