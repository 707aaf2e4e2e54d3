"""What the audits write: reports, and corrected files."""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tests.arc_toys import bank as arc_bank

import sapwood as sw
from sapwood.auditing.findings import Audit, Finding, Trust
from sapwood.cli.audit_outputs import Asked, select, show_audit
from sapwood.core.outputs import hold_output


def decisions(folder: Path, file: Path, line: int, old: str, new: str) -> Path:
    """A decisions file that accepts one finding."""
    one = {"id": "f", "file": str(file), "line": line, "tree": 1, "decision": "accept",
           "annotated_tree": old, "suggested_tree": new}  # fmt: skip
    data = {
        "sapwood": "audit decisions 1",
        "files": {str(file): sha256(file.read_bytes()).hexdigest()},
        "decisions": [one],
    }
    path = folder / "decisions.json"
    path.write_text(json.dumps(data))
    return path


def test_brackets_are_corrected_in_place_or_elsewhere(cli, tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_bytes(b"# x\r\n( (S (NP-SBJ (NN dogs))\r\n   (VP (VB bark))) )\r\n")
    old = "(TOP (S (NP (NN dogs)) (VP (VB bark))))"
    path = decisions(tmp_path, file, 2, old, old.replace("NN", "NNS"))
    out = tmp_path / "b.mrg"
    result = cli("audit", "--apply", path, "-o", out)
    assert result.status == 0, result.err
    expected = file.read_bytes().replace(b"NN", b"NNS")
    assert out.read_bytes() == expected != file.read_bytes()
    assert f"{file}: 1 tree corrected into {out}" in result.err
    cli("audit", "--apply", path)
    assert file.read_bytes() == expected
    again = cli("audit", "--apply", path)
    assert (again.status, "has changed since it was audited" in again.err) == (1, True)


def test_arcs_are_corrected(cli, tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    arcs = sw.Arcs(["dogs", "bark"], [2, 0], ["obj", "root"], ["NOUN", "VERB"])
    file.write_text(f"# text = dogs bark\n{arcs}\n\n")
    new = sw.Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])
    path = decisions(tmp_path, file, 2, str(arcs), str(new))
    assert cli("depend", "audit", "--apply", path).status == 0
    assert file.read_text() == f"# text = dogs bark\n{new}\n\n"


def test_each_command_names_the_other_for_decisions(cli, tmp_path: Path) -> None:
    file = tmp_path / "a"
    arcs = sw.Arcs(["dogs", "bark"], [2, 0])
    file.write_text(f"{arcs}\n\n")
    path = decisions(tmp_path, file, 1, str(arcs), str(arcs))
    result = cli("audit", "--apply", path)
    assert (result.status, "hint: `sapwood depend audit --apply`" in result.err) == (1, True)
    file.write_text("(S (NN dogs) (VB bark))\n")
    path = decisions(tmp_path, file, 1, "(TOP (S (NN dogs) (VB bark)))", "(TOP (X dogs))")
    result = cli("depend", "audit", "--apply", path)
    assert (result.status, "hint: `sapwood audit --apply`" in result.err) == (1, True)


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_two_commands_do_not_correct_one_file_at_once(cli, tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("(S (NN dogs) (VB bark))\n")
    old = "(TOP (S (NN dogs) (VB bark)))"
    path = decisions(tmp_path, file, 1, old, old.replace("NN", "NNS"))
    with hold_output(file):
        result = cli("audit", "--apply", path)
    assert (result.status, "another command is writing it" in result.err) == (1, True)
    assert "NNS" not in file.read_text()


@pytest.mark.parametrize("command", [["audit"], ["depend", "audit"]])
def test_an_audit_needs_files(cli, command: list[str]) -> None:
    result = cli(*command)
    assert result.status == 2
    assert "name at least one file" in result.err


def test_arcs_are_audited(cli, tmp_path: Path) -> None:
    file, out = tmp_path / "a.conllu", tmp_path / "report.html"
    sw.write_arcs(list(arc_bank(40, seed=5)), file)
    how = ["--fast", "--folds", "2", "--jobs", "1"]
    result = cli("depend", "audit", file, *how, "--json")
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert found["trust"]["trees"] == 40
    for rank, one in enumerate(found["findings"], 1):
        assert one["rank"] == rank
        assert {"file", "line", "tree", "start", "end", "kind", "annotated", "suggested",
                "p_annotated", "p_suggested", "expected_precision"} <= set(one)  # fmt: skip
    assert cli("depend", "audit", file, *how, "-o", out).status == 0
    assert "Content-Security-Policy" in out.read_text()


def test_a_list_that_ends_before_unreadable_trees_says_so(capsys) -> None:
    numbers = (0, 1, "tag", "NN", "JJ", 0.1, 0.9, 0.5)
    first = Finding(1, "a.mrg", 3, 1, *numbers, words=("dogs",))
    bad = [
        Finding(k, "a.mrg", 5 + k, 0, 0, 0, "unreadable", None, None, 0.0, 0.0, 1.0) for k in (2, 3)
    ]
    found = Audit((first, *bad), Trust(trees=1))
    for top, expected in ((1, True), (2, False), (None, False)):
        shown = select(found, top, 0.0)
        show_audit(Asked("-", None, top, 0.0, False, True, "utf-8", False), shown, found)
        said = capsys.readouterr().err
        assert ("2 trees could not be read (the first in a.mrg:7)" in said) is expected
