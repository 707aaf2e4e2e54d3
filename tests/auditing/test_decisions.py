"""Decisions files, and files that are corrected by them byte for byte."""

from __future__ import annotations

import gzip
import json
import lzma
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.auditing.decisions import (
    ACCEPT,
    FORMAT,
    DecidedPart,
    Decision,
    Replacement,
    apply_decisions,
    patch_of,
    read_decisions,
    replace_in,
    with_patches,
)
from sapwood.constituency.audit.corrections import BracketCorrector
from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError


def upper(text: str, decision: Decision) -> list[Replacement]:
    """Replaces the annotated text on the line of the decision, a stand-in for trees."""
    at = text.index(decision.annotated_tree)
    return [Replacement(at, at + len(decision.annotated_tree), decision.suggested_tree)]


def decision(file: Path | str, old: str, new: str, made: str = ACCEPT) -> Decision:
    return Decision("f", str(file), 1, 1, made, old, new)


def digests(*files: Path) -> dict[str, str]:
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"a\r\nold\rb\n\n", "utf-8"),
        ("\ufeffold é".encode(), "utf-8"),
        ("é old".encode("latin-1"), "latin-1"),
        ("é old".encode("utf-16"), "utf-16"),
    ],
)
def test_all_other_bytes_stay(tmp_path: Path, data: bytes, encoding: str) -> None:
    file = tmp_path / "a.mrg"
    file.write_bytes(data)
    file.chmod(0o640)
    done = apply_decisions(digests(file), [decision(file, "old", "né")], upper, encoding=encoding)
    new = "né".encode("utf-16-le" if encoding == "utf-16" else encoding)
    old = "old".encode("utf-16-le" if encoding == "utf-16" else encoding)
    assert file.read_bytes() == data.replace(old, new)
    assert file.stat().st_mode & 0o777 == 0o640
    assert [(one.file, one.corrections) for one in done] == [(str(file), 1)]


def test_compression_stays(tmp_path: Path) -> None:
    for name, pack, unpack in (
        ("a.mrg.gz", gzip.compress, gzip.decompress), ("a.mrg.xz", lzma.compress, lzma.decompress)
    ):  # fmt: skip
        file = tmp_path / name
        file.write_bytes(pack(b"one old two\n"))
        apply_decisions(digests(file), [decision(file, "old", "new")], upper)
        assert unpack(file.read_bytes()) == b"one new two\n"


def test_a_changed_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    files = [tmp_path / "a.mrg", tmp_path / "b.mrg"]
    for file in files:
        file.write_text("old")
    known = digests(*files)
    files[1].write_text("old ")
    wishes = [decision(file, "old", "new") for file in files]
    with pytest.raises(SapwoodError, match="changed since it was audited"):
        apply_decisions(known, wishes, upper)
    assert [file.read_text() for file in files] == ["old", "old "]
    with pytest.raises(SapwoodError, match="not among the audited files"):
        apply_decisions({}, wishes[:1], upper)


def test_bytes_that_would_change_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_bytes("\ufeffold".encode("utf-16-be"))
    with pytest.raises(SapwoodError, match="byte for byte"):
        apply_decisions(digests(file), [decision(file, "old", "new")], upper, encoding="utf-16")
    with pytest.raises(CorpusError, match="not ascii text"):
        apply_decisions(digests(file), [decision(file, "old", "new")], upper, encoding="ascii")


