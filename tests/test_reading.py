"""A reader finds the answer to each of twenty questions in at most three clicks from the start.

A click follows a link in the text of a page, or an entry of the page's own table of contents. Menus
and the search box are not used: a reader who comes to one page for the first time sees its text.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.test_site import build_site
from tools.site_pages import MOVED, PAGES, site_text

HOME = Path(__file__).parents[1]
DOCS = HOME / "docs"
MOST = 3
# A question, the section of the site that answers it, and words that its answer has.
QUESTIONS = {
    "How do I install it?": ("index.md#install", "pip install"),
    "How do I parse an English sentence?": ("index.md#parse-a-sentence", "sapwood parse english"),
    "How accurate is it, beside other parsers?": ("index.md#how-good-is-it", "Berkeley"),
    "Which formats of treebanks can it read?": (
        "guides/bring-your-own-treebank.md#notations",
        "tigerxml",
    ),
    "How do I train a parser on my trees?": ("guides/train-a-parser.md", "sapwood train"),
    "Which method should I take?": ("guides/train-a-parser.md#choose-a-method", "spectral"),
    "How many hidden states?": ("guides/train-a-parser.md#choose-a-method", "How many states"),
    "What does my parser get wrong?": ("guides/evaluate.md#what-is-wrong", "--errors"),
    "Where are the errors in my treebank?": ("guides/audit.md", "sapwood audit"),
    "How do I annotate trees in a browser?": ("guides/annotate.md", "sapwood serve --project"),
    "What does a hidden state stand for?": (
        "guides/see-what-was-learnt.md#on-the-command-line",
        "inspect",
    ),
    "How do I get the surprisal of each word into R?": ("guides/surprisal.md#in-r", "read.delim"),
    "What does surprisal count of a word that the grammar does not know?": (
        "guides/surprisal.md#words-that-the-grammar-does-not-know",
        "<unk-lower-s>",
    ),
    "Can I use it inside spaCy?": ("guides/other-libraries.md#spacy", "add_pipe"),
    "How do I call it from another language?": ("guides/json-api.md#a-server", "curl"),
    "Does it parse dependencies, in CoNLL-U?": (
        "guides/dependencies.md#train-a-parser-and-parse",
        "conllu",
    ),
    "Can I keep tags or brackets that I know?": (
        "guides/parse-with-what-you-know.md#known-phrases",
        "--partial",
    ),
    "Why is the first command slow?": ("guides/speed-and-memory.md#the-first-run", "compiles"),
    "May I use the models in a product, and is my text sent anywhere?": (
        "help/faq.md#licence-and-privacy",
        "CC BY-SA",
    ),
    "How does spectral learning work?": ("concepts/spectral.md", "singular"),
    "Can my model be learnt from pairs of words at all?": (
        "guides/identify.md#ask-whether-a-model-is-identifiable",
        "--moments pairs",
    ),
    "What does this term mean?": ("help/glossary.md", "posterior"),
}


def site() -> dict[str, str]:
    """Every page of the site by its address there, with links as the site has them."""
    pages = {
        name: site_text((HOME / source).read_text(encoding="utf-8"), source)
        for source, name in PAGES.items()
    }
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        pages[name] = site_text(path.read_text(encoding="utf-8"), f"docs/{name}")
    return pages


def anchor(title: str) -> str:
    """What a heading is called in an address."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


class Links(NamedTuple):
    """What a reader of a page can follow: targets from the root of the site, and own sections."""

    targets: list[str]
    sections: list[str]


def links_of_text(name: str, text: str) -> Links:
    """The links of a page in Markdown."""
    targets = []
    for target, place in re.findall(r"\]\(([\w./-]*)((?:#[\w-]+)?)\)", text):
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        targets.append((there if target else name) + place)
    return Links(targets, [anchor(title) for title in headings(text)])


def links_of_page(name: str, html: str) -> Links:
    """The links of a page of the built site: those of its article, no menus."""
    article = html.partition("<article")[2].partition("</article>")[0]
    targets = []
    for target, place in re.findall(r'<a [^>]*href="([\w./-]*)((?:#[\w.-]+)?)"', article):
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        targets.append((there if target else name) + place)
    return Links(targets, re.findall(r'<h[2-6] id="([^"]+)"', article))


