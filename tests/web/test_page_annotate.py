"""The annotation desk in a real Chromium: trees edited by keyboard, mouse and touch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.browsers import Page, tab
from tests.web.desks import (
    FIGURE,
    SENTENCES,
    create,
    desk,
    drag,
    journal,
    nodes,
    number,
    overflow,
    press,
    serving,
    spoken,
    trees,
    view_of,
    wait_number,
)  # fmt: skip
from tests.web.servers import Server

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

LONG = "the woman saw a dog in the garden and " * 11 + "."  # 100 words


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a new project of the bundled grammar."""
    with serving(tmp_path) as server:
        create(server)
        yield server


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    """The desk with its first sentence."""
    with desk(browser, server) as page:
        yield page


def relabel(page: Page, label: str) -> None:
    """Give the chosen phrase a label by keyboard."""
    press(page, "r")
    page.tab.keyboard.type(label)
    press(page, "Enter")


# -- by keyboard ----------------------------------------------------------------------------------


def test_ten_sentences_by_keyboard(page: Page, server: Server, tmp_path: Path) -> None:
    for k in range(1, 11):
        wait_number(page, k)
        if k == 1:  # a phrase over words that the tree has apart
            press(page, "Home", "ArrowRight", "ArrowRight", "ArrowRight")
            press(page, *["Shift+ArrowRight"] * 4)
            page.tab.keyboard.type("np")
            press(page, "Enter")
            page.see(".node.asked[aria-label^='NP: a dog in the garden']")
        if k == 2:  # another label
            press(page, "Home", "ArrowUp", "ArrowUp")
            assert spoken(page).startswith("NP: they")
            relabel(page, "NX")
            page.see(".node.asked[aria-label^='NX: they']")
        if k == 3:  # another tag
            press(page, "Home", "t")
            page.tab.keyboard.type("PDT")
            press(page, "Enter")
            page.see(".node.asked[aria-label^='PDT: the']")
        press(page, "Enter")
    wait_number(page, 11)
    accepted = trees(tmp_path)
    assert len(accepted) == 10
    assert "(NP (NP (DT a) (NN dog)) (PP (IN in) (NP (DT the) (NN garden))))" in accepted[0]
    assert "(NX (PRP they))" in accepted[1]
    assert "(PDT the) (NN man)" in accepted[2]
    assert page.see("[data-accepted]").get_attribute("data-accepted") == "10"
    press(page, "u")
    wait_number(page, 10)
    page.see(".desk-status.new")
    assert trees(tmp_path) == accepted[:9]
    press(page, "Control+Shift+z")
    page.see(".desk-status.accepted")
    assert trees(tmp_path) == accepted
    assert [one["type"] for one in journal(tmp_path)][-3:] == ["accept", "undo", "redo"]


def test_arrow_keys_walk_the_tree_and_delete_removes(page: Page) -> None:
    assert spoken(page).startswith("S: the woman saw")
    for key, label in (
        ("ArrowDown", "NP: the woman"),
        ("ArrowRight", "VP: saw a dog in the garden"),
        ("ArrowDown", "VBD: saw"),
        ("ArrowDown", "word 3: saw"),
        ("ArrowLeft", "word 2: woman"),
        ("ArrowUp", "NN: woman"),
        ("ArrowUp", "NP: the woman"),
    ):
        press(page, key)
        assert spoken(page).startswith(label)
    press(page, "Delete")
    sync_api.expect(page.tab.locator("[aria-label^='NP: the woman,']")).to_have_count(0)
    assert "NP: the woman" not in nodes(page)
    page.see(".desk-status.started")
    press(page, "u")
    page.see(".node[aria-label^='NP: the woman,']")


