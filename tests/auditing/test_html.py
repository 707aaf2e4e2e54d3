"""The report of an audit as one file: inert, whole, and the same for the same findings."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from tests.auditing.report_examples import EVIL, finding, report

from sapwood.auditing.html import (
    MODULES,
    bundle_script,
    draw_findings,
    json_text,
    report_html,
    report_name,
)
from sapwood.core.errors import SapwoodError

STATIC = Path(__file__).parents[2] / "src" / "sapwood" / "web" / "static"


def data_of(page: str) -> dict[str, object]:
    text = re.search(r'<script id="report" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert text
    return dict(json.loads(text[1]))


def test_all_words_stay_data() -> None:
    page = report_html(report())
    assert page.count("<script") == page.count("</script>") == 2
    assert EVIL not in page
    found = data_of(page)["findings"]
    assert isinstance(found, list)
    assert found[2]["words"][0] == EVIL


def test_titles_are_escaped() -> None:
    page = report_html({"findings": [], "files": {"<b>&{style}.mrg": "00"}})
    assert "<h1>Audit of &lt;b&gt;&amp;{style}.mrg</h1>" in page


def test_the_policy_allows_this_script_and_style_alone() -> None:
    page = report_html(report())
    for element, directive in (('script type="module"', "script-src"), ("style", "style-src")):
        text = page.partition(f"<{element}>")[2].partition(f"</{element.split()[0]}>")[0]
        digest = base64.b64encode(sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in page
    assert "<style" not in json.dumps(data_of(page)["drawings"])  # it would be refused


def test_modules_are_whole_and_in_order() -> None:
    script = bundle_script()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    for k, name in enumerate(MODULES):
        for needed in re.findall(r'from "/static/([^"]+)"', (STATIC / name).read_text()):
            assert needed in MODULES[:k], f"{name} needs {needed}"


def test_names_follow_the_files() -> None:
    one, other = report(), report()
    other["files"]["a.mrg"] = "00" * 32
    assert report_name(one) == report_name(report())
    assert report_name(one) != report_name(other)
    bare = {"findings": one["findings"]}
    assert report_name(bare) != report_name({"findings": one["findings"][1:]})


def test_a_tree_that_cannot_be_drawn_has_no_drawing() -> None:
    def draw(text: str) -> str:
        if "x" in text:
            raise SapwoodError("too large")
        return f"<svg><style>p {{}}</style>{text}</svg>"

    rows = [finding(1, "tag", "A", "B", annotated_tree="(x)", suggested_tree="(y)")]
    assert draw_findings(rows, draw) == {"f1": [None, "<svg>(y)</svg>"]}


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028", "&lt;"])
def test_json_stays_json(text: str) -> None:
    made = json_text({text: text})
    assert json.loads(made) == {text: text}
    assert not set("<>&\u2028\u2029") & set(made)
