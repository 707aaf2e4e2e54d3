"""`sapwood inspect` on models of method pivot: the feature that each state was made from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import bundled

import sapwood as sw
from sapwood.constituency.learn import features
from sapwood.constituency.report.inspect import INSIDE_PHRASES, OUTSIDE_PHRASES, pivot_of

NOTE = "pivot: the feature that a state was made from"
EM_NOTE = "EM has changed the states since (3 iterations)"


@pytest.fixture(scope="session")
def pivot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar of some bundled trees by pivots."""
    path = tmp_path_factory.mktemp("models") / "pivot.sapwood"
    sw.PivotLPCFG(4).fit(bundled("train")[:1000]).model_.save(path)
    return path


@pytest.fixture(scope="session")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose pivots are inside features: words of tags, rules of phrases."""
    path = tmp_path_factory.mktemp("models") / "inside.sapwood"
    sw.PivotLPCFG(4, side="inside").fit(bundled("train")[:1000]).model_.save(path)
    return path


@pytest.fixture(scope="session")
def refined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with EM iterations."""
    path = tmp_path_factory.mktemp("models") / "pivot-em.sapwood"
    sw.PivotLPCFG(4, iterations=3).fit(bundled("train")[:1000]).model_.save(path)
    return path


@pytest.mark.parametrize(
    ("name", "is_phrase", "feature"),
    [
        ("word: did", False, "word did"),
        ("word: :", False, "word :"),
        ("word: NP -> DT NN", True, "any rule"),
        ("left_label: .", False, "any word"),
        ("length: .", False, "any word"),
        ("rule: VP -> TO VP", True, "rule VP -> TO VP"),
        ("left_label: S -> NP|NN @S:<,", True, "left child NP|NN"),
        ("right_label: S -> NP|NN @S:<,", True, "right child @S:<,"),
        ("left_rule: NP -> NP NP", True, "rule below the left child, as in NP -> NP NP"),
        ("right_rule: NP -> NP NP", True, "rule below the right child, as in NP -> NP NP"),
        ("head: S -> NP VP", True, "head tag, as in S -> NP VP"),
        ("length: PP -> TO NP", True, "number of words, as in PP -> TO NP"),
        ("rule_above: NP -> DT [NN]", False, "rule above NP -> DT [NN]"),
        ("two_rules_above: A -> [B] C, D -> A [E]", True, "rules above A -> [B] C, D -> A [E]"),
        ("parent: PP -> IN [NP]", True, "parent, as in PP -> IN [NP]"),
        ("words_behind: PP -> IN [NP]", True, "number of words behind, as in PP -> IN [NP]"),
        ("shape: PP -> TO NP", True, "shape, as in PP -> TO NP"),
        ("shape: to", False, "shape, as in to"),
    ],
)
def test_pivots_in_words(name: str, is_phrase: bool, feature: str) -> None:
    found = pivot_of(name, is_phrase=is_phrase)
    assert found["feature"] == feature
    assert f"{found['template']}: {found['example']}" == name


@pytest.mark.parametrize("label", ["NP", "NN"])
def test_every_state_of_a_label_has_its_pivot(cli, pivot: Path, label: str) -> None:
    record = sw.load(pivot).record["pivots"][label]
    report = json.loads(cli("inspect", pivot, "--label", label, "--json").out)
    symbol = report["symbols"][0]
    assert len(symbol["pivots"]) == symbol["states"] > 1
    assert [f"{p['template']}: {p['example']}" for p in symbol["pivots"]] == record
    text = cli("inspect", pivot, "--label", label, "--top", 1).out
    assert NOTE in text
    for state, p in enumerate(symbol["pivots"]):
        head, _, rest = text.partition(f"  state {state}")[2].partition("\n")
        assert "state" not in head
        assert rest.splitlines()[0] == f"    pivot: {p['feature']}"