def clicks(pages: dict[str, Links], first: str = "index.md") -> dict[str, int]:
    """The least number of clicks from the first page to each page, and to each section."""
    found, queue = {first: 0}, deque([first])
    while queue:
        here = queue.popleft()
        name = here.partition("#")[0]
        targets = [f"{name}#{place}" for place in pages[name].sections]
        for target in pages[name].targets:
            targets += [target.partition("#")[0], target]
        for target in targets:
            if target.partition("#")[0] in pages and target not in found:
                found[target] = found[here] + 1
                queue.append(target)
    return found


def headings(text: str) -> list[str]:
    return re.findall(r"^##+ (.*)$", text, re.MULTILINE)


def section(text: str, place: str) -> str:
    """The part of a page under one heading, with its subsections; all of it where none is named."""
    if not place:
        return text
    parts = re.split(r"^(#+) (.*)$", text, flags=re.MULTILINE)[1:]
    for k in range(0, len(parts), 3):
        if anchor(parts[k + 1]) == place:
            body = parts[k + 2]
            for later in range(k + 3, len(parts), 3):
                if len(parts[later]) <= len(parts[k]):
                    break
                body += parts[later + 2]
            return body
    return ""


def links(pages: dict[str, str]) -> dict[str, Links]:
    return {name: links_of_text(name, text) for name, text in pages.items()}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site()


def test_twenty_questions_are_answered_in_three_clicks(pages: dict[str, str]) -> None:
    needed = clicks(links(pages))
    assert len(QUESTIONS) >= 20
    for question, (place, words) in QUESTIONS.items():
        name, _, heading = place.partition("#")
        assert words in section(pages[name], heading), f"{question} {place} does not say {words}"
        assert needed.get(place, MOST + 1) <= MOST, f"{question} {place}: {needed.get(place)}"


@pytest.mark.slow
def test_the_built_site_answers_them_in_three_clicks(tmp_path: Path) -> None:
    build_site(tmp_path)
    names = {path: path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    built = {name: links_of_page(name, path.read_text("utf-8")) for path, name in names.items()}
    needed = clicks(built, "index.html")
    for question, (place, _) in QUESTIONS.items():
        there = place.replace(".md", ".html")
        assert needed.get(there, MOST + 1) <= MOST, f"{question} {there}: {needed.get(there)}"


def test_every_page_is_within_three_clicks(pages: dict[str, str]) -> None:
    needed = clicks(links(pages))
    far = {name: needed.get(name) for name in pages if needed.get(name, MOST + 1) > MOST}
    assert not far


def test_addresses_that_moved_lead_to_a_section(pages: dict[str, str]) -> None:
    for old, new in MOVED.items():
        name, _, heading = new.replace(".html", ".md").partition("#")
        assert f"{old}.md" not in pages
        assert section(pages[name], heading), f"{old} leads to {new}"


def test_a_long_walk_is_seen() -> None:
    pages = {"index.md": "[a](a.md)", "a.md": "[b](b.md#two)", "b.md": "# B\n\n## One\n\n## Two\n"}
    assert clicks(links(pages)) == {
        "index.md": 0,
        "a.md": 1,
        "b.md": 2,
        "b.md#two": 2,
        "b.md#one": 3,
    }
    built = links_of_page("a/b.html", '<a href="no.html"></a><article><a href="../c.html#d"></a>')
    assert built == Links(["c.html#d"], [])
    assert section("# T\n\n## A\nx\n### B\ny\n## C\nz\n", "a") == "\nx\n\ny\n"
    assert section("# T\n\n## A\nx\n", "b") == ""


def test_no_page_is_too_long() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in DOCS.rglob("*.md")}
    assert max(lengths.values()) <= 250, max(lengths, key=lambda name: lengths[name])
    assert len((HOME / "README.md").read_text().splitlines()) <= 120
