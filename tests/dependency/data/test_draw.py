"""Pictures of arcs: every arc is there, nothing overlaps, nothing breaks the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from tests.dependency.data.draws import head_lists, sentences

from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.data.draw import arc_levels
from sapwood.dependency.data.transform import is_projective

UP, DOWN = set("│┌├┬┐┤┼└┴┘") - set("┌┬┐"), set("│┌├┬┐┤┼└┴┘") - set("└┴┘")
CORNERS = set("┌├┬┴└┼┐┘┤")


def heads_in_picture(picture: str, n: int) -> list[int]:
    """Read the tree off its picture: the leftmost corner of a line is the bar of its head."""
    lines = [line + " " * 200 for line in picture.split("\n")[:n]]
    width = picture.split("\n", maxsplit=1)[0].find(" w") if n else 0
    left = [next((i for i in range(width) if line[i] in CORNERS), None) for line in lines]
    right = [max((i for i in range(width) if line[i] in CORNERS), default=None) for line in lines]
    is_root = ["►" not in line[:width] for line in lines]
    heads = []
    for word in range(n):
        if is_root[word]:
            heads.append(0)
            continue
        rows = {word}
        for step, way in ((-1, UP), (1, DOWN)):
            at = word
            while lines[at][left[word]] in way:
                at += step
                rows.add(at)
        own = [r for r in rows if r != word and right[r] == left[word]]
        # the head is the one on the bar whose own bar this is, and which hangs elsewhere or nowhere
        heads.append(1 + next(r for r in own if is_root[r] or left[r] != left[word]))
    return heads


@given(head_lists(10))
def test_the_tree_can_be_read_off_its_picture(heads: list[int]) -> None:
    if not is_projective(heads):
        return
    arcs = Arcs(["w"] * len(heads), heads)
    assert heads_in_picture(arcs.draw(), len(heads)) == heads


@given(sentences())
def test_every_tree_can_be_drawn(arcs: Arcs) -> None:
    assert arcs.draw().count("\n") == len(arcs) - 1
    picture = ElementTree.fromstring(arcs.to_svg())
    kinds = [text.attrib["class"] for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert kinds.count("word") == kinds.count("relation") == len(arcs)
    latex = arcs.to_latex()
    assert latex.count(r"\depedge") == len(arcs) - 1
    assert latex.count(r"\deproot") == 1


@given(head_lists())
def test_arcs_of_one_height_do_not_overlap(heads: list[int]) -> None:
    levels = arc_levels(tuple(heads))
    arcs = [(min(w, h), max(w, h), levels[w - 1]) for w, h in enumerate(heads, 1) if h]
    for i, (a, b, level) in enumerate(arcs):
        for c, d, other in arcs[:i]:
            assert level != other or b <= c or d <= a


def test_latex_escapes_what_it_must() -> None:
    latex = Arcs(["50%", "a_b", "{x}", "\\", "~^&#$"], [0, 1, 1, 1, 1]).to_latex()
    assert r"50\% \& a\_b \& \{x\} \& \textbackslash{} \&" in latex
    assert r"\textasciitilde{}\textasciicircum{}\&\#\$ \\" in latex


def test_colours_are_only_where_they_are_wanted() -> None:
    arcs = Arcs(["dogs", "bark"], [2, 0])
    assert "\x1b" not in arcs.draw()
    assert re.sub(r"\x1b\[\d*m", "", arcs.draw(colour=True)) == arcs.draw()


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in Arcs(["\x1b[2J", "x"], [2, 0]).draw()


def test_too_long_for_any_drawing() -> None:
    with pytest.raises(SapwoodError, match="too large to draw: 2,001 words"):
        Arcs(["w"] * 2001, [0] + [1] * 2000).draw()
