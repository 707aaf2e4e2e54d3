from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.corpora.draw import MAX_PICTURE_WORDS, pixels, tree_svg, tree_text, wrap
from sapwood.corpora.tree import Tree

DEPTH = 500

SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = (
    "(S (NP (DT the) (NN 日本語) (NN cafe\u0301))"
    " (VP (VBD saw) (NP (DT a) (JJ big) (NN cat))) (. .))"
)


def width(text: str) -> int:
    zero = {"Mn", "Me", "Cf"}
    return sum(
        0 if unicodedata.category(c) in zero else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def test_a_small_tree() -> None:
    text = tree_text(Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now))))"))
    assert text.splitlines() == [
        "     S",
        " ┌───┴────┐",
        " │        VP",
        " │     ┌──┴──┐",
        " NP    │    ADVP",
        " │     │     │",
        "NNS   VBP    RB",
        " │     │     │",
        "dogs  bark  now",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("(NN dog)", [" NN", " │", "dog"]),
        ("(X a)", ["X", "│", "a"]),
        ("(LONGLABEL a)", ["LONGLABEL", "    │", "    a"]),
        ("(X longword)", ["   X", "   │", "longword"]),
        ("( (X a))", ["·", "│", "X", "│", "a"]),
        ("(S (X a) (Y b) (Z c))", ["   S", "┌──┼──┐", "X  Y  Z", "│  │  │", "a  b  c"]),
        ("(S (X 日本) (Y b))", ["   S", " ┌─┴──┐", " X    Y", " │    │", "日本  b"]),
        ("(LONGLABEL (X a) (Y b))", ["LONGLABEL", "   ┌┴─┐", "   X  Y", "   │  │", "   a  b"]),
    ],
)
def test_drawings(text: str, lines: list[str]) -> None:
    assert tree_text(Tree.parse(text)).splitlines() == lines


@given(st.from_type(Tree))
def test_text_is_rectangular_and_complete(tree: Tree) -> None:
    lines = tree_text(tree).split("\n")
    words = [
        re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]", "\ufffd", w) for w in tree.words()
    ]
    assert lines[-1].replace(" ", "") == "".join(words).replace(" ", "")
    assert all(line.rstrip(" ") == line for line in lines)
    assert len(lines) % 2 == 1
    assert all(
        not char.isspace() or unicodedata.category(char) == "Zs" for line in lines for char in line
    )


