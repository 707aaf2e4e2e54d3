"""The page in a real Chromium: phrases and tags that a person asks for, and surprisal."""

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
HIGH = "NP over “a dog in the garden”"


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    with tab(browser, server) as page:
        yield page


def open_parse(page: Page, text: str = NINE, model: str = "bundled", **state: str) -> None:
    more = "".join(f"&{name}={quote_plus(value)}" for name, value in state.items())
    page.open(f"/parse#model={model}&s={quote_plus(text)}{more}")
    page.see("svg.sapwood-tree")
    page.settle()  # the surprisal row comes later than the tree and moves what is drawn below it


def spans(page: Page) -> set[str]:
    """Label and words of the tree's nodes, as they are read aloud."""
    nodes = page.tab.locator(".node").evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label').split(', posterior')[0])"
    )
    return set(nodes)


def middle(page: Page, selector: str, k: int) -> tuple[float, float]:
    one = page.tab.locator(selector).nth(k)
    one.scroll_into_view_if_needed()
    box = one.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, first: int, last: int, selector: str = ".token") -> None:
    mouse = page.tab.mouse
    middle(page, selector, last)  # in sight
    mouse.move(*middle(page, selector, first))
    mouse.down()
    mouse.move(*middle(page, selector, last), steps=6)
    mouse.up()


def chips(page: Page) -> list[str]:
    found = page.tab.locator(".given .span, .given .not, .given .tag").all_inner_texts()
    return [text.rstrip("\N{MULTIPLICATION SIGN}\n ") for text in found]


def ask_for(page: Page, first: int, last: int, label: str, selector: str = ".token") -> None:
    drag(page, first, last, selector)
    page.tab.fill(".wish input", label)
    page.tab.keyboard.press("Enter")


# -- asking for a phrase --------------------------------------------------------------------------


@pytest.mark.parametrize("selector", [".token", ".sapwood-tree .word"])
@pytest.mark.parametrize(("first", "last"), [(3, 7), (7, 3)])
def test_a_phrase_over_words_that_were_dragged_over(
    page: Page, selector: str, first: int, last: int
) -> None:
    open_parse(page)
    assert "NP: a dog in the garden" not in spans(page)
    ask_for(page, first, last, "np", selector)
    page.see(".node[aria-label^='NP: a dog in the garden']")
    assert chips(page) == [HIGH]
    assert page.see(".given .facts b").inner_text() == "14 %"
    assert page.count(".node.asked") == 1
    page.tab.reload()  # the address holds it
    page.see(".node[aria-label^='NP: a dog in the garden']")
    page.tab.click(f"button[aria-label='Remove: {HIGH}']")
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()
    page.settle()
    assert "NP: a dog in the garden" not in spans(page)
    assert "given" not in page.address


def test_labels_complete_and_an_empty_one_is_any_phrase(page: Page) -> None:
    open_parse(page)
    drag(page, 3, 7)
    page.see("#labels option[value=NP]")
    values = page.tab.locator("#labels option").evaluate_all("all => all.map((o) => o.value)")
    assert {"NP", "PP", "S", "VP"} <= set(values)
    assert not any("@" in value for value in values)
    page.tab.click(".wish button:text-is('Ask for it')")
    page.see(".node[aria-label^='NP: a dog in the garden']")
    assert chips(page) == ["a phrase over “a dog in the garden”"]


def test_by_touch(browser: Any, server: Server) -> None:
    with tab(browser, server, 390, has_touch=True, is_mobile=True) as page:
        open_parse(page)
        x, y = middle(page, ".token", 0)
        a, b = (page.tab.locator(".token").nth(k).bounding_box() for k in (3, 6))
        points = [(a["x"] + 4, a["y"] + 8), (a["x"] + 30, a["y"] + 9), (b["x"] + 9, b["y"] + 9)]
        touch = page.tab.context.new_cdp_session(page.tab)
        for k, (x, y) in enumerate(points):
            kind = "touchMove" if k else "touchStart"
            touch.send(
                "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]}
            )
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.see(".wish:not([hidden])")
        assert page.see(".wish .quote").inner_text() == "“a dog in the”"
        page.tab.locator(".wish button:text-is('Cancel')").tap()
        page.tab.locator(".token").nth(4).tap()
        page.tab.locator(".wish select").select_option("NNP")
        page.see(".node[aria-label^='NNP: dog']")


def test_by_keyboard_alone(page: Page) -> None:
    open_parse(page)
    keys = page.tab.keyboard
    page.tab.focus(".exports [data-export=json]")
    keys.press("Tab")
    for key in ("ArrowRight",) * 3 + ("Shift+ArrowRight",) * 4:
        keys.press(key)
    assert page.count(".token[aria-selected=true]") == 5
    keys.press("Escape")
    assert page.count(".token[aria-selected=true]") == 0
    for key in ("Shift+ArrowLeft",) * 4:
        keys.press(key)
    keys.press("Enter")
    keys.type("NP")
    keys.press("Enter")
    page.see(".node[aria-label^='NP: a dog in the garden']")
    assert page.tab.evaluate("document.activeElement.dataset.word") is not None
    keys.press("Tab")  # to the explanation of the bars
    keys.press("Tab")  # to the constraint
    keys.press("Enter")
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()
    assert page.tab.evaluate("document.activeElement.dataset.word") is not None
    keys.press("Enter")  # the form of one word, and out of it again
    page.see(".wish select")
    keys.press("Escape")
    sync_api.expect(page.tab.locator(".wish")).to_be_hidden()
    page.tab.locator(".token").nth(1).focus()  # as a screen reader does
    keys.press("Shift+ArrowRight")
    keys.press("Enter")
    assert page.see(".wish .quote").inner_text() == "“woman saw”"


