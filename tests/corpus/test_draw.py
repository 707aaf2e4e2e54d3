from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.corpus.draw import _pixels, draw_svg, draw_text
from sapwood.corpus.penn import MAX_DEPTH
from sapwood.corpus.tree import Tree

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
    text = draw_text(Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark) (ADVP (RB now))))"))
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
    assert draw_text(Tree.parse(text)).splitlines() == lines


@given(st.from_type(Tree))
def test_text_is_rectangular_and_complete(tree: Tree) -> None:
    lines = draw_text(tree).split("\n")
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
    coloured = draw_text(tree, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == draw_text(tree)


def test_every_line_meets_a_label() -> None:
    """Below each part of a bar or a line there is more, down to the labels."""
    grid = [columns_of(line) for line in draw_text(Tree.parse(SENTENCE)).splitlines()]
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
    text = draw_text(Tree._trusted("X\x1b[2J", ("a\nb\r\x07",)))
    assert "\x1b" not in text
    assert text.count("\n") == 2


# -- SVG ------------------------------------------------------------------------------------------


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """The rectangle that each label is expected to fill."""
    found = []
    for text in ET.fromstring(svg).iter(f"{SVG}text"):
        half = _pixels(text.text or "", text.attrib["class"]) / 2
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
    svg = draw_svg(tree)
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
    svg = draw_svg(Tree.parse("(S (X abc) (Y def))"))
    rectangles = boxes(re.sub(r'x="\d+"', 'x="50"', svg))
    assert any(overlap(rectangles[-1], other) for other in rectangles[:-1])


@given(st.from_type(Tree))
def test_svg_is_well_formed_and_the_same_each_time(tree: Tree) -> None:
    svg = draw_svg(tree)
    assert draw_svg(tree) == svg
    texts = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert len(texts) == sum(1 + node.is_preterminal for node in tree.nodes())


def test_svg_escapes() -> None:
    svg = draw_svg(Tree("<b>", "&\x00</svg>\ufffe"))
    assert [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")] == [
        "<b>",
        "&\ufffd</svg>\ufffd",
    ]
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("step", ["(A ", "(A (T x) "])
def test_depth_is_no_limit(step: str) -> None:
    tree = Tree.parse(step * (MAX_DEPTH - 1) + "(X w)" + ")" * (MAX_DEPTH - 1))
    assert len(draw_text(tree).splitlines()) == 2 * MAX_DEPTH + 1
    assert draw_svg(tree).count("<text") == sum(1 + node.is_preterminal for node in tree.nodes())


def test_methods() -> None:
    tree = Tree.parse(SENTENCE)
    assert tree.draw() == draw_text(tree)
    assert tree.draw(colour=True) == draw_text(tree, colour=True)
    assert tree.svg() == draw_svg(tree)