def test_only_accepted_findings_count(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("old")
    rest = [decision(file, "old", "new", made) for made in ("reject", "skip")]
    assert apply_decisions(digests(file), rest, upper) == []
    assert file.read_text() == "old"


def test_outputs(tmp_path: Path) -> None:
    files = [tmp_path / "a.mrg", tmp_path / "b.mrg"]
    for file in files:
        file.write_text("old")
    wishes, known = [decision(file, "old", "new") for file in files], digests(*files)
    with pytest.raises(SapwoodError, match="expected a folder"):
        apply_decisions(known, wishes, upper, out=tmp_path / "none")
    with pytest.raises(SapwoodError, match="is also an input"):
        apply_decisions(known, wishes, upper, out=tmp_path)
    folder = tmp_path / "out"
    folder.mkdir()
    apply_decisions(known, wishes, upper, out=folder)
    assert [(folder / file.name).read_text() for file in files] == ["new", "new"]
    apply_decisions(known, wishes[:1], upper, out=tmp_path / "one.mrg")
    assert (tmp_path / "one.mrg").read_text() == "new"
    assert [file.read_text() for file in files] == ["old", "old"]


PART = {"decision": "reject", "kind": "tag", "edit": {}}


def test_decisions_file(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "id": "f", "file": "a.mrg", "line": 3, "tree": 1, "decision": "accept",
        "annotated_tree": "(A a)", "suggested_tree": "(B a)",
    }  # fmt: skip
    path = tmp_path / "decisions.json"

    def read(**change: Any) -> Any:
        data = {"sapwood": FORMAT, "files": {"a.mrg": "00"}, "decisions": [row]}
        path.write_text(json.dumps(data | change))
        return read_decisions(path)

    assert read() == ({"a.mrg": "00"}, [Decision(**row)])
    assert read(sapwood="audit decisions 1") == read()  # of reports without parts
    both = [PART, PART | {"decision": "accept"}]
    (one,) = read(decisions=[row | {"parts": both}])[1]
    assert one.accepted_parts() == [1]
    assert one.parts[0] == DecidedPart("reject", "tag", {})
    assert Decision(**row).accepted_parts() is None
    for change, message in (
        ({"sapwood": "audit decisions 3"}, "expected 'audit decisions 2'"),
        ({"decisions": [row | {"file": "a\0"}]}, '"file" is '),
        ({"decisions": [row | {"id": "f\n"}]}, '"id" is '),
        ({"decisions": [row | {"parts": [PART | {"decision": []}]}]}, "a part is"),
        ({"decisions": [row | {"parts": {}}]}, '"parts" is a dict'),
        ({"decisions": [row | {"parts": [PART | {"decision": "yes"}]}]}, "a part is"),
        ({"decisions": [row | {"parts": [PART | {"edit": 3}]}]}, "a part is"),
        ({"decisions": [row | {"parts": [PART]}]}, "its parts say something else"),
        ({"files": None}, "is missing"),
        ({"decisions": [3]}, "decision 1 is an int"),
        ({"decisions": [row | {"line": True}]}, '"line" is a bool'),
        ({"decisions": [row | {"decision": "yes"}]}, "'yes'"),
    ):
        with pytest.raises(ModelFormatError, match=message):
            read(**change)
    path.write_text("(S")
    with pytest.raises(ModelFormatError, match="not JSON"):
        read_decisions(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ModelFormatError, match="not JSON"):
        read_decisions(path)
    with pytest.raises(CorpusError, match="cannot read"):
        read_decisions(tmp_path / "none.json")


LINES = st.lists(st.sampled_from(["a\n", "bb\r\n", "\n", "ccc\n"]), min_size=1, max_size=6)


@given(LINES, st.data())
def test_a_patch_makes_the_corrected_text(lines: list[str], data: st.DataObject) -> None:
    text = "".join(lines) + data.draw(st.sampled_from(["", "end"]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=4)))
    some = [Replacement(a, b, data.draw(st.sampled_from(["", "x", "y\n"])))
            for a, b in zip(cuts[::2], cuts[1::2], strict=False)]  # fmt: skip
    patch = patch_of(text, some)
    assert patch is not None
    whole = text.splitlines(keepends=True)
    first = patch["line"] - 1
    assert whole[first : first + len(patch["old"])] == patch["old"]
    made = [*whole[:first], *patch["new"], *whole[first + len(patch["old"]) :]]
    assert "".join(made) == replace_in(text, some)


def test_overlapping_corrections_are_refused() -> None:
    with pytest.raises(SapwoodError, match="same characters"):
        replace_in("abcd", [Replacement(0, 2, "x"), Replacement(1, 3, "y")])


