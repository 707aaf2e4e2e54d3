"""A real Chromium for tests of the page: the browser, and tabs that remember what went wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.web.servers import Server

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
WAIT = 30_000  # milliseconds


class Page:
    """A tab that remembers what went wrong in it."""

    def __init__(self, context: Any, server: Server) -> None:
        self.tab, self.base = context.new_page(), server.address.rstrip("/")
        self.troubles: list[str] = []
        self.may_fail = False
        self.tab.on("console", self._hear)
        self.tab.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.tab.on("request", self._see)
        self.tab.set_default_timeout(WAIT)

    def _hear(self, message: Any) -> None:
        # a browser says by itself that an answer was 4xx, which some tests want
        is_ours = "Failed to load resource" in message.text and self.may_fail
        if message.type in {"error", "warning"} and not is_ours:
            self.troubles.append(message.text)

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", "blob:", "about:")):
            self.troubles.append(f"a request to {request.url}")

    def open(self, path: str) -> Page:
        self.tab.goto("about:blank")
        self.tab.goto(self.base + path)
        return self

    def see(self, selector: str, **options: Any) -> Any:
        found = self.tab.locator(selector, **options).first
        found.wait_for(state="attached")
        return found

    def count(self, selector: str) -> int:
        return int(self.tab.locator(selector).count())


@contextmanager
def launched() -> Iterator[Any]:
    """A Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        if CHROMIUM is None and not Path(driver.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium here: apt-get install chromium, or playwright install chromium"
            )
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Any, server: Server, width: int = 1280, **options: Any) -> Iterator[Page]:
    """A tab of its own, in which nothing may go wrong."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    page = Page(context, server)
    yield page
    context.close()
    assert not page.troubles
