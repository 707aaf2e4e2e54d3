"""The annotation desk when the server goes away, and when another window is quicker."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.web.browsers import Page, tab
from tests.web.desks import (
    FIGURE,
    create,
    desk,
    journal,
    nodes,
    press,
    serving,
    trees,
    view_of,
    wait_number,
)  # fmt: skip
from tests.web.servers import Server

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


def kill(server: Server) -> None:
    """End a server without a chance to write anything."""
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()


def relabel_first(page: Page, label: str) -> None:
    """Give the subject of the first sentence another label."""
    press(page, "Home", "ArrowUp", "ArrowUp", "r")
    page.tab.keyboard.type(label)
    page.tab.keyboard.press("Enter")


def test_the_server_is_killed_and_comes_back(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server)
        with desk(browser, server) as page:
            page.may_fail = True
            press(page, "Enter")
            wait_number(page, 2)
            kill(server)
            relabel_first(page, "NX")
            page.see("[data-banner=lost]:has-text('Your last edit (NP over “they” becomes NX)')")
            page.tab.keyboard.press("Enter")  # nothing else is taken meanwhile
            page.see(".desk-says:has-text('The tree is not ready yet')")
            with serving(tmp_path, "--port", str(server.port)) as again:
                page.see(".node.asked[aria-label^='NX: they']")
                sync_api.expect(page.tab.locator("[data-banner]")).to_have_count(0)
                press(page, "Enter")
                wait_number(page, 3)
                assert len(trees(tmp_path)) == 2
                press(page, "u", "u", "u")  # also what the first server had done
                wait_number(page, 1)
                assert trees(tmp_path) == []
                assert view_of(again, "s2")["status"] == "new"


def test_an_edit_whose_answer_was_lost_is_made_once(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server)
        with desk(browser, server) as page:
            page.may_fail = True
            n_lost = 0

            def lose(route: Any) -> None:
                nonlocal n_lost
                if n_lost:
                    route.continue_()
                    return
                n_lost += 1
                route.fetch()  # the server has it, and the page never hears of it
                route.abort("connectionreset")

            page.tab.route("**/api/project/edit", lose)
            relabel_first(page, "NX")
            page.see(".node.asked[aria-label^='NX: the woman']")
            page.settle()
            assert page.count("[data-banner]") == 0
            assert [one["type"] for one in journal(tmp_path)] == ["relabel"]


def test_an_edit_is_kept_while_the_page_is_loaded_again(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server)
        with desk(browser, server) as page:
            page.may_fail = True
            page.tab.route("**/api/project/edit", lambda route: route.abort("connectionreset"))
            relabel_first(page, "NX")
            page.see("[data-banner=lost]")
            page.tab.unroute("**/api/project/edit")
            page.tab.route("**/api/project/edit", lambda route: route.continue_())
            page.tab.reload()
            page.see(".node.asked[aria-label^='NX: the woman']")
            page.settle()
            assert [one["type"] for one in journal(tmp_path)] == ["relabel"]


@pytest.mark.parametrize("choice", ["mine", "theirs"])
def test_two_windows_change_one_sentence(browser: Any, tmp_path: Path, choice: str) -> None:
    with serving(tmp_path) as server:
        create(server)
        with desk(browser, server) as first, desk(browser, server) as second:
            second.may_fail = True
            relabel_first(first, "NX")
            first.see(".node.asked[aria-label^='NX: the woman']")
            first.settle()
            relabel_first(second, "QP")
            banner = second.see("[data-banner=conflict]")
            text = banner.inner_text()
            assert "NP over “the woman” becomes QP" in text
            assert "NX “the woman”" in text
            before = nodes(second)
            press(second, "Escape", "Delete")  # nothing is changed while this is open
            assert nodes(second) == before
            second.tab.click(f"[data-choose={choice}]")
            wanted, other = ("QP", "NX") if choice == "mine" else ("NX", "QP")
            second.see(f".node[aria-label^='{wanted}: the woman']")
            second.settle()
            assert second.count("[data-banner]") == 0
            shown = view_of(server, "s1")
            labels = {node["label"] for node in shown["nodes"]}
            assert wanted in labels
            assert other not in labels
            press(second, "Enter")
            wait_number(second, 2)
            assert f"({wanted} (DT the) (NN woman))" in trees(tmp_path)[0]


def test_a_slow_server_is_asked_again(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        create(server)
        with tab(browser, server) as page:
            page.may_fail = True
            n_slow = 0

            def delay(route: Any) -> None:
                nonlocal n_slow
                n_slow += 1
                if n_slow > 1:
                    route.continue_()
                else:
                    late = {"error": "the request took longer than the 20 s", "hint": "wait"}
                    route.fulfill(status=408, json=late)

            page.tab.route("**/api/project/sentence?*", delay)
            page.open("/").see("[data-banner=lost]:has-text('longer than usual')")
            page.see(FIGURE)
            sync_api.expect(page.tab.locator("[data-banner]")).to_have_count(0)
