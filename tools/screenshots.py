"""Take the pictures of the page in docs/images, with the models that `sapwood serve` has itself.

The models of the annotation desk are learnt from trees that come with Sapwood.


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
from tests.web.servers import Server, running  # noqa: E402

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


N_ACCEPTED = 150  # trees from which the model of the annotation desk is learnt
N_DOCUMENTS = 10  # that these are of
ANNOTATED = (
    "the old woman gave her daughter a book about birds in the garden .",
    "they saw the girl with the telescope .",
    "the painter says that those foxes laughed .",
    "the boy who sings likes pancakes .",
)
DESK = ".desk-figure svg[role=application]"


def _open_desk(page: Page, server: Server, kind: str, trees: list[str], format: str) -> None:
    """Open a project whose first sentences are accepted trees, when its model is learnt."""
    import httpx

    server.ask("project/create", title="A small treebank", kind=kind)
    for k in range(N_DOCUMENTS):
        share = slice(k * len(trees) // N_DOCUMENTS, (k + 1) * len(trees) // N_DOCUMENTS)
        content = "\n".join(trees[share])
        document = f"letter {k + 1}"
        server.ask(
            "project/import", format=format, content=content, document=document, as_accepted=True
        )
    server.ask("project/import", format="raw", content="\n".join(ANNOTATED), document="diary")
    server.ask("project/settings", order="learn")
    for _ in range(PATIENCE // 1000):
        learning = httpx.get(f"{server.address}api/project/learning", timeout=60).json()
        if (
            learning["state"] == "ready"
            and learning["n_trees"] == len(trees)
            and learning["points"]
        ):
            break
        if learning["state"] == "ready":
            server.ask("project/learn")
        page.tab.wait_for_timeout(1000)
    page.open("/annotate").see(DESK)
    page.settle()


def annotate(page: Page, server: Server) -> None:
    """A sentence of a project of phrase trees, with alternatives and the learning curve."""
    from sapwood.constituency.data.treebank import bundled_treebank

    trees = [str(tree) for tree in list(bundled_treebank("train"))[:N_ACCEPTED]]
    _open_desk(page, server, "trees", trees, "brackets")
    for key in ("Home", "ArrowRight", "ArrowRight", "t"):  # the tag of the verb by hand
        page.tab.keyboard.press(key)
    page.settle()
    page.tab.keyboard.type("VBZ")
    page.tab.keyboard.press("Enter")
    page.see(".node.asked")
    page.settle()
    page.tab.locator(".desk-tree .node:has(text:text-is('NP'))").last.click()
    page.settle()
    page.tab.keyboard.press("r")
    page.see(".desk-box [role=option]")
    page.settle()
    height = page.tab.evaluate("document.documentElement.scrollHeight")
    page.tab.set_viewport_size({"width": SIZE["width"], "height": height})


def annotate_arcs(page: Page, server: Server) -> None:
    """A sentence of a project of dependencies, with an arc that was set by hand."""
    from sapwood.constituency.data.treebank import bundled_treebank
    from sapwood.corpora.tree import HEAD_RULES
    from sapwood.dependency.data.transform import tree_arcs

    rule = HEAD_RULES["penn"]
    trees = list(bundled_treebank("train"))[:N_ACCEPTED]
    found = [f"{tree_arcs(tree, rule)}\n" for tree in trees]
    _open_desk(page, server, "dependencies", found, "conllu")
    page.tab.locator(".desk-arcs .leaf").nth(3).click()
    page.tab.keyboard.press("h")
    page.settle()
    height = page.tab.evaluate("document.documentElement.scrollHeight")
    page.tab.set_viewport_size({"width": SIZE["width"], "height": height})


PICTURES = {made.__name__: made for made in (parse, states)}
DESKS = {made.__name__: made for made in (annotate, annotate_arcs)}


def take(page: Page, name: str) -> None:
    """Take the picture of a page as it is now."""
    page.tab.wait_for_timeout(1000)
    path = ROOT / "docs" / "images" / f"page-{name.replace('_', '-')}.png"
    page.tab.screenshot(path=path)
    print(path)


def main(names: list[str]) -> None:
    """Take the named pictures, or all."""
    wanted = names or [*PICTURES, *DESKS]
    with TemporaryDirectory() as folder, launched() as browser:
        for name in wanted:
            desk = ("--project", str(Path(folder) / name)) if name in DESKS else ()
            with running(*desk, folder=Path(folder), is_small=False) as server:
                page = Page(browser.new_context(viewport=SIZE), server)
                page.tab.set_default_timeout(PATIENCE)
                if name in DESKS:
                    DESKS[name](page, server)
                else:
                    PICTURES[name](page)
                take(page, name)


if __name__ == "__main__":
    main(sys.argv[1:])
