"""A report of an audit made by hand, with what is hard to show."""

from __future__ import annotations

from typing import Any

from sapwood.auditing.html import draw_brackets, draw_findings

ANNOTATED = (
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (NN cat)) (PP (IN at) (NN night))))))"
)
SUGGESTED = ANNOTATED.replace(
    "(NP (NP (NN cat)) (PP (IN at) (NN night)))", "(NP (NN cat)) (PP (IN at) (NN night))"
)
EVIL = "</script><script>window.isHit=1</script><img/src=x/onerror=window.isHit=1>"
DOG, BARKED, LATE = "\u05db\u05dc\u05d1", "\u05e0\u05d1\u05d7", "\u05d0\u05de\u05e9"
HEBREW = f"(TOP (S (NP (NN {DOG})) (VP (VB {BARKED}) (ADVP (RB {LATE})))))"


def finding(rank: int, kind: str, annotated: str, suggested: str, **other: Any) -> dict[str, Any]:
    """A finding of the report; `other` replaces its fields."""
    trees = {"annotated_tree": ANNOTATED, "suggested_tree": SUGGESTED}
    words = ["the", "dog", "saw", "cat", "at", "night"]
    found = {
        "rank": rank, "id": f"f{rank}", "file": "a.mrg", "line": 10 * rank, "tree": rank,
        "start": 3, "end": 6, "kind": kind, "annotated": annotated, "suggested": suggested,
        "p_annotated": 0.02, "p_suggested": 0.9, "expected_precision": 1 / rank, "words": words,
        "parts": [], "elsewhere": [],
    }  # fmt: skip
    return found | trees | other


def report() -> dict[str, Any]:
    """The report: attachment, a label, a tag, words that look like HTML, Hebrew, and no trees."""
    relabelled = SUGGESTED.replace("(NP (NN cat))", "(ADVP (NN cat))")
    evil = f"(TOP (S (NP (NN {EVIL})) (VP (VB </title>))))"
    parts = [
        {"kind": "label", "annotated": "NP", "suggested": "ADVP", "start": 3, "end": 4,
         "p_annotated": 0.1, "p_suggested": 0.8, "expected_precision": 0.5,
         "edit": {"removed": [["NP", 3, 4]], "added": [["ADVP", 3, 4]], "is_tag": False}},
        {"kind": "tag", "annotated": "NN", "suggested": "NNP", "start": 1, "end": 2,
         "p_annotated": 0.2, "p_suggested": 0.7, "expected_precision": 0.4,
         "edit": {"removed": [["NN", 1, 2]], "added": [["NNP", 1, 2]], "is_tag": True}},
    ]  # fmt: skip
    findings = [
        finding(1, "boundary", "NP", "NP", patch={
            "line": 10, "old": [f"{ANNOTATED}\n"], "new": [f"{SUGGESTED}\n"]}),
        finding(2, "label", "NP", "ADVP", suggested_tree=relabelled, parts=parts, elsewhere=[
            {"file": "b.mrg", "line": 7, "tree": 31, "annotation": "<b>ADVP</b>"}],
            patch={"line": 20, "old": ["x\n", "y\n"], "new": ["z\n"]}),
        finding(3, "tag", EVIL, "NNP", annotated_tree=evil, words=[EVIL, "</title>"],
            suggested_tree=evil.replace("(NN", "(NNP"), start=0, end=1, file="b.mrg"),
        finding(4, "missing bracket", "", "ADVP", annotated_tree=HEBREW.replace(
            f"(ADVP (RB {LATE}))", f"(RB {LATE})"), suggested_tree=HEBREW,
            words=[DOG, BARKED, LATE], start=2, end=3,
            patch={"line": 40, "old": ["last"], "new": ["now\n", "more"]}),
        finding(5, "unreadable", "", "", annotated_tree=None, suggested_tree=None, words=[],
            start=0, end=0, p_annotated=None, p_suggested=None, expected_precision=1.0),
    ]  # fmt: skip
    return {
        "findings": findings,
        "files": {"a.mrg": "5f" * 32, "b.mrg": "6a" * 32},
        "trust": {"planted": 400, "precision_at_100": 0.85, "error_rate": 0.01, "folds": 5,
                  "recall": {"label": 0.8, "tag": 0.6}},
        "drawings": draw_findings(findings, draw_brackets),
    }  # fmt: skip
