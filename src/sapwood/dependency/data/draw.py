"""Drawing dependency trees: text for terminals, SVG for pages, LaTeX for papers.

Text has one word per line, so that sentences of any length fit. Every word with dependents has a
bar; lines lead from the bar to the word itself and, with an arrow, to each dependent. The bar of a
word is to the right of the bar of its head, so the line of a word meets the bar of its head first.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from sapwood.core.errors import SapwoodError
from sapwood.corpora.draw import (
    FONT,
    FONT_SIZE,
    LIGHT,
    MARGIN,
    MAX_PICTURE_WORDS,
    ansi,
    latex_text,
    pixels,
    printable,
    runs_leftwards,
    svg_document,
    text_columns,
)
from sapwood.dependency.data.bank import EMPTY, Arcs
from sapwood.dependency.data.transform import top_down

# Which of up, down, left, right a character leads to.
_BOXES = {
    (False, False, True, True): "─", (True, True, False, False): "│",
    (False, True, False, True): "┌", (True, False, False, True): "└",
    (True, True, False, True): "├", (True, True, True, True): "┼",
    (False, True, True, True): "┬", (True, False, True, True): "┴",
    (False, True, True, False): "┐", (True, False, True, False): "┘",
    (True, True, True, False): "┤",
}  # fmt: skip
_FONT_SIZES = {"relation": 12, "word": FONT_SIZE, "tag": 12}
_LEVEL = 26  # pixels from one height of arcs to the next
_GAP = 24  # pixels between neighbours


def arcs_text(arcs: Arcs, *, colour: bool = False) -> str:
    """Draw a tree as lines of text, one word each.

    Parameters
    ----------
    arcs
        A parsed sentence of at most `MAX_WORDS` words.
    colour
        Whether to mark lines, tags and relations with ANSI colours.

    Raises
    ------
    SapwoodError
        If the sentence has no parse, or is too long to draw.

    Examples
    --------
    >>> words, heads = "Big dogs bark loudly .".split(), [2, 3, 0, 3, 3]
    >>> relations = "amod nsubj root advmod punct".split()
    >>> print(arcs_text(Arcs(words, heads, relations, "ADJ NOUN VERB ADV PUNCT".split())))
      ┌─► Big     ADJ    amod
    ┌─┴─► dogs    NOUN   nsubj
    ├──── bark    VERB   root
    ├───► loudly  ADV    advmod
    └───► .       PUNCT  punct
    """
    _check(arcs)
    lines = _bars(arcs)
    tags = arcs.xpos if set(arcs.upos) == {EMPTY} else arcs.upos
    columns = [[printable(cell) for cell in cells] for cells in (arcs.words, tags)]
    widths = [max(map(text_columns, cells)) for cells in columns]
    rows = []
    for line, word, tag, relation in zip(lines, *columns, arcs.relations, strict=True):
        word_cell, tag_cell = (
            cell + " " * (width - text_columns(cell))
            for cell, width in zip((word, tag), widths, strict=True)
        )
        cells = [word_cell, ansi(tag_cell, "tag", colour=colour)]
        cells.append(ansi(printable(relation), "relation", colour=colour))
        rows.append(ansi(line, "line", colour=colour) + " " + "  ".join(cells))
    return "\n".join(rows)


def _check(arcs: Arcs) -> None:
    if not arcs.is_parsed:
        msg = "the sentence has no arcs to draw: it is not parsed"
        raise SapwoodError(msg, hint="`sapwood depend parse` does")
    if len(arcs) > MAX_PICTURE_WORDS:
        msg = f"too large to draw: {len(arcs):,} words"
        raise SapwoodError(msg, hint=f"draw sentences of at most {MAX_PICTURE_WORDS:,} words")


def _bars(arcs: Arcs) -> list[str]:
    """The lines left of the words."""
    column, spans = _bar_columns(arcs.heads)
    width = 2 * (1 + max(column.values(), default=-1)) + 1
    lines = []
    for word, head in enumerate(arcs.heads, 1):
        own = column.get(word)
        above = column[head] if head else own
        cells = []
        for place in range(width):
            at_place = (w for w, c in column.items() if 2 * c == place)
            bar = next((w for w in at_place if spans[w][0] <= word <= spans[w][1]), None)
            starts = above is not None and place >= 2 * above
            joins = bar is not None and bar in {word, head}
            left = above is not None and place > 2 * above
            if joins and bar is not None:
                low, high = spans[bar]
                cells.append(_BOXES[word > low, word < high, left, True])
            elif bar is not None:
                cells.append("│")  # in front of a line that only passes
            else:
                cells.append("─" if starts else " ")
        if head:
            cells[-1] = "►"
        elif own is None:  # a root alone
            cells[-1] = " "
        lines.append("".join(cells))
    return lines


def _bar_columns(heads: tuple[int, ...]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Column of the bar of each word with dependents, and its first and last line."""
    spans = {head: (head, head) for head in heads if head}
    for word, head in enumerate(heads, 1):
        if head:
            low, high = spans[head]
            spans[head] = min(low, word), max(high, word)
    column: dict[int, int] = {}
    taken: list[list[tuple[int, int]]] = []  # spans of the bars in each column
    for word in top_down(heads):
        if word not in spans:
            continue
        low, high = spans[word]
        at = column[heads[word - 1]] + 1 if heads[word - 1] else 0
        while at < len(taken) and any(a <= high and low <= b for a, b in taken[at]):
            at += 1
        taken.extend([] for _ in range(at + 1 - len(taken)))
        taken[at].append((low, high))
        column[word] = at
    return column, spans


# -- SVG ------------------------------------------------------------------------------------------


