"""The report of an audit in a real Chromium, opened as a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.auditing.report_examples import ANNOTATED, EVIL, SUGGESTED, finding, report
from tests.web.browsers import WAIT, launched

from sapwood.auditing.decisions import apply_decisions, read_decisions, with_patches
from sapwood.auditing.html import draw_findings, report_html
from sapwood.constituency.audit.corrections import BracketCorrector
from sapwood.dependency.data.bank import Arcs

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@contextmanager
def opened(
    browser: Any, folder: Path, data: dict[str, Any], width: int = 1280, **options: Any
) -> Iterator[Any]:
    """A tab with the report, in which nothing may go wrong and nothing may be asked for."""
    file = folder / "report.html"
    file.write_text(report_html(data), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, accept_downloads=True, **options
    )
    tab = context.new_page()
    tab.set_default_timeout(WAIT)
    troubles: list[str] = []
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    asked: list[str] = []
    tab.goto(file.as_uri())
    tab.locator(".audit-finding").wait_for()
    yield tab
    context.close()
    assert not troubles
    assert [url for url in asked if not url.startswith(("blob:", file.as_uri()))] == []


def current(tab: Any) -> str:
    return str(tab.locator(".audit-list [aria-current]").get_attribute("data-id"))


def saved(tab: Any, name: str) -> str:
    with tab.expect_download() as download:
        tab.locator(f'[data-do="{name}"]').click()
    return Path(download.value.path()).read_bytes().decode()


def test_keys_walk_and_decide(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, report()) as tab:
        steps = [("j", "f2"), ("ArrowDown", "f3"), ("k", "f2"), ("ArrowUp", "f1"), ("k", "f1")]
        for key, expected in steps:
            tab.keyboard.press(key)
            assert current(tab) == expected, key
        for key, expected in [("a", "f2"), ("r", "f3"), ("s", "f4")]:
            tab.keyboard.press(key)
            assert current(tab) == expected, key
        made = {
            item.get_attribute("data-id"): item.get_attribute("data-made")
            for item in tab.locator(".audit-list li").all()
        }
        assert made == {"f1": "accept", "f2": "reject", "f3": "skip", "f4": None, "f5": None}
        tab.keyboard.press("k")
        tab.keyboard.press("u")
        assert tab.locator('[data-id="f3"]').get_attribute("data-made") is None
        tab.keyboard.press("?")
        assert tab.locator("dialog[open]").is_visible()
        tab.keyboard.press("a")  # says nothing while the help is open
        tab.keyboard.press("Escape")
        assert tab.locator('[data-id="f3"]').get_attribute("data-made") is None


def test_decisions_outlast_the_page_but_not_the_files(browser: Any, tmp_path: Path) -> None:
    data = report()
    with opened(browser, tmp_path, data) as tab:
        tab.keyboard.press("a")
        tab.reload()
        tab.locator('[data-id="f1"][data-made="accept"]').wait_for()
        data["files"]["a.mrg"] = "00" * 32
        (tmp_path / "report.html").write_text(report_html(data), encoding="utf-8")
        tab.reload()
        tab.locator('[data-id="f1"]').wait_for()
        assert tab.locator("[data-made]").count() == 0


def test_exports(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, report()) as tab:
        for key in "ara":
            tab.keyboard.press(key)
        tab.locator('[data-decision="accept"]').click()  # of the fourth
        found = json.loads(saved(tab, "decisions"))
        patch = saved(tab, "patch")
        says = tab.locator(".audit-tools .facts").inner_text()
    assert found["sapwood"] == "audit decisions 2"
    assert found["files"] == report()["files"]
    assert [(one["id"], one["decision"]) for one in found["decisions"]] == [
        ("f1", "accept"), ("f2", "reject"), ("f3", "accept"), ("f4", "accept")
    ]  # fmt: skip
    first = found["decisions"][0]
    assert (first["annotated_tree"], first["suggested_tree"]) == (ANNOTATED, SUGGESTED)
    assert patch.startswith(
        f"--- a.mrg\n+++ a.mrg\n@@ -10,1 +10,1 @@\n-{ANNOTATED}\n+{SUGGESTED}\n@@ -40,1 +40,2 @@\n"
        "-last\n\\ No newline at end of file\n+now\n+more\n\\ No newline at end of file\n"
    )
    assert "1 correction cannot be in a patch" in says  # the third has no lines


def parts_made(tab: Any) -> list[str | None]:
    return [row.get_attribute("data-made") for row in tab.locator("tr[data-part]").all()]


def test_parts_are_decided_alone(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, report()) as tab:
        tab.keyboard.press("j")
        tab.locator('[data-part="1"] [data-decision="accept"]').click()
        assert parts_made(tab) == [None, "accept"]
        assert "1 of 2 parts accepted" in tab.locator('[data-id="f2"]').inner_text()
        assert tab.evaluate("document.activeElement.dataset.part") == "1"
        tab.keyboard.press("1")  # goes to the first part, where keys are about it alone
        tab.keyboard.press("r")
        assert parts_made(tab) == ["reject", "accept"]
        assert current(tab) == "f2"
        tab.reload()
        tab.keyboard.press("j")
        assert parts_made(tab) == ["reject", "accept"]
        (one,) = json.loads(saved(tab, "decisions"))["decisions"]
        edits = [part["edit"] for part in report()["findings"][1]["parts"]]
        assert one["decision"] == "accept"
        assert one["parts"] == [
            {"decision": "reject", "kind": "label", "edit": edits[0]},
            {"decision": "accept", "kind": "tag", "edit": edits[1]},
        ]
        tab.locator('[data-do="patch"]').click()  # its lines are those of all parts
        assert "Nothing to save" in tab.locator(".audit-tools .facts").inner_text()
        tab.locator('[data-part="1"]').focus()
        tab.keyboard.press("k")  # the keys of the list still walk
        assert current(tab) == "f1"
        tab.keyboard.press("j")
        tab.keyboard.press("a")
        assert current(tab) == "f3"
        tab.keyboard.press("k")
        assert parts_made(tab) == ["accept", "accept"]
        (one,) = json.loads(saved(tab, "decisions"))["decisions"]
        assert "parts" not in one


def test_parts_decided_in_the_report_are_applied(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_bytes(f"{ANNOTATED}\r\n".encode())
    changed = SUGGESTED.replace("(NN dog)", "(NNP dog)")
    bracket = {"removed": [["NP", 3, 6]], "added": [], "is_tag": False}
    tag = {"removed": [["NN", 1, 2]], "added": [["NNP", 1, 2]], "is_tag": True}
    parts = [
        {"kind": kind, "start": i, "end": j, "annotated": "x", "suggested": "y", "edit": edit,
         "p_annotated": 0.1, "p_suggested": 0.9, "expected_precision": 0.5}
        for kind, i, j, edit in (("extra", 3, 6, bracket), ("tag", 1, 2, tag))
    ]  # fmt: skip
    one = finding(1, "extra", "NP", "", suggested_tree=changed, parts=parts, file=str(file), line=1)
    (one,) = with_patches([one], BracketCorrector())
    digest = sha256(file.read_bytes()).hexdigest()
    with opened(browser, tmp_path, {"findings": [one], "files": {str(file): digest}}) as tab:
        tab.locator('[data-part="1"] [data-decision="accept"]').click()
        decisions = tmp_path / "decisions.json"
        decisions.write_text(saved(tab, "decisions"))
        patch = saved(tab, "patch")
        assert "cannot" not in tab.locator(".audit-tools .facts").inner_text()
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / "a.mrg"
    copy.write_bytes(file.read_bytes())
    moved = patch.replace(str(file), "a.mrg").encode()
    command = ["git", "apply", "--unidiff-zero", "-p0", "-"]
    subprocess.run(command, input=moved, cwd=copy.parent, check=True)
    apply_decisions(*read_decisions(decisions), BracketCorrector())
    assert file.read_bytes() == f"{ANNOTATED.replace('(NN dog)', '(NNP dog)')}\r\n".encode()
    assert copy.read_bytes() == file.read_bytes()


def test_patches_apply(browser: Any, tmp_path: Path) -> None:
    """The command `patch` makes the corrected file, also where lines are added and removed."""
    lines = [f"line {n}\n" for n in range(1, 8)]
    hunks = [(2, ["line 2\n"], ["a\n", "b\n"]), (5, ["line 5\n", "line 6\n"], ["c\n"])]
    rows = [
        finding(k, "tag", "A", "B", patch={"line": line, "old": old, "new": new})
        for k, (line, old, new) in enumerate(reversed(hunks), 1)
    ]
    rows.append(finding(3, "tag", "A", "B", patch={"line": 6, "old": ["line 6\n"], "new": []}))
    with opened(browser, tmp_path, {"findings": rows, "files": {"a.mrg": "00"}}) as tab:
        for _ in rows:
            tab.keyboard.press("a")
        patch = saved(tab, "patch")
        assert "1 correction cannot" in tab.locator(".audit-tools .facts").inner_text()
    (tmp_path / "a.mrg").write_text("".join(lines))
    subprocess.run(["git", "apply", "--unidiff-zero", "-p0", "-"], input=patch, text=True,
                   cwd=tmp_path, check=True)  # fmt: skip
    expected = "line 1\na\nb\nline 3\nline 4\nc\nline 7\n"
    assert (tmp_path / "a.mrg").read_text() == expected


def test_filters(browser: Any, tmp_path: Path) -> None:
    def ids(tab: Any) -> list[str]:
        return [str(item.get_attribute("data-id")) for item in tab.locator(".audit-list li").all()]

    with opened(browser, tmp_path, report()) as tab:
        tab.keyboard.press("a")
        cases = [
            ("kind", "tag", ["f2", "f3"]),  # f2 has a part of this kind
            ("label", "NNP", ["f2", "f3"]),
            ("file", "b.mrg", ["f3"]),
            ("state", "accept", ["f1"]),
            ("state", "open", ["f2", "f3", "f4", "f5"]),
            ("expected", "0.5", ["f1", "f2", "f5"]),
        ]
        for name, value, expected in cases:
            tab.select_option(f'[data-filter="{name}"]', value)
            assert ids(tab) == expected, (name, value)
            tab.select_option(f'[data-filter="{name}"]', "")
        tab.select_option('[data-filter="state"]', "reject")
        assert tab.locator(".none").inner_text() == "No finding passes the filters."


def test_words_that_look_like_html_are_words(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, report()) as tab:
        tab.locator('[data-id="f3"] button').click()
        assert EVIL in tab.locator(".audit-sentence").inner_text()
        assert EVIL in tab.locator(".audit-tree svg text.word").first.text_content()
        tab.locator('[data-id="f2"] button').click()
        assert "<b>ADVP</b>" in tab.locator(".audit-elsewhere").inner_text()
        assert tab.evaluate("window.isHit") is None
        assert tab.evaluate("document.images.length") == 0


def test_differences_are_marked(browser: Any, tmp_path: Path) -> None:
    def marked(side: str) -> list[str]:
        found = tab.locator(f'[data-side="{side}"] .node.differs').all()
        return [str(node.get_attribute("aria-label")) for node in found]

    with opened(browser, tmp_path, report()) as tab:
        assert marked("annotated") == ["NP: cat at night"]
        assert marked("suggested") == []
        tab.keyboard.press("j")
        assert marked("annotated") == ["NP: cat at night", "NP: cat"]
        assert marked("suggested") == ["ADVP: cat"]
        tab.locator(".audit-finding tr.pick").nth(1).click()
        assert tab.locator(".audit-sentence mark").inner_text() == "dog"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    long = "(TOP (S " + " ".join(f"(NP (NN word{k}))" for k in range(60)) + "))"
    rows = report()
    rows["findings"].append(
        finding(6, "tag", "NN", "JJ", annotated_tree=long, suggested_tree=long.replace(
            "(NN word55)", "(JJ word55)"), words=[f"word{k}" for k in range(60)], start=55, end=56)
    )  # fmt: skip
    from sapwood.auditing.html import draw_brackets, draw_findings

    rows["drawings"] = draw_findings(rows["findings"], draw_brackets)
    with opened(browser, tmp_path, rows, width, color_scheme=scheme) as tab:
        for _ in rows["findings"]:
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            tab.keyboard.press("j")
        # a wide tree is scrolled to what differs
        box = tab.locator('[data-side="suggested"] .figure').bounding_box()
        node = tab.locator('[data-side="suggested"] .differs').first.bounding_box()
        assert box["x"] <= node["x"] <= box["x"] + box["width"]


def test_right_to_left(browser: Any, tmp_path: Path) -> None:
    with opened(browser, tmp_path, report()) as tab:
        tab.locator('[data-id="f4"] button').click()
        assert tab.evaluate("getComputedStyle(document.querySelector('.quote')).direction") == "rtl"
        words = tab.locator('[data-side="suggested"] text.word').all()
        places = [float(word.get_attribute("x")) for word in words]
        assert places == sorted(places, reverse=True)


def test_the_word_of_a_long_arc_is_in_sight(browser: Any, tmp_path: Path) -> None:
    words = [f"word{k}" for k in range(60)]
    heads = [0, *(1 for _ in words[1:])]
    moved = [*heads[:55], 40, *heads[56:]]
    trees = [str(Arcs(words, made)) for made in (heads, moved)]
    row = finding(1, "head", "dep of word0 1", "dep of word39 40", annotated_tree=trees[0],
                  suggested_tree=trees[1], words=words, start=55, end=56)  # fmt: skip
    drawings = draw_findings([row], lambda text: Arcs.parse(text).to_svg())
    with opened(browser, tmp_path, {"findings": [row], "drawings": drawings}, 390) as tab:
        for side in ("annotated", "suggested"):
            box = tab.locator(f'[data-side="{side}"] .figure').bounding_box()
            word = tab.locator(f'[data-side="{side}"] text.word[data-node="56"]').bounding_box()
            assert box["x"] <= word["x"] <= box["x"] + box["width"]
            assert box["y"] <= word["y"] <= box["y"] + box["height"]
