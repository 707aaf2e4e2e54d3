"""The page as a newcomer finds it: trees, arcs and examples, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.browsers import tab
from tests.web.servers import Server, running

pytestmark = pytest.mark.browser

TELESCOPE = "The girl saw the boy with the telescope."
ARCS = "section[aria-label=Dependencies] svg.sapwood-arcs"
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`sapwood serve` as it is installed, with the models of real language."""
    with running(folder=tmp_path_factory.mktemp("serve"), is_small=False) as server:
        yield server


def test_models_of_real_language_come_first(server: Server) -> None:
    import httpx

    rows = httpx.get(f"{server.address}api/models", timeout=60).json()["models"]
    assert [row["name"] for row in rows[:3]] == ["english", "english-ud", "bundled"]
    assert [row["beside"] for row in rows[:3]] == ["english-ud", None, None]
    assert "(NP (DT the) (NN boy))" in server.ask("parse", sentence=TELESCOPE)["tree"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_with_a_real_sentence(
    browser: Any, server: Server, width: int, scheme: str
) -> None:
    with tab(browser, server, width, color_scheme=scheme) as page:
        page.open("/").see("svg.sapwood-tree text.word:text-is('telescope')")
        page.see(f"{ARCS} text.word:text-is('telescope')")
        assert page.tab.input_value("textarea") == TELESCOPE
        assert page.tab.evaluate(TOO_WIDE) <= 0
        letters = page.tab.locator(f"{ARCS} text.word").nth(1)
        assert letters.evaluate("t => t.getBoundingClientRect().height") > 6


def test_examples_and_arcs_follow_the_model_and_the_sentence(browser: Any, server: Server) -> None:
    with tab(browser, server) as page:
        page.open("/").see(ARCS)
        page.tab.click("[aria-label=Examples] button:has-text('raced past')")
        page.see("svg.sapwood-tree text.word:text-is('raced')")
        page.see(f"{ARCS} text.word:text-is('raced')")
        page.tab.locator(f"{ARCS} text.word:text-is('horse')").hover()
        page.see("aside:has-text('Posterior of the head')")
        page.tab.locator("svg.sapwood-tree .node:has(text:text-is('VP'))").first.hover()
        page.see("aside .big:text-is('VP')")
        page.tab.select_option("select", "bundled")
        page.see("[aria-label=Examples] button:has-text('the woman saw a dog')")
        page.tab.locator("section[aria-label=Dependencies]").wait_for(state="hidden")
        assert page.count("[aria-label=Examples] button:has-text('raced past')") == 0
