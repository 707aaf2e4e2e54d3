"""The annotation desk for dependencies, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.browsers import Page
from tests.web.desks import (
    FIGURE,
    SENTENCES,
    create,
    desk,
    drag,
    overflow,
    press,
    serving,
    spoken,
    view_of,
    wait_number,
)
from tests.web.servers import Server

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a new project of dependencies, from the bundled arcs."""
    with serving(tmp_path) as server:
        create(server, start="bundled-arcs", kind="dependencies")
        yield server


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Page]:
    """The desk with its first sentence."""
    with desk(browser, server) as page:
        yield page


def word(k: int) -> str:
    """The selector of a word."""
    return f".desk-arcs .leaf[data-index='{k}'] .hit"


def test_a_word_is_dragged_onto_its_head(page: Page, server: Server) -> None:
    drag(page, word(7), word(4))
    page.see(".arc.asked[data-arc='7']")
    assert view_of(server, "s1")["arcs"][7]["head"] == 5
    drag(page, word(4), ".root-bar .hit")
    page.see(".arc.asked[data-arc='4']")
    assert view_of(server, "s1")["arcs"][4]["head"] == 0
    assert page.see(".leaf[data-index='4']").get_attribute("aria-label").endswith("set by hand")
    press(page, "u", "u")
    page.see(".desk-status.new")
    assert page.count(".arc.asked") == 0


def test_an_arc_is_clicked_and_named(page: Page, server: Server) -> None:
    page.tab.locator(".arc[data-arc='1'] .plate").click()
    page.see(".desk-box input:focus")
    assert page.count(".desk-box [role=option]") > 1
    page.tab.keyboard.type("mine")
    press(page, "Enter")
    page.see(".arc.asked[data-arc='1'] .relation:text-is('mine')")
    assert view_of(server, "s1")["arcs"][1]["relation"] == "mine"
    press(page, "f")
    sync_api.expect(page.tab.locator(".arc.asked")).to_have_count(0)


def test_heads_relations_and_tags_by_keyboard(page: Page, tmp_path: Path) -> None:
    press(page, "End", "h")
    page.see(".desk-says:has-text('Choose the head')")
    press(page, "ArrowLeft", "Enter")
    page.see(".arc.asked[data-arc='8']")
    press(page, "r")
    page.tab.keyboard.type("dep")
    press(page, "Enter")
    page.see(".arc[data-arc='8'] .relation:text-is('dep')")
    press(page, "Home", "t")
    page.tab.keyboard.type("PRON")
    press(page, "Enter")
    page.see(".leaf[data-index='0'][aria-label*='PRON']")
    press(page, "h", "ArrowUp", "Escape", "ArrowRight")
    assert spoken(page).startswith("word 2: woman")
    press(page, "Enter")
    wait_number(page, 2)
    rows = (tmp_path / "project" / "trees.conllu").read_text().split("\n\n")[0].splitlines()
    cells = [row.split("\t") for row in rows if not row.startswith("#")]
    assert [row[1] for row in cells] == SENTENCES[0].split()
    assert "PRON" in cells[0]
    assert cells[8][7] == "dep"


@pytest.mark.parametrize("width", [390, 1280])
def test_arcs_fit_and_run_from_right_to_left(browser: Any, tmp_path: Path, width: int) -> None:
    with serving(tmp_path) as server:
        text = "האיש ראה כלב בגן ."
        create(server, [text, " ".join(["long"] * 60)], start="nothing", kind="dependencies")
        with desk(browser, server, width) as page:
            places = [one.bounding_box()["x"] for one in page.tab.locator(".leaf .hit").all()]
            assert places == sorted(places, reverse=True)
            press(page, "Home", "ArrowLeft")
            assert spoken(page).startswith("word 2: ראה")
            assert overflow(page) <= 0
            press(page, "n")
            wait_number(page, 2)
            page.see(FIGURE)
            assert overflow(page) <= 0
