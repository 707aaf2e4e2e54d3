"""Projects of annotation with a server of their own, opened in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.web.browsers import Page, tab
from tests.web.servers import Server, running

SENTENCES = (
    "the woman saw a dog in the garden .",
    "they sleep .",
    "the man sees the dog with a hat .",
    "a girl helped the boy .",
    "she saw the telescope .",
    "the dog sleeps in the garden .",
    "he gave the girl a hat .",
    "we saw a man in the park .",
    "the boy with the hat slept .",
    "a cook met the woman .",
    "they helped him .",
)
FIGURE = ".desk-figure svg[role=application]"


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """A server of the project in a folder, which is made where there is none."""
    patient = ("--max-seconds", "120")  # models are learnt when they are first used
    project = ("--project", str(folder / "project"))
    with running(*project, *patient, *arguments, folder=folder) as server:
        yield server


def create(
    server: Server, sentences: Sequence[str] = SENTENCES, start: str = "bundled", **more: Any
) -> dict[str, Any]:
    """Make the project of a server; returns its summary."""
    asked = {"title": "Garden", "start": {"model": start}, "sentences": list(sentences)}
    found: dict[str, Any] = server.ask("project/create", **asked | more)
    return found


@contextmanager
def desk(
    browser: Any, server: Server, width: int = 1280, address: str = "/", **options: Any
) -> Iterator[Page]:
    """The desk in a tab, with a sentence on show."""
    with tab(browser, server, width, **options) as page:
        page.open(address).see(FIGURE)
        page.settle()
        yield page


def view_of(server: Server, sentence: str) -> dict[str, Any]:
    """What the server shows of a sentence."""
    asked = httpx.get(f"{server.address}api/project/sentence", params={"id": sentence}, timeout=60)
    assert asked.status_code == 200, asked.text
    found: dict[str, Any] = asked.json()
    return found


def journal(folder: Path) -> list[dict[str, Any]]:
    """The actions that were written down so far."""
    text = (folder / "project" / "journal.jsonl").read_text()
    return [json.loads(line)["action"] for line in text.splitlines()]


def trees(folder: Path) -> list[str]:
    """The accepted trees in the file of the project."""
    return (folder / "project" / "trees.mrg").read_text().splitlines()


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other, each when the page has answered to the one before."""
    for key in keys:
        page.tab.keyboard.press(key)
        page.settle()


def number(page: Page) -> int:
    """The number of the sentence on show."""
    return int(page.tab.locator(".desk-work h2").inner_text().split()[-1].replace(",", ""))


def wait_number(page: Page, wanted: int) -> None:
    """Wait until a sentence is on show."""
    page.see(f".desk-work h2:text-is('Sentence {wanted:,}')")
    page.settle()


def nodes(page: Page) -> list[str]:
    """Label and words of each phrase and tag, as they are read aloud."""
    found = page.tab.locator(".desk-tree .node").evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label').split(', ')[0])"
    )
    return list(found)


def spoken(page: Page) -> str:
    """What has the focus, as it is read aloud."""
    return str(page.tab.evaluate("document.activeElement.getAttribute('aria-label')"))


def middle(page: Page, selector: str) -> tuple[float, float]:
    """The middle of an element, in pixels of the window."""
    one = page.tab.locator(selector).first
    one.scroll_into_view_if_needed()
    box = one.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, start: str, end: str) -> None:
    """Press on an element and let go on another."""
    mouse = page.tab.mouse
    mouse.move(*middle(page, start))
    mouse.down()
    mouse.move(*middle(page, end), steps=8)
    mouse.up()
    page.settle()


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(page.tab.evaluate("document.documentElement.scrollWidth - innerWidth"))