# -- what is shown --------------------------------------------------------------------------------


def test_keep_and_forbid_a_node(page: Page) -> None:
    open_parse(page)
    page.tab.click(".node:has(text:text-is('PP'))")
    page.see("aside .chip:text-is('Keep')").click()
    page.see(".given .span")
    page.tab.click(".node:has(text:text-is('PP'))")
    assert page.see("aside .chip:text-is('Keep')").get_attribute("aria-pressed") == "true"
    page.tab.click("aside .chip:text-is('Keep')")
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()
    page.tab.locator(".node:has(text:text-is('VP'))").click()
    before = spans(page)
    page.tab.click("aside .chip:text-is('Not this')")
    page.see(".given .not")
    assert chips(page) == ["not VP over “saw a … the garden”"]
    assert spans(page) != before
    assert "VP: saw a dog in the garden" not in spans(page)


def test_forbid_by_keyboard_and_take_it_back(page: Page) -> None:
    open_parse(page, "the man sees the dog with a hat .")
    page.tab.focus(".node[tabindex='0']")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.tab.keyboard.press(key)
    page.tab.keyboard.press("Enter")
    page.tab.focus("aside .chip:text-is('Not this')")
    page.tab.keyboard.press("Enter")
    page.see(".given .not")
    page.tab.keyboard.press("Enter")  # the focus is on the new constraint
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()


def test_a_tag_is_chosen_in_the_row_and_in_the_panel(page: Page) -> None:
    open_parse(page, "they saw her duck .")
    page.tab.locator(".token").nth(1).click()
    page.see(".wish select")
    assert page.tab.locator(".wish select option").first.inner_text() == "free"
    page.tab.select_option(".wish select", "VBP")
    page.see(".node[aria-label^='VBP: saw']")
    assert chips(page) == ["“saw” is VBP"]
    page.tab.locator(".node[aria-label^='VBP: saw'] .hit").click()
    page.tab.select_option("aside select", "VBD")
    page.see(".node[aria-label^='VBD: saw']")
    assert chips(page) == ["“saw” is VBD"]
    page.tab.locator(".node[aria-label^='VBD: saw'] .hit").click()
    page.tab.select_option("aside select", "")
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()


def test_several_constraints_and_clear_all(page: Page) -> None:
    open_parse(page)
    ask_for(page, 3, 7, "NP")
    page.see(".given .span")
    drag(page, 0, 1)
    page.tab.click(".wish button:text-is('Forbid it')")
    page.see(".given .not")
    assert chips(page) == [HIGH, "not a phrase over “the woman”"]
    page.see(".notice:has-text('no tree of the model has all that you ask for')")
    assert page.see(".given .facts b").inner_text() == "0"
    page.tab.click(".given button:text-is('Clear all')")
    sync_api.expect(page.tab.locator(".given")).to_be_hidden()
    assert page.count(".notice") == 0
    assert "NP: the woman" in spans(page)


def test_a_span_of_the_chart_that_is_not_in_the_tree(page: Page) -> None:
    open_parse(page)
    page.tab.locator(".chart-cell[data-key='3 8']").click()
    page.see("aside .chip:text-is('Ask for a phrase here')").click()
    assert page.see(".wish .quote").inner_text() == "“a dog in the garden”"
    page.tab.keyboard.press("Enter")
    page.see(".node[aria-label^='NP: a dog in the garden']")


def test_the_list_of_best_trees_obeys(page: Page) -> None:
    open_parse(page, "the man sees the dog with a hat in the garden .")
    ask_for(page, 3, 7, "NP")
    page.see(".given .span")
    page.tab.locator("input[type=range]").evaluate(
        "range => { range.value = '2'; range.dispatchEvent(new Event('input')); }"
    )
    page.see(".facts:has-text('tree 2 of')")
    assert "NP: the dog with a hat" in spans(page)
    label = page.see(".node[aria-label^='NP: the dog with a hat,']").get_attribute("aria-label")
    assert label.endswith("posterior 100 %")
    assert chips(page) == ["NP over “the dog with a hat”"]


def test_members_of_a_mix_obey(page: Page) -> None:
    open_parse(page, model="bundled-mix")
    page.see("[aria-label=Members] tbody tr")
    ask_for(page, 3, 7, "NP")
    page.see(".node[aria-label^='NP: a dog in the garden']")
    page.see("[aria-label=Members] tbody tr")


# -- refusals -------------------------------------------------------------------------------------


