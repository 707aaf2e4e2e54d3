"""A real Chromium for tests of the page: the browser, and tabs that remember what went wrong."""

from __future__ import annotations

import os
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
WAIT = 60_000  # milliseconds; nothing takes so long, but a busy machine may

# Milliseconds by which every answer of the API comes later to the page. A test that reads something
# before the page has it may pass all the same where the server is quick; with
# SAPWOOD_BROWSER_DELAY=1000 it fails each time.
DELAY = int(os.environ.get("SAPWOOD_BROWSER_DELAY", "0"))

# Delays the answers of the API, and counts the questions that are not answered yet. A question
# counts as answered when the page has drawn what it draws at once from the answer: that has
# happened before the next timer.
WATCH = """(() => {
  const fetchNow = window.fetch.bind(window);
  const later = (delay) => new Promise((done) => setTimeout(done, delay));
  window.nOpenQuestions = 0;
  window.fetch = async (address, options) => {
    if (!new URL(address, location.href).pathname.startsWith('/api/'))
      return fetchNow(address, options);
    window.nOpenQuestions++;
    let isOpen = true;
    const close = () => {
      if (isOpen) setTimeout(() => window.nOpenQuestions--);
      isOpen = false;
    };
    try {
      const answer = await fetchNow(address, options);
      const text = await answer.text();
      if (DELAY) await later(DELAY);
      if (answer.status === 503) close(); // its text may not be read: the page asks again
      answer.json = async () => {
        close();
        return JSON.parse(text);
      };
      return answer;
    } catch (error) {
      if (DELAY) await later(DELAY);
      close();
      throw error;
    }
  };
})()""".replace("DELAY", str(DELAY))
SETTLED = """() => window.nOpenQuestions === 0 && new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => done(window.nOpenQuestions === 0))))"""


class Page:
    """A tab that remembers what went wrong in it."""

    def __init__(self, context: Any, server: Server) -> None:
        self.tab, self.base = context.new_page(), server.address.rstrip("/")
        self.tab.add_init_script(WATCH)
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

    @property
    def address(self) -> str:
        """The address as the page has it now; Playwright's own copy may be a moment older."""
        return str(self.tab.evaluate("location.href"))

    def settle(self) -> None:
        """Wait until the page has all its answers and has drawn them.

        Something of the view must have been seen before: while its script is still being loaded,
        nothing was asked yet.
        """
        self.tab.wait_for_function(SETTLED)

    def wait_texts(self, selector: str, expected: list[str]) -> None:
        """Wait until the elements have these texts, and no others are there."""
        sync_api = pytest.importorskip("playwright.sync_api")
        # A list has to match element by element, and an empty one would match anything.
        found = self.tab.locator(selector)
        sync_api.expect(found).to_have_count(len(expected))
        sync_api.expect(found).to_have_text(expected)


@contextmanager
def launched() -> Iterator[Any]:
    """A Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        if CHROMIUM is None and not Path(driver.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium here: apt-get install chromium, or playwright install chromium"
            )
        playwright.expect.set_options(timeout=WAIT)
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
    assert not page.troubles, page.troubles
