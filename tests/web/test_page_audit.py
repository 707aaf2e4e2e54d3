"""The view of audits in a real Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from tests.arc_toys import bank as arc_bank
from tests.web.browsers import tab
from tests.web.servers import Server

pytestmark = pytest.mark.browser


def test_an_uploaded_treebank_is_audited(browser: Any, server: Server) -> None:
    width = 390
    text = "".join(f"{arcs}\n\n" for arcs in arc_bank(30, seed=7))
    with tab(browser, server, width) as page:
        page.open("/audit#folds=2")
        button = page.see("button.primary", has_text="Audit")
        assert button.is_disabled()
        file = {"name": "mine.conllu", "mimeType": "text/plain", "buffer": text.encode()}
        page.see("input[type=file]").set_input_files(file)
        button.click()
        page.see(".facts[data-state=running]")
        page.see(".facts[data-state=done]")
        page.see(".audit-finding .sapwood-arcs")
        assert page.count('.audit-tree [class~="differs"]') > 0
        page.tab.locator("h1").click()  # the keys are the page's own now
        page.tab.keyboard.press("a")
        page.see('.audit-list [data-made="accept"]')
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        page.settle()


def test_what_cannot_be_audited_is_said(browser: Any, server: Server) -> None:
    with tab(browser, server) as page:
        page.open("/audit")
        file = {"name": "few.mrg", "mimeType": "text/plain", "buffer": b"(S (X a))"}
        page.see("input[type=file]").set_input_files(file)
        page.see("button.primary", has_text="Audit").click()
        assert "at least 10 trees" in page.see(".notice.bad").inner_text()