def test_refusals_are_said_and_the_tree_stays(page: Page) -> None:
    page.may_fail = True
    open_parse(page)
    ask_for(page, 3, 7, "NP")
    page.see(".given .span")
    before = spans(page)
    ask_for(page, 1, 4, "")
    message = page.see(".asked .notice.bad").inner_text()
    assert "cross, and no tree has both" in message
    assert "leave one of them out" in message
    assert spans(page) == before
    assert len(chips(page)) == 2
    page.tab.locator(".given .span").last.click()
    sync_api.expect(page.tab.locator(".asked .notice.bad")).to_have_count(0)
    ask_for(page, 0, 1, "NPP")
    assert "the nearest that it has" in page.see(".asked .notice.bad").inner_text()


def test_an_address_with_constraints_that_do_not_fit(page: Page) -> None:
    page.may_fail = True
    page.open(f"/parse#s={quote_plus(NINE)}&given=" + quote_plus('[9,["span",0,2,"QQ"]]'))
    page.see(".asked .notice.bad:has-text('QQ')")
    assert chips(page) == ["QQ over words 1 to 2"]
    page.tab.click(".given button:text-is('Clear all')")
    page.see("svg.sapwood-tree")
    for wrong in ("x", "{}", "[]", "[9,3]", '[9,["span",2,1,"NP"]]', '[9,["tag",0,1,null]]'):
        page.open(f"/parse#s={quote_plus(NINE)}&given=" + quote_plus(wrong))
        page.see("svg.sapwood-tree")
        assert page.count(".given .chip") == 0


def test_constraints_belong_to_their_sentence(page: Page) -> None:
    open_parse(page)
    ask_for(page, 3, 7, "NP")
    page.see(".given .span")
    page.tab.select_option("label:has-text('Model') select", "bundled-mix")
    page.see("[aria-label=Members] tbody tr")
    assert chips(page) == [HIGH]
    page.tab.select_option("label:has-text('Model') select", "bundled-arcs")
    page.see("svg.sapwood-arcs")
    assert not page.tab.locator(".asked").is_visible()
    page.tab.select_option("label:has-text('Model') select", "bundled")
    page.see(".given .span")
    page.tab.fill("textarea", "they sleep .")
    page.see(".token:has-text('sleep')")
    assert chips(page) == []
    assert "given" not in page.address


def test_a_given_tree_has_words_but_nothing_is_asked_of_it(page: Page) -> None:
    open_parse(page, "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))")
    page.see(".token:has-text('sleep')").click()
    assert not page.tab.locator(".wish").is_visible()
    page.tab.click(".node:has(text:text-is('VP'))")
    page.see("aside .big:text-is('VP')")
    assert page.count("aside .chip:text-is('Keep')") == 0


# -- surprisal ------------------------------------------------------------------------------------


def test_surprisal_under_the_words_and_as_a_table(page: Page, server: Server) -> None:
    open_parse(page)
    page.see(".token i:not([hidden])")
    told = server.ask("surprisal", model="bundled", words=NINE.split())
    heights = page.tab.locator(".token b").evaluate_all("all => all.map((b) => b.clientHeight)")
    expected = [row["surprisal"] for row in told["words"][:-1]]
    assert heights.index(max(heights)) == expected.index(max(expected))
    table = page.tab.locator(".surprisal table")
    assert table.count() == 0
    page.tab.click("summary:has-text('Surprisal of each word')")
    page.see(".surprisal tbody tr")
    assert table.locator("tbody tr").count() == len(told["words"])
    assert table.locator("tbody td").first.inner_text() == f"{expected[0]:.2f}"
    assert table.locator("tbody th").last.inner_text() == "(end)"
    ask_for(page, 3, 7, "NP")
    page.see(".given .span")
    assert table.is_visible()  # it stays open


def test_no_surprisal_where_there_is_none(page: Page) -> None:
    open_parse(page, model="bundled-spectral")
    page.see(".token")
    page.tab.wait_for_timeout(300)
    assert page.count(".token i:not([hidden])") == 0
    assert page.count(".surprisal") == 0
    open_parse(page, "the the dog sleeps")
    page.tab.click("summary:has-text('Surprisal of each word: infinite')")
    assert page.count(".token i.impossible") == 3
    page.see(".surprisal:has-text('The grammar cannot have “the” here')")
    assert page.tab.locator(".surprisal tbody tr").nth(1).locator("td").first.inner_text() == "∞"


# -- light, dark, narrow --------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_form_and_the_constraints_fit(
    browser: Any, server: Server, width: int, scheme: str
) -> None:
    with tab(browser, server, width, color_scheme=scheme) as page:
        open_parse(page)
        drag(page, 4, 4)
        page.see(".wish select")
        ask_for(page, 4, 4, "NP")
        page.see(".given .span")
        page.see(".given .facts b")
        for term in (".asked > .facts .term", ".given .term"):
            page.tab.locator(f"{term} button").focus()
            tip = page.tab.locator(f"{term} .tip").bounding_box()
            assert tip["width"] > 200
            assert 0 <= tip["x"] < tip["x"] + tip["width"] <= width
        drag(page, 4, 4)
        page.see(".wish select")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        for part in (".word-row", ".wish", ".given"):
            box = page.tab.locator(part).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