def test_the_overview_lists_pivots_by_state(cli, pivot: Path) -> None:
    report = json.loads(cli("inspect", pivot, "--json").out)
    kept = {row["symbol"]: row["pivots"] for row in report["symbols"] if "pivots" in row}
    assert set(kept) <= set(report["record"]["pivots"])
    text = cli("inspect", pivot, "--top", 2).out
    assert f"pivots of the states of {len(kept):,} symbols" in text
    assert text.count(NOTE) == 1
    first = list(kept)[:2]
    for name, pivots in kept.items():
        block = "\n".join(
            [f"  {name}", *(f"    state {h:<3} {p['feature']}" for h, p in enumerate(pivots))]
        )
        assert (block in text) == (name in first)
    assert f"... and {len(kept) - 2:,} more (--top, --label, --json)" in text
    (line,) = [line for line in text.splitlines() if line.startswith("record")]
    assert "pivots" not in line


def test_rare_words_are_explained_where_words_are_pivots(cli, inside: Path, pivot: Path) -> None:
    note = "class of unknown words"
    assert note in cli("inspect", inside, "--label", "NN", "--top", 1).out
    assert note not in cli("inspect", inside, "--label", "NP", "--top", 1).out
    assert note not in cli("inspect", pivot, "--label", "NN", "--top", 1).out


def test_every_template_has_words_for_it(inside: Path, pivot: Path) -> None:
    for path, known in ((inside, INSIDE_PHRASES), (pivot, OUTSIDE_PHRASES)):
        for pivots in sw.load(path).record["pivots"].values():
            assert {name.partition(": ")[0] for name in pivots} <= set(known)
    assert (set(INSIDE_PHRASES), set(OUTSIDE_PHRASES)) == (
        set(features.INSIDE),
        set(features.OUTSIDE),
    )


def test_pivots_are_said_to_be_older_than_em(cli, pivot: Path, refined: Path) -> None:
    for arguments in ([], ["--label", "NP"]):
        assert EM_NOTE in cli("inspect", refined, *arguments).out
        assert NOTE in cli("inspect", refined, *arguments).out
        assert "EM has changed" not in cli("inspect", pivot, *arguments).out


def test_labels_of_one_state_have_no_pivot(cli, pivot: Path) -> None:
    rows = json.loads(cli("inspect", pivot, "--json").out)["symbols"]
    assert all(("pivots" in row) == (row["states"] > 1) for row in rows)
    single = next(row["symbol"] for row in rows if row["states"] == 1)
    assert "pivot" not in cli("inspect", pivot, "--label", single).out.replace(str(pivot), "")


@pytest.mark.parametrize("arguments", [[], ["--label", "NP"]])
def test_other_methods_show_no_pivots(cli, model: Path, spectral: Path, arguments) -> None:
    for path in (model, spectral, "bundled"):
        assert "pivot" not in cli("inspect", path, *arguments).out
        assert "pivot" not in cli("inspect", path, *arguments, "--json").out


def test_a_wrong_label_is_refused(fails, pivot: Path) -> None:
    result = fails("inspect", pivot, "--label", "NPP")
    assert "no label 'NPP'" in result.err
    assert "NP" in result.err
    assert result.out == ""


def test_missing_pivots_are_told(cli, tmp_path: Path, pivot: Path) -> None:
    """In the overview for all labels, and with a label for itself, also one of a single state."""
    model = sw.load(pivot)
    missing = {"NP": (4, 9), "RB": (1, 2)}
    changed = replace(model, record=dict(model.record) | {"missing_pivots": missing})
    changed.save(tmp_path / "m")
    text = cli("inspect", tmp_path / "m").out
    assert "  fewer pivots than states for NP: 4 found, 9 wanted\n" in text
    assert "  fewer pivots than states for RB: 1 found, 2 wanted\n" in text
    assert "missing_pivots {" not in text
    few = cli("inspect", tmp_path / "m", "--top", 1).out
    assert "  ... and for 1 more (--top, --json)\n" in few
    label = cli("inspect", tmp_path / "m", "--label", "RB").out
    assert "  fewer pivots than states for RB: 1 found, 2 wanted\n" in label
    assert "for NP" not in label
    record = json.loads(cli("inspect", tmp_path / "m", "--json").out)["record"]
    assert record["missing_pivots"] == {"NP": [4, 9], "RB": [1, 2]}
