"""Audits from the page: an uploaded treebank, one audit at a time, in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Any, ClassVar

from sapwood.web.guard import Refusal
from sapwood.web.runs import DONE, BackgroundRun, BackgroundRuns

BUNDLED = "bundled"
N_SHOWN = 300  # findings that the page shows
LONGEST_TITLE = 80  # characters
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh")


class AuditRun(BackgroundRun):
    """One audit and its progress so far; its files lie in a folder of its own."""

    noun: ClassVar[str] = "audit"

    def __init__(self, name: str, title: str, wish: dict[str, Any], folder: Path) -> None:
        super().__init__(name, {"audit": name, "title": title, **wish, "progress": None})
        self.folder = folder

    @property
    def out(self) -> Path:
        """The file of the finished report."""
        return self.folder / "report.json"

    def add_other(self, kind: str | None, event: dict[str, Any]) -> None:
        """Record the progress of the audit: the running steps, and the fraction done."""
        if kind == "progress":
            self.record["progress"] = event

    def discard(self) -> None:
        """Remove the folder with its files."""
        rmtree(self.folder, ignore_errors=True)


class Audits(BackgroundRuns[AuditRun]):
    """Runs audits one at a time, and keeps the report of the last one."""

    noun: ClassVar[str] = "audit"
    one: ClassVar[str] = "an audit"

    def start(self, title: str, data: bytes, wish: dict[str, Any]) -> dict[str, Any]:
        """Begin an audit of a treebank in a process of its own.

        Parameters
        ----------
        title
            The name of the file on the client's side, which findings name.
        data
            The treebank; empty for the bundled trees.
        wish
            `is_fast` and `folds`.

        Raises
        ------
        Refusal
            409 while another one runs, 422 for a compressed file.
        """
        if data.startswith(_COMPRESSED):
            hint = "unpack it first; only the server's own files are unpacked"
            raise Refusal(422, "a compressed file, expected text", hint)
        with self._lock:
            self.check_free()
            name = self.store.fresh_name("audit")
            folder = self.store.folder / name
            title = file_name(title) if data else f"{BUNDLED}.mrg"
            run = AuditRun(name, title, wish, folder)
            folder.mkdir()
            if data:
                (folder / title).write_bytes(data)
            if self.last is not None:
                self.last.discard()
            order = {"folder": str(folder), "title": title, "top": N_SHOWN, **wish}
            return self.begin(run, "audit", order)

    def report(self) -> Path:
        """The file of the finished report; refused with 404 where there is none."""
        if self.last is None or self.last.state != DONE:
            raise Refusal(
                404, "no audit has ended here", "start one, and repeat the request when it is done"
            )
        return self.last.out


def file_name(title: str) -> str:
    """A name of a file in a folder of the server, from what a client calls its treebank.

    Examples
    --------
    >>> file_name("../../wsj 1.mrg.gz"), file_name(".."), file_name("report.json")
    ('wsj 1.mrg', 'treebank.mrg', 'report.json.mrg')
    """
    name = PurePosixPath(title.replace("\\", "/")).name
    name = re.sub(r"[^\w .+-]", "_", name)[-LONGEST_TITLE:].lstrip(".- ")
    while name.lower().endswith((".gz", ".xz", ".bz2")):
        name = name.rpartition(".")[0]
    if not name:
        return "treebank.mrg"
    return f"{name}.mrg" if name == "report.json" else name


def audit_upload(folder: str, title: str, top: int, *, is_fast: bool, folds: int) -> dict[str, Any]:
    """Audit the treebank in a folder, and write the report into it; returns sizes and seconds.

    Runs in a process of its own, which works in that folder from then on: findings name the file as
    the client does.
    """
    import os
    import warnings

    from sapwood.core.progress import listening

    warnings.simplefilter("ignore")
    os.chdir(folder)
    with listening(_Teller()):
        report = _audit_file(Path(title), top, is_fast=is_fast, folds=folds)
    from sapwood.report import to_json

    Path("report.json").write_text(to_json(report), encoding="utf-8")
    trust = report["trust"]
    return {"findings": len(report["findings"]), "trees": trust["trees"], "words": trust["words"]}


def _audit_file(file: Path, top: int, *, is_fast: bool, folds: int) -> dict[str, Any]:
    """The report of an audit, with drawings and patches, as the page shows it."""
    from sapwood.auditing.decisions import Correct, with_patches
    from sapwood.auditing.html import draw_brackets, draw_findings, report_name
    from sapwood.corpora.formats import N_PEEKED_CHARACTERS, foreign_kind

    draw, correct = draw_brackets, None
    if not file.exists():
        from sapwood import audit
        from sapwood.constituency.data.treebank import bundled_treebank

        found = audit(list(bundled_treebank("dev")), fast=is_fast, folds=folds)
    else:
        with file.open(encoding="utf-8-sig", errors="replace") as text:
            kind = foreign_kind(text.read(N_PEEKED_CHARACTERS))
        corrector: Correct
        if kind is not None and kind.title == "CoNLL-U":
            from sapwood import audit_arcs
            from sapwood.dependency.audit.corrections import ArcCorrector
            from sapwood.dependency.data.bank import Arcs

            found = audit_arcs([str(file)], fast=is_fast, folds=folds, skip_bad=True)
            corrector = ArcCorrector()

            def draw(text: str) -> str:
                return Arcs.parse(text).to_svg()
        else:
            from sapwood import audit
            from sapwood.constituency.audit.corrections import BracketCorrector

            found = audit([str(file)], fast=is_fast, folds=folds, skip_bad=True)
            corrector = BracketCorrector()
        correct = corrector
    report = found.as_dict()
    report["n_findings"] = len(report["findings"])
    report["findings"] = report["findings"][:top]
    if correct is not None:
        report["findings"] = with_patches(report["findings"], correct)
    report["drawings"] = draw_findings(report["findings"], draw)
    return report | {"name": report_name(report)}


class _Teller:
    """Prints the running steps, at most as often as a page polls."""

    SECONDS = 0.2

    def __init__(self) -> None:
        self.last = float("-inf")

    def __call__(self, event: Any) -> None:
        from time import monotonic

        from sapwood.web.processes import tell

        if monotonic() - self.last < self.SECONDS:
            return
        self.last = monotonic()
        steps = [one.what for one in event.path if one.what]
        tell("progress", steps=steps, fraction=event.share)
