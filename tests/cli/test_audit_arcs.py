"""`sapwood depend audit`: resumed folds, any number of jobs, files of the other kind, bad input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.arc_toys import bank
from tests.conftest import Run

import sapwood as sw
from sapwood.core.outputs import hold_output
from sapwood.dependency.audit import posteriors

N = 40  # sentences
HOW = ("--fast", "--folds", 2, "--jobs", 1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small treebank."""
    path = tmp_path_factory.mktemp("audit") / "toy.conllu"
    sw.write_arcs(list(bank(N, seed=5)), path)
    return path


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the sentences that are judged."""
    lengths, judge = list[int](), posteriors.judge

    def counted(sentence: Any, parser: Any) -> Any:
        lengths.append(len(sentence[0]))
        return judge(sentence, parser)

    monkeypatch.setattr(posteriors, "judge", counted)
    return lengths


def test_an_interrupted_audit_goes_on_with_the_folds_that_are_missing(
    cli: Run, fails: Run, file: Path, tmp_path: Path, judged: list[int]
) -> None:
    work = tmp_path / "deep" / "folds"
    command = ["depend", "audit", file, *HOW, "--json", "--work", work]
    first = cli(*command)
    assert first.status == 0, first.err
    assert {path.name for path in work.iterdir()} == {"audit.json", "fold-1.npz", "fold-2.npz"}
    assert len(judged) == N
    (work / "fold-2.npz").unlink()
    judged.clear()
    again = cli(*command)
    assert 0 < len(judged) < N
    assert again.out == first.out
    judged.clear()
    assert cli(*command).out == first.out
    assert not judged
    other = fails(*command, "--seed", 1)
    assert f"{work}: holds the folds of another audit (seed differ)" in other.err
    (work / "fold-1.npz").write_bytes(b"PK\3\4 torn")
    assert "fold-1.npz: cannot be read as a finished fold" in fails(*command).err
    (work / "audit.json").write_text("[]")
    assert "holds the folds of another audit" in fails(*command).err


def test_folds_of_other_documents_are_not_taken_for_finished(
    cli: Run, fails: Run, file: Path, tmp_path: Path
) -> None:
    blocks = file.read_text().split("\n\n")[:N]
    for name, starts in (("a", range(0, N, 8)), ("b", range(0, N, 10))):
        text = "".join(
            f"{'# newdoc' + chr(10) if k in starts else ''}{block}\n\n"
            for k, block in enumerate(blocks)
        )
        (tmp_path / f"{name}.conllu").write_text(text)
    work = ("--work", tmp_path / "folds", "--json")
    assert cli("depend", "audit", tmp_path / "a.conllu", *HOW, *work).status == 0
    found = fails("depend", "audit", tmp_path / "b.conllu", *HOW, *work).err
    assert "another audit (documents differ)" in found


def test_folds_are_kept_beside_an_output_until_it_is_written(
    cli: Run, fails: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapwood.auditing import html

    def fail(*_: object) -> str:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(html, "report_html", fail)
        assert (
            "no space" in fails("depend", "audit", file, *HOW, "-o", tmp_path / "report.html").err
        )
    folder = tmp_path / "report.html.folds"
    assert len(list(folder.iterdir())) == 3
    assert cli("depend", "audit", file, *HOW, "-o", tmp_path / "report.html").status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_any_number_of_jobs_gives_the_same_bytes(cli: Run, file: Path) -> None:
    how = ("--fast", "--folds", 2, "--json", "--jobs")
    one, two = (cli("depend", "audit", file, *how, jobs) for jobs in (1, 2))
    assert one.status == two.status == 0, one.err
    assert one.out == two.out


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
@pytest.mark.parametrize("option", ["-o", "--work"])
def test_two_audits_do_not_use_one_place(
    fails: Run, file: Path, tmp_path: Path, option: str
) -> None:
    place = tmp_path / "place"
    with hold_output(place):
        result = fails("depend", "audit", file, *HOW, option, place)
    assert f"{place}: another command is writing it" in result.err


TREES = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n" * 12


@pytest.mark.parametrize("skip", [(), ("--skip-bad",)])
def test_each_audit_names_the_other(fails: Run, file: Path, tmp_path: Path, skip: Any) -> None:
    path = tmp_path / "a.mrg"
    path.write_text("\ufeff" + TREES)
    arcs = fails("depend", "audit", path, "--fast", *skip).err
    assert f"{path}: holds phrase trees (Penn brackets), expected CoNLL-U" in arcs
    assert "hint: `sapwood audit` takes phrase trees" in arcs
    phrases = fails("audit", file, "--fast", *skip).err
    assert f"{file}: holds dependency trees (CoNLL-U), expected phrase trees" in phrases
    assert "hint: `sapwood depend audit` takes dependency trees" in phrases


def test_each_function_names_the_other(file: Path) -> None:
    arcs, trees = sw.read_arcs(file), list(sw.read_trees(io.StringIO(TREES)))
    for given in (arcs, list(arcs)):
        with pytest.raises(sw.SapwoodError, match="holds dependency trees") as caught:
            sw.audit(given, fast=True)
        assert caught.value.hint == "`sapwood.audit_arcs` takes dependency trees"
    with pytest.raises(sw.SapwoodError, match="holds phrase trees") as caught:
        sw.audit_arcs(trees, fast=True)
    assert caught.value.hint == "`sapwood.audit` takes phrase trees"


def test_python_takes_files_and_trees(file: Path) -> None:
    of_file = sw.audit_arcs(file, fast=True, folds=2)
    of_bank = sw.audit_arcs(sw.read_arcs(file), fast=True, folds=2)
    of_list = sw.audit_arcs(iter(sw.read_arcs(file)), fast=True, folds=2)
    assert of_bank == of_list
    assert len(of_file.findings) == len(of_bank.findings) > 0
    for one, other in zip(of_file.findings, of_bank.findings, strict=True):
        assert (one.tree, one.parts) == (other.tree, other.parts)
    with pytest.raises(sw.CorpusError, match="sentence 1: word 1 has the head -1"):
        sw.audit_arcs([sw.Arcs(["a", "b"], [-1, -1])] * 12, fast=True)


def test_unreadable_sentences_are_findings(
    cli: Run, fails: Run, file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text("1\tx\n\n" + file.read_text() + "1\ta\t_\tX\t_\t_\t1\tdep\t_\t_\n\n")
    assert "expected 10 columns" in fails("depend", "audit", path, *HOW).err
    result = cli("depend", "audit", path, *HOW, "--skip-bad", "--json")
    assert result.status == 0, result.err
    bad = [row for row in json.loads(result.out)["findings"] if row["kind"] == "unreadable"]
    lines = path.read_text().count("\n")
    assert [row["line"] for row in bad] == [1, lines - 1]
    assert "its own head" in bad[1]["suggested_tree"]
    assert cli("depend", "audit", path, *HOW, "--skip-bad", "-o", tmp_path / "r.html").status == 0


def test_what_cannot_be_judged_is_said(cli: Run, fails: Run, misused: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    for text, words in (
        ("", "at least 10 sentences, but there are 0"),
        ("# newdoc\n", "at least 10 sentences, but there are 0"),
        (f"{sw.Arcs(['a', 'b'], [2, 0])}\n\n", "at least 10 sentences, but there are 1"),
    ):
        path.write_text(text)
        assert words in fails("depend", "audit", path, "--fast").err
    path.write_text("1\tx\n\n" * 3)
    found = fails("depend", "audit", path, "--fast", "--skip-bad").err
    assert f"there are 0, beside 3 that cannot be read (the first: {path}:1: expected 10" in found
    misused("depend", "audit", path, "--fast", "--budget", "5m")
    misused("depend", "audit")


def test_two_documents_and_no_repeated_words(cli: Run, tmp_path: Path) -> None:
    """The audit runs, and its notes say what it could not do."""
    path = tmp_path / "a.conllu"
    blocks = []
    for k, one in enumerate(bank(20, seed=3)):
        words = [f"{word}{k}x{place}" for place, word in enumerate(one.words)]
        mark = "# newdoc\n" if k in {0, 10} else ""
        arcs = sw.Arcs(words, one.heads, one.relations, one.upos, one.xpos)
        blocks.append(f"{mark}{arcs}\n\n")
    path.write_text("".join(blocks))
    result = cli("depend", "audit", path, *HOW, "--trust")
    assert result.status == 0, result.err
    for words in (
        "note: No documents are marked, so that folds are made of runs of",
        "note: No words are repeated in the same context",
        "note: No arcs and tags stand in passages that occur twice",
        "note: 20 sentences are too few for a list that can be trusted: of the first 8 places",
    ):
        assert words in result.err
