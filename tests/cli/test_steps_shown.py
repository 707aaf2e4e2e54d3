"""Commands that may run for more than a second say what they do and how far they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Run

import sapwood as sw
from sapwood.cli.console import display
from sapwood.constituency.data.treebank import sample_path
from sapwood.progress import Event

TEXT = "the dog sees a cat\na cat sees the dog\nthe cat sleeps\n" * 40


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Collect every event that the commands of a test report."""
    found: list[Event] = []
    monkeypatch.setattr(display, "listen", found.append)
    return found


def names(steps: list[Event]) -> list[str]:
    """The names of the steps, each once, in the order in which they began."""
    return list(dict.fromkeys(event.what for event in steps if event.what))


def test_evaluate(cli: Run, steps: list[Event]) -> None:
    gold = sample_path("dev")
    assert cli("evaluate", gold, gold, "--errors").status == 0
    expected = ["reading the right trees", "reading the predicted trees", "comparing"]
    assert names(steps) == [*expected, "explaining errors"]
    n_trees = len(sw.bundled_treebank("dev"))
    assert {event.total for event in steps if event.what == "comparing"} == {n_trees}


@pytest.mark.parametrize("kind", ["--trees", "--sentences"])
def test_score(cli: Run, steps: list[Event], tmp_path: Path, kind: str) -> None:
    trees = [str(tree) for tree in sw.bundled_treebank("dev")[:5]]
    file = tmp_path / "input"
    file.write_text("\n".join(trees if kind == "--trees" else ["the dog sleeps ."] * 5) + "\n")
    assert cli("score", "bundled", file, kind).status == 0
    scored = [event for event in steps if event.what == "scoring" and not event.is_over]
    assert [event.done for event in scored] == [0, 1, 2, 3, 4, 5]
    assert {event.unit for event in scored} == {kind.strip("-").removesuffix("s")}


def test_dependency_scores(cli: Run, steps: list[Event], tmp_path: Path) -> None:
    file, model = tmp_path / "a.conllu", tmp_path / "model.sapwood"
    dogs = sw.Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])
    sw.write_arcs([dogs] * 20, file)
    sw.EMDependency(1).fit(sw.read_arcs(file)).model_.save(model)
    assert cli("depend", "evaluate", file, file, "--against", file).status == 0
    assert names(steps) == ["reading", "comparing"]
    steps.clear()
    assert cli("depend", "score", model, file).status == 0
    assert names(steps) == ["reading", "scoring"]


def test_embed_is_never_without_a_step(cli: Run, steps: list[Event], tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "words.sapwood"
    text.write_text(TEXT)
    done = cli("embed", text, "-o", out, "--dimension", 2, "--min-count", 1)
    assert done.status == 0, done
    assert [event.what for event in steps if event.outer is None and event.is_over] == [
        "learning vectors", f"writing {out}"
    ]  # fmt: skip
    products = [event for event in steps if event.what == "singular vectors"]
    total = products[0].total
    assert total
    assert [event.done for event in products if not event.is_over] == list(range(int(total)))


def test_the_weights_of_a_mixture(cli: Run, steps: list[Event], tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "lm.sapwood"
    text.write_text(TEXT)
    done = cli("lm", "train", text, "-o", out, "--states", 2)
    assert done.status == 0, done
    assert {"EM", "n-grams", "weights of the mixture"} <= set(names(steps))
    inside = {(event.outer.what, event.unit, event.total) for event in steps if event.outer}
    assert ("EM", "iteration", None) in inside  # held-out text decides when it ends
    assert ("weights of the mixture", "iteration", 60) in inside
    shards = [event for event in steps if event.unit == "shard" and event.outer]
    counting = [event for event in shards if event.outer and event.outer.what == "counting n-grams"]
    assert counting[-1].share == 1.0
