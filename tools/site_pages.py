"""What MkDocs needs to make a site of the pages: files of the root as pages, links that lead there.

README, CHANGELOG and the like stay where people look for them; the site has them under other names.
Links from pages to code (`../../benchmarks/em.py`) lead nowhere on the site: plain text instead.
Names in tables and output of one line get places where they may be broken.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}
# Pages that were merged into another: their addresses lead there.
MOVED = {
    "guides/choosing-a-method": "guides/train-a-parser.html#choose-a-method",
    "guides/command-line": "reference/command-line.html",
    "guides/compare-methods": "guides/train-a-parser.html#compare-methods",
    "guides/corpora": "guides/bring-your-own-treebank.html#get-an-open-treebank",
    "guides/embeddings": "guides/language-models.html#word-vectors",
    "guides/first-run": "guides/speed-and-memory.html#the-first-run",
    "guides/from-r": "guides/other-libraries.html#r",
    "guides/inspect-a-model": "guides/see-what-was-learnt.html#on-the-command-line",
    "guides/most-accurate-parser": "guides/train-a-parser.html",
    "guides/notebook": "guides/python.html#in-a-notebook",
    "guides/unmix": "guides/identify.html#learn-hidden-trees-from-sentences",
}
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE = re.compile(r"<code>[^<]{20,}</code>")  # shorter ones stay whole
JOINT = re.compile(r"(?<=\w)(?:[/_,](?=\w\w)|\.(?=\w{4}))")  # none before .py
OPTION = re.compile(r"<code>(?=--?\w[\w-]{0,19}</code>)")  # not broken behind its dashes
ONE_LINE = re.compile(r"<pre>(<span></span><code>[^\n]*\n</code></pre>)")
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie in the root."""
    from mkdocs.structure.files import File

    for source, name in PAGES.items():
        text = (HOME / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=site_text(text, source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Repair the links of a page of the folder docs."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return site_text(markdown, f"docs/{page.file.src_uri}")


def on_post_page(output: str, **_: Any) -> str:
    """Say where narrow screens may break code."""
    return breakable(output)


def on_post_build(config: Any) -> None:
    """Write the addresses that moved, and refuse a site that loads anything from elsewhere."""
    from mkdocs.exceptions import PluginError

    for old, new in MOVED.items():
        (Path(config.site_dir) / f"{old}.html").write_text(forward(new), encoding="utf-8")
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = loads.search(path.read_text(encoding="utf-8"))
        if found and 'rel="canonical"' not in found[0]:
            raise PluginError(f"{path} loads something from elsewhere: {found[0]}")


def forward(target: str) -> str:
    """A page that sends its reader on to another page of the site.

    Examples
    --------
    >>> print(forward("guides/identify.html#families"))
    <!doctype html>
    <meta charset="utf-8">
    <meta http-equiv="refresh" content="0; url=../guides/identify.html#families">
    <title>This page has moved</title>
    <a href="../guides/identify.html#families">This page has moved.</a>
    """
    return (
        '<!doctype html>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="refresh" content="0; url=../{target}">\n'
        f'<title>This page has moved</title>\n<a href="../{target}">This page has moved.</a>'
    )


def site_text(text: str, source: str) -> str:
    """A page with the links that it has on the site; `source` is its place in the repository.

    Examples
    --------
    >>> site_text("[a](docs/guides/x.md#y) and [b](CHANGELOG.md)", "README.md")
    '[a](guides/x.md#y) and [b](changelog.md)'
    >>> site_text("[a](../../README.md), [b](../../benchmarks/em.py)", "docs/guides/x.md")
    '[a](../index.md), b'
    """
    here = posixpath.dirname(PAGES.get(source, source.removeprefix("docs/")))

    def repair(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if place not in PAGES and not place.startswith("docs/"):
            return label
        there = PAGES.get(place, place.removeprefix("docs/"))
        new = posixpath.relpath(there, here or ".")
        return f"{mark}[{label}]({new}{'#' + anchor if anchor else ''})"

    return LINK.sub(repair, text)


def breakable(html: str) -> str:
    r"""A page whose names in tables break at their joints, and whose blocks of one line break.

    Examples
    --------
    >>> breakable("<td>see <code>tests/linalg/test_svd.py</code> or <code>a/b.py</code></td>")
    '<td>see <code>tests/<wbr>linalg/<wbr>test_<wbr>svd.py</code> or <code>a/b.py</code></td>'
    >>> breakable("<p>with <code>--k-best</code></p>")
    '<p>with <code class="option">--k-best</code></p>'
    >>> print(breakable("<pre><span></span><code>(S (NP Max))\n</code></pre>"))
    <pre class="line"><span></span><code>(S (NP Max))
    </code></pre>
    """
    html = CELL.sub(
        lambda cell: CODE.sub(lambda code: JOINT.sub(r"\g<0><wbr>", code[0]), cell[0]), html
    )
    html = OPTION.sub('<code class="option">', html)
    return ONE_LINE.sub(r'<pre class="line">\1', html)
