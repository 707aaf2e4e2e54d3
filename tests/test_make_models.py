"""The script that makes the models that come with Sapwood, and the files that it has made."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import arc_toys
from tools import make_models as tool
from tools.join_treebanks import join_labels

import sapwood as sw

NAMES = ("english", "english-ud")
MOST_BYTES = 8_000_000


def joined(text: str) -> str:
    return " ".join(map(str, join_labels([sw.Tree.parse(text)])))


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ("( (S (NP-SBJ-1 (NN salt)) (VP (VBZ is))))", "(ROOT (S (NP (NN salt)) (VP (VBZ is))))"),
        ("(ROOT (S (NP (-NONE- *)) (VP (VB go))))", "(ROOT (S (VP (VB go))))"),
        ("(TOP (NP (NML (NN heart) (NN rate)) (NN x)))", "(ROOT (NP (NN heart) (NN rate) (NN x)))"),
        ("( (TITLE (S (VP (VB go)))))", "(ROOT (S (VP (VB go))))"),
        ("( (HEADING (NN Salt) (NN lamps)))", "(ROOT (FRAG (NN Salt) (NN lamps)))"),
        ("( (CAPTION (NN Salt)))", "(ROOT (FRAG (NN Salt)))"),
        ("( (NP (NN x) (CIT (CD 3))))", "(ROOT (NP (NN x) (PRN (CD 3))))"),
        ("( (NP (NP-SBJ (NN x))))", "(ROOT (NP (NN x)))"),
        ("( (NP (NP (NML (NN x)))))", "(ROOT (NP (NN x)))"),
        ("( (S (`` \u201c) (NN x) ('' \u201d)))", "(ROOT (S (`` ``) (NN x) ('' '')))"),
        ("( (S (`` \u2018) (NN x) ('' \u2019)))", "(ROOT (S (`` `) (NN x) ('' ')))"),
        ("( (NP (NN dog) (POS \u2019s)))", "(ROOT (NP (NN dog) (POS 's)))"),
        ("( (S (-LRB- -LRB-) (NN x)) )", "(ROOT (S (-LRB- -LRB-) (NN x)))"),
        ("( (S (-NONE- *)) )", ""),
    ],
)
def test_labels_quotes_and_roots_are_brought_together(published: str, expected: str) -> None:
    assert joined(published) == expected


def test_joined_trees_are_joined_already() -> None:
    trees = list(sw.bundled_treebank("dev")[:20])
    once = list(join_labels(trees))
    assert list(join_labels(once)) == once


@pytest.mark.parametrize("name", NAMES)
def test_the_files_that_are_there_are_those_of_their_cards(name: str) -> None:
    path = tool.TARGET / f"{name}.sapwood"
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    data = path.read_bytes()
    assert (card["bytes"], card["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert card["name"] == name
    assert len(data) <= MOST_BYTES
    assert card["scores"]
    notice = (tool.TARGET / "NOTICE.md").read_text(encoding="utf-8")
    for row in card["training_data"]:
        assert row["commit"] in notice
        assert row["licence"]


def test_the_recipe_names_the_corpora_of_the_registry() -> None:
    for corpus in (tool.GUM, tool.CRAFT, tool.EWT):
        page, commit = corpus.source
        assert page.startswith("https://github.com/")
        assert len(commit) == 40


def lines_of(corpus: tool.Corpus, part: str) -> Iterator[str]:
    """Parts of a few bundled trees, in place of the corpora."""
    n = 60 if part == "train" else 8
    if corpus is tool.EWT:
        text = io.StringIO()
        sw.write_arcs(list(arc_toys.bank(n)), text)
        return iter(text.getvalue().splitlines(keepends=True))
    trees = sw.bundled_treebank("train" if part == "train" else "dev")
    return (f"{tree}\n" for tree in list(trees)[:n])


def shop(folder: Path) -> tool.Workshop:
    recipe = tool.Recipe(
        mix=("--method", "encoder", "--iterations", "1"),
        small=("--method", "cluster", "--states", "2"),
        arcs=("--method", "best", "--budget", "none", "--passes", "1"),
        joined={},
    )
    return tool.Workshop(folder / "work", folder / "made", recipe, jobs=1, lines=lines_of)


@pytest.mark.slow
@pytest.mark.compiled
def test_both_models_are_the_same_when_they_are_made_again(tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        for name in NAMES:
            path = tool.make(name, shop(folder))
            made.append((path.read_bytes(), path.with_suffix(".json").read_bytes()))
    assert made[:2] == made[2:]


@pytest.mark.compiled
def test_a_small_run_goes_on_where_it_was_and_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tool.make("english", shop(tmp_path)).read_bytes()
    assert "is there" not in capsys.readouterr().out
    assert tool.make("english", shop(tmp_path)).read_bytes() == first
    assert capsys.readouterr().out.count("is there") == 2
    card = json.loads((tmp_path / "made" / "english.json").read_text(encoding="utf-8"))
    assert [row["trees"] for row in card["training_data"]] == [60, 60]
    model = sw.load(tmp_path / "made" / "english.sapwood")
    assert model.is_compact
    assert len(model.members[-1].sample(3)) == 3


def test_other_corpora_are_refused(tmp_path: Path) -> None:
    recipe = tool.Recipe()
    strange = tool.Workshop(tmp_path / "work", tmp_path / "made", recipe, jobs=1, lines=lines_of)
    with pytest.raises(SystemExit, match="not those that the models were made from"):
        tool.make("english", strange)
    assert not (tmp_path / "made").exists()
