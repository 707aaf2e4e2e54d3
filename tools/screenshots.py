"""Take the pictures of the page in docs/images, with the models that `sapwood serve` has itself.

.venv/bin/python tools/screenshots.py            all of them; needs Playwright and a Chromium
.venv/bin/python tools/screenshots.py states     one of them
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.web.browsers import Page, launched  # noqa: E402 - the project's root is added above
from tests.web.servers import running  # noqa: E402

SIZE = {"width": 1240, "height": 900}
PATIENCE = 180_000  # milliseconds; the models are learnt when they are first used


def parse(page: Page) -> None:
    """A parse by `english`, with what is known about a phrase that may be attached elsewhere."""
    page.open("/parse#s=The+girl+saw+the+boy+with+the+telescope.").see("svg.sapwood-tree")
    page.see("section[aria-label=Dependencies] svg.sapwood-arcs")
    page.tab.set_viewport_size({"width": SIZE["width"], "height": 1480})
    page.tab.locator("svg.sapwood-tree text.phrase:has-text('PP')").first.click()
    page.see("aside:has-text('What state')")
    page.tab.evaluate("scrollTo(0, 0)")


def states(page: Page) -> None:
    """The states that clusters of nodes gave the tag NNS."""
    page.open("/states#model=bundled-cluster&label=NNS").see(".examples")
    page.tab.evaluate("document.activeElement?.blur()")


PICTURES = {made.__name__: made for made in (parse, states)}


def main(names: list[str]) -> None:
    """Take the named pictures, or all."""
    with (
        TemporaryDirectory() as folder,
        running(folder=Path(folder), is_small=False) as server,
        launched() as browser,
    ):
        for name in names or PICTURES:
            page = Page(browser.new_context(viewport=SIZE), server)
            page.tab.set_default_timeout(PATIENCE)
            PICTURES[name](page)
            page.tab.wait_for_timeout(1000)
            path = ROOT / "docs" / "images" / f"page-{name}.png"
            page.tab.screenshot(path=path)
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
