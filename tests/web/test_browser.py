"""The page in a real Chromium: every view and export, what goes wrong, what is remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.web.browsers import Page
from tests.web.servers import Server, running

import sapwood as sw

pytestmark = pytest.mark.browser

SENTENCE = "the woman saw a dog in the garden ."


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = Page(context, server)
    yield page
    context.close()
    assert not page.troubles


def tree_on_show(page: Page) -> str:
    page.tab.select_option(".exports select", "copy")
    page.tab.click("[data-export=mrg]")
    page.see(".exports .facts:has-text('copied')")
    return str(page.tab.evaluate("navigator.clipboard.readText()"))


# -- parse ----------------------------------------------------------------------------------------


def test_parse_by_typing(page: Page) -> None:
    page.open("/parse").see("svg.sapwood-tree")
    page.tab.fill("textarea", "they sleep .")
    page.see("svg.sapwood-tree text.word:has-text('sleep')")
    assert tree_on_show(page) == "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))"
    assert "s=they+sleep" in page.address


def test_a_constituent_tells_its_posterior_and_states(page: Page) -> None:
    page.open("/parse#s=" + SENTENCE.replace(" ", "+")).see("svg.sapwood-tree")
    page.tab.hover(".node:has(text:text-is('NP'))")
    detail = page.see("aside:has-text('Posterior')")
    page.see("aside:has-text('What state')")
    assert "Hidden states of NP" in detail.inner_text()
    assert page.count(".chart-cell.lit") == 1
    page.tab.click("aside .rows a")  # to the state itself
    page.see("h1:has-text('States')")
    page.see("article h3:has-text('State')")


def test_the_tree_by_keyboard(page: Page) -> None:
    page.open("/parse").see("svg.sapwood-tree")
    page.tab.focus(".node[tabindex='0']")
    for key, label in (
        ("ArrowDown", "S"),
        ("ArrowDown", "NP"),
        ("ArrowRight", "VP"),
        ("ArrowUp", "S"),
    ):
        page.tab.keyboard.press(key)
        shown = page.tab.evaluate("document.activeElement.getAttribute('aria-label')")
        assert shown.startswith(f"{label}:")
    page.tab.keyboard.press("Enter")
    assert "node=1" in page.address
    page.see("aside .big:has-text('S')")


def test_the_chart_is_linked_with_the_tree(page: Page) -> None:
    page.open("/parse").see("svg.chart")
    for _ in range(10):  # a page that still arranges itself moves the cell from under the mouse
        page.tab.mouse.move(0, 0)
        page.tab.locator(".chart-cell.best").first.hover(force=True)
        if page.count(".node.lit"):
            break
        page.tab.wait_for_timeout(300)
    assert page.count(".node.lit") >= 1
    page.tab.focus(".chart-cell[tabindex='0']")
    page.tab.keyboard.press("ArrowDown")
    assert page.tab.evaluate("document.activeElement.classList.contains('chart-cell')")


def test_a_slider_to_the_kth_tree(page: Page) -> None:
    page.open("/parse#s=" + SENTENCE.replace(" ", "+")).see("svg.sapwood-tree")
    first = tree_on_show(page)
    page.tab.locator("input[type=range]").evaluate(
        "range => { range.value = '2'; range.dispatchEvent(new Event('input')); }"
    )
    page.see(".facts:has-text('tree 2 of')")
    assert tree_on_show(page) != first
    assert "tree=2" in page.address


def test_fallbacks_brackets_and_mistakes_are_said(page: Page) -> None:
    page.may_fail = True
    page.open("/parse").see("svg.sapwood-tree")
    page.tab.fill("textarea", "the the the of of")
    page.see(".notice:has-text('No parse')")
    page.tab.fill("textarea", "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))")
    page.see(".facts:has-text('as it was given')")
    page.see(".facts:has-text('P(tree | sentence)')")
    page.tab.fill("textarea", "(X (Y they) (Z sleep))")
    page.see(".notice:has-text('cannot build this tree')")
    page.tab.fill("textarea", "(S (NP (PRP they)")
    page.see(".notice.bad:has-text('Line 1')")
    page.tab.fill("textarea", "word " * 200)
    page.see(".notice.bad:has-text('--max-words')")
    page.tab.fill("textarea", "")
    page.see(".facts:has-text('Waiting')")


def test_several_sentences(page: Page) -> None:
    page.open("/parse").see("svg.sapwood-tree")
    page.tab.fill("textarea", "they sleep .\nthe dog sleeps .")
    page.tab.click("[aria-label=Sentences] button:has-text('the dog')")
    page.see("svg.sapwood-tree text.word:has-text('dog')")
    assert "line=1" in page.address


def test_every_export(page: Page) -> None:
    page.open("/parse#s=they+sleep+.").see("svg.sapwood-tree")
    tree = sw.Tree.parse("(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))")
    page.tab.select_option(".exports select", "save")
    found = {}
    for kind in ("mrg", "svg", "png", "tex", "json"):
        with page.tab.expect_download() as saved:
            page.tab.click(f"[data-export={kind}]")
        found[kind] = Path(saved.value.path()).read_bytes()
    assert sw.Tree.parse(found["mrg"].decode()) == tree
    assert found["svg"].decode() == tree.svg(width=None)
    ElementTree.fromstring(found["svg"])
    assert found["png"].startswith(b"\x89PNG")
    assert len(found["png"]) > 2000
    assert found["tex"].decode() == tree.to_latex()
    assert json.loads(found["json"])["tree"] == str(tree)
    page.tab.select_option(".exports select", "copy")
    for kind in ("svg", "png", "tex", "json"):
        page.tab.click(f"[data-export={kind}]")
        page.see(".exports .facts:has-text('copied')")
    kinds = "navigator.clipboard.read().then(items => items[0].types.join())"
    page.tab.click("[data-export=png]")
    page.tab.wait_for_function(f"{kinds}.then(types => types.includes('image/png'))")


def test_members_that_disagree_are_shown(page: Page) -> None:
    page.open(
        "/parse#model=bundled-mix&s=three+queens+sometimes+visited+this+cook+with+a+scarf+who+sings+."
    )
    page.see("[aria-label=Members] tbody tr")
    assert page.count("[aria-label=Members] tbody tr") == 3
    page.tab.hover(".node:has(text:text-is('PP'))")
    page.see("aside:has-text('ember')")


def test_dependencies_with_arcs(page: Page) -> None:
    page.open("/parse#model=bundled-arcs&s=they+see+the+dog+.").see("svg.sapwood-arcs")
    page.tab.focus("text.word[tabindex='0']")
    page.tab.keyboard.press("ArrowRight")
    page.see("aside:has-text('Posterior of the head')")
    page.tab.select_option(".exports select", "copy")
    page.tab.click("[data-export=conllu]")
    page.see(".exports .facts:has-text('copied')")
    arcs = sw.Arcs.parse(page.tab.evaluate("navigator.clipboard.readText()"))
    assert arcs.words == ("they", "see", "the", "dog", ".")


def test_right_to_left(page: Page) -> None:
    page.open("/parse").see("svg.sapwood-tree")
    page.tab.fill("textarea", "(S (NP (N הכלב)) (VP (V ישן)))")
    page.see("svg text.word:has-text('ישן')")
    place = """word => [...document.querySelectorAll('text.word')]
      .find(text => text.textContent === word).getBoundingClientRect().x"""
    assert page.tab.evaluate(place, "הכלב") > page.tab.evaluate(place, "ישן")


# -- states, compare, identify, text --------------------------------------------------------------


def test_states(page: Page) -> None:
    page.open("/states").see("article")
    page.tab.click(".chip:has-text('NN')")
    page.see(".examples mark")
    cards = page.tab.locator("article").first.inner_text()
    assert "Stands in" in cards
    page.tab.locator("article button.link").first.click()
    page.see("article:has-text('Nearest states of other labels')")
    page.tab.fill("input[placeholder=saw]", "saw")
    page.see("[aria-label='States of the word'] a:has-text('VBD')")
    page.tab.fill("input[placeholder=NP]", "sbar")
    assert page.count("[aria-label=Labels] button") == 2
    page.open("/states#model=bundled-spectral&label=NP").see(".plot .column")
    page.see("article:has-text('Direction 1')")
    page.open("/states#model=bundled-mix").see("select >> option:has-text('cluster')")
    page.see("article")


def test_compare(page: Page, bank: sw.Treebank) -> None:
    page.open("/compare#a=bundled&b=bundled-mix").see("svg.sapwood-tree >> nth=1")
    page.tab.fill("textarea", "(TOP (S (NP (PRP they)) (VP (VB sleep)) (. .)))")
    page.see("caption:has-text('1 gold tree')")
    page.see(".node.differs")
    gold = "\n".join(str(tree) for tree in bank[:8])
    page.tab.set_input_files(
        "input[type=file]", {"name": "gold.mrg", "mimeType": "text/plain", "buffer": gold.encode()}
    )
    page.see("caption:has-text('8 gold trees')")
    page.see("[aria-label='Classes of errors'], .none")
    page.tab.locator("tr.pick").nth(1).press("Enter")
    page.see("tr[aria-selected=true]")
    page.may_fail = True
    page.tab.fill("textarea", "(S (NP")
    page.see(".notice.bad:has-text('Line 1')")


def test_identify(page: Page) -> None:
    page.open("/identify").see("td button")
    page.tab.fill("input >> nth=2", "3")
    page.see("caption:has-text('sentences of 3')")
    page.tab.click("[data-cell='pcfg-ie 12']")
    page.see("aside:has-text('Cannot be learnt')")
    page.see("aside:has-text('What can move')")
    page.tab.reload()
    page.see("aside:has-text('Cannot be learnt')")


def test_language_model(page: Page) -> None:
    page.open("/text").see(".surprise button")
    page.tab.fill("input[type=text]", "in the")
    page.see("[aria-label='Next words'] .rows")
    page.tab.locator(".surprise button").nth(1).click()
    page.see("h3:has-text('kind')")
    page.see("article:has-text('After')")


# -- training -------------------------------------------------------------------------------------


def test_from_upload_to_parse(page: Page, bank: sw.Treebank) -> None:
    page.open("/train").see("form")
    page.tab.select_option("label:has-text('Learn from') select", "upload")
    text = "\n".join(str(tree) for tree in bank[:60]) + "\n(S (NP broken\n"
    page.tab.set_input_files(
        "input[type=file]", {"name": "my.mrg", "mimeType": "text/plain", "buffer": text.encode()}
    )
    page.see("pre.source:has-text('(S (NP broken')")
    page.see(".small:has-text('Line 61')")
    page.tab.select_option("label:has-text('Method') select", "em")
    page.tab.fill("input[type=number] >> nth=0", "2")
    page.tab.click("button.primary")
    page.see(".steps li:has-text('training')")
    page.see("[data-state=done]")
    page.see("svg.plot[aria-label^='Log-likelihood']")
    page.see("svg.plot[aria-label^='Dev F1']")
    with page.tab.expect_download() as saved:
        page.tab.click("a:has-text('Download')")
    assert Path(saved.value.path()).stat().st_size > 1000
    page.tab.click("a:has-text('Try it')")
    page.see("svg.sapwood-tree")
    assert re.search(r"model=trained-\d+", page.address)


def test_cancel_and_two_tabs(page: Page, server: Server) -> None:
    other = Page(page.tab.context, server).open("/parse")
    other.see("svg.sapwood-tree")
    page.open("/train").see("form")
    page.tab.select_option("label:has-text('Method') select", "em")
    page.tab.fill("input[type=number] >> nth=0", "32")
    page.tab.click("button.primary")
    page.see("[data-state=running]")
    other.tab.fill("textarea", "they sleep .")  # while the other one trains
    other.see("svg.sapwood-tree text.word:has-text('sleep')")
    other.open("/train").see("[data-state=running]")
    other.tab.click("button:has-text('Cancel')")
    other.see("[data-state=cancelled]")
    page.see("[data-state=cancelled]")
    assert not other.troubles


# -- what holds everywhere ------------------------------------------------------------------------

VIEWS = ("/parse", "/states#label=NN", "/compare", "/train", "/identify", "/text", "/docs")
READY = {
    "/parse": "svg.chart", "/states#label=NN": ".examples", "/compare": "svg.sapwood-tree",
    "/train": "form", "/identify": "td button", "/text": ".surprise button", "/docs": ".route",
}  # fmt: skip


def test_reload_restores_the_state(page: Page) -> None:
    page.open("/parse#s=" + SENTENCE.replace(" ", "+") + "&tree=2&node=3&decoder=max-rule").see(
        "aside .big"
    )
    before = tree_on_show(page), page.see("aside .big").inner_text(), page.address
    page.tab.reload()
    page.see("aside .big")
    assert (tree_on_show(page), page.see("aside .big").inner_text(), page.address) == before
    page.tab.click("nav a:has-text('States')")
    page.see("article")
    page.tab.go_back()
    page.see("svg.sapwood-tree")
    assert page.address == before[2]


@pytest.mark.parametrize("width", [360, 640])  # a phone; a window of 1280 at 200 %
def test_narrow_pages_do_not_run_over(browser: Any, server: Server, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 740})
    page = Page(context, server)
    for view in VIEWS:
        page.open(view).see(READY[view])
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width, view
    context.close()
    assert not page.troubles


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const left = '.unseen, .skip, noscript, script, option, .chart, :disabled';
  const bad = new Set();
  for (const one of document.querySelectorAll('body *')) {
    const texts = [...one.childNodes].filter((node) => node.nodeType === 3);
    if (!texts.some((node) => node.textContent.trim()) || one.closest(left)) continue;
    if (!one.getBoundingClientRect().width) continue;
    const style = getComputedStyle(one);
    const ink = rgb(one instanceof SVGElement ? style.fill : style.color);
    let place = one, paper = [0, 0, 0, 0];
    while (place && paper[3] < 255) {
      paper = rgb(getComputedStyle(place).backgroundColor);
      place = place.parentElement;
    }
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const name = `${one.tagName} ${one.className.baseVal ?? one.className}`;
    if (ratio < 4.5) bad.add(`${name} ${one.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [...bad];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast(browser: Any, server: Server, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = Page(context, server)
    for view in VIEWS:
        page.open(view).see(READY[view])
        assert page.tab.evaluate(CONTRAST) == [], view
    # a mistake is noticed: the colour of lines for letters
    page.tab.evaluate("document.querySelector('h1').style.color = 'var(--line)'")
    assert page.tab.evaluate(CONTRAST)
    context.close()


def test_everything_has_a_name_and_focus_shows(page: Page) -> None:
    nameless = """() => {
      const named = (one) => one.getAttribute('aria-label') || one.textContent.trim()
        || one.closest('label') || one.querySelector('img[alt]');
      const all = 'button, a, input, select, textarea, [role=button]';
      return [...document.querySelectorAll(all)]
        .filter((one) => one.getBoundingClientRect().width && !named(one))
        .map((one) => one.outerHTML.slice(0, 100));
    }"""
    for view in VIEWS:
        page.open(view).see(READY[view])
        assert page.tab.evaluate(nameless) == [], view
        assert page.count("h1") == 1
    page.open("/parse").see("svg.chart")
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate("document.activeElement.className") == "skip"
    page.tab.keyboard.press("Tab")
    outline = page.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_an_outline_stands_for_the_tree(page: Page) -> None:
    page.open("/parse#s=they+sleep+.").see("svg.sapwood-tree")
    page.tab.click("summary:has-text('Outline')")
    assert page.see(".outline").inner_text().split()[:4] == ["TOP", "they", "sleep", "."]


def test_a_server_that_is_gone_is_said(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    with running(folder=tmp_path) as server:
        page = Page(context, server)
        page.open("/parse").see("svg.sapwood-tree")
    page.may_fail = True
    page.tab.fill("textarea", "they sleep")
    page.see(".notice.bad:has-text('does not answer')")
    context.close()


def test_docs_work_offline(page: Page) -> None:
    page.open("/docs").see(".route:has-text('/api/parse')")
    assert page.count(".route") > 20