def test_a_phrase_is_moved_by_keyboard(page: Page) -> None:
    press(page, "Home", *["ArrowRight"] * 5, "ArrowUp", "ArrowUp")
    assert spoken(page).startswith("PP: in the garden")
    press(page, "m")
    assert spoken(page).startswith("VP: saw")
    page.see(".desk-says:has-text('Choose the new parent')")
    press(page, "ArrowDown", "ArrowRight")
    assert spoken(page).startswith("NP: a dog")
    press(page, "Enter")
    page.see(".node.asked[aria-label^='NP: a dog in the garden']")
    press(page, "m", "Escape")
    assert page.count(".node.moved") == 0


def test_words_are_split_and_joined_and_constraints_freed(page: Page, server: Server) -> None:
    press(page, "Home", "ArrowRight", "s")
    page.tab.keyboard.type("wo man")
    press(page, "Enter")
    page.see("[data-word='2'][aria-label='word 3: man']")
    press(page, "j")
    page.see("[data-word='1'][aria-label='word 2: woman']")
    press(page, "s")
    page.tab.keyboard.type("w oma")
    press(page, "Enter")
    page.see(".desk-says:has-text('Nothing was split')")
    press(page, "t")
    page.tab.keyboard.type("NNP")
    press(page, "Enter")
    page.see(".node.asked[aria-label^='NNP: woman']")
    press(page, "f")
    page.see(".node[aria-label^='NN: woman']")
    assert page.count(".node.asked") == 0
    assert view_of(server, "s1")["words"] == SENTENCES[0].split()


def test_an_alternative_is_picked_by_its_number(page: Page) -> None:
    before = nodes(page)
    first = page.see("[data-alternative='1']")
    assert page.count("[data-alternative='1'] .desk-change") > 0
    first.hover()
    assert page.count(".differs") > 0
    press(page, "1")
    page.see(".desk-status.started")
    assert nodes(page) != before
    press(page, "9", "u")
    page.see(".desk-status.new")
    assert nodes(page) == before


def test_sentences_are_skipped_walked_and_searched(page: Page) -> None:
    press(page, "n")
    wait_number(page, 2)
    press(page, "x")
    wait_number(page, 3)
    press(page, "p")
    wait_number(page, 2)
    page.see(".desk-status.skipped")
    press(page, "Escape")
    page.tab.click("[data-do='Open again']")
    page.see(".desk-status.started")
    press(page, "g")
    page.tab.keyboard.type("telescope")
    page.wait_texts(".desk-list .desk-text", [SENTENCES[4]])
    page.tab.keyboard.press("Tab")
    page.tab.click(".desk-list button")
    wait_number(page, 5)
    press(page, "?")
    page.see("dialog[open]:has-text('split the word')")
    press(page, "Escape")
    assert page.count("dialog[open]") == 0
    page.tab.reload()
    page.see(FIGURE)
    wait_number(page, 5)


def test_what_cannot_be_done_is_said_and_the_tree_stays(page: Page) -> None:
    page.may_fail = True
    press(page, "Home", "Shift+ArrowRight", "Shift+ArrowRight")
    page.tab.keyboard.type("np")
    press(page, "Enter")
    page.see(".node.asked[aria-label^='NP: the woman saw']")
    before = nodes(page)
    press(page, "Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight")
    page.tab.keyboard.type("vp")
    press(page, "Enter")
    page.see("[data-banner=refused]:has-text('This was not done: add VP over “saw a”')")
    assert nodes(page) == before
    page.tab.click("[data-banner=refused] button")
    assert page.count("[data-banner]") == 0


# -- by mouse and touch ---------------------------------------------------------------------------