@given(st.from_type(Tree))
def test_colour_only_adds_marks(tree: Tree) -> None:
    coloured = tree_text(tree, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == tree_text(tree)


def test_every_line_meets_a_label() -> None:
    """Below each part of a bar or a line there is more, down to the labels."""
    grid = [columns_of(line) for line in tree_text(Tree.parse(SENTENCE)).splitlines()]
    assert "日" in grid[-1].values()
    for upper, lower in pairwise(grid):
        for column, char in upper.items():
            if char in "│┌┐┬┼":
                assert lower.get(column, " ") != " "


def columns_of(line: str) -> dict[int, str]:
    columns: dict[int, str] = {}
    at = 0
    for char in line:
        if width(char):
            columns[at] = char
            columns.update({at + 1: char} if width(char) == 2 else {})
        at += width(char)
    return columns


def test_terminal_commands_are_disarmed() -> None:
    text = tree_text(Tree._trusted("X\x1b[2J", ("a\nb\r\x07",)))
    assert "\x1b" not in text
    assert text.count("\n") == 2


# -- SVG ------------------------------------------------------------------------------------------


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """The rectangle that each label is expected to fill."""
    found = []
    for text in ET.fromstring(svg).iter(f"{SVG}text"):
        half = pixels(text.text or "", text.attrib["class"]) / 2
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        found.append((x - half, y - 13, x + half, y + 4))
    return found


def segments(svg: str) -> list[tuple[float, float, float, float]]:
    path = ET.fromstring(svg).find(f"{SVG}path")
    assert path is not None
    out = []
    x = y = 0.0
    for command, one, other in re.findall(r"([MHV])(\d+)(?: (\d+))?", path.attrib["d"]):
        to = {"M": (float(one), float(other or 0)), "H": (float(one), y), "V": (x, float(one))}[
            command
        ]
        if command != "M":
            out.append((min(x, to[0]), min(y, to[1]), max(x, to[0]), max(y, to[1])))
        x, y = to
    return out


def overlap(a: tuple[float, ...], b: tuple[float, ...], slack: float = 1.0) -> bool:
    return (
        a[0] + slack < b[2] and b[0] + slack < a[2] and a[1] + slack < b[3] and b[1] + slack < a[3]
    )


@given(st.from_type(Tree))
def test_nothing_overlaps(tree: Tree) -> None:
    svg = tree_svg(tree)
    rectangles = boxes(svg)
    root = ET.fromstring(svg)
    assert len(rectangles) == sum(1 + node.is_preterminal for node in tree.nodes())
    for number, one in enumerate(rectangles):
        assert one[0] >= 0
        assert one[1] >= 0
        assert one[2] <= float(root.attrib["width"])
        assert one[3] <= float(root.attrib["height"])
        assert not any(overlap(one, other) for other in rectangles[:number])
        # lines have no area: give them one, and let them touch the label they belong to
        assert not any(
            overlap(one, (x - 2, y - 2, z + 2, w + 2), 3) for x, y, z, w in segments(svg)
        )


def test_the_overlap_check_can_fail() -> None:
    svg = tree_svg(Tree.parse("(S (X abc) (Y def))"))
    rectangles = boxes(re.sub(r'x="\d+"', 'x="50"', svg))
    assert any(overlap(rectangles[-1], other) for other in rectangles[:-1])


@given(st.from_type(Tree))
def test_svg_is_well_formed_and_the_same_each_time(tree: Tree) -> None:
    svg = tree_svg(tree)
    assert tree_svg(tree) == svg
    texts = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert len(texts) == sum(1 + node.is_preterminal for node in tree.nodes())


def test_svg_escapes() -> None:
    svg = tree_svg(Tree("<b>", "&\x00</svg>\ufffe"))
    assert [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")] == [
        "<b>",
        "&\ufffd</svg>\ufffd",
    ]
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("step", ["(A ", "(A (T x) "])
def test_depth_is_no_limit(step: str) -> None:
    tree = Tree.parse(step * (DEPTH - 1) + "(X w)" + ")" * (DEPTH - 1))
    assert len(tree_text(tree, width=None).splitlines()) == 2 * DEPTH + 1
    assert tree_svg(tree, width=None).count("<text") == sum(
        1 + node.is_preterminal for node in tree.nodes()
    )


def test_methods() -> None:
    tree = Tree.parse(SENTENCE)
    assert tree.draw() == tree_text(tree)
    assert tree.draw(colour=True) == tree_text(tree, colour=True)
    assert tree.svg() == tree_svg(tree)


# -- long sentences -------------------------------------------------------------------------------

CLAUSE = "(S (NP (DT the) (NN baker)) (VP (VBZ says) (SBAR (IN that) {})))"


def long_tree(n_clauses: int) -> Tree:
    """Sentences in sentences: `the baker says that the baker says that ... the baker says so`."""
    text = "(S (NP (DT the) (NN baker)) (VP (VBZ says) (ADVP (RB so))))"
    for _ in range(n_clauses):
        text = CLAUSE.format(text)
    return Tree.parse(f"(TOP {text})")


def test_a_hundred_words_fit_a_page() -> None:
    tree = long_tree(24)
    assert len(tree.words()) == 100
    root = ET.fromstring(tree.svg())
    assert float(root.attrib["width"]) <= 1200
    assert float(ET.fromstring(tree.svg(width=None)).attrib["width"]) > 4000
    sizes = {g.attrib["font-size"] for g in root.iter(f"{SVG}g")}
    assert sizes == {"15"}  # rows, not small print
    lines = tree.draw().splitlines()
    assert max(map(width, lines)) <= 100
    assert max(map(width, tree.draw(width=None).splitlines())) > 500


@pytest.mark.parametrize("limit", [10, 30, 80, 10_000])
def test_rows_have_all_words_in_order(limit: int) -> None:
    tree = long_tree(10)
    words = [
        line.split()
        for row in tree_text(tree, width=limit).split("\n\n")
        for line in row.splitlines()[-1:]
    ]
    assert [word for row in words for word in row] == tree.words()


@given(st.from_type(Tree), st.integers(1, 40))
def test_rows_are_parts_of_the_tree(tree: Tree, limit: int) -> None:
    rows = wrap(tree, lambda text, kind: len(text), 2, limit)
    assert [word for row in rows for word in row.words()] == tree.words()
    assert [tag for row in rows for tag in row.tags()] == tree.tags()
    if len(rows) == 1:
        assert rows == [tree]
    for row in rows:
        widths = [max(len(w), len(t)) + 2 for w, t in zip(row.words(), row.tags(), strict=True)]
        assert len(widths) == 1 or sum(widths) - 2 <= limit


def test_a_cut_phrase_says_that_it_goes_on() -> None:
    tree = Tree.parse("(S (NP (A a) (B b)) (VP (C c) (NP (D d) (NP (E e) (F f)))))")
    assert [str(row) for row in wrap(tree, lambda text, kind: 1, 0, 2)] == [
        "(S… (NP (A a) (B b)))",
        "(…S / VP… (C c))",
        "(…S / VP / NP… (D d))",
        "(…S / VP / NP (NP (E e) (F f)))",
    ]


def test_rows_end_where_few_phrases_are_cut() -> None:
    flat = " ".join(f"(NP (D d) (N n{n}))" for n in range(9))
    rows = wrap(Tree.parse(f"(S {flat})"), lambda text, kind: 1, 0, 5)
    assert [len(row.words()) for row in rows] == [4, 4, 4, 4, 2]


def test_labels_of_many_cut_phrases_are_shortened() -> None:
    tree = Tree.parse("(A (B (C (D (E (F (X x) (Y y) (Z z)))))))")
    rows = wrap(tree, lambda text, kind: 1, 0, 2)
    assert rows[0].label == "A / B / … / E / F…"


def test_too_large_a_drawing() -> None:
    tree = Tree.parse("(S " + "(X a) " * (MAX_PICTURE_WORDS + 1) + ")")
    with pytest.raises(SapwoodError, match=r"2,001 words, 2 levels"):
        tree.draw()
    assert Tree("S", tree.children[1:]).draw().count("a") == MAX_PICTURE_WORDS