def arcs_svg(arcs: Arcs) -> str:
    """Draw a tree as a self-contained SVG document, the same bytes for the same tree.

    What belongs to a word says in `data-node` to which, from 1 on.

    Parameters
    ----------
    arcs
        A parsed sentence of at most `MAX_WORDS` words.
    """
    _check(arcs)
    words, relations = [printable(w) for w in arcs.words], [printable(r) for r in arcs.relations]
    tags = ["" if tag == EMPTY else printable(tag) for tag in arcs.upos]
    centres, across = _centres(words, tags, relations)
    if runs_leftwards(words):
        centres = [across - x for x in centres]
    levels = arc_levels(arcs.heads)
    floor = MARGIN + _LEVEL * (1 + max(levels))  # where arcs meet words
    down = floor + 3 * FONT_SIZE + MARGIN
    tip = floor - 8  # of an arrow, where it is widest
    lines, texts = [], []
    for place, head in enumerate(arcs.heads, 1):
        line, x, y = _arc(place, head, levels[place - 1], centres, floor)
        lines.append(line)
        texts.append(_text(place, relations[place - 1], "relation", (x, y - 4)))
    for place, (x, word, tag) in enumerate(zip(centres, words, tags, strict=True), 1):
        texts.append(_text(place, word, "word", (x, floor + FONT_SIZE + 4)))
        texts.append(_text(place, tag, "tag", (x, floor + 2 * FONT_SIZE + 8)))
    tips = (f"M{x - 3} {tip}H{x + 3}L{x} {tip + 7}Z" for x in centres)
    body = [
        f'<g class="line" fill="none" stroke="{LIGHT["line"]}" stroke-width="1.5">',
        *(f'<path data-node="{k}" d="{line}"/>' for k, line in enumerate(lines, 1)),
        "</g>",
        *(f'<path class="tip" fill="{LIGHT["tip"]}" d="{path}"/>' for path in tips),
        f'<g font-family="{FONT}" text-anchor="middle">',
        *filter(None, texts),
    ]
    kinds = ("tip", "relation", "tag", "word")
    return svg_document("sapwood-arcs", kinds, words, (across, down), body)


def _centres(words: list[str], tags: list[str], relations: list[str]) -> tuple[list[int], int]:
    """Centre of each word, and width of the drawing, in pixels."""
    centres, x = [], MARGIN
    for word, tag, relation in zip(words, tags, relations, strict=True):
        width = max(pixels(text, "word") for text in (word, tag or ".", relation or "."))
        centres.append(x + width // 2)
        x += width + _GAP
    return centres, x - _GAP + MARGIN


def arc_levels(heads: tuple[int, ...]) -> list[int]:
    """Height of the arc into each word, from 0 on: arcs of the same height do not touch.

    Examples
    --------
    >>> arc_levels((2, 3, 0, 3))
    [0, 0, 2, 0]
    """
    levels = [0] * len(heads)
    placed: list[list[tuple[int, int]]] = []
    arcs = sorted((abs(word - head), word, head) for word, head in enumerate(heads, 1) if head)
    for _, word, head in arcs:
        low, high = min(word, head), max(word, head)
        at = 0
        # above every arc below it, and apart from the arcs of its own height
        for level, spans in enumerate(placed):
            if any(a < high and low < b for a, b in spans):
                at = level + 1
        placed.extend([] for _ in range(at + 1 - len(placed)))
        placed[at].append((low, high))
        levels[word - 1] = at
    if 0 in heads:
        levels[heads.index(0)] = len(placed) + (1 if placed else 0)
    return levels


def _arc(word: int, head: int, level: int, centres: list[int], floor: int) -> tuple[str, int, int]:
    """Path of the arc into a word, and the position of its relation."""
    end, top = centres[word - 1], floor - _LEVEL * (level + 1) + 10
    if head == 0:
        return f"M{end} {top}V{floor - 6}", end, top
    # beside the arc into the head
    start = centres[head - 1] + (6 if centres[head - 1] < end else -6)
    bend = min(10, abs(end - start) // 2) * (1 if end > start else -1)
    path = f"M{start} {floor - 2}V{top + 8}Q{start} {top} {start + bend} {top}"
    return f"{path}H{end - bend}Q{end} {top} {end} {top + 8}V{floor - 6}", (start + end) // 2, top


def _text(node: int, text: str, kind: str, place: tuple[int, int]) -> str:
    if not text:
        return ""
    at = f'data-node="{node}" x="{place[0]}" y="{place[1]}" font-size="{_FONT_SIZES[kind]}"'
    return f'<text class="{kind}" {at} fill="{LIGHT[kind]}">{escape(text)}</text>'


# -- LaTeX ----------------------------------------------------------------------------------------


def arcs_latex(arcs: Arcs) -> str:
    r"""The tree as an environment of tikz-dependency.

    Examples
    --------
    >>> print(arcs_latex(Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"])))
    \begin{dependency}
    \begin{deptext}
    dogs \& bark \\
    \end{deptext}
    \depedge{2}{1}{nsubj}
    \deproot{2}{root}
    \end{dependency}
    """
    _check(arcs)
    rows = [arcs.words, *([arcs.upos] if set(arcs.upos) != {EMPTY} else [])]
    edges = [
        f"\\depedge{{{head}}}{{{word}}}{{{latex_text(relation)}}}"
        if head
        else f"\\deproot{{{word}}}{{{latex_text(relation)}}}"
        for word, (head, relation) in enumerate(zip(arcs.heads, arcs.relations, strict=True), 1)
    ]
    return "\n".join(
        [
            "\\begin{dependency}",
            "\\begin{deptext}",
            *(" \\& ".join(map(latex_text, row)) + " \\\\" for row in rows),
            "\\end{deptext}",
            *edges,
            "\\end{dependency}",
        ]
    )