def test_words_and_phrases_are_dragged(page: Page) -> None:
    drag(page, "[data-word='3']", "[data-word='7']")
    page.see(".desk-box input:focus")
    assert page.tab.locator(".desk-box .check span").inner_text() == (
        "Phrase over “a dog in the garden”"
    )
    assert page.see(".desk-box [role=option]").inner_text().startswith("NP")
    press(page, "Enter")  # the likeliest label
    page.see(".node.asked[aria-label^='NP: a dog in the garden']")
    press(page, "u")
    page.see(".desk-status.new")
    drag(page, ".node[aria-label^='PP: in the garden']", ".node[aria-label^='NP: a dog,']")
    page.see(".node.asked[aria-label^='NP: a dog in the garden']")
    page.tab.click(".node[aria-label^='VP:'] .hit", force=True)
    page.tab.click("[data-do='Fold']")
    page.see(".node.folded[aria-label*='folded']")
    assert page.count("[data-word]") == 3
    press(page, "Space")
    assert page.count("[data-word]") == 9


def test_a_finger_draws_over_words(browser: Any, server: Server) -> None:
    with desk(browser, server, 390, has_touch=True, is_mobile=True) as page:
        finger = page.tab.context.new_cdp_session(page.tab)
        spots = [page.tab.locator(f"[data-word='{k}']").bounding_box() for k in (0, 1, 2)]
        at = [
            {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2} for box in spots
        ]
        for kind, points in (
            ("touchStart", at[:1]), ("touchMove", at[1:2]), ("touchMove", at[2:]), ("touchEnd", []),
        ):  # fmt: skip
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.see(".desk-box")
        assert page.tab.locator(".desk-box .check span").inner_text() == (
            "Phrase over “the woman saw”"
        )
        page.tab.locator(".desk-box [role=option]").first.tap()
        page.see(".node.asked[aria-label*='the woman saw']")
        page.settle()


# -- sizes and scripts ----------------------------------------------------------------------------


def test_two_thousand_sentences(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server, [f"the dog {k} sleeps ." for k in range(1, 2001)], start="nothing")
        with desk(browser, server) as page:
            press(page, "Enter")
            wait_number(page, 2)
            page.see("[data-accepted='1']:has-text('of 2,000 sentences')")
            press(page, "g")
            page.see("dialog .facts:has-text('1 to 50 of 2,000 sentences')")
            page.tab.click("dialog button:text-is('Later')")
            page.see("dialog .facts:has-text('51 to 100 of 2,000 sentences')")
            page.tab.locator("dialog[open] input[type=search]").fill("dog 1999")
            page.wait_texts(".desk-list .desk-text", ["the dog 1999 sleeps ."])
            page.tab.click(".desk-list button")
            wait_number(page, 1999)
            press(page, "Enter", "Enter")
            page.see("[data-accepted='3']")
            wait_number(page, 2)
    assert len(trees(tmp_path)) == 3


def test_a_sentence_of_a_hundred_words(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server, [LONG])
        with desk(browser, server) as page:
            figure = page.tab.locator(".desk-figure")
            letters = page.tab.locator(".desk-tree .word").first
            assert letters.evaluate("t => t.getBoundingClientRect().height") > 11
            assert figure.evaluate("box => box.scrollWidth > 3 * box.clientWidth")
            assert overflow(page) <= 0
            press(page, "End")
            last = page.tab.locator("[data-word='99']").bounding_box()
            box = figure.bounding_box()
            assert box["x"] <= last["x"] <= box["x"] + box["width"]
            page.tab.select_option("[aria-label='Levels of the tree on show']", "2")
            page.see(".node.folded")
            assert figure.evaluate("box => box.scrollWidth < 3 * box.clientWidth")
            page.tab.select_option("[aria-label='Levels of the tree on show']", "0")
            press(page, "Home", "Shift+ArrowRight")
            page.tab.keyboard.type("np")
            press(page, "Enter")
            page.see(".node.asked[aria-label^='NP: the woman']")
            assert overflow(page) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_it_fits_at_every_width(browser: Any, server: Server, width: int, scheme: str) -> None:
    with desk(browser, server, width, color_scheme=scheme) as page:
        press(page, "ArrowDown", "r")
        page.see(".desk-box [role=option]")
        assert overflow(page) <= 0
        for part in (".desk-figure", ".desk-box", ".desk-go", ".desk-commands", ".desk-bar"):
            box = page.tab.locator(part).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        press(page, "Escape", "?")
        assert page.see("dialog[open]").bounding_box()["width"] <= width
        press(page, "Escape", "g")
        page.see(".desk-list li")
        assert overflow(page) <= 0
        press(page, "Escape")
        page.tab.click("[data-do=Import]")
        assert page.see("dialog[open] textarea").bounding_box()["width"] <= width
        press(page, "Escape")