def test_findings_get_patches_where_their_lines_are_known(tmp_path: Path) -> None:
    file, packed = tmp_path / "a.mrg", tmp_path / "b.mrg.gz"
    file.write_text("x\nold\n")
    packed.write_bytes(gzip.compress(b"old\n"))
    rows = [
        {"id": "1", "file": str(name), "line": 2, "tree": 1, "annotated_tree": old,
         "suggested_tree": "new"}
        for name, old in ((file, "old"), (packed, "old"), ("<stdin>", "old"), (file, ""))
    ]  # fmt: skip
    found = [row.get("patch") for row in with_patches(rows, upper)]
    assert found == [{"line": 2, "old": ["old\n"], "new": ["new\n"]}, None, None, None]


TREE = "( (S (NP-SBJ (NN dogs)) (VP (VB bark)\n (NP (NP (NN cats)) (PP (IN at) (NN night))))) )\n"


def of_part(kind: str, removed: list[Any], added: list[Any]) -> dict[str, Any]:
    edit = {"removed": removed, "added": added, "is_tag": kind == "tag"}
    return {"kind": kind, "edit": edit}


def test_parts_that_stand_alone_have_patches(tmp_path: Path) -> None:
    """Two parts stand alone; the third, whose bracket crosses another, needs the second."""
    file = tmp_path / "a.mrg"
    before = "# \U0001f333 a comment\n"
    file.write_text(before + TREE)
    old = "(TOP (S (NP (NN dogs)) (VP (VB bark) (NP (NP (NN cats)) (PP (IN at) (NN night))))))"
    new = "(TOP (S (NP (NNS dogs)) (VP (X (VB bark) (NP (NN cats))) (PP (IN at) (NN night)))))"
    parts = [
        of_part("tag", [["NN", 0, 1]], [["NNS", 0, 1]]),
        of_part("extra", [["NP", 2, 5]], []),
        of_part("missing", [], [["X", 1, 3]]),
    ]
    row = {"id": "1", "file": str(file), "line": 2, "tree": 1, "annotated_tree": old,
           "suggested_tree": new, "parts": parts}  # fmt: skip
    (found,) = with_patches([row], BracketCorrector())
    known = found["part_patches"]
    assert known["line"] == 2
    assert known["old"] == [f"{line}\n" for line in TREE.split("\n")[:-1]]
    assert [0, 1] in known["sets"]
    assert [2] not in known["sets"]
    assert [0, 2] not in known["sets"]
    for some in known["sets"]:
        made = [part | {"decision": "accept" if k in some else "reject"}
                for k, part in enumerate(parts)]  # fmt: skip
        decided = Decision(
            "1",
            str(file),
            2,
            1,
            ACCEPT,
            old,
            new,
            tuple(DecidedPart(part["decision"], part["kind"], part["edit"]) for part in made),
        )
        pieces = [Replacement(*one) for k in some for one in known["parts"][k]]
        expected = replace_in(before + TREE, BracketCorrector()(before + TREE, decided))
        assert before + replace_in("".join(known["old"]), pieces) == expected


def test_parts_that_change_the_same_characters_have_patches_apart(tmp_path: Path) -> None:
    """Two parts each remove the same bracket: either stands alone, both together do not."""
    file = tmp_path / "a.mrg"
    old = "(TOP (S (A a) (X (B b) (C c)) (D d)))"
    file.write_text(f"{old}\n")
    new = "(TOP (S (Y (A a) (B b)) (Z (C c) (D d))))"
    parts = [
        of_part("boundary", [["X", 1, 3]], [["Y", 0, 2]]),
        of_part("boundary", [["X", 1, 3]], [["Z", 2, 4]]),
        of_part("tag", [["D", 3, 4]], [["E", 3, 4]]),
    ]
    row = {"id": "1", "file": str(file), "line": 1, "tree": 1, "annotated_tree": old,
           "suggested_tree": new.replace("(D d)", "(E d)"), "parts": parts}  # fmt: skip
    (found,) = with_patches([row], BracketCorrector())
    assert found["part_patches"]["sets"][:3] == [[0], [1], [2]]
    assert [0, 1] not in found["part_patches"]["sets"]
    assert [0, 2] in found["part_patches"]["sets"]
