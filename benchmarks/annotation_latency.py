"""The annotation desk: CPU seconds from an edit to its tree, to the next sentence, to a new model.

export SAPWOOD_DATA=/path/to/data
python benchmarks/annotation_latency.py
python benchmarks/annotation_latency.py --trees 20 200 --start english

Projects of some number of accepted trees of the ptb sample; the model that suggests is learnt from
these trees, alone or beside the start model. Sentences of 25 words (24 to 26) of the dev part are
edited: a gold phrase that the suggestion lacks is added. CPU milliseconds of the process, of the
medians and of the slowest request:

    edit      an edit, until its tree and the alternatives can be shown, journal and fsync included
    accept    accepting a tree, writing the file of all trees, and the view of the next sentence
    learn     CPU seconds of learning again when five more trees were accepted
    first     CPU seconds of learning for the first time after the project was opened
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import machine

import sapwood as sw
from sapwood.annotation.desk import Desk
from sapwood.annotation.project import Project
from sapwood.annotation.settings import ProjectSettings
from sapwood.annotation.state import ProjectSentence
from sapwood.constituency.annotation.annotator import TreeAnnotator
from sapwood.constituency.annotation.given import TreeLayout
from sapwood.constituency.annotation.suggest import Suggester
from sapwood.constituency.annotation.teacher import TreeTeacher

N_MORE = 5  # trees that are accepted before the model is learnt again


def sentences_of(trees: list[sw.Tree], *, is_accepted: bool) -> list[ProjectSentence]:
    """Sentences of gold trees for a project."""
    texts = [str(TreeLayout.of(tree).tree()) for tree in trees]
    rows = zip(trees, texts, strict=True)
    return [
        ProjectSentence("", "ptb", tuple(tree.words()), tree=text if is_accepted else None,
                 is_accepted=is_accepted)
        for tree, text in rows
    ]  # fmt: skip


def missing_phrase(view: dict[str, Any], gold: sw.Tree) -> dict[str, Any] | None:
    """The action that adds the first gold phrase which the suggestion lacks and nothing crosses."""
    own = set(TreeLayout.of(sw.Tree.parse(view["tree"])).phrases())
    for start, end, label in TreeLayout.of(gold).phrases():
        if (start, end, label) not in own:
            return {"type": "add", "start": start, "end": end, "label": label}
    return None


def timed(work: Any) -> tuple[Any, float]:
    """What some work returns, and its CPU milliseconds."""
    began = process_time()
    found = work()
    return found, 1000 * (process_time() - began)


def measure(folder: Path, trees: list[sw.Tree], held: list[sw.Tree], start: Any) -> list[str]:
    """A row of the table for a project of some accepted trees."""
    project = Project.create(folder, ProjectSettings("Latency", learn_every=10_000))
    known, more = trees[:-N_MORE], trees[-N_MORE:]
    project.add(sentences_of(known, is_accepted=True))
    project.add(sentences_of(more + held, is_accepted=False))
    teacher = TreeTeacher(start)
    first, _ = timed(lambda: teacher.learn(project.accepted()))
    annotator = TreeAnnotator(Suggester(sw.Parser(first.model)))
    desk = Desk(project, annotator)
    for number, tree in enumerate(more, len(known) + 1):
        view = desk.view(f"s{number}")
        desk.edit(view["id"], 0, {"type": "accept", "tree": str(TreeLayout.of(tree).tree())})
    again = teacher.learn(project.accepted())
    annotator.use(again)
    edits, accepts = [], []
    for number, gold in enumerate(held, len(trees) + 1):
        name = f"s{number}"
        view = desk.view(name)
        while (action := missing_phrase(view, gold)) is not None and view["revision"] < 5:
            view, took = timed(lambda v=view, a=action: desk.edit(v["id"], v["revision"], a))
            edits.append(took)

        def accept(view: dict[str, Any] = view, name: str = name) -> Any:
            action = {"type": "accept", "tree": view["tree"]}
            desk.edit(name, view["revision"], action)
            following = desk.next_sentence(name)["id"]
            return following and desk.view(following)

        accepts.append(timed(accept)[1])
    desk.close()
    return [
        f"{len(trees):,}", str(len(edits)), f"{median(edits):.0f} / {max(edits):.0f}",
        f"{median(accepts):.0f} / {max(accepts):.0f}", f"{again.seconds:.2f}",
        f"{first.seconds:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", nargs="+", type=int, default=[20, 200, 2000])
    parser.add_argument("--start", default="", help="a start model, such as english")
    parser.add_argument("--sentences", type=int, default=20)
    given = parser.parse_args()
    gold = machine.gold_trees("ptb", "train")
    held = [tree for tree in machine.gold_trees("ptb", "dev") if 24 <= len(tree.words()) <= 26]
    start = sw.load(given.start) if given.start else None
    with TemporaryDirectory() as name:  # kernels are loaded
        measure(Path(name) / "warm", gold[:20], held[:1], start)
    rows = []
    for n in given.trees:
        with TemporaryDirectory() as name:
            rows.append(measure(Path(name) / "p", gold[:n], held[: given.sentences], start))
    header = ["accepted trees", "edits", "edit, ms", "accept, ms", "learn, s", "first, s"]
    machine.print_table(header, rows)


if __name__ == "__main__":
    main()
