"""What notebooks show, and drawings for papers and for pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from hypothesis import given

import sapwood as sw
from sapwood.corpora.tree import Tree

SVG = "{http://www.w3.org/2000/svg}"


@given(...)
def test_latex_has_every_word_and_closes_what_it_opens(tree: Tree) -> None:
    text = tree.to_latex()
    body = text.split("\n", 2)[2].rsplit("\n", 1)[0]
    without = re.sub(r"\\[{}\\&%$#_]|\{\}", "", body)
    depth = 0
    for char in without:
        depth += (char == "{") - (char == "}")
        assert depth in {0, 1}  # a label holds no group of its own
    assert depth == 0
    n_nodes = len(tree.spans())
    assert len(re.findall(r" ?\[\{", body)) >= n_nodes + len(tree.words())
    assert text.startswith("\\begin{forest}\n")
    assert text.endswith("\\end{forest}")


@given(...)
def test_texts_say_which_node_they_are(tree: Tree) -> None:
    root = ElementTree.fromstring(tree.svg(width=None))
    numbers = [int(text.attrib["data-node"]) for text in root.iter(f"{SVG}text")]
    nodes = list(tree.nodes())
    assert sorted(set(numbers)) == list(range(len(nodes)))
    words = [n for n, text in zip(numbers, root.iter(f"{SVG}text"), strict=True)
             if text.attrib["class"] == "word"]  # fmt: skip
    assert words == [k for k, node in enumerate(nodes) if node.is_preterminal]


def test_right_to_left_text_runs_leftwards() -> None:
    def places(svg: str) -> list[int]:
        texts = ElementTree.fromstring(svg).iter(f"{SVG}text")
        return [int(text.attrib["x"]) for text in texts if text.attrib["class"] == "word"]

    hebrew = sw.Tree.parse("(S (N כלב) (V ישן) (A כאן))")
    assert places(hebrew.svg()) == sorted(places(hebrew.svg()), reverse=True)
    latin = sw.Tree.parse("(S (N dog) (V sleeps) (A here))")
    assert places(latin.svg()) == sorted(places(latin.svg()))
    arcs = sw.Arcs(["כלב", "ישן"], [2, 0])
    assert places(arcs.to_svg()) == sorted(places(arcs.to_svg()), reverse=True)


def test_things_show_themselves(learn: Callable[..., Any]) -> None:
    grammar = learn("pcfg")
    parse = sw.Parser(grammar).parse(["they", "sleep", "."])
    assert parse._repr_svg_() == parse.tree._repr_svg_() == parse.tree.svg()
    assert sw.Arcs(["dogs", "bark"], [2, 0])._repr_svg_().startswith("<svg")
    assert sw.Arcs(["dogs", "bark"], [-1, -1])._repr_svg_() is None
    report = sw.identify.check("dep-i", words=2, length=3, moments="pairs")
    scores = sw.evaluate.bracketing([parse.tree], [parse.tree])
    errors = sw.evaluate.diagnose([parse.tree], [parse.tree])
    for shown, text in (
        (grammar, "pcfg"), (sw.Ensemble.of([grammar, grammar]), "50%"), (report, "parameters"),
        (scores, "100.00"), (errors, "Errors in 1"),
    ):  # fmt: skip
        html = shown._repr_html_()
        assert text in html
        ElementTree.fromstring(html)
