"""The documentation site: every page is in its menu, every public name in its reference."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools.site_pages import PAGES

import sapwood as sw

HOME = Path(__file__).parents[1]
DOCS = HOME / "docs"
MENU = (HOME / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
MODULES = ("errors", "evaluate", "execute", "identify", "report")


def public_names() -> list[str]:
    """All names of `sapwood`, and those that its public submodules export."""
    names = [f"sapwood.{name}" for name in sw.__all__ if name not in MODULES]
    for module in MODULES:
        exported = importlib.import_module(f"sapwood.{module}").__all__
        names += [f"sapwood.{module}.{name}" for name in exported if name not in sw.__all__]
    return names


def reference() -> str:
    return "\n".join(path.read_text() for path in (DOCS / "reference" / "api").glob("*.md"))


def test_every_public_name_is_in_the_reference_once() -> None:
    told = re.findall(r"^::: (\S+)$", reference(), re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(public_names()) - set(told) == set()
    assert len(public_names()) > 100
    for name in public_names():
        assert f"][{name}]" in reference(), f"{name} is missing in the list of all names"


def test_every_public_name_has_a_docstring_of_its_own() -> None:
    for name in public_names():
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(module), last).__doc__, name


def test_every_page_is_in_the_menu_once() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", MENU, re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(listed) == pages | set(PAGES.values())
    assert all((HOME / source).is_file() for source in PAGES)


def build_site(folder: Path) -> None:
    pytest.importorskip("material", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    build_site(tmp_path)
    found = (tmp_path / "reference" / "api" / "grammars.html").read_text(encoding="utf-8")
    assert 'id="sapwood.SpectralLPCFG.fit"' in found
    assert "a rule seen n times is trusted" in found  # parameters, which the class declares
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 100_000
    # opened from the disk, pages search this one, by a script of ours
    assert (tmp_path / "search" / "search_index.js").stat().st_size > 100_000
    assert '<script src="../../iframe-worker.js">' in found
    bounds = (tmp_path / "reference" / "api" / "report.html").read_text(encoding="utf-8")
    delta = bounds.partition('id="sapwood.report.identify_bounds"')[2].partition(">delta</code>")[2]
    assert (
        "0.05" in delta.partition("</tr>")[0]
    )  # not the default of epsilon, which shares its words


@pytest.mark.browser
def test_pages_on_the_disk_can_be_searched(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    from tests.web.browsers import CHROMIUM, FLAGS

    with playwright.sync_playwright() as driver:
        if CHROMIUM is None and not Path(driver.chromium.executable_path).exists():
            pytest.skip("no Chromium here")
        build_site(tmp_path)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page()
        tab.goto((tmp_path / "papers" / "dep.html").as_uri())
        tab.click("input.md-search__input")
        tab.keyboard.type("pivot")
        tab.wait_for_selector(".md-search-result__item")
        browser.close()


@pytest.mark.parametrize("tool", ["site_pages", "griffe_docs"])
def test_examples_of_what_makes_the_site(tool: str) -> None:
    if tool == "griffe_docs":
        pytest.importorskip("griffe", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "doctest", "-v", str(HOME / "tools" / f"{tool}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Expecting" in done.stdout


def test_versions_agree() -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = re.search(r"^version: (\S+)$", (HOME / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\d\S*)", (HOME / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited is not None
    assert newest is not None
    assert project["version"] == sw.__version__ == cited[1] == newest[1]


def test_the_picture_of_the_readme_is_what_its_script_draws(tmp_path: Path) -> None:
    from tools import gallery

    for name in ("states", "arcs", "surprisal"):
        gallery.PICTURES[name](tmp_path)
        kept = DOCS / "images" / "gallery" / f"{name}.svg"
        drawn, expected = ((folder / kept.name).read_text() for folder in (tmp_path, kept.parent))
        if name != "states":
            assert drawn == expected
            continue
        # Which state a determiner is in depends on the last bits of the processor's products, so
        # only the tree and the four states that the caption names are compared.
        texts, kept_texts = (re.findall(r">([^<>\n]+)</text>", svg) for svg in (drawn, expected))
        labels, kept_labels = (
            [t.rstrip("₀₁₂₃₄₅₆₇₈₉") for t in found] for found in (texts, kept_texts)
        )
        assert labels == kept_labels
        named = {f"{symbol}{state}".translate(gallery.DIGITS) for symbol, state in gallery.NAMED}
        assert named <= set(texts)
        assert named <= set(kept_texts)
    page = (DOCS / "help" / "gallery.md").read_text(encoding="utf-8")
    assert set(re.findall(r"gallery/(\w+)\.svg", page)) == set(gallery.PICTURES)


DRAWN_AT_ONCE = (
    "annotation",
    "notation",
    "evaluation",
    "binarisation",
    "tensor-form",
    "span-features",
    "prefixes",
    "audit",
    "encoder",
    "ladder",
    "dependencies",
    "identifiability",
    "unmixing",
    "hankel",
)


def test_every_concept_page_shows_a_drawing_and_every_drawing_is_shown() -> None:
    from tools.pictures import FOLDER, pictures

    shown: set[str] = set()
    for page in sorted((DOCS / "concepts").glob("*.md")):
        found = re.findall(r"!\[[^]]+\]\(\.\./images/([\w/-]+)\.svg\)", page.read_text("utf-8"))
        assert found or page.stem.endswith("-tables"), f"{page.name} has no drawing"
        shown.update(found)
    drawn = {f"concepts/{path.stem}" for path in FOLDER.glob("*.svg")}
    assert drawn == {f"concepts/{name}" for name in pictures()}
    assert drawn <= shown


@pytest.mark.parametrize("name", DRAWN_AT_ONCE)
def test_drawings_of_the_concepts_are_what_their_script_draws(name: str) -> None:
    from tools.pictures import FOLDER, pictures

    drawn = pictures()[name]().svg()
    assert drawn == (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in drawn
