"""`sapwood audit`: findings in places, any number of jobs, resumed folds, bad input."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Result, Run

import sapwood as sw
from sapwood.cli.audit_outputs import finding_lines
from sapwood.constituency.audit import posteriors
from sapwood.constituency.audit.run import AuditSettings
from sapwood.core.outputs import hold_output

N = 40  # trees; more would only take longer
KEYS = {
    "rank", "file", "line", "tree", "start", "end", "kind", "annotated", "suggested",
    "p_annotated", "p_suggested", "expected_precision", "id", "words", "annotated_tree",
    "suggested_tree", "parts", "elsewhere",
}  # fmt: skip


def lines_of(result: Result) -> str:
    """What a command printed that must have succeeded."""
    assert result.status == 0, result.err
    return result.out


WRONG = "(S (NP (DT the) (NN dog)) (VP (NN sleeps)) (. .))"  # a verb as a noun


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some bundled trees, with one wrong tag on line N + 1."""
    path = tmp_path_factory.mktemp("audit") / "trees.mrg"
    bank = sw.bundled_treebank("dev")
    path.write_text("\n".join([str(bank[k]) for k in range(N)] + [WRONG]) + "\n")
    return path


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hidden states are enough here, and much faster."""
    monkeypatch.setattr(
        AuditSettings,
        "__init__",
        _with_plan(AuditSettings.__init__, (sw.Candidate("spectral", 2),)),
    )


def _with_plan(init, plan):  # type: ignore[no-untyped-def]
    def new(self, **values):  # type: ignore[no-untyped-def]
        init(self, **{"plan": plan, "planted_least": 100, "most_copies": 3} | values)

    return new


def test_any_number_of_jobs_gives_the_same_bytes(cli: Run, trees: Path) -> None:
    one, two = (
        cli("audit", trees, "--fast", "--folds", 2, "--json", "--jobs", jobs) for jobs in (1, 2)
    )
    assert one.status == two.status == 0, one.err
    assert one.out == two.out
    found = json.loads(one.out)
    assert {"findings", "trust"} <= found.keys()
    first = found["findings"][0]
    assert first.keys() == KEYS
    precisions = [row["expected_precision"] for row in found["findings"]]
    assert precisions == sorted(precisions, reverse=True)
    assert [row["rank"] for row in found["findings"]] == list(range(1, len(precisions) + 1))
    places = [row["tree"] for row in found["findings"]]
    assert len(set(places)) == len(places)  # a sentence is one finding
    (wrong,) = [row for row in found["findings"] if row["tree"] == N + 1]
    assert wrong["line"] == N + 1
    tags = [part for part in wrong["parts"] if (part["start"], part["kind"]) == (2, "tag")]
    assert [(part["annotated"], part["suggested"][:2]) for part in tags] == [("NN", "VB")]
    assert f"({tags[0]['suggested']} sleeps)" in wrong["suggested_tree"]


def test_an_interrupted_audit_goes_on_with_the_folds_that_are_missing(
    cli: Run, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt, work = [], tmp_path / "folds"
    judge = posteriors.judge_window

    def counted(window, parser):  # type: ignore[no-untyped-def]
        learnt.append(len(window))
        return judge(window, parser)

    monkeypatch.setattr(posteriors, "judge_window", counted)
    command = ["audit", trees, "--fast", "--folds", 2, "--json", "--jobs", 1, "--work", work]
    first = cli(*command)
    assert first.status == 0, first.err
    assert {path.name for path in work.iterdir()} == {"audit.json", "fold-1.npz", "fold-2.npz"}
    assert sum(learnt) == N + 1
    (work / "fold-2.npz").unlink()
    learnt.clear()
    again = cli(*command)
    assert 0 < sum(learnt) < N + 1
    assert again.out == first.out
    other = cli(*command, "--seed", 1)
    assert other.status == 1
    assert "another audit (seed differ)" in other.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
@pytest.mark.parametrize("option", ["-o", "--work"])
def test_two_audits_do_not_use_one_place(
    cli: Run, trees: Path, tmp_path: Path, option: str
) -> None:
    place = tmp_path / "place"
    with hold_output(place):
        result = cli("audit", trees, "--fast", "--folds", 2, "--jobs", 1, option, place)
    assert result.status == 1
    assert f"{place}: another command is writing it" in result.err
    assert not any(tmp_path.iterdir())


def test_expect_and_top_shorten_the_list(cli: Run, trees: Path, tmp_path: Path) -> None:
    work = ("--work", tmp_path / "folds", "--fast", "--folds", 2, "--jobs", 1)
    every = json.loads(lines_of(cli("audit", trees, *work, "--json")))["findings"]
    few = json.loads(lines_of(cli("audit", trees, *work, "--json", "--expect", 0.5)))["findings"]
    assert few == [row for row in every if row["expected_precision"] >= 0.5]
    two = json.loads(lines_of(cli("audit", trees, *work, "--json", "--top", 2)))["findings"]
    assert two == every[:2]
    shown = cli("audit", trees, *work, "--top", 1)
    assert shown.out.startswith(f"   1  {trees}:")
    trust = cli("audit", trees, *work, "--trust")
    assert "recall: tag" in trust.out
    assert "note: No documents are marked" in trust.err


def test_unreadable_trees_are_findings(cli: Run, fails: Run, trees: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.mrg"
    path.write_text("(S (N a) b)\n" + trees.read_text())
    command = ("audit", path, "--fast", "--folds", 2, "--jobs", 1, "--json")
    fails(*command)
    found = json.loads(lines_of(cli(*command, "--skip-bad")))["findings"]
    assert [(row["kind"], row["line"]) for row in found if row["kind"] == "unreadable"] == [
        ("unreadable", 1)
    ]


def test_too_few_trees_are_refused(fails: Run, misused: Run, tmp_path: Path) -> None:
    path = tmp_path / "one.mrg"
    path.write_text(WRONG + "\n")
    assert "at least 10 trees" in fails("audit", path, "--fast").err
    misused("audit", path, "--fast", "--budget", "5m")
    misused("audit")


def test_findings_in_lines() -> None:
    from sapwood.auditing.findings import Elsewhere, Finding

    one = Finding(1, "a.mrg", 3, 2, 1, 2, "tag", "NN", "VB", 0.1, 0.9, 0.5, words=("we", "go"))
    assert finding_lines(one) == [
        "   1  a.mrg:3  tree 2  tag: NN (0.100) -> VB (0.900)  expected precision 0.50",
        "      we [ go ]",
    ]
    places = tuple(Elsewhere(f"{name}.mrg", 7, 1, "VBP") for name in "bcde")
    assert finding_lines(replace(one, elsewhere=places))[2:] == [
        "      the same words elsewhere: VBP at b.mrg:7, VBP at c.mrg:7, VBP at d.mrg:7"
    ]