@pytest.mark.parametrize("text", ["رأى الرجل كلبا في الحديقة .", "האיש ראה כלב בגן ."])
def test_words_that_run_from_right_to_left(browser: Any, tmp_path: Path, text: str) -> None:
    with serving(tmp_path) as server:
        create(server, [text, text], start="nothing")
        with desk(browser, server) as page:
            places = [
                box["x"]
                for box in (one.bounding_box() for one in page.tab.locator("[data-word]").all())
            ]
            assert places == sorted(places, reverse=True)
            press(page, "Home", "ArrowLeft")
            assert spoken(page) == f"word 2: {text.split()[1]}"
            press(page, "Shift+ArrowLeft")
            page.tab.keyboard.type("VP")
            press(page, "Enter")
            page.see(f".node.asked[aria-label^='VP: {' '.join(text.split()[1:3])}']")
            press(page, "Enter")
            wait_number(page, 2)
    assert f"(VP (X {text.split()[1]}) (X {text.split()[2]}))" in trees(tmp_path)[0]


# -- projects -------------------------------------------------------------------------------------


def test_a_new_project_is_made_and_more_is_imported(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server, tab(browser, server, accept_downloads=True) as page:
        page.may_fail = True
        page.open("/").see("h1:text-is('New project')")
        page.tab.fill("input[type=text]", "Garden")
        page.tab.select_option("label:has-text('Start from') select", "(treebank)")
        page.tab.fill("[aria-label^='Label mapping']", "NP SN")
        page.tab.fill("[aria-label=Text]", "The dog sleeps. They saw it.")
        page.tab.click("button:text-is('Make the project')")
        page.see(".notice.bad:has-text('Line 1 of the label mapping is no pair')")
        page.tab.select_option("label:has-text('Start from') select", "bundled")
        page.tab.click("button:text-is('Make the project')")
        page.see(FIGURE)
        page.settle()
        page.see("[data-accepted='0']:has-text('of 2 sentences')")
        press(page, "Enter")
        wait_number(page, 2)
        page.tab.click("[data-do=Import]")
        page.tab.select_option("dialog[open] select", "brackets")
        page.tab.fill("dialog[open] textarea", "(S (NP (PRP we)) (VP (VBP sleep)))\n(S (NP (PRP")
        page.tab.check("dialog[open] input[type=checkbox]")
        page.tab.click("dialog[open] button.primary")
        page.see("dialog[open] .notice:has-text('1 sentence added')")
        page.tab.click("dialog[open] button:text-is('Close')")
        page.see("[data-accepted='2']:has-text('of 3 sentences')")
        page.tab.click(".desk-menu summary")
        with page.tab.expect_download() as saved:
            page.tab.click(".desk-menu a >> nth=0")
        assert len(Path(saved.value.path()).read_text().splitlines()) == 2
        page.tab.click("nav [data-view=parse]")
        page.see("textarea")
        page.tab.click("nav [data-view=annotate]")
        page.see(FIGURE)
        page.settle()
        assert number(page) in {2, 3}


def test_without_a_project_the_view_is_not_offered(browser: Any, tmp_path: Path) -> None:
    from tests.web.servers import running

    with running(folder=tmp_path) as server, tab(browser, server) as page:
        page.open("/").see("svg.sapwood-tree")
        assert page.tab.locator("nav [data-view=annotate]").is_hidden()
        page.open("/annotate").see(".notice:has-text('sapwood serve --project FOLDER')")
