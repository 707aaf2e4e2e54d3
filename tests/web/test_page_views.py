"""The page in a real Chromium: what fits, what is told in words, what suits the kind of model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest
from tests.web.browsers import Page, tab
from tests.web.servers import Server

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

NINE = "the woman saw a dog in the garden ."
LONG = (
    "the woman saw the kind king who gave a song to every cook with a hat in the garden "
    "and they hope that she slept ."
)  # 26 words


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    with tab(browser, server) as page:
        yield page


def parse_of(text: str, model: str = "bundled", **state: str) -> str:
    more = "".join(f"&{name}={quote_plus(value)}" for name, value in state.items())
    return f"/parse#model={model}&s={quote_plus(text)}{more}"


# -- real sentences fit ---------------------------------------------------------------------------

CUT = """figure => {
  const frame = figure.getBoundingClientRect();
  return [...figure.querySelectorAll('svg text')].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1;
  }).length;
}"""


@pytest.mark.parametrize(("width", "text"), [(1280, LONG), (390, NINE)])
@pytest.mark.parametrize("model", ["bundled", "bundled-arcs"])
def test_a_sentence_fits_and_can_be_read(
    browser: Any, server: Server, width: int, text: str, model: str
) -> None:
    with tab(browser, server, width) as page:
        page.open(parse_of(text, model)).see(".figure svg text.word")
        figure = page.tab.locator(".figure").first
        assert figure.evaluate(CUT) == 0
        assert page.see("button:text-is('Fit')").get_attribute("aria-pressed") == "true"
        letters = figure.locator("text.word").nth(1).evaluate("t => t.getBoundingClientRect()")
        assert letters["height"] > 9  # pixels
        for _ in range(3):
            page.tab.click("button[aria-label='Make larger']")
        assert figure.evaluate(CUT) > 0
        assert page.see("button:text-is('Fit')").get_attribute("aria-pressed") == "false"
        page.tab.click("button:text-is('Fit')")
        assert figure.evaluate(CUT) == 0


def test_where_letters_are_too_small_the_outline_is_open(browser: Any, server: Server) -> None:
    with tab(browser, server, 390) as page:
        page.open(parse_of(LONG)).see(".outline")
        assert page.tab.locator(".outline").is_visible()
        page.open(parse_of(NINE)).see(".outline")
        assert not page.tab.locator(".outline").is_visible()


IN_SIGHT = """() => {
  const inside = (box) => box.top >= 0 && box.bottom <= innerHeight && box.height > 0;
  const panel = document.querySelector('aside').getBoundingClientRect();
  const node = document.querySelector('.node.chosen .hit').getBoundingClientRect();
  return [inside(panel), inside(node) && node.bottom <= panel.top];
}"""


def test_on_a_phone_a_tapped_node_and_its_panel_are_in_sight(browser: Any, server: Server) -> None:
    with tab(browser, server, 390, has_touch=True, is_mobile=True) as page:
        page.open(parse_of(NINE)).see("svg.sapwood-tree")
        assert not page.tab.locator("aside").is_visible()
        for label in ("VP", "PP", "DT"):
            page.tab.locator(f".node:has(text:text-is('{label}'))").last.tap()
            page.see(f"aside .big:text-is('{label}')")
            page.see("aside:has-text('What state')")  # comes later, and makes the panel higher
            page.tab.wait_for_timeout(100)
            assert page.tab.evaluate(IN_SIGHT) == [True, True], label
        page.tab.locator("aside button[aria-label=Close]").tap()
        assert not page.tab.locator("aside").is_visible()
        assert "node=" not in page.address


def test_beside_a_wide_tree_the_panel_stays_in_sight(page: Page) -> None:
    page.open(parse_of(LONG)).see("svg.sapwood-tree")
    node = page.tab.locator(".node:has(text:text-is('PRP'))").last
    node.scroll_into_view_if_needed()
    node.hover()
    page.see("aside .big:text-is('PRP')")
    box = page.tab.locator("aside").bounding_box()
    assert 0 <= box["y"] < 900


# -- what is typed --------------------------------------------------------------------------------


def test_several_sentences_in_running_text(page: Page) -> None:
    page.open(parse_of("The dog slept. Mr. Lee saw a cat! They sleep."))
    page.see("svg.sapwood-tree text.word:text-is('dog')")
    chips = page.tab.locator("[aria-label=Sentences] button")
    assert chips.all_inner_texts() == ["The dog slept.", "Mr. Lee saw a cat!", "They sleep."]
    page.see(".facts:has-text('3 sentences found')")
    chips.nth(2).click()
    page.see("svg.sapwood-tree text.word:text-is('sleep')")
    page.tab.click("button:has-text('Take each line as one sentence')")
    page.see("svg.sapwood-tree text.word:text-is('Lee')")
    assert page.count("[aria-label=Sentences] button") == 0
    page.see("svg.sapwood-tree text.word:text-is('dog')")


def test_the_server_knows_ends_that_the_page_does_not(page: Page) -> None:
    page.open(parse_of('They met Sen. Lee at Acme Bros. Inc. today. "Why?" he asked. They sleep.'))
    page.see(".facts:has-text('3 sentences found')")
    chips = page.tab.locator("[aria-label=Sentences] button")
    assert chips.all_inner_texts()[1:] == ['"Why?" he asked.', "They sleep."]
    chips.nth(2).click()
    page.see("svg.sapwood-tree text.word:text-is('sleep')")


def test_tokenised_sentences_in_running_text(page: Page) -> None:
    page.open(parse_of("they sleep . the dog saw a cat ."))
    page.see("[aria-label=Sentences] button:has-text('the dog')").click()
    page.see("svg.sapwood-tree text.word:text-is('cat')")


def test_brackets_are_recognised(page: Page) -> None:
    tree = "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))"
    page.open(parse_of(f"{tree}\n(S (X they) (Y see) (Z him))"))
    page.see(".notice:has-text('drawn as it was given')")
    page.tab.click("[aria-label=Sentences] button:has-text('they see him')")
    page.see("svg.sapwood-tree text.tag:text-is('Z')")
    page.tab.click("button:has-text('Parse its words')")
    page.see("svg.sapwood-tree text.tag:text-is('PRP')")
    page.see(".notice:has-text('its words are parsed')")
    page.open(parse_of(tree, "bundled-arcs")).see("svg.sapwood-arcs")
    assert page.tab.locator("svg text.word").all_text_contents() == ["they", "sleep", "."]
    page.see(".notice:has-text('its words are parsed')")
    page.open(parse_of("(she said so) they sleep .")).see("svg.sapwood-tree")
    assert page.count(".notice:has-text('brackets')") == 0


def test_a_language_model_reads_text_as_parse_does(page: Page) -> None:
    page.open("/text").see(".surprise button")
    page.tab.fill("textarea", "They see the zebra.")
    page.wait_texts(".surprise .word", ["they", "see", "the", "zebra", ".", "(end)"])
    page.wait_texts(".surprise .unknown", ["zebra"])
    page.see(".none:has-text('unknown to the model')")
    page.tab.fill("input[type=text]", "They saw a zebra")
    page.see(".context .unknown:text-is('zebra')")
    page.tab.fill("textarea", "(S (NP (PRP they)) (VP (VBP sleep)))")
    page.see(".facts:has-text('its words are taken')")
    page.wait_texts(".surprise .word", ["they", "sleep", "(end)"])


# -- words that fit the kind of model -------------------------------------------------------------


def test_only_what_was_learnt_is_called_learnt(page: Page) -> None:
    leads = {}
    for name in ("bundled", "bundled-spectral", "bundled-mix"):
        page.open(f"/states#model={name}&label=NN").see("article")
        leads[name] = page.see(".lead").inner_text()
    assert "hand-written" in leads["bundled"]
    assert "learnt" not in page.open("/states").see(".lead").inner_text()
    assert "the method spectral learnt" in leads["bundled-spectral"]
    assert "the method cluster learnt" in leads["bundled-mix"]
    page.open("/states#label=NN").see(".examples")
    assert "training trees" not in page.see("main").inner_text()


def test_subtitle_and_random_sentence_fit_the_model(page: Page) -> None:
    asked: list[str] = []
    page.tab.on(
        "request", lambda one: asked.append(one.post_data or "") if "sample" in one.url else 0
    )
    page.open(parse_of(NINE)).see("svg.sapwood-tree")
    assert "hidden states" in page.see(".lead").inner_text()
    page.tab.select_option("label:has-text('Model') select", "bundled-arcs")
    page.see("svg.sapwood-arcs")
    assert "its head" in page.see(".lead").inner_text()
    lots = page.tab.locator("button:has-text('Draw one at random')")
    assert not lots.is_visible()
    page.tab.select_option("label:has-text('Model') select", "bundled-spectral")
    page.see("svg.sapwood-tree")
    assert not lots.is_visible()
    page.tab.select_option("label:has-text('Model') select", "bundled-mix")
    page.see("[aria-label=Members] tbody tr")
    assert "3 members" in page.see(".lead").inner_text()
    lots.click()
    sync_api.expect(page.tab.locator("textarea")).not_to_have_value(NINE)
    page.see("svg.sapwood-tree")
    assert len(asked) == 1
    assert "bundled-mix" in asked[0]


def test_directions_of_a_spectral_model_have_words_and_examples(page: Page) -> None:
    page.open("/states#model=bundled-spectral&label=NP").see("article .examples mark")
    first = page.see("article")
    assert first.locator(".heads b").count() > 4
    assert first.locator(".examples").count() == 2  # one for either side
    text = page.see("section[aria-label=NP]").inner_text()
    assert "@" not in text
    assert "singular value" in text


def test_internal_symbols_are_hidden_unless_wanted(page: Page) -> None:
    page.open("/states#model=bundled-spectral&label=S").see("article .examples")
    chips = page.tab.locator("[aria-label=Labels] button")
    assert not any(text.startswith("@") for text in chips.all_inner_texts())
    assert "@" not in page.see("section[aria-label=S]").inner_text()
    page.tab.click("summary:has-text('What the signs mean')")
    legend = page.see(".legend").inner_text()
    for sign in ("@", "|", ":<", ":>"):
        assert sign in legend
    page.tab.check("label:has-text('Show internal symbols') input")
    page.see("[aria-label=Labels] button:has-text('@')")
    page.see("section[aria-label=S] article:has-text('@')")
    assert "internal=1" in page.address


def test_enter_chooses_a_label(page: Page) -> None:
    page.open("/states").see("article")
    page.tab.fill("input[placeholder=NP]", "vp")
    page.tab.press("input[placeholder=NP]", "Enter")
    page.see("section[aria-label=VP] article")
    assert "label=VP" in page.address


# -- words that explain ---------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_are_explained_under_pointer_and_focus(
    browser: Any, server: Server, width: int
) -> None:
    with tab(browser, server, width) as page:
        page.open(parse_of(NINE)).see("svg.sapwood-tree")
        for name in ("log P(tree)", "log P(sentence)", "score"):
            term = page.tab.locator(f".term:has(button:text-is('{name}'))")
            tip = term.locator("[role=tooltip]")
            assert not tip.is_visible()
            term.hover()
            assert tip.is_visible()
            page.tab.mouse.move(0, 0)
            term.locator("button").focus()
            box = tip.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            term.locator("button").blur()
        assert "best trees" in tip.text_content()  # of the score


@pytest.mark.parametrize("width", [1280, 390])
def test_explanations_beside_a_title_have_room(browser: Any, server: Server, width: int) -> None:
    with tab(browser, server, width) as page:
        page.open("/compare").see("svg.sapwood-tree")
        term = page.tab.locator("header .term").last
        term.locator("button").focus()
        box = term.locator(".tip").bounding_box()
        assert box["width"] > 200
        assert 0 <= box["x"] < box["x"] + box["width"] <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_of_the_chart_are_shown_not_called_dark(
    browser: Any, server: Server, scheme: str
) -> None:
    with tab(browser, server, color_scheme=scheme) as page:
        page.open(parse_of(NINE)).see("svg.chart")
        card = page.see("section[aria-label=Chart]")
        assert "dark" not in card.inner_text()
        assert "dark" not in page.see("svg.chart").get_attribute("aria-label")
        background = page.see(".scale i").evaluate("one => getComputedStyle(one).backgroundImage")
        assert "gradient" in background


# -- identify -------------------------------------------------------------------------------------


def test_identify_is_behind_more(page: Page) -> None:
    page.open("/parse").see("svg.sapwood-tree")
    link = page.tab.locator("nav a[data-view=identify]")
    assert not link.is_visible()
    page.tab.click("nav summary:has-text('More')")
    link.click()
    page.see("h1:has-text('Identify')")
    assert not link.is_visible()
    page.tab.click("nav summary:has-text('More')")
    page.tab.keyboard.press("Escape")
    assert not link.is_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_identify_is_whole_and_in_words(
    browser: Any, server: Server, width: int
) -> None:
    with tab(browser, server, width) as page:
        page.open("/identify").see("td button")
        table = page.see(".scroll")
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
        names = page.tab.locator("tbody tr").first.locator("td").all()
        told = [cell.get_attribute("data-name") for cell in names]
        assert "words 1 and 2, where word 3 is one chosen word" in told
        page.tab.click("[data-cell='pcfg-ie 12']")
        page.see("aside:has-text('What would help')")
        text = page.see("aside").inner_text()
        assert "--" not in text
        assert page.tab.locator("aside").is_visible()


def test_a_size_out_of_range_is_said_in_words(page: Page) -> None:
    page.open("/identify").see("td button")
    for wrong in ("9", "1", "2.5", ""):
        page.tab.fill("input >> nth=0", wrong)
        message = page.see(".notice.bad").inner_text()
        assert "Words in the vocabulary: give a whole number from 2 to 6" in message
    page.tab.fill("input >> nth=0", "2")
    page.see("caption:has-text('2 words')")
