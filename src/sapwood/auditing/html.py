r"""The report of an audit as one HTML file: no server, no network, no other file is needed.

The style sheet and the scripts are those of the page of `sapwood serve`. Each module becomes a
function of one script, so that names of different modules never meet. A Content-Security-Policy
allows this script and this style sheet by their hashes and nothing else. Findings are JSON in an
element that browsers never run, with every `<` written as `\u003c`: a word such as `</script>` is
a word. The script makes texts of them, never HTML.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

from sapwood import __version__
from sapwood.core.errors import SapwoodError

# Modules of the page, each after those that it imports.
MODULES = (
    "dom.js", "tree.js", "dependencies.js", "exports.js", "audit-trees.js", "audit-decisions.js",
    "audit-finding.js", "audit-trust.js", "audit-walk.js",
)  # fmt: skip
_START = """
const report = JSON.parse(document.getElementById("report").textContent);
modules["/static/audit-walk.js"].mountAudit(document.getElementById("main"), report, report.name);
"""
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)
# What could end the element, begin a comment in it, or end a line of a script.
_UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def report_html(report: Mapping[str, Any]) -> str:
    """The HTML of a report: `findings`, and where there are any `trust`, `files` and `drawings`.

    Parameters
    ----------
    report
        What `sapwood audit --json` prints, with the SHA-256 of each file under `files` and what
        `draw_findings` returns under `drawings`. A finding may have a `patch`.

    Examples
    --------
    >>> page = report_html({"findings": [], "files": {"a.mrg": "5f"}})
    >>> "Audit of a.mrg" in page, "http" in page.replace("http-equiv", "").replace(
    ...     "http://www.w3.org/2000/svg", "")
    (True, False)
    """
    paths = list(report.get("files", {})) or sorted({one["file"] for one in report["findings"]})
    names = [path.rpartition("/")[2] for path in paths]
    title = f"Audit of {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"
    page = resources.files("sapwood.auditing").joinpath("report.html").read_text(encoding="utf-8")
    script, style = bundle_script(), _static("style.css")
    values = {
        "title": escape(title if names else "Audit"), "version": __version__, "style": style,
        "style_hash": _hash(style), "script": script, "script_hash": _hash(script),
        "report": json_text({"name": report_name(report), **report}),
    }  # fmt: skip
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], page)


def report_name(report: Mapping[str, Any]) -> str:
    """A key of the audited files, which changes with their contents.

    The browser stores decisions under this key.
    """
    made = sha256()
    for name, digest in sorted(report.get("files", {}).items()):
        made.update(f"{name}\0{digest}\0".encode())
    if not report.get("files"):
        made.update("\0".join(sorted(one["id"] for one in report["findings"])).encode())
    return made.hexdigest()[:16]


def draw_findings(
    findings: Iterable[Mapping[str, Any]], draw: Callable[[str], str]
) -> dict[str, list[str | None]]:
    """The annotated and the suggested tree of each finding as SVG, by the ids of the findings.

    Parameters
    ----------
    draw
        Draws a tree given as text; a tree that it refuses, because it is too large, becomes None.
    """

    def drawing(text: str | None) -> str | None:
        try:
            return _STYLE.sub("", draw(text)) if text else None
        except SapwoodError:
            return None

    return {
        one["id"]: [drawing(one.get("annotated_tree")), drawing(one.get("suggested_tree"))]
        for one in findings
    }


def draw_brackets(text: str) -> str:
    """A tree in brackets as SVG, in one row however wide it is."""
    from sapwood.corpora.draw import tree_svg
    from sapwood.corpora.tree import Tree

    return tree_svg(Tree.parse(text), width=None)


def json_text(value: object) -> str:
    r"""JSON that can stand inside a script element of HTML.

    Examples
    --------
    >>> json_text(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_UNSAFE)


@cache
def bundle_script() -> str:
    """All modules as one script, each a function that returns what the module exports."""
    parts = ["const modules = {};\n"]
    for name in MODULES:
        text = _IMPORT.sub(r'const {\1} = modules["\2"];', _static(name))
        exported = ", ".join(match[2] for match in _EXPORT.finditer(text))
        text = _EXPORT.sub(r"\1", text)
        parts.append(
            f'modules["/static/{name}"] = (() => {{\n{text}return {{ {exported} }};\n}})();\n'
        )
    script = "".join([*parts, _START])
    assert "</script" not in script
    assert "<!--" not in script
    return script


def _static(name: str) -> str:
    return resources.files("sapwood.web").joinpath("static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"
